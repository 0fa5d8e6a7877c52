/* The wide loops of osvm/linear/adaptive.pxd: rates of one column, scores of several.
 *
 * osvm_rates_f32, _f64    h[i] = sqrt(h[i]^2 + (root x[i])^2), r[i] = 1/h[i]; the sum of
 *                         r[i] x[i]^2.  TINY keeps the rates finite.
 * osvm_scores_f32, _f64   f[k] = the sum of x[i] v[at[i] + k]
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

OSVM_ADAPTIVE(f32, float, sqrtf, 1e-36f)
OSVM_ADAPTIVE(f64, double, sqrt, 1e-280)

#endif
