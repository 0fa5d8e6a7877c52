"""Stochastic meta-descent with one step size per weight, on sparse rows.

Source: Vishwanathan, Schraudolph, Smola (JMLR 2006), section 2, equations (1), (4), (7).
One example, products by coordinate:

    g    = reg w + xi x
    eta <- clip(eta max(1/2, 1 - mu g z), eta_min, min(eta_max, 1/reg))
    z   <- decay z - eta (g + decay H z),   H z = reg z + chi x,  chi = rho (z.x)
    w   <- w - eta g

A coordinate is visited when the row is not zero there.  Between two visits its eta
rests and only the regulariser moves it, which k steps at once bring up to date: with
e = eta reg and a = 1 - e,

    w <- a^k w,   z <- (decay a)^k z - e w a^(k-1) (1 - decay^k)/(1 - decay).

Where every row is dense and without zeros this is the paper's algorithm as it stands.

Invariants
- `stamp[j]` is the step that coordinate j has reached; reading never moves it, so that
  predicting in mid-stream changes no bit of what is learnt;
- a repeated column means the sum of its values.
"""
import numpy as np

from libc.math cimport fabs, isfinite, pow
from libc.stdint cimport int32_t, int64_t

from osvm._input.schema import meta_schema

from osvm.linear.meta cimport META_DONE, META_NOT_FINITE, META_STEP_TOO_LARGE, MetaLearner
from osvm._parts.compiled cimport LossSpec, StepSpec
from osvm._input.rows cimport RowSource
from osvm.linear.weights import ScaledMatrix, ScaledVector
from osvm.core.row cimport row_axpy
from osvm.core.rows cimport columns_increase, row_index, row_value, rows_get
from osvm.core.step cimport smd_factor, step_clip
from osvm.core.typedefs cimport ROW_F32_I32, ROW_F64_I32, Row, float32_t, float64_t, weight_t

cdef enum:
    TABLE = 256             # powers of decay kept ready


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
    cdef object _weights                # up to date for step _weights_t
    cdef double _weights_t

    def __init__(self, Py_ssize_t n_features, Py_ssize_t n_out, dtype, LossSpec loss,
                 StepSpec step, **options):
        super().__init__(n_features, n_out, dtype, loss, step, **options)
        shape = (n_features, n_out)
        self._w, self._z = np.zeros(shape, dtype), np.zeros(shape, dtype)
        self._eta = np.full(shape, self.step.eta, dtype)
        self._stamp = np.zeros(n_features, np.int64)
        self._powers = self.step.decay ** np.arange(TABLE)
        self._weights_t = -1.0
        self._bind()

    cdef _bind(self):
        cdef size_t where
        cdef int64_t[::1] stamp = self._stamp
        cdef double[::1] powers = self._powers
        where = self._w.__array_interface__["data"][0]
        self.w = <void *> where
        where = self._z.__array_interface__["data"][0]
        self.trace = <void *> where
        where = self._eta.__array_interface__["data"][0]
        self.etas = <void *> where
        self.stamp = &stamp[0]
        self.powers = &powers[0]
        self.single = self.dtype == np.float32

    # ------------------------------------------------------- one coordinate

    cdef double power(self, double k) noexcept nogil:
        """decay^k"""
        if k < TABLE:
            return self.powers[<Py_ssize_t> k]
        return pow(self.step.decay, k)

    cdef void catch_up(self, double k, double eta, double *w, double *z) noexcept nogil:
        """k steps of the regulariser alone."""
        cdef double e, shrunk, decayed, decay = self.step.decay
        if k <= 0.0 or (w[0] == 0.0 and z[0] == 0.0):
            return
        decayed = self.power(k)
        if self.reg == 0.0:
            z[0] *= decayed
            return
        e = eta * self.reg
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

    cdef bint is_plain(self, const Row *x) noexcept nogil:
        """No column can repeat."""
        if x.indices == NULL:
            return True
        if x.kind == ROW_F32_I32 or x.kind == ROW_F64_I32:
            return columns_increase(<const int32_t *> x.indices, x.count)
        return columns_increase(<const int64_t *> x.indices, x.count)

    cdef int learn_row(self, const Row *x, double target, Py_ssize_t label, double c,
                       double *value, double *eta_used, weight_t *w, weight_t *z,
                       weight_t *eta) noexcept nogil:
        cdef Py_ssize_t i, j, k, at, K = self.n_out, n_visited = 0
        cdef bint plain = self.is_plain(x)
        cdef double v, w_now, z_now, g, step, reg = self.reg, decay = self.step.decay
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
                w_now, z_now = w[at], z[at]
                self.catch_up(self.t - self.stamp[j], eta[at], &w_now, &z_now)
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
                w_now, z_now = w[at], z[at]
                self.catch_up(self.t - self.stamp[j], eta[at], &w_now, &z_now)
                g = reg * w_now + self.xi[k] * v
                step = step_clip(&self.step, eta[at] * smd_factor(self.step.mu, g * z_now))
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
        return META_DONE

    # ------------------------------------------------------------ reading

    cdef void read_all(self, const weight_t *w, const weight_t *z, const weight_t *eta,
                       double *w_out, double *z_out) noexcept nogil:
        """Every coordinate, up to date."""
        cdef Py_ssize_t j, k, at, K = self.n_out
        for j in range(self.n_features):
            for k in range(K):
                at = j * K + k
                w_out[at], z_out[at] = w[at], z[at]
                self.catch_up(self.t - self.stamp[j], eta[at], &w_out[at], &z_out[at])

    cdef void read_row(self, const Row *x, const weight_t *w, const weight_t *z,
                       const weight_t *eta, double *out) noexcept nogil:
        cdef Py_ssize_t i, j, k, at, K = self.n_out
        cdef double w_now, z_now
        for k in range(K):
            out[k] = self.b[k]
        for i in range(x.count):
            j = row_index(x, i)
            for k in range(K):
                at = j * K + k
                w_now, z_now = w[at], z[at]
                self.catch_up(self.t - self.stamp[j], eta[at], &w_now, &z_now)
                out[k] += row_value(x, i) * w_now

    def _read(self):
        """w and z up to date, n_features x n_out, float64."""
        w, z = np.empty((2, self.n_features, self.n_out))
        cdef double[:, ::1] w_view = w, z_view = z
        if self.single:
            self.read_all(<const float32_t *> self.w, <const float32_t *> self.trace,
                          <const float32_t *> self.etas, &w_view[0, 0], &z_view[0, 0])
        else:
            self.read_all(<const float64_t *> self.w, <const float64_t *> self.trace,
                          <const float64_t *> self.etas, &w_view[0, 0], &z_view[0, 0])
        return w, z

    @property
    def weights(self):
        """The weights up to date, as a ScaledVector or ScaledMatrix; O(d) after learning."""
        if self._weights_t != self.t or self._weights is None:
            w, _ = self._read()
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
        eta = self._eta.astype(np.float64)
        return eta[:, 0] if self.n_out == 1 else np.ascontiguousarray(eta.T)

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
                or out.shape[1] != self.n_out:
            raise ValueError("out does not fit the rows")
        with nogil:
            for i in range(start, stop):
                rows_get(&X.rows, i, &row)
                if self.single:
                    self.read_row(&row, <const float32_t *> self.w,
                                  <const float32_t *> self.trace,
                                  <const float32_t *> self.etas, &out[i, 0])
                else:
                    self.read_row(&row, <const float64_t *> self.w,
                                  <const float64_t *> self.trace,
                                  <const float64_t *> self.etas, &out[i, 0])

    def frozen_average(self):
        """A copy: these learners keep no average."""
        return self.copy()

    # ------------------------------------------------------- saving, copying

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
