# cython: language_level=3
"""Calls the public inline functions of osvm.core as a client's loop would."""
import numpy as np

from libc.stdint cimport int64_t

from osvm._parts.compiled cimport KernelSpec, LossSpec, StepSpec
from osvm.core.kernel cimport kernel_from_dot, kernel_from_dots
from osvm.core.loss cimport (
    loss_curvature, loss_value, loss_value_xi, loss_xi,
)
from osvm.core.mloss cimport mloss_curvature_times, mloss_value_xi
from osvm.core.dual cimport dual_curvature, dual_gap, dual_gradient, dual_projected, dual_step
from osvm.core.expansion cimport (
    EXPANSION_NORM, STATUS_OK, Expansion, expansion_count, expansion_free, expansion_id,
    expansion_insert, expansion_load, expansion_new, expansion_release, expansion_resum,
    expansion_row, expansion_score, expansion_scores, expansion_self, expansion_shrink,
)
from osvm.core.fixed cimport (
    Fixed, fixed_add, fixed_flush, fixed_free, fixed_load, fixed_new, fixed_output, fixed_scale,
)
from osvm.core.order cimport Order, order_full, order_init, order_windowed
from osvm.core.row cimport Row, Rows, row_dot, rows_get, rows_init_csr
from osvm.core.step cimport Step, step_eta, step_next, step_smd_adapt
from osvm.core.view cimport view_array, view_rows


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


ctypedef fused any_index:
    int
    long
    long long
    Py_ssize_t


def csr_products(const double[::1] data, const any_index[::1] indices,
                 const any_index[::1] indptr, const double[::1] w):
    """Each row times w, of a CSR matrix with any integers."""
    cdef Rows rows
    cdef Row x
    cdef Py_ssize_t i
    rows_init_csr(&rows, &data[0], &indices[0], &indptr[0], indptr.shape[0] - 1, w.shape[0])
    out = np.empty(rows.n_rows)
    for i in range(rows.n_rows):
        rows_get(&rows, i, &x)
        out[i] = row_dot(&x, &w[0])
    return out


def expand(KernelSpec spec, matrix, alphas, factors, Py_ssize_t budget, int eviction, int flags,
           Py_ssize_t block, others):
    """Shrink by factors[i], then insert row i with alphas[i] unless they are 0.

    Scores of each row before its step, ids and coefficients of the slots by age, ||f||^2 after
    each step, and the scores of other rows.
    """
    cdef Rows rows, rest
    cdef Row row
    cdef Py_ssize_t first, t, n, s, K = alphas.shape[1]
    cdef double[:, ::1] alpha = alphas
    view_rows(&rows, matrix)
    view_rows(&rest, others)
    scores, norms = np.empty((rows.n_rows, K)), np.empty(rows.n_rows)
    cdef double[:, ::1] score = scores
    cdef Expansion *f = expansion_new(&spec.kernel, rows.n_features, K, budget, eviction,
                                      flags | EXPANSION_NORM)
    assert f != NULL
    for first in range(0, rows.n_rows, block):
        n = min(block, rows.n_rows - first)
        assert expansion_load(f, &rows, NULL, first, n, 0) == STATUS_OK
        for t in range(n):
            expansion_score(f, t, &score[first + t, 0])
            if t % 2:
                expansion_resum(f, t)
            expansion_shrink(f, factors[first + t])
            if np.any(alphas[first + t]):
                assert expansion_insert(f, t, &alpha[first + t, 0]) == STATUS_OK
            norms[first + t] = f.sq_norm
            assert expansion_self(f, t) > 0.0
    expansion_release(f)
    count = expansion_count(f)
    assert expansion_row(f, count, &row) != STATUS_OK
    order = np.argsort([f.birth[s] for s in range(count)])
    ids = np.array([expansion_id(f, s) for s in range(count)])[order]
    coef = f.scale * np.array([[f.coef[s * K + t] for t in range(K)] for s in range(count)])
    outside = np.empty((rest.n_rows, K))
    assert expansion_scores(f, &rest, 0, rest.n_rows, <double *> view_array(
        outside, "float64", rest.n_rows * K)) == STATUS_OK
    expansion_free(f)
    return scores, ids, coef[order], norms, outside


def fixed_run(KernelSpec spec, matrix, order, deltas, double factor, bint float64):
    """Row order[i] gets deltas[q, i] on output q; all shrink by `factor` in each block."""
    cdef Rows rows
    cdef Py_ssize_t first, k, q, count
    cdef const Py_ssize_t[::1] at = order
    view_rows(&rows, matrix)
    cdef Fixed *f = fixed_new(&spec.kernel, &rows, len(deltas), float64, 1e6, NULL, NULL)
    assert f != NULL
    seen = np.empty(deltas.shape)
    for first in range(0, len(order), 64):
        count = min(64, len(order) - first)
        assert fixed_load(f, &at[first], count) == STATUS_OK
        for q in range(f.n_out):
            for k in range(count):
                seen[q, first + k] = fixed_output(f, q, k)
                fixed_add(f, q, k, deltas[q, first + k])
            fixed_scale(f, q, factor)
        assert fixed_flush(f, -1) == STATUS_OK
    alpha = np.array([[f.alpha[q * f.n + k] for k in range(f.n)] for q in range(f.n_out)])
    outputs = np.array([[f.outputs[q * f.n + k] for k in range(f.n)] for q in range(f.n_out)])
    fixed_free(f)
    return seen, alpha, outputs


def dual_numbers(double m, double alpha, double sq, double U, bint squared):
    """Gradient, projected gradient, the new alpha and the gap of one row."""
    cdef double gradient = dual_gradient(m, alpha, U, squared)
    return (gradient, dual_projected(gradient, alpha, U, squared),
            dual_step(gradient, alpha, dual_curvature(sq, U, squared), U, squared),
            dual_gap(m, alpha, U, squared))


def orders(Py_ssize_t n, unsigned long long seed):
    """A full and a windowed order."""
    cdef Order r
    both = np.empty((2, n), np.int64)
    cdef int64_t[:, ::1] view = both
    cdef int64_t[::1] scratch = np.empty(n + 64, np.int64)
    order_init(&r, seed)
    order_full(&r, &view[0, 0], n)
    order_init(&r, seed)
    order_windowed(&r, &view[1, 0], n, 16, 64, &scratch[0])
    return both
