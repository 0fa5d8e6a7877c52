# Scaled weights for K outputs at once, feature-major: W = V diag(s), V is d x K.
#
# The K weights of one feature lie side by side, so that a non-zero of a row
# reads one stretch of memory for all outputs.  Column k has its own scale s_k,
# norm and average, because one-vs-rest problems may shrink and project at
# different times; the scalar vector's invariants (svec.pxd) hold per column.
#
# The arrays belong to the caller.
from libc.math cimport fabs, sqrt
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t

from osvm.core.row cimport (
    ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, ROW_F64_I32, ROW_F64_I64, Row
)
from osvm.core.typedefs cimport WEIGHT_F32, float32_t, float64_t, index_t, value_t, weight_t

cdef extern from "osvm_simd.h" nogil:
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

cdef struct SMat:
    size_t struct_size
    void *v                 # dim x n_out weights, feature-major
    void *u                 # the averages' companion, or NULL
    void *work              # n_out weights of scratch
    double *scale           # s, one per output
    double *sq_v            # ||column||^2, one per output
    double *avg_scale       # S, one per output
    double avg_count        # n, the same for all
    Py_ssize_t dim
    Py_ssize_t n_out
    int kind                # a WeightKind
    int track_norm
    int averaging
    double low
    double high


cdef inline void smat_init(SMat *w, void *v, void *work, double *scale, double *sq_v,
                           double *avg_scale, Py_ssize_t dim, Py_ssize_t n_out,
                           int kind) noexcept nogil:
    """A view of `v`; all scales become 1, all norms and averages 0."""
    cdef Py_ssize_t k
    w.struct_size = sizeof(SMat)
    w.v = v
    w.u = NULL
    w.work = work
    w.scale = scale
    w.sq_v = sq_v
    w.avg_scale = avg_scale
    w.avg_count = 0.0
    w.dim = dim
    w.n_out = n_out
    w.kind = kind
    w.track_norm = 0
    w.averaging = 0
    w.low = 1e-9
    w.high = 1e9
    for k in range(n_out):
        scale[k] = 1.0
        sq_v[k] = 0.0
        avg_scale[k] = 0.0


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


# -------------------------------------------------- O(d) passes over one column

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


cdef inline void smat_recompute_norm(SMat *w, Py_ssize_t k) noexcept nogil:
    """Sum ||column k of V||^2 afresh."""
    if w.kind == WEIGHT_F32:
        w.sq_v[k] = column_sq_norm(<const float32_t *> w.v + k, w.dim, w.n_out)
    else:
        w.sq_v[k] = column_sq_norm(<const float64_t *> w.v + k, w.dim, w.n_out)


cdef inline void smat_rescale_column(SMat *w, Py_ssize_t k, double factor) noexcept nogil:
    """Multiply column k of V by `factor`, set s_k = 1, keep the average as it is."""
    if w.u != NULL and w.avg_scale[k] != 0.0:
        if w.kind == WEIGHT_F32:
            column_subtract(<float32_t *> w.u + k, <const float32_t *> w.v + k, w.dim,
                            w.n_out, w.avg_scale[k])
        else:
            column_subtract(<float64_t *> w.u + k, <const float64_t *> w.v + k, w.dim,
                            w.n_out, w.avg_scale[k])
        w.avg_scale[k] = 0.0
    if factor != 1.0:
        if w.kind == WEIGHT_F32:
            column_scale(<float32_t *> w.v + k, w.dim, w.n_out, factor)
        else:
            column_scale(<float64_t *> w.v + k, w.dim, w.n_out, factor)
    w.scale[k] = 1.0
    smat_recompute_norm(w, k)


cdef inline void smat_fold(SMat *w, Py_ssize_t k) noexcept nogil:
    """Bring column k's scale back to 1 without changing W."""
    smat_rescale_column(w, k, w.scale[k])


# -------------------------------------------------------------- the matrix

cdef inline void smat_dot_ahead(const SMat *w, const Row *x, double *out,
                                const Row *next) noexcept nogil:
    """out[k] = w_k . x for every output, fetching the weights of row `next` on the way"""
    cdef Py_ssize_t k
    if w.kind == WEIGHT_F32:
        row_dot_all_ahead(x, <const float32_t *> w.v, w.n_out, <float32_t *> w.work, next)
        for k in range(w.n_out):
            out[k] = x.scale * w.scale[k] * (<float32_t *> w.work)[k]
    else:
        row_dot_all_ahead(x, <const float64_t *> w.v, w.n_out, <float64_t *> w.work, next)
        for k in range(w.n_out):
            out[k] = x.scale * w.scale[k] * (<float64_t *> w.work)[k]


cdef inline void smat_dot(const SMat *w, const Row *x, double *out) noexcept nogil:
    """out[k] = w_k . x for every output"""
    cdef Row none
    none.indices = NULL
    none.count = 0
    smat_dot_ahead(w, x, out, &none)


cdef inline void smat_average_dot(const SMat *w, const Row *x, double *out) noexcept nogil:
    """out[k] = averaged w_k . x; the last iterate's while nothing has been averaged"""
    cdef Py_ssize_t k
    if w.u == NULL or w.avg_count == 0.0:
        smat_dot(w, x, out)
        return
    if w.kind == WEIGHT_F32:
        row_dot_all(x, <const float32_t *> w.v, w.n_out, <float32_t *> w.work)
        for k in range(w.n_out):
            out[k] = w.avg_scale[k] * (<float32_t *> w.work)[k]
        row_dot_all(x, <const float32_t *> w.u, w.n_out, <float32_t *> w.work)
        for k in range(w.n_out):
            out[k] = x.scale * (out[k] - (<float32_t *> w.work)[k]) / w.avg_count
    else:
        row_dot_all(x, <const float64_t *> w.v, w.n_out, <float64_t *> w.work)
        for k in range(w.n_out):
            out[k] = w.avg_scale[k] * (<float64_t *> w.work)[k]
        row_dot_all(x, <const float64_t *> w.u, w.n_out, <float64_t *> w.work)
        for k in range(w.n_out):
            out[k] = x.scale * (out[k] - (<float64_t *> w.work)[k]) / w.avg_count


cdef inline void smat_axpy_one(SMat *w, Py_ssize_t k, double c, const Row *x) noexcept nogil:
    """w_k += c x"""
    cdef double c_v = c / w.scale[k]
    cdef double *sq = &w.sq_v[k] if w.track_norm else NULL
    if w.kind == WEIGHT_F32:
        row_axpy_one(x, c_v, w.n_out, <float32_t *> w.v + k, sq)
        if w.avg_scale[k] != 0.0:
            row_axpy_one(x, c_v * w.avg_scale[k], w.n_out, <float32_t *> w.u + k, NULL)
    else:
        row_axpy_one(x, c_v, w.n_out, <float64_t *> w.v + k, sq)
        if w.avg_scale[k] != 0.0:
            row_axpy_one(x, c_v * w.avg_scale[k], w.n_out, <float64_t *> w.u + k, NULL)


cdef inline void smat_axpy_two(SMat *w, Py_ssize_t k, Py_ssize_t m, double c, double d,
                               const Row *x) noexcept nogil:
    """w_k += c x and w_m += d x; norms are not tracked"""
    cdef double c_v = c / w.scale[k], d_v = d / w.scale[m]
    if w.kind == WEIGHT_F32:
        row_axpy_two(x, c_v, d_v, w.n_out, <float32_t *> w.v + k, <float32_t *> w.v + m)
        if w.averaging:
            row_axpy_two(x, c_v * w.avg_scale[k], d_v * w.avg_scale[m], w.n_out,
                         <float32_t *> w.u + k, <float32_t *> w.u + m)
    else:
        row_axpy_two(x, c_v, d_v, w.n_out, <float64_t *> w.v + k, <float64_t *> w.v + m)
        if w.averaging:
            row_axpy_two(x, c_v * w.avg_scale[k], d_v * w.avg_scale[m], w.n_out,
                         <float64_t *> w.u + k, <float64_t *> w.u + m)


cdef inline void smat_axpy(SMat *w, const double *c, const Row *x) noexcept nogil:
    """w_k += c[k] x for every output; outputs with c[k] = 0 are left alone.

    A column changes by the same bits whichever way is taken, and so whatever the
    other columns are.
    """
    cdef Py_ssize_t k, n_active = 0, first = -1
    for k in range(w.n_out):
        n_active += c[k] != 0.0
    if n_active == 0:
        return
    # Norms are tracked column by column; a few columns are cheaper two by two.
    if w.track_norm:
        for k in range(w.n_out):
            if c[k] != 0.0:
                smat_axpy_one(w, k, c[k], x)
        return
    if n_active * 8 <= w.n_out + 16:
        for k in range(w.n_out):
            if c[k] == 0.0:
                continue
            if first < 0:
                first = k
            else:
                smat_axpy_two(w, first, k, c[first], c[k], x)
                first = -1
        if first >= 0:
            smat_axpy_one(w, first, c[first], x)
        return
    if w.kind == WEIGHT_F32:
        for k in range(w.n_out):
            (<float32_t *> w.work)[k] = <float32_t> (
                c[k] / w.scale[k] * x.scale)
        row_axpy_all(x, <const float32_t *> w.work, w.n_out, <float32_t *> w.v)
        if w.averaging:
            for k in range(w.n_out):
                (<float32_t *> w.work)[k] = <float32_t> (
                    c[k] / w.scale[k] * w.avg_scale[k] * x.scale)
            row_axpy_all(x, <const float32_t *> w.work, w.n_out, <float32_t *> w.u)
    else:
        for k in range(w.n_out):
            (<float64_t *> w.work)[k] = c[k] / w.scale[k] * x.scale
        row_axpy_all(x, <const float64_t *> w.work, w.n_out, <float64_t *> w.v)
        if w.averaging:
            for k in range(w.n_out):
                (<float64_t *> w.work)[k] = (
                    c[k] / w.scale[k] * w.avg_scale[k] * x.scale)
            row_axpy_all(x, <const float64_t *> w.work, w.n_out, <float64_t *> w.u)


cdef inline void smat_shrink_one(SMat *w, Py_ssize_t k, double factor) noexcept nogil:
    """w_k *= factor"""
    cdef double size
    if factor == 1.0:
        return
    w.scale[k] *= factor
    size = fabs(w.scale[k])
    if size == 0.0:
        smat_rescale_column(w, k, 0.0)
    elif size < w.low or size > w.high:
        smat_fold(w, k)


cdef inline void smat_shrink(SMat *w, double factor) noexcept nogil:
    """W *= factor"""
    cdef Py_ssize_t k, n_out = w.n_out
    cdef double *scale = w.scale
    cdef double low = w.low, high = w.high
    cdef int outside = 0
    if factor == 1.0:
        return
    for k in range(n_out):      # no branch: the usual case costs a multiplication each
        scale[k] *= factor
        outside |= (fabs(scale[k]) < low) | (fabs(scale[k]) > high)
    if not outside:
        return
    for k in range(n_out):
        if scale[k] == 0.0:
            smat_rescale_column(w, k, 0.0)
        elif fabs(scale[k]) < low or fabs(scale[k]) > high:
            smat_fold(w, k)


cdef inline double smat_sq_norm_one(const SMat *w, Py_ssize_t k) noexcept nogil:
    """||w_k||^2; needs track_norm or a fresh smat_recompute_norm."""
    return w.scale[k] * w.scale[k] * w.sq_v[k]


cdef inline double smat_sq_norm(const SMat *w) noexcept nogil:
    """||W||^2, all outputs together"""
    cdef Py_ssize_t k
    cdef double total = 0.0
    for k in range(w.n_out):
        total += smat_sq_norm_one(w, k)
    return total


cdef inline int smat_project_one(SMat *w, Py_ssize_t k, double radius) noexcept nogil:
    """Pull w_k back onto the ball of this radius; 1 when it was outside."""
    cdef double sq = smat_sq_norm_one(w, k)
    if sq <= radius * radius:
        return 0
    smat_shrink_one(w, k, radius / sqrt(sq))
    return 1


cdef inline int smat_project(SMat *w, double radius) noexcept nogil:
    """Pull W as a whole back onto the ball of this radius; 1 when it was outside."""
    cdef double norm = sqrt(smat_sq_norm(w))
    if norm <= radius:
        return 0
    smat_shrink(w, radius / norm)
    return 1


cdef inline void smat_start_average(SMat *w, void *u) noexcept nogil:
    """Average the iterates from now on; `u` holds dim x n_out zeros of w's kind."""
    cdef Py_ssize_t k
    w.u = u
    w.averaging = 1
    w.avg_count = 0.0
    w.low = 1e-3
    w.high = 1e3
    for k in range(w.n_out):
        w.avg_scale[k] = 0.0
        if fabs(w.scale[k]) < w.low or fabs(w.scale[k]) > w.high:
            smat_fold(w, k)


cdef inline void smat_count_average(SMat *w) noexcept nogil:
    """Count the current W as one iterate of the average."""
    cdef Py_ssize_t k
    if w.averaging:
        for k in range(w.n_out):
            w.avg_scale[k] += w.scale[k]
        w.avg_count += 1.0


cdef inline void smat_write(const SMat *w, double *out) noexcept nogil:
    """out = W, output-major (n_out x dim), as `coef_` wants it"""
    cdef Py_ssize_t j, k
    for k in range(w.n_out):
        if w.kind == WEIGHT_F32:
            for j in range(w.dim):
                out[k * w.dim + j] = w.scale[k] * (<const float32_t *> w.v)[j * w.n_out + k]
        else:
            for j in range(w.dim):
                out[k * w.dim + j] = w.scale[k] * (<const float64_t *> w.v)[j * w.n_out + k]


cdef inline void smat_write_average(const SMat *w, double *out) noexcept nogil:
    """out = averaged W, output-major; W itself while nothing has been averaged"""
    cdef Py_ssize_t j, k, at
    cdef double a, n = w.avg_count
    if w.u == NULL or n == 0.0:
        smat_write(w, out)
        return
    for k in range(w.n_out):
        a = w.avg_scale[k]
        for j in range(w.dim):
            at = j * w.n_out + k
            if w.kind == WEIGHT_F32:
                out[k * w.dim + j] = (a * (<const float32_t *> w.v)[at]
                                      - (<const float32_t *> w.u)[at]) / n
            else:
                out[k * w.dim + j] = (a * (<const float64_t *> w.v)[at]
                                      - (<const float64_t *> w.u)[at]) / n
