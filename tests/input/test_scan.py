"""Compiled checks: what they accept, what they refuse, and where they say it is."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osvm._input.rows import RowSource, is_sorted_unique, row_norms
from osvm._input.scan import (
    all_finite,
    copy_codes,
    copy_signs,
    find_fault,
    first_not_whole,
    may_be_far,
    open_csr,
    open_dense,
)

FLOATS = [np.float32, np.float64]
INTS = [np.int32, np.int64]
TYPES = [(f, i) for f in FLOATS for i in INTS]
N_FEATURES = 11


def make(value=np.float64, index=np.int32, n_rows=40, seed=0):
    """Arrays of a valid CSR matrix with empty, unsorted and repeating rows."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 9, n_rows)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(index)
    n = int(indptr[-1])
    indices = rng.integers(0, N_FEATURES, n).astype(index)
    return rng.normal(size=n).astype(value), indices, indptr


def opened(arrays, n_features=N_FEATURES):
    return open_csr(*arrays, len(arrays[2]) - 1, n_features)


def fault(arrays, n_features=N_FEATURES):
    return find_fault(RowSource.csr(*arrays, n_features))


@pytest.mark.parametrize(("value", "index"), TYPES)
def test_valid_csr_opens(value, index):
    arrays = make(value, index)
    source = opened(arrays)
    assert source.sparse
    assert (source.n_rows, source.n_features) == (40, N_FEATURES)
    assert fault(arrays)[0] == "none"


@pytest.mark.parametrize(("value", "index"), TYPES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite_is_found_at_every_place(value, index, bad):
    values, indices, indptr = make(value, index)
    for k in range(len(values)):
        broken = values.copy()
        broken[k] = bad
        assert opened((broken, indices, indptr)) is None
        name, row, entry, column, found = fault((broken, indices, indptr))
        assert name == "value"
        assert indptr[row] + entry == k
        assert column == indices[k]
        assert found == bad or np.isnan(bad)


@pytest.mark.parametrize("value", FLOATS)
def test_largest_and_smallest_floats_are_finite(value):
    info = np.finfo(value)
    special = np.array([info.max, info.min, info.tiny, info.smallest_subnormal, 0, -0.0], value)
    indices = np.arange(6, dtype=np.int32)
    assert open_csr(special, indices, np.array([0, 6], np.int32), 1, 6) is not None
    assert open_dense(special.reshape(2, 3)) is not None


@pytest.mark.parametrize(("value", "index"), TYPES)
def test_index_out_of_range_is_found_at_every_place(value, index):
    values, indices, indptr = make(value, index)
    limits = np.iinfo(index)
    for bad in (N_FEATURES, 50_000_000, -1, -N_FEATURES, -(2**31), limits.min, limits.max):
        for k in range(0, len(values), 3):
            broken = indices.copy()
            broken[k] = bad
            assert opened((values, broken, indptr)) is None
            name, row, entry, column, _ = fault((values, broken, indptr))
            assert (name, column) == ("index", bad)
            assert indptr[row] + entry == k


@pytest.mark.parametrize("index", INTS)
def test_indptr_faults(index):
    values, indices, indptr = make(index=index)
    limits = np.iinfo(index)
    n = len(values)
    for i in range(1, len(indptr)):
        for bad in (-1, n + 1, limits.min, limits.max):
            broken = indptr.copy()
            broken[i] = bad
            assert opened((values, indices, broken)) is None
            assert fault((values, indices, broken))[0] in ("decreasing", "past_end")
    for bad in (1, -1, limits.min, limits.max):
        broken = indptr.copy()
        broken[0] = bad
        assert opened((values, indices, broken)) is None
        assert fault((values, indices, broken))[0] == "start"
    # differences that wrap round are seen too
    wrapped = np.array([0, limits.max, -2, n], dtype=index)
    assert open_csr(values, indices, wrapped, 3, N_FEATURES) is None


def test_decreasing_indptr_names_the_row():
    values, indices, indptr = make()
    i = int(np.argmax(np.diff(indptr) > 0)) + 1
    broken = indptr.copy()
    broken[i + 1] = broken[i] - 1
    assert fault((values, indices, broken))[:2] == ("decreasing", i)


def test_lengths_that_disagree():
    values, indices, indptr = make()
    assert opened((values[:-1], indices, indptr)) is None
    assert opened((values, indices[:-1], indptr)) is None
    # the entry behind the end is valid, so that only the length tells
    assert opened((values[:-1], indices[:-1], indptr)) is None
    assert open_csr(values, indices, indptr, 41, N_FEATURES) is None
    assert open_csr(values, indices, indptr[:0], 0, N_FEATURES) is None
    # room to spare behind the last row is scipy's right
    spare = np.concatenate([values, [np.nan]]), np.concatenate([indices, [-7]]).astype(np.int32)
    assert opened((*spare, indptr)) is not None


def test_wrong_types_are_not_opened():
    values, indices, indptr = make()
    for arrays in (
        (values.astype(np.int64), indices, indptr),
        (values.astype(np.float16), indices, indptr),
        (values, indices.astype(np.float64), indptr),
        (values, indices.astype(np.int64), indptr),
        (values.tolist(), indices, indptr),
        (values.astype(object), indices, indptr),
        (values.astype(">f8"), indices, indptr),
        (np.repeat(values, 2)[::2], indices, indptr),
        (None, indices, indptr),
    ):
        assert opened(arrays) is None


def test_unaligned_arrays_are_not_opened():
    raw = np.zeros(8 * 6 + 1, dtype=np.uint8)
    unaligned = raw[1:].view(np.float64)
    assert not unaligned.flags.aligned
    assert open_dense(unaligned.reshape(2, 3)) is None
    assert (
        open_csr(unaligned, np.arange(6, dtype=np.int32), np.array([0, 6], np.int32), 1, 6) is None
    )


def test_no_columns_and_no_rows():
    none = np.zeros(0), np.zeros(0, np.int32)
    assert open_csr(*none, np.zeros(1, np.int32), 0, 5).n_rows == 0
    assert open_csr(*none, np.zeros(4, np.int32), 3, 0).n_rows == 3
    assert open_csr(np.ones(1), np.zeros(1, np.int32), np.array([0, 1], np.int32), 1, 0) is None


def test_more_columns_than_int32_counts():
    arrays = np.ones(1), np.array([2**31 - 1], np.int32), np.array([0, 1], np.int32)
    assert open_csr(*arrays, 1, 2**40) is not None
    wide = np.ones(1), np.array([2**40 - 1], np.int64), np.array([0, 1], np.int64)
    assert open_csr(*wide, 1, 2**40) is not None
    assert open_csr(*wide, 1, 2**40 - 1) is None


def test_large_input_releases_the_lock_and_agrees():
    rng = np.random.default_rng(0)
    n = 200_000
    values, indices = rng.normal(size=n), rng.integers(0, 100, n).astype(np.int32)
    indptr = np.arange(0, n + 1, 100, dtype=np.int32)
    assert open_csr(values, indices, indptr, n // 100, 100) is not None
    for k in (0, n // 2, n // 2 - 1, n - 1):
        for array, bad in ((values, np.nan), (indices, 100)):
            kept, array[k] = array[k], bad
            assert open_csr(values, indices, indptr, n // 100, 100) is None
            array[k] = kept
    assert open_csr(values, indices, indptr, n // 100, 100) is not None


# ------------------------------------------------------------------- dense


LAYOUTS = {
    "C": lambda a: np.ascontiguousarray(a),
    "F": lambda a: np.asfortranarray(a),
    "rows apart": lambda a: np.repeat(a, 2, axis=0)[::2],
    "columns apart": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "reversed": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
    "F slice": lambda a: np.asfortranarray(np.vstack([a, a]))[: len(a)],
    "C slice": lambda a: np.hstack([a, a])[:, : a.shape[1]],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("value", FLOATS)
@pytest.mark.parametrize("shape", [(7, 5), (1, 9), (9, 1), (1, 1)])
def test_dense_layouts(layout, value, shape):
    clean = np.random.default_rng(0).normal(size=shape).astype(value)
    view = LAYOUTS[layout](clean)
    np.testing.assert_array_equal(view, clean)
    assert open_dense(view) is not None
    for i in range(shape[0]):
        for j in range(shape[1]):
            kept, view[i, j] = view[i, j], np.inf if (i + j) % 2 else np.nan
            assert open_dense(view) is None
            name, row, _, column, _ = find_fault(RowSource.dense(view))
            assert (name, row, column) == ("value", i, j)
            view[i, j] = kept


def test_a_view_does_not_look_outside_itself():
    whole = np.full((6, 6), np.nan)
    whole[1:4, 2:5] = 1.0
    assert open_dense(whole[1:4, 2:5]) is not None
    assert open_dense(np.asfortranarray(whole)[1:4, 2:5]) is not None


def test_dense_refuses_other_types():
    for array in (np.ones((2, 2), int), np.ones(3), np.ones((2, 2, 2)), np.ones((2, 2), ">f8")):
        assert open_dense(array) is None


@pytest.mark.parametrize("value", FLOATS)
def test_vectors(value):
    x = np.arange(9, dtype=value)
    assert all_finite(x)
    assert all_finite(x[:0])
    assert first_not_whole(x[::2]) == -1
    x[4] = 0.5
    assert all_finite(x)
    assert first_not_whole(x) == 4
    assert first_not_whole(x[::2]) == 2
    x[3] = np.nan
    assert not all_finite(x)
    assert first_not_whole(x) == 3


# ------------------------------------------------------------- order and norms


def test_sorted_unique():
    indptr = np.array([0, 3, 3, 5], np.int32)
    for index in INTS:
        p = indptr.astype(index)

        def check(columns, p=p, index=index):
            return is_sorted_unique(RowSource.csr(np.ones(5), np.array(columns, index), p, 9))

        assert check([0, 1, 8, 0, 1])
        assert not check([0, 1, 1, 0, 1])
        assert not check([1, 0, 8, 0, 1])
        assert not check([0, 1, 8, 1, 0])
    assert is_sorted_unique(RowSource.dense(np.ones((2, 2))))


@pytest.mark.parametrize(("value", "index"), TYPES)
def test_row_norms_sum_repeated_columns(value, index):
    values, indices, indptr = make(value, index)
    dense = np.zeros((40, N_FEATURES))
    for i in range(40):
        for k in range(indptr[i], indptr[i + 1]):
            dense[i, indices[k]] += values[k]
    out = np.empty(40)
    row_norms(RowSource.csr(values, indices, indptr, N_FEATURES), out)
    expected = np.linalg.norm(dense, axis=1)
    np.testing.assert_allclose(out, expected, rtol=1e-14)
    row_norms(RowSource.csr(values, indices, indptr, N_FEATURES), out, inverse=True)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(out, np.where(expected == 0, 1, 1 / expected), rtol=1e-14)
    row_norms(RowSource.dense(dense), out)
    np.testing.assert_allclose(out, expected, rtol=1e-14)


@pytest.mark.parametrize("columns", [[0, 1, 2], [2, 1, 0], [1, 1, 1]])
@pytest.mark.parametrize("size", [1e200, 1e-200, 1e-310, 1e308 / 4])
def test_row_norms_of_extreme_rows(columns, size):
    values = np.array([size, size, size])
    out = np.empty(1)
    source = RowSource.csr(values, np.array(columns, np.int32), np.array([0, 3], np.int32), 3)
    row_norms(source, out)
    expected = 3 * size if columns == [1, 1, 1] else np.sqrt(3) * size
    assert out[0] == pytest.approx(expected, rel=1e-12)
    row_norms(source, out, inverse=True)
    assert np.isfinite(out[0])


def test_row_norms_checks_its_output():
    with pytest.raises(ValueError, match="one entry per row"):
        row_norms(RowSource.dense(np.ones((3, 2))), np.empty(2))


# ---------------------------------------------------------------- any mutation


def sound(values, indices, indptr, n_features):
    """The contract, word for word."""
    n = len(indices)
    return (
        indptr[0] == 0
        and all(int(a) <= int(b) for a, b in pairwise(indptr))
        and 0 <= int(indptr[-1]) <= n
        and all(0 <= int(j) < n_features for j in indices[: indptr[-1]])
        and bool(np.isfinite(values[: indptr[-1]]).all())
    )


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_mutation_is_judged_right(data):
    value, index = data.draw(st.sampled_from(TYPES))
    values, indices, indptr = make(value, index, n_rows=6, seed=data.draw(st.integers(0, 5)))
    limits = np.iinfo(index)
    for _ in range(data.draw(st.integers(0, 3))):
        which = data.draw(st.sampled_from(["values", "indices", "indptr"]))
        if which == "values" and len(values):
            k = data.draw(st.integers(0, len(values) - 1))
            with np.errstate(over="ignore"):
                values[k] = data.draw(st.floats())
        elif which == "indices" and len(indices):
            k = data.draw(st.integers(0, len(indices) - 1))
            indices[k] = data.draw(
                st.integers(-3, N_FEATURES + 3) | st.integers(limits.min, limits.max)
            )
        else:
            k = data.draw(st.integers(0, len(indptr) - 1))
            indptr[k] = data.draw(
                st.integers(-3, len(values) + 3) | st.integers(limits.min, limits.max)
            )
    expected = sound(values, indices, indptr, N_FEATURES)
    assert (opened((values, indices, indptr)) is not None) == expected
    assert (fault((values, indices, indptr))[0] == "none") == expected


def test_codes_are_copied_where_all_labels_are_among_the_classes():
    for labels, n_classes, among in [
        ([0, 2, 1], 3, True),
        ([0, 3, 1], 3, False),
        ([0, -1, 1], 3, False),
        ([0, 2**32, 1], 3, False),
        ([-(2**63), 0], 2, False),
        ([], 1, True),
    ]:
        labels = np.array(labels, np.int64)
        codes = np.full(len(labels), -7, np.int32)
        assert copy_codes(labels, codes, n_classes) == among
        if among:
            assert codes.tolist() == labels.tolist()
    with pytest.raises(TypeError, match="as many"):
        copy_codes(np.zeros(3, np.int64), np.zeros(2, np.int32), 2)
    with pytest.raises(TypeError, match="int64"):
        copy_codes(np.zeros(4, np.int32), np.zeros(2, np.int32), 2)


def test_codes_become_signs():
    targets = np.empty(3)
    copy_signs(np.array([0, 1, 0], np.int32), targets)
    assert targets.tolist() == [-1.0, 1.0, -1.0]
    with pytest.raises(TypeError, match="int32"):
        copy_signs(np.zeros(3, np.int64), targets)
    with pytest.raises(TypeError, match="as many"):
        copy_signs(np.zeros(4, np.int32), targets)


@pytest.mark.parametrize("times", [30.0, 1000.0])
def test_no_far_target_is_overlooked(times):
    rng = np.random.default_rng(int(times))
    found = passed = 0
    for _ in range(3000):
        targets = rng.standard_t(rng.choice([0.3, 1.0, 5.0]), rng.integers(2, 40))
        targets[rng.integers(len(targets))] *= times ** rng.uniform(0, 2)
        targets += rng.choice([0.0, 100.0])
        off = np.abs(targets - np.median(targets))
        k = off.argmax()
        is_far = off[k] > times * np.delete(off, k).mean()
        found += is_far
        passed += not may_be_far(targets, times)
        assert may_be_far(targets, times) or not is_far
    assert found > 100  # there are such targets, and others that are told at once
    assert passed > 100
    assert not may_be_far(np.full(30, 7.0), times)
    assert may_be_far(np.repeat([7.0, 8.0], [29, 1]), times)
