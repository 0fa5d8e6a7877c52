"""LinearClassifier(solver="dual") as a user meets it; the solver itself: test_dual.py."""

import pickle

import numpy as np
import pytest

import osvm
from osvm import recipes


def text(n=600, classes=2):
    X, y, *_ = osvm.datasets.make_rcv1_like(
        n_train=n, n_test=10, n_features=300, nnz=15, n_classes=classes, random_state=0
    )
    return X, y


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_gap_bounds_the_objective(loss, fit_intercept):
    X, y = text()
    options = {"reg": 1e-3, "loss": loss, "fit_intercept": fit_intercept, "random_state": 0}
    rough = recipes.dual_svm(tol=1e-2, **options).fit(X, y)
    fine = recipes.dual_svm(tol=1e-7, **options).fit(X, y)
    assert 0 <= fine.dual_gap_ <= 1e-7 * fine.objective_[0] * 1.001
    assert rough.objective_[0] - fine.objective_[0] <= rough.dual_gap_ + 1e-9
    t = np.where(y == rough.classes_[1], 1.0, -1.0)
    gap = np.maximum(0, 1 - t * fine.decision_function(X))
    value = (gap if loss == "hinge" else gap**2).mean() + 5e-4 * np.sum(fine.coef_**2)
    assert value == pytest.approx(fine.objective_[0], rel=1e-6)


def test_sgd_comes_near_the_dual_optimum():
    X, y = text(2000)
    best = recipes.dual_svm(reg=1e-2, tol=1e-6, random_state=0).fit(X, y).objective_[0]
    sgd = osvm.LinearClassifier(reg=1e-2, epochs=60, average=True, tol=0.0, random_state=0)
    value = sgd.fit(X, y).objective_[-1]
    assert best <= value <= 1.02 * best


def test_several_classes_and_threads():
    X, y = text(classes=4)
    one = recipes.dual_svm(reg=1e-3, random_state=0).fit(X, y)
    two = recipes.dual_svm(reg=1e-3, random_state=0, n_jobs=2).fit(X, y)
    assert np.array_equal(one.coef_, two.coef_)
    assert one.dual_gap_.shape == (4,)
    assert one.score(X, y) > 0.8


def test_the_model_is_an_ordinary_one_afterwards():
    X, y = text()
    model = recipes.dual_svm(reg=1e-3, random_state=0).fit(X, y)
    twin = pickle.loads(pickle.dumps(model))
    assert np.array_equal(twin.decision_function(X), model.decision_function(X))
    model.partial_fit(X[:20], y[:20])
    twin.partial_fit(X[:20], y[:20])
    assert np.array_equal(twin.coef_, model.coef_)


def test_too_few_epochs_are_told():
    X, y = text()
    with pytest.warns(osvm.ConvergenceWarning, match="raise epochs"):
        osvm.LinearClassifier(solver="dual", reg=1e-5, tol=1e-9, epochs=1).fit(X, y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"loss": "logistic"}, "solver='sgd'"),
        ({"average": True}, "average"),
        ({"project": True}, "project"),
        ({"batch_size": 3}, "batch_size"),
        ({"schedule": "constant"}, "schedule"),
        ({"reg": 0.0}, "reg > 0"),
        ({"record": True}, "dual_history_"),
        ({"solver": "simplex"}, "solver"),
    ],
)
def test_what_only_sgd_can_do_is_refused(params, message):
    X, y = text(50)
    with pytest.raises(ValueError, match=message):
        osvm.LinearClassifier(**{"solver": "dual", **params}).fit(X, y)
