"""to_sklearn: the same answers from scikit-learn's estimators."""

import numpy as np
import pytest

import osvm

pytest.importorskip("sklearn")


def data(classes=2):
    X, y, *_ = osvm.datasets.make_rcv1_like(
        n_train=500, n_test=10, n_features=300, nnz=15, n_classes=classes, random_state=0
    )
    return X, y


@pytest.mark.parametrize("loss", ["hinge", "logistic", "modified_huber", "softmax"])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("average", [False, True])
def test_classifier(loss, classes, average):
    X, y = data(classes)
    names = np.array(["p", "q", "r", "s"])[np.unique(y, return_inverse=True)[1]]
    model = osvm.LinearClassifier(loss, average=average, random_state=0).fit(X, names)
    twin = model.to_sklearn()
    assert np.array_equal(twin.predict(X), model.predict(X))
    assert np.allclose(twin.decision_function(X), model.decision_function(X), atol=1e-5)
    if loss == "logistic" and classes == 2:
        assert np.allclose(twin.predict_proba(X), model.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("loss", ["squared", "huber", "epsilon_insensitive"])
def test_regressor(loss):
    X, y = data()
    model = osvm.LinearRegressor(loss, random_state=0).fit(X, y * 2.0)
    assert np.allclose(model.to_sklearn().predict(X), model.predict(X), atol=1e-5)


def test_novelty():
    X, _ = data()
    model = osvm.LinearNovelty(reg=0.1, random_state=0).fit(X)
    twin = model.to_sklearn()
    assert np.allclose(twin.decision_function(X), model.decision_function(X), atol=1e-5)
    assert np.allclose(twin.score_samples(X), model.score_samples(X), atol=1e-5)


def test_normalized_inputs_are_refused():
    X, y = data()
    with pytest.raises(ValueError, match="Normalizer"):
        osvm.LinearClassifier(normalize=True).fit(X, y).to_sklearn()
