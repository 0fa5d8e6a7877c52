# Judged candidates (`schedules.Auto`): which setting answers, and which ones are dropped.
#
# Each group of a `Bank` has one or two predictors, its last iterate and its tail average.  The
# errors e_p = 0 or 1 that predictors make on an example of weight c before its step are counted:
#
#     E_p <- decay E_p + c e_p                   the predictor of least E answers
#
# and after 1024, 2048, ... examples, by those of the second half, a group is dropped whose best
# predictor errs more than the best of all, by 3 standard deviations of the difference:
# sum c (e_p - e_best) > 3 sqrt(sum c^2 [e_p != e_best]).  The first 512 do not count: small steps
# err more at first, and less in the end.
#
# Errors hardly tell settings apart where a class is rare, that is where it has come less than an
# eighth as often as the most frequent one: never to answer with it is as good as to look for it.
# To miss such an example counts as (2 - F)/F errors, MOST_COST at most: so many times as much
# does a missed example take from F1 = F as a false alarm does, so that the least cost is the
# largest F1 (Parambath, Usunier, Grandvalet 2014).  F is taken from the share of the class that
# was found before, nearly its F1 where it is answered as often as it comes.  With two classes the
# steps count it as often; with more, those of all other classes would pay for it.
#
# While there is such a class, settings without explicit steps, which are slow to find it, are
# behind by RARE_LEAD, unless there are more columns than examples (text), where long steps fit
# the noise.
from libc.math cimport INFINITY, sqrt
from libc.stdint cimport int64_t

from osvm.linear.adaptive_bank cimport Bank, loss_of
from osvm.linear.model cimport error_of
from osvm.linear.adaptive_step cimport Group
from osvm.core.loss cimport loss_value_xi
from osvm.core.mloss cimport mloss_value_xi
from osvm.core.step cimport STEP_ADAPTIVE_EXPLICIT

cdef enum:
    FIRST_LOOK = 1024       # examples before the first look at losing candidates
    LAST = 1                # predictors of a candidate: its last iterate,
    TAIL = 2                # its tail average
    MOST_PREDICTORS = 10
    RARE_RATIO = 8          # how many times as often the most frequent class comes, at least
    MOST_COST = 3
    RARE_LEAD = 8

cdef struct Judge:
    bint judged                         # whether there is something to judge
    int n_predictors
    int group_of[MOST_PREDICTORS]       # the candidate of a predictor, and whether it is TAIL
    bint is_tail[MOST_PREDICTORS]
    int place[MOST_PREDICTORS]          # the group of a candidate, -1 where it was dropped
    int alive                           # bits of the candidates that have a group
    int chosen                          # the predictor that answers
    double decay
    double *figures                     # E of each predictor
    double *outcomes                    # sums of c and c^2, by the set of predictors that erred
    double *class_weights               # sum of c for each class; then, of what was found of it
    Py_ssize_t n_classes


cdef inline Py_ssize_t answering(const Judge *judge) noexcept nogil:
    """The group of the predictor that answers."""
    return judge.place[judge.group_of[judge.chosen]] if judge.judged else 0


cdef inline bint answers_mean(const Judge *judge, const Bank *m) noexcept nogil:
    """Whether an average answers, where one is asked for."""
    return (m.averages and m.counts[m.older] > 0.0
            and (not judge.judged or judge.is_tail[judge.chosen]))


cdef inline double rare_below(const Judge *judge) noexcept nogil:
    """The weight below which a class is rare."""
    cdef Py_ssize_t k
    cdef double most = 0.0
    for k in range(judge.n_classes):
        most = max(most, judge.class_weights[k])
    return most / RARE_RATIO


cdef inline double importance(const Judge *judge, const Bank *m, double target, Py_ssize_t label,
                              double c) noexcept nogil:
    """The weight c of an example that comes, times what it costs to miss it."""
    cdef double found
    if m.n_out == 1:
        label = target > 0.0
    if not judge.class_weights[label] + c < rare_below(judge):
        return c
    found = ((judge.class_weights[judge.n_classes + label] + 1.0)
             / (judge.class_weights[label] + 2.0))
    return c * min(<double> MOST_COST, 2.0 / found - 1.0)


cdef inline bint has_rare(const Judge *judge) noexcept nogil:
    """Whether one of the classes that came is rare."""
    cdef Py_ssize_t k
    cdef double below = rare_below(judge)
    for k in range(judge.n_classes):
        if 0.0 < judge.class_weights[k] < below:
            return True
    return False


cdef inline double behind(const Judge *judge, const Bank *m, int p, bint rare) noexcept nogil:
    """The figure of a predictor, with what its setting is behind by."""
    cdef const Group *group = &m.groups[judge.place[judge.group_of[p]]]
    if not rare or group.step.flags & STEP_ADAPTIVE_EXPLICIT:
        return judge.figures[p]
    return judge.figures[p] + (RARE_LEAD if group.step.forget == 1.0 else 2 * RARE_LEAD)


cdef inline void choose(Judge *judge, const Bank *m) noexcept nogil:
    """Let the best predictor answer; the present one if it is as good."""
    cdef int p, best = judge.chosen
    cdef bint rare = m.seen > m.n_features and has_rare(judge)
    cdef double least = INFINITY
    if judge.place[judge.group_of[best]] >= 0:
        least = behind(judge, m, best, rare)
    for p in range(judge.n_predictors):
        if judge.place[judge.group_of[p]] >= 0 and behind(judge, m, p, rare) < least:
            best, least = p, behind(judge, m, p, rare)
    judge.chosen = best


cdef inline void count_errors(Judge *judge, Bank *m, double target, Py_ssize_t label,
                              double c) noexcept nogil:
    """Count the errors that the predictors made on an example of importance c, by its scores."""
    cdef int p, g
    cdef Py_ssize_t erred = 0
    cdef double e
    if not c > 0.0:
        return
    for p in range(judge.n_predictors):
        g = judge.place[judge.group_of[p]]
        if g < 0:
            continue
        e = error_of(m.error_kind, m.n_out,
                     (m.fa if judge.is_tail[p] else m.f) + g * m.n_out, target, label)
        if e > 0.0:
            erred |= 1 << p
        judge.figures[p] = judge.decay * judge.figures[p] + c * e
    judge.outcomes[erred] += c
    judge.outcomes[(1 << judge.n_predictors) + erred] += c * c
    choose(judge, m)


cdef inline void count_answer(const Judge *judge, Bank *m, double target, Py_ssize_t label,
                              double c, double *loss_sum, double *error_sum) noexcept nogil:
    """Loss and error of the scores that answered an example, after its step; and its class."""
    cdef Py_ssize_t g = answering(judge), k = g * m.n_out
    cdef double *f = m.f + k
    cdef double e
    if not (m.judging and judge.is_tail[judge.chosen]):
        loss_sum[0] += m.value[g]
    else:
        f = m.fa + k
        if m.n_out == 1:
            loss_sum[0] += loss_value_xi(&m.loss, target, f[0], m.q)
        else:
            loss_sum[0] += mloss_value_xi(loss_of(m, &m.groups[g]), m.n_out, label, f, 1.0, m.q)
    e = error_of(m.error_kind, m.n_out, f, target, label)
    error_sum[0] += e
    if m.n_out == 1:
        label = target > 0.0
    judge.class_weights[label] += c
    judge.class_weights[judge.n_classes + label] += c * (1.0 - e)


cdef inline void forget_errors(Judge *judge) noexcept nogil:
    """Count from here on."""
    cdef int p
    for p in range(judge.n_predictors):
        judge.figures[p] = 0.0


cdef inline bint is_due(const Bank *m) noexcept nogil:
    """Whether it is time to look for losers, or, the first time, to begin counting."""
    cdef int64_t n = <int64_t> m.seen
    return m.n_groups > 1 and 2 * n >= FIRST_LOOK and n & (n - 1) == 0


cdef inline double sum_outcomes(const Judge *judge, Py_ssize_t among, Py_ssize_t but,
                                bint squared) noexcept nogil:
    """The sum over examples where exactly one of two sets of predictors erred."""
    cdef Py_ssize_t m, n = 1 << judge.n_predictors
    cdef double total = 0.0
    for m in range(n):
        if ((m & among) != 0) != ((m & but) != 0):
            total += judge.outcomes[squared * n + m]
    return total


cdef inline int losers(Judge *judge, const Bank *m) noexcept nogil:
    """Bits of the candidates to drop, by the outcomes since the last look, which begin anew."""
    cdef double errors[MOST_PREDICTORS]
    cdef int p, best = -1, dropped = 0, own
    cdef Py_ssize_t g, n
    for p in range(judge.n_predictors):
        errors[p] = sum_outcomes(judge, 1 << p, 0, False)
        if judge.place[judge.group_of[p]] >= 0 and (best < 0 or errors[p] < errors[best]):
            best = p
    for g in range(m.n_groups):
        if m.groups[g].step.forget < 1.0:
            continue            # it waits for the data to change
        own = -1
        for p in range(judge.n_predictors):
            if judge.place[judge.group_of[p]] == g and (own < 0 or errors[p] < errors[own]):
                own = p
        if m.seen >= FIRST_LOOK and errors[own] - errors[best] > 3.0 * sqrt(
                sum_outcomes(judge, 1 << own, 1 << best, True)):
            dropped |= 1 << judge.group_of[own]
    for n in range(2 << judge.n_predictors):
        judge.outcomes[n] = 0.0
    return dropped
