/* Sums over a kernel expansion, for a block of examples at once.
 *
 * A block of kernel values is slot-major: kv[s * ld + b] = k(x_s, x_b) for slot s of the
 * buffer and column b of the block, so that every loop below runs over neighboring b.
 *
 * Invariants
 * - Sums are double, whatever the kernel values are, and each column's terms are added in
 *   the order of the slots: the sum of a column does not depend on the width of the block.
 */
#ifndef OSVM_EXPAND_H
#define OSVM_EXPAND_H

#include "dispatch.h"

/* Four slots at a time keep a column's sum in a register for four terms; the
 * terms are still added one after the other. */
#define OSVM_DEFINE_EXPAND(real, suffix)                                                      \
    /* out[i] += c0 k0[i] + c1 k1[i] + c2 k2[i] + c3 k3[i], in that order */                  \
    OSVM_FORCE_INLINE void osvm_add4_##suffix(                                                \
        double *__restrict out, ptrdiff_t n, const real *__restrict k, ptrdiff_t ld,          \
        const double *__restrict c) {                                                         \
        const real *__restrict k1 = k + ld, *__restrict k2 = k1 + ld, *__restrict k3 = k2 + ld; \
        const double c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];                              \
        ptrdiff_t i;                                                                          \
        for (i = 0; i < n; i++) {                                                             \
            double t = out[i];                                                                \
            t += c0 * (double)k[i];                                                           \
            t += c1 * (double)k1[i];                                                          \
            t += c2 * (double)k2[i];                                                          \
            t += c3 * (double)k3[i];                                                          \
            out[i] = t;                                                                       \
        }                                                                                     \
    }                                                                                         \
    /* The same for two sets of coefficients, reading the kernel values once. */              \
    OSVM_FORCE_INLINE void osvm_add4x2_##suffix(                                              \
        double *__restrict fa, double *__restrict fb, ptrdiff_t n, const real *__restrict k,  \
        ptrdiff_t ld, const double *__restrict a, const double *__restrict b) {               \
        const real *__restrict k1 = k + ld, *__restrict k2 = k1 + ld, *__restrict k3 = k2 + ld; \
        const double a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3];                              \
        const double b0 = b[0], b1 = b[1], b2 = b[2], b3 = b[3];                              \
        ptrdiff_t i;                                                                          \
        for (i = 0; i < n; i++) {                                                             \
            double t = fa[i], u = fb[i];                                                      \
            double v0 = (double)k[i], v1 = (double)k1[i];                                     \
            double v2 = (double)k2[i], v3 = (double)k3[i];                                    \
            t += a0 * v0;                                                                     \
            u += b0 * v0;                                                                     \
            t += a1 * v1;                                                                     \
            u += b1 * v1;                                                                     \
            t += a2 * v2;                                                                     \
            u += b2 * v2;                                                                     \
            t += a3 * v3;                                                                     \
            u += b3 * v3;                                                                     \
            fa[i] = t;                                                                        \
            fb[i] = u;                                                                        \
        }                                                                                     \
    }                                                                                         \
    /* One output: fa[b] += sum_s a[s] kv[s][b], and fb likewise unless it is NULL. */        \
    OSVM_FORCE_INLINE void osvm_loop_expand1_##suffix(                                        \
        const real *__restrict kv, ptrdiff_t ld, ptrdiff_t n_slots, ptrdiff_t n,              \
        const double *__restrict a, const double *__restrict b, double *__restrict fa,        \
        double *__restrict fb) {                                                              \
        ptrdiff_t i, s = 0;                                                                   \
        if (fb == NULL) {                                                                     \
            for (; s + 4 <= n_slots; s += 4) osvm_add4_##suffix(fa, n, kv + s * ld, ld, a + s); \
        } else {                                                                              \
            for (; s + 4 <= n_slots; s += 4)                                                  \
                osvm_add4x2_##suffix(fa, fb, n, kv + s * ld, ld, a + s, b + s);               \
        }                                                                                     \
        for (; s < n_slots; s++) {                                                            \
            for (i = 0; i < n; i++) fa[i] += a[s] * (double)kv[s * ld + i];                   \
            if (fb != NULL)                                                                   \
                for (i = 0; i < n; i++) fb[i] += b[s] * (double)kv[s * ld + i];               \
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
    }

OSVM_DEFINE_EXPAND(float, f32)
OSVM_DEFINE_EXPAND(double, f64)

#define OSVM_DISPATCH_EXPAND(real, suffix)                                                    \
    OSVM_DISPATCH(expand1_##suffix,                                                           \
                         (const real *kv, ptrdiff_t ld, ptrdiff_t n_slots, ptrdiff_t n,       \
                          const double *a, const double *b, double *fa, double *fb),          \
                         (kv, ld, n_slots, n, a, b, fa, fb))                                  \
    OSVM_DISPATCH(expand_##suffix,                                                            \
                         (const real *kv, ptrdiff_t ld, ptrdiff_t n_slots, ptrdiff_t n,       \
                          ptrdiff_t K, const double *a, const double *b, double *fa,          \
                          double *fb),                                                        \
                         (kv, ld, n_slots, n, K, a, b, fa, fb))                               \
    OSVM_DISPATCH(patch_##suffix,                                                             \
                         (double *f, ptrdiff_t n, double c_new, const real *k_new,            \
                          double c_old, const real *k_old),                                   \
                         (f, n, c_new, k_new, c_old, k_old))

OSVM_DISPATCH_EXPAND(float, f32)
OSVM_DISPATCH_EXPAND(double, f64)

#endif
