/* What C offers and Cython cannot say: prefetching, and loops for wide registers.
 *
 * Everything here is a hint or has a plain fallback, so that the library compiles
 * with any C11 or C++ compiler.  Wide versions are compiled for their processor
 * function by function and chosen at run time, so that one build runs everywhere.
 *
 * Invariants
 * - A wide version adds in the same order as the plain one, one multiplication and
 *   one addition at a time: results are the same bits at every level.
 * - Sparse rows may repeat a column: entries are applied one after the other.
 *
 * Gathers are not used: on the processors at hand four plain running sums were as
 * quick.  What pays is K neighbouring weights per entry (osvm_dot_all_...), and
 * checks that touch memory only once (osvm_largest_...).
 */
#ifndef OSVM_SIMD_H
#define OSVM_SIMD_H

#include <stddef.h>
#include <stdint.h>

/* In assembler on x86: gcc drops calls of functions that do nothing but prefetch. */
#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define OSVM_PREFETCH(address) \
    __asm__ __volatile__("prefetcht0 %0" : : "m"(*(const char *)(const void *)(address)))
#define OSVM_PREFETCH_WRITE(address) OSVM_PREFETCH(address)
#define OSVM_UNUSED __attribute__((unused))
#elif defined(__GNUC__) || defined(__clang__)
#define OSVM_PREFETCH(address) __builtin_prefetch((const void *)(address), 0, 3)
#define OSVM_PREFETCH_WRITE(address) __builtin_prefetch((const void *)(address), 1, 3)
#define OSVM_UNUSED __attribute__((unused))
#else
#define OSVM_PREFETCH(address) ((void)0)
#define OSVM_PREFETCH_WRITE(address) ((void)0)
#define OSVM_UNUSED
#endif

#if (defined(__GNUC__) || defined(__clang__)) && (defined(__x86_64__) || defined(__i386__))
#define OSVM_HAVE_AVX2 1
#include <immintrin.h>
#define OSVM_AVX2 __attribute__((target("avx2")))
#define OSVM_AVX2_INLINE __attribute__((target("avx2"), always_inline)) inline
#else
#define OSVM_HAVE_AVX2 0
#define OSVM_AVX2
#endif

/* Keep a running sum in a register of its own: a compiler that packs the four sums
 * of a sparse dot product into one register makes it a third slower (gcc 12). */
#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define OSVM_APART(sum) __asm__("" : "+x"(sum))
#elif (defined(__GNUC__) || defined(__clang__)) && defined(__aarch64__)
#define OSVM_APART(sum) __asm__("" : "+w"(sum))
#else
#define OSVM_APART(sum) ((void)0)
#endif

/* ------------------------------- two neighbouring floats: place += x * (c, d)
 * One load and one store, which compilers do not make of two (gcc 12). */
static inline OSVM_UNUSED void osvm_add_pair(float *place, float x, float c, float d) {
#if OSVM_HAVE_AVX2 && defined(__SSE2__)
    const __m128 old = _mm_castsi128_ps(_mm_loadl_epi64((const __m128i *)(void *)place));
    const __m128 step = _mm_mul_ps(_mm_set1_ps(x), _mm_setr_ps(c, d, 0.0f, 0.0f));
    _mm_storel_epi64((__m128i *)(void *)place, _mm_castps_si128(_mm_add_ps(old, step)));
#else
    place[0] += x * c;
    place[1] += x * d;
#endif
}

/* ------------------------------------------------------------- the level
 * 0 plain, 1 AVX2.  Found out once per compiled module; tests lower it. */
static int osvm_simd_found = -1;

static inline OSVM_UNUSED int osvm_simd_best(void) {
#if OSVM_HAVE_AVX2
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") ? 1 : 0;
#else
    return 0;
#endif
}

static inline OSVM_UNUSED int osvm_simd_level(void) {
    if (osvm_simd_found < 0)
        osvm_simd_found = osvm_simd_best();
    return osvm_simd_found;
}

/* Use at most this level in this module from now on; the level in use. */
static inline OSVM_UNUSED int osvm_simd_limit(int level) {
    int best = osvm_simd_best();
    osvm_simd_found = level < best ? level : best;
    return osvm_simd_found;
}

/* ------------------------------------------- the largest magnitude of n floats
 * As bits without the sign, which are ordered like the magnitudes: infinity and
 * NaN are 0x7f800000 and above (0x7ff0000000000000 for doubles). */
#define OSVM_LARGEST_LOOP(INT, MASK)             \
    INT largest = 0;                             \
    for (ptrdiff_t k = 0; k < n; k++) {          \
        INT bits = x[k] & (INT)(MASK);           \
        largest = bits > largest ? bits : largest; \
    }                                            \
    return largest;

static inline OSVM_UNUSED int32_t osvm_largest_f32_plain(const int32_t *x, ptrdiff_t n) {
    OSVM_LARGEST_LOOP(int32_t, 0x7fffffff)
}
static inline OSVM_UNUSED int64_t osvm_largest_f64_plain(const int64_t *x, ptrdiff_t n) {
    OSVM_LARGEST_LOOP(int64_t, 0x7fffffffffffffff)
}

/* ------------------------------ whether n column numbers are all in 0 .. largest
 * j or (largest - j) is negative exactly when j is out of range. */
#define OSVM_RANGE_LOOP(UINT, SHIFT)             \
    UINT seen = 0;                               \
    for (ptrdiff_t k = 0; k < n; k++)            \
        seen |= j[k] | (largest - j[k]);         \
    return (seen >> (SHIFT)) == 0;

static inline OSVM_UNUSED int osvm_in_range_i32_plain(const uint32_t *j, ptrdiff_t n,
                                                      uint32_t largest) {
    OSVM_RANGE_LOOP(uint32_t, 31)
}
static inline OSVM_UNUSED int osvm_in_range_i64_plain(const uint64_t *j, ptrdiff_t n,
                                                      uint64_t largest) {
    OSVM_RANGE_LOOP(uint64_t, 63)
}

#if OSVM_HAVE_AVX2
OSVM_AVX2 static OSVM_UNUSED int32_t osvm_largest_f32_avx2(const int32_t *x, ptrdiff_t n) {
    OSVM_LARGEST_LOOP(int32_t, 0x7fffffff)
}
OSVM_AVX2 static OSVM_UNUSED int64_t osvm_largest_f64_avx2(const int64_t *x, ptrdiff_t n) {
    OSVM_LARGEST_LOOP(int64_t, 0x7fffffffffffffff)
}
OSVM_AVX2 static OSVM_UNUSED int osvm_in_range_i32_avx2(const uint32_t *j, ptrdiff_t n,
                                                        uint32_t largest) {
    OSVM_RANGE_LOOP(uint32_t, 31)
}
OSVM_AVX2 static OSVM_UNUSED int osvm_in_range_i64_avx2(const uint64_t *j, ptrdiff_t n,
                                                        uint64_t largest) {
    OSVM_RANGE_LOOP(uint64_t, 63)
}
#define OSVM_CHOOSE(name, ...) \
    (osvm_simd_level() > 0 ? name##_avx2(__VA_ARGS__) : name##_plain(__VA_ARGS__))
#else
#define OSVM_CHOOSE(name, ...) (name##_plain(__VA_ARGS__))
#endif

static inline OSVM_UNUSED int32_t osvm_largest_f32(const void *x, ptrdiff_t n) {
    return OSVM_CHOOSE(osvm_largest_f32, (const int32_t *)x, n);
}
static inline OSVM_UNUSED int64_t osvm_largest_f64(const void *x, ptrdiff_t n) {
    return OSVM_CHOOSE(osvm_largest_f64, (const int64_t *)x, n);
}
static inline OSVM_UNUSED int osvm_in_range_i32(const void *j, ptrdiff_t n, uint32_t largest) {
    return OSVM_CHOOSE(osvm_in_range_i32, (const uint32_t *)j, n, largest);
}
static inline OSVM_UNUSED int osvm_in_range_i64(const void *j, ptrdiff_t n, uint64_t largest) {
    return OSVM_CHOOSE(osvm_in_range_i64, (const uint64_t *)j, n, largest);
}

/* ----------------------------------------- one sparse row, K weights per feature
 * out[k] = sum_i x[i] v[j[i] K + k]         osvm_dot_all_...
 * v[j[i] K + k] += x[i] c[k] for every i    osvm_axpy_all_...
 * A sweep over the row keeps up to four wide registers and a half one; what is
 * left beyond whole halves is done one by one.  The weights of the next row's
 * columns are fetched on the way (n_next may be 0).  Both return 0, having done
 * nothing, when the level is plain. */
#if OSVM_HAVE_AVX2
#define OSVM_SWEEPS(NAME, VALUE, INDEX, WEIGHT, WIDE, HALF, WIDTH, LOAD, STORE, SET, MUL, ADD,     \
                    LOAD2, STORE2, SET2, MUL2, ADD2)                                               \
    static OSVM_AVX2_INLINE void osvm_dot_sweep_##NAME(                                            \
        const VALUE *x, const INDEX *j, ptrdiff_t n, const WEIGHT *v, ptrdiff_t K, WEIGHT *out,    \
        const INDEX *next, ptrdiff_t n_next, const int wide, const int half) {                     \
        const ptrdiff_t bytes = (wide * WIDTH + half * (WIDTH / 2)) * (ptrdiff_t)sizeof(WEIGHT);   \
        WIDE a0 = SET(0), a1 = SET(0), a2 = SET(0), a3 = SET(0);                                   \
        HALF h = SET2(0);                                                                          \
        for (ptrdiff_t i = 0; i < n; i++) {                                                        \
            const WEIGHT *column = v + (ptrdiff_t)j[i] * K;                                        \
            if (i < n_next) {                                                                      \
                const char *place = (const char *)(v + (ptrdiff_t)next[i] * K);                    \
                OSVM_PREFETCH(place);                                                              \
                if (bytes > 64) OSVM_PREFETCH(place + 64);                                         \
                OSVM_PREFETCH(place + bytes - 1);                                                  \
            }                                                                                      \
            const WIDE value = SET(x[i]);                                                          \
            if (wide > 0) a0 = ADD(a0, MUL(value, LOAD(column)));                                  \
            if (wide > 1) a1 = ADD(a1, MUL(value, LOAD(column + WIDTH)));                          \
            if (wide > 2) a2 = ADD(a2, MUL(value, LOAD(column + 2 * WIDTH)));                      \
            if (wide > 3) a3 = ADD(a3, MUL(value, LOAD(column + 3 * WIDTH)));                      \
            if (half) h = ADD2(h, MUL2(SET2(x[i]), LOAD2(column + wide * WIDTH)));                 \
        }                                                                                          \
        if (wide > 0) STORE(out, a0);                                                              \
        if (wide > 1) STORE(out + WIDTH, a1);                                                      \
        if (wide > 2) STORE(out + 2 * WIDTH, a2);                                                  \
        if (wide > 3) STORE(out + 3 * WIDTH, a3);                                                  \
        if (half) STORE2(out + wide * WIDTH, h);                                                   \
    }                                                                                              \
    static OSVM_AVX2_INLINE void osvm_axpy_sweep_##NAME(                                           \
        const VALUE *x, const INDEX *j, ptrdiff_t n, const WEIGHT *c, ptrdiff_t K, WEIGHT *v,      \
        const int wide, const int half) {                                                          \
        const WIDE c0 = wide > 0 ? LOAD(c) : SET(0), c1 = wide > 1 ? LOAD(c + WIDTH) : SET(0);     \
        const WIDE c2 = wide > 2 ? LOAD(c + 2 * WIDTH) : SET(0);                                   \
        const WIDE c3 = wide > 3 ? LOAD(c + 3 * WIDTH) : SET(0);                                   \
        const HALF ch = half ? LOAD2(c + wide * WIDTH) : SET2(0);                                  \
        for (ptrdiff_t i = 0; i < n; i++) {                                                        \
            WEIGHT *column = v + (ptrdiff_t)j[i] * K;                                              \
            const WIDE value = SET(x[i]);                                                          \
            if (wide > 0) STORE(column, ADD(LOAD(column), MUL(value, c0)));                        \
            if (wide > 1)                                                                          \
                STORE(column + WIDTH, ADD(LOAD(column + WIDTH), MUL(value, c1)));                  \
            if (wide > 2)                                                                          \
                STORE(column + 2 * WIDTH, ADD(LOAD(column + 2 * WIDTH), MUL(value, c2)));          \
            if (wide > 3)                                                                          \
                STORE(column + 3 * WIDTH, ADD(LOAD(column + 3 * WIDTH), MUL(value, c3)));          \
            if (half)                                                                              \
                STORE2(column + wide * WIDTH,                                                      \
                       ADD2(LOAD2(column + wide * WIDTH), MUL2(SET2(x[i]), ch)));                  \
        }                                                                                          \
    }                                                                                              \
    OSVM_AVX2 static OSVM_UNUSED void osvm_dot_all_##NAME##_avx2(                                  \
        const VALUE *x, const INDEX *j, ptrdiff_t n, const WEIGHT *v, ptrdiff_t K, WEIGHT *out,    \
        const INDEX *next, ptrdiff_t n_next) {                                                     \
        ptrdiff_t k = 0;                                                                           \
        for (; K - k >= 4 * WIDTH; k += 4 * WIDTH)                                                 \
            osvm_dot_sweep_##NAME(x, j, n, v + k, K, out + k, next, n_next, 4, 0);                 \
        switch ((K - k) / (WIDTH / 2)) {                                                           \
        case 7: osvm_dot_sweep_##NAME(x, j, n, v + k, K, out + k, next, n_next, 3, 1); break;      \
        case 6: osvm_dot_sweep_##NAME(x, j, n, v + k, K, out + k, next, n_next, 3, 0); break;      \
        case 5: osvm_dot_sweep_##NAME(x, j, n, v + k, K, out + k, next, n_next, 2, 1); break;      \
        case 4: osvm_dot_sweep_##NAME(x, j, n, v + k, K, out + k, next, n_next, 2, 0); break;      \
        case 3: osvm_dot_sweep_##NAME(x, j, n, v + k, K, out + k, next, n_next, 1, 1); break;      \
        case 2: osvm_dot_sweep_##NAME(x, j, n, v + k, K, out + k, next, n_next, 1, 0); break;      \
        case 1: osvm_dot_sweep_##NAME(x, j, n, v + k, K, out + k, next, n_next, 0, 1); break;      \
        default: break;                                                                            \
        }                                                                                          \
        for (k = K - K % (WIDTH / 2); k < K; k++) {                                                \
            WEIGHT sum = 0;                                                                        \
            for (ptrdiff_t i = 0; i < n; i++) sum += x[i] * v[(ptrdiff_t)j[i] * K + k];            \
            out[k] = sum;                                                                          \
        }                                                                                          \
    }                                                                                              \
    OSVM_AVX2 static OSVM_UNUSED void osvm_axpy_all_##NAME##_avx2(                                 \
        const VALUE *x, const INDEX *j, ptrdiff_t n, const WEIGHT *c, ptrdiff_t K, WEIGHT *v) {    \
        ptrdiff_t k = 0;                                                                           \
        for (; K - k >= 4 * WIDTH; k += 4 * WIDTH)                                                 \
            osvm_axpy_sweep_##NAME(x, j, n, c + k, K, v + k, 4, 0);                                \
        switch ((K - k) / (WIDTH / 2)) {                                                           \
        case 7: osvm_axpy_sweep_##NAME(x, j, n, c + k, K, v + k, 3, 1); break;                     \
        case 6: osvm_axpy_sweep_##NAME(x, j, n, c + k, K, v + k, 3, 0); break;                     \
        case 5: osvm_axpy_sweep_##NAME(x, j, n, c + k, K, v + k, 2, 1); break;                     \
        case 4: osvm_axpy_sweep_##NAME(x, j, n, c + k, K, v + k, 2, 0); break;                     \
        case 3: osvm_axpy_sweep_##NAME(x, j, n, c + k, K, v + k, 1, 1); break;                     \
        case 2: osvm_axpy_sweep_##NAME(x, j, n, c + k, K, v + k, 1, 0); break;                     \
        case 1: osvm_axpy_sweep_##NAME(x, j, n, c + k, K, v + k, 0, 1); break;                     \
        default: break;                                                                            \
        }                                                                                          \
        for (k = K - K % (WIDTH / 2); k < K; k++)                                                  \
            for (ptrdiff_t i = 0; i < n; i++) v[(ptrdiff_t)j[i] * K + k] += x[i] * c[k];           \
    }

#define OSVM_SWEEPS_F32(NAME, INDEX)                                                               \
    OSVM_SWEEPS(NAME, float, INDEX, float, __m256, __m128, 8, _mm256_loadu_ps, _mm256_storeu_ps,   \
                _mm256_set1_ps, _mm256_mul_ps, _mm256_add_ps, _mm_loadu_ps, _mm_storeu_ps,         \
                _mm_set1_ps, _mm_mul_ps, _mm_add_ps)
#define OSVM_SWEEPS_F64(NAME, INDEX)                                                               \
    OSVM_SWEEPS(NAME, double, INDEX, double, __m256d, __m128d, 4, _mm256_loadu_pd,                 \
                _mm256_storeu_pd, _mm256_set1_pd, _mm256_mul_pd, _mm256_add_pd, _mm_loadu_pd,      \
                _mm_storeu_pd, _mm_set1_pd, _mm_mul_pd, _mm_add_pd)
OSVM_SWEEPS_F32(f32_i32, int32_t)
OSVM_SWEEPS_F32(f32_i64, int64_t)
OSVM_SWEEPS_F64(f64_i32, int32_t)
OSVM_SWEEPS_F64(f64_i64, int64_t)

#define OSVM_ALL(NAME, VALUE, INDEX, WEIGHT)                                                       \
    static inline OSVM_UNUSED int osvm_dot_all_##NAME(const VALUE *x, const INDEX *j, ptrdiff_t n, \
                                                      const WEIGHT *v, ptrdiff_t K, WEIGHT *out,   \
                                                      const INDEX *next, ptrdiff_t n_next) {       \
        if (osvm_simd_level() < 1) return 0;                                                       \
        osvm_dot_all_##NAME##_avx2(x, j, n, v, K, out, next, n_next);                              \
        return 1;                                                                                  \
    }                                                                                              \
    static inline OSVM_UNUSED int osvm_axpy_all_##NAME(const VALUE *x, const INDEX *j,             \
                                                       ptrdiff_t n, const WEIGHT *c, ptrdiff_t K,  \
                                                       WEIGHT *v) {                                \
        if (osvm_simd_level() < 1) return 0;                                                       \
        osvm_axpy_all_##NAME##_avx2(x, j, n, c, K, v);                                             \
        return 1;                                                                                  \
    }
#else
#define OSVM_ALL(NAME, VALUE, INDEX, WEIGHT)                                                       \
    static inline OSVM_UNUSED int osvm_dot_all_##NAME(const VALUE *x, const INDEX *j, ptrdiff_t n, \
                                                      const WEIGHT *v, ptrdiff_t K, WEIGHT *out,   \
                                                      const INDEX *next, ptrdiff_t n_next) {       \
        (void)x; (void)j; (void)n; (void)v; (void)K; (void)out; (void)next; (void)n_next;          \
        return 0;                                                                                  \
    }                                                                                              \
    static inline OSVM_UNUSED int osvm_axpy_all_##NAME(const VALUE *x, const INDEX *j,             \
                                                       ptrdiff_t n, const WEIGHT *c, ptrdiff_t K,  \
                                                       WEIGHT *v) {                                \
        (void)x; (void)j; (void)n; (void)c; (void)K; (void)v;                                      \
        return 0;                                                                                  \
    }
#endif
OSVM_ALL(f32_i32, float, int32_t, float)
OSVM_ALL(f32_i64, float, int64_t, float)
OSVM_ALL(f64_i32, double, int32_t, double)
OSVM_ALL(f64_i64, double, int64_t, double)

#endif
