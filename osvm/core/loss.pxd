# Losses: value, xi = dloss/df and curvature rho = d2loss/df2, at one example.
#
# Follows Vishwanathan, Schraudolph, Smola (JMLR 2006), Table 1, and adds the
# squared, Huber and perceptron losses.  A loss is a small struct read by a
# switch; `custom` calls function pointers instead.
#
# Invariants
# - Scalar losses take a label y of -1 or +1 (classification), any real y
#   (regression), or no label at all (novelty: y is not read).
# - Multi-output losses take the number of the true label and K scores; a scalar
#   loss given to an `mloss_` function is applied one-vs-rest (y = +1 for the true
#   label, -1 for the others; values add up).
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
from libc.math cimport fabs, log, log1p
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

cdef inline double hinge(double y, double f, double margin, double *xi) noexcept nogil:
    """max(0, margin - y f)"""
    cdef double z = y * f
    if z >= margin:
        xi[0] = 0.0
        return 0.0
    xi[0] = -y
    return margin - z


cdef inline double squared_hinge(double y, double f, double margin, double *xi) noexcept nogil:
    """max(0, margin - y f)^2"""
    cdef double z = y * f, gap
    if z >= margin:
        xi[0] = 0.0
        return 0.0
    gap = margin - z
    xi[0] = -2.0 * y * gap
    return gap * gap


cdef inline double perceptron(double y, double f, double *xi) noexcept nogil:
    """max(0, -y f); a zero score counts as a mistake"""
    cdef double z = y * f
    if z > 0.0:
        xi[0] = 0.0
        return 0.0
    xi[0] = -y
    return 0.0 - z


cdef inline double logistic(double y, double f, double *xi) noexcept nogil:
    """log(1 + exp(-y f)), from exp(-|y f|) alone, so that nothing overflows"""
    cdef double z = y * f
    cdef double e = osvm_exp_down(-fabs(z))
    xi[0] = -y * ((e if z > 0.0 else 1.0) / (1.0 + e))
    return log1p(e) - (z if z < 0.0 else 0.0)


cdef inline double modified_huber(double y, double f, double *xi) noexcept nogil:
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


cdef inline double novelty(double f, double margin, double *xi) noexcept nogil:
    """max(0, margin - f)"""
    if f >= margin:
        xi[0] = 0.0
        return 0.0
    xi[0] = -1.0
    return margin - f


cdef inline double epsilon_insensitive(double y, double f, double epsilon,
                                       double *xi) noexcept nogil:
    """max(0, |f - y| - epsilon)"""
    cdef double r = f - y
    if fabs(r) <= epsilon:
        xi[0] = 0.0
        return 0.0
    xi[0] = 1.0 if r > 0.0 else -1.0
    return fabs(r) - epsilon


cdef inline double huber(double y, double f, double delta, double *xi) noexcept nogil:
    """r^2/2 for |r| <= delta, else delta |r| - delta^2/2, with r = f - y"""
    cdef double r = f - y
    if fabs(r) <= delta:
        xi[0] = r
        return 0.5 * r * r
    xi[0] = delta if r > 0.0 else -delta
    return delta * fabs(r) - 0.5 * delta * delta


cdef inline double squared(double y, double f, double *xi) noexcept nogil:
    """(f - y)^2 / 2"""
    cdef double r = f - y
    xi[0] = r
    return 0.5 * r * r


cdef inline double logistic_curvature(double f) noexcept nogil:
    """p (1 - p)"""
    cdef double e = osvm_exp_down(-fabs(f))
    return e / ((1.0 + e) * (1.0 + e))


# ------------------------------------------------------ any scalar loss

cdef inline double loss_value_xi_margin(const Loss *loss, double y, double f, double margin,
                                        double *xi) noexcept nogil:
    """Value, and xi through the pointer."""
    cdef int kind = loss.kind
    if kind == LOSS_HINGE:
        return hinge(y, f, margin, xi)
    elif kind == LOSS_SQUARED_HINGE:
        return squared_hinge(y, f, margin, xi)
    elif kind == LOSS_PERCEPTRON:
        return perceptron(y, f, xi)
    elif kind == LOSS_LOGISTIC:
        return logistic(y, f, xi)
    elif kind == LOSS_MODIFIED_HUBER:
        return modified_huber(y, f, xi)
    elif kind == LOSS_NOVELTY:
        return novelty(f, margin, xi)
    elif kind == LOSS_EPSILON_INSENSITIVE:
        return epsilon_insensitive(y, f, loss.p0, xi)
    elif kind == LOSS_HUBER:
        return huber(y, f, loss.p0, xi)
    elif kind == LOSS_SQUARED:
        return squared(y, f, xi)
    # LOSS_CUSTOM
    xi[0] = loss.dloss_fn(y, f, loss.user)
    return loss.value_fn(y, f, loss.user)


cdef inline double loss_value_margin(const Loss *loss, double y, double f,
                                     double margin) noexcept nogil:
    cdef double xi
    if loss.kind == LOSS_CUSTOM:
        return loss.value_fn(y, f, loss.user)
    return loss_value_xi_margin(loss, y, f, margin, &xi)


cdef inline double loss_xi_margin(const Loss *loss, double y, double f,
                                  double margin) noexcept nogil:
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
        return logistic_curvature(f)
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
    return loss_value_margin(loss, y, f, 1.0)


cdef inline double loss_xi(const Loss *loss, double y, double f) noexcept nogil:
    return loss_xi_margin(loss, y, f, 1.0)


cdef inline double loss_curvature(const Loss *loss, double y, double f) noexcept nogil:
    return loss_curvature_margin(loss, y, f, 1.0)


cdef inline double loss_value_xi(const Loss *loss, double y, double f,
                                 double *xi) noexcept nogil:
    return loss_value_xi_margin(loss, y, f, 1.0, xi)


# ------------------------------------------------- multi-output losses
# K scores f, the number of the true label, xi with room for K numbers.

cdef inline double multiclass_hinge(Py_ssize_t K, Py_ssize_t label, const double *f,
                                    double margin, double *xi) noexcept nogil:
    """max(0, margin + max_{k != label} f_k - f_label)  (19)"""
    cdef Py_ssize_t k, rival = -1
    cdef double best = 0.0, lead
    for k in range(K):
        xi[k] = 0.0
        if k != label and (rival < 0 or f[k] > best):
            rival = k
            best = f[k]
    if rival < 0:
        return 0.0
    lead = f[label] - best
    if lead >= margin:
        return 0.0
    xi[label] = -1.0
    xi[rival] = 1.0
    return margin - lead


cdef inline double graph_hinge(Py_ssize_t K, Py_ssize_t label, const double *f, double margin,
                               const double *distance, double *xi) noexcept nogil:
    """max(0, max_{k != label} (margin distance_k + f_k) - f_label)  (28)"""
    cdef Py_ssize_t k, rival = -1
    cdef double best = 0.0, score
    for k in range(K):
        xi[k] = 0.0
        if k == label:
            continue
        score = margin * distance[k] + f[k]
        if rival < 0 or score > best:
            rival = k
            best = score
    if rival < 0 or f[label] >= best:
        return 0.0
    xi[label] = -1.0
    xi[rival] = 1.0
    return best - f[label]


cdef inline double softmax_probability(Py_ssize_t K, const double *f, double *p) noexcept nogil:
    """p_k = exp(f_k) / sum exp(f); the logarithm of the sum."""
    cdef Py_ssize_t k
    cdef double top = f[0], total = 0.0
    for k in range(1, K):
        if f[k] > top:
            top = f[k]
    for k in range(K):
        p[k] = osvm_exp_down(f[k] - top)
        total += p[k]
    for k in range(K):
        p[k] /= total
    return top + log(total)


cdef inline double softmax(Py_ssize_t K, Py_ssize_t label, const double *f,
                           double *xi) noexcept nogil:
    """log sum_k exp(f_k - f_label)  (23)

    xi_label is summed as -(the others' probability), not as p - 1, which would
    lose it when p is close to 1; the value likewise.
    """
    cdef Py_ssize_t k
    cdef double top = f[0], others = 0.0, total
    for k in range(1, K):
        if f[k] > top:
            top = f[k]
    for k in range(K):
        xi[k] = osvm_exp_down(f[k] - top)
        if k != label:
            others += xi[k]
    total = others + xi[label]
    for k in range(K):
        xi[k] /= total
    xi[label] = -(others / total)
    if f[label] == top:
        return log1p(others)
    return top - f[label] + log(total)


cdef inline double hinge_against(Py_ssize_t n, const double *f, double margin, double *xi,
                                 double total) noexcept nogil:
    """total + the sum of hinge(-1, f, margin) over n scores, without a branch on any."""
    cdef Py_ssize_t k
    for k in range(n):
        # a NaN is on the violating side, so that the sum is NaN
        xi[k] = 0.0 if f[k] <= -margin else 1.0
        total += 0.0 if f[k] <= -margin else margin + f[k]
    return total


cdef inline double mloss_value_xi(const Loss *loss, Py_ssize_t K, Py_ssize_t label,
                                  const double *f, double margin,
                                  double *xi) noexcept nogil:
    """Value, and the K numbers xi.  A scalar loss works one-vs-rest."""
    cdef Py_ssize_t k
    cdef double total = 0.0
    if loss.kind == LOSS_MULTICLASS_HINGE:
        return multiclass_hinge(K, label, f, margin, xi)
    if loss.kind == LOSS_GRAPH_HINGE:
        return graph_hinge(K, label, f, margin, loss.delta + label * loss.n_labels, xi)
    if loss.kind == LOSS_SOFTMAX:
        return softmax(K, label, f, xi)
    if loss.kind == LOSS_HINGE:
        total = hinge_against(label, f, margin, xi, 0.0)
        total += hinge(1.0, f[label], margin, &xi[label])
        k = label + 1
        return hinge_against(K - k, f + k, margin, xi + k, total)
    for k in range(K):
        total += loss_value_xi_margin(loss, 1.0 if k == label else -1.0, f[k], margin, &xi[k])
    return total


cdef inline void mloss_curvature_times(const Loss *loss, Py_ssize_t K, Py_ssize_t label,
                                       const double *f, const double *z, double margin,
                                       double *out) noexcept nogil:
    """out = rho z; `out` must not be `z` or `f`.  Zero for the hinges."""
    cdef Py_ssize_t k
    cdef double mean = 0.0
    if loss.kind == LOSS_MULTICLASS_HINGE or loss.kind == LOSS_GRAPH_HINGE:
        for k in range(K):
            out[k] = 0.0
    elif loss.kind == LOSS_SOFTMAX:  # (diag(p) - p p') z = p (z - p.z)
        softmax_probability(K, f, out)
        for k in range(K):
            mean += out[k] * z[k]
        for k in range(K):
            out[k] *= z[k] - mean
    else:
        for k in range(K):
            out[k] = z[k] * loss_curvature_margin(loss, 1.0 if k == label else -1.0, f[k],
                                                  margin)
