"""Scores of rows, the objective that they give, and probabilities from them.

Checking a matrix and multiplying it are two passes over memory.  `score_csr` makes
one: the column numbers of a group of rows are checked, then the rows are multiplied,
and the group that follows is asked for meanwhile.  Values need no look of their own: where one of
them is NaN or infinite, so is its row's score.  The bits are those of
`SGDLearner.decide`.

Invariant: no column number is used as an address before it has been checked.  When
a column or value is not valid the function returns False; the caller then takes the general
path, which explains (or finds that a sum of finite values was too large).

`objective` is reg/2 ||w||^2 + the weighted mean loss of all rows.  Early stopping asks for it
after each epoch, so it costs about what scoring the rows does.  Rows are scored a few at a
time, and ||w||^2 is summed where the weights lie, w = s v or the average (S v - u)/n; nothing
is copied but an average that is small beside the rows.

Sums of the objective are of float64 numbers, whatever the type of the weights.

`Platt` learns probabilities of scores online:
p = 1 / (1 + exp(-(a f + c))) with one pair (a, c) per output, fitted to the scores
that examples had before they were learnt (test-then-train), so that no data are
held back.  Each example makes one damped Newton step on its log loss; the
curvature is forgotten at the rate 1/`memory`, because scores change while the
model learns.

Source: Platt (1999) for the sigmoid; the recursion is that of recursive least
squares with forgetting.
"""
import numpy as np

from libc.math cimport exp, fabs
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from osvm._input.schema import ArrayField, AtMost

from osvm._input.rows cimport RowSource
from osvm._input.scan cimport indptr_sound
from osvm.linear.learner cimport SGDLearner
from osvm.core.loss cimport LOSS_HINGE, loss_is_multi, loss_value
from osvm.core.mloss cimport mloss_value_xi
from osvm.core.rows cimport rows_get
from osvm._c.row_loops cimport sparse_dot_ahead
from osvm.core.typedefs cimport (
    ROW_F32_I32, ROW_F32_I64, ROW_F64_I32, WEIGHT_F32, Loss, Row, Rows, SMat, SVec, float32_t,
    float64_t, index_t, value_t, weight_t,
)

cdef extern from "../_c/simd.h" nogil:
    bint osvm_in_range_i32(const void *j, Py_ssize_t n, uint32_t largest)
    bint osvm_in_range_i64(const void *j, Py_ssize_t n, uint64_t largest)

cdef enum:
    GROUP = 32              # rows checked, or scored before their losses, together
    AHEAD = 2560            # entries from use to prefetch: about a group of text
    LANES = 8               # sums side by side for one output; more outputs have their own
    FREEZE = 16             # non-zeros of X per feature from which an average is written out


cdef inline bint columns_valid(const index_t *columns, Py_ssize_t n,
                               Py_ssize_t n_features) noexcept nogil:
    if index_t is int32_t:
        # a matrix may have more columns than its numbers can name
        return osvm_in_range_i32(columns, n, <uint32_t> min(n_features - 1, 0x7fffffff))
    else:
        return osvm_in_range_i64(columns, n, <uint64_t> (n_features - 1))


cdef Py_ssize_t score_rows(const Rows *X, const value_t *x, const index_t *columns,
                           const index_t *starts, const weight_t *v, double scale, double b,
                           double *out) noexcept nogil:
    """Rows scored; fewer than there are when a row is not valid."""
    cdef Py_ssize_t first = 0, last, i, begin, end
    cdef double nothing = 0.0   # 0 for as long as every score is finite
    while first < X.n_rows and nothing == 0.0:
        last = min(first + GROUP, X.n_rows)
        begin = <Py_ssize_t> starts[first]
        if not columns_valid(columns + begin, <Py_ssize_t> starts[last] - begin, X.n_features):
            break
        for i in range(first, last):
            end = <Py_ssize_t> starts[i + 1]
            out[i] = scale * sparse_dot_ahead(x + begin, columns + begin, end - begin, v,
                                              x + begin + AHEAD, columns + begin + AHEAD) + b
            nothing += 0.0 * out[i]
            begin = end
        first = last
    return first if nothing == 0.0 else 0


cdef Py_ssize_t score_any(const Rows *X, const weight_t *v, double scale, double b,
                          double *out) noexcept nogil:
    if X.kind == ROW_F32_I32:
        return score_rows(X, <const float32_t *> X.values, <const int32_t *> X.indices,
                          <const int32_t *> X.indptr, v, scale, b, out)
    if X.kind == ROW_F64_I32:
        return score_rows(X, <const float64_t *> X.values, <const int32_t *> X.indices,
                          <const int32_t *> X.indptr, v, scale, b, out)
    if X.kind == ROW_F32_I64:
        return score_rows(X, <const float32_t *> X.values, <const int64_t *> X.indices,
                          <const int64_t *> X.indptr, v, scale, b, out)
    return score_rows(X, <const float64_t *> X.values, <const int64_t *> X.indices,
                      <const int64_t *> X.indptr, v, scale, b, out)


def score_csr(values, indices, indptr, Py_ssize_t n_rows, weights, double scale, double b,
              double[::1] out):
    """out[i] = scale (weights . row i) + b; False, with `out` undefined, when X is not valid.

    Parameters
    ----------
    values, indices, indptr : arrays of a CSR matrix
        float32 or float64, and int32 or int64; otherwise the answer is False.
    n_rows : int
    weights : float32 or float64 array, one per column of the matrix
    scale, b : float
    out : float64 array, one entry per row
    """
    cdef RowSource source
    cdef const float32_t[::1] narrow
    cdef const float64_t[::1] wide
    cdef Py_ssize_t done = 0, capacity
    cdef bint valid
    try:
        source = RowSource.csr(values, indices, indptr, weights.shape[0])
    except (ValueError, TypeError, BufferError):
        return False
    if source.rows.n_rows != n_rows or out.shape[0] != n_rows or weights.shape[0] < 1:
        return False
    capacity = source._buffers[1].shape[0]
    if n_rows == 0:
        return False
    if weights.dtype.itemsize == 4:
        narrow = weights
        with nogil:
            valid = indptr_sound(&source.rows, capacity)
            if valid:
                done = score_any(&source.rows, &narrow[0], scale, b, &out[0])
    else:
        wide = weights
        with nogil:
            valid = indptr_sound(&source.rows, capacity)
            if valid:
                done = score_any(&source.rows, &wide[0], scale, b, &out[0])
    return done == n_rows


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
    """||w||^2 for w = scale v, or for (scale v - u)/count with an accumulator u."""
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
    >>> from osvm.linear.scores import objective
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


# --------------------------------------------------------------- probabilities

_STATE = ArrayField((AtMost(2**31), 6), np.float64, -1e100, 1e100)

cdef double MEMORY = 5000.0     # examples; how fast old scores are forgotten
cdef double RIDGE = 1.0         # curvature of the prior a = 1, c = 0
cdef double HUGE_SCORE = 1e40
cdef double LARGEST = 0.5       # step of a or c for one example


cdef inline double sigmoid(double z) noexcept nogil:
    if z >= 0.0:
        return 1.0 / (1.0 + exp(-z))
    z = exp(z)
    return z / (1.0 + z)


cdef void learn_score(double *s, double f, double target, double times) noexcept nogil:
    """One Newton step for an example that counts so often; s = (a, c, h_aa, h_ac, h_cc, n)."""
    cdef double keep, p, slope, weight, g_a, g_c, det, step_a, step_c, largest
    if not (fabs(f) < HUGE_SCORE and times > 0.0):  # NaN, or beyond what the curvature can hold
        return
    s[5] += times
    # The first examples are all kept: forgetting begins when there is enough.
    keep = 1.0 if s[5] < MEMORY else 1.0 - times / (MEMORY + times - 1.0)
    p = sigmoid(s[0] * f + s[1])
    weight = times * p * (1.0 - p)
    s[2] = keep * s[2] + weight * f * f + (1.0 - keep) * RIDGE
    s[3] = keep * s[3] + weight * f
    s[4] = keep * s[4] + weight + (1.0 - keep) * RIDGE
    slope = times * (p - target)
    g_a, g_c = slope * f, slope
    det = s[2] * s[4] - s[3] * s[3]
    if det <= 0.0:
        return
    step_a = (s[4] * g_a - s[3] * g_c) / det
    step_c = (s[2] * g_c - s[3] * g_a) / det
    largest = fabs(step_a) if fabs(step_a) > fabs(step_c) else fabs(step_c)
    if largest > LARGEST:
        step_a *= LARGEST / largest
        step_c *= LARGEST / largest
    s[0] -= step_a
    s[1] -= step_c


class Platt:
    """The sigmoids of a model's outputs.

    Parameters
    ----------
    n_out : int
        One for two classes, else one per class.

    Examples
    --------
    >>> import numpy as np
    >>> from osvm.linear.scores import Platt
    >>> rng = np.random.default_rng(0)
    >>> f = rng.normal(size=20_000)
    >>> y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-(2 * f + 1))), 1.0, -1.0)
    >>> platt = Platt(1)
    >>> platt.learn(f[:, None], y)
    >>> platt.state[0, :2].round(0).tolist()
    [2.0, 1.0]
    """

    def __init__(self, n_out):
        self.state = np.zeros((n_out, 6))
        self.state[:, 0] = 1.0
        self.state[:, [2, 4]] = RIDGE

    def learn(self, double[:, ::1] scores, targets, const double[::1] times=None):
        """Take the scores that examples had before they were learnt.

        `targets` are -1/+1 for one output, codes for several; an example counts as often as
        `times` says, once without.
        """
        cdef double[:, ::1] state = self.state
        cdef bint once = times is None
        cdef const double[::1] y
        cdef const int32_t[::1] labels
        cdef Py_ssize_t i, k, K = state.shape[0]
        if (scores.shape[1] != K or len(targets) != scores.shape[0]
                or not once and len(times) != len(targets)):
            raise ValueError("scores and targets do not fit")
        if K == 1:
            y = targets
            with nogil:
                for i in range(scores.shape[0]):
                    learn_score(&state[0, 0], scores[i, 0], y[i] > 0.0,
                                1.0 if once else times[i])
        else:
            labels = targets
            with nogil:
                for i in range(scores.shape[0]):
                    for k in range(K):
                        learn_score(&state[k, 0], scores[i, k], labels[i] == k,
                                    1.0 if once else times[i])

    def probability(self, scores):
        """Probability of "yes" for each score, rows x outputs."""
        z = self.state[:, 0] * scores + self.state[:, 1]
        return 0.5 * (1.0 + np.tanh(0.5 * z))

    def copy(self):
        """An independent copy."""
        return Platt.from_state(self.state, len(self.state))

    @staticmethod
    def from_state(state, n_out):
        """The sigmoids whose `state` this is."""
        problem = _STATE.layout_problem(state) or _STATE.problem(state)
        if problem is not None or len(state) != n_out:
            raise ValueError(f"the saved sigmoids of {n_out} output(s): the array "
                             f"{problem or f'has {len(state)} rows'}")
        copied = Platt(n_out)
        copied.state[:] = state
        return copied

    def with_outputs(self, n_out):
        """More outputs: old ones first; a binary model's becomes those of its two classes."""
        wide = Platt(n_out)
        old = self.state
        if len(old) == 1:
            wide.state[1] = old[0]
            wide.state[0] = old[0] * [1, -1, 1, -1, 1, 1]  # the score changes its sign
        else:
            wide.state[:len(old)] = old
        return wide
