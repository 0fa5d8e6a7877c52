/* Does a row name a column twice?
 *
 * Columns in strictly increasing order do not, which one pass over all rows at once can tell
 * (osvm_descents_...).  Rows in another order are looked at one by one (osvm_repeats_...). */
#ifndef OSVM_REPEATS_H
#define OSVM_REPEATS_H

#include <stdlib.h>
#include <string.h>

#include "dispatch.h"

/* How many of n columns are followed by one that is not larger; short counts are added up in
 * as many bits as a column has, so that compilers vectorize them. */
#define OSVM_DESCENTS(BITS, INT)                                                             \
    OSVM_FORCE_INLINE ptrdiff_t osvm_loop_descents_i##BITS(const void *columns, ptrdiff_t n) { \
        const INT *j = (const INT *)columns;                                                 \
        ptrdiff_t total = 0, k = 0;                                                          \
        while (k + 1 < n) {                                                                  \
            const ptrdiff_t end = n - 1 - k > 4096 ? k + 4096 : n - 1;                       \
            INT count = 0;                                                                   \
            for (; k < end; k++) count += j[k] >= j[k + 1];                                  \
            total += count;                                                                  \
        }                                                                                    \
        return total;                                                                        \
    }                                                                                        \
    OSVM_DISPATCH_VALUE(ptrdiff_t, descents_i##BITS, (const void *j, ptrdiff_t n), (j, n))
OSVM_DESCENTS(32, int32_t)
OSVM_DESCENTS(64, int64_t)

/* Whether one of n columns, none of them negative, comes twice; -1 without memory. */
#define OSVM_REPEATS(BITS, INT)                                                              \
    static inline int osvm_repeats_i##BITS(const void *columns, ptrdiff_t n) {               \
        const INT *j = (const INT *)columns;                                                 \
        INT *table;                                                                          \
        size_t size = 64, at;                                                                \
        int shift = 58, found = 0;                                                           \
        if (n <= 16) {                                                                       \
            for (ptrdiff_t k = 1; k < n; k++)                                                \
                for (ptrdiff_t i = 0; i < k; i++)                                            \
                    if (j[i] == j[k]) return 1;                                              \
            return 0;                                                                        \
        }                                                                                    \
        for (; size < 2 * (size_t)n; shift--) size *= 2;                                     \
        table = (INT *)malloc(size * sizeof(INT));                                           \
        if (table == NULL) return -1;                                                        \
        memset(table, 0xff, size * sizeof(INT)); /* -1: free */                              \
        for (ptrdiff_t k = 0; k < n && !found; k++) {                                        \
            at = (size_t)(((uint64_t)j[k] * 0x9e3779b97f4a7c15u) >> shift);                  \
            while (table[at] != -1 && table[at] != j[k]) at = (at + 1) & (size - 1);         \
            found = table[at] == j[k];                                                       \
            table[at] = j[k];                                                                \
        }                                                                                    \
        free(table);                                                                         \
        return found;                                                                        \
    }
OSVM_REPEATS(32, int32_t)
OSVM_REPEATS(64, int64_t)

#endif
