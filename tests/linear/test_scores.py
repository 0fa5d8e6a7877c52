"""Scores of rows that are checked on the way: the usual bits, and the usual refusals."""

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm._input.validate import check_X
from osvm.linear.scores import score_csr


def problem(dtype=np.float64, index=np.int32, n=400, d=60):
    rng = np.random.default_rng(0)
    X = sp.random(n, d, 0.2, "csr", dtype, rng)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X, np.where(rng.random(n) > 0.5, 1, -1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("average", [False, True])
def test_scores_are_those_of_decide(dtype, index, average):
    X, y = problem(dtype, index)
    model = osvm.LinearClassifier(
        random_state=0, epochs=2, average=average, schedule="bottou"
    ).fit(X, y)
    assert model._quick_scores(X) is not None
    out = np.empty((X.shape[0], 1))
    model._learner.decide(check_X(X)[0], out, average)
    assert np.array_equal(model.decision_function(X), out[:, 0])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n_classes", [3, 7, 8, 9, 10, 17])
def test_outputs_of_dense_rows_add_up_in_the_order_of_the_columns(n_classes, order):
    X = np.random.default_rng(0).normal(size=(60, 130))
    X = np.asarray(X, order=order)
    model = osvm.LinearClassifier(reg=1e-3, random_state=0, epochs=2)
    model.fit(X, np.arange(60) % n_classes)
    weights, expected = model._learner.weights, np.zeros((60, n_classes))
    for column, v in zip(X.T, np.asarray(weights.v).reshape(130, n_classes)):
        expected += column[:, None] * v
    expected = expected * weights.scale + model._learner.intercept
    assert np.array_equal(model.decision_function(X), expected)


def spoil_index(X):
    X.indices[-3] = X.shape[1]


def spoil_sign(X):
    X.indices[7] = -1


def spoil_value(X):
    X.data[-1] = np.nan


def spoil_weightless_value(X):
    X.data[0] = np.inf
    X.indices[0] = X.shape[1] - 1  # a column that no training row has


def spoil_start(X):
    X.indptr[5] = X.indptr[6] + 1


def spoil_end(X):
    X.indptr[-1] += 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "spoil",
    [
        spoil_index,
        spoil_sign,
        spoil_value,
        spoil_weightless_value,
        spoil_start,
        spoil_end,
    ],
)
def test_rows_that_are_not_sound_are_refused(dtype, spoil):
    X, y = problem(dtype)
    X.data[X.indices == X.shape[1] - 1] = 0
    X.eliminate_zeros()
    model = osvm.LinearClassifier(random_state=0).fit(X, y)
    assert model.coef_[0, -1] == 0
    bad = X.copy()
    spoil(bad)
    assert model._quick_scores(bad) is None
    with pytest.raises(ValueError, match=r"row|NaN|X is not"):
        model.decision_function(bad)


def test_arrays_of_other_types_and_lengths_are_refused():
    X, _ = problem()
    out, w = np.empty(X.shape[0]), np.ones(X.shape[1])
    good = (X.data, X.indices, X.indptr)
    assert score_csr(*good, X.shape[0], w, 1.0, 0.0, out)
    assert np.allclose(out, X @ w)
    assert not score_csr(X.data.astype(int), *good[1:], X.shape[0], w, 1.0, 0.0, out)
    assert not score_csr(X.data[:-1], *good[1:], X.shape[0], w, 1.0, 0.0, out)
    assert not score_csr(*good, X.shape[0] - 1, w, 1.0, 0.0, out[:-1])
    assert not score_csr(*good, X.shape[0], w[:-1], 1.0, 0.0, out)


def test_a_sum_of_finite_values_may_be_too_large():
    X, y = problem()
    model = osvm.LinearClassifier(random_state=0).fit(X, y)
    large = X.copy()
    large.data[X.indptr[3] : X.indptr[4]] = 1.7e308 * np.sign(model.coef_[0, X[3].indices])
    assert model._quick_scores(large) is None  # not for this way to tell from a NaN
    with pytest.raises(FloatingPointError, match="the score of row 3 is too large"):
        model.decision_function(large)
    others = np.arange(X.shape[0]) != 3
    scores = model.decision_function(large[others])
    assert np.array_equal(scores, model.decision_function(X)[others])
