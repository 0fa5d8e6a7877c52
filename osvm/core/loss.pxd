# Losses: value, xi = dloss/df and curvature rho = d2loss/df2, at one example.
#
# Follows Vishwanathan, Schraudolph, Smola (JMLR 2006), Table 1, and adds the
# squared, Huber and perceptron losses.  A loss is a small struct read by a
# switch; `custom` calls function pointers instead.
#
# Invariants
# - Scalar losses take a label y of -1 or +1 (classification), any real y
#   (regression), or no label at all (novelty: y is not read).
# - Kinks belong to the definition.  At a kink xi and rho are those of the side
#   named here, and the scalar and multi-output forms agree:
#       hinge, squared_hinge, novelty     loss-free side (violation is strict `<`)
#       multiclass_hinge, graph_hinge     loss-free side; first label among tied rivals
#       perceptron                        a score of exactly 0 is a mistake: xi = -y, value 0
#       modified_huber                    loss-free side at 1, quadratic side at -1
#       epsilon_insensitive               loss-free side (|f - y| = epsilon gives 0)
#       huber                             quadratic side (|f - y| = delta)
# - `margin` is the nu-trick's epsilon, 1 otherwise.  It replaces the 1 of hinge,
#   squared_hinge, novelty and multiclass_hinge and multiplies graph_hinge's
#   distances; the other losses have no margin and do not read it.
# - A NaN score gives a NaN value for every scalar loss and for softmax, so that a
#   loop need look at the value alone; nothing overflows for finite scores.
# - exp is the library's own (exp.h); 0 below the smallest normal number.
from libc.math cimport fabs, log1p
from libc.string cimport memset

from osvm.core.typedefs cimport Loss, loss_fn  # no-cython-lint: clients may cimport both from here

cdef extern from "../_c/exp.h" nogil:
    double osvm_exp_down(double x)

cdef enum LossKind:
    LOSS_HINGE = 0
    LOSS_SQUARED_HINGE = 1
    LOSS_PERCEPTRON = 2
    LOSS_LOGISTIC = 3
    LOSS_MODIFIED_HUBER = 4
    LOSS_NOVELTY = 5
    LOSS_EPSILON_INSENSITIVE = 6  # p0: half width of the tube
    LOSS_HUBER = 7                # p0: residual at which it becomes linear
    LOSS_SQUARED = 8
    LOSS_CUSTOM = 9               # value_fn, dloss_fn, curvature_fn (or NULL), user
    # multi-output from here on, see loss_is_multi
    LOSS_MULTICLASS_HINGE = 64
    LOSS_GRAPH_HINGE = 65         # delta, n_labels
    LOSS_SOFTMAX = 66


cdef inline void loss_init(Loss *loss, int kind) noexcept nogil:
    """A loss of this kind, with parameters 0 and pointers NULL."""
    memset(loss, 0, sizeof(Loss))
    loss.struct_size = sizeof(Loss)
    loss.kind = kind


cdef inline bint loss_is_multi(const Loss *loss) noexcept nogil:
    """True when the loss takes K scores at once; otherwise it works one-vs-rest."""
    return loss.kind >= LOSS_MULTICLASS_HINGE


# ------------------------------------------- one function per scalar loss
# Each writes xi and returns the value.  Comparisons are written so that a NaN
# score falls through to the branch that returns NaN.

cdef inline double loss_hinge(double y, double f, double margin, double *xi) noexcept nogil:
    """max(0, margin - y f)"""
    cdef double z = y * f
    if z >= margin:
        xi[0] = 0.0
        return 0.0
    xi[0] = -y
    return margin - z


cdef inline double loss_squared_hinge(double y, double f, double margin,
                                      double *xi) noexcept nogil:
    """max(0, margin - y f)^2"""
    cdef double z = y * f, gap
    if z >= margin:
        xi[0] = 0.0
        return 0.0
    gap = margin - z
    xi[0] = -2.0 * y * gap
    return gap * gap


cdef inline double loss_perceptron(double y, double f, double *xi) noexcept nogil:
    """max(0, -y f); a zero score counts as a mistake"""
    cdef double z = y * f
    if z > 0.0:
        xi[0] = 0.0
        return 0.0
    xi[0] = -y
    return 0.0 - z


cdef inline double loss_logistic(double y, double f, double *xi) noexcept nogil:
    """log(1 + exp(-y f)), from exp(-|y f|) alone, so that nothing overflows"""
    cdef double z = y * f
    cdef double e = osvm_exp_down(-fabs(z))
    xi[0] = -y * ((e if z > 0.0 else 1.0) / (1.0 + e))
    return log1p(e) - (z if z < 0.0 else 0.0)


cdef inline double loss_modified_huber(double y, double f, double *xi) noexcept nogil:
    """max(0, 1 - y f)^2 for y f >= -1, else -4 y f"""
    cdef double z = y * f, gap
    if z >= 1.0:
        xi[0] = 0.0
        return 0.0
    if z >= -1.0:
        gap = 1.0 - z
        xi[0] = -2.0 * y * gap
        return gap * gap
    xi[0] = -4.0 * y
    return -4.0 * z


cdef inline double loss_novelty(double f, double margin, double *xi) noexcept nogil:
    """max(0, margin - f)"""
    if f >= margin:
        xi[0] = 0.0
        return 0.0
    xi[0] = -1.0
    return margin - f


cdef inline double loss_epsilon_insensitive(double y, double f, double epsilon,
                                            double *xi) noexcept nogil:
    """max(0, |f - y| - epsilon)"""
    cdef double r = f - y
    if fabs(r) <= epsilon:
        xi[0] = 0.0
        return 0.0
    xi[0] = 1.0 if r > 0.0 else -1.0
    return fabs(r) - epsilon


cdef inline double loss_huber(double y, double f, double delta, double *xi) noexcept nogil:
    """r^2/2 for |r| <= delta, else delta |r| - delta^2/2, with r = f - y"""
    cdef double r = f - y
    if fabs(r) <= delta:
        xi[0] = r
        return 0.5 * r * r
    xi[0] = delta if r > 0.0 else -delta
    return delta * fabs(r) - 0.5 * delta * delta


cdef inline double loss_squared(double y, double f, double *xi) noexcept nogil:
    """(f - y)^2 / 2"""
    cdef double r = f - y
    xi[0] = r
    return 0.5 * r * r


cdef inline double loss_logistic_curvature(double f) noexcept nogil:
    """p (1 - p)"""
    cdef double e = osvm_exp_down(-fabs(f))
    return e / ((1.0 + e) * (1.0 + e))


# ------------------------------------------------------ any scalar loss

cdef inline double loss_value_xi_margin(const Loss *loss, double y, double f, double margin,
                                        double *xi) noexcept nogil:
    """Value, and xi through the pointer."""
    cdef int kind = loss.kind
    if kind == LOSS_HINGE:
        return loss_hinge(y, f, margin, xi)
    elif kind == LOSS_SQUARED_HINGE:
        return loss_squared_hinge(y, f, margin, xi)
    elif kind == LOSS_PERCEPTRON:
        return loss_perceptron(y, f, xi)
    elif kind == LOSS_LOGISTIC:
        return loss_logistic(y, f, xi)
    elif kind == LOSS_MODIFIED_HUBER:
        return loss_modified_huber(y, f, xi)
    elif kind == LOSS_NOVELTY:
        return loss_novelty(f, margin, xi)
    elif kind == LOSS_EPSILON_INSENSITIVE:
        return loss_epsilon_insensitive(y, f, loss.p0, xi)
    elif kind == LOSS_HUBER:
        return loss_huber(y, f, loss.p0, xi)
    elif kind == LOSS_SQUARED:
        return loss_squared(y, f, xi)
    # LOSS_CUSTOM
    xi[0] = loss.dloss_fn(y, f, loss.user)
    return loss.value_fn(y, f, loss.user)


cdef inline double loss_value_margin(const Loss *loss, double y, double f,
                                     double margin) noexcept nogil:
    """The value alone.  O(1)."""
    cdef double xi
    if loss.kind == LOSS_CUSTOM:
        return loss.value_fn(y, f, loss.user)
    return loss_value_xi_margin(loss, y, f, margin, &xi)


cdef inline double loss_xi_margin(const Loss *loss, double y, double f,
                                  double margin) noexcept nogil:
    """xi alone.  O(1)."""
    cdef double xi
    if loss.kind == LOSS_CUSTOM:
        return loss.dloss_fn(y, f, loss.user)
    loss_value_xi_margin(loss, y, f, margin, &xi)
    return xi


cdef inline double loss_curvature_margin(const Loss *loss, double y, double f,
                                         double margin) noexcept nogil:
    """rho; 0 for the losses made of straight lines."""
    cdef int kind = loss.kind
    if kind == LOSS_LOGISTIC:
        return loss_logistic_curvature(f)
    elif kind == LOSS_SQUARED_HINGE:
        return 2.0 if y * f < margin else 0.0
    elif kind == LOSS_MODIFIED_HUBER:
        return 2.0 if -1.0 <= y * f and y * f < 1.0 else 0.0
    elif kind == LOSS_HUBER:
        return 1.0 if fabs(f - y) <= loss.p0 else 0.0
    elif kind == LOSS_SQUARED:
        return 1.0
    elif kind == LOSS_CUSTOM:
        if loss.curvature_fn != NULL:
            return loss.curvature_fn(y, f, loss.user)
    return 0.0


cdef inline double loss_value(const Loss *loss, double y, double f) noexcept nogil:
    """The value with a margin of 1.  O(1)."""
    return loss_value_margin(loss, y, f, 1.0)


cdef inline double loss_xi(const Loss *loss, double y, double f) noexcept nogil:
    """xi with a margin of 1.  O(1)."""
    return loss_xi_margin(loss, y, f, 1.0)


cdef inline double loss_curvature(const Loss *loss, double y, double f) noexcept nogil:
    """rho with a margin of 1.  O(1)."""
    return loss_curvature_margin(loss, y, f, 1.0)


cdef inline double loss_value_xi(const Loss *loss, double y, double f,
                                 double *xi) noexcept nogil:
    """Value, and xi through the pointer, with a margin of 1.  O(1)."""
    return loss_value_xi_margin(loss, y, f, 1.0, xi)
