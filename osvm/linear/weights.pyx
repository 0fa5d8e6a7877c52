"""Weights as Python objects: numpy arrays with the compiled view beside them.

`ScaledVector` is w = s*v for one output, `ScaledMatrix` W = V diag(s) for K
outputs.  The loops use the structs (`.w`); Python reads weights out, saves and
restores them, and the tests drive every operation from here.
"""
import numpy as np

from osvm._input.schema import weights_schema

from libc.math cimport sqrt

from osvm._input.rows cimport RowSource
from osvm.core.rows cimport rows_get
from osvm.core.smat cimport (
    smat_average_dot, smat_axpy, smat_count_average, smat_dot, smat_fold, smat_init, smat_project,
    smat_project_one, smat_recompute_norm, smat_shrink, smat_shrink_one, smat_sq_norm_one,
    smat_start_average, smat_write, smat_write_average,
)
from osvm.core.svec cimport (
    svec_average_dot, svec_axpy, svec_count_average, svec_dot, svec_dot_ahead, svec_fold,
    svec_init, svec_project, svec_recompute_norm, svec_reset, svec_shrink, svec_sq_norm,
    svec_start_average, svec_write, svec_write_average,
)
from osvm.core.typedefs cimport WEIGHT_F32, WEIGHT_F64, Row, SMat, SVec

cdef extern from "../_c/simd.h" nogil:
    int osvm_simd_limit(int level)


cdef enum:
    LARGE_PAGE = 2097152
    LARGE_WEIGHTS = 1048576     # bytes from which large pages pay


def limit_simd(int level):
    """Use at most this level of wide loops in this module; the level in use.  For tests."""
    return osvm_simd_limit(level)


cdef void *address(object array) except NULL:
    """Where a C-contiguous numpy array keeps its numbers."""
    if not array.flags.c_contiguous:
        raise ValueError("weights must be C-contiguous")
    cdef size_t where = array.__array_interface__["data"][0]
    return <void *> where


cdef int weight_kind(object dtype) except -1:
    if dtype == np.float32:
        return WEIGHT_F32
    if dtype == np.float64:
        return WEIGHT_F64
    raise ValueError(f"weights must be float32 or float64, not {dtype}")


cdef Row row_of(RowSource X, Py_ssize_t i, Py_ssize_t dim) except *:
    """Row i of X, which must fit weights of this dimension."""
    cdef Row row
    if not 0 <= i < X.rows.n_rows:
        raise IndexError(f"row {i} of {X.rows.n_rows}")
    if X.rows.n_features != dim:
        raise ValueError(f"rows have {X.rows.n_features} features, the weights {dim}")
    rows_get(&X.rows, i, &row)
    return row


def aligned_zeros(shape, dtype):
    """Zeros for weights that are read here and there.

    They begin at a cache line, so that 16 float32 weights of a feature fill one.
    Large ones begin at a large page, within a request that is big enough for numpy
    to ask the system for such pages (a third quicker with 20 outputs, whose weights
    lie on a thousand small pages); what is not touched takes no memory.
    """
    dtype = np.dtype(dtype)
    cdef Py_ssize_t n_bytes = int(np.prod(shape)) * dtype.itemsize
    cdef Py_ssize_t unit = 64 if n_bytes < LARGE_WEIGHTS else LARGE_PAGE
    cdef Py_ssize_t room = 64 if n_bytes < LARGE_WEIGHTS else 2 * LARGE_PAGE
    raw = np.zeros(n_bytes + room, np.uint8)
    cdef Py_ssize_t skip = -raw.__array_interface__["data"][0] % unit
    return raw[skip:skip + n_bytes].view(dtype).reshape(shape)


def _owned(array, dtype=None):
    """A private, writable, contiguous copy."""
    return np.array(array, dtype=dtype, order="C", copy=True)


def _arrays(v, u, copy):
    arrays = {"v": v} if u is None else {"v": v, "u": u}
    return {name: array.copy() for name, array in arrays.items()} if copy else arrays


def _saved_weights(scalars, arrays, n_dim):
    """The weights of a saved state, which has been found valid."""
    v = arrays.get("v")
    if not isinstance(v, np.ndarray) or v.ndim != n_dim or 0 in v.shape:
        raise ValueError(f"the saved weights must be an array of {n_dim} dimension(s)")
    weight_kind(v.dtype)
    weights_schema(v.shape, v.dtype).check(scalars, arrays)
    return v


cdef class ScaledVector:
    """w = s*v over `dim` features.

    Parameters
    ----------
    dim : int
    dtype : float32 or float64
    track_norm : bool
        Keep ``||w||`` up to date at every step; projection needs it.

    Examples
    --------
    >>> import numpy as np
    >>> from osvm._input.rows import RowSource
    >>> from osvm.linear.weights import ScaledVector
    >>> X = RowSource.dense(np.array([[3.0, 4.0]]))
    >>> w = ScaledVector(2)
    >>> w.axpy(1.0, X, 0)
    >>> w.shrink(0.5)
    >>> w.array()
    array([1.5, 2. ])
    >>> w.norm
    2.5
    """

    def __init__(self, Py_ssize_t dim, dtype=np.float64, bint track_norm=True):
        if dim < 1:
            raise ValueError(f"dim must be at least 1, got {dim}")
        dtype = np.dtype(dtype)
        cdef int kind = weight_kind(dtype)
        self.v = aligned_zeros(dim, dtype)
        self.u = None
        svec_init(&self.w, address(self.v), dim, kind)
        self.w.track_norm = track_norm

    @property
    def dim(self):
        return self.w.dim

    @property
    def n_out(self):
        return 1

    @property
    def scale(self):
        return self.w.scale

    @property
    def averaged_count(self):
        return self.w.avg_count

    @property
    def norm(self):
        """``||w||``."""
        cdef SVec w = self.w        # a copy: reading changes nothing
        if not w.track_norm:
            svec_recompute_norm(&w)
        return sqrt(svec_sq_norm(&w))

    def array(self, bint averaged=False):
        """The weights (or their average) as a new float64 array."""
        out = np.empty(self.w.dim)
        cdef double[::1] view = out
        if averaged:
            svec_write_average(&self.w, &view[0])
        else:
            svec_write(&self.w, &view[0])
        return out

    def set_array(self, values):
        """w = values; an average starts anew."""
        values = np.asarray(values, dtype=self.v.dtype)
        if values.shape != self.v.shape:
            raise ValueError(f"expected {self.v.shape[0]} weights, got shape {values.shape}")
        self.v[:] = values
        self.w.scale = 1.0
        svec_recompute_norm(&self.w)
        if self.u is not None:
            self.u[:] = 0
            self.w.avg_scale = 0.0
            self.w.avg_count = 0.0

    # ------------------------------------------------ one operation at a time

    def dot(self, RowSource X, Py_ssize_t i, bint averaged=False):
        """w . x_i"""
        cdef Row row = row_of(X, i, self.w.dim)
        return svec_average_dot(&self.w, &row) if averaged else svec_dot(&self.w, &row)

    def dot_ahead(self, RowSource X, Py_ssize_t i):
        """w . x_i, fetching row i on the way; for tests"""
        cdef Row row = row_of(X, i, self.w.dim)
        return svec_dot_ahead(&self.w, &row, &row)

    def axpy(self, double c, RowSource X, Py_ssize_t i):
        """w += c x_i"""
        cdef Row row = row_of(X, i, self.w.dim)
        svec_axpy(&self.w, c, &row)

    def shrink(self, double factor):
        """w *= factor"""
        svec_shrink(&self.w, factor)

    def project(self, double radius):
        """Onto the ball of this radius; True when w was outside."""
        if not self.w.track_norm:
            svec_recompute_norm(&self.w)
        return bool(svec_project(&self.w, radius))

    def fold(self):
        """s = 1, w unchanged"""
        svec_fold(&self.w)

    def reset(self):
        """w = 0"""
        svec_reset(&self.w)

    def reserve_average(self):
        """Allocate the average's accumulator, for a loop that starts averaging later."""
        if self.u is None:
            self.u = aligned_zeros(self.v.shape, self.v.dtype)
            self.w.u = address(self.u)

    def start_average(self):
        """Average the iterates from now on."""
        self.reserve_average()
        self.u[:] = 0
        svec_start_average(&self.w, address(self.u))

    def count_average(self):
        """Count the current w in the average."""
        svec_count_average(&self.w)

    # ------------------------------------------------------ saving, copying

    def get_state(self, bint copy=True):
        """(scalars, arrays) that `from_state` turns back into an equal object.

        Without `copy` the arrays v and u are those of this object.
        """
        scalars = {
            "scale": self.w.scale, "sq_v": self.w.sq_v, "avg_scale": self.w.avg_scale,
            "avg_count": self.w.avg_count, "low": self.w.low, "high": self.w.high,
            "averaging": int(self.w.averaging), "track_norm": int(self.w.track_norm),
        }
        return scalars, _arrays(self.v, self.u, copy)

    @staticmethod
    def from_state(scalars, arrays):
        v = _saved_weights(scalars, arrays, 1)
        cdef ScaledVector self = ScaledVector(v.shape[0], v.dtype, bool(scalars["track_norm"]))
        self.v[:] = v
        if "u" in arrays:
            self.reserve_average()
            self.u[:] = arrays["u"]
        self.set_numbers(scalars, arrays)
        return self

    def set_numbers(self, scalars, arrays):
        """Take over what a valid state holds beside v and u."""
        self.w.scale = scalars["scale"]
        self.w.sq_v = scalars["sq_v"]
        self.w.avg_scale = scalars["avg_scale"]
        self.w.avg_count = scalars["avg_count"]
        self.w.low = scalars["low"]
        self.w.high = scalars["high"]
        self.w.averaging = scalars["averaging"]

    def copy(self):
        """An independent copy, bit for bit."""
        return ScaledVector.from_state(*self.get_state())

    def __reduce__(self):
        return ScaledVector.from_state, self.get_state()


cdef class ScaledMatrix:
    """W = V diag(s): `n_out` weight vectors side by side, feature-major.

    Parameters
    ----------
    dim, n_out : int
    dtype : float32 or float64
    track_norm : bool
        Keep each ``||w_k||`` up to date at every step.
    """

    def __init__(self, Py_ssize_t dim, Py_ssize_t n_out, dtype=np.float64,
                 bint track_norm=True):
        if dim < 1 or n_out < 1:
            raise ValueError(f"dim and n_out must be at least 1, got {dim} and {n_out}")
        dtype = np.dtype(dtype)
        cdef int kind = weight_kind(dtype)
        self.v = aligned_zeros((dim, n_out), dtype)
        self.u = None
        self._work = np.zeros(n_out, dtype)
        self.scale = np.ones(n_out)
        self.sq_v = np.zeros(n_out)
        self.avg_scale = np.zeros(n_out)
        smat_init(&self.w, address(self.v), address(self._work),
                  <double *> address(self.scale), <double *> address(self.sq_v),
                  <double *> address(self.avg_scale), dim, n_out, kind)
        self.w.track_norm = track_norm

    @property
    def dim(self):
        return self.w.dim

    @property
    def n_out(self):
        return self.w.n_out

    @property
    def averaged_count(self):
        return self.w.avg_count

    cdef SMat reader(self, void *work) noexcept nogil:
        """The struct with scratch of the caller's own: room for n_out doubles.

        Products write to scratch.  Threads that read at the same time must not share it.
        """
        cdef SMat w = self.w
        w.work = work
        return w

    @property
    def norms(self):
        """Each ``||w_k||``."""
        cdef Py_ssize_t k
        cdef SMat w = self.w        # a copy: reading changes nothing
        sq_v, out = self.sq_v.copy(), np.empty(self.w.n_out)
        w.sq_v = <double *> address(sq_v)
        for k in range(w.n_out):
            if not w.track_norm:
                smat_recompute_norm(&w, k)
            out[k] = sqrt(smat_sq_norm_one(&w, k))
        return out

    def array(self, bint averaged=False):
        """The weights (or their average), n_out x dim, as a new float64 array."""
        out = np.empty((self.w.n_out, self.w.dim))
        cdef double[:, ::1] view = out
        if averaged:
            smat_write_average(&self.w, &view[0, 0])
        else:
            smat_write(&self.w, &view[0, 0])
        return out

    def set_array(self, values):
        """W = values (n_out x dim); an average starts anew."""
        cdef Py_ssize_t k
        values = np.asarray(values, dtype=self.v.dtype)
        if values.shape != (self.w.n_out, self.w.dim):
            raise ValueError(f"expected shape {(self.w.n_out, self.w.dim)}, "
                             f"got {values.shape}")
        self.v[:] = values.T
        self.scale[:] = 1.0
        for k in range(self.w.n_out):
            smat_recompute_norm(&self.w, k)
        if self.u is not None:
            self.u[:] = 0
            self.avg_scale[:] = 0.0
            self.w.avg_count = 0.0

    # ------------------------------------------------ one operation at a time

    def dot(self, RowSource X, Py_ssize_t i, bint averaged=False):
        """W . x_i"""
        cdef Row row = row_of(X, i, self.w.dim)
        out, work = np.empty(self.w.n_out), np.empty(self.w.n_out)
        cdef double[::1] view = out
        cdef SMat w = self.reader(address(work))
        if averaged:
            smat_average_dot(&w, &row, &view[0])
        else:
            smat_dot(&w, &row, &view[0])
        return out

    def axpy(self, c, RowSource X, Py_ssize_t i):
        """w_k += c[k] x_i"""
        cdef Row row = row_of(X, i, self.w.dim)
        cdef double[::1] view = np.ascontiguousarray(c, dtype=np.float64)
        if view.shape[0] != self.w.n_out:
            raise ValueError(f"expected {self.w.n_out} coefficients, got {view.shape[0]}")
        smat_axpy(&self.w, &view[0], &row)

    def shrink(self, double factor, Py_ssize_t k=-1):
        """w_k *= factor; all of W without k"""
        if k >= self.w.n_out:
            raise IndexError(f"output {k} of {self.w.n_out}")
        if k < 0:
            smat_shrink(&self.w, factor)
        else:
            smat_shrink_one(&self.w, k, factor)

    def project(self, double radius, Py_ssize_t k=-1):
        """w_k (all of W without k) onto the ball of this radius; True if it was outside."""
        cdef Py_ssize_t i
        if k >= self.w.n_out:
            raise IndexError(f"output {k} of {self.w.n_out}")
        if not self.w.track_norm:
            for i in range(self.w.n_out):
                smat_recompute_norm(&self.w, i)
        if k < 0:
            return bool(smat_project(&self.w, radius))
        return bool(smat_project_one(&self.w, k, radius))

    def fold(self):
        """All scales to 1, W unchanged"""
        cdef Py_ssize_t k
        for k in range(self.w.n_out):
            smat_fold(&self.w, k)

    def reserve_average(self):
        """Allocate the average's accumulator, for a loop that starts averaging later."""
        if self.u is None:
            self.u = aligned_zeros(self.v.shape, self.v.dtype)
            self.w.u = address(self.u)

    def start_average(self):
        """Average the iterates from now on."""
        self.reserve_average()
        self.u[:] = 0
        smat_start_average(&self.w, address(self.u))

    def count_average(self):
        """Count the current W in the average."""
        smat_count_average(&self.w)

    def with_outputs(self, Py_ssize_t n_out):
        """A wider copy: the old outputs first, the new ones zero."""
        if n_out < self.w.n_out:
            raise ValueError(f"cannot drop outputs: {self.w.n_out} to {n_out}")
        cdef Py_ssize_t old = self.w.n_out
        cdef ScaledMatrix wider = ScaledMatrix(self.w.dim, n_out, self.v.dtype,
                                               self.w.track_norm)
        wider.v[:, :old] = self.v
        wider.scale[:old] = self.scale
        wider.sq_v[:old] = self.sq_v
        wider.avg_scale[:old] = self.avg_scale
        if self.u is not None:
            wider.reserve_average()
            wider.u[:, :old] = self.u
        wider.w.avg_count = self.w.avg_count
        wider.w.averaging = self.w.averaging
        wider.w.low = self.w.low
        wider.w.high = self.w.high
        return wider

    @staticmethod
    def from_binary(ScaledVector vector, Py_ssize_t n_out):
        """Outputs 0 and 1 are -w and w of a binary model, the others zero."""
        cdef ScaledMatrix self = ScaledMatrix(vector.w.dim, n_out, vector.v.dtype,
                                              vector.w.track_norm)
        cdef Py_ssize_t k
        for k in range(2):
            sign = 2 * k - 1
            self.v[:, k] = sign * vector.v
            self.scale[k] = vector.w.scale
            self.sq_v[k] = vector.w.sq_v
            self.avg_scale[k] = vector.w.avg_scale
        if vector.u is not None:
            self.reserve_average()
            self.u[:, 0] = -vector.u
            self.u[:, 1] = vector.u
        self.w.avg_count = vector.w.avg_count
        self.w.averaging = vector.w.averaging
        self.w.low, self.w.high = vector.w.low, vector.w.high
        return self

    # ------------------------------------------------------ saving, copying

    def get_state(self, bint copy=True):
        """(scalars, arrays) that `from_state` turns back into an equal object.

        Without `copy` the arrays v and u are those of this object.
        """
        scalars = {
            "avg_count": self.w.avg_count, "low": self.w.low, "high": self.w.high,
            "averaging": int(self.w.averaging), "track_norm": int(self.w.track_norm),
        }
        return scalars, _arrays(self.v, self.u, copy) | {
            "scale": self.scale.copy(), "sq_v": self.sq_v.copy(),
            "avg_scale": self.avg_scale.copy()}

    @staticmethod
    def from_state(scalars, arrays):
        v = _saved_weights(scalars, arrays, 2)
        cdef ScaledMatrix self = ScaledMatrix(v.shape[0], v.shape[1], v.dtype,
                                              bool(scalars["track_norm"]))
        self.v[:] = v
        if "u" in arrays:
            self.reserve_average()
            self.u[:] = arrays["u"]
        self.set_numbers(scalars, arrays)
        return self

    def set_numbers(self, scalars, arrays):
        """Take over what a valid state holds beside v and u."""
        self.scale[:] = arrays["scale"]
        self.sq_v[:] = arrays["sq_v"]
        self.avg_scale[:] = arrays["avg_scale"]
        self.w.avg_count = scalars["avg_count"]
        self.w.low = scalars["low"]
        self.w.high = scalars["high"]
        self.w.averaging = scalars["averaging"]

    def copy(self):
        """An independent copy, bit for bit."""
        return ScaledMatrix.from_state(*self.get_state())

    def __reduce__(self):
        return ScaledMatrix.from_state, self.get_state()
