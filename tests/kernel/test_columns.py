"""Kernel columns: values on every kind of rows, the cache, prefixes."""

import numpy as np
import pytest
import scipy.sparse as sp

from osvm import kernels
from osvm.kernel.cached.columns import Columns, join_columns

KERNELS = [
    ("rbf", {"gamma": 0.3}),
    ("linear", {}),
    ("polynomial", {"gamma": 0.5, "coef0": 1.0, "degree": 2}),
    ("sigmoid", {"gamma": 0.1, "coef0": 0.2}),
    ("cosine", {}),
]


def rows_of(kind, n=600, d=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.4)
    if kind == "dense":
        return X
    if kind == "few":
        return X[:, :3]
    S = sp.csr_matrix(X)
    if kind == "long indices":
        S.indices, S.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    if kind == "single precision":
        S = S.astype(np.float32)
    if kind == "repeated":  # each value in two halves
        S = sp.csr_matrix(
            (np.repeat(S.data / 2, 2), np.repeat(S.indices, 2), S.indptr * 2), shape=S.shape
        )
    return S


KINDS = ["dense", "few", "csr", "long indices", "single precision", "repeated"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "parameters"), KERNELS)
def test_values(kind, name, parameters):
    X = rows_of(kind)
    plain = X.toarray().astype(float) if sp.issparse(X) else X
    K = kernels.get(name, **parameters)(plain)
    picked = np.random.default_rng(1).permutation(600)[:150]
    for dtype, tol in ((np.float64, 1e-12), (np.float32, 2e-4)):
        if kind == "single precision" and dtype == np.float64:
            tol = 1e-6
        columns = Columns(X, name, dtype=dtype, **parameters)
        assert np.abs(columns.take(picked) - K[picked]).max() < tol * max(1, np.abs(K).max())
        square = columns.square(picked)
        assert np.abs(square - K[np.ix_(picked, picked)]).max() < tol * max(1, np.abs(K).max())


@pytest.mark.parametrize("kind", ["dense", "few", "csr"])
def test_order_and_offset(kind):
    X = rows_of(kind)
    order = np.random.default_rng(2).permutation(600)[:500]
    plain = X.toarray() if sp.issparse(X) else X
    K = kernels.get("rbf", gamma=0.3)(plain)[np.ix_(order, order)] + 1
    columns = Columns(X, gamma=0.3, dtype=np.float64, order=order, offset=1.0)
    assert columns.n == 500
    assert np.allclose(columns.take(range(0, 500, 7)), K[::7], rtol=1e-12)


def test_cache_holds_what_fits_and_counts():
    X = rows_of("dense")
    columns = Columns(X, gamma=0.3, cache_mb=0)
    assert columns.n_slots == 256  # a block always fits
    columns.take(range(256))
    assert columns.computed == 256
    assert columns.hits == 0
    columns.take([255, 0])
    assert columns.hits == 2
    columns.take([300])  # evicts the column used longest ago, 1
    columns.take([0, 2])
    assert columns.hits == 4
    columns.take([1])
    assert columns.computed == 258


def test_eviction_keeps_values_right():
    X = rows_of("dense")
    K = kernels.get("rbf", gamma=0.3)(X)
    columns = Columns(X, gamma=0.3, cache_mb=0, dtype=np.float64)
    rng = np.random.default_rng(0)
    for _ in range(20):
        picked = rng.permutation(600)[:100]
        assert np.allclose(columns.take(picked), K[picked], rtol=1e-12)


def test_python_function_and_precomputed():
    X = rows_of("dense")
    function = kernels.get("rbf", gamma=0.3)
    K = function(X)
    assert np.allclose(Columns(X, function, dtype=np.float64).take([3, 5]), K[[3, 5]])
    assert np.allclose(Columns(K, "precomputed", dtype=np.float64).take([3, 5]), K[[3, 5]])
    with pytest.raises(ValueError, match="square"):
        Columns(X, "precomputed")
    with pytest.raises(ValueError, match="returned shape"):
        Columns(X, lambda A, B: np.zeros(3)).take([1])


def test_refusals():
    X = rows_of("dense")
    with pytest.raises(ValueError, match="unknown kernel"):
        Columns(X, "nonsense")
    with pytest.raises(ValueError, match="float32 or float64"):
        Columns(X, dtype=np.int32)
    with pytest.raises(IndexError):
        Columns(X).take([600])


def test_an_error_in_the_kernel_leaves_the_cache_whole():
    X = rows_of("dense")
    calls = []

    def sometimes(A, B):
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("no")
        return A @ B.T

    columns = Columns(X, sometimes, dtype=np.float64)
    with pytest.raises(RuntimeError):
        columns.take([4])
    assert np.allclose(columns.take([4]), X[[4]] @ X.T)


@pytest.mark.parametrize("gamma", [1e-6, 0.3, 40.0, 1e9])
def test_gaussian_of_few_features_is_exact_to_float32(gamma):
    X = rows_of("few")[:, :2].astype(np.float32)
    sq = ((X[:, None].astype(float) - X[None]) ** 2).sum(2)
    found = Columns(X, gamma=gamma).take(np.arange(600))
    expected = np.exp(-gamma * sq)
    # distance and product are rounded, so the error grows with the exponent
    assert (np.abs(found - expected) <= 3e-7 * expected * (1 + gamma * sq) + 1e-27).all()
    assert (np.diag(found) == 1.0).all()


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_joined_columns_are_those_of_all_rows(kind, dtype):
    X = rows_of(kind)
    plain = X.toarray() if sp.issparse(X) else X
    K = kernels.get("rbf", gamma=0.3)(plain) + 1
    options = {"gamma": 0.3, "dtype": dtype, "offset": 1.0}
    # one of them holds too few columns, so that some are computed again
    halves = [Columns(X[:350], cache_mb=0.1, **options), Columns(X[350:], **options)]
    columns = join_columns(*halves, cache_mb=200.0)
    rng = np.random.default_rng(0)
    for m in (200, 350, 400, 600):  # prefixes that grow across the boundary
        columns.touch_block(rng.permutation(600)[:200], m)
    tol = 1e-12 if dtype == np.float64 else 1e-5
    assert np.abs(columns.take(range(600)) - K).max() < tol
    picked = rng.permutation(600)[:200]
    assert np.abs(columns.square(picked) - K[np.ix_(picked, picked)]).max() < tol
    # only the values between the halves were computed here
    again = join_columns(*halves, cache_mb=200.0)
    again.take(range(350))
    assert again.computed == pytest.approx(350 * 250 / 600)
    assert halves[1].computed == pytest.approx(250)


def test_columns_of_another_kind_are_not_joined():
    X = rows_of("dense")
    first = Columns(X[:300], gamma=0.3)
    others = [
        Columns(X[300:], gamma=0.2),
        Columns(X[300:], gamma=0.3, dtype=np.float64),
        Columns(X[300:], gamma=0.3, offset=1.0),
        Columns(X[300:, 1:], gamma=0.3),
        Columns(sp.csr_matrix(X[300:]), gamma=0.3),
        Columns(X[300:], lambda A, B: A @ B.T),
    ]
    for other in others:
        with pytest.raises(ValueError, match="cannot be joined"):
            join_columns(first, other, cache_mb=1.0)
