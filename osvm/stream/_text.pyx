"""The compiled hashing tokenizer: documents in, rows of hashed term counts out.

A token is a run of at least `min_length` word characters.  Word characters are
the ASCII letters, digits and underscore and every character beyond ASCII except
spaces, punctuation and signs (Latin-1 signs, general punctuation, CJK and
full-width punctuation); bytes that are not UTF-8 separate words.  Lower-casing
covers ASCII, Latin-1, Greek and Cyrillic letters.  An n-gram is n neighbouring
tokens joined by one space.

Column and sign come from MurmurHash3 (seed 0) of the bytes of the term: column
|h| mod 2**bits, sign of h, as in scikit-learn's HashingVectorizer; on ASCII
text both give the same matrix.

Invariant: one row per document, each column at most once, in the order of its
first term.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8String

from libc.math cimport fabs, log, sqrt
from libc.stdint cimport int32_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from osvm.stream._parsing cimport Csr, CsrBuilder, csr_end_row, csr_reserve
from osvm.stream._murmur cimport murmur32

ctypedef const unsigned char *text_t

TF = {"count": 0, "log": 1, "binary": 2}

# What a byte below 128 becomes: itself, its lower case, or 0 (separator).
cdef unsigned char KEPT[128]
cdef unsigned char LOWERED[128]
cdef int _c
for _c in range(128):
    KEPT[_c] = _c if chr(_c).isalnum() or _c == 95 else 0
    LOWERED[_c] = ord(chr(_c).lower()) if KEPT[_c] else 0


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


cdef class HashingTokenizer:
    """Rows of hashed term counts from documents.

    Parameters
    ----------
    bits : int, default=20
        There are ``2**bits`` columns, 1 to 30.
    ngrams : (int, int), default=(1, 1)
        Shortest and longest n-gram of words.
    signed : bool, default=True
        Give each column a sign by its hash, so that collisions cancel on average.
    tf : {"count", "log", "binary"}, default="count"
        What a term counts for: its count, 1 + log(count), or 1.
    norm : bool, default=True
        Scale each row to unit Euclidean length.
    lowercase : bool, default=True
        Fold case first.
    min_length : int, default=2
        Characters in the shortest token.

    Examples
    --------
    >>> tokenizer = HashingTokenizer(bits=10, norm=False)
    >>> tokenizer.transform(["to be or not to be"]).toarray().sum() != 0
    True
    """
    cdef readonly int bits
    cdef readonly int shortest
    cdef readonly int longest
    cdef readonly bint signed
    cdef readonly str tf
    cdef readonly bint norm
    cdef readonly bint lowercase
    cdef readonly int min_length
    cdef int tf_code
    # scratch, reused from one document to the next
    cdef unsigned char *words           # tokens of a document, a space after each
    cdef Py_ssize_t words_room
    cdef Py_ssize_t *starts             # where each token begins
    cdef Py_ssize_t starts_room
    cdef int32_t *slots                 # hash table: entry of the row + 1, 0 = free
    cdef Py_ssize_t slots_room

    def __cinit__(self):
        self.words = NULL
        self.starts = NULL
        self.slots = NULL
        self.words_room = self.starts_room = self.slots_room = 0

    def __dealloc__(self):
        free(self.words)
        free(self.starts)
        free(self.slots)

    def __init__(self, int bits=20, ngrams=(1, 1), bint signed=True, str tf="count",
                 bint norm=True, bint lowercase=True, int min_length=2):
        if not 1 <= bits <= 30:
            raise ValueError(f"bits must be from 1 to 30, got {bits}")
        if tf not in TF:
            raise ValueError(f"tf must be one of {sorted(TF)}, got {tf!r}")
        if len(ngrams) != 2 or not 1 <= ngrams[0] <= ngrams[1] <= 100:
            raise ValueError(f"ngrams must be (shortest, longest), got {ngrams!r}")
        if min_length < 1:
            raise ValueError(f"min_length must be at least 1, got {min_length}")
        self.bits = bits
        self.shortest, self.longest = ngrams
        self.signed = signed
        self.tf = tf
        self.tf_code = TF[tf]
        self.norm = norm
        self.lowercase = lowercase
        self.min_length = min_length

    def config(self):
        """The parameters as a dictionary, for `HashingTokenizer(**config)`."""
        return {"bits": self.bits, "ngrams": [self.shortest, self.longest],
                "signed": bool(self.signed), "tf": self.tf, "norm": bool(self.norm),
                "lowercase": bool(self.lowercase), "min_length": self.min_length}

    def __reduce__(self):
        return _rebuild, (self.config(),)

    @property
    def n_features(self):
        return 1 << self.bits

    cdef Py_ssize_t _split(self, text_t p, text_t stop) noexcept nogil:
        """Tokens of a document into the scratch; their number, or -1 without memory."""
        cdef const unsigned char *table = &LOWERED[0] if self.lowercase else &KEPT[0]
        cdef unsigned char *out
        cdef unsigned char *token
        cdef Py_ssize_t n = 0
        cdef Py_ssize_t length
        cdef Py_ssize_t characters = 0
        cdef unsigned char c
        cdef uint32_t code = 0
        cdef void *memory
        if self.words_room < stop - p + 2:
            memory = realloc(self.words, 2 * (stop - p) + 64)
            if memory == NULL:
                return -1
            self.words = <unsigned char *> memory
            self.words_room = 2 * (stop - p) + 64
        if self.starts_room < (stop - p) // 2 + 4:
            memory = realloc(self.starts, ((stop - p) + 64) * sizeof(Py_ssize_t))
            if memory == NULL:
                return -1
            self.starts = <Py_ssize_t *> memory
            self.starts_room = (stop - p) + 64
        out = token = self.words
        while True:
            length = 1
            c = 0
            if p < stop:
                if p[0] < 128:
                    c = table[p[0]]
                    if c:
                        out[0] = c
                        out += 1
                        characters += 1
                        p += 1
                        continue
                else:
                    length = code_point(p, stop, &code)
                    if length and is_word(code):
                        if length == 2:
                            if self.lowercase:
                                code = lower(code)
                            out[0] = 0xC0 | (code >> 6)
                            out[1] = 0x80 | (code & 0x3F)
                        else:
                            out[0] = p[0]
                            out[1] = p[1]
                            out[2] = p[2]
                            if length == 4:
                                out[3] = p[3]
                        out += length
                        characters += 1
                        p += length
                        continue
                    if length == 0:
                        length = 1
            # a separator or the end
            if characters >= self.min_length:
                self.starts[n] = token - self.words
                n += 1
                out[0] = c' '
                out += 1
                token = out
            else:
                out = token
            characters = 0
            if p >= stop:
                break
            p += length
        self.starts[n] = out - self.words
        return n

    cdef int _add(self, text_t p, text_t stop, Csr *csr) noexcept nogil:
        """One document as one row; 0, or -1 without memory."""
        cdef Py_ssize_t n = self._split(p, stop)
        cdef Py_ssize_t terms, i, k, size, slot
        cdef Py_ssize_t first = csr.n_values
        cdef uint32_t mask = <uint32_t> ((1 << self.bits) - 1)
        cdef uint32_t h, column
        cdef int32_t entry
        cdef double sign, value, total
        cdef void *memory
        if n < 0:
            return -1
        terms = n * (self.longest - self.shortest + 1)
        size = 64
        while size < 2 * terms:
            size *= 2
        if self.slots_room < size:
            memory = realloc(self.slots, size * sizeof(int32_t))
            if memory == NULL:
                return -1
            self.slots = <int32_t *> memory
            self.slots_room = size
        memset(self.slots, 0, size * sizeof(int32_t))
        if csr_reserve(csr, terms + 1) < 0:
            return -1
        for k in range(self.shortest, self.longest + 1):
            for i in range(n - k + 1):
                h = murmur32(self.words + self.starts[i],
                             self.starts[i + k] - self.starts[i] - 1, 0)
                sign = -1.0 if h >> 31 and self.signed else 1.0
                column = (0 - h if h >> 31 else h)
                if column == <uint32_t> 1 << 31:      # |-2**31| has no int32
                    column = <uint32_t> 0x7FFFFFFF - mask
                column &= mask
                slot = (column * <uint32_t> 2654435769 >> 7) & (size - 1)
                while True:
                    entry = self.slots[slot]
                    if entry == 0:
                        csr.indices[csr.n_values] = column
                        csr.values[csr.n_values] = sign
                        csr.n_values += 1
                        self.slots[slot] = <int32_t> (csr.n_values - first)
                        break
                    if csr.indices[first + entry - 1] == <int32_t> column:
                        csr.values[first + entry - 1] += sign
                        break
                    slot = (slot + 1) & (size - 1)
        if self.tf_code:
            for i in range(first, csr.n_values):
                value = csr.values[i]
                if value != 0:
                    sign = 1.0 if value > 0 else -1.0
                    csr.values[i] = sign if self.tf_code == 2 else sign * (1 + log(fabs(value)))
        if self.norm:
            total = 0.0
            for i in range(first, csr.n_values):
                total += csr.values[i] * csr.values[i]
            if total > 0:
                total = 1.0 / sqrt(total)
                for i in range(first, csr.n_values):
                    csr.values[i] *= total
        return csr_end_row(csr)

    def add_line(self, CsrBuilder builder, const unsigned char[::1] buffer,
                 Py_ssize_t start, Py_ssize_t stop):
        """The document buffer[start:stop] as the builder's next row."""
        if not 0 <= start <= stop <= buffer.shape[0]:
            raise ValueError("add_line: the range does not lie within the buffer")
        cdef int status
        cdef text_t origin = &buffer[0] if buffer.shape[0] else NULL
        status = self._add(origin + start, origin + stop, &builder.csr)
        if status < 0:
            raise MemoryError

    def add(self, CsrBuilder builder, document):
        """A document (str or bytes) as the builder's next row."""
        cdef bytes text
        cdef text_t p
        if isinstance(document, str):
            try:
                text = PyUnicode_AsUTF8String(document)
            except UnicodeEncodeError:
                text = document.encode("utf-8", "replace")
        else:
            text = bytes(document)
        p = <text_t> PyBytes_AS_STRING(text)
        if self._add(p, p + PyBytes_GET_SIZE(text), &builder.csr) < 0:
            raise MemoryError

    def transform(self, documents, dtype="float32"):
        """A CSR matrix with one row per document (str or bytes)."""
        from scipy.sparse import csr_array

        if isinstance(documents, (str, bytes)):
            raise TypeError("transform expects an iterable of documents, not one string")
        cdef CsrBuilder builder = CsrBuilder()
        for document in documents:
            self.add(builder, document)
        values, indices, indptr = builder.take(dtype)
        return csr_array((values, indices, indptr), shape=(len(indptr) - 1, self.n_features))

    def tokens(self, document):
        """The terms of one document, n-grams too, in the order in which they are counted."""
        cdef bytes text = document.encode() if isinstance(document, str) else bytes(document)
        cdef text_t p = <text_t> PyBytes_AS_STRING(text)
        cdef Py_ssize_t n = self._split(p, p + PyBytes_GET_SIZE(text))
        if n < 0:
            raise MemoryError
        return [self.words[self.starts[i]:self.starts[i + k] - 1].decode()
                for k in range(self.shortest, self.longest + 1) for i in range(n - k + 1)]

    def find(self, document, const unsigned char[::1] wanted):
        """(column, term) for every term of a document whose column is wanted.

        `wanted` has a byte for each column, 0 where it is not.
        """
        cdef bytes text = document.encode() if isinstance(document, str) else bytes(document)
        cdef text_t p = <text_t> PyBytes_AS_STRING(text)
        cdef Py_ssize_t n, i, k, length
        cdef int32_t h
        cdef Py_ssize_t column
        cdef Py_ssize_t columns = 1 << self.bits
        cdef list out = []
        if wanted.shape[0] != columns:
            raise ValueError(f"wanted must have {columns} entries")
        n = self._split(p, p + PyBytes_GET_SIZE(text))
        if n < 0:
            raise MemoryError
        for k in range(self.shortest, self.longest + 1):
            for i in range(n - k + 1):
                length = self.starts[i + k] - self.starts[i] - 1
                h = <int32_t> murmur32(self.words + self.starts[i], length, 0)
                column = h
                if column < 0:
                    column = -column
                if column == <Py_ssize_t> 1 << 31:
                    column -= columns
                column &= columns - 1
                if wanted[column]:
                    out.append((column, self.words[self.starts[i]:self.starts[i] + length]))
        return out

    def column(self, term):
        """(column, sign) of one term as it is after tokenizing."""
        cdef bytes text = term.encode() if isinstance(term, str) else bytes(term)
        cdef uint32_t h = murmur32(<text_t> PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), 0)
        signed_hash = int(<int32_t> h)
        sign = -1 if signed_hash < 0 and self.signed else 1
        if signed_hash == -2 ** 31:
            return (2 ** 31 - 1 - (self.n_features - 1)) % self.n_features, sign
        return abs(signed_hash) % self.n_features, sign


def _rebuild(config):
    return HashingTokenizer(**config)
