/* exp without libm, for one number and for whole arrays, and the kernels built on it.
 *
 * exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln(2)/2, with ln 2 split in two parts
 * so that x - n ln 2 is exact to the last bit, and exp(r) = 1 + r + r^2 q(r) with q the
 * polynomial that interpolates (exp(r) - 1 - r)/r^2 at the Chebyshev points.
 *
 * Invariants
 * - No branch and no table: the compiler turns each loop into vector code.
 * - The scalar form gives the same bits as the loops.
 * - Only x <= 0 is served.  Errors stay below 1.1 ulp in either type; NaN gives NaN; a
 *   result below the smallest normal number is 0, because sums over subnormal kernel
 *   values would run a hundred times slower for nothing.
 */
#ifndef OSVM_EXP_H
#define OSVM_EXP_H

#include "dispatch.h"

/* ------------------------------------------------------------------ one number */

/* yes where the condition holds, else no, by a bit mask: the compiler turns `?:` on
 * floating point into jumps, which do not vectorise. */
OSVM_FORCE_INLINE double osvm_select(int condition, double yes, double no) {
    uint64_t a, b, mask = (uint64_t)0 - (uint64_t)condition;
    memcpy(&a, &yes, 8);
    memcpy(&b, &no, 8);
    a = (a & mask) | (b & ~mask);
    memcpy(&yes, &a, 8);
    return yes;
}

OSVM_FORCE_INLINE float osvm_selectf(int condition, float yes, float no) {
    uint32_t a, b, mask = (uint32_t)0 - (uint32_t)condition;
    memcpy(&a, &yes, 4);
    memcpy(&b, &no, 4);
    a = (a & mask) | (b & ~mask);
    memcpy(&yes, &a, 4);
    return yes;
}

/* exp(x) for x <= 0 (or NaN): what the kernels need. */
OSVM_FORCE_INLINE double osvm_exp_down(double x) {
    const double magic = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer */
    double t, n, r, q, p, scale;
    uint64_t bits;
    t = x * 1.4426950408889634 + magic;
    memcpy(&bits, &t, 8);
    n = t - magic;
    r = x - n * 0.6931471805592082;
    r = r - n * 7.371002565167799e-13;
    q = 2.510038319586702e-08;
    q = q * r + 2.7620085455018414e-07;
    q = q * r + 2.7557268464831627e-06;
    q = q * r + 2.4801521302241082e-05;
    q = q * r + 0.00019841269863050506;
    q = q * r + 0.001388888891720967;
    q = q * r + 0.008333333333330063;
    q = q * r + 0.041666666666624136;
    q = q * r + 0.16666666666666669;
    q = q * r + 0.5;
    p = 1.0 + (r + r * r * q);
    bits = (bits << 52) + ((uint64_t)1023 << 52); /* the low bits of t hold n */
    memcpy(&scale, &bits, 8);
    return osvm_select(x < -708.3964185322641, 0.0, p * scale);
}

OSVM_FORCE_INLINE float osvm_exp_downf(float x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23 */
    float t, n, r, q, p, scale;
    uint32_t bits;
    t = x * 1.44269504f + magic;
    memcpy(&bits, &t, 4);
    n = t - magic;
    r = x - n * 0.693115234375f;
    r = r - n * 3.1946183e-05f;
    q = 0.0013926182f;
    q = q * r + 0.008363178f;
    q = q * r + 0.041666556f;
    q = q * r + 0.16666576f;
    q = q * r + 0.5f;
    p = 1.0f + (r + r * r * q);
    bits = (bits << 23) + ((uint32_t)127 << 23);
    memcpy(&scale, &bits, 4);
    return osvm_selectf(x < -87.336540f, 0.0f, p * scale);
}

/* x^n for an integer n >= 0 by repeated squaring; 0^0 is 1. */
OSVM_FORCE_INLINE double osvm_powi(double x, int n) {
    double result = 1.0;
    for (; n > 0; n >>= 1) {
        if (n & 1) result *= x;
        x *= x;
    }
    return result;
}

/* ------------------------------------------------------------------ arrays
 * One macro for both types. */

#define OSVM_POWER_BLOCK 128

#define OSVM_DEFINE_LOOPS(real, suffix, exp_one, select)                                      \
    OSVM_FORCE_INLINE void osvm_loop_exp_down_##suffix(real *x, ptrdiff_t n) {                     \
        ptrdiff_t i;                                                                          \
        for (i = 0; i < n; i++) x[i] = exp_one(x[i]);                                         \
    }                                                                                         \
    OSVM_FORCE_INLINE void osvm_loop_rbf_##suffix(real *__restrict dots, ptrdiff_t n,         \
                                                  real gamma, real sq_x,                      \
                                                  const real *__restrict sq_z) {              \
        ptrdiff_t i;                                                                          \
        for (i = 0; i < n; i++) {                                                             \
            real d = sq_x + sq_z[i] - (real)2 * dots[i];                                      \
            dots[i] = exp_one(-gamma * select(d < (real)0, (real)0, d));                      \
        }                                                                                     \
    }                                                                                         \
    OSVM_FORCE_INLINE void osvm_loop_poly_##suffix(real *__restrict dots, ptrdiff_t n,        \
                                                   real gamma, real coef0, int degree) {      \
        real base[OSVM_POWER_BLOCK];                                                          \
        ptrdiff_t start, i;                                                                   \
        for (start = 0; start < n; start += OSVM_POWER_BLOCK) {                               \
            ptrdiff_t m = n - start < OSVM_POWER_BLOCK ? n - start : OSVM_POWER_BLOCK;        \
            real *out = dots + start;                                                         \
            int power = degree;                                                               \
            for (i = 0; i < m; i++) base[i] = gamma * out[i] + coef0;                         \
            for (i = 0; i < m; i++) out[i] = (real)1;                                         \
            for (; power > 0; power >>= 1) {                                                  \
                if (power & 1)                                                                \
                    for (i = 0; i < m; i++) out[i] *= base[i];                                \
                if (power > 1)                                                                \
                    for (i = 0; i < m; i++) base[i] *= base[i];                               \
            }                                                                                 \
        }                                                                                     \
    }

OSVM_DEFINE_LOOPS(float, f32, osvm_exp_downf, osvm_selectf)
OSVM_DEFINE_LOOPS(double, f64, osvm_exp_down, osvm_select)

OSVM_DISPATCH(exp_down_f32, (float *x, ptrdiff_t n), (x, n))
OSVM_DISPATCH(exp_down_f64, (double *x, ptrdiff_t n), (x, n))
OSVM_DISPATCH(rbf_f32,
                     (float *dots, ptrdiff_t n, float gamma, float sq_x, const float *sq_z),
                     (dots, n, gamma, sq_x, sq_z))
OSVM_DISPATCH(rbf_f64,
                     (double *dots, ptrdiff_t n, double gamma, double sq_x, const double *sq_z),
                     (dots, n, gamma, sq_x, sq_z))
OSVM_DISPATCH(poly_f32,
                     (float *dots, ptrdiff_t n, float gamma, float coef0, int degree),
                     (dots, n, gamma, coef0, degree))
OSVM_DISPATCH(poly_f64,
                     (double *dots, ptrdiff_t n, double gamma, double coef0, int degree),
                     (dots, n, gamma, coef0, degree))

#endif
