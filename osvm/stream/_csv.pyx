"""Splitting records of comma-separated text (RFC 4180), strictly.

A field is bare, or quoted with its inner quotes doubled; a quoted field may
hold separators and line ends.  A quote inside a bare field, anything but a
separator after a closing quote, a NUL byte or a bare carriage return is refused.

Invariant: the text ends with a line feed, and so does every record in it.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize

ctypedef const unsigned char *text_t

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
