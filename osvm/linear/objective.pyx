"""The objective of a linear model: reg/2 ||w||^2 + the weighted mean loss of all rows.

Early stopping asks for it after each epoch, so it costs about what scoring the rows
does.  Rows are scored a few at a time, and ||w||^2 is summed where the weights lie,
w = s v or the average (S v - u)/n; nothing is copied but an average that is small
beside the rows.

Invariant: sums are of float64 numbers, whatever the type of the weights.
"""
import numpy as np

from libc.stdint cimport int32_t

from osvm._input.rows cimport RowSource
from osvm.linear.learner cimport SGDLearner
from osvm.core.loss cimport LOSS_HINGE, loss_is_multi, loss_value, mloss_value_xi
from osvm.core.rows cimport rows_get
from osvm.core.typedefs cimport (
    WEIGHT_F32, Loss, Row, Rows, SMat, SVec, float32_t, float64_t, weight_t,
)

cdef enum:
    LANES = 8               # sums side by side for one output; more outputs have their own
    FREEZE = 16             # non-zeros of X per feature from which an average is written out
    GROUP = 32              # rows scored before their losses, so that one waits for no other


cdef void add_squares(const weight_t *v, Py_ssize_t dim, Py_ssize_t n_out,
                      double *sums) noexcept nogil:
    """sums[k] += ||column k of v||^2, feature by feature as they lie in memory"""
    cdef Py_ssize_t _j, k
    for _j in range(dim):
        for k in range(n_out):
            sums[k] += <double> v[k] * <double> v[k]
        v += n_out


cdef void add_average_squares(const weight_t *v, const weight_t *u, const double *scale,
                              Py_ssize_t dim, Py_ssize_t n_out, double *sums) noexcept nogil:
    """sums[k] += ||scale[k] v - u||^2 of column k"""
    cdef Py_ssize_t _j, k
    cdef double w
    for _j in range(dim):
        for k in range(n_out):
            w = scale[k] * v[k] - u[k]
            sums[k] += w * w
        v += n_out
        u += n_out


cdef double sum_squares(const weight_t *v, const weight_t *u, const double *scale, double count,
                        Py_ssize_t dim, Py_ssize_t n_out, double *sums) noexcept nogil:
    """||w||^2 for w = scale v, or for (scale v - u)/count with a companion u."""
    cdef Py_ssize_t k
    cdef double total = 0.0
    for k in range(n_out):
        sums[k] = 0.0
    if u != NULL:
        add_average_squares(v, u, scale, dim, n_out, sums)
        for k in range(n_out):
            total += sums[k] / (count * count)
        return total
    add_squares(v, dim, n_out, sums)
    for k in range(n_out):
        total += scale[k] * scale[k] * sums[k]
    return total


cdef double vector_sq_norm(const SVec *w, bint mean) noexcept nogil:
    cdef double sums[LANES]
    cdef double scale[LANES]
    cdef Py_ssize_t k, whole = w.dim // LANES, done = whole * LANES
    cdef const float32_t *v32 = <const float32_t *> w.v
    cdef const float64_t *v64 = <const float64_t *> w.v
    cdef const float32_t *u32 = <const float32_t *> w.u if mean else NULL
    cdef const float64_t *u64 = <const float64_t *> w.u if mean else NULL
    for k in range(LANES):
        scale[k] = w.avg_scale if mean else w.scale
    if w.kind == WEIGHT_F32:
        return (sum_squares(v32, u32, scale, w.avg_count, whole, LANES, sums)
                + sum_squares(v32 + done, u32 + done if mean else NULL, scale, w.avg_count,
                              w.dim - done, 1, sums))
    return (sum_squares(v64, u64, scale, w.avg_count, whole, LANES, sums)
            + sum_squares(v64 + done, u64 + done if mean else NULL, scale, w.avg_count,
                          w.dim - done, 1, sums))


cdef double matrix_sq_norm(const SMat *w, bint mean, double *sums) noexcept nogil:
    cdef const double *scale = w.avg_scale if mean else w.scale
    cdef void *u = w.u if mean else NULL
    if w.kind == WEIGHT_F32:
        return sum_squares(<const float32_t *> w.v, <const float32_t *> u, scale, w.avg_count,
                           w.dim, w.n_out, sums)
    return sum_squares(<const float64_t *> w.v, <const float64_t *> u, scale, w.avg_count,
                       w.dim, w.n_out, sums)


cdef double row_loss(const Loss *loss, Py_ssize_t K, Py_ssize_t label, const double *f,
                     double *xi) noexcept nogil:
    """The loss of K scores; a scalar loss works one-vs-rest."""
    cdef Py_ssize_t k
    cdef double total = 0.0
    if loss.kind == LOSS_HINGE or loss_is_multi(loss):
        return mloss_value_xi(loss, K, label, f, 1.0, xi)
    for k in range(K):
        total += loss_value(loss, 1.0 if k == label else -1.0, f[k])
    return total


def objective(SGDLearner learner, RowSource X, targets, weight=None, bint averaged=False):
    """reg/2 ||w||^2 + the mean over all rows of weight times loss.

    Parameters
    ----------
    learner : SGDLearner
    X : RowSource
        Validated rows, at least one.
    targets : float64 array (one output) or int32 array of labels (several)
    weight : float64 array, optional
        Of the rows; 1 without it.
    averaged : bool
        Of the averaged weights, once there are any.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from osvm import losses, schedules
    >>> from osvm.linear.objective import objective
    >>> from osvm._input.rows import RowSource
    >>> from osvm.linear.learner import SGDLearner
    >>> step = schedules.get("constant", eta0=0.5).spec(reg=0.0)
    >>> learner = SGDLearner(2, 1, np.float64, losses.get("hinge").spec(), step, reg=0.1)
    >>> X, y = RowSource.dense(np.array([[1.0, 0.0], [0.0, 1.0]])), np.array([1.0, -1.0])
    >>> objective(learner, X, y)
    1.0
    """
    cdef const double[::1] y_view, weight_view
    cdef const int32_t[::1] label_view
    cdef const double *y = NULL
    cdef const int32_t *labels = NULL
    cdef const double *c = NULL
    cdef const Rows *rows = &X.rows
    cdef Py_ssize_t i, first = 0, last, K = learner.model.n_out, n = rows.n_rows
    cdef bint mean = averaged and learner.weights.averaged_count > 0
    cdef bint mean_scores = mean
    cdef SGDLearner scorer = learner
    cdef double[::1] scratch = np.empty((GROUP + 2) * K)
    cdef double *xi = &scratch[0]
    cdef double *f = xi + 2 * K
    cdef SMat mat
    cdef double value, sq, total = 0.0
    cdef Row row
    if n < 1 or rows.n_features != learner.weights.dim or len(targets) != n or (
            weight is not None and len(weight) != n):
        raise ValueError("rows, targets, weights of rows and the model do not fit")
    if K == 1:
        y_view = targets
        y = &y_view[0]
    else:
        label_view = targets
        labels = &label_view[0]
    if weight is not None:
        weight_view = weight
        c = &weight_view[0]
    # Two products a row, of v and of u, until an average written out is cheaper.
    if mean and n * (1.0 + learner._mean_count(X)) > FREEZE * <double> rows.n_features:
        scorer, mean_scores = learner.frozen_average(), False
    with nogil:
        mat = scorer._reader(xi + K)
        while first < n:
            last = min(first + GROUP, n)
            for i in range(first, last):
                rows_get(rows, i, &row)
                scorer._score(&mat, &row, mean_scores, f + (i - first) * K)
            for i in range(first, last):
                if K == 1:
                    value = loss_value(&learner.model.loss, y[i], f[i - first])
                else:
                    value = row_loss(&learner.model.loss, K, labels[i], f + (i - first) * K, xi)
                total += value if c == NULL else c[i] * value
            first = last
        if K == 1:
            sq = vector_sq_norm(learner.model.vec, mean)
        else:
            sq = matrix_sq_norm(learner.model.mat, mean, xi)
    learner.loss_spec.raise_error()
    return 0.5 * learner.model.options.reg * sq + total / n
