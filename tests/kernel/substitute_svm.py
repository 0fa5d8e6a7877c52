"""A plugin for pytest: scikit-learn's tests see osvm's classes in `sklearn.svm`.

Importing this file changes nothing; only a pytest that was told to use it (``-p``) does.
"""

import pytest


def pytest_configure(config):
    import sklearn.svm

    import osvm

    for name in ("SVC", "SVR", "OneClassSVM"):
        setattr(sklearn.svm, name, getattr(osvm, name))


@pytest.fixture
def global_random_seed():
    """scikit-learn's own fixture, which its wheel leaves out."""
    return 42
