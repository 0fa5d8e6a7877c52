# Scaled weights for K outputs at once, feature-major: W = V diag(s), V is d x K.
#
# The K weights of one feature lie side by side, so that a non-zero of a row
# reads one stretch of memory for all outputs.  Column k has its own scale s_k,
# norm and average, because one-vs-rest problems may shrink and project at
# different times; the scalar vector's invariants (svec.pxd) hold per column.
#
# The arrays belong to the caller.
from libc.math cimport fabs, sqrt

from osvm._c.row_all cimport (
    column_scale, column_sq_norm, column_subtract, row_axpy_all, row_axpy_one, row_axpy_two,
    row_dot_all, row_dot_all_ahead,
)
from osvm.core.typedefs cimport WEIGHT_F32, Row, SMat, float32_t, float64_t


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


# -------------------------------------------------- O(d) passes over one column

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
