/* What C offers and Cython cannot say: prefetching, vector types, and the choice of wide
 * instructions at run time.
 *
 * A loop is written once, as an always-inlined function osvm_loop_NAME, and compiled twice:
 * for the baseline instruction set and, on x86, for AVX2.  OSVM_DISPATCH makes osvm_NAME, which
 * calls the one that the processor can run, so that one build runs everywhere.
 *
 *     OSVM_FORCE_INLINE void osvm_loop_twice(double *x, ptrdiff_t n) { ... }
 *     OSVM_DISPATCH(twice, (double *x, ptrdiff_t n), (x, n))
 *
 * Loops that compilers vectorize are plain C; the others use the vector types of gcc and clang
 * (OSVM_VECTORS), which become whatever registers the processor has, on ARM too.  Everything has
 * a plain fallback, so that the library compiles with any C11 or C++ compiler.
 *
 * Invariant: the same operations in the same order in every build, one multiplication and one
 * addition at a time (no fused multiply-add): results are the same bits.
 */
#ifndef OSVM_DISPATCH_H
#define OSVM_DISPATCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define OSVM_VECTORS 1
#define OSVM_UNUSED __attribute__((unused))
#define OSVM_FORCE_INLINE static inline __attribute__((always_inline, unused))
#else
#define OSVM_VECTORS 0
#define OSVM_UNUSED
#define OSVM_FORCE_INLINE static __forceinline
#endif

/* A condition that hardly ever holds: what follows is kept out of the loop around it. */
#if OSVM_VECTORS
#define OSVM_RARE(condition) __builtin_expect(!!(condition), 0)
#else
#define OSVM_RARE(condition) (condition)
#endif

/* ------------------------------------------------------------------ one instruction */

/* In assembler on x86: gcc drops calls of functions that do nothing but prefetch.
 *
 * OSVM_APART keeps a running sum in a register of its own: a compiler that packs the four sums
 * of a sparse dot product into one register makes it a third slower (gcc 12). */
#if OSVM_VECTORS && defined(__x86_64__)
#define OSVM_PREFETCH(address) \
    __asm__ __volatile__("prefetcht0 %0" : : "m"(*(const char *)(const void *)(address)))
#define OSVM_APART(sum) __asm__("" : "+x"(sum))
#elif OSVM_VECTORS
#define OSVM_PREFETCH(address) __builtin_prefetch((const void *)(address), 0, 3)
#if defined(__aarch64__)
#define OSVM_APART(sum) __asm__("" : "+w"(sum))
#endif
#else
#define OSVM_PREFETCH(address) ((void)0)
#endif
#ifndef OSVM_APART
#define OSVM_APART(sum) ((void)0)
#endif

/* ------------------------------------------------------------------ vector types
 * Loads and stores need no more alignment than their elements.  A comparison gives all bits
 * set or none, in integers of the same width: OSVM_PICK chooses by them. */
#if OSVM_VECTORS
typedef float osvm_f32x2 __attribute__((vector_size(8), aligned(4), may_alias));
typedef float osvm_f32x4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float osvm_f32x8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef double osvm_f64x2 __attribute__((vector_size(16), aligned(8), may_alias));
typedef double osvm_f64x4 __attribute__((vector_size(32), aligned(8), may_alias));
typedef int64_t osvm_i64x4 __attribute__((vector_size(32), aligned(8), may_alias));
#define OSVM_AT(TYPE, address) (*(TYPE *)(void *)(address))
#define OSVM_READ(TYPE, address) (*(const TYPE *)(const void *)(address))
#define OSVM_PICK(mask, yes, no) \
    ((osvm_f64x4)(((mask) & (osvm_i64x4)(yes)) | (~(mask) & (osvm_i64x4)(no))))
#define OSVM_PICK_I(mask, yes, no) (((mask) & (yes)) | (~(mask) & (no)))
#define OSVM_ANY(mask) (((mask)[0] | (mask)[1] | (mask)[2] | (mask)[3]) != 0)
#endif

/* ------------------------------------------------------------------ the choice
 * Level 0 is plain C for the baseline instruction set; level 1 adds vector types and AVX2,
 * where there are any.  Each compiled module has its own; tests lower it. */
static int osvm_simd_allowed = OSVM_VECTORS;

OSVM_FORCE_INLINE int osvm_simd_level(void) { return osvm_simd_allowed; }

/* Use at most this level in this module from now on; the level in use. */
OSVM_FORCE_INLINE int osvm_simd_limit(int level) {
    osvm_simd_allowed = OSVM_VECTORS && level > 0;
    return osvm_simd_allowed;
}

/* Both builds stay functions of their own: the one that is not used must not be inlined, and
 * change what else the compiler inlines in the callers' loops. */
#if OSVM_VECTORS && (defined(__x86_64__) || defined(__i386__))
#define OSVM_DISPATCH_AS(result, give, name, parameters, arguments)                             \
    __attribute__((noinline, unused)) static result osvm_plain_##name parameters {              \
        give osvm_loop_##name arguments;                                                        \
    }                                                                                           \
    __attribute__((target("avx2"), noinline, unused)) static result osvm_avx2_##name parameters { \
        give osvm_loop_##name arguments;                                                        \
    }                                                                                           \
    OSVM_UNUSED static inline result osvm_##name parameters {                                   \
        if (osvm_simd_allowed && __builtin_cpu_supports("avx2")) {                              \
            give osvm_avx2_##name arguments;                                                    \
        } else {                                                                                \
            give osvm_plain_##name arguments;                                                   \
        }                                                                                       \
    }
#else
#define OSVM_DISPATCH_AS(result, give, name, parameters, arguments) \
    OSVM_UNUSED static result osvm_##name parameters { give osvm_loop_##name arguments; }
#endif

#define OSVM_DISPATCH(name, parameters, arguments) \
    OSVM_DISPATCH_AS(void, , name, parameters, arguments)
#define OSVM_DISPATCH_VALUE(result, name, parameters, arguments) \
    OSVM_DISPATCH_AS(result, return, name, parameters, arguments)

#endif
