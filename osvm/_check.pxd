# Checks of raw rows, for compiled code that checks rows as it uses them.
from osvm.core.row cimport Rows

# Row starts begin at 0, never decrease and stay within the arrays.
cdef bint indptr_sound(const Rows *X, Py_ssize_t capacity) noexcept nogil

# The largest magnitude of entries start .. end; infinity when one is not sound.
cdef double csr_entries_size(const Rows *X, Py_ssize_t start, Py_ssize_t end) noexcept nogil
