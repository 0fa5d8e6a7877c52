/* Inner loops of kernel blocks: distances in few dimensions, sums of columns, sparse tiles.
 */
#ifndef OSVM_COLUMNS_H
#define OSVM_COLUMNS_H

#include "exp.h"

#define OSVM_COLUMN_CHUNK 512 /* rows handled together: their temporaries stay in the L1 cache */

/* 2^-t for t >= 0 (a NaN counts as large): all that a Gaussian needs once gamma/ln 2 is one
 * factor of the distance.  n = round(t), 2^-t = 2^-n 2^-(t - n), the second factor by a
 * polynomial (interpolation of (2^-f - 1)/f at Chebyshev points, error 1e-7), the first by
 * adding to the exponent.  t is cut at 96, where 2^-t is below any rounding error of a sum
 * and products with it are still normal numbers. */
OSVM_FORCE_INLINE float osvm_exp2_downf(float t) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    int32_t bits;
    uint32_t exponent, result;
    float m, f, q;
    memcpy(&bits, &t, 4);
    bits = bits < 0x42c00000 ? bits : 0x42c00000; /* positive numbers compare as integers */
    memcpy(&t, &bits, 4);
    m = magic - t;
    f = t + (m - magic);
    q = 0.00015453163f;
    q = q * f - 0.0013390863f;
    q = q * f + 0.009618083f;
    q = q * f - 0.05550357f;
    q = q * f + 0.2402265f;
    q = q * f - 0.6931472f;
    q = q * f + 1.0f;
    memcpy(&exponent, &m, 4);
    memcpy(&result, &q, 4);
    result += exponent << 23; /* the low bits of m hold -n */
    memcpy(&q, &result, 4);
    return q;
}

OSVM_FORCE_INLINE double osvm_exp_of_minus(double t) { return osvm_exp_down(-t); }

#define OSVM_DEFINE_COLUMN_LOOPS(real, suffix, down, unit)                                    \
    /* out[i] = exp(-gamma ||x_i - z||^2); xt holds the rows feature by feature. */           \
    OSVM_FORCE_INLINE void osvm_loop_rbf_near_##suffix(                                       \
        real *__restrict out, ptrdiff_t n, ptrdiff_t d, const real *__restrict xt,            \
        ptrdiff_t ld, const real *__restrict z, real gamma) {                                 \
        const real rate = gamma * (real)unit;                                                 \
        ptrdiff_t i, j;                                                                       \
        if (d == 2) {                                                                         \
            const real *__restrict x0 = xt, *__restrict x1 = xt + ld;                         \
            const real z0 = z[0], z1 = z[1];                                                  \
            for (i = 0; i < n; i++) {                                                         \
                real a = x0[i] - z0, b = x1[i] - z1;                                          \
                out[i] = down(rate * (a * a + b * b));                                        \
            }                                                                                 \
            return;                                                                           \
        }                                                                                     \
        for (i = 0; i < n; i++) out[i] = (real)0;                                             \
        for (j = 0; j < d; j++) {                                                             \
            const real *__restrict x = xt + j * ld;                                           \
            const real zj = z[j];                                                             \
            for (i = 0; i < n; i++) out[i] += (x[i] - zj) * (x[i] - zj);                      \
        }                                                                                     \
        for (i = 0; i < n; i++) out[i] = down(rate * out[i]);                                 \
    }                                                                                         \
    /* o[i] += sum_k delta[k] exp(-gamma ||x_i - z_k||^2): columns that nobody keeps. */      \
    OSVM_FORCE_INLINE void osvm_loop_rbf_sum_##suffix(                                        \
        double *__restrict o, ptrdiff_t n, ptrdiff_t d, const real *__restrict xt,            \
        ptrdiff_t ld, const real *const *z, const double *delta, ptrdiff_t count,             \
        real gamma) {                                                                         \
        const real rate = gamma * (real)unit;                                                 \
        real sum[OSVM_COLUMN_CHUNK], part[OSVM_COLUMN_CHUNK];                                 \
        ptrdiff_t start, i, j, k;                                                             \
        for (start = 0; start < n; start += OSVM_COLUMN_CHUNK) {                              \
            ptrdiff_t m = n - start < OSVM_COLUMN_CHUNK ? n - start : OSVM_COLUMN_CHUNK;      \
            const real *__restrict x0 = xt + start, *__restrict x1 = xt + ld + start;         \
            for (i = 0; i < m; i++) sum[i] = (real)0;                                         \
            for (k = 0; d == 2 && k + 2 <= count; k += 2) {                                   \
                const real y0 = z[k][0], y1 = z[k][1], dy = (real)delta[k];                   \
                const real z0 = z[k + 1][0], z1 = z[k + 1][1], dz = (real)delta[k + 1];       \
                for (i = 0; i < m; i++) {                                                     \
                    real a = x0[i] - y0, b = x1[i] - y1, c = x0[i] - z0, e = x1[i] - z1;      \
                    sum[i] += dy * down(rate * (a * a + b * b)) +                             \
                              dz * down(rate * (c * c + e * e));                              \
                }                                                                             \
            }                                                                                 \
            for (; k < count; k++) {                                                          \
                const real dk = (real)delta[k];                                               \
                for (i = 0; i < m; i++) part[i] = (real)0;                                    \
                for (j = 0; j < d; j++) {                                                     \
                    const real *__restrict x = xt + j * ld + start;                           \
                    const real zj = z[k][j];                                                  \
                    for (i = 0; i < m; i++) part[i] += (x[i] - zj) * (x[i] - zj);             \
                }                                                                             \
                for (i = 0; i < m; i++) sum[i] += dk * down(rate * part[i]);                  \
            }                                                                                 \
            for (i = 0; i < m; i++) o[start + i] += (double)sum[i];                           \
        }                                                                                     \
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
    OSVM_FORCE_INLINE void osvm_tile4_##suffix(                                               \
        real *__restrict out, ptrdiff_t n, const real *__restrict t0,                         \
        const real *__restrict t1, const real *__restrict t2, const real *__restrict t3,      \
        const real *__restrict c) {                                                           \
        const real c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];                                \
        ptrdiff_t i;                                                                          \
        for (i = 0; i < n; i++) {                                                             \
            real t = out[i];                                                                  \
            t += c0 * t0[i];                                                                  \
            t += c1 * t1[i];                                                                  \
            t += c2 * t2[i];                                                                  \
            t += c3 * t3[i];                                                                  \
            out[i] = t;                                                                       \
        }                                                                                     \
    }                                                                                         \
    /* One sparse row against a tile: out[b] = sum_k v[k] tile[map[j[k]] ld + b]; row 0 of    \
     * the tile is zero and stands for the features that the tile does not have.  Terms are   \
     * added in the order of the entries, four at a time to keep the sum in a register. */    \
    OSVM_FORCE_INLINE void osvm_loop_tiledot_##suffix(                                        \
        const real *__restrict v, const int32_t *__restrict j, ptrdiff_t count,               \
        const int32_t *__restrict map, const real *__restrict tile, ptrdiff_t ld,             \
        ptrdiff_t n, real *__restrict out) {                                                  \
        ptrdiff_t i, k;                                                                       \
        if (ld == 1) { /* a tile of one column */                                             \
            real s0 = 0, s1 = 0, s2 = 0, s3 = 0;                                              \
            for (k = 0; k + 4 <= count; k += 4) {                                             \
                s0 += v[k] * tile[map[j[k]]];                                                 \
                s1 += v[k + 1] * tile[map[j[k + 1]]];                                         \
                s2 += v[k + 2] * tile[map[j[k + 2]]];                                         \
                s3 += v[k + 3] * tile[map[j[k + 3]]];                                         \
            }                                                                                 \
            for (; k < count; k++) s0 += v[k] * tile[map[j[k]]];                              \
            out[0] = (s0 + s1) + (s2 + s3);                                                   \
            return;                                                                           \
        }                                                                                     \
        for (i = 0; i < n; i++) out[i] = 0;                                                   \
        for (k = 0; k < count;) {                                                             \
            const real *t[4];                                                                 \
            real c[4];                                                                        \
            int hits = 0;                                                                     \
            for (; k < count && hits < 4; k++) {                                              \
                ptrdiff_t row = map[j[k]];                                                    \
                if (row != 0) {                                                               \
                    t[hits] = tile + row * ld;                                                \
                    c[hits++] = v[k];                                                         \
                }                                                                             \
            }                                                                                 \
            for (; hits < 4; hits++) {                                                        \
                t[hits] = tile;                                                               \
                c[hits] = 0;                                                                  \
            }                                                                                 \
            osvm_tile4_##suffix(out, n, t[0], t[1], t[2], t[3], c);                           \
        }                                                                                     \
    }

OSVM_DEFINE_COLUMN_LOOPS(float, f32, osvm_exp2_downf, 1.4426950408889634)
OSVM_DEFINE_COLUMN_LOOPS(double, f64, osvm_exp_of_minus, 1.0)

OSVM_DISPATCH(rbf_near_f32,
                     (float *out, ptrdiff_t n, ptrdiff_t d, const float *xt, ptrdiff_t ld,
                      const float *z, float gamma),
                     (out, n, d, xt, ld, z, gamma))
OSVM_DISPATCH(rbf_near_f64,
                     (double *out, ptrdiff_t n, ptrdiff_t d, const double *xt, ptrdiff_t ld,
                      const double *z, double gamma),
                     (out, n, d, xt, ld, z, gamma))
OSVM_DISPATCH(rbf_sum_f32,
                     (double *o, ptrdiff_t n, ptrdiff_t d, const float *xt, ptrdiff_t ld,
                      const float *const *z, const double *delta, ptrdiff_t count, float gamma),
                     (o, n, d, xt, ld, z, delta, count, gamma))
OSVM_DISPATCH(combine_f32,
                     (double *o, ptrdiff_t n, const float *const *columns, const double *delta,
                      ptrdiff_t count),
                     (o, n, columns, delta, count))
OSVM_DISPATCH(rbf_sum_f64,
                     (double *o, ptrdiff_t n, ptrdiff_t d, const double *xt, ptrdiff_t ld,
                      const double *const *z, const double *delta, ptrdiff_t count, double gamma),
                     (o, n, d, xt, ld, z, delta, count, gamma))
OSVM_DISPATCH(combine_f64,
                     (double *o, ptrdiff_t n, const double *const *columns, const double *delta,
                      ptrdiff_t count),
                     (o, n, columns, delta, count))
OSVM_DISPATCH(tiledot_f32,
                     (const float *v, const int32_t *j, ptrdiff_t count, const int32_t *map,
                      const float *tile, ptrdiff_t ld, ptrdiff_t n, float *out),
                     (v, j, count, map, tile, ld, n, out))
OSVM_DISPATCH(tiledot_f64,
                     (const double *v, const int32_t *j, ptrdiff_t count, const int32_t *map,
                      const double *tile, ptrdiff_t ld, ptrdiff_t n, double *out),
                     (v, j, count, map, tile, ld, n, out))

#endif
