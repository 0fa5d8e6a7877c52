# Which row leaves a full buffer.
#
# A rule is a number in ExpansionEviction (core/typedefs.pxd), a name in `EVICTIONS` (state.pyx)
# and a measure: the row with the smallest score goes, the older of two equals.  Where `joins`
# says so none goes: the new term and one of the old become one (merging.pxd).
#
# Invariants
# - `size` is kept with the raw coefficients A, so it is a quadratic form in them: shrinking
#   f changes no order;
# - it is known for every slot in use unless the oldest goes.
from osvm.core.typedefs cimport (
    EXPANSION_CHANGE, EXPANSION_CHOOSE, EXPANSION_COEFFICIENT, EXPANSION_MERGE, EXPANSION_PROJECT,
    EXPANSION_TERM,
)

from osvm._c.structs cimport Buffer
from osvm._c.buffer cimport kappa_dot, kappa_times, read_real

cdef inline bint joins(const Buffer *buf) noexcept nogil:
    """The new term and one of the old become one."""
    return buf.eviction == EXPANSION_MERGE or buf.eviction == EXPANSION_PROJECT


cdef inline double slot_size(Buffer *buf, Py_ssize_t slot) noexcept nogil:
    """The size of a slot's term, from its coefficients A."""
    cdef Py_ssize_t K = buf.f.n_out
    cdef const double *A = buf.f.coef + slot * K
    if buf.eviction == EXPANSION_COEFFICIENT:
        return kappa_dot(NULL, K, A, A)
    if buf.eviction == EXPANSION_TERM or joins(buf):
        return buf.store.k_self[slot] * kappa_dot(buf.f.kappa, K, A, A)
    if buf.eviction == EXPANSION_CHANGE:
        kappa_times(buf.f.kappa, K, A, buf.work)
        return kappa_dot(NULL, K, buf.work, buf.work)
    return 0.0


cdef inline double score(const Buffer *buf, Py_ssize_t s) noexcept nogil:
    return buf.size[s] * buf.row_sq[s] if buf.eviction == EXPANSION_CHANGE else buf.size[s]


cdef inline void measure_slot(Buffer *buf, Py_ssize_t slot, Py_ssize_t victim,
                              Py_ssize_t t) noexcept nogil:
    """Slot has got column t of the block in place of a victim (-1: of none)."""
    cdef Py_ssize_t s
    cdef double k, total = buf.store.k_self[slot] * buf.store.k_self[slot]
    buf.size[slot] = slot_size(buf, slot)
    if buf.eviction != EXPANSION_CHANGE:
        return
    # sums of squared kernel values with all slots
    for s in range(buf.store.n):
        if s == slot:
            continue
        if victim >= 0:
            k = read_real(buf.victims.kv, buf.store.f64, s * buf.victims.n + victim)
            buf.row_sq[s] -= k * k
        k = read_real(buf.block.kv, buf.store.f64, s * buf.block.n + t)
        buf.row_sq[s] += k * k
        total += k * k
    buf.row_sq[slot] = total


cdef inline Py_ssize_t choose_victim(const Buffer *buf, bint known) noexcept nogil:
    """The slot to go; the older of two equals.  `known`: pass over those in `victims`."""
    cdef Py_ssize_t s, best = -1
    cdef double x, least = 0.0
    if buf.eviction == EXPANSION_CHOOSE:
        best = buf.f.choose_fn(&buf.f, buf.f.user)
        return best if 0 <= best < buf.store.n else -1
    for s in range(buf.store.n):
        if known and buf.victim_of[s] >= 0:
            continue
        x = score(buf, s)
        if best < 0 or x < least or (x == least and buf.f.birth[s] < buf.f.birth[best]):
            best = s
            least = x
    return best
