"""Streams whose labels change: when the mean of f begins anew."""

import pickle

import numpy as np
import pytest

import osvm

SCALARS = ("since", "lag", "lag_squares", "mean_scores")


def make_stream(n, seed=0, classes=2, turn=None):
    """Directions of a plane; from row `turn` on, each label means the next one."""
    X = np.random.default_rng(seed).normal(size=(n, 4))
    y = X[:, :classes].argmax(axis=1)
    if turn is not None:
        y[turn:] = (y[turn:] + 1) % classes
    return X, y


def since(model):
    return model._machine.state.get_state()[0]["since"]


def make_model(**options):
    return osvm.KernelClassifier(gamma=0.1, budget=80, random_state=0, **options)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_mean_begins_anew_after_a_drift(classes):
    """It lagged behind f by a quarter of all rows."""
    X, y = make_stream(6000, 0, classes, turn=4000)
    model = make_model().partial_fit(X[:4000], y[:4000])
    assert since(model) == 0.0
    answers = []
    for i in range(4000, 6000, 50):
        answers.append(model.predict(X[i : i + 50]) == y[i : i + 50])
        model.partial_fit(X[i : i + 50], y[i : i + 50])
    plain = make_model(average=False).partial_fit(X[:4000], y[:4000])
    bare = []
    for i in range(4000, 6000, 50):
        bare.append(plain.predict(X[i : i + 50]) == y[i : i + 50])
        plain.partial_fit(X[i : i + 50], y[i : i + 50])
    assert 4000 < since(model) < 5500
    assert np.mean(answers) > np.mean(bare) - 0.03
    assert np.mean(answers[-4:]) > 0.8


def test_the_mean_is_f_where_it_begins():
    X, y = make_stream(6000, turn=3000)
    model = make_model().partial_fit(X[:3000], y[:3000])
    for i in range(3000, 6000):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        if since(model):
            break
    assert since(model) == i
    state = model._machine.state
    np.testing.assert_allclose(state.beta(), state.alpha(), rtol=1e-12)


def judge_by_the_book(mean_errors, errors, weights):
    """`drift.pxd`, in a few lines: the last row at which the mean begins anew."""
    lag = squares = since = 0.0
    for t, (gap, weight) in enumerate(zip(np.subtract(mean_errors, errors), weights)):
        lag = 0.999 * lag + weight * gap
        squares = 0.999 * squares + (weight * gap) ** 2
        if lag > 0 and lag**2 > (9.0 + 2.0 * np.log1p((t - since) / 1000.0)) * squares:
            since, lag, squares = float(t), 0.0, 0.0
    return since, lag, squares


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_judged_by_f_and_by_its_mean(classes, weighted):
    X, y = make_stream(2500, 3, classes, turn=1500)
    weight = np.random.default_rng(1).choice([0.5, 2.0], 2500) if weighted else np.ones(2500)
    model = make_model(fit_intercept=False)
    errors, mean_errors = [], []
    for i in range(2500):
        row = X[i : i + 1]
        if i:
            state = model._machine.state
            k = model.kernel_(row, model.support_vectors_)
            scores = [(k @ part()).ravel() for part in (state.alpha, state.beta)]
            codes = [int(s[0] > 0) if len(s) == 1 else int(s.argmax()) for s in scores]
        else:
            codes = [0, 0]
        errors.append(float(codes[0] != y[i]))
        mean_errors.append(float(codes[1] != y[i]))
        model.partial_fit(row, y[i : i + 1], np.arange(classes), sample_weight=weight[i : i + 1])
    found = model._machine.state.get_state()[0]
    expected = judge_by_the_book(mean_errors, errors, weight)
    assert expected[0] > 1500
    np.testing.assert_allclose([found[name] for name in SCALARS[:3]], expected, rtol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_stream_means_one_thing_however_it_is_cut_and_saved(classes, tmp_path):
    X, y = make_stream(3000, 1, classes, turn=1500)
    whole = make_model().partial_fit(X, y, np.arange(classes))
    parts = make_model()
    parts.partial_fit(X[:1], y[:1], np.arange(classes))
    for i in range(1, 3000, 97):
        parts.partial_fit(X[i : min(i + 97, 3000)], y[i : min(i + 97, 3000)])
    assert since(whole) == since(parts) > 1500
    np.testing.assert_allclose(whole.dual_coef_, parts.dual_coef_, rtol=1e-6, atol=1e-9)
    early = make_model().partial_fit(X[:1700], y[:1700])
    osvm.io.save(early, tmp_path / "early.osvm")
    later = [osvm.io.load(tmp_path / "early.osvm"), pickle.loads(pickle.dumps(early)), early]
    for model in later:
        model.partial_fit(X[1700:], y[1700:])
    for model in later:
        assert since(model) == since(early)
        np.testing.assert_array_equal(model.dual_coef_, early.dual_coef_)


def test_states_of_former_versions_are_taken():
    X, y = make_stream(400)
    machine = make_model().partial_fit(X, y)._machine
    scalars, arrays = machine.state.get_state()
    before = machine.state.beta().copy()
    for name in SCALARS:
        del scalars[name]
    machine.state.set_state(scalars, arrays)
    np.testing.assert_array_equal(machine.state.beta(), before)
    again = machine.state.get_state()[0]
    assert [again[name] for name in SCALARS] == [0.0, 0.0, 0.0, True]
    scalars["since"] = 401.0
    with pytest.raises(ValueError, match="future"):
        machine.state.set_state(scalars, arrays)


@pytest.mark.parametrize("flip", [0.0, 0.5])
def test_rows_that_are_alike_have_no_drift(flip):
    X, y = make_stream(20_000, 2)
    y = np.where(np.random.default_rng(5).random(20_000) < flip, 1 - y, y)
    model = osvm.KernelClassifier(gamma=0.1, random_state=0).partial_fit(X, y)
    assert since(model) == 0.0
