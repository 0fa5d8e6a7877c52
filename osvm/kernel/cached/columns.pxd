# Declarations of the column provider for the compiled loops; see columns.pyx.
cdef enum:
    MAX_BLOCK = 256   # most columns that one call may ask for, as in kernel_blocks.pxd


cdef class Columns:
    cdef readonly Py_ssize_t n             # length of a column
    cdef readonly Py_ssize_t n_slots       # columns that the cache holds
    cdef readonly bint wide                # float64 columns
    cdef readonly bint near                # columns are cheap: rbf in few dimensions
    cdef readonly double offset            # added to every kernel value
    cdef readonly Py_ssize_t hits          # columns found in the cache
    cdef readonly double computed          # columns computed (parts count as fractions)
    cdef readonly object kernel
    cdef bint compiled                     # `rows` computes the values, else the kernel's function
    cdef object rows                       # a FixedRows; the loops need not know its fields
    cdef object X                          # rows for a Python function
    cdef object memory
    cdef char *store                       # n_slots x n values
    cdef Py_ssize_t *slot_of               # column -> slot or -1
    cdef Py_ssize_t *col_of                # slot -> column or -1
    cdef Py_ssize_t *length                # slot -> number of valid values
    cdef Py_ssize_t *newer                 # linked list of slots by last use
    cdef Py_ssize_t *older
    cdef Py_ssize_t newest
    cdef Py_ssize_t oldest
    cdef Py_ssize_t used
    cdef unsigned char[::1] listed         # for callers that gather columns: all 0 between calls

    cdef bint has(self, Py_ssize_t column, Py_ssize_t m) noexcept nogil
    cdef void keep(self, Py_ssize_t column) noexcept nogil
    cdef void touch(self, Py_ssize_t slot) noexcept nogil
    cdef Py_ssize_t take_slot(self, Py_ssize_t column) noexcept nogil
    cdef int fetch(self, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t m,
                   void **out) except -1 nogil
    cdef int gram(self, const Py_ssize_t *rows, Py_ssize_t count, double *out) except -1 nogil
    cdef void combine(self, double *o, Py_ssize_t m, void **columns, const double *delta,
                      Py_ssize_t count) noexcept nogil
    cdef bint sums_directly(self) noexcept nogil
    cdef void sum_directly(self, double *o, Py_ssize_t m, const Py_ssize_t *columns,
                           const double *delta, Py_ssize_t count) noexcept nogil
    cdef int compute(self, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t start,
                     Py_ssize_t stop, void **out) except -1 nogil
    cdef object call(self, object columns, object others)
