"""Regression at its defaults: any unit, any mean, any way of learning."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference_adaptive import Adaptive

import osvm
from osvm.schedules import NUMBERS, Auto, Bottou

RNG = np.random.default_rng(5)
N, D = 600, 4
X = RNG.normal(size=(N, D))
Y = X @ np.array([1.0, -2.0, 0.5, 3.0]) + 0.1 * RNG.normal(size=N)


def plan_of(**params):
    return osvm.LinearRegressor(**params).fit(X, Y)._plan


@pytest.mark.parametrize("loss", ["squared", "huber", "epsilon_insensitive"])
def test_defaults_are_the_reference(loss):
    model = osvm.LinearRegressor(loss).partial_fit(X, 7.0 + Y)
    naive = Adaptive(loss, D, eta0=2.0, numbers=True, normalized=True, tail=True, average_from=0)
    for x, y in zip(X, 7.0 + Y):
        naive.learn(x, y)
    want = naive.average()[0]
    np.testing.assert_allclose(model.coef_, want[:-1], rtol=1e-10)
    np.testing.assert_allclose(model.intercept_, want[-1:], rtol=1e-10)


@pytest.mark.parametrize("way", ["fit", "partial_fit", "learn_one"])
@pytest.mark.parametrize(("unit", "mean"), [(1.0, 0.0), (1e-6, 1e-3), (1e8, -1e9)])
def test_any_unit(way, unit, mean):
    scales = np.array([1e-6, 1.0, 1e3, 1e7])
    rows, targets = X * scales, mean + unit * Y
    model = osvm.LinearRegressor(random_state=0)
    if way == "learn_one":
        for x, y in zip(rows, targets):
            model.learn_one(np.arange(D), x, float(y), n_features=D)
    else:
        getattr(model, way)(rows, targets)
    assert model.score(rows, targets) > 0.99
    plain = osvm.LinearRegressor(random_state=0)
    plain = plain.fit(X, Y) if way == "fit" else plain.partial_fit(X, Y)
    np.testing.assert_allclose(model.coef_ * scales / unit, plain.coef_, rtol=1e-4, atol=1e-4)


def test_the_worst_of_many_seeds():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(2000, 5))
        targets = rows @ rng.normal(size=5) + 10 + 0.1 * rng.normal(size=2000)
        for way in ("fit", "partial_fit"):
            model = osvm.LinearRegressor(random_state=seed)
            getattr(model, way)(rows[:1000], targets[:1000])
            assert model.score(rows[1000:], targets[1000:]) > 0.95


@pytest.mark.parametrize(
    "params",
    [{"reg": 1e-4}, {"C": 1.0}, {"project": 5.0}, {"average": True}, {"average": 0},
     {"batch_size": 7}, {"batch_size": "full"}],
    ids=str,
)  # fmt: skip
def test_what_does_not_go_with_it_is_bottou(params):
    assert plan_of() != plan_of(**params)
    auto = osvm.LinearRegressor(random_state=0, **params).fit(X, Y)
    assert auto._plan.schedule == Bottou()
    named = osvm.LinearRegressor(random_state=0, schedule="bottou", **params).fit(X, Y)
    assert np.array_equal(auto.coef_, named.coef_)
    assert auto.partial_fit(X[:10], Y[:10]).t_ == named.partial_fit(X[:10], Y[:10]).t_
    assert np.array_equal(auto.coef_, named.coef_)


def test_left_in_mid_stream():
    model = osvm.LinearRegressor().partial_fit(X, Y)
    assert model._plan.schedule == NUMBERS
    want = model.predict(X)
    model.set_params(reg=1e-6).partial_fit(X[:1], want[:1])
    assert model._plan.schedule == Bottou()
    np.testing.assert_allclose(model.predict(X), want, atol=1e-2)
    assert model.t_ == N + 1


def test_models_of_the_default_are_merged():
    parts = [osvm.LinearRegressor().partial_fit(X[k::3], Y[k::3]) for k in range(3)]
    merged = osvm.merge(parts)
    assert merged.schedule_ == parts[0].schedule_
    assert merged.t_ == N
    assert merged.partial_fit(X, Y).score(X, Y) > 0.99


def test_a_target_far_off_is_named():
    targets = Y.copy()
    targets[250] = 1e9
    for way in ("fit", "partial_fit"):
        with pytest.warns(osvm.exceptions.ConvergenceWarning, match="target 250 is 1e"):
            getattr(osvm.LinearRegressor(random_state=0), way)(X, targets)


@pytest.mark.parametrize("n", [8, 20, 50])
@pytest.mark.parametrize("mean", [0.0, 100.0])
def test_few_rows_are_learnt(n, mean):
    """They are passed over more often, or solved, unless `epochs` says how often."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(n + 200, 3))
        y = A @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=len(A)) + mean
        model = osvm.LinearRegressor(random_state=seed).fit(A[:n], y[:n])
        assert model.n_iter_ == (1 if n < 5 * 3 else min(100, 4000 // n))
        assert model.score(A[n:], y[n:]) > 0.9
    assert osvm.LinearRegressor(epochs=3).fit(X, Y).n_iter_ == 3
    assert osvm.LinearRegressor(schedule="bottou").fit(X[:50], Y[:50]).n_iter_ == 5


def test_auto_is_no_plan():
    with pytest.raises(ValueError, match="stands for another"):
        osvm.linear.plan.Plan(osvm.losses.get("squared"), Auto(), 0.0, error_kind="absolute")


@pytest.mark.parametrize("unit", [1.0, 1e-4])
@pytest.mark.parametrize("way", ["fit", "partial_fit"])
def test_columns_that_come_seldom_do_not_blow_up_answers(way, unit):
    """The largest of two values is no unit for a column: R2 was -40."""
    rng = np.random.default_rng(0)
    X = sp.random(1200, 20_000, 0.002, format="csr", random_state=0)
    y = X @ rng.normal(size=20_000) + 3.0
    model = osvm.LinearRegressor(random_state=0)
    getattr(model, way)(unit * X[:900], y[:900])
    assert model.score(unit * X[900:], y[900:]) > -0.05
    assert model.score(unit * X[:900], y[:900]) > 0.1


def test_columns_of_other_units_that_come_often_keep_their_own_size():
    rng = np.random.default_rng(0)
    units = 10.0 ** rng.uniform(-3.0, 3.0, 40)
    X = (sp.random(900, 40, 0.2, format="csr", random_state=0) @ sp.diags(units)).tocsr()
    y = X @ (rng.normal(size=40) / units)
    model = osvm.LinearRegressor(random_state=0).fit(X[:700], y[:700])
    assert model.score(X[700:], y[700:]) > 0.95


@pytest.mark.parametrize("block", [2, 20, 100])
def test_a_stream_of_few_rows_at_a_time_does_not_take_sizes_from_two_values(block):
    """R2 was -22,000 and -10: one value of a column told its size."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = sp.random(2000, 5000, 0.002, format="csr", random_state=seed)
        y = X @ rng.normal(size=5000)
        model = osvm.LinearRegressor()
        for start in range(0, 1000, block):
            model.partial_fit(X[start : start + block], y[start : start + block])
        assert model.score(X[1000:], y[1000:]) > 0.0


def test_columns_that_all_rows_have_keep_their_units_in_small_blocks():
    """Also where they are few of very many."""
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(600, 6))
    y = Z @ rng.normal(size=6)
    X = sp.csr_matrix(Z * np.geomspace(1e-3, 1e3, 6))
    X = sp.csr_matrix((X.data, X.indices * 1000, X.indptr), shape=(600, 10000))
    model = osvm.LinearRegressor()
    for start in range(0, 600, 10):
        model.partial_fit(X[start : start + 10], y[start : start + 10])
    assert model.score(X, y) > 0.95
