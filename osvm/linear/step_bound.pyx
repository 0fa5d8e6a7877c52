"""Steps that never go beyond the example they learn, for losses with a curvature.

The slope of a squared loss grows with the error: a step on f = w.x + b changes the error
by the factor

    1 - c curvature (eta ||x||^2 + eta_b)        c: the example's weight

and where this is below -1 the errors grow without end.  The default step size is chosen
by the first row of a stream and cannot know the others, so each example's weight is
lowered to where the factor is 0, which fits the example exactly (as in the normalised
least mean squares of Nagumo and Noda, 1967).

Invariants
- eta ||x||^2 + eta_b times the curvature and the weight is at most 1 on every row;
- rows that keep to it by themselves keep their weight, to the bit;
- a weight depends on its row and on t alone, not on how a stream is cut.
"""
import numpy as np

from libc.math cimport floor
from libc.stdint cimport int64_t

from osvm._input.rows cimport RowSource
from osvm.linear.learner cimport SGDLearner
from osvm.core.rows cimport row_is_sorted, rows_get
from osvm.core.typedefs cimport Row


def sq_norm(RowSource X, Py_ssize_t i):
    """||x_i||^2, also where columns repeat."""
    cdef double[::1] scratch
    cdef Row row
    if not 0 <= i < X.rows.n_rows:
        raise IndexError(f"row {i} of {X.rows.n_rows}")
    rows_get(&X.rows, i, &row)
    scratch = np.zeros(1 if row_is_sorted(&row) else X.rows.n_features)
    return bounded_sq_norm(&row, &scratch[0])


def bounded_weight(SGDLearner learner, RowSource X, double curvature, order, Py_ssize_t start,
                   Py_ssize_t stop, weight):
    """Weights for the examples start:stop, the next ones that the learner sees.

    Parameters
    ----------
    learner : SGDLearner
    X : RowSource
    curvature : float
        Bound of the loss's second derivative.
    order : int64 array or None
    start, stop : int
    weight : float64 array or None
        The examples' own weights.

    Returns
    -------
    array with an entry per row, or `weight` itself where no step is too long
    """
    cdef const int64_t[::1] order_view
    cdef const int64_t *at = NULL
    cdef double[::1] out, scratch
    cdef double *zeros = NULL
    cdef Py_ssize_t lowered = 0, n = start
    changed = np.ones(X.rows.n_rows) if weight is None else np.array(weight)
    out = changed
    if order is not None:
        order_view = order
        at = &order_view[0]
    while n < stop:
        with nogil:
            lowered += lower(learner, X, curvature, at, start, &n, stop, &out[0], zeros)
        if n < stop:                    # a row repeats columns: its norm needs room
            scratch = np.zeros(X.rows.n_features)
            zeros = &scratch[0]
    return changed if lowered else weight


cdef Py_ssize_t lower(SGDLearner learner, RowSource X, double curvature, const int64_t *order,
                      Py_ssize_t start, Py_ssize_t *at, Py_ssize_t stop, double *weight,
                      double *scratch) noexcept nogil:
    """Lower the weights that are too large from `at` on; how many.

    Stops at a row that may repeat columns when there is no scratch.
    """
    cdef Py_ssize_t n, i, lowered = 0
    cdef Row row
    cdef double t, size, c, largest = X.largest, batch = learner.model.options.batch_size
    for n in range(at[0], stop):
        i = n if order == NULL else order[n]
        c = weight[i]
        t = learner.model.t + 1.0 + floor((learner.model.pending + (n - start)) / batch)
        rows_get(&X.rows, i, &row)
        # However often columns repeat, this bounds the norm, and settles it for many.
        size = largest * row.count
        if largest < 0.0 or bounded_at(&learner.model, c, curvature, t, size * size) != c:
            size = bounded_sq_norm(&row, scratch)
            if size < 0.0:
                at[0] = n
                return lowered
            weight[i] = bounded_at(&learner.model, c, curvature, t, size)
            lowered += weight[i] != c
    at[0] = stop
    return lowered
