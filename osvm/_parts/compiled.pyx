"""The C structs behind `osvm.losses`, `osvm.schedules` and `osvm.kernels`, and kernel values.

Users never meet these objects: `part.spec()` makes one, a compiled loop reads its
struct.  The array methods call the very functions that the loops call, element by
element, so that what is plotted or tested is what the loops compute.

Invariants
- a spec keeps alive everything that its struct points at;
- a Python loss or kernel that raises is not called again: the exception is stored, the
  loop receives NaN, and `raise_error` (to be called after the loop) raises it.
"""
from _thread import get_ident

import numpy as np

from cpython.pycapsule cimport PyCapsule_CheckExact, PyCapsule_GetContext
from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer
from libc.math cimport NAN
from libc.stdint cimport int64_t

from osvm._c.engine cimport rows_against, rows_free, rows_init
from osvm._input.rows cimport RowSource
from osvm.core.kernel cimport (
    KERNEL_CUSTOM, KERNEL_PRECOMPUTED, kernel_from_dot, kernel_from_dots, kernel_init, kernel_rows,
    kernel_self, kernel_uses_dots,
)
from osvm.core.loss cimport (
    LOSS_CUSTOM, LOSS_GRAPH_HINGE, loss_curvature_margin, loss_init, loss_is_multi,
    loss_value_margin, loss_value_xi_margin, loss_xi_margin,
)
from osvm.core.mloss cimport mloss_curvature_times, mloss_softmax_probability, mloss_value_xi
from osvm.core.rows cimport row_index, row_value, rows_get
from osvm.core.step cimport step_eta, step_init, step_next, step_set_reg, step_smd_adapt
from osvm.core.typedefs cimport STATUS_OK, Row, Rows, loss_fn, weight_t

LOSS_SIGNATURE = "double (double, double, void *)"


# ------------------------------------------------------------------ losses

cdef double python_value(double y, double f, void *user) noexcept nogil:
    with gil:
        return (<LossSpec> user)._call(0, y, f)


cdef double python_dloss(double y, double f, void *user) noexcept nogil:
    with gil:
        return (<LossSpec> user)._call(1, y, f)


cdef double python_curvature(double y, double f, void *user) noexcept nogil:
    with gil:
        return (<LossSpec> user)._call(2, y, f)


cdef loss_fn unpack_callable(object function, str role, void **user) except *:
    """Function pointer and user data of a scipy.LowLevelCallable."""
    try:
        capsule = tuple.__getitem__(function, 0)
    except (TypeError, IndexError):
        capsule = None
    if not PyCapsule_CheckExact(capsule):
        raise TypeError(f"{role} must be a scipy.LowLevelCallable with signature "
                        f"'{LOSS_SIGNATURE}', not {type(function).__name__}")
    cdef const char *name = PyCapsule_GetName(capsule)
    signature = "" if name == NULL else (<bytes> name).decode()
    if "".join(signature.split()) != "".join(LOSS_SIGNATURE.split()):
        raise ValueError(f"{role} has signature '{signature}', expected '{LOSS_SIGNATURE}'")
    user[0] = PyCapsule_GetContext(capsule)
    return <loss_fn> PyCapsule_GetPointer(capsule, name)


def _broadcast(*arrays):
    """The common shape, and each array as contiguous float64 of that shape, flattened."""
    arrays = np.broadcast_arrays(*[np.asarray(a, dtype=np.float64) for a in arrays])
    return arrays[0].shape, [np.ascontiguousarray(a).reshape(-1) for a in arrays]


cdef class LossSpec:
    """A `Loss` struct; made by `osvm.losses`."""

    def __cinit__(self, int kind, double p0=0.0, double p1=0.0, delta=None):
        loss_init(&self.loss, kind)
        self.loss.p0 = p0
        self.loss.p1 = p1
        if kind == LOSS_GRAPH_HINGE:
            self._delta = np.array(delta, dtype=np.float64, order="C", ndmin=2)
            if self._delta.shape[0] != self._delta.shape[1] or self._delta.shape[0] == 0:
                raise ValueError("the label distances must be a square matrix")
            self.loss.delta = &self._delta[0, 0]
            self.loss.n_labels = self._delta.shape[0]

    @staticmethod
    def python(owner):
        """A loss that calls `owner.value(y, f)`, `.dloss(y, f)` and, if there, `.curvature`."""
        cdef LossSpec self = LossSpec.__new__(LossSpec, LOSS_CUSTOM)
        self._owner = owner
        self.loss.value_fn = python_value
        self.loss.dloss_fn = python_dloss
        if hasattr(owner, "curvature"):
            self.loss.curvature_fn = python_curvature
        self.loss.user = <void *> self  # borrowed: the struct lives inside this object
        return self

    @staticmethod
    def compiled(value, dloss, curvature=None):
        """A loss made of `scipy.LowLevelCallable` objects that share one user pointer."""
        cdef LossSpec self = LossSpec.__new__(LossSpec, LOSS_CUSTOM)
        cdef void *user = NULL
        self._owner = (value, dloss, curvature)
        self.loss.value_fn = unpack_callable(value, "value", &self.loss.user)
        self.loss.dloss_fn = unpack_callable(dloss, "dloss", &user)
        if user != self.loss.user:
            raise ValueError("value and dloss carry different user data; a loss has one")
        if curvature is not None:
            self.loss.curvature_fn = unpack_callable(curvature, "curvature", &user)
            if user != self.loss.user:
                raise ValueError("value and curvature carry different user data; a loss has one")
        return self

    cdef double _call(self, int which, double y, double f) noexcept:
        if self.error is not None:
            return NAN
        try:
            if which == 0:
                return self._owner.value(y, f)
            if which == 1:
                return self._owner.dloss(y, f)
            return self._owner.curvature(y, f)
        except BaseException as error:  # raised again by raise_error
            self.error = error
            return NAN

    cpdef raise_error(self):
        """Raise what a Python loss raised inside a loop, once; else do nothing."""
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    @property
    def kind(self):
        return self.loss.kind

    cdef _each(self, int which, y, f, double margin):
        """The loss (0), its first (1) or its second (2) derivative at each pair."""
        if loss_is_multi(&self.loss):
            raise ValueError("this loss takes all scores of an example at once; "
                             "use multi_value_dloss")
        shape, (y, f) = _broadcast(y, f)
        out = np.empty(len(f))
        cdef const double[::1] ys = y, fs = f
        cdef double[::1] values = out
        cdef Py_ssize_t i
        with nogil:
            for i in range(values.shape[0]):
                if which == 0:
                    values[i] = loss_value_margin(&self.loss, ys[i], fs[i], margin)
                elif which == 1:
                    values[i] = loss_xi_margin(&self.loss, ys[i], fs[i], margin)
                else:
                    values[i] = loss_curvature_margin(&self.loss, ys[i], fs[i], margin)
        self.raise_error()
        return out.reshape(shape)[()]

    def value(self, y, f, double margin=1.0):
        """The loss at each pair of `y` and `f`."""
        return self._each(0, y, f, margin)

    def dloss(self, y, f, double margin=1.0):
        """xi, the derivative by `f`."""
        return self._each(1, y, f, margin)

    def curvature(self, y, f, double margin=1.0):
        """rho, the second derivative by `f`."""
        return self._each(2, y, f, margin)

    def value_dloss(self, double y, double f, double margin=1.0):
        """The value and xi from the call that computes both, as loops do.  For tests."""
        cdef double xi = 0.0
        value = loss_value_xi_margin(&self.loss, y, f, margin, &xi)
        self.raise_error()
        return value, xi

    def _scores(self, labels, scores):
        """`labels` as int64 and `scores` as float64 rows of K numbers, checked."""
        scores = np.ascontiguousarray(scores, dtype=np.float64)
        if scores.ndim != 2:
            raise ValueError(f"scores must be two-dimensional, one row per example; "
                             f"got {scores.ndim} dimension(s)")
        labels = np.ascontiguousarray(labels)
        if labels.dtype.kind not in "iu":
            raise ValueError("labels must be whole numbers from 0 to K - 1")
        labels = labels.astype(np.int64, copy=False)
        if labels.shape != (scores.shape[0],):
            raise ValueError(f"{scores.shape[0]} rows of scores but labels of shape "
                             f"{labels.shape}")
        if len(labels) and not 0 <= labels.min() <= labels.max() < scores.shape[1]:
            raise ValueError(f"labels must lie between 0 and {scores.shape[1] - 1}")
        if self.loss.kind == LOSS_GRAPH_HINGE and self.loss.n_labels != scores.shape[1]:
            raise ValueError(f"{scores.shape[1]} scores an example, but distances between "
                             f"{self.loss.n_labels} labels")
        return labels, scores

    def multi_value_dloss(self, labels, scores, double margin=1.0):
        """Values (n,) and xi (n, K); a scalar loss works one-vs-rest."""
        labels, scores = self._scores(labels, scores)
        value, xi = np.empty(scores.shape[0]), np.empty(scores.shape)
        cdef const int64_t[::1] label = labels
        cdef const double[:, ::1] f = scores
        cdef double[::1] values = value
        cdef double[:, ::1] xis = xi
        cdef Py_ssize_t i
        if f.shape[1] > 0:
            with nogil:
                for i in range(f.shape[0]):
                    values[i] = mloss_value_xi(&self.loss, f.shape[1], label[i], &f[i, 0],
                                               margin, &xis[i, 0])
            self.raise_error()
        return value, xi

    def multi_curvature_times(self, labels, scores, z, double margin=1.0):
        """rho z, row by row: (n, K)."""
        labels, scores = self._scores(labels, scores)
        z = np.ascontiguousarray(np.broadcast_to(np.asarray(z, dtype=np.float64), scores.shape))
        out = np.empty(scores.shape)
        cdef const int64_t[::1] label = labels
        cdef const double[:, ::1] f = scores, zs = z
        cdef double[:, ::1] outs = out
        cdef Py_ssize_t i
        if f.shape[1] > 0:
            with nogil:
                for i in range(f.shape[0]):
                    mloss_curvature_times(&self.loss, f.shape[1], label[i], &f[i, 0], &zs[i, 0],
                                          margin, &outs[i, 0])
            self.raise_error()
        return out


def softmax(scores):
    """exp(f_k) / sum exp(f), row by row."""
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    out = np.empty(scores.shape)
    cdef const double[:, ::1] f = scores
    cdef double[:, ::1] p = out
    cdef Py_ssize_t i
    if f.shape[1] > 0:
        with nogil:
            for i in range(f.shape[0]):
                mloss_softmax_probability(f.shape[1], &f[i, 0], &p[i, 0])
    return out


# --------------------------------------------------------------- step sizes

cdef class StepSpec:
    """A `Step` struct; made by `osvm.schedules`.  `eta` is SMD's current value."""

    def __cinit__(self, int kind, *, double eta0=0.0, double reg=0.0, double t0=0.0,
                  double tau=0.0, double C=0.0, double mu=0.0, double decay=0.0,
                  double eta_min=0.0, eta_max=None, double forget=1.0, double alpha=0.0,
                  int flags=0):
        step_init(&self.step, kind, eta0)
        self.step.forget, self.step.alpha, self.step.flags = forget, alpha, flags
        self.step.t0 = t0
        self.step.tau = tau
        self.step.C = C
        self.step.mu = mu
        self.step.decay = decay
        self.step.eta_min = eta_min
        if eta_max is None:
            step_set_reg(&self.step, reg)
        else:
            self.step.reg = reg
            self.step.eta_max = eta_max
            if self.step.eta > self.step.eta_max:
                self.step.eta = self.step.eta_max

    @property
    def kind(self):
        return self.step.kind

    @property
    def eta(self):
        return self.step.eta

    @eta.setter
    def eta(self, double value):
        self.step.eta = value

    @property
    def eta_min(self):
        return self.step.eta_min

    @property
    def eta_max(self):
        return self.step.eta_max

    def value(self, t):
        """The schedule at each t."""
        shape, (ts,) = _broadcast(t)
        out = np.empty(len(ts))
        cdef const double[::1] t_ = ts
        cdef double[::1] values = out
        cdef Py_ssize_t i
        with nogil:
            for i in range(values.shape[0]):
                values[i] = step_eta(&self.step, t_[i])
        return out.reshape(shape)[()]

    def next(self, double t):
        """What a loop uses at example t."""
        return step_next(&self.step, t)

    def adapt(self, double gv):
        """One step of SMD with the current gradient times the trace; the new eta."""
        return step_smd_adapt(&self.step, gv)


# ------------------------------------------------------------------ kernels

cdef object row_as_array(const Row *x, Py_ssize_t n_features):
    """A (1, d) dense array or CSR array with a copy of the row."""
    cdef Py_ssize_t k
    values = np.empty(x.count)
    cdef double[::1] v = values
    for k in range(x.count):
        v[k] = row_value(x, k)
    if x.indices == NULL:
        return values.reshape(1, -1)
    from scipy.sparse import csr_array
    columns = np.empty(x.count, dtype=np.int64)
    cdef int64_t[::1] c = columns
    for k in range(x.count):
        c[k] = row_index(x, k)
    indptr = np.array([0, x.count])
    return csr_array((values, columns, indptr), shape=(1, n_features))


cdef double python_kernel(const Row *x, const Row *z, void *user) noexcept nogil:
    cdef double value
    with gil:
        spec = <KernelSpec> user
        thread = get_ident()
        if spec._errors and thread in spec._errors:
            return NAN
        try:
            result = spec._function(row_as_array(x, spec.n_features),
                                    row_as_array(z, spec.n_features))
            value = np.asarray(result, dtype=np.float64).reshape(-1)[0]
        except BaseException as error:  # raised again by raise_error
            spec._errors[thread] = error
            value = NAN
        return value


cdef class KernelSpec:
    """A `Kernel` struct; made by `osvm.kernels`."""

    def __cinit__(self, int kind, *, double gamma=1.0, double coef0=0.0, int degree=3,
                  function=None, Py_ssize_t n_features=0):
        kernel_init(&self.kernel, kind, gamma)
        self.kernel.coef0 = coef0
        self.kernel.degree = degree
        self.n_features = n_features
        self._errors = {}
        if kind == KERNEL_CUSTOM:
            self._function = function
            self.kernel.kernel_fn = python_kernel
            self.kernel.user = <void *> self  # borrowed: the struct lives inside this object

    cpdef raise_error(self):
        """Raise what a Python kernel raised in a loop of this thread, once; else do nothing."""
        if self._errors:
            error = self._errors.pop(get_ident(), None)
            if error is not None:
                raise error

    @property
    def error(self):
        """The exception that waits for `raise_error` in this thread, or None."""
        return self._errors.get(get_ident())

    @property
    def kind(self):
        return self.kernel.kind

    @property
    def uses_dots(self):
        return kernel_uses_dots(&self.kernel)

    def from_dot(self, double dot, double sq_x=0.0, double sq_z=0.0):
        """k(x, z) from x.z, ||x||^2 and ||z||^2."""
        return kernel_from_dot(&self.kernel, dot, sq_x, sq_z)

    def self_value(self, double sq_x):
        """k(x, x) from ||x||^2."""
        return kernel_self(&self.kernel, sq_x)

    def apply(self, weight_t[:, ::1] dots, const double[::1] sq_x, const weight_t[::1] sq_z):
        """Replace the (n, m) dot products by the kernel's values, in place."""
        cdef Py_ssize_t i, n = dots.shape[0], m = dots.shape[1]
        if sq_x.shape[0] != n or sq_z.shape[0] != m:
            raise ValueError("one squared norm per row and per column is needed")
        if m == 0:
            return
        with nogil:
            for i in range(n):
                kernel_from_dots(&self.kernel, &dots[i, 0], m, sq_x[i], &sq_z[0])

    def rows(self, RowSource X, RowSource Z):
        """The (n, m) values of k, one pair of rows at a time."""
        if self.kernel.kind == KERNEL_PRECOMPUTED:
            raise ValueError("a precomputed kernel has no value for two rows")
        if X.n_features != Z.n_features:
            raise ValueError(f"rows of {X.n_features} and of {Z.n_features} features")
        out = np.empty((X.n_rows, Z.n_rows))
        cdef double[:, ::1] values = out
        cdef Py_ssize_t i, j
        cdef Row x, z
        with nogil:
            for i in range(values.shape[0]):
                rows_get(&X.rows, i, &x)
                for j in range(values.shape[1]):
                    rows_get(&Z.rows, j, &z)
                    values[i, j] = kernel_rows(&self.kernel, &x, &z)
        self.raise_error()
        return out


# ------------------------------------------------------------------ kernel values
# From osvm/_c/row_set.pxd and osvm/_c/blocks.pxd; FixedRows owns the memory they look into.

cdef class FixedRows:
    """Rows that do not change, and kernel values of any rows against all of them.

    Parameters
    ----------
    spec : KernelSpec
        Not a Python function.
    X : ndarray or CSR matrix, float32 or float64
        With a precomputed kernel the n x n matrix.  A dense array in the values' type is not
        copied, nor is a CSR matrix.
    dtype : float32 or float64
        Type of the kernel values.
    order : intp array, optional
        Slot p stands for row ``order[p]`` of X.
    sparse : bool, optional
        Treat the rows as sparse; by default they are when X is.
    near : bool
        Compute distances directly where it is cheaper (rbf in up to 8 dimensions).
    """

    def __init__(self, KernelSpec spec, X, dtype, *, order=None, sparse=None, bint near=False):
        cdef const Py_ssize_t[::1] order_view
        cdef const Py_ssize_t *chosen = NULL
        cdef Py_ssize_t n = X.shape[0] if order is None else len(order)
        cdef bint wide = np.dtype(dtype) == np.float64
        cdef bint as_sparse = hasattr(X, "indptr") if sparse is None else sparse
        cdef int status
        if as_sparse and X.shape[1] > 0x7fffffff:
            raise ValueError(f"X has {X.shape[1]} features; kernels take at most 2**31 - 1: hash "
                             "the features to fewer columns")
        if spec.kernel.kind == KERNEL_PRECOMPUTED:
            if X.shape[0] != X.shape[1]:
                raise ValueError(f"a precomputed kernel matrix is square, got {X.shape}")
            if order is not None:
                X = X[np.ix_(order, order)]
            order = None
        elif order is not None and n:
            order_view = order
            chosen = &order_view[0]
        self.spec, self.order, self.source = spec, order, RowSource.of(X)
        with nogil:
            status = rows_init(&self.set, &spec.kernel, &self.source.rows, chosen, n, wide,
                               as_sparse, near)
        if status != STATUS_OK:
            raise MemoryError("no memory for kernel values")

    def __dealloc__(self):
        rows_free(&self.set)

    @property
    def near(self):
        """Distances are computed directly."""
        return bool(self.set.store.near)

    @property
    def diagonal(self):
        """k(x, x) of each slot, float64."""
        return np.array([self.set.store.k_self[s] for s in range(self.set.store.n)])

    def against(self, X=None):
        """k of the rows of X with all slots, (len(X), n); of the slots themselves without X."""
        cdef RowSource source = None if X is None else RowSource.of(X)
        cdef const Rows *rows = NULL if X is None else &source.rows
        cdef Py_ssize_t n = self.set.store.n if X is None else source.n_rows
        cdef int status
        values = np.empty((n, self.set.store.n), np.float64 if self.set.store.f64 else np.float32)
        cdef void *out = <void *> <size_t> values.ctypes.data
        with nogil:
            status = rows_against(&self.set, rows, n, out)
        if status != STATUS_OK:
            raise MemoryError("no memory for kernel values")
        return values
