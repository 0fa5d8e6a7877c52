/* Rows and weights: loops that compilers do not vectorize by themselves, or not well.
 *
 * Sparse rows may repeat a column: entries are applied one after the other.
 *
 * Gathers are not used: on the processors at hand four plain running sums were as
 * quick.  What pays is K neighboring weights per entry (osvm_dot_all_...), and
 * checks that touch memory only once (osvm_largest_...).
 */
#ifndef OSVM_SIMD_H
#define OSVM_SIMD_H

#include "dispatch.h"

/* ------------------------------- two neighbors: pair += x * (c, d)
 * Floats take one load and one store, which compilers do not make of two (gcc 12). */
OSVM_FORCE_INLINE void osvm_add_pair_f32(float *pair, float x, float c, float d) {
#if OSVM_VECTORS
    const osvm_f32x2 step = {c, d};
    OSVM_AT(osvm_f32x2, pair) += x * step;
#else
    pair[0] += x * c;
    pair[1] += x * d;
#endif
}
OSVM_FORCE_INLINE void osvm_add_pair_f64(double *pair, double x, double c, double d) {
    pair[0] += x * c;
    pair[1] += x * d;
}

/* ------------------------------------------- the largest magnitude of n floats
 * As bits without the sign, which are ordered like the magnitudes: infinity and
 * NaN are 0x7f800000 and above (0x7ff0000000000000 for doubles).
 *
 * ----------------------------- whether n column numbers are all in 0 .. largest
 * j or (largest - j) is negative exactly when j is out of range. */
#define OSVM_CHECKS(BITS, FLOAT, INT, UINT, MASK)                                              \
    OSVM_FORCE_INLINE INT osvm_loop_largest_##FLOAT(const void *values, ptrdiff_t n) {         \
        const INT *x = (const INT *)values;                                                    \
        INT largest = 0;                                                                       \
        for (ptrdiff_t k = 0; k < n; k++) {                                                    \
            const INT bits = x[k] & MASK;                                                      \
            largest = bits > largest ? bits : largest;                                         \
        }                                                                                      \
        return largest;                                                                        \
    }                                                                                          \
    OSVM_FORCE_INLINE int osvm_loop_in_range_i##BITS(const void *columns, ptrdiff_t n,         \
                                                     UINT largest) {                           \
        const UINT *j = (const UINT *)columns;                                                 \
        UINT seen = 0;                                                                         \
        for (ptrdiff_t k = 0; k < n; k++) seen |= j[k] | (largest - j[k]);                     \
        return (seen >> (BITS - 1)) == 0;                                                      \
    }                                                                                          \
    OSVM_DISPATCH_VALUE(INT, largest_##FLOAT, (const void *x, ptrdiff_t n), (x, n))            \
    OSVM_DISPATCH_VALUE(int, in_range_i##BITS, (const void *j, ptrdiff_t n, UINT largest),     \
                        (j, n, largest))
OSVM_CHECKS(32, f32, int32_t, uint32_t, INT32_MAX)
OSVM_CHECKS(64, f64, int64_t, uint64_t, INT64_MAX)

/* ----------------------------------------- one sparse row, K weights per feature
 * out[k] = sum_i x[i] v[j[i] K + k]         osvm_dot_all_...
 * v[j[i] K + k] += x[i] c[k] for every i    osvm_axpy_all_...
 * A sweep over the row keeps up to four wide registers and a half one; what is
 * left beyond whole halves is done one by one.  The weights of the next row's
 * columns are fetched on the way (n_next may be 0).  Both return 0, having done
 * nothing, at level 0. */
#if OSVM_VECTORS
/* SWEEP(..., wide, half) for as many half registers as there are. */
#define OSVM_BY_WIDTH(halves, SWEEP, ...)       \
    switch (halves) {                           \
    case 8: SWEEP(__VA_ARGS__, 4, 0); break;    \
    case 7: SWEEP(__VA_ARGS__, 3, 1); break;    \
    case 6: SWEEP(__VA_ARGS__, 3, 0); break;    \
    case 5: SWEEP(__VA_ARGS__, 2, 1); break;    \
    case 4: SWEEP(__VA_ARGS__, 2, 0); break;    \
    case 3: SWEEP(__VA_ARGS__, 1, 1); break;    \
    case 2: SWEEP(__VA_ARGS__, 1, 0); break;    \
    case 1: SWEEP(__VA_ARGS__, 0, 1); break;    \
    default: break;                             \
    }

#define OSVM_SWEEPS(NAME, INDEX, WEIGHT, WIDE, HALF, WIDTH)                                       \
    OSVM_FORCE_INLINE void osvm_dot_sweep_##NAME(                                                 \
        const WEIGHT *x, const INDEX *j, ptrdiff_t n, const WEIGHT *v, ptrdiff_t K, WEIGHT *out,  \
        const INDEX *next, ptrdiff_t n_next, const int wide, const int half) {                    \
        const ptrdiff_t bytes = (wide * WIDTH + half * (WIDTH / 2)) * (ptrdiff_t)sizeof(WEIGHT);  \
        WIDE a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0};                                              \
        HALF h = {0};                                                                             \
        for (ptrdiff_t i = 0; i < n; i++) {                                                       \
            const WEIGHT *column = v + (ptrdiff_t)j[i] * K, value = x[i];                         \
            if (i < n_next) {                                                                     \
                const char *ahead = (const char *)(v + (ptrdiff_t)next[i] * K);                   \
                OSVM_PREFETCH(ahead);                                                             \
                if (bytes > 64) OSVM_PREFETCH(ahead + 64);                                        \
                OSVM_PREFETCH(ahead + bytes - 1);                                                 \
            }                                                                                     \
            if (wide > 0) a0 += value * OSVM_READ(WIDE, column);                                  \
            if (wide > 1) a1 += value * OSVM_READ(WIDE, column + WIDTH);                          \
            if (wide > 2) a2 += value * OSVM_READ(WIDE, column + 2 * WIDTH);                      \
            if (wide > 3) a3 += value * OSVM_READ(WIDE, column + 3 * WIDTH);                      \
            if (half) h += value * OSVM_READ(HALF, column + wide * WIDTH);                        \
        }                                                                                         \
        if (wide > 0) OSVM_AT(WIDE, out) = a0;                                                    \
        if (wide > 1) OSVM_AT(WIDE, out + WIDTH) = a1;                                            \
        if (wide > 2) OSVM_AT(WIDE, out + 2 * WIDTH) = a2;                                        \
        if (wide > 3) OSVM_AT(WIDE, out + 3 * WIDTH) = a3;                                        \
        if (half) OSVM_AT(HALF, out + wide * WIDTH) = h;                                          \
    }                                                                                             \
    OSVM_FORCE_INLINE void osvm_axpy_sweep_##NAME(                                                \
        const WEIGHT *x, const INDEX *j, ptrdiff_t n, const WEIGHT *c, ptrdiff_t K, WEIGHT *v,    \
        const int wide, const int half) {                                                         \
        const WIDE none = {0};                                                                    \
        const HALF no_half = {0};                                                                 \
        const WIDE c0 = wide > 0 ? OSVM_READ(WIDE, c) : none;                                     \
        const WIDE c1 = wide > 1 ? OSVM_READ(WIDE, c + WIDTH) : none;                             \
        const WIDE c2 = wide > 2 ? OSVM_READ(WIDE, c + 2 * WIDTH) : none;                         \
        const WIDE c3 = wide > 3 ? OSVM_READ(WIDE, c + 3 * WIDTH) : none;                         \
        const HALF ch = half ? OSVM_READ(HALF, c + wide * WIDTH) : no_half;                       \
        for (ptrdiff_t i = 0; i < n; i++) {                                                       \
            WEIGHT *column = v + (ptrdiff_t)j[i] * K;                                             \
            const WEIGHT value = x[i];                                                            \
            if (wide > 0) OSVM_AT(WIDE, column) += value * c0;                                    \
            if (wide > 1) OSVM_AT(WIDE, column + WIDTH) += value * c1;                            \
            if (wide > 2) OSVM_AT(WIDE, column + 2 * WIDTH) += value * c2;                        \
            if (wide > 3) OSVM_AT(WIDE, column + 3 * WIDTH) += value * c3;                        \
            if (half) OSVM_AT(HALF, column + wide * WIDTH) += value * ch;                         \
        }                                                                                         \
    }                                                                                             \
    OSVM_FORCE_INLINE int osvm_loop_dot_all_##NAME(                                               \
        const WEIGHT *x, const INDEX *j, ptrdiff_t n, const WEIGHT *v, ptrdiff_t K, WEIGHT *out,  \
        const INDEX *next, ptrdiff_t n_next) {                                                    \
        ptrdiff_t k = 0;                                                                          \
        if (osvm_simd_level() < 1) return 0;                                                      \
        for (; K - k >= 4 * WIDTH; k += 4 * WIDTH)                                                \
            osvm_dot_sweep_##NAME(x, j, n, v + k, K, out + k, next, n_next, 4, 0);                \
        OSVM_BY_WIDTH((K - k) / (WIDTH / 2), osvm_dot_sweep_##NAME, x, j, n, v + k, K, out + k,   \
                      next, n_next)                                                               \
        for (k = K - K % (WIDTH / 2); k < K; k++) {                                               \
            WEIGHT sum = 0;                                                                       \
            for (ptrdiff_t i = 0; i < n; i++) sum += x[i] * v[(ptrdiff_t)j[i] * K + k];           \
            out[k] = sum;                                                                         \
        }                                                                                         \
        return 1;                                                                                 \
    }                                                                                             \
    OSVM_FORCE_INLINE int osvm_loop_axpy_all_##NAME(const WEIGHT *x, const INDEX *j, ptrdiff_t n, \
                                                    const WEIGHT *c, ptrdiff_t K, WEIGHT *v) {    \
        ptrdiff_t k = 0;                                                                          \
        if (osvm_simd_level() < 1) return 0;                                                      \
        for (; K - k >= 4 * WIDTH; k += 4 * WIDTH)                                                \
            osvm_axpy_sweep_##NAME(x, j, n, c + k, K, v + k, 4, 0);                               \
        OSVM_BY_WIDTH((K - k) / (WIDTH / 2), osvm_axpy_sweep_##NAME, x, j, n, c + k, K, v + k)    \
        for (k = K - K % (WIDTH / 2); k < K; k++)                                                 \
            for (ptrdiff_t i = 0; i < n; i++) v[(ptrdiff_t)j[i] * K + k] += x[i] * c[k];          \
        return 1;                                                                                 \
    }
#else
#define OSVM_SWEEPS(NAME, INDEX, WEIGHT, WIDE, HALF, WIDTH)                                       \
    OSVM_FORCE_INLINE int osvm_loop_dot_all_##NAME(                                               \
        const WEIGHT *x, const INDEX *j, ptrdiff_t n, const WEIGHT *v, ptrdiff_t K, WEIGHT *out,  \
        const INDEX *next, ptrdiff_t n_next) {                                                    \
        return 0;                                                                                 \
    }                                                                                             \
    OSVM_FORCE_INLINE int osvm_loop_axpy_all_##NAME(const WEIGHT *x, const INDEX *j, ptrdiff_t n, \
                                                    const WEIGHT *c, ptrdiff_t K, WEIGHT *v) {    \
        return 0;                                                                                 \
    }
#endif

#define OSVM_ALL(NAME, INDEX, WEIGHT, WIDE, HALF, WIDTH)                                          \
    OSVM_SWEEPS(NAME, INDEX, WEIGHT, WIDE, HALF, WIDTH)                                           \
    OSVM_DISPATCH_VALUE(int, dot_all_##NAME,                                                      \
                        (const WEIGHT *x, const INDEX *j, ptrdiff_t n, const WEIGHT *v,           \
                         ptrdiff_t K, WEIGHT *out, const INDEX *next, ptrdiff_t n_next),          \
                        (x, j, n, v, K, out, next, n_next))                                       \
    OSVM_DISPATCH_VALUE(int, axpy_all_##NAME,                                                     \
                        (const WEIGHT *x, const INDEX *j, ptrdiff_t n, const WEIGHT *c,           \
                         ptrdiff_t K, WEIGHT *v),                                                 \
                        (x, j, n, c, K, v))
OSVM_ALL(f32_i32, int32_t, float, osvm_f32x8, osvm_f32x4, 8)
OSVM_ALL(f32_i64, int64_t, float, osvm_f32x8, osvm_f32x4, 8)
OSVM_ALL(f64_i32, int32_t, double, osvm_f64x4, osvm_f64x2, 4)
OSVM_ALL(f64_i64, int64_t, double, osvm_f64x4, osvm_f64x2, 4)

#endif
