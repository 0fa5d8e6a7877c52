# The longest step that a loss with a curvature allows on one row.
from libc.math cimport sqrt

from osvm.linear.dual_steps cimport full_sq_norm, plain_sq_norm
from osvm.core.rows cimport row_is_sorted
from osvm.core.step cimport step_eta
from osvm.core.typedefs cimport Row
from osvm.linear.model cimport LinearModel


cdef inline double bounded_sq_norm(const Row *x, double *scratch) noexcept nogil:
    """||x||^2; -1 when columns may repeat and there is no scratch."""
    if row_is_sorted(x):
        return plain_sq_norm(x)
    return full_sq_norm(x, scratch) if scratch != NULL else -1.0


cdef inline double bounded(double weight, double curvature, double pull) noexcept nogil:
    """The example's weight, lowered to where `weight curvature pull` is 1."""
    return 1.0 / (curvature * pull) if weight * curvature * pull > 1.0 else weight


cdef inline double intercept_step(LinearModel *model, double t, double eta) noexcept nogil:
    """The step of b that goes with eta."""
    if not model.options.fit_intercept:
        return 0.0
    if model.options.intercept_eta0 > 0.0:
        return model.options.intercept_eta0 / sqrt(t)
    return eta


cdef inline double bounded_at(LinearModel *model, double weight, double curvature, double t,
                              double sq_norm) noexcept nogil:
    """The weight of an example with ||x||^2 = sq_norm at step t."""
    cdef double eta = step_eta(&model.step, t)
    return bounded(weight, curvature, eta * sq_norm + intercept_step(model, t, eta))
