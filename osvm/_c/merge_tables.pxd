# The tables from which a merge of two terms is chosen; merging.pxd looks them up.
from libc.math cimport exp, expm1, log

from osvm._c.merging cimport TABLE_K, TABLE_M


cdef inline double kept(double m, double log_k, double h) noexcept nogil:
    """What a merge with share h keeps."""
    return m * exp(log_k * (1.0 - h) * (1.0 - h)) + (1.0 - m) * exp(log_k * h * h)


cdef inline double best_share(double m, double log_k) noexcept nogil:
    """The share h in [0, 1/2] that keeps most: by steps of 0.01, then by thirds."""
    cdef int step, _step
    cdef double best = 0.0, low, high, third
    for step in range(1, 51):
        if kept(m, log_k, 0.01 * step) > kept(m, log_k, best):
            best = 0.01 * step
    low = best - 0.01 if best > 0.01 else 0.0
    high = best + 0.01 if best < 0.49 else 0.5
    for _step in range(60):
        third = (high - low) / 3.0
        if kept(m, log_k, low + third) > kept(m, log_k, high - third):
            high -= third
        else:
            low += third
    return 0.5 * (low + high)


cdef inline void merge_tables_fill(double *tables) noexcept nogil:
    """Tables over (m, k) of the best merge of a term a phi(x) with a larger b phi(x').

    With a = m, b = 1 - m, m <= 1/2: the share h of x that maximizes
    c = m k^((1 - h)^2) + (1 - m) k^(h^2); the loss m^2 + (1 - m)^2 + 2 m (1 - m) k - c^2 over
    m^2 (1 - k)^2; and k^((1 - h)^2 + h^2) - k over 1 - k.
    """
    cdef Py_ssize_t i, j, at
    cdef double m, k, log_k, h, c_1, c_2, e, gap, loss
    for i in range(TABLE_M):
        m = 0.5 * i / (TABLE_M - 1)
        m = m if m > 1e-3 else 1e-3
        for j in range(TABLE_K):
            # at m = 0 and k = 1 the quotients have limits
            k = <double> j / (TABLE_K - 1)
            log_k = log(1e-300 if k < 1e-300 else 1.0 - 1e-3 if k > 1.0 - 1e-3 else k)
            h = best_share(m, log_k)
            c_1 = expm1(log_k * (1.0 - h) * (1.0 - h))
            c_2 = expm1(log_k * h * h)
            # with c = 1 + e: 1 - (1 + m e_1 + (1 - m) e_2)^2 - 2 m (1 - m) (1 - k)
            e = m * c_1 + (1.0 - m) * c_2
            gap = -expm1(log_k)
            loss = -e * (2.0 + e) - 2.0 * m * (1.0 - m) * gap
            at = i * TABLE_K + j
            tables[at] = h
            tables[TABLE_M * TABLE_K + at] = (loss if loss > 0.0 else 0.0) / (m * gap * m * gap)
            tables[2 * TABLE_M * TABLE_K + at] = (c_1 + c_2 + c_1 * c_2 + gap) / gap
