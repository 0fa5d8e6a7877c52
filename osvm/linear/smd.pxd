# Base of the learners whose step sizes are learnt by stochastic meta-descent.
from osvm.core.typedefs cimport Loss, Row, Step
from osvm.linear.learner cimport Learner


cdef class MetaLearner(Learner):
    cdef readonly object dtype
    cdef Loss loss
    cdef Step step                      # step.eta: one step size for all
    cdef double reg
    cdef double limit                   # of a step, in the weights' type
    cdef bint fit_intercept
    cdef int error_kind
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
    cdef int learn(self, const Row *x, double target, Py_ssize_t label, double c, double *value,
                   double *eta) noexcept nogil
