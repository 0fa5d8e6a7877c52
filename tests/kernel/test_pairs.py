"""Several classes one against one: values that the pairs of a class share."""

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm import kernels, solvers
from osvm.kernel.cached import pairs
from osvm.kernel.cached.task import Task

ADATRON = solvers.get("adatron")


def six_classes(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 12))
    codes = (X @ rng.normal(size=(12, 6)) + rng.normal(size=(n, 6))).argmax(axis=1)
    return X, codes


def make_task(X, **options):
    kernel = kernels.get("rbf", gamma=0.1)
    return Task(X, np.zeros((1, X.shape[0])), kernel, rng=np.random.default_rng(0), **options)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])  # columns of float32 and of float64
def test_shared_values_give_the_solution_of_each_pair_alone(kind, tol):
    X, codes = six_classes()
    X = sp.csr_matrix(X) if kind == "csr" else X
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(codes))
    task = make_task(X, tol=tol, weights=weights)
    kept = pairs.class_columns(ADATRON, task, pairs.class_members(codes, 6))
    assert len(kept) == 6
    assert kept[0].dtype == (np.float32 if tol == 1e-3 else np.float64)
    together = pairs.solve_pairs(ADATRON, task, codes, 6)
    assert together.converged
    K = task.kernel(X)
    parts = pairs.split_pairs(task, pairs.class_members(codes, 6))
    for pair, ((p, q), (rows, part)) in enumerate(zip(pairs.class_pairs(6), parts)):
        alone = ADATRON.solve(part)
        first = part.Y[0] > 0
        alpha = np.where(first, together.alpha[q - 1, rows], together.alpha[p, rows])
        found = K[np.ix_(rows, rows)] @ alpha + together.b[pair]
        assert np.abs(found - alone.outputs[0]).max() < 30 * tol
        assert abs(alpha.sum()) < 1e-9
        assert (part.Y[0] * alpha >= 0).all()
        assert (np.abs(alpha) <= task.C * weights[rows] + 1e-12).all()


def test_shared_columns_stay_within_the_cache():
    X, codes = six_classes(n=2400)
    for cache_size in (6.0, 12.0):
        task = make_task(X, cache_size=cache_size)
        members = pairs.class_members(codes, 6)
        kept = pairs.class_columns(ADATRON, task, members)
        held = sum(c.n_slots * c.n * c.dtype.itemsize for c in kept)
        assert kept
        assert held <= cache_size * 2**19
        for _, part in pairs.split_pairs(task, members, kept):
            columns = part.columns(None)
            assert columns.n_slots * columns.n * columns.dtype.itemsize <= cache_size * 2**19


def test_nothing_is_shared_where_it_does_not_pay():
    X, codes = six_classes()
    members = pairs.class_members(codes, 6)
    assert pairs.class_columns(ADATRON, make_task(X), members)
    assert not pairs.class_columns(ADATRON, make_task(X), members[:4])  # few classes
    assert not pairs.class_columns(ADATRON, make_task(X, cache_size=1.0), members)
    assert not pairs.class_columns(ADATRON, make_task(X[:, :3]), members)  # distances are cheap
    assert not pairs.class_columns(solvers.get("lasvm"), make_task(X), members)


def test_shared_values_are_computed_once():
    X, codes = six_classes()
    task = make_task(X)
    fit = pairs.solve_pairs(ADATRON, task, codes, 6)
    members = pairs.class_members(codes, 6)
    alone = [ADATRON.solve(part) for _, part in pairs.split_pairs(task, members)]
    computed = sum(one.columns["computed"] for one in alone)
    assert fit.columns["computed"] < 0.75 * computed


def test_svc_of_six_classes_predicts_as_the_pairs_say():
    X, codes = six_classes()
    names = np.array(list("abcdef"))[codes]
    model = osvm.SVC(gamma=0.1, tol=1e-6).fit(X, names)
    other = osvm.SVC(gamma=0.1, tol=1e-6, solver="lasvm").fit(X, names)
    assert np.abs(model.decision_function(X) - other.decision_function(X)).max() < 1e-4
