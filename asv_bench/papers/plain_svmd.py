"""SVMD and NORMA in plain numpy: the reference column of the tables of source (4).

Vishwanathan, Schraudolph, Smola (JMLR 2006), equations in brackets.  Nothing of the library is
used and no number is kept up to date that can be computed: inner products of f and its trace
come from the Gram matrix of the buffer at every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def gaussian(gamma: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda B, x: np.exp(-gamma * np.square(B - x).sum(axis=1))


def monomial(degree: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda B, x: (B @ x) ** degree


def derivative(f: np.ndarray, y: int, margin: float) -> np.ndarray:
    """xi of the hinge loss (19) for one output and y in {0, 1}, else of (20) for a label."""
    xi = np.zeros(len(f))
    if len(f) == 1:
        sign = 2 * y - 1
        xi[0] = -sign * (sign * f[0] < margin)
        return xi
    rivals = margin + f
    rivals[y] = -np.inf
    rival = int(np.argmax(rivals))
    if rivals[rival] > f[y]:
        xi[y], xi[rival] = -1, 1
    return xi


def running_error(
    X: np.ndarray,
    y: np.ndarray,
    kernel: Callable[[np.ndarray, np.ndarray], np.ndarray],
    budget: int,
    *,
    eta0: float,
    reg: float = 1.0,
    smd: tuple[float, float] | None = None,
    tau: float = 1.0,
    nu: float | None = None,
    margin: float = 1.0,
) -> float:
    """Share of wrong predictions in one pass, each before the step that learns its row.

    `smd` is (mu, lambda) of SVMD; without it the steps are NORMA's (62).  `nu` adapts the
    margin (59)-(61).
    """
    K = 1 if y.max() == 1 else int(y.max()) + 1
    rows, gram = np.zeros((budget, X.shape[1])), np.zeros((budget, budget))
    alpha, beta = np.zeros((budget, K)), np.zeros((budget, K))  # of f, and of the trace v
    eta, eta_margin, v_margin = min(eta0, 1 / reg), 1.0, 0.0
    mu, decay = smd or (0.0, 0.0)
    used = wrong = 0
    for t, (x, label) in enumerate(zip(X, y), start=1):
        k = kernel(rows, x)
        f, v = k @ alpha, k @ beta
        told = int(f[0] > 0) if K == 1 else int(np.argmax(f))
        wrong += told != label
        xi = derivative(f, label, margin)
        pull = 0.0 if nu is None else nu - bool(xi.any())
        if smd:
            gv = reg * np.sum((gram @ alpha) * beta) + xi @ v  # (48)
            eta = min(max(eta * max(0.5, 1 - mu * gv), 1e-6), 1 / reg)  # (36)
            eta_margin *= max(0.5, 1 + mu * v_margin * margin * pull)  # (60)
        else:
            eta = eta_margin = min(eta0 * np.sqrt(tau / (tau + t)), 1 / reg)  # (62)
        beta = (1 - eta * reg) * decay * beta - eta * reg * alpha  # (44)
        alpha = (1 - eta * reg) * alpha  # (43)
        if xi.any():
            slot = used % budget  # the oldest goes
            used += 1
            rows[slot], alpha[slot], beta[slot] = x, -eta * xi, -eta * xi
            gram[slot] = gram[:, slot] = kernel(rows, x)
        if nu is not None:
            grown = eta_margin * margin * pull
            v_margin = decay * v_margin + grown * (1 + decay * v_margin)  # (61)
            margin *= np.exp(grown)  # (59)
    return wrong / len(y)


def on_first_order(ours: float, *arguments: Any, **options: Any) -> str:
    """The reference's error in percent beside ours on the same rows in the same order."""
    return f"{100 * running_error(*arguments, **options):.2f} (ours there {100 * ours:.2f})"
