# The rows of a matrix as the compiled loops read them; the owner keeps the arrays alive.

from cpython.buffer cimport Py_buffer

from osvm.core.typedefs cimport Rows

cdef char type_code(const Py_buffer *buffer) noexcept

cdef class RowSource:
    cdef Rows rows                  # what the loops read
    cdef Py_buffer _buffers[4]      # values, indices, indptr, row_scale
    cdef int _n_buffers
    cdef readonly Py_ssize_t n_rows
    cdef readonly Py_ssize_t n_features
    cdef readonly bint sparse
    # No |value| is above, row factors included; -1 = not known; 0 also for values that
    # nobody has looked at, whose steps have no limit but whose scores must be finite.
    cdef public double largest
    cdef bint increase              # columns do in each sparse row, as `scan` has found
    cdef public bint replaces_text  # rows of a `fit` of a model that has learnt documents before
    cdef int _take(self, object array, bint strided) except -1
