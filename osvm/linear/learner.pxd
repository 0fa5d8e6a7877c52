# The linear learner, for compiled code that drives its loops directly.
from osvm._input.rows cimport RowSource
from osvm.core.typedefs cimport Row, Rows, SMat
from osvm.linear.model cimport Examples, LinearModel

# What all learners share, whose loops read `Examples`: the calls that leave Python.
cdef class Learner:
    cdef object loss_spec
    cdef readonly Py_ssize_t n_features
    cdef readonly Py_ssize_t n_out
    cdef readonly object intercept      # float64, one per output
    cdef readonly double weight_bound   # of |w| and |b| (_cannot_fail); -1 = not known

    cdef _set_shape(self, Py_ssize_t n_features, Py_ssize_t n_out)
    cdef Py_ssize_t _mean_count(self, RowSource X)
    cdef bint _cannot_fail(self, double n, double count, double largest, double heaviest,
                           double curvature, double target)
    cdef int _learn(self, const Examples *examples, Py_ssize_t *at, Py_ssize_t stop) noexcept nogil
    cdef Py_ssize_t _n_scores(self) noexcept nogil
    cdef bint _writes_out(self, bint averaged)
    cdef void _score_row(self, const Row *row, bint averaged, double *work,
                         double *out) noexcept nogil
    cdef void _score_rows(self, const Rows *X, Py_ssize_t start, Py_ssize_t stop, bint averaged,
                          double *work, double *out) noexcept nogil
    cdef double _seen(self) noexcept nogil


cdef class SGDLearner(Learner):
    cdef LinearModel model
    cdef readonly object weights        # ScaledVector or ScaledMatrix
    cdef readonly object intercept_sum  # over the averaged iterates
    cdef readonly object lift           # of `LinearModel`, or None
    cdef object _scratch, _active
    cdef object _grad, _grad_b, _touched, _values

    cdef _adopt(self, weights)
    cdef _bind(self)
    cdef double _size(self)
    cdef SMat _reader(self, double *work) noexcept nogil
    cdef double _averaged_count(self) noexcept nogil
    cdef void _score(self, const SMat *mat, const Row *row, bint mean,
                     double *out) noexcept nogil
    cdef SGDLearner _like(self, weights, Py_ssize_t n_out=*)
