# What one example asks of the binary models of K labels, for osvm/linear/label_block.pyx.
#
# Losses and slopes of all labels, their weights, whether their steps fit, and what goes
# with a step besides: shrinking and averaging.  Labels that came together and began with
# the same step size go by one clock.
from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t, int64_t

from osvm.linear.step_bound cimport bounded
from osvm.linear.model cimport Options
from osvm.linear.one_output_sparse cimport clamp_shrink
from osvm.linear.steps cimport largest_of
from osvm.core.loss cimport LOSS_HINGE, hinge, loss_value_xi
from osvm.core.smat cimport smat_fold, smat_rescale_column
from osvm.core.step cimport step_eta
from osvm.core.typedefs cimport Loss, SMat, Step

# What the labels of one clock share.
cdef struct Clock:
    Step step
    double intercept_eta0   # eta_b = this/sqrt(t); 0 = the weights' own step
    double t                # steps made, which are examples seen
    double averaged         # iterates in the average
    double reach            # bound of its labels' |w| and |b|; -1 = not known
    # of the example at hand:
    double eta
    double eta_b
    double shrink
    double counts           # 1 when this iterate belongs to the average


cdef inline double losses_of(const Loss *loss, Py_ssize_t K, const int32_t *own, Py_ssize_t n_own,
                             const double *f, double *xi, double *value) noexcept nogil:
    """Losses and slopes of all labels, of which `own` are the row's; the losses' sum."""
    cdef Py_ssize_t k, m
    cdef double total = 0.0
    if loss.kind == LOSS_HINGE:
        for k in range(K):          # no branch on any; a NaN is on the violating side
            xi[k] = 0.0 if f[k] <= -1.0 else 1.0
            value[k] = 0.0 if f[k] <= -1.0 else 1.0 + f[k]
        for m in range(n_own):
            k = own[m]
            value[k] = hinge(1.0, f[k], 1.0, &xi[k])
    else:
        for k in range(K):
            xi[k] = 0.0             # marks those that are -1
        for m in range(n_own):
            xi[own[m]] = 1.0
        for k in range(K):
            value[k] = loss_value_xi(loss, 1.0 if xi[k] > 0.0 else -1.0, f[k], &xi[k])
    for k in range(K):
        total += value[k]
    return total


cdef inline void read_clock(Clock *clock, const Options *options) noexcept nogil:
    """The step sizes of the next example."""
    clock.eta = step_eta(&clock.step, clock.t + 1.0)
    clock.eta_b = 0.0
    if options.fit_intercept:
        clock.eta_b = clock.eta
        if clock.intercept_eta0 > 0.0:
            clock.eta_b = clock.intercept_eta0 / sqrt(clock.t + 1.0)
    clock.shrink = clamp_shrink(1.0 - clock.eta * options.reg)
    clock.counts = options.average_from >= 0.0 and clock.t >= options.average_from


cdef inline void weigh(double *xi, Py_ssize_t K, const Clock *clocks, const int64_t *clock_of,
                       const int32_t *own, Py_ssize_t n_own, double c, const double *class_weight,
                       double curvature, double sq_norm, double *weights) noexcept nogil:
    """xi times the weight of the example, for each label."""
    cdef Py_ssize_t k, m
    cdef const Clock *clock
    if class_weight == NULL and curvature == 0.0:
        if c != 1.0:
            for k in range(K):
                xi[k] *= c
        return
    for k in range(K):
        weights[k] = c if class_weight == NULL else c * class_weight[k]
    if class_weight != NULL:
        for m in range(n_own):
            weights[own[m]] = c * class_weight[K + own[m]]
    if curvature > 0.0:
        for k in range(K):
            clock = &clocks[clock_of[k]]
            weights[k] = bounded(weights[k], curvature, clock.eta * sq_norm + clock.eta_b)
    for k in range(K):
        xi[k] *= weights[k]


cdef inline bint steps_fit(const SMat *w, const double *xi, const Clock *clocks,
                           Py_ssize_t n_clocks, const int64_t *clock_of,
                           double limit) noexcept nogil:
    """Whether the steps eta xi x overflow nothing; |x| is in `limit`."""
    cdef Py_ssize_t k, q
    cdef double pull = largest_of(xi, w.n_out), eta = 0.0, averaged = 0.0, size
    if not pull < 1e145:
        return False
    for q in range(n_clocks):
        eta = clocks[q].eta if clocks[q].eta > eta else eta
        averaged = clocks[q].averaged if clocks[q].averaged > averaged else averaged
    # Scales stay within [low, high], which settles it nearly always.
    if eta * pull * (1.0 + averaged * w.high) < limit * w.low:
        return True
    for k in range(w.n_out):
        size = clocks[clock_of[k]].eta * fabs(xi[k])
        size *= w.avg_scale[k] if w.avg_scale[k] > 1.0 else 1.0
        if not size < limit * fabs(w.scale[k]):
            return False
    return True


cdef inline void shrink_all(SMat *w, const Clock *clocks, const int64_t *clock_of) noexcept nogil:
    """w_k *= 1 - eta reg"""
    cdef Py_ssize_t k
    cdef double *scale = w.scale
    cdef double low = w.low, high = w.high
    cdef int outside = 0
    for k in range(w.n_out):
        scale[k] *= clocks[clock_of[k]].shrink
        outside |= (fabs(scale[k]) < low) | (fabs(scale[k]) > high)
    if not outside:
        return
    for k in range(w.n_out):
        if scale[k] == 0.0:
            smat_rescale_column(w, k, 0.0)
        elif fabs(scale[k]) < low or fabs(scale[k]) > high:
            smat_fold(w, k)


cdef inline void average_all(SMat *w, Clock *clocks, Py_ssize_t n_clocks, const int64_t *clock_of,
                             const double *b, double *b_sum) noexcept nogil:
    """Count the iterates of the labels whose average has begun."""
    cdef Py_ssize_t k, q
    cdef double counts = 0.0, on
    for q in range(n_clocks):
        counts += clocks[q].counts
        clocks[q].averaged += clocks[q].counts
    if counts == 0.0:
        return
    if not w.averaging:             # as smat_start_average: less cancellation in u
        w.averaging = 1
        w.low, w.high = 1e-3, 1e3
        for k in range(w.n_out):
            if fabs(w.scale[k]) < w.low or fabs(w.scale[k]) > w.high:
                smat_fold(w, k)
    for k in range(w.n_out):
        on = clocks[clock_of[k]].counts
        w.avg_scale[k] += on * w.scale[k]
        b_sum[k] += on * b[k]
