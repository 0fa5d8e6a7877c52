"""Platt scaling learnt online."""

import pickle

import numpy as np
import pytest

import osvm
from osvm.linear.scores import Platt


def text(n=6000, classes=2):
    X, y, X_test, y_test = osvm.datasets.make_rcv1_like(
        n_train=n, n_test=2000, n_features=2000, nnz=25, n_classes=classes, random_state=0
    )
    return X, y, X_test, y_test


def log_loss(p, codes):
    return -np.mean(np.log(np.clip(p[np.arange(len(p)), codes], 1e-12, 1)))


def test_a_known_sigmoid_is_found():
    rng = np.random.default_rng(0)
    f = 2 * rng.normal(size=30_000)
    yes = rng.random(len(f)) < 1 / (1 + np.exp(-(1.5 * f - 0.7)))
    platt = Platt(1)
    platt.learn(f[:, None].copy(), np.where(yes, 1.0, -1.0))
    assert np.allclose(platt.state[0, :2], [1.5, -0.7], atol=0.2)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("average", [False, True])
def test_probabilities_are_calibrated(classes, average):
    """As good as the sigmoid that is fitted to the test scores themselves, nearly."""
    X, y, X_test, y_test = text(classes=classes)
    model = osvm.LinearClassifier(
        reg=1e-4, probability=True, average=average, epochs=2, random_state=0
    ).fit(X, y)
    p = model.predict_proba(X_test)
    assert np.allclose(p.sum(axis=1), 1)
    codes = np.searchsorted(model.classes_, y_test)
    hindsight = Platt(p.shape[1] if classes > 2 else 1)
    targets = np.where(codes == 1, 1.0, -1.0) if classes == 2 else codes.astype(np.int32)
    for _ in range(5):
        hindsight.learn(model._scores(X_test), targets)
    best = hindsight.probability(model._scores(X_test))
    best = np.column_stack([1 - best, best]) if classes == 2 else best
    best /= best.sum(axis=1, keepdims=True)
    assert log_loss(p, codes) <= 1.15 * log_loss(best, codes) + 0.02
    share = model.classes_[p.argmax(axis=1)] == model.predict(X_test)
    assert share.mean() > 0.95


def test_it_survives_streams_pickles_and_new_labels():
    X, y, *_ = text(800, classes=3)
    whole = osvm.LinearClassifier(probability=True).partial_fit(X, y, classes=[0, 1, 2])
    parts = osvm.LinearClassifier(probability=True)
    for start in range(0, 800, 100):
        parts.partial_fit(X[start : start + 100], y[start : start + 100], classes=[0, 1, 2])
        parts = pickle.loads(pickle.dumps(parts))
    assert np.array_equal(whole.predict_proba(X), parts.predict_proba(X))
    twin = osvm.LinearClassifier(probability=True)
    twin._set_state(*whole._get_state())
    assert np.array_equal(whole.predict_proba(X), twin.predict_proba(X))
    order = np.argsort(y, kind="stable")
    growing = osvm.LinearClassifier(probability=True)
    for block in np.array_split(order, 20):
        growing.partial_fit(X[block], y[block])
    assert growing.predict_proba(X).shape == (800, 3)


def test_the_weights_do_not_depend_on_it():
    X, y, *_ = text(500)
    a = osvm.LinearClassifier(random_state=0).fit(X, y)
    b = osvm.LinearClassifier(random_state=0, probability=True).fit(X, y)
    assert np.array_equal(a.coef_, b.coef_)
    assert not hasattr(a, "predict_proba")
    a.set_params(probability=True)
    with pytest.raises(ValueError, match="train it again"):
        a.predict_proba(X)


@pytest.mark.parametrize("value", [0, [], "yes", None])
def test_probability_is_true_or_false(value):
    X = np.random.default_rng(0).normal(size=(20, 2))
    y = np.arange(20) % 2
    with pytest.raises((TypeError, ValueError), match="probability"):
        osvm.LinearClassifier(probability=value).fit(X, y)
    with pytest.raises((TypeError, ValueError), match="probability"):
        osvm.LinearClassifier(probability=value).partial_fit(X, y)


@pytest.mark.parametrize("schedule", ["auto", "bottou"])
@pytest.mark.parametrize("n", [300, 4000])
def test_a_weight_counts_as_copies_of_its_row_in_probabilities(n, schedule):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] + rng.normal(size=n) > 1).astype(int)
    weight = np.where(y == 1, 5.0, 1.0)
    weight[::10] = 0.0
    options = {"probability": True, "schedule": schedule, "random_state": 0}
    model = osvm.LinearClassifier(**options).fit(X, y, sample_weight=weight / 1000)
    share = np.average(y, weights=weight)
    assert np.average(model.predict_proba(X)[:, 1], weights=weight) == pytest.approx(
        share, abs=0.05
    )
    model = osvm.LinearClassifier(**options)
    for some in np.array_split(rng.permutation(n), 3):
        model.partial_fit(X[some], y[some], sample_weight=weight[some])
    assert np.average(model.predict_proba(X)[:, 1], weights=weight) == pytest.approx(
        share, abs=0.1
    )


def test_rows_of_weight_0_tell_no_probability():
    f, y = np.linspace(-2, 2, 400)[:, None], np.tile([-1.0, 1.0], 200)
    alone, all_rows = Platt(1), Platt(1)
    weight = (np.arange(400) % 3 > 0).astype(float)
    alone.learn(f[weight > 0].copy(), y[weight > 0])
    all_rows.learn(f, y, weight)
    assert all_rows.state.tolist() == alone.state.tolist()


def test_few_rows_in_many_columns_have_no_certain_probabilities():
    """The sigmoid was learnt from scores of rows that the weights had learnt."""
    rng = np.random.default_rng(0)
    losses = []
    for classes in (2, 4):
        W = rng.normal(size=(60, classes))
        X = rng.normal(size=(2120, 60))
        y = (X @ W + 8 * rng.normal(size=(2120, classes))).argmax(axis=1)
        model = osvm.LinearClassifier(probability=True, random_state=0).fit(X[:120], y[:120])
        losses.append(log_loss(model.predict_proba(X[120:]), y[120:]) / np.log(classes))
    assert max(losses) < 1.05
