"""Adaptive, implicit steps written from their equations: dense, one coordinate after the other.

The offset is a coordinate of value 1.  Every average is a mean over stored iterates, every
implicit step solves its scalar equation by bisection, softmax by its bound.
"""

import numpy as np
from scipy.optimize import brentq

SCALAR = {
    "hinge": (lambda y, f: max(0.0, 1 - y * f), lambda y, f: -y if y * f < 1 else 0.0),
    "squared_hinge": (
        lambda y, f: max(0.0, 1 - y * f) ** 2,
        lambda y, f: -2 * y * max(0.0, 1 - y * f),
    ),
    "perceptron": (lambda y, f: max(0.0, -y * f), lambda y, f: -y if y * f <= 0 else 0.0),
    "logistic": (lambda y, f: np.logaddexp(0, -y * f), lambda y, f: -y / (1 + np.exp(y * f))),
    "modified_huber": (
        lambda y, f: max(0.0, 1 - y * f) ** 2 if y * f >= -1 else -4 * y * f,
        lambda y, f: -2 * y * max(0.0, 1 - y * f) if y * f >= -1 else -4.0 * y,
    ),
    "novelty": (lambda y, f: max(0.0, 1 - f), lambda y, f: -1.0 if f < 1 else 0.0),
    "epsilon_insensitive": (
        lambda y, f: max(0.0, abs(f - y) - 0.1),
        lambda y, f: np.sign(f - y) if abs(f - y) > 0.1 else 0.0,
    ),
    "huber": (
        lambda y, f: 0.5 * (f - y) ** 2 if abs(f - y) <= 1 else abs(f - y) - 0.5,
        lambda y, f: np.clip(f - y, -1.0, 1.0),
    ),
    "squared": (lambda y, f: 0.5 * (f - y) ** 2, lambda y, f: f - y),
}


def implicit(name, y, f, q, c):
    """delta = c dloss(f - q delta), by bisection; the kinks of straight losses in closed form."""
    value, slope = SCALAR[name]
    xi = slope(y, f)
    if name == "perceptron" or xi == 0.0:
        return c * xi
    if name in ("hinge", "novelty", "epsilon_insensitive"):
        return xi * min(c, value(y, f) / q)
    # the share of the plain step, which may be as small as the slope
    share = brentq(
        lambda s: s - slope(y, f - q * c * xi * s) / xi, 0.0, 1.0, xtol=1e-300, rtol=1e-15
    )
    return c * xi * share


class Adaptive:
    """K outputs over d features; see osvm/linear/adaptive_step.pxd for the equations."""

    def __init__(self, loss, d, K=1, *, eta0=0.5, reg=0.0, offset=True, numbers=False,
                 normalized=False, mirror=False, forget=1.0, tail=True, average_from=0,
                 coin=None, implicit=True):  # fmt: skip
        self.loss, self.K, self.eta0, self.reg = loss, K, eta0, reg
        self.offset, self.numbers, self.normalized, self.mirror = (
            offset,
            numbers,
            normalized,
            mirror,
        )
        self.implicit = implicit
        self.forget, self.tail, self.average_from, self.coin = forget, tail, average_from, coin
        self.v = np.zeros((K, d + 1))  # theta in the mirror form; the last one is the offset
        self.G = np.zeros((K, d + 1))
        self.n = np.zeros(d + 1)
        self.t = self.N = 0
        self.ys, self.cs, self.past = [], [], []
        self.bets = np.zeros((4, K, d + 1))  # theta, L, A, R of coin betting

    def deviation(self):
        if not self.numbers:
            return 1.0
        if not self.ys:
            return 0.0
        y, c = np.array(self.ys), np.array(self.cs)
        mean = np.average(y, weights=c) if self.offset else 0.0
        return np.sqrt(np.average((y - mean) ** 2, weights=c))

    def rates(self):
        with np.errstate(divide="ignore", invalid="ignore"):
            r = np.where(self.G > 0, self.eta0 * self.deviation() / np.sqrt(self.G), 0.0)
            if self.normalized:
                n = np.append(self.n[:-1], 1.0)
                r = np.where(n > 0, r / n, 0.0) * (np.sqrt(self.t / self.N) if self.N else 0.0)
        return r

    def weights(self, v=None):
        """w and, last, b."""
        v = self.v if v is None else v
        if not self.mirror:
            return v
        r = self.rates()
        w = v * r / (1 + self.reg * self.t * r)
        w[:, -1] = v[:, -1]  # b has no regularizer and is kept as it is
        return w

    def average(self):
        m = len(self.past)
        start = 0
        if self.tail and m > 64:
            start = 2 ** int(np.log2(m - 1)) // 2
            start = 0 if start < 64 else start
        return self.weights(np.mean(self.past[start:], axis=0))

    def grow(self, x):
        grown = np.abs(x) > self.n
        if not self.mirror:
            ratio = np.where(grown[:-1], self.n[:-1] / np.where(x[:-1] == 0, 1, np.abs(x[:-1])), 1)
            self.v[:, :-1] *= ratio
            for old in self.past:
                old[:, :-1] *= ratio
        self.n = np.maximum(self.n, np.abs(x))

    def learn(self, x, y, c=1.0):
        """The scores before the step."""
        x = np.append(x, 1.0 if self.offset else 0.0)
        if self.normalized and c > 0:
            self.grow(x)
        f = self.weights() @ x
        self.t += 1
        if self.normalized and c > 0:
            used = np.append(np.where(self.n[:-1] > 0, self.n[:-1], 1.0), 1.0)
            self.N += np.sum((x / used) ** 2)
        first = self.numbers and not self.ys and c > 0
        if self.numbers and c > 0:
            self.ys.append(y)
            self.cs.append(c)
        self.G *= self.forget
        if self.reg and not self.mirror:
            self.v[:, :-1] *= 1 - self.reg * self.eta0 / np.sqrt(self.t)
        if first and self.offset and self.coin is None:
            self.v[0, -1] = y
        elif c > 0 and self.coin is not None:
            self.bet(x, self.xi(f, y), c)
        elif c > 0 and self.deviation() > 0:
            self.step(x, f, y, c)
        if self.t > self.average_from:
            self.past.append(self.v.copy())
        return f

    def xi(self, f, y):
        if self.K == 1:
            return np.array([SCALAR[self.loss][1](y, f[0])])
        if self.loss == "softmax":
            p = np.exp(f - f.max())
            p /= p.sum()
            p[y] -= 1
            return p
        if self.loss == "multiclass_hinge":
            xi, others = np.zeros(self.K), np.delete(np.arange(self.K), y)
            rival = others[np.argmax(f[others])]
            if f[y] - f[rival] < 1:
                xi[y], xi[rival] = -1, 1
            return xi
        return np.array([SCALAR[self.loss][1](1 if k == y else -1, f[k]) for k in range(self.K)])

    def step(self, x, f, y, c):
        xi = self.xi(f, y)
        self.G += c * np.outer(xi**2, x**2)
        r = self.rates()
        used = r / (1 + self.reg * self.t * r) if self.mirror else r.copy()
        used[:, -1] = r[:, -1]
        q = used @ x**2
        for k in np.flatnonzero(xi):
            if not self.implicit:
                delta = c * xi[k]
            elif self.K == 1:
                delta = implicit(self.loss, y, f[0], q[0], c)
            elif self.loss == "softmax":
                delta = c * xi[k] / (1 + c * q[k] / 2)
            elif self.loss == "multiclass_hinge":
                value = 1 + f[xi > 0][0] - f[y]
                delta = xi[k] * min(c, value / q[xi != 0].sum())
            else:
                delta = implicit(self.loss, 1 if k == y else -1, f[k], q[k], c)
            move = delta * x
            self.v[k, :-1] -= (move if self.mirror else move * r[k])[:-1]
            self.v[k, -1] -= (move * r[k])[-1]

    def bet(self, x, xi, c):
        theta, L, A, R = self.bets
        for k in range(self.K):
            for j in range(len(x)):
                g = c * xi[k] * x[j]
                if g == 0.0:
                    continue
                L[k, j] = max(L[k, j], abs(g))
                A[k, j] += abs(g)
                R[k, j] = max(R[k, j] - g * self.v[k, j], 0.0)
                theta[k, j] -= g
                self.v[k, j] = (
                    theta[k, j]
                    * (L[k, j] + R[k, j])
                    / (L[k, j] * max(A[k, j] + L[k, j], self.coin * L[k, j]))
                )


class Auto:
    """Settings that compete; (setting, is it the average) of each predictor in order."""

    PREDICTORS = ((0, 0), (0, 1), (1, 0), (1, 1), (2, 1), (3, 0), (3, 1), (4, 0))
    LEAD = np.array([8, 8, 8, 8, 8, 0, 0, 16])  # of the explicit steps, with a rare class

    def __init__(self, d, K, decay, alive=0b11111, loss="auto"):
        self.decay, self.E, self.chosen = decay, np.zeros(8), 0
        self.wrong, self.cs, self.errors = [], [], 0  # since the last look; of what answered
        # with "auto" one setting compares several classes, the others take one against all
        jointly = "multiclass_hinge" if K > 1 else "hinge"
        self.alive = [
            Adaptive(loss if loss != "auto" else jointly if g == 2 else "hinge", d, K, **words)
            for g, words in enumerate((
                {"eta0": 0.5},
                {"eta0": 0.1},
                {"eta0": 2.0, "normalized": True},
                {"eta0": 10.0, "normalized": True, "implicit": False},
                {"eta0": 0.5, "forget": 0.98},
            ))
        ]  # fmt: skip
        self.alive = [one if alive >> g & 1 else None for g, one in enumerate(self.alive)]
        self.E[[not alive >> g & 1 for g, _ in self.PREDICTORS]] = np.nan
        self.t, self.d, self.came = 0, d, np.zeros(max(K, 2))
        self.found = np.zeros(max(K, 2))

    def weights(self):
        g, mean = self.PREDICTORS[self.chosen]
        return self.alive[g].average() if mean else self.alive[g].weights()

    def errs(self, W, x, y):
        f = W @ np.append(x, 1.0)
        return (f[0] > 0) != (y > 0) if len(f) == 1 else np.argmax(f) != y

    def learn(self, x, y, c=1.0):
        self.t += 1
        wrong = np.full(8, np.nan)
        for p, (g, mean) in enumerate(self.PREDICTORS):
            one = self.alive[g]
            if one is not None:
                if one.normalized and c > 0:
                    one.grow(np.append(x, 1.0))
                wrong[p] = self.errs(one.average() if mean and one.past else one.weights(), x, y)
        self.errors += wrong[self.chosen]
        two = len(self.came) == 2
        label = int(y > 0) if two else y
        cost = c
        if self.came[label] + c < self.came.max() / 8:
            recall = (self.found[label] + 1) / (self.came[label] + 2)
            cost = c * min(3, (2 - recall) / recall)
        for one in self.alive:
            if one is not None:
                one.learn(x, y, cost if one.K == 1 else c)
        self.came[label] += c
        self.found[label] += c * (1 - wrong[self.chosen])
        if c > 0:
            c = cost
            self.E = self.decay * self.E + c * wrong
            self.choose()
            self.wrong.append(wrong)
            self.cs.append(c)
        if self.t == 512:
            self.wrong, self.cs = [], []
        if self.t >= 1024 and self.t & (self.t - 1) == 0:
            self.drop()

    def choose(self):
        rare = ((self.came > 0) & (self.came < self.came.max() / 8)).any()
        figures = self.E + (rare and self.t > self.d) * self.LEAD
        if not np.nanmin(figures) >= figures[self.chosen]:
            self.chosen = int(np.nanargmin(figures))

    def drop(self):
        wrong, c = np.array(self.wrong), np.array(self.cs)
        total = c @ wrong
        best = int(np.nanargmin(total))
        for g in range(4):
            if self.alive[g] is None:
                continue
            own = [p for p, (h, _) in enumerate(self.PREDICTORS) if h == g]
            p = own[int(np.argmin(total[own]))]
            if total[p] - total[best] > 3 * np.sqrt(c**2 @ (wrong[:, p] != wrong[:, best])):
                self.alive[g] = None
                self.E[own] = np.nan
        self.choose()
        self.wrong, self.cs = [], []
