"""What the readers of text formats share: numbers, a growing CSR matrix, comma-separated records.

Numbers that have more digits or a larger exponent than `scan.h` settles itself are left to
Python's own exact conversion; their spelling has been checked by then.

The CSR matrix is for parsers whose columns are hashed (fewer than 2**31).  Rows are pushed value
by value; a row counts once it is ended, and `csr.n_values = csr.indptr[csr.n_rows]` takes back
one that is not.

Records are split strictly by RFC 4180.  A field is bare, or quoted with its inner quotes
doubled; a quoted field may hold separators and line ends.  A quote inside a bare field, anything
but a separator after a closing quote, a NUL byte or a bare carriage return is refused.

Invariant: text given to `split_record` ends with a line feed, and so does every record in it.
"""
import numpy as np

from cpython.bytes cimport PyBytes_FromStringAndSize

from libc.math cimport isinf
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from osvm.core.rows cimport OSVM_PREFETCH
from osvm.core.typedefs cimport index_t

cdef enum:
    ROWS_AHEAD = 8          # from asking for a row that is copied to its turn

ctypedef const unsigned char *text_t


# ------------------------------------------------------------------ numbers

cdef int convert_slowly(const unsigned char *start, const unsigned char *stop,
                        double *value) noexcept nogil:
    """The double nearest to a well-formed token; 0 when it overflows."""
    with gil:
        value[0] = float(PyBytes_FromStringAndSize(<const char *> start, stop - start))
    return not isinf(value[0])


def read_double(bytes text):
    """The number that `text` spells, or None when it is not exactly one number."""
    cdef bytes padded = text + bytes(OSVM_SCAN_PAD)
    cdef const unsigned char *start = padded
    cdef const unsigned char *stop
    cdef double value = 0.0
    cdef int status = SCAN_OK
    stop = scan_double(start, &value, &status)
    if status == SCAN_NOT_A_NUMBER or stop != start + len(text):
        return None
    if status == SCAN_SLOW and not convert_slowly(start, stop, &value):
        return None
    return value


# ------------------------------------------------------------------ rows

cdef int csr_reserve(Csr *csr, Py_ssize_t values) noexcept nogil:
    """Room for `values` more entries."""
    cdef Py_ssize_t room = csr.value_room
    cdef void *memory
    if csr.n_values + values <= room:
        return 0
    while room < csr.n_values + values:
        room = 2 * room if room else 4096
    memory = realloc(csr.values, room * sizeof(double))
    if memory == NULL:
        return -1
    csr.values = <double *> memory
    memory = realloc(csr.indices, room * sizeof(int32_t))
    if memory == NULL:
        return -1
    csr.indices = <int32_t *> memory
    csr.value_room = room
    return 0


cdef int csr_end_row(Csr *csr) noexcept nogil:
    """Count the row; 0, or -1 when memory ran out."""
    cdef Py_ssize_t room = csr.row_room
    cdef void *memory
    if csr.n_rows + 2 > room:
        room = 2 * room if room else 1024
        memory = realloc(csr.indptr, room * sizeof(int64_t))
        if memory == NULL:
            return -1
        csr.indptr = <int64_t *> memory
        csr.indptr[0] = 0
        csr.row_room = room
    csr.n_rows += 1
    csr.indptr[csr.n_rows] = csr.n_values
    return 0


cdef class CsrBuilder:
    """Owns the three arrays of a `Csr`."""

    def __cinit__(self):
        memset(&self.csr, 0, sizeof(Csr))

    def __dealloc__(self):
        free(self.csr.values)
        free(self.csr.indices)
        free(self.csr.indptr)

    @property
    def n_rows(self):
        return self.csr.n_rows

    @property
    def n_values(self):
        return self.csr.n_values

    def take(self, dtype):
        """(values, indices, indptr) of the rows so far; the builder is empty afterwards."""
        cdef Py_ssize_t rows = self.csr.n_rows
        cdef Py_ssize_t n = self.csr.indptr[rows] if rows else 0
        cdef int64_t[::1] indptr64
        cdef int32_t[::1] indices32
        indices = np.empty(n, np.int32)
        indptr = np.zeros(rows + 1, np.int64)
        if n:
            values = np.asarray(<double[:n]> self.csr.values).astype(dtype)
            indices32 = indices
            memcpy(&indices32[0], self.csr.indices, n * sizeof(int32_t))
        else:
            values = np.empty(0, dtype)
        if rows:
            indptr64 = indptr
            memcpy(&indptr64[0], self.csr.indptr, (rows + 1) * sizeof(int64_t))
        self.csr.n_rows = self.csr.n_values = 0
        return values, indices, indptr if n > 2 ** 31 - 1 else indptr.astype(np.int32)


cdef int place_rows(const index_t[::1] indptr, int64_t most, Py_ssize_t part, int64_t *begins,
                    int64_t *counts, int64_t *part_of) noexcept nogil:
    """Where the rows of a part begin, and their lengths; False where they do not fit."""
    cdef Py_ssize_t k, n = indptr.shape[0] - 1
    cdef int64_t end = indptr[0]
    if end < 0 or indptr[n] > most:
        return False
    for k in range(n):
        begins[k], end = end, indptr[k + 1]
        counts[k] = end - begins[k]
        part_of[k] = part
        if counts[k] < 0:
            return False
    return True


def gather(parts, const int64_t[::1] order):
    """Rows `order` of CSR matrices one below the other: (values, indices, row pointers).

    `parts` are (values, indices, indptr); all values have one type, and so have all indices.
    """
    cdef Py_ssize_t n_parts = len(parts)
    cdef Py_ssize_t n = order.shape[0]
    cdef Py_ssize_t k, row, total = sum([max(len(p[2]) - 1, 0) for p in parts]), at = 0
    cdef int64_t[:, ::1] rows = np.empty((3, max(total, 1)), np.int64)
    cdef int64_t *begins = &rows[0, 0]
    cdef int64_t *counts = &rows[1, 0]
    cdef int64_t *part_of = &rows[2, 0]
    cdef int64_t[:, ::1] sources = np.empty((2, max(n_parts, 1)), np.int64)
    cdef int64_t most
    cdef bint fits
    cdef char *to_values
    cdef char *to_indices
    cdef size_t begin, count, value_size, index_size
    held = []
    for k, (values, indices, indptr) in enumerate(parts):
        values, indices = np.ascontiguousarray(values), np.ascontiguousarray(indices)
        held.append((values, indices))
        if k == 0:
            value_type, index_type = values.dtype, indices.dtype
        elif values.dtype != value_type or indices.dtype != index_type:
            raise TypeError("gather: the parts differ in their types")
        most = min(len(values), len(indices))
        if not len(indptr):
            fits = False
        elif indptr.dtype == np.int32:
            fits = place_rows[int32_t](indptr, most, k, begins + at, counts + at, part_of + at)
        else:
            fits = place_rows[int64_t](indptr.astype(np.int64, copy=False), most, k, begins + at,
                                       counts + at, part_of + at)
        if not fits:
            raise ValueError("gather: the row pointers of a part do not fit its values")
        sources[0, k] = values.__array_interface__["data"][0]
        sources[1, k] = indices.__array_interface__["data"][0]
        at += len(indptr) - 1
    made = np.empty(n + 1, np.int64)
    cdef int64_t[::1] ends = made
    ends[0] = 0
    for k in range(n):
        if not 0 <= order[k] < total:
            raise IndexError("gather: there is no such row")
        ends[k + 1] = ends[k] + counts[order[k]]
    data, columns = np.empty(ends[n], value_type), np.empty(ends[n], index_type)
    value_size, index_size = data.itemsize, columns.itemsize
    to_values = <char *> <size_t> data.__array_interface__["data"][0]
    to_indices = <char *> <size_t> columns.__array_interface__["data"][0]
    with nogil:
        for k in range(n):
            if k + ROWS_AHEAD < n:
                row = order[k + ROWS_AHEAD]
                OSVM_PREFETCH(<char *> <size_t> sources[0, part_of[row]]
                              + begins[row] * value_size)
                OSVM_PREFETCH(<char *> <size_t> sources[1, part_of[row]]
                              + begins[row] * index_size)
            row = order[k]
            begin, count = begins[row], counts[row]
            memcpy(to_values, <char *> <size_t> sources[0, part_of[row]] + begin * value_size,
                   count * value_size)
            memcpy(to_indices, <char *> <size_t> sources[1, part_of[row]] + begin * index_size,
                   count * index_size)
            to_values += count * value_size
            to_indices += count * index_size
    return data, columns, made


# ------------------------------------------------------------------ records

cdef enum Refusal:
    FINE = 0
    QUOTE_INSIDE
    AFTER_QUOTE
    NUL_BYTE
    BAD_CARRIAGE

REASONS = {
    QUOTE_INSIDE: "a quote inside a field that does not begin with one; "
                  "pass quote=None if quotes mean nothing in this file",
    AFTER_QUOTE: "something other than a separator follows a closing quote",
    NUL_BYTE: "a NUL byte",
    BAD_CARRIAGE: "a carriage return inside a field without quotes",
}


def split_record(const unsigned char[::1] buffer, Py_ssize_t start, Py_ssize_t stop,
                 int separator, int quote, wanted):
    """One record of buffer[start:stop].

    `quote` is 0 when quoting is off; `wanted` is a bytes object with a 1 for each column
    whose text is asked for, or None for all.  Returns (where the next record begins, number
    of fields, list of the wanted fields, line ends inside the record); the first is -1 when
    the record does not end within the text.  A refusal gives (-2, column from 1, reason, 0).
    """
    cdef const unsigned char[::1] keep = wanted if wanted is not None else b"\1"
    cdef bint keep_all = wanted is None
    cdef Py_ssize_t n_keep = keep.shape[0]
    cdef text_t origin
    cdef text_t p
    cdef text_t end
    cdef text_t first
    cdef text_t last
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t newlines = 0
    cdef int refusal = FINE
    cdef bint doubled, kept
    cdef list fields = []
    if not 0 <= start < stop <= buffer.shape[0]:
        raise ValueError("split_record: the range does not lie within the buffer")
    if buffer[stop - 1] != c'\n':
        raise ValueError("split_record: the text must end with a line feed")
    origin = &buffer[0]
    p = origin + start
    end = origin + stop
    while True:
        doubled = False
        kept = keep_all or (count < n_keep and keep[count])
        if quote and p[0] == quote:
            p += 1
            first = p
            while True:
                while p < end and p[0] != quote and p[0] != c'\n' and p[0] != 0:
                    p += 1
                if p == end:
                    return -1, 0, None, 0
                if p[0] == 0:
                    refusal = NUL_BYTE
                    break
                if p[0] == c'\n':
                    newlines += 1
                elif p + 1 < end and p[1] == quote:
                    doubled = True
                    p += 1
                else:
                    break
                p += 1
            if refusal:
                break
            last = p
            p += 1
            if p[0] == c'\r' and p[1] == c'\n':
                p += 1
            if p[0] != separator and p[0] != c'\n':
                refusal = AFTER_QUOTE
                break
        else:
            first = p
            while p[0] != separator and p[0] != c'\n':
                if p[0] == 0:
                    refusal = NUL_BYTE
                    break
                if quote and p[0] == quote:
                    refusal = QUOTE_INSIDE
                    break
                if p[0] == c'\r' and p[1] != c'\n':
                    refusal = BAD_CARRIAGE
                    break
                p += 1
            if refusal:
                break
            last = p
            if p[0] == c'\n' and p > first and (p - 1)[0] == c'\r':
                last -= 1
        if kept:
            text = PyBytes_FromStringAndSize(<const char *> first, last - first)
            if doubled:
                mark = bytes([quote])
                text = text.replace(mark + mark, mark)
            fields.append(text)
        count += 1
        p += 1
        if (p - 1)[0] == c'\n':
            break
    if refusal:
        return -2, p - (origin + start) + 1, REASONS[refusal], 0
    return p - origin, count, fields, newlines + 1
