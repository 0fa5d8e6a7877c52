/* One example for many candidates at once: what osvm/_search.pyx does besides the weights.
 *
 * The hinge with steps 1 / (reg (t0 + t)), one output per candidate, without a branch.  The
 * wide version is chosen at run time; it makes the same operations in the same order as the
 * plain one (no fused multiply-add), so that both give the same bits.
 */
#ifndef OSVM_SEARCH_H
#define OSVM_SEARCH_H

#include <math.h>

#include "osvm_simd.h"

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
    return (2 * (_mm256_movemask_pd(good) != 15) + (_mm256_movemask_pd(inside) != 15))
           | osvm_search_step_plain(a, k, n, y, t, example, with_b, limit, low, high);
}
#endif

static inline OSVM_UNUSED int osvm_search_step(const osvm_candidates *a, ptrdiff_t n, double y,
                                               double t, double example, double with_b,
                                               double limit, double low, double high) {
    return OSVM_CHOOSE(osvm_search_step, a, 0, n, y, t, example, with_b, limit, low, high);
}

#endif
