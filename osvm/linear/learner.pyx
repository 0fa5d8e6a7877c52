"""Stochastic (sub)gradient descent on sparse rows: the linear learners' loop.

One step on example (x, y), with f = w.x + b and xi = dloss/df:

    w <- (1 - eta reg) w - eta c xi x        c: the example's weight
    b <- b - eta_b c xi
    w <- w min(1, radius/||w||)              with projection
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

The loops are in one_output.pxd (one output), one_output_sparse.pxd (its fast path) and
columns.pxd (K outputs), mini-batches in mini_batch.pxd.
"""
import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY, sqrt
from libc.stdint cimport int32_t, int64_t

from osvm._input.scan import largest_magnitude

from osvm._parts.compiled cimport LossSpec, StepSpec
from osvm._input.rows cimport RowSource
from osvm.linear.mini_batch cimport apply_batch
from osvm.linear.columns cimport learn_multi
from osvm.linear.weight_bound cimport intercept_reach, reach_after, rho_at
from osvm.linear.one_output cimport learn_scalar
from osvm.linear.steps cimport largest_of, loss_slope
from osvm.linear.weights cimport ScaledMatrix, ScaledVector
from osvm.core.rows cimport rows_get
from osvm.core.smat cimport smat_average_dot, smat_dot
from osvm.core.step cimport STEP_BOTTOU, STEP_CONSTANT, step_eta
from osvm.core.svec cimport svec_average_dot, svec_dot
from osvm.core.typedefs cimport Row, Rows


cdef void *pointer(object array) except NULL:
    """Where a contiguous numpy array of ours keeps its numbers."""
    cdef size_t where = array.__array_interface__["data"][0]
    return <void *> where


cdef class SGDLearner:
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
    """

    def __init__(self, Py_ssize_t n_features, Py_ssize_t n_out, dtype, LossSpec loss,
                 StepSpec step, *, double reg, double radius=0.0, double average_from=-1.0,
                 double intercept_eta0=0.0, Py_ssize_t batch_size=1, bint fit_intercept=False,
                 error_kind="class", weights=None):
        dtype = np.dtype(dtype)
        self.n_out = n_out
        self.options.reg = reg
        self.options.radius = radius
        self.options.average_from = average_from
        self.options.intercept_eta0 = intercept_eta0
        self.options.batch_size = batch_size
        self.options.fit_intercept = fit_intercept
        self.options.error_kind = {"class": ERROR_CLASS, "absolute": ERROR_ABSOLUTE,
                                   "novel": ERROR_NOVEL}[error_kind]
        self.set_parts(loss, step)
        if weights is None:
            track = radius > 0.0
            weights = (ScaledVector(n_features, dtype, track) if n_out == 1
                       else ScaledMatrix(n_features, n_out, dtype, track))
            self.reach = 0.0
        else:
            self.reach = -1.0
        self._adopt(weights)
        if average_from >= 0.0:
            weights.reserve_average()
        self.intercept = np.zeros(n_out)
        self.intercept_sum = np.zeros(n_out)
        self._scratch = np.zeros(3 * n_out)
        self._active = np.zeros(n_out, np.intp)
        self._bind()
        if batch_size > 1:
            self._grad = np.zeros((n_features, n_out), dtype)
            self._grad_b = np.zeros(n_out)
            self._touched = np.zeros(n_features, np.int64)
            self._values = np.zeros(n_features, dtype)
            self.grad = pointer(self._grad)
            self.grad_b = <double *> pointer(self._grad_b)
            self.touched = <int64_t *> pointer(self._touched)
            self.values = pointer(self._values)

    def set_parts(self, LossSpec loss, StepSpec step):
        """Use this loss and schedule from now on."""
        self.loss_spec = loss       # owns what the struct points at
        self.loss = loss.loss
        self.step = step.step
        self.reach = -1.0

    cdef _adopt(self, weights):
        cdef ScaledVector vector
        cdef ScaledMatrix matrix
        self.weights = weights
        self.vec = NULL
        self.mat = NULL
        if self.n_out == 1:
            vector = weights
            self.vec = &vector.w
        else:
            matrix = weights
            self.mat = &matrix.w

    cdef _bind(self):
        self.b = <double *> pointer(self.intercept)
        self.b_sum = <double *> pointer(self.intercept_sum)
        self.f = <double *> pointer(self._scratch)
        self.xi = self.f + self.n_out
        self.owed = self.xi + self.n_out
        self.active = <Py_ssize_t *> pointer(self._active)

    # ------------------------------------------------------------- learning

    def run(self, RowSource X, targets, order=None, Py_ssize_t start=0, Py_ssize_t stop=-1,
            sample_weight=None, record=None, bint undo=False, double curvature=0.0):
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
            column per output, is what prediction would have given before the step.
        undo : bool
            Go back to the state before the call when it fails (an interrupt is no
            failure).
        curvature : float
            Of the loss, when the weights keep each step within its example
            (`osvm.linear.step_bound`); else 0.

        Raises
        ------
        FloatingPointError
            A step would overflow; the examples before it have been learnt, unless
            `undo` is set.
        """
        cdef const int64_t[::1] order_view
        cdef const double[::1] y_view, weight_view
        cdef const int32_t[::1] label_view
        cdef double[::1] eta_view, loss_view, error_view
        cdef double[:, ::1] score_view
        cdef const int64_t *order_at = NULL
        cdef const double *y = NULL
        cdef const double *weight = NULL
        cdef const int32_t *labels = NULL
        cdef Record at
        cdef Py_ssize_t end, chunk, n = X.rows.n_rows, first = start, failed = 0
        cdef int status = DONE
        cdef double largest
        if X.rows.n_features != self.weights.dim:
            raise ValueError(f"rows have {X.rows.n_features} features, "
                             f"the model {self.weights.dim}")
        if order is not None:
            order_view = order
            n = order_view.shape[0]
            if n:
                order_at = &order_view[0]
        if stop < 0:
            stop = n
        if not 0 <= start <= stop <= n:
            raise ValueError(f"examples {start} to {stop} of {n}")
        if start == stop:
            return
        if self.n_out == 1:
            y_view = targets
            if y_view.shape[0] != X.rows.n_rows:
                raise ValueError(f"{y_view.shape[0]} targets for {X.rows.n_rows} rows")
            y = &y_view[0]
        else:
            label_view = targets
            if label_view.shape[0] != X.rows.n_rows:
                raise ValueError(f"{label_view.shape[0]} labels for {X.rows.n_rows} rows")
            labels = &label_view[0]
        if sample_weight is not None:
            weight_view = sample_weight
            if weight_view.shape[0] != X.rows.n_rows:
                raise ValueError(f"{weight_view.shape[0]} weights for {X.rows.n_rows} rows")
            weight = &weight_view[0]
        largest = X.largest if X.largest >= 0.0 else largest_magnitude(X)
        at.eta = at.loss = at.error = at.score = NULL
        if record is not None and "eta" in record:
            eta_view, loss_view, error_view = record["eta"], record["loss"], record["error"]
            at.eta, at.loss, at.error = &eta_view[0], &loss_view[0], &error_view[0]
        if record is not None and "score" in record:
            score_view = record["score"]
            if score_view.shape[0] < stop - start or score_view.shape[1] != self.n_out:
                raise ValueError("record['score'] does not fit")
            at.score = &score_view[0, 0]
        chunk = self._mean_count(X)
        saved = None
        if not undo or stop - start == 1:   # one example fails before it changes anything
            self.reach = -1.0
        elif not self._cannot_fail(
                stop - start, X.rows.n_rows * (1.0 + chunk), largest,
                1.0 if weight == NULL else largest_of(weight, X.rows.n_rows), curvature,
                largest_of(y, X.rows.n_rows) if y != NULL else 1.0):
            saved = self.get_state()
            self.reach = -1.0
        # Signals are looked at between chunks of a few milliseconds.
        chunk = max(1, 4_000_000 // (self.n_out * (1 + chunk)))
        while start < stop:
            end = min(stop, start + chunk)
            with nogil:
                if self.n_out == 1:
                    status = self._learn_scalar(&X.rows, y, order_at, &start, end, weight,
                                                largest, at)
                else:
                    status = self._learn_multi(&X.rows, labels, order_at, &start, end, weight,
                                               largest, at)
            if status != DONE:
                failed = order[start] if order is not None else start
                if saved is not None:
                    self.set_state(*saved)
                self._complain(status, failed)
            if at.eta != NULL:
                at.eta = &eta_view[0] + (start - first) if start < stop else NULL
                at.loss = &loss_view[0] + (start - first) if start < stop else NULL
                at.error = &error_view[0] + (start - first) if start < stop else NULL
            if at.score != NULL and start < stop:
                at.score = &score_view[start - first, 0]
            PyErr_CheckSignals()

    cdef bint _cannot_fail(self, double n, double count, double largest, double heaviest,
                           double curvature, double target):
        """Whether n more examples are sure to be learnt without an overflow.

        The answer is by bounds: each step moves a weight by at most eta |xi| |x|.
        It is yes for any sensible data and a loss whose slope is bounded, or whose
        steps are, and saves the copy of the weights that `undo` would need.

        Parameters
        ----------
        n : examples
        count : stored values, all rows together
        largest : bound of |x|
        heaviest : bound of the examples' weights
        curvature : of the loss where steps are kept within their examples, else 0
        target : bound of |y|
        """
        cdef double slope = loss_slope(&self.loss), step, room, score, averaged
        cdef bint known = self.reach >= 0.0
        room = 1e30 if self.weights.v.itemsize == 4 else 1e145
        averaged = 1.0 + n + self.weights.averaged_count
        if not slope < INFINITY and curvature > 0.0 and self.step.kind == STEP_BOTTOU \
                and self.options.batch_size == 1:
            if not known:
                self.reach = self._size()
            self.reach = reach_after(&self.step, &self.options, self.reach, self.t, n,
                                     heaviest * curvature * target * target)
            score = self.reach * largest * count + intercept_reach(
                &self.step, &self.options, self.reach, self.t, n)
            step = max(step_eta(&self.step, self.t + 1.0), self.options.intercept_eta0)
            step *= curvature * (score + target) * heaviest * max(largest, 1.0)
            if (self.reach + score + step * averaged) * 1e9 < room:
                return True
            self.reach = -1.0       # it may have been known too badly
            return known and self._cannot_fail(n, count, largest, heaviest, curvature, target)
        if self.step.kind > STEP_CONSTANT or not slope < INFINITY:
            return False
        if self.reach < 0.0:
            self.reach = max(
                np.abs(self.weights.v).max() * np.max(np.abs(self.weights.scale)),
                np.abs(self.intercept).max())
        step = step_eta(&self.step, self.t + 1.0)
        if self.options.intercept_eta0 > step:
            step = self.options.intercept_eta0
        step *= slope * heaviest
        self.reach += n * step * max(largest, 1.0)
        score = self.reach * (1.0 + largest * count)
        # v is w over its scale, which is 1e-9 or more
        return (score + step * max(largest, 1.0) * averaged) * 1e9 < room

    cdef double _size(self):
        """sqrt(||w||^2 + rho b^2), the largest of all outputs (osvm/linear/weight_bound.pxd)."""
        v = self.weights.v.reshape(self.weights.dim, self.n_out)
        sq = np.square(v, dtype=np.float64).sum(axis=0) * self.weights.scale ** 2
        sq += rho_at(&self.step, &self.options, self.t + 1.0) * self.intercept ** 2
        return sqrt(sq.max())

    cdef Py_ssize_t _mean_count(self, RowSource X):
        """Stored values per row, about."""
        cdef Row last
        if not X.sparse:
            return X.rows.n_features
        rows_get(&X.rows, X.rows.n_rows - 1, &last)
        return (<const char *> last.values - <const char *> X.rows.values) // (4 * X.rows.n_rows)

    def _complain(self, int status, Py_ssize_t row):
        self.loss_spec.raise_error()
        if status == NOT_FINITE:
            raise FloatingPointError(
                f"the loss is not finite at row {row}: scale the features (for example to unit "
                "norm) or the targets, or lower the step size")
        raise FloatingPointError(
            f"the step at row {row} would overflow the weights: scale the features (for example "
            "to unit norm), raise reg or lower eta0")

    cdef int _learn_scalar(self, const Rows *X, const double *y, const int64_t *order,
                           Py_ssize_t *at, Py_ssize_t stop, const double *weight,
                           double largest, Record record) noexcept nogil:
        return learn_scalar(self, X, y, order, at, stop, weight, largest, record)

    cdef int _learn_multi(self, const Rows *X, const int32_t *labels, const int64_t *order,
                          Py_ssize_t *at, Py_ssize_t stop, const double *weight,
                          double largest, Record record) noexcept nogil:
        return learn_multi(self, X, labels, order, at, stop, weight, largest, record)

    def flush(self):
        """Make the step of a batch that is not full; the end of an epoch calls it."""
        apply_batch(self)

    def is_sound(self):
        """Whether no weight has come near an overflow."""
        room = 1e30 if self.weights.v.itemsize == 4 else 1e145
        parts = [self.weights.v, self.intercept]
        if self.weights.u is not None:
            parts.append(self.weights.u)
        # NaN is neither below nor above anything
        return all(-room < part.min() and part.max() < room for part in parts)

    @property
    def pending_examples(self):
        """Examples summed into a mini-batch that is not full yet."""
        return int(self.pending)

    # ----------------------------------------------------------- predicting

    def decide(self, RowSource X, double[:, ::1] out, bint averaged=False,
               Py_ssize_t start=0, Py_ssize_t stop=-1):
        """out[i] = scores of row i, intercepts included, for rows start:stop."""
        cdef Py_ssize_t i
        cdef Row row
        cdef bint mean = averaged and self.weights.averaged_count > 0
        if X.rows.n_features != self.weights.dim:
            raise ValueError(f"rows have {X.rows.n_features} features, "
                             f"the model {self.weights.dim}")
        if stop < 0:
            stop = X.rows.n_rows
        if not 0 <= start <= stop <= X.rows.n_rows or out.shape[0] != X.rows.n_rows \
                or out.shape[1] != self.n_out:
            raise ValueError("out does not fit the rows")
        # The average is written out once when there are enough rows to pay for it.
        if mean and (stop - start) * (1 + self._mean_count(X)) > 2 * self.weights.dim:
            frozen = self.frozen_average()
            frozen.decide(X, out, False, start, stop)
            return
        with nogil:
            for i in range(start, stop):
                rows_get(&X.rows, i, &row)
                self._score(&row, mean, &out[i, 0])

    cdef void _score(self, const Row *row, bint mean, double *out) noexcept nogil:
        """Scores of one row, intercepts included; of the average with `mean`."""
        cdef Py_ssize_t k
        if self.vec != NULL:
            if mean:
                out[0] = svec_average_dot(self.vec, row) + self.b_sum[0] / self.vec.avg_count
            else:
                out[0] = svec_dot(self.vec, row) + self.b[0]
        elif mean:
            smat_average_dot(self.mat, row, out)
            for k in range(self.n_out):
                out[k] += self.b_sum[k] / self.mat.avg_count
        else:
            smat_dot(self.mat, row, out)
            for k in range(self.n_out):
                out[k] += self.b[k]

    def frozen_average(self):
        """A learner whose plain weights are this one's average, for prediction."""
        cdef SGDLearner twin = self._like(None)
        twin.weights.set_array(self.weights.array(averaged=True))
        twin.intercept[:] = self.average_intercept()
        return twin

    def average_intercept(self):
        """The averaged intercepts; the last ones while nothing has been averaged."""
        n = self.weights.averaged_count
        return self.intercept_sum / n if n else self.intercept.copy()

    # ------------------------------------------------------- saving, copying

    cdef SGDLearner _like(self, weights, Py_ssize_t n_out=0):
        """A learner with the same options and given (or zero) weights."""
        cdef StepSpec step = StepSpec.__new__(StepSpec, 0)
        cdef SGDLearner twin
        step.step = self.step
        twin = SGDLearner(
            self.weights.dim, n_out or self.n_out, self.weights.v.dtype, self.loss_spec, step,
            reg=self.options.reg, radius=self.options.radius,
            average_from=self.options.average_from if weights is not None else -1.0,
            intercept_eta0=self.options.intercept_eta0, batch_size=self.options.batch_size,
            fit_intercept=self.options.fit_intercept, weights=weights)
        twin.options.error_kind = self.options.error_kind
        return twin

    def get_state(self):
        """(scalars, arrays): everything learnt, for `set_state` of an equal learner."""
        scalars, arrays = self.weights.get_state()
        scalars = {f"w_{name}": value for name, value in scalars.items()}
        scalars |= {"t": self.t, "seen": self.seen, "loss_sum": self.loss_sum,
                    "error_sum": self.error_sum, "pending": self.pending,
                    "touched_all": int(self.touched_all), "eta": self.step.eta}
        arrays = {f"w_{name}": value for name, value in arrays.items()}
        arrays |= {"intercept": self.intercept.copy(),
                   "intercept_sum": self.intercept_sum.copy()}
        if self.options.batch_size > 1:
            arrays |= {"grad": self._grad.copy(), "grad_b": self._grad_b.copy(),
                       "touched": self._touched[:self.n_touched].copy()}
        return scalars, arrays

    def set_state(self, scalars, arrays):
        """Take over what `get_state` gave; shapes must agree."""
        cls = ScaledVector if self.n_out == 1 else ScaledMatrix
        weights = cls.from_state(
            {name[2:]: value for name, value in scalars.items() if name.startswith("w_")},
            {name[2:]: value for name, value in arrays.items() if name.startswith("w_")})
        if weights.dim != self.weights.dim or weights.n_out != self.n_out:
            raise ValueError("the saved weights have another shape than the model")
        touched = arrays.get("touched")
        if touched is not None and touched.size and not (
                0 <= touched.min() and touched.max() < weights.dim):
            raise ValueError("the saved mini-batch names features that do not exist")
        for name in ("intercept", "intercept_sum"):
            if arrays[name].shape != getattr(self, name).shape:
                raise ValueError(f"the saved {name} has another shape than the model's")
        self._adopt(weights)
        self.reach = -1.0
        for name in ("intercept", "intercept_sum"):
            getattr(self, name)[:] = arrays[name]
        self.t, self.seen = scalars["t"], scalars["seen"]
        self.loss_sum, self.error_sum = scalars["loss_sum"], scalars["error_sum"]
        self.step.eta = scalars["eta"]
        if touched is not None:
            self._grad[:] = arrays["grad"]
            self._grad_b[:] = arrays["grad_b"]
            self._touched[:touched.size] = touched
            self.n_touched = touched.size
            self.pending = scalars["pending"]
            self.batch_pull = float(np.abs(arrays["grad"]).max(initial=0.0))
            self.touched_all = scalars["touched_all"]

    def copy(self):
        """An independent copy, bit for bit."""
        cdef SGDLearner twin = self._like(self.weights.copy())
        twin.set_state(*self.get_state())
        return twin

    def with_outputs(self, Py_ssize_t n_out):
        """A learner with more outputs: the old ones as they are, the new ones zero."""
        cdef SGDLearner wide
        old = self.n_out
        if n_out <= max(old, 2):
            raise ValueError(f"cannot go from {old} to {n_out} outputs")
        if self.pending:
            raise ValueError("a mini-batch is pending: flush it first")
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
        wide.t, wide.seen = self.t, self.seen
        wide.loss_sum, wide.error_sum = self.loss_sum, self.error_sum
        return wide
