/* The wide loops of osvm/linear/adaptive.pxd: rates of one column, scores of several.
 *
 * osvm_rates_f32, _f64    r[i] = 1/sqrt(1/r[i]^2 + (root x[i])^2), which is 1/|root x[i]| where
 *                         r[i] = 0; the sum of r[i] x[i]^2.  Rates and ratios are kept in range:
 *                         a feature that grows by more than `ratio` at once is taken for one
 *                         that grows by so much.
 * osvm_scores_f32, _f64   f[k] = the sum of x[i] v[at[i] + k]
 */
#ifndef OSVM_ADAPTIVE_H
#define OSVM_ADAPTIVE_H

#include <math.h>

#include "dispatch.h"

#define OSVM_LANES 8

#define OSVM_ADAPTIVE(NAME, REAL, SQRT, FABS, MOST, RATIO)                                        \
    OSVM_FORCE_INLINE REAL osvm_rate_##NAME(REAL r, REAL g) {                                     \
        const REAL t = g * r, u = t < RATIO ? t : RATIO;                                          \
        const REAL kept = r / SQRT(1 + u * u), fresh = 1 / g;                                     \
        const REAL chosen = r > 0 ? kept : fresh;                                                 \
        return chosen < MOST ? chosen : MOST;                                                     \
    }                                                                                             \
    OSVM_FORCE_INLINE double osvm_loop_rates_##NAME(const REAL *restrict x, REAL *restrict r,     \
                                                    ptrdiff_t n, double root) {                   \
        REAL sum[OSVM_LANES] = {0};                                                               \
        const REAL a = (REAL)root;                                                                \
        ptrdiff_t i = 0;                                                                          \
        double total = 0.0;                                                                       \
        for (; i + OSVM_LANES <= n; i += OSVM_LANES)                                              \
            for (int k = 0; k < OSVM_LANES; k++) {                                                \
                const REAL y = x[i + k], s = osvm_rate_##NAME(r[i + k], a * FABS(y));             \
                r[i + k] = s;                                                                     \
                sum[k] += s * y * y;                                                              \
            }                                                                                     \
        for (; i < n; i++) {                                                                      \
            const REAL y = x[i], s = osvm_rate_##NAME(r[i], a * FABS(y));                         \
            r[i] = s;                                                                             \
            sum[0] += s * y * y;                                                                  \
        }                                                                                         \
        for (int k = 0; k < OSVM_LANES; k++) total += sum[k];                                     \
        return total;                                                                             \
    }                                                                                             \
    OSVM_DISPATCH_VALUE(double, rates_##NAME,                                                     \
                        (const REAL *restrict x, REAL *restrict r, ptrdiff_t n, double root),     \
                        (x, r, n, root))                                                          \
    OSVM_FORCE_INLINE void osvm_loop_scores_##NAME(const REAL *restrict x,                        \
                                                   const int64_t *restrict at, ptrdiff_t n,       \
                                                   const REAL *restrict v, ptrdiff_t K,           \
                                                   REAL *restrict f) {                            \
        ptrdiff_t k = 0;                                                                          \
        for (; k + 2 * OSVM_LANES <= K; k += 2 * OSVM_LANES) {                                    \
            REAL sum[2 * OSVM_LANES] = {0};                                                       \
            for (ptrdiff_t i = 0; i < n; i++) {                                                   \
                const REAL *restrict place = v + at[i] + k;                                       \
                const REAL y = x[i];                                                              \
                for (int m = 0; m < 2 * OSVM_LANES; m++) sum[m] += y * place[m];                  \
            }                                                                                     \
            for (int m = 0; m < 2 * OSVM_LANES; m++) f[k + m] = sum[m];                           \
        }                                                                                         \
        for (; k + 4 <= K; k += 4) {                                                              \
            REAL sum[4] = {0};                                                                    \
            for (ptrdiff_t i = 0; i < n; i++) {                                                   \
                const REAL *restrict place = v + at[i] + k;                                       \
                const REAL y = x[i];                                                              \
                for (int m = 0; m < 4; m++) sum[m] += y * place[m];                               \
            }                                                                                     \
            for (int m = 0; m < 4; m++) f[k + m] = sum[m];                                        \
        }                                                                                         \
        for (; k < K; k++) {                                                                      \
            REAL sum = 0;                                                                         \
            for (ptrdiff_t i = 0; i < n; i++) sum += x[i] * v[at[i] + k];                         \
            f[k] = sum;                                                                           \
        }                                                                                         \
    }                                                                                             \
    OSVM_DISPATCH(scores_##NAME,                                                                  \
                  (const REAL *restrict x, const int64_t *restrict at, ptrdiff_t n,               \
                   const REAL *restrict v, ptrdiff_t K, REAL *restrict f),                        \
                  (x, at, n, v, K, f))

OSVM_ADAPTIVE(f32, float, sqrtf, fabsf, 1e30f, 1e15f)
OSVM_ADAPTIVE(f64, double, sqrt, fabs, 1e140, 1e140)

#endif
