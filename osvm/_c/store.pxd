# Rows that a kernel machine keeps, and columns of a block of kernel values.
#
# A tile that was loaded is released before it is loaded again: its feature map is zero
# between blocks.  Kernel values come from blocks.pxd.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from osvm._c.structs cimport Store, Tile

cdef inline bint grow(void **memory, size_t *room, size_t need) noexcept nogil:
    """Make room for `need` bytes; False when there is none."""
    cdef void *larger
    if need <= room[0]:
        return True
    need += need // 2
    larger = realloc(memory[0], need)
    if larger == NULL:
        return False
    memory[0] = larger
    room[0] = need
    return True


cdef inline size_t real_size(const Store *store) noexcept nogil:
    return sizeof(double) if store.f64 else sizeof(float)


cdef inline void tile_free(Tile *tile) noexcept nogil:
    free(tile.X)
    free(tile.turned)
    free(tile.values)
    free(tile.columns)
    free(tile.start)
    free(tile.D)
    free(tile.map)
    free(tile.sq)
    free(tile.k_self)
    free(tile.ids)
    memset(tile, 0, sizeof(Tile))


cdef inline void tile_release(const Store *store, Tile *tile) noexcept nogil:
    """Forget the columns: the feature map is zero again."""
    cdef Py_ssize_t k
    if store.sparse and tile.n:
        for k in range(tile.start[tile.n]):
            tile.map[tile.columns[k]] = 0
    tile.n = 0


cdef inline void store_row(Store *store, Py_ssize_t slot, const Tile *tile,
                           Py_ssize_t t) noexcept nogil:
    """Keep column t of the tile in this slot; the arena has room for it."""
    cdef size_t size = real_size(store)
    cdef Py_ssize_t count
    store.k_self[slot] = tile.k_self[t]
    store.ids[slot] = tile.ids[t]
    memcpy(<char *> store.sq + slot * size, <char *> tile.sq + t * size, size)
    if store.sparse:
        count = tile.start[t + 1] - tile.start[t]
        if count > 0:       # there may be no memory yet, and memcpy must not be given NULL
            memcpy(<char *> store.values + store.end * size,
                   <char *> tile.values + tile.start[t] * size, count * size)
            memcpy(store.columns + store.end, tile.columns + tile.start[t],
                   count * sizeof(int32_t))
        store.start[slot] = store.end
        store.length[slot] = count
        store.end += count
    else:
        memcpy(<char *> store.X + slot * store.d * size, <char *> tile.X + t * store.d * size,
               store.d * size)
