/* Sums over a kernel expansion, for a block of examples at once.
 *
 * A block of kernel values is slot-major: kv[s * ld + b] = k(x_s, x_b) for slot s of the
 * buffer and column b of the block, so that every loop below runs over neighbouring b.
 *
 * Invariants
 * - Sums are double, whatever the kernel values are, and each column's terms are added in
 *   the order of the slots: the sum of a column does not depend on the width of the block.
 * - No fused multiply-add and no reordering, so the plain and the wide build give the same
 *   bits.
 */
#ifndef OSVM_EXPAND_H
#define OSVM_EXPAND_H

#include <stddef.h>
#include <stdint.h>

#include "osvm_exp.h" /* OSVM_FORCE_INLINE and the run-time choice */

#define OSVM_CHUNK 16 /* columns whose sums stay in registers */

#define OSVM_DEFINE_EXPAND(real, suffix)                                                      \
    /* One output: fa[b] += sum_s a[s] kv[s][b], and fb likewise unless it is NULL. */        \
    OSVM_FORCE_INLINE void osvm_loop_expand1_##suffix(                                        \
        const real *__restrict kv, ptrdiff_t ld, ptrdiff_t n_slots, ptrdiff_t n,              \
        const double *__restrict a, const double *__restrict b, double *__restrict fa,        \
        double *__restrict fb) {                                                              \
        ptrdiff_t c, i, s;                                                                    \
        for (c = 0; c + OSVM_CHUNK <= n; c += OSVM_CHUNK) {                                   \
            double sa[OSVM_CHUNK], sb[OSVM_CHUNK];                                            \
            const real *k = kv + c;                                                           \
            for (i = 0; i < OSVM_CHUNK; i++) sa[i] = fa[c + i];                               \
            if (fb == NULL) {                                                                 \
                for (s = 0; s < n_slots; s++, k += ld)                                        \
                    for (i = 0; i < OSVM_CHUNK; i++) sa[i] += a[s] * (double)k[i];            \
            } else {                                                                          \
                for (i = 0; i < OSVM_CHUNK; i++) sb[i] = fb[c + i];                           \
                for (s = 0; s < n_slots; s++, k += ld)                                        \
                    for (i = 0; i < OSVM_CHUNK; i++) {                                        \
                        double v = (double)k[i];                                              \
                        sa[i] += a[s] * v;                                                    \
                        sb[i] += b[s] * v;                                                    \
                    }                                                                         \
                for (i = 0; i < OSVM_CHUNK; i++) fb[c + i] = sb[i];                           \
            }                                                                                 \
            for (i = 0; i < OSVM_CHUNK; i++) fa[c + i] = sa[i];                               \
        }                                                                                     \
        for (; c < n; c++) {                                                                  \
            double sa = fa[c], sb = fb == NULL ? 0.0 : fb[c];                                 \
            const real *k = kv + c;                                                           \
            for (s = 0; s < n_slots; s++, k += ld) {                                          \
                sa += a[s] * (double)k[0];                                                    \
                if (fb != NULL) sb += b[s] * (double)k[0];                                    \
            }                                                                                 \
            fa[c] = sa;                                                                       \
            if (fb != NULL) fb[c] = sb;                                                       \
        }                                                                                     \
    }                                                                                         \
    /* K outputs: the same with a[s * K + k] and fa[k * n + b].  Zero coefficients cost       \
     * nothing: the hinges leave two per slot whatever K is. */                               \
    OSVM_FORCE_INLINE void osvm_loop_expand_##suffix(                                         \
        const real *__restrict kv, ptrdiff_t ld, ptrdiff_t n_slots, ptrdiff_t n, ptrdiff_t K, \
        const double *__restrict a, const double *__restrict b, double *__restrict fa,        \
        double *__restrict fb) {                                                              \
        ptrdiff_t i, s, k;                                                                    \
        for (s = 0; s < n_slots; s++, kv += ld) {                                             \
            for (k = 0; k < K; k++) {                                                         \
                double ca = a[s * K + k], cb = b == NULL ? 0.0 : b[s * K + k];                \
                double *__restrict oa = fa + k * n;                                           \
                double *__restrict ob = fb + k * n;                                           \
                if (ca != 0.0 && cb != 0.0) {                                                 \
                    for (i = 0; i < n; i++) {                                                 \
                        double v = (double)kv[i];                                             \
                        oa[i] += ca * v;                                                      \
                        ob[i] += cb * v;                                                      \
                    }                                                                         \
                } else if (ca != 0.0) {                                                       \
                    for (i = 0; i < n; i++) oa[i] += ca * (double)kv[i];                      \
                } else if (cb != 0.0) {                                                       \
                    for (i = 0; i < n; i++) ob[i] += cb * (double)kv[i];                      \
                }                                                                             \
            }                                                                                 \
        }                                                                                     \
    }                                                                                         \
    /* A slot changed: f[b] += c_new k_new[b] - c_old k_old[b]. */                            \
    OSVM_FORCE_INLINE void osvm_loop_patch_##suffix(                                          \
        double *__restrict f, ptrdiff_t n, double c_new, const real *__restrict k_new,        \
        double c_old, const real *__restrict k_old) {                                         \
        ptrdiff_t i;                                                                          \
        for (i = 0; i < n; i++) f[i] += c_new * (double)k_new[i] - c_old * (double)k_old[i];  \
    }                                                                                         \
    /* One sparse row against a tile: out[b] = sum_k v[k] tile[map[j[k]]][b]; row 0 of the    \
     * tile is zero and stands for the features that the tile does not have. */               \
    OSVM_FORCE_INLINE void osvm_loop_tiledot_##suffix(                                        \
        const real *__restrict v, const int32_t *__restrict j, ptrdiff_t count,               \
        const int32_t *__restrict map, const real *__restrict tile, ptrdiff_t n,              \
        real *__restrict out) {                                                               \
        ptrdiff_t c, i, k;                                                                    \
        if (n == 1) {                                                                         \
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
        for (c = 0; c + OSVM_CHUNK <= n; c += OSVM_CHUNK) {                                   \
            real sum[OSVM_CHUNK];                                                             \
            for (i = 0; i < OSVM_CHUNK; i++) sum[i] = 0;                                      \
            for (k = 0; k < count; k++) {                                                     \
                ptrdiff_t row = map[j[k]];                                                    \
                const real *__restrict t = tile + row * n + c;                                \
                if (row == 0) continue;                                                       \
                for (i = 0; i < OSVM_CHUNK; i++) sum[i] += v[k] * t[i];                       \
            }                                                                                 \
            for (i = 0; i < OSVM_CHUNK; i++) out[c + i] = sum[i];                             \
        }                                                                                     \
        for (; c < n; c++) {                                                                  \
            real sum = 0;                                                                     \
            for (k = 0; k < count; k++) sum += v[k] * tile[(ptrdiff_t)map[j[k]] * n + c];     \
            out[c] = sum;                                                                     \
        }                                                                                     \
    }                                                                                         \
    /* One dense row against n rows: out[s] = x . rows[s]. */                                 \
    OSVM_FORCE_INLINE void osvm_loop_rowdots_##suffix(                                        \
        const real *__restrict rows, ptrdiff_t n, ptrdiff_t d, const real *__restrict x,      \
        real *__restrict out) {                                                               \
        ptrdiff_t s, k, i;                                                                    \
        for (s = 0; s + 4 <= n; s += 4) {                                                     \
            const real *r0 = rows + s * d, *r1 = r0 + d, *r2 = r1 + d, *r3 = r2 + d;          \
            real a0[8], a1[8], a2[8], a3[8];                                                  \
            for (i = 0; i < 8; i++) a0[i] = a1[i] = a2[i] = a3[i] = 0;                        \
            for (k = 0; k + 8 <= d; k += 8)                                                   \
                for (i = 0; i < 8; i++) {                                                     \
                    a0[i] += r0[k + i] * x[k + i];                                            \
                    a1[i] += r1[k + i] * x[k + i];                                            \
                    a2[i] += r2[k + i] * x[k + i];                                            \
                    a3[i] += r3[k + i] * x[k + i];                                            \
                }                                                                             \
            for (; k < d; k++) {                                                              \
                a0[0] += r0[k] * x[k];                                                        \
                a1[0] += r1[k] * x[k];                                                        \
                a2[0] += r2[k] * x[k];                                                        \
                a3[0] += r3[k] * x[k];                                                        \
            }                                                                                 \
            out[s] = ((a0[0] + a0[1]) + (a0[2] + a0[3])) + ((a0[4] + a0[5]) + (a0[6] + a0[7]));     \
            out[s + 1] = ((a1[0] + a1[1]) + (a1[2] + a1[3])) + ((a1[4] + a1[5]) + (a1[6] + a1[7])); \
            out[s + 2] = ((a2[0] + a2[1]) + (a2[2] + a2[3])) + ((a2[4] + a2[5]) + (a2[6] + a2[7])); \
            out[s + 3] = ((a3[0] + a3[1]) + (a3[2] + a3[3])) + ((a3[4] + a3[5]) + (a3[6] + a3[7])); \
        }                                                                                     \
        for (; s < n; s++) {                                                                  \
            const real *r0 = rows + s * d;                                                    \
            real a0[8];                                                                       \
            for (i = 0; i < 8; i++) a0[i] = 0;                                                \
            for (k = 0; k + 8 <= d; k += 8)                                                   \
                for (i = 0; i < 8; i++) a0[i] += r0[k + i] * x[k + i];                        \
            for (; k < d; k++) a0[0] += r0[k] * x[k];                                         \
            out[s] = ((a0[0] + a0[1]) + (a0[2] + a0[3])) + ((a0[4] + a0[5]) + (a0[6] + a0[7]));     \
        }                                                                                     \
    }

OSVM_DEFINE_EXPAND(float, f32)
OSVM_DEFINE_EXPAND(double, f64)

#define OSVM_DISPATCH_EXPAND(real, suffix)                                                    \
    OSVM_DEFINE_DISPATCH(expand1, suffix,                                                     \
                         (const real *kv, ptrdiff_t ld, ptrdiff_t n_slots, ptrdiff_t n,       \
                          const double *a, const double *b, double *fa, double *fb),          \
                         (kv, ld, n_slots, n, a, b, fa, fb))                                  \
    OSVM_DEFINE_DISPATCH(expand, suffix,                                                      \
                         (const real *kv, ptrdiff_t ld, ptrdiff_t n_slots, ptrdiff_t n,       \
                          ptrdiff_t K, const double *a, const double *b, double *fa,          \
                          double *fb),                                                        \
                         (kv, ld, n_slots, n, K, a, b, fa, fb))                               \
    OSVM_DEFINE_DISPATCH(patch, suffix,                                                       \
                         (double *f, ptrdiff_t n, double c_new, const real *k_new,            \
                          double c_old, const real *k_old),                                   \
                         (f, n, c_new, k_new, c_old, k_old))                                  \
    OSVM_DEFINE_DISPATCH(tiledot, suffix,                                                     \
                         (const real *v, const int32_t *j, ptrdiff_t count,                   \
                          const int32_t *map, const real *tile, ptrdiff_t n, real *out),      \
                         (v, j, count, map, tile, n, out))                                    \
    OSVM_DEFINE_DISPATCH(rowdots, suffix,                                                     \
                         (const real *rows, ptrdiff_t n, ptrdiff_t d, const real *x,          \
                          real *out),                                                         \
                         (rows, n, d, x, out))

OSVM_DISPATCH_EXPAND(float, f32)
OSVM_DISPATCH_EXPAND(double, f64)

#endif
