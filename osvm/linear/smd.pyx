"""Stochastic meta-descent with one step size per weight, on sparse rows.

Source: Vishwanathan, Schraudolph, Smola (JMLR 2006), section 2, equations (1), (4), (7).
One example, products by coordinate:

    g    = reg w + xi x
    eta <- clip(eta max(1/2, 1 - mu g z), eta_min, min(eta_max, 1/reg))
    z   <- decay z - eta (g + decay H z),   H z = reg z + chi x,  chi = rho (z.x)
    w   <- w - eta g

A coordinate is visited when the row is not zero there.  Between two visits its eta
rests and only the regularizer moves it, which k steps at once bring up to date: with
e = eta reg and a = 1 - e,

    w <- a^k w,   z <- (decay a)^k z - e w a^(k-1) (1 - decay^k)/(1 - decay).

Where every row is dense and without zeros, or reg is 0, this is the paper's algorithm as it
stands.  On other rows the paper adapts eta at every step, by g = reg w alone where x is zero;
eta, z and w then move each other and k steps have no closed form.  `rest=False` makes those
steps one by one when the coordinate is visited or read.

Invariants
- `stamp[j]` is the step that coordinate j has reached; reading never moves it, so that
  predicting in mid-stream changes no bit of what is learnt;
- a repeated column means the sum of its values.
- the state after n examples does not depend on how they were split into calls;
- rows are validated before they come here; a step that would overflow is not made,
  and the examples before it have been learnt.

`MetaLearner` is what this learner shares with that of one step size (`osvm/linear/svmd.pyx`):
passes over rows, offset ((53)-(55) of the paper), counters.  Both take the same calls as the
plain learner of `osvm/linear/learner.pyx`.
"""
import numpy as np

from libc.math cimport NAN, fabs, isfinite, pow
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from osvm._input.schema import meta_schema

from osvm.linear.learner import ERROR_KINDS
from osvm.linear.weights import ScaledMatrix, ScaledVector

from osvm._parts.compiled cimport LossSpec, StepSpec
from osvm.linear.learner cimport Learner
from osvm.linear.model cimport (
    AHEAD, DONE, META_NOT_FINITE, META_STEP_TOO_LARGE, Examples, Record, error_of, pointer,
)
from osvm.linear.weights cimport weight_kind
from osvm.core.loss cimport loss_curvature, loss_value_xi
from osvm.core.mloss cimport mloss_curvature_times, mloss_value_xi
from osvm.core.row cimport row_axpy
from osvm.core.rows cimport row_index, row_is_sorted, row_value, rows_get, rows_prefetch
from osvm.core.step cimport step_smd_factor, step_clip
from osvm.core.typedefs cimport Row, float32_t, float64_t, weight_t

cdef enum:
    TABLE = 256             # powers of decay kept ready

cdef double LARGEST = 1e150     # of offsets and their step sizes; saved states are held to it

_COUNTERS = ("t", "seen", "loss_sum", "error_sum")


cdef class MetaLearner(Learner):
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
        self._set_shape(n_features, n_out)
        if not 0.0 <= reg < np.inf:
            raise ValueError(f"reg must be finite and not negative, got {reg}")
        self.dtype = np.dtype(dtype)
        weight_kind(self.dtype)
        self.reg, self.fit_intercept = reg, fit_intercept
        self.limit = 1e19 if self.dtype == np.float32 else 1e150
        self.error_kind = ERROR_KINDS[error_kind]
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
                eta = self.eta_b[k] * step_smd_factor(self.step.mu, self.xi[k] * self.z_b[k])
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
            eta = self.eta_b[k] * step_smd_factor(self.step.mu, self.xi[k] * self.z_b[k])
            if eta < self.step.eta_min:
                eta = self.step.eta_min
            self.eta_b[k] = eta
            self.b[k] -= eta * self.xi[k]
            self.z_b[k] = self.step.decay * self.z_b[k] - eta * self.xi[k]

    cdef int learn(self, const Row *x, double target, Py_ssize_t label, double c, double *value,
                   double *eta) noexcept nogil:
        """One example: step on all parameters, or leave all of them alone and say why."""
        return META_NOT_FINITE

    cdef int _learn(self, const Examples *examples, Py_ssize_t *at,
                    Py_ssize_t stop) noexcept nogil:
        """With a step size per coordinate the "eta" recorded is the mean over the row's."""
        cdef const int64_t *order = examples.order
        cdef Record record = examples.record
        cdef Py_ssize_t n, i, label = 0, start = at[0], K = self.n_out
        cdef double target = 0.0, value = 0.0, eta = 0.0
        cdef int status
        cdef Row row
        for n in range(start, stop):
            i = n if order == NULL else order[n]
            if n + AHEAD < stop:
                rows_prefetch(examples.X, n + AHEAD if order == NULL else order[n + AHEAD])
            rows_get(examples.X, i, &row)
            if K == 1:
                target = examples.y[i]
            else:
                label = examples.labels[i]
            status = self.learn(&row, target, label,
                                1.0 if examples.weight == NULL else examples.weight[i],
                                &value, &eta)
            if status != DONE:
                return status
            self.seen += 1.0
            self.loss_sum += value
            self.error_sum += error_of(self.error_kind, K, self.score, target, label)
            if record.eta != NULL:
                record.eta[n - start], record.loss[n - start] = eta, value
                record.error[n - start] = self.error_sum / self.seen
            if record.score != NULL:
                memcpy(record.score + (n - start) * K, self.score, K * sizeof(double))
            at[0] = n + 1
        return DONE

    cdef double _seen(self) noexcept nogil:
        return self.seen

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
        cdef MetaLearner made = type(self)(
            self.n_features, self.n_out, self.dtype, self.loss_spec, self._spec(), reg=self.reg,
            fit_intercept=self.fit_intercept)
        made.error_kind = self.error_kind
        return made

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
        copied = self._like()
        copied.set_state(*self.get_state())
        return copied


cdef class SMDLearner(MetaLearner):
    """One step size per weight; see `MetaLearner` for the parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from osvm import losses, schedules
    >>> from osvm._input.rows import RowSource
    >>> from osvm.linear.smd import SMDLearner
    >>> X = RowSource.dense(np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> step = schedules.SMD(eta0=0.5, per_coordinate=True).spec(reg=0.01)
    >>> learner = SMDLearner(2, 1, np.float64, losses.get("hinge").spec(), step, reg=0.01)
    >>> learner.run(X, np.array([1.0, -1.0]))
    >>> learner.weights.array()
    array([ 0.4975, -0.5   ])
    """
    cdef object _w, _z, _eta, _stamp, _powers
    cdef void *w                        # n_features x n_out each
    cdef void *trace
    cdef void *etas
    cdef int64_t *stamp
    cdef double *powers                 # decay^0 .. decay^(TABLE - 1)
    cdef bint single
    cdef bint rest                      # eta stays as it is between visits
    cdef object _weights                # up to date for step _weights_t
    cdef double _weights_t

    def __init__(self, Py_ssize_t n_features, Py_ssize_t n_out, dtype, LossSpec loss,
                 StepSpec step, *, bint rest=True, **options):
        super().__init__(n_features, n_out, dtype, loss, step, **options)
        self.rest = rest
        shape = (n_features, n_out)
        self._w, self._z = np.zeros(shape, dtype), np.zeros(shape, dtype)
        self._eta = np.full(shape, self.step.eta, dtype)
        self._stamp = np.zeros(n_features, np.int64)
        self._powers = self.step.decay ** np.arange(TABLE)
        self._weights_t = -1.0
        self.w, self.trace, self.etas = pointer(self._w), pointer(self._z), pointer(self._eta)
        self.stamp = <int64_t *> pointer(self._stamp)
        self.powers = <double *> pointer(self._powers)
        self.single = self.dtype == np.float32

    # ------------------------------------------------------- one coordinate

    cdef double power(self, double k) noexcept nogil:
        """decay^k"""
        if k < TABLE:
            return self.powers[<Py_ssize_t> k]
        return pow(self.step.decay, k)

    cdef void catch_up(self, double k, double *eta, double *w, double *z) noexcept nogil:
        """k steps of the regularizer alone."""
        cdef double e, g, shrunk, decayed, decay = self.step.decay
        if k <= 0.0 or (w[0] == 0.0 and z[0] == 0.0):
            return
        decayed = self.power(k)
        if self.reg == 0.0:
            z[0] *= decayed
            return
        if not self.rest:
            while k > 0.0 and (w[0] != 0.0 or z[0] != 0.0):
                g = self.reg * w[0]
                eta[0] = step_clip(&self.step, eta[0] * step_smd_factor(self.step.mu, g * z[0]))
                z[0] = decay * z[0] - eta[0] * (g + decay * self.reg * z[0])
                w[0] -= eta[0] * g
                k -= 1.0
            return
        e = eta[0] * self.reg
        if k == 1.0:
            z[0] = decay * (1.0 - e) * z[0] - e * w[0]
            w[0] *= 1.0 - e
            return
        shrunk = pow(1.0 - e, k - 1.0)
        z[0] = decayed * shrunk * (1.0 - e) * z[0] - e * w[0] * shrunk * (
            k if decay == 1.0 else (1.0 - decayed) / (1.0 - decay))
        w[0] *= shrunk * (1.0 - e)

    # ------------------------------------------------------------- learning

    cdef int learn(self, const Row *x, double target, Py_ssize_t label, double c, double *value,
                   double *eta_used) noexcept nogil:
        if self.single:
            return self.learn_row(x, target, label, c, value, eta_used, <float32_t *> self.w,
                                  <float32_t *> self.trace, <float32_t *> self.etas)
        return self.learn_row(x, target, label, c, value, eta_used, <float64_t *> self.w,
                              <float64_t *> self.trace, <float64_t *> self.etas)

    cdef int learn_row(self, const Row *x, double target, Py_ssize_t label, double c,
                       double *value, double *eta_used, weight_t *w, weight_t *z,
                       weight_t *eta) noexcept nogil:
        cdef Py_ssize_t i, j, k, at, K = self.n_out, n_visited = 0
        cdef bint plain = row_is_sorted(x)
        cdef double v, w_now, z_now, eta_now, g, step, reg = self.reg, decay = self.step.decay
        cdef double eta_sum = 0.0, largest = 0.0, xi_largest = 0.0
        for k in range(K):
            self.f[k] = 0.0
            self.z[k] = 0.0
        if not plain:
            row_axpy(x, 1.0, self.scratch)
        # Read, without changing anything yet.
        for i in range(x.count):
            j = row_index(x, i)
            v = row_value(x, i)
            if v == 0.0:
                continue
            if fabs(v) > largest:
                largest = fabs(v)
            for k in range(K):
                at = j * K + k
                w_now, z_now, eta_now = w[at], z[at], eta[at]
                self.catch_up(self.t - self.stamp[j], &eta_now, &w_now, &z_now)
                self.f[k] += v * w_now
                self.z[k] += v * z_now
        value[0] = self.find_xi(target, label, c)
        self.find_chi(target, label, c)
        for k in range(K):
            if not isfinite(self.z[k]):
                value[0] = self.z[k] - self.z[k]
            xi_largest = max(xi_largest, fabs(self.xi[k]) + fabs(self.chi[k]))
        if not isfinite(value[0]) or not xi_largest * largest < self.limit:
            if not plain:
                for i in range(x.count):
                    self.scratch[row_index(x, i)] = 0.0
            return META_NOT_FINITE if not isfinite(value[0]) else META_STEP_TOO_LARGE
        for i in range(x.count):
            j = row_index(x, i)
            v = row_value(x, i)
            if not plain:
                v = self.scratch[j]
                self.scratch[j] = 0.0
            if v == 0.0:
                continue
            n_visited += 1
            for k in range(K):
                at = j * K + k
                w_now, z_now, eta_now = w[at], z[at], eta[at]
                self.catch_up(self.t - self.stamp[j], &eta_now, &w_now, &z_now)
                g = reg * w_now + self.xi[k] * v
                step = step_clip(&self.step, eta_now * step_smd_factor(self.step.mu, g * z_now))
                eta[at] = <weight_t> step
                step = eta[at]
                eta_sum += step
                z[at] = <weight_t> (decay * z_now
                                    - step * (g + decay * (reg * z_now + self.chi[k] * v)))
                w[at] = <weight_t> (w_now - step * g)
            self.stamp[j] = <int64_t> self.t + 1
        if self.fit_intercept:
            self.step_intercept()
        self.t += 1.0
        eta_used[0] = eta_sum / (n_visited * K) if n_visited > 0 else self.step.eta
        return DONE

    # ------------------------------------------------------------ reading

    cdef void read_all(self, const weight_t *w, const weight_t *z, const weight_t *eta,
                       double *w_out, double *z_out, double *eta_out) noexcept nogil:
        """Every coordinate, up to date."""
        cdef Py_ssize_t j, k, at, K = self.n_out
        for j in range(self.n_features):
            for k in range(K):
                at = j * K + k
                w_out[at], z_out[at], eta_out[at] = w[at], z[at], eta[at]
                self.catch_up(self.t - self.stamp[j], &eta_out[at], &w_out[at], &z_out[at])

    cdef void read_row(self, const Row *x, const weight_t *w, const weight_t *z,
                       const weight_t *eta, double *out) noexcept nogil:
        cdef Py_ssize_t i, j, k, at, K = self.n_out
        cdef double w_now, z_now, eta_now
        for k in range(K):
            out[k] = self.b[k]
        for i in range(x.count):
            j = row_index(x, i)
            for k in range(K):
                at = j * K + k
                w_now, z_now, eta_now = w[at], z[at], eta[at]
                self.catch_up(self.t - self.stamp[j], &eta_now, &w_now, &z_now)
                out[k] += row_value(x, i) * w_now

    def _read(self):
        """w, z and eta up to date, n_features x n_out, float64."""
        w, z, eta = np.empty((3, self.n_features, self.n_out))
        cdef double[:, ::1] w_view = w, z_view = z, eta_view = eta
        if self.single:
            self.read_all(<const float32_t *> self.w, <const float32_t *> self.trace,
                          <const float32_t *> self.etas, &w_view[0, 0], &z_view[0, 0],
                          &eta_view[0, 0])
        else:
            self.read_all(<const float64_t *> self.w, <const float64_t *> self.trace,
                          <const float64_t *> self.etas, &w_view[0, 0], &z_view[0, 0],
                          &eta_view[0, 0])
        return w, z, eta

    @property
    def weights(self):
        """The weights up to date, as a ScaledVector or ScaledMatrix; O(d) after learning."""
        if self._weights_t != self.t or self._weights is None:
            w = self._read()[0]
            if self.n_out == 1:
                weights = ScaledVector(self.n_features, self.dtype)
                weights.set_array(w[:, 0])
            else:
                weights = ScaledMatrix(self.n_features, self.n_out, self.dtype)
                weights.set_array(w.T)
            self._weights, self._weights_t = weights, self.t
        return self._weights

    def trace_array(self):
        """z up to date, (n_features,) or (n_out, n_features)."""
        z = self._read()[1]
        return z[:, 0] if self.n_out == 1 else np.ascontiguousarray(z.T)

    def eta_array(self):
        """The step sizes, (n_features,) or (n_out, n_features), as float64."""
        eta = self._read()[2]
        return eta[:, 0] if self.n_out == 1 else np.ascontiguousarray(eta.T)

    cdef void _score_row(self, const Row *x, bint averaged, double *work,
                         double *out) noexcept nogil:
        if self.single:
            self.read_row(x, <const float32_t *> self.w, <const float32_t *> self.trace,
                          <const float32_t *> self.etas, out)
        else:
            self.read_row(x, <const float64_t *> self.w, <const float64_t *> self.trace,
                          <const float64_t *> self.etas, out)

    # ------------------------------------------------------- saving, copying

    def _like(self):
        cdef SMDLearner made = super()._like()
        made.rest = self.rest
        return made

    def get_state(self):
        scalars, arrays = super().get_state()
        arrays |= {"w": self._w.copy(), "z": self._z.copy(), "etas": self._eta.copy(),
                   "stamp": self._stamp.copy()}
        return scalars, arrays

    def schema(self):
        return meta_schema(self.n_features, self.n_out, self.dtype, per_coordinate=True,
                           reg=self.reg)

    def _take(self, scalars, arrays):
        super()._take(scalars, arrays)
        self._w[:], self._z[:] = arrays["w"], arrays["z"]
        self._eta[:], self._stamp[:] = arrays["etas"], arrays["stamp"]
        self._weights_t = -1.0
