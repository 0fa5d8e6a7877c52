"""The learner of adaptive, implicit steps; equations and memory are in adaptive.pxd.

`AdaptiveLearner` learns one or more settings side by side: a group of columns each, `n_out`
of them, over one pass through the row's entries.  An estimator uses one group, or several that
are judged as they learn, of which the best answers; others are candidates, of which
`candidate_state` hands out one.

A row's score needs its entries and the planes v alone.  Where a loss asks for a step, the
entries are unpacked (`Entries`) into scratch, raise the roots of the columns that step, and
move their weights.
"""
import numpy as np

from libc.math cimport INFINITY, fabs, isfinite, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

from osvm._input.schema import adaptive_schema, judged_schema
from osvm.linear.weights import aligned_zeros

from osvm._input.rows cimport RowSource
from osvm._parts.compiled cimport LossSpec, StepSpec
from osvm.linear.adaptive cimport (
    OSVM_LANES, PLANE_ROOT, PLANE_U, Entries, Group, add_repeated, all_finite, bet, dot_columns,
    grows, implicit_delta, joint_tau, keep_roots, mirror_sum, mirror_weight, move_columns,
    move_thetas, move_weights, normalized_sum, prefetch_cells, raise_columns, raise_rates,
    rescales, size_ratio, softmax_tau, strided_dot, unpack,
)
from osvm.linear.learner cimport Learner, SGDLearner
from osvm.linear.model cimport (
    DONE, ERROR_ABSOLUTE, ERROR_CLASS, ERROR_NOVEL, NOT_FINITE, RING, STEP_TOO_LARGE, Examples,
    Record, pointer,
)
from osvm.linear.step_guard cimport largest_of, loss_slope, row_largest
from osvm.core.loss cimport LOSS_SOFTMAX, loss_is_multi, loss_value_xi
from osvm.core.mloss cimport mloss_value_xi
from osvm.core.rows cimport (
    OSVM_PREFETCH, row_index, row_is_sorted, row_value, rows_get, rows_prefetch,
    rows_prefetch_start,
)
from osvm.core.step cimport (
    STEP_ADAPTIVE_EXPLICIT, STEP_ADAPTIVE_MIRROR, STEP_ADAPTIVE_NORMALIZED, STEP_ADAPTIVE_TAIL,
    STEP_COIN_BETTING, STEP_CONSTANT,
)
from osvm.core.typedefs cimport (
    ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, ROW_F64_DENSE, ROW_F64_I32, Loss, Row, Rows,
    float32_t, float64_t, weight_t,
)

cdef enum:
    WIDE = 3                # one column in so many with a step, and all of them are gone through
    FIRST_WINDOW = 64       # examples before a tail average restarts for the first time
    FIRST_LOOK = 256        # the same for the first look at losing candidates
    LAST = 1                # predictors of a candidate: its last iterate,
    TAIL = 2                # its tail average
    MOST_PREDICTORS = 10
    ROWS_AHEAD = 3          # examples from asking for a row to its use; below RING
    STARTS_AHEAD = 8        # the same for where it starts

cdef double SMALLEST_SCALE = 1e-9
cdef double LEAST_SHRINK = 1e-6
cdef double LARGEST_INFLATION = 1e12


class Weights:
    """The weights of a learner, for reading.

    Parameters
    ----------
    learner : AdaptiveLearner
    """

    def __init__(self, learner):
        self._learner = learner

    @property
    def dim(self):
        return self._learner.n_features

    @property
    def n_out(self):
        return self._learner.n_out

    @property
    def v(self):
        """The array that holds the weights, among other numbers."""
        return self._learner.cells

    @property
    def averaged_count(self):
        """Iterates in the average."""
        return self._learner.averaged_count

    def array(self, averaged=False):
        """w as (n_features,), or (n_out, n_features) for several outputs."""
        return self._learner.weight_array(averaged)


cdef class AdaptiveLearner(Learner):
    """Weights, rates, offsets and counters of one linear model, or of several candidates.

    Parameters
    ----------
    n_features, n_out : int
        One output for binary, regression and novelty losses.
    dtype : float32 or float64
        Of the weights.
    loss : LossSpec
    steps : StepSpec, or a sequence of them
        Of `osvm.schedules.Adaptive` and `CoinBetting`; several make candidates.
    average_from : float
        Number of examples before averaging starts; negative for never.
    fit_intercept : bool
    error_kind : {"class", "absolute", "novel"}
    predictors : sequence of int, optional
        Judges the candidates: for each, 1 if its last iterate may answer, 2 if its tail
        average may, 3 if both.  Only of `Adaptive` without `mirror`, with an average.
    decay : float
        Of the counts of errors, per example.
    alive : int, optional
        Bits of the candidates that compete; all by default.

    Examples
    --------
    >>> import numpy as np
    >>> from osvm import losses, schedules
    >>> from osvm._input.rows import RowSource
    >>> from osvm.linear.adaptive import AdaptiveLearner
    >>> X = RowSource.dense(np.array([[1.0, 0.0], [0.0, 8.0]]))
    >>> step = schedules.Adaptive(eta0=0.5).spec()
    >>> learner = AdaptiveLearner(2, 1, np.float64, losses.get("hinge").spec(), step)
    >>> learner.run(X, np.array([1.0, -1.0]))
    >>> learner.weights.array()
    array([ 0.5  , -0.125])
    """
    cdef Loss loss
    cdef readonly object dtype
    cdef readonly object cells          # n_features x stride numbers
    cdef readonly object offsets        # planes x K: those of the offset; row 0 is `intercept`
    cdef readonly object losses         # a sum per group
    cdef readonly object errors
    cdef object _steps, _groups, _work, _active, _zeros
    cdef object _all_steps              # of all candidates, dropped ones too
    cdef readonly object predictors     # of each candidate; None where they are not judged
    cdef readonly object figures        # E of each predictor
    cdef readonly object outcomes       # sums of c and c^2, by the set of predictors that erred
    cdef double *figure_at
    cdef double *outcome_at
    cdef int n_predictors
    cdef int group_of[MOST_PREDICTORS]  # the candidate of a predictor, and whether it is TAIL
    cdef bint is_tail[MOST_PREDICTORS]
    cdef int place[MOST_PREDICTORS]     # the group of a candidate, -1 where it was dropped
    cdef readonly int alive             # bits of the candidates that have a group
    cdef readonly int chosen            # the predictor that answers
    cdef public double decay
    cdef public bint judging            # whether errors are counted
    cdef double *fa                     # of one example, K each: scores of the averages
    cdef void *raw_u
    cdef void *at                       # of cells
    cdef double *b                      # of offsets
    cdef double *loss_at                # of losses, errors
    cdef double *error_at
    cdef Group *groups
    cdef Py_ssize_t n_groups, K, stride, n_planes
    cdef int header                     # 1 with a place for 1/n_j
    cdef public bint tail
    cdef bint averaging                 # False while windows rest
    cdef bint single, averages, judged, fit_intercept, any_mirror, any_coin, plain, forgets
    cdef int error_kind
    cdef double average_from
    cdef double *f                      # of one example, K each; scores
    cdef double *xi
    cdef double *q
    cdef double *delta
    cdef double *value                  # of each group
    cdef void *raw                      # K weights
    cdef void *wide                     # of raise_columns
    cdef Py_ssize_t *active
    cdef double *zeros                  # n_features of them, once a column repeats
    cdef Entries entries
    cdef Py_ssize_t room                # of entries
    # counters
    cdef public double t, seen
    cdef double sum_x                   # N of the normalization
    cdef double target_weight, target_mean, target_sq
    cdef double counts[2]               # iterates in the two windows
    cdef int older                      # the window that predicts

    def __init__(self, Py_ssize_t n_features, Py_ssize_t n_out, dtype, LossSpec loss, steps, *,
                 double average_from=-1.0, bint fit_intercept=False, error_kind="class",
                 predictors=None, double decay=1.0, alive=None):
        cdef StepSpec step
        cdef Py_ssize_t K
        if n_features < 1 or n_out < 1:
            raise ValueError(f"n_features and n_out must be at least 1, got {n_features} and "
                             f"{n_out}")
        self.n_features, self.n_out, self.dtype = n_features, n_out, np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise ValueError(f"weights must be float32 or float64, not {self.dtype}")
        self.single = self.dtype == np.float32
        self.fit_intercept, self.average_from = fit_intercept, average_from
        self.averages = self.averaging = average_from >= 0.0
        self.error_kind = {"class": ERROR_CLASS, "absolute": ERROR_ABSOLUTE,
                           "novel": ERROR_NOVEL}[error_kind]
        steps = [steps] if isinstance(steps, StepSpec) else list(steps)
        K = len(steps) * n_out
        for step in steps:
            self.any_coin |= step.step.kind == STEP_COIN_BETTING
            self.any_mirror |= (step.step.flags & STEP_ADAPTIVE_MIRROR) != 0
            self.tail |= (step.step.flags & STEP_ADAPTIVE_TAIL) != 0
        self.n_planes = PLANE_U + 2 * self.averages + 3 * self.any_coin
        self.loss_spec, self._all_steps = loss, steps
        self.loss = loss.loss
        self.decay = decay
        if predictors is not None:
            self._judge(list(predictors))
        self._allocate((1 << len(steps)) - 1 if alive is None else alive)
        while self.judged and self.place[self.group_of[self.chosen]] < 0:
            self.chosen += 1
        self.losses, self.errors = (np.zeros(1 if self.judged else self.n_groups)
                                    for _ in range(2))
        self._work = np.zeros(8 * K + len(steps) + (4 + OSVM_LANES) * n_out)
        self._active = np.zeros(K, np.intp)
        self.loss_at, self.error_at = (<double *> pointer(self.losses),
                                       <double *> pointer(self.errors))
        self.f = <double *> pointer(self._work)
        self.xi, self.q, self.delta = self.f + K, self.f + 2 * K, self.f + 3 * K
        self.raw, self.raw_u, self.fa = self.f + 4 * K, self.f + 5 * K, self.f + 6 * K
        self.value = self.f + 7 * K
        self.wide = self.value + len(steps)
        self.active = <Py_ssize_t *> pointer(self._active)
        self.weight_bound = -1.0

    def _judge(self, predictors):
        """Number the predictors."""
        cdef Py_ssize_t g
        cdef int kind
        if (len(predictors) != len(self._all_steps) or 2 * len(predictors) > MOST_PREDICTORS
                or self.any_coin or self.any_mirror or not self.averages
                or self.error_kind != ERROR_CLASS):
            raise ValueError("these candidates cannot be judged")
        for g in range(len(predictors)):
            for kind in (LAST, TAIL):
                if predictors[g] & kind:
                    self.group_of[self.n_predictors] = g
                    self.is_tail[self.n_predictors] = kind == TAIL
                    self.n_predictors += 1
        self.predictors, self.judged, self.judging = predictors, True, True
        self.figures = np.zeros(self.n_predictors)
        self.outcomes = np.zeros((2, 1 << self.n_predictors))
        self.figure_at = <double *> pointer(self.figures)
        self.outcome_at = <double *> pointer(self.outcomes)

    def _alive_steps(self, int alive):
        """The settings of these candidates; of all where they are not judged."""
        if not self.judged:
            return self._all_steps
        return [step for g, step in enumerate(self._all_steps) if alive >> g & 1]

    cdef _allocate(self, int alive):
        """Zeros for the candidates in `alive`."""
        cdef Py_ssize_t g
        cdef StepSpec step
        steps = self._alive_steps(alive)
        header = 0
        for step in steps:
            header |= (step.step.flags & STEP_ADAPTIVE_NORMALIZED) != 0
        K = len(steps) * self.n_out
        cells = aligned_zeros((self.n_features, header + K * self.n_planes), self.dtype)
        offsets = np.zeros((self.n_planes, K))
        groups = np.zeros(len(steps) * sizeof(Group), np.uint8)
        self._groups, self.groups = groups, <Group *> pointer(groups)
        self._take(alive, header, cells, offsets)
        for g in range(self.n_groups):
            self.groups[g].scale = self.groups[g].inflation = 1.0

    cdef _take(self, int alive, int header, cells, offsets):
        """Use these arrays, of the candidates in `alive`."""
        cdef Py_ssize_t g
        self.alive, self.header = alive, header
        self.cells, self.offsets, self.intercept = cells, offsets, offsets[0]
        self.at, self.b = pointer(cells), <double *> pointer(offsets)
        self.K = offsets.shape[1]
        self.n_groups, self.stride = self.K // self.n_out, cells.shape[1]
        if self.judged:
            for g in range(len(self._all_steps)):
                self.place[g] = (alive & ((1 << g) - 1)).bit_count() if alive >> g & 1 else -1
        self.plain = self.error_kind != ERROR_ABSOLUTE and not header and not self.any_mirror
        self.set_parts(self.loss_spec, self._all_steps)

    def __dealloc__(self):
        free(self.entries.at)
        free(self.entries.x)
        free(self.entries.root)
        free(self.entries.rate)

    def set_parts(self, LossSpec loss, steps):
        """Use this loss and these settings from now on; their flags must stay as they are."""
        cdef StepSpec step
        cdef Py_ssize_t g
        steps = [steps] if isinstance(steps, StepSpec) else list(steps)
        if len(steps) != len(self._all_steps):
            raise ValueError(f"{len(steps)} settings for {len(self._all_steps)} groups")
        self.loss_spec, self._all_steps = loss, steps   # own what the structs point at
        self._steps = self._alive_steps(self.alive)
        self.loss = loss.loss
        self.forgets = False
        for g in range(self.n_groups):
            step = self._steps[g]
            self.groups[g].step = step.step
            self.groups[g].reg = step.step.reg
            self.forgets |= step.step.forget < 1.0

    @property
    def weights(self):
        """The weights, for reading."""
        return Weights(self)

    @property
    def loss_sum(self):
        """Sum of the losses that the examples had before their steps (of the group that
        answered, or of the first).
        """
        return float(self.losses[0])

    @property
    def error_sum(self):
        """Sum of the errors that the examples had before their steps (likewise)."""
        return float(self.errors[0])

    @property
    def averaged_count(self):
        """Iterates in the average that predicts."""
        return self.counts[self.older]

    # ------------------------------------------------------------------ one row, any type

    cdef double dot_one(self, const Row *x, const Row *later, const weight_t *v) noexcept nogil:
        """x . v of the first column, without the row's factor."""
        cdef const void *ahead = NULL if later == NULL else later.values
        cdef const void *ahead_j = NULL if later == NULL else later.indices
        cdef Py_ssize_t m = self.stride
        if x.kind == ROW_F32_I32:
            return strided_dot(<const float32_t *> x.values, 1, <const int32_t *> x.indices,
                               x.count, v, m, <const float32_t *> ahead,
                               <const int32_t *> ahead_j)
        if x.kind == ROW_F64_I32:
            return strided_dot(<const float64_t *> x.values, 1, <const int32_t *> x.indices,
                               x.count, v, m, <const float64_t *> ahead,
                               <const int32_t *> ahead_j)
        if x.kind == ROW_F32_I64:
            return strided_dot(<const float32_t *> x.values, 1, <const int64_t *> x.indices,
                               x.count, v, m, <const float32_t *> ahead,
                               <const int64_t *> ahead_j)
        if x.kind == ROW_F32_DENSE:
            return strided_dot(<const float32_t *> x.values, x.step, <const int32_t *> NULL,
                               x.count, v, m, <const float32_t *> NULL, <const int32_t *> NULL)
        if x.kind == ROW_F64_DENSE:
            return strided_dot(<const float64_t *> x.values, x.step, <const int32_t *> NULL,
                               x.count, v, m, <const float64_t *> NULL, <const int32_t *> NULL)
        return strided_dot(<const float64_t *> x.values, 1, <const int64_t *> x.indices,
                           x.count, v, m, <const float64_t *> ahead, <const int64_t *> ahead_j)

    cdef bint take_entries(self, const Row *x, weight_t *v) noexcept nogil:
        """Unpack the row; False without memory.  `v` tells the type alone."""
        cdef Entries *out = &self.entries
        cdef Py_ssize_t m = self.stride
        cdef weight_t *values
        if x.count > self.room:
            self.room = 2 * x.count
            free(out.at)
            free(out.x)
            free(out.root)
            free(out.rate)
            out.at = <int64_t *> malloc(self.room * sizeof(int64_t))
            out.x = malloc(self.room * sizeof(weight_t))
            out.root = malloc(self.room * sizeof(weight_t))
            out.rate = malloc(self.room * sizeof(weight_t))
            if out.at == NULL or out.x == NULL or out.root == NULL or out.rate == NULL:
                self.room = 0
                return False
        values = <weight_t *> out.x
        if x.kind == ROW_F32_I32:
            unpack(<const float32_t *> x.values, 1, <const int32_t *> x.indices, x.count,
                   x.scale, m, out, values)
        elif x.kind == ROW_F64_I32:
            unpack(<const float64_t *> x.values, 1, <const int32_t *> x.indices, x.count,
                   x.scale, m, out, values)
        elif x.kind == ROW_F32_I64:
            unpack(<const float32_t *> x.values, 1, <const int64_t *> x.indices, x.count,
                   x.scale, m, out, values)
        elif x.kind == ROW_F32_DENSE:
            unpack(<const float32_t *> x.values, x.step, <const int32_t *> NULL, x.count,
                   x.scale, m, out, values)
        elif x.kind == ROW_F64_DENSE:
            unpack(<const float64_t *> x.values, x.step, <const int32_t *> NULL, x.count,
                   x.scale, m, out, values)
        else:
            unpack(<const float64_t *> x.values, 1, <const int64_t *> x.indices, x.count,
                   x.scale, m, out, values)
        if not row_is_sorted(x):
            if self.zeros == NULL:
                with gil:
                    self._zeros = np.zeros(self.n_features)
                    self.zeros = <double *> pointer(self._zeros)
            add_repeated(out, values, m, self.zeros)
        return True

    # ------------------------------------------------------------------ scores

    cdef double rate_factor(self, const Group *group, double t) noexcept nogil:
        """What the rates of a group have in common: r_j = this / root_j (/ n_j)."""
        cdef double e = group.step.eta0 * sqrt(group.inflation)
        if self.error_kind == ERROR_ABSOLUTE:
            e *= self.deviation()
        if group.step.flags & STEP_ADAPTIVE_NORMALIZED:
            e *= sqrt(t / self.sum_x) if self.sum_x > 0.0 else 0.0
        return e

    cdef double deviation(self) noexcept nogil:
        """Of the targets so far: from their mean, or from 0 where there is no offset."""
        cdef double sq
        if self.target_weight <= 0.0:
            return 0.0
        sq = self.target_sq / self.target_weight
        if not self.fit_intercept:
            sq += self.target_mean * self.target_mean
        return sqrt(sq)

    cdef double read_cell(self, const Group *group, Py_ssize_t k, const weight_t *cell,
                          bint averaged, double e) noexcept nogil:
        """Weight k of a feature, whose numbers begin at `cell` (v of column 0)."""
        cdef double v = cell[k]
        if averaged:
            v = (group.sums[self.older] * v
                 - cell[(PLANE_U + self.older) * self.K + k]) / self.counts[self.older]
        else:
            v *= group.scale
        if group.step.flags & STEP_ADAPTIVE_MIRROR:
            if group.step.flags & STEP_ADAPTIVE_NORMALIZED:
                e *= cell[-1]
            v = mirror_weight(v, cell[PLANE_ROOT * self.K + k], e, group.reg * self.t)
        return v

    cdef double read_offset(self, const Group *group, Py_ssize_t k,
                            bint averaged) noexcept nogil:
        if averaged:
            return self.b[(PLANE_U + self.older) * self.K + k] / self.counts[self.older]
        return self.b[k]

    cdef Py_ssize_t answering(self) noexcept nogil:
        """The group of the predictor that answers."""
        return self.place[self.group_of[self.chosen]] if self.judged else 0

    cdef bint answers_mean(self, bint averaged) noexcept nogil:
        """Whether an answer is that of an average, where `averaged` asks for one."""
        return (averaged and self.averages and self.counts[self.older] > 0.0
                and (not self.judged or self.is_tail[self.chosen]))

    cdef void read_row(self, const Row *x, bint averaged, const weight_t *v,
                       double *out) noexcept nogil:
        """Scores of all columns, or of those that answer, offsets included; changes nothing."""
        cdef Py_ssize_t i, g, k, first = self.answering()
        cdef double e, total
        cdef const Group *group
        averaged = self.answers_mean(averaged)
        for g in range(first, first + 1 if self.judged else self.n_groups):
            group = &self.groups[g]
            e = self.rate_factor(group, self.t) if group.step.flags & STEP_ADAPTIVE_MIRROR else 0.0
            for k in range(g * self.n_out, (g + 1) * self.n_out):
                total = 0.0
                for i in range(x.count):
                    total += row_value(x, i) * self.read_cell(
                        group, k, v + row_index(x, i) * self.stride, averaged, e)
                out[k - first * self.n_out] = total + self.read_offset(group, k, averaged)

    cdef void score_all(self, double *f, const weight_t *v) noexcept nogil:
        """Scores of all columns from the entries, before the features' sizes grow."""
        cdef Py_ssize_t i, g, k, K = self.K
        cdef const Group *group
        cdef const Entries *row = &self.entries
        cdef weight_t *work = <weight_t *> self.raw
        cdef const weight_t *x = <const weight_t *> row.x
        cdef double e, total, a
        dot_columns(row, v, K, work)
        for g in range(self.n_groups):
            group = &self.groups[g]
            if group.step.flags & STEP_ADAPTIVE_MIRROR:
                e = self.rate_factor(group, self.t)
                for k in range(g * self.n_out, (g + 1) * self.n_out):
                    total = 0.0
                    for i in range(row.n):
                        a = 0.0
                        if group.step.flags & STEP_ADAPTIVE_NORMALIZED:
                            a = size_ratio(x[i], v[row.at[i] - 1])
                        total += x[i] * self.read_cell(group, k, v + row.at[i], False,
                                                       e / a if grows(a) else e)
                    f[k] = total
            else:
                for k in range(g * self.n_out, (g + 1) * self.n_out):
                    f[k] = group.scale * work[k]
        if self.header:
            # as if the sizes had grown already
            for i in range(row.n):
                a = size_ratio(x[i], v[row.at[i] - 1])
                if grows(a):
                    for g in range(self.n_groups):
                        group = &self.groups[g]
                        if not rescales(group):
                            continue
                        for k in range(g * self.n_out, (g + 1) * self.n_out):
                            f[k] += (group.scale * x[i] * v[row.at[i] + k]
                                     * (1.0 / a - 1.0))
        for k in range(K):
            f[k] += self.b[k]

    cdef void score_means(self, double *f, const weight_t *v) noexcept nogil:
        """The same for the averages, after `score_all`; the last iterates before there are any."""
        cdef Py_ssize_t i, g, k, K = self.K, o = PLANE_U + self.older
        cdef const Group *group
        cdef const Entries *row = &self.entries
        cdef const weight_t *raw = <const weight_t *> self.raw
        cdef weight_t *work = <weight_t *> self.raw_u
        cdef const weight_t *x = <const weight_t *> row.x
        cdef double a, count = self.counts[self.older]
        if count == 0.0:
            for k in range(K):
                f[k] = self.f[k]
            return
        dot_columns(row, v + o * K, K, work)
        for g in range(self.n_groups):
            group = &self.groups[g]
            for k in range(g * self.n_out, (g + 1) * self.n_out):
                f[k] = (group.sums[self.older] * raw[k] - work[k] + self.b[o * K + k]) / count
        if not self.header:
            return
        for i in range(row.n):
            a = size_ratio(x[i], v[row.at[i] - 1])
            if grows(a):
                for g in range(self.n_groups):
                    if rescales(&self.groups[g]):
                        for k in range(g * self.n_out, (g + 1) * self.n_out):
                            f[k] += x[i] * (1.0 / a - 1.0) * self.read_cell(
                                &self.groups[g], k, v + row.at[i], True, 0.0)

    # ------------------------------------------------------------------ judging

    cdef void judge(self, double target, Py_ssize_t label, double c) noexcept nogil:
        """Count the errors that the predictors made on an example, by its scores."""
        cdef int p, g, best = self.chosen
        cdef Py_ssize_t erred = 0
        cdef double e
        if not c > 0.0:
            return
        for p in range(self.n_predictors):
            g = self.place[self.group_of[p]]
            if g < 0:
                continue
            e = self.error_of((self.fa if self.is_tail[p] else self.f) + g * self.n_out, target,
                              label)
            if e > 0.0:
                erred |= 1 << p
            self.figure_at[p] = self.decay * self.figure_at[p] + c * e
        self.outcome_at[erred] += c
        self.outcome_at[(1 << self.n_predictors) + erred] += c * c
        for p in range(self.n_predictors):
            if (self.place[self.group_of[p]] >= 0
                    and self.figure_at[p] < self.figure_at[best]):
                best = p
        self.chosen = best

    cdef double sum_outcomes(self, Py_ssize_t among, Py_ssize_t but, bint squared) noexcept nogil:
        """The sum over examples where exactly one of two sets of predictors erred."""
        cdef Py_ssize_t m, n = 1 << self.n_predictors
        cdef double total = 0.0
        for m in range(n):
            if ((m & among) != 0) != ((m & but) != 0):
                total += self.outcome_at[squared * n + m]
        return total

    cdef int losers(self) noexcept nogil:
        """Bits of the candidates to drop, by the outcomes since the last look."""
        cdef double errors[MOST_PREDICTORS]
        cdef int p, best = -1, dropped = 0, own
        cdef Py_ssize_t g, m, n = 1 << self.n_predictors
        for p in range(self.n_predictors):
            errors[p] = self.sum_outcomes(1 << p, 0, False)
            if self.place[self.group_of[p]] >= 0 and (best < 0 or errors[p] < errors[best]):
                best = p
        for g in range(self.n_groups):
            if self.groups[g].step.forget < 1.0:
                continue            # it waits for the data to change
            own = -1
            for p in range(self.n_predictors):
                if self.place[self.group_of[p]] == g and (own < 0 or errors[p] < errors[own]):
                    own = p
            if errors[own] - errors[best] > 3.0 * sqrt(self.sum_outcomes(1 << own, 1 << best,
                                                                         True)):
                dropped |= 1 << self.group_of[own]
        for m in range(2 * n):
            self.outcome_at[m] = 0.0
        return dropped

    cdef void compact(self, const weight_t *cells, weight_t *out, const Py_ssize_t *kept,
                      Py_ssize_t n_kept, int header) noexcept nogil:
        """The numbers of the groups that are kept, one after the other; `out` may be `cells`."""
        cdef Py_ssize_t j, m, g, k, n = self.n_out, to = 0
        cdef const weight_t *cell
        for j in range(self.n_features):
            cell = cells + j * self.stride
            if header:
                out[to] = cell[0]
                to += 1
            for m in range(self.n_planes):
                for g in range(n_kept):
                    for k in range(n):
                        out[to] = cell[self.header + m * self.K + kept[g] * n + k]
                        to += 1

    def keep(self, int alive):
        """Drop all candidates but these (bits)."""
        cdef Py_ssize_t kept[MOST_PREDICTORS]
        cdef Py_ssize_t g, n_kept = 0
        cdef int header = 0, p
        alive &= self.alive
        if not self.judged or not alive:
            raise ValueError("there are no such candidates")
        if alive == self.alive:
            return
        for g in range(len(self._all_steps)):
            if alive >> g & 1:
                kept[n_kept] = self.place[g]
                n_kept += 1
        for g in range(n_kept):
            header |= (self.groups[kept[g]].step.flags & STEP_ADAPTIVE_NORMALIZED) != 0
        columns = [kept[g] * self.n_out + k for g in range(n_kept) for k in range(self.n_out)]
        offsets = np.ascontiguousarray(self.offsets[:, columns])
        shape = self.n_features, header + len(columns) * self.n_planes
        try:
            cells = aligned_zeros(shape, self.dtype)
        except MemoryError:         # in place, without giving memory back
            cells = self.cells.reshape(-1)[:shape[0] * shape[1]].reshape(shape)
        if self.single:
            self.compact(<float32_t *> self.at, <float32_t *> pointer(cells), kept, n_kept,
                         header)
        else:
            self.compact(<float64_t *> self.at, <float64_t *> pointer(cells), kept, n_kept,
                         header)
        for g in range(n_kept):
            self.groups[g] = self.groups[kept[g]]
        self._take(alive, header, cells, offsets)
        if not alive >> self.group_of[self.chosen] & 1:
            self.chosen = min((self.figures[p], p) for p in range(self.n_predictors)
                              if alive >> self.group_of[p] & 1)[1]

    def keep_best(self):
        """Drop all candidates but the one that answers."""
        self.keep(1 << self.group_of[self.chosen])

    def settle(self):
        """Go on with the candidate that answers, alone and without counting errors; an
        average is that of the examples since `restart_average`.
        """
        if not self.judging:
            return
        self.keep_best()
        self.judging = self.tail = False

    def restart_average(self, bint averaging=True):
        """Begin both windows anew; `averaging=False` leaves them empty."""
        self.averaging = averaging
        self.counts[0] = self.counts[1] = 0.0
        if not averaging:
            return
        windows = slice(self.header + PLANE_U * self.K, self.header + (PLANE_U + 2) * self.K)
        self.cells[:, windows] = 0.0
        self.offsets[PLANE_U:PLANE_U + 2] = 0.0
        for g in range(self.n_groups):
            self.groups[g].sums[0] = self.groups[g].sums[1] = 0.0

    def resume(self, bint averaged):
        """After `settle`: count errors again, as a stream does; `averaged` lets the average
        answer first.
        """
        cdef int p
        if not self.averaging:
            self.restart_average()
        self.judging = self.tail = True
        self.figures[:] = 0.0
        self.outcomes[:] = 0.0
        for p in range(self.n_predictors):
            if averaged and self.is_tail[p] and self.place[self.group_of[p]] >= 0:
                self.chosen = p

    # ------------------------------------------------------------------ one step

    cdef double grow(self, weight_t *v) noexcept nogil:
        """Let the features' sizes grow with the entries; the sum of x^2/n^2."""
        cdef Py_ssize_t i, g, k, m, K = self.K
        cdef const Entries *row = &self.entries
        cdef const weight_t *x = <const weight_t *> row.x
        cdef double a, least = 1.0 / self.most_inverse(), total = 0.0
        cdef weight_t *cell
        for i in range(row.n):
            cell = v + row.at[i]
            a = size_ratio(x[i], cell[-1])
            if grows(a):
                cell[-1] = <weight_t> (1.0 / max(fabs(x[i]), least))
                for g in range(self.n_groups):
                    if not rescales(&self.groups[g]):
                        continue
                    for k in range(g * self.n_out, (g + 1) * self.n_out):
                        cell[k] = <weight_t> (cell[k] / a)
                        for m in range(PLANE_U, PLANE_U + 2 * self.averages):
                            cell[m * K + k] = <weight_t> (cell[m * K + k] / a)
                a = fabs(x[i]) * cell[-1]
            total += a * a
        return total

    cdef double most_inverse(self) noexcept nogil:
        return 1e15 if self.single else 1e100

    cdef void step_group(self, Group *group, Py_ssize_t first, double target, Py_ssize_t label,
                         double c, double value, weight_t *v) noexcept nogil:
        """The step of one group's columns, from `first` on, whose xi are not all 0."""
        cdef Py_ssize_t k, m, n_active = 0, K = self.K, n = self.n_out
        cdef Entries *row = &self.entries
        cdef bint joint = loss_is_multi(&self.loss), wide
        cdef const weight_t *inverse = NULL
        cdef double e = self.rate_factor(group, self.t), pull = group.reg * self.t
        cdef double a2, q_sum = 0.0
        cdef double *b = self.b
        if group.step.flags & STEP_ADAPTIVE_NORMALIZED:
            inverse = v - 1
        if not e > 0.0:
            return
        for k in range(first, first + n):
            self.delta[k] = 0.0
            self.q[k] = sqrt(c * group.inflation) * fabs(self.xi[k])
            if self.xi[k] != 0.0:
                self.active[n_active] = k
                n_active += 1
        # many columns at once, or one after the other
        wide = (n > 1 and WIDE * n_active >= n and inverse == NULL
                and not group.step.flags & STEP_ADAPTIVE_MIRROR)
        if wide:
            raise_columns(row, v + first + K, n, self.q + first, self.q + first,
                          <weight_t *> self.wide)
        for m in range(n_active):
            k = self.active[m]
            a2 = c * group.inflation * self.xi[k] * self.xi[k]
            if not wide:
                self.q[k] = raise_rates(row, v + K + k, self.q[k])
            self.q[k] *= e
            if group.step.flags & STEP_ADAPTIVE_MIRROR:
                self.q[k] = mirror_sum(row, inverse, e, pull)
            elif inverse != NULL:
                self.q[k] = e * normalized_sum(row, inverse)
            if self.fit_intercept:
                b[K + k] = sqrt(b[K + k] * b[K + k] + a2 + 1e-280)
                self.q[k] += e / b[K + k]
            q_sum += self.q[k]
            if joint and not wide:
                keep_roots(row, v + K + k)
            elif not joint:
                if group.step.flags & STEP_ADAPTIVE_EXPLICIT:
                    self.delta[k] = c * self.xi[k]
                else:
                    self.delta[k] = self.delta_of(k, first, target, label, c, value)
                if not wide:
                    self.move(group, k, e, inverse, v)
        if joint:           # which sees the sums of all columns
            for m in range(n_active):
                k = self.active[m]
                if group.step.flags & STEP_ADAPTIVE_EXPLICIT:
                    self.delta[k] = c * self.xi[k]
                elif self.loss.kind == LOSS_SOFTMAX:
                    self.delta[k] = self.xi[k] * softmax_tau(self.q[k], c)
                else:
                    self.delta[k] = self.xi[k] * joint_tau(q_sum, c, value)
                if not wide:
                    raise_rates(row, v + K + k, 0.0)        # reads them again
                    self.move(group, k, e, inverse, v)
        if wide:
            for k in range(first, first + n):
                self.q[k] = -self.delta[k] * e / group.scale
            move_columns(row, v + first, n, K, self.q + first, self.averaging, group.sums,
                         <weight_t *> self.wide)
            if self.fit_intercept:
                for m in range(n_active):
                    k = self.active[m]
                    b[k] -= self.delta[k] * e / b[K + k]

    cdef void move(self, const Group *group, Py_ssize_t k, double e, const weight_t *inverse,
                   weight_t *v) noexcept nogil:
        """The step of one column by its delta; the entries hold its rates."""
        if group.step.flags & STEP_ADAPTIVE_MIRROR:
            move_thetas(&self.entries, v + k, self.K, -self.delta[k], self.averaging, group.sums)
        else:
            move_weights(&self.entries, v + k, self.K, inverse, -self.delta[k] * e / group.scale,
                         self.averaging, group.sums)
        if self.fit_intercept:
            self.b[k] -= self.delta[k] * e / self.b[self.K + k]

    cdef double delta_of(self, Py_ssize_t k, Py_ssize_t first, double target, Py_ssize_t label,
                         double c, double value) noexcept nogil:
        """delta of a column whose loss sees no other; one-vs-rest with several outputs."""
        cdef double xi = self.xi[k]
        if self.n_out > 1:
            target = 1.0 if k - first == label else -1.0
            value = loss_value_xi(&self.loss, target, self.f[k], &xi)
        return implicit_delta(&self.loss, target, self.f[k], self.q[k], c, value, xi)

    cdef void bet_group(self, Group *group, Py_ssize_t first, double c,
                        weight_t *v) noexcept nogil:
        """The bets of one group's columns."""
        cdef Py_ssize_t i, k, K = self.K, last = (self.n_planes - 3) * self.K
        cdef const Entries *row = &self.entries
        cdef const weight_t *x = <const weight_t *> row.x
        cdef double g, move, alpha = group.step.alpha
        cdef double *b = self.b
        for k in range(first, first + self.n_out):
            if self.xi[k] == 0.0:
                continue
            g = c * self.xi[k]
            for i in range(row.n):
                move = bet(v + row.at[i] + k, K, last, g * x[i], alpha)
                if self.averaging:
                    v[row.at[i] + 2 * K + k] += <weight_t> (group.sums[0] * move)
                    v[row.at[i] + 3 * K + k] += <weight_t> (group.sums[1] * move)
            if self.fit_intercept:
                bet(b + k, K, last, g, alpha)

    cdef bint fits(self, const Row *row, double largest, double c) noexcept nogil:
        """Whether the step can be made within the range of the weights' type."""
        cdef Py_ssize_t g
        cdef double slope, size = 1e17 if self.single else 1e140
        slope = largest_of(self.xi, self.K) * sqrt(c)
        for g in range(self.n_groups):
            if not (slope * sqrt(self.groups[g].inflation) * max(largest, 1.0) < size
                    and slope * slope * max(c, 1.0) < 1e140
                    and self.rate_factor(&self.groups[g], self.t + 1.0) * max(c, 1.0)
                    < (1e15 if self.single else 1e40)):
                if largest > row_largest(row):
                    return self.fits(row, row_largest(row), c)
                return False
        return True

    cdef int learn_row(self, const Row *row, const Row *later, double target, Py_ssize_t label,
                       double c, double largest, weight_t *v) noexcept nogil:
        """One example: DONE, or why nothing has changed."""
        cdef Py_ssize_t g, k, K = self.K
        cdef bint unpacked = False, steps = False, first
        cdef double total = 0.0, s
        cdef Group *group
        cdef double *b = self.b
        if K == 1 and not self.any_mirror and not self.header and not self.judging:
            self.f[0] = (self.groups[0].scale * (row.scale * self.dot_one(row, later, v))
                         + self.b[0])
        else:
            if not self.take_entries(row, v):
                return STEP_TOO_LARGE
            unpacked = True
            if later != NULL and K > 1:
                self.fetch(later, v)
            self.score_all(self.f, v)
            if self.judging:
                self.score_means(self.fa, v)
        for g in range(self.n_groups):
            k = g * self.n_out
            if self.n_out == 1:
                self.value[g] = loss_value_xi(&self.loss, target, self.f[g], &self.xi[g])
            else:
                self.value[g] = mloss_value_xi(&self.loss, self.n_out, label, self.f + k, 1.0,
                                               self.xi + k)
            total += self.value[g]
        if not isfinite(total) or (K > 1 and not all_finite(self.f, K)):
            return NOT_FINITE
        if K == 1 and self.xi[0] == 0.0 and self.plain and not self.forgets:
            self.t += 1.0
            group = &self.groups[0]
            if group.reg > 0.0:
                s = 1.0 - group.reg * group.step.eta0 / sqrt(self.t)
                group.scale *= s if s > LEAST_SHRINK else LEAST_SHRINK
                if group.scale < SMALLEST_SCALE:
                    self.fold(0, v)
            if self.averaging and self.seen >= self.average_from:
                self.count_average(v)
            return DONE
        for k in range(K):
            steps |= self.xi[k] != 0.0
        steps &= c > 0.0
        if steps:
            if not self.fits(row, largest, c):
                return STEP_TOO_LARGE
            if not unpacked and not self.take_entries(row, v):
                return STEP_TOO_LARGE
        # from here on nothing fails
        self.t += 1.0
        if self.header and c > 0.0:
            self.sum_x += self.grow(v) + self.fit_intercept
        if self.error_kind == ERROR_ABSOLUTE and c > 0.0:
            first = self.target_weight == 0.0
            self.see_target(target, c)
            if first and self.fit_intercept:
                # the offset starts at the first target: no other weight has to get it there
                for k in range(K):
                    if b[k] == 0.0 and not self.any_coin:
                        b[k] = target
                        steps = False
        for g in range(self.n_groups):
            group = &self.groups[g]
            if group.step.forget < 1.0:
                group.inflation /= group.step.forget
            if group.reg > 0.0 and not group.step.flags & STEP_ADAPTIVE_MIRROR:
                s = 1.0 - group.reg * group.step.eta0 / sqrt(self.t)
                group.scale *= s if s > LEAST_SHRINK else LEAST_SHRINK
            if group.scale < SMALLEST_SCALE or group.inflation > LARGEST_INFLATION:
                self.fold(g, v)
            if steps:
                if group.step.kind == STEP_COIN_BETTING:
                    self.bet_group(group, g * self.n_out, c, v)
                else:
                    self.step_group(group, g * self.n_out, target, label, c, self.value[g], v)
        if self.averaging and self.seen >= self.average_from:
            self.count_average(v)
        return DONE

    cdef void fetch(self, const Row *x, const weight_t *v) noexcept nogil:
        """Ask for the weights of another row."""
        cdef Py_ssize_t stride = self.stride * sizeof(weight_t), size = self.K * sizeof(weight_t)
        if x.kind == ROW_F32_I32 or x.kind == ROW_F64_I32:
            prefetch_cells(<const int32_t *> x.indices, x.count, <const char *> v, stride, size)
        elif x.indices != NULL:
            prefetch_cells(<const int64_t *> x.indices, x.count, <const char *> v, stride, size)

    cdef void see_target(self, double y, double c) noexcept nogil:
        """Mean and squared deviations of the targets, by Welford's rule."""
        cdef double d = y - self.target_mean
        self.target_weight += c
        self.target_mean += d * (c / self.target_weight)
        self.target_sq += c * d * (y - self.target_mean)

    cdef void fold(self, Py_ssize_t g, weight_t *v) noexcept nogil:
        """Put a group's scale and inflation into its numbers."""
        cdef Group *group = &self.groups[g]
        cdef Py_ssize_t j, k, K = self.K
        cdef double root = sqrt(group.inflation), scale = group.scale
        for j in range(self.n_features):
            for k in range(g * self.n_out, (g + 1) * self.n_out):
                v[j * self.stride + k] *= <weight_t> scale
                v[j * self.stride + K + k] /= <weight_t> root
        for k in range(g * self.n_out, (g + 1) * self.n_out):
            self.b[K + k] /= root
        group.sums[0] /= scale
        group.sums[1] /= scale
        group.scale = group.inflation = 1.0

    cdef void count_average(self, weight_t *v) noexcept nogil:
        """Count this iterate; a tail average restarts its older window at 2^k examples."""
        cdef Py_ssize_t g, j, k, n, K = self.K
        cdef double *b = self.b
        cdef int o = self.older
        n = <Py_ssize_t> (self.seen - self.average_from)
        if self.tail and n >= FIRST_WINDOW and n & (n - 1) == 0:
            for j in range(self.n_features):
                for k in range(K):
                    v[j * self.stride + (PLANE_U + o) * K + k] = 0
            for k in range(K):
                b[(PLANE_U + o) * K + k] = 0.0
            for g in range(self.n_groups):
                self.groups[g].sums[o] = 0.0
            self.counts[o] = 0.0
            self.older = 1 - o
        for g in range(self.n_groups):
            self.groups[g].sums[0] += self.groups[g].scale
            self.groups[g].sums[1] += self.groups[g].scale
        for k in range(K):
            b[PLANE_U * K + k] += b[k]
            b[(PLANE_U + 1) * K + k] += b[k]
        self.counts[0] += 1.0
        self.counts[1] += 1.0

    # ------------------------------------------------------------------ a run of rows

    cdef int _learn(self, const Examples *examples, Py_ssize_t *at,
                    Py_ssize_t stop) noexcept nogil:
        if self.single:
            return self.learn_rows(examples, at, stop, <float32_t *> self.at + self.header)
        return self.learn_rows(examples, at, stop, <float64_t *> self.at + self.header)

    cdef int learn_rows(self, const Examples *examples, Py_ssize_t *at, Py_ssize_t stop,
                        weight_t *v) noexcept nogil:
        cdef const Rows *X = examples.X
        cdef const int64_t *order = examples.order
        cdef Record record = examples.record
        cdef Py_ssize_t n, i, g, start = at[0]
        cdef Row ring[RING]
        cdef Row *row
        cdef Row *ahead = NULL
        cdef double target = 1.0, c = 1.0
        cdef Py_ssize_t label = 0
        cdef int status, alive
        for n in range(start, min(start + ROWS_AHEAD, stop)):
            rows_get(X, n if order == NULL else order[n], &ring[n & (RING - 1)])
        for n in range(start, stop):
            i = n if order == NULL else order[n]
            row = &ring[n & (RING - 1)]
            ahead = NULL
            if order != NULL and n + STARTS_AHEAD < stop:
                rows_prefetch_start(X, order[n + STARTS_AHEAD])
                if examples.y != NULL:
                    OSVM_PREFETCH(examples.y + order[n + STARTS_AHEAD])
            if n + ROWS_AHEAD < stop:
                ahead = &ring[(n + ROWS_AHEAD) & (RING - 1)]
                if order == NULL:
                    rows_get(X, n + ROWS_AHEAD, ahead)
                    ahead = NULL
                else:
                    rows_get(X, order[n + ROWS_AHEAD], ahead)
            if self.K > 1:              # whose weights are fetched, and rows before
                if ahead != NULL and ahead.indices != NULL:
                    rows_prefetch(X, order[n + ROWS_AHEAD])
                ahead = &ring[(n + 1) & (RING - 1)] if n + 1 < stop else NULL
            if self.n_out == 1:
                target = examples.y[i]
            else:
                label = examples.labels[i]
            if examples.weight != NULL:
                c = examples.weight[i]
            if record.score != NULL:
                self.read_row(row, True, v, record.score + (n - start) * self.n_out)
            status = self.learn_row(row, ahead, target, label, c, examples.largest, v)
            if status != DONE:
                return status
            self.seen += 1.0
            if self.judged:
                self.count_answer(target, label)
                if self.judging:
                    self.judge(target, label, c)
                    if self.n_groups > 1 and self.is_due():
                        alive = self.alive & ~self.losers()
                        if alive != self.alive:
                            with gil:
                                self.keep(alive)
                            v = <weight_t *> self.at + self.header
            else:
                for g in range(self.n_groups):
                    self.loss_at[g] += self.value[g]
                    self.error_at[g] += self.error_of(self.f + g * self.n_out, target, label)
            if record.eta != NULL:
                record.eta[n - start] = self.mean_rate(row, v)
                record.loss[n - start] = self.value[0]
                record.error[n - start] = self.error_at[0] / self.seen
            at[0] = n + 1
        return DONE

    cdef void count_answer(self, double target, Py_ssize_t label) noexcept nogil:
        """Loss and error of the scores that answered an example, after its step."""
        cdef Py_ssize_t g = self.answering(), k = g * self.n_out
        cdef double *f = self.f + k
        if not (self.judging and self.is_tail[self.chosen]):
            self.loss_at[0] += self.value[g]
        else:
            f = self.fa + k
            if self.n_out == 1:
                self.loss_at[0] += loss_value_xi(&self.loss, target, f[0], self.q)
            else:
                self.loss_at[0] += mloss_value_xi(&self.loss, self.n_out, label, f, 1.0, self.q)
        self.error_at[0] += self.error_of(f, target, label)

    cdef bint is_due(self) noexcept nogil:
        """Whether it is time to look for losers."""
        cdef int64_t n = <int64_t> self.seen
        return n >= FIRST_LOOK and n & (n - 1) == 0

    cdef double error_of(self, const double *f, double target,
                         Py_ssize_t label) noexcept nogil:
        cdef Py_ssize_t k
        if self.n_out > 1:
            for k in range(self.n_out):
                if k != label and (f[k] > f[label] or (f[k] == f[label] and k < label)):
                    return 1.0
            return 0.0
        if self.error_kind == ERROR_CLASS:
            return (f[0] > 0.0) != (target > 0.0)
        if self.error_kind == ERROR_ABSOLUTE:
            return fabs(f[0] - target)
        return f[0] < 1.0

    cdef double mean_rate(self, const Row *x, const weight_t *v) noexcept nogil:
        """Mean rate over the row's entries and the columns of the group that answers."""
        cdef Py_ssize_t i, k, n = x.count * self.n_out, first = self.answering()
        cdef const Group *group = &self.groups[first]
        cdef double total = 0.0, inverse = 1.0
        cdef const weight_t *cell
        if group.step.kind == STEP_COIN_BETTING or n == 0:
            return 0.0
        for i in range(x.count):
            cell = v + row_index(x, i) * self.stride
            if group.step.flags & STEP_ADAPTIVE_NORMALIZED:
                inverse = cell[-1]
            for k in range(self.K + first * self.n_out, self.K + (first + 1) * self.n_out):
                if cell[k] > 0:
                    total += inverse / cell[k]
        return total * self.rate_factor(group, self.t) / n

    cdef bint _cannot_fail(self, double n, double count, double largest, double heaviest,
                           double curvature, double target):
        """By the bounds of `fits`; a loss of unbounded slope can always fail."""
        cdef Py_ssize_t g
        cdef double slope = loss_slope(&self.loss) * sqrt(max(heaviest, 1.0)), e
        if not slope < INFINITY:
            return False
        for g in range(self.n_groups):
            e = self.groups[g].step.eta0 * sqrt(LARGEST_INFLATION * (self.t + n)) * heaviest
            if self.error_kind == ERROR_ABSOLUTE:
                e *= target + self.deviation() + fabs(self.target_mean)
            if not (slope * sqrt(LARGEST_INFLATION) * max(largest, 1.0)
                    < (1e17 if self.single else 1e140)
                    and e < (1e15 if self.single else 1e40)):
                return False
        return True

    def flush(self):
        """Nothing is pending: each example makes its own step."""

    @property
    def pending_examples(self):
        return 0

    # ------------------------------------------------------------------ reading

    cdef double _seen(self) noexcept nogil:
        return self.seen

    cdef void _score_row(self, const Row *row, bint averaged, double *work,
                         double *out) noexcept nogil:
        if self.single:
            self.read_row(row, averaged, <const float32_t *> self.at + self.header, out)
        else:
            self.read_row(row, averaged, <const float64_t *> self.at + self.header, out)

    cdef void read_all(self, bint averaged, const weight_t *v, double *out) noexcept nogil:
        """Every weight, columns x n_features; of the group that answers where one does."""
        cdef Py_ssize_t g, j, k, first = self.answering()
        cdef const Group *group
        cdef double e
        for g in range(first, first + 1 if self.judged else self.n_groups):
            group = &self.groups[g]
            e = self.rate_factor(group, self.t) if group.step.flags & STEP_ADAPTIVE_MIRROR else 0.0
            for j in range(self.n_features):
                for k in range(g * self.n_out, (g + 1) * self.n_out):
                    out[(k - first * self.n_out) * self.n_features + j] = self.read_cell(
                        group, k, v + j * self.stride, averaged, e)

    def weight_array(self, bint averaged=False):
        """The weights, (n_features,) or (columns, n_features), in float64."""
        out = np.empty((self.n_out if self.judged else self.K, self.n_features))
        cdef double[:, ::1] view = out
        cdef bint mean = self.answers_mean(averaged)
        if self.single:
            self.read_all(mean, <const float32_t *> self.at + self.header, &view[0, 0])
        else:
            self.read_all(mean, <const float64_t *> self.at + self.header, &view[0, 0])
        return out[0] if len(out) == 1 else out

    def root_array(self):
        """sqrt(G) of all weights, (n_features,) or (columns, n_features), in float64."""
        first = self.header + self.K
        roots = np.repeat([sqrt(self.groups[g].inflation) for g in range(self.n_groups)],
                          self.n_out)
        out = self.cells[:, first:first + self.K].astype(np.float64).T / roots[:, None]
        return out[0] if self.K == 1 else out

    def average_intercept(self):
        """The offsets that answer: the averaged ones, or the last ones."""
        first = self.answering() * self.n_out
        columns = slice(first, first + self.n_out) if self.judged else slice(None)
        if not self.answers_mean(True):
            return self.offsets[0, columns].copy()
        return self.offsets[PLANE_U + self.older, columns] / self.counts[self.older]

    def frozen_average(self, averaged=True):
        """A plain learner with these weights (by default their average), for prediction."""
        if self.n_groups != 1 and not self.judged:
            raise ValueError("candidates have no common weights")
        step = StepSpec(STEP_CONSTANT, eta0=1.0)
        names = {ERROR_CLASS: "class", ERROR_ABSOLUTE: "absolute", ERROR_NOVEL: "novel"}
        frozen = SGDLearner(self.n_features, self.n_out, self.dtype, self.loss_spec, step,
                            reg=0.0, fit_intercept=self.fit_intercept,
                            error_kind=names[self.error_kind])
        frozen.weights.set_array(self.weight_array(averaged))
        first = self.answering() * self.n_out
        frozen.intercept[:] = (self.average_intercept() if averaged
                               else self.offsets[0, first:first + self.n_out])
        return frozen

    def decide(self, RowSource X, double[:, ::1] out, bint averaged=False,
               Py_ssize_t start=0, Py_ssize_t stop=-1):
        """out[i] = scores of row i, offsets included, for rows start:stop."""
        cdef Py_ssize_t i
        cdef Row row
        if X.rows.n_features != self.n_features:
            raise ValueError(f"rows have {X.rows.n_features} features, "
                             f"the model {self.n_features}")
        if stop < 0:
            stop = X.rows.n_rows
        if not 0 <= start <= stop <= X.rows.n_rows or out.shape[0] != X.rows.n_rows \
                or out.shape[1] != (self.n_out if self.judged else self.K):
            raise ValueError("out does not fit the rows")
        # The weights are written out once when there are enough rows to pay for it.
        if ((self.n_groups == 1 or self.judged)
                and (stop - start) * (1 + self._mean_count(X)) > 2 * self.n_features):
            self.frozen_average(averaged).decide(X, out, False, start, stop)
            return
        with nogil:
            for i in range(start, stop):
                rows_get(&X.rows, i, &row)
                self._score_row(&row, averaged, NULL, &out[i, 0])

    # ------------------------------------------------------------------ saving, copying

    def _like(self, Py_ssize_t n_out):
        """A fresh learner with the same parts."""
        names = {ERROR_CLASS: "class", ERROR_ABSOLUTE: "absolute", ERROR_NOVEL: "novel"}
        return AdaptiveLearner(self.n_features, n_out, self.dtype, self.loss_spec,
                               self._all_steps, average_from=self.average_from,
                               fit_intercept=self.fit_intercept,
                               error_kind=names[self.error_kind], predictors=self.predictors,
                               decay=self.decay, alive=self.alive)

    def get_state(self):
        """(scalars, arrays): everything learnt, for `set_state` of an equal learner."""
        scalars = {"t": self.t, "seen": self.seen, "sum_x": self.sum_x,
                   "target_weight": self.target_weight, "target_mean": self.target_mean,
                   "target_sq": self.target_sq, "count_0": self.counts[0],
                   "count_1": self.counts[1], "older": self.older}
        arrays = {"cells": self.cells.copy(), "offsets": self.offsets.copy(),
                  "losses": self.losses.copy(), "errors": self.errors.copy(),
                  "groups": np.array([[self.groups[g].scale, self.groups[g].inflation,
                                       self.groups[g].sums[0], self.groups[g].sums[1]]
                                      for g in range(self.n_groups)])}
        if self.judged:
            scalars |= {"alive": self.alive, "chosen": self.chosen}
            arrays |= {"figures": self.figures.copy(), "outcomes": self.outcomes.copy()}
        return scalars, arrays

    def set_state(self, scalars, arrays):
        """Take over what `get_state` gave; ValueError, and no change, when it does not fit."""
        cdef Py_ssize_t g
        self.schema(scalars.get("alive")).check(scalars, arrays)
        if self.judged:
            if not scalars["alive"] >> self.group_of[scalars["chosen"]] & 1:
                raise ValueError("the saved chosen of the linear learner was dropped")
            if scalars["alive"] != self.alive:
                self._allocate(scalars["alive"])
            self.chosen = scalars["chosen"]
            self.figures[:], self.outcomes[:] = arrays["figures"], arrays["outcomes"]
        for name in ("cells", "offsets", "losses", "errors"):
            getattr(self, name)[:] = arrays[name]
        for g in range(self.n_groups):
            self.groups[g].scale, self.groups[g].inflation = arrays["groups"][g, :2]
            self.groups[g].sums[0], self.groups[g].sums[1] = arrays["groups"][g, 2:]
        self.t, self.seen, self.sum_x = scalars["t"], scalars["seen"], scalars["sum_x"]
        self.target_weight = scalars["target_weight"]
        self.target_mean, self.target_sq = scalars["target_mean"], scalars["target_sq"]
        self.counts[0], self.counts[1] = scalars["count_0"], scalars["count_1"]
        self.older = scalars["older"]

    def schema(self, alive=None):
        """What `set_state` takes; of judged candidates, for those in `alive`."""
        cdef StepSpec step
        if not self.judged:
            return adaptive_schema(self.n_features, self.K, self.dtype, averaged=self.averages,
                                   normalized=self.header, coin=self.any_coin,
                                   n_groups=self.n_groups)
        if not isinstance(alive, int) or not 0 < alive < 1 << len(self._all_steps):
            raise ValueError(f"the saved alive of the linear learner is {alive!r:.60}")
        steps = self._alive_steps(alive)
        header = any([(<StepSpec> step).step.flags & STEP_ADAPTIVE_NORMALIZED for step in steps])
        return judged_schema(self.n_features, self.n_out, self.dtype, normalized=header,
                             n_groups=len(steps), n_candidates=len(self._all_steps),
                             n_predictors=self.n_predictors)

    def copy(self):
        """An independent copy, bit for bit."""
        copied = self._like(self.n_out)
        copied.set_state(*self.get_state())
        return copied

    def _planes(self):
        """The numbers of all features as (n_features, planes, columns), without 1/n."""
        return self.cells[:, self.header:].reshape(self.n_features, self.n_planes, self.K)

    def with_outputs(self, Py_ssize_t n_out):
        """A learner with more outputs: the old ones as they are, the new ones fresh.

        An average begins anew, so that it does not hold new outputs back at 0.
        """
        old = self.n_out
        if n_out <= max(old, 2) or (self.n_groups != 1 and not self.judged):
            raise ValueError(f"cannot go from {old} to {n_out} outputs")
        wide = self._like(n_out)
        scalars, arrays = self.get_state()
        G, shape = self.n_groups, (self.n_features, self.n_planes, self.n_groups)
        cells = np.zeros((self.n_features, self.header + self.n_planes * G * n_out), self.dtype)
        cells[:, :self.header] = self.cells[:, :self.header]
        planes = cells[:, self.header:].reshape(*shape, n_out)      # views
        offsets = np.zeros((self.n_planes, G, n_out))
        first = 1 if old == 1 else 0
        planes[..., first:first + old] = self._planes().reshape(*shape, old)
        offsets[..., first:first + old] = self.offsets.reshape(self.n_planes, G, old)
        if old == 1:
            # The one score of a binary model is the second label's, and minus the first's.
            signed = [0, *range(PLANE_U, PLANE_U + 2 * self.averages), *[1] * self.any_coin]
            for part in (planes, offsets):
                part[..., 0] = part[..., 1]
                part[..., signed, :, 0] *= -1.0
        if self.averages:
            windows = slice(PLANE_U, PLANE_U + 2)
            offsets[windows] = planes[:, windows] = 0.0
            scalars["count_0"] = scalars["count_1"] = 0.0
            arrays["groups"][:, 2:] = 0.0
        offsets = offsets.reshape(self.n_planes, -1)
        wide.set_state(scalars, arrays | {"cells": cells, "offsets": offsets})
        return wide

    def reordered(self, order):
        """A copy whose output k is output order[k] of this one."""
        copied = self.copy()
        scalars, arrays = self.get_state()
        cells = arrays["cells"]
        columns = np.add.outer(np.arange(self.n_groups) * self.n_out, order).ravel()
        cells[:, self.header:] = self._planes()[:, :, columns].reshape(self.n_features, -1)
        copied.set_state(scalars, arrays | {
            "offsets": np.ascontiguousarray(self.offsets[:, columns])})
        return copied

    def candidate_state(self, Py_ssize_t g):
        """(scalars, arrays) of one group, for `set_state` of a learner with its setting alone."""
        cdef Py_ssize_t flags = self.groups[g].step.flags
        scalars, arrays = self.get_state()
        columns = slice(g * self.n_out, (g + 1) * self.n_out)
        n_planes = PLANE_U + 2 * self.averages
        chosen = list(range(n_planes))
        if self.groups[g].step.kind == STEP_COIN_BETTING:
            chosen += [self.n_planes - 3, self.n_planes - 2, self.n_planes - 1]
        cells = self._planes()[:, chosen, columns].reshape(self.n_features, -1)
        if flags & STEP_ADAPTIVE_NORMALIZED:
            cells = np.concatenate([self.cells[:, :1], cells], axis=1)
        return scalars, {"cells": np.ascontiguousarray(cells),
                         "offsets": np.ascontiguousarray(self.offsets[chosen, columns]),
                         **{name: arrays[name][g:g + 1] for name in ("losses", "errors",
                                                                     "groups")}}
