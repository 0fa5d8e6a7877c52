# A kernel expansion over a fixed set of rows, with the outputs of all rows kept up to date.
#
# Follows Kecman and Melki, "Fast online algorithms for support vector machines": an example
# that needs no correction costs O(1).  Rows are taken in blocks of up to FIXED_BLOCK, in any
# order; inside a block fixed_output is what one row after the other would give, and
# fixed_flush brings the changes to the outputs of all rows, by columns of the kernel matrix
# that are computed together and cached.
#
#     fixed_load(f, rows, count)
#     for k in range(count):
#         if y[rows[k]] * fixed_output(f, 0, k) < 1.0:
#             fixed_add(f, 0, k, eta * y[rows[k]])
#     fixed_flush(f, -1)
from libc.string cimport memset

from osvm._c.engine cimport (  # no-cython-lint: clients cimport these from here
    fixed_flush, fixed_free, fixed_load, fixed_new,
)
from osvm.core.typedefs cimport (  # no-cython-lint: clients may cimport these from here
    FIXED_BLOCK, STATUS_BAD_ARGUMENT, STATUS_CALLBACK, STATUS_NO_MEMORY, STATUS_OK, Fixed, Kernel,
    Rows,
)


cdef inline double fixed_output(const Fixed *f, Py_ssize_t q, Py_ssize_t k) noexcept nogil:
    """Output q of the k-th row of the block, with the block's changes so far.  O(1)."""
    return f.local[q * FIXED_BLOCK + k]


cdef inline void fixed_add(Fixed *f, Py_ssize_t q, Py_ssize_t k, double delta) noexcept nogil:
    """Coefficient q of the k-th row of the block += delta.  O(count of the block)."""
    cdef double *local = f.local + q * FIXED_BLOCK
    cdef const double *row = f.gram + k * f.count
    cdef Py_ssize_t j, count = f.count
    f.alpha[q * f.n + f.rows[k]] += delta
    f.delta[q * FIXED_BLOCK + k] += delta
    for j in range(count):
        local[j] += delta * row[j]


cdef inline void fixed_scale(Fixed *f, Py_ssize_t q, double factor) noexcept nogil:
    """All coefficients and outputs of output q *= factor, also inside a block.  O(n)."""
    cdef Py_ssize_t i, count = f.count
    cdef double *alpha = f.alpha + q * f.n
    cdef double *outputs = f.outputs + q * f.n
    cdef double *local = f.local + q * FIXED_BLOCK
    cdef double *delta = f.delta + q * FIXED_BLOCK
    if factor == 0.0:  # a product with 0 would keep an infinity alive
        memset(alpha, 0, f.n * sizeof(double))
        memset(outputs, 0, f.n * sizeof(double))
        memset(local, 0, count * sizeof(double))
        memset(delta, 0, count * sizeof(double))
        return
    for i in range(f.n):
        alpha[i] *= factor
        outputs[i] *= factor
    for i in range(count):
        local[i] *= factor
        delta[i] *= factor
