# Declarations of the column provider for the compiled loops; see columns.pyx.
from osvm._c.structs cimport ColumnCache

cdef enum:
    MAX_BLOCK = 256   # most columns that one call may ask for, as in _c/blocks.pxd


cdef struct Halves:
    ColumnCache *own[2]     # columns of the rows before `split`, and of those from there on
    Py_ssize_t split
    ColumnCache *cache      # the columns of all


cdef class Columns:
    cdef ColumnCache cache
    cdef readonly Py_ssize_t n             # length of a column
    cdef readonly Py_ssize_t n_slots       # columns that the cache holds
    cdef readonly bint wide                # float64 columns
    cdef readonly bint near                # columns are cheap: rbf in few dimensions
    cdef readonly Py_ssize_t depth         # numbers in a dense row, 0 of other rows
    cdef readonly object kernel
    cdef object rows                       # a FixedRows, or None for a Python function ...
    cdef object X                          # ... of these rows
    cdef object error                      # what it raised
    cdef readonly object joined            # the Columns of both halves of the rows, or None
    cdef Halves halves
    cdef const Py_ssize_t *slot_of         # of the cache: column -> slot or -1
    cdef const Py_ssize_t *length          # slot -> number of valid values
    cdef unsigned char[::1] listed         # for callers that gather columns: all 0 between calls

    cdef int make_cache(self, double cache_mb, Py_ssize_t most, double offset) except -1
    cdef bint has(self, Py_ssize_t column, Py_ssize_t m) noexcept nogil
    cdef void keep(self, Py_ssize_t column) noexcept nogil
    cdef int fetch(self, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t m,
                   void **out) except -1 nogil
    cdef int gram(self, const Py_ssize_t *rows, Py_ssize_t count, double *out) except -1 nogil
    cdef void combine(self, double *o, Py_ssize_t m, void **columns, const double *delta,
                      Py_ssize_t count) noexcept nogil
    cdef int check(self, int status) except -1 nogil
