/* One example for many candidates at once: what osvm/linear/columns.pxd does besides the weights.
 *
 * The hinge with steps 1 / (reg (t0 + t)), one output per candidate, without a branch.  The
 * wide version is chosen at run time; it makes the same operations in the same order as the
 * plain one (no fused multiply-add), so that both give the same bits.
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

/* Candidates from `first` on: 0 when all is well; + 1 when a scale left [low, high],
 * + 2 when a step overflows. */
static OSVM_UNUSED int osvm_search_step_plain(const osvm_candidates *a, ptrdiff_t first,
                                              ptrdiff_t n, double y, double t, double example,
                                              double with_b, double limit, double low,
                                              double high) {
    const double above = y > 0.0 ? 0.0 : 1.0, root = sqrt(t);
    int bad = 0, outside = 0;
    for (ptrdiff_t k = first; k < n; k++) {
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

#if OSVM_HAVE_AVX2
OSVM_AVX2 static OSVM_UNUSED int osvm_search_step_avx2(const osvm_candidates *a, ptrdiff_t first,
                                                       ptrdiff_t n, double y, double t,
                                                       double example, double with_b,
                                                       double limit, double low, double high) {
#define ALL(x) _mm256_set1_pd(x)
#define AT(array) _mm256_loadu_pd(a->array + k)
#define SIZE(x) _mm256_andnot_pd(sign, x)
    const __m256d sign = ALL(-0.0), zero = ALL(0.0), one = ALL(1.0), labels = ALL(y);
    const __m256d above = ALL(y > 0.0 ? 0.0 : 1.0), below = ALL(y > 0.0 ? 1.0 : 0.0);
    const __m256d times = ALL(t), root = ALL(sqrt(t)), weight = ALL(example);
    __m256d good = _mm256_cmp_pd(zero, zero, _CMP_EQ_OQ), inside = good;
    ptrdiff_t k = first;
    for (; k + 4 <= n; k += 4) {
        const __m256d score = _mm256_add_pd(AT(f), AT(b)), z = _mm256_mul_pd(labels, score);
        const __m256d free = _mm256_cmp_pd(z, one, _CMP_GE_OQ);
        const __m256d xi = _mm256_andnot_pd(free, ALL(-y));
        const __m256d gap = _mm256_andnot_pd(free, _mm256_sub_pd(one, z));
        const __m256d loss = _mm256_add_pd(AT(loss_sum), gap);
        const __m256d eta = _mm256_div_pd(
            one, _mm256_mul_pd(AT(step_reg), _mm256_add_pd(AT(t0), times)));
        const __m256d kept = _mm256_sub_pd(one, _mm256_mul_pd(eta, AT(reg)));
        const __m256d factor = _mm256_and_pd(kept, _mm256_cmp_pd(kept, zero, _CMP_GT_OQ));
        const __m256d eta_b = _mm256_blendv_pd(eta, _mm256_div_pd(AT(eta0_b), root),
                                               _mm256_cmp_pd(AT(eta0_b), zero, _CMP_GT_OQ));
        const __m256d scale = _mm256_mul_pd(AT(scale), factor);
        const __m256d size = SIZE(_mm256_mul_pd(_mm256_mul_pd(eta, weight), xi));
        const __m256d room = _mm256_mul_pd(ALL(limit), SIZE(AT(scale)));
        const __m256d wrong = _mm256_blendv_pd(below, above,
                                               _mm256_cmp_pd(score, zero, _CMP_GT_OQ));
        const __m256d move = _mm256_mul_pd(_mm256_mul_pd(eta_b, weight), xi);
        good = _mm256_and_pd(good, _mm256_and_pd(_mm256_cmp_pd(size, room, _CMP_LT_OQ),
                                                 _mm256_cmp_pd(SIZE(loss), ALL(1e308),
                                                               _CMP_LE_OQ)));
        inside = _mm256_and_pd(inside, _mm256_and_pd(
            _mm256_cmp_pd(SIZE(scale), ALL(low), _CMP_GE_OQ),
            _mm256_cmp_pd(SIZE(scale), ALL(high), _CMP_LE_OQ)));
        _mm256_storeu_pd(a->loss_sum + k, loss);
        _mm256_storeu_pd(a->error_sum + k, _mm256_add_pd(AT(error_sum), wrong));
        _mm256_storeu_pd(a->scale + k, scale);
        _mm256_storeu_pd(a->b + k, _mm256_sub_pd(AT(b), _mm256_mul_pd(ALL(with_b), move)));
        _mm256_storeu_pd(a->c + k, _mm256_mul_pd(
            xi, _mm256_mul_pd(_mm256_xor_pd(sign, eta), weight)));
    }
#undef ALL
#undef AT
#undef SIZE
    const int found = 2 * (_mm256_movemask_pd(good) != 15) + (_mm256_movemask_pd(inside) != 15);
    if (k == n) return found;
    return found | osvm_search_step_plain(a, k, n, y, t, example, with_b, limit, low, high);
}
#endif

static inline OSVM_UNUSED int osvm_search_step(const osvm_candidates *a, ptrdiff_t n, double y,
                                               double t, double example, double with_b,
                                               double limit, double low, double high) {
    return OSVM_CHOOSE(osvm_search_step, a, 0, n, y, t, example, with_b, limit, low, high);
}

/* ------------------------------------------------------- one row and the weights
 * As smat_dot_ahead and smat_axpy, for a sparse row whose values are of the weights'
 * type, and to the same bits:
 *
 * osvm_search_dot_...   f[k] = row_scale scale[k] (x . column k); the weights of the
 *                       next row's columns are fetched, all of them
 * osvm_search_axpy_...  column k += row_scale c[k] / scale[k] x; in each block of four
 *                       registers from the first to the last column whose c is not 0
 *
 * Both return 0, having done nothing, when the level is plain.  `work` holds K weights. */
#if OSVM_HAVE_AVX2
/* Four moves along the row, as weights; whether one of them is not 0. */
static OSVM_AVX2_INLINE int osvm_search_moves(const double *c, const double *scale,
                                              double row_scale, __m256d *moves) {
    const __m256d steps = _mm256_loadu_pd(c);
    if (_mm256_movemask_pd(_mm256_cmp_pd(steps, _mm256_setzero_pd(), _CMP_NEQ_UQ)) == 0)
        return 0;
    *moves = _mm256_mul_pd(_mm256_div_pd(steps, _mm256_loadu_pd(scale)),
                           _mm256_set1_pd(row_scale));
    return 1;
}
#define OSVM_SEARCH_STORE_float(place, moves) _mm_storeu_ps(place, _mm256_cvtpd_ps(moves))
#define OSVM_SEARCH_STORE_double(place, moves) _mm256_storeu_pd(place, moves)

#define OSVM_SEARCH(NAME, INDEX, WEIGHT, UNIT)                                                     \
    OSVM_AVX2 static OSVM_UNUSED void osvm_search_dot_##NAME##_avx2(                               \
        const WEIGHT *x, const INDEX *j, ptrdiff_t n, const WEIGHT *v, ptrdiff_t K,                \
        const INDEX *next, ptrdiff_t n_next, const double *scale, double row_scale, WEIGHT *work,  \
        double *f) {                                                                               \
        osvm_dot_all_##NAME##_avx2(x, j, n, v, K, work, next, n_next);                             \
        for (ptrdiff_t i = n; i < n_next; i++) OSVM_PREFETCH(v + (ptrdiff_t)next[i] * K);          \
        for (ptrdiff_t k = 0; k < K; k++) f[k] = row_scale * scale[k] * work[k];                   \
    }                                                                                              \
    OSVM_AVX2 static OSVM_UNUSED void osvm_search_axpy_##NAME##_avx2(                              \
        const WEIGHT *x, const INDEX *j, ptrdiff_t n, const double *c, const double *scale,        \
        double row_scale, ptrdiff_t K, WEIGHT *work, WEIGHT *v) {                                  \
        ptrdiff_t k = 0;                                                                           \
        while (k + 4 <= K) {                                                                       \
            const ptrdiff_t end = K - k < 4 * UNIT ? K - K % 4 : k + 4 * UNIT;                     \
            ptrdiff_t first = end, last = end;                                                     \
            for (; k < end; k += 4) {                                                              \
                __m256d moves = _mm256_setzero_pd();                                               \
                if (osvm_search_moves(c + k, scale + k, row_scale, &moves)) {                      \
                    first = k < first ? k : first;                                                 \
                    last = k + 4;                                                                  \
                }                                                                                  \
                OSVM_SEARCH_STORE_##WEIGHT(work + k, moves);                                       \
            }                                                                                      \
            const WEIGHT *m = work + first;                                                        \
            WEIGHT *to = v + first;                                                                \
            switch (first < end ? (last - first) / (UNIT / 2) : 0) {                               \
            case 8: osvm_axpy_sweep_##NAME(x, j, n, m, K, to, 4, 0); break;                        \
            case 7: osvm_axpy_sweep_##NAME(x, j, n, m, K, to, 3, 1); break;                        \
            case 6: osvm_axpy_sweep_##NAME(x, j, n, m, K, to, 3, 0); break;                        \
            case 5: osvm_axpy_sweep_##NAME(x, j, n, m, K, to, 2, 1); break;                        \
            case 4: osvm_axpy_sweep_##NAME(x, j, n, m, K, to, 2, 0); break;                        \
            case 3: osvm_axpy_sweep_##NAME(x, j, n, m, K, to, 1, 1); break;                        \
            case 2: osvm_axpy_sweep_##NAME(x, j, n, m, K, to, 1, 0); break;                        \
            case 1: osvm_axpy_sweep_##NAME(x, j, n, m, K, to, 0, 1); break;                        \
            default: break;                                                                        \
            }                                                                                      \
        }                                                                                          \
        for (; k < K; k++) {                                                                       \
            const WEIGHT move = (WEIGHT)(c[k] / scale[k] * row_scale);                             \
            if (c[k] != 0.0)                                                                       \
                for (ptrdiff_t i = 0; i < n; i++) v[(ptrdiff_t)j[i] * K + k] += x[i] * move;       \
        }                                                                                          \
    }                                                                                              \
    static inline OSVM_UNUSED int osvm_search_dot_##NAME(                                          \
        const WEIGHT *x, const INDEX *j, ptrdiff_t n, const WEIGHT *v, ptrdiff_t K,                \
        const INDEX *next, ptrdiff_t n_next, const double *scale, double row_scale, WEIGHT *work,  \
        double *f) {                                                                               \
        if (osvm_simd_level() < 1) return 0;                                                       \
        osvm_search_dot_##NAME##_avx2(x, j, n, v, K, next, n_next, scale, row_scale, work, f);     \
        return 1;                                                                                  \
    }                                                                                              \
    static inline OSVM_UNUSED int osvm_search_axpy_##NAME(                                         \
        const WEIGHT *x, const INDEX *j, ptrdiff_t n, const double *c, const double *scale,        \
        double row_scale, ptrdiff_t K, WEIGHT *work, WEIGHT *v) {                                  \
        if (osvm_simd_level() < 1) return 0;                                                       \
        osvm_search_axpy_##NAME##_avx2(x, j, n, c, scale, row_scale, K, work, v);                  \
        return 1;                                                                                  \
    }
#else
#define OSVM_SEARCH(NAME, INDEX, WEIGHT, UNIT)                                                     \
    static inline OSVM_UNUSED int osvm_search_dot_##NAME(                                          \
        const WEIGHT *x, const INDEX *j, ptrdiff_t n, const WEIGHT *v, ptrdiff_t K,                \
        const INDEX *next, ptrdiff_t n_next, const double *scale, double row_scale, WEIGHT *work,  \
        double *f) {                                                                               \
        (void)x; (void)j; (void)n; (void)v; (void)K; (void)next; (void)n_next; (void)scale;        \
        (void)row_scale; (void)work; (void)f;                                                      \
        return 0;                                                                                  \
    }                                                                                              \
    static inline OSVM_UNUSED int osvm_search_axpy_##NAME(                                         \
        const WEIGHT *x, const INDEX *j, ptrdiff_t n, const double *c, const double *scale,        \
        double row_scale, ptrdiff_t K, WEIGHT *work, WEIGHT *v) {                                  \
        (void)x; (void)j; (void)n; (void)c; (void)scale; (void)row_scale; (void)K; (void)work;     \
        (void)v;                                                                                   \
        return 0;                                                                                  \
    }
#endif
OSVM_SEARCH(f32_i32, int32_t, float, 8)
OSVM_SEARCH(f32_i64, int64_t, float, 8)
OSVM_SEARCH(f64_i32, int32_t, double, 4)
OSVM_SEARCH(f64_i64, int64_t, double, 4)

#endif
