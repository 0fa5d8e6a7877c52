"""The compiled part of `HashingTokenizer`: documents in, rows of weighted hashed terms out.

A token is a run of at least `min_length` word characters.  Word characters are
the ASCII letters, digits and underscore and every character beyond ASCII except
spaces, punctuation and signs (Latin-1 signs, general punctuation, CJK and
full-width punctuation); bytes that are not UTF-8 separate words.  Lower-casing
covers ASCII, Latin-1, Greek and Cyrillic letters.  An n-gram is n neighboring
tokens joined by one space, or with ``analyzer="char"`` n neighboring characters
of the text, where a run of two or more ASCII spaces is one space.

Column and sign come from MurmurHash3 (seed 0) of the bytes of the term: column
|h| mod 2**bits, sign of h, as in scikit-learn's HashingVectorizer; on ASCII
text both give the same matrix.

A row is first signed counts, then `weigh_row` makes weights of them: the term
frequency, the inverse document frequency ln((1 + N)/(1 + df)) + 1 by the
documents counted so far, unit norm.

Invariants: one row per document, each column at most once, in the order of its
first term; `df` changes only while `counting`, by one for each column of a
document; scratch memory is used with the GIL held from begin to end of a call.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8String

from libc.math cimport fabs, log, sqrt
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

import numpy as np

from osvm.core.rows cimport OSVM_PREFETCH
from osvm.stream._characters cimport code_point, is_space, is_word, lower, text_t
from osvm.stream._parsing cimport Csr, CsrBuilder, csr_end_row, csr_reserve
from osvm.stream._kept_terms cimport (
    KeptTerms, terms_bytes, terms_clear, terms_free, terms_keep, terms_make, terms_read,
    terms_text,
)
from osvm.stream._murmur cimport murmur32
from osvm.stream._word_set cimport WordSet, word_set_fill, word_set_free, word_set_has

ctypedef fused real_t:
    float
    double

TF = {"count": 0, "log": 1, "binary": 2}

# What a byte below 128 becomes: itself, its lower case, or 0 (separator).
cdef unsigned char KEPT[128]
cdef unsigned char LOWERED[128]
cdef int _c
for _c in range(128):
    KEPT[_c] = _c if chr(_c).isalnum() or _c == 95 else 0
    LOWERED[_c] = ord(chr(_c).lower()) if KEPT[_c] else 0


def check_document(document):
    """The bytes of a document, which is str or bytes."""
    if isinstance(document, str):
        try:
            return PyUnicode_AsUTF8String(document)
        except UnicodeEncodeError:
            return document.encode("utf-8", "replace")
    if isinstance(document, (bytes, bytearray, memoryview)):
        return bytes(document)
    raise TypeError(f"a document must be str or bytes, got {document!r:.60}")


cdef enum:
    LOGS = 1 << 16

cdef uint32_t MOST = 0xFFFFFFFF

cdef double LOG1P[LOGS]                 # ln(1 + k), for document frequencies
for _c in range(LOGS):
    LOG1P[_c] = log(1.0 + _c)


cdef inline uint32_t fold(uint32_t h, uint32_t mask) noexcept nogil:
    """The column of a hash: |h| mod 2**bits."""
    cdef uint32_t column = 0 - h if h >> 31 else h
    if column == <uint32_t> 1 << 31:      # |-2**31| has no int32
        column = <uint32_t> 0x7FFFFFFF - mask
    return column & mask


cdef class TermHasher:
    """Hashes, counts and weighs; parameters are checked by `HashingTokenizer`.

    `counting` says whether rows that are added count as documents, `raw` whether they stay
    signed counts (for `weigh`, when all documents have been counted).
    """
    cdef readonly int bits
    cdef readonly int shortest
    cdef readonly int longest
    cdef bint signed
    cdef int tf
    cdef bint idf
    cdef bint norm
    cdef bint lowercase
    cdef int min_length
    cdef bint characters
    cdef bint keep_terms
    cdef public bint counting
    cdef public bint raw
    cdef readonly int64_t n_documents
    cdef uint32_t *df                   # documents by column, with idf
    cdef KeptTerms terms                # the first term of each column, with keep_terms
    cdef bint patchy                    # a column that was counted may have no term
    cdef bytes stop_text
    cdef WordSet stops                  # of words in `stop_text`
    # scratch, reused from one document to the next
    cdef unsigned char *words           # tokens of a document, a space after each
    cdef Py_ssize_t words_room
    cdef Py_ssize_t *starts             # where each token begins
    cdef Py_ssize_t starts_room
    cdef int32_t *slots                 # hash table: entry of the row + 1, 0 = free
    cdef Py_ssize_t slots_room
    cdef Py_ssize_t table               # slots in use, a power of two
    cdef text_t *spelled                # the first term of each entry, with keep_terms
    cdef Py_ssize_t *lengths            # and its length
    cdef Py_ssize_t spelled_room

    def __dealloc__(self):
        free(self.df)
        terms_free(&self.terms)
        word_set_free(&self.stops)
        free(self.words)
        free(self.starts)
        free(self.slots)
        free(self.spelled)
        free(self.lengths)

    def __init__(self, *, int bits, ngrams, bint signed, str tf, bint idf, bint norm,
                 bint lowercase, int min_length, bint characters, stop_words, bint keep_terms):
        self.bits = bits
        self.shortest, self.longest = ngrams
        self.signed = signed
        self.tf = TF[tf]
        self.idf = idf
        self.norm = norm
        self.lowercase = lowercase
        self.min_length = min_length
        self.characters = characters
        self.keep_terms = keep_terms
        self.counting = self.raw = self.patchy = False
        self.n_documents = 0
        if idf:
            self.df = <uint32_t *> calloc(1 << bits, sizeof(uint32_t))
            if self.df == NULL:
                raise MemoryError
        if keep_terms and terms_make(&self.terms, <Py_ssize_t> 1 << bits) < 0:
            raise MemoryError
        if stop_words:
            words = sorted(word.encode() for word in stop_words)
            self.stop_text = b"".join(words)
            word_set_fill(&self.stops, self.stop_text, words)

    # ------------------------------------------------------------------ counts

    def get_counts(self):
        """Columns that have been counted, in order, and their document frequencies."""
        cdef Py_ssize_t size = (<Py_ssize_t> 1 << self.bits) if self.idf else 0
        cdef const uint32_t[::1] view
        if not size:
            return np.empty(0, np.int32), np.empty(0, np.uint32)
        view = <uint32_t[:size]> self.df
        frequencies = np.asarray(view)
        columns = np.flatnonzero(frequencies)
        return columns.astype(np.int32), frequencies[columns]

    def set_counts(self, int64_t n_documents, columns, frequencies, bint add=False):
        """Put back what `get_counts` gave, or with `add` count it besides."""
        cdef Py_ssize_t size = (<Py_ssize_t> 1 << self.bits) if self.idf else 0
        cdef uint32_t[::1] view
        if size:
            view = <uint32_t[:size]> self.df
            target = np.asarray(view)
            if add:
                total = target[columns].astype(np.int64) + frequencies
                target[columns] = np.clip(total, 0, 2**32 - 1)
            else:
                target[:] = 0
                target[columns] = frequencies
        self.n_documents = n_documents + (self.n_documents if add else 0)
        self.patchy = True

    def term(self, Py_ssize_t column):
        """The first term that fell into a column; None where none is kept."""
        return terms_text(&self.terms, column)

    def get_terms(self):
        """Columns that have a term, and their terms: a byte for the length, then the bytes."""
        cdef const uint32_t[::1] view
        if not self.keep_terms:
            return np.empty(0, np.int32), b""
        view = <uint32_t[:self.terms.columns]> self.terms.at
        columns = np.flatnonzero(view)
        return columns.astype(np.int32), terms_bytes(&self.terms, np.asarray(view)[columns])

    def set_terms(self, columns, bytes terms):
        """Keep terms as `get_terms` gives them, for columns that have none."""
        terms_read(&self.terms, columns, terms)

    def forget_terms(self):
        """Drop all terms."""
        if self.keep_terms:
            terms_clear(&self.terms)
            self.patchy = True

    # ------------------------------------------------------------------- terms

    cdef Py_ssize_t _split_characters(self, text_t p, text_t stop) noexcept nogil:
        """Characters of a document into the scratch, which has room; their number."""
        cdef unsigned char *out = self.words
        cdef Py_ssize_t n = 0
        cdef Py_ssize_t length, i
        cdef uint32_t code = 0
        cdef unsigned char c
        while p < stop:
            self.starts[n] = out - self.words
            n += 1
            c = p[0]
            if is_space(c) and p + 1 < stop and is_space(p[1]):
                while p < stop and is_space(p[0]):
                    p += 1
                out[0] = c' '
                out += 1
                continue
            length = 1 if c < 128 else code_point(p, stop, &code)
            if length == 0:             # not UTF-8
                length = 1
                c = c'?'
            if length == 1:
                out[0] = c + 32 if self.lowercase and c'A' <= c <= c'Z' else c
            elif length == 2 and self.lowercase:
                code = lower(code)
                out[0] = 0xC0 | (code >> 6)
                out[1] = 0x80 | (code & 0x3F)
            else:
                for i in range(length):
                    out[i] = p[i]
            out += length
            p += length
        self.starts[n] = out - self.words
        return n

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
        if self.starts_room < (stop - p) + 4:
            memory = realloc(self.starts, ((stop - p) + 64) * sizeof(Py_ssize_t))
            if memory == NULL:
                return -1
            self.starts = <Py_ssize_t *> memory
            self.starts_room = (stop - p) + 64
        if self.characters:
            return self._split_characters(p, stop)
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
            if characters >= self.min_length and not (
                    self.stops.mask and word_set_has(&self.stops, token, out - token)):
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
        cdef Py_ssize_t terms, i, k, length
        cdef Py_ssize_t gap = 0 if self.characters else 1
        cdef Py_ssize_t first = csr.n_values
        cdef uint32_t mask = <uint32_t> ((1 << self.bits) - 1)
        cdef uint32_t h, column
        cdef Py_ssize_t entries
        cdef bint keep = self.keep_terms and self.counting
        if n < 0:
            return -1
        terms = n * (self.longest - self.shortest + 1)
        if self._begin_row(csr, terms) < 0:
            return -1
        for k in range(self.shortest, self.longest + 1):
            for i in range(n - k + 1):
                length = self.starts[i + k] - self.starts[i] - gap
                h = murmur32(self.words + self.starts[i], length, 0)
                column = fold(h, mask)
                entries = csr.n_values - first
                self._count_term(csr, first, column, -1.0 if h >> 31 and self.signed else 1.0)
                if keep and csr.n_values - first > entries:
                    self.spelled[entries] = self.words + self.starts[i]
                    self.lengths[entries] = length
        return self._end_row(csr, first)

    cdef int _begin_row(self, Csr *csr, Py_ssize_t terms) noexcept nogil:
        """An empty table, and room for so many terms; 0, or -1 without memory."""
        cdef Py_ssize_t size = 64
        cdef void *memory
        while size < 2 * terms:
            size *= 2
        if self.slots_room < size:
            memory = realloc(self.slots, size * sizeof(int32_t))
            if memory == NULL:
                return -1
            self.slots = <int32_t *> memory
            self.slots_room = size
        memset(self.slots, 0, size * sizeof(int32_t))
        self.table = size
        if self.keep_terms and self.counting and self.spelled_room < terms:
            memory = realloc(self.spelled, terms * sizeof(text_t))
            if memory == NULL:
                return -1
            self.spelled = <text_t *> memory
            memory = realloc(self.lengths, terms * sizeof(Py_ssize_t))
            if memory == NULL:
                return -1
            self.lengths = <Py_ssize_t *> memory
            self.spelled_room = terms
        return csr_reserve(csr, terms + 1)

    cdef inline void _count_term(self, Csr *csr, Py_ssize_t first, uint32_t column,
                                 double value) noexcept nogil:
        """Add to the column's entry of the row that begins at `first`."""
        cdef Py_ssize_t slot = (column * <uint32_t> 2654435769 >> 7) & (self.table - 1)
        cdef int32_t entry
        while True:
            entry = self.slots[slot]
            if entry == 0:
                if self.idf:
                    OSVM_PREFETCH(self.df + column)
                csr.indices[csr.n_values] = column
                csr.values[csr.n_values] = value
                csr.n_values += 1
                self.slots[slot] = <int32_t> (csr.n_values - first)
                return
            if csr.indices[first + entry - 1] == <int32_t> column:
                csr.values[first + entry - 1] += value
                return
            slot = (slot + 1) & (self.table - 1)

    cdef int _end_row(self, Csr *csr, Py_ssize_t first) noexcept nogil:
        """Count and weigh the row that begins at `first`; 0, or -1 without memory."""
        cdef Py_ssize_t i
        cdef uint32_t *df
        if self.counting:
            self.n_documents += 1
            if self.idf:
                for i in range(first, csr.n_values):
                    df = self.df + csr.indices[i]
                    if df[0] != MOST:
                        df[0] += 1
            if self.keep_terms:
                for i in range(first, csr.n_values):
                    if self.idf and self.df[csr.indices[i]] > 1 and not self.patchy:
                        continue        # it has its term
                    if terms_keep(&self.terms, csr.indices[i], self.spelled[i - first],
                                  self.lengths[i - first]) < 0:
                        return -1
        if not self.raw:
            self._weigh_row(csr.values + first, csr.indices + first, csr.n_values - first)
        return csr_end_row(csr)

    cdef void _weigh_row(self, double *values, const int32_t *indices,
                         Py_ssize_t n) noexcept nogil:
        """Signed counts into weights, by the documents counted so far."""
        cdef Py_ssize_t i
        cdef uint32_t frequency
        cdef double value, size
        cdef double total = 0.0
        cdef double most = log(1.0 + <double> self.n_documents) + 1.0
        for i in range(n):
            value = values[i]
            size = fabs(value)
            if self.tf == 2:
                value = 0.0 if value == 0 else (1.0 if value > 0 else -1.0)
            elif self.tf == 1 and size > 1.0:   # values below one are no counts: as they are
                value *= (1.0 + log(size)) / size
            if self.idf:
                frequency = self.df[indices[i]]
                value *= most - (LOG1P[frequency] if frequency < LOGS
                                 else log(1.0 + <double> frequency))
            values[i] = value
            total += value * value
        if self.norm and total > 0:
            total = 1.0 / sqrt(total)
            for i in range(n):
                values[i] *= total

    def weigh(self, const int32_t[::1] indices, const int64_t[::1] indptr, real_t[::1] values):
        """Weights of rows that were added `raw`, in place."""
        cdef Py_ssize_t n_rows = indptr.shape[0] - 1
        cdef Py_ssize_t row, i, start, length
        cdef Py_ssize_t longest = 1
        cdef double *held
        if values.shape[0] != indices.shape[0] or indptr[n_rows] != values.shape[0]:
            raise ValueError("weigh: arrays of different lengths")
        for row in range(n_rows):
            longest = max(longest, indptr[row + 1] - indptr[row])
        held = <double *> calloc(longest, sizeof(double))
        if held == NULL:
            raise MemoryError
        for row in range(n_rows):
            start, length = indptr[row], indptr[row + 1] - indptr[row]
            if length == 0:
                continue
            for i in range(length):
                held[i] = values[start + i]
            self._weigh_row(held, &indices[start], length)
            for i in range(length):
                values[start + i] = <real_t> held[i]
        free(held)

    def add_named(self, CsrBuilder builder, features):
        """A dictionary of names (str) to numbers as the builder's next row, not counted.

        A name that maps to text is the feature ``name=text``, with the value 1.
        """
        cdef Csr *csr = &builder.csr
        cdef Py_ssize_t first = csr.n_values
        cdef uint32_t mask = <uint32_t> ((1 << self.bits) - 1)
        cdef uint32_t h
        cdef double value
        cdef bytes text
        cdef list terms = []
        cdef bint counting
        cdef bint raw
        cdef int status
        for name, given in features.items():
            if isinstance(given, str):
                name, given = f"{name}={given}", 1.0
            try:
                terms.append((name.encode("utf-8", "replace"), float(given)))
            except OverflowError:
                raise ValueError(f"the value of {name!r:.60} is too large for a float64") from None
        if self._begin_row(csr, len(terms)) < 0:
            raise MemoryError
        for text, value in terms:
            h = murmur32(<text_t> PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), 0)
            self._count_term(csr, first, fold(h, mask),
                             -value if h >> 31 and self.signed else value)
        counting, raw = self.counting, self.raw     # no other thread runs from here
        self.counting = self.raw = False
        status = self._end_row(csr, first)
        self.counting, self.raw = counting, raw
        if status < 0:
            raise MemoryError

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
        self.add_as(builder, document, self.counting, self.raw)

    def add_as(self, CsrBuilder builder, document, bint counting, bint raw):
        """The same, counted and weighed as told, whatever a reader in another thread does."""
        cdef bytes text = document if type(document) is bytes else check_document(document)
        cdef text_t p
        cdef int status
        cdef bint counted = self.counting       # no other thread runs from here
        cdef bint weighed = self.raw
        p = <text_t> PyBytes_AS_STRING(text)
        self.counting, self.raw = counting, raw
        status = self._add(p, p + PyBytes_GET_SIZE(text), &builder.csr)
        self.counting, self.raw = counted, weighed
        if status < 0:
            raise MemoryError

    def tokens(self, document):
        """The terms of one document, n-grams too, in the order in which they are counted."""
        cdef bytes text = check_document(document)
        cdef text_t p = <text_t> PyBytes_AS_STRING(text)
        cdef Py_ssize_t gap = 0 if self.characters else 1
        cdef Py_ssize_t n = self._split(p, p + PyBytes_GET_SIZE(text))
        if n < 0:
            raise MemoryError
        return [self.words[self.starts[i]:self.starts[i + k] - gap].decode()
                for k in range(self.shortest, self.longest + 1) for i in range(n - k + 1)]

    def column(self, term):
        """(column, sign) of one term as it is after tokenizing."""
        cdef bytes text = term.encode() if isinstance(term, str) else bytes(term)
        cdef uint32_t h = murmur32(<text_t> PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), 0)
        sign = -1 if h >> 31 and self.signed else 1
        return int(fold(h, <uint32_t> ((1 << self.bits) - 1))), sign
