"""Wide loops against plain ones, and the dot product that fetches ahead."""

import numpy as np
import pytest
import scipy.sparse as sp

from osvm._input.rows import RowSource
from osvm._input.scan import largest_magnitude, open_csr, open_dense
from osvm.linear import weights
from osvm.linear.weights import ScaledMatrix, ScaledVector, limit_simd

KINDS = [(value, index) for value in ("f4", "f8") for index in ("i4", "i8")]


@pytest.fixture(autouse=True)
def _restore_level():
    yield
    limit_simd(99)


def make_row(count, dim, value, index, shift, seed=0):
    """One sparse row whose arrays start `shift` entries into their buffers."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shift + count).astype(value)[shift:]
    columns = rng.integers(dim, size=shift + count).astype(index)[shift:]
    indptr = np.array([0, count], dtype=index)
    return RowSource.csr(values, columns, indptr, dim), values, columns


def test_there_is_a_level():
    assert limit_simd(0) == 0
    assert limit_simd(99) in (0, 1)


@pytest.mark.parametrize(("value", "index"), KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_out", [1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 20, 24, 28, 33, 64, 100])
def test_all_outputs_are_the_same_bits_at_every_level(value, index, dtype, n_out):
    dim, rng = 23, np.random.default_rng(n_out)
    start = rng.normal(size=(n_out, dim))
    c = rng.normal(size=n_out)
    for count in (0, 1, 2, 5, 17, 40):
        X, _, _ = make_row(count, dim, value, index, shift=count % 3, seed=count)
        found = []
        for level in (0, 99):
            limit_simd(level)
            W = ScaledMatrix(dim, n_out, dtype, track_norm=False)
            W.set_array(start)
            scores = W.dot(X, 0)
            W.axpy(c, X, 0)  # repeated columns are in it
            found.append((scores, W.v.copy()))
        np.testing.assert_array_equal(found[0][0], found[1][0])
        np.testing.assert_array_equal(found[0][1], found[1][1])


@pytest.mark.parametrize(("value", "index"), KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_outputs_agree_with_numpy(value, index, dtype):
    dim, n_out = 23, 21
    rng = np.random.default_rng(3)
    tol = 1e-4 if dtype == np.float32 or value == "f4" else 1e-12
    for count in range(41):
        X, values, columns = make_row(count, dim, value, index, shift=count % 4, seed=count)
        dense = np.zeros(dim)
        np.add.at(dense, columns, values)
        W = ScaledMatrix(dim, n_out, dtype, track_norm=False)
        W.set_array(rng.normal(size=(n_out, dim)))
        before, c = W.array(), rng.normal(size=n_out)
        np.testing.assert_allclose(W.dot(X, 0), before @ dense, rtol=tol, atol=tol)
        c[rng.random(n_out) < 0.5] = 0.0
        W.axpy(c, X, 0)
        np.testing.assert_allclose(W.array(), before + np.outer(c, dense), rtol=tol, atol=tol)


@pytest.mark.parametrize("n_active", [1, 2, 3, 4, 5, 20])
def test_few_or_many_outputs_are_updated(n_active):
    dim, n_out = 11, 20
    rng = np.random.default_rng(n_active)
    X, values, columns = make_row(9, dim, "f8", "i4", 0)
    dense = np.zeros(dim)
    np.add.at(dense, columns, values)
    c = np.zeros(n_out)
    c[rng.permutation(n_out)[:n_active]] = rng.normal(size=n_active)
    W = ScaledMatrix(dim, n_out, track_norm=False)
    W.start_average()
    total = np.zeros((n_out, dim))
    for _ in range(5):
        W.shrink(0.9)
        W.axpy(c, X, 0)
        W.count_average()
        total += W.array()
    np.testing.assert_allclose(W.array(averaged=True), total / 5, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("value", "index"), KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fetching_ahead_changes_no_bit_of_the_sum(value, index, dtype):
    dim = 50
    w = ScaledVector(dim, dtype)
    w.set_array(np.random.default_rng(0).normal(size=dim))
    for count in range(41):
        X, values, columns = make_row(count, dim, value, index, shift=count % 5, seed=count)
        assert w.dot_ahead(X, 0) == w.dot(X, 0)
        assert w.dot(X, 0) == pytest.approx(float(values @ w.array()[columns]), abs=1e-4)


@pytest.mark.parametrize(("value", "index"), KINDS)
def test_the_largest_value_is_found_wherever_it_is(value, index):
    for count in [*range(1, 41), 20_000]:
        for place in {0, count // 2, count - 1}:
            values = np.full(count, -0.5, dtype=value)
            values[place] = -7.0
            columns = np.zeros(count, dtype=index)
            indptr = np.array([0, count], dtype=index)
            source = open_csr(values, columns, indptr, 1, 3)
            assert source is not None
            assert source.largest == 7.0
            dense = open_dense(values.reshape(1, -1))
            assert dense is not None
            assert dense.largest == 7.0
            for bad in (np.nan, np.inf, -np.inf):
                values[place] = bad
                assert open_csr(values, columns, indptr, 1, 3) is None
                assert open_dense(values.reshape(-1, 1)) is None


def test_largest_value_with_row_factors_and_without_a_check():
    X = sp.csr_matrix(np.array([[3.0, 0.0, -4.0], [0.0, 0.5, 0.0]]))
    source = RowSource.csr(X.data, X.indices, X.indptr, 3)
    assert source.largest == -1.0
    assert largest_magnitude(source) == source.largest == 4.0
    source.set_row_scale(np.array([0.2, 2.0]))
    assert source.largest == -1.0
    assert largest_magnitude(source) == pytest.approx(1.0)
    assert largest_magnitude(RowSource.dense(X.toarray()[:, ::-1])) == 4.0
    assert largest_magnitude(RowSource.dense(np.zeros((2, 2)))) == 0.0


def test_subnormal_and_largest_numbers_pass():
    for value in ("f4", "f8"):
        values = np.array([np.finfo(value).max, np.finfo(value).tiny / 2], dtype=value)
        source = open_csr(values, np.zeros(2, "i4"), np.array([0, 2], "i4"), 1, 1)
        assert source is not None
        assert source.largest == float(np.finfo(value).max)


def test_levels_are_per_module():
    assert limit_simd(0) == 0
    assert weights.limit_simd(99) >= 0
