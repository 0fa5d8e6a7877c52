/* Memory of an array that is not needed any more, while its beginning is.
 *
 * osvm_give_back    whole pages between two ends go back to the system; what is read there
 *                   afterwards is undefined.  Systems that cannot keep them until all is freed.
 */
#ifndef OSVM_MEMORY_H
#define OSVM_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#include <unistd.h>
#endif

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
