# The items with the largest keys, in a heap with the smallest of them on top.

cdef inline void sift(double *keys, Py_ssize_t *items, Py_ssize_t size) noexcept nogil:
    """Restore the heap (smallest key on top) after its top was replaced."""
    cdef Py_ssize_t at = 0, child
    cdef double key = keys[0]
    cdef Py_ssize_t item = items[0]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[at] = keys[child]
        items[at] = items[child]
        at = child
    keys[at] = key
    items[at] = item


cdef inline Py_ssize_t offer(double *keys, Py_ssize_t *items, Py_ssize_t size,
                             Py_ssize_t limit, double key, Py_ssize_t item) noexcept nogil:
    """Keep the `limit` largest keys; the new size of the heap."""
    cdef Py_ssize_t at, parent
    if size < limit:
        at = size
        while at > 0:
            parent = (at - 1) // 2
            if keys[parent] <= key:
                break
            keys[at] = keys[parent]
            items[at] = items[parent]
            at = parent
        keys[at] = key
        items[at] = item
        return size + 1
    if limit > 0 and key > keys[0]:
        keys[0] = key
        items[0] = item
        sift(keys, items, size)
    return size
