"""One function per published algorithm, returning a configured estimator.

Each docstring cites its source and lists the parts that the recipe sets.  A
recipe keeps the order of the rows unless ``shuffle=True`` is given, so that a
stream means what it says; any further keyword goes to the estimator.
"""

from osvm.recipes.kernel import norma, novelty_svmd, nu_svmd, svmd
from osvm.recipes.linear import (
    batch_gd,
    ogd,
    online_svm,
    pegasos,
    perceptron,
    projected_ogd,
    sgd_svm,
    soft_svm,
)

__all__ = [
    "batch_gd",
    "norma",
    "novelty_svmd",
    "nu_svmd",
    "ogd",
    "online_svm",
    "pegasos",
    "perceptron",
    "projected_ogd",
    "sgd_svm",
    "soft_svm",
    "svmd",
]
