# Characters of UTF-8 text: where one ends, which belong to words, and their lower case.
from libc.stdint cimport uint32_t

ctypedef const unsigned char *text_t


cdef inline Py_ssize_t code_point(text_t p, text_t stop, uint32_t *code) noexcept nogil:
    """Length of the UTF-8 sequence at p (2 to 4 bytes), or 0 when it is not one."""
    cdef unsigned char lead = p[0]
    cdef Py_ssize_t length
    cdef Py_ssize_t i
    cdef uint32_t c
    if 0xC2 <= lead <= 0xDF:
        length = 2
        c = lead & 0x1F
    elif 0xE0 <= lead <= 0xEF:
        length = 3
        c = lead & 0x0F
    elif 0xF0 <= lead <= 0xF4:
        length = 4
        c = lead & 0x07
    else:
        return 0
    if stop - p < length:
        return 0
    for i in range(1, length):
        if p[i] & 0xC0 != 0x80:
            return 0
        c = (c << 6) | (p[i] & 0x3F)
    if (length == 3 and (c < 0x800 or 0xD800 <= c <= 0xDFFF)) or (
            length == 4 and (c < 0x10000 or c > 0x10FFFF)):
        return 0
    code[0] = c
    return length


cdef inline bint is_space(unsigned char c) noexcept nogil:
    return c == 32 or 9 <= c <= 13 or 28 <= c <= 31


cdef inline bint is_word(uint32_t c) noexcept nogil:
    """Whether a character beyond ASCII belongs to words."""
    if c < 0xC0:
        return c == 0xAA or c == 0xB5 or c == 0xBA
    if c == 0xD7 or c == 0xF7:
        return False
    return not (0x2000 <= c <= 0x206F or 0x2190 <= c <= 0x2BFF or 0x3000 <= c <= 0x3003
                or 0x3008 <= c <= 0x3020 or 0xFF00 <= c <= 0xFF0F or 0xFF1A <= c <= 0xFF20
                or 0xFF3B <= c <= 0xFF3E or 0xFF5B <= c <= 0xFF65 or c == 0xFEFF
                or 0x1F300 <= c <= 0x1FAFF)


cdef inline uint32_t lower(uint32_t c) noexcept nogil:
    """Lower case of two-byte letters; each lies in the two-byte range too."""
    if 0xC0 <= c <= 0xDE:
        return c + 32
    if 0x391 <= c <= 0x3A9 or 0x410 <= c <= 0x42F:
        return c + 32
    if 0x400 <= c <= 0x40F:
        return c + 80
    return c
