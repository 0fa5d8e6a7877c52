# The unit of a regression stream: the spread of the targets so far, the present one included.
#
# Welford's sums (Technometrics 1962), with weights.  Losses of bounded slope step by eta0 times
# the unit, as `fit` does with the spread of all targets: targets in another unit give the same
# model in that unit, and each of two streams that differ by their cut into batches takes the
# same steps.
#
# Invariants
# - a target of weight 0 changes nothing; the unit of the weights does not matter;
# - without an offset the mean stays 0: f has to reach the targets themselves.
from libc.math cimport sqrt

cdef enum:
    TARGETS_SIZE = 3        # numbers in a Targets

cdef struct Targets:
    double weight
    double mean
    double squares          # weighted, of the distances from the mean


cdef inline double targets_unit(const Targets *s, double target, double weight, bint centered,
                                Targets *after) noexcept nogil:
    """The spread with this target too, and what to know from then on; 1 where there is none."""
    cdef double gap = target - s.mean, rest, unit
    after[0] = s[0]
    if weight > 0.0:
        after.weight += weight
        if centered:
            after.mean += weight / after.weight * gap
        rest = target - after.mean
        # rounding of the mean may put it on the other side of the target
        after.squares += weight * gap * rest if (gap > 0.0) == (rest > 0.0) else 0.0
    unit = sqrt(after.squares / after.weight) if after.weight > 0.0 else 1.0
    return unit if 1e-100 < unit < 1e100 else 1.0
