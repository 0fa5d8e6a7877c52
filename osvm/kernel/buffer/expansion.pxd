# A kernel expansion with a bounded buffer.  See expansion.pyx.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t

from osvm._parts.kernel_store cimport Store, Tile

cdef enum:
    N_VICTIMS = 32          # slots whose sums are known ahead

cdef enum Eviction:
    EVICT_OLDEST = 0
    EVICT_COEFFICIENT = 1   # smallest ||alpha_s||
    EVICT_TERM = 2          # smallest norm of the term alpha_s k(x_s, .)
    EVICT_CHANGE = 3        # least change of f over the rows in the buffer

# Kernel values of some columns with every slot, and the raw sums over the slots.
cdef struct Sums:
    Py_ssize_t n            # columns
    void *kv                # kv[s * n + b]
    double *fa              # fa[k * n + b] = sum_s A[s, k] kv[s, b]
    double *fb              # the same with B
    size_t room[3]

cdef struct Buffer:
    Store store
    Py_ssize_t K            # outputs
    Py_ssize_t capacity     # slots allocated
    Py_ssize_t budget       # slots at most; -1: no bound
    Py_ssize_t head         # the oldest slot, once the buffer is full
    Py_ssize_t births       # rows ever stored
    int eviction            # an Eviction
    bint trace              # beta is kept
    double a                # alpha = a A
    double p                # beta = p A + q B
    double q
    double *A               # capacity x K
    double *B
    Py_ssize_t *birth
    double *size            # of the term, squared and with A for alpha, as eviction wants it
    double *row_sq          # EVICT_CHANGE: sum of k(x_s, x_r)^2 over the slots r
    const double *kappa     # K x K label kernel, or NULL for delta
    double sq_f             # ||f||^2, kept with the trace
    double pi               # <f, z>
    bint clean_b            # B is zero
    # the columns at work: a block of examples, and slots that may be evicted next
    Tile tile
    Sums block
    Tile victim_tile
    Sums victims
    Py_ssize_t n_victims    # 0: none known
    Py_ssize_t *victim_slot  # of column c; -1 when gone
    int32_t *victim_of      # column of slot s, or -1
    double *work            # 16 K numbers, the second half for the loop
    void *column            # one kernel value per column of the block
    size_t column_room

cdef void buffer_shrink(Buffer *buf, double dec, double decay, double eta_reg) noexcept nogil
cdef int sums_fill(Buffer *buf, const Tile *tile, Sums *sums) noexcept nogil
cdef int buffer_insert(Buffer *buf, Py_ssize_t t, const double *add_a,
                       const double *add_b) noexcept nogil
cdef void kappa_times(const double *kappa, Py_ssize_t K, const double *x,
                      double *out) noexcept nogil
cdef double kappa_dot(const double *kappa, Py_ssize_t K, const double *x,
                      const double *y) noexcept nogil
cdef void sums_free(Sums *sums) noexcept nogil
cdef bint sums_reserve(Buffer *buf, Sums *sums, Py_ssize_t n) noexcept nogil
