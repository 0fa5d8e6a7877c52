"""Row views: every layout gives the same numbers, nothing is copied."""

import numpy as np
import pytest
import scipy.sparse as sp

from osvm._input.rows import RowSource
from osvm.linear.weights import ScaledVector


def test_row_scale_multiplies_every_value():
    dense = np.array([[3.0, 4.0], [0.0, 2.0]])
    X = RowSource.dense(dense, row_scale=np.array([0.2, 0.5]))
    w = ScaledVector(2)
    w.axpy(1.0, X, 0)
    assert np.allclose(w.array(), [0.6, 0.8])
    assert w.dot(X, 1) == pytest.approx(0.8)


def test_strided_and_reversed_views_are_read_in_place():
    big = np.arange(48, dtype=np.float64).reshape(6, 8)
    view = big[::-2, 1::3]
    X = RowSource.dense(view)
    w = ScaledVector(view.shape[1])
    w.set_array(np.arange(1.0, view.shape[1] + 1))
    for i, row in enumerate(view):
        assert w.dot(X, i) == pytest.approx(row @ w.array())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d, i, p: (d.astype(np.int32), i, p), "float32 or float64"),
        (lambda d, i, p: (d.astype(">f8"), i, p), "float32 or float64"),
        (lambda d, i, p: (d, i.astype(np.int16), p), "int32"),
        (lambda d, i, p: (d, i, p.astype(np.int64)), "both be int32 or both be int64"),
        (lambda d, i, p: (d[:-1], i, p), "rebuild the matrix"),
        (lambda d, i, p: (d, i, p[:0]), "indptr is empty"),
        (lambda d, i, p: (d[None], i, p), "one-dimensional"),
    ],
)
def test_wrong_arrays_are_refused(change, message):
    X = sp.random(4, 5, 0.5, format="csr", random_state=0)
    arrays = change(X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
    with pytest.raises(ValueError, match=message):
        RowSource.csr(*arrays, 5)


def test_wrong_dense_arrays_are_refused():
    with pytest.raises(ValueError, match="two-dimensional"):
        RowSource.dense(np.zeros(3))
    with pytest.raises(ValueError, match="float32 or float64"):
        RowSource.dense(np.zeros((2, 2), np.int64))
    with pytest.raises(ValueError, match="row_scale"):
        RowSource.dense(np.zeros((2, 2)), row_scale=np.ones(3))


def test_the_view_keeps_its_arrays_alive():
    X = RowSource.dense(np.full((3, 4), 2.0))
    w = ScaledVector(4)
    w.axpy(1.0, X, 2)
    assert np.array_equal(w.array(), np.full(4, 2.0))
