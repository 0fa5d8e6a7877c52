"""Merging two terms of a full buffer into one."""

import numpy as np
import pytest
import reference_kernel as ref
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

import osvm
from osvm import kernels, losses, schedules
from osvm._input.rows import RowSource
from osvm.kernel.buffer.loop import learn
from osvm.kernel.buffer.state import KernelState, merge_share, merge_tables


def kept(h, m, k):
    return m * k ** ((1 - h) ** 2) + (1 - m) * k ** (h * h)


@pytest.mark.parametrize("m", [0.003, 0.1, 0.27, 0.42, 0.499])
@pytest.mark.parametrize("k", [0.02, 0.11, 0.34, 0.5, 0.815, 0.97, 0.999])
def test_table_has_nearly_the_best_share(m, k):
    """The share of the table keeps what a search keeps, and its loss is that share's loss."""
    found = minimize_scalar(lambda h: -kept(h, m, k), bounds=(0, 0.5), method="bounded")
    best = max(-found.fun, kept(0.0, m, k))
    assert best - kept(merge_share(m, k), m, k) < 1e-4
    loss = m * m + (1 - m) ** 2 + 2 * m * (1 - m) * k - best**2
    guess, share = ref.merging(merge_tables())(m, 1 - m, m * (1 - m), k)
    assert guess == pytest.approx(loss, rel=0.03, abs=1e-9)
    assert share == pytest.approx(merge_share(m, k), abs=1e-12)
    assert ref.merging(merge_tables())(1 - m, m, m * (1 - m), k)[1] == pytest.approx(1 - share)


def make_stream(outputs, n=400):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 6)) * (rng.random((n, 6)) < 0.6)
    y = np.argmax(X[:, :3] ** 2, 1) if outputs > 1 else X[:, 0] * X[:, 1] > 0
    return X, y.astype(np.int32)


def run(X, y, *, outputs, block, sparse, float64, trace, eviction="merge", budget=40):
    state = KernelState(
        kernels.get("rbf", gamma=0.4).spec(X.shape[1]), X.shape[1], outputs, float64=float64,
        sparse=sparse, budget=budget, eviction=eviction, trace=trace,
    )  # fmt: skip
    state.eta = 0.1
    if trace:
        step = schedules.SMD(mu=0.02, decay=0.9).spec(reg=1e-3, eta0=0.1)
    else:
        step = schedules.Bottou(t0=1000.0).spec(reg=1e-3)
    rows = X.astype(np.float64 if float64 else np.float32)
    if sparse:
        rows = sp.csr_matrix(rows)
        rows = RowSource.csr(rows.data, rows.indices, rows.indptr, rows.shape[1])
    else:
        rows = RowSource.dense(rows)
    loss = losses.get("hinge" if outputs == 1 else "multiclass_hinge").spec()
    learn(state, rows, loss, step, reg=1e-3, labels=y, block=block)
    return state


@pytest.mark.parametrize("eviction", ["merge", "project"])
@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize("float64", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("outputs", [1, 3])
def test_blocks_give_the_sequential_result(outputs, sparse, float64, trace, eviction):
    X, y = make_stream(outputs)
    probe = RowSource.dense(X[:50])
    tolerance = 1e-9 if float64 else 1e-3
    first = None
    for block in (1, 7, 64):
        state = run(
            X, y, outputs=outputs, block=block, sparse=sparse, float64=float64, trace=trace,
            eviction=eviction,
        )  # fmt: skip
        scores = state.decision(probe)
        if first is None:
            first = scores
        assert state.n_support == 40
        np.testing.assert_allclose(scores, first, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("outputs", [1, 3])
def test_sparse_rows_merge_as_dense_ones(outputs):
    """Also when columns are repeated and out of order."""
    X, y = make_stream(outputs)
    dense = run(X, y, outputs=outputs, block=16, sparse=False, float64=True, trace=True)
    sparse = run(X, y, outputs=outputs, block=16, sparse=True, float64=True, trace=True)
    np.testing.assert_allclose(
        sparse.support_vectors_dense(), dense.support_vectors_dense(), atol=1e-9
    )
    np.testing.assert_allclose(sparse.alpha(), dense.alpha(), atol=1e-9)
    rows = sp.csr_matrix(X)
    twice = sp.hstack([rows[:, ::-1], rows / 2, rows / 2]).tocsr()  # out of order, then folded
    twice.indices %= X.shape[1]
    twice = sp.csr_matrix((twice.data, twice.indices, twice.indptr), shape=(len(X), X.shape[1]))
    plain = twice.toarray()
    models = [
        osvm.KernelClassifier(gamma=0.4, budget=20, eviction="merge", random_state=0).fit(Z, y)
        for Z in (plain, twice)
    ]
    np.testing.assert_allclose(
        models[0].decision_function(plain), models[1].decision_function(twice), atol=1e-9
    )


def test_long_unions_are_projected():
    """Rows of many different words would grow without bound."""
    rng = np.random.default_rng(0)
    X = sp.random(600, 3000, density=0.01, format="csr", rng=rng)
    y = rng.integers(0, 2, 600)
    model = osvm.KernelClassifier(gamma=0.02, budget=15, eviction="merge", random_state=0)
    model.fit(X, y)
    longest = np.diff(X.indptr).max()
    assert np.diff(model.support_vectors_.indptr).max() <= 4 * longest
    assert np.isfinite(model.decision_function(X)).all()
    own = model.support_vectors_.toarray() @ X.toarray().T
    squares = (
        (model.support_vectors_.toarray() ** 2).sum(1)[:, None]
        + (X.toarray() ** 2).sum(1)
        - 2 * own
    )
    expected = model.dual_coef_ @ np.exp(-0.02 * squares) + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), expected[0], atol=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "polynomial", "sigmoid", "cosine", "precomputed"])
@pytest.mark.parametrize("eviction", ["merge", "project"])
def test_every_kernel_projects(kernel, eviction):
    """Zero rows have terms of norm zero under some of them: then the smallest term goes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    X[::7] = 0.0
    y = X[:, 0] > 0
    if kernel == "precomputed":
        X = X @ X.T
    model = osvm.KernelClassifier(kernel=kernel, budget=8, eviction=eviction, random_state=0)
    model.fit(X, y)
    assert model.n_support_ == 8
    assert np.isfinite(model.decision_function(X)).all()
    if kernel in ("linear", "precomputed"):
        assert model.score(X, y) > 0.8


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_merging_beats_removal(kernel):
    """Rings: few merged rows hold what few removed ones forget."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    y = np.floor(1.5 * np.hypot(*X.T)) % 2
    options = {
        "budget": 60, "gamma": 2.0, "schedule": "bottou", "reg": 1e-4, "random_state": 0,
    }  # fmt: skip
    if kernel == "linear":
        y = X[:, 0] + X[:, 1] > 0
        options["kernel"] = "linear"
    merged = osvm.KernelClassifier(eviction="merge", **options).fit(X, y).score(X, y)
    removed = osvm.KernelClassifier(eviction="coefficient", **options).fit(X, y).score(X, y)
    assert merged >= removed + (0.1 if kernel == "rbf" else -0.02)
