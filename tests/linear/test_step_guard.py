"""The default step never goes beyond its example where the loss has a curvature."""

import dataclasses

import numpy as np
import pytest
import reference_linear as reference
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import osvm
from osvm import losses, schedules
from osvm._input.rows import RowSource
from osvm.linear.examples import bounded_weight
from osvm.linear.plan import Plan

N, D = 60, 6


def data(scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.6) * scale
    return X, X @ rng.normal(size=D) + 0.1 * rng.normal(size=N)


def first_t0(loss, reg, curvature, x):
    """The first step is the usual one, or corrects half of the first row's error."""
    size = reg**-0.25
    usual = size / max(1.0, abs(float(loss.dloss(1.0, -size))))
    return 1 / (reg * min(usual, 0.5 / (curvature * (x @ x))))


@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0, 1e6])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", [sp.csr_matrix, np.asarray], ids=["sparse", "dense"])
def test_squared_loss_follows_its_reference(scale, weighted, form):
    X, y = data(scale)
    weight = np.random.default_rng(1).uniform(0, 3, N) if weighted else None
    model = osvm.LinearRegressor("squared", reg=0.01)
    t0 = first_t0(losses.Squared(), 0.01, 1.0, X[0])
    expected = reference.bounded_descent(X, y, 0.01, t0, lambda y, f: f - y, 1.0, weight)
    for i in range(N):
        part = slice(i, i + 1)
        model.partial_fit(form(X[part]), y[part], None if weight is None else weight[part])
        assert np.allclose(model.coef_, expected[i, :-1], rtol=1e-9, atol=1e-10)
        assert np.allclose(model.intercept_, expected[i, -1], rtol=1e-9, atol=1e-10)
    whole = osvm.LinearRegressor("squared", reg=0.01).partial_fit(form(X), y, weight)
    assert np.array_equal(whole.coef_, model.coef_)
    assert np.array_equal(whole.intercept_, model.intercept_)


def test_squared_hinge_follows_its_reference():
    X, y = data(10.0)
    y = np.where(y > 0, 1.0, -1.0)
    t0 = first_t0(losses.SquaredHinge(), 0.01, 2.0, X[0])

    def dloss(y, f):
        return -2 * y * max(0.0, 1 - y * f)

    expected = reference.bounded_descent(X, y, 0.01, t0, dloss, 2.0)
    model = osvm.LinearClassifier("squared_hinge", reg=0.01)
    model.partial_fit(sp.csr_matrix(X), y, classes=[-1, 1])
    assert np.allclose(model.coef_[0], expected[-1, :-1], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("scale", [1.0, 10.0, 1000.0, 1e5])
def test_large_rows_do_not_make_a_stream_diverge(scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 20)) * scale
    y = X @ rng.normal(size=20) / scale + 1.0
    model = osvm.LinearRegressor("squared")
    for start in range(0, 3000, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100])
    assert model.score(X, y) > 0.95


def test_one_huge_row_in_a_fit():
    X, y = data()
    X[40] *= 1e8
    model = osvm.LinearRegressor("squared", epochs=3, random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert np.abs(model.predict(X[:40])).max() < 1e3


@settings(max_examples=40, deadline=None)
@given(
    scale=st.floats(1e-3, 1e9),
    t=st.integers(0, 10**6),
    batch=st.sampled_from([1, 3]),
    intercept=st.booleans(),
    repeated=st.booleans(),
)
def test_no_step_goes_beyond_its_example(scale, t, batch, intercept, repeated):
    X = sp.csr_matrix(data(scale)[0])
    if repeated:
        X.indices[:] = X.indices // 2
        X.has_sorted_indices = False
    dense = X.toarray()
    rows = RowSource.csr(X.data, X.indices, X.indptr, D)
    rows.largest = np.abs(X.data).max()
    plan = Plan(losses.Squared(), schedules.Bottou(), 1e-3, t0=10.0, batch_size=batch)
    plan = dataclasses.replace(plan, fit_intercept=intercept)
    learner = plan.learner(D, 1, np.float64)
    learner.t = t
    weight = np.random.default_rng(1).uniform(0, 3, N)
    order = np.random.default_rng(2).permutation(N)
    got = bounded_weight(learner, rows, 1.0, order, 0, N, weight)
    steps = t + 1 + np.arange(N) // batch
    pull = np.empty(N)
    pull[order] = 1 / (1e-3 * (10 + steps))
    pull *= (dense**2).sum(axis=1)
    pull[order] += intercept / np.sqrt(steps)
    assert (got * pull <= 1 + 1e-12).all()
    free = weight * pull < 1 - 1e-9
    assert np.array_equal(got[free], weight[free])
    assert np.allclose(got[~free] * pull[~free], 1)


def test_one_by_one_is_the_same_stream():
    X, y = data(50.0)
    rows = sp.csr_matrix(X)
    stream = osvm.LinearRegressor(schedule="bottou").partial_fit(rows, y)
    single = osvm.LinearRegressor(schedule="bottou")
    for i in range(N):
        part = slice(rows.indptr[i], rows.indptr[i + 1])
        single.learn_one(rows.indices[part], rows.data[part], float(y[i]), n_features=D)
    assert np.array_equal(single.coef_, stream.coef_)
    assert np.array_equal(single.intercept_, stream.intercept_)


def test_the_step_used_is_recorded():
    X, y = data(100.0)
    X[0] /= 100
    model = osvm.LinearRegressor(schedule="bottou", record=True, fit_intercept=False)
    model.partial_fit(X, y)
    norms = (X**2).sum(axis=1)
    assert (model.history_["eta"] * norms <= 1 + 1e-12).all()
    assert np.isclose(model.history_["eta"] * norms, 1).sum() > N // 2


def test_an_explicit_step_is_taken_at_its_word():
    assert Plan(losses.Squared(), schedules.Constant(eta0=1.0), 1e-4).curvature == 0.0
    assert Plan(losses.Squared(), schedules.Bottou(t0=1.0), 1e-4).curvature == 0.0
    assert Plan(losses.Huber(), schedules.Bottou(), 1e-4).curvature == 0.0


@pytest.mark.parametrize("schedule", ["sparse", "per coordinate"])
def test_meta_descent_is_left_alone(schedule):
    X, y = data()
    smd = schedules.SMD(eta0=0.01, per_coordinate=schedule != "sparse")
    model = osvm.LinearRegressor("squared", schedule=smd, n_jobs=2).partial_fit(X, y)
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize(
    ("dtype", "size", "eta0"), [(np.float64, 1e100, 1e60), (np.float32, 1e30, 1e10)]
)
@pytest.mark.parametrize("form", [sp.csr_matrix, np.asarray])
def test_a_step_beyond_the_range_of_weights_is_not_made(form, dtype, size, eta0, average):
    """Of a row whose values are finite, in the midst of others; the model stays as it was."""
    X = np.eye(4, dtype=dtype)[np.arange(40) % 4]
    y = np.arange(40) % 2
    model = osvm.LinearClassifier(
        schedule="constant", eta0=eta0, reg=0.0, average=average, fit_intercept=False
    ).partial_fit(form(X * 1e-6), y)
    before = model.coef_.copy()
    X[23] *= size
    y[23] = 0  # a large error, and a large step
    with pytest.raises(FloatingPointError, match="row 23"):
        model.partial_fit(form(X), y)
    assert np.array_equal(model.coef_, before)
