# The longest step that a loss with a curvature allows on one row.
from libc.math cimport sqrt

from osvm._dual_steps cimport full_sq_norm, is_plain
from osvm._sgd cimport SGDLearner
from osvm.core.row cimport ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, Row
from osvm.core.step cimport step_eta
from osvm.core.typedefs cimport float32_t, float64_t, value_t


cdef inline double sum_of_squares(const value_t *x, Py_ssize_t step, Py_ssize_t n) noexcept nogil:
    """Four running sums, because one would wait for each addition to finish."""
    cdef double a0 = 0.0, a1 = 0.0, a2 = 0.0, a3 = 0.0
    cdef Py_ssize_t k = 0
    if step == 1:
        while k + 4 <= n:
            a0 += <double> x[k] * <double> x[k]
            a1 += <double> x[k + 1] * <double> x[k + 1]
            a2 += <double> x[k + 2] * <double> x[k + 2]
            a3 += <double> x[k + 3] * <double> x[k + 3]
            k += 4
    while k < n:
        a0 += <double> x[k * step] * <double> x[k * step]
        k += 1
    return (a0 + a1) + (a2 + a3)


cdef inline double bounded_sq_norm(const Row *x, double *scratch) noexcept nogil:
    """||x||^2; -1 when columns may repeat and there is no scratch."""
    if not is_plain(x):
        return full_sq_norm(x, scratch) if scratch != NULL else -1.0
    if x.kind == ROW_F32_I32 or x.kind == ROW_F32_I64 or x.kind == ROW_F32_DENSE:
        return x.scale * x.scale * sum_of_squares(<const float32_t *> x.values, x.step, x.count)
    return x.scale * x.scale * sum_of_squares(<const float64_t *> x.values, x.step, x.count)


cdef inline double bounded(double weight, double curvature, double pull) noexcept nogil:
    """The example's weight, lowered to where `weight curvature pull` is 1."""
    return 1.0 / (curvature * pull) if weight * curvature * pull > 1.0 else weight


cdef inline double intercept_step(SGDLearner learner, double t, double eta) noexcept nogil:
    """The step of b that goes with eta."""
    if not learner.options.fit_intercept:
        return 0.0
    if learner.options.intercept_eta0 > 0.0:
        return learner.options.intercept_eta0 / sqrt(t)
    return eta


cdef inline double bounded_at(SGDLearner learner, double weight, double curvature, double t,
                              double sq_norm) noexcept nogil:
    """The weight of an example with ||x||^2 = sq_norm at step t."""
    cdef double eta = step_eta(&learner.step, t)
    return bounded(weight, curvature, eta * sq_norm + intercept_step(learner, t, eta))
