# Checks of raw rows, for compiled code that checks rows as it uses them.
from osvm.core.typedefs cimport Rows

# Row starts begin at 0, never decrease and stay within the arrays.
cdef bint indptr_sound(const Rows *X, Py_ssize_t capacity) noexcept nogil
