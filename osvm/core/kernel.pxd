# Kernels on rows, and on dot products that a gemm has already computed.
#
# Invariants
# - Every kernel but `custom` and `precomputed` is a function of x.z, ||x||^2 and
#   ||z||^2, so a block of rows is one matrix product and one kernel_from_dots.
# - kernel_from_dot (one value) and kernel_from_dots (an array of doubles) agree bit
#   for bit; the float32 array form rounds once more per operation.
# - rbf clips a squared distance that rounding made negative to 0; cosine is 0 when a
#   norm is 0.
# - exp is the library's own (exp.h): no libm call, 1-2 ulp, vectorised.
from libc.math cimport NAN, sqrt, tanh
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from osvm.core.rows cimport row_index, row_is_sorted, row_value
from osvm.core.typedefs cimport (  # no-cython-lint: clients may cimport kernel_fn_t from here
    ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, ROW_F64_DENSE, ROW_F64_I32, ROW_F64_I64, Kernel, Row,
    float32_t, float64_t, index_t, kernel_fn_t, value_t, weight_t,
)

cdef extern from "../_c/exp.h" nogil:
    double osvm_exp_down(double x)
    double osvm_powi(double x, int n)
    void osvm_exp_down_f32(float *x, Py_ssize_t n)
    void osvm_exp_down_f64(double *x, Py_ssize_t n)
    void osvm_rbf_f32(float *dots, Py_ssize_t n, float gamma, float sq_x, const float *sq_z)
    void osvm_rbf_f64(double *dots, Py_ssize_t n, double gamma, double sq_x, const double *sq_z)
    void osvm_poly_f32(float *dots, Py_ssize_t n, float gamma, float coef0, int degree)
    void osvm_poly_f64(double *dots, Py_ssize_t n, double gamma, double coef0, int degree)

cdef enum KernelKind:
    KERNEL_LINEAR = 0
    KERNEL_RBF = 1          # exp(-gamma ||x - z||^2)
    KERNEL_POLYNOMIAL = 2   # (gamma x.z + coef0)^degree
    KERNEL_SIGMOID = 3      # tanh(gamma x.z + coef0)
    KERNEL_COSINE = 4       # x.z / (||x|| ||z||)
    KERNEL_CUSTOM = 5       # kernel_fn, user
    KERNEL_PRECOMPUTED = 6  # the caller reads the values from a matrix


cdef inline void kernel_init(Kernel *kernel, int kind, double gamma) noexcept nogil:
    """A kernel of this kind with coef0 = 0 and degree = 3."""
    memset(kernel, 0, sizeof(Kernel))
    kernel.struct_size = sizeof(Kernel)
    kernel.kind = kind
    kernel.gamma = gamma
    kernel.degree = 3


cdef inline bint kernel_uses_dots(const Kernel *kernel) noexcept nogil:
    """True when the dot product and the norms are enough (not custom, not precomputed)."""
    return kernel.kind != KERNEL_CUSTOM and kernel.kind != KERNEL_PRECOMPUTED


cdef inline bint kernel_uses_norms(const Kernel *kernel) noexcept nogil:
    """True when sq_x and sq_z are read; otherwise they may be 0 and NULL."""
    return kernel.kind == KERNEL_RBF or kernel.kind == KERNEL_COSINE


# ------------------------------------------------------------- one value

cdef inline double kernel_from_dot(const Kernel *kernel, double dot, double sq_x,
                                   double sq_z) noexcept nogil:
    """k(x, z) from x.z, ||x||^2 and ||z||^2; NaN for custom and precomputed."""
    cdef int kind = kernel.kind
    cdef double d
    if kind == KERNEL_LINEAR:
        return dot
    elif kind == KERNEL_RBF:
        d = sq_x + sq_z - 2.0 * dot
        return osvm_exp_down(-kernel.gamma * (0.0 if d < 0.0 else d))
    elif kind == KERNEL_POLYNOMIAL:
        return osvm_powi(kernel.gamma * dot + kernel.coef0, kernel.degree)
    elif kind == KERNEL_SIGMOID:
        return tanh(kernel.gamma * dot + kernel.coef0)
    elif kind == KERNEL_COSINE:
        d = sqrt(sq_x) * sqrt(sq_z)
        return dot / d if d != 0.0 else 0.0
    return NAN


cdef inline double kernel_self(const Kernel *kernel, double sq_x) noexcept nogil:
    """k(x, x) from ||x||^2; NaN for custom and precomputed."""
    if kernel.kind == KERNEL_RBF:
        return 1.0
    if kernel.kind == KERNEL_COSINE:
        return 1.0 if sq_x != 0.0 else 0.0
    return kernel_from_dot(kernel, sq_x, sq_x, sq_x)


# ------------------------------------------------------------- one array

cdef inline void kernel_from_dots(const Kernel *kernel, weight_t *dots, Py_ssize_t n,
                                  double sq_x, const weight_t *sq_z) noexcept nogil:
    """Replace n dot products of x with z_1 .. z_n by the kernel's values, in place."""
    cdef Py_ssize_t i
    cdef weight_t d, root, zero = 0, gamma, coef0
    gamma = <weight_t> kernel.gamma
    coef0 = <weight_t> kernel.coef0
    if kernel.kind == KERNEL_RBF:
        if weight_t is float32_t:
            osvm_rbf_f32(dots, n, gamma, <float> sq_x, sq_z)
        else:
            osvm_rbf_f64(dots, n, gamma, sq_x, sq_z)
    elif kernel.kind == KERNEL_POLYNOMIAL:
        if weight_t is float32_t:
            osvm_poly_f32(dots, n, gamma, coef0, kernel.degree)
        else:
            osvm_poly_f64(dots, n, gamma, coef0, kernel.degree)
    elif kernel.kind == KERNEL_SIGMOID:
        for i in range(n):
            dots[i] = <weight_t> tanh(gamma * dots[i] + coef0)
    elif kernel.kind == KERNEL_COSINE:
        root = <weight_t> sqrt(sq_x)
        for i in range(n):
            d = root * <weight_t> sqrt(<double> sq_z[i])
            dots[i] = dots[i] / d if d != zero else zero
    elif kernel.kind != KERNEL_LINEAR:
        for i in range(n):
            dots[i] = <weight_t> NAN


# ------------------------------------------------------------- two rows

cdef inline double merge_dot(const value_t *a, const index_t *ja, Py_ssize_t na,
                             const value_t *b, const index_t *jb,
                             Py_ssize_t nb) noexcept nogil:
    cdef Py_ssize_t p = 0, q = 0
    cdef double total = 0.0
    while p < na and q < nb:
        if ja[p] == jb[q]:
            total += <double> a[p] * <double> b[q]
            p += 1
            q += 1
        elif ja[p] < jb[q]:
            p += 1
        else:
            q += 1
    return total


cdef inline double row_dot_row_sorted(const Row *x, const Row *z) noexcept nogil:
    """x.z of two sparse rows whose columns increase strictly."""
    cdef Py_ssize_t p = 0, q = 0
    cdef Py_ssize_t jp, jq
    cdef double total = 0.0
    if x.kind == z.kind:  # rows of one matrix: specialised loops
        if x.kind == ROW_F32_I32:
            total = merge_dot(<const float32_t *> x.values, <const int32_t *> x.indices, x.count,
                              <const float32_t *> z.values, <const int32_t *> z.indices, z.count)
        elif x.kind == ROW_F64_I32:
            total = merge_dot(<const float64_t *> x.values, <const int32_t *> x.indices, x.count,
                              <const float64_t *> z.values, <const int32_t *> z.indices, z.count)
        elif x.kind == ROW_F32_I64:
            total = merge_dot(<const float32_t *> x.values, <const int64_t *> x.indices, x.count,
                              <const float32_t *> z.values, <const int64_t *> z.indices, z.count)
        else:
            total = merge_dot(<const float64_t *> x.values, <const int64_t *> x.indices, x.count,
                              <const float64_t *> z.values, <const int64_t *> z.indices, z.count)
        return x.scale * z.scale * total
    while p < x.count and q < z.count:
        jp = row_index(x, p)
        jq = row_index(z, q)
        if jp == jq:
            total += row_value(x, p) * row_value(z, q)
        if jp <= jq:
            p += 1
        if jq <= jp:
            q += 1
    return total


cdef inline double dense_dot_dense(const value_t *a, Py_ssize_t step_a, const value_t *b,
                                   Py_ssize_t step_b, Py_ssize_t n) noexcept nogil:
    cdef double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0
    cdef Py_ssize_t k = 0
    while k + 4 <= n:
        s0 += <double> a[k * step_a] * <double> b[k * step_b]
        s1 += <double> a[(k + 1) * step_a] * <double> b[(k + 1) * step_b]
        s2 += <double> a[(k + 2) * step_a] * <double> b[(k + 2) * step_b]
        s3 += <double> a[(k + 3) * step_a] * <double> b[(k + 3) * step_b]
        k += 4
    while k < n:
        s0 += <double> a[k * step_a] * <double> b[k * step_b]
        k += 1
    return (s0 + s1) + (s2 + s3)


cdef inline double row_dot_row(const Row *x, const Row *z) noexcept nogil:
    """x.z of any two rows.

    Two sparse rows are merged when both have strictly increasing columns, which is
    checked; otherwise every pair is compared, which is right for unsorted and
    repeated columns and costs O(count_x count_z).  Use row_dot_row_sorted to skip the
    check.
    """
    cdef Py_ssize_t p, q, n
    cdef double total = 0.0
    if x.indices == NULL and z.indices == NULL:
        n = x.count if x.count < z.count else z.count
        if x.kind == ROW_F32_DENSE and z.kind == ROW_F32_DENSE:
            total = dense_dot_dense(<const float32_t *> x.values, x.step,
                                    <const float32_t *> z.values, z.step, n)
            return x.scale * z.scale * total
        if x.kind == ROW_F64_DENSE and z.kind == ROW_F64_DENSE:
            total = dense_dot_dense(<const float64_t *> x.values, x.step,
                                    <const float64_t *> z.values, z.step, n)
            return x.scale * z.scale * total
        for p in range(n):
            total += row_value(x, p) * row_value(z, p)
        return total
    if x.indices == NULL:
        for q in range(z.count):
            total += row_value(x, row_index(z, q)) * row_value(z, q)
        return total
    if z.indices == NULL:
        for p in range(x.count):
            total += row_value(x, p) * row_value(z, row_index(x, p))
        return total
    if row_is_sorted(x) and row_is_sorted(z):
        return row_dot_row_sorted(x, z)
    for p in range(x.count):
        for q in range(z.count):
            if row_index(x, p) == row_index(z, q):
                total += row_value(x, p) * row_value(z, q)
    return total


cdef inline double kernel_rows(const Kernel *kernel, const Row *x, const Row *z) noexcept nogil:
    """k(x, z) of two rows of any kind; NaN for precomputed."""
    if kernel.kind == KERNEL_CUSTOM:
        return kernel.kernel_fn(x, z, kernel.user)
    if kernel.kind == KERNEL_PRECOMPUTED:
        return NAN
    if kernel_uses_norms(kernel):
        return kernel_from_dot(kernel, row_dot_row(x, z), row_dot_row(x, x), row_dot_row(z, z))
    return kernel_from_dot(kernel, row_dot_row(x, z), 0.0, 0.0)
