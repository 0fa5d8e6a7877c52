"""Adaptive, implicit steps: every form against its equations, numerics, state."""

import numpy as np
import pytest
import reference_adaptive as reference
import scipy.sparse as sp

import osvm
from osvm import losses, schedules
from osvm._input.rows import RowSource
from osvm.linear.adaptive import AdaptiveLearner

BINARY = ["hinge", "squared_hinge", "perceptron", "logistic", "modified_huber"]
NUMBERS = ["epsilon_insensitive", "huber", "squared"]
FORMS = {
    "plain": {},
    "shrinking": {"reg": 0.01},
    "mirror": {"reg": 0.01, "mirror": True},
    "normalized": {"normalized": True},
    "normalized mirror": {"normalized": True, "mirror": True, "reg": 0.01},
    "normalized shrinking forgetting": {"normalized": True, "reg": 0.01, "forget": 0.9},
    "forgetting": {"forget": 0.95},
    "whole average": {"tail": False},
    "late average": {"average_from": 30},
}


def make_rows(n=150, d=12, seed=0, scales=True):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.4)
    if scales:
        X *= 10.0 ** rng.integers(-1, 2, d)
    return X


def make_learner(loss, d, K=1, *, dtype=np.float64, offset=True, average_from=0, error="class",
                 reg=0.0, coin=None, **words):  # fmt: skip
    part = schedules.CoinBetting(coin) if coin is not None else schedules.Adaptive(**words)
    return AdaptiveLearner(d, K, dtype, losses.get(loss).spec(), part.spec(reg=reg, eta0=0.5),
                           average_from=average_from, fit_intercept=offset,
                           error_kind=error)  # fmt: skip


def follow(learner, naive, X, y, weight=None, *, sparse=True, rtol=1e-10):
    """The learner and the reference, example by example."""
    K = learner.n_out
    rows = sp.csr_matrix(X) if sparse else X
    source = RowSource.csr(rows.data, rows.indices, rows.indptr, X.shape[1]) if sparse \
        else RowSource.dense(rows)  # fmt: skip
    targets = np.asarray(y, float if K == 1 else np.int32)
    for i in range(len(X)):
        scores = np.empty((len(X), K))
        learner.decide(source, scores, False, i, i + 1)
        learner.run(source, targets, None, i, i + 1, weight)
        f = naive.learn(X[i], y[i], 1.0 if weight is None else weight[i])
        if not naive.normalized:  # whose weights may change before the score
            np.testing.assert_allclose(scores[i], f, rtol=rtol, atol=1e-11)
        w = np.atleast_2d(learner.weights.array())
        expected = naive.weights()
        np.testing.assert_allclose(w, expected[:, :-1], rtol=rtol, atol=1e-12)
        np.testing.assert_allclose(learner.intercept, expected[:, -1], rtol=rtol, atol=1e-12)
        if naive.past:
            mean = naive.average()
            w = np.atleast_2d(learner.weights.array(averaged=True))
            np.testing.assert_allclose(w, mean[:, :-1], rtol=1e-9, atol=1e-10)
            np.testing.assert_allclose(learner.average_intercept(), mean[:, -1], rtol=1e-9,
                                       atol=1e-10)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", BINARY)
def test_one_output_follows_the_equations(loss, form):
    X, words = make_rows(), FORMS[form]
    y = np.where(X @ np.arange(12) + 0.3 > 0, 1.0, -1.0)
    y[::7] *= -1
    follow(make_learner(loss, 12, **words), reference.Adaptive(loss, 12, **words), X, y)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("loss", NUMBERS)
def test_numbers_follow_the_equations(loss, offset, form):
    X, words = make_rows(80), FORMS[form]
    y = 3 * X[:, 0] - X[:, 1] + 10 + np.random.default_rng(1).standard_normal(80)
    learner = make_learner(loss, 12, offset=offset, error="absolute", **words)
    naive = reference.Adaptive(loss, 12, offset=offset, numbers=True, **words)
    follow(learner, naive, X, y, rtol=1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", ["hinge", "logistic", "multiclass_hinge", "softmax"])
def test_columns_follow_the_equations(loss, form):
    X, words = make_rows(100), FORMS[form]
    y = np.argmax(X @ np.random.default_rng(2).standard_normal((12, 4)), axis=1)
    learner = make_learner(loss, 12, 4, **words)
    follow(learner, reference.Adaptive(loss, 12, 4, **words), X, y)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared_hinge"])
def test_weights_and_dense_rows_follow_the_equations(loss, sparse):
    X = make_rows(100)
    y = np.where(X @ np.arange(12) > 0, 1.0, -1.0)
    weight = np.random.default_rng(3).choice([0.0, 0.3, 1.0, 5.0], 100)
    follow(make_learner(loss, 12), reference.Adaptive(loss, 12), X, y, weight, sparse=sparse)


@pytest.mark.parametrize(("loss", "K"), [("hinge", 1), ("logistic", 1), ("hinge", 3)])
def test_coin_betting_follows_the_equations(loss, K):
    X = make_rows(100)
    y = np.where(X[:, 0] > X[:, 1], 1, 0)
    y = y + (X[:, 2] > 0) if K == 3 else 2.0 * y - 1
    follow(make_learner(loss, 12, K, coin=10.0), reference.Adaptive(loss, 12, K, coin=10.0), X, y)


def test_novelty_follows_the_equations():
    X = np.abs(make_rows(60))
    learner = make_learner("novelty", 12, offset=False, error="novel")
    follow(learner, reference.Adaptive("novelty", 12, offset=False), X, np.ones(60))
