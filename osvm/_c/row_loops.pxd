# Loops over the values of one sparse row and one array of weights, by the types of their
# arguments.
#
# The weights and the accumulator of their average may lie side by side, w[0] u[0] w[1] u[1] ...: a
# step on both then touches one place in memory for each entry instead of two (`pairs_...`).
from osvm.core.typedefs cimport float32_t, index_t, value_t, weight_t

cdef extern from "../_c/row.h" nogil:
    void OSVM_APART(...)    # of a float or double variable
    void OSVM_PREFETCH(const void *address)
    void osvm_add_pair(float *place, float x, float c, float d)
    # (x, j, n, w): the dot product
    double sparse_dot "osvm_sparse_dot"(...)
    # (x, j, n, w, next_x, next_j): the same, fetching another row's arrays
    double sparse_dot_ahead "osvm_sparse_dot_ahead"(...)
    # (x, j, n, c, w): w += c x
    void sparse_axpy "osvm_sparse_axpy"(...)
    # (x, j, n, c, w): the same; the change of ||w||^2
    double sparse_axpy_norm "osvm_sparse_axpy_norm"(...)


# Two arrays at once, which reads the row once.
cdef inline void sparse_axpy_both(const value_t *x, const index_t *j, Py_ssize_t n, double c,
                                  double d, weight_t *w, weight_t *u) noexcept nogil:
    cdef Py_ssize_t k
    cdef weight_t c_ = <weight_t> c, d_ = <weight_t> d
    for k in range(n):
        w[j[k]] += c_ * <weight_t> x[k]
        u[j[k]] += d_ * <weight_t> x[k]


cdef inline double pairs_dot_ahead(const value_t *x, const index_t *j, Py_ssize_t n,
                                   const weight_t *wu, const value_t *next_x,
                                   const index_t *next_j) noexcept nogil:
    """`sparse_dot_ahead` of w, bit for bit."""
    cdef weight_t a0 = 0, a1 = 0, a2 = 0, a3 = 0
    cdef Py_ssize_t k = 0
    while k + 4 <= n:
        OSVM_PREFETCH(next_x + k)
        OSVM_PREFETCH(next_j + k)
        a0 += <weight_t> x[k] * wu[2 * <Py_ssize_t> j[k]]
        a1 += <weight_t> x[k + 1] * wu[2 * <Py_ssize_t> j[k + 1]]
        a2 += <weight_t> x[k + 2] * wu[2 * <Py_ssize_t> j[k + 2]]
        a3 += <weight_t> x[k + 3] * wu[2 * <Py_ssize_t> j[k + 3]]
        OSVM_APART(a0)
        OSVM_APART(a1)
        OSVM_APART(a2)
        OSVM_APART(a3)
        k += 4
    OSVM_PREFETCH(next_x + k)
    OSVM_PREFETCH(next_j + k)
    while k < n:
        a0 += <weight_t> x[k] * wu[2 * <Py_ssize_t> j[k]]
        k += 1
    return <double> ((a0 + a1) + (a2 + a3))


cdef inline void pairs_axpy(const value_t *x, const index_t *j, Py_ssize_t n, double c,
                            double d, weight_t *wu) noexcept nogil:
    """w += c x and u += d x."""
    cdef Py_ssize_t k
    cdef weight_t c_ = <weight_t> c, d_ = <weight_t> d
    cdef weight_t *place
    for k in range(n):
        place = wu + 2 * <Py_ssize_t> j[k]
        if weight_t is float32_t:
            osvm_add_pair(place, <float> x[k], c_, d_)
        else:
            place[0] += c_ * <weight_t> x[k]
            place[1] += d_ * <weight_t> x[k]
