# One row and one array of weights: dot products and updates.
#
# The loops are C (_c/row.h), one for each combination of the types of values, column numbers and
# weights, chosen by the row's kind.  What is in rows.pxd may be cimported from here too.
from osvm.core.rows cimport (  # no-cython-lint: clients may cimport these from here
    row_dot_row, row_index, row_is_sorted, row_sq_norm, row_value, rows_get, rows_init_csr,
    rows_init_dense, rows_prefetch, rows_prefetch_start,
)
from osvm.core.typedefs cimport (  # no-cython-lint
    ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, ROW_F64_DENSE, ROW_F64_I32, ROW_F64_I64, Row, RowKind,
    Rows, float32_t, float64_t, index_t, value_t, weight_t,
)

cdef extern from "../_c/row.h" nogil:
    double osvm_row_dot_f32(int kind, const void *x, const void *j, Py_ssize_t n, Py_ssize_t step,
                            const float *w)
    double osvm_row_dot_f64(int kind, const void *x, const void *j, Py_ssize_t n, Py_ssize_t step,
                            const double *w)
    double osvm_row_dot_ahead_f32(int kind, const void *x, const void *j, Py_ssize_t n,
                                  Py_ssize_t step, const float *w, const void *next_x,
                                  const void *next_j)
    double osvm_row_dot_ahead_f64(int kind, const void *x, const void *j, Py_ssize_t n,
                                  Py_ssize_t step, const double *w, const void *next_x,
                                  const void *next_j)
    void osvm_row_axpy_f32(int kind, const void *x, const void *j, Py_ssize_t n, Py_ssize_t step,
                           double c, float *w)
    void osvm_row_axpy_f64(int kind, const void *x, const void *j, Py_ssize_t n, Py_ssize_t step,
                           double c, double *w)
    double osvm_row_axpy_norm_f32(int kind, const void *x, const void *j, Py_ssize_t n,
                                  Py_ssize_t step, double c, float *w)
    double osvm_row_axpy_norm_f64(int kind, const void *x, const void *j, Py_ssize_t n,
                                  Py_ssize_t step, double c, double *w)


cdef inline double row_dot(const Row *x, const weight_t *w) noexcept nogil:
    """x . w, with w a dense array over the features.  O(stored values)."""
    if weight_t is float32_t:
        return x.scale * osvm_row_dot_f32(x.kind, x.values, x.indices, x.count, x.step, w)
    else:
        return x.scale * osvm_row_dot_f64(x.kind, x.values, x.indices, x.count, x.step, w)


cdef inline double row_dot_ahead(const Row *x, const weight_t *w,
                                 const Row *next) noexcept nogil:
    """row_dot, fetching `next`, a row of the same matrix, on the way."""
    if weight_t is float32_t:
        return x.scale * osvm_row_dot_ahead_f32(x.kind, x.values, x.indices, x.count, x.step, w,
                                                next.values, next.indices)
    else:
        return x.scale * osvm_row_dot_ahead_f64(x.kind, x.values, x.indices, x.count, x.step, w,
                                                next.values, next.indices)


cdef inline void row_axpy(const Row *x, double c, weight_t *w) noexcept nogil:
    """w += c x.  O(stored values)."""
    if weight_t is float32_t:
        osvm_row_axpy_f32(x.kind, x.values, x.indices, x.count, x.step, c * x.scale, w)
    else:
        osvm_row_axpy_f64(x.kind, x.values, x.indices, x.count, x.step, c * x.scale, w)


cdef inline double row_axpy_norm(const Row *x, double c, weight_t *w) noexcept nogil:
    """w += c x; the change of ||w||^2, exact also with repeated columns."""
    if weight_t is float32_t:
        return osvm_row_axpy_norm_f32(x.kind, x.values, x.indices, x.count, x.step, c * x.scale,
                                      w)
    else:
        return osvm_row_axpy_norm_f64(x.kind, x.values, x.indices, x.count, x.step, c * x.scale,
                                      w)
