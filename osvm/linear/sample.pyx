"""A few rows of a matrix as a matrix of their own, with only the columns they have.

Trials on a sample then cost what the sample has, whatever the width of the data: their
weights have a place for each column that occurs in it, numbered as they come.

Invariants
- values keep their type and row factors; rows and columns keep their order within a row;
- the work and the memory are O(values of the sample); nothing is of the size of the data.
"""
import numpy as np

from libc.stdint cimport int32_t, int64_t, uint64_t

from osvm._input.scan import largest_magnitude

from osvm._input.rows cimport RowSource
from osvm.core.rows cimport row_index, rows_get
from osvm.core.typedefs cimport ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, Row, value_t


cdef inline double take_values(const Row *row, value_t *out) noexcept nogil:
    """Copy a row's values; the sum of their squares."""
    cdef Py_ssize_t k
    cdef double value, sq = 0.0
    for k in range(row.count):
        out[k] = (<const value_t *> row.values)[k * row.step]
        value = row.scale * <double> out[k]
        sq += value * value
    return sq


cdef inline int32_t number_of(int64_t column, int64_t *keys, int32_t *numbers, uint64_t mask,
                              int32_t *known) noexcept nogil:
    """The new number of a column, by a table of open places."""
    cdef uint64_t place = (<uint64_t> column * <uint64_t> 0x9E3779B97F4A7C15)
    place = (place ^ (place >> 32)) & mask
    while keys[place] != column:
        if keys[place] < 0:
            keys[place] = column
            numbers[place] = known[0]
            known[0] += 1
            break
        place = (place + 1) & mask
    return numbers[place]


def take_rows(RowSource X, const int64_t[::1] rows, bint renumber=True):
    """These rows of X, in this order.

    Parameters
    ----------
    X : RowSource
    rows : int64 array
        At least one row number.
    renumber : bool
        Leave out the columns that none of the rows stores.  Dense rows keep all.

    Returns
    -------
    RowSource
        It owns its values.
    array
        Their squared norms, as if no column came twice.

    Examples
    --------
    >>> import numpy as np
    >>> from osvm._input.rows import RowSource
    >>> from osvm.linear.sample import take_rows
    >>> X = RowSource.csr(np.ones(3), np.array([7, 5, 7]), np.array([0, 2, 3]), 10**9)
    >>> sample, sq_norms = take_rows(X, np.array([1, 0]))
    >>> sample.n_rows, sample.n_features
    (2, 2)
    >>> sq_norms.tolist()
    [1.0, 2.0]
    """
    cdef Py_ssize_t n, k, m = rows.shape[0], total = 0, at = 0
    cdef Row row
    cdef int64_t[::1] keys
    cdef int32_t[::1] numbers, indices
    cdef int64_t[::1] wide
    cdef double[::1] scale, squares
    cdef int64_t[::1] ends_view
    cdef float[::1] values32
    cdef double[::1] values64
    cdef int32_t known = 0
    cdef uint64_t size = 8
    cdef bint single = X.rows.kind in (ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64)
    cdef RowSource taken
    if m < 1:
        raise ValueError("a sample needs at least one row")
    ends, sq_norms = np.zeros(m + 1, np.int64), np.zeros(m)
    ends_view, squares = ends, sq_norms
    for n in range(m):
        if not 0 <= rows[n] < X.rows.n_rows:
            raise IndexError(f"row {rows[n]} of {X.rows.n_rows}")
        rows_get(&X.rows, rows[n], &row)
        total += row.count
        ends_view[n + 1] = total
    values = np.empty(total, np.float32 if single else np.float64)
    if single:
        values32 = values
    else:
        values64 = values
    columns = np.empty(total, np.int32 if renumber else np.int64)
    if X.sparse and renumber:
        indices = columns
        while size < 2 * <uint64_t> total:
            size *= 2
        keys = np.full(size, -1, np.int64)
        numbers = np.empty(size, np.int32)
    elif X.sparse:
        wide = columns
    for n in range(m):
        rows_get(&X.rows, rows[n], &row)
        if row.count == 0:
            continue
        if single:
            squares[n] = take_values(&row, &values32[at])
        else:
            squares[n] = take_values(&row, &values64[at])
        if X.sparse and renumber:
            for k in range(row.count):
                indices[at + k] = number_of(row_index(&row, k), &keys[0], &numbers[0], size - 1,
                                            &known)
        elif X.sparse:
            for k in range(row.count):
                wide[at + k] = row_index(&row, k)
        at += row.count
    factors = None
    if X.rows.row_scale != NULL:
        factors = np.empty(m)
        scale = factors
        for n in range(m):
            scale[n] = X.rows.row_scale[rows[n]]
    if not X.sparse:
        taken = RowSource.dense(values.reshape(m, X.rows.n_features), factors)
    elif renumber:
        taken = RowSource.csr(values, columns, ends.astype(np.int32), max(known, 1), factors)
    else:
        taken = RowSource.csr(values, columns, ends, X.rows.n_features, factors)
    taken.largest = X.largest if X.largest >= 0.0 else largest_magnitude(taken)
    return taken, sq_norms
