"""The compiled parser of svmlight / libsvm lines.

    line    = blank* [ labels ( blank+ "qid:" integer )? ( blank+ index ":" number )* blank* ]
              [ "#" anything ] [ CR ] LF
    labels  = number ( "," number )*          more than one only when multi-label is asked for

Invariants
- the parser sees whole lines only and every line that it reads is read by the
  grammar above or refused with the place where it departs from it;
- indices go up within a line, so that the last one decides whether the line
  fits the index type and the number of columns;
- a line that is refused, or that needs more room, leaves no trace in the batch.
"""
import numpy as np

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint64_t
from libc.string cimport memchr, memset

from osvm.core.typedefs cimport index_t, value_t
from osvm.stream._parsing cimport SCAN_NOT_A_NUMBER, SCAN_OK, SCAN_SLOW
from osvm.stream._parsing cimport convert_slowly, float32_limit, scan_double, scan_integer

ctypedef const unsigned char *text_t

cdef enum Status:
    DONE = 0            # the text is used up
    BATCH_FULL          # enough rows
    MORE_ROOM           # grow the arrays, then go on at the same line
    WIDER_INDEX         # go on at the same line with int64 indices
    BAD_LABEL           # from here on: errors in the text
    BAD_LABEL_END
    TWO_LABELS
    BAD_INDEX
    NO_COLON
    BAD_VALUE
    BAD_VALUE_END
    TOO_LARGE
    NOT_ASCENDING
    BELOW_BASE
    ABOVE_LIMIT
    BAD_QID
    NUL_BYTE

REASONS = {
    BAD_LABEL: "the label is not a number",
    BAD_LABEL_END: "the label is not followed by a blank",
    TWO_LABELS: "more than one label; label sets are read with multilabel=True (--multilabel)",
    BAD_INDEX: "the feature index is not an integer below 10**18",
    NO_COLON: "the feature index is not followed by ':'",
    BAD_VALUE: "the value is not a finite decimal number",
    BAD_VALUE_END: "the value is not followed by a blank",
    TOO_LARGE: "the value is too large for its type",
    NOT_ASCENDING: "feature indices must go up within a line",
    BELOW_BASE: "feature index 0 in a file that counts from 1; pass zero_based=True",
    ABOVE_LIMIT: "the feature index is larger than n_features allows",
    BAD_QID: "the query id is not an integer below 10**18",
    NUL_BYTE: "a NUL byte",
}

cdef struct Parse:
    # what to do
    int64_t base                # 0 or 1
    int64_t limit               # number of columns allowed
    Py_ssize_t max_rows
    Py_ssize_t max_values
    bint multilabel
    # where the batch stands
    Py_ssize_t n_rows
    Py_ssize_t n_values
    Py_ssize_t n_labels
    Py_ssize_t value_room
    Py_ssize_t label_room
    double *labels
    int64_t *label_ptr          # max_rows + 1
    int64_t *indptr             # max_rows + 1
    int64_t *qids               # max_rows
    # what was seen
    int64_t lines
    int64_t smallest            # index as written; -1 before the first
    int64_t largest
    # where it stopped
    text_t line_start
    text_t place


cdef inline bint is_blank(unsigned char c) noexcept nogil:
    return c == c' ' or c == c'\t'


cdef inline text_t skip_blanks(text_t p) noexcept nogil:
    while is_blank(p[0]):
        p += 1
    return p


cdef inline int read_number(text_t start, text_t *after, double *value) noexcept nogil:
    """A finite double; DONE or the error."""
    cdef int status = SCAN_OK
    after[0] = scan_double(start, value, &status)
    if status == SCAN_OK:
        return DONE
    if status == SCAN_SLOW:
        return DONE if convert_slowly(start, after[0], value) else TOO_LARGE
    return BAD_VALUE


cdef int end_line(text_t *p, text_t stop) noexcept nogil:
    """Pass the comment and the line end, or say what stands there instead."""
    cdef text_t newline
    cdef text_t nul
    if p[0][0] == c'\r' and p[0][1] == c'\n':
        p[0] += 1
    if p[0][0] == c'#':
        newline = <text_t> memchr(p[0], c'\n', stop - p[0])
        nul = <text_t> memchr(p[0], 0, newline - p[0])
        if nul != NULL:
            p[0] = nul
            return NUL_BYTE
        p[0] = newline
    if p[0][0] != c'\n':
        return NUL_BYTE if p[0][0] == 0 else BAD_INDEX
    p[0] += 1
    return DONE


cdef int parse_labels(Parse *state, text_t *p) noexcept nogil:
    """The label or labels at the head of a line."""
    cdef double value = 0.0
    cdef text_t after = NULL
    cdef int status
    cdef Py_ssize_t n = state.n_labels
    while True:
        status = read_number(p[0], &after, &value)
        if status == DONE and after[0] == c':' and n == state.n_labels and state.multilabel:
            return DONE             # no label at all: the first feature stands here
        if status != DONE:
            return BAD_LABEL if status == BAD_VALUE else status
        if n == state.label_room:
            return MORE_ROOM
        state.labels[n] = value
        n += 1
        p[0] = after
        if after[0] != c',':
            break
        if not state.multilabel:
            return TWO_LABELS
        p[0] += 1
    if not (is_blank(after[0]) or after[0] in (c'\n', c'\r', c'#')):
        return BAD_LABEL if after[0] == c':' else BAD_LABEL_END
    state.n_labels = n
    return DONE


cdef int parse(Parse *state, text_t p, text_t stop, value_t *values,
               index_t *indices) noexcept nogil:
    """Read lines from p to stop (just after a line end) into the batch."""
    cdef Py_ssize_t n = state.n_values
    cdef Py_ssize_t room = state.value_room
    cdef Py_ssize_t labels_before
    cdef uint64_t number = 0
    cdef int64_t index, previous, first, qid
    cdef int64_t base = state.base
    cdef double value = 0.0
    cdef text_t token
    cdef text_t after
    cdef int status
    while p < stop:
        state.line_start = p
        labels_before = state.n_labels
        p = skip_blanks(p)
        if p[0] == c'\n' or p[0] == c'#' or p[0] == c'\r':      # no example on this line
            status = end_line(&p, stop)
            if status != DONE:
                state.place = p
                return BAD_LABEL if status == BAD_INDEX else status
            state.lines += 1
            continue
        status = parse_labels(state, &p)
        if status != DONE:
            state.place = p
            return NUL_BYTE if p[0] == 0 else status
        qid = 0
        previous = base - 1
        first = -1
        token = p
        n = state.n_values
        while True:
            p = skip_blanks(p)
            token = p
            p = scan_integer(token, &number)
            if p == NULL:
                p = token
                if p[0] == c'q' and p[1] == c'i' and p[2] == c'd' and p[3] == c':' and first < 0:
                    p = scan_integer(p + 4, &number)
                    if p == NULL or not (is_blank(p[0]) or p[0] in (c'\n', c'\r', c'#')):
                        state.place = token
                        status = BAD_QID
                        break
                    if first == -2:
                        state.place = token
                        status = BAD_INDEX
                        break
                    qid = <int64_t> number
                    first = -2
                    continue
                status = end_line(&p, stop)
                state.place = p
                break
            if p[0] != c':':
                state.place = p
                status = NO_COLON
                break
            index = <int64_t> number
            if index <= previous:
                state.place = token
                status = NOT_ASCENDING if previous >= base else BELOW_BASE
                break
            if first < 0:
                first = index
            previous = index
            p += 1
            status = SCAN_OK
            after = scan_double(p, &value, &status)
            if status != SCAN_OK:
                if status == SCAN_NOT_A_NUMBER:
                    state.place = p
                    status = NUL_BYTE if after[0] == 0 else BAD_VALUE
                    break
                if not convert_slowly(p, after, &value):
                    state.place = p
                    status = TOO_LARGE
                    break
            if value_t is float:
                if value > float32_limit() or value < -float32_limit():
                    state.place = p
                    status = TOO_LARGE
                    break
            if n == room:
                status = MORE_ROOM
                break
            values[n] = <value_t> value
            indices[n] = <index_t> (index - base)
            n += 1
            p = after
            if not is_blank(p[0]) and p[0] != c'\n' and p[0] != c'\r' and p[0] != c'#':
                state.place = p
                status = NUL_BYTE if p[0] == 0 else BAD_VALUE_END
                break
        if status == DONE and previous - base >= state.limit:
            state.place = token if first < 0 else find_last(state.line_start, p)
            status = ABOVE_LIMIT
        if status == DONE and index_t is int32_t:
            if previous - base > INT32_MAX:
                status = WIDER_INDEX
        if status != DONE:
            state.n_labels = labels_before
            return status
        state.lines += 1
        if first >= 0:
            if state.smallest < 0 or first < state.smallest:
                state.smallest = first
            if previous > state.largest:
                state.largest = previous
        state.qids[state.n_rows] = qid
        state.n_values = n
        state.n_rows += 1
        state.indptr[state.n_rows] = n
        state.label_ptr[state.n_rows] = state.n_labels
        if state.n_rows >= state.max_rows or n >= state.max_values:
            state.line_start = p
            return BATCH_FULL
    state.line_start = p
    return DONE


cdef text_t find_last(text_t start, text_t stop) noexcept nogil:
    """The last `index:` of a well-formed line, for messages."""
    cdef text_t p = start
    cdef text_t found = start
    cdef text_t token = start
    while p < stop and p[0] != c'#':
        if is_blank(p[0]):
            token = p + 1
        elif p[0] == c':':
            found = token
        p += 1
    return found


cdef class SvmlightParser:
    """Collects the rows of one batch from pieces of text that hold whole lines."""

    cdef Parse state
    cdef readonly bint float32
    cdef readonly bint wide
    cdef object values, indices, labels, label_ptr, indptr, qids
    cdef readonly Py_ssize_t column     # of the last error, from 1

    def __init__(self, *, bint float32=True, int base=1, int64_t limit=10 ** 18,
                 Py_ssize_t max_rows=4096, Py_ssize_t max_values=1 << 20,
                 bint multilabel=False):
        memset(&self.state, 0, sizeof(Parse))
        self.float32 = float32
        self.wide = False
        self.state.base = base
        self.state.limit = limit
        self.state.max_rows = max_rows
        self.state.max_values = max_values
        self.state.multilabel = multilabel
        self.state.smallest = -1
        self.state.largest = -1
        self.state.label_room = 2 * max_rows if multilabel else max_rows
        self.state.value_room = 1 << 12
        self._start()

    def _start(self):
        """Fresh arrays for the next batch; the old ones belong to the caller."""
        cdef Py_ssize_t n = self.state.max_rows
        self.values = np.empty(self.state.value_room, np.float32 if self.float32 else np.float64)
        self.indices = np.empty(self.state.value_room, np.int64 if self.wide else np.int32)
        self.labels = np.empty(self.state.label_room, np.float64)
        self.label_ptr = np.zeros(n + 1, np.int64)
        self.indptr = np.zeros(n + 1, np.int64)
        self.qids = np.empty(n, np.int64)
        self.state.n_rows = self.state.n_values = self.state.n_labels = 0
        self._point()

    def _point(self):
        cdef double[::1] labels = self.labels
        cdef int64_t[::1] label_ptr = self.label_ptr
        cdef int64_t[::1] indptr = self.indptr
        cdef int64_t[::1] qids = self.qids
        self.state.labels = &labels[0]
        self.state.label_ptr = &label_ptr[0]
        self.state.indptr = &indptr[0]
        self.state.qids = &qids[0]

    @property
    def n_rows(self):
        return self.state.n_rows

    @property
    def lines(self):
        """Lines read so far, over all batches, blank ones and comments too."""
        return self.state.lines

    @lines.setter
    def lines(self, value):
        self.state.lines = value

    @property
    def seen(self):
        """Smallest and largest index as written, -1 before the first one."""
        return self.state.smallest, self.state.largest

    def feed(self, const unsigned char[::1] buffer, Py_ssize_t start, Py_ssize_t stop):
        """Read lines of buffer[start:stop]; (how far it came, what stopped it).

        What stopped it: "" (the text is used up), "full" (take the batch) or the reason
        why the line that begins there is malformed.  The buffer goes on for at least 32
        bytes after `stop`, and buffer[stop - 1] is a line feed.
        """
        cdef text_t origin
        cdef int status
        if start < 0 or stop + 32 > buffer.shape[0] or start > stop:
            raise ValueError("feed: the range does not lie within the buffer")
        if start == stop:
            return start, ""
        if buffer[stop - 1] != c'\n':
            raise ValueError("feed: the text must end with a line feed")
        origin = &buffer[0]
        while True:
            status = self._run(origin + start, origin + stop)
            start = self.state.line_start - origin
            if status == MORE_ROOM:
                self._grow()
            elif status == WIDER_INDEX:
                self.wide = True
                self.indices = self.indices.astype(np.int64)
            else:
                break
        if status == DONE:
            return start, ""
        if status == BATCH_FULL:
            return start, "full"
        self.column = self.state.place - self.state.line_start + 1
        return start, REASONS[status]

    cdef int _run(self, text_t p, text_t stop) except -1:
        cdef float[::1] f32
        cdef double[::1] f64
        cdef int32_t[::1] i32
        cdef int64_t[::1] i64
        cdef int status
        if self.float32:
            f32 = self.values
            if self.wide:
                i64 = self.indices
                with nogil:
                    status = parse[float, int64_t](&self.state, p, stop, &f32[0], &i64[0])
            else:
                i32 = self.indices
                with nogil:
                    status = parse[float, int32_t](&self.state, p, stop, &f32[0], &i32[0])
        else:
            f64 = self.values
            if self.wide:
                i64 = self.indices
                with nogil:
                    status = parse[double, int64_t](&self.state, p, stop, &f64[0], &i64[0])
            else:
                i32 = self.indices
                with nogil:
                    status = parse[double, int32_t](&self.state, p, stop, &f64[0], &i32[0])
        return status

    def _grow(self):
        """Twice the room for values and, when they are the short ones, for labels."""
        cdef Py_ssize_t n = self.state.n_values
        self.state.value_room *= 2
        self.values = enlarge(self.values, n, self.state.value_room)
        self.indices = enlarge(self.indices, n, self.state.value_room)
        if self.state.multilabel:
            self.state.label_room *= 2
            self.labels = enlarge(self.labels, self.state.n_labels, self.state.label_room)
            self._point()

    def take(self):
        """The batch so far: values, indices, indptr, labels, label_ptr, qids."""
        cdef Py_ssize_t rows = self.state.n_rows
        cdef Py_ssize_t n = self.state.n_values
        index_type = np.int64 if self.wide else np.int32
        out = (self.values[:n], self.indices[:n],
               self.indptr[:rows + 1].astype(index_type), self.labels[:self.state.n_labels],
               self.label_ptr[:rows + 1], self.qids[:rows])
        # the next batch is probably of the same size
        self.state.value_room = max(1 << 12, n + n // 8)
        self._start()
        return out


def enlarge(array, Py_ssize_t used, Py_ssize_t size):
    """A longer array that begins with the used part of this one."""
    larger = np.empty(size, array.dtype)
    larger[:used] = array[:used]
    return larger


def survey(const unsigned char[::1] buffer, Py_ssize_t start, Py_ssize_t stop, labels):
    """Smallest and largest index and the labels of whole lines, values unread.

    Indices go up in a well-formed line, so its first and its last one suffice.  Malformed
    lines are passed over: the parser will refuse them.  `labels` (float64) receives one
    label per row that has one (the first of several) for as many rows as it has room;
    returns (smallest, largest, rows with a label, lines).
    """
    cdef double[::1] out = labels
    cdef text_t p
    cdef text_t end
    cdef text_t newline
    cdef text_t after
    cdef text_t q
    cdef uint64_t number = 0
    cdef int64_t smallest = -1
    cdef int64_t largest = -1
    cdef Py_ssize_t rows = 0
    cdef Py_ssize_t lines = 0
    cdef Py_ssize_t room = out.shape[0]
    cdef double value = 0.0
    if start < 0 or stop + 32 > buffer.shape[0] or start > stop:
        raise ValueError("survey: the range does not lie within the buffer")
    if start == stop:
        return -1, -1, 0, 0
    if buffer[stop - 1] != c'\n':
        raise ValueError("survey: the text must end with a line feed")
    with nogil:
        p = &buffer[start]
        end = &buffer[0] + stop
        while p < end:
            newline = <text_t> memchr(p, c'\n', end - p)
            lines += 1
            p = skip_blanks(p)
            if p[0] == c'#' or p[0] == c'\n' or p[0] == c'\r':
                p = newline + 1
                continue
            after = NULL
            if read_number(p, &after, &value) == DONE and after[0] != c':':
                if rows < room:
                    out[rows] = value
                rows += 1
                while after[0] == c',':     # more labels
                    p = after + 1
                    if read_number(p, &after, &value) != DONE:
                        break
                p = skip_blanks(after)
            if p[0] == c'q':                # qid:
                while p < newline and not is_blank(p[0]):
                    p += 1
                p = skip_blanks(p)
            q = scan_integer(p, &number)
            if q != NULL and q[0] == c':':
                if smallest < 0 or <int64_t> number < smallest:
                    smallest = <int64_t> number
                q = <text_t> memchr(p, c'#', newline - p)
                if q == NULL:
                    q = newline
                while q > p and q[0] != c':':       # the last colon, then back to its index
                    q -= 1
                while q > p and not is_blank((q - 1)[0]):
                    q -= 1
                q = scan_integer(q, &number)
                if q != NULL and q[0] == c':' and <int64_t> number > largest:
                    largest = <int64_t> number
            p = newline + 1
    return smallest, largest, rows, lines
