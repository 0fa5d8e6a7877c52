"""Which examples are visited, in which order and with which weight.

`full` and `windowed` are orders of `osvm/core/order.pxd`.

`take_rows` gives a few rows as a matrix of their own, with only the columns they have: trials
on a sample then cost what the sample has, whatever the width of the data.  `bounded_weight`
lowers the weights of examples whose steps would go beyond them (step_guard.pxd).

Invariants
- rows that are taken keep the type of their values, their factors and their order; the work
  and the memory are O(values of the sample), nothing is of the size of the data;
- eta ||x||^2 + eta_b times the curvature and the bounded weight is at most 1 on every row.
"""
import numpy as np

from libc.math cimport fabs, floor
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy

from osvm._input.rows import is_sorted_unique
from osvm._input.scan import largest_magnitude

from osvm._input.rows cimport RowSource

from osvm.linear.learner cimport SGDLearner
from osvm.linear.model cimport AHEAD, Options, pointer
from osvm.linear.step_guard cimport bounded_at, bounded_sq_norm
from osvm.core.order cimport (
    ORDER_BLOCK, ORDER_WINDOW, Order, order_full, order_init, order_windowed,
)
from osvm.core.rows cimport (
    row_index, row_is_sorted, row_value, rows_get, rows_prefetch, rows_prefetch_start,
)
from osvm.core.typedefs cimport (
    ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, ROW_F64_I32, Row, Rows, Step, index_t, value_t,
)

BLOCK, WINDOW = ORDER_BLOCK, ORDER_WINDOW


def full(Py_ssize_t n, uint64_t seed):
    """A uniform permutation of 0 .. n-1.

    >>> from osvm.linear.examples import full
    >>> sorted(full(5, 1).tolist())
    [0, 1, 2, 3, 4]
    """
    order = np.empty(n, dtype=np.int64)
    cdef int64_t[::1] view = order
    cdef Order r
    order_init(&r, seed)
    if n:
        with nogil:
            order_full(&r, &view[0], n)
    return order


def windowed(Py_ssize_t n, uint64_t seed, Py_ssize_t block=ORDER_BLOCK,
             Py_ssize_t window=ORDER_WINDOW):
    """A permutation of 0 .. n-1 that mixes windows of random blocks.

    Every way of merging the blocks of a window is equally likely.

    Parameters
    ----------
    n : int
        Number of rows.
    seed : int
    block : int
        Neighboring rows that stay within one window.
    window : int
        Blocks per window.
    """
    order = np.empty(n, dtype=np.int64)
    cdef int64_t[::1] view = order
    cdef int64_t[::1] scratch = np.empty(window + (n + block - 1) // block, dtype=np.int64)
    cdef Order r
    order_init(&r, seed)
    if n:
        with nogil:
            order_windowed(&r, &view[0], n, block, window, &scratch[0])
    return order


cdef inline void times_columns(value_t *out, const index_t *columns, Py_ssize_t n,
                               const double *factors) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(n):
        out[k] = <value_t> (<double> out[k] * factors[columns[k]])


cdef inline double take_values(const Row *row, const double *factors, const double *center,
                               bint square, value_t *out) noexcept nogil:
    """Copy a row's values, times the factors of their columns; the sum of their squares.

    `center`, of dense rows alone, is subtracted before; it may be NULL.
    """
    cdef Py_ssize_t k
    cdef const value_t *x = <const value_t *> row.values
    cdef double value, sq = 0.0
    if row.step == 1:
        memcpy(out, x, row.count * sizeof(value_t))
    else:
        for k in range(row.count):
            out[k] = x[k * row.step]
    if center != NULL:
        for k in range(row.count):
            out[k] = <value_t> ((<double> out[k] - center[k]) * factors[k])
    elif factors != NULL and row.indices == NULL:
        for k in range(row.count):
            out[k] = <value_t> (<double> out[k] * factors[k])
    elif factors != NULL and (row.kind == ROW_F32_I32 or row.kind == ROW_F64_I32):
        times_columns(out, <const int32_t *> row.indices, row.count, factors)
    elif factors != NULL:
        times_columns(out, <const int64_t *> row.indices, row.count, factors)
    if square:
        for k in range(row.count):
            value = row.scale * <double> out[k]
            sq += value * value
    return sq


cdef void take_all(const Rows *X, const int64_t *rows, Py_ssize_t m, const double *factors,
                   const double *center, char *values, char *columns, Py_ssize_t column_size,
                   double *squares) noexcept nogil:
    """Copy rows one after the other; `center`, `columns` and `squares` may be NULL."""
    cdef Py_ssize_t n
    cdef Row row
    cdef double sq
    cdef bint single = X.kind in (ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64)
    for n in range(m):
        if n + 2 * AHEAD < m:
            rows_prefetch_start(X, rows[n + 2 * AHEAD])
        if n + AHEAD < m:
            rows_prefetch(X, rows[n + AHEAD])
        rows_get(X, rows[n], &row)
        if single:
            sq = take_values(&row, factors, center, squares != NULL, <float *> values)
        else:
            sq = take_values(&row, factors, center, squares != NULL, <double *> values)
        values += row.count * (4 if single else 8)
        if squares != NULL:
            squares[n] = sq
        if columns != NULL:
            memcpy(columns, row.indices, row.count * column_size)
            columns += row.count * column_size


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


def take_rows(RowSource X, const int64_t[::1] rows, bint renumber=True, factors=None,
              double largest=-1.0, center=None):
    """These rows of X, in this order.

    Parameters
    ----------
    X : RowSource
    rows : int64 array
        At least one row number.
    renumber : bool
        Leave out the columns that none of the rows stores.  Dense rows keep all.
    factors : float64 array, optional
        Of the columns: values are multiplied by them.
    largest : float
        Bound of the magnitudes after that, where it is known.
    center : float64 array, optional
        With `factors`: subtracted before.  Sparse rows then have an entry for each of its
        columns that is not 0.

    Returns
    -------
    RowSource
        It owns its values.
    array
        Their squared norms, as if no column came twice; 0 of scaled rows that are not
        renumbered.

    Examples
    --------
    >>> import numpy as np
    >>> from osvm._input.rows import RowSource
    >>> from osvm.linear.examples import take_rows
    >>> X = RowSource.csr(np.ones(3), np.array([7, 5, 7]), np.array([0, 2, 3]), 10**9)
    >>> sample, sq_norms = take_rows(X, np.array([1, 0]))
    >>> sample.n_rows, sample.n_features
    (2, 2)
    >>> sq_norms.tolist()
    [1.0, 2.0]
    """
    cdef Py_ssize_t n, k, j, m = rows.shape[0], total = 0, at = 0
    cdef Row row
    cdef bint direct
    cdef int64_t[::1] keys, ends_view
    cdef int32_t[::1] numbers, indices
    cdef double[::1] scale, squares
    cdef const double[::1] by_column, middle
    cdef const double *times = NULL
    cdef const double *moved = NULL
    cdef char *copied = NULL
    cdef char *values_at
    cdef int32_t known = 0
    cdef uint64_t size = 8
    cdef bint single = X.rows.kind in (ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64)
    cdef bint narrow = X.rows.kind in (ROW_F32_I32, ROW_F64_I32)
    cdef RowSource taken
    if m < 1:
        raise ValueError("a sample needs at least one row")
    if factors is not None:
        by_column = factors
        if by_column.shape[0] != X.rows.n_features:
            raise ValueError(f"{by_column.shape[0]} factors for {X.rows.n_features} columns")
        times = &by_column[0]
    if center is not None:
        middle = center
        if times == NULL or middle.shape[0] != X.rows.n_features:
            raise ValueError("a center is for rows with factors, and of all columns")
        moved = &middle[0]
    ends, sq_norms = np.zeros(m + 1, np.int64), np.zeros(m)
    ends_view, squares = ends, sq_norms
    for n in range(m):
        if not 0 <= rows[n] < X.rows.n_rows:
            raise IndexError(f"row {rows[n]} of {X.rows.n_rows}")
        rows_get(&X.rows, rows[n], &row)
        total += row.count
        ends_view[n + 1] = total
    if X.sparse and moved != NULL:
        taken = take_moved(X, rows, factors, center, total, largest)
        return take_rows(taken, np.arange(m)) if renumber else (taken, sq_norms)
    values = np.empty(total, np.float32 if single else np.float64)
    values_at = <char *> pointer(values)
    columns = np.empty(total if X.sparse else 0, np.int32 if renumber or narrow else np.int64)
    if X.sparse and not renumber:
        copied = <char *> pointer(columns)
    with nogil:
        take_all(&X.rows, &rows[0], m, times, moved, values_at, copied, 4 if narrow else 8,
                 &squares[0] if renumber or times == NULL else NULL)
    if X.sparse and renumber:
        indices = columns
        direct = X.rows.n_features <= 16 * total
        if direct:              # a number for every column; else a table of those there are
            numbers = np.full(X.rows.n_features, -1, np.int32)
        else:
            while size < 2 * <uint64_t> total:
                size *= 2
            keys = np.full(size, -1, np.int64)
            numbers = np.empty(size, np.int32)
        for n in range(m):
            rows_get(&X.rows, rows[n], &row)
            for k in range(row.count):
                if direct:
                    j = row_index(&row, k)
                    if numbers[j] < 0:
                        numbers[j] = known
                        known += 1
                    indices[at + k] = numbers[j]
                    continue
                indices[at + k] = number_of(row_index(&row, k), &keys[0], &numbers[0], size - 1,
                                            &known)
            at += row.count
    row_factors = None
    if X.rows.row_scale != NULL:
        row_factors = np.empty(m)
        scale = row_factors
        for n in range(m):
            scale[n] = X.rows.row_scale[rows[n]]
    if not X.sparse:
        taken = RowSource.dense(values.reshape(m, X.rows.n_features), row_factors)
    else:
        ends = ends.astype(columns.dtype)
        width = max(known, 1) if renumber else X.rows.n_features
        taken = RowSource.csr(values, columns, ends, width, row_factors)
    if times == NULL:
        largest = X.largest
    taken.largest = largest if largest >= 0.0 else largest_magnitude(taken)
    return taken, sq_norms


cdef take_moved(RowSource X, const int64_t[::1] rows, factors, center, Py_ssize_t total,
                double largest):
    """`take_rows` of sparse rows around a center: a zero of one of its columns is none there."""
    cdef Py_ssize_t n, k, f, at = 0, first
    cdef int64_t j
    cdef Row row
    cdef RowSource taken
    cdef const double[::1] times = factors, middle = center
    far = np.flatnonzero(np.asarray(center)).astype(np.int64)
    cdef const int64_t[::1] moved = far
    cdef Py_ssize_t n_far = far.shape[0]
    cdef double[::1] values_view
    cdef int64_t[::1] columns_view, ends_view
    total += rows.shape[0] * n_far
    values, columns = np.empty(total), np.empty(total, np.int64)
    ends = np.zeros(rows.shape[0] + 1, np.int64)
    values_view, columns_view, ends_view = values, columns, ends
    with nogil:
        for n in range(rows.shape[0]):
            rows_get(&X.rows, rows[n], &row)
            f = 0
            if row_is_sorted(&row):         # merged, so that rows stay sorted
                for k in range(row.count + 1):
                    j = row_index(&row, k) if k < row.count else X.rows.n_features
                    while f < n_far and moved[f] < j:
                        columns_view[at] = moved[f]
                        values_view[at] = -middle[moved[f]] * times[moved[f]]
                        f += 1
                        at += 1
                    if k < row.count:
                        f += f < n_far and moved[f] == j
                        columns_view[at] = j
                        values_view[at] = (row_value(&row, k) - middle[j]) * times[j]
                        at += 1
            else:                           # columns may repeat: the far ones are added up
                first = at
                for f in range(n_far):
                    columns_view[at] = moved[f]
                    values_view[at] = -middle[moved[f]]
                    at += 1
                for k in range(row.count):
                    j = row_index(&row, k)
                    if middle[j] != 0.0:
                        f = column_place(&moved[0], n_far, j)
                        values_view[first + f] += row_value(&row, k)
                        continue
                    columns_view[at] = j
                    values_view[at] = row_value(&row, k) * times[j]
                    at += 1
                for f in range(n_far):
                    values_view[first + f] *= times[moved[f]]
            ends_view[n + 1] = at
    kind = np.int32 if X.rows.kind in (ROW_F32_I32, ROW_F64_I32) else np.int64
    dtype = np.float32 if X.rows.kind in (ROW_F32_I32, ROW_F32_I64) else np.float64
    taken = RowSource.csr(values[:at].astype(dtype, copy=False), columns[:at].astype(kind),
                          ends.astype(kind), X.rows.n_features)
    taken.largest = largest if largest >= 0.0 else largest_magnitude(taken)
    return taken


cdef inline Py_ssize_t column_place(const int64_t *numbers, Py_ssize_t n,
                                    int64_t j) noexcept nogil:
    """Where column j is among these sorted ones, -1 if it is not; its number without any."""
    cdef Py_ssize_t low = 0, high = n - 1, middle
    if numbers == NULL:
        return j
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < j:
            low = middle + 1
        else:
            high = middle
    return low if numbers[low] == j else -1


def stored_columns(RowSource X, rows):
    """The columns that these sparse rows store, one row after the other."""
    cdef Py_ssize_t n, k
    cdef Row row
    columns = []
    for n in rows:
        if not 0 <= n < X.rows.n_rows:
            raise IndexError(f"row {n} of {X.rows.n_rows}")
        rows_get(&X.rows, n, &row)
        columns.extend([row_index(&row, k) for k in range(row.count)])
    return np.array(columns, np.int64)


# What is summed of a column: values other than 0, shifted by the first of them.
cdef struct Column:
    double first
    double count
    double total
    double squares
    double largest


cdef inline void add_value(Column *column, double x, double unit) noexcept nogil:
    if x == 0.0:
        return
    if column.count == 0.0:
        column.first = x
    column.count += 1.0
    column.largest = max(column.largest, fabs(x))
    x = unit * x - unit * column.first
    column.total += x
    column.squares += x * x


cdef void add_rows(const Rows *X, double unit, Column *columns, double *zeros,
                   const int64_t *numbers, Py_ssize_t n_numbers) noexcept nogil:
    """All rows; those that repeat columns need `zeros`, one for each column.

    With `numbers`, of these columns alone.
    """
    cdef Py_ssize_t i, k, j
    cdef Row row
    for i in range(X.n_rows):
        rows_get(X, i, &row)
        if zeros == NULL or row_is_sorted(&row):
            for k in range(row.count):
                j = column_place(numbers, n_numbers, row_index(&row, k))
                if j >= 0:
                    add_value(&columns[j], row_value(&row, k), unit)
            continue
        for k in range(row.count):
            j = column_place(numbers, n_numbers, row_index(&row, k))
            if j >= 0:
                zeros[j] += row_value(&row, k)
        for k in range(row.count):
            j = column_place(numbers, n_numbers, row_index(&row, k))
            if j >= 0:
                add_value(&columns[j], zeros[j], unit)
                zeros[j] = 0.0


def column_moments(RowSource X, columns=None):
    """The largest |x| of each column, its mean and its standard deviation, in one pass.

    With `columns`, of these alone: sorted int64 numbers, at least one.

    Deviations are exact to about n times the rounding of one number; below 1e-150 times the
    largest value of all columns they are 0.

    >>> import numpy as np
    >>> from osvm._input.rows import RowSource
    >>> from osvm.linear.examples import column_moments
    >>> column_moments(RowSource.dense(np.array([[1.0, -8.0], [3.0, 0.0]])))
    (array([3., 8.]), array([ 2., -4.]), array([1., 4.]))
    """
    cdef double[::1] zeros
    cdef double[:, ::1] view
    cdef double unit = 1.0
    cdef double *scratch = NULL
    cdef const int64_t[::1] numbers
    cdef const int64_t *chosen = NULL
    cdef Py_ssize_t n_columns = X.rows.n_features
    if columns is not None:
        numbers, n_columns = columns, len(columns)
        chosen = &numbers[0]
    sums = np.zeros((n_columns, 5))
    view = sums
    largest = X.largest if X.largest > 0.0 else largest_magnitude(X)
    if not 1e-100 < largest < 1e100:    # squares must neither overflow nor vanish
        unit = 2.0 ** -max(np.frexp(largest)[1], -1000) if largest > 0.0 else 1.0
    if X.sparse and not is_sorted_unique(X):
        zeros = np.zeros(n_columns)
        scratch = &zeros[0]
    with nogil:
        add_rows(&X.rows, unit, <Column *> &view[0, 0], scratch, chosen, n_columns)
    first, count, total, squares, sizes = sums.T
    n, some = float(X.rows.n_rows), np.maximum(count, 1.0)
    mean = unit * first + total / some
    within = np.maximum(squares - total * (total / some), 0.0)
    variance = (within + count * ((n - count) / n) * mean * mean) / n
    return sizes.copy(), mean * (count / n) / unit, np.sqrt(variance) / unit


def sq_norm(RowSource X, Py_ssize_t i):
    """||x_i||^2, also where columns repeat."""
    cdef double[::1] scratch
    cdef Row row
    if not 0 <= i < X.rows.n_rows:
        raise IndexError(f"row {i} of {X.rows.n_rows}")
    rows_get(&X.rows, i, &row)
    scratch = np.zeros(1 if row_is_sorted(&row) else X.rows.n_features)
    return bounded_sq_norm(&row, &scratch[0])


def bounded_weight(SGDLearner learner, RowSource X, double curvature, order, Py_ssize_t start,
                   Py_ssize_t stop, weight):
    """Weights for the examples start:stop, the next ones that the learner sees.

    Parameters
    ----------
    learner : SGDLearner
    X : RowSource
    curvature : float
        Bound of the loss's second derivative.
    order : int64 array or None
    start, stop : int
    weight : float64 array or None
        The examples' own weights.

    Returns
    -------
    array with an entry per row, or `weight` itself where no step is too long
    """
    cdef const int64_t[::1] order_view
    cdef const int64_t *at = NULL
    cdef double[::1] out, scratch
    cdef double *zeros = NULL
    cdef Py_ssize_t lowered = 0, n = start
    changed = np.ones(X.rows.n_rows) if weight is None else np.array(weight)
    out = changed
    if order is not None:
        order_view = order
        at = &order_view[0]
    while n < stop:
        with nogil:
            lowered += lower(learner, X, curvature, at, start, &n, stop, &out[0], zeros)
        if n < stop:                    # a row repeats columns: its norm needs room
            scratch = np.zeros(X.rows.n_features)
            zeros = &scratch[0]
    return changed if lowered else weight


cdef Py_ssize_t lower(SGDLearner learner, RowSource X, double curvature, const int64_t *order,
                      Py_ssize_t start, Py_ssize_t *at, Py_ssize_t stop, double *weight,
                      double *scratch) noexcept nogil:
    """Lower the weights that are too large from `at` on; how many.

    Stops at a row that may repeat columns when there is no scratch.
    """
    cdef Py_ssize_t n, i, lowered = 0
    cdef const Step *step = &learner.model.step
    cdef const Options *options = &learner.model.options
    cdef Row row
    cdef double t, size, c, largest = X.largest, batch = learner.model.options.batch_size
    for n in range(at[0], stop):
        i = n if order == NULL else order[n]
        c = weight[i]
        t = learner.model.t + 1.0 + floor((learner.model.pending + (n - start)) / batch)
        rows_get(&X.rows, i, &row)
        # However often columns repeat, this bounds the norm, and is enough for many.
        size = largest * row.count
        if largest < 0.0 or bounded_at(step, options, c, curvature, t, size * size) != c:
            size = bounded_sq_norm(&row, scratch)
            if size < 0.0:
                at[0] = n
                return lowered
            weight[i] = bounded_at(step, options, c, curvature, t, size)
            lowered += weight[i] != c
    at[0] = stop
    return lowered
