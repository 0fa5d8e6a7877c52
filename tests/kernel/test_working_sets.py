"""The adatron on working sets and LASVM: references, LIBSVM's objective, margins."""

import numpy as np
import pytest
import reference_cached as ref

import osvm
from kernel.test_sequential import close, problem
from osvm import solvers
from osvm.kernel.cached.columns import Columns
from osvm.kernel.cached.lasvm import Lasvm
from osvm.kernel.cached.working_sets import BlockSolver, grow_together, solve_together


def columns_of(K):
    return Columns(K, "precomputed", dtype=np.float64)


def solve(K, y, C, *, bias=False, size=64, tol=1e-6, start=None):
    solver = BlockSolver(columns_of(K), y, np.full(len(y), C), bias=bias, size=size)
    for m in (start or len(y), len(y)):
        solver.grow(m)
        assert solver.solve(tol, max_sets=20000)
    return solver


def libsvm(K, y, C, bias):
    """LIBSVM's coefficients and offset.

    Without an offset: on the doubled problem [[K, -K], [-K, K]], (y, -y) with C/2 the offset
    is 0 by symmetry and the two halves add up to the solution of the problem without one.
    """
    svm = pytest.importorskip("sklearn.svm")
    if bias:
        machine = svm.SVC(C=C, kernel="precomputed", tol=1e-8).fit(K, y)
        alpha = np.zeros(len(y))
        alpha[machine.support_] = machine.dual_coef_[0]
        return alpha, machine.intercept_[0]
    n = len(y)
    double = np.block([[K, -K], [-K, K]])
    machine = svm.SVC(C=C / 2, kernel="precomputed", tol=1e-8).fit(double, np.r_[y, -y])
    alpha = np.zeros(2 * n)
    alpha[machine.support_] = machine.dual_coef_[0]
    return alpha[:n] - alpha[n:], 0.0


@pytest.mark.parametrize("C", [0.1, 3.0])
def test_set_of_one_is_the_adatron_with_the_largest_violation(C):
    _, y, K, _ = problem(80)
    alpha = ref.adatron_largest(K, y, C, 1e-3)
    solver = BlockSolver(columns_of(K), y, np.full(80, C), size=1)
    solver.grow(80)
    assert solver.solve(1e-3, inner=1e-9)
    close(solver.alpha_, alpha)
    close(solver.outputs, K @ alpha)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("size", [8, 64, 256])
@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_working_sets_reach_libsvm_objective(C, size, bias):
    _, y, K, _ = problem(200, seed=3)
    expected, offset = libsvm(K, y, C, bias)
    solver = solve(K, y, C, bias=bias, size=size, start=50)
    best = ref.dual_objective(K, y, expected)
    found = ref.dual_objective(K, y, solver.alpha_)
    assert found == pytest.approx(best, rel=1e-6)
    assert (solver.a >= 0).all()
    assert (solver.a <= C).all()
    close(solver.outputs, K @ solver.alpha_, 1e-8)
    if bias:
        assert abs(solver.alpha_.sum()) < 1e-9
        assert solver.b == pytest.approx(offset, abs=1e-3)


def test_float32_columns_reach_it_to_a_thousandth():
    X, y, K, _ = problem(200, seed=3)
    for bias in (False, True):
        best = ref.dual_objective(K, y, libsvm(K, y, 1.0, bias)[0])
        solver = BlockSolver(Columns(X, gamma=0.7), y, np.ones(200), bias=bias)
        solver.grow(200)
        assert solver.solve(1e-3)
        assert ref.dual_objective(K, y, solver.alpha_) == pytest.approx(best, rel=1e-3)


def test_adatron_in_order_reaches_libsvm_objective():
    from osvm.kernel.cached.sequential import OnlineLoop

    _, y, K, _ = problem(150)
    best = ref.dual_objective(K, y, libsvm(K, y, 1.0, False)[0])
    loop = OnlineLoop(columns_of(K), y, "adatron", 1.0)
    for _ in range(300):
        if loop.run(np.arange(150))[1] < 1e-4:
            break
    assert ref.dual_objective(K, y, loop.alpha_[0]) == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("bias", [False, True])
def test_separable_data_maximum_margin(bias):
    """Hard margin: every row at distance at least 1/||w||, support vectors exactly there."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(40, 2)) + 4, rng.normal(size=(40, 2)) - 4])
    y = np.repeat([1.0, -1.0], 40)
    K = X @ X.T
    solver = solve(K, y, 1e9, bias=bias, tol=1e-7)
    margins = y * (solver.outputs + (solver.b if bias else 0.0))
    assert margins.min() > 1 - 1e-5
    assert np.allclose(margins[solver.a > 1e-9], 1, atol=1e-4)
    # no direction on a fine grid separates better
    w = solver.alpha_ @ X
    angles = np.linspace(0, np.pi * 2, 20001)
    scores = (X @ np.array([np.cos(angles), np.sin(angles)])) * y[:, None]
    if bias:
        best = 0.5 * (scores[:40].min(0) + scores[40:].min(0)).max()
    else:
        best = scores.min(0).max()
    assert 1 / np.linalg.norm(w) == pytest.approx(best, rel=1e-5)


def test_start_from_known_coefficients():
    _, y, K, _ = problem(120)
    done = solve(K, y, 1.0, bias=True)
    again = BlockSolver(columns_of(K), y, np.ones(120), bias=True)
    again.start(done.alpha_)
    again.solve(1e-5)
    assert again.n_steps <= 5
    with pytest.raises(ValueError, match="sum to 0"):
        BlockSolver(columns_of(K), y, np.ones(120), bias=True).start(np.where(y > 0, 1.0, 0.0))


def test_a_class_with_one_row_or_none():
    K = np.eye(6)
    y = np.array([1.0, -1, -1, -1, -1, -1])
    solver = solve(K, y, 1.0, bias=True)
    assert np.sign(solver.outputs + solver.b)[0] == 1
    solver = solve(K, np.ones(6), 1.0, bias=True)
    assert (solver.a == 0).all()
    assert solver.b == 1.0


# ----------------------------------------------------------------------- LASVM


@pytest.mark.parametrize("admit_all", [False, True])
@pytest.mark.parametrize("C", [0.2, 5.0])
def test_lasvm_matches_its_reference(C, admit_all):
    _, y, K, epochs = problem(100)
    naive = ref.Lasvm(K, y, C, 1e-3, admit_all)
    naive.learn(epochs[:0], finish=False)
    fast = Lasvm(columns_of(K), y, np.full(100, C), 1e-3, admit_all=admit_all)
    rng = np.random.default_rng(5)
    for _ in range(2):
        order = rng.permutation(100)
        naive.learn([order], finish=False)
        fast.run(order)
        close(fast.alpha, naive.alpha, 1e-9)
        assert fast.active_.tolist() == naive.active
    # the finishing step takes other pairs on its way to the same end
    naive.tau = 1e-8
    naive.learn([])
    assert fast.finish(1e-8) > 0
    close(fast.alpha, naive.alpha, 1e-6)
    close(fast.outputs, K @ naive.alpha, 1e-6)
    assert fast.b == pytest.approx(naive.b, abs=1e-6)
    assert sorted(fast.active_) == sorted(naive.active)
    close(fast.outputs, K @ fast.alpha)
    assert fast.gap <= 1e-8
    assert fast.finish(1e-8) == 0


def test_lasvm_admitted_violators_only():
    differ = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((60, 2)), rng.choice([-1.0, 1.0], 60)
        X[:, 0] += y
        few, every = (
            osvm.SVC(
                solver=solvers.LaSvm(admit=admit, finish=False, shuffle=False),
                C=0.1,
                gamma=0.05,
                max_iter=2,
            )
            .fit(X, y)
            .decision_function(X)
            for admit in ("violators", "all")
        )
        differ += not np.allclose(few, every, rtol=0, atol=1e-6)
    assert differ > 0
    with pytest.raises(ValueError, match="admit must be 'violators' or 'all'"):
        osvm.SVC(solver=solvers.LaSvm(admit="some")).fit(X, y)


@pytest.mark.parametrize("C", [0.5, 10.0])
def test_finished_lasvm_reaches_libsvm_objective(C):
    _, y, K, _ = problem(200, seed=4)
    best = ref.dual_objective(K, y, libsvm(K, y, C, True)[0])
    fast = Lasvm(columns_of(K), y, np.full(200, C), 1e-3)
    rng = np.random.default_rng(0)
    for _ in range(5):
        fast.run(rng.permutation(200))
        fast.finish()
    assert ref.dual_objective(K, y, fast.alpha) == pytest.approx(best, rel=1e-3)
    assert abs(fast.alpha.sum()) < 1e-9


@pytest.mark.parametrize("C", [0.5, 10.0])
def test_lasvm_finished_on_all_rows_needs_one_epoch(C):
    _, y, K, (order, *_) = problem(200, seed=4)
    best = ref.dual_objective(K, y, libsvm(K, y, C, True)[0])
    fast = Lasvm(columns_of(K), y, np.full(200, C), 1e-3)
    fast.run(order[order < 150])  # the others have never been seen
    fast.finish(everywhere=True)
    assert ref.dual_objective(K, y, fast.alpha) == pytest.approx(best, rel=1e-5)
    assert set(np.flatnonzero(fast.alpha)) <= set(fast.active_)
    close(fast.outputs, K @ fast.alpha)
    assert fast.run(order) == 0


# ------------------------------------------------------- several problems at once


@pytest.mark.parametrize("cache_mb", [0.001, 200.0])
@pytest.mark.parametrize("bias", [False, True])
def test_problems_side_by_side_are_solved_as_alone(bias, cache_mb):
    """Also where the cache holds the columns of two working sets, not of all."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 12))
    Y = np.where(X[:, :5].T + 0.5 * rng.normal(size=(5, 700)) > 0, 1.0, -1.0)
    columns = Columns(X, gamma=0.05, dtype=np.float64, cache_mb=cache_mb)
    assert columns.n_slots == (256 if cache_mb < 1 else 700)
    solvers = [BlockSolver(columns, y, np.ones(700), bias=bias, size=128) for y in Y]
    for m in (300, 700):
        grow_together(solvers, m)
        assert solve_together(solvers, 1e-8, 10**6) == [True] * 5
    for y, solver in zip(Y, solvers):
        alone = BlockSolver(
            Columns(X, gamma=0.05, dtype=np.float64), y, np.ones(700), bias=bias, size=128
        )
        alone.grow(700)
        assert alone.solve(1e-8)
        assert np.allclose(solver.outputs, alone.outputs, atol=1e-6)
        assert np.allclose(solver.outputs, solver.alpha_ @ columns.take(range(700)), atol=1e-9)
        assert solver.violation <= 1e-8


def test_a_limit_of_sets_holds_for_each_problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    Y = np.where(rng.normal(size=(3, 400)) > 0, 1.0, -1.0)
    Y[0] = np.where(X[:, 0] > 0, 1.0, -1.0)  # the easy one ends sooner
    columns = Columns(X, gamma=1.0)
    solvers = [BlockSolver(columns, y, np.full(400, 10.0), bias=True) for y in Y]
    grow_together(solvers, 400)
    good = solve_together(solvers, 1e-1, 20)
    assert [solver.n_sets for solver in solvers][1:] == [20, 20]
    assert good[1:] == [False, False]
    with pytest.raises(ValueError, match="grow first"):
        solve_together([BlockSolver(columns, Y[0], np.ones(400))], 1e-3, 5)


@pytest.mark.parametrize("solver", ["adatron", "lasvm"])
@pytest.mark.parametrize("unit", [1e-8, 1e-11, 1e8])
def test_units_of_rows_do_not_matter(solver, unit):
    """A curvature below 1e-12 was taken for that, and steps were too small to arrive."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 16))
    y = X @ rng.normal(size=16) > 0
    options = {"kernel": "linear", "solver": solver, "random_state": 0, "max_iter": 500}
    plain = osvm.SVC(C=10.0, **options).fit(X, y)
    other = osvm.SVC(C=10.0 / unit**2, **options).fit(unit * X, y)
    assert other.n_iter_.max() <= plain.n_iter_.max() + 1
    np.testing.assert_allclose(other.coef_ * unit, plain.coef_, rtol=1e-2, atol=1e-2)
