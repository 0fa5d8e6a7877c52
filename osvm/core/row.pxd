# One row and one array of weights: dot products and updates.
#
# The loops over non-zeros are specialized for the types of values, column numbers and
# weights; row_dot, row_axpy and the like choose one by the row's kind.  What is in rows.pxd
# may be cimported from here too.
from libc.stdint cimport int32_t, int64_t

from osvm.core.rows cimport (  # no-cython-lint: clients may cimport these from here
    OSVM_PREFETCH, row_index, row_is_sorted, row_sq_norm, row_value, rows_get, rows_init_csr,
    rows_init_dense, rows_prefetch, rows_prefetch_start,
)
from osvm.core.typedefs cimport (  # no-cython-lint
    ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, ROW_F64_DENSE, ROW_F64_I32, ROW_F64_I64, Row, RowKind,
    Rows, float32_t, float64_t, index_t, value_t, weight_t,
)

cdef extern from "../_c/simd.h" nogil:
    void OSVM_APART(...)    # of a float or double variable
    void osvm_add_pair(float *place, float x, float c, float d)


# ------------------------------------------------- loops over one row's values
# Four running sums, because one would wait for each addition to finish.

cdef inline double sparse_dot(const value_t *x, const index_t *j, Py_ssize_t n,
                              const weight_t *w) noexcept nogil:
    cdef weight_t a0 = 0, a1 = 0, a2 = 0, a3 = 0
    cdef Py_ssize_t k = 0
    while k + 4 <= n:
        a0 += <weight_t> x[k] * w[j[k]]
        a1 += <weight_t> x[k + 1] * w[j[k + 1]]
        a2 += <weight_t> x[k + 2] * w[j[k + 2]]
        a3 += <weight_t> x[k + 3] * w[j[k + 3]]
        OSVM_APART(a0)
        OSVM_APART(a1)
        OSVM_APART(a2)
        OSVM_APART(a3)
        k += 4
    while k < n:
        a0 += <weight_t> x[k] * w[j[k]]
        k += 1
    return <double> ((a0 + a1) + (a2 + a3))


# The same sum in the same order; on the way it asks for another row's arrays, at each
# step what lies there.  Asking for a line more than once is cheaper than a loop of
# whole lines, whose end the processor guesses wrong once more for each row.
cdef inline double sparse_dot_ahead(const value_t *x, const index_t *j, Py_ssize_t n,
                                    const weight_t *w, const value_t *next_x,
                                    const index_t *next_j) noexcept nogil:
    cdef weight_t a0 = 0, a1 = 0, a2 = 0, a3 = 0
    cdef Py_ssize_t k = 0
    while k + 4 <= n:
        OSVM_PREFETCH(next_x + k)
        OSVM_PREFETCH(next_j + k)
        a0 += <weight_t> x[k] * w[j[k]]
        a1 += <weight_t> x[k + 1] * w[j[k + 1]]
        a2 += <weight_t> x[k + 2] * w[j[k + 2]]
        a3 += <weight_t> x[k + 3] * w[j[k + 3]]
        OSVM_APART(a0)
        OSVM_APART(a1)
        OSVM_APART(a2)
        OSVM_APART(a3)
        k += 4
    OSVM_PREFETCH(next_x + k)
    OSVM_PREFETCH(next_j + k)
    while k < n:
        a0 += <weight_t> x[k] * w[j[k]]
        k += 1
    return <double> ((a0 + a1) + (a2 + a3))


cdef inline double dense_dot(const value_t *x, Py_ssize_t step, Py_ssize_t n,
                             const weight_t *w) noexcept nogil:
    cdef weight_t a0 = 0, a1 = 0, a2 = 0, a3 = 0
    cdef Py_ssize_t k = 0
    if step == 1:
        while k + 4 <= n:
            a0 += <weight_t> x[k] * w[k]
            a1 += <weight_t> x[k + 1] * w[k + 1]
            a2 += <weight_t> x[k + 2] * w[k + 2]
            a3 += <weight_t> x[k + 3] * w[k + 3]
            k += 4
    while k < n:
        a0 += <weight_t> x[k * step] * w[k]
        k += 1
    return <double> ((a0 + a1) + (a2 + a3))


cdef inline void sparse_axpy(const value_t *x, const index_t *j, Py_ssize_t n,
                             double c, weight_t *w) noexcept nogil:
    cdef Py_ssize_t k = 0
    cdef weight_t c_ = <weight_t> c
    while k + 4 <= n:
        w[j[k]] += c_ * <weight_t> x[k]
        w[j[k + 1]] += c_ * <weight_t> x[k + 1]
        w[j[k + 2]] += c_ * <weight_t> x[k + 2]
        w[j[k + 3]] += c_ * <weight_t> x[k + 3]
        k += 4
    while k < n:
        w[j[k]] += c_ * <weight_t> x[k]
        k += 1


# Two arrays at once, which reads the row once.
cdef inline void sparse_axpy_both(const value_t *x, const index_t *j, Py_ssize_t n, double c,
                                  double d, weight_t *w, weight_t *u) noexcept nogil:
    cdef Py_ssize_t k
    cdef weight_t c_ = <weight_t> c, d_ = <weight_t> d
    for k in range(n):
        w[j[k]] += c_ * <weight_t> x[k]
        u[j[k]] += d_ * <weight_t> x[k]


# Weights and the accumulator of their average side by side, w[0] u[0] w[1] u[1] ...: a
# step on both touches one place in memory for each entry instead of two.
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


cdef inline void dense_axpy(const value_t *x, Py_ssize_t step, Py_ssize_t n,
                            double c, weight_t *w) noexcept nogil:
    cdef Py_ssize_t k
    cdef weight_t c_ = <weight_t> c
    if step == 1:
        for k in range(n):
            w[k] += c_ * <weight_t> x[k]
    else:
        for k in range(n):
            w[k] += c_ * <weight_t> x[k * step]


# place += amount; the change of the square.
cdef inline weight_t add_to(weight_t *place, weight_t amount) noexcept nogil:
    cdef weight_t old = place[0], new = old + amount
    place[0] = new
    return (new - old) * (new + old)


# The same, returning the change of ||w||^2.  Summing new^2 - old^2 entry by entry
# stays exact, to the precision of the weights, with repeated columns and with float32
# rounding, where 2c(w.x) + c^2||x||^2 would not.
cdef inline double sparse_axpy_norm(const value_t *x, const index_t *j, Py_ssize_t n,
                                    double c, weight_t *w) noexcept nogil:
    cdef Py_ssize_t k = 0
    cdef weight_t c_ = <weight_t> c, d0, d1, d2, d3
    cdef double change = 0.0
    while k + 4 <= n:
        d0 = add_to(&w[j[k]], c_ * <weight_t> x[k])
        d1 = add_to(&w[j[k + 1]], c_ * <weight_t> x[k + 1])
        d2 = add_to(&w[j[k + 2]], c_ * <weight_t> x[k + 2])
        d3 = add_to(&w[j[k + 3]], c_ * <weight_t> x[k + 3])
        change += <double> ((d0 + d1) + (d2 + d3))
        k += 4
    while k < n:
        change += <double> add_to(&w[j[k]], c_ * <weight_t> x[k])
        k += 1
    return change


cdef inline double dense_axpy_norm(const value_t *x, Py_ssize_t step, Py_ssize_t n,
                                   double c, weight_t *w) noexcept nogil:
    cdef Py_ssize_t k
    cdef weight_t c_ = <weight_t> c
    cdef weight_t old, new
    cdef double change = 0.0
    for k in range(n):
        old = w[k]
        new = old + c_ * <weight_t> x[k * step]
        w[k] = new
        change += (<double> new - <double> old) * (<double> new + <double> old)
    return change


# ----------------------------------------------------- one row of any kind

cdef inline double row_dot(const Row *x, const weight_t *w) noexcept nogil:
    """x . w, with w a dense array over the features."""
    cdef double total
    if x.kind == ROW_F32_I32:
        total = sparse_dot(<const float32_t *> x.values, <const int32_t *> x.indices, x.count, w)
    elif x.kind == ROW_F64_I32:
        total = sparse_dot(<const float64_t *> x.values, <const int32_t *> x.indices, x.count, w)
    elif x.kind == ROW_F32_I64:
        total = sparse_dot(<const float32_t *> x.values, <const int64_t *> x.indices, x.count, w)
    elif x.kind == ROW_F64_I64:
        total = sparse_dot(<const float64_t *> x.values, <const int64_t *> x.indices, x.count, w)
    elif x.kind == ROW_F32_DENSE:
        total = dense_dot(<const float32_t *> x.values, x.step, x.count, w)
    else:
        total = dense_dot(<const float64_t *> x.values, x.step, x.count, w)
    return x.scale * total


cdef inline double row_dot_ahead(const Row *x, const weight_t *w,
                                 const Row *next) noexcept nogil:
    """row_dot, fetching `next`, a row of the same matrix, on the way."""
    cdef double total
    if x.kind == ROW_F32_I32:
        total = sparse_dot_ahead(<const float32_t *> x.values, <const int32_t *> x.indices,
                                 x.count, w, <const float32_t *> next.values,
                                 <const int32_t *> next.indices)
    elif x.kind == ROW_F64_I32:
        total = sparse_dot_ahead(<const float64_t *> x.values, <const int32_t *> x.indices,
                                 x.count, w, <const float64_t *> next.values,
                                 <const int32_t *> next.indices)
    elif x.kind == ROW_F32_I64:
        total = sparse_dot_ahead(<const float32_t *> x.values, <const int64_t *> x.indices,
                                 x.count, w, <const float32_t *> next.values,
                                 <const int64_t *> next.indices)
    elif x.kind == ROW_F64_I64:
        total = sparse_dot_ahead(<const float64_t *> x.values, <const int64_t *> x.indices,
                                 x.count, w, <const float64_t *> next.values,
                                 <const int64_t *> next.indices)
    else:
        OSVM_PREFETCH(next.values)
        OSVM_PREFETCH(<const char *> next.values + 64)
        return row_dot(x, w)
    return x.scale * total


cdef inline void row_axpy(const Row *x, double c, weight_t *w) noexcept nogil:
    """w += c x."""
    c *= x.scale
    if x.kind == ROW_F32_I32:
        sparse_axpy(<const float32_t *> x.values, <const int32_t *> x.indices, x.count, c, w)
    elif x.kind == ROW_F64_I32:
        sparse_axpy(<const float64_t *> x.values, <const int32_t *> x.indices, x.count, c, w)
    elif x.kind == ROW_F32_I64:
        sparse_axpy(<const float32_t *> x.values, <const int64_t *> x.indices, x.count, c, w)
    elif x.kind == ROW_F64_I64:
        sparse_axpy(<const float64_t *> x.values, <const int64_t *> x.indices, x.count, c, w)
    elif x.kind == ROW_F32_DENSE:
        dense_axpy(<const float32_t *> x.values, x.step, x.count, c, w)
    else:
        dense_axpy(<const float64_t *> x.values, x.step, x.count, c, w)


cdef inline double row_axpy_norm(const Row *x, double c, weight_t *w) noexcept nogil:
    """w += c x; the change of ||w||^2."""
    c *= x.scale
    if x.kind == ROW_F32_I32:
        return sparse_axpy_norm(<const float32_t *> x.values, <const int32_t *> x.indices,
                                x.count, c, w)
    if x.kind == ROW_F64_I32:
        return sparse_axpy_norm(<const float64_t *> x.values, <const int32_t *> x.indices,
                                x.count, c, w)
    if x.kind == ROW_F32_I64:
        return sparse_axpy_norm(<const float32_t *> x.values, <const int64_t *> x.indices,
                                x.count, c, w)
    if x.kind == ROW_F64_I64:
        return sparse_axpy_norm(<const float64_t *> x.values, <const int64_t *> x.indices,
                                x.count, c, w)
    if x.kind == ROW_F32_DENSE:
        return dense_axpy_norm(<const float32_t *> x.values, x.step, x.count, c, w)
    return dense_axpy_norm(<const float64_t *> x.values, x.step, x.count, c, w)
