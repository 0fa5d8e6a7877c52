"""Small random problems for the tests of the linear estimators."""

import numpy as np

from osvm import taxonomy

N, D = 60, 12
TREE = taxonomy.from_paths(["a/0", "a/1", "b/2", "b/3"])


def problem(seed=0, classes=2, whole=False):
    """A small random problem with an empty row, repeated rows and, if `whole`, exact ties."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.5)
    if whole:
        X = np.round(X)
    X[7] = 0.0
    X[11] = X[10]
    codes = rng.integers(classes, size=N)
    codes[:classes] = np.arange(classes)
    return X, codes


def signs(codes):
    return np.where(codes == 1, 1.0, -1.0)
