"""Scores of sparse rows that are checked on the way.

Checking a matrix and multiplying it are two passes over memory.  `score_csr` makes
one: the column numbers of a group of rows are checked, then the rows are multiplied,
and the group that follows is asked for meanwhile.  Values need no look of their own: where one of
them is NaN or infinite, so is its row's score.  The bits are those of
`SGDLearner.decide`.

Invariant: no column number is used as an address before it has been checked.  When
anything is amiss the function gives up and says so; the caller then takes the usual
way, which explains (or finds that a sum of finite values was too large).
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from osvm._input.scan cimport indptr_sound
from osvm._input.rows cimport RowSource
from osvm.core.row cimport sparse_dot_ahead
from osvm.core.typedefs cimport (
    ROW_F32_I32, ROW_F32_I64, ROW_F64_I32, Rows, float32_t, float64_t, index_t, value_t, weight_t,
)

cdef extern from "../_c/simd.h" nogil:
    bint osvm_in_range_i32(const void *j, Py_ssize_t n, uint32_t largest)
    bint osvm_in_range_i64(const void *j, Py_ssize_t n, uint64_t largest)

cdef enum:
    GROUP = 32              # rows checked together
    AHEAD = 2560            # entries from use to prefetch: about a group of text


cdef inline bint columns_sound(const index_t *columns, Py_ssize_t n,
                               Py_ssize_t n_features) noexcept nogil:
    if index_t is int32_t:
        # a matrix may have more columns than its numbers can name
        return osvm_in_range_i32(columns, n, <uint32_t> min(n_features - 1, 0x7fffffff))
    else:
        return osvm_in_range_i64(columns, n, <uint64_t> (n_features - 1))


cdef Py_ssize_t score_rows(const Rows *X, const value_t *x, const index_t *columns,
                           const index_t *starts, const weight_t *v, double scale, double b,
                           double *out) noexcept nogil:
    """Rows scored; fewer than there are when a row is not sound."""
    cdef Py_ssize_t first = 0, last, i, begin, end
    cdef double nothing = 0.0   # 0 for as long as every score is finite
    while first < X.n_rows and nothing == 0.0:
        last = min(first + GROUP, X.n_rows)
        begin = <Py_ssize_t> starts[first]
        if not columns_sound(columns + begin, <Py_ssize_t> starts[last] - begin, X.n_features):
            break
        for i in range(first, last):
            end = <Py_ssize_t> starts[i + 1]
            out[i] = scale * sparse_dot_ahead(x + begin, columns + begin, end - begin, v,
                                              x + begin + AHEAD, columns + begin + AHEAD) + b
            nothing += 0.0 * out[i]
            begin = end
        first = last
    return first if nothing == 0.0 else 0


cdef Py_ssize_t score_any(const Rows *X, const weight_t *v, double scale, double b,
                          double *out) noexcept nogil:
    if X.kind == ROW_F32_I32:
        return score_rows(X, <const float32_t *> X.values, <const int32_t *> X.indices,
                          <const int32_t *> X.indptr, v, scale, b, out)
    if X.kind == ROW_F64_I32:
        return score_rows(X, <const float64_t *> X.values, <const int32_t *> X.indices,
                          <const int32_t *> X.indptr, v, scale, b, out)
    if X.kind == ROW_F32_I64:
        return score_rows(X, <const float32_t *> X.values, <const int64_t *> X.indices,
                          <const int64_t *> X.indptr, v, scale, b, out)
    return score_rows(X, <const float64_t *> X.values, <const int64_t *> X.indices,
                      <const int64_t *> X.indptr, v, scale, b, out)


def score_csr(values, indices, indptr, Py_ssize_t n_rows, weights, double scale, double b,
              double[::1] out):
    """out[i] = scale (weights . row i) + b; False, with `out` undefined, when X is not sound.

    Parameters
    ----------
    values, indices, indptr : arrays of a CSR matrix
        float32 or float64, and int32 or int64; otherwise the answer is False.
    n_rows : int
    weights : float32 or float64 array, one per column of the matrix
    scale, b : float
    out : float64 array, one entry per row
    """
    cdef RowSource source
    cdef const float32_t[::1] narrow
    cdef const float64_t[::1] wide
    cdef Py_ssize_t done = 0, capacity
    cdef bint sound
    try:
        source = RowSource.csr(values, indices, indptr, weights.shape[0])
    except (ValueError, TypeError, BufferError):
        return False
    if source.rows.n_rows != n_rows or out.shape[0] != n_rows or weights.shape[0] < 1:
        return False
    capacity = source._buffers[1].shape[0]
    if n_rows == 0:
        return False
    if weights.dtype.itemsize == 4:
        narrow = weights
        with nogil:
            sound = indptr_sound(&source.rows, capacity)
            if sound:
                done = score_any(&source.rows, &narrow[0], scale, b, &out[0])
    else:
        wide = weights
        with nogil:
            sound = indptr_sound(&source.rows, capacity)
            if sound:
                done = score_any(&source.rows, &wide[0], scale, b, &out[0])
    return done == n_rows
