"""A matrix of Python as Rows, for clients in Cython: every type, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.matrices import FLOATS, INTS, make

W = np.arange(1.0, 10.0)


@pytest.mark.parametrize("value", FLOATS)
@pytest.mark.parametrize("index", INTS)
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
def test_sparse(inline_client, value, index, kind):
    X = make(value, index, kind)
    arrays = [id(array) for array in (X.data, X.indices, X.indptr)]
    np.testing.assert_allclose(inline_client.row_products(X, W), X @ W, rtol=1e-12)
    assert [id(array) for array in (X.data, X.indices, X.indptr)] == arrays
    empty = kind((3, 9), dtype=value)
    assert inline_client.row_products(empty, W).tolist() == [0, 0, 0]


@pytest.mark.parametrize("value", FLOATS)
def test_dense(inline_client, value):
    base = np.random.default_rng(0).normal(size=(12, 18)).astype(value)
    square = base[:9, :9]
    for X in (square, np.asfortranarray(square), base[::-2, 1::2], square.T, base[:0, :9]):
        np.testing.assert_allclose(inline_client.row_products(X, W), X @ W, rtol=1e-6)
    locked = square.copy()
    locked.flags.writeable = False
    np.testing.assert_allclose(inline_client.row_products(locked, W), square @ W, rtol=1e-6)


def unaligned():
    return np.zeros(8 * 18 + 1, np.uint8)[1:].view(np.float64).reshape(2, 9)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (make().tocsc(), "got csc_matrix"),
        (make(np.int64), "got int64"),
        (np.ones((2, 9), int), "got int64"),
        (np.ones((2, 9), ">f8"), "got >f8"),
        (unaligned(), "aligned"),
        (np.zeros(2, [("a", "u1"), ("x", "f8", (9,))])["x"], "aligned|whole elements"),
        (memoryview(np.ones((2, 9))), "got memoryview"),
    ],
    ids=["csc", "sparse-int", "dense-int", "big-endian", "unaligned", "packed", "memoryview"],
)
def test_other_types_are_refused(inline_client, X, message):
    with pytest.raises(TypeError, match=message):
        inline_client.row_products(X, W)


def test_strided_sparse_arrays_are_refused(inline_client):
    X = make()
    X.data = np.repeat(X.data, 2)[::2]
    with pytest.raises(TypeError, match="contiguous"):
        inline_client.row_products(X, W)


@pytest.mark.parametrize(
    ("name", "position", "to"),
    [("indices", 3, 9), ("indices", 3, -1), ("indptr", 5, 1), ("indptr", 12, 10_000)],
)
@pytest.mark.parametrize("index", INTS)
def test_malformed_matrices_are_refused(inline_client, name, position, to, index):
    X = make(index=index)
    getattr(X, name)[position] = to
    with pytest.raises(ValueError):  # noqa: PT011 - the words are scipy's
        inline_client.row_products(X, W)


def test_other_dimensions_are_refused(inline_client):
    with pytest.raises(ValueError, match="two dimensions, got 1"):
        inline_client.row_products(np.ones(9), W)
