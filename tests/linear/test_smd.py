"""Meta-descent with one step size per weight: pinned to the dense form of the paper."""

import numpy as np
import pytest
import reference_linear_smd as reference
import scipy.sparse as sp

from linear.test_svmd import MULTI, SCALAR, follow, make_learner, make_rows, make_targets, source
from osvm._input.rows import RowSource
from osvm.linear.smd import SMDLearner


@pytest.mark.parametrize("loss", SCALAR)
@pytest.mark.parametrize("offset", [False, True])
def test_every_scalar_loss_follows_the_dense_form(loss, offset):
    X = make_rows()
    y = make_targets(X, 1, loss)
    words = {"reg": 0.01, "eta0": 0.2, "mu": 0.05, "decay": 0.9}
    learner = make_learner(SMDLearner, loss, 25, offset=offset, **words)
    naive = reference.SMD(SCALAR[loss], 25, offset=offset, **words)
    follow(learner, naive, X, y)
    np.testing.assert_allclose(learner.eta_array(), naive.eta[0], rtol=1e-10)


@pytest.mark.parametrize("loss", MULTI)
def test_several_outputs(loss):
    X = make_rows()
    y = make_targets(X, 4, loss)
    words = {"reg": 0.01, "eta0": 0.2, "mu": 0.05, "decay": 0.9}
    learner = make_learner(SMDLearner, loss, 25, K=4, offset=True, **words)
    naive = reference.SMD(MULTI[loss], 25, K=4, offset=True, **words)
    follow(learner, naive, X, y)
    np.testing.assert_allclose(learner.eta_array(), naive.eta, rtol=1e-10)


@pytest.mark.parametrize("decay", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("reg", [0.0, 1e-4, 0.3])
@pytest.mark.parametrize("eta0", [0.1, 3.0, 10.0])  # 1/0.3 is the cap: eta starts there
def test_every_corner_of_the_parameters(decay, reg, eta0):
    X = make_rows(150)
    y = make_targets(X, 1, "hinge")
    words = {"reg": reg, "eta0": eta0, "mu": 0.02, "decay": decay, "eta_min": 1e-3}
    learner = make_learner(SMDLearner, "hinge", 25, offset=True, **words)
    follow(learner, reference.SMD(SCALAR["hinge"], 25, offset=True, **words), X, y, rtol=1e-9)


def test_long_absences_are_made_up_for():
    """A column that is seen again after more steps than the table of powers holds."""
    X = np.zeros((1500, 3))
    X[:, 0] = 1.0
    X[[0, 5, 700, 1499], 1] = 0.5
    X[2, 2] = -1.0
    y = np.where(np.arange(1500) % 3 == 0, 1.0, -1.0)
    words = {"reg": 0.003, "eta0": 0.3, "mu": 0.01, "decay": 0.99}
    learner = make_learner(SMDLearner, "logistic", 3, **words)
    follow(learner, reference.SMD(SCALAR["logistic"], 3, **words), X, y)


def test_dense_rows_without_zeros_are_the_papers_algorithm():
    X = np.random.default_rng(0).normal(size=(200, 6)) * 0.5
    y = make_targets(X, 1, "hinge")
    words = {"reg": 0.01, "eta0": 0.2, "mu": 0.05, "decay": 0.9}
    learner = make_learner(SMDLearner, "logistic", 6, **words)
    learner.run(RowSource.dense(X), y)
    naive = reference.SMD(SCALAR["logistic"], 6, **words)
    for x, label in zip(X, y):
        naive.step(x, label)
    np.testing.assert_allclose(learner.weights.array(), naive.W[0], atol=1e-10)


def test_weights_of_examples_and_float32():
    X = make_rows()
    y = make_targets(X, 1, "hinge")
    weight = np.random.default_rng(0).uniform(0, 2, len(y))
    words = {"reg": 0.01, "eta0": 0.1, "mu": 0.02, "decay": 0.9}
    for dtype, rtol in ((np.float64, 1e-10), (np.float32, 1e-4)):
        learner = make_learner(SMDLearner, "logistic", 25, dtype=dtype, offset=True, **words)
        naive = reference.SMD(SCALAR["logistic"], 25, offset=True, **words)
        follow(learner, naive, X, y, weight, rtol=rtol, dtype=dtype)


@pytest.mark.parametrize("K", [1, 3])
def test_splits_copies_and_looking_change_no_bit(K):
    X = make_rows()
    y = make_targets(X, K, "hinge")
    loss = "logistic" if K == 1 else "softmax"
    words = {"reg": 0.01, "eta0": 0.2, "mu": 0.05, "decay": 0.9, "offset": True}
    whole = make_learner(SMDLearner, loss, 25, K=K, **words)
    order = np.random.default_rng(0).permutation(len(y))
    whole.run(source(X), y, order)
    parts = make_learner(SMDLearner, loss, 25, K=K, **words)
    scores = np.empty((len(y), K))
    for start, stop in [(0, 1), (1, 7), (7, 7), (7, 150), (150, 300)]:
        parts.run(source(X), y, order, start, stop)
        parts.decide(source(X), scores)
        expected = X @ np.atleast_2d(parts.weights.array()).T + parts.intercept
        np.testing.assert_allclose(scores, expected, atol=1e-12)
        parts = parts.copy()
    assert np.array_equal(whole.weights.array(), parts.weights.array())
    assert np.array_equal(whole.trace_array(), parts.trace_array())
    assert np.array_equal(whole.eta_array(), parts.eta_array())
    assert np.array_equal(whole.intercept, parts.intercept)


def test_repeated_columns_mean_their_sum():
    X = make_rows()
    y = make_targets(X, 1, "hinge")
    words = {"reg": 0.01, "eta0": 0.2, "mu": 0.05, "decay": 0.9}
    sparse = sp.csr_matrix(X)
    halves = sp.csr_matrix(
        (np.repeat(sparse.data / 2, 2), np.repeat(sparse.indices, 2), 2 * sparse.indptr),
        shape=X.shape,
    )
    results = []
    for rows in (
        source(X),
        RowSource.csr(halves.data, halves.indices, halves.indptr, 25),
        RowSource.dense(X),
    ):
        learner = make_learner(SMDLearner, "hinge", 25, **words)
        learner.run(rows, y)
        results.append(learner.weights.array())
    np.testing.assert_allclose(results[1], results[0], atol=1e-10)
    np.testing.assert_allclose(results[2], results[0], atol=1e-10)


def test_errors_name_the_row_and_keep_what_was_learnt():
    X = make_rows()
    y = make_targets(X, 1, "hinge")
    learner = make_learner(SMDLearner, "squared", 25, reg=0.01, eta0=0.1)
    expected = make_learner(SMDLearner, "squared", 25, reg=0.01, eta0=0.1)
    expected.run(source(X), y, None, 0, 30)
    bad = X.copy()
    bad[30, 3] = 1e200
    with pytest.raises(FloatingPointError, match="row 30"):
        learner.run(source(bad), y)
    assert np.array_equal(learner.weights.array(), expected.weights.array())
    broken, arrays = learner.get_state()
    with pytest.raises(ValueError, match="time stamps"):
        learner.set_state(broken, arrays | {"stamp": arrays["stamp"] + 1000})
    with pytest.raises(ValueError, match="another shape"):
        learner.set_state(broken, arrays | {"z": arrays["z"][:3]})
