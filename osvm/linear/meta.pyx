"""What the two meta-descent learners share: passes over rows, offset, counters.

The learner of one step size is in `osvm/linear/svmd.pyx`, that of one per coordinate in
`osvm/linear/smd.pyx`; both take the same calls as the plain learner of `osvm/linear/learner.pyx`.
Source: Vishwanathan, Schraudolph, Smola (JMLR 2006); (53)-(55) for the offset.

Invariants
- the state after n examples does not depend on how they were split into calls;
- rows are validated before they come here; a step that would overflow is not made,
  and the examples before it have been learnt.
"""
import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport NAN, fabs, isfinite
from libc.stdint cimport int32_t, int64_t

from osvm._parts.compiled cimport LossSpec, StepSpec
from osvm._input.rows cimport RowSource
from osvm.core.loss cimport loss_curvature, loss_value_xi, mloss_curvature_times, mloss_value_xi
from osvm.core.rows cimport rows_get, rows_prefetch
from osvm.core.step cimport smd_factor
from osvm.core.typedefs cimport Row

cdef enum Error:
    ERROR_CLASS = 0
    ERROR_ABSOLUTE = 1
    ERROR_NOVEL = 2

cdef enum:
    AHEAD = 4               # rows between a prefetch and the use

cdef double LARGEST = 1e150     # of offsets and their step sizes; saved states are held to it

_COUNTERS = ("t", "seen", "loss_sum", "error_sum")


cdef void *pointer(object array) except NULL:
    """Where a contiguous numpy array of ours keeps its numbers."""
    cdef size_t where = array.__array_interface__["data"][0]
    return <void *> where


cdef class MetaLearner:
    """Weights, offsets, step sizes and counters of one linear model.

    Parameters
    ----------
    n_features, n_out : int
        One output for binary, regression and novelty losses.
    dtype : float32 or float64
        Of the weights.
    loss : LossSpec
    step : StepSpec
        eta0, mu, decay, eta_min and eta_max of `osvm.schedules.SMD`; the cap is never
        above 1/reg.
    reg : float
    intercept_eta0 : float
        The offsets' first step size; 0 to use eta0.
    fit_intercept : bool
    error_kind : {"class", "absolute", "novel"}
    """

    def __init__(self, Py_ssize_t n_features, Py_ssize_t n_out, dtype, LossSpec loss,
                 StepSpec step, *, double reg, double intercept_eta0=0.0,
                 bint fit_intercept=False, error_kind="class"):
        if n_features < 1 or n_out < 1:
            raise ValueError(f"n_features and n_out must be at least 1, got {n_features} and "
                             f"{n_out}")
        if not 0.0 <= reg < np.inf:
            raise ValueError(f"reg must be finite and not negative, got {reg}")
        self.n_features, self.n_out, self.dtype = n_features, n_out, np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise ValueError(f"weights must be float32 or float64, not {self.dtype}")
        self.reg, self.fit_intercept = reg, fit_intercept
        self.limit = 1e19 if self.dtype == np.float32 else 1e150
        self.error_kind = {"class": ERROR_CLASS, "absolute": ERROR_ABSOLUTE,
                           "novel": ERROR_NOVEL}[error_kind]
        self.set_parts(loss, step)
        self.intercept = np.zeros(n_out)
        self._eta_b = np.full(n_out, intercept_eta0 or step.step.eta0)
        self._z_b = np.zeros(n_out)
        self._work = np.zeros(5 * n_out)
        self._scratch = np.zeros(n_features)
        self.b = <double *> pointer(self.intercept)
        self.eta_b = <double *> pointer(self._eta_b)
        self.z_b = <double *> pointer(self._z_b)
        self.f = <double *> pointer(self._work)
        self.z, self.xi = self.f + n_out, self.f + 2 * n_out
        self.chi, self.score = self.f + 3 * n_out, self.f + 4 * n_out
        self.scratch = <double *> pointer(self._scratch)

    def set_parts(self, LossSpec loss, StepSpec step):
        """Use this loss and these step parameters; the step size starts at eta0."""
        self.loss_spec = loss       # owns what the struct points at
        self.loss = loss.loss
        self.step = step.step
        if self.reg > 0.0 and self.step.eta_max > 1.0 / self.reg:
            self.step.eta_max = 1.0 / self.reg
        if self.step.eta > self.step.eta_max:
            self.step.eta = self.step.eta_max

    @property
    def eta(self):
        """The current step size (the first one, where each coordinate has its own)."""
        return self.step.eta

    @property
    def eta_intercept(self):
        """The offsets' current step sizes."""
        return self._eta_b.copy()

    # ------------------------------------------------------------- learning

    cdef double find_xi(self, double target, Py_ssize_t label, double c) noexcept nogil:
        """score and xi from f; the loss.  xi carries the example's weight c."""
        cdef Py_ssize_t k
        cdef double value, eta
        for k in range(self.n_out):
            self.score[k] = self.f[k] + self.b[k]
        if self.n_out == 1:
            value = loss_value_xi(&self.loss, target, self.score[0], self.xi)
        else:
            value = mloss_value_xi(&self.loss, self.n_out, label, self.score, 1.0, self.xi)
        for k in range(self.n_out):
            self.xi[k] *= c
            if not isfinite(self.score[k]):
                value = self.score[k] - self.score[k]   # NaN
        if self.fit_intercept:
            for k in range(self.n_out):
                eta = self.eta_b[k] * smd_factor(self.step.mu, self.xi[k] * self.z_b[k])
                # the offset's step, before anything has changed
                if not (eta + fabs(self.b[k]) + fabs(self.z_b[k])
                        + 2.0 * eta * fabs(self.xi[k]) < LARGEST):
                    value = NAN
        return value

    cdef void find_chi(self, double target, Py_ssize_t label, double c) noexcept nogil:
        """chi = rho z(x)  (46), (47)"""
        cdef Py_ssize_t k
        if self.n_out == 1:
            self.chi[0] = c * loss_curvature(&self.loss, target, self.score[0]) * self.z[0]
            return
        mloss_curvature_times(&self.loss, self.n_out, label, self.score, self.z, 1.0, self.chi)
        for k in range(self.n_out):
            self.chi[k] *= c

    cdef void step_intercept(self) noexcept nogil:
        """(54), (53), (55), with the floor of the weights' step size"""
        cdef Py_ssize_t k
        cdef double eta
        for k in range(self.n_out):
            eta = self.eta_b[k] * smd_factor(self.step.mu, self.xi[k] * self.z_b[k])
            if eta < self.step.eta_min:
                eta = self.step.eta_min
            self.eta_b[k] = eta
            self.b[k] -= eta * self.xi[k]
            self.z_b[k] = self.step.decay * self.z_b[k] - eta * self.xi[k]

    cdef int learn(self, const Row *x, double target, Py_ssize_t label, double c, double *value,
                   double *eta) noexcept nogil:
        """One example: step on all parameters, or leave all of them alone and say why."""
        return META_NOT_FINITE

    def run(self, RowSource X, targets, order=None, Py_ssize_t start=0, Py_ssize_t stop=-1,
            sample_weight=None, record=None):
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
            "eta", "loss" and "error" of example n go to entry n - start.  With a step size
            per coordinate "eta" is the mean over the example's coordinates.

        Raises
        ------
        FloatingPointError
            A step would overflow; the examples before it have been learnt.
        """
        cdef const int64_t[::1] order_view
        cdef const double[::1] y_view, weight_view
        cdef const int32_t[::1] label_view
        cdef double[::1] eta_view, loss_view, error_view
        cdef const int64_t *order_at = NULL
        cdef Py_ssize_t i, n, end, chunk, size = X.rows.n_rows, first = start, nnz
        cdef int status = META_DONE
        cdef bint weighted = sample_weight is not None, recorded = record is not None
        cdef double value = 0.0, eta = 0.0
        cdef Row row
        if X.rows.n_features != self.n_features:
            raise ValueError(f"rows have {X.rows.n_features} features, "
                             f"the model {self.n_features}")
        if order is not None:
            order_view = order
            size = order_view.shape[0]
            if size:
                order_at = &order_view[0]
        if stop < 0:
            stop = size
        if not 0 <= start <= stop <= size:
            raise ValueError(f"examples {start} to {stop} of {size}")
        if len(targets) != X.rows.n_rows:
            raise ValueError(f"{len(targets)} targets for {X.rows.n_rows} rows")
        if weighted:
            weight_view = sample_weight
            if weight_view.shape[0] != X.rows.n_rows:
                raise ValueError(f"{weight_view.shape[0]} weights for {X.rows.n_rows} rows")
        if self.n_out == 1:
            y_view = targets
        else:
            label_view = targets
        if recorded:
            eta_view, loss_view, error_view = record["eta"], record["loss"], record["error"]
        if start == stop:
            return
        nnz = (X._buffers[0].shape[0] if X.sparse else X.rows.n_rows * X.rows.n_features)
        chunk = max(1, 1_000_000 // (self.n_out * (1 + nnz // X.rows.n_rows)))
        while start < stop:
            end = min(stop, start + chunk)
            with nogil:
                for n in range(start, end):
                    i = n if order_at == NULL else order_at[n]
                    if n + AHEAD < stop:
                        rows_prefetch(&X.rows, n + AHEAD if order_at == NULL
                                      else order_at[n + AHEAD])
                    rows_get(&X.rows, i, &row)
                    status = self.learn(
                        &row, y_view[i] if self.n_out == 1 else 0.0,
                        0 if self.n_out == 1 else label_view[i],
                        weight_view[i] if weighted else 1.0, &value, &eta)
                    if status != META_DONE:
                        start = i
                        break
                    self.seen += 1.0
                    self.loss_sum += value
                    self.error_sum += self.find_error(
                        y_view[i] if self.n_out == 1 else 0.0,
                        0 if self.n_out == 1 else label_view[i])
                    if recorded:
                        eta_view[n - first] = eta
                        loss_view[n - first] = value
                        error_view[n - first] = self.error_sum / self.seen
            if status != META_DONE:
                self._complain(status, start)
            start = end
            PyErr_CheckSignals()

    cdef double find_error(self, double target, Py_ssize_t label) noexcept nogil:
        """The error of the last example's score."""
        cdef Py_ssize_t k, best = 0
        if self.n_out > 1:
            for k in range(self.n_out):
                if self.score[k] > self.score[best]:
                    best = k
            return best != label
        if self.error_kind == ERROR_CLASS:
            return (self.score[0] > 0.0) != (target > 0.0)
        if self.error_kind == ERROR_ABSOLUTE:
            return fabs(self.score[0] - target)
        return self.score[0] < 1.0

    def _complain(self, int status, Py_ssize_t row):
        self.loss_spec.raise_error()
        if status == META_NOT_FINITE:
            raise FloatingPointError(
                f"the loss or the step size is not finite at row {row}: scale the features (for "
                "example to unit norm) or the targets, or lower eta0 or mu")
        raise FloatingPointError(
            f"the step at row {row} would overflow the weights: scale the features (for example "
            "to unit norm), raise reg or lower eta0 or mu")

    def flush(self):
        """Nothing is pending: each example makes its own step."""

    @property
    def pending_examples(self):
        return 0

    def average_intercept(self):
        """The last offsets: these learners keep no average."""
        return self.intercept.copy()

    # ------------------------------------------------------- saving, copying

    def _spec(self):
        """The step as an object, with its present eta."""
        cdef StepSpec step = StepSpec.__new__(StepSpec, 0)
        step.step = self.step
        return step

    def _like(self):
        """A fresh learner with the same parts."""
        names = {ERROR_CLASS: "class", ERROR_ABSOLUTE: "absolute", ERROR_NOVEL: "novel"}
        return type(self)(self.n_features, self.n_out, self.dtype, self.loss_spec, self._spec(),
                          reg=self.reg, fit_intercept=self.fit_intercept,
                          error_kind=names[self.error_kind])

    def get_state(self):
        """(scalars, arrays): everything learnt, for `set_state` of an equal learner."""
        scalars = {name: getattr(self, name) for name in _COUNTERS} | {"eta": self.step.eta}
        arrays = {"intercept": self.intercept.copy(), "eta_b": self._eta_b.copy(),
                  "z_b": self._z_b.copy()}
        return scalars, arrays

    def set_state(self, scalars, arrays):
        """Take over what `get_state` gave; ValueError, and no change, when it does not fit."""
        self.schema().check(scalars, arrays)
        self._take(scalars, arrays)

    def schema(self):
        """What `set_state` takes."""
        raise NotImplementedError

    def _take(self, scalars, arrays):
        """Take over a state that has been found valid."""
        self.intercept[:] = arrays["intercept"]
        self._eta_b[:] = arrays["eta_b"]
        self._z_b[:] = arrays["z_b"]
        for name in _COUNTERS:
            setattr(self, name, scalars[name])
        self.step.eta = scalars["eta"]

    @classmethod
    def from_state(cls, scalars, arrays, **parts):
        """A learner made of the constructor's arguments, in a saved state."""
        self = cls(**parts)
        self.set_state(scalars, arrays)
        return self

    def copy(self):
        """An independent copy, bit for bit."""
        twin = self._like()
        twin.set_state(*self.get_state())
        return twin
