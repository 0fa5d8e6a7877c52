"""NORMA and SVMD written as the paper has them: every inner product from the Gram matrix.

Follows Vishwanathan, Schraudolph, Smola (JMLR 2006), equations in brackets, with the
corrections that the documentation lists.  Nothing is maintained incrementally: each step
costs O(t^2), which is the point of a reference.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

# ------------------------------------------------------------------ kernels


def linear(X, Z):
    return X @ Z.T


def rbf(gamma):
    def k(X, Z):
        squares = (X**2).sum(1)[:, None] + (Z**2).sum(1)[None] - 2 * X @ Z.T
        return np.exp(-gamma * np.maximum(squares, 0))

    return k


def polynomial(gamma, coef0, degree):
    return lambda X, Z: (gamma * X @ Z.T + coef0) ** degree


# ------------------------------------------------------------------ losses
# (value, xi, rho) of the scores f, a vector with one entry per output.


def hinge(y, f, eps):
    gap = eps - y * f[0]
    return (gap, np.array([-y]), np.zeros((1, 1))) if gap > 0 else none(1)


def logistic(y, f, eps):
    p = 1 / (1 + np.exp(-f[0]))
    xi = -y / (1 + np.exp(y * f[0]))
    return np.log1p(np.exp(-y * f[0])), np.array([xi]), np.array([[p * (1 - p)]])


def novelty(y, f, eps):
    return (eps - f[0], np.array([-1.0]), np.zeros((1, 1))) if f[0] < eps else none(1)


def squared(y, f, eps):
    r = f[0] - y
    return r * r / 2, np.array([r]), np.ones((1, 1))


def epsilon_insensitive(width):
    def loss(y, f, eps):
        r = f[0] - y
        if abs(r) <= width:
            return none(1)
        return abs(r) - width, np.array([np.sign(r)]), np.zeros((1, 1))

    return loss


def huber(delta):
    def loss(y, f, eps):
        r = f[0] - y
        if abs(r) <= delta:
            return r * r / 2, np.array([r]), np.ones((1, 1))
        value = delta * abs(r) - delta * delta / 2
        return value, np.array([delta * np.sign(r)]), np.zeros((1, 1))

    return loss


def graph_hinge(distance):
    def loss(y, f, eps):
        reach = eps * distance[y] + f
        reach[y] = -np.inf
        rival = int(np.argmax(reach))
        gap = reach[rival] - f[y]
        if gap <= 0:
            return none(len(f))
        xi = np.zeros(len(f))
        xi[y], xi[rival] = -1, 1
        return gap, xi, np.zeros((len(f), len(f)))

    return loss


def multiclass_hinge(y, f, eps):
    return graph_hinge(1.0 - np.eye(len(f)))(y, f, eps)


def softmax(y, f, eps):
    p = np.exp(f - f.max())
    p /= p.sum()
    xi = p.copy()
    xi[y] -= 1
    return -np.log(p[y]), xi, np.diag(p) - np.outer(p, p)


def one_vs_rest(binary):
    def loss(y, f, eps):
        parts = [binary(1.0 if k == y else -1.0, f[k : k + 1], eps) for k in range(len(f))]
        return (
            sum(p[0] for p in parts),
            np.array([p[1][0] for p in parts]),
            np.diag([p[2][0, 0] for p in parts]),
        )

    return loss


def none(K):
    return 0.0, np.zeros(K), np.zeros((K, K))


# ------------------------------------------------------------------ learners


@dataclass
class Reference:
    """SVMD when `mu` is given, else NORMA with `schedule(t)`."""

    loss: object
    kernel: object
    reg: float
    K: int = 1
    label_kernel: np.ndarray | None = None
    schedule: object = None
    eta0: float = 0.1
    mu: float = 0.1
    decay: float = 0.95
    eta_min: float = 0.0
    eta_max: float = np.inf
    offset: bool = False
    offset_eta0: float = 0.1
    nu: float | None = None
    epsilon0: float = 1.0
    epsilon_eta0: float = 1.0
    budget: float = np.inf
    victim: object = None  # (alpha, gram, kappa) -> index; None: the oldest
    capped: bool = False  # steps of min(eta, loss / (|xi|^2 k(x, x)))
    join: object = None  # (na, ns, inner, k) -> (loss, h) of a merge, or None to project only
    rows: list = field(default_factory=list)

    def __post_init__(self):
        K = self.K
        self.kappa = np.eye(K) if self.label_kernel is None else self.label_kernel
        self.eta_max = min(self.eta_max, 1 / self.reg if self.reg > 0 else np.inf)
        self.eta = min(self.eta0, self.eta_max)
        self.alpha, self.beta = np.zeros((0, K)), np.zeros((0, K))
        self.b, self.z_b = np.zeros(K), np.zeros(K)
        self.eta_b = np.full(K, self.offset_eta0)
        self.eps, self.eta_eps, self.z_eps = self.epsilon0, self.epsilon_eta0, 0.0
        self.t = 0
        self.gram = np.zeros((0, 0))  # of the stored rows

    def inner(self, u, v):
        """<f_u, f_v> of two coefficient matrices over the stored rows."""
        return float(np.sum(self.gram * (u @ self.kappa @ v.T)))

    @property
    def pi(self):
        return self.inner(self.alpha, self.beta)

    @property
    def sq_f(self):
        return self.inner(self.alpha, self.alpha)

    def values(self, x):
        """f(x, .) without the offset, and z(x, .)."""
        if not self.rows:
            return np.zeros(self.K), np.zeros(self.K)
        k = self.kernel(np.array(self.rows), x[None])[:, 0]
        return k @ self.alpha @ self.kappa, k @ self.beta @ self.kappa

    def step(self, x, y, weight=1.0):
        self.t += 1
        smd = self.schedule is None
        f, z = self.values(x)
        score = f + self.b
        value, xi, rho = self.loss(y, score, self.eps)
        sigma = -1.0 if value > 0 else 0.0
        value, xi, rho = weight * value, weight * xi, weight * rho
        pull = weight * (sigma + self.nu) if self.nu is not None else 0.0
        if smd:
            gv = self.reg * self.pi + xi @ z  # (48)
            self.eta = self._clip(self.eta * max(0.5, 1 - self.mu * gv))  # (36)
            self.eta_b = self.eta_b * np.maximum(0.5, 1 - self.mu * xi * self.z_b)  # (54)
            self.eta_eps *= max(0.5, 1 + self.mu * self.z_eps * self.eps * pull)  # (60)
        else:
            self.eta = min(self.schedule(self.t), self.eta_max)
            self.eta_b[:] = self.eta
            self.eta_eps = self.eta
        eta, lam = self.eta, self.decay
        tau = eta
        if self.capped and np.any(xi != 0):
            size = self.kernel(x[None], x[None])[0, 0] * (xi @ self.kappa @ xi)
            tau = min(eta, value / (size + self.offset * (xi @ xi)))
            self.eta_b[:] = tau
        self.tau = tau
        chi = rho @ z  # (46), (47)
        # (37): z <- lam z - eta (g + lam H z), H z = reg z + chi k(x, .)
        dec = 1 - eta * self.reg
        self.beta = dec * lam * self.beta - eta * self.reg * self.alpha
        self.alpha = dec * self.alpha
        if np.any(xi != 0):
            self.rows.append(np.array(x, dtype=float))
            k = self.kernel(np.array(self.rows), x[None])
            self.gram = np.block([[self.gram, k[:-1]], [k.T]])
            self.alpha = np.vstack([self.alpha, -tau * xi])
            self.beta = np.vstack([self.beta, -eta * (xi + lam * chi)])
            if len(self.rows) > self.budget:
                self.evict()
        if self.offset:
            self.b = self.b - self.eta_b * xi  # (53)
            self.z_b = lam * self.z_b - self.eta_b * xi  # (55)
        if self.nu is not None:
            old = self.eps
            self.eps = old * np.exp(self.eta_eps * old * pull)  # (59)
            self.z_eps = lam * self.z_eps + self.eta_eps * old * pull * (1 + lam * self.z_eps)
        return score, value

    def _clip(self, eta):
        return min(max(eta, self.eta_min), self.eta_max)

    def evict(self):
        """Remove one of the old rows; the newest stays."""
        if self.victim == "join":
            self.join_newest()
            return
        i = 0 if self.victim is None else self.victim(self.alpha, self.gram, self.kappa)
        del self.rows[i]
        self.gram = np.delete(np.delete(self.gram, i, 0), i, 1)
        self.alpha = np.delete(self.alpha, i, 0)
        self.beta = np.delete(self.beta, i, 0)

    def join_newest(self):
        """The newest term and the partner that loses least become one."""
        new = len(self.rows) - 1
        best = (np.inf, 0, 0.0)
        norms = np.sqrt(np.einsum("ik,kl,il->i", self.alpha, self.kappa, self.alpha))
        for i in range(new):
            k, own, other = self.gram[i, new], self.gram[new, new], self.gram[i, i]
            na, ns = norms[new] * np.sqrt(own), norms[i] * np.sqrt(other)
            found = (min(na, ns) ** 2 * (1 - k * k / (own * other)), float(na > ns))
            inner = self.alpha[new] @ self.kappa @ self.alpha[i]
            if self.join is not None and inner > 0:
                found = min(self.join(na, ns, inner, k), found, key=lambda pair: pair[0])
            if found[0] < best[0]:
                best = (found[0], i, found[1])
        _, i, h = best
        row = h * self.rows[new] + (1 - h) * self.rows[i]
        # both terms are projected onto k(row, .)
        ends = np.array([self.rows[new], self.rows[i]])
        c = self.kernel(ends, row[None])[:, 0] / self.kernel(row[None], row[None])[0, 0]
        for name in ("alpha", "beta"):
            both = getattr(self, name)
            joined = c[0] * both[new] + c[1] * both[i]
            rest = np.delete(both, [i, new], 0)
            setattr(self, name, np.insert(rest, i if h == 0 else len(rest), joined, 0))
        del self.rows[new], self.rows[i]
        self.rows.insert(i if h == 0 else len(self.rows), row)
        self.gram = self.kernel(np.array(self.rows), np.array(self.rows))


def interpolate(table, m, k):
    """Bilinear, of a table over m in [0, 1/2] and k in [0, 1]."""
    x, y = m * 2 * (table.shape[0] - 1), k * (table.shape[1] - 1)
    i, j = min(int(x), table.shape[0] - 2), min(int(y), table.shape[1] - 2)
    return np.array([i + 1 - x, x - i]) @ table[i : i + 2, j : j + 2] @ [j + 1 - y, y - j]


def merging(tables):
    """(loss, h) of a merge, from the tables of h, its loss, and the loss by the angle."""

    def merge(na, ns, inner, k):
        m, k = min(na, ns) / (na + ns), min(k, 1.0)
        h, loss, angle = (interpolate(table, m, k) for table in tables)
        loss = min(na, ns) ** 2 * (1 - k) ** 2 * loss + 2 * (na * ns - inner) * (1 - k) * angle
        return loss, h if na <= ns else 1 - h

    return merge


def smallest_coefficient(alpha, gram, kappa):
    return int(np.argmin(np.linalg.norm(alpha[:-1], axis=1)))


def smallest_term(alpha, gram, kappa):
    """Least ||alpha_i k(x_i, .)|| in the feature space."""
    squares = np.einsum("ik,kl,il->i", alpha, kappa, alpha) * np.diag(gram)
    return int(np.argmin(squares[:-1]))


def least_change(alpha, gram, kappa):
    """Least sum of squared changes of f over the rows that were there."""
    moved = np.linalg.norm(alpha[:-1] @ kappa, axis=1) ** 2
    return int(np.argmin(moved * (gram[:-1, :-1] ** 2).sum(1)))


# A new eviction rule needs one entry here: which of the old rows goes (None: the oldest;
# "join": none, the newest term and one of the old become one).
VICTIMS = {
    "fifo": None,
    "coefficient": smallest_coefficient,
    "term": smallest_term,
    "change": least_change,
    "merge": "join",
    "project": "join",
}


# ------------------------------------------------------------------ what a stream follows


class Quantile:
    """Running quantile of scores, kept in units of their mean size and of a mass."""

    def __init__(self, nu):
        self.nu, self.count, self.weight = nu, 0, 0.0
        self.level = self.shortfall = self.spread = 0.0
        self.size = 0.0  # everything else is in units of it, and it is in units of the mass

    def judge(self, score, weight, mass=1.0):
        if weight == 0 or (self.size == 0 and score == 0):
            return
        self.count += 1
        self.weight += weight
        if self.size == 0:
            self.size, self.level = abs(score) / mass, np.sign(score)
        scale = self.size * mass
        relative = weight * self.count / self.weight
        gap = score / scale - self.level
        gap = 0.0 if abs(gap) <= 1e-6 * abs(self.level) else gap
        rate = min(0.5, relative / (self.nu * self.count + 2))
        self.spread += 2 / (self.count + 2) * (max(gap, 0.0) - self.spread)
        if gap < 0:
            self.shortfall += rate * (-gap - self.shortfall)
        step = max(self.shortfall, self.spread * np.sqrt(rate))
        self.level += 2 * rate * step * (self.nu - (gap < 0))
        rate = min(1.0, 4 * relative / (self.count + 3))
        before = self.size
        self.size += rate * (abs(score) / mass - self.size)
        if self.size > 100 * before:  # beside this score the ones before are nothing
            self.level, self.shortfall, self.spread = score / mass / self.size, 0.0, 0.0

    def margin(self, mass):
        return (self.level - 1e-6 * abs(self.level)) * self.size * mass


class Offset:
    """Of two classes: the cut at which the rarer has as many answers as rows, or part of it."""

    def __init__(self):
        self.quantile, self.side, self.positives = Quantile(None), 0, 0.0
        self.errors, self.surplus = np.zeros(5), 0.0

    def cuts(self):
        q = self.quantile
        return np.arange(5) / 4 * self.side * q.level * q.size

    def judge(self, score, positive, weight):
        if weight == 0:
            return
        q = self.quantile
        count, total = q.count + 1, q.weight + weight
        rate = min(1.0, 4 * weight * count / total / (count + 3))
        self.errors += rate * (((score > self.cuts()) != positive) - self.errors)
        self.surplus += rate * (float(score > 0) - float(positive) - self.surplus)
        self.positives += weight * positive
        if not 0 < self.positives < total or (q.size == 0 and score == 0):
            q.count, q.weight = count, total
            return
        share = self.positives / total
        side = -1 if share <= 0.5 else 1
        if self.side == -side:
            rare = share if self.side < 0 else 1 - share
            q.level = -q.level
            q.shortfall, q.spread = q.spread / (1 - rare), q.shortfall * rare
        self.side, q.nu = side, share if side < 0 else 1 - share
        q.judge(side * score, weight)

    def value(self):
        if self.quantile.count < 60 or self.side == 0:
            return 0.0
        n = 7 / 16 * self.quantile.count
        if abs(self.surplus) <= 2 * np.sqrt(self.errors[0] / n):
            return 0.0
        e = self.errors.min()
        return -self.cuts()[np.flatnonzero(self.errors <= e + 0.5 * np.sqrt(e * (1 - e) / n))[-1]]
