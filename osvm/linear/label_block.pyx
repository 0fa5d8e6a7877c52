"""Rows that carry any number of labels: one pass over them for all labels.

Every label has a binary model of its own.  The K models share the rows and their order,
and nothing else, so one look at a row serves all of them: the K weights of a feature lie
side by side, as in `osvm.linear.columns`.  Label k has y = +1 on the rows that carry it and
y = -1 on all others, and takes the step that one output alone would take:

    w_k <- (1 - eta reg) w_k - eta c xi_k x
    b_k <- b_k - eta_b c xi_k

What differs between labels, besides the weights, is when they came and which step size
they began with.  Labels that agree in both go by one clock (steps made, step size,
iterates averaged), and there are few clocks.

Invariants
- a label's numbers do not depend on how the stream is cut;
- all labels are at the same row whenever `run` returns, also when it is interrupted;
- a step that would overflow is not made, and none of its row's other steps either.
"""
import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY, isfinite
from libc.stdint cimport int32_t, int64_t

from osvm._input.scan import largest_magnitude

from osvm.linear.step_bound cimport bounded_sq_norm
from osvm.linear.label_steps cimport (
    Clock, average_all, losses_of, read_clock, shrink_all, steps_fit, weigh,
)
from osvm._parts.compiled cimport LossSpec, StepSpec
from osvm._input.rows cimport RowSource
from osvm.linear.model cimport DONE, NOT_FINITE, STEP_TOO_LARGE, Options
from osvm.linear.weight_bound cimport intercept_reach, reach_after, rho_at
from osvm.linear.one_output_sparse cimport row_largest, step_limit
from osvm.linear.steps cimport AHEAD, fetch_rest, loss_slope, take_row
from osvm.linear.weights cimport ScaledMatrix
from osvm.core.row_all cimport row_dot_all
from osvm.core.rows cimport OSVM_PREFETCH, rows_get
from osvm.core.smat cimport smat_dot, smat_dot_ahead, smat_project_one
from osvm.core.smat_step cimport Debt, smat_settle, smat_step
from osvm.core.step cimport step_eta
from osvm.core.typedefs cimport WEIGHT_F32, Loss, Row, Rows, SMat, float32_t, float64_t


cdef void *place(object array) except NULL:
    """Where a contiguous numpy array of ours keeps its numbers."""
    cdef size_t where = array.__array_interface__["data"][0]
    return <void *> where


cdef class LabelBlock:
    """Weights, intercepts and counters of K binary models, and their loop.

    Parameters
    ----------
    weights : ScaledMatrix
        One column per label; changed in place.
    loss : LossSpec
        A binary loss.
    clocks : list of (StepSpec, intercept_eta0, t, averaged)
        Schedules, with the steps made and the iterates averaged so far; the intercepts'
        step is intercept_eta0 / sqrt(t), or the weights' step when that is 0.
    clock_of : int array of K
        Which of them each label goes by.
    reg : float
    radius : float
        Of the ball that each w_k is projected onto; 0 for none.
    average_from : float
        Examples that a label has seen before its average starts; negative for never.
    fit_intercept : bool
    curvature : float
        Of the loss, where no step may go beyond its example (`osvm.linear.step_bound`); else 0.
    """
    cdef readonly ScaledMatrix weights
    cdef readonly object intercept, intercept_sum, loss_sum, error_sum, clock_of
    cdef object loss_spec, _clocks, _numbers, _active
    cdef Options options
    cdef Loss loss
    cdef double curvature
    cdef Py_ssize_t n_out, n_clocks
    cdef Clock *clocks
    cdef const int64_t *label_clock
    cdef Py_ssize_t *active
    cdef double *b                  # rows of _numbers: b, its sum, losses, errors, scratch

    def __init__(self, ScaledMatrix weights, LossSpec loss, clocks, clock_of, *, double reg,
                 double radius, double average_from, bint fit_intercept, double curvature):
        cdef Py_ssize_t q
        cdef StepSpec spec
        self.weights = weights
        self.n_out = weights.w.n_out
        self.loss_spec, self.loss = loss, loss.loss
        self.options.reg, self.options.radius = reg, radius
        self.options.average_from = average_from
        self.options.fit_intercept = fit_intercept
        self.curvature = curvature
        self.n_clocks = len(clocks)
        self._clocks = np.zeros(self.n_clocks * sizeof(Clock) // 8 + 1)
        self.clocks = <Clock *> place(self._clocks)
        for q, (spec, intercept_eta0, t, averaged) in enumerate(clocks):
            self.clocks[q].step = spec.step
            self.clocks[q].intercept_eta0 = intercept_eta0
            self.clocks[q].t, self.clocks[q].averaged = t, averaged
        self.clock_of = np.ascontiguousarray(clock_of, dtype=np.int64)
        if self.clock_of.shape != (self.n_out,) or not (
                0 <= self.clock_of.min() and self.clock_of.max() < self.n_clocks):
            raise ValueError("every label needs a clock")
        if average_from >= 0.0:
            weights.reserve_average()
        self._numbers = np.zeros((9, self.n_out))
        self.intercept, self.intercept_sum, self.loss_sum, self.error_sum = self._numbers[:4]
        self._active = np.zeros(self.n_out, np.intp)
        self.label_clock = <const int64_t *> place(self.clock_of)
        self.active = <Py_ssize_t *> place(self._active)
        self.b = <double *> place(self._numbers)
        self._forget_reach()

    def clock_numbers(self):
        """(t, averaged) of every clock."""
        cdef Py_ssize_t q
        return [(self.clocks[q].t, self.clocks[q].averaged) for q in range(self.n_clocks)]

    @property
    def seen(self):
        """Examples that each label has seen."""
        return np.array([t for t, _ in self.clock_numbers()])[self.clock_of]

    @property
    def averaged(self):
        """Iterates in each label's average."""
        return np.array([n for _, n in self.clock_numbers()])[self.clock_of]

    # -------------------------------------------------------------- learning

    def run(self, RowSource X, const int64_t[::1] ends, const int32_t[::1] codes, *,
            const int64_t[::1] order=None, const double[::1] weight=None,
            const double[:, ::1] class_weight=None, bint undo=False):
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
        undo : bool
            Go back to the state before the call when it fails (an interrupt is no failure).

        Raises
        ------
        FloatingPointError
            A step would overflow; the examples before it have been learnt, unless
            `undo` is set.
        """
        cdef Py_ssize_t start = 0, end, chunk, n_rows = X.rows.n_rows, stop = n_rows
        cdef const int64_t *at = NULL
        cdef double largest
        cdef double[::1] room
        cdef double *zeros = NULL
        cdef int status
        if X.rows.n_features != self.weights.dim:
            raise ValueError(f"rows have {X.rows.n_features} features, "
                             f"the model {self.weights.dim}")
        if ends.shape[0] != n_rows + 1 or ends[0] != 0 or ends[n_rows] != codes.shape[0]:
            raise ValueError("the labels do not fit the rows")
        if codes.shape[0] and not (0 <= np.min(codes) and np.max(codes) < self.n_out):
            raise ValueError("a code is not that of a label")
        if weight is not None and weight.shape[0] != n_rows:
            raise ValueError(f"{weight.shape[0]} weights for {n_rows} rows")
        if class_weight is not None and (
                class_weight.shape[0] != 2 or class_weight.shape[1] != self.n_out):
            raise ValueError("class_weight needs two weights for each label")
        if order is not None:
            stop = order.shape[0]
            if stop:
                at = &order[0]
        if stop == 0:
            return
        largest = X.largest if X.largest >= 0.0 else largest_magnitude(X)
        heaviest = 1.0 if weight is None else float(np.max(weight))
        if class_weight is not None:
            heaviest *= float(np.max(class_weight))
        saved = None
        if not undo or stop == 1:
            self._forget_reach()
        elif not self._cannot_fail(stop, n_rows * (1.0 + X.mean_count), largest, heaviest):
            saved = self.get_state()
            self._forget_reach()
        if self.curvature > 0.0:        # rows that repeat columns need it for their norms
            room = np.zeros(X.rows.n_features)
            zeros = &room[0]
        # Signals are looked at between chunks of a few milliseconds.
        chunk = max(1, 4_000_000 // (self.n_out * 100))
        while start < stop:
            end = min(stop, start + chunk)
            with nogil:
                status = self._learn(
                    &X.rows, &ends[0], &codes[0] if codes.shape[0] else NULL, at, &start, end,
                    &weight[0] if weight is not None else NULL,
                    &class_weight[0, 0] if class_weight is not None else NULL, largest, zeros)
            if status != DONE:
                if saved is not None:
                    self.set_state(saved)
                self._complain(status, start if order is None else order[start])
            PyErr_CheckSignals()

    def _complain(self, int status, Py_ssize_t row):
        self.loss_spec.raise_error()
        if status == NOT_FINITE:
            raise FloatingPointError(
                f"the loss is not finite at row {row}: scale the features (for example to unit "
                "norm) or lower the step size")
        raise FloatingPointError(
            f"the step at row {row} would overflow the weights: scale the features (for example "
            "to unit norm), raise reg or lower eta0")

    cdef void _forget_reach(self) noexcept:
        cdef Py_ssize_t q
        for q in range(self.n_clocks):
            self.clocks[q].reach = -1.0

    cdef bint _cannot_fail(self, double n, double count, double largest, double heaviest):
        """Whether n more rows are sure to be learnt without an overflow, by bounds.

        It is so for any sensible data and a loss whose slope is bounded, or whose steps
        are, and saves the copy of the weights that `undo` would need.  `count` bounds the
        stored values of a row.
        """
        cdef double slope = loss_slope(&self.loss), step, score, room, wide
        cdef bint curved = not slope < INFINITY
        cdef Clock *clock
        cdef Options options = self.options
        cdef Py_ssize_t q
        room = 1e30 if self.weights.w.kind == WEIGHT_F32 else 1e145
        wide = max(largest, 1.0)
        if curved and self.curvature == 0.0:
            return False
        if any([self.clocks[q].reach < 0.0 for q in range(self.n_clocks)]):
            self._measure(curved)
        for q in range(self.n_clocks):
            clock = &self.clocks[q]
            options.intercept_eta0 = clock.intercept_eta0
            step = max(step_eta(&clock.step, clock.t + 1.0), clock.intercept_eta0)
            if curved:
                clock.reach = reach_after(&clock.step, &options, clock.reach, clock.t, n,
                                          heaviest * self.curvature)
                score = clock.reach * largest * count + intercept_reach(
                    &clock.step, &options, clock.reach, clock.t, n)
                step *= heaviest * self.curvature * (score + 1.0)
            else:
                step *= slope * heaviest
                clock.reach += n * step * wide
                score = clock.reach * (1.0 + largest * count)
            # v is w over its scale, which is 1e-9 or more
            if not (clock.reach + score + step * wide * (1.0 + n + clock.averaged)) * 1e9 < room:
                return False
        return True

    def _measure(self, bint curved):
        """Each clock's reach: of `osvm/linear/weight_bound.pxd`, or the largest |w| and |b|."""
        cdef Py_ssize_t q
        cdef Clock *clock
        cdef Options options = self.options
        if curved:
            size = np.square(self.weights.v, dtype=np.float64).sum(axis=0)
            size *= self.weights.scale ** 2
        else:
            size = np.abs(self.weights.v).max(axis=0) * np.abs(self.weights.scale)
        for q in range(self.n_clocks):
            clock = &self.clocks[q]
            mine = self.clock_of == q
            if curved:
                options.intercept_eta0 = clock.intercept_eta0
                rho = rho_at(&clock.step, &options, clock.t + 1.0)
                clock.reach = np.sqrt((size[mine] + rho * self.intercept[mine] ** 2).max())
            else:
                clock.reach = max(size[mine].max(), np.abs(self.intercept[mine]).max())

    @property
    def is_reach_known(self):
        """Whether bounds have been enough so far, without a copy.  For tests."""
        cdef Py_ssize_t q
        return all([self.clocks[q].reach >= 0.0 for q in range(self.n_clocks)])

    cdef int _learn(self, const Rows *X, const int64_t *ends, const int32_t *codes,
                    const int64_t *order, Py_ssize_t *at, Py_ssize_t stop,
                    const double *weight, const double *class_weight, double largest,
                    double *zeros) noexcept nogil:
        cdef SMat *w = &self.weights.w
        cdef Options options = self.options
        cdef Clock *clocks = self.clocks
        cdef const int64_t *clock_of = self.label_clock
        cdef Py_ssize_t K = self.n_out, Q = self.n_clocks
        cdef double *b = self.b
        cdef double *b_sum = b + K
        cdef double *loss_sum = b_sum + K
        cdef double *error_sum = loss_sum + K
        cdef double *f = error_sum + K
        cdef double *xi = f + K
        cdef double *value = xi + K
        cdef double *owed = value + K
        cdef double *weights = owed + K
        cdef double limit = step_limit(w.kind, largest)
        cdef double sq = 0.0, c
        cdef Py_ssize_t stride = K * (4 if w.kind == WEIGHT_F32 else 8)
        cdef Py_ssize_t n, i, k, q, m, n_own, start = at[0]
        cdef const int32_t *own
        cdef Row pair[2]
        cdef Row *row
        cdef Row *later
        cdef Debt debt
        debt.c, debt.active, debt.n_active = owed, self.active, 0
        for n in range(start, stop):
            i = take_row(X, order, n, start, stop, pair, &row, &later)
            if order != NULL and n + 2 * AHEAD < stop:
                OSVM_PREFETCH(ends + order[n + 2 * AHEAD])
            own, n_own = codes + ends[i], ends[i + 1] - ends[i]
            smat_dot_ahead(w, row, f, later)
            fetch_rest(w, row, later, stride)
            smat_settle(w, &debt)
            for k in range(K):
                f[k] += b[k]
            if not isfinite(losses_of(&self.loss, K, own, n_own, f, xi, value)):
                return NOT_FINITE
            c = 1.0 if weight == NULL else weight[i]
            if self.curvature > 0.0:
                sq = bounded_sq_norm(row, zeros)
            for q in range(Q):
                read_clock(&clocks[q], &options)
            weigh(xi, K, clocks, clock_of, own, n_own, c, class_weight, self.curvature, sq,
                  weights)
            if not steps_fit(w, xi, clocks, Q, clock_of, limit) and not steps_fit(
                    w, xi, clocks, Q, clock_of, step_limit(w.kind, row_largest(row))):
                return STEP_TOO_LARGE
            for q in range(Q):
                clocks[q].t += 1.0
            shrink_all(w, clocks, clock_of)
            if options.fit_intercept:
                for k in range(K):
                    b[k] -= clocks[clock_of[k]].eta_b * xi[k]
            for k in range(K):
                xi[k] *= -clocks[clock_of[k]].eta
            smat_step(w, xi, row, &debt)
            if options.radius > 0.0:
                smat_settle(w, &debt)               # a projection may fold v into u
                for k in range(K):
                    smat_project_one(w, k, options.radius)
            if options.average_from >= 0.0:
                average_all(w, clocks, Q, clock_of, b, b_sum)
            for k in range(K):
                loss_sum[k] += value[k]
                error_sum[k] += f[k] > 0.0
            for m in range(n_own):
                error_sum[own[m]] += 1.0 - 2.0 * (f[own[m]] > 0.0)
            at[0] = n + 1
        smat_settle(w, &debt)
        return DONE

    # ------------------------------------------------------------ predicting

    def decide(self, RowSource X, double[:, ::1] out, bint averaged):
        """out[i] = scores of row i, intercepts included; of the averages with `averaged`."""
        cdef Py_ssize_t i, k, K = self.n_out
        cdef Row row
        cdef double[::1] work = np.empty(K)
        cdef SMat w = self.weights.reader(&work[0])
        cdef double *b = self.b
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
                    n = self.clocks[self.label_clock[k]].averaged if averaged else 0.0
                    out[i, k] += b[k] if n == 0.0 else b[K + k] / n

    cdef void _average_scores(self, const SMat *w, const Row *row, double *out) noexcept nogil:
        """Scores of the averages, where there are any, from those of the last iterates."""
        cdef Py_ssize_t k
        cdef double n, companion
        if w.kind == WEIGHT_F32:
            row_dot_all(row, <const float32_t *> w.u, w.n_out, <float32_t *> w.work)
        else:
            row_dot_all(row, <const float64_t *> w.u, w.n_out, <float64_t *> w.work)
        for k in range(w.n_out):
            n = self.clocks[self.label_clock[k]].averaged
            if n == 0.0:
                continue
            if w.kind == WEIGHT_F32:
                companion = (<float32_t *> w.work)[k]
            else:
                companion = (<float64_t *> w.work)[k]
            out[k] = (w.avg_scale[k] * (out[k] / w.scale[k]) - row.scale * companion) / n

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

    def get_state(self):
        """All that learning changes; `set_state` of the same block goes back to it."""
        w = self.weights
        return (w.v.copy(), None if w.u is None else w.u.copy(),
                [a.copy() for a in (w.scale, w.sq_v, w.avg_scale, self._numbers, self._clocks)],
                (self.weights.w.averaging, self.weights.w.low, self.weights.w.high))

    def set_state(self, state):
        v, u, arrays, (averaging, low, high) = state
        w = self.weights
        w.v[:] = v
        if u is not None:
            w.u[:] = u
        mine = (w.scale, w.sq_v, w.avg_scale, self._numbers, self._clocks)
        for array, saved in zip(mine, arrays):
            array[:] = saved
        self.weights.w.averaging, self.weights.w.low = averaging, low
        self.weights.w.high = high
        self._forget_reach()

    def label_state(self, Py_ssize_t k):
        """(scalars, arrays) of label k, for `set_state` of a one-output `SGDLearner`."""
        cdef SMat *w = &self.weights.w
        t, averaged = self.clock_numbers()[self.clock_of[k]]
        scalars = {
            "w_scale": w.scale[k], "w_sq_v": w.sq_v[k], "w_avg_scale": w.avg_scale[k],
            "w_avg_count": averaged,
            # a label that has no average yet may keep a scale beyond the narrower bounds
            "w_low": w.low if averaged > 0 else 1e-9, "w_high": w.high if averaged > 0 else 1e9,
            "w_averaging": int(averaged > 0), "w_track_norm": int(w.track_norm),
            "t": t, "seen": t, "loss_sum": float(self.loss_sum[k]),
            "error_sum": float(self.error_sum[k]), "pending": 0.0, "touched_all": 0,
            "eta": self.clocks[self.label_clock[k]].step.eta,
        }
        arrays = {"w_v": self.weights.v[:, k].copy(), "intercept": self.intercept[k:k + 1].copy(),
                  "intercept_sum": self.intercept_sum[k:k + 1].copy()}
        if self.weights.u is not None:
            arrays["w_u"] = self.weights.u[:, k].copy()
        return scalars, arrays

    def set_label(self, Py_ssize_t k, scalars, arrays):
        """Take over what `SGDLearner.get_state` of one output gave, but for its clock."""
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
        self._forget_reach()

    def grow(self, LabelBlock wide):
        """Copy these labels into the first ones of a wider block."""
        cdef Py_ssize_t K = self.n_out
        for name in ("intercept", "intercept_sum", "loss_sum", "error_sum"):
            getattr(wide, name)[:K] = getattr(self, name)
