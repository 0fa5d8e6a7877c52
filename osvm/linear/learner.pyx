"""Stochastic (sub)gradient descent on sparse rows: the linear learners' loop.

One step on example (x, y), with f = w.x + b and xi = dloss/df:

    w <- (1 - eta reg) w - eta c xi x        c: the example's weight
    b <- b - eta_b c xi
    w <- w min(1, radius/||w||)              with projection; a lazy one is taken back
                                             before the next step
    average <- average + w                   with averaging

Sources: Bagnell's notes (1/(reg t) steps, projection, averaging, mini-batches),
the slides on f(w, b), Kitani's lecture (online subgradient descent, SoftSVM,
perceptron); K outputs share one pass, feature-major.

Invariants
- the state after n examples does not depend on how they were split into calls;
- rows are validated before they come here; a step that would overflow is not
  made, and the loop returns the row;
- with mini-batches, gradients are summed in `grad` and the step is made when
  the batch is full, or by `flush`.

The loops are in one_output.pxd (one output) and columns.pxd (K outputs), mini-batches in
mini_batch.pxd, bounds of steps and weights in step_guard.pxd.
"""
import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY, sqrt
from libc.stdint cimport int64_t

from osvm._input.schema import sgd_schema

from osvm._parts.compiled cimport LossSpec, StepSpec
from osvm._input.rows cimport RowSource
from osvm.linear.model cimport (
    DONE, ERROR_ABSOLUTE, ERROR_CLASS, ERROR_NOVEL, NOT_FINITE, Examples, LinearModel, Options,
    open_examples, pointer, raise_status, set_targets,
)
from osvm.linear.mini_batch cimport apply_batch
from osvm.linear.column_steps cimport SCRATCH_ROWS
from osvm.linear.columns cimport learn_classes
from osvm.linear.one_output cimport learn_one_output
from osvm.linear.step_guard cimport RunBounds, largest_of, loss_slope, numbers_bound, rho_at
from osvm.linear.weights cimport SCRATCH, ScaledMatrix, ScaledVector
from osvm.core.rows cimport rows_get
from osvm.core.smat cimport smat_average_dot, smat_dot
from osvm.core.step cimport STEP_BOTTOU, STEP_CONSTANT
from osvm.core.svec cimport svec_average_dot, svec_dot
from osvm.core.typedefs cimport Row, Rows, SMat


cdef enum:
    KEEP_GIL = 4096     # multiplications that take less time than giving up the GIL


ERROR_KINDS = {"class": ERROR_CLASS, "absolute": ERROR_ABSOLUTE, "novel": ERROR_NOVEL}


def _of_weights(scalars, arrays):
    """The state of the weights within that of a learner."""
    return tuple({name[2:]: value for name, value in part.items() if name.startswith("w_")}
                 for part in (scalars, arrays))


cdef class Learner:
    """Base of all learners: `run` and `decide`, and what they ask of a learner."""

    cdef _set_shape(self, Py_ssize_t n_features, Py_ssize_t n_out):
        if n_features < 1 or n_out < 1:
            raise ValueError(f"n_features and n_out must be at least 1, got {n_features} and "
                             f"{n_out}")
        self.n_features, self.n_out, self.weight_bound = n_features, n_out, -1.0

    def run(self, RowSource X, targets, order=None, Py_ssize_t start=0, Py_ssize_t stop=-1,
            sample_weight=None, record=None, bint roll_back=False, double curvature=0.0):
        """Learn from examples order[start:stop] (rows start:stop without an order).

        Parameters
        ----------
        X : RowSource
            Validated rows.
        targets : float64 array (one output) or int32 array of labels (several)
        order : int64 array, optional
            Row numbers.
        sample_weight : float64 array, optional
        record : dict of float64 arrays, optional
            "eta", "loss" and "error" of example n go to entry n - start; "score", with a
            column per output, is what prediction would have given before the step; "rank"
            stands for "error" where adaptive columns are learnt in shares.
        roll_back : bool
            Go back to the state before the call when it fails (an interrupt is no
            failure).
        curvature : float
            Of the loss, when the weights keep each step within its example
            (`osvm.linear.step_guard`); else 0.

        Raises
        ------
        FloatingPointError
            A step would overflow; the examples before it have been learnt, unless
            `roll_back` is set.
        """
        cdef double[::1] eta_view, loss_view, error_view
        cdef double[:, ::1] score_view
        cdef double[::1] rank_view
        cdef Examples examples = open_examples(X, self.n_features, order, sample_weight)
        cdef Py_ssize_t n = X.rows.n_rows if order is None else len(order)
        cdef Py_ssize_t end, chunk, first = start, failed = 0
        cdef int status = DONE
        if stop < 0:
            stop = n
        if not 0 <= start <= stop <= n:
            raise ValueError(f"examples {start} to {stop} of {n}")
        if start == stop:
            return
        set_targets(&examples, targets, self.n_out)
        if record is not None and "eta" in record:
            eta_view, loss_view, error_view = record["eta"], record["loss"], record["error"]
            examples.record.eta, examples.record.loss = &eta_view[0], &loss_view[0]
            examples.record.error = &error_view[0]
        if record is not None and "score" in record:
            score_view = record["score"]
            if score_view.shape[0] < stop - start or score_view.shape[1] != self.n_out:
                raise ValueError("record['score'] does not fit")
            examples.record.score = &score_view[0, 0]
        if record is not None and "rank" in record:
            rank_view = record["rank"]
            examples.record.rank = &rank_view[0]
        chunk = self._mean_count(X)
        saved = None
        if not roll_back or stop - start == 1:   # one example fails before it changes anything
            self.weight_bound = -1.0
        elif not self._cannot_fail(
                stop - start, X.rows.n_rows * (1.0 + chunk), examples.largest,
                1.0 if sample_weight is None else largest_of(examples.weight, X.rows.n_rows),
                curvature,
                largest_of(examples.y, X.rows.n_rows) if examples.y != NULL else 1.0):
            saved = self.get_state()
            self.weight_bound = -1.0
        # Signals are looked at between chunks of a few milliseconds; one short row is learnt
        # sooner than the GIL is given up and taken back.
        chunk = max(1, 4_000_000 // (self.n_out * (1 + chunk)))
        while start < stop:
            end = min(stop, start + chunk)
            if end - start == 1 and chunk > 1000:
                status = self._learn(&examples, &start, end)
            else:
                with nogil:
                    status = self._learn(&examples, &start, end)
            if status != DONE:
                failed = order[start] if order is not None else start
                if saved is not None:
                    self.set_state(*saved)
                raise_status(self.loss_spec, status, failed)
            if examples.record.eta != NULL and start < stop:
                examples.record.eta = &eta_view[0] + (start - first)
                examples.record.loss = &loss_view[0] + (start - first)
                examples.record.error = &error_view[0] + (start - first)
            if examples.record.score != NULL and start < stop:
                examples.record.score = &score_view[start - first, 0]
            if examples.record.rank != NULL and start < stop:
                examples.record.rank = &rank_view[start - first]
            PyErr_CheckSignals()

    cdef bint _cannot_fail(self, double n, double count, double largest, double heaviest,
                           double curvature, double target):
        """Whether n more examples are sure to be learnt."""
        return False

    cdef int _learn(self, const Examples *examples, Py_ssize_t *at,
                    Py_ssize_t stop) noexcept nogil:
        """Examples from `at`, which moves on, to `stop`; DONE, or why `at` was not learnt."""
        return NOT_FINITE

    def flush(self):
        """Make pending updates; nothing is pending where each example makes its own step."""

    @property
    def pending_examples(self):
        """Examples whose step has not been made yet."""
        return 0

    def decide(self, RowSource X, double[:, ::1] out, bint averaged=False,
               Py_ssize_t start=0, Py_ssize_t stop=-1):
        """out[i] = scores of row i, intercepts included, for rows start:stop."""
        cdef Py_ssize_t n = self._n_scores()
        cdef double small[SCRATCH]
        cdef double[::1] large
        cdef double *work = small
        if X.rows.n_features != self.n_features:
            raise ValueError(f"rows have {X.rows.n_features} features, "
                             f"the model {self.n_features}")
        if stop < 0:
            stop = X.rows.n_rows
        if not 0 <= start <= stop <= X.rows.n_rows or out.shape[0] != X.rows.n_rows \
                or out.shape[1] != n:
            raise ValueError("out does not fit the rows")
        if start == stop:
            return
        # Weights that answer are written out once when there are enough rows to pay for it.
        if (self._writes_out(averaged)
                and (stop - start) * (1 + self._mean_count(X)) > 2 * self.n_features):
            self.frozen_average(averaged).decide(X, out, False, start, stop)
            return
        if n > SCRATCH:
            large = np.empty(n)
            work = &large[0]
        if stop - start == 1 and n * self._mean_count(X) < KEEP_GIL:
            self._score_rows(&X.rows, start, stop, averaged, work, &out[0, 0])
            return
        with nogil:
            self._score_rows(&X.rows, start, stop, averaged, work, &out[0, 0])

    cdef Py_ssize_t _n_scores(self) noexcept nogil:
        """Scores of one row."""
        return self.n_out

    cdef bint _writes_out(self, bint averaged):
        """Whether `frozen_average` has weights that are read faster than those of the loop."""
        return False

    cdef void _score_row(self, const Row *row, bint averaged, double *work,
                         double *out) noexcept nogil:
        """Scores of one row, with scratch of n_out doubles; changes nothing."""

    cdef void _score_rows(self, const Rows *X, Py_ssize_t start, Py_ssize_t stop, bint averaged,
                          double *work, double *out) noexcept nogil:
        """out[i] = scores of row i."""
        cdef Py_ssize_t i, n = self._n_scores()
        cdef Row row
        for i in range(start, stop):
            rows_get(X, i, &row)
            self._score_row(&row, averaged, work, out + i * n)

    cdef double _seen(self) noexcept nogil:
        return 0.0

    cdef Py_ssize_t _mean_count(self, RowSource X):
        """Stored values per row, about."""
        cdef Row last
        if not X.sparse:
            return X.rows.n_features
        rows_get(&X.rows, X.rows.n_rows - 1, &last)
        return (<const char *> last.values - <const char *> X.rows.values) // (4 * X.rows.n_rows)


cdef class SGDLearner(Learner):
    """Weights, intercepts and counters of one linear model, and its loops.

    Parameters
    ----------
    n_features, n_out : int
        One output for binary, regression and novelty losses.
    dtype : float32 or float64
        Of the weights.
    loss : LossSpec
    step : StepSpec
    reg : float
    radius : float
        Of the ball that w is projected onto; 0 for none.
    average_from : float
        Number of examples before averaging starts; negative for never.
    intercept_eta0 : float
        The intercept's step is this / sqrt(t); 0 to use the weights' step.
    batch_size : int
    fit_intercept : bool
    error_kind : {"class", "absolute", "novel"}
    lazy : bool
        Steps go on from the weights before their projection.
    """

    def __init__(self, Py_ssize_t n_features, Py_ssize_t n_out, dtype, LossSpec loss,
                 StepSpec step, *, double reg, double radius=0.0, double average_from=-1.0,
                 double intercept_eta0=0.0, Py_ssize_t batch_size=1, bint fit_intercept=False,
                 error_kind="class", bint lazy=False, weights=None):
        dtype = np.dtype(dtype)
        self.n_features, self.n_out = n_features, n_out
        self.model.n_out = n_out
        self.model.options.reg = reg
        self.model.options.radius = radius
        self.model.options.average_from = average_from
        self.model.options.intercept_eta0 = intercept_eta0
        self.model.options.batch_size = batch_size
        self.model.options.fit_intercept = fit_intercept
        self.model.options.error_kind = ERROR_KINDS[error_kind]
        self.set_parts(loss, step)
        if weights is None:
            track = radius > 0.0
            weights = (ScaledVector(n_features, dtype, track) if n_out == 1
                       else ScaledMatrix(n_features, n_out, dtype, track))
            self.weight_bound = 0.0
        else:
            self.weight_bound = -1.0
        self._adopt(weights)
        if average_from >= 0.0:
            weights.reserve_average()
        self.intercept = np.zeros(n_out)
        self.intercept_sum = np.zeros(n_out)
        if lazy:
            self.lift = np.ones(n_out)
            self.model.lift = <double *> pointer(self.lift)
        self._scratch = np.zeros(SCRATCH_ROWS * n_out)
        self._active = np.zeros(n_out, np.intp)
        self._bind()
        if batch_size > 1:
            self._grad = np.zeros((n_features, n_out), dtype)
            self._grad_b = np.zeros(n_out)
            self._touched = np.zeros(n_features, np.int64)
            self._values = np.zeros(n_features, dtype)
            self.model.grad = pointer(self._grad)
            self.model.grad_b = <double *> pointer(self._grad_b)
            self.model.touched = <int64_t *> pointer(self._touched)
            self.model.values = pointer(self._values)

    @property
    def t(self):
        """Steps made."""
        return self.model.t

    @t.setter
    def t(self, double value):
        self.model.t = value

    @property
    def seen(self):
        """Examples seen."""
        return self.model.seen

    @seen.setter
    def seen(self, double value):
        self.model.seen = value

    @property
    def loss_sum(self):
        """Sum of the losses that the examples had before their steps."""
        return self.model.loss_sum

    @loss_sum.setter
    def loss_sum(self, double value):
        self.model.loss_sum = value

    @property
    def error_sum(self):
        """Sum of the errors that the examples had before their steps."""
        return self.model.error_sum

    @error_sum.setter
    def error_sum(self, double value):
        self.model.error_sum = value

    def set_parts(self, LossSpec loss, StepSpec step):
        """Use this loss and schedule from now on."""
        self.loss_spec = loss       # owns what the struct points at
        self.model.loss = loss.loss
        self.model.step = step.step
        self.weight_bound = -1.0

    cdef _adopt(self, weights):
        cdef ScaledVector vector
        cdef ScaledMatrix matrix
        self.weights = weights
        self.model.vec = NULL
        self.model.mat = NULL
        if self.model.n_out == 1:
            vector = weights
            self.model.vec = &vector.w
        else:
            matrix = weights
            self.model.mat = &matrix.w

    cdef _bind(self):
        self.model.b = <double *> pointer(self.intercept)
        self.model.b_sum = <double *> pointer(self.intercept_sum)
        self.model.scratch = <double *> pointer(self._scratch)
        self.model.active = <Py_ssize_t *> pointer(self._active)

    # ------------------------------------------------------------- learning

    cdef bint _cannot_fail(self, double n, double count, double largest, double heaviest,
                           double curvature, double target):
        """Whether n more examples are sure to be learnt without an overflow.

        The answer is by bounds: each step moves a weight by at most eta |xi| |x|.
        It is yes for any sensible data and a loss whose slope is bounded, or whose
        steps are, and saves the copy of the weights that `roll_back` would need.

        Parameters
        ----------
        n : examples
        count : stored values, all rows together
        largest : bound of |x|
        heaviest : bound of the examples' weights
        curvature : of the loss where steps are kept within their examples, else 0
        target : bound of |y|
        """
        cdef LinearModel *m = &self.model
        cdef RunBounds run
        cdef bint known = self.weight_bound >= 0.0, curved
        run.n, run.count, run.largest, run.heaviest = n, count, largest, heaviest
        run.slope, run.curvature, run.target = loss_slope(&m.loss), curvature, target
        curved = not run.slope < INFINITY
        if curved and not (curvature > 0.0 and m.step.kind == STEP_BOTTOU
                           and m.options.batch_size == 1):
            return False
        if m.step.kind > STEP_CONSTANT:
            return False
        if not known:
            self.weight_bound = self._size() if curved else max(
                np.abs(self.weights.v).max() * np.max(np.abs(self.weights.scale))
                * (1.0 if self.lift is None else self.lift.max()),
                np.abs(self.intercept).max())
        if numbers_bound(&m.step, &m.options, &run, m.t, self.weights.averaged_count,
                         &self.weight_bound) < (
                1e30 if self.weights.v.itemsize == 4 else 1e145):
            return True
        if not curved or not known:
            return False
        self.weight_bound = -1.0        # the bound may have been too large: measure it
        return self._cannot_fail(n, count, largest, heaviest, curvature, target)

    cdef double _size(self):
        """sqrt(||w||^2 + rho b^2), the largest of all outputs (osvm/linear/step_guard.pxd)."""
        cdef LinearModel *m = &self.model
        v = self.weights.v.reshape(self.weights.dim, m.n_out)
        sq = np.square(v, dtype=np.float64).sum(axis=0) * self.weights.scale ** 2
        sq += rho_at(&m.step, &m.options, m.t + 1.0) * self.intercept ** 2
        return sqrt(sq.max())

    cdef int _learn(self, const Examples *examples, Py_ssize_t *at,
                    Py_ssize_t stop) noexcept nogil:
        if self.model.n_out == 1:
            return learn_one_output(&self.model, examples, at, stop)
        return learn_classes(&self.model, examples, at, stop)

    def flush(self):
        """Make the step of a batch that is not full; the end of an epoch calls it."""
        apply_batch(&self.model)

    @property
    def pending_examples(self):
        """Examples summed into a mini-batch that is not full yet."""
        return int(self.model.pending)

    # ----------------------------------------------------------- predicting

    cdef SMat _reader(self, double *work) noexcept nogil:
        """The weights of several outputs for `_score`, with scratch of n_out doubles."""
        cdef SMat mat
        if self.model.mat != NULL:
            mat = self.model.mat[0]
            mat.work = work
        return mat

    cdef void _score(self, const SMat *mat, const Row *row, bint mean,
                     double *out) noexcept nogil:
        """Scores of one row, intercepts included; of the average with `mean`.

        `mat` is from `_reader`: several threads may score at the same time.
        """
        cdef Py_ssize_t k
        cdef LinearModel *m = &self.model
        if m.vec != NULL:
            if mean:
                out[0] = svec_average_dot(m.vec, row) + m.b_sum[0] / m.vec.avg_count
            else:
                out[0] = svec_dot(m.vec, row) + m.b[0]
        elif mean:
            smat_average_dot(mat, row, out)
            for k in range(m.n_out):
                out[k] += m.b_sum[k] / mat.avg_count
        else:
            smat_dot(mat, row, out)
            for k in range(m.n_out):
                out[k] += m.b[k]

    cdef bint _writes_out(self, bint averaged):
        return averaged and self.weights.averaged_count > 0

    cdef void _score_row(self, const Row *row, bint averaged, double *work,
                         double *out) noexcept nogil:
        cdef SMat mat = self._reader(work)
        self._score(&mat, row, averaged and self._averaged_count() > 0.0, out)

    cdef void _score_rows(self, const Rows *X, Py_ssize_t start, Py_ssize_t stop, bint averaged,
                          double *work, double *out) noexcept nogil:
        cdef Py_ssize_t i, n = self.model.n_out
        cdef Row row
        cdef SMat mat = self._reader(work)
        cdef bint mean = averaged and self._averaged_count() > 0.0
        for i in range(start, stop):
            rows_get(X, i, &row)
            self._score(&mat, &row, mean, out + i * n)

    cdef double _averaged_count(self) noexcept nogil:
        return self.model.mat.avg_count if self.model.vec == NULL else self.model.vec.avg_count

    cdef double _seen(self) noexcept nogil:
        return self.model.seen

    def frozen_average(self, bint averaged=True):
        """A learner whose plain weights are this one's average, for prediction."""
        cdef SGDLearner copied = self._like(None)
        copied.weights.set_array(self.weights.array(averaged=True))
        copied.intercept[:] = self.average_intercept()
        return copied

    def average_intercept(self):
        """The averaged intercepts; the last ones while nothing has been averaged."""
        n = self.weights.averaged_count
        return self.intercept_sum / n if n else self.intercept.copy()

    def move_origin(self, origin):
        """Change the intercepts so that x gets the score that x - origin had."""
        self.intercept -= np.atleast_2d(self.weights.array()) @ origin
        n = self.weights.averaged_count
        if n:
            self.intercept_sum -= n * (np.atleast_2d(self.weights.array(averaged=True)) @ origin)

    # ------------------------------------------------------- saving, copying

    cdef SGDLearner _like(self, weights, Py_ssize_t n_out=0):
        """A learner with the same options and given (or zero) weights."""
        cdef StepSpec step = StepSpec.__new__(StepSpec, 0)
        cdef SGDLearner copied
        cdef Options options = self.model.options
        step.step = self.model.step
        copied = SGDLearner(
            self.weights.dim, n_out or self.model.n_out, self.weights.v.dtype, self.loss_spec,
            step, reg=options.reg, radius=options.radius,
            average_from=options.average_from if weights is not None else -1.0,
            intercept_eta0=options.intercept_eta0, batch_size=options.batch_size,
            fit_intercept=options.fit_intercept, lazy=self.lift is not None, weights=weights)
        copied.model.options.error_kind = options.error_kind
        return copied

    def get_state(self, bint copy=True):
        """(scalars, arrays): everything learnt, for `set_state` of an equal learner.

        Without `copy` the weights are those of the learner, and no mini-batch is open.
        """
        scalars, arrays = self.weights.get_state(copy)
        scalars = {f"w_{name}": value for name, value in scalars.items()}
        scalars |= {"t": self.model.t, "seen": self.model.seen, "loss_sum": self.model.loss_sum,
                    "error_sum": self.model.error_sum, "pending": self.model.pending,
                    "touched_all": int(self.model.touched_all), "eta": self.model.step.eta}
        arrays = {f"w_{name}": value for name, value in arrays.items()}
        arrays |= {"intercept": self.intercept.copy(),
                   "intercept_sum": self.intercept_sum.copy()}
        if self.lift is not None:
            arrays["lift"] = self.lift.copy()
        if copy and self.model.options.batch_size > 1:
            arrays |= {"grad": self._grad.copy(), "grad_b": self._grad_b.copy(),
                       "touched": self._touched[:self.model.n_touched].copy()}
        return scalars, arrays

    def set_state(self, scalars, arrays):
        """Take over what `get_state` gave; ValueError, and no change, when it does not fit."""
        self.schema().check(scalars, arrays)
        cls = ScaledVector if self.model.n_out == 1 else ScaledMatrix
        self._adopt(cls.from_state(*_of_weights(scalars, arrays)))
        self._set_counts(scalars, arrays)
        if self.model.options.batch_size > 1:
            touched = arrays["touched"]
            self._grad[:] = arrays["grad"]
            self._grad_b[:] = arrays["grad_b"]
            self._touched[:touched.size] = touched
            self.model.n_touched = touched.size
            self.model.pending = scalars["pending"]
            self.model.batch_bound = float(np.abs(arrays["grad"]).max(initial=0.0))
            self.model.touched_all = scalars["touched_all"]

    def set_numbers(self, scalars, arrays):
        """Take over a valid state whose weights are here already; no mini-batch is open."""
        self.weights.set_numbers(*_of_weights(scalars, arrays))
        self._set_counts(scalars, arrays)

    def _set_counts(self, scalars, arrays):
        self.weight_bound = -1.0
        for name in ("intercept", "intercept_sum", "lift")[:2 if self.lift is None else 3]:
            getattr(self, name)[:] = arrays[name]
        self.model.t, self.model.seen = scalars["t"], scalars["seen"]
        self.model.loss_sum, self.model.error_sum = scalars["loss_sum"], scalars["error_sum"]
        self.model.step.eta = scalars["eta"]

    def schema(self):
        """What `set_state` takes."""
        return sgd_schema(
            self.weights.dim, self.model.n_out, self.weights.v.dtype,
            average_from=self.model.options.average_from, radius=self.model.options.radius,
            batch_size=self.model.options.batch_size, lazy=self.lift is not None)

    def copy(self):
        """An independent copy, bit for bit."""
        cdef SGDLearner copied = self._like(self.weights)     # until the next line
        copied.set_state(*self.get_state())
        return copied

    def with_outputs(self, Py_ssize_t n_out):
        """A learner with more outputs: the old ones as they are, the new ones zero."""
        cdef SGDLearner wide
        old = self.model.n_out
        if n_out <= max(old, 2):
            raise ValueError(f"cannot go from {old} to {n_out} outputs")
        if old == 1:
            # The one score of a binary model is the second label's, and minus the first's.
            weights = ScaledMatrix.from_binary(self.weights, n_out)
            keep, sign = [0, 0], np.array([-1.0, 1.0])
        else:
            weights = self.weights.with_outputs(n_out)
            keep, sign = list(range(old)), np.ones(old)
        wide = self._like(weights, n_out)
        wide.intercept[:len(keep)] = self.intercept[keep] * sign
        wide.intercept_sum[:len(keep)] = self.intercept_sum[keep] * sign
        if self.lift is not None:
            wide.lift[:len(keep)] = self.lift[keep]
        wide.model.t, wide.model.seen = self.model.t, self.model.seen
        wide.model.loss_sum, wide.model.error_sum = self.model.loss_sum, self.model.error_sum
        if self.model.options.batch_size > 1:     # an open mini-batch goes on
            wide._grad[:, :len(keep)] = self._grad[:, keep] * sign.astype(self._grad.dtype)
            wide._grad_b[:len(keep)] = self._grad_b[keep] * sign
            wide._touched[:] = self._touched
            wide.model.n_touched = self.model.n_touched
            wide.model.touched_all = self.model.touched_all
            wide.model.pending, wide.model.batch_bound = self.model.pending, self.model.batch_bound
        return wide

    def reordered(self, order):
        """A copy whose output k is output order[k] of this one; for several outputs."""
        copied = self.copy()
        scalars, arrays = self.get_state()
        copied.set_state(scalars, {
            name: array if name == "touched" else np.ascontiguousarray(array[..., order])
            for name, array in arrays.items()})
        return copied
