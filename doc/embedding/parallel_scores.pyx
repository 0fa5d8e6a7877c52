# cython: language_level=3, cdivision=True, binding=False, emit_code_comments=False
"""Scores of many rows by several threads that share one kernel model."""
import numpy as np

from cython.parallel cimport prange
from osvm.core.abi cimport abi_check
from osvm.core.expansion cimport (
    EXPANSION_F64, EXPANSION_OLDEST, EXPANSION_SPARSE, STATUS_OK, Expansion, Rows,
    expansion_free, expansion_insert, expansion_load, expansion_new, expansion_release,
    expansion_scores,
)
from osvm.core.kernel cimport KERNEL_RBF, Kernel, kernel_init
from osvm.core.view cimport view_array, view_rows

abi_check()


cdef class Scorer:
    """f = sum_s alpha_s exp(-gamma ||x_s - x||^2) + b of the rows in `support_vectors`."""
    cdef Expansion *f
    cdef double b

    def __dealloc__(self):
        expansion_free(self.f)

    def __init__(self, support_vectors, dual_coef, double gamma, double intercept=0.0):
        cdef Rows rows
        cdef Kernel kernel
        cdef Py_ssize_t s
        view_rows(&rows, support_vectors)
        cdef const double *alpha = <const double *> view_array(dual_coef, "float64", rows.n_rows)
        kernel_init(&kernel, KERNEL_RBF, gamma)
        self.b = intercept
        self.f = expansion_new(&kernel, rows.n_features, 1, -1, EXPANSION_OLDEST,
                               EXPANSION_F64 | EXPANSION_SPARSE * (rows.indices != NULL))
        if self.f == NULL:
            raise MemoryError
        for s in range(rows.n_rows):
            if (expansion_load(self.f, &rows, NULL, s, 1, 0) != STATUS_OK
                    or expansion_insert(self.f, 0, &alpha[s]) != STATUS_OK):
                raise MemoryError
        expansion_release(self.f)

    def decision_function(self, X, int n_threads=1):
        cdef Rows rows
        cdef Py_ssize_t first, n
        cdef int failed = 0
        view_rows(&rows, X)
        n = rows.n_rows
        scores = np.empty(n)
        cdef double *out = <double *> view_array(scores, "float64", n)
        for first in prange(0, n, 128, nogil=True, num_threads=n_threads, schedule="dynamic"):
            # reading is open to any number of threads, as long as nobody changes f
            if expansion_scores(self.f, &rows, first, n - first if n - first < 128 else 128,
                                out + first) != STATUS_OK:
                failed += 1
        if failed:
            raise ValueError("rows of another length, or no memory")
        return scores + self.b
