# A set of words that is made once: their bytes one after the other, found by their hash.
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

from osvm.stream._characters cimport text_t
from osvm.stream._murmur cimport murmur32


cdef struct WordSet:
    text_t text             # of the words; NULL = none
    Py_ssize_t *starts      # where each word begins, and where the last one ends
    uint32_t *slots         # hash table: word number + 1, 0 = free
    Py_ssize_t mask         # its size - 1, a power of two - 1


cdef inline int word_set_fill(WordSet *set, bytes text, list words) except -1:
    """Words, and `text`, their bytes one after the other, which must outlive the set."""
    cdef Py_ssize_t size = 64
    cdef Py_ssize_t k, slot, start = 0
    while size < 4 * len(words):
        size *= 2
    set.slots = <uint32_t *> calloc(size, sizeof(uint32_t))
    set.starts = <Py_ssize_t *> calloc(len(words) + 1, sizeof(Py_ssize_t))
    if set.slots == NULL or set.starts == NULL:
        raise MemoryError
    set.mask = size - 1
    set.text = <text_t> PyBytes_AS_STRING(text)
    for k in range(len(words)):
        set.starts[k] = start
        slot = murmur32(set.text + start, len(words[k]), 0) & set.mask
        while set.slots[slot]:
            slot = (slot + 1) & set.mask
        set.slots[slot] = k + 1
        start += len(words[k])
    set.starts[len(words)] = start
    return 0


cdef inline bint word_set_has(const WordSet *set, text_t word, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t slot = murmur32(word, length, 0) & set.mask
    cdef Py_ssize_t k
    while set.slots[slot]:
        k = set.slots[slot] - 1
        if (set.starts[k + 1] - set.starts[k] == length
                and memcmp(set.text + set.starts[k], word, length) == 0):
            return True
        slot = (slot + 1) & set.mask
    return False


cdef inline void word_set_free(WordSet *set) noexcept nogil:
    free(set.slots)
    free(set.starts)
