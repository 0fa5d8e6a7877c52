# The buffer of a kernel machine: rows, coefficients, and the columns at work.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from osvm._parts.kernel_store cimport Store, Tile

cdef enum:
    N_VICTIMS = 32          # slots whose sums are known ahead

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
    bint average            # beta is the running mean of alpha
    double a                # alpha = a A
    double p                # beta = p A + q B
    double q
    double *A               # capacity x K
    double *B
    Py_ssize_t *birth
    double *size            # of the term, squared and with A for alpha, as eviction wants it
    double *row_sq          # EVICT_CHANGE: sum of k(x_s, x_r)^2 over the slots r
    const double *tables    # EVICT_MERGE: see merging.pxd
    Py_ssize_t *slot_of     # slot of row i of a training set, or -1; NULL in a stream
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


cdef inline void kappa_times(const double *kappa, Py_ssize_t K, const double *x,
                             double *out) noexcept nogil:
    """out = kappa x"""
    cdef Py_ssize_t k, l
    cdef double total
    if kappa == NULL:
        memcpy(out, x, K * sizeof(double))
        return
    for k in range(K):
        total = 0.0
        for l in range(K):
            total += kappa[k * K + l] * x[l]
        out[k] = total


cdef inline double kappa_dot(const double *kappa, Py_ssize_t K, const double *x,
                             const double *y) noexcept nogil:
    """x' kappa y"""
    cdef Py_ssize_t k, l
    cdef double total = 0.0, row
    for k in range(K):
        if x[k] == 0.0:
            continue
        if kappa == NULL:
            total += x[k] * y[k]
            continue
        row = 0.0
        for l in range(K):
            row += kappa[k * K + l] * y[l]
        total += x[k] * row
    return total


cdef inline double read_real(const void *array, bint f64, Py_ssize_t i) noexcept nogil:
    return (<double *> array)[i] if f64 else (<float *> array)[i]


cdef inline void write_real(void *array, bint f64, Py_ssize_t i, double value) noexcept nogil:
    if f64:
        (<double *> array)[i] = value
    else:
        (<float *> array)[i] = <float> value
