# Base of the learners whose step sizes are learnt by stochastic meta-descent.
from osvm._input.rows cimport RowSource
from osvm.core.typedefs cimport Loss, Row, Step

cdef enum MetaStatus:
    META_DONE = 0
    META_NOT_FINITE = 1     # the loss, its derivative or the step size at this row
    META_STEP_TOO_LARGE = 2  # the step would overflow the weights


cdef class MetaLearner:
    cdef readonly Py_ssize_t n_features
    cdef readonly Py_ssize_t n_out
    cdef readonly object dtype
    cdef Loss loss
    cdef Step step                      # step.eta: one step size for all
    cdef object loss_spec
    cdef double reg
    cdef double limit                   # of a step, in the weights' type
    cdef bint fit_intercept
    cdef int error_kind
    cdef readonly object intercept      # float64, one per output
    cdef object _eta_b, _z_b, _work, _scratch
    cdef double *b
    cdef double *eta_b
    cdef double *z_b
    cdef double *f                      # scores without the intercept, of one example
    cdef double *z                      # z(x)
    cdef double *xi
    cdef double *chi
    cdef double *score
    cdef double *scratch                # n_features zeros
    cdef public double t                # steps made
    cdef public double seen
    cdef public double loss_sum
    cdef public double error_sum

    cdef double find_xi(self, double target, Py_ssize_t label, double c) noexcept nogil
    cdef void find_chi(self, double target, Py_ssize_t label, double c) noexcept nogil
    cdef void step_intercept(self) noexcept nogil
    cdef double find_error(self, double target, Py_ssize_t label) noexcept nogil
    cdef int learn(self, const Row *x, double target, Py_ssize_t label, double c, double *value,
                   double *eta) noexcept nogil
    cdef _check_rows(self, RowSource X)
    cdef void score_row(self, const Row *x, double *work, double *out) noexcept nogil
