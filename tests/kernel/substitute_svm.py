"""A plugin for pytest: scikit-learn's tests see osvm's classes in `sklearn.svm`."""

import pytest
import sklearn.svm

import osvm

for _name in ("SVC", "SVR", "OneClassSVM"):
    setattr(sklearn.svm, _name, getattr(osvm, _name))


@pytest.fixture
def global_random_seed():
    """scikit-learn's own fixture, which its wheel leaves out."""
    return 42
