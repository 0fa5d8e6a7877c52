# May this step be made, and what bounds the weights: the one answer for all linear loops.
#
# A step moves v = w / scale along a row by eta |xi| c |x| / scale; the average's accumulator u
# moves by avg_scale times as much.  A step that could overflow either is not made.
#
# Losses with a curvature (squared loss and its kin) have a slope that grows with the error: a
# step on f = w.x + b changes the error by the factor
#
#     1 - c curvature (eta ||x||^2 + eta_b)        c: the example's weight
#
# and where this is below -1 the errors grow without end.  The default step size is chosen by
# the first rows of a stream and cannot know the others, so each example's weight is lowered to
# where the factor is 0, which fits the example exactly (as in the normalized least mean squares
# of Nagumo and Noda, 1967).  A weight depends on its row and on t alone, not on how a stream is
# cut; rows within the bound keep their weight, to the bit.
#
# How far the weights can go in n such steps: the slope is xi = curvature (f - y) or 0, and a
# step moves the score of its example from f to somewhere between f and y.  Measure (w, b) by
#
#     Q = ||w||^2 + rho b^2           rho = eta / eta_b
#
# The step goes along (x, eta_b / eta), which is x in this measure, and so by convexity
#
#     Q <- at most Q + eta c curvature y^2
#
# whatever the rows are.  The shrinking of w comes from the weights before the step, which
# costs a factor (1 + eta reg)^2.  As eta = 1/(reg (t0 + t)), those multiply to a power of
# (t0 + t + n)/(t0 + t); rho grows until t = t0 and falls thereafter.
from libc.math cimport INFINITY, fabs, pow, sqrt

from osvm.linear.dual_steps cimport full_sq_norm, plain_sq_norm
from osvm.linear.model cimport Options
from osvm.core.loss cimport (
    LOSS_CUSTOM, LOSS_HUBER, LOSS_MODIFIED_HUBER, LOSS_SQUARED, LOSS_SQUARED_HINGE,
)
from osvm.core.rows cimport row_is_sorted, row_value
from osvm.core.step cimport step_eta
from osvm.core.typedefs cimport WEIGHT_F32, Loss, Row, SMat, Step


# --------------------------------------------------------------- sizes of a step

cdef inline double clamp_shrink(double factor) noexcept nogil:
    """1 - eta reg, but never a change of sign (eta > 1/reg empties w)."""
    return factor if factor > 0.0 else 0.0


cdef inline double intercept_step(double intercept_eta0, double t, double eta) noexcept nogil:
    """eta_b, the step of b that goes with the weights' step eta at step t."""
    return intercept_eta0 / sqrt(t) if intercept_eta0 > 0.0 else eta


cdef inline double loss_slope(const Loss *loss) noexcept nogil:
    """Bound of |xi|; infinity where there is none."""
    if loss.kind in (LOSS_SQUARED_HINGE, LOSS_SQUARED, LOSS_CUSTOM):
        return INFINITY
    if loss.kind == LOSS_MODIFIED_HUBER:
        return 4.0
    return loss.p0 if loss.kind == LOSS_HUBER else 1.0


cdef inline double largest_of(const double *xi, Py_ssize_t K) noexcept nogil:
    cdef Py_ssize_t k
    cdef double largest = 0.0
    for k in range(K):
        largest = fabs(xi[k]) if fabs(xi[k]) > largest else largest
    return largest


cdef inline double row_largest(const Row *row) noexcept nogil:
    """The row's own bound of |x|, where the bound of all rows is too large."""
    cdef Py_ssize_t k
    cdef double size, largest = 0.0
    for k in range(row.count):
        size = fabs(row_value(row, k))
        largest = size if size > largest else largest
    return largest


# ------------------------------------------------------------- does a step fit?

cdef inline double weight_room(int kind) noexcept nogil:
    """How large a weight may become.

    A float32 weight holds 1e38 and a float64 one 1e308, of which norms are squared;
    what is left is room for more steps than anybody makes.
    """
    return 1e30 if kind == WEIGHT_F32 else 1e145


cdef inline double scale_after(double scale, double factor, double low) noexcept nogil:
    """The size of a scale once it was shrunk; below `low` it is folded, and is 1."""
    cdef double size = fabs(scale * factor)
    return size if size >= low else 1.0


cdef inline double coefficient_room(int kind) noexcept nogil:
    """How large the coefficient of a row may be, which is of the weights' type."""
    return 1e37 if kind == WEIGHT_F32 else 1e290


cdef inline double step_limit(int kind, double largest) noexcept nogil:
    """How far a step may move v along a row whose values are at most `largest`.

    The step's coefficient has its own bound, however small the values are.
    """
    cdef double limit = weight_room(kind) / largest, most = coefficient_room(kind)
    return limit if limit < most else most


cdef inline bint step_fits(double eta, double xi, double scale, double avg_scale,
                           double limit) noexcept nogil:
    """Whether w -= eta xi x can be made without overflow in v, in u and in b; a NaN cannot."""
    cdef double size = fabs(eta * xi), room = limit * fabs(scale)
    return fabs(xi) < 1e145 and size < room and size * avg_scale < room


cdef inline bint steps_fit(const SMat *w, const double *eta, const double *xi, double c,
                           double averaged, double limit) noexcept nogil:
    """The same for the steps eta[k] c xi[k] x of K columns, `averaged` iterates at most."""
    cdef Py_ssize_t k, good = 0
    # Scales stay within [low, high], which is enough nearly always; no branch, no order of sums.
    cdef double room = limit * w.low / (1.0 + averaged * w.high)
    for k in range(w.n_out):
        good += (fabs(c * xi[k]) < 1e145) & (eta[k] * fabs(c * xi[k]) < room)
    if good == w.n_out:
        return True
    for k in range(w.n_out):
        if not step_fits(eta[k], c * xi[k], w.scale[k], w.avg_scale[k], limit):
            return False
    return True


# ------------------------------------------ steps that stay within their examples

cdef inline double bounded_sq_norm(const Row *x, double *scratch) noexcept nogil:
    """||x||^2; -1 when columns may repeat and there is no scratch."""
    if row_is_sorted(x):
        return plain_sq_norm(x)
    return full_sq_norm(x, scratch) if scratch != NULL else -1.0


cdef inline double bounded(double weight, double curvature, double sq_step) noexcept nogil:
    """The example's weight, lowered to where `weight curvature sq_step` is 1.

    `sq_step` is eta ||x||^2 + eta_b.
    """
    return 1.0 / (curvature * sq_step) if weight * curvature * sq_step > 1.0 else weight


cdef inline double bounded_at(const Step *step, const Options *options, double weight,
                              double curvature, double t, double sq_norm) noexcept nogil:
    """The weight of an example with ||x||^2 = sq_norm at step t."""
    cdef double eta = step_eta(step, t), eta_b = 0.0
    if options.fit_intercept:
        eta_b = intercept_step(options.intercept_eta0, t, eta)
    return bounded(weight, curvature, eta * sq_norm + eta_b)


# ----------------------------------------------------- bounds of the weights

cdef inline double rho_at(const Step *step, const Options *options, double t) noexcept nogil:
    """eta / eta_b at step t; 1 where there is no b."""
    if not options.fit_intercept or options.intercept_eta0 <= 0.0:
        return 1.0
    return step_eta(step, t) / intercept_step(options.intercept_eta0, t, 0.0)


cdef inline double weight_bound_after(const Step *step, const Options *options, double bound,
                                      double t, double n, double step_bound) noexcept nogil:
    """Bound of sqrt(Q) after n more steps, and before.

    `bound` holds now, in the measure of step t + 1; `step_bound` bounds c curvature y^2.
    """
    cdef double first = step_eta(step, t + 1.0), last = step_eta(step, t + n + 1.0)
    cdef double power = options.reg / step.reg if options.reg > step.reg else 1.0
    cdef double peak = step.t0
    peak = t + 1.0 if peak < t + 1.0 else peak
    peak = t + n + 1.0 if peak > t + n + 1.0 else peak
    peak = rho_at(step, options, peak) / rho_at(step, options, t + 1.0)
    return sqrt((bound * bound + n * first * step_bound) * (peak if peak > 1.0 else 1.0)) \
        * pow(first / last, power)


cdef inline double intercept_bound(const Step *step, const Options *options, double bound,
                                   double t, double n) noexcept nogil:
    """Bound of |b| meanwhile."""
    cdef double rho = rho_at(step, options, t + 1.0), end = rho_at(step, options, t + n + 1.0)
    return bound / sqrt(rho if rho < end else end)


# What is known of n examples before they are learnt.
cdef struct RunBounds:
    double n
    double count            # of the stored values of a row
    double largest          # of |x|
    double heaviest         # of the examples' weights
    double target           # of |y|
    double slope            # of |xi|; infinity: the steps are bounded by the curvature instead
    double curvature


cdef inline double numbers_bound(const Step *step, const Options *options, const RunBounds *run,
                                 double t, double averaged, double *bound) noexcept nogil:
    """Bound of v, u, b and the scores during n more steps; the weights' `bound` moves on."""
    cdef double wide = run.largest if run.largest > 1.0 else 1.0
    cdef double size = step_eta(step, t + 1.0), score
    size = options.intercept_eta0 if options.intercept_eta0 > size else size
    if run.slope < INFINITY:
        size *= run.slope * run.heaviest
        bound[0] += run.n * size * wide
        score = bound[0] * (1.0 + run.largest * run.count)
    else:
        bound[0] = weight_bound_after(step, options, bound[0], t, run.n,
                                      run.heaviest * run.curvature * run.target * run.target)
        score = bound[0] * run.largest * run.count + intercept_bound(
            step, options, bound[0], t, run.n)
        size *= run.heaviest * run.curvature * (score + run.target)
    # v is w over its scale, which is 1e-9 or more
    return (bound[0] + score + size * wide * (1.0 + run.n + averaged)) * 1e9
