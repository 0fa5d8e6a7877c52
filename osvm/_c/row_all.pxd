# One row and the weights of K outputs, feature-major: dots and updates of all of them.
#
# The K weights of one feature lie side by side, so that a non-zero of a row reads one
# stretch of memory for all outputs.  No scale, norm or average is known here: smat.pxd
# keeps those, one per output.  The loops are C, see row_weights.h.
from osvm.core.rows cimport OSVM_PREFETCH, row_index
from osvm.core.typedefs cimport Row, float32_t, weight_t

cdef extern from "../_c/row.h" nogil:
    void osvm_row_dot_all_f32(int kind, const void *x, const void *j, Py_ssize_t n,
                              Py_ssize_t step, const float *v, Py_ssize_t K, float *out,
                              const void *next, Py_ssize_t n_next)
    void osvm_row_dot_all_f64(int kind, const void *x, const void *j, Py_ssize_t n,
                              Py_ssize_t step, const double *v, Py_ssize_t K, double *out,
                              const void *next, Py_ssize_t n_next)
    void osvm_row_axpy_all_f32(int kind, const void *x, const void *j, Py_ssize_t n,
                               Py_ssize_t step, const float *c, Py_ssize_t K, float *v)
    void osvm_row_axpy_all_f64(int kind, const void *x, const void *j, Py_ssize_t n,
                               Py_ssize_t step, const double *c, Py_ssize_t K, double *v)
    void osvm_row_axpy_one_f32(int kind, const void *x, const void *j, Py_ssize_t n,
                               Py_ssize_t step, double c, Py_ssize_t K, float *v, double *sq)
    void osvm_row_axpy_one_f64(int kind, const void *x, const void *j, Py_ssize_t n,
                               Py_ssize_t step, double c, Py_ssize_t K, double *v, double *sq)
    void osvm_row_axpy_few_f32(int kind, const void *x, const void *j, Py_ssize_t n,
                               Py_ssize_t step, const double *c, const Py_ssize_t *active,
                               Py_ssize_t count, Py_ssize_t K, float *v, const float *fetch)
    void osvm_row_axpy_few_f64(int kind, const void *x, const void *j, Py_ssize_t n,
                               Py_ssize_t step, const double *c, const Py_ssize_t *active,
                               Py_ssize_t count, Py_ssize_t K, double *v, const double *fetch)
    double osvm_array_sq_norm_f32(const float *v, Py_ssize_t n, Py_ssize_t stride)
    double osvm_array_sq_norm_f64(const double *v, Py_ssize_t n, Py_ssize_t stride)
    void osvm_array_scale_f32(float *v, Py_ssize_t n, Py_ssize_t stride, double factor)
    void osvm_array_scale_f64(double *v, Py_ssize_t n, Py_ssize_t stride, double factor)
    void osvm_array_subtract_f32(float *u, const float *v, Py_ssize_t n, Py_ssize_t stride,
                                 double factor)
    void osvm_array_subtract_f64(double *u, const double *v, Py_ssize_t n, Py_ssize_t stride,
                                 double factor)


cdef inline void row_dot_all_ahead(const Row *x, const weight_t *v, Py_ssize_t n_out,
                                   weight_t *out, const Row *next) noexcept nogil:
    """out[k] = x . column k; the weights of `next`, a row of the same matrix, are fetched"""
    if weight_t is float32_t:
        osvm_row_dot_all_f32(x.kind, x.values, x.indices, x.count, x.step, v, n_out, out,
                             next.indices, next.count)
    else:
        osvm_row_dot_all_f64(x.kind, x.values, x.indices, x.count, x.step, v, n_out, out,
                             next.indices, next.count)


cdef inline void row_dot_all(const Row *x, const weight_t *v, Py_ssize_t n_out,
                             weight_t *out) noexcept nogil:
    """out[k] = x . column k"""
    if weight_t is float32_t:
        osvm_row_dot_all_f32(x.kind, x.values, x.indices, x.count, x.step, v, n_out, out, NULL, 0)
    else:
        osvm_row_dot_all_f64(x.kind, x.values, x.indices, x.count, x.step, v, n_out, out, NULL, 0)


cdef inline void row_axpy_all(const Row *x, const weight_t *c, Py_ssize_t n_out,
                              weight_t *v) noexcept nogil:
    """Column k += c[k] x; x's scale is in c."""
    if weight_t is float32_t:
        osvm_row_axpy_all_f32(x.kind, x.values, x.indices, x.count, x.step, c, n_out, v)
    else:
        osvm_row_axpy_all_f64(x.kind, x.values, x.indices, x.count, x.step, c, n_out, v)


cdef inline void row_axpy_one(const Row *x, double c, Py_ssize_t n_out, weight_t *v,
                              double *sq) noexcept nogil:
    """Column `v[0], v[n_out], ...` += c x; with `sq` the change of its squared norm is added"""
    if weight_t is float32_t:
        osvm_row_axpy_one_f32(x.kind, x.values, x.indices, x.count, x.step, c * x.scale, n_out, v,
                              sq)
    else:
        osvm_row_axpy_one_f64(x.kind, x.values, x.indices, x.count, x.step, c * x.scale, n_out, v,
                              sq)


cdef inline void row_axpy_few(const Row *x, const double *c, const Py_ssize_t *active,
                              Py_ssize_t n_active, Py_ssize_t n_out, weight_t *v,
                              const weight_t *fetch) noexcept nogil:
    """Column active[m] += c[m] x for m < n_active, two by two; x's scale is in c.

    With `fetch`, the same entries of that matrix are fetched.
    """
    if weight_t is float32_t:
        osvm_row_axpy_few_f32(x.kind, x.values, x.indices, x.count, x.step, c, active, n_active,
                              n_out, v, fetch)
    else:
        osvm_row_axpy_few_f64(x.kind, x.values, x.indices, x.count, x.step, c, active, n_active,
                              n_out, v, fetch)


cdef inline void row_axpy_two(const Row *x, double c0, double c1, Py_ssize_t n_out,
                              weight_t *v0, weight_t *v1) noexcept nogil:
    """row_axpy_one on two columns; without norms"""
    cdef double c[2]
    cdef Py_ssize_t active[2]
    c[0], c[1] = c0 * x.scale, c1 * x.scale
    active[0], active[1] = 0, v1 - v0
    row_axpy_few(x, c, active, 2, n_out, v0, <const weight_t *> NULL)


cdef inline bint is_few(Py_ssize_t n_active, Py_ssize_t n_out) noexcept nogil:
    """So few columns that it is cheaper to take them two by two."""
    return n_active * 8 <= n_out + 16


cdef inline void row_fetch_all(const Row *x, Py_ssize_t n_out, const weight_t *v) noexcept nogil:
    """Fetch the weights of all outputs that this row meets."""
    cdef Py_ssize_t i, k, line = 64 // sizeof(weight_t)
    cdef const weight_t *column
    if x.indices == NULL:
        return                  # in order: the processor does it by itself
    for i in range(x.count):
        column = v + row_index(x, i) * n_out
        k = 0
        while k < n_out:
            OSVM_PREFETCH(column + k)
            k += line
        OSVM_PREFETCH(column + n_out - 1)


# ------------------------------------------------------------- O(d) passes over one column

cdef inline double column_sq_norm(const weight_t *v, Py_ssize_t dim,
                                  Py_ssize_t n_out) noexcept nogil:
    if weight_t is float32_t:
        return osvm_array_sq_norm_f32(v, dim, n_out)
    else:
        return osvm_array_sq_norm_f64(v, dim, n_out)


cdef inline void column_scale(weight_t *v, Py_ssize_t dim, Py_ssize_t n_out,
                              double factor) noexcept nogil:
    if weight_t is float32_t:
        osvm_array_scale_f32(v, dim, n_out, factor)
    else:
        osvm_array_scale_f64(v, dim, n_out, factor)


cdef inline void column_subtract(weight_t *u, const weight_t *v, Py_ssize_t dim,
                                 Py_ssize_t n_out, double factor) noexcept nogil:
    if weight_t is float32_t:
        osvm_array_subtract_f32(u, v, dim, n_out, factor)
    else:
        osvm_array_subtract_f64(u, v, dim, n_out, factor)
