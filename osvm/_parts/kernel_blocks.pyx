"""Rows that do not change, from Python: kernel values of any rows against all of them.

The values come from `osvm/_c/row_set.pxd` and `osvm/_c/blocks.pxd`; this file owns the memory
that they look into.
"""
import numpy as np

from osvm._c.engine cimport rows_against, rows_free, rows_init
from osvm.core.kernel cimport KERNEL_PRECOMPUTED
from osvm.core.typedefs cimport STATUS_OK


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
        self.spec, self.order, self.source = spec, order, source_of(X)
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
        cdef RowSource source = None if X is None else source_of(X)
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


cdef RowSource source_of(X):
    """The rows of an array or of a CSR matrix."""
    if hasattr(X, "indptr"):
        return RowSource.csr(X.data, X.indices, X.indptr, X.shape[1])
    return RowSource.dense(X)
