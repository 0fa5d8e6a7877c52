# The offset of a stream of two classes: as many answers for each as it has rows.
#
# `fit` ends by setting an offset with which a rare class gets as many answers as it has rows,
# unless that costs more errors than chance explains (`find_offset` of measures.py).  A stream
# follows the same cut: the quantile of the scores (share.pxd) at the share of the rarer class,
# and the errors of five cuts from 0 to that quantile, each row being judged before it is learnt.
# The answer is with the cut that is furthest from 0 of those whose errors exceed the fewest by
# half their standard deviation at most; without an offset, where the errors on both classes are
# as many but for chance (twice the standard deviation of their difference).
#
# Invariants
# - the quantile is always in the tail of the rarer class; where the majority changes, it and
#   what is known of both sides change theirs;
# - there is no offset before both classes and ROWS rows have come;
# - errors are means over the last quarter of the rows, as f is, of 7/16 as many in effect.
from libc.math cimport sqrt

from osvm.kernel.buffer.share cimport Share, share_judge

cdef enum:
    CUTS = 5
    CUT_SIZE = 17           # numbers in a Cut
    ROWS = 60

cdef struct Cut:
    Share share             # of the rarer class
    double side             # -1: that of the upper scores; 1: of the lower; 0: none yet
    double positives        # weight of the upper class
    double errors[CUTS]
    double surplus          # of answers for the upper class without an offset


cdef inline void cut_change_side(Share *s, double nu) noexcept nogil:
    """The other tail: what was above the level is below it."""
    cdef double below = s.shortfall
    s.level = -s.level
    s.shortfall = s.spread / (1.0 - nu)
    s.spread = below * nu


cdef inline double cut_offset(const Cut *c) noexcept nogil:
    """Of the answers."""
    cdef double fewest = 2.0, most, variance
    cdef Py_ssize_t j
    if c.share.count < ROWS or c.side == 0.0:
        return 0.0
    variance = 16.0 / (7.0 * c.share.count)
    if c.surplus * c.surplus <= 4.0 * c.errors[0] * variance:
        return 0.0
    for j in range(CUTS):
        if c.errors[j] < fewest:
            fewest = c.errors[j]
    most = fewest + 0.5 * sqrt(fewest * (1.0 - fewest) * variance)
    for j in range(CUTS - 1, -1, -1):
        if c.errors[j] <= most:
            return -0.25 * j * c.side * c.share.level
    return 0.0


cdef inline double cut_judge(Cut *c, double score, bint positive, double weight) noexcept nogil:
    """A row with this score comes; the offset for the next."""
    cdef Share *s = &c.share
    cdef double total, nu, rate, cut
    cdef Py_ssize_t j
    if weight == 0.0:
        return cut_offset(c)
    # the errors first: with the cuts as they are
    total = s.weight + weight
    rate = 4.0 * weight * (s.count + 1.0) / total / (s.count + 4.0)
    if rate > 1.0:
        rate = 1.0
    for j in range(CUTS):
        cut = 0.25 * j * c.side * s.level
        c.errors[j] += rate * ((1.0 if (score > cut) != positive else 0.0) - c.errors[j])
    c.surplus += rate * ((1.0 if score > 0.0 else 0.0) - (1.0 if positive else 0.0) - c.surplus)
    if positive:
        c.positives += weight
    if c.positives <= 0.0 or c.positives >= total or (s.size == 0.0 and score == 0.0):
        s.count += 1.0      # no other class yet, or no f
        s.weight = total
        return 0.0
    nu = c.positives / total
    if c.side == 0.0:
        c.side = -1.0 if nu <= 0.5 else 1.0
    elif (nu > 0.5) != (c.side > 0.0):
        cut_change_side(s, nu if c.side < 0.0 else 1.0 - nu)
        c.side = -c.side
    share_judge(s, c.side * score, weight, nu if c.side < 0.0 else 1.0 - nu)
    return cut_offset(c)
