# Whether the running mean of a stream has fallen behind f.
#
# The mean that answers is of about the last quarter of the steps: right while rows are alike, too
# slow where what they say changes.  f itself is noisier than its mean, and so errs more, unless
# there is such a drift.  Each row is judged by both before it is learnt; where f has made fewer
# errors lately by more than chance explains, the mean begins anew.
#
# Invariants
# - f and its steps are as they were without;
# - an error counts a thousandth less with each row that comes;
# - fewer errors are more than chance from three standard deviations on, were neither better, and
#   the more the longer there was no drift: of m looks at noise, one in a thousand rows, the
#   largest is about sqrt(2 log m).
from libc.math cimport log

cdef struct Drift:
    double since            # examples before the mean began anew, or 0
    double lag              # errors of the mean less those of f
    double squares          # of their differences


cdef inline bint drift_judge(Drift *d, double t, double difference,
                             double weight) noexcept nogil:
    """After t rows comes one on which the mean errs by so much more; whether to begin anew."""
    cdef double bound
    difference *= weight
    d.lag = 0.999 * d.lag + difference
    d.squares = 0.999 * d.squares + difference * difference
    if d.lag <= 0.0 or d.lag * d.lag <= 9.0 * d.squares:
        return False
    bound = 9.0 + 2.0 * log(1.0 + 0.001 * (t - d.since))
    if d.lag * d.lag <= bound * d.squares:
        return False
    d.since = t
    d.lag = d.squares = 0.0
    return True
