# Rows that do not change.  See kernel_blocks.pyx.
from osvm._c.structs cimport RowSet
from osvm._input.rows cimport RowSource
from osvm._parts.compiled cimport KernelSpec
from osvm.core.typedefs cimport Rows


cdef class FixedRows:
    cdef RowSet set
    cdef KernelSpec spec
    cdef RowSource source           # rows that are not copied
    cdef object order
