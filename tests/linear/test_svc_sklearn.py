"""scikit-learn's own tests of LinearSVC, run on osvm.LinearSVC.

What differs is listed in `DIFFERS` and in doc/guide/linear_svc.rst.
"""

import types

import pytest

pytest.importorskip("sklearn")
theirs = pytest.importorskip("sklearn.svm.tests.test_svm")

import sklearn.svm  # noqa: E402

import osvm  # noqa: E402
from osvm._estimator.compat import HAS_SKLEARN  # noqa: E402

SEED = {"global_random_seed": 42}
# Tests that can be run as they are, and their arguments.
SAME = [
    ("test_linearsvc_fit_sampleweight", SEED),
    ("test_linearsvc_iris", SEED),
    ("test_linearsvc_verbose", {}),
    ("test_liblinear_set_coef", SEED),
    *[
        (
            "test_linearsvm_liblinear_sample_weight",
            {"SVM": osvm.LinearSVC, "params": params, **SEED},
        )
        for params in (
            {"penalty": "l2", "loss": "squared_hinge", "dual": True},
            {"penalty": "l2", "loss": "squared_hinge", "dual": False},
            {"penalty": "l2", "loss": "hinge", "dual": True},
        )
    ],
]
# Tests that fail: their arguments, and the error that says why.
DIFFERS = [
    ("test_linearsvc", SEED, "penalty='l2' only"),
    # the default is None, a free offset
    (
        "test_dense_liblinear_intercept_handling",
        {"classifier": osvm.LinearSVC, **SEED},
        "intercept_scaling",
    ),
    ("test_linearsvc_crammer_singer", SEED, "multi_class must be 'ovr'"),
    # One pass and one step of Newton's method solve it, so that max_iter=2 is enough.
    ("test_linear_svm_convergence_warnings", SEED, "DID NOT WARN"),
]


@pytest.fixture(autouse=True)
def _substituted(monkeypatch):
    if not HAS_SKLEARN:
        pytest.skip("needs scikit-learn's base classes")
    names = {name: getattr(sklearn.svm, name) for name in sklearn.svm.__all__}
    svm = types.SimpleNamespace(**{**names, "LinearSVC": osvm.LinearSVC})
    monkeypatch.setattr(theirs, "svm", svm)
    monkeypatch.setattr(theirs, "LinearSVC", osvm.LinearSVC)


def _run(name, arguments):
    test = getattr(theirs, name, None)
    if test is None:
        pytest.skip("this scikit-learn has no such test")
    test(**arguments)


@pytest.mark.parametrize(("name", "arguments"), SAME, ids=lambda value: str(value)[:60])
def test_as_scikit_learn_wrote_it(name, arguments):
    _run(name, arguments)


@pytest.mark.parametrize(("name", "arguments", "reason"), DIFFERS, ids=lambda value: str(value))
def test_what_differs(name, arguments, reason):
    with pytest.raises((Exception, pytest.fail.Exception), match=reason):
        _run(name, arguments)
