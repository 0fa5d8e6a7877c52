"""Dual coordinate ascent from its equations, in dense arithmetic and plain Python.

Follows Hsieh et al. (ICML 2008), algorithm 3: minimize over 0 <= alpha (<= U)

    1/2 alpha' Q alpha - e' alpha,   Q_ij = y_i y_j (x_i . x_j + B^2)  [+ 1/(2U) on the diagonal]

one variable at a time; with a free offset the linear term is e - y * center.
"""

import numpy as np

MASK = 2**64 - 1


class SplitMix:
    """The generator behind the order of the rows."""

    def __init__(self, seed):
        self.state = seed & MASK

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        z ^= z >> 31
        return ((z >> 32) * n) >> 32

    def shuffle(self, values):
        for i in range(len(values) - 1, 0, -1):
            j = self.below(i + 1)
            values[i], values[j] = values[j], values[i]


def epoch_order(active, random, rest, block=64, window=16):
    """Random blocks of neighboring rows, permuted within windows of 16 blocks.

    Rows that rest are left out (and have one epoch less to rest); without a generator
    the order stays as it is.
    """
    blocks = [active[i : i + block] for i in range(0, len(active), block)]
    if random is not None:
        random.shuffle(blocks)
    order = []
    for i in range(0, len(blocks), window):
        rows = [row for b in blocks[i : i + window] for row in b if rest[row] == 0]
        if random is not None:
            random.shuffle(rows)
        order += rows
    for row in active:
        rest[row] = max(0, rest[row] - 1)
    return order


def objectives(X, y, w, b, alpha, U, squared, bias_sq=0.0, center=0.0):
    """Primal and dual value, both divided by reg; the dual without its offset condition."""
    m = np.maximum(0.0, 1.0 - y * (X @ w + b))
    r = alpha @ y
    primal = 0.5 * w @ w + U @ (m**2 if squared else m) + 0.5 * bias_sq * r**2
    dual = alpha.sum() - 0.5 * w @ w - r * center - 0.5 * bias_sq * r**2
    if squared:
        dual -= (alpha**2 / (4.0 * np.where(U > 0, U, 1.0))).sum()
    return primal, dual


def dual_ascent(
    X, y, reg, epochs, *, weight=None, squared=False, shrinking=False, shuffle=False, seed=0,
    bias_sq=0.0, free_offset=False,
):  # fmt: skip
    """alpha, w, b and the active rows after each epoch."""
    n, d = X.shape
    U = np.full(n, 1.0 / (reg * n)) if weight is None else weight / (reg * n)
    alpha, w, center = np.zeros(n), np.zeros(d), 0.0
    active, random = list(range(n)), SplitMix(seed) if shuffle else None
    rest, quiet = [0] * n, [0] * n
    highest, lowest = np.inf, -np.inf
    for _ in range(epochs):
        pg_max, pg_min = -np.inf, np.inf
        idle = set()
        for i in epoch_order(active, random, rest):
            if U[i] == 0.0:
                if shrinking:
                    idle.add(i)
                continue
            b = center + bias_sq * (alpha @ y)
            gradient = y[i] * (w @ X[i] + b) - 1.0 + (alpha[i] / (2 * U[i]) if squared else 0.0)
            at_top = alpha[i] == U[i] and not squared
            if shrinking and (
                (alpha[i] == 0 and gradient > highest) or (at_top and gradient < lowest)
            ):
                idle.add(i)
                continue
            pg = gradient
            if alpha[i] == 0:
                pg = min(gradient, 0.0)
            elif at_top:
                pg = max(gradient, 0.0)
            pg_max, pg_min = max(pg_max, pg), min(pg_min, pg)
            if pg == 0.0:
                if shrinking:
                    quiet[i] = min(quiet[i] + 1, 2)
                    rest[i] = 2 ** quiet[i] - 1
                continue
            quiet[i] = 0
            q = float(np.float32(X[i] @ X[i])) + bias_sq + (0.5 / U[i] if squared else 0.0)
            new = alpha[i] - gradient / q if q > 0 else (np.inf if gradient < 0 else 0.0)
            new = max(0.0, new if squared else min(new, U[i]))
            w = w + (new - alpha[i]) * y[i] * X[i]
            alpha[i] = new
        active = [i for i in active if i not in idle]
        highest = pg_max if pg_max > 0 else np.inf
        lowest = pg_min if pg_min < 0 else -np.inf
        b = center + bias_sq * (alpha @ y)
        if free_offset:
            center = b
            b = center + bias_sq * (alpha @ y)
        yield alpha.copy(), w.copy(), b, center, len(active)


def best_offset(f, y, weight, squared):
    """The b that minimizes the weighted loss, by bisection of its slope in b.

    Where the slope is zero on an interval (hinge), its middle.
    """
    c = np.ones(len(y)) if weight is None else weight

    def slope(b):
        m = np.maximum(0.0, 1.0 - y * (f + b))
        return -(c * y) @ (2 * m if squared else (m > 0))

    def first(above):
        low, high = -1e6, 1e6
        for _ in range(200):
            b = 0.5 * (low + high)
            low, high = (low, b) if above(slope(b)) else (b, high)
        return b

    return 0.5 * (first(lambda g: g > -1e-12) + first(lambda g: g > 1e-12))
