# cython: language_level=3
"""Calls the public inline functions of osvm.core as a client's loop would."""
import numpy as np

from osvm._parts.compiled cimport KernelSpec, LossSpec, StepSpec
from osvm.core.kernel cimport kernel_from_dot, kernel_from_dots
from osvm.core.loss cimport (
    loss_curvature, loss_value, loss_value_xi, loss_xi,
)
from osvm.core.mloss cimport mloss_curvature_times, mloss_value_xi
from osvm.core.row cimport Row, Rows, row_dot, rows_get
from osvm.core.step cimport Step, step_eta, step_next, step_smd_adapt
from osvm.core.view cimport view_rows


def scalar_loss(LossSpec spec, const double[::1] y, const double[::1] f):
    """value, xi, curvature, and value and xi from one call."""
    out = np.empty((5, f.shape[0]))
    cdef double[:, ::1] o = out
    cdef Py_ssize_t i
    with nogil:
        for i in range(f.shape[0]):
            o[0, i] = loss_value(&spec.loss, y[i], f[i])
            o[1, i] = loss_xi(&spec.loss, y[i], f[i])
            o[2, i] = loss_curvature(&spec.loss, y[i], f[i])
            o[3, i] = loss_value_xi(&spec.loss, y[i], f[i], &o[4, i])
    return out


def multi_loss(LossSpec spec, Py_ssize_t label, const double[::1] f, const double[::1] z,
               double margin):
    """value, xi and rho z of one example."""
    xi, rho_z = np.empty(f.shape[0]), np.empty(f.shape[0])
    cdef double[::1] xi_ = xi, rho_z_ = rho_z
    cdef double value
    with nogil:
        value = mloss_value_xi(&spec.loss, f.shape[0], label, &f[0], margin, &xi_[0])
        mloss_curvature_times(&spec.loss, f.shape[0], label, &f[0], &z[0], margin, &rho_z_[0])
    return value, xi, rho_z


def steps(StepSpec spec, const double[::1] t, const double[::1] gv):
    """The schedule, and what a loop uses when SMD adapts before each example."""
    out = np.empty((2, t.shape[0]))
    cdef double[:, ::1] o = out
    cdef Step step = spec.step
    cdef Py_ssize_t i
    with nogil:
        for i in range(t.shape[0]):
            o[0, i] = step_eta(&step, t[i])
            step_smd_adapt(&step, gv[i])
            o[1, i] = step_next(&step, t[i])
    return out


def kernel_values(KernelSpec spec, const double[::1] dots, double sq_x, const double[::1] sq_z):
    """One at a time, and as an array."""
    single, array = np.empty(dots.shape[0]), np.array(dots)
    cdef double[::1] single_ = single, array_ = array
    cdef Py_ssize_t i
    with nogil:
        for i in range(dots.shape[0]):
            single_[i] = kernel_from_dot(&spec.kernel, dots[i], sq_x, sq_z[i])
        kernel_from_dots(&spec.kernel, &array_[0], dots.shape[0], sq_x, &sq_z[0])
    return single, array


def row_products(matrix, const double[::1] w):
    """Each row times w, read through a view of the matrix."""
    cdef Rows rows
    cdef Row x
    cdef Py_ssize_t i
    view_rows(&rows, matrix)
    assert rows.n_features == w.shape[0]
    out = np.empty(rows.n_rows)
    cdef double[::1] o = out
    for i in range(rows.n_rows):
        rows_get(&rows, i, &x)
        o[i] = row_dot(&x, &w[0])
    return out
