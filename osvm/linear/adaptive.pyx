"""The compiled half of `AdaptiveLearner`: its memory, its loop over rows, and its scores.

Equations and layout: adaptive_step.pxd; columns: adaptive_bank.pxd; one example:
adaptive_learn.pxd; candidates: adaptive_judge.pxd; copies and states: adaptive_state.py.
"""
import numpy as np

from libc.math cimport INFINITY, fabs, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free

from osvm.linear.learner import ERROR_KINDS
from osvm.linear.weights import aligned_zeros

from osvm._parts.compiled cimport LossSpec, StepSpec
from osvm.linear.adaptive_bank cimport (
    MOST_TARGET, Bank, deviation, mean_rate, rate_factor, loss_of, read_cell,
    read_row,
)
from osvm.linear.adaptive_judge cimport (
    LAST, MOST_COST, MOST_PREDICTORS, TAIL, Judge, answering, answers_mean, choose, count_answer,
    count_errors, forget_errors, importance, is_due, losers,
)
from osvm.linear.adaptive_learn cimport empty_window, largest_inflation, learn_row
from osvm.linear.adaptive_mean cimport Columns, Part, Sums, add_cells, finish_cells
from osvm.linear.adaptive_step cimport OSVM_LANES, PLANE_U, Group
from osvm.linear.learner cimport Learner
from osvm.linear.model cimport (
    DONE, ERROR_ABSOLUTE, ERROR_CLASS, RING, STEP_TOO_LARGE, Examples, Record,
    error_of, pointer, rank_of,
)
from osvm.linear.step_guard cimport loss_slope
from osvm.linear.weights cimport weight_kind
from osvm.core.loss cimport LOSS_MULTICLASS_HINGE, loss_init, loss_is_multi
from osvm.core.rows cimport OSVM_PREFETCH, rows_get, rows_prefetch, rows_prefetch_start
from osvm.core.step cimport (
    STEP_ADAPTIVE_MIRROR, STEP_ADAPTIVE_NORMALIZED, STEP_ADAPTIVE_TAIL, STEP_COIN_BETTING,
)
from osvm.core.typedefs cimport Row, Rows, float32_t, float64_t, weight_t

cdef extern from "../_c/memory.h" nogil:
    void osvm_give_back(void *array, size_t first, size_t last)

cdef enum:
    ROWS_AHEAD = 3          # examples from asking for a row to its use; below RING
    STARTS_AHEAD = 8        # the same for where it starts


# Arrays of a learner whose settings are judged.
JUDGED = ("figures", "outcomes", "class_weights")


cdef class AdaptiveLoop(Learner):
    """Numbers of one linear model, or of several candidates, and the loop that changes them.

    Its parameters are those of `osvm.linear.adaptive_state.AdaptiveLearner`.
    """
    cdef readonly object dtype
    cdef readonly object own_cells      # n_features x stride numbers
    cdef readonly object offsets        # planes x K: those of the offset; row 0 is `intercept`
    cdef readonly object losses         # a sum per group
    cdef readonly object errors
    cdef readonly object steps          # of all candidates, dropped ones too
    cdef readonly object predictors     # of each candidate; None where they are not judged
    cdef readonly object figures        # E of each predictor
    cdef readonly object class_weights  # sums of c of each class, and of what was found of it
    cdef readonly object outcomes       # sums of c and c^2, by the set of predictors that erred
    cdef object _groups, _work, _active
    cdef int joint                      # bits of the candidates that learn classes jointly
    cdef Bank bank
    cdef Judge judge
    # of a fit: examples before the candidate goes on alone that was best on half of them; or 0
    cdef public double decided_at
    cdef double *loss_at                # of losses, errors
    cdef double *error_at
    cdef public Py_ssize_t first_label  # that of output 0, where others learn the other outputs

    def __init__(self, Py_ssize_t n_features, Py_ssize_t n_out, dtype, LossSpec loss, steps, *,
                 double average_from=-1.0, bint fit_intercept=False, error_kind="class",
                 predictors=None, double decay=1.0, alive=None, int joint=0):
        cdef StepSpec step
        cdef Py_ssize_t K
        cdef Bank *m = &self.bank
        self._set_shape(n_features, n_out)
        self.dtype = np.dtype(dtype)
        weight_kind(self.dtype)
        m.n_features, m.n_out, m.single = n_features, n_out, self.dtype == np.float32
        m.fit_intercept, m.average_from = fit_intercept, average_from
        m.averages = m.averaging = average_from >= 0.0
        m.error_kind = ERROR_KINDS[error_kind]
        steps = [steps] if isinstance(steps, StepSpec) else list(steps)
        K = len(steps) * n_out
        for step in steps:
            m.any_coin |= step.step.kind == STEP_COIN_BETTING
            m.any_mirror |= (step.step.flags & STEP_ADAPTIVE_MIRROR) != 0
            m.tail |= (step.step.flags & STEP_ADAPTIVE_TAIL) != 0
        m.n_planes = self._all_planes()
        self.loss_spec, self.steps, self.judge.decay, self.joint = loss, steps, decay, joint
        loss_init(&m.joint_loss, LOSS_MULTICLASS_HINGE)
        if predictors is not None:
            self._judge(list(predictors))
        self._allocate((1 << len(steps)) - 1 if alive is None else alive)
        while self.judge.judged and answering(&self.judge) < 0:
            self.judge.chosen += 1
        self.losses, self.errors = (np.zeros(1 if self.judge.judged else m.n_groups)
                                    for _ in range(2))
        self.loss_at, self.error_at = (<double *> pointer(self.losses),
                                       <double *> pointer(self.errors))
        self._work = np.zeros(8 * K + len(steps) + (4 + OSVM_LANES) * n_out)
        self._active = np.zeros(K, np.intp)
        m.f = <double *> pointer(self._work)
        m.xi, m.q, m.delta = m.f + K, m.f + 2 * K, m.f + 3 * K
        m.raw, m.raw_u, m.fa = m.f + 4 * K, m.f + 5 * K, m.f + 6 * K
        m.value = m.f + 7 * K
        m.wide = m.value + len(steps)
        m.active = <Py_ssize_t *> pointer(self._active)

    def _judge(self, predictors):
        """Number the predictors."""
        cdef Py_ssize_t g
        cdef int kind
        cdef Judge *judge = &self.judge
        if (len(predictors) != len(self.steps) or 2 * len(predictors) > MOST_PREDICTORS
                or self.bank.any_coin or self.bank.any_mirror or not self.bank.averages
                or self.bank.error_kind != ERROR_CLASS):
            raise ValueError("these candidates cannot be judged")
        for g in range(len(predictors)):
            for kind in (LAST, TAIL):
                if predictors[g] & kind:
                    judge.group_of[judge.n_predictors] = g
                    judge.is_tail[judge.n_predictors] = kind == TAIL
                    judge.n_predictors += 1
        self.predictors, judge.judged, self.bank.judging = predictors, True, True
        judge.n_classes = max(self.n_out, 2)
        self.class_weights = np.zeros((2, judge.n_classes))
        judge.class_weights = <double *> pointer(self.class_weights)
        self.figures = np.zeros(judge.n_predictors)
        self.outcomes = np.zeros((2, 1 << judge.n_predictors))
        judge.figures = <double *> pointer(self.figures)
        judge.outcomes = <double *> pointer(self.outcomes)

    def _alive_steps(self, alive):
        """The settings of these candidates; of all where they are not judged."""
        return [step for g, step in enumerate(self.steps)
                if alive >> g & 1 or not self.judge.judged]

    def any_normalized(self, alive):
        """Whether one of these settings needs 1/n_j."""
        return any([(<StepSpec> step).step.flags & STEP_ADAPTIVE_NORMALIZED
                    for g, step in enumerate(self.steps) if alive >> g & 1])

    def _all_planes(self):
        """Those of the offsets, and of the features unless the second window is left out."""
        return PLANE_U + 2 * self.bank.averages + 3 * self.bank.any_coin

    @property
    def planes(self):
        """Planes of `own_cells`."""
        return self.bank.n_planes

    @property
    def cells(self):
        """n_features x numbers; a copy, for reading alone, where the second window is left out."""
        if self.bank.n_planes == self._all_planes():
            return self.own_cells
        cells = self._with_all_planes()
        cells.flags.writeable = False
        return cells

    def _with_all_planes(self):
        """The cells with the second window, which is the first one again."""
        cdef Bank *m = &self.bank
        d, header = self.n_features, m.header
        cells = aligned_zeros((d, header + m.K * self._all_planes()), self.dtype)
        cells[:, :m.stride] = self.own_cells
        cells[:, m.stride:] = self.own_cells[:, m.stride - m.K:]
        return cells

    cdef _allocate(self, int alive):
        """Zeros for the candidates in `alive`."""
        cdef Py_ssize_t g
        steps = self._alive_steps(alive)
        header, K = int(self.any_normalized(alive)), len(steps) * self.n_out
        cells = aligned_zeros((self.n_features, header + K * self.bank.n_planes), self.dtype)
        groups = np.zeros(len(steps) * sizeof(Group), np.uint8)
        self._groups, self.bank.groups = groups, <Group *> pointer(groups)
        self._take(alive, header, cells, np.zeros((self._all_planes(), K)))
        for g in range(self.bank.n_groups):
            self.bank.groups[g].scale = self.bank.groups[g].inflation = 1.0

    cdef _take(self, int alive, int header, cells, offsets):
        """Use these arrays, of the candidates in `alive`."""
        cdef Py_ssize_t g
        cdef Bank *m = &self.bank
        self.judge.alive, m.header = alive, header
        self.own_cells, self.offsets, self.intercept = cells, offsets, offsets[0]
        m.at, m.b = pointer(cells), <double *> pointer(offsets)
        m.K, m.stride = offsets.shape[1], cells.shape[1]
        m.n_groups = m.K // self.n_out
        if self.judge.judged:
            for g in range(len(self.steps)):
                self.judge.place[g] = ((alive & ((1 << g) - 1)).bit_count() if alive >> g & 1
                                       else -1)
        m.plain = m.error_kind != ERROR_ABSOLUTE and not header and not m.any_mirror
        self.set_parts(self.loss_spec, self.steps)

    def __dealloc__(self):
        free(self.bank.entries.at)
        free(self.bank.entries.x)
        free(self.bank.entries.root)
        free(self.bank.entries.rate)
        free(self.bank.zeros)

    def set_parts(self, LossSpec loss, steps):
        """Use this loss and these settings from now on; their flags must stay as they are."""
        cdef StepSpec step
        cdef Py_ssize_t g
        steps = [steps] if isinstance(steps, StepSpec) else list(steps)
        if len(steps) != len(self.steps):
            raise ValueError(f"{len(steps)} settings for {len(self.steps)} groups")
        self.loss_spec, self.steps = loss, steps   # own what the structs point at
        self.bank.loss = loss.loss
        self.bank.forgets = False
        for g, step in enumerate(self._alive_steps(self.judge.alive)):
            self.bank.groups[g].step = step.step
            self.bank.groups[g].joint = False
            self.bank.groups[g].reg = step.step.reg
            self.bank.forgets |= step.step.forget < 1.0
        if self.judge.judged:
            for g in range(len(steps)):
                if self.judge.alive & self.joint & (1 << g):
                    self.bank.groups[self.judge.place[g]].joint = True

    @property
    def loss_sum(self):
        """Sum of the losses before the steps, of the group that answered, or of the first."""
        return float(self.losses[0])

    @property
    def error_sum(self):
        """Sum of the errors before the steps, likewise."""
        return float(self.errors[0])

    @property
    def parts(self):
        """The loss, and the settings of all candidates."""
        return self.loss_spec, self.steps

    @property
    def averaged_count(self):
        """Iterates in the average that predicts."""
        return self.bank.counts[self.bank.older]

    @property
    def t(self):
        return self.bank.t

    @property
    def seen(self):
        return self.bank.seen

    @property
    def alive(self):
        """Bits of the candidates that have a group."""
        return self.judge.alive

    @property
    def chosen(self):
        """The predictor that answers."""
        return self.judge.chosen

    @property
    def answers_jointly(self):
        """Whether the candidate that answers compares classes where the loss does not."""
        return bool(self.n_out > 1 and self.judge.judged
                    and self.bank.groups[answering(&self.judge)].joint)

    @property
    def decay(self):
        """Of the counts of errors, per example."""
        return self.judge.decay

    @decay.setter
    def decay(self, double decay):
        self.judge.decay = decay

    cdef void compact(self, const weight_t *cells, weight_t *out, const Py_ssize_t *kept,
                      Py_ssize_t n_kept, int header) noexcept nogil:
        """The numbers of the groups that are kept, one after the other; `out` may be `cells`."""
        cdef Py_ssize_t j, m, g, k, n = self.n_out, to = 0
        cdef const weight_t *cell
        for j in range(self.n_features):
            cell = cells + j * self.bank.stride
            if header:
                out[to] = cell[0]
                to += 1
            for m in range(self.bank.n_planes):
                for g in range(n_kept):
                    for k in range(n):
                        out[to] = cell[self.bank.header + m * self.bank.K + kept[g] * n + k]
                        to += 1

    def keep(self, int alive):
        """Drop all candidates but these (bits)."""
        cdef Py_ssize_t kept[MOST_PREDICTORS]
        cdef Py_ssize_t g, n_kept = 0
        cdef int header
        cdef Judge *judge = &self.judge
        alive &= judge.alive
        if not judge.judged or not alive:
            raise ValueError("there are no such candidates")
        if alive == judge.alive:
            return
        for g in range(len(self.steps)):
            if alive >> g & 1:
                kept[n_kept] = judge.place[g]
                n_kept += 1
        header = self.any_normalized(alive)
        columns = [kept[g] * self.n_out + k for g in range(n_kept) for k in range(self.n_out)]
        offsets = np.ascontiguousarray(self.offsets[:, columns])
        # in place: new memory would have to be cleared before it is written to
        shape = self.n_features, header + len(columns) * self.bank.n_planes
        cells = self.own_cells.reshape(-1)[:shape[0] * shape[1]].reshape(shape)
        if self.bank.single:
            self.compact(<float32_t *> self.bank.at, <float32_t *> pointer(cells), kept, n_kept,
                         header)
        else:
            self.compact(<float64_t *> self.bank.at, <float64_t *> pointer(cells), kept, n_kept,
                         header)
        osvm_give_back(self.bank.at, cells.nbytes, self.own_cells.nbytes)
        for g in range(n_kept):
            self.bank.groups[g] = self.bank.groups[kept[g]]
        self._take(alive, header, cells, offsets)
        choose(judge, &self.bank)

    def keep_best(self):
        """Drop all candidates but the one that answers."""
        self.keep(1 << self.judge.group_of[self.judge.chosen])

    def compete(self, double examples):
        """Before the first example of a fit: let the candidates compete over so many, after which
        the best on their second half goes on alone, as one that has no rival does at once.

        What is judged then is the average since a quarter of them, which is where the window
        of a stream begins that answers from a half on; before that nothing is averaged.
        """
        self.decided_at = examples
        if self.n_out > 1:      # with one output, cells of a power of two are quicker to reach
            self.bank.n_planes = self._all_planes() - 1
            self._allocate(self.judge.alive)
        if self.bank.n_groups == 1:
            self.settle()
            self.restart_average(False)
            return
        self.bank.tail, self.bank.averaging, self.bank.paired = False, examples < 4.0, True

    def settle(self):
        """Go on with the candidate that answers, alone and without counting errors; an
        average is that of the examples since `restart_average`.
        """
        if not self.bank.judging:
            return
        self.keep_best()
        self.bank.judging = self.bank.tail = False

    def restart_average(self, bint averaging=True):
        """Begin both windows anew; `averaging=False` leaves them empty."""
        cdef int window
        cdef Bank *m = &self.bank
        if m.tail or not self.judge.judged:
            self.unpair()
        else:
            m.paired, m.older = True, 0
        m.averaging = averaging
        m.counts[0] = m.counts[1] = 0.0
        if not averaging:
            return
        for window in range(2):
            if m.single:
                empty_window(m, window, <float32_t *> m.at + m.header)
            else:
                empty_window(m, window, <float64_t *> m.at + m.header)

    def unpair(self):
        """Give the second window its numbers, where the first one has stood for both."""
        cdef Bank *m = &self.bank
        if not m.paired:
            return
        if m.n_planes < self._all_planes():
            cells = self._with_all_planes()
            m.n_planes = self._all_planes()
            self._take(self.judge.alive, m.header, cells, self.offsets)
        self._pair()
        m.paired = False

    cdef _pair(self):
        """Write the second window where it has a place, and the first one stands for both."""
        cdef Bank *m = &self.bank
        if m.paired and m.n_planes == self._all_planes():
            planes = self.own_cells[:, m.header:].reshape(self.n_features, m.n_planes, -1)
            planes[:, PLANE_U + 1] = planes[:, PLANE_U]

    def resume(self, bint averaged):
        """After `settle`: count errors again, as a stream does; `averaged` lets the average
        answer first.
        """
        cdef int p
        cdef Judge *judge = &self.judge
        if not self.bank.averaging:
            self.restart_average()
        self.bank.judging = self.bank.tail = True       # windows part at the next example
        self.figures[:] = 0.0
        self.outcomes[:] = 0.0
        for p in range(judge.n_predictors):
            if averaged and judge.is_tail[p] and judge.place[judge.group_of[p]] >= 0:
                judge.chosen = p

    cdef int _learn(self, const Examples *examples, Py_ssize_t *at,
                    Py_ssize_t stop) noexcept nogil:
        cdef Bank *m = &self.bank
        if m.paired and m.tail:
            with gil:
                try:
                    self.unpair()
                except MemoryError:
                    return STEP_TOO_LARGE
        if m.single:
            return self.learn_rows(examples, at, stop, <float32_t *> m.at + m.header)
        return self.learn_rows(examples, at, stop, <float64_t *> m.at + m.header)

    cdef int learn_rows(self, const Examples *examples, Py_ssize_t *at, Py_ssize_t stop,
                        weight_t *v) noexcept nogil:
        cdef Bank *m = &self.bank
        cdef const Rows *X = examples.X
        cdef const int64_t *order = examples.order
        cdef Record record = examples.record
        cdef Py_ssize_t n, i, g, start = at[0]
        cdef Row ring[RING]
        cdef Row *row
        cdef Row *ahead = NULL
        cdef double target = 1.0, c = 1.0, cost = 1.0
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
            if m.K > 1:              # whose weights are fetched, and rows before
                if ahead != NULL and ahead.indices != NULL:
                    rows_prefetch(X, order[n + ROWS_AHEAD])
                ahead = &ring[(n + 1) & (RING - 1)] if n + 1 < stop else NULL
            if self.n_out == 1:
                target = examples.y[i]
            else:
                label = examples.labels[i] - self.first_label
                if not 0 <= label < self.n_out:
                    label = -1
            if examples.weight != NULL:
                c = examples.weight[i]
            if record.score != NULL:
                self.read(row, True, v, record.score + (n - start) * self.n_out)
            cost = c
            if self.judge.judged and (m.judging or self.n_out == 1):
                cost = importance(&self.judge, m, target, label, c)
            status = learn_row(m, row, ahead, target, label, cost if self.n_out == 1 else c,
                               examples.largest, v)
            if status != DONE:
                return status
            m.seen += 1.0
            if record.rank != NULL:
                record.rank[n - start] = rank_of(m.f, m.n_out, label)
                self.loss_at[0] += m.value[0]
            elif self.judge.judged:
                count_answer(&self.judge, m, target, label, c, self.loss_at, self.error_at)
                if m.judging:
                    count_errors(&self.judge, m, target, label, cost)
                    if m.seen == self.decided_at // 4:
                        m.averaging = True
                    if m.seen == self.decided_at // 2:
                        forget_errors(&self.judge)
                    if m.seen == self.decided_at:
                        with gil:
                            self.settle()
                            self.restart_average(False)
                        v = <weight_t *> m.at + m.header
                    elif m.seen > self.decided_at and is_due(m):
                        alive = self.judge.alive & ~losers(&self.judge, m)
                        if alive != self.judge.alive:
                            with gil:
                                self.keep(alive)
                            v = <weight_t *> m.at + m.header
            else:
                for g in range(m.n_groups):
                    self.loss_at[g] += m.value[g]
                    self.error_at[g] += error_of(m.error_kind, m.n_out, m.f + g * m.n_out,
                                                 target, label)
            if record.eta != NULL:
                record.eta[n - start] = mean_rate(m, answering(&self.judge), row, v)
                record.loss[n - start] = m.value[0]
                record.error[n - start] = self.error_at[0] / m.seen
            at[0] = n + 1
        return DONE

    cdef bint _cannot_fail(self, double n, double count, double largest, double heaviest,
                           double curvature, double target):
        """By the bounds of `fits`; a loss of unbounded slope can always fail."""
        cdef Bank *m = &self.bank
        cdef Py_ssize_t g
        cdef double slope, e, stake
        if self.judge.judged:
            heaviest *= MOST_COST
        slope = loss_slope(&m.loss) * sqrt(max(heaviest, 1.0))
        stake = slope * sqrt(max(heaviest, 1.0)) if m.any_coin else 0.0
        if not slope < INFINITY:
            return False
        for g in range(m.n_groups):
            e = m.groups[g].step.eta0 * sqrt(largest_inflation() * (m.t + n)) * heaviest
            if m.error_kind == ERROR_ABSOLUTE:
                e *= target + deviation(m) + fabs(m.target_mean)
                if not (target < 0.5 * MOST_TARGET and fabs(m.target_mean) < 0.5 * MOST_TARGET
                        and m.target_sq + n * heaviest * MOST_TARGET * MOST_TARGET < 1e200):
                    return False
            if not (slope * sqrt(largest_inflation()) * max(largest, 1.0)
                    < (1e17 if m.single else 1e140)
                    and stake * max(largest, 1.0) < (1e30 if m.single else 1e145)
                    and e < (1e15 if m.single else 1e40)):
                return False
        return True

    cdef Py_ssize_t _n_scores(self) noexcept nogil:
        return self.n_out if self.judge.judged else self.bank.K

    cdef bint _writes_out(self, bint averaged):
        return self.bank.n_groups == 1 or self.judge.judged

    cdef double _seen(self) noexcept nogil:
        return self.bank.seen

    cdef void _score_row(self, const Row *row, bint averaged, double *work,
                         double *out) noexcept nogil:
        cdef Bank *m = &self.bank
        if m.single:
            self.read(row, averaged, <const float32_t *> m.at + m.header, out)
        else:
            self.read(row, averaged, <const float64_t *> m.at + m.header, out)

    cdef void read(self, const Row *row, bint averaged, const weight_t *v,
                   double *out) noexcept nogil:
        """Scores of all columns, or of those that answer."""
        cdef Py_ssize_t first = answering(&self.judge)
        cdef bint mean = averaged and answers_mean(&self.judge, &self.bank)
        read_row(&self.bank, first, first + 1 if self.judge.judged else self.bank.n_groups, row,
                 mean, v, out)

    cdef void read_all(self, bint averaged, const weight_t *v, double *out) noexcept nogil:
        """Every weight, columns x n_features; of the group that answers where one does."""
        cdef Bank *m = &self.bank
        cdef Py_ssize_t g, j, k, first = answering(&self.judge)
        cdef const Group *group
        cdef double e
        for g in range(first, first + 1 if self.judge.judged else m.n_groups):
            group = &m.groups[g]
            e = rate_factor(m, group, m.t) if group.step.flags & STEP_ADAPTIVE_MIRROR else 0.0
            for j in range(self.n_features):
                for k in range(g * self.n_out, (g + 1) * self.n_out):
                    out[(k - first * self.n_out) * self.n_features + j] = read_cell(
                        m, group, k, v + j * m.stride, averaged, e)

    def weight_array(self, bint averaged=False):
        """The weights, (n_features,) or (columns, n_features), in float64."""
        cdef Bank *m = &self.bank
        out = np.empty((self.n_out if self.judge.judged else m.K, self.n_features))
        cdef double[:, ::1] view = out
        cdef bint mean = averaged and answers_mean(&self.judge, m)
        if m.single:
            self.read_all(mean, <const float32_t *> m.at + m.header, &view[0, 0])
        else:
            self.read_all(mean, <const float64_t *> m.at + m.header, &view[0, 0])
        return out[0] if len(out) == 1 else out

    def move_origin(self, double[::1] origin):
        """Change the offsets so that x gets the score that x - origin had, in all columns."""
        self.unpair()
        if self.bank.single:
            self.move_offsets(&origin[0], <const float32_t *> self.bank.at + self.bank.header)
        else:
            self.move_offsets(&origin[0], <const float64_t *> self.bank.at + self.bank.header)

    cdef void move_offsets(self, const double *origin, const weight_t *v) noexcept nogil:
        cdef Bank *m = &self.bank
        cdef Py_ssize_t g, j, k
        cdef int window, older = m.older
        cdef double e, total
        for g in range(m.n_groups):
            e = rate_factor(m, &m.groups[g], m.t)
            for k in range(g * m.n_out, (g + 1) * m.n_out):
                total = 0.0
                for j in range(m.n_features):
                    total += origin[j] * read_cell(m, &m.groups[g], k, v + j * m.stride, False, e)
                m.b[k] -= total
                for window in range(2 * m.averages):
                    if m.counts[window] == 0.0:
                        continue
                    m.older, total = window, 0.0
                    for j in range(m.n_features):
                        total += origin[j] * read_cell(m, &m.groups[g], k, v + j * m.stride,
                                                       True, e)
                    m.b[(PLANE_U + window) * m.K + k] -= m.counts[window] * total
                m.older = older

    def offset_array(self, bint averaged=False):
        """The offsets that answer."""
        cdef Bank *m = &self.bank
        first = answering(&self.judge) * self.n_out
        columns = slice(first, first + self.n_out) if self.judge.judged else slice(None)
        if not (averaged and answers_mean(&self.judge, m)):
            return self.offsets[0, columns].copy()
        return self.offsets[PLANE_U + m.older, columns] / m.counts[m.older]

    def follow(self, AdaptiveLoop other):
        """Go on as the other learner would: averaging or not, judging or settled."""
        self.bank.averaging, self.bank.tail = other.bank.averaging, other.bank.tail
        self.bank.judging, self.decided_at = other.bank.judging, other.decided_at
        self.bank.paired = other.bank.paired
        if self.bank.n_planes != other.bank.n_planes:
            self.bank.n_planes = other.bank.n_planes
            self._allocate(self.judge.alive)

    @property
    def columns_are_apart(self):
        """Whether each output learns as if it were alone: one setting, one-vs-rest."""
        return (self.bank.n_groups == 1 and self.n_out > 1 and not self.bank.judging
                and not loss_is_multi(loss_of(&self.bank, &self.bank.groups[0])))

    def count_ranks(self, const double[:, ::1] ranks, const int64_t[::1] edges,
                    const int32_t[::1] labels, const int64_t[::1] order,
                    const double[::1] weight):
        """Count errors of examples by the `rank_of` them in learners of outputs edges[k] to
        edges[k + 1]; `weight` may be None.
        """
        cdef double *classes = self.judge.class_weights if self.judge.judged else NULL
        cdef Py_ssize_t n, k, own, label, n_parts = ranks.shape[0]
        cdef double c, rank
        cdef bint error
        with nogil:
            for n in range(order.shape[0]):
                label, own = labels[order[n]], 0
                while label >= edges[own + 1]:
                    own += 1
                rank = ranks[own, n]
                error = rank == -INFINITY
                for k in range(n_parts):
                    error |= ranks[k, n] >= rank if k < own else (k > own and ranks[k, n] > rank)
                self.error_at[0] += error
                if classes != NULL:
                    c = 1.0 if weight is None else weight[order[n]]
                    classes[label] += c
                    classes[self.judge.n_classes + label] += c * (1.0 - error)

    @property
    def judging(self):
        """Whether errors are counted, from which a predictor is chosen."""
        return bool(self.bank.judging)

    @property
    def windows(self):
        """Windows of the average that hold numbers of their own: 0 while they rest."""
        cdef Bank *m = &self.bank
        if not m.counts[0] and not m.counts[1]:
            return 0
        return 1 if m.paired else 2 * m.averages

    @property
    def restarts_windows(self):
        """Whether the windows of the average restart as examples come."""
        return bool(self.bank.tail)

    def get_state(self, bint copy=True):
        """(scalars, arrays): everything learnt, for `set_state` of an equal learner.

        Without a copy the arrays are the learner's own.
        """
        self._pair()
        scalars, arrays = self.numbers()
        arrays["cells"] = self.cells
        return scalars, {name: a.copy() for name, a in arrays.items()} if copy else arrays

    def numbers(self):
        """`get_state` without a copy, and with `own_cells`."""
        cdef Bank *m = &self.bank
        scalars = {"t": m.t, "seen": m.seen, "sum_x": m.sum_x,
                   "target_weight": m.target_weight, "target_mean": m.target_mean,
                   "target_sq": m.target_sq, "count_0": m.counts[0],
                   "count_1": m.counts[1], "older": m.older}
        arrays = {"cells": self.own_cells, "offsets": self.offsets, "losses": self.losses,
                  "errors": self.errors,
                  "groups": np.array([[m.groups[g].scale, m.groups[g].inflation,
                                       m.groups[g].sums[0], m.groups[g].sums[1]]
                                      for g in range(m.n_groups)])}
        if self.judge.judged:
            scalars |= {"alive": self.judge.alive, "chosen": self.judge.chosen}
            arrays |= {name: getattr(self, name) for name in JUDGED}
        return scalars, arrays

    def set_state(self, scalars, arrays):
        """Take over what `get_state` gave; ValueError, and no change, when it does not fit."""
        self.schema(scalars.get("alive")).check(scalars, arrays)
        if self.judge.judged:
            if not scalars["alive"] >> self.judge.group_of[scalars["chosen"]] & 1:
                raise ValueError("the saved chosen of the linear learner was dropped")
            if scalars["alive"] != self.judge.alive or self.bank.n_planes < self._all_planes():
                self.bank.n_planes = self._all_planes()
                self._allocate(scalars["alive"])
        self.own_cells[:] = arrays["cells"]
        self.bank.paired = False
        self.set_numbers(scalars, arrays)

    def set_numbers(self, scalars, arrays):
        """`set_state` without a check, and with the cells left as they are."""
        cdef Bank *m = &self.bank
        cdef Py_ssize_t g
        if self.judge.judged:
            self.judge.chosen = scalars["chosen"]
            for name in JUDGED:
                getattr(self, name)[:] = arrays[name]
        for name in ("offsets", "losses", "errors"):
            getattr(self, name)[:] = arrays[name]
        for g in range(m.n_groups):
            m.groups[g].scale, m.groups[g].inflation = arrays["groups"][g, :2]
            m.groups[g].sums[0], m.groups[g].sums[1] = arrays["groups"][g, 2:]
        m.t, m.seen, m.sum_x = scalars["t"], scalars["seen"], scalars["sum_x"]
        m.target_weight = scalars["target_weight"]
        m.target_mean, m.target_sq = scalars["target_mean"], scalars["target_sq"]
        m.counts[0], m.counts[1] = scalars["count_0"], scalars["count_1"]
        m.older = scalars["older"]


# ------------------------------------------------------------------ merging
# The arguments are those of `osvm.linear.adaptive_merging.Merger`.

SUMS = sizeof(Sums) // sizeof(double)


cdef Columns columns_of(given):
    """From (of, K, header, windows, bets, sign of windows); `of` stays with the caller."""
    cdef Columns columns
    of, columns.K, columns.header, columns.n_windows, columns.bets, columns.u_sign = given
    columns.of, columns.n = <const double *> pointer(of), of.shape[1]
    return columns


def add_part(double[:, ::1] sums, cells, columns, base, base_columns, part,
             const unsigned char[::1] by_share):
    """Add the cells of a part, of the type of those of the base (or None), to rows of `Sums`."""
    cdef Columns own = columns_of(columns), start
    cdef Part one
    cdef Sums *to = <Sums *> &sums[0, 0]
    cdef Py_ssize_t n_rows = cells.shape[0], stride = cells.shape[1], base_stride = 0
    cdef bint single = cells.dtype == np.float32
    cdef int role
    cdef void *at = pointer(cells)
    cdef void *before = NULL
    one.share, one.factor, one.nothing, windows = part
    for role in range(len(windows)):
        one.at[role], one.count[role], one.goes_on[role] = windows[role]
    start = own
    if base is not None:
        start, before, base_stride = columns_of(base_columns), pointer(base), base.shape[1]
    with nogil:
        if single:
            add_cells(to, n_rows, <const float32_t *> at, stride, &own,
                      <const float32_t *> before, base_stride, &start, &one, &by_share[0])
        else:
            add_cells(to, n_rows, <const float64_t *> at, stride, &own,
                      <const float64_t *> before, base_stride, &start, &one, &by_share[0])


def finish_parts(double[:, ::1] sums, base, base_columns, out, columns, windows, double alpha):
    """Write the merged cells, of the type of those of the base, from the `Sums` of all parts."""
    cdef Columns own = columns_of(columns), start = own
    cdef Sums *of = <Sums *> &sums[0, 0]
    cdef Py_ssize_t n_rows = out.shape[0], stride = out.shape[1], base_stride = 0
    cdef bint single = out.dtype == np.float32
    cdef int stays[2]
    cdef int slots[2]
    cdef double counts[2]
    cdef int role
    cdef void *at = pointer(out)
    cdef void *before = NULL
    for role in range(len(windows)):
        stays[role], counts[role], slots[role] = windows[role]
    if base is not None:
        start, before, base_stride = columns_of(base_columns), pointer(base), base.shape[1]
    with nogil:
        if single:
            finish_cells(of, n_rows, <const float32_t *> before, base_stride, &start,
                         <float32_t *> at, stride, &own, stays, counts, slots, alpha)
        else:
            finish_cells(of, n_rows, <const float64_t *> before, base_stride, &start,
                         <float64_t *> at, stride, &own, stays, counts, slots, alpha)
