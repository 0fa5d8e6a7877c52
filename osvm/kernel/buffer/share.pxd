# The margin of a novelty stream: the score below which a share nu of the rows lies.
#
# The nu-trick moves its margin by steps that suit the learning of f; the scores of the f that
# answers, a running mean, are of another size.  Here the margin of the answers is the running
# nu-quantile of what that f says of each row before it learns it: stochastic approximation
# (Robbins, Monro 1951), whose best step is 1/(t p) with the density p of the scores at the
# quantile.  Were their lower tail exponential, p would be nu over the mean shortfall below
# the quantile; steps are twice as long, with which a tail that is a power is found as fast,
# and an exponential one with 4/3 of the least variance.  A floor that falls as the root of the
# rows below the quantile frees a start that was too low, below which nothing falls (Tierney,
# SIAM J. Sci. Stat. Comput. 1983, bounds the density so).
#
# Scores shrink and grow with the coefficients of f as the steps do and as rows are evicted, so
# everything here follows their sum.  Merged rows leave a smaller sum to much the same f: so the
# quantile is that of scores in units of their running mean size, which is over the same last
# quarter of the rows as the mean of f.
#
# Invariants
# - rows are judged before they are learnt, as later rows will be;
# - the units of scores and of weights do not matter, and a row of weight 0 changes nothing;
# - scores within GUARD of the level are not below it, nor is a row like all others;
# - a score that makes their mean size MOST_RATIO times as large is the first: a level found among
#   scores that are nothing beside it has no size in its unit;
# - all numbers are finite: what would not be in range is forgotten, and the next row is the first.
from libc.math cimport fabs, sqrt

cdef enum:
    SHARE_SIZE = 9          # numbers in a Share

cdef extern from *:
    """
    #define OSVM_SHARE_GUARD 1e-6 /* of the level; beyond the rounding of float32 rows */
    #define OSVM_SHARE_RANGE 1e150
    #define OSVM_SHARE_MOST_RATIO 100.0 /* of their sizes, by one score */
    """
    const double GUARD "OSVM_SHARE_GUARD"
    const double RANGE "OSVM_SHARE_RANGE"
    const double MOST_RATIO "OSVM_SHARE_MOST_RATIO"

cdef struct Share:
    double margin           # that answers use
    double level            # the quantile
    double shortfall        # mean distance below the level, of those below it
    double spread           # mean distance above the level, of all
    double size             # mean size of the scores
    double count            # rows that these have seen
    double weight           # of these
    double mass             # sum of the coefficients of f
    double mean_mass        # of those of the f that answers


cdef inline void share_forget(Share *s) noexcept nogil:
    """Nothing is known of the scores, if what is known is out of range."""
    if not (fabs(s.level) + s.shortfall + s.spread + s.size < RANGE):
        s.margin = s.level = s.shortfall = s.spread = s.size = 0.0


cdef inline void share_judge(Share *s, double score, double weight, double nu) noexcept nogil:
    """A row with this score and weight comes."""
    cdef double share, rate, step, gap, ratio = 1.0
    cdef bint below
    if weight == 0.0 or (s.size == 0.0 and score == 0.0):
        return                  # of an f that is 0 there is nothing to learn
    s.count += 1.0
    s.weight += weight
    if s.size == 0.0:           # the first
        s.level = score
        s.size = fabs(score)
    share = weight * s.count / s.weight         # 1 for equal weights
    gap = score - s.level
    if fabs(gap) <= GUARD * fabs(s.level):
        gap = 0.0
    below = gap < 0.0
    s.spread += 2.0 / (s.count + 2.0) * ((0.0 if below else gap) - s.spread)
    rate = share / (nu * s.count + 2.0)         # one of the rows below
    if rate > 0.5:
        rate = 0.5
    if below:
        s.shortfall += rate * (-gap - s.shortfall)
    step = s.spread * sqrt(rate)
    if step < s.shortfall:
        step = s.shortfall
    s.level += 2.0 * rate * step * (nu - 1.0 if below else nu)
    # the unit
    rate = 4.0 * share / (s.count + 3.0)
    step = s.size + (rate if rate < 1.0 else 1.0) * (fabs(score) - s.size)
    if s.size > 0.0 and step > 0.0:
        ratio = step / s.size
    if step > 0.0:
        s.size = step
    if ratio > MOST_RATIO:      # beside this score the ones before are nothing
        s.level = score
        s.shortfall = s.spread = 0.0
        ratio = 1.0
    s.level *= ratio
    s.shortfall *= ratio
    s.spread *= ratio
    s.margin = s.level - GUARD * fabs(s.level)
    share_forget(s)


cdef inline void share_follow(Share *s, double mass, double mean_mass) noexcept nogil:
    """f, and the one that answers, have coefficients of these sums now."""
    cdef double ratio = mean_mass / s.mean_mass if s.mean_mass > 0.0 else 1.0
    s.mass = mass
    s.mean_mass = mean_mass
    if s.count > 0.0 and ratio > 0.0:
        s.margin *= ratio
        s.level *= ratio
        s.shortfall *= ratio
        s.spread *= ratio
        s.size *= ratio
        share_forget(s)
