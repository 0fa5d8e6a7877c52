"""One function per published algorithm, returning a configured estimator.

Each docstring cites its source and lists the parts that the recipe sets.  A
recipe keeps the order of the rows unless ``shuffle=True`` is given, so that a
stream means what it says; any further keyword goes to the estimator.
"""

from osvm.recipes.cached import (
    alma,
    ballseptron,
    kernel_adatron,
    kernel_perceptron,
    lasvm,
    norma_cached,
    ol_svm,
    pegaz,
    voted_perceptron,
)
from osvm.recipes.kernel import norma, novelty_svmd, nu_svmd, svmd
from osvm.recipes.linear import (
    batch_gd,
    dual_svm,
    ogd,
    online_svm,
    pegasos,
    perceptron,
    projected_ogd,
    sgd_svm,
    smd,
    soft_svm,
    sparse_svmd,
)

__all__ = [
    "alma",
    "ballseptron",
    "batch_gd",
    "norma",
    "novelty_svmd",
    "nu_svmd",
    "kernel_adatron",
    "kernel_perceptron",
    "lasvm",
    "norma_cached",
    "dual_svm",
    "ogd",
    "ol_svm",
    "online_svm",
    "pegasos",
    "pegaz",
    "perceptron",
    "projected_ogd",
    "sgd_svm",
    "smd",
    "soft_svm",
    "sparse_svmd",
    "svmd",
    "voted_perceptron",
]
