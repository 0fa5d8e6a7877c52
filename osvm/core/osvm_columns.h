/* Inner loops of kernel columns: distances in few dimensions, sums of columns, sparse blocks.
 *
 * Each loop is written once and compiled twice, for the baseline instruction set and for
 * AVX2, chosen at run time; no fused multiply-add, so that both give the same bits.
 */
#ifndef OSVM_COLUMNS_H
#define OSVM_COLUMNS_H

#include "osvm_exp.h"

#define OSVM_COLUMN_CHUNK 512 /* rows handled together: their temporaries stay in the L1 cache */

#define OSVM_DEFINE_COLUMN_LOOPS(real, suffix, exp_one)                                       \
    /* out[i] = exp(-gamma ||x_i - z||^2); xt holds the rows feature by feature. */           \
    OSVM_FORCE_INLINE void osvm_loop_rbf_near_##suffix(                                       \
        real *__restrict out, ptrdiff_t n, ptrdiff_t d, const real *__restrict xt,            \
        ptrdiff_t ld, const real *__restrict z, real gamma) {                                 \
        ptrdiff_t i, j;                                                                       \
        if (d == 2) {                                                                         \
            const real *__restrict x0 = xt, *__restrict x1 = xt + ld;                         \
            const real z0 = z[0], z1 = z[1];                                                  \
            for (i = 0; i < n; i++) {                                                         \
                real a = x0[i] - z0, b = x1[i] - z1;                                          \
                out[i] = exp_one(-gamma * (a * a + b * b));                                   \
            }                                                                                 \
            return;                                                                           \
        }                                                                                     \
        for (i = 0; i < n; i++) out[i] = (real)0;                                             \
        for (j = 0; j < d; j++) {                                                             \
            const real *__restrict x = xt + j * ld;                                           \
            const real zj = z[j];                                                             \
            for (i = 0; i < n; i++) out[i] += (x[i] - zj) * (x[i] - zj);                      \
        }                                                                                     \
        for (i = 0; i < n; i++) out[i] = exp_one(-gamma * out[i]);                            \
    }                                                                                         \
    /* o += sum_k delta[k] columns[k], the sum in the columns' precision. */                  \
    OSVM_FORCE_INLINE void osvm_loop_combine_##suffix(                                        \
        double *__restrict o, ptrdiff_t n, const real *const *columns, const double *delta,   \
        ptrdiff_t count) {                                                                    \
        real sum[OSVM_COLUMN_CHUNK];                                                          \
        ptrdiff_t start, i, k;                                                                \
        for (start = 0; start < n; start += OSVM_COLUMN_CHUNK) {                              \
            ptrdiff_t m = n - start < OSVM_COLUMN_CHUNK ? n - start : OSVM_COLUMN_CHUNK;      \
            for (i = 0; i < m; i++) sum[i] = (real)0;                                         \
            for (k = 0; k + 4 <= count; k += 4) {                                             \
                const real *__restrict a = columns[k] + start;                                \
                const real *__restrict b = columns[k + 1] + start;                            \
                const real *__restrict c = columns[k + 2] + start;                            \
                const real *__restrict e = columns[k + 3] + start;                            \
                const real da = (real)delta[k], db = (real)delta[k + 1];                      \
                const real dc = (real)delta[k + 2], de = (real)delta[k + 3];                  \
                for (i = 0; i < m; i++)                                                       \
                    sum[i] += (da * a[i] + db * b[i]) + (dc * c[i] + de * e[i]);              \
            }                                                                                 \
            for (; k < count; k++) {                                                          \
                const real *__restrict a = columns[k] + start;                                \
                const real da = (real)delta[k];                                               \
                for (i = 0; i < m; i++) sum[i] += da * a[i];                                  \
            }                                                                                 \
            for (i = 0; i < m; i++) o[start + i] += (double)sum[i];                           \
        }                                                                                     \
    }                                                                                         \
    /* acc[0..width) += value * w[0..width), for a sparse row against a block of columns. */  \
    OSVM_FORCE_INLINE void osvm_loop_block_axpy_##suffix(                                     \
        real *__restrict acc, ptrdiff_t width, ptrdiff_t count,                               \
        const int32_t *__restrict local, const real *__restrict values,                       \
        const real *__restrict w) {                                                           \
        ptrdiff_t i, k;                                                                       \
        for (k = 0; k < count; k++) {                                                         \
            const real *__restrict row = w + (ptrdiff_t)local[k] * width;                     \
            const real v = values[k];                                                         \
            for (i = 0; i < width; i++) acc[i] += v * row[i];                                 \
        }                                                                                     \
    }

OSVM_DEFINE_COLUMN_LOOPS(float, f32, osvm_exp_downf)
OSVM_DEFINE_COLUMN_LOOPS(double, f64, osvm_exp_down)

OSVM_DEFINE_DISPATCH(rbf_near, f32,
                     (float *out, ptrdiff_t n, ptrdiff_t d, const float *xt, ptrdiff_t ld,
                      const float *z, float gamma),
                     (out, n, d, xt, ld, z, gamma))
OSVM_DEFINE_DISPATCH(rbf_near, f64,
                     (double *out, ptrdiff_t n, ptrdiff_t d, const double *xt, ptrdiff_t ld,
                      const double *z, double gamma),
                     (out, n, d, xt, ld, z, gamma))
OSVM_DEFINE_DISPATCH(combine, f32,
                     (double *o, ptrdiff_t n, const float *const *columns, const double *delta,
                      ptrdiff_t count),
                     (o, n, columns, delta, count))
OSVM_DEFINE_DISPATCH(combine, f64,
                     (double *o, ptrdiff_t n, const double *const *columns, const double *delta,
                      ptrdiff_t count),
                     (o, n, columns, delta, count))
OSVM_DEFINE_DISPATCH(block_axpy, f32,
                     (float *acc, ptrdiff_t width, ptrdiff_t count, const int32_t *local,
                      const float *values, const float *w),
                     (acc, width, count, local, values, w))
OSVM_DEFINE_DISPATCH(block_axpy, f64,
                     (double *acc, ptrdiff_t width, ptrdiff_t count, const int32_t *local,
                      const double *values, const double *w),
                     (acc, width, count, local, values, w))

#endif
