# Copies of a row of any kind into dense and sparse arrays of float32 or float64.
#
# Invariants
# - a copy has the row's scale applied;
# - a dense copy has repeated columns added up, a sparse one keeps them.
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from osvm.core.typedefs cimport (
    ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, ROW_F64_DENSE, ROW_F64_I32, ROW_F64_I64, Row,
    float32_t, float64_t, index_t, value_t, weight_t,
)


cdef inline void copy_dense(const value_t *x, Py_ssize_t step, Py_ssize_t n, double scale,
                            weight_t *out) noexcept nogil:
    cdef Py_ssize_t k
    if step == 1 and scale == 1.0:
        if value_t is weight_t:
            memcpy(out, x, n * sizeof(weight_t))
        else:
            for k in range(n):
                out[k] = <weight_t> x[k]
    else:
        for k in range(n):
            out[k] = <weight_t> (scale * x[k * step])


cdef inline void scatter(const value_t *x, const index_t *j, Py_ssize_t n, double scale,
                         Py_ssize_t d, weight_t *out) noexcept nogil:
    cdef Py_ssize_t k
    memset(out, 0, d * sizeof(weight_t))
    for k in range(n):
        out[j[k]] += <weight_t> (scale * x[k])


cdef inline void row_to_dense(const Row *x, Py_ssize_t d, weight_t *out) noexcept nogil:
    if x.kind == ROW_F32_DENSE:
        copy_dense(<const float32_t *> x.values, x.step, d, x.scale, out)
    elif x.kind == ROW_F64_DENSE:
        copy_dense(<const float64_t *> x.values, x.step, d, x.scale, out)
    elif x.kind == ROW_F32_I32:
        scatter(<const float32_t *> x.values, <const int32_t *> x.indices, x.count, x.scale, d,
                out)
    elif x.kind == ROW_F64_I32:
        scatter(<const float64_t *> x.values, <const int32_t *> x.indices, x.count, x.scale, d,
                out)
    elif x.kind == ROW_F32_I64:
        scatter(<const float32_t *> x.values, <const int64_t *> x.indices, x.count, x.scale, d,
                out)
    else:
        scatter(<const float64_t *> x.values, <const int64_t *> x.indices, x.count, x.scale, d,
                out)


cdef inline Py_ssize_t copy_sparse(const value_t *x, const index_t *j, Py_ssize_t n, double scale,
                                   int32_t *columns, weight_t *out) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(n):
        columns[k] = <int32_t> j[k]
        out[k] = <weight_t> (scale * x[k])
    return n


cdef inline Py_ssize_t drop_zeros(const value_t *x, Py_ssize_t step, Py_ssize_t n, double scale,
                                  int32_t *columns, weight_t *out) noexcept nogil:
    cdef Py_ssize_t k, count = 0
    for k in range(n):
        if x[k * step] != 0:
            columns[count] = <int32_t> k
            out[count] = <weight_t> (scale * x[k * step])
            count += 1
    return count


cdef inline Py_ssize_t row_to_sparse(const Row *x, int32_t *columns, weight_t *out) noexcept nogil:
    """Entries of the row; their number."""
    if x.kind == ROW_F32_I32:
        return copy_sparse(<const float32_t *> x.values, <const int32_t *> x.indices, x.count,
                           x.scale, columns, out)
    if x.kind == ROW_F64_I32:
        return copy_sparse(<const float64_t *> x.values, <const int32_t *> x.indices, x.count,
                           x.scale, columns, out)
    if x.kind == ROW_F32_I64:
        return copy_sparse(<const float32_t *> x.values, <const int64_t *> x.indices, x.count,
                           x.scale, columns, out)
    if x.kind == ROW_F64_I64:
        return copy_sparse(<const float64_t *> x.values, <const int64_t *> x.indices, x.count,
                           x.scale, columns, out)
    if x.kind == ROW_F32_DENSE:
        return drop_zeros(<const float32_t *> x.values, x.step, x.count, x.scale, columns, out)
    return drop_zeros(<const float64_t *> x.values, x.step, x.count, x.scale, columns, out)
