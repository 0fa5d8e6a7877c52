# cython: language_level=3, boundscheck=False, wraparound=False
"""A linear SVM of one's own, from osvm's rows, scaled vector, loss and step size."""
import numpy as np

from libc.math cimport isfinite
from libc.stdint cimport int32_t

from osvm.core.abi cimport osvm_check_abi
from osvm.core.loss cimport LOSS_HINGE, Loss, loss_init, loss_value_xi
from osvm.core.row cimport Row, Rows, rows_get, rows_init_csr
from osvm.core.step cimport STEP_INVERSE_TIME, Step, step_init, step_next, step_set_reg
from osvm.core.svec cimport SVec, svec_axpy, svec_dot, svec_init, svec_shrink, svec_write
from osvm.core.typedefs cimport WEIGHT_F64

osvm_check_abi()  # refuse an osvm that this module was not compiled for


cdef Py_ssize_t learn(const Rows *X, const double *y, double reg, SVec *w) noexcept nogil:
    """One pass over the rows; -1, or the first row whose loss is not a number."""
    cdef Loss loss
    cdef Step step
    cdef Row x
    cdef double eta, xi
    cdef Py_ssize_t i
    loss_init(&loss, LOSS_HINGE)
    step_init(&step, STEP_INVERSE_TIME, 0.0)
    step_set_reg(&step, reg)
    for i in range(X.n_rows):
        rows_get(X, i, &x)
        if not isfinite(loss_value_xi(&loss, y[i], svec_dot(w, &x), &xi)):
            return i
        eta = step_next(&step, i + 1)
        svec_shrink(w, 1.0 - eta * reg)
        if xi != 0.0:
            svec_axpy(w, -eta * xi, &x)
    return -1


def fit(X, y, double reg=1e-4):
    """Weights after one pass over the CSR matrix X (float64, int32) with labels -1 and +1."""
    X.check_format(full_check=True)  # a row is read as it stands: check the indices before
    cdef const double[::1] values = X.data, labels = np.asarray(y, dtype=float)
    cdef const int32_t[::1] indices = X.indices, indptr = X.indptr
    cdef Py_ssize_t n_rows = X.shape[0], n_features = X.shape[1], bad
    cdef double[::1] v = np.zeros(n_features)
    cdef Rows rows
    cdef SVec w
    if labels.shape[0] != n_rows or values.shape[0] == 0:
        raise ValueError("X needs non-zeros, and y one label for each row")
    rows_init_csr(&rows, &values[0], &indices[0], &indptr[0], n_rows, n_features)
    svec_init(&w, &v[0], n_features, WEIGHT_F64)
    with nogil:
        bad = learn(&rows, &labels[0], reg, &w)
    if bad >= 0:
        raise ValueError(f"row {bad} gives a loss that is not a finite number")
    svec_write(&w, &v[0])
    return np.asarray(v)
