# The scaled weight vector w = s*v, and its running average.
#
# Shrinking and projecting multiply s only, so that they cost O(1); a step on
# one example costs O(its non-zeros).  Sources: Bagnell's notes (algorithm 1),
# DESIGN notes in doc/concepts.rst.
#
# Invariants
# - |s| stays within [low, high]; outside, it is folded into v (O(d), rare);
# - with `track_norm`, sq_v equals ||v||^2: updated by exact differences at each
#   step and summed afresh at every fold;
# - the average of the iterates is (S*v - u) / n, where S is the sum of the
#   scales at the iterates counted so far, u collects S times each step, and n
#   is their number.  u is touched only where v is.
# - a shrink by exactly 0 empties v and never divides by zero.
#
# The arrays belong to the caller.
from libc.math cimport fabs, isfinite, sqrt
from libc.string cimport memset

from osvm.core.row cimport row_axpy, row_axpy_norm, row_dot, row_dot_ahead
from osvm.core.typedefs cimport WEIGHT_F32, Row, SVec, float32_t, float64_t

cdef extern from "../_c/row.h" nogil:
    bint OSVM_RARE(bint condition)
    double osvm_array_sq_norm_f32(const float *v, Py_ssize_t n, Py_ssize_t stride)
    double osvm_array_sq_norm_f64(const double *v, Py_ssize_t n, Py_ssize_t stride)
    void osvm_array_scale_f32(float *v, Py_ssize_t n, Py_ssize_t stride, double factor)
    void osvm_array_scale_f64(double *v, Py_ssize_t n, Py_ssize_t stride, double factor)
    void osvm_array_subtract_f32(float *u, const float *v, Py_ssize_t n, Py_ssize_t stride,
                                 double factor)
    void osvm_array_subtract_f64(double *u, const double *v, Py_ssize_t n, Py_ssize_t stride,
                                 double factor)


cdef inline void svec_init(SVec *w, void *v, Py_ssize_t dim, int kind) noexcept nogil:
    """A view of `v` as weights with scale 1; set track_norm and u afterwards."""
    w.struct_size = sizeof(SVec)
    w.v = v
    w.u = NULL
    w.dim = dim
    w.kind = kind
    w.track_norm = 0
    w.averaging = 0
    w.scale = 1.0
    w.sq_v = 0.0
    w.avg_scale = 0.0
    w.avg_count = 0.0
    w.low = 1e-9
    w.high = 1e9


# -------------------------------------------------- O(d) passes, all of them rare

cdef inline void svec_recompute_norm(SVec *w) noexcept nogil:
    """Sum ||v||^2 afresh."""
    if w.kind == WEIGHT_F32:
        w.sq_v = osvm_array_sq_norm_f32(<const float32_t *> w.v, w.dim, 1)
    else:
        w.sq_v = osvm_array_sq_norm_f64(<const float64_t *> w.v, w.dim, 1)


cdef inline void svec_flush_average(SVec *w) noexcept nogil:
    """Move S*v into u, so that v and s may change freely: (S*v - u) stays."""
    if w.u == NULL or w.avg_scale == 0.0:
        return
    if w.kind == WEIGHT_F32:
        osvm_array_subtract_f32(<float32_t *> w.u, <const float32_t *> w.v, w.dim, 1,
                                w.avg_scale)
    else:
        osvm_array_subtract_f64(<float64_t *> w.u, <const float64_t *> w.v, w.dim, 1,
                                w.avg_scale)
    w.avg_scale = 0.0


cdef inline void svec_fold(SVec *w) noexcept nogil:
    """Bring the scale back to 1 without changing w."""
    svec_flush_average(w)
    if w.scale != 1.0:
        if w.kind == WEIGHT_F32:
            osvm_array_scale_f32(<float32_t *> w.v, w.dim, 1, w.scale)
        else:
            osvm_array_scale_f64(<float64_t *> w.v, w.dim, 1, w.scale)
        w.scale = 1.0
    svec_recompute_norm(w)


cdef inline void svec_reset(SVec *w) noexcept nogil:
    """w = 0.  The average keeps the iterates it has counted."""
    svec_flush_average(w)
    memset(w.v, 0, w.dim * (sizeof(float32_t) if w.kind == WEIGHT_F32 else sizeof(float64_t)))
    w.scale = 1.0
    w.sq_v = 0.0


# -------------------------------------------------------------- reading

cdef inline double svec_dot(const SVec *w, const Row *x) noexcept nogil:
    """w . x"""
    if w.kind == WEIGHT_F32:
        return w.scale * row_dot(x, <const float32_t *> w.v)
    return w.scale * row_dot(x, <const float64_t *> w.v)


cdef inline double svec_dot_ahead(const SVec *w, const Row *x, const Row *next) noexcept nogil:
    """w . x, fetching the arrays of row `next` on the way"""
    if w.kind == WEIGHT_F32:
        return w.scale * row_dot_ahead(x, <const float32_t *> w.v, next)
    return w.scale * row_dot_ahead(x, <const float64_t *> w.v, next)


cdef inline double svec_average_dot(const SVec *w, const Row *x) noexcept nogil:
    """The averaged weights . x; w . x itself while nothing has been averaged."""
    if w.u == NULL or w.avg_count == 0.0:
        return svec_dot(w, x)
    if w.kind == WEIGHT_F32:
        return (w.avg_scale * row_dot(x, <const float32_t *> w.v)
                - row_dot(x, <const float32_t *> w.u)) / w.avg_count
    return (w.avg_scale * row_dot(x, <const float64_t *> w.v)
            - row_dot(x, <const float64_t *> w.u)) / w.avg_count


cdef inline double svec_sq_norm(const SVec *w) noexcept nogil:
    """||w||^2; needs track_norm, or a fresh svec_recompute_norm."""
    return w.scale * w.scale * w.sq_v


cdef inline void svec_write(const SVec *w, double *out) noexcept nogil:
    """out = w"""
    cdef Py_ssize_t j
    if w.kind == WEIGHT_F32:
        for j in range(w.dim):
            out[j] = w.scale * (<const float32_t *> w.v)[j]
    else:
        for j in range(w.dim):
            out[j] = w.scale * (<const float64_t *> w.v)[j]


cdef inline void svec_write_average(const SVec *w, double *out) noexcept nogil:
    """out = the average of the counted iterates; w itself while there is none."""
    cdef Py_ssize_t j
    cdef double a, n = w.avg_count
    if w.u == NULL or n == 0.0:
        svec_write(w, out)
        return
    a = w.avg_scale
    if w.kind == WEIGHT_F32:
        for j in range(w.dim):
            out[j] = (a * (<const float32_t *> w.v)[j] - (<const float32_t *> w.u)[j]) / n
    else:
        for j in range(w.dim):
            out[j] = (a * (<const float64_t *> w.v)[j] - (<const float64_t *> w.u)[j]) / n


# -------------------------------------------------------------- changing

cdef inline void svec_axpy(SVec *w, double c, const Row *x) noexcept nogil:
    """w += c x"""
    cdef double c_v = c / w.scale
    if w.kind == WEIGHT_F32:
        if w.track_norm:
            w.sq_v += row_axpy_norm(x, c_v, <float32_t *> w.v)
        else:
            row_axpy(x, c_v, <float32_t *> w.v)
        if w.avg_scale != 0.0:
            row_axpy(x, c_v * w.avg_scale, <float32_t *> w.u)
    else:
        if w.track_norm:
            w.sq_v += row_axpy_norm(x, c_v, <float64_t *> w.v)
        else:
            row_axpy(x, c_v, <float64_t *> w.v)
        if w.avg_scale != 0.0:
            row_axpy(x, c_v * w.avg_scale, <float64_t *> w.u)


cdef inline void svec_shrink(SVec *w, double factor) noexcept nogil:
    """w *= factor, in O(1) but for the rare fold."""
    cdef double size
    if factor == 1.0:
        return
    w.scale *= factor
    size = fabs(w.scale)
    if OSVM_RARE(size == 0.0 or size < w.low or size > w.high):
        if size == 0.0:
            svec_reset(w)
        else:
            svec_fold(w)


cdef inline int svec_project(SVec *w, double radius) noexcept nogil:
    """Pull w back onto the ball of this radius; 1 when it was outside.  O(1)."""
    cdef double sq = svec_sq_norm(w)
    if sq <= radius * radius:
        return 0
    svec_shrink(w, radius / sqrt(sq))
    return 1


cdef inline void svec_start_average(SVec *w, void *u) noexcept nogil:
    """Average the iterates from now on; `u` holds dim zeros of w's kind."""
    w.u = u
    w.averaging = 1
    w.avg_scale = 0.0
    w.avg_count = 0.0
    # S*v and u grow like 1/s while their difference does not: a narrower range
    # keeps the cancellation below three digits.
    w.low = 1e-3
    w.high = 1e3
    if fabs(w.scale) < w.low or fabs(w.scale) > w.high:
        svec_fold(w)


cdef inline void svec_count_average(SVec *w) noexcept nogil:
    """Count the current w as one iterate of the average."""
    if w.averaging:
        w.avg_scale += w.scale
        w.avg_count += 1.0


cdef inline bint svec_is_finite(const SVec *w) noexcept nogil:
    """The tracked numbers are finite: an overflow anywhere shows up in them."""
    return isfinite(w.scale) and isfinite(w.sq_v) and isfinite(w.avg_scale)
