# The compiled side of osvm.losses, osvm.schedules and osvm.kernels: one object per
# part, which owns the C struct that a loop reads and whatever the struct points at.
# A loop takes the address of the struct and keeps the object alive meanwhile.
from osvm._c.structs cimport RowSet
from osvm._input.rows cimport RowSource
from osvm.core.typedefs cimport Kernel, Loss, Step


cdef class LossSpec:
    cdef Loss loss
    cdef object _owner              # Python loss, or the LowLevelCallables
    cdef const double[:, ::1] _delta
    cdef readonly object error      # exception stored by a Python loss, or None
    cdef double _call(self, int which, double y, double f) noexcept
    cdef _each(self, int which, y, f, double margin)
    cpdef raise_error(self)


cdef class StepSpec:
    cdef Step step


cdef class KernelSpec:
    cdef Kernel kernel
    cdef object _function           # Python kernel
    cdef readonly Py_ssize_t n_features
    cdef dict _errors               # thread -> exception stored by a Python kernel
    cpdef raise_error(self)


cdef class FixedRows:
    cdef RowSet set
    cdef KernelSpec spec
    cdef RowSource source           # rows that are not copied
    cdef object order
