# Rows kept by a kernel machine, and blocks of kernel values against them.
# See blocks.pyx.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t

from osvm.core.typedefs cimport Kernel, Row, Rows

# The stored rows ("slots").  Arrays belong to the object that made the struct.
cdef struct Store:
    const Kernel *kernel
    bint f64                # float64 rows and kernel values, else float32
    bint sparse
    Py_ssize_t d            # features
    Py_ssize_t n            # slots in use
    void *X                 # dense: n x d
    void *values            # sparse: an arena of entries ...
    int32_t *columns
    Py_ssize_t *start       # ... slot s holds entries start[s] to start[s] + length[s]
    Py_ssize_t *length
    Py_ssize_t end          # first free entry of the arena
    void *sq                # ||x_s||^2
    double *k_self          # k(x_s, x_s)
    Py_ssize_t *ids         # precomputed kernel: which column of X belongs to the slot

# Columns of a block: copies of examples, or of slots.
cdef struct Tile:
    Py_ssize_t n            # columns
    void *X                 # dense: n x d
    void *values            # sparse: the entries of column b from start[b] to start[b + 1]
    int32_t *columns
    Py_ssize_t *start
    void *D                 # sparse: D[map[feature]][b], row 0 all zero
    int32_t *map            # d entries, 0 where no column has the feature
    void *sq
    double *k_self
    Py_ssize_t *ids
    size_t room[8]          # bytes allocated
    Py_ssize_t map_size

cdef void tile_free(Tile *tile) noexcept nogil
cdef int tile_load_rows(const Store *store, Tile *tile, const Rows *rows,
                        const Py_ssize_t *order, Py_ssize_t first, Py_ssize_t n,
                        Py_ssize_t first_id) noexcept nogil
cdef int tile_load_slots(const Store *store, Tile *tile, const Py_ssize_t *slots,
                         Py_ssize_t n) noexcept nogil
cdef void tile_release(const Store *store, Tile *tile) noexcept nogil
cdef void kernel_block(const Store *store, const Tile *tile, void *out) noexcept nogil
cdef void kernel_column(const Store *store, const Tile *tile, Py_ssize_t t, Py_ssize_t first,
                        void *out) noexcept nogil
cdef void store_row(Store *store, Py_ssize_t slot, const Tile *tile, Py_ssize_t t) noexcept nogil
cdef bint grow(void **memory, size_t *room, size_t need) noexcept nogil
