# Products behind a block of kernel values: gemm, a sparse row through a tile, distances.
from libc.stdint cimport int32_t

from scipy.linalg.cython_blas cimport dgemm, dgemv, sgemm, sgemv

from osvm._c.structs cimport Tile
from osvm.core.kernel cimport kernel_from_dots
from osvm.core.typedefs cimport Kernel, float32_t, weight_t

cdef extern from "../_c/columns.h" nogil:
    void osvm_tiledot_f32(const float *v, const int32_t *j, Py_ssize_t count,
                          const int32_t *map, const float *tile, Py_ssize_t ld, Py_ssize_t n,
                          float *out)
    void osvm_tiledot_f64(const double *v, const int32_t *j, Py_ssize_t count,
                          const int32_t *map, const double *tile, Py_ssize_t ld, Py_ssize_t n,
                          double *out)
    void osvm_rbf_near_f32(float *out, Py_ssize_t n, Py_ssize_t d, const float *xt,
                           Py_ssize_t ld, const float *z, float gamma)
    void osvm_rbf_near_f64(double *out, Py_ssize_t n, Py_ssize_t d, const double *xt,
                           Py_ssize_t ld, const double *z, double gamma)


cdef inline void dense_block(const Kernel *kernel, const weight_t *A, Py_ssize_t n_a,
                             const weight_t *sq_a, const weight_t *B, Py_ssize_t n_b,
                             const weight_t *sq_b, Py_ssize_t d, weight_t *out,
                             Py_ssize_t ld) noexcept nogil:
    """out[i * ld + j] = k(a_i, b_j)"""
    cdef int m = <int> n_b, n = <int> n_a, k = <int> d, step = 1, apart = <int> ld
    cdef int depth = k if k > 1 else 1
    cdef weight_t one = 1, zero = 0
    cdef Py_ssize_t i
    if n_a == 0 or n_b == 0:
        return
    if n_b == 1 and ld == 1 and d > 0:  # one long array instead of many short ones
        if weight_t is float32_t:
            sgemv("T", &k, &n, &one, <float *> A, &depth, <float *> B, &step, &zero, out, &step)
        else:
            dgemv("T", &k, &n, &one, <double *> A, &depth, <double *> B, &step, &zero, out, &step)
        kernel_from_dots(kernel, out, n_a, <double> sq_b[0], sq_a)
        return
    if n_a == 1 and d > 0:
        if weight_t is float32_t:
            sgemv("T", &k, &m, &one, <float *> B, &depth, <float *> A, &step, &zero, out, &step)
        else:
            dgemv("T", &k, &m, &one, <double *> B, &depth, <double *> A, &step, &zero, out, &step)
    elif weight_t is float32_t:
        sgemm("T", "N", &m, &n, &k, &one, <float *> B, &depth, <float *> A, &depth, &zero, out,
              &apart)
    else:
        dgemm("T", "N", &m, &n, &k, &one, <double *> B, &depth, <double *> A, &depth, &zero, out,
              &apart)
    for i in range(n_a):
        kernel_from_dots(kernel, out + i * ld, n_b, <double> sq_a[i], sq_b)


cdef inline void walk(const weight_t *values, const int32_t *columns, Py_ssize_t count,
                      const Tile *tile, Py_ssize_t first, Py_ssize_t n,
                      weight_t *out) noexcept nogil:
    """out[b] = the dot product of a sparse row and column first + b, for n columns."""
    if weight_t is float32_t:
        osvm_tiledot_f32(values, columns, count, tile.map, <float *> tile.D + first, tile.width,
                         n, out)
    else:
        osvm_tiledot_f64(values, columns, count, tile.map, <double *> tile.D + first, tile.width,
                         n, out)


cdef inline void near_values(const Kernel *kernel, const weight_t *turned, Py_ssize_t n,
                             Py_ssize_t ld, Py_ssize_t d, const weight_t *z,
                             weight_t *out) noexcept nogil:
    """out[i] = k(x_i, z) for n rows that stand feature by feature, ld apart."""
    if weight_t is float32_t:
        osvm_rbf_near_f32(out, n, d, turned, ld, z, <float> kernel.gamma)
    else:
        osvm_rbf_near_f64(out, n, d, turned, ld, z, kernel.gamma)
