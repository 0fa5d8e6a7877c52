"""schedule="smd" as a user meets it; the loops themselves: test_svmd_linear, test_smd."""

import pickle

import numpy as np
import pytest

import osvm
from osvm import recipes, schedules

RECIPES = [recipes.sparse_svmd, recipes.smd]


def text(n=600, classes=2):
    X, y, *_ = osvm.datasets.make_rcv1_like(
        n_train=n, n_test=10, n_features=300, nnz=15, n_classes=classes, random_state=0
    )
    return X.astype(np.float64), y


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_streams_pickles_and_states_go_on_bit_for_bit(recipe, classes, loss):
    X, y = text(300, classes)
    names = list(range(classes))
    whole = recipe(1e-3, loss=loss).partial_fit(X, y, classes=np.unique(y))
    parts = recipe(1e-3, loss=loss)
    for start in range(0, 300, 70):
        parts.partial_fit(X[start : start + 70], y[start : start + 70], classes=np.unique(y))
        parts = pickle.loads(pickle.dumps(parts))
        twin = recipe(1e-3, loss=loss)
        twin._set_state(*parts._get_state())
        parts = twin
    assert np.array_equal(parts.coef_, whole.coef_)
    assert np.array_equal(parts.decision_function(X), whole.decision_function(X))
    assert whole.score(X, y) > (0.8 if classes == 2 else 0.5), names


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_step_size_adapts(recipe):
    """Repeated rows pull the same way: a step that is far too small grows."""
    X, y = text(20)
    X, y = X[np.arange(400) % 20], y[np.arange(400) % 20]
    model = recipe(1e-4, eta0=1e-2, mu=1.0, decay=0.99, record=True).fit(X, y)
    eta = model.history_["eta"]
    assert eta[0] == pytest.approx(1e-2, rel=0.5)
    assert eta.max() > 1.2 * eta[0] or recipe is recipes.smd
    assert len(np.unique(eta)) > 50


@pytest.mark.parametrize("estimator", [osvm.LinearRegressor, osvm.LinearNovelty])
def test_the_other_estimators_have_it_too(estimator):
    X, y = text(200)
    model = estimator(schedule=schedules.SMD(), epochs=1)
    model.fit(X, y)
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize(
    "params", [{"average": True}, {"project": True}, {"batch_size": 5}, {"probability": True}]
)
def test_what_does_not_go_with_it_is_refused(params):
    X, y = text(50)
    with pytest.raises(ValueError, match="smd"):
        osvm.LinearClassifier(schedule="smd", **params).fit(X, y)


def test_new_labels_must_be_named_at_first():
    X, _ = text(60, 3)
    model = recipes.sparse_svmd().partial_fit(X[:20], np.arange(20) % 2)
    with pytest.raises(ValueError, match="first call"):
        model.partial_fit(X[20:], np.full(40, 2))
    assert model.t_ == 20
