# A step of K outputs whose average is updated one example later.
#
# The average's accumulator u takes part in no score.  A loop that changes it only when the
# next example's scores are known gives the memory time to fetch what is to be changed,
# which is as much again as the weights themselves.  The order of changes is kept, and
# with it every bit of what smat_axpy gives.
#
#     smat_step(w, c, x, &pending)    instead of smat_axpy(w, c, x)
#     smat_flush(w, &pending)         before anything else changes or reads W's average
#
# `x` must live until then.  The arrays of a PendingUpdate belong to the caller.
from osvm._c.row_all cimport (
    is_few, row_axpy_all, row_axpy_few, row_axpy_one, row_fetch_all,
)
from osvm.core.typedefs cimport WEIGHT_F32, Row, SMat, float32_t, float64_t

cdef struct PendingUpdate:
    double *c                   # room for n_out coefficients
    Py_ssize_t *active          # and for the outputs that they belong to
    Py_ssize_t n_active         # 0: nothing is pending
    Row x


cdef inline Py_ssize_t find_active(const double *c, Py_ssize_t n_out,
                                   Py_ssize_t *active) noexcept nogil:
    """The outputs with c[k] != 0, in order; how many."""
    cdef Py_ssize_t k, n = 0
    for k in range(n_out):      # no branch: nobody can foretell it
        active[n] = k
        n += c[k] != 0.0
    return n


cdef inline void axpy_active(SMat *w, void *v, const double *c, const Py_ssize_t *active,
                             Py_ssize_t n_active, const Row *x, void *fetch) noexcept nogil:
    """Columns of v or u += c[m] x; x's scale is in c."""
    cdef Py_ssize_t k, m
    if is_few(n_active, w.n_out):
        if w.kind == WEIGHT_F32:
            row_axpy_few(x, c, active, n_active, w.n_out, <float32_t *> v,
                         <const float32_t *> fetch)
        else:
            row_axpy_few(x, c, active, n_active, w.n_out, <float64_t *> v,
                         <const float64_t *> fetch)
        return
    if w.kind == WEIGHT_F32:
        for k in range(w.n_out):
            (<float32_t *> w.work)[k] = 0
        for m in range(n_active):
            (<float32_t *> w.work)[active[m]] = <float32_t> c[m]
        if fetch != NULL:
            row_fetch_all(x, w.n_out, <const float32_t *> fetch)
        row_axpy_all(x, <const float32_t *> w.work, w.n_out, <float32_t *> v)
    else:
        for k in range(w.n_out):
            (<float64_t *> w.work)[k] = 0
        for m in range(n_active):
            (<float64_t *> w.work)[active[m]] = c[m]
        if fetch != NULL:
            row_fetch_all(x, w.n_out, <const float64_t *> fetch)
        row_axpy_all(x, <const float64_t *> w.work, w.n_out, <float64_t *> v)


cdef inline void smat_flush(SMat *w, PendingUpdate *pending) noexcept nogil:
    """Make the average's pending update."""
    if pending.n_active > 0:
        axpy_active(w, w.u, pending.c, pending.active, pending.n_active, &pending.x, NULL)
        pending.n_active = 0


cdef inline void smat_step(SMat *w, const double *c, const Row *x,
                           PendingUpdate *pending) noexcept nogil:
    """w_k += c[k] x for every output; the average's update goes to `pending`.

    A column changes by the same bits whichever branch is taken, and so whatever the other
    columns are.
    """
    cdef Py_ssize_t k, m, n_active = find_active(c, w.n_out, pending.active)
    pending.n_active = 0
    if n_active == 0:
        return
    for m in range(n_active):
        k = pending.active[m]
        pending.c[m] = c[k] / w.scale[k] * x.scale
    if w.track_norm:            # column by column
        for m in range(n_active):
            k = pending.active[m]
            if w.kind == WEIGHT_F32:
                row_axpy_one(x, c[k] / w.scale[k], w.n_out, <float32_t *> w.v + k, &w.sq_v[k])
            else:
                row_axpy_one(x, c[k] / w.scale[k], w.n_out, <float64_t *> w.v + k, &w.sq_v[k])
    else:
        axpy_active(w, w.v, pending.c, pending.active, n_active, x, w.u if w.averaging else NULL)
    if w.averaging:
        for m in range(n_active):
            k = pending.active[m]
            pending.c[m] = c[k] / w.scale[k] * w.avg_scale[k] * x.scale
        pending.n_active = n_active
        pending.x = x[0]
