"""A set much larger than the cache: rows that rest do not change what is learnt."""

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm import solvers
from osvm.kernel.cached.resting import can_rest
from osvm.kernel.cached.task import Task


def problem(n=1600, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 12))
    return X, np.sign(X[:, 0] + X[:, 1] ** 2 / 2 - 0.5 + noise * rng.normal(size=n))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, lambda X: X.astype(np.float32)])
@pytest.mark.parametrize("noise", [0.05, 3.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_the_solution_is_that_of_a_large_cache(kernel, fit_intercept, noise, form):
    X, y = problem(noise=noise)
    weight = np.random.default_rng(1).uniform(0, 2, len(y))
    weight[::7] = 0
    found = []
    for size in (0.5, 200):
        solver = solvers.Adatron(fit_intercept=fit_intercept)
        model = osvm.SVC(C=5.0, kernel=kernel, degree=2, coef0=1.0, cache_size=size,
                         solver=solver, tol=1e-5)  # fmt: skip
        model.fit(form(X), y, sample_weight=weight)
        assert model.fit_status_ == 0
        assert hasattr(model, "outputs_") == (size == 200)
        found.append(model)
    small, large = found
    np.testing.assert_allclose(small.decision_function(X), large.decision_function(X), atol=2e-3)
    # the optimality conditions on every row, from the coefficients alone
    y_f = y * small.decision_function(X)
    a = np.zeros(len(y))
    a[small.support_] = np.abs(small.dual_coef_[0])
    top = 5.0 * weight
    slack = 1e-4 if form(X).dtype == np.float64 else 1e-3
    assert (y_f[(a == 0) & (top > 0)] >= 1 - slack).all()
    assert (y_f[(a >= top) & (top > 0)] <= 1 + slack).all()
    free = (a > 0) & (a < top)
    assert np.abs(y_f[free] - 1).max() <= slack


def test_who_rests():
    X, y = problem()
    task = Task(X, y[None, :], osvm.kernels.RBF(gamma=0.1), cache_size=0.5)
    assert can_rest(task, "float32")
    assert not can_rest(Task(X, y[None, :], task.kernel, cache_size=200), "float32")
    assert not can_rest(Task(X, np.stack([y, -y]), task.kernel, cache_size=0.5), "float32")
    given = Task(X @ X.T, y[None, :], osvm.kernels.get("precomputed"), cache_size=0.5)
    assert not can_rest(given, "float32")


def test_passes_are_limited():
    X, y = problem(noise=3.0)
    with pytest.warns(osvm.ConvergenceWarning, match="max_iter"):
        model = osvm.SVC(C=1e4, max_iter=1, tol=1e-6, cache_size=0.5).fit(X, y)
    assert model.fit_status_ == 1
    assert model.n_iter_[0] <= 3
