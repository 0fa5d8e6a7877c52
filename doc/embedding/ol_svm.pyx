# cython: language_level=3, cdivision=True, binding=False, emit_code_comments=False
"""OL SVM, list 3b of Kecman and Melki: hinge loss, outputs of all rows kept up to date."""
import numpy as np

from libc.math cimport sqrt
from osvm.core.abi cimport abi_check
from osvm.core.fixed cimport (
    FIXED_BLOCK, STATUS_OK, Fixed, fixed_add, fixed_flush, fixed_free, fixed_load, fixed_new,
    fixed_output,
)
from osvm.core.kernel cimport KERNEL_RBF, Kernel, kernel_init
from osvm.core.row cimport Rows
from osvm.core.view cimport view_array, view_rows

abi_check()


def fit(X, y, double gamma, double C=1.0, int epochs=1):
    """Coefficients and outputs of all rows of X, with labels -1.0 and +1.0."""
    cdef Rows rows
    cdef Kernel kernel
    cdef Fixed *f
    cdef double t = 0.0
    cdef Py_ssize_t first, k, n, count
    cdef int _epoch, status = STATUS_OK
    view_rows(&rows, X)
    n = rows.n_rows
    cdef const double *label = <const double *> view_array(y, "float64", n)
    order, alpha, outputs = np.arange(n, dtype=np.intp), np.zeros(n), np.zeros(n)
    cdef const Py_ssize_t *at = <const Py_ssize_t *> view_array(order, order.dtype.name, n)
    kernel_init(&kernel, KERNEL_RBF, gamma)
    f = fixed_new(&kernel, &rows, 1, True, 200.0 * 1048576.0,  # columns of float64, 200 MB
                  <double *> view_array(alpha, "float64", n),
                  <double *> view_array(outputs, "float64", n))
    if f == NULL:
        raise MemoryError
    with nogil:
        for _epoch in range(epochs):
            for first in range(0, n, 64):
                count = n - first if n - first < FIXED_BLOCK else FIXED_BLOCK
                status = fixed_load(f, at + first, count)
                if status != STATUS_OK:
                    break
                for k in range(count):
                    t += 1.0
                    if label[first + k] * fixed_output(f, 0, k) < 1.0:
                        fixed_add(f, 0, k, C * sqrt(2.0 / t) * label[first + k])
                status = fixed_flush(f, n)             # outputs of all rows, by columns
                if status != STATUS_OK:
                    break
    fixed_free(f)
    if status != STATUS_OK:
        raise MemoryError
    return alpha, outputs
