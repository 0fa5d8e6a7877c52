# The linear learner, for compiled code that drives its loops directly.
from libc.stdint cimport int32_t, int64_t

from osvm._input.rows cimport RowSource
from osvm.core.typedefs cimport Row, Rows, SMat
from osvm.linear.model cimport LinearModel, Record

cdef class SGDLearner:
    cdef LinearModel model
    cdef object loss_spec
    cdef readonly object weights        # ScaledVector or ScaledMatrix
    cdef readonly object intercept      # float64, one per output
    cdef readonly object intercept_sum  # over the averaged iterates
    cdef object _scratch, _active
    cdef readonly double reach          # bound of |w| and |b| (_cannot_fail); -1 = not known
    cdef object _grad, _grad_b, _touched, _values

    cdef _adopt(self, weights)
    cdef _bind(self)
    cdef Py_ssize_t _mean_count(self, RowSource X)
    cdef bint _cannot_fail(self, double n, double count, double largest, double heaviest,
                           double curvature, double target)
    cdef double _size(self)
    cdef int _learn(self, const Rows *X, const double *y, const int32_t *labels,
                    const int64_t *order, Py_ssize_t *at, Py_ssize_t stop, const double *weight,
                    double largest, Record record) noexcept nogil
    cdef SMat _reader(self, double *work) noexcept nogil
    cdef void _score(self, const SMat *mat, const Row *row, bint mean,
                     double *out) noexcept nogil
    cdef SGDLearner _like(self, weights, Py_ssize_t n_out=*)
