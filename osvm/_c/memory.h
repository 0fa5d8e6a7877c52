/* Memory of an array that is not needed any more, and memory that threads hand to each other.
 *
 * osvm_give_back    whole pages between two ends go back to the system; what is read there
 *                   afterwards is undefined.  Systems that cannot keep them until all is freed.
 * osvm_swap         puts a pointer in a place and returns what was there, as one step for all
 *                   threads: who gets a pointer is its only owner.
 */
#ifndef OSVM_MEMORY_H
#define OSVM_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#include <unistd.h>
#endif
#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#endif

static inline void *osvm_swap(void *place, void *pointer) {
#if defined(_MSC_VER) && !defined(__clang__)
    return _InterlockedExchangePointer((void *volatile *)place, pointer);
#else
    return __atomic_exchange_n((void **)place, pointer, __ATOMIC_ACQ_REL);
#endif
}

static inline void osvm_give_back(void *array, size_t from, size_t to) {
#if defined(__linux__) || defined(MADV_FREE)
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)array + from + page - 1) / page * page;
    uintptr_t last = ((uintptr_t)array + to) / page * page;
    if (last > first)
#if defined(__linux__)
        madvise((void *)first, last - first, MADV_DONTNEED);
#else
        madvise((void *)first, last - first, MADV_FREE);
#endif
#else
    (void)array, (void)from, (void)to;
#endif
}

#endif
