# The scales of a buffer's coefficients: alpha = a A and beta = p A + q B, so that shrinking and
# averaging cost O(1).  The sums of `block` and `victims` are in units of A and B too.
#
# Scales are folded when they leave [1e-60, 1e60] (coefficients are double), when p outgrows a
# (their difference would lose digits), and when a or q is exactly 0.
from libc.string cimport memset

from osvm._c.structs cimport Buffer
from osvm.core.typedefs cimport EXPANSION_OLDEST

cdef extern from *:
    """
    #define OSVM_SMALL 1e-60
    #define OSVM_LARGE 1e60
    #define OSVM_P_OVER_A 1e3 /* beyond it, beta = p A + q B loses more than three digits */
    """
    const double SMALL "OSVM_SMALL"
    const double LARGE "OSVM_LARGE"
    const double P_OVER_A "OSVM_P_OVER_A"


cdef inline void scale_all(double *x, Py_ssize_t n, double c) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        x[i] *= c


cdef inline void set_zero(double *x, Py_ssize_t n) noexcept nogil:
    """n zeros; memset must not be given NULL, not even for none."""
    if n > 0:
        memset(x, 0, n * sizeof(double))


cdef inline void mix_all(double *b, double *a, Py_ssize_t n, double p, double q,
                         bint clear) noexcept nogil:
    """b = p a + q b; then a = 0 on request"""
    cdef Py_ssize_t i
    for i in range(n):
        b[i] = p * a[i] + q * b[i]
    if clear:
        set_zero(a, n)


cdef inline void fold_a(Buffer *buf) noexcept nogil:
    """A takes the scale a."""
    cdef double a = buf.f.scale
    scale_all(buf.f.coef, buf.store.n * buf.f.n_out, a)
    scale_all(buf.block.fa, buf.block.n * buf.f.n_out, a)
    scale_all(buf.victims.fa, buf.n_victims * buf.f.n_out, a)
    if buf.eviction != EXPANSION_OLDEST:
        scale_all(buf.size, buf.store.n, a * a)
    buf.p /= a
    buf.f.scale = 1.0


cdef inline void fold_beta(Buffer *buf, bint clear_a) noexcept nogil:
    """B becomes beta; A becomes 0 on request."""
    mix_all(buf.B, buf.f.coef, buf.store.n * buf.f.n_out, buf.p, buf.q, clear_a)
    mix_all(buf.block.fb, buf.block.fa, buf.block.n * buf.f.n_out, buf.p, buf.q, clear_a)
    mix_all(buf.victims.fb, buf.victims.fa, buf.n_victims * buf.f.n_out, buf.p, buf.q, clear_a)
    if clear_a:
        if buf.eviction != EXPANSION_OLDEST:
            set_zero(buf.size, buf.store.n)
        buf.f.scale = 1.0
    buf.p = 0.0
    buf.q = 1.0
    buf.clean_b = False


cdef inline void clear_b(Buffer *buf) noexcept nogil:
    if not buf.clean_b:
        set_zero(buf.B, buf.store.n * buf.f.n_out)
        set_zero(buf.block.fb, buf.block.n * buf.f.n_out)
        set_zero(buf.victims.fb, buf.n_victims * buf.f.n_out)
        buf.clean_b = True
    buf.q = 1.0


cdef inline void forget_rows(Buffer *buf) noexcept nogil:
    """An empty buffer: f is 0."""
    buf.store.n = 0
    buf.store.end = 0
    buf.head = 0
    buf.n_victims = 0
    buf.f.scale = 1.0
    set_zero(buf.block.fa, buf.block.n * buf.f.n_out)


cdef inline void buffer_shrink(Buffer *buf, double dec, double decay,
                               double eta_reg) noexcept nogil:
    """beta <- dec decay beta - eta_reg alpha, alpha <- dec alpha  (35), (43)"""
    if not buf.trace:
        buf.f.scale *= dec
        if buf.f.scale == 0.0 and buf.average:
            fold_beta(buf, True)
        elif buf.f.scale == 0.0:
            forget_rows(buf)
        elif buf.f.scale < SMALL:
            fold_a(buf)
        return
    buf.p = dec * decay * buf.p - eta_reg * buf.f.scale
    buf.q *= dec * decay
    buf.f.scale *= dec
    if buf.f.scale == 0.0:
        fold_beta(buf, True)
        return
    if buf.q == 0.0:
        clear_b(buf)
    if buf.p > P_OVER_A * buf.f.scale or buf.p < -P_OVER_A * buf.f.scale:
        fold_beta(buf, False)
    if buf.f.scale < SMALL or buf.f.scale > LARGE:
        fold_a(buf)
    fold_q(buf)


cdef inline void fold_q(Buffer *buf) noexcept nogil:
    """B takes the scale q when it is small."""
    if buf.q < SMALL:
        scale_all(buf.B, buf.store.n * buf.f.n_out, buf.q)
        scale_all(buf.block.fb, buf.block.n * buf.f.n_out, buf.q)
        scale_all(buf.victims.fb, buf.n_victims * buf.f.n_out, buf.q)
        buf.q = 1.0


cdef inline void buffer_average(Buffer *buf, double rho) noexcept nogil:
    """beta <- (1 - rho) beta + rho alpha, 0 < rho <= 1"""
    buf.p += rho * (buf.f.scale - buf.p)
    buf.q *= 1.0 - rho
    if buf.q == 0.0:
        clear_b(buf)
    if buf.p > P_OVER_A * buf.f.scale:
        fold_beta(buf, False)
    fold_q(buf)
