# Mini-batches of the linear model: gradients are summed, then one step is made.
#
# Source: Bagnell's notes, mini-batches.  The step is that of one example, with the mean
# of the batch's gradients in place of its own.
#
# Invariants
# - `grad` is zero outside of `touched[:n_touched]`, or anywhere with `touched_all`;
# - entries of `grad` are at most `batch_bound`, for which a step is sure to fit;
# - the state of a pending batch is part of the learner's, so that calls may cut it.
from libc.stdint cimport int64_t
from libc.string cimport memset

from osvm.linear.model cimport (
    DONE, STEP_TOO_LARGE, LinearModel, after_step, lift_columns, lift_vector,
)
from osvm.linear.step_guard cimport (
    clamp_shrink, coefficient_room, intercept_step, largest_of, row_largest, scale_after,
    step_fits, weight_room,
)
from osvm.core.row cimport row_axpy
from osvm._c.row_all cimport row_axpy_all
from osvm.core.rows cimport row_index
from osvm.core.smat cimport smat_shrink
from osvm.core.step cimport step_next
from osvm.core.svec cimport svec_axpy, svec_shrink
from osvm.core.typedefs cimport (
    ROW_F32_DENSE, ROW_F32_I64, ROW_F64_DENSE, ROW_F64_I64, WEIGHT_F32, Row, SMat, float32_t,
    float64_t, weight_t,
)


cdef inline void clear(void *array, Py_ssize_t n, int kind) noexcept nogil:
    memset(array, 0, n * (4 if kind == WEIGHT_F32 else 8))


cdef inline bint fits_batch(LinearModel *model, double bound) noexcept nogil:
    """Whether a gradient with entries up to `bound` can be summed, and a step made."""
    cdef double eta = step_next(&model.step, model.t + 1.0)
    cdef double shrunk = clamp_shrink(1.0 - eta * model.options.reg)    # before the step
    cdef double limit
    cdef Py_ssize_t k
    if model.vec != NULL:
        limit = weight_room(model.vec.kind)
        return bound < limit and step_fits(
            eta, bound, scale_after(model.vec.scale, shrunk, model.vec.low), model.vec.avg_scale,
            limit)
    limit = weight_room(model.mat.kind)
    # Scales stay within [low, high], which is enough nearly always.
    if step_fits(eta, bound, model.mat.low, 1.0 + model.mat.avg_count * model.mat.high, limit):
        return bound < limit
    for k in range(model.n_out):
        if not step_fits(eta, bound, scale_after(model.mat.scale[k], shrunk, model.mat.low),
                         model.mat.avg_scale[k], limit):
            return False
    return bound < limit


cdef inline void sum_gradient(LinearModel *model, const Row *row, const double *xi,
                              double c) noexcept nogil:
    """Add c xi x to the batch's gradient and remember which features it touched."""
    cdef Py_ssize_t k, i, n_active = 0
    cdef Py_ssize_t K = model.n_out, dim
    for k in range(K):
        n_active += xi[k] != 0.0
    model.pending += 1.0
    if n_active == 0:
        return
    if model.options.fit_intercept:
        for k in range(K):
            model.grad_b[k] += c * xi[k]
    if model.vec != NULL:
        dim = model.vec.dim
        if model.vec.kind == WEIGHT_F32:
            row_axpy(row, c * xi[0], <float32_t *> model.grad)
        else:
            row_axpy(row, c * xi[0], <float64_t *> model.grad)
    else:
        dim = model.mat.dim
        if model.mat.kind == WEIGHT_F32:
            for k in range(K):
                (<float32_t *> model.mat.work)[k] = <float32_t> (c * xi[k] * row.scale)
            row_axpy_all(row, <const float32_t *> model.mat.work, K, <float32_t *> model.grad)
        else:
            for k in range(K):
                (<float64_t *> model.mat.work)[k] = c * xi[k] * row.scale
            row_axpy_all(row, <const float64_t *> model.mat.work, K, <float64_t *> model.grad)
    if model.touched_all or row.indices == NULL or model.n_touched + row.count > dim:
        model.touched_all = True
        return
    for i in range(row.count):
        model.touched[model.n_touched + i] = row_index(row, i)
    model.n_touched += row.count


cdef inline void take_gradient(LinearModel *model, weight_t *grad, weight_t *values,
                               Row *row) noexcept nogil:
    """The summed gradient as a row; a sparse one is cleared at once."""
    cdef Py_ssize_t i, n = 0
    cdef int64_t j
    row.struct_size = sizeof(Row)
    row.scale = 1.0
    row.step = 1
    if model.touched_all:
        row.values = grad
        row.indices = NULL
        row.count = model.vec.dim
        row.kind = ROW_F32_DENSE if weight_t is float32_t else ROW_F64_DENSE
        return
    for i in range(model.n_touched):
        j = model.touched[i]
        if grad[j] != 0:            # a feature touched twice is there once
            values[n] = grad[j]
            model.touched[n] = j
            grad[j] = 0
            n += 1
    row.values = values
    row.indices = model.touched
    row.count = n
    row.kind = ROW_F32_I64 if weight_t is float32_t else ROW_F64_I64


cdef inline void add_gradient(LinearModel *model, weight_t *grad, weight_t *v, weight_t *u,
                              double c) noexcept nogil:
    """W += c grad on the touched features, and clear them."""
    cdef SMat *w = model.mat
    cdef Py_ssize_t K = model.n_out, i, k, at
    cdef Py_ssize_t n = w.dim if model.touched_all else model.n_touched
    cdef double step, old, new
    for i in range(n):
        at = (i if model.touched_all else model.touched[i]) * K
        for k in range(K):
            if grad[at + k] != 0:
                step = c * grad[at + k] / w.scale[k]
                old = v[at + k]
                v[at + k] += <weight_t> step
                new = v[at + k]
                if w.track_norm:
                    w.sq_v[k] += (new - old) * (new + old)
                if w.avg_scale[k] != 0.0:
                    u[at + k] += <weight_t> (step * w.avg_scale[k])
                grad[at + k] = 0


cdef inline void apply_batch(LinearModel *model) noexcept nogil:
    """One step with the mean of the batch's gradients."""
    cdef Row row
    cdef double eta, eta_b, c
    cdef Py_ssize_t k
    if model.pending == 0.0:
        return
    model.t += 1.0
    eta = step_next(&model.step, model.t)
    c = -eta / model.pending
    if model.vec != NULL:
        lift_vector(model.vec, model.lift)
        svec_shrink(model.vec, clamp_shrink(1.0 - eta * model.options.reg))
        if model.vec.kind == WEIGHT_F32:
            take_gradient(model, <float32_t *> model.grad, <float32_t *> model.values, &row)
        else:
            take_gradient(model, <float64_t *> model.grad, <float64_t *> model.values, &row)
        svec_axpy(model.vec, c, &row)
        if model.touched_all:
            clear(model.grad, model.vec.dim, model.vec.kind)
    else:
        lift_columns(model.mat, model.lift)
        smat_shrink(model.mat, clamp_shrink(1.0 - eta * model.options.reg))
        if model.mat.kind == WEIGHT_F32:
            add_gradient(model, <float32_t *> model.grad, <float32_t *> model.mat.v,
                         <float32_t *> model.mat.u, c)
        else:
            add_gradient(model, <float64_t *> model.grad, <float64_t *> model.mat.v,
                         <float64_t *> model.mat.u, c)
    if model.options.fit_intercept:
        eta_b = intercept_step(model.options.intercept_eta0, model.t, eta)
        for k in range(model.n_out):
            model.b[k] -= eta_b / model.pending * model.grad_b[k]
            model.grad_b[k] = 0.0
    model.n_touched = 0
    model.touched_all = False
    model.pending = 0.0
    model.batch_bound = 0.0
    after_step(model)


cdef inline int take_into_batch(LinearModel *model, const Row *row, const double *xi, double c,
                                double largest) noexcept nogil:
    """Sum one example's gradient, and make the step when the batch is full.

    The bounds of the examples add up to a bound of the step, so that an example
    that would overflow it is refused before anything changes.
    """
    cdef double size = c * largest_of(xi, model.n_out)
    cdef int kind = model.vec.kind if model.vec != NULL else model.mat.kind
    # The coefficient is of the weights' type, however small the row's values are.
    if not size * row.scale < coefficient_room(kind):
        return STEP_TOO_LARGE
    if not fits_batch(model, model.batch_bound + size * largest):
        largest = row_largest(row)
        if not fits_batch(model, model.batch_bound + size * largest):
            return STEP_TOO_LARGE
    model.batch_bound += size * largest
    sum_gradient(model, row, xi, c)
    if model.pending >= model.options.batch_size:
        apply_batch(model)
    return DONE
