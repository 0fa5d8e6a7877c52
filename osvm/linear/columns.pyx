"""The owners of K columns: the label sets' models and the candidates of a search.

Both hold the memory of a scaled weight matrix with a column for each model and run the loop
of columns.pxd over it; the classes of one model belong to `SGDLearner`.

`LabelBlock`: rows carry any number of labels, and every label has a binary model of its own.
The K models share the rows and their order, and nothing else, so one look at a row serves all
of them.  What differs between labels, besides the weights, is when they came and which step
size they began with.  Labels that agree in both share a schedule state, and there are few.

`SearchLearner`: G candidates (a regularizer and a schedule each) with K outputs are G*K
columns, candidate after candidate.  Each takes exactly the steps that `SGDLearner` would take
alone, and is scored test-then-train: loss and error of each example before the step on it.

Invariants: those of columns.pxd; all columns are at the same row whenever `run` returns, also
when it is interrupted.
"""
import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from osvm._parts.compiled cimport LossSpec, StepSpec
from osvm._input.rows cimport RowSource
from osvm.linear.column_steps cimport (
    SCRATCH_ROWS, XI_BINARY, XI_CLASS, XI_SET, Candidates, Columns, Group,
)
from osvm.linear.model cimport (
    DONE, Examples, Options, open_examples, pointer, raise_status, set_targets,
)
from osvm.linear.step_guard cimport (
    RunBounds, loss_slope, numbers_bound, rho_at, weight_room,
)
from osvm.linear.weights cimport ScaledMatrix
from osvm._c.row_all cimport row_dot_all
from osvm.core.rows cimport rows_get
from osvm.core.smat cimport smat_dot
from osvm.core.step cimport STEP_BOTTOU, STEP_INVERSE_TIME
from osvm.core.typedefs cimport WEIGHT_F32, Row, SMat, Step, float32_t, float64_t

cdef extern from "../_c/search.h" nogil:
    int osvm_simd_limit(int level)


def limit_simd(int level):
    """Use at most this level of wide instructions here; the level in use.  For tests."""
    return osvm_simd_limit(level)


cdef class ColumnLearner:
    """Weights, intercepts and counters of K columns, and their loop: what its two uses share."""
    cdef readonly ScaledMatrix weights      # changed in place
    cdef readonly object intercept, intercept_sum, loss_sum, error_sum
    cdef object loss_spec, _numbers, _active
    cdef Columns columns

    cdef _bind(self, ScaledMatrix weights, LossSpec loss, Py_ssize_t n_out, double average_from,
               bint fit_intercept):
        """Make room for the columns of these weights, n_out of them for each loss."""
        cdef Columns *s = &self.columns
        cdef Py_ssize_t K = weights.w.n_out
        if average_from >= 0.0:
            weights.reserve_average()
        self.weights, self.loss_spec = weights, loss
        self._numbers = np.zeros((4 + SCRATCH_ROWS, K))
        self._active = np.zeros(K, np.intp)
        self.intercept, self.intercept_sum = self._numbers[:2]
        self.loss_sum, self.error_sum = self._numbers[2:4, :K // n_out]
        s.w, s.loss, s.n_out = &weights.w, loss.loss, n_out
        s.options.average_from, s.options.fit_intercept = average_from, fit_intercept
        s.active = <Py_ssize_t *> pointer(self._active)
        s.b = <double *> pointer(self._numbers)
        s.b_sum, s.loss_sum, s.error_sum = s.b + K, s.b + 2 * K, s.b + 3 * K
        s.scratch = s.b + 4 * K

    cdef int _learn(self, const Examples *examples, Py_ssize_t *start, Py_ssize_t stop,
                    Py_ssize_t chunk) except -1:
        """Learn examples `start` to `stop`; signals are looked at after each chunk of them."""
        cdef Py_ssize_t end
        cdef int status = DONE
        while start[0] < stop and status == DONE:
            end = min(stop, start[0] + chunk)
            with nogil:
                status = learn_columns(&self.columns, examples, start, end)
            if status == DONE:
                PyErr_CheckSignals()
        return status

    cdef tuple _state(self, Py_ssize_t first, Py_ssize_t n_out, dict scalars):
        """(scalars, arrays) of n_out columns for an `SGDLearner`; `scalars` are what is known."""
        w, cut = self.weights, slice(first, first + n_out)
        scalars |= {"loss_sum": float(self.loss_sum[first // n_out]),
                    "error_sum": float(self.error_sum[first // n_out]),
                    "pending": 0.0, "touched_all": 0}
        arrays = {"w_v": w.v[:, cut].copy(), "intercept": self._numbers[0, cut].copy(),
                  "intercept_sum": self._numbers[1, cut].copy()}
        if w.u is not None:
            arrays["w_u"] = w.u[:, cut].copy()
        each = {"w_scale": w.scale[cut], "w_sq_v": w.sq_v[cut], "w_avg_scale": w.avg_scale[cut]}
        if n_out > 1:
            return scalars, arrays | {name: array.copy() for name, array in each.items()}
        for name in arrays:
            arrays[name] = arrays[name].ravel()
        return scalars | {name: float(array[0]) for name, array in each.items()}, arrays


cdef class LabelBlock(ColumnLearner):
    """Weights, intercepts and counters of K binary models, and their loop.

    Parameters
    ----------
    weights : ScaledMatrix
        One column per label; changed in place.
    loss : LossSpec
        A binary loss.
    groups : list of (StepSpec, intercept_eta0, t, averaged)
        Schedules, with the steps made and the iterates averaged so far; the intercepts'
        step is intercept_eta0 / sqrt(t), or the weights' step when that is 0.
    group_of : int array of K
        The group of each label.
    reg : float
    radius : float
        Of the ball that each w_k is projected onto; 0 for none.
    average_from : float
        Examples that a label has seen before its average starts; negative for never.
    fit_intercept : bool
    curvature : float
        Of the loss, where no step may go beyond its example (`osvm.linear.step_guard`); else 0.
    """
    cdef readonly object group_of
    cdef object _groups

    def __init__(self, ScaledMatrix weights, LossSpec loss, groups, group_of, *, double reg,
                 double radius, double average_from, bint fit_intercept, double curvature):
        cdef Py_ssize_t q
        cdef StepSpec spec
        cdef Columns *s = &self.columns
        self._bind(weights, loss, 1, average_from, fit_intercept)
        s.xi_source, s.options.reg, s.options.radius = XI_SET, reg, radius
        s.sets.curvature = curvature
        s.n_groups = len(groups)
        self._groups = np.zeros(s.n_groups * sizeof(Group) // 8 + 1)
        s.groups = <Group *> pointer(self._groups)
        for q, (spec, intercept_eta0, t, averaged) in enumerate(groups):
            s.groups[q].step = spec.step
            s.groups[q].intercept_eta0 = intercept_eta0
            s.groups[q].t = s.groups[q].seen = t
            s.groups[q].averaged = averaged
        self.group_of = np.ascontiguousarray(group_of, dtype=np.int64)
        if self.group_of.shape != (s.w.n_out,) or not (
                0 <= self.group_of.min() and self.group_of.max() < s.n_groups):
            raise ValueError("every label needs a group")
        s.group_of = <const int64_t *> pointer(self.group_of)
        self._forget_bound()

    def group_counts(self):
        """(t, averaged) of every group."""
        cdef Py_ssize_t q
        cdef Columns *s = &self.columns
        return [(s.groups[q].t, s.groups[q].averaged) for q in range(s.n_groups)]

    @property
    def seen(self):
        """Examples that each label has seen."""
        return np.array([t for t, _ in self.group_counts()])[self.group_of]

    @property
    def averaged(self):
        """Iterates in each label's average."""
        return np.array([n for _, n in self.group_counts()])[self.group_of]

    # -------------------------------------------------------------- learning

    def run(self, RowSource X, const int64_t[::1] ends, const int32_t[::1] codes, *,
            const int64_t[::1] order=None, const double[::1] weight=None,
            const double[:, ::1] class_weight=None, bint roll_back=False):
        """Learn the rows of X, in this order.

        Parameters
        ----------
        X : RowSource
            Validated rows.
        ends : int64 array of n + 1
            The labels of row i are codes[ends[i]:ends[i + 1]], no label twice.
        codes : int32 array
        order : int64 array, optional
            Row numbers.
        weight : float64 array of n, optional
        class_weight : float64 array (2, K), optional
            Further factors of the rows without and with a label.
        roll_back : bool
            Go back to the state before the call when it fails (an interrupt is no failure).

        Raises
        ------
        FloatingPointError
            A step would overflow; the examples before it have been learnt, unless
            `roll_back` is set.
        """
        cdef Columns *s = &self.columns
        cdef Py_ssize_t start = 0, n_rows = X.rows.n_rows, K = s.w.n_out
        cdef Py_ssize_t stop = n_rows if order is None else order.shape[0]
        cdef Examples examples = open_examples(X, self.weights.dim, order, weight)
        cdef double[::1] room
        cdef int status
        if ends.shape[0] != n_rows + 1 or ends[0] != 0 or ends[n_rows] != codes.shape[0]:
            raise ValueError("the labels do not fit the rows")
        if codes.shape[0] and not (0 <= np.min(codes) and np.max(codes) < K):
            raise ValueError("a code is not that of a label")
        if class_weight is not None and (
                class_weight.shape[0] != 2 or class_weight.shape[1] != K):
            raise ValueError("class_weight needs two weights for each label")
        if stop == 0:
            return
        heaviest = 1.0 if weight is None else float(np.max(weight))
        if class_weight is not None:
            heaviest *= float(np.max(class_weight))
        saved = None
        if not roll_back or stop == 1:
            self._forget_bound()
        elif not self._cannot_fail(stop, n_rows * (1.0 + X.mean_count), examples.largest,
                                   heaviest):
            saved = self._backup()
            self._forget_bound()
        s.sets.ends, s.sets.codes = &ends[0], &codes[0] if codes.shape[0] else NULL
        s.sets.class_weight = &class_weight[0, 0] if class_weight is not None else NULL
        if s.sets.curvature > 0.0:      # rows that repeat columns need it for their norms
            room = np.zeros(X.rows.n_features)
            s.sets.zeros = &room[0]
        # A chunk takes a few milliseconds.
        status = self._learn(&examples, &start, stop, max(1, 4_000_000 // (K * 100)))
        if status != DONE:
            if saved is not None:
                self._roll_back(saved)
            raise_status(self.loss_spec, status, start if order is None else order[start])

    cdef void _forget_bound(self) noexcept:
        cdef Py_ssize_t q
        for q in range(self.columns.n_groups):
            self.columns.groups[q].weight_bound = -1.0

    cdef bint _cannot_fail(self, double n, double count, double largest, double heaviest):
        """Whether n more rows are sure to be learnt without an overflow, by bounds.

        It is so for any sensible data and a loss whose slope is bounded, or whose steps
        are, and saves the copy of the weights that `roll_back` would need.  `count` bounds the
        stored values of a row.
        """
        cdef RunBounds run
        cdef Columns *s = &self.columns
        cdef Group *group
        cdef Options options = s.options
        cdef Py_ssize_t q
        run.n, run.count, run.largest, run.heaviest, run.target = n, count, largest, heaviest, 1.0
        run.slope, run.curvature = loss_slope(&s.loss), s.sets.curvature
        if not run.slope < INFINITY and run.curvature == 0.0:
            return False
        if not self.is_weight_bound_known:
            self._measure(not run.slope < INFINITY)
        for q in range(s.n_groups):
            group = &s.groups[q]
            options.intercept_eta0 = group.intercept_eta0
            if not numbers_bound(&group.step, &options, &run, group.t, group.averaged,
                                 &group.weight_bound) < weight_room(s.w.kind):
                return False
        return True

    def _measure(self, bint curved):
        """Each group's weight bound: sqrt(Q) of step_guard.pxd, or the largest |w| and |b|."""
        cdef Py_ssize_t q
        cdef Group *group
        cdef Options options = self.columns.options
        if curved:
            size = np.square(self.weights.v, dtype=np.float64).sum(axis=0)
            size *= self.weights.scale ** 2
        else:
            size = np.abs(self.weights.v).max(axis=0) * np.abs(self.weights.scale)
        for q in range(self.columns.n_groups):
            group = &self.columns.groups[q]
            mine = self.group_of == q
            if curved:
                options.intercept_eta0 = group.intercept_eta0
                rho = rho_at(&group.step, &options, group.t + 1.0)
                group.weight_bound = np.sqrt((size[mine] + rho * self.intercept[mine] ** 2).max())
            else:
                group.weight_bound = max(size[mine].max(), np.abs(self.intercept[mine]).max())

    @property
    def is_weight_bound_known(self):
        """Whether bounds have been enough so far, without a copy."""
        cdef Py_ssize_t q
        for q in range(self.columns.n_groups):
            if self.columns.groups[q].weight_bound < 0.0:
                return False
        return True

    # ------------------------------------------------------------ predicting

    def decide(self, RowSource X, double[:, ::1] out, bint averaged):
        """out[i] = scores of row i, intercepts included; of the averages with `averaged`."""
        cdef Py_ssize_t i, k, K = self.columns.w.n_out
        cdef Row row
        cdef double[::1] work = np.empty(K)
        cdef SMat w = self.weights.reader(&work[0])
        cdef double n
        if X.rows.n_features != w.dim or out.shape[0] != X.rows.n_rows or out.shape[1] != K:
            raise ValueError("out does not fit the rows")
        with nogil:
            for i in range(X.rows.n_rows):
                rows_get(&X.rows, i, &row)
                smat_dot(&w, &row, &out[i, 0])
                if averaged and w.averaging:
                    self._average_scores(&w, &row, &out[i, 0])
                for k in range(K):
                    n = self._group(k).averaged if averaged else 0.0
                    out[i, k] += self.columns.b[k] if n == 0.0 else self.columns.b_sum[k] / n

    cdef inline Group *_group(self, Py_ssize_t k) noexcept nogil:
        """The group of label k."""
        return &self.columns.groups[self.columns.group_of[k]]

    cdef void _average_scores(self, const SMat *w, const Row *row, double *out) noexcept nogil:
        """Scores of the averages, where there are any, from those of the last iterates."""
        cdef Py_ssize_t k
        cdef double n, sum_u
        if w.kind == WEIGHT_F32:
            row_dot_all(row, <const float32_t *> w.u, w.n_out, <float32_t *> w.work)
        else:
            row_dot_all(row, <const float64_t *> w.u, w.n_out, <float64_t *> w.work)
        for k in range(w.n_out):
            n = self._group(k).averaged
            if n == 0.0:
                continue
            if w.kind == WEIGHT_F32:
                sum_u = (<float32_t *> w.work)[k]
            else:
                sum_u = (<float64_t *> w.work)[k]
            out[k] = (w.avg_scale[k] * (out[k] / w.scale[k]) - row.scale * sum_u) / n

    def coef(self, bint averaged):
        """The weights, or their averages where there are any, K x d."""
        weights = self.weights
        last = weights.array()
        n = self.averaged
        if not averaged or not n.any():
            return last
        on = np.flatnonzero(n)
        v = weights.v[:, on].T.astype(np.float64)
        u = weights.u[:, on].T.astype(np.float64)
        last[on] = (weights.avg_scale[on, None] * v - u) / n[on, None]
        return last

    def offsets(self, bint averaged):
        """The intercepts, or their averages where there are any."""
        n = self.averaged
        mean = self.intercept_sum / np.maximum(n, 1.0)
        return np.where((n > 0) & averaged, mean, self.intercept)

    # ---------------------------------------------------------------- states

    cdef tuple _backup(self):
        """All that learning changes; `_roll_back` of the same block goes back to it."""
        w = self.weights
        return (w.v.copy(), None if w.u is None else w.u.copy(),
                [a.copy() for a in (w.scale, w.sq_v, w.avg_scale, self._numbers, self._groups)],
                (self.weights.w.averaging, self.weights.w.low, self.weights.w.high))

    cdef void _roll_back(self, tuple saved) except *:
        v, u, arrays, (averaging, low, high) = saved
        w = self.weights
        w.v[:] = v
        if u is not None:
            w.u[:] = u
        mine = (w.scale, w.sq_v, w.avg_scale, self._numbers, self._groups)
        for array, old in zip(mine, arrays):
            array[:] = old
        self.weights.w.averaging, self.weights.w.low = averaging, low
        self.weights.w.high = high
        self._forget_bound()

    def label_state(self, Py_ssize_t k):
        """(scalars, arrays) of label k, for `set_state` of a one-output `SGDLearner`."""
        cdef SMat *w = &self.weights.w
        t, averaged = self.group_counts()[self.group_of[k]]
        return self._state(k, 1, {
            "t": t, "seen": t, "eta": self._group(k).step.eta, "w_avg_count": averaged,
            # a label that has no average yet may keep a scale beyond the narrower bounds
            "w_low": w.low if averaged > 0 else 1e-9, "w_high": w.high if averaged > 0 else 1e9,
            "w_averaging": int(averaged > 0), "w_track_norm": int(w.track_norm)})

    def set_label(self, Py_ssize_t k, scalars, arrays):
        """Take over what `SGDLearner.get_state` of one output gave, but for its schedule state."""
        cdef SMat *w = &self.weights.w
        self.weights.v[:, k] = arrays["w_v"]
        if "w_u" in arrays and self.weights.u is not None:
            self.weights.u[:, k] = arrays["w_u"]
        w.scale[k], w.sq_v[k] = scalars["w_scale"], scalars["w_sq_v"]
        w.avg_scale[k] = scalars["w_avg_scale"]
        if scalars["w_averaging"]:
            w.averaging = 1
            w.low, w.high = 1e-3, 1e3
        self.intercept[k] = arrays["intercept"][0]
        self.intercept_sum[k] = arrays["intercept_sum"][0]
        self.loss_sum[k], self.error_sum[k] = scalars["loss_sum"], scalars["error_sum"]
        self._forget_bound()

    def grow(self, LabelBlock wide):
        """Copy these labels into the first ones of a wider block."""
        wide._numbers[:4, :self.columns.w.n_out] = self._numbers[:4]


cdef class SearchLearner(ColumnLearner):
    """Weights, intercepts and scores of all candidates.

    Parameters
    ----------
    n_features : int
    n_out : int
        Outputs of one candidate: 1 for two classes.
    dtype : float32 or float64
    loss : LossSpec
    steps : list of StepSpec, one per candidate
    regs, radii, intercept_eta0 : float64 arrays, one entry per candidate
    average_from : float
    fit_intercept : bool
    """
    cdef readonly object radii
    cdef Candidates candidates
    cdef Group group                        # all candidates are at the same step
    cdef Py_ssize_t n_candidates
    cdef Py_ssize_t n_out
    cdef object _column_numbers             # reg, radius, step_reg, t0, eta0_b of each column
    cdef object _every                      # 0, 1, ... for dense rows

    def __dealloc__(self):
        free(self.candidates.steps)

    def __init__(self, Py_ssize_t n_features, Py_ssize_t n_out, dtype, LossSpec loss, steps, *,
                 regs, radii, intercept_eta0, double average_from=-1.0,
                 bint fit_intercept=True):
        cdef Columns *s = &self.columns
        cdef Candidates *c = &self.candidates
        cdef StepSpec step
        cdef Py_ssize_t g, n = len(steps)
        if n < 1:
            raise ValueError("a search needs at least one candidate")
        self.n_candidates, self.n_out = n, n_out
        c.steps = <Step *> calloc(n, sizeof(Step))
        if c.steps == NULL:
            raise MemoryError()
        self.radii = np.array(radii, dtype=np.float64)
        numbers = np.zeros((5, n))
        c.inverse_time = True
        for g, step in enumerate(steps):
            c.steps[g] = step.step
            numbers[2, g] = step.step.reg
            if step.step.kind == STEP_BOTTOU:
                numbers[3, g] = step.step.t0
            elif step.step.kind != STEP_INVERSE_TIME:
                c.inverse_time = False
        for row, given in ((0, regs), (1, self.radii), (4, intercept_eta0)):
            if np.shape(given) != (n,):
                raise ValueError("regs, radii and intercept_eta0 need one entry per candidate")
            numbers[row] = given
        self._column_numbers = np.repeat(numbers, n_out, axis=1)
        c.reg = <const double *> pointer(self._column_numbers[0])
        c.radii = <const double *> pointer(self._column_numbers[1])
        c.step_reg = <const double *> pointer(self._column_numbers[2])
        c.t0 = <const double *> pointer(self._column_numbers[3])
        c.eta0_b = <const double *> pointer(self._column_numbers[4])
        projects = bool((self.radii > 0).any())
        self._bind(ScaledMatrix(n_features, n * n_out, dtype, projects), loss, n_out,
                   average_from, fit_intercept)
        self.intercept = self.intercept.reshape(n, n_out)
        self.intercept_sum = self.intercept_sum.reshape(n, n_out)
        s.xi_source = XI_CLASS if n_out > 1 else XI_BINARY
        s.options.radius = self.radii.max()
        s.candidates, s.n_groups, s.groups = c, 1, &self.group

    @property
    def seen(self):
        """Examples seen."""
        return self.group.seen

    def run(self, RowSource X, targets, const int64_t[::1] order=None, Py_ssize_t start=0,
            Py_ssize_t stop=-1, const double[::1] sample_weight=None):
        """Learn from examples order[start:stop]; targets as for `SGDLearner.run`."""
        cdef Examples examples = open_examples(X, self.weights.dim, order, sample_weight)
        cdef Py_ssize_t n = X.rows.n_rows if order is None else order.shape[0]
        cdef int status
        if stop < 0:
            stop = n
        if not 0 <= start <= stop <= n:
            raise ValueError(f"examples {start} to {stop} of {n}")
        set_targets(&examples, targets, self.n_out)
        if start == stop:
            return
        self.candidates.every = NULL
        if not X.sparse and X.rows.step == 1 and X.rows.n_features < 2**31:
            if self._every is None:
                self._every = np.arange(X.rows.n_features, dtype=np.int32)
            self.candidates.every = <const int32_t *> pointer(self._every)
        status = self._learn(&examples, &start, stop,
                             max(1, 400_000 // (self.n_candidates * self.n_out)))
        if status != DONE:
            self.loss_spec.raise_error()
            row = start if order is None else order[start]
            raise FloatingPointError(
                f"a candidate's step at row {row} would overflow: scale the features "
                "(for example to unit norm), or leave out the smallest reg and largest eta0")

    def candidate_state(self, Py_ssize_t g):
        """(scalars, arrays) of candidate g for `SGDLearner.set_state`."""
        cdef SMat *w = &self.weights.w
        return self._state(g * self.n_out, self.n_out, {
            "t": self.seen, "seen": self.seen, "eta": self.candidates.steps[g].eta,
            "w_avg_count": w.avg_count, "w_low": w.low, "w_high": w.high,
            "w_averaging": int(w.averaging), "w_track_norm": int(self.radii[g] > 0)})
