# cython: language_level=3
# A loss of one's own at full speed: log cosh of the residual, for regression.
# `cdef api` puts the functions where scipy.LowLevelCallable.from_cython finds them.
from libc.math cimport cosh, fabs, log1p, exp, tanh


cdef api double value(double y, double f, void *user_data) noexcept nogil:
    cdef double r = fabs(f - y)
    return r + log1p(exp(-2.0 * r)) - 0.6931471805599453


cdef api double dloss(double y, double f, void *user_data) noexcept nogil:
    return tanh(f - y)


cdef api double curvature(double y, double f, void *user_data) noexcept nogil:
    cdef double r = f - y
    return 0.0 if fabs(r) > 300.0 else 1.0 / (cosh(r) * cosh(r))
