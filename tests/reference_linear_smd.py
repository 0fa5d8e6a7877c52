"""Meta-descent on weight vectors, from the equations, with every product written out.

Follows Vishwanathan, Schraudolph, Smola (JMLR 2006): `SVMD` has one step size (35)-(56),
`SMD` one per coordinate (section 2).  W and Z are K x d; a loss gives (value, xi, rho) as
in `reference_kernel`.
"""

from dataclasses import dataclass

import numpy as np
from reference_kernel import none


def squared_hinge(y, f, eps):
    gap = 1 - y * f[0]
    return (gap**2, np.array([-2 * y * gap]), np.full((1, 1), 2.0)) if gap > 0 else none(1)


def modified_huber(y, f, eps):
    m = y * f[0]
    if m >= 1:
        return none(1)
    if m >= -1:
        return (1 - m) ** 2, np.array([-2 * y * (1 - m)]), np.full((1, 1), 2.0)
    return -4 * m, np.array([-4.0 * y]), np.zeros((1, 1))


def perceptron(y, f, eps):
    m = y * f[0]
    return (-m, np.array([-y]), np.zeros((1, 1))) if m <= 0 else none(1)


@dataclass
class Base:
    loss: object
    d: int
    reg: float
    K: int = 1
    eta0: float = 0.1
    mu: float = 0.1
    decay: float = 0.95
    eta_min: float = 0.0
    eta_max: float = np.inf
    offset: bool = False

    def __post_init__(self):
        self.eta_max = min(self.eta_max, 1 / self.reg if self.reg > 0 else np.inf)
        self.W, self.Z = np.zeros((self.K, self.d)), np.zeros((self.K, self.d))
        self.b, self.z_b = np.zeros(self.K), np.zeros(self.K)
        self.eta_b = np.full(self.K, self.eta0)
        self.eta = self.first_eta()

    def clip(self, eta):
        return np.minimum(np.maximum(eta, self.eta_min), self.eta_max)

    def step(self, x, y, weight=1.0):
        score = self.W @ x + self.b
        value, xi, rho = self.loss(y, score, 1.0)
        xi, rho = weight * xi, weight * rho
        eta = self.step_weights(x, xi, rho @ (self.Z @ x))
        if self.offset:
            factor = np.maximum(0.5, 1 - self.mu * xi * self.z_b)  # (54)
            self.eta_b = np.maximum(self.eta_b * factor, self.eta_min)
            self.b = self.b - self.eta_b * xi  # (53)
            self.z_b = self.decay * self.z_b - self.eta_b * xi  # (55)
        return score, value, eta


class SVMD(Base):
    def first_eta(self):
        return min(self.eta0, self.eta_max)

    def step_weights(self, x, xi, chi):
        lam, reg = self.decay, self.reg
        G = reg * self.W + np.outer(xi, x)
        HZ = reg * self.Z + np.outer(chi, x)
        self.eta = self.clip(self.eta * max(0.5, 1 - self.mu * np.sum(G * self.Z)))  # (36)
        self.Z = lam * self.Z - self.eta * (G + lam * HZ)  # (37)
        self.W = self.W - self.eta * G  # (35)
        return self.eta


class SMD(Base):
    rest = True  # False: eta is adapted at every coordinate, as printed

    def first_eta(self):
        return np.full((self.K, self.d), min(self.eta0, self.eta_max))

    def step_weights(self, x, xi, chi):
        lam, reg = self.decay, self.reg
        visited = x != 0
        G = reg * self.W + np.outer(xi, x)
        HZ = reg * self.Z + np.outer(chi, x)
        adapted = self.clip(self.eta * np.maximum(0.5, 1 - self.mu * G * self.Z))  # (4)
        self.eta = np.where(visited, adapted, self.eta) if self.rest else adapted
        self.Z = lam * self.Z - self.eta * (G + lam * HZ)  # (7)
        self.W = self.W - self.eta * G  # (1)
        if not visited.any():
            return min(self.eta0, self.eta_max)
        return self.eta[:, visited].mean()
