"""SVMD on sparse weights: one step size, learnt by stochastic meta-descent, O(nnz) a step.

Source: Vishwanathan, Schraudolph, Smola, Step Size Adaptation in RKHS (JMLR 2006),
equations (35)-(56) with k(x, x') = x.x'.  One example, with f(x) = W'x, the score
f(x) + b, and the trace z = sum_i decay^i df/d(log eta_{t-i}) (the paper's v):

    gv   = reg <f, z> + xi.z(x)                                           (48)
    eta <- clip(eta max(1/2, 1 - mu gv), eta_min, min(eta_max, 1/reg))    (36)
    chi  = rho z(x)                                                       (46), (47)
    z   <- (1 - eta reg) decay z - eta reg f - eta (xi + decay chi) x     (37)
    f   <- (1 - eta reg) f - eta xi x                                     (35)

<f, z> and ||f||^2 follow in O(1) from f(x), z(x) and ||x||^2 (49)-(52).

How z costs O(nnz): z = r f + u, with u a scaled vector of its own.  With dec = 1 - eta reg
and a = -eta xi the step is

    r' = decay r - eta reg / dec,   f' = dec f + a x,
    u' = dec decay u - (r' a + eta (xi + decay chi)) x.

Invariants
- |r| <= 100: beyond, r f is moved into u (O(d), rare), which bounds the cancellation
  between the two and covers dec = 0; <f, z> and ||f||^2 are then summed afresh, and also
  every max(65536, d) examples.
- u is not zero only at columns that were touched of late: `touched` lists them, so that
  folding its scale, which shrinks by `decay` with each example, costs what the rows since
  the last fold had in non-zeros.  A fold drops entries below 1e-20 of the largest one.
  The list covers all nonzero entries, may repeat a column, and is given up (`touched_all`)
  where a pass over all columns costs no more.
- All outputs share eta, r and the scales (the paper's vector-valued f).
"""
import numpy as np

from libc.math cimport fabs, isfinite, sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc, realloc

from osvm._input.schema import meta_schema

from osvm.linear.dual_steps cimport full_sq_norm
from osvm.linear.model cimport DONE, META_NOT_FINITE, META_STEP_TOO_LARGE
from osvm.linear.smd cimport MetaLearner
from osvm.linear.step_guard cimport scale_after, weight_room
from osvm._parts.compiled cimport LossSpec, StepSpec
from osvm.linear.weights cimport ScaledMatrix, ScaledVector
from osvm.core.rows cimport row_index
from osvm.core.smat cimport smat_axpy, smat_dot, smat_shrink
from osvm.core.step cimport step_smd_factor, step_clip
from osvm.core.svec cimport svec_axpy, svec_dot, svec_shrink
from osvm.core.typedefs cimport (
    WEIGHT_F32, WEIGHT_F64, Row, SMat, SVec, float32_t, float64_t, weight_t,
)

# The scale of u shrinks by `decay` with each example; it is folded below these bounds, which
# are far below those of weights, so that folds are rare.
cdef double TRACE_LOW_F32 = 1e-15, TRACE_LOW_F64 = 1e-60
cdef double TRACE_DROP = 1e-20      # of the largest entry: what a fold drops


cdef inline weight_t larger(weight_t a, weight_t b) noexcept nogil:
    """Of b and the size of a."""
    a = a if a > 0 else -a
    return a if a > b else b


cdef inline void fold_all(weight_t *u, Py_ssize_t n, double scale) noexcept nogil:
    """u <- scale u without the entries below TRACE_DROP of the largest one.

    Four maxima, and a loop without a branch, for the compiler to keep them in wide registers.
    """
    cdef Py_ssize_t j, whole = n - n % 4
    cdef weight_t a = 0, b = 0, c = 0, d = 0, least, v
    for j in range(0, whole, 4):
        a, b = larger(u[j], a), larger(u[j + 1], b)
        c, d = larger(u[j + 2], c), larger(u[j + 3], d)
    for j in range(whole, n):
        a = larger(u[j], a)
    a = larger(larger(a, b), larger(c, d))
    least = <weight_t> (scale * TRACE_DROP * a)
    for j in range(n):
        v = <weight_t> (scale * u[j])
        u[j] = v if v > least or v < -least else 0


cdef inline void add_scaled(weight_t *u, const weight_t *v, Py_ssize_t n, double keep,
                            double factor) noexcept nogil:
    """u = keep u + factor v"""
    cdef Py_ssize_t j
    for j in range(n):
        u[j] = <weight_t> (keep * u[j] + factor * v[j])


cdef inline double inner(const weight_t *u, const weight_t *v, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    cdef double total = 0.0
    for j in range(n):
        total += <double> u[j] * <double> v[j]
    return total


cdef class SVMDLearner(MetaLearner):
    """One step size for all weights; see `MetaLearner` for the parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from osvm import losses, schedules
    >>> from osvm._input.rows import RowSource
    >>> from osvm.linear.svmd import SVMDLearner
    >>> X = RowSource.dense(np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> step = schedules.SMD(eta0=0.5, mu=0.1).spec(reg=0.01)
    >>> learner = SVMDLearner(2, 1, np.float64, losses.get("hinge").spec(), step, reg=0.01)
    >>> learner.run(X, np.array([1.0, -1.0]))
    >>> learner.weights.array().round(3)
    array([ 0.498, -0.5  ])
    """
    cdef readonly object weights        # f: ScaledVector or ScaledMatrix
    cdef readonly object trace          # u, the same
    cdef SVec *vec
    cdef SVec *vec_u
    cdef SMat *mat
    cdef SMat *mat_u
    cdef void *v                        # numbers of f and of u, n_features x n_out
    cdef void *u
    cdef double *scale                  # of f, the same for all outputs
    cdef double *scale_u
    cdef bint single                    # v and u are float32
    cdef double *a                      # coefficients of one step
    cdef object _a
    cdef public double r
    cdef public double pi               # <f, z>
    cdef public double sq_f             # ||f||^2
    cdef double since                   # examples since the sums were afresh
    cdef int64_t *touched               # columns where u is not zero, unless touched_all
    cdef Py_ssize_t n_touched, room
    cdef bint touched_all

    def __cinit__(self, *args, **parts):
        self.touched = NULL

    def __dealloc__(self):
        free(self.touched)

    def __init__(self, Py_ssize_t n_features, Py_ssize_t n_out, dtype, LossSpec loss,
                 StepSpec step, **options):
        super().__init__(n_features, n_out, dtype, loss, step, **options)
        self._a = np.zeros(2 * n_out)
        cdef double[::1] a = self._a
        self.a = &a[0]
        if n_out == 1:
            self._adopt(ScaledVector(n_features, dtype, False),
                        ScaledVector(n_features, dtype, False))
        else:
            self._adopt(ScaledMatrix(n_features, n_out, dtype, False),
                        ScaledMatrix(n_features, n_out, dtype, False))

    cdef _adopt(self, weights, trace):
        cdef ScaledVector vector
        cdef ScaledMatrix matrix
        self.weights, self.trace = weights, trace
        self.vec = self.vec_u = NULL
        self.mat = self.mat_u = NULL
        self.single = self.dtype == np.float32
        if self.n_out == 1:
            vector = weights
            self.vec, self.scale, self.v = &vector.w, &vector.w.scale, vector.w.v
            vector = trace
            self.vec_u, self.scale_u, self.u = &vector.w, &vector.w.scale, vector.w.v
            self.vec_u.low = self._trace_low()
        else:
            matrix = weights
            self.mat, self.scale, self.v = &matrix.w, matrix.w.scale, matrix.w.v
            matrix = trace
            self.mat_u, self.scale_u, self.u = &matrix.w, matrix.w.scale, matrix.w.v
            self.mat_u.low = self._trace_low()

    # ------------------------------------------------------------- learning

    cdef int learn(self, const Row *x, double target, Py_ssize_t label, double c, double *value,
                   double *eta_used) noexcept nogil:
        cdef Py_ssize_t k, K = self.n_out
        cdef double *f = self.f
        cdef double *z = self.z
        cdef double *xi = self.xi
        cdef double *a = self.a
        cdef double *a_u = self.a + K
        cdef double reg = self.reg, decay = self.step.decay
        cdef double gv, eta, dec, k_self, pi, sq_f, bend, z_new, r_new, room, largest = 0.0
        cdef double xi_f = 0.0, chi_f = 0.0, xi_xi = 0.0, xi_z_new = 0.0
        cdef bint any_xi = False, any_bend = False
        if K == 1:
            f[0] = svec_dot(self.vec, x)
            z[0] = self.r * f[0] + svec_dot(self.vec_u, x)
        else:
            smat_dot(self.mat, x, f)
            smat_dot(self.mat_u, x, z)
            for k in range(K):
                z[k] += self.r * f[k]
        value[0] = self.find_xi(target, label, c)
        gv = reg * self.pi
        for k in range(K):
            gv += xi[k] * z[k]
        eta = step_clip(&self.step, self.step.eta * step_smd_factor(self.step.mu, gv))
        if not (isfinite(value[0]) and isfinite(gv) and isfinite(eta)):
            return META_NOT_FINITE
        self.find_chi(target, label, c)
        k_self = full_sq_norm(x, self.scratch)
        dec = 1.0 - eta * reg
        if dec < 0.0:
            dec = 0.0           # eta = 1/reg, but for rounding
        for k in range(K):
            bend = xi[k] + decay * self.chi[k]
            z_new = dec * decay * z[k] - eta * (reg * f[k] + k_self * bend)
            xi_f += xi[k] * f[k]
            chi_f += self.chi[k] * f[k]
            xi_xi += xi[k] * xi[k]
            xi_z_new += xi[k] * z_new
            a[k] = -eta * xi[k]
            a_u[k] = -eta * bend
            any_xi = any_xi or xi[k] != 0.0
            any_bend = any_bend or bend != 0.0
            if not fabs(a_u[k]) + fabs(a[k]) <= largest:
                largest = fabs(a_u[k]) + fabs(a[k])
        # No |x_j| is above ||x||; both are shrunk, or folded, before the step.
        room = min(1.0, scale_after(self.scale[0], dec, self._low()),
                   scale_after(self.scale_u[0], dec * decay, self._trace_low()))
        room *= weight_room(WEIGHT_F32 if self.single else WEIGHT_F64)
        if not (largest * 100.0 < self.limit * min(fabs(self.scale[0]), fabs(self.scale_u[0]))
                and largest * 100.0 * sqrt(k_self) < room and isfinite(k_self)):
            return META_STEP_TOO_LARGE
        pi = (dec * (dec * decay * self.pi - eta * (reg * self.sq_f + xi_f)           # (50)
                     - eta * decay * chi_f) - eta * xi_z_new)                         # (49)
        sq_f = (dec * dec * self.sq_f - 2.0 * eta * dec * xi_f                        # (52)
                + eta * eta * k_self * xi_xi)
        if not (isfinite(pi) and isfinite(sq_f)):
            return META_STEP_TOO_LARGE
        self.step.eta = eta
        self.pi, self.sq_f = pi, sq_f
        if dec > 0.01:
            r_new = decay * self.r - eta * reg / dec
        else:
            r_new = 1e3         # to be folded
        if fabs(r_new) > 100.0:
            self._fold_into_u(dec, decay, eta * reg)
            r_new = 0.0
        else:
            self._shrink_trace(dec * decay)
        self.r = r_new
        if K == 1:
            svec_shrink(self.vec, dec)
            if any_xi:
                svec_axpy(self.vec, a[0], x)
        else:
            smat_shrink(self.mat, dec)
            if any_xi:
                smat_axpy(self.mat, a, x)
        for k in range(K):
            a_u[k] -= r_new * a[k]
        if any_xi or any_bend:
            self._remember(x)
            if K == 1:
                svec_axpy(self.vec_u, a_u[0], x)
            else:
                smat_axpy(self.mat_u, a_u, x)
        if self.fit_intercept:
            self.step_intercept()
        self.t += 1.0
        self.since += 1.0
        if self.since >= 65536.0 and self.since >= self.n_features:
            self._sum_afresh()
        eta_used[0] = eta
        return DONE

    cdef void _fold_into_u(self, double dec, double decay, double shrink) noexcept nogil:
        """u <- dec decay (u + r f) - shrink f with scale 1, so that r can be 0.  O(d)."""
        cdef Py_ssize_t n = self.n_features * self.n_out
        cdef double keep = dec * decay * self.scale_u[0]
        cdef double factor = (dec * decay * self.r - shrink) * self.scale[0]
        if self.single:
            add_scaled(<float32_t *> self.u, <const float32_t *> self.v, n, keep, factor)
        else:
            add_scaled(<float64_t *> self.u, <const float64_t *> self.v, n, keep, factor)
        self._set_trace_scale(1.0)
        self.touched_all = True
        self.since = 1e300      # sum afresh after this step

    cdef void _set_trace_scale(self, double scale) noexcept nogil:
        cdef Py_ssize_t k
        for k in range(self.n_out):
            self.scale_u[k] = scale

    cdef void _sum_afresh(self) noexcept nogil:
        """<f, z> and ||f||^2 by their definition.  O(d)."""
        cdef Py_ssize_t n = self.n_features * self.n_out
        cdef double vv, uv
        if self.single:
            vv = inner(<const float32_t *> self.v, <const float32_t *> self.v, n)
            uv = inner(<const float32_t *> self.u, <const float32_t *> self.v, n)
        else:
            vv = inner(<const float64_t *> self.v, <const float64_t *> self.v, n)
            uv = inner(<const float64_t *> self.u, <const float64_t *> self.v, n)
        self.sq_f = self.scale[0] * self.scale[0] * vv
        self.pi = self.r * self.sq_f + self.scale[0] * self.scale_u[0] * uv
        self.since = 0.0

    # ------------------------------------------------- where the trace is not zero

    cdef void _shrink_trace(self, double factor) noexcept nogil:
        """u <- factor u, by its scale, which is folded where it gets small."""
        cdef double scale = self.scale_u[0] * factor
        if scale >= self._trace_low():
            self._set_trace_scale(scale)
            return
        self._set_trace_scale(1.0)
        if self.single:
            self._fold_scale(<float32_t *> self.u, scale)
        else:
            self._fold_scale(<float64_t *> self.u, scale)

    cdef double _low(self) noexcept nogil:
        return self.mat.low if self.vec == NULL else self.vec.low

    cdef double _trace_low(self) noexcept nogil:
        return TRACE_LOW_F32 if self.single else TRACE_LOW_F64

    cdef void _fold_scale(self, weight_t *u, double scale) noexcept nogil:
        """u <- scale u, entry by entry, and list the columns that are not zero then."""
        if self.touched_all or not self._fold_touched(u, scale):
            fold_all(u, self.n_features * self.n_out, scale)
            self._list_touched(u)

    cdef bint _fold_touched(self, weight_t *u, double scale) noexcept nogil:
        """`_fold_scale` along the list; False, and nothing done, where memory is short."""
        cdef Py_ssize_t i, k, j, kept = 0, K = self.n_out, n = self.n_touched
        cdef double largest = 0.0, least
        cdef bint any_left
        # a column may be listed twice: values are taken out first, then put back
        cdef weight_t *values = <weight_t *> malloc(max(n, 1) * K * sizeof(weight_t))
        if values == NULL:
            return False
        for i in range(n):
            j = self.touched[i]
            for k in range(K):
                largest = max(largest, fabs(u[j * K + k]))
                values[i * K + k] = u[j * K + k]
                u[j * K + k] = 0
        least = TRACE_DROP * largest * scale
        for i in range(n):
            j = self.touched[i]
            any_left = False
            for k in range(K):
                if values[i * K + k] == 0:
                    continue
                u[j * K + k] = <weight_t> (scale * values[i * K + k])
                if fabs(u[j * K + k]) <= least:
                    u[j * K + k] = 0
                any_left = any_left or u[j * K + k] != 0
            if any_left:
                self.touched[kept] = j
                kept += 1
        free(values)
        self.n_touched = kept
        return True

    cdef void _list_touched(self, const weight_t *u) noexcept nogil:
        """Find the columns where u is not zero, unless a list of them is too long.  O(d)."""
        cdef Py_ssize_t j, k, K = self.n_out, found = 0
        self.touched_all = True
        for j in range(self.n_features * K):
            found += u[j] != 0
            if found > self.n_features // 16 * K:
                return
        self.n_touched = 0
        self.touched_all = False
        for j in range(self.n_features):
            for k in range(K):
                if u[j * K + k] != 0:
                    if not self._touch(j):
                        return
                    break

    cdef bint _touch(self, Py_ssize_t j) noexcept nogil:
        """List a column; False where the list is given up."""
        cdef void *room
        if self.n_touched == self.room:
            room = NULL
            if self.n_touched <= self.n_features // 16:
                room = realloc(self.touched, (2 * self.room + 64) * sizeof(int64_t))
            if room == NULL:
                self.touched_all = True
                return False
            self.touched = <int64_t *> room
            self.room = 2 * self.room + 64
        self.touched[self.n_touched] = j
        self.n_touched += 1
        return True

    cdef void _remember(self, const Row *x) noexcept nogil:
        """List the row's columns where u is zero and is about to change."""
        if self.touched_all:
            return
        if x.indices == NULL:
            self.touched_all = True
        elif self.single:
            self._remember_new(<const float32_t *> self.u, x)
        else:
            self._remember_new(<const float64_t *> self.u, x)

    cdef void _remember_new(self, const weight_t *u, const Row *x) noexcept nogil:
        cdef Py_ssize_t i, j, k, K = self.n_out
        for i in range(x.count):
            j = row_index(x, i)
            for k in range(K):
                if u[j * K + k] != 0:
                    break
            else:
                if not self._touch(j):
                    return

    # ----------------------------------------------------------- reading

    def trace_array(self):
        """z = r f + u as a float64 array, (n_features,) or (n_out, n_features)."""
        return self.r * self.weights.array() + self.trace.array()

    cdef void _score_row(self, const Row *x, bint averaged, double *work,
                         double *out) noexcept nogil:
        cdef Py_ssize_t k
        cdef SMat mat
        if self.n_out == 1:
            out[0] = svec_dot(self.vec, x)
        else:
            mat = self.mat[0]
            mat.work = work             # scratch of this call's own, see ScaledMatrix.reader
            smat_dot(&mat, x, out)
        for k in range(self.n_out):
            out[k] += self.b[k]

    # ------------------------------------------------------- saving, copying

    def get_state(self):
        scalars, arrays = super().get_state()
        scalars |= {"r": self.r, "pi": self.pi, "sq_f": self.sq_f, "since": self.since}
        for prefix, part in (("w_", self.weights), ("u_", self.trace)):
            part_scalars, part_arrays = part.get_state()
            scalars |= {prefix + name: value for name, value in part_scalars.items()}
            arrays |= {prefix + name: value for name, value in part_arrays.items()}
        return scalars, arrays

    def schema(self):
        return meta_schema(self.n_features, self.n_out, self.dtype, per_coordinate=False,
                           reg=self.reg)

    def _take(self, scalars, arrays):
        cls = ScaledVector if self.n_out == 1 else ScaledMatrix
        parts = []
        for prefix in ("w_", "u_"):
            parts.append(cls.from_state(
                {name[2:]: a for name, a in scalars.items() if name.startswith(prefix)},
                {name[2:]: a for name, a in arrays.items() if name.startswith(prefix)}))
        super()._take(scalars, arrays)
        self._adopt(parts[0], parts[1])
        self.r, self.pi, self.sq_f = scalars["r"], scalars["pi"], scalars["sq_f"]
        self.since = scalars["since"]
        self.touched_all = True
