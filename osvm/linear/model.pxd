# The state of one linear model, as the loops read and change it.
#
# `SGDLearner` (osvm/linear/learner.pyx) owns the memory behind the pointers; the loops
# (one_output, columns, mini_batch) are handed this struct and know no Python object.
from libc.stdint cimport int64_t

from osvm.core.typedefs cimport Loss, SMat, SVec, Step

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

cdef struct LinearModel:
    Options options
    Loss loss
    Step step
    Py_ssize_t n_out
    SVec *vec               # the weights: of one output,
    SMat *mat               # or of several
    double *b               # intercepts, and their sums over the averaged iterates
    double *b_sum
    double t                # steps made
    double seen             # examples seen
    double loss_sum         # over the examples seen
    double error_sum
    # scratch of the training loop
    double *f               # scores and derivatives of one example
    double *xi
    double *owed            # coefficients of the step that the average has not seen yet
    Py_ssize_t *active      # and their outputs
    # mini-batches: the sum of gradients and where it is not zero
    void *grad
    double *grad_b
    int64_t *touched
    void *values
    Py_ssize_t n_touched
    bint touched_all
    double pending          # examples summed
    double batch_pull       # bound of the summed gradient's entries
