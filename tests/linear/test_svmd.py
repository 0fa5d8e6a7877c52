"""SVMD on sparse weights: its equations, its trace, its numerics."""

import numpy as np
import pytest
import reference_kernel as kernel_reference
import reference_linear_smd as reference
import scipy.sparse as sp

import osvm
from osvm import losses, schedules
from osvm._input.rows import RowSource
from osvm.linear.smd import SMDLearner
from osvm.linear.svmd import SVMDLearner

SCALAR = {
    "hinge": kernel_reference.hinge,
    "squared_hinge": reference.squared_hinge,
    "perceptron": reference.perceptron,
    "logistic": kernel_reference.logistic,
    "modified_huber": reference.modified_huber,
    "novelty": kernel_reference.novelty,
    "epsilon_insensitive": kernel_reference.epsilon_insensitive(0.1),
    "huber": kernel_reference.huber(1.0),
    "squared": kernel_reference.squared,
}
PARTS = {"epsilon_insensitive": {"epsilon": 0.1}, "huber": {"delta": 1.0}}
MULTI = {
    "hinge": kernel_reference.one_vs_rest(kernel_reference.hinge),
    "logistic": kernel_reference.one_vs_rest(kernel_reference.logistic),
    "multiclass_hinge": kernel_reference.multiclass_hinge,
    "softmax": kernel_reference.softmax,
}


def make_rows(n=300, d=25, seed=0, whole=False):
    """Sparse rows with empty ones and repeats; whole numbers make exact ties."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.25) * 0.7
    if whole:
        X = np.round(X)
    X[[0, 17]] = 0.0
    X[40] = X[39]
    return X


def source(X, dtype=np.float64):
    X = sp.csr_matrix(X.astype(dtype))
    return RowSource.csr(X.data, X.indices, X.indptr, X.shape[1])


def make_learner(cls, loss, d, K=1, dtype=np.float64, offset=False, **words):
    part = losses.get(loss, **PARTS.get(loss, {}))
    reg = words.pop("reg")
    eta_min = words.pop("eta_min", 0.0)
    schedule = schedules.SMD(eta_min=eta_min, per_coordinate=cls is not SVMDLearner, **words)
    return cls(d, K, dtype, part.spec(), schedule.spec(reg=reg), reg=reg, fit_intercept=offset)


def make_targets(X, K, loss, seed=1):
    rng = np.random.default_rng(seed)
    if K > 1:
        return np.argmax(X @ rng.normal(size=(X.shape[1], K)), axis=1).astype(np.int32)
    score = X @ rng.normal(size=X.shape[1]) + 0.3 * rng.normal(size=len(X))
    return score if loss in PARTS or loss == "squared" else np.where(score >= 0, 1.0, -1.0)


def follow(learner, naive, X, y, weight=None, rtol=1e-10, dtype=np.float64):
    """Run both one example at a time and compare everything that is learnt."""
    rows = source(X, dtype)
    dense = X.astype(dtype).astype(np.float64)
    record = {name: np.zeros(1) for name in ("eta", "loss", "error")}
    seen, expected = [], []
    for i in range(len(X)):
        learner.run(rows, y, None, i, i + 1, weight, record)
        _, value, eta = naive.step(dense[i], y[i], 1.0 if weight is None else weight[i])
        seen.append((record["eta"][0], record["loss"][0]))
        expected.append((eta, value))
        if i < 3 or i % 50 == 0 or i == len(X) - 1:
            W = np.atleast_2d(learner.weights.array())
            np.testing.assert_allclose(W, naive.W, rtol=0, atol=rtol * (1 + abs(naive.W).max()))
            Z = np.atleast_2d(learner.trace_array())
            np.testing.assert_allclose(Z, naive.Z, rtol=0, atol=rtol * (1 + abs(naive.Z).max()))
            np.testing.assert_allclose(learner.intercept, naive.b, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(seen, expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("loss", SCALAR)
@pytest.mark.parametrize("offset", [False, True])
def test_every_scalar_loss_follows_the_reference(loss, offset):
    X = make_rows()
    y = make_targets(X, 1, loss)
    words = {"reg": 0.01, "eta0": 0.2, "mu": 0.05, "decay": 0.9}
    learner = make_learner(SVMDLearner, loss, 25, offset=offset, **words)
    follow(learner, reference.SVMD(SCALAR[loss], 25, offset=offset, **words), X, y)


@pytest.mark.parametrize("loss", MULTI)
@pytest.mark.parametrize("offset", [False, True])
def test_several_outputs_share_one_step_size(loss, offset):
    X = make_rows()
    y = make_targets(X, 4, loss)
    words = {"reg": 0.01, "eta0": 0.2, "mu": 0.05, "decay": 0.9}
    learner = make_learner(SVMDLearner, loss, 25, K=4, offset=offset, **words)
    follow(learner, reference.SVMD(MULTI[loss], 25, K=4, offset=offset, **words), X, y)


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("reg", [0.0, 1e-4, 0.3])
@pytest.mark.parametrize("K", [1, 3])
def test_step_sizes_rested_where_the_paper_adapts_them(decay, reg, K):
    X = make_rows(150)
    loss = "hinge" if K == 1 else "softmax"
    y = make_targets(X, K, loss)
    words = {"reg": reg, "eta0": 0.3, "mu": 0.2, "decay": decay}
    step = schedules.SMD(
        eta0=0.3, mu=0.2, decay=decay, eta_min=0.0, per_coordinate=True, rest=False
    ).spec(reg=reg)
    learner = SMDLearner(25, K, np.float64, losses.get(loss).spec(), step, reg=reg, rest=False)
    naive = reference.SMD((SCALAR if K == 1 else MULTI)[loss], 25, K=K, **words)
    naive.rest = False
    follow(learner, naive, X, y)
    np.testing.assert_allclose(np.atleast_2d(learner.eta_array()), naive.eta, rtol=1e-10)
    copied = learner.copy()
    for one in (learner, copied):
        one.run(source(X), y)
    assert np.array_equal(learner.weights.array(), copied.weights.array())
    resting = make_learner(SMDLearner, loss, 25, K=K, **words)
    resting.run(source(X), y)
    resting.run(source(X), y)
    same = np.allclose(resting.weights.array(), learner.weights.array(), rtol=1e-9)
    assert same == (reg == 0.0)


def test_rest_is_for_step_sizes_per_coordinate():
    with pytest.raises(ValueError, match="rest=False is for per_coordinate=True"):
        schedules.SMD(rest=False)
    X, y = make_rows(150), make_targets(make_rows(150), 1, "hinge")
    model = osvm.recipes.smd(reg=0.1, rest=False).partial_fit(X, y)
    twin = osvm.recipes.smd(reg=0.1, rest=False)
    twin._set_state(*model._get_state())
    assert np.array_equal(twin.partial_fit(X, y).coef_, model.partial_fit(X, y).coef_)
    model.set_params(schedule=schedules.SMD(per_coordinate=True))
    with pytest.raises(ValueError, match="cannot be swapped"):
        model.partial_fit(X, y)


@pytest.mark.parametrize("decay", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("reg", [0.0, 1e-4, 0.3])
@pytest.mark.parametrize("eta0", [0.1, 3.0, 10.0])  # 1/0.3 is the cap: eta starts there
@pytest.mark.parametrize("K", [1, 3])
def test_every_corner_of_the_parameters(decay, reg, eta0, K):
    X = make_rows(150)
    loss = "hinge" if K == 1 else "multiclass_hinge"
    y = make_targets(X, K, loss)
    words = {"reg": reg, "eta0": eta0, "mu": 0.02, "decay": decay, "eta_min": 1e-3}
    learner = make_learner(SVMDLearner, loss, 25, K=K, offset=True, **words)
    naive = (SCALAR if K == 1 else MULTI)[loss]
    follow(learner, reference.SVMD(naive, 25, K=K, offset=True, **words), X, y, rtol=1e-9)


def test_ties_at_the_margin_and_weights():
    X = make_rows(whole=True)
    y = make_targets(X, 1, "hinge")
    weight = np.random.default_rng(0).uniform(0, 2, len(y))
    weight[3] = 0.0
    words = {"reg": 0.25, "eta0": 1.0, "mu": 0.0, "decay": 0.5}
    follow(make_learner(SVMDLearner, "hinge", 25, **words),
           reference.SVMD(SCALAR["hinge"], 25, **words), X, y)  # fmt: skip
    words |= {"mu": 0.1, "reg": 0.01}
    follow(make_learner(SVMDLearner, "logistic", 25, offset=True, **words),
           reference.SVMD(SCALAR["logistic"], 25, offset=True, **words), X, y, weight)  # fmt: skip


def test_float32_weights():
    X = make_rows()
    y = make_targets(X, 1, "hinge")
    words = {"reg": 0.01, "eta0": 0.1, "mu": 0.02, "decay": 0.9}
    learner = make_learner(SVMDLearner, "logistic", 25, dtype=np.float32, **words)
    naive = reference.SVMD(SCALAR["logistic"], 25, **words)
    follow(learner, naive, X, y, rtol=1e-4, dtype=np.float32)
    assert learner.weights.v.dtype == np.float32


@pytest.mark.parametrize("loss", ["logistic", "squared", "hinge"])
def test_trace_is_the_derivative_with_respect_to_log_eta(loss):
    """mu = 0 and decay = 1: z = dw / d(log eta), exactly (hinge: while no margin flips)."""
    X = make_rows(120)
    y = make_targets(X, 1, loss)

    def weights(eta0):
        words = {"reg": 0.05, "eta0": eta0, "mu": 0.0, "decay": 1.0}
        learner = make_learner(SVMDLearner, loss, 25, **words)
        learner.run(source(X), y)
        return learner

    h = 1e-5 if loss != "hinge" else 1e-9
    difference = (
        weights(0.1 * np.exp(h)).weights.array() - weights(0.1 * np.exp(-h)).weights.array()
    ) / (2 * h)
    z = weights(0.1).trace_array()
    np.testing.assert_allclose(difference, z, rtol=0, atol=1e-6 * abs(z).max())


def test_sums_stay_true_over_a_long_run():
    X = make_rows(400, 25)
    y = make_targets(X, 1, "hinge")
    for decay, reg in [(0.95, 0.1), (1.0, 0.05), (0.95, 1e-5)]:
        learner = make_learner(SVMDLearner, "hinge", 25, reg=reg, eta0=0.5, mu=0.01, decay=decay,
                               eta_min=1e-4)  # fmt: skip
        for _ in range(50):
            learner.run(source(X), y)
        w, z = learner.weights.array(), learner.trace_array()
        np.testing.assert_allclose(learner.sq_f, w @ w, rtol=1e-8)
        np.testing.assert_allclose(learner.pi, w @ z, rtol=1e-7, atol=1e-9)
        assert abs(learner.r) <= 100


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("decay", [0.0, 0.95])
def test_any_split_order_and_copy_gives_the_same_bits(K, decay):
    X = make_rows()
    y = make_targets(X, K, "hinge")
    words = {"reg": 0.01, "eta0": 0.2, "mu": 0.05, "decay": decay, "offset": True}
    loss = "logistic" if K == 1 else "softmax"
    whole = make_learner(SVMDLearner, loss, 25, K=K, **words)
    order = np.random.default_rng(0).permutation(len(y))
    whole.run(source(X), y, order)
    parts = make_learner(SVMDLearner, loss, 25, K=K, **words)
    for start, stop in [(0, 1), (1, 7), (7, 7), (7, 150), (150, 300)]:
        parts.run(source(X), y, order, start, stop)
        twin = parts._like()
        twin.set_state(*parts.get_state())
        parts = twin.copy()
    assert np.array_equal(whole.weights.array(), parts.weights.array())
    assert np.array_equal(whole.trace_array(), parts.trace_array())
    assert np.array_equal(whole.intercept, parts.intercept)
    assert (whole.eta, whole.t, whole.seen, whole.loss_sum, whole.error_sum) == (
        parts.eta, parts.t, parts.seen, parts.loss_sum, parts.error_sum,
    )  # fmt: skip


def test_repeated_columns_and_dense_rows_mean_the_same():
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
        RowSource.dense(np.asfortranarray(X)),
    ):
        learner = make_learner(SVMDLearner, "hinge", 25, **words)
        learner.run(rows, y)
        results.append(learner.weights.array())
        scores = np.empty((len(y), 1))
        learner.decide(rows, scores)
        np.testing.assert_allclose(scores[:, 0], X @ learner.weights.array(), atol=1e-12)
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], atol=1e-10)


def test_floor_and_cap_hold():
    X = make_rows()
    y = make_targets(X, 1, "hinge")
    eta, loss, error = np.zeros((3, len(y)))
    record = {"eta": eta, "loss": loss, "error": error}
    learner = make_learner(SVMDLearner, "hinge", 25, reg=0.5, eta0=1.0, mu=10.0, decay=1.0,
                           eta_min=0.01)  # fmt: skip
    learner.run(source(X), y, None, 0, -1, None, record)
    assert eta.min() >= 0.01
    assert eta.max() <= 2.0
    assert np.unique(eta).size > 10
    assert error[-1] == learner.error_sum / learner.seen


def test_errors_name_the_row_and_keep_what_was_learnt():
    X = make_rows()
    y = make_targets(X, 1, "hinge")
    learner = make_learner(SVMDLearner, "squared", 25, reg=0.01, eta0=0.1)
    expected = make_learner(SVMDLearner, "squared", 25, reg=0.01, eta0=0.1)
    expected.run(source(X), y, None, 0, 30)
    bad = X.copy()
    bad[30, 3] = 1e200
    with pytest.raises(FloatingPointError, match="row 30"):
        learner.run(source(bad), y)
    assert np.array_equal(learner.weights.array(), expected.weights.array())
    assert learner.t == 30
    with pytest.raises(ValueError, match="3 targets"):
        learner.run(source(X), y[:3])
    with pytest.raises(ValueError, match="5 features"):
        learner.run(source(X[:, :5]), y)
    with pytest.raises(ValueError, match="examples 5 to 500"):
        learner.run(source(X), y, None, 5, 500)
    with pytest.raises(ValueError, match="weights for"):
        learner.run(source(X), y, None, 0, -1, y[:4])
    with pytest.raises(ValueError, match="reg"):
        make_learner(SVMDLearner, "hinge", 25, reg=-1.0, eta0=0.1)


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("K", [1, 3])
def test_a_trace_over_many_columns_is_folded_where_it_is_not_zero(decay, K):
    """Its scale shrinks by `decay` a step: hundreds of folds, on wide and repeated rows."""
    rng = np.random.default_rng(3)
    n, d, count = 1500, 3000, 3
    columns = rng.integers(0, d, size=(n, count))
    columns[5] = columns[5, 0]  # a column three times in one row
    X = sp.csr_matrix(
        (rng.normal(size=n * count), columns.ravel(), np.arange(0, n * count + 1, count)),
        shape=(n, d),
    )
    rows = RowSource.csr(X.data, X.indices, X.indptr, d)
    loss = "logistic" if K == 1 else "softmax"  # each example moves the trace
    y = make_targets(X.toarray(), K, loss)
    words = {"reg": 1e-3, "eta0": 0.2, "mu": 0.05, "decay": decay}
    learner = make_learner(SVMDLearner, loss, d, K=K, **words)
    again = make_learner(SVMDLearner, loss, d, K=K, **words)
    naive = reference.SVMD((SCALAR if K == 1 else MULTI)[loss], d, K=K, **words)
    for i, x in enumerate(X.toarray()):
        naive.step(x, y[i], 1.0)
    learner.run(rows, y)
    again.run(rows, y, None, 0, 777)
    again = again.copy()  # which has to find anew where the trace is not zero
    again.run(rows, y, None, 777, n)
    W, Z = np.atleast_2d(learner.weights.array()), np.atleast_2d(learner.trace_array())
    np.testing.assert_allclose(W, naive.W, rtol=0, atol=1e-10 * (1 + abs(naive.W).max()))
    np.testing.assert_allclose(Z, naive.Z, rtol=0, atol=1e-10 * (1 + abs(naive.Z).max()))
    np.testing.assert_array_equal(np.atleast_2d(again.trace_array()), Z)
    np.testing.assert_array_equal(np.atleast_2d(again.weights.array()), W)
