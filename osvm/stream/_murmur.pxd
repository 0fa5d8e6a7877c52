# MurmurHash3, 32 bits (Appleby's public-domain x86_32 variant), as Vowpal
# Wabbit and scikit-learn's HashingVectorizer use it, so that their columns and
# ours are the same ones.
from libc.stdint cimport uint32_t
from libc.stddef cimport size_t


cdef inline uint32_t rotate_left(uint32_t x, int n) noexcept nogil:
    return (x << n) | (x >> (32 - n))


cdef inline uint32_t murmur_block(const unsigned char *p) noexcept nogil:
    """Four bytes as a little-endian number."""
    return (<uint32_t> p[0] | (<uint32_t> p[1] << 8) | (<uint32_t> p[2] << 16)
            | (<uint32_t> p[3] << 24))


cdef inline uint32_t murmur32(const unsigned char *text, size_t length,
                              uint32_t seed) noexcept nogil:
    """The hash of `length` bytes."""
    cdef uint32_t h = seed
    cdef uint32_t k
    cdef size_t i
    cdef size_t whole = length & ~<size_t> 3
    for i in range(0, whole, 4):
        k = murmur_block(text + i) * <uint32_t> 0xcc9e2d51
        h ^= rotate_left(k, 15) * <uint32_t> 0x1b873593
        h = rotate_left(h, 13) * 5 + <uint32_t> 0xe6546b64
    k = 0
    if length & 2 and length & 1:
        k = <uint32_t> text[whole + 2] << 16
    if length & 2:
        k |= <uint32_t> text[whole + 1] << 8
    if length & 3:
        k |= text[whole]
        k *= <uint32_t> 0xcc9e2d51
        h ^= rotate_left(k, 15) * <uint32_t> 0x1b873593
    h ^= <uint32_t> length
    h ^= h >> 16
    h *= <uint32_t> 0x85ebca6b
    h ^= h >> 13
    h *= <uint32_t> 0xc2b2ae35
    return h ^ (h >> 16)
