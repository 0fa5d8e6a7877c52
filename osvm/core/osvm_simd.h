/* What C offers and Cython cannot say: prefetching.
 *
 * Everything here is a hint or has a plain fallback, so that the library
 * compiles with any C11 or C++ compiler.
 */
#ifndef OSVM_SIMD_H
#define OSVM_SIMD_H

#if defined(__GNUC__) || defined(__clang__)
#define OSVM_PREFETCH(address) __builtin_prefetch((const void *)(address), 0, 3)
#define OSVM_PREFETCH_WRITE(address) __builtin_prefetch((const void *)(address), 1, 3)
#else
#define OSVM_PREFETCH(address) ((void)0)
#define OSVM_PREFETCH_WRITE(address) ((void)0)
#endif

#endif
