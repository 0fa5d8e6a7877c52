# How far the weights can go in n steps that do not go beyond their examples.
#
# Where every step is kept within its example (osvm/linear/step_bound.pyx), a loss with a curvature
# has slope xi = curvature (f - y) or 0, and a step moves the score of its example from f
# to some place between f and y.  Measure (w, b) by
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
from libc.math cimport pow, sqrt

from osvm.linear.model cimport Options
from osvm.core.step cimport step_eta
from osvm.core.typedefs cimport Step


cdef inline double rho_at(const Step *step, const Options *options, double t) noexcept nogil:
    """eta / eta_b at step t; 1 where there is no b."""
    if not options.fit_intercept or options.intercept_eta0 <= 0.0:
        return 1.0
    return step_eta(step, t) * sqrt(t) / options.intercept_eta0


cdef inline double reach_after(const Step *step, const Options *options, double reach, double t,
                               double n, double pull) noexcept nogil:
    """Bound of sqrt(Q) after n more steps, and before.

    `reach` bounds it now, in the measure of step t + 1; `pull` bounds c curvature y^2.
    """
    cdef double first = step_eta(step, t + 1.0), last = step_eta(step, t + n + 1.0)
    cdef double power = options.reg / step.reg if options.reg > step.reg else 1.0
    cdef double peak = step.t0
    peak = t + 1.0 if peak < t + 1.0 else peak
    peak = t + n + 1.0 if peak > t + n + 1.0 else peak
    peak = rho_at(step, options, peak) / rho_at(step, options, t + 1.0)
    return sqrt((reach * reach + n * first * pull) * (peak if peak > 1.0 else 1.0)) \
        * pow(first / last, power)


cdef inline double intercept_reach(const Step *step, const Options *options, double reach,
                                   double t, double n) noexcept nogil:
    """Bound of |b| meanwhile."""
    cdef double rho = rho_at(step, options, t + 1.0), end = rho_at(step, options, t + n + 1.0)
    return reach / sqrt(rho if rho < end else end)
