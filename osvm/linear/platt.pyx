"""Platt scaling learnt online: from a score to a probability.

p = 1 / (1 + exp(-(a f + c))) with one pair (a, c) per output, fitted to the scores
that examples had before they were learnt (test-then-train), so that no data are
held back.  Each example makes one damped Newton step on its log loss; the
curvature is forgotten at the rate 1/`memory`, because scores change while the
model learns.

Source: Platt (1999) for the sigmoid; the recursion is that of recursive least
squares with forgetting.
"""
import numpy as np

from osvm._input.schema import ArrayField, AtMost

from libc.math cimport exp, fabs
from libc.stdint cimport int32_t

_STATE = ArrayField((AtMost(2**31), 6), np.float64, -1e100, 1e100)

cdef double MEMORY = 5000.0     # examples; how fast old scores are forgotten
cdef double RIDGE = 1.0         # curvature of the prior a = 1, c = 0
cdef double HUGE_SCORE = 1e40
cdef double LARGEST = 0.5       # step of a or c for one example


cdef inline double sigmoid(double z) noexcept nogil:
    if z >= 0.0:
        return 1.0 / (1.0 + exp(-z))
    z = exp(z)
    return z / (1.0 + z)


cdef void learn_one(double *s, double f, double target) noexcept nogil:
    """One Newton step; s = (a, c, h_aa, h_ac, h_cc, n)."""
    cdef double keep, p, slope, weight, g_a, g_c, det, step_a, step_c, largest
    if not fabs(f) < HUGE_SCORE:    # NaN, or beyond what the curvature can hold
        return
    s[5] += 1.0
    keep = 1.0 - 1.0 / (MEMORY if s[5] > MEMORY else s[5] + 1.0)
    # The first examples are all kept: forgetting begins when there is enough.
    if s[5] < MEMORY:
        keep = 1.0
    p = sigmoid(s[0] * f + s[1])
    weight = p * (1.0 - p)
    s[2] = keep * s[2] + weight * f * f + (1.0 - keep) * RIDGE
    s[3] = keep * s[3] + weight * f
    s[4] = keep * s[4] + weight + (1.0 - keep) * RIDGE
    slope = p - target
    g_a, g_c = slope * f, slope
    det = s[2] * s[4] - s[3] * s[3]
    if det <= 0.0:
        return
    step_a = (s[4] * g_a - s[3] * g_c) / det
    step_c = (s[2] * g_c - s[3] * g_a) / det
    largest = fabs(step_a) if fabs(step_a) > fabs(step_c) else fabs(step_c)
    if largest > LARGEST:
        step_a *= LARGEST / largest
        step_c *= LARGEST / largest
    s[0] -= step_a
    s[1] -= step_c


class Platt:
    """The sigmoids of a model's outputs.

    Parameters
    ----------
    n_out : int
        One for two classes, else one per class.

    Examples
    --------
    >>> import numpy as np
    >>> from osvm.linear.platt import Platt
    >>> rng = np.random.default_rng(0)
    >>> f = rng.normal(size=20_000)
    >>> y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-(2 * f + 1))), 1.0, -1.0)
    >>> platt = Platt(1)
    >>> platt.learn(f[:, None], y)
    >>> platt.state[0, :2].round(0).tolist()
    [2.0, 1.0]
    """

    def __init__(self, n_out):
        self.state = np.zeros((n_out, 6))
        self.state[:, 0] = 1.0
        self.state[:, [2, 4]] = RIDGE

    def learn(self, double[:, ::1] scores, targets):
        """Take the scores that examples had before they were learnt.

        `targets` are -1/+1 for one output, codes for several.
        """
        cdef double[:, ::1] state = self.state
        cdef const double[::1] y
        cdef const int32_t[::1] labels
        cdef Py_ssize_t i, k, K = state.shape[0]
        if scores.shape[1] != K or len(targets) != scores.shape[0]:
            raise ValueError("scores and targets do not fit")
        if K == 1:
            y = targets
            with nogil:
                for i in range(scores.shape[0]):
                    learn_one(&state[0, 0], scores[i, 0], y[i] > 0.0)
        else:
            labels = targets
            with nogil:
                for i in range(scores.shape[0]):
                    for k in range(K):
                        learn_one(&state[k, 0], scores[i, k], labels[i] == k)

    def probability(self, scores):
        """Probability of "yes" for each score, rows x outputs."""
        z = self.state[:, 0] * scores + self.state[:, 1]
        return 0.5 * (1.0 + np.tanh(0.5 * z))

    def copy(self):
        """An independent copy."""
        return Platt.from_state(self.state, len(self.state))

    @staticmethod
    def from_state(state, n_out):
        """The sigmoids whose `state` this is."""
        problem = _STATE.layout_problem(state) or _STATE.problem(state)
        if problem is not None or len(state) != n_out:
            raise ValueError(f"the saved sigmoids of {n_out} output(s): the array "
                             f"{problem or f'has {len(state)} rows'}")
        twin = Platt(n_out)
        twin.state[:] = state
        return twin

    def with_outputs(self, n_out):
        """More outputs: old ones first; a binary model's becomes those of its two classes."""
        wide = Platt(n_out)
        old = self.state
        if len(old) == 1:
            wide.state[1] = old[0]
            wide.state[0] = old[0] * [1, -1, 1, -1, 1, 1]  # the score changes its sign
        else:
            wide.state[:len(old)] = old
        return wide
