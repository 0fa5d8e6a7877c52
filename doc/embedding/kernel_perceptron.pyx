# cython: language_level=3, cdivision=True, binding=False, emit_code_comments=False
"""A kernel perceptron with a budget, and a rule of its own for who has to leave."""
import numpy as np
from libc.math cimport fabs
from osvm.core.abi cimport abi_check
from osvm.core.expansion cimport (
    EXPANSION_CHOOSE, EXPANSION_F64, EXPANSION_SPARSE, STATUS_OK, Expansion, Rows, expansion_count,
    expansion_free, expansion_insert, expansion_load, expansion_new, expansion_score,
    expansion_scores,
)
from osvm.core.kernel cimport KERNEL_RBF, Kernel, kernel_init
from osvm.core.view cimport view_array, view_rows

abi_check()


cdef Py_ssize_t choose_smallest(const Expansion *f, void *user) noexcept nogil:
    """The slot with the smallest |alpha|, the oldest of equals."""
    cdef Py_ssize_t s, best = 0
    cdef double change
    for s in range(1, expansion_count(f)):
        change = fabs(f.coef[s]) - fabs(f.coef[best])
        if change < 0.0 or (change == 0.0 and f.birth[s] < f.birth[best]):
            best = s
    return best


def learn_and_score(X, y, Z, double gamma, Py_ssize_t budget):
    """Scores of the rows of Z after one pass over X, with labels -1.0 and +1.0."""
    cdef Rows rows, others
    cdef Kernel kernel
    cdef Py_ssize_t first, t, n
    cdef double score
    cdef int status = STATUS_OK
    view_rows(&rows, X)
    view_rows(&others, Z)
    cdef const double *label = <const double *> view_array(y, "float64", rows.n_rows)
    scores = np.empty(others.n_rows)
    cdef double *out = <double *> view_array(scores, "float64", others.n_rows)
    kernel_init(&kernel, KERNEL_RBF, gamma)
    cdef Expansion *f = expansion_new(&kernel, rows.n_features, 1, budget, EXPANSION_CHOOSE,
                                      EXPANSION_F64 | EXPANSION_SPARSE * (rows.indices != NULL))
    if f == NULL:
        raise MemoryError
    f.choose_fn = choose_smallest
    with nogil:
        for first in range(0, rows.n_rows, 64):        # kernel values of 64 rows at once
            n = min(rows.n_rows - first, <Py_ssize_t> 64)
            status = expansion_load(f, &rows, NULL, first, n, 0)
            for t in range(n if status == STATUS_OK else 0):
                expansion_score(f, t, &score)
                if label[first + t] * score <= 0.0 and status == STATUS_OK:
                    status = expansion_insert(f, t, &label[first + t])
        if status == STATUS_OK:
            status = expansion_scores(f, &others, 0, others.n_rows, out)
    expansion_free(f)
    if status != STATUS_OK:
        raise ValueError("rows of another length, or no memory")
    return scores
