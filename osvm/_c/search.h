/* One example for many candidates at once: what osvm/linear/columns.pxd does besides the weights.
 *
 * The hinge with steps 1 / (reg (t0 + t)), one output per candidate, without a branch.
 */
#ifndef OSVM_SEARCH_H
#define OSVM_SEARCH_H

#include <math.h>

#include "simd.h"

/* Arrays with one entry per candidate. */
typedef struct {
    double *f;             /* scores without intercepts; untouched */
    double *c;             /* out: how far w moves along the row */
    double *b;             /* intercepts */
    double *scale;         /* of the weights */
    double *loss_sum;
    double *error_sum;
    const double *reg;
    const double *step_reg;
    const double *t0;
    const double *eta0_b;  /* the intercept's step is this / sqrt(t); 0: the weights' */
} osvm_candidates;

/* 0 when all is well; + 1 when a scale left [low, high], + 2 when a step overflows. */
OSVM_FORCE_INLINE int osvm_loop_search_step(const osvm_candidates *a, ptrdiff_t n, double y,
                                            double t, double example, double with_b,
                                            double limit, double low, double high) {
    const double above = y > 0.0 ? 0.0 : 1.0, root = sqrt(t);
    int bad = 0, outside = 0;
    ptrdiff_t k = 0;
#if OSVM_VECTORS
#define ALL(x) ((x) + zero)
#define IN(array) OSVM_READ(osvm_f64x4, a->array + k)
#define OUT(array) OSVM_AT(osvm_f64x4, a->array + k)
#define SIZE(x) ((osvm_f64x4)((osvm_i64x4)(x) & INT64_MAX))
    const osvm_f64x4 zero = {0.0, 0.0, 0.0, 0.0}, one = ALL(1.0);
    osvm_i64x4 all_bad = {0, 0, 0, 0}, all_outside = all_bad;
    for (; osvm_simd_level() > 0 && k + 4 <= n; k += 4) {
        const osvm_f64x4 score = IN(f) + IN(b), z = y * score;
        const osvm_i64x4 free = z >= one;
        const osvm_f64x4 xi = OSVM_PICK(free, zero, ALL(-y));
        const osvm_f64x4 loss = IN(loss_sum) + OSVM_PICK(free, zero, one - z);
        const osvm_f64x4 eta = one / (IN(step_reg) * (IN(t0) + t)), kept = one - eta * IN(reg);
        const osvm_f64x4 eta_b = OSVM_PICK(IN(eta0_b) > zero, IN(eta0_b) / root, eta);
        const osvm_f64x4 scale = IN(scale) * OSVM_PICK(kept > zero, kept, zero);
        all_bad |= ~(SIZE(eta * example * xi) < limit * SIZE(IN(scale)))
                   | ~(SIZE(loss) <= ALL(1e308));
        all_outside |= ~(SIZE(scale) >= ALL(low)) | ~(SIZE(scale) <= ALL(high));
        OUT(loss_sum) = loss;
        OUT(error_sum) = IN(error_sum) + OSVM_PICK(score > zero, ALL(above), ALL(1.0 - above));
        OUT(scale) = scale;
        OUT(b) = IN(b) - with_b * (eta_b * example * xi);
        OUT(c) = xi * (-eta * example);
    }
    bad = OSVM_ANY(all_bad);
    outside = OSVM_ANY(all_outside);
#undef ALL
#undef IN
#undef OUT
#undef SIZE
#endif
    for (; k < n; k++) {
        const double score = a->f[k] + a->b[k], z = y * score;
        /* a NaN is on the violating side, so that the sum is NaN */
        const double xi = z >= 1.0 ? 0.0 : -y;
        const double loss = a->loss_sum[k] + (z >= 1.0 ? 0.0 : 1.0 - z);
        const double eta = 1.0 / (a->step_reg[k] * (a->t0[k] + t));
        const double kept = 1.0 - eta * a->reg[k];
        const double eta_b = a->eta0_b[k] > 0.0 ? a->eta0_b[k] / root : eta;
        const double scale = a->scale[k] * (kept > 0.0 ? kept : 0.0);
        bad |= !(fabs(eta * example * xi) < limit * fabs(a->scale[k])) | !(fabs(loss) <= 1e308);
        outside |= !(fabs(scale) >= low) | !(fabs(scale) <= high);
        a->loss_sum[k] = loss;
        a->error_sum[k] += score > 0.0 ? above : 1.0 - above;
        a->scale[k] = scale;
        a->b[k] -= with_b * (eta_b * example * xi);
        a->c[k] = xi * (-eta * example);
    }
    return 2 * bad + outside;
}

OSVM_DISPATCH_VALUE(int, search_step,
                    (const osvm_candidates *a, ptrdiff_t n, double y, double t, double example,
                     double with_b, double limit, double low, double high),
                    (a, n, y, t, example, with_b, limit, low, high))

/* ------------------------------------------------------- one row and the weights
 * As smat_dot_ahead and smat_axpy, for a sparse row whose values are of the weights'
 * type, and to the same bits:
 *
 * osvm_search_dot_...   f[k] = row_scale scale[k] (x . column k); the weights of the
 *                       next row's columns are fetched, all of them
 * osvm_search_axpy_...  column k += row_scale c[k] / scale[k] x; in each block of four
 *                       registers from the first to the last column whose c is not 0
 *
 * Both return 0, having done nothing, at level 0.  `work` holds K weights. */
#if OSVM_VECTORS
#define OSVM_SEARCH_AXPY(NAME, INDEX, WEIGHT, FOUR, UNIT)                                         \
    ptrdiff_t k = 0;                                                                              \
    if (osvm_simd_level() < 1) return 0;                                                          \
    while (k + 4 <= K) {                                                                          \
        const ptrdiff_t end = K - k < 4 * UNIT ? K - K % 4 : k + 4 * UNIT;                        \
        ptrdiff_t first = end, last = end;                                                        \
        for (; k < end; k += 4) {                                                                 \
            const osvm_f64x4 steps = OSVM_READ(osvm_f64x4, c + k), zero = {0.0, 0.0, 0.0, 0.0};   \
            const osvm_i64x4 moving = steps != zero;                                              \
            osvm_f64x4 moves = zero;                                                              \
            if (OSVM_ANY(moving)) {                                                               \
                moves = steps / OSVM_READ(osvm_f64x4, scale + k) * row_scale;                     \
                first = k < first ? k : first;                                                    \
                last = k + 4;                                                                     \
            }                                                                                     \
            OSVM_AT(FOUR, work + k) = __builtin_convertvector(moves, FOUR);                       \
        }                                                                                         \
        OSVM_BY_WIDTH(first < end ? (last - first) / (UNIT / 2) : 0, osvm_axpy_sweep_##NAME, x,   \
                      j, n, work + first, K, v + first)                                           \
    }                                                                                             \
    for (; k < K; k++) {                                                                          \
        const WEIGHT move = (WEIGHT)(c[k] / scale[k] * row_scale);                                \
        if (c[k] != 0.0)                                                                          \
            for (ptrdiff_t i = 0; i < n; i++) v[(ptrdiff_t)j[i] * K + k] += x[i] * move;          \
    }                                                                                             \
    return 1;
#else
#define OSVM_SEARCH_AXPY(NAME, INDEX, WEIGHT, FOUR, UNIT) return 0;
#endif

#define OSVM_SEARCH(NAME, INDEX, WEIGHT, FOUR, UNIT)                                              \
    OSVM_FORCE_INLINE int osvm_loop_search_dot_##NAME(                                            \
        const WEIGHT *x, const INDEX *j, ptrdiff_t n, const WEIGHT *v, ptrdiff_t K,               \
        const INDEX *next, ptrdiff_t n_next, const double *scale, double row_scale, WEIGHT *work, \
        double *f) {                                                                              \
        if (!osvm_loop_dot_all_##NAME(x, j, n, v, K, work, next, n_next)) return 0;               \
        for (ptrdiff_t i = n; i < n_next; i++) OSVM_PREFETCH(v + (ptrdiff_t)next[i] * K);         \
        for (ptrdiff_t k = 0; k < K; k++) f[k] = row_scale * scale[k] * work[k];                  \
        return 1;                                                                                 \
    }                                                                                             \
    OSVM_FORCE_INLINE int osvm_loop_search_axpy_##NAME(                                           \
        const WEIGHT *x, const INDEX *j, ptrdiff_t n, const double *c, const double *scale,       \
        double row_scale, ptrdiff_t K, WEIGHT *work, WEIGHT *v) {                                 \
        OSVM_SEARCH_AXPY(NAME, INDEX, WEIGHT, FOUR, UNIT)                                         \
    }                                                                                             \
    OSVM_DISPATCH_VALUE(int, search_dot_##NAME,                                                   \
                        (const WEIGHT *x, const INDEX *j, ptrdiff_t n, const WEIGHT *v,           \
                         ptrdiff_t K, const INDEX *next, ptrdiff_t n_next, const double *scale,   \
                         double row_scale, WEIGHT *work, double *f),                              \
                        (x, j, n, v, K, next, n_next, scale, row_scale, work, f))                 \
    OSVM_DISPATCH_VALUE(int, search_axpy_##NAME,                                                  \
                        (const WEIGHT *x, const INDEX *j, ptrdiff_t n, const double *c,           \
                         const double *scale, double row_scale, ptrdiff_t K, WEIGHT *work,        \
                         WEIGHT *v),                                                              \
                        (x, j, n, c, scale, row_scale, K, work, v))
OSVM_SEARCH(f32_i32, int32_t, float, osvm_f32x4, 8)
OSVM_SEARCH(f32_i64, int64_t, float, osvm_f32x4, 8)
OSVM_SEARCH(f64_i32, int32_t, double, osvm_f64x4, 4)
OSVM_SEARCH(f64_i64, int64_t, double, osvm_f64x4, 4)

/* By the kind of the row, as in osvm/core/typedefs.pxd. */
#define OSVM_SEARCH_BY_TYPE(NAME, ...)                                                            \
    switch (kind) {                                                                               \
        case 0: return osvm_search_##NAME##_f32_i32(__VA_ARGS__);                                 \
        case 1: return osvm_search_##NAME##_f32_i64(__VA_ARGS__);                                 \
        case 2: return osvm_search_##NAME##_f64_i32(__VA_ARGS__);                                 \
        case 3: return osvm_search_##NAME##_f64_i64(__VA_ARGS__);                                 \
        default: return 0;                                                                        \
    }

OSVM_FORCE_INLINE int osvm_search_dot(int kind, const void *x, const void *j, ptrdiff_t n,
                                      const void *v, ptrdiff_t K, const void *next,
                                      ptrdiff_t n_next, const double *scale, double row_scale,
                                      void *work, double *f) {
    OSVM_SEARCH_BY_TYPE(dot, x, j, n, v, K, next, n_next, scale, row_scale, work, f)
}

OSVM_FORCE_INLINE int osvm_search_axpy(int kind, const void *x, const void *j, ptrdiff_t n,
                                       const double *c, const double *scale, double row_scale,
                                       ptrdiff_t K, void *work, void *v) {
    OSVM_SEARCH_BY_TYPE(axpy, x, j, n, c, scale, row_scale, K, work, v)
}

#endif
