"""Checks of raw arrays at memory speed.

`open_csr` and `open_dense` make a `RowSource` of arrays that are valid, and
give None for arrays that are not; `find_fault` then says what is wrong and
where.  The messages are written in `osvm._input.validate`.

The fast pass has no branch inside its loops, so that any compiler vectorises
them.
- Without their sign, the bits of floats are ordered like the magnitudes, and
  those of infinity and NaN are the largest.  So the largest of them says whether
  all are finite, and bounds the steps that a learner can make.
- An index j is out of range exactly when j or (largest - j) has its sign bit
  set; indptr is sound when neither its entries nor their differences are
  negative.  Such words are or-ed together.
Only when something is amiss does a slow pass look for the first bad row.
"""
from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS,
    PyBUF_FORMAT,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from libc.math cimport INFINITY, fabs, floor, isfinite
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from osvm._input.rows cimport RowSource
from osvm.core.rows cimport OSVM_PREFETCH, row_index, row_value, rows_get
from osvm.core.typedefs cimport ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, ROW_F64_I32, Row, Rows

cdef extern from "../_c/simd.h" nogil:
    int32_t osvm_largest_f32(const void *x, Py_ssize_t n)
    int64_t osvm_largest_f64(const void *x, Py_ssize_t n)
    bint osvm_in_range_i32(const void *j, Py_ssize_t n, uint32_t largest)
    bint osvm_in_range_i64(const void *j, Py_ssize_t n, uint64_t largest)

cdef extern from "../_c/repeats.h" nogil:
    Py_ssize_t osvm_descents_i32(const void *j, Py_ssize_t n)
    Py_ssize_t osvm_descents_i64(const void *j, Py_ssize_t n)
    int osvm_repeats_i32(const void *j, Py_ssize_t n)
    int osvm_repeats_i64(const void *j, Py_ssize_t n)

cdef enum Fault:
    FAULT_NONE = 0
    FAULT_START = 1         # indptr[0] is not 0
    FAULT_DECREASING = 2    # a row ends before it begins
    FAULT_PAST_END = 3      # a row ends beyond the arrays
    FAULT_INDEX = 4         # a column number out of range
    FAULT_VALUE = 5         # NaN or infinite

FAULT_NAMES = ("none", "start", "decreasing", "past_end", "index", "value")

# Below this many entries, giving up the interpreter lock costs more than the check.
cdef Py_ssize_t KEEP_LOCK = 16384

ctypedef fused bits_t:
    uint32_t
    uint64_t

ctypedef fused slot_t:      # an index, as bits; apart from bits_t, so that any meets any
    uint32_t
    uint64_t

cdef enum:
    BLOCK = 32              # entries between prefetches
    AHEAD = 512             # entries from use to prefetch
    TILE = 1024             # entries, nearly, that are looked at twice
    LARGE = 16384           # entries from which the quarters pay


# --------------------------------------------------------------- the fast pass

cdef inline void fetch_ahead(const char *place, Py_ssize_t size) noexcept nogil:
    """Ask for the BLOCK entries that come AHEAD entries later."""
    cdef Py_ssize_t line
    for line in range(0, BLOCK * size, 64):
        OSVM_PREFETCH(place + AHEAD * size + line)


cdef inline bits_t larger(bits_t a, bits_t b) noexcept nogil:
    return a if a > b else b


cdef inline bits_t float_bits(const bits_t *x, Py_ssize_t n) noexcept nogil:
    """The largest magnitude of n adjacent floats, as bits without the sign."""
    if bits_t is uint32_t:
        return <uint32_t> osvm_largest_f32(x, n)
    else:
        return <uint64_t> osvm_largest_f64(x, n)


cdef inline double magnitude(bits_t bits) noexcept nogil:
    """The number that these bits stand for; infinity for NaN."""
    cdef float narrow
    cdef double wide
    if bits_t is uint32_t:
        bits = bits if bits < 0x7f800000u else 0x7f800000u
        memcpy(&narrow, &bits, 4)
        return narrow
    else:
        bits = bits if bits < 0x7ff0000000000000u else 0x7ff0000000000000u
        memcpy(&wide, &bits, 8)
        return wide


cdef bits_t float_bits_large(const bits_t *x, Py_ssize_t n) noexcept nogil:
    """The same for a long array, read as four quarters side by side, each asked for ahead of its
    use: some processors get nearly twice as much out of memory this way.
    """
    cdef bits_t seen = 0
    cdef Py_ssize_t quarter = n // 4 // BLOCK * BLOCK, k = 0, start, part
    if n < LARGE:
        return float_bits(x, n)
    while k < quarter:
        for part in range(4):
            start = k + part * quarter
            fetch_ahead(<const char *> (x + start), sizeof(bits_t))
            seen = larger(seen, float_bits(x + start, BLOCK))
        k += BLOCK
    return larger(seen, float_bits(x + 4 * quarter, n - 4 * quarter))


cdef inline bits_t float_bits_strided(const bits_t *x, Py_ssize_t n,
                                      Py_ssize_t step) noexcept nogil:
    cdef bits_t seen = 0, mask
    cdef Py_ssize_t k
    if step == 1:
        return float_bits(x, n)
    if bits_t is uint32_t:
        mask = 0x7fffffffu
    else:
        mask = 0x7fffffffffffffffu
    for k in range(n):
        seen = larger(seen, x[k * step] & mask)
    return seen


cdef inline bint in_range(const slot_t *j, Py_ssize_t n, slot_t largest) noexcept nogil:
    """Whether n adjacent indices are all within 0 .. largest (-1: no index fits)."""
    if slot_t is uint32_t:
        return osvm_in_range_i32(j, n, largest)
    else:
        return osvm_in_range_i64(j, n, largest)


cdef inline bits_t indptr_bits(const bits_t *p, Py_ssize_t n_rows) noexcept nogil:
    """Top bit set when an entry is negative or smaller than the one before."""
    cdef bits_t seen = p[n_rows]
    cdef Py_ssize_t i
    for i in range(n_rows):
        seen |= p[i] | (p[i + 1] - p[i])
    return seen


cdef inline bint top_bit(bits_t seen) noexcept nogil:
    if bits_t is uint32_t:
        return (seen >> 31) != 0
    else:
        return (seen >> 63) != 0


cdef inline bint narrow_index(int kind) noexcept nogil:
    return kind == ROW_F32_I32 or kind == ROW_F64_I32


cdef inline bint narrow_value(int kind) noexcept nogil:
    return kind == ROW_F32_I32 or kind == ROW_F32_I64 or kind == ROW_F32_DENSE


cdef inline Py_ssize_t indptr_at(const Rows *X, Py_ssize_t i) noexcept nogil:
    if narrow_index(X.kind):
        return (<const int32_t *> X.indptr)[i]
    return <Py_ssize_t> (<const int64_t *> X.indptr)[i]


cdef bint indptr_sound(const Rows *X, Py_ssize_t capacity) noexcept nogil:
    """Row starts begin at 0, never decrease and stay within the arrays."""
    if indptr_at(X, 0) != 0 or indptr_at(X, X.n_rows) > capacity:
        return False
    if narrow_index(X.kind):
        return not top_bit(indptr_bits(<const uint32_t *> X.indptr, X.n_rows))
    return not top_bit(indptr_bits(<const uint64_t *> X.indptr, X.n_rows))


cdef inline Py_ssize_t not_larger(const slot_t *j, Py_ssize_t n) noexcept nogil:
    """How many of n columns are followed by one that is not larger."""
    if slot_t is uint32_t:
        return osvm_descents_i32(j, n)
    else:
        return osvm_descents_i64(j, n)


cdef double entries_size(const bits_t *x, const slot_t *j, const slot_t *starts,
                         Py_ssize_t n_rows, slot_t largest, bint *increase) noexcept nogil:
    """The largest magnitude of all values; infinity when an index is out of range.

    `increase` says whether the columns of each row do, unless it is NULL.  Those that do not
    increase from one entry to the next are counted in all rows at once; mostly they are as many
    as between rows.  They are counted in the cache, tile by tile: a second pass takes nearly as
    long as the first.
    """
    cdef bits_t seen_x = 0
    cdef bint within = True
    cdef Py_ssize_t n = <Py_ssize_t> starts[n_rows], first = 0, row = 0, falls = 0
    cdef Py_ssize_t begin, k, end, count
    while first < n_rows:
        begin = k = end = <Py_ssize_t> starts[first]
        while row < n_rows and end - begin < TILE:
            row += 1
            end = <Py_ssize_t> starts[row]
        while k < end:
            count = min(BLOCK, end - k)
            fetch_ahead(<const char *> (x + k), sizeof(bits_t))
            fetch_ahead(<const char *> (j + k), sizeof(slot_t))
            within &= in_range(j + k, count, largest)
            seen_x = larger(seen_x, float_bits(x + k, count))
            k += count
        if increase == NULL:
            first = row
            continue
        falls += not_larger(j + begin, end - begin + (end < n))
        while first < row:
            begin, first = <Py_ssize_t> starts[first], first + 1
            end = <Py_ssize_t> starts[first]
            if begin < end < n:     # rows without entries have their end in common
                falls -= j[end - 1] >= j[end]
    if increase != NULL:
        increase[0] = falls == 0
    return magnitude(seen_x) if within else INFINITY


cdef double csr_entries_size(const Rows *X, bint *increase) noexcept nogil:
    """The largest magnitude of all entries; infinity when one is not sound."""
    cdef uint64_t largest = <uint64_t> (X.n_features - 1)
    cdef uint32_t narrow = 0x7fffffffu
    if X.n_features <= 0x7fffffff:
        narrow = <uint32_t> largest
    if X.kind == ROW_F32_I32:
        return entries_size(<const uint32_t *> X.values, <const uint32_t *> X.indices,
                            <const uint32_t *> X.indptr, X.n_rows, narrow, increase)
    if X.kind == ROW_F64_I32:
        return entries_size(<const uint64_t *> X.values, <const uint32_t *> X.indices,
                            <const uint32_t *> X.indptr, X.n_rows, narrow, increase)
    if X.kind == ROW_F32_I64:
        return entries_size(<const uint32_t *> X.values, <const uint64_t *> X.indices,
                            <const uint64_t *> X.indptr, X.n_rows, largest, increase)
    return entries_size(<const uint64_t *> X.values, <const uint64_t *> X.indices,
                        <const uint64_t *> X.indptr, X.n_rows, largest, increase)


cdef double dense_size_of(const bits_t *x, const Rows *X) noexcept nogil:
    """The largest magnitude in a dense array."""
    cdef bits_t seen = 0
    cdef Py_ssize_t i, n = X.n_rows, d = X.n_features, row_step = X.row_step, step = X.step
    if n == 0 or d == 0:
        return 0.0
    if (step == 1 and row_step == d) or (row_step == 1 and step == n):
        seen = float_bits_large(x, n * d)               # one block
    elif step == 1 or row_step != 1:
        for i in range(n):
            seen = larger(seen, float_bits_strided(x + i * row_step, d, step))
    else:
        for i in range(d):                              # adjacent down the columns
            seen = larger(seen, float_bits(x + i * step, n))
    return magnitude(seen)


cdef double dense_size(const Rows *X) noexcept nogil:
    if narrow_value(X.kind):
        return dense_size_of(<const uint32_t *> X.values, X)
    return dense_size_of(<const uint64_t *> X.values, X)


cdef double csr_size(const Rows *X, Py_ssize_t capacity, bint *increase) noexcept nogil:
    """The largest magnitude in a CSR matrix; infinity when anything is amiss."""
    if not indptr_sound(X, capacity):
        return INFINITY
    return csr_entries_size(X, increase)


def open_csr(values, indices, indptr, Py_ssize_t n_rows, Py_ssize_t n_features,
             bint compared=True):
    """A `RowSource` of a valid CSR matrix, or None when anything is amiss.

    Columns of a row are `compared`, for `repeats_columns`, which otherwise does it by itself.
    """
    cdef RowSource source
    cdef bint *increase
    cdef Py_ssize_t capacity
    cdef double largest
    try:
        source = RowSource.csr(values, indices, indptr, n_features)
    except (ValueError, TypeError, BufferError):
        return None
    capacity = source._buffers[1].shape[0]
    if source.rows.n_rows != n_rows or n_features < 0:
        return None
    increase = &source.increase if compared else NULL
    if capacity < KEEP_LOCK and n_rows < KEEP_LOCK:
        largest = csr_size(&source.rows, capacity, increase)
    else:
        with nogil:
            largest = csr_size(&source.rows, capacity, increase)
    source.largest = largest
    return source if largest < INFINITY else None


def open_dense(array):
    """A `RowSource` of a valid float array of two dimensions, or None."""
    cdef RowSource source
    cdef double largest
    try:
        source = RowSource.dense(array)
    except (ValueError, TypeError, BufferError):
        return None
    if source.n_rows * source.n_features < KEEP_LOCK:
        largest = dense_size(&source.rows)
    else:
        with nogil:
            largest = dense_size(&source.rows)
    source.largest = largest
    return source if largest < INFINITY else None


cdef int repeats(const Rows *X) noexcept nogil:
    """Whether a valid row names a column twice; -1 without memory."""
    cdef Py_ssize_t i, start, end
    cdef bint narrow = narrow_index(X.kind)
    cdef const int32_t *j32 = <const int32_t *> X.indices
    cdef const int64_t *j64 = <const int64_t *> X.indices
    cdef int found
    for i in range(X.n_rows):
        start, end = indptr_at(X, i), indptr_at(X, i + 1)
        found = 0
        if narrow:
            if osvm_descents_i32(j32 + start, end - start):
                found = osvm_repeats_i32(j32 + start, end - start)
        elif osvm_descents_i64(j64 + start, end - start):
            found = osvm_repeats_i64(j64 + start, end - start)
        if found:
            return found
    return 0


def repeats_columns(RowSource source):
    """Whether a row of a valid CSR matrix names a column twice."""
    cdef int found
    if not source.sparse or source.increase:
        return False
    if source._buffers[1].shape[0] < KEEP_LOCK:
        found = repeats(&source.rows)
    else:
        with nogil:
            found = repeats(&source.rows)
    if found < 0:
        raise MemoryError
    return found == 1


def largest_magnitude(RowSource source):
    """The largest |value| of all rows, row factors included; kept in the source."""
    cdef double largest = 0.0, size
    cdef Py_ssize_t i, k
    cdef Row row
    with nogil:
        if source.rows.row_scale == NULL and source.rows.indices == NULL:
            largest = dense_size(&source.rows)
        else:
            for i in range(source.rows.n_rows):
                rows_get(&source.rows, i, &row)
                for k in range(row.count):
                    size = fabs(row_value(&row, k))
                    largest = size if size > largest else largest
    source.largest = largest
    return largest


def all_finite(array):
    """Whether a C-ordered float32 or float64 array of any shape holds finite numbers only."""
    cdef Py_buffer view        # a memoryview would cost more than the check of a few scores
    cdef double largest
    PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
    try:
        if view.format[0] == c"d":
            largest = magnitude(float_bits(<const uint64_t *> view.buf, view.len // 8))
        elif view.format[0] == c"f":
            largest = magnitude(float_bits(<const uint32_t *> view.buf, view.len // 4))
        else:
            raise TypeError(f"numbers of type {array.dtype}")
    finally:
        PyBuffer_Release(&view)
    return largest < INFINITY


def first_bad_weight(const double[::1] weights, double most):
    """Position of the first weight that is negative or above `most`; -1 if none is."""
    cdef Py_ssize_t k
    for k in range(weights.shape[0]):
        if not 0.0 <= weights[k] <= most:
            return k
    return -1


def first_not_whole(array):
    """Position of the first entry that is no finite whole number; -1 if all are."""
    cdef const float[:] narrow
    cdef const double[:] wide
    cdef Py_ssize_t k
    if array.dtype.itemsize == 4:
        narrow = array
        for k in range(narrow.shape[0]):
            if not isfinite(narrow[k]) or narrow[k] != floor(narrow[k]):
                return k
        return -1
    wide = array
    for k in range(wide.shape[0]):
        if not isfinite(wide[k]) or wide[k] != floor(wide[k]):
            return k
    return -1


def copy_codes(labels, codes, Py_ssize_t n_classes):
    """Copy int64 labels to int32 codes; False where one is not among 0 .. n_classes - 1."""
    cdef Py_buffer given, made
    cdef Py_ssize_t k
    cdef bint fits
    cdef uint64_t largest = 0, label    # as unsigned numbers, negative ones are too large
    PyObject_GetBuffer(labels, &given, PyBUF_C_CONTIGUOUS)
    try:
        PyObject_GetBuffer(codes, &made, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)
        fits = given.itemsize == 8 and made.itemsize == 4 and given.len == 2 * made.len
        if fits:
            for k in range(given.len // 8):
                label = (<const uint64_t *> given.buf)[k]
                largest = label if label > largest else largest
                (<int32_t *> made.buf)[k] = <int32_t> label
        PyBuffer_Release(&made)
        if not fits:
            raise TypeError("int64 labels are copied to as many int32 codes")
    finally:
        PyBuffer_Release(&given)
    return largest < <uint64_t> n_classes


def copy_signs(codes, targets):
    """Copy int32 codes 0 and 1 to float64 targets -1 and +1."""
    cdef Py_buffer given, made
    cdef Py_ssize_t k
    cdef bint fits
    PyObject_GetBuffer(codes, &given, PyBUF_C_CONTIGUOUS)
    try:
        PyObject_GetBuffer(targets, &made, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)
        fits = given.itemsize == 4 and made.itemsize == 8 and made.len == 2 * given.len
        if fits:
            for k in range(given.len // 4):
                (<double *> made.buf)[k] = 2.0 * (<const int32_t *> given.buf)[k] - 1.0
        PyBuffer_Release(&made)
        if not fits:
            raise TypeError("int32 codes are copied to as many float64 targets")
    finally:
        PyBuffer_Release(&given)


def may_be_far(const double[::1] targets, double times):
    """False where no target is `times` as far from the median as the others are on average.

    The mean distance of the others is at least that of neighbors in pairs, without the pair
    that is farthest apart: |a - b| <= |a - m| + |b - m|.
    """
    cdef Py_ssize_t k, n = targets.shape[0]
    cdef double low = INFINITY, high = -INFINITY, farthest = 0.0, total = 0.0, apart, a, b
    cdef double low_b = INFINITY, high_b = -INFINITY    # a chain of comparisons of their own
    for k in range(0, n - 1, 2):
        a, b = targets[k], targets[k + 1]
        low = a if a < low else low
        high = a if a > high else high
        low_b = b if b < low_b else low_b
        high_b = b if b > high_b else high_b
        apart = fabs(a - b)
        total += apart
        farthest = apart if apart > farthest else farthest
    low, high = min(low, low_b), max(high, high_b)
    if n % 2:
        low, high = min(low, targets[n - 1]), max(high, targets[n - 1])
    # sums are rounded
    return n > 1 and not (high - low) * (n - 1) * 1.001 <= times * (total - farthest)


# --------------------------------------------------------------- the slow pass

cdef int first_fault(const Rows *X, Py_ssize_t capacity, Py_ssize_t *where_row,
                     Py_ssize_t *where_entry) noexcept nogil:
    """The first thing wrong: row, and its entry within the row; FAULT_NONE if nothing is."""
    cdef Py_ssize_t i, k, start, end, j
    cdef Row row
    where_row[0] = 0
    where_entry[0] = 0
    if X.indices != NULL:
        if indptr_at(X, 0) != 0:
            return FAULT_START
        start = 0
        for i in range(X.n_rows):   # all of indptr before any entry is read through it
            where_row[0] = i
            end = indptr_at(X, i + 1)
            if end < start:
                return FAULT_DECREASING
            if end > capacity:
                return FAULT_PAST_END
            start = end
    for i in range(X.n_rows):
        where_row[0] = i
        rows_get(X, i, &row)
        row.scale = 1.0
        for k in range(row.count):
            where_entry[0] = k
            if X.indices != NULL:
                j = row_index(&row, k)
                if j < 0 or j >= X.n_features:
                    return FAULT_INDEX
            if not isfinite(row_value(&row, k)):
                return FAULT_VALUE
    return FAULT_NONE


def find_fault(RowSource source):
    """What is wrong first: (name, row, entry within the row, column, value)."""
    cdef Py_ssize_t i = 0, k = 0, capacity = 0
    cdef int fault
    cdef Row row
    if source.sparse:
        capacity = source._buffers[1].shape[0]
    with nogil:
        fault = first_fault(&source.rows, capacity, &i, &k)
    if fault == FAULT_INDEX or fault == FAULT_VALUE:
        rows_get(&source.rows, i, &row)
        row.scale = 1.0
        return FAULT_NAMES[fault], i, k, row_index(&row, k), row_value(&row, k)
    if fault == FAULT_DECREASING or fault == FAULT_PAST_END:
        return (FAULT_NAMES[fault], i, indptr_at(&source.rows, i),
                indptr_at(&source.rows, i + 1), 0.0)
    if fault == FAULT_START:
        return FAULT_NAMES[fault], 0, 0, indptr_at(&source.rows, 0), 0.0
    return FAULT_NAMES[FAULT_NONE], -1, -1, -1, 0.0
