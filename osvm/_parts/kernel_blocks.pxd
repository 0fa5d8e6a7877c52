# Kernel values of rows against rows: the one engine.  See kernel_blocks.pyx.
from osvm._input.rows cimport RowSource
from osvm._parts.compiled cimport KernelSpec
from osvm._parts.kernel_store cimport Store, Tile
from osvm.core.typedefs cimport Rows

cdef enum:
    MAX_BLOCK = 256         # columns that one call of FixedRows may ask for

cdef int tile_load_rows(const Store *store, Tile *tile, const Rows *rows,
                        const Py_ssize_t *order, Py_ssize_t first, Py_ssize_t n,
                        Py_ssize_t first_id) noexcept nogil
cdef int tile_load_slots(const Store *store, Tile *tile, const Py_ssize_t *slots,
                         Py_ssize_t n) noexcept nogil
cdef void kernel_block(const Store *store, const Tile *tile, void *out) noexcept nogil
cdef void kernel_column(const Store *store, const Tile *tile, Py_ssize_t t, Py_ssize_t first,
                        void *out) noexcept nogil
cdef void kernel_slot_column(const Store *store, const Tile *tile, Py_ssize_t slot,
                             Py_ssize_t first, void *out) noexcept nogil


cdef class FixedRows:
    cdef Store store
    cdef Tile tile
    cdef readonly bint near
    cdef KernelSpec spec
    cdef RowSource source           # sparse rows, which are not copied
    cdef object owned               # arrays that the pointers look into
    cdef void *block                # room for MAX_BLOCK x CHUNK values
    cdef int values(self, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t start,
                    Py_ssize_t stop, double offset, void **out) noexcept nogil
    cdef int gram(self, const Py_ssize_t *columns, Py_ssize_t count, void *out) noexcept nogil
    cdef void _spread(self, Py_ssize_t start, Py_ssize_t stop, double offset,
                      void **out) noexcept nogil
    cdef void _write(self, void *out, Py_ssize_t start) noexcept nogil
    cdef void add(self, double *o, Py_ssize_t m, const Py_ssize_t *columns, const double *delta,
                  Py_ssize_t count) noexcept nogil
