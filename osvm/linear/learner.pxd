# The linear learner's state, for compiled code that drives its loops directly.
from libc.stdint cimport int32_t, int64_t

from osvm._input.rows cimport RowSource
from osvm.core.typedefs cimport Loss, Row, Rows, SMat, SVec, Step

cdef enum Status:
    DONE = 0
    NOT_FINITE = 1          # the loss or its derivative at this row
    STEP_TOO_LARGE = 2      # the step would overflow the weights

cdef enum Error:
    ERROR_CLASS = 0         # a wrong label
    ERROR_ABSOLUTE = 1      # |f - y|
    ERROR_NOVEL = 2         # f below the margin

cdef struct Options:
    double reg
    double radius           # of the ball; 0 = no projection
    double average_from     # examples seen before averaging starts; < 0 = never
    double intercept_eta0   # eta_b = this/sqrt(t); 0 = the weights' own step
    Py_ssize_t batch_size
    int fit_intercept
    int error_kind          # an Error

# What one call records per example; NULL = not wanted.
cdef struct Record:
    double *eta
    double *loss
    double *error
    double *score           # n_out per example, as prediction would give them

cdef class SGDLearner:
    cdef Options options
    cdef Loss loss
    cdef Step step
    cdef object loss_spec
    cdef readonly object weights        # ScaledVector or ScaledMatrix
    cdef SVec *vec                      # whichever is in use
    cdef SMat *mat
    cdef readonly object intercept      # float64, one per output
    cdef readonly object intercept_sum  # over the averaged iterates
    cdef double *b
    cdef double *b_sum
    cdef Py_ssize_t n_out
    cdef object _scratch, _active
    cdef double *f                      # scores and derivatives of one example
    cdef double *xi
    cdef double *owed                   # to the average, by the example before
    cdef Py_ssize_t *active             # and by which outputs
    cdef public double t                # steps made
    cdef public double seen             # examples seen
    cdef public double loss_sum         # over the examples seen
    cdef public double error_sum
    cdef readonly double reach          # bound of |w| and |b| (_cannot_fail); -1 = not known
    # mini-batches: the sum of gradients and where it is not zero
    cdef object _grad, _grad_b, _touched, _values
    cdef void *grad
    cdef double *grad_b
    cdef int64_t *touched
    cdef void *values
    cdef Py_ssize_t n_touched
    cdef bint touched_all
    cdef double pending                 # examples summed
    cdef double batch_pull              # bound of the summed gradient's entries

    cdef _adopt(self, weights)
    cdef _bind(self)
    cdef Py_ssize_t _mean_count(self, RowSource X)
    cdef bint _cannot_fail(self, double n, double count, double largest, double heaviest,
                           double curvature, double target)
    cdef double _size(self)
    cdef int _learn_scalar(self, const Rows *X, const double *y, const int64_t *order,
                           Py_ssize_t *at, Py_ssize_t stop, const double *weight,
                           double largest, Record record) noexcept nogil
    cdef int _learn_multi(self, const Rows *X, const int32_t *labels, const int64_t *order,
                          Py_ssize_t *at, Py_ssize_t stop, const double *weight,
                          double largest, Record record) noexcept nogil
    cdef void _score(self, const Row *row, bint mean, double *out) noexcept nogil
    cdef SGDLearner _like(self, weights, Py_ssize_t n_out=*)
