"""Naive references of the learners with cached outputs: plain numpy, one example at a time.

Written from Kecman and Melki, "Fast online algorithms for support vector machines" (lists 1,
2, 3a, 3b) and from the algorithms that Vishwanathan, Schraudolph and Smola (JMLR 2006)
survey.  Every function takes the whole kernel matrix K, labels y of -1/+1 and a list of
epochs, each an order of rows, and keeps nothing clever: outputs are computed from scratch.
"""

import numpy as np


def steps(epochs):
    """(t, i) for all examples, t from 1."""
    t = 0
    for order in epochs:
        for i in order:
            t += 1
            yield t, i


def run(K, y, epochs, update):
    """alpha, b, the averages of both over all steps; `update` changes them in place."""
    state = {"alpha": np.zeros(len(y)), "b": 0.0}
    alpha_sum, b_sum, count = np.zeros(len(y)), 0.0, 0
    for t, i in steps(epochs):
        update(state, t, i, K[i] @ state["alpha"] + state["b"])
        alpha_sum += state["alpha"]
        b_sum += state["b"]
        count = t
    return state["alpha"], state["b"], alpha_sum / count, b_sum / count


def ol_svm(K, y, epochs, C, bias=False, regularized=False):
    """Lists 3a (regularized) and 3b, with (6) and (7) for the bias."""

    def update(state, t, i, f):
        eta = C * np.sqrt(2 / t)
        alpha = state["alpha"]
        violates = y[i] * f < 1
        if regularized:
            alpha[i] = (1 - eta / C) * alpha[i] + (eta * y[i] if violates else 0.0)
        elif violates:
            alpha[i] += eta * y[i]
        if violates and bias:
            state["b"] += eta * y[i]

    return run(K, y, epochs, update)


def norma(K, y, epochs, C, bias=False, printed=False):
    """List 1: the subgradient step, or as printed (alpha_i overwritten, never shrunk)."""

    def update(state, t, i, f):
        eta = C * np.sqrt(2 / t)
        alpha = state["alpha"]
        violates = y[i] * f < 1
        old = alpha[i]
        alpha *= 1 - eta / C
        if printed:
            alpha[i] = eta * y[i] if violates else old
        elif violates:
            alpha[i] += eta * y[i]
        if violates and bias:
            state["b"] += eta * y[i]

    return run(K, y, epochs, update)


def pegaz(K, y, epochs, C, bias=False):
    """List 2: alpha = eta beta, beta_i counts the violations."""
    beta = np.zeros(len(y))

    def update(state, t, i, f):
        eta = C * np.sqrt(2 / t)
        f = eta * (K[i] @ beta) + state["b"]
        if y[i] * f < 1:
            beta[i] += y[i]
            if bias:
                state["b"] += eta * y[i]
        state["alpha"] = eta * beta

    return run(K, y, epochs, update)


def perceptron(K, y, epochs, bias=False):
    """A score of 0 is a mistake."""

    def update(state, t, i, f):
        if y[i] * f <= 0:
            state["alpha"][i] += y[i]
            if bias:
                state["b"] += y[i]

    return run(K, y, epochs, update)


def voted_perceptron(K, y, epochs, K_test, bias=False):
    """Votes of all iterates on the test rows, each weighted by the steps it survived."""
    alpha, b = np.zeros(len(y)), 0.0
    votes = np.zeros(len(K_test))
    for _, i in steps(epochs):
        if y[i] * (K[i] @ alpha + b) <= 0:
            alpha[i] += y[i]
            if bias:
                b += y[i]
        votes += np.where(K_test @ alpha + b >= 0, 1.0, -1.0)
    return votes


def adatron(K, y, epochs, C, eta=None):
    """alpha_i <- clip(alpha_i + eta (1 - y_i o_i), 0, C), eta = 1/K_ii unless given."""

    def update(state, t, i, f):
        step = eta if eta is not None else 1 / K[i, i]
        a = y[i] * state["alpha"][i]
        state["alpha"][i] = y[i] * np.clip(a + step * (1 - y[i] * f), 0, C)

    return run(K, y, epochs, update)


def violations(K, y, alpha, C):
    """|gradient| of the adatron's objective where a bound does not forbid to follow it."""
    a = y * alpha
    g = 1 - y * (K @ alpha)
    g[(a <= 0) & (g < 0)] = 0
    g[(a >= C) & (g > 0)] = 0
    return np.abs(g)


def adatron_largest(K, y, C, tol, max_steps=100000):
    """The adatron that always takes the row with the largest violation."""
    alpha = np.zeros(len(y))
    for _ in range(max_steps):
        v = violations(K, y, alpha, C)
        i = int(np.argmax(v))
        if v[i] <= tol:
            break
        alpha[i] = y[i] * np.clip(y[i] * alpha[i] + (1 - y[i] * (K[i] @ alpha)) / K[i, i], 0, C)
    return alpha


def ballseptron(K, y, epochs, radius):
    """If the ball of this radius around x meets the boundary, learn its worst point."""

    def update(state, t, i, f):
        alpha = state["alpha"]
        norm = np.sqrt(max(alpha @ K @ alpha, 0.0))
        if norm == 0:
            alpha[i] += y[i]
        elif y[i] * f < radius * norm:  # w + y (x - r y w/||w||)
            alpha *= 1 - radius / norm
            alpha[i] += y[i]

    return run(K, y, epochs, update)


def alma(K, y, epochs, slack, margin=None, step=None):
    """ALMA_2 on inputs of unit norm in feature space."""
    margin = np.sqrt(8) / slack if margin is None else margin
    step = np.sqrt(2) if step is None else step
    count = [1]

    def update(state, t, i, f):
        alpha, norm, k = state["alpha"], np.sqrt(K[i, i]), count[0]
        if y[i] * f / norm <= (1 - slack) * margin / np.sqrt(k):
            alpha[i] += step / np.sqrt(k) * y[i] / norm
            alpha /= max(1.0, np.sqrt(alpha @ K @ alpha))
            count[0] += 1

    return run(K, y, epochs, update)


def alma_linear(X, y, epochs, p, slack, margin=None, step=None):
    """ALMA_p: the weight vector after all steps."""
    margin = np.sqrt(8) / slack if margin is None else margin
    step = np.sqrt(2) if step is None else step
    q = p / (p - 1)

    def turn(v, r):  # gradient of ||v||_r^2 / 2
        size = np.linalg.norm(v, r)
        if size == 0:
            return np.zeros_like(v)
        return np.sign(v) * np.abs(v) ** (r - 1) / size ** (r - 2)

    w, k = np.zeros(X.shape[1]), 1
    for _, i in steps(epochs):
        size = np.linalg.norm(X[i], p)
        if size == 0:
            continue
        x = X[i] / size
        if y[i] * (w @ x) <= (1 - slack) * margin * np.sqrt(p - 1) / np.sqrt(k):
            w = turn(turn(w, q) + step / np.sqrt((p - 1) * k) * y[i] * x, p)
            w /= max(1.0, np.linalg.norm(w, q))
            k += 1
    return w


class Lasvm:
    """PROCESS and REPROCESS on an active set; g = y - f without the bias."""

    def __init__(self, K, y, C, tau, admit_all=False):
        self.K, self.y, self.tau, self.admit_all = K, y, tau, admit_all
        self.low, self.high = np.minimum(0, C * y), np.maximum(0, C * y)
        self.alpha = np.zeros(len(y))
        self.active = []
        self.b, self.delta = 0.0, np.inf

    def gradient(self, s):
        return self.y[s] - self.K[s] @ self.alpha

    def extremes(self):
        """i: largest g that may grow; j: smallest g that may fall.

        Gradients within 1e-10 are equal, and of equals the first counts.
        """
        i = j = None
        for s in self.active:
            g = self.gradient(s)
            if self.alpha[s] < self.high[s] and (i is None or g > self.gradient(i) + 1e-10):
                i = s
            if self.alpha[s] > self.low[s] and (j is None or g < self.gradient(j) - 1e-10):
                j = s
        return i, j

    def step(self, i, j):
        """Move weight from j to i; False when they do not violate."""
        gap = self.gradient(i) - self.gradient(j)
        if gap <= self.tau:
            return False
        curvature = self.K[i, i] + self.K[j, j] - 2 * self.K[i, j]
        size = min(
            gap / max(curvature, 1e-12),
            self.high[i] - self.alpha[i],
            self.alpha[j] - self.low[j],
        )
        self.alpha[i] += size
        self.alpha[j] -= size
        for s in (i, j):  # land on a bound exactly
            for bound in (self.low[s], self.high[s]):
                if abs(self.alpha[s] - bound) < 1e-12 * (self.high[s] - self.low[s]):
                    self.alpha[s] = bound
        return True

    def process(self, k):
        if k in self.active:
            return
        i, j = self.extremes()
        if self.y[k] > 0:
            i = k
        else:
            j = k
        if i is None or j is None:
            self.active.append(k)
            return
        if self.gradient(i) - self.gradient(j) > self.tau or self.admit_all:
            self.active.append(k)
        self.step(i, j)

    def reprocess(self):
        i, j = self.extremes()
        if i is None or j is None:
            return False
        moved = self.step(i, j)
        if not moved:
            self.b = (self.gradient(i) + self.gradient(j)) / 2
            self.delta = self.gradient(i) - self.gradient(j)
            return False
        i, j = self.extremes()
        if i is None or j is None:
            return False
        g_i, g_j = self.gradient(i), self.gradient(j)
        keep = []
        for s in self.active:
            g = self.gradient(s)
            idle = self.alpha[s] == 0
            if idle and (
                (self.y[s] < 0 and g >= g_i - 1e-10) or (self.y[s] > 0 and g <= g_j + 1e-10)
            ):
                continue
            keep.append(s)
        self.active = keep
        self.b, self.delta = (g_i + g_j) / 2, g_i - g_j
        return True

    def learn(self, epochs, finish=True):
        for _, k in steps(epochs):
            self.process(k)
            self.reprocess()
        while finish and self.reprocess():
            pass
        return self.alpha, self.b


def dual_objective(K, y, alpha):
    """sum |alpha| - alpha' K alpha / 2, which the support vector machine maximises."""
    return np.abs(alpha).sum() - 0.5 * alpha @ K @ alpha
