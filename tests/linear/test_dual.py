"""Dual coordinate ascent against its equations, its optimum and its peers."""

import signal
import threading

import numpy as np
import pytest
import reference_dual as reference
import scipy.sparse as sp

from osvm._input.rows import RowSource
from osvm.linear import narrow_rows
from osvm.linear.dual import OFFSET_STEP, DualSolver
from osvm.linear.dual_loop import exact_offset
from osvm.linear.interior_point import interior_point
from osvm.linear.narrow_rows import NarrowRows
from osvm.linear.newton import newton

LOSSES = ["hinge", "squared_hinge"]


def make_problem(n=200, d=30, seed=0, density=0.25):
    """Noisy two-class text-like rows, some of them empty; the CSR matrix and y."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, density, format="csr", random_state=rng, dtype=np.float64)
    X.data = rng.normal(size=X.nnz)
    keep = np.ones(n)
    keep[[0, 7]] = 0
    X = sp.csr_matrix(sp.diags(keep) @ X)
    X.eliminate_zeros()
    y = np.where(X @ rng.normal(size=d) + rng.normal(size=n) + 0.3 >= 0, 1.0, -1.0)
    return X, y


def rows(X, dtype=np.float64, index=np.int32):
    return RowSource.csr(
        X.data.astype(dtype), X.indices.astype(index), X.indptr.astype(index), X.shape[1]
    )


def objective(X, y, w, b, reg, squared=False, weight=None):
    m = np.maximum(0.0, 1.0 - y * (X @ w + b))
    loss = m**2 if squared else m
    return 0.5 * reg * w @ w + (loss if weight is None else weight * loss).mean()


# ------------------------------------------------------------ the trajectory


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("shrinking", [False, True])
@pytest.mark.parametrize("offset", [None, "free", 0.7])
@pytest.mark.parametrize("weighted", [False, True])
def test_whole_trajectory_follows_the_reference(loss, shuffle, shrinking, offset, weighted):
    X, y = make_problem()
    reg, epochs = 0.01, 6
    weight = None
    if weighted:
        weight = np.random.default_rng(3).uniform(0.1, 2.0, len(y))
        weight[5] = 0.0
    dense = X.toarray()
    bias_sq = 0.0
    if offset == "free":
        bias_sq = OFFSET_STEP * float(np.median((dense**2).sum(1).astype(np.float32)))
    elif offset is not None:
        bias_sq = offset**2
    steps = reference.dual_ascent(
        dense, y, reg, epochs, weight=weight, squared=loss == "squared_hinge",
        shrinking=shrinking, shuffle=shuffle, seed=11, bias_sq=bias_sq,
        free_offset=offset == "free",
    )  # fmt: skip
    for epoch, (alpha, w, b, _, n_active) in enumerate(steps, 1):
        seen = []

        def until(k, row, seen=seen, epoch=epoch):
            seen.append(row["active"])
            return row["epoch"] == epoch

        solver = DualSolver(
            X.shape[1], reg=reg, loss=loss, fit_intercept=offset is not None,
            intercept_scaling=None if offset == "free" else offset, shrinking=shrinking,
            shuffle=shuffle, seed=11,
        )  # fmt: skip
        solver.fit(rows(X), y, weight, tol=0.0, callback=until)
        np.testing.assert_allclose(solver.alpha, alpha, rtol=0, atol=1e-10)
        np.testing.assert_allclose(solver.weights.array(), w, rtol=0, atol=1e-10)
        if offset == "free":  # the best one for these weights
            b = reference.best_offset(dense @ w, y, weight, loss == "squared_hinge")
        np.testing.assert_allclose(solver.intercept, [b], rtol=0, atol=1e-7)
        assert len(seen) == epoch
        assert seen[-1] == n_active


@pytest.mark.parametrize("loss", LOSSES)
def test_the_order_of_large_sets_follows_the_reference(loss):
    X, y = make_problem(n=1500, d=15)  # two windows
    steps = reference.dual_ascent(
        X.toarray(), y, 0.01, 3, squared=loss == "squared_hinge", shrinking=True, shuffle=True,
        seed=5,
    )  # fmt: skip
    *_, (alpha, w, _, _, _) = steps
    solver = DualSolver(15, reg=0.01, loss=loss, seed=5)
    solver.fit(rows(X), y, tol=0.0, callback=lambda k, row: row["epoch"] == 3)
    np.testing.assert_allclose(solver.alpha, alpha, rtol=0, atol=1e-10)
    np.testing.assert_allclose(solver.weights.array(), w, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["f32-i32", "f32-i64", "f64-i64", "dense", "dense-F", "dense32"])
def test_every_kind_of_row_gives_the_same_model(kind):
    X, y = make_problem()
    X.data = X.data.astype(np.float32).astype(np.float64)
    expected = DualSolver(30, reg=0.01, fit_intercept=True).fit(rows(X), y, tol=1e-9)
    if kind.startswith("dense"):
        array = X.toarray(order="F" if kind == "dense-F" else "C")
        source = RowSource.dense(array.astype(np.float32 if kind == "dense32" else np.float64))
    else:
        dtype = np.float32 if kind.startswith("f32") else np.float64
        source = rows(X, dtype, np.int64 if kind.endswith("i64") else np.int32)
    solver = DualSolver(30, reg=0.01, fit_intercept=True).fit(source, y, tol=1e-9)
    np.testing.assert_allclose(solver.weights.array(), expected.weights.array(), atol=1e-5)
    np.testing.assert_allclose(solver.objective_, expected.objective_, rtol=1e-9)


def test_float32_weights_are_close():
    X, y = make_problem()
    exact = DualSolver(30, reg=0.01).fit(rows(X), y, tol=1e-8)
    single = DualSolver(30, reg=0.01, dtype=np.float32).fit(rows(X, np.float32), y, tol=1e-4)
    assert single.converged.all()
    np.testing.assert_allclose(single.objective_, exact.objective_, rtol=1e-4)
    assert single.weights.v.dtype == np.float32


# ---------------------------------------------------------------- the optimum


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("reg", [1.0, 0.01, 0.001])
@pytest.mark.parametrize("offset", [None, "free", 2.0])
def test_gap_is_true_and_reaches_the_tolerance(loss, reg, offset):
    X, y = make_problem()
    weight = np.random.default_rng(2).uniform(0.5, 1.5, len(y))
    solver = DualSolver(
        30, reg=reg, loss=loss, fit_intercept=offset is not None,
        intercept_scaling=None if offset == "free" else offset,
    )  # fmt: skip
    solver.fit(rows(X), y, weight, tol=1e-6, max_epochs=20_000)
    assert solver.converged.all()
    w, b = solver.weights.array(), solver.intercept[0]
    primal = objective(X, y, w, b, reg, loss == "squared_hinge", weight)
    if offset == 2.0:
        primal += 0.5 * reg * (b / 2.0) ** 2
    np.testing.assert_allclose(solver.objective_, primal, rtol=1e-10)
    assert 0.0 <= solver.dual_gap_[0] <= 1e-6 * primal * (1 + 1e-9)
    np.testing.assert_allclose(w, X.T @ (solver.alpha * y), atol=1e-9)
    assert solver.alpha.min() >= 0.0
    if loss == "hinge":
        assert np.all(solver.alpha <= weight / (reg * len(y)) * (1 + 1e-12))
    # any other point is worse than the bound
    rng = np.random.default_rng(0)
    for size in 1e-3, 1e-2, 1e-1:
        other = objective(
            X, y, w + size * rng.normal(size=30),
            b + (0.0 if offset is None else size * rng.normal()), reg, loss == "squared_hinge",
            weight,
        )  # fmt: skip
        assert other + (1.0 if offset == 2.0 else 0.0) > solver.dual_objective_[0]


@pytest.mark.parametrize("reg", [0.1, 0.01])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("offset", [False, True])
def test_agrees_with_liblinear(reg, loss, offset):
    svm = pytest.importorskip("sklearn.svm")
    X, y = make_problem()
    solver = DualSolver(
        30, reg=reg, loss=loss, fit_intercept=offset, intercept_scaling=1.0 if offset else None
    ).fit(rows(X), y, tol=1e-8, max_epochs=50_000)
    peer = svm.LinearSVC(
        C=1.0 / (reg * len(y)), loss=loss, dual=True, fit_intercept=offset, tol=1e-6,
        max_iter=50_000, random_state=0,
    ).fit(X, y)  # fmt: skip
    b = float(peer.intercept_[0]) if offset else 0.0
    best = objective(X, y, peer.coef_[0], b, reg, loss == "squared_hinge")
    best += 0.5 * reg * b**2
    np.testing.assert_allclose(solver.objective_, best, rtol=1e-6)
    np.testing.assert_allclose(solver.weights.array(), peer.coef_[0], atol=1e-2)


def test_free_offset_agrees_with_a_general_solver():
    svm = pytest.importorskip("sklearn.svm")
    X, y = make_problem()
    reg = 0.01
    solver = DualSolver(30, reg=reg, fit_intercept=True).fit(
        rows(X), y, tol=1e-8, max_epochs=50_000
    )
    peer = svm.SVC(C=1.0 / (reg * len(y)), kernel="linear", tol=1e-8).fit(X, y)
    best = objective(X, y, peer.coef_.toarray()[0], peer.intercept_[0], reg)
    np.testing.assert_allclose(solver.objective_, best, rtol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_one_class_only_with_a_free_offset(loss):
    X, _ = make_problem()
    solver = DualSolver(30, reg=0.1, loss=loss, fit_intercept=True)
    solver.fit(rows(X), np.ones(200), tol=1e-3, max_epochs=200)
    assert solver.intercept == 1.0
    assert not solver.weights.array().any()
    assert solver.converged.all()
    assert solver.objective_ == solver.dual_gap_ == 0.0
    y = np.where(np.arange(200) < 5, -1.0, 1.0)  # those of the other class weigh nothing
    solver.fit(rows(X), y, (y > 0).astype(float), warm_start=True)
    assert solver.intercept == 1.0
    assert solver.converged.all()


def test_repeated_and_unsorted_columns_mean_their_sum():
    X, y = make_problem()
    data, indices, indptr = X.data.copy(), X.indices.copy(), X.indptr
    for i in range(X.shape[0]):
        s = slice(indptr[i], indptr[i + 1])
        if indptr[i + 1] - indptr[i] >= 3:
            indices[s] = indices[s][::-1].copy()
            indices[indptr[i]] = indices[indptr[i] + 1]
    summed = sp.csr_matrix((data, indices, indptr), shape=X.shape)
    source = RowSource.csr(data, indices, indptr.astype(np.int32), 30)
    dense = RowSource.dense(summed.toarray())
    solver = DualSolver(30, reg=0.01).fit(source, y, tol=0.0, max_epochs=5)
    expected = DualSolver(30, reg=0.01).fit(dense, y, tol=0.0, max_epochs=5)
    np.testing.assert_allclose(solver.weights.array(), expected.weights.array(), atol=1e-9)


def test_row_factors_scale_the_rows():
    X, y = make_problem()
    scale = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    source = RowSource.csr(X.data, X.indices, X.indptr, 30, scale)
    solver = DualSolver(30, reg=0.01).fit(source, y, tol=0.0, max_epochs=4)
    expected = DualSolver(30, reg=0.01).fit(
        rows(sp.csr_matrix(sp.diags(scale) @ X)), y, tol=0.0, max_epochs=4
    )
    np.testing.assert_allclose(solver.weights.array(), expected.weights.array(), atol=1e-9)


@pytest.mark.parametrize("squared", [False, True])
def test_the_offset_is_the_best_one(squared):
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 10, 101):
        f, y = rng.normal(size=n).round(1), rng.choice([-1, 1], n).astype(np.int8)
        weight = rng.integers(0, 3, n).astype(float)
        for c in (None, weight):
            b, value = exact_offset(f, y, 0.5, c, squared)
            U = 0.5 * (np.ones(n) if c is None else c)

            def cost(b, U=U, f=f, y=y):
                m = np.maximum(0.0, 1.0 - y * (f + b))
                return U @ (m**2 if squared else m)

            np.testing.assert_allclose(value, cost(b), atol=1e-12)
            around = np.concatenate([y - f, b + np.linspace(-3, 3, 201)])
            assert value <= min(cost(other) for other in around) + 1e-12


# --------------------------------------------------------- few columns


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("offset", [None, "free", 0.5])
@pytest.mark.parametrize("sparse", [False, True])
def test_columns_of_other_scales_are_solved(loss, offset, sparse):
    X, y = make_problem(n=150, d=8, density=0.6)
    X = sp.csr_matrix(X.toarray() * 10.0 ** np.arange(-3, 5) + 1e3 * np.arange(8))
    weight = np.random.default_rng(2).uniform(0.5, 1.5, len(y))
    weight[3] = 0.0
    solver = DualSolver(
        8, reg=0.01, loss=loss, fit_intercept=offset is not None,
        intercept_scaling=None if offset == "free" else offset,
    )  # fmt: skip
    given = X if sparse else X.toarray()
    source = rows(X) if sparse else RowSource.dense(X.toarray())
    solver.fit(source, y, weight, tol=1e-5, rows=given)
    assert solver.converged.all()
    assert solver.n_epochs[0] <= 1000
    w, b = solver.weights.array(), solver.intercept[0]
    primal = objective(X, y, w, b, 0.01, loss == "squared_hinge", weight)
    if offset == 0.5:
        primal += 0.5 * 0.01 * (b / 0.5) ** 2
    np.testing.assert_allclose(solver.objective_, primal, rtol=1e-8)
    alpha = solver.alpha
    np.testing.assert_allclose(w, X.T @ (alpha * y), rtol=1e-4, atol=1e-6 * np.abs(w).max())
    assert alpha.min() >= 0.0
    assert alpha[3] == 0.0
    alone = DualSolver(
        8, reg=0.01, loss=loss, fit_intercept=offset is not None,
        intercept_scaling=None if offset == "free" else offset,
    ).fit(source, y, weight, tol=1e-5, max_epochs=100)  # fmt: skip
    assert not alone.converged.any()
    assert alone.objective_ > solver.objective_


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("copied", [0, narrow_rows.COPIED])
@pytest.mark.parametrize("form", ["csr", "float64", "float32"])
def test_methods_for_narrow_data_agree_with_coordinate_ascent(
    squared, offset, copied, form, monkeypatch
):
    monkeypatch.setattr(narrow_rows, "COPIED", copied)
    monkeypatch.setattr(narrow_rows, "BLOCK", 7)
    X, y = make_problem()
    X = sp.csr_matrix(X.astype(np.float32).astype(np.float64))
    U = np.full(len(y), 0.5)
    given = X if form == "csr" else X.toarray().astype(form)
    A = NarrowRows(given, y, offset, centered=offset)
    if squared:
        start = np.random.default_rng(0).normal(size=30 + offset)
        alpha, u, n_steps = newton(A, U, start, penalty=0.0, tol=1e-9, max_steps=50)
    else:
        alpha, u, n_steps = interior_point(A, U, penalty=0.0, tol=1e-9, max_steps=50)
    assert n_steps < 30
    w, b = A.solution(u)
    np.testing.assert_allclose(A.point(w, b), u)
    loss = "squared_hinge" if squared else "hinge"
    solver = DualSolver(30, reg=0.01, loss=loss, fit_intercept=offset)
    solver.fit(rows(X), y, tol=1e-8, max_epochs=10_000)
    found = objective(X, y, w, b, 0.01, squared)
    np.testing.assert_allclose(found, solver.objective_[0], rtol=1e-7)
    np.testing.assert_allclose(w, X.T @ (alpha * y), atol=1e-6)
    if offset:
        assert abs(alpha @ y) < 1e-9
    assert np.all((alpha >= 0) & (squared | (alpha < U)))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("copied", [0, narrow_rows.COPIED])
def test_columns_of_nine_magnitudes_on_a_large_mean_are_solved(loss, copied, monkeypatch):
    monkeypatch.setattr(narrow_rows, "COPIED", copied)
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(400, 10))
    y = np.where(Z.sum(axis=1) + rng.normal(size=400) > 0, 1.0, -1.0)
    scales = 10.0 ** np.linspace(-3, 6, 10)
    found = []
    for mean in (0.0, 1e5):
        X = Z * scales + mean
        solver = DualSolver(10, reg=1 / 400, loss=loss, fit_intercept=True)
        solver.fit(RowSource.dense(X), y, tol=1e-6, rows=X)
        assert solver.converged.all()
        found.append(solver.objective_[0])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


# ------------------------------------------------- one-vs-rest, starts, states


def make_labels(X, K, seed=0):
    return np.argmax(X @ np.random.default_rng(seed).normal(size=(X.shape[1], K)), axis=1)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_one_vs_rest_is_k_binary_problems(n_jobs):
    X, _ = make_problem()
    y = make_labels(X, 3)
    solver = DualSolver(30, 3, reg=0.01, fit_intercept=True)
    solver.fit(rows(X), y, tol=1e-7, n_jobs=n_jobs)
    W = solver.weights.array()
    np.testing.assert_allclose(solver.weights.norms, np.linalg.norm(W, axis=1))
    for k in range(3):
        single = DualSolver(30, reg=0.01, fit_intercept=True)
        single.fit(rows(X), np.where(y == k, 1.0, -1.0), tol=1e-7)
        np.testing.assert_allclose(solver.objective_[k], single.objective_[0], rtol=1e-6)
        np.testing.assert_allclose(W[k], single.weights.array(), atol=1e-2)
        np.testing.assert_allclose(
            W[k], X.T @ (solver.alpha[k] * np.where(y == k, 1.0, -1.0)), atol=1e-9
        )
    again = DualSolver(30, 3, reg=0.01, fit_intercept=True).fit(rows(X), y, tol=1e-7)
    assert np.array_equal(again.weights.array(), W)
    assert np.array_equal(again.alpha, solver.alpha)


def test_same_seed_same_bits():
    X, y = make_problem()
    runs = [DualSolver(30, reg=0.01, seed=s).fit(rows(X), y, tol=1e-4) for s in (1, 1, 2)]
    assert np.array_equal(runs[0].weights.array(), runs[1].weights.array())
    assert not np.array_equal(runs[0].weights.array(), runs[2].weights.array())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("offset", [False, True])
def test_warm_start_goes_on_from_the_dual_variables(loss, offset):
    X, y = make_problem()
    solver = DualSolver(30, reg=0.01, loss=loss, fit_intercept=offset).fit(
        rows(X), y, tol=1e-8, max_epochs=5000
    )
    best = solver.objective_[0]
    solver.fit(rows(X), y, tol=1e-7, max_epochs=5000, warm_start=True)
    assert solver.n_epochs[0] <= 4
    np.testing.assert_allclose(solver.objective_, best, rtol=1e-7)
    half = np.where(np.arange(200) % 2, 0.5, 0.0)  # the box shrinks: alpha is cut to fit
    solver.fit(rows(X), y, half, tol=1e-7, max_epochs=5000, warm_start=True)
    cold = DualSolver(30, reg=0.01, loss=loss, fit_intercept=offset).fit(
        rows(X), y, half, tol=1e-7, max_epochs=5000
    )
    np.testing.assert_allclose(solver.objective_, cold.objective_, rtol=1e-6)
    with pytest.raises(ValueError, match="200 rows"):
        solver.fit(rows(X[:50]), y[:50], warm_start=True)


def test_history_and_callback():
    X, y = make_problem()
    seen = []
    solver = DualSolver(30, reg=0.01)
    solver.fit(rows(X), y, tol=1e-6, callback=lambda k, row: seen.append((k, row)))
    history = solver.history[0]
    assert [row["epoch"] for _, row in seen] == list(history["epoch"])
    assert 0 < solver.n_epochs[0] <= len(seen) + len(seen) // 2  # with the passes for the gap
    assert np.isnan(history["primal"][0])  # an epoch without a pass over all rows
    np.testing.assert_allclose(history["gap"][-1], solver.dual_gap_[0])
    assert np.all(np.diff(history["dual"]) >= -1e-12)
    solver.fit(rows(X), y, tol=0.0, callback=lambda k, row: row["epoch"] == 3)
    assert len(solver.history[0]["epoch"]) == 3
    np.testing.assert_allclose(
        solver.objective_, objective(X, y, solver.weights.array(), 0.0, 0.01)
    )


def test_shrinking_sets_rows_aside_and_changes_nothing_at_the_end():
    X, y = make_problem(n=600)
    on = DualSolver(30, reg=0.01).fit(rows(X), y, tol=1e-8, max_epochs=20_000)
    off = DualSolver(30, reg=0.01, shrinking=False).fit(rows(X), y, tol=1e-8, max_epochs=20_000)
    assert on.history[0]["active"].min() < 300
    assert np.all(off.history[0]["active"] == 600)
    assert on.converged.all()
    assert off.converged.all()
    np.testing.assert_allclose(on.objective_, off.objective_, rtol=1e-8)


# ------------------------------------------------------------------- errors


def test_errors_name_the_row_and_leave_the_solver_alone():
    X, y = make_problem()
    solver = DualSolver(30, reg=0.01).fit(rows(X), y)
    before = solver.weights.array()
    bad = y.copy()
    bad[17] = 2.0
    weight = np.ones(200)
    weight[9] = -1.0
    for arguments, message in [
        ((rows(X), bad), "row 17"),
        ((rows(X), y[:-1]), "200 labels"),
        ((rows(X), y, weight), "row 9"),
        ((rows(X), y, weight[:3]), "200 sample weights"),
        ((RowSource.dense(np.ones((200, 4))), y), "4 features"),
        ((RowSource.dense(np.ones((0, 30))), y[:0]), "no rows"),
    ]:
        with pytest.raises(ValueError, match=message):
            solver.fit(*arguments)
    with pytest.raises(ValueError, match="tol"):
        solver.fit(rows(X), y, tol=np.nan)
    with pytest.raises(ValueError, match="max_epochs"):
        solver.fit(rows(X), y, max_epochs=0)
    huge = X.copy()
    huge.data[huge.indptr[20]] = 1e200
    with pytest.raises(ValueError, match=r"row 20.*overflow"):
        solver.fit(rows(huge), y)
    assert np.array_equal(solver.weights.array(), before)
    assert np.isfinite(solver.dual_gap_).all()
    for words in ({"reg": 0.0}, {"reg": 1.0, "loss": "logistic"},
                  {"reg": 1.0, "intercept_scaling": 0.0}):  # fmt: skip
        with pytest.raises(ValueError, match=r"must be|needs one of"):
            DualSolver(3, **words)


@pytest.mark.parametrize("K", [1, 3])
def test_interrupt_leaves_a_usable_model(K):
    rng = np.random.default_rng(0)
    X = RowSource.dense(rng.normal(size=(4000, 300)))
    y = np.where(rng.random(4000) < 0.5, 1.0, -1.0) if K == 1 else rng.integers(0, 3, 4000)
    solver = DualSolver(300, K, reg=1e-7)
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        solver.fit(X, y, tol=0.0, max_epochs=10**9)
    assert np.isfinite(solver.weights.array()).all()
    assert solver.weights.array().any()
    assert solver.n_epochs[0] > 0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("max_epochs", [2, 3, 5, 8, 20])
def test_the_gap_is_true_wherever_a_method_for_narrow_data_ends(loss, max_epochs):
    X, y = make_problem()
    best = DualSolver(30, reg=1e-4, loss=loss, fit_intercept=True)
    best.fit(rows(X), y, tol=1e-9, rows=X, narrow_first=True)
    assert best.converged.all()
    solver = DualSolver(30, reg=1e-4, loss=loss, fit_intercept=True)
    solver.fit(rows(X), y, tol=1e-9, max_epochs=max_epochs, rows=X, narrow_first=True)
    assert solver.n_epochs[0] <= max_epochs
    assert (
        solver.dual_objective_[0]
        <= best.objective_[0] * (1 + 1e-9)
        <= solver.objective_[0] * (1 + 2e-9)
    )
    np.testing.assert_allclose(
        solver.objective_,
        objective(X, y, solver.weights.array(), solver.intercept, 1e-4, loss == "squared_hinge"),
        rtol=1e-9,
    )


@pytest.mark.parametrize("C", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("offset", [False, True])
def test_separable_rows_with_a_large_C_are_solved(C, offset):
    """Coordinate ascent ends after 114 passes here, where its sums have lost their digits."""
    X, y = pytest.importorskip("sklearn.datasets").load_iris(return_X_y=True)
    X, y = X[:100], 2.0 * y[:100] - 1.0
    solver = DualSolver(4, reg=1 / (100 * C), loss="hinge", fit_intercept=offset)
    solver.fit(RowSource.dense(X), y, tol=1e-4, rows=X)
    assert solver.converged.all()
    alone = DualSolver(4, reg=1 / (100 * C), loss="hinge", fit_intercept=offset)
    alone.fit(RowSource.dense(X), y, tol=1e-4)
    assert alone.converged.all() == (C == 1e2)
    assert solver.objective_ <= alone.objective_ * (1 + 1e-4)
