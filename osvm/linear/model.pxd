# The state of one linear model, as the loops read and change it.
#
# `SGDLearner` (osvm/linear/learner.pyx) owns the memory behind the pointers; the loops
# (one_output, columns, mini_batch) are handed this struct and know no Python object.
from libc.math cimport INFINITY, fabs, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from osvm._input.rows cimport RowSource
from osvm.core.smat cimport (
    smat_count_average, smat_project_one, smat_shrink_one, smat_sq_norm_one, smat_start_average,
)
from osvm.core.svec cimport (
    svec_count_average, svec_project, svec_shrink, svec_sq_norm, svec_start_average,
)
from osvm.core.typedefs cimport Loss, Rows, SMat, SVec, Step

# How far loops look ahead; four rows hide the memory's latency.
cdef enum:
    AHEAD = 4
    RING = 8                # rows looked up and not used yet; a power of two above AHEAD

cdef enum Status:
    DONE = 0
    NOT_FINITE = 1          # the loss or its derivative at this row
    STEP_TOO_LARGE = 2      # the step would overflow the weights
    META_NOT_FINITE = 3     # the same of stochastic meta-descent, whose step size may be at fault
    META_STEP_TOO_LARGE = 4

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
    double *rank            # `rank_of` each example

# The examples of one call; the loops visit them from `at` to `stop`.
cdef struct Examples:
    const Rows *X
    const double *y         # targets of one output, or
    const int32_t *labels   # class codes of several
    const int64_t *order    # row numbers; NULL: the order of the rows
    const double *weight    # NULL: 1
    double largest          # bound of the rows' |x|; 0: their values may be anything
    Record record

cdef struct LinearModel:
    Options options
    Loss loss
    Step step
    Py_ssize_t n_out
    SVec *vec               # the weights: of one output,
    SMat *mat               # or of several
    double *lift            # lazy projection: what w was divided by, one per output; or NULL
    double *b               # intercepts, and their sums over the averaged iterates
    double *b_sum
    double t                # steps made
    double seen             # examples seen
    double loss_sum         # over the examples seen
    double error_sum
    # scratch of the training loop
    double *scratch         # several outputs: see `Columns`
    Py_ssize_t *active
    # mini-batches: the sum of gradients and where it is not zero
    void *grad
    double *grad_b
    int64_t *touched
    void *values
    Py_ssize_t n_touched
    bint touched_all
    double pending          # examples summed
    double batch_bound      # bound of the summed gradient's entries


cdef inline double lift_of(double sq_norm, double radius) noexcept nogil:
    """What projection onto the ball divides by."""
    return sqrt(sq_norm) / radius if sq_norm > radius * radius else 1.0


cdef inline void project_vector(SVec *w, double radius, double *lift) noexcept nogil:
    """w onto the ball; `lift` keeps what it was divided by, or is NULL."""
    if lift != NULL:
        lift[0] = lift_of(svec_sq_norm(w), radius)
    svec_project(w, radius)


cdef inline void project_column(SMat *w, Py_ssize_t k, double radius,
                                double *lift) noexcept nogil:
    """The same for w_k."""
    if lift != NULL:
        lift[k] = lift_of(smat_sq_norm_one(w, k), radius)
    smat_project_one(w, k, radius)


cdef inline void lift_columns(SMat *w, const double *lift) noexcept nogil:
    """Take the last lazy projection back; nothing with `lift` NULL."""
    cdef Py_ssize_t k
    if lift != NULL:
        for k in range(w.n_out):
            smat_shrink_one(w, k, lift[k])


cdef inline void lift_vector(SVec *w, const double *lift) noexcept nogil:
    """The same for one output."""
    if lift != NULL:
        svec_shrink(w, lift[0])


cdef inline void after_step(LinearModel *model) noexcept nogil:
    """Project, then count the iterate."""
    cdef Py_ssize_t k
    if model.options.radius > 0.0:
        if model.vec != NULL:
            project_vector(model.vec, model.options.radius, model.lift)
        else:
            for k in range(model.n_out):
                project_column(model.mat, k, model.options.radius, model.lift)
    if model.options.average_from >= 0.0 and model.seen >= model.options.average_from:
        if model.vec != NULL:
            if not model.vec.averaging:
                svec_start_average(model.vec, model.vec.u)
            svec_count_average(model.vec)
        else:
            if not model.mat.averaging:
                smat_start_average(model.mat, model.mat.u)
            smat_count_average(model.mat)
        for k in range(model.n_out):
            model.b_sum[k] += model.b[k]


cdef inline Py_ssize_t outranking(const double *f, Py_ssize_t K,
                                  Py_ssize_t label) noexcept nogil:
    """How many outputs come before the label's: larger, or equal and earlier."""
    cdef Py_ssize_t k, n = 0
    cdef double own = f[label]
    for k in range(label):
        n += f[k] >= own
    for k in range(label + 1, K):
        n += f[k] > own
    return n


cdef inline double rank_of(const double *f, Py_ssize_t K, Py_ssize_t label) noexcept nogil:
    """What learners of some columns each must know of each other to count errors: the label's
    score, -inf where one of these K comes before it; the largest of these where it is another's.
    """
    cdef Py_ssize_t k
    cdef double most
    if label >= 0:
        return f[label] if outranking(f, K, label) == 0 else -INFINITY
    most = f[0]
    for k in range(1, K):
        most = max(most, f[k])
    return most


cdef inline double error_of(int kind, Py_ssize_t n_out, const double *f, double target,
                            Py_ssize_t label) noexcept nogil:
    """What the scores f count as an error (`kind` is an Error); of several, the label's."""
    if n_out > 1:
        return outranking(f, n_out, label) > 0
    if kind == ERROR_CLASS:
        return (f[0] > 0.0) != (target > 0.0)
    if kind == ERROR_ABSOLUTE:
        return fabs(f[0] - target)
    return f[0] < 1.0


cdef inline void *pointer(object array) except NULL:
    """Where a contiguous numpy array of ours keeps its numbers."""
    cdef size_t where = array.__array_interface__["data"][0]
    return <void *> where


cdef inline Examples open_examples(RowSource X, Py_ssize_t dim, const int64_t[::1] order,
                                   const double[::1] weight):
    """The rows of one call; targets are the caller's to add."""
    cdef Examples examples
    cdef Py_ssize_t n = X.rows.n_rows
    if X.rows.n_features != dim:
        raise ValueError(f"rows have {X.rows.n_features} features, the model {dim}")
    if weight is not None and weight.shape[0] != n:
        raise ValueError(f"{weight.shape[0]} weights for {n} rows")
    memset(&examples, 0, sizeof(Examples))
    examples.X = &X.rows
    if order is not None and order.shape[0]:
        examples.order = &order[0]
    if weight is not None and n:
        examples.weight = &weight[0]
    if X.largest < 0.0:
        from osvm._input.scan import largest_magnitude
        largest_magnitude(X)
    examples.largest = X.largest
    return examples


cdef inline int set_targets(Examples *examples, targets, Py_ssize_t n_out) except -1:
    """Numbers (float64) for one output, class codes (int32) for several."""
    cdef const double[::1] y
    cdef const int32_t[::1] labels
    cdef Py_ssize_t n = examples.X.n_rows
    if len(targets) != n:
        raise ValueError(f"{len(targets)} targets for {n} rows")
    if n and n_out == 1:
        y = targets
        examples.y = &y[0]
    elif n:
        labels = targets
        examples.labels = &labels[0]
    return 0


cdef inline int raise_status(loss_spec, int status, Py_ssize_t row) except -1:
    """Raise what a loop's status means for this row; an error of the loss's own goes first."""
    loss_spec.raise_error()
    meta = status in (META_NOT_FINITE, META_STEP_TOO_LARGE)
    if status in (NOT_FINITE, META_NOT_FINITE):
        raise FloatingPointError(
            f"the loss{' or the step size' * meta} is not finite at row {row}: scale the features "
            "(for example to unit norm) or the targets, or lower "
            f"{'eta0 or mu' if meta else 'the step size'}")
    raise FloatingPointError(
        f"the step at row {row} would overflow the weights: scale the features (for example "
        f"to unit norm), raise reg or lower eta0{' or mu' * meta}")
