# One step of dual coordinate ascent: hinge and squared hinge, in one dual variable.
#
# Follows Hsieh, Chang, Lin, Keerthi, Sundararajan, "A dual coordinate descent method for
# large-scale linear SVM" (ICML 2008).  With w = sum_i alpha_i y_i x_i, a row's margin gap is
# m = 1 - y w.x; U is the weight of its loss and, with the hinge, alpha's upper bound:
#
#     gradient = dual_gradient(1.0 - y * svec_dot(&w, &x), alpha, U, squared)
#     if dual_projected(gradient, alpha, U, squared) != 0.0:
#         new = dual_step(gradient, alpha, dual_curvature(sq, U, squared), U, squared)
#         svec_axpy(&w, (new - alpha) * y, &x)
#
# is the exact step on alpha, where sq = ||x||^2.  The sum of dual_gap over all rows is the
# duality gap.


cdef inline double dual_gradient(double m, double alpha, double U, bint squared) noexcept nogil:
    """The slope of the (negated) dual in alpha.  O(1)."""
    return -m + alpha / (2.0 * U) if squared else -m


cdef inline double dual_projected(double gradient, double alpha, double U,
                                  bint squared) noexcept nogil:
    """The part of the gradient that alpha's bounds let a step follow.  O(1)."""
    if alpha == 0.0:
        return min(gradient, 0.0)
    if alpha == U and not squared:
        return max(gradient, 0.0)
    return gradient


cdef inline double dual_curvature(double sq, double U, bint squared) noexcept nogil:
    """The second derivative of the (negated) dual, of a row with ||x||^2 = sq.  O(1)."""
    return sq + 0.5 / U if squared else sq


cdef inline double dual_step(double gradient, double alpha, double curvature, double U,
                             bint squared) noexcept nogil:
    """The alpha that maximizes the dual, all others as they are.  O(1)."""
    if squared:
        return max(alpha - gradient / curvature, 0.0)
    if curvature > 0.0:
        return min(max(alpha - gradient / curvature, 0.0), U)
    return U if gradient < 0.0 else 0.0


cdef inline double dual_gap(double m, double alpha, double U, bint squared) noexcept nogil:
    """The row's own part of the duality gap; never negative.  O(1)."""
    if squared:
        return alpha * (alpha / (4.0 * U) - m) + (U * m * m if m > 0.0 else 0.0)
    return (U - alpha) * m if m > 0.0 else -alpha * m
