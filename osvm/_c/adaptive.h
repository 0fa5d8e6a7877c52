/* The wide loops of osvm/linear/adaptive_step.pxd: rates of one column, scores of several.
 *
 * osvm_rates_f32, _f64    h[i] = sqrt(h[i]^2 + (root x[i])^2), r[i] = 1/h[i]; the sum of
 *                         r[i] x[i]^2.  TINY keeps the rates finite.
 * osvm_raise_f32, _f64    osvm_rates for K columns side by side, in place: root holds each column's
 *                         root, then TINY or 0, then 0 or 1 for one that takes no step; sums has
 *                         OSVM_LANES rows, whose totals are those of osvm_rates, to the bit
 * osvm_move_f32, _f64     v += c r x for K columns, with so many windows of their averages
 * osvm_scores_f32, _f64   f[k] = the sum of x[i] v[at[i] + k]; up to 24 columns in one go, since
 *                         each sum waits for its additions; the last tile of columns may overlap
 *                         the one before it
 */
#ifndef OSVM_ADAPTIVE_H
#define OSVM_ADAPTIVE_H

#include <math.h>

#include "dispatch.h"

#define OSVM_LANES 8

#define OSVM_ADAPTIVE(NAME, REAL, SQRT, TINY)                                                     \
    OSVM_FORCE_INLINE double osvm_loop_rates_##NAME(const REAL *restrict x, REAL *restrict h,     \
                                                    REAL *restrict r, ptrdiff_t n,                \
                                                    double root) {                                \
        REAL sum[OSVM_LANES] = {0};                                                               \
        const REAL a = (REAL)root;                                                                \
        ptrdiff_t i;                                                                              \
        double total = 0.0;                                                                       \
        for (i = 0; i < n; i++) {                                                                 \
            const REAL g = a * x[i];                                                              \
            h[i] = SQRT(h[i] * h[i] + g * g + TINY);                                              \
        }                                                                                         \
        for (i = 0; i < n; i++) r[i] = 1 / h[i];                                                  \
        for (i = 0; i + OSVM_LANES <= n; i += OSVM_LANES)                                         \
            for (int k = 0; k < OSVM_LANES; k++) sum[k] += r[i + k] * x[i + k] * x[i + k];        \
        for (; i < n; i++) sum[0] += r[i] * x[i] * x[i];                                          \
        for (int k = 0; k < OSVM_LANES; k++) total += sum[k];                                     \
        return total;                                                                             \
    }                                                                                             \
    OSVM_DISPATCH_VALUE(double, rates_##NAME,                                                     \
                        (const REAL *restrict x, REAL *restrict h, REAL *restrict r,              \
                         ptrdiff_t n, double root),                                               \
                        (x, h, r, n, root))                                                       \
    OSVM_FORCE_INLINE void osvm_loop_raise_##NAME(const REAL *restrict x,                         \
                                                  const int64_t *restrict at, ptrdiff_t n,        \
                                                  REAL *restrict h, ptrdiff_t K,                  \
                                                  const REAL *restrict root,                      \
                                                  REAL *restrict sums) {                          \
        const REAL *restrict tiny = root + K, *restrict still = root + 2 * K;                     \
        for (ptrdiff_t i = 0; i < n; i++) {                                                       \
            REAL *restrict place = h + at[i], y = x[i];                                           \
            REAL *restrict sum = sums + (i < n - n % OSVM_LANES ? i % OSVM_LANES : 0) * K;        \
            for (ptrdiff_t k = 0; k < K; k++) {                                                   \
                const REAL g = root[k] * y, new = SQRT(place[k] * place[k] + g * g + tiny[k]);    \
                place[k] = new;                                                                   \
                sum[k] += 1 / (new + still[k]) * y * y;                                           \
            }                                                                                     \
        }                                                                                         \
    }                                                                                             \
    OSVM_DISPATCH(raise_##NAME,                                                                   \
                  (const REAL *restrict x, const int64_t *restrict at, ptrdiff_t n,               \
                   REAL *restrict h, ptrdiff_t K, const REAL *restrict root,                      \
                   REAL *restrict sums),                                                          \
                  (x, at, n, h, K, root, sums))                                                   \
    OSVM_FORCE_INLINE void osvm_loop_move_##NAME(const REAL *restrict x,                          \
                                                 const int64_t *restrict at, ptrdiff_t n,         \
                                                 REAL *v, ptrdiff_t K, ptrdiff_t stride,          \
                                                 const REAL *restrict c,                          \
                                                 const REAL *restrict still, int windows,         \
                                                 REAL s0, REAL s1) {                              \
        for (ptrdiff_t i = 0; i < n; i++) {                                                       \
            REAL *restrict place = v + at[i];                                                     \
            const REAL *restrict h = v + at[i] + stride;                                          \
            REAL *restrict u0 = v + at[i] + 2 * stride, *restrict u1 = v + at[i] + 3 * stride;    \
            const REAL y = x[i];                                                                  \
            if (windows == 2)                                                                     \
                for (ptrdiff_t k = 0; k < K; k++) {                                               \
                    const REAL move = c[k] * (1 / (h[k] + still[k])) * y;                         \
                    place[k] += move;                                                             \
                    u0[k] += s0 * move;                                                           \
                    u1[k] += s1 * move;                                                           \
                }                                                                                 \
            else if (windows == 1)                                                                \
                for (ptrdiff_t k = 0; k < K; k++) {                                               \
                    const REAL move = c[k] * (1 / (h[k] + still[k])) * y;                         \
                    place[k] += move;                                                             \
                    u0[k] += s0 * move;                                                           \
                }                                                                                 \
            else                                                                                  \
                for (ptrdiff_t k = 0; k < K; k++)                                                 \
                    place[k] += c[k] * (1 / (h[k] + still[k])) * y;                               \
        }                                                                                         \
    }                                                                                             \
    OSVM_DISPATCH(move_##NAME,                                                                    \
                  (const REAL *restrict x, const int64_t *restrict at, ptrdiff_t n, REAL *v,      \
                   ptrdiff_t K, ptrdiff_t stride, const REAL *restrict c,                         \
                   const REAL *restrict still, int windows, REAL s0, REAL s1),                    \
                  (x, at, n, v, K, stride, c, still, windows, s0, s1))

OSVM_ADAPTIVE(f32, float, sqrtf, 1e-36f)
OSVM_ADAPTIVE(f64, double, sqrt, 1e-280)

/* f[k] = the sum of x[i] v[at[i] + k] for up to three tiles of columns, each in a register: those
 * at 0, at its width, and at `last`, which may overlap the one before it. */
#if OSVM_VECTORS
#define OSVM_TILES(NAME, REAL, TILE)                                                              \
    OSVM_FORCE_INLINE void osvm_##NAME(const REAL *restrict x, const int64_t *restrict at,        \
                                       ptrdiff_t n, const REAL *restrict v, ptrdiff_t last,       \
                                       const int tiles, REAL *restrict f) {                       \
        const ptrdiff_t width = sizeof(TILE) / sizeof(REAL);                                      \
        TILE a = {0}, b = {0}, c = {0};                                                           \
        for (ptrdiff_t i = 0; i < n; i++) {                                                       \
            const REAL *place = v + at[i];                                                        \
            const REAL y = x[i];                                                                  \
            if (tiles > 1) a += y * OSVM_READ(TILE, place);                                       \
            if (tiles > 2) b += y * OSVM_READ(TILE, place + width);                               \
            c += y * OSVM_READ(TILE, place + last);                                               \
        }                                                                                         \
        if (tiles > 1) OSVM_AT(TILE, f) = a;                                                      \
        if (tiles > 2) OSVM_AT(TILE, f + width) = b;                                              \
        OSVM_AT(TILE, f + last) = c;                                                              \
    }
OSVM_TILES(wide_f32, float, osvm_f32x8)
OSVM_TILES(half_f32, float, osvm_f32x4)
OSVM_TILES(pair_f32, float, osvm_f32x2)
OSVM_TILES(one_f32, float, float)
OSVM_TILES(wide_f64, double, osvm_f64x4)
OSVM_TILES(half_f64, double, osvm_f64x2)
OSVM_TILES(pair_f64, double, osvm_f64x2)
OSVM_TILES(one_f64, double, double)
enum { OSVM_WIDE_f32 = 8, OSVM_WIDE_f64 = 4 };

#define OSVM_SCORES(NAME, REAL)                                                                   \
    OSVM_FORCE_INLINE void osvm_loop_scores_##NAME(const REAL *restrict x,                        \
                                                   const int64_t *restrict at, ptrdiff_t n,       \
                                                   const REAL *restrict v, ptrdiff_t K,           \
                                                   REAL *restrict f) {                            \
        const ptrdiff_t wide = OSVM_WIDE_##NAME;                                                  \
        for (; K > 3 * wide; K -= 3 * wide, v += 3 * wide, f += 3 * wide)                         \
            osvm_wide_##NAME(x, at, n, v, 2 * wide, 3, f);                                        \
        if (K > 2 * wide)                                                                         \
            osvm_wide_##NAME(x, at, n, v, K - wide, 3, f);                                        \
        else if (K > wide)                                                                        \
            osvm_wide_##NAME(x, at, n, v, K - wide, 2, f);                                        \
        else if (2 * K >= wide)                                                                   \
            osvm_half_##NAME(x, at, n, v, K - wide / 2, 2, f);                                    \
        else if (K >= 2)                                                                          \
            osvm_pair_##NAME(x, at, n, v, K - 2, 2, f);                                           \
        else                                                                                      \
            osvm_one_##NAME(x, at, n, v, 0, 1, f);                                                \
    }                                                                                             \
    OSVM_DISPATCH(scores_##NAME,                                                                  \
                  (const REAL *restrict x, const int64_t *restrict at, ptrdiff_t n,               \
                   const REAL *restrict v, ptrdiff_t K, REAL *restrict f),                        \
                  (x, at, n, v, K, f))
#else
#define OSVM_SCORES(NAME, REAL)                                                                   \
    OSVM_FORCE_INLINE void osvm_loop_scores_##NAME(const REAL *restrict x,                        \
                                                   const int64_t *restrict at, ptrdiff_t n,       \
                                                   const REAL *restrict v, ptrdiff_t K,           \
                                                   REAL *restrict f) {                            \
        for (ptrdiff_t k = 0; k < K; k++) {                                                       \
            REAL sum = 0;                                                                         \
            for (ptrdiff_t i = 0; i < n; i++) sum += x[i] * v[at[i] + k];                         \
            f[k] = sum;                                                                           \
        }                                                                                         \
    }                                                                                             \
    OSVM_DISPATCH(scores_##NAME,                                                                  \
                  (const REAL *restrict x, const int64_t *restrict at, ptrdiff_t n,               \
                   const REAL *restrict v, ptrdiff_t K, REAL *restrict f),                        \
                  (x, at, n, v, K, f))
#endif

OSVM_SCORES(f32, float)
OSVM_SCORES(f64, double)

#endif
