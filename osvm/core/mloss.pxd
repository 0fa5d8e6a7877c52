# Losses of K scores at once: value, xi = dloss/df and curvature, at one example.
#
# Follows Vishwanathan, Schraudolph, Smola (JMLR 2006), Table 1; (19), (23) and (28) are theirs.
#
# Invariants
# - K scores f, the number of the true label, xi with room for K numbers.
# - A scalar loss is applied one-vs-rest: y = +1 for the true label, -1 for the others; values
#   add up.  Kinks and margins are those of loss.pxd.
from libc.math cimport log, log1p

from osvm.core.loss cimport (
    LOSS_GRAPH_HINGE, LOSS_HINGE, LOSS_MULTICLASS_HINGE, LOSS_SOFTMAX, loss_curvature_margin,
    loss_hinge, loss_value_xi_margin,
)
from osvm.core.typedefs cimport Loss

cdef extern from "../_c/exp.h" nogil:
    double osvm_exp_down(double x)


cdef inline double mloss_multiclass_hinge(Py_ssize_t K, Py_ssize_t label, const double *f,
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


cdef inline double mloss_graph_hinge(Py_ssize_t K, Py_ssize_t label, const double *f,
                                     double margin, const double *distance,
                                     double *xi) noexcept nogil:
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


cdef inline double mloss_softmax_probability(Py_ssize_t K, const double *f,
                                             double *p) noexcept nogil:
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


cdef inline double mloss_softmax(Py_ssize_t K, Py_ssize_t label, const double *f,
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


cdef inline double mloss_hinge_against(Py_ssize_t n, const double *f, double margin, double *xi,
                                       double total) noexcept nogil:
    """total + the sum of loss_hinge(-1, f, margin) over n scores, without a branch on any."""
    cdef Py_ssize_t k
    for k in range(n):
        # a NaN is on the violating side, so that the sum is NaN
        xi[k] = 0.0 if f[k] <= -margin else 1.0
        total += 0.0 if f[k] <= -margin else margin + f[k]
    return total


cdef inline double mloss_value_xi(const Loss *loss, Py_ssize_t K, Py_ssize_t label,
                                  const double *f, double margin,
                                  double *xi) noexcept nogil:
    """Value, and the K numbers xi.  A scalar loss works one-vs-rest, where -1 is no label of K."""
    cdef Py_ssize_t k
    cdef double total = 0.0
    if loss.kind == LOSS_MULTICLASS_HINGE:
        return mloss_multiclass_hinge(K, label, f, margin, xi)
    if loss.kind == LOSS_GRAPH_HINGE:
        return mloss_graph_hinge(K, label, f, margin, loss.delta + label * loss.n_labels, xi)
    if loss.kind == LOSS_SOFTMAX:
        return mloss_softmax(K, label, f, xi)
    if loss.kind == LOSS_HINGE and label < 0:
        return mloss_hinge_against(K, f, margin, xi, 0.0)
    if loss.kind == LOSS_HINGE:
        total = mloss_hinge_against(label, f, margin, xi, 0.0)
        total += loss_hinge(1.0, f[label], margin, &xi[label])
        k = label + 1
        return mloss_hinge_against(K - k, f + k, margin, xi + k, total)
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
        mloss_softmax_probability(K, f, out)
        for k in range(K):
            mean += out[k] * z[k]
        for k in range(K):
            out[k] *= z[k] - mean
    else:
        for k in range(K):
            out[k] = z[k] * loss_curvature_margin(loss, 1.0 if k == label else -1.0, f[k],
                                                  margin)
