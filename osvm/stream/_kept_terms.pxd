# The first term that fell into each column: a byte for its length, then its bytes.
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from osvm.stream._characters cimport text_t


cdef struct KeptTerms:
    Py_ssize_t columns      # 0 = no terms are kept
    uint32_t *at            # of each column: offset in `text` + 1, 0 = none
    unsigned char *text
    Py_ssize_t size
    Py_ssize_t room


cdef inline int terms_make(KeptTerms *terms, Py_ssize_t columns) noexcept nogil:
    """Room for a term of each column; 0, or -1 without memory."""
    terms.at = <uint32_t *> calloc(columns, sizeof(uint32_t))
    if terms.at == NULL:
        return -1
    terms.columns = columns
    return 0


cdef inline void terms_free(KeptTerms *terms) noexcept nogil:
    free(terms.at)
    free(terms.text)


cdef inline void terms_clear(KeptTerms *terms) noexcept nogil:
    memset(terms.at, 0, terms.columns * sizeof(uint32_t))
    terms.size = 0


cdef inline int terms_keep(KeptTerms *terms, uint32_t column, text_t term,
                           Py_ssize_t length) noexcept nogil:
    """Note the first term of a column, of at most 255 bytes; 0, or -1 without memory."""
    cdef void *memory
    if terms.at[column] or length > 255 or terms.size > <Py_ssize_t> 0xFFFFFFFF - 256:
        return 0
    if terms.room < terms.size + length + 1:
        memory = realloc(terms.text, 2 * terms.room + 4096)
        if memory == NULL:
            return -1
        terms.text = <unsigned char *> memory
        terms.room = 2 * terms.room + 4096
    terms.text[terms.size] = <unsigned char> length
    memcpy(terms.text + terms.size + 1, term, length)
    terms.at[column] = <uint32_t> (terms.size + 1)
    terms.size += length + 1
    return 0


cdef inline object terms_text(const KeptTerms *terms, Py_ssize_t column):
    """The term of a column as text; None where none is kept."""
    cdef Py_ssize_t at = terms.at[column] if 0 <= column < terms.columns else 0
    if at == 0:
        return None
    return terms.text[at:at + terms.text[at - 1]].decode("utf-8", "replace")


cdef inline bytes terms_bytes(const KeptTerms *terms, offsets):
    """The terms at these offsets (those of `at`), one after the other, for `terms_read`."""
    cdef Py_ssize_t at
    found = []
    for at in offsets:
        found.append(terms.text[at - 1:at + terms.text[at - 1]])
    return b"".join(found)


cdef inline int terms_read(KeptTerms *terms, columns, bytes text) except -1:
    """Keep terms as `terms_bytes` gives them, for columns that have none."""
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t size = len(text)
    cdef text_t p = <text_t> PyBytes_AS_STRING(text)
    cdef Py_ssize_t column
    for column in columns:
        if not 0 <= column < terms.columns or at >= size or at + 1 + p[at] > size:
            raise ValueError("the saved terms do not fit their columns")
        if terms_keep(terms, column, p + at + 1, p[at]) < 0:
            raise MemoryError
        at += 1 + p[at]
    if at != size:
        raise ValueError("the saved terms do not fit their columns")
    return 0
