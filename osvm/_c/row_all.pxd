# One row and the weights of K outputs, feature-major: dots and updates of all of them.
#
# The K weights of one feature lie side by side, so that a non-zero of a row reads one
# stretch of memory for all outputs.  No scale, norm or average is known here: smat.pxd
# keeps those, one per output.
from libc.stdint cimport int32_t, int64_t

from osvm.core.rows cimport OSVM_PREFETCH, row_index
from osvm.core.typedefs cimport (
    ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, ROW_F64_I32, ROW_F64_I64, Row, float32_t, float64_t,
    index_t, value_t, weight_t,
)

cdef extern from "../_c/simd.h" nogil:
    bint osvm_dot_all_f32_i32(const float *x, const int32_t *j, Py_ssize_t n, const float *v,
                              Py_ssize_t K, float *out, const int32_t *next, Py_ssize_t n_next)
    bint osvm_dot_all_f32_i64(const float *x, const int64_t *j, Py_ssize_t n, const float *v,
                              Py_ssize_t K, float *out, const int64_t *next, Py_ssize_t n_next)
    bint osvm_dot_all_f64_i32(const double *x, const int32_t *j, Py_ssize_t n, const double *v,
                              Py_ssize_t K, double *out, const int32_t *next, Py_ssize_t n_next)
    bint osvm_dot_all_f64_i64(const double *x, const int64_t *j, Py_ssize_t n, const double *v,
                              Py_ssize_t K, double *out, const int64_t *next, Py_ssize_t n_next)
    bint osvm_axpy_all_f32_i32(const float *x, const int32_t *j, Py_ssize_t n, const float *c,
                               Py_ssize_t K, float *v)
    bint osvm_axpy_all_f32_i64(const float *x, const int64_t *j, Py_ssize_t n, const float *c,
                               Py_ssize_t K, float *v)
    bint osvm_axpy_all_f64_i32(const double *x, const int32_t *j, Py_ssize_t n, const double *c,
                               Py_ssize_t K, double *v)
    bint osvm_axpy_all_f64_i64(const double *x, const int64_t *j, Py_ssize_t n, const double *c,
                               Py_ssize_t K, double *v)


# ------------------------------------------- loops over one row, all outputs

cdef inline void sparse_dot_all(const value_t *x, const index_t *j, Py_ssize_t n,
                                const weight_t *v, Py_ssize_t n_out,
                                weight_t *out) noexcept nogil:
    cdef Py_ssize_t i, k
    cdef weight_t xi
    cdef const weight_t *column
    for k in range(n_out):
        out[k] = 0
    for i in range(n):
        xi = <weight_t> x[i]
        column = v + j[i] * n_out
        for k in range(n_out):
            out[k] += xi * column[k]


cdef inline void dense_dot_all(const value_t *x, Py_ssize_t step, Py_ssize_t n,
                               const weight_t *v, Py_ssize_t n_out,
                               weight_t *out) noexcept nogil:
    cdef Py_ssize_t i, k
    cdef weight_t xi
    cdef const weight_t *column
    for k in range(n_out):
        out[k] = 0
    for i in range(n):
        xi = <weight_t> x[i * step]
        column = v + i * n_out
        for k in range(n_out):
            out[k] += xi * column[k]


cdef inline void sparse_axpy_all(const value_t *x, const index_t *j, Py_ssize_t n,
                                 const weight_t *c, Py_ssize_t n_out,
                                 weight_t *v) noexcept nogil:
    cdef Py_ssize_t i, k
    cdef weight_t xi
    cdef weight_t *column
    for i in range(n):
        xi = <weight_t> x[i]
        column = v + j[i] * n_out
        for k in range(n_out):
            column[k] += xi * c[k]


cdef inline void dense_axpy_all(const value_t *x, Py_ssize_t step, Py_ssize_t n,
                                const weight_t *c, Py_ssize_t n_out,
                                weight_t *v) noexcept nogil:
    cdef Py_ssize_t i, k
    cdef weight_t xi
    cdef weight_t *column
    for i in range(n):
        xi = <weight_t> x[i * step]
        column = v + i * n_out
        for k in range(n_out):
            column[k] += xi * c[k]


# One output only; with `sq` the change of ||column||^2 is added to it.
cdef inline void sparse_axpy_one(const value_t *x, const index_t *j, Py_ssize_t n, double c,
                                 Py_ssize_t n_out, weight_t *v, double *sq) noexcept nogil:
    cdef Py_ssize_t i
    cdef weight_t c_ = <weight_t> c
    cdef double old, new, change = 0.0
    cdef weight_t *entry
    if sq == NULL:
        for i in range(n):
            v[j[i] * n_out] += c_ * <weight_t> x[i]
        return
    for i in range(n):
        entry = v + j[i] * n_out
        old = entry[0]
        entry[0] += c_ * <weight_t> x[i]
        new = entry[0]
        change += (new - old) * (new + old)
    sq[0] += change


# Two outputs at once, which reads the column numbers once.
cdef inline void sparse_axpy_two(const value_t *x, const index_t *j, Py_ssize_t n, double c0,
                                 double c1, Py_ssize_t n_out, weight_t *v0,
                                 weight_t *v1) noexcept nogil:
    cdef Py_ssize_t i, at
    cdef weight_t a = <weight_t> c0, b = <weight_t> c1
    for i in range(n):
        at = j[i] * n_out
        v0[at] += a * <weight_t> x[i]
        v1[at] += b * <weight_t> x[i]


cdef inline void dense_axpy_one(const value_t *x, Py_ssize_t step, Py_ssize_t n, double c,
                                Py_ssize_t n_out, weight_t *v, double *sq) noexcept nogil:
    cdef Py_ssize_t i
    cdef weight_t c_ = <weight_t> c
    cdef double old, new, change = 0.0
    cdef weight_t *entry
    for i in range(n):
        entry = v + i * n_out
        old = entry[0]
        entry[0] += c_ * <weight_t> x[i * step]
        new = entry[0]
        change += (new - old) * (new + old)
    if sq != NULL:
        sq[0] += change


# --------------------------------------------- the same for a row of any kind

cdef inline void row_dot_all_ahead(const Row *x, const weight_t *v, Py_ssize_t n_out,
                                   weight_t *out, const Row *next) noexcept nogil:
    """out[k] = x . column k; the weights of `next`, a row of the same matrix, are fetched"""
    if weight_t is float32_t:
        if x.kind == ROW_F32_I32 and osvm_dot_all_f32_i32(
                <const float32_t *> x.values, <const int32_t *> x.indices, x.count, v, n_out, out,
                <const int32_t *> next.indices, next.count):
            return
        if x.kind == ROW_F32_I64 and osvm_dot_all_f32_i64(
                <const float32_t *> x.values, <const int64_t *> x.indices, x.count, v, n_out, out,
                <const int64_t *> next.indices, next.count):
            return
    else:
        if x.kind == ROW_F64_I32 and osvm_dot_all_f64_i32(
                <const float64_t *> x.values, <const int32_t *> x.indices, x.count, v, n_out, out,
                <const int32_t *> next.indices, next.count):
            return
        if x.kind == ROW_F64_I64 and osvm_dot_all_f64_i64(
                <const float64_t *> x.values, <const int64_t *> x.indices, x.count, v, n_out, out,
                <const int64_t *> next.indices, next.count):
            return
    if x.kind == ROW_F32_I32:
        sparse_dot_all(<const float32_t *> x.values, <const int32_t *> x.indices, x.count,
                       v, n_out, out)
    elif x.kind == ROW_F64_I32:
        sparse_dot_all(<const float64_t *> x.values, <const int32_t *> x.indices, x.count,
                       v, n_out, out)
    elif x.kind == ROW_F32_I64:
        sparse_dot_all(<const float32_t *> x.values, <const int64_t *> x.indices, x.count,
                       v, n_out, out)
    elif x.kind == ROW_F64_I64:
        sparse_dot_all(<const float64_t *> x.values, <const int64_t *> x.indices, x.count,
                       v, n_out, out)
    elif x.kind == ROW_F32_DENSE:
        dense_dot_all(<const float32_t *> x.values, x.step, x.count, v, n_out, out)
    else:
        dense_dot_all(<const float64_t *> x.values, x.step, x.count, v, n_out, out)


cdef inline void row_dot_all(const Row *x, const weight_t *v, Py_ssize_t n_out,
                             weight_t *out) noexcept nogil:
    """out[k] = x . column k"""
    cdef Row none
    none.indices = NULL
    none.count = 0
    row_dot_all_ahead(x, v, n_out, out, &none)


cdef inline void row_axpy_all(const Row *x, const weight_t *c, Py_ssize_t n_out,
                              weight_t *v) noexcept nogil:
    if weight_t is float32_t:
        if x.kind == ROW_F32_I32 and osvm_axpy_all_f32_i32(
                <const float32_t *> x.values, <const int32_t *> x.indices, x.count, c,
                n_out, v):
            return
        if x.kind == ROW_F32_I64 and osvm_axpy_all_f32_i64(
                <const float32_t *> x.values, <const int64_t *> x.indices, x.count, c,
                n_out, v):
            return
    else:
        if x.kind == ROW_F64_I32 and osvm_axpy_all_f64_i32(
                <const float64_t *> x.values, <const int32_t *> x.indices, x.count, c,
                n_out, v):
            return
        if x.kind == ROW_F64_I64 and osvm_axpy_all_f64_i64(
                <const float64_t *> x.values, <const int64_t *> x.indices, x.count, c,
                n_out, v):
            return
    if x.kind == ROW_F32_I32:
        sparse_axpy_all(<const float32_t *> x.values, <const int32_t *> x.indices, x.count,
                        c, n_out, v)
    elif x.kind == ROW_F64_I32:
        sparse_axpy_all(<const float64_t *> x.values, <const int32_t *> x.indices, x.count,
                        c, n_out, v)
    elif x.kind == ROW_F32_I64:
        sparse_axpy_all(<const float32_t *> x.values, <const int64_t *> x.indices, x.count,
                        c, n_out, v)
    elif x.kind == ROW_F64_I64:
        sparse_axpy_all(<const float64_t *> x.values, <const int64_t *> x.indices, x.count,
                        c, n_out, v)
    elif x.kind == ROW_F32_DENSE:
        dense_axpy_all(<const float32_t *> x.values, x.step, x.count, c, n_out, v)
    else:
        dense_axpy_all(<const float64_t *> x.values, x.step, x.count, c, n_out, v)


cdef inline void row_axpy_one(const Row *x, double c, Py_ssize_t n_out, weight_t *v,
                              double *sq) noexcept nogil:
    """Column `v[0], v[n_out], ...` += c x"""
    c *= x.scale
    if x.kind == ROW_F32_I32:
        sparse_axpy_one(<const float32_t *> x.values, <const int32_t *> x.indices, x.count,
                        c, n_out, v, sq)
    elif x.kind == ROW_F64_I32:
        sparse_axpy_one(<const float64_t *> x.values, <const int32_t *> x.indices, x.count,
                        c, n_out, v, sq)
    elif x.kind == ROW_F32_I64:
        sparse_axpy_one(<const float32_t *> x.values, <const int64_t *> x.indices, x.count,
                        c, n_out, v, sq)
    elif x.kind == ROW_F64_I64:
        sparse_axpy_one(<const float64_t *> x.values, <const int64_t *> x.indices, x.count,
                        c, n_out, v, sq)
    elif x.kind == ROW_F32_DENSE:
        dense_axpy_one(<const float32_t *> x.values, x.step, x.count, c, n_out, v, sq)
    else:
        dense_axpy_one(<const float64_t *> x.values, x.step, x.count, c, n_out, v, sq)


cdef inline void row_axpy_two(const Row *x, double c0, double c1, Py_ssize_t n_out,
                              weight_t *v0, weight_t *v1) noexcept nogil:
    """row_axpy_one on two columns; without norms"""
    cdef double a = c0 * x.scale, b = c1 * x.scale
    if x.kind == ROW_F32_I32:
        sparse_axpy_two(<const float32_t *> x.values, <const int32_t *> x.indices, x.count,
                        a, b, n_out, v0, v1)
    elif x.kind == ROW_F64_I32:
        sparse_axpy_two(<const float64_t *> x.values, <const int32_t *> x.indices, x.count,
                        a, b, n_out, v0, v1)
    elif x.kind == ROW_F32_I64:
        sparse_axpy_two(<const float32_t *> x.values, <const int64_t *> x.indices, x.count,
                        a, b, n_out, v0, v1)
    elif x.kind == ROW_F64_I64:
        sparse_axpy_two(<const float64_t *> x.values, <const int64_t *> x.indices, x.count,
                        a, b, n_out, v0, v1)
    else:
        row_axpy_one(x, c0, n_out, v0, <double *> NULL)
        row_axpy_one(x, c1, n_out, v1, <double *> NULL)


# ------------------------------------------------------------- some of the outputs

cdef inline bint is_few(Py_ssize_t n_active, Py_ssize_t n_out) noexcept nogil:
    """So few columns that it is cheaper to take them two by two."""
    return n_active * 8 <= n_out + 16


# Columns `active`, two by two; with `fetch`, the same entries of that matrix are fetched.
cdef inline void sparse_axpy_few(const value_t *x, const index_t *j, Py_ssize_t n,
                                 const double *c, const Py_ssize_t *active,
                                 Py_ssize_t n_active, Py_ssize_t n_out, weight_t *v,
                                 const weight_t *fetch) noexcept nogil:
    cdef Py_ssize_t i, m = 0, at
    cdef weight_t a, b
    cdef weight_t *v0
    cdef weight_t *v1
    cdef const weight_t *u0
    cdef const weight_t *u1
    while m + 1 < n_active:
        a, b = <weight_t> c[m], <weight_t> c[m + 1]
        v0, v1 = v + active[m], v + active[m + 1]
        if fetch == NULL:
            for i in range(n):
                at = j[i] * n_out
                v0[at] += a * <weight_t> x[i]
                v1[at] += b * <weight_t> x[i]
        else:
            u0, u1 = fetch + active[m], fetch + active[m + 1]
            for i in range(n):
                at = j[i] * n_out
                OSVM_PREFETCH(u0 + at)
                OSVM_PREFETCH(u1 + at)
                v0[at] += a * <weight_t> x[i]
                v1[at] += b * <weight_t> x[i]
        m += 2
    if m == n_active:
        return
    a = <weight_t> c[m]
    v0 = v + active[m]
    if fetch == NULL:
        for i in range(n):
            v0[j[i] * n_out] += a * <weight_t> x[i]
    else:
        u0 = fetch + active[m]
        for i in range(n):
            at = j[i] * n_out
            OSVM_PREFETCH(u0 + at)
            v0[at] += a * <weight_t> x[i]


cdef inline void row_axpy_few(const Row *x, const double *c, const Py_ssize_t *active,
                              Py_ssize_t n_active, Py_ssize_t n_out, weight_t *v,
                              const weight_t *fetch) noexcept nogil:
    """Column active[m] += c[m] x for m < n_active; x's scale is in c."""
    cdef Py_ssize_t m
    if x.kind == ROW_F32_I32:
        sparse_axpy_few(<const float32_t *> x.values, <const int32_t *> x.indices, x.count,
                        c, active, n_active, n_out, v, fetch)
    elif x.kind == ROW_F64_I32:
        sparse_axpy_few(<const float64_t *> x.values, <const int32_t *> x.indices, x.count,
                        c, active, n_active, n_out, v, fetch)
    elif x.kind == ROW_F32_I64:
        sparse_axpy_few(<const float32_t *> x.values, <const int64_t *> x.indices, x.count,
                        c, active, n_active, n_out, v, fetch)
    elif x.kind == ROW_F64_I64:
        sparse_axpy_few(<const float64_t *> x.values, <const int64_t *> x.indices, x.count,
                        c, active, n_active, n_out, v, fetch)
    elif x.kind == ROW_F32_DENSE:
        for m in range(n_active):
            dense_axpy_one(<const float32_t *> x.values, x.step, x.count, c[m], n_out,
                           v + active[m], <double *> NULL)
    else:
        for m in range(n_active):
            dense_axpy_one(<const float64_t *> x.values, x.step, x.count, c[m], n_out,
                           v + active[m], <double *> NULL)


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
    cdef double total = 0.0
    cdef Py_ssize_t j
    for j in range(dim):
        total += <double> v[j * n_out] * <double> v[j * n_out]
    return total


cdef inline void column_scale(weight_t *v, Py_ssize_t dim, Py_ssize_t n_out,
                              double factor) noexcept nogil:
    cdef Py_ssize_t j
    if factor == 0.0:
        for j in range(dim):
            v[j * n_out] = 0
    else:
        for j in range(dim):
            v[j * n_out] = <weight_t> (v[j * n_out] * factor)


cdef inline void column_subtract(weight_t *u, const weight_t *v, Py_ssize_t dim,
                                 Py_ssize_t n_out, double factor) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(dim):
        u[j * n_out] = <weight_t> (u[j * n_out] - factor * v[j * n_out])
