# cython: language_level=3, cdivision=True, binding=False, emit_code_comments=False
"""A linear SVM of one's own, from osvm's rows, scaled vector, loss and step size."""
import numpy as np

from libc.math cimport isfinite
from osvm.core.abi cimport abi_check
from osvm.core.loss cimport LOSS_HINGE, Loss, loss_init, loss_value_xi
from osvm.core.row cimport Row, Rows, rows_get
from osvm.core.step cimport STEP_INVERSE_TIME, Step, step_init, step_next, step_set_reg
from osvm.core.svec cimport SVec, svec_axpy, svec_dot_ahead, svec_init, svec_shrink, svec_write
from osvm.core.typedefs cimport WEIGHT_F64
from osvm.core.view cimport view_array, view_rows

abi_check()  # refuse an osvm that this module was not compiled for


def fit(X, y, double reg=1e-4):
    """Weights after one pass over X, a CSR matrix or an array, with labels -1.0 and +1.0."""
    cdef Rows rows
    cdef Row x, later
    cdef SVec w
    cdef Loss loss
    cdef Step step
    cdef double eta, xi
    cdef Py_ssize_t i, n, bad = -1
    view_rows(&rows, X)                                # the matrix, checked and not copied
    n = rows.n_rows
    cdef const double *label = <const double *> view_array(y, "float64", n)
    weights = np.zeros(rows.n_features)
    cdef double *v = <double *> view_array(weights, "float64", rows.n_features)
    svec_init(&w, v, rows.n_features, WEIGHT_F64)      # w = 0, in the memory of `weights`
    loss_init(&loss, LOSS_HINGE)
    step_init(&step, STEP_INVERSE_TIME, 0.0)           # eta = 1 / (reg t)
    step_set_reg(&step, reg)
    with nogil:
        for i in range(n):
            rows_get(&rows, i, &x)
            rows_get(&rows, i + 2 if i + 2 < n else i, &later)  # fetched while x is read
            if not isfinite(loss_value_xi(&loss, label[i], svec_dot_ahead(&w, &x, &later), &xi)):
                bad = i
                break
            eta = step_next(&step, i + 1)
            svec_shrink(&w, 1.0 - eta * reg)           # the regularizer's step, O(1)
            if xi != 0.0:
                svec_axpy(&w, -eta * xi, &x)           # the loss's step
    if bad >= 0:                                       # raise only with the lock held
        raise ValueError(f"row {bad} gives a loss that is not a finite number")
    svec_write(&w, v)                                  # fold the scale in
    return weights
