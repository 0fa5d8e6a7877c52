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
from libc.string cimport memset

from osvm.core.rows cimport row_dot_row
from osvm.core.typedefs cimport (  # no-cython-lint: clients may cimport kernel_fn_t from here
    Kernel, Row, float32_t, kernel_fn_t, weight_t,
)

cdef extern from "../_c/exp.h" nogil:
    double osvm_exp_down(double x)
    double osvm_powi(double x, int n)
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


cdef inline double kernel_rows(const Kernel *kernel, const Row *x, const Row *z) noexcept nogil:
    """k(x, z) of two rows of any kind; NaN for precomputed."""
    if kernel.kind == KERNEL_CUSTOM:
        return kernel.kernel_fn(x, z, kernel.user)
    if kernel.kind == KERNEL_PRECOMPUTED:
        return NAN
    if kernel_uses_norms(kernel):
        return kernel_from_dot(kernel, row_dot_row(x, z), row_dot_row(x, x), row_dot_row(z, z))
    return kernel_from_dot(kernel, row_dot_row(x, z), 0.0, 0.0)
