"""NORMA and SVMD: the loop over examples of a kernel machine.

Follows Vishwanathan, Schraudolph, Smola (JMLR 2006), Algorithm 2; equation numbers below
are theirs.  One block of examples at a time: kernel values of the block with the buffer in
one product, then the examples in order, each change of the buffer carried into the rest
of the block, so the result is that of one example after the other.

Invariants
- The step size is adapted with the current gradient, then used.
- (50) lacks the term of the Hessian, -eta decay chi f(x); it is here.
- z after the update at x needs no second pass over the buffer: it is
  dec decay z(x) - eta (reg f(x) + k(x, x) kappa (xi + decay chi)).
- sigma of the nu-trick is -1 on a margin violation and 0 otherwise, for every loss.
- Where a decision hangs by rounding (two scores, or a score and its margin, closer than
  CLOSE of their size), the scores are summed anew, slot by slot from zero: values that are
  equal are then equal however the stream is cut into blocks, and the first label wins.
- Nothing changes when a number would leave its range: the loop stops before that example.
  Scores, offsets and targets stay below LARGEST, squares of them below its square, so that
  what is computed from them is finite, and every state that can be saved can be loaded.
- A capped step is shorter for the example alone: f shrinks by the schedule's step.
- A stream of classes that answers with the mean of f follows a drift (`drift.pxd`).
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY, exp, fabs
from libc.stdint cimport int32_t

from osvm._c.buffer cimport kappa_dot, kappa_times, read_real
from osvm._c.buffer_scales cimport SMALL
from osvm._c.engine cimport engine_average
from osvm._c.structs cimport Buffer
from osvm.core.expansion cimport (
    STATUS_OK, expansion_insert, expansion_load, expansion_release, expansion_resum,
    expansion_score, expansion_shrink, expansion_trace_insert, expansion_trace_score,
    expansion_trace_shrink,
)
from osvm.kernel.buffer.cut cimport CUT_SIZE, Cut, cut_judge
from osvm.kernel.buffer.drift cimport Drift, drift_judge
from osvm.kernel.buffer.share cimport SHARE_SIZE, Share, share_follow, share_judge
from osvm.kernel.buffer.state cimport KernelState
from osvm.kernel.buffer.targets cimport TARGETS_SIZE, Targets, targets_unit
from osvm._parts.compiled cimport LossSpec, StepSpec
from osvm._input.rows cimport RowSource
from osvm.core.kernel cimport kernel_uses_dots
from osvm.core.loss cimport (
    LOSS_GRAPH_HINGE, loss_curvature_margin, loss_is_multi, loss_value_xi_margin,
)
from osvm.core.mloss cimport mloss_curvature_times, mloss_value_xi
from osvm.core.step cimport (
    STEP_CAPPED, STEP_SMD, step_cap, step_clip, step_eta, step_smd_factor,
)
from osvm.core.typedefs cimport Loss, Rows, Step

cdef enum Status:
    DONE = 0
    NO_MEMORY = -1
    OUT_OF_RANGE = -2

cdef enum Task:
    TASK_CLASSIFY = 0
    TASK_REGRESS = 1
    TASK_NOVELTY = 2

TASKS = {"classify": TASK_CLASSIFY, "regress": TASK_REGRESS, "novelty": TASK_NOVELTY}

# Numbers of one run: what the parameters say, and what is learnt beside f.
cdef double CLOSE = 1e-9        # summing anew changes nothing but rounding: it may be generous
cdef double LARGEST = 1e150     # of scores, offsets, step sizes and coefficients
cdef double LARGEST_SQUARE = 1e300


cdef struct Learner:
    const Loss *loss
    const Step *step
    int task
    bint smd
    bint capped
    bint offset
    bint aside              # the offset is for predictions alone: `fit` has set it for f
    bint nu_trick
    double reg
    double cap              # of eta: 1/reg at most
    double mu
    double decay
    double nu
    double t
    double eta
    double epsilon
    double eta_epsilon
    double z_epsilon
    double errors
    double loss_sum
    double *b
    double *eta_b
    double *z_b
    double *work            # 8 K numbers
    double *b_mean          # of the offsets and, last, the margin, while averaging
    Share *share            # of novel rows in a stream, or NULL
    Targets *targets        # of a stream, whose spread is the unit of the steps, or NULL
    double slope
    bint curved
    Cut *cut                # of two classes in a stream, or NULL
    double average_from
    Drift *drift            # of classes in a stream that is averaged, or NULL
    # one entry per example, or NULL
    double *h_eta
    double *h_loss
    double *h_error
    double *h_epsilon
    double *h_prediction
    Py_ssize_t *h_support


cdef double count_error(const Learner *l, Py_ssize_t K, const double *score, Py_ssize_t label,
                        double target, double *prediction) noexcept nogil:
    """The mistake of this prediction: 0 or 1, or the absolute error of a regression."""
    cdef Py_ssize_t k, best = 0
    cdef double value
    if l.task == TASK_REGRESS:
        prediction[0] = score[0]
        return score[0] - target if score[0] > target else target - score[0]
    if l.task == TASK_NOVELTY:
        value = l.epsilon if l.share == NULL else l.share.margin
        prediction[0] = -1.0 if score[0] < value else 1.0
        return 1.0 if score[0] < value else 0.0
    if K == 1:
        best = 1 if score[0] > 0.0 else 0
    else:
        for k in range(1, K):
            if score[k] > score[best]:
                best = k
    prediction[0] = <double> best
    return 0.0 if best == label else 1.0


cdef bint is_close_call(const Learner *l, Py_ssize_t K, const double *score,
                        Py_ssize_t label) noexcept nogil:
    """Whether rounding may decide who is the rival, the prediction or a violation."""
    cdef Py_ssize_t k
    cdef double size = fabs(l.epsilon), value, shift
    cdef double top = -INFINITY, second = -INFINITY         # of the scores
    cdef double worst = -INFINITY, next_worst = -INFINITY   # with the margins that rivals have
    if l.task == TASK_REGRESS:
        return False
    for k in range(K):
        if fabs(score[k]) > size:
            size = fabs(score[k])
    size *= CLOSE
    if not loss_is_multi(l.loss):
        for k in range(K):
            value = fabs(score[k])
            if value <= size or fabs(value - l.epsilon) <= size:
                return True
    for k in range(K):
        shift = 0.0 if k == label else l.epsilon
        if l.loss.kind == LOSS_GRAPH_HINGE:
            shift = l.epsilon * l.loss.delta[label * l.loss.n_labels + k]
        if score[k] > top:
            second = top
            top = score[k]
        elif score[k] > second:
            second = score[k]
        value = score[k] + shift
        if value > worst:
            next_worst = worst
            worst = value
        elif value > next_worst:
            next_worst = value
    return top - second <= size or worst - next_worst <= size


cdef double tile_sq(const Buffer *buf, Py_ssize_t t) noexcept nogil:
    """||x||^2 of column t, where the kernel needs it."""
    return (read_real(buf.tile.sq, buf.store.f64, t) if kernel_uses_dots(buf.store.kernel)
            else 0.0)


cdef double read_scores(const Learner *l, Buffer *buf, Py_ssize_t t, double *f,
                        double *score) noexcept nogil:
    """f and the scores of column t, and the sum of their sizes."""
    cdef Py_ssize_t k, K = buf.f.n_out
    cdef double total = 0.0
    expansion_score(&buf.f, t, f)
    for k in range(K):
        score[k] = f[k] if l.aside else f[k] + l.b[k]
        total += fabs(score[k])
    return total


cdef bint can_insert(const Buffer *buf, Py_ssize_t t, double dec, double eta, const double *xi,
                     const double *bend) noexcept nogil:
    """Whether the coefficients of the new term, and its size, stay in range."""
    cdef Py_ssize_t k, K = buf.f.n_out
    cdef double *a = buf.work
    cdef double scale = buf.f.scale * dec, coefficients = 0.0, squares = 0.0
    if scale < SMALL:
        scale = 1.0                     # it will be folded
    for k in range(K):
        a[k] = eta * xi[k] / scale      # as A has them
        coefficients += a[k] * a[k]
        if buf.trace:
            squares += eta * eta * bend[k] * bend[k]
    squares += coefficients
    if buf.f.kappa != NULL:
        kappa_times(buf.f.kappa, K, a, a + K)
        squares += kappa_dot(NULL, K, a + K, a + K)
    return squares * (1.0 + fabs(buf.tile.k_self[t])) < LARGEST_SQUARE


cdef bint can_step_offset(const Learner *l, Py_ssize_t K, const double *xi, double eta,
                          double pull) noexcept nogil:
    """Whether offset and margin stay in range; (53)-(55) and (59)-(61) without the change."""
    cdef Py_ssize_t k
    cdef double step, total = 0.0
    if l.offset:
        for k in range(K):
            step = l.eta_b[k] * step_smd_factor(l.mu, xi[k] * l.z_b[k]) if l.smd else eta
            total += fabs(step) + fabs(l.b[k]) + fabs(l.z_b[k]) + 2.0 * fabs(step * xi[k])
    if l.nu_trick:
        step = eta
        if l.smd:
            step = l.eta_epsilon * step_smd_factor(l.mu, -l.z_epsilon * l.epsilon * pull)
        step *= l.epsilon * pull
        total += l.epsilon * exp(step) + fabs(l.z_epsilon) + fabs(step * (1.0 + l.z_epsilon))
    return total < LARGEST      # not NaN, and not infinite after any number of steps


cdef void follow_share(Learner *l, const Buffer *buf, double dec, double rho,
                       bint changed) noexcept nogil:
    """The sums of the coefficients after a step; a term that came may have cost others."""
    cdef double mass = dec * l.share.mass, a = 0.0, b = 0.0
    cdef Py_ssize_t s
    if not changed:
        share_follow(l.share, mass, l.share.mean_mass + rho * (mass - l.share.mean_mass))
        return
    for s in range(buf.store.n):
        a += buf.f.coef[s]
        b += buf.B[s]
    mass = buf.f.scale * a
    share_follow(l.share, mass, buf.p * a + buf.q * b if buf.average else mass)


cdef int learn_one(Learner *l, Buffer *buf, Py_ssize_t t, Py_ssize_t i, Py_ssize_t label,
                   double target, double weight) noexcept nogil:
    """Example in column t of the block, the i-th of this run."""
    cdef Py_ssize_t k, K = buf.f.n_out
    cdef double *f = l.work             # f(x), without the offset
    cdef double *z = l.work + K         # z(x)
    cdef double *score = l.work + 2 * K
    cdef double *xi = l.work + 3 * K
    cdef double *chi = l.work + 4 * K
    cdef double *bend = l.work + 5 * K  # xi + decay chi, then coefficients of beta
    cdef double *z_new = l.work + 6 * K
    cdef double *add = l.work + 7 * K
    cdef double value, gv, eta, tau, dec, fg, fz, pi, sq_f
    cdef double pull, error, prediction = 0.0, old, y, rho
    cdef double k_self = buf.tile.k_self[t]
    cdef double reg = l.reg, decay = l.decay, xi_f = 0.0, chi_f = 0.0, total
    cdef bint any_xi = False
    cdef int status
    cdef double gap, unread
    cdef Targets seen
    # prediction and loss
    total = read_scores(l, buf, t, f, score)
    if is_close_call(l, K, score, label):
        expansion_resum(&buf.f, t)
        total = read_scores(l, buf, t, f, score)
    if buf.trace or buf.mean_scores:
        expansion_trace_score(&buf.f, t, z)
    y = target
    if l.task == TASK_CLASSIFY:
        y = 1.0 if label == 1 else -1.0
    if K == 1 and not loss_is_multi(l.loss):
        value = loss_value_xi_margin(l.loss, y, score[0], l.epsilon, xi)
    else:
        value = mloss_value_xi(l.loss, K, label, score, l.epsilon, xi)
    if buf.mean_scores:
        total += fabs(z[0])
    total += fabs(k_self) + fabs(target)
    if not (total < LARGEST):       # or NaN
        return OUT_OF_RANGE
    total = l.loss_sum + weight * value + tile_sq(buf, t)
    if not (total - total == 0.0):  # NaN or infinite
        return OUT_OF_RANGE
    pull = weight * ((-1.0 if value > 0.0 else 0.0) + l.nu)
    value *= weight
    for k in range(K):
        xi[k] *= weight
        any_xi = any_xi or xi[k] != 0.0
        xi_f += xi[k] * f[k]
    for k in range(K):
        add[k] = (z[k] if buf.mean_scores else f[k]) + l.b[k]
    error = count_error(l, K, add, label, target, &prediction)
    if l.drift != NULL:
        for k in range(K):
            add[k] = f[k] + l.b[k]
        gap = error - count_error(l, K, add, label, target, &unread)
    # step size
    if l.smd:
        gv = reg * buf.f.inner                                                   # (48)
        for k in range(K):
            gv += xi[k] * z[k]
        eta = step_clip(l.step, l.eta * step_smd_factor(l.mu, gv))               # (36)
        if eta > l.cap:
            eta = l.cap
    else:
        eta = step_eta(l.step, l.t + 1.0)
        if eta > l.cap:
            eta = l.cap
    dec = 1.0 - eta * reg
    if dec < 0.0:
        dec = 0.0
    if l.targets != NULL:
        # what the gradient lacks of the targets' unit; a small error of a curved loss has it
        y = targets_unit(l.targets, target, weight, l.offset, &seen) / l.slope
        eta *= 1.0 if l.curved and y < 1.0 else y
        if not (seen.squares < LARGEST_SQUARE):
            return OUT_OF_RANGE
    if not (eta < LARGEST and can_step_offset(l, K, xi, eta, pull)):
        return OUT_OF_RANGE
    tau = eta
    if l.capped and any_xi:
        total = k_self * kappa_dot(buf.f.kappa, K, xi, xi)
        if l.offset:
            for k in range(K):
                total += xi[k] * xi[k]
        tau = step_cap(eta, value, total)
    if l.smd:
        # curvature (46), (47)
        if K == 1 and not loss_is_multi(l.loss):
            chi[0] = weight * loss_curvature_margin(l.loss, y, score[0], l.epsilon) * z[0]
        else:
            mloss_curvature_times(l.loss, K, label, score, z, l.epsilon, chi)
            for k in range(K):
                chi[k] *= weight
        for k in range(K):
            bend[k] = xi[k] + decay * chi[k]
            chi_f += chi[k] * f[k]
        # inner products, all with the old f and z
        fg = reg * buf.f.sq_norm + xi_f                                          # (51)
        fz = dec * decay * buf.f.inner - eta * fg - eta * decay * chi_f          # (50)
        kappa_times(buf.f.kappa, K, bend, z_new)
        for k in range(K):
            z_new[k] = dec * decay * z[k] - eta * (reg * f[k] + k_self * z_new[k])
        pi = dec * fz                                                       # (49)
        for k in range(K):
            pi -= eta * xi[k] * z_new[k]
        sq_f = (dec * dec * buf.f.sq_norm - 2.0 * eta * dec * xi_f               # (52)
                + eta * eta * k_self * kappa_dot(buf.f.kappa, K, xi, xi))
        if not (pi + sq_f - (pi + sq_f) == 0.0):
            return OUT_OF_RANGE
    if any_xi and not can_insert(buf, t, dec, tau, xi, bend):
        return OUT_OF_RANGE
    if l.smd:
        buf.f.inner = pi
        buf.f.sq_norm = sq_f
        # the expansion (35), (45)
        expansion_trace_shrink(&buf.f, dec, decay, eta * reg)
    else:
        expansion_shrink(&buf.f, dec)
    if any_xi:
        for k in range(K):
            add[k] = -tau * xi[k]
            bend[k] = -eta * bend[k]
        if l.smd:
            status = expansion_trace_insert(&buf.f, t, add, bend)
        else:
            status = expansion_insert(&buf.f, t, add)
        if status != STATUS_OK:
            return NO_MEMORY
    # offset and margin
    if l.offset:
        for k in range(K):
            if l.smd:
                l.eta_b[k] *= step_smd_factor(l.mu, xi[k] * l.z_b[k])            # (54)
            else:
                l.eta_b[k] = tau
            l.b[k] -= l.eta_b[k] * xi[k]                                    # (53)
            l.z_b[k] = decay * l.z_b[k] - l.eta_b[k] * xi[k]                # (55)
    if l.nu_trick:
        if l.smd:
            l.eta_epsilon *= step_smd_factor(l.mu, -l.z_epsilon * l.epsilon * pull)  # (60)
        else:
            l.eta_epsilon = eta
        old = l.epsilon
        l.epsilon = old * exp(l.eta_epsilon * old * pull)                   # (59)
        l.z_epsilon = (decay * l.z_epsilon                                  # (61)
                       + l.eta_epsilon * old * pull * (1.0 + decay * l.z_epsilon))
    if l.targets != NULL:
        l.targets[0] = seen
    if l.drift != NULL and drift_judge(l.drift, l.t, gap, weight):
        l.average_from = l.t        # the mean is f again
    l.t += 1.0
    rho = 1.0
    if buf.average:
        # Shamir, Zhang (ICML 2013): the last quarter of the steps, about
        rho = 4.0 / (l.t - l.average_from + 3.0)
        engine_average(buf, rho)
        for k in range(K):
            l.b_mean[k] += rho * (l.b[k] - l.b_mean[k])
        l.b_mean[K] += rho * (l.epsilon - l.b_mean[K])
    if l.cut != NULL:
        l.b[0] = cut_judge(l.cut, z[0] if buf.mean_scores else f[0], label == 1, weight)
        if buf.average:
            l.b_mean[0] = l.b[0]
    if l.share != NULL:
        share_judge(l.share, z[0] if buf.mean_scores else f[0], weight, l.nu)
        follow_share(l, buf, dec, rho, any_xi)
    l.eta = eta
    l.errors += error
    l.loss_sum += value
    if l.h_eta != NULL:
        l.h_eta[i] = tau
        l.h_loss[i] = value
        l.h_error[i] = l.errors / l.t
        l.h_epsilon[i] = old if l.nu_trick else l.epsilon
        l.h_prediction[i] = prediction
        l.h_support[i] = buf.store.n
    return DONE


cdef int learn_block(Learner *l, Buffer *buf, const Rows *rows, const Py_ssize_t *order,
                     Py_ssize_t first, Py_ssize_t n, Py_ssize_t first_id, const int32_t *labels,
                     const double *targets, const double *weights, Py_ssize_t record,
                     Py_ssize_t *done) noexcept nogil:
    """Examples first .. first + n - 1 of the order; `done` counts those learnt."""
    cdef Py_ssize_t t, i
    cdef int status = NO_MEMORY
    done[0] = 0
    if expansion_load(&buf.f, rows, order, first, n, first_id) == STATUS_OK:
        status = DONE
        for t in range(n):
            i = first + t if order == NULL else order[first + t]
            status = learn_one(l, buf, t, record + t, 0 if labels == NULL else labels[i],
                               0.0 if targets == NULL else targets[i],
                               1.0 if weights == NULL else weights[i])
            if status != DONE:
                break
            done[0] += 1
    expansion_release(&buf.f)
    return status


cdef Py_ssize_t choose_block(const Buffer *buf, Py_ssize_t n,
                             Py_ssize_t asked) noexcept nogil:
    """Examples of the next block: some milliseconds' work, so that an interrupt is prompt."""
    cdef Py_ssize_t block = asked, most
    cdef double work = buf.store.n + 1.0
    if block <= 0:
        block = 128 if buf.store.n >= 1024 else 64
        if buf.store.sparse:
            work *= 200.0
        else:
            work *= buf.store.d
        if not kernel_uses_dots(buf.store.kernel):
            work *= 1000.0
        most = <Py_ssize_t> (1e9 / work)
        if block > most:
            block = most if most > 1 else 1
    return block if block < n else n


def learn(KernelState state, RowSource X, LossSpec loss, StepSpec step, *, task="classify",
          double reg, labels=None, targets=None, weights=None, order=None, nu=None,
          bint offset=False, bint aside=False, double slope=0.0, bint curved=False,
          Py_ssize_t first_id=0, history=None,
          Py_ssize_t record=0, Py_ssize_t block=0, Py_ssize_t start=0, Py_ssize_t stop=-1):
    """Learn from the rows of X, in the order given; the number of examples learnt.

    Parameters
    ----------
    labels : int32 array, for task "classify"
    targets : float64 array, for task "regress"
    weights : float64 array, optional
    order : intp array, optional
        Row numbers; the rows as they come by default.
    nu : float, optional
        The nu-trick: the margin is learnt.
    offset : bool
        Learn an offset.
    aside : bool
        The state's offset was set for f as it is: it goes into predictions, not into the loss.
    slope, curved
        The largest slope of the loss, and whether the slope of small errors is less: a stream of
        targets steps in units of their spread.
    first_id : int
        Row i of X is column first_id + i of a precomputed kernel.
    history : dict of arrays, optional
        Filled from entry `record` on.
    block : int
        Examples at a time; 0 chooses.
    start, stop : int
        Part of the order to learn.

    Raises
    ------
    FloatingPointError
        A number would leave its range; `args[1]` is the row.  Examples before it were learnt.
    """
    cdef Learner l
    cdef Buffer *buf = state.buf
    cdef Py_ssize_t n, i = start, m, done = 0
    cdef int status = DONE
    cdef const int32_t[::1] label_view
    cdef const double[::1] target_view, weight_view
    cdef const Py_ssize_t[::1] order_view
    cdef double[::1] h_eta, h_loss, h_error, h_epsilon, h_prediction
    cdef Py_ssize_t[::1] h_support
    cdef const int32_t *labels_ = NULL
    cdef const double *targets_ = NULL
    cdef const double *weights_ = NULL
    cdef const Py_ssize_t *order_ = NULL

    n = X.n_rows
    if order is not None:
        order_view = order
        n = len(order)
        order_ = &order_view[0] if n else NULL
    if stop < 0 or stop > n:
        stop = n
    if X.n_features != buf.store.d:
        raise ValueError(f"rows of {X.n_features} features, expected {buf.store.d}")
    if labels is not None:
        label_view = labels
        labels_ = &label_view[0]
    if targets is not None:
        target_view = targets
        targets_ = &target_view[0]
    if weights is not None:
        weight_view = weights
        weights_ = &weight_view[0]
    if loss.loss.kind == LOSS_GRAPH_HINGE and loss.loss.n_labels != buf.f.n_out:
        raise ValueError("the taxonomy's distances do not match the number of outputs")
    l.loss = &loss.loss
    l.step = &step.step
    l.task = TASKS[task]
    l.smd = step.step.kind == STEP_SMD
    l.capped = not l.smd and (step.step.flags & STEP_CAPPED) != 0
    if l.smd != buf.trace:
        raise ValueError("the machine was made for another kind of step size")
    l.offset, l.aside = offset, aside
    l.nu_trick = nu is not None
    l.nu = nu if nu is not None else 0.0
    l.reg = reg
    l.cap = step.step.eta_max
    if reg > 0.0 and l.cap > 1.0 / reg:
        l.cap = 1.0 / reg
    l.mu = step.step.mu
    l.decay = step.step.decay
    l.t, l.eta, l.errors, l.loss_sum = state.t, state.eta, state.errors, state.loss_sum
    l.epsilon, l.eta_epsilon, l.z_epsilon = state.epsilon, state.eta_epsilon, state.z_epsilon
    l.b, l.eta_b, l.z_b, l.work = state.b, state.eta_b, state.z_b, buf.work + 8 * buf.f.n_out
    l.b_mean, l.average_from, l.drift = state.b_mean, state.average_from, NULL
    if buf.average and buf.slot_of == NULL and l.task == TASK_CLASSIFY:
        l.drift = &state.drift      # of a stream
    l.share, l.targets, l.cut, l.slope, l.curved = NULL, NULL, NULL, slope, curved
    if state.running is not None:
        if len(state.running) == TARGETS_SIZE and slope > 0.0 and not l.smd:
            l.targets = <Targets *> state.running_
        elif len(state.running) == SHARE_SIZE and l.nu_trick and l.task == TASK_NOVELTY:
            l.share = <Share *> state.running_
        elif len(state.running) == CUT_SIZE and aside and l.task == TASK_CLASSIFY:
            l.cut = <Cut *> state.running_
    state.set_mean_scores(
        (l.share != NULL or l.cut != NULL or l.drift != NULL) and buf.average)
    l.h_eta = l.h_loss = l.h_error = l.h_epsilon = l.h_prediction = NULL
    l.h_support = NULL
    if history is not None and stop > start:
        h_eta, h_loss, h_error = history["eta"], history["loss"], history["error"]
        h_epsilon, h_prediction = history["epsilon"], history["prediction"]
        h_support = history["support"]
        if record + stop - start > h_eta.shape[0]:
            raise ValueError("the history is too short")
        l.h_eta, l.h_loss, l.h_error = &h_eta[0], &h_loss[0], &h_error[0]
        l.h_epsilon, l.h_prediction = &h_epsilon[0], &h_prediction[0]
        l.h_support = &h_support[0]
    try:
        while i < stop and status == DONE:
            m = choose_block(buf, stop - i, block)
            with nogil:
                status = learn_block(&l, buf, &X.rows, order_, i, m, first_id, labels_, targets_,
                                     weights_, record + i - start, &done)
            i += done
            PyErr_CheckSignals()
    finally:
        state.t, state.eta, state.errors, state.loss_sum = l.t, l.eta, l.errors, l.loss_sum
        state.average_from = l.average_from
        state.epsilon, state.eta_epsilon, state.z_epsilon = l.epsilon, l.eta_epsilon, l.z_epsilon
    state.kernel.raise_error()
    loss.raise_error()
    if status == NO_MEMORY:
        raise MemoryError("not enough memory for a block of kernel values")
    if status == OUT_OF_RANGE:
        raise FloatingPointError(
            "a score or a coefficient is out of range", i if order_ == NULL else order_[i])
    return i - start
