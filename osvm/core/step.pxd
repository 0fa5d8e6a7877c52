# Step sizes: schedules of t, and stochastic meta-descent (SMD) for one scalar.
#
# Sources: 1/(reg t) from Pegasos / Bagnell's notes; 1/(reg (t0 + t)) from Bottou;
# eta0 sqrt(tau/(tau + t)) from Vishwanathan, Schraudolph, Smola (62) with the eta0
# that its print omits; C sqrt(2/t) from Kecman, Melki; SMD from (36) of the same
# JMLR paper.
#
# Invariants
# - t is the number of the example, the first is 1; it is a double, so that it never
#   wraps.
# - SMD adapts with the current gradient *first* and uses the result: call
#   step_smd_adapt, then step_next.
# - SMD's eta stays within [eta_min, eta_max]; step_init leaves the cap at infinity and
#   step_set_reg lowers it to 1/reg, beyond which the shrink 1 - eta reg changes sign.
#   The floor keeps eta from collapsing to 0 (see ALGORITHMS in the documentation).
from libc.math cimport INFINITY, sqrt
from libc.string cimport memset

from osvm.core.typedefs cimport Step

cdef enum StepKind:
    STEP_INVERSE_TIME = 0   # reg
    STEP_BOTTOU = 1         # reg, t0
    STEP_INVERSE_SQRT = 2   # eta0, tau
    STEP_KECMAN = 3         # C
    STEP_CONSTANT = 4       # eta0
    STEP_SMD = 5            # eta0, mu, decay, eta_min, eta_max; one eta for all
    STEP_SMD_COORDINATE = 6  # the same numbers; the loop keeps one eta per coordinate
    STEP_ADAPTIVE = 7       # eta0, forget, flags; the loop keeps a rate per coordinate
    STEP_COIN_BETTING = 8   # alpha; the loop keeps the bets of each coordinate

cdef enum StepAdaptiveFlag:
    STEP_ADAPTIVE_NORMALIZED = 1     # by the largest value of each feature
    STEP_ADAPTIVE_MIRROR = 2         # reg in the mirror form
    STEP_ADAPTIVE_TAIL = 4           # an average is that of the last half to three quarters
    STEP_ADAPTIVE_EXPLICIT = 8       # steps as long as the rates make them, beyond the example too

cdef enum StepFlag:
    STEP_CAPPED = 16        # the loop takes no step beyond the example: see step_cap


cdef inline void step_init(Step *step, int kind, double eta0) noexcept nogil:
    """A step of this kind: eta0 as given, no cap, every other number 0."""
    memset(step, 0, sizeof(Step))
    step.struct_size = sizeof(Step)
    step.kind = kind
    step.eta0 = eta0
    step.eta = eta0
    step.eta_max = INFINITY


cdef inline void step_set_reg(Step *step, double reg) noexcept nogil:
    """Set reg, and lower SMD's cap to 1/reg."""
    step.reg = reg
    if reg > 0.0 and step.eta_max > 1.0 / reg:
        step.eta_max = 1.0 / reg
    if step.eta > step.eta_max:
        step.eta = step.eta_max


cdef inline double step_eta(const Step *step, double t) noexcept nogil:
    """The schedule's value at t = 1, 2, ...; eta0 for SMD."""
    cdef int kind = step.kind
    if kind == STEP_INVERSE_TIME:
        return 1.0 / (step.reg * t)
    elif kind == STEP_BOTTOU:
        return 1.0 / (step.reg * (step.t0 + t))
    elif kind == STEP_INVERSE_SQRT:
        return step.eta0 * sqrt(step.tau / (step.tau + t))
    elif kind == STEP_KECMAN:
        return step.C * sqrt(2.0 / t)
    return step.eta0


cdef inline double step_next(const Step *step, double t) noexcept nogil:
    """The step size to use for example t: SMD's current value, else the schedule's."""
    if step.kind == STEP_SMD:
        return step.eta
    return step_eta(step, t)


cdef inline double step_smd_factor(double mu, double gv) noexcept nogil:
    """max(1/2, 1 - mu gv), the factor of (36); also for one coordinate."""
    cdef double factor = 1.0 - mu * gv
    return 0.5 if factor < 0.5 else factor


cdef inline double step_cap(double eta, double loss, double sq_step) noexcept nogil:
    """eta, or the step at which the loss would be 0 were it straight, if that is less.

    `sq_step` is xi**2 k(x, x): by so much the score moves in a step of 1, times xi.  For the hinge
    loss this is the step to the margin (the implicit one, PA-I); for others Polyak's.
    """
    return loss / sq_step if eta * sq_step > loss else eta


cdef inline double step_clip(const Step *step, double eta) noexcept nogil:
    """eta within the floor and the cap; the cap wins where they cross."""
    if eta < step.eta_min:
        eta = step.eta_min
    if eta > step.eta_max:
        eta = step.eta_max
    return eta


cdef inline double step_smd_adapt(Step *step, double gv) noexcept nogil:
    """eta <- clip(eta max(1/2, 1 - mu gv)); the new eta."""
    step.eta = step_clip(step, step.eta * step_smd_factor(step.mu, gv))
    return step.eta
