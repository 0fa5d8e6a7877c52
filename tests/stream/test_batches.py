"""Rows of batches, against scipy's own stacking and indexing."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from osvm.stream._parsing import gather
from osvm.stream.batches import cut_rows, gather_rows


def make_batch(rng, rows, dtype=np.float32, index=np.int32):
    X = sp.csr_array(sp.random_array((rows, 7), density=0.4, rng=rng, dtype=np.float64))
    X = sp.csr_array((X.data.astype(dtype), X.indices.astype(index), X.indptr.astype(index)),
                     shape=X.shape)  # fmt: skip
    return X, rng.normal(size=rows), [(k,) * int(rng.integers(3)) for k in range(rows)], None


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(0, 99), st.data())
@settings(deadline=None)
def test_gathered_rows_are_those_of_one_matrix(sizes, seed, data):
    rng = np.random.default_rng(seed)
    kinds = st.tuples(st.sampled_from([np.float32, np.float64]),
                      st.sampled_from([np.int32, np.int64]))  # fmt: skip
    parts = [make_batch(rng, n, *data.draw(kinds)) for n in sizes]
    order = rng.integers(sum(sizes), size=rng.integers(12)) if sum(sizes) else np.zeros(0, int)
    X, y, labels, nothing = gather_rows(parts, order)
    whole = sp.vstack([part[0] for part in parts], format="csr")
    assert X.dtype == whole.dtype
    np.testing.assert_array_equal(X.toarray(), whole.toarray()[order])
    np.testing.assert_array_equal(y, np.concatenate([part[1] for part in parts])[order])
    joined = [one for part in parts for one in part[2]]
    assert labels == [joined[k] for k in order]
    assert nothing is None


@given(st.integers(0, 9), st.integers(0, 9), st.booleans())
def test_cut_rows_are_slices_without_a_copy(start, stop, dense):
    start, stop = sorted((start, stop))
    X, *columns = make_batch(np.random.default_rng(0), 9)
    expected = X.toarray()[start:stop]
    part = cut_rows((X.toarray() if dense else X, *columns), start, stop)
    found = part[0] if dense else part[0].toarray()
    np.testing.assert_array_equal(found, expected)
    assert dense or not part[0].nnz or np.shares_memory(part[0].data, X.data)
    assert part[2] == columns[1][start:stop]
    assert part[3] is None


def test_gather_refuses_what_would_leave_its_arrays():
    values, indices = np.ones(3), np.arange(3)
    part = values, indices, np.array([0, 1, 3])
    with pytest.raises(IndexError, match="no such row"):
        gather([part], np.array([2]))
    with pytest.raises(IndexError, match="no such row"):
        gather([part], np.array([-1]))
    for pointers in ([0, 4], [-1, 2], [0, 3, 1]):
        with pytest.raises(ValueError, match="row pointers"):
            gather([(values, indices, np.array(pointers))], np.array([0]))
    with pytest.raises(TypeError, match="types"):
        gather([part, (values.astype("f4"), indices, part[2])], np.array([0]))


def test_batches_of_other_widths_are_refused():
    X, y, *_ = make_batch(np.random.default_rng(0), 3)
    with pytest.raises(ValueError, match="number of columns"):
        gather_rows([(X, y), (X[:, :5], y)], np.arange(6))
