"""The compiled parser of Vowpal Wabbit's text format.

    line      = [ label [ importance [ initial ] ] ] [ tag ] namespace+ LF
    tag       = "'" characters | characters that are not a number, touching the first bar
    namespace = "|" [ name [ ":" number ] ] ( blank+ feature )*
    feature   = name [ ":" number ] | ":" number

A name of digits only stands for that number, any other for its MurmurHash3; both
are offset by the hash of the namespace's name and taken modulo 2**bits, so that
columns are Vowpal Wabbit's own.  Features of value 0 are dropped, as there.

Not read, and refused: labels other than numbers, initial predictions other than
0, values that are words, a number that touches the first bar (Vowpal Wabbit
takes it for a tag).

Invariant: a line that is refused leaves no trace in the batch.
"""
import numpy as np

from libc.math cimport NAN
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memchr

from osvm.stream._parsing cimport Csr, CsrBuilder, csr_end_row, csr_push
from osvm.stream._murmur cimport murmur32
from osvm.stream._parsing cimport SCAN_OK, SCAN_SLOW, convert_slowly, float32_limit, scan_double

ctypedef const unsigned char *text_t

cdef enum Status:
    DONE = 0
    EMPTY
    NO_MEMORY
    NO_BAR              # from here on: errors in the text
    NO_LABEL
    BAD_LABEL
    BAD_IMPORTANCE
    HAS_INITIAL
    TOUCHES_BAR
    BAD_VALUE
    BAD_WEIGHT
    TOO_LARGE
    NUL_BYTE
    BAD_CARRIAGE

REASONS = {
    NO_BAR: "no '|' on the line",
    NO_LABEL: "no label; pass unlabelled=True to read lines without one",
    BAD_LABEL: "the label is not a finite number",
    BAD_IMPORTANCE: "the importance is not a finite number of at least 0",
    HAS_INITIAL: "only an initial prediction of 0 can be read",
    TOUCHES_BAR: "a number touches the first '|': put a blank between them, "
                 "or a ' before it if it is a tag",
    BAD_VALUE: "the feature's value is not a finite number",
    BAD_WEIGHT: "the namespace's weight is not a finite number",
    TOO_LARGE: "the value is too large for its type",
    NUL_BYTE: "a NUL byte",
    BAD_CARRIAGE: "a carriage return inside the line",
}


cdef inline bint is_blank(unsigned char c) noexcept nogil:
    return c == c' ' or c == c'\t'


cdef uint32_t hash_name(text_t p, text_t stop, uint32_t seed) noexcept nogil:
    """Digits stand for their number, other names for their hash."""
    cdef uint32_t number = 0
    cdef text_t q = p
    while q < stop:
        if q[0] < c'0' or q[0] > c'9':
            return murmur32(p, stop - p, seed)
        number = number * 10 + (q[0] - c'0')
        q += 1
    return number + seed


cdef bint read_number(text_t p, text_t stop, double *value) noexcept nogil:
    """Whether p to stop is one finite number."""
    cdef int status = SCAN_OK
    cdef text_t after
    if p == stop:
        return False
    after = scan_double(p, value, &status)
    if after != stop:
        return False
    if status == SCAN_SLOW:
        return convert_slowly(p, stop, value)
    return status == SCAN_OK


cdef struct Head:
    double label
    double weight
    text_t place


cdef int parse_head(text_t p, text_t bar, bint unlabelled, Head *out) noexcept nogil:
    """Label, importance and tag before the first bar."""
    cdef double fields[3]
    cdef text_t start
    cdef int n = 0
    cdef double value = 0.0
    fields[0] = NAN
    fields[1] = 1.0
    fields[2] = 0.0
    while True:
        while p < bar and is_blank(p[0]):
            p += 1
        if p == bar:
            break
        start = p
        while p < bar and not is_blank(p[0]):
            p += 1
        out.place = start
        if start[0] == c"'":                            # a tag ends the head
            while p < bar and is_blank(p[0]):
                p += 1
            if p != bar:
                out.place = p
                return BAD_LABEL if n == 0 else BAD_IMPORTANCE
            break
        if read_number(start, p, &value):
            if p == bar:
                return TOUCHES_BAR
            if n == 3:
                return HAS_INITIAL
            fields[n] = value
            n += 1
            if (n == 2 and value < 0) or (n == 3 and value != 0):
                return BAD_IMPORTANCE if n == 2 else HAS_INITIAL
        elif p == bar:                                  # a tag without a quote
            break
        else:
            return BAD_LABEL if n == 0 else BAD_IMPORTANCE if n == 1 else HAS_INITIAL
    if n == 0 and not unlabelled:
        out.place = bar
        return NO_LABEL
    out.label = fields[0]
    out.weight = fields[1]
    return DONE


cdef int parse_line(text_t p, text_t stop, uint32_t mask, bint float32, bint unlabelled,
                    Csr *csr, Head *head) noexcept nogil:
    """One line, without its line feed, as the next row."""
    cdef text_t bar
    cdef text_t name
    cdef text_t colon
    cdef uint32_t space_hash, column, anonymous
    cdef double space_weight = 1.0
    cdef double value
    cdef int status
    if stop > p and (stop - 1)[0] == c'\r':
        stop -= 1
    head.place = p
    bar = <text_t> memchr(p, 0, stop - p)
    if bar != NULL:
        head.place = bar
        return NUL_BYTE
    bar = <text_t> memchr(p, c'\r', stop - p)
    if bar != NULL:
        head.place = bar
        return BAD_CARRIAGE
    bar = <text_t> memchr(p, c'|', stop - p)
    if bar == NULL:
        while p < stop and is_blank(p[0]):
            p += 1
        head.place = p
        return EMPTY if p == stop else NO_BAR
    status = parse_head(p, bar, unlabelled, head)
    if status != DONE:
        return status
    p = bar
    while p < stop:                 # p is at a bar
        p += 1
        name = p
        colon = NULL
        while p < stop and not is_blank(p[0]) and p[0] != c'|':
            if p[0] == c':' and colon == NULL:
                colon = p
            p += 1
        space_weight = 1.0
        space_hash = 0
        anonymous = 0
        if p > name:
            if colon != NULL and not read_number(colon + 1, p, &space_weight):
                head.place = colon + 1
                return BAD_WEIGHT
            space_hash = hash_name(name, p if colon == NULL else colon, 0)
        while True:                 # features
            while p < stop and is_blank(p[0]):
                p += 1
            if p == stop or p[0] == c'|':
                break
            name = p
            colon = NULL
            while p < stop and not is_blank(p[0]) and p[0] != c'|':
                if p[0] == c':' and colon == NULL:
                    colon = p
                p += 1
            value = 1.0
            if colon != NULL and not read_number(colon + 1, p, &value):
                head.place = colon + 1
                return BAD_VALUE
            if colon == name:       # only a value
                column = space_hash + anonymous
                anonymous += 1
            else:
                column = hash_name(name, p if colon == NULL else colon, space_hash)
            value *= space_weight
            if value - value != 0 or (
                    float32 and (value > float32_limit() or value < -float32_limit())):
                head.place = name
                return TOO_LARGE
            if value != 0 and csr_push(csr, <int32_t> (column & mask), value) < 0:
                return NO_MEMORY
    return DONE if csr_end_row(csr) == 0 else NO_MEMORY


cdef class VwParser:
    """Collects the rows of one batch from pieces of text that hold whole lines."""

    cdef CsrBuilder builder
    cdef uint32_t mask
    cdef Py_ssize_t max_rows, max_values
    cdef bint float32, unlabelled
    cdef object labels, weights
    cdef readonly Py_ssize_t column
    cdef public Py_ssize_t lines

    def __init__(self, *, int bits=18, bint float32=True, bint unlabelled=False,
                 Py_ssize_t max_rows=4096, Py_ssize_t max_values=1 << 20):
        if not 1 <= bits <= 31:
            raise ValueError(f"bits must be from 1 to 31, got {bits}")
        self.mask = <uint32_t> ((<uint64_t> 1 << bits) - 1)
        self.max_rows = max_rows
        self.max_values = max_values
        self.float32 = float32
        self.unlabelled = unlabelled
        self.builder = CsrBuilder()
        self.labels = np.empty(max_rows)
        self.weights = np.empty(max_rows)
        self.lines = 0

    @property
    def n_rows(self):
        return self.builder.csr.n_rows

    def feed(self, const unsigned char[::1] buffer, Py_ssize_t start, Py_ssize_t stop):
        """Read lines of buffer[start:stop]; (how far it came, what stopped it)."""
        cdef double[::1] labels = self.labels
        cdef double[::1] weights = self.weights
        cdef Csr *csr = &self.builder.csr
        cdef text_t origin
        cdef text_t p
        cdef text_t end
        cdef text_t newline = NULL
        cdef Head head
        cdef int status = DONE
        if start < 0 or stop + 32 > buffer.shape[0] or start > stop:
            raise ValueError("feed: the range does not lie within the buffer")
        if start == stop:
            return start, ""
        if buffer[stop - 1] != c'\n':
            raise ValueError("feed: the text must end with a line feed")
        origin = &buffer[0]
        p = origin + start
        end = origin + stop
        head.place = p
        with nogil:
            while p < end and csr.n_rows < self.max_rows and csr.n_values < self.max_values:
                newline = <text_t> memchr(p, c'\n', end - p)
                status = parse_line(p, newline, self.mask, self.float32, self.unlabelled,
                                    csr, &head)
                if status == DONE:
                    labels[csr.n_rows - 1] = head.label
                    weights[csr.n_rows - 1] = head.weight
                elif status == EMPTY:
                    status = DONE
                else:
                    break
                self.lines += 1
                p = newline + 1
        start = p - origin
        if status != DONE:
            csr.n_values = csr.indptr[csr.n_rows] if csr.n_rows else 0
            if status == NO_MEMORY:
                raise MemoryError
            self.column = head.place - p + 1
            return start, REASONS[status]
        if p < end or csr.n_rows >= self.max_rows or csr.n_values >= self.max_values:
            return start, "full"
        return start, ""

    def take(self):
        """The batch so far: values, indices, indptr, labels, weights."""
        cdef Py_ssize_t n = self.builder.csr.n_rows
        parts = self.builder.take(np.float32 if self.float32 else np.float64)
        return (*parts, self.labels[:n].copy(), self.weights[:n].copy())


def hash_feature(namespace, name, int bits):
    """The column of a feature; `namespace` is "" for the default one."""
    cdef bytes space = namespace.encode()
    cdef bytes text = name.encode()
    cdef const unsigned char *p = space
    cdef uint32_t seed = hash_name(p, p + len(space), 0) if space else 0
    p = text
    return int(hash_name(p, p + len(text), seed) & <uint32_t> ((<uint64_t> 1 << bits) - 1))
