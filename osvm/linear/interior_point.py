"""An interior-point method for linear SVMs with few columns, whatever their scales.

Source: Ferris, Munson, "Interior-point methods for massive support vector machines" (SIAM J.
Optim. 2002), with Mehrotra's predictor and corrector.  Coordinate ascent needs very many
epochs where columns have other units or are nearly dependent; Newton's method does not mind.
Each step solves one system of d + 1 equations, so that it is for narrow data.

The dual problem is that of `osvm/linear/dual_steps.pxd`.  With Z the rows y_i x_i, s and t the
multipliers of alpha >= 0 and alpha <= U, and v = U - alpha,

    Z w + y b - 1 - s + t [+ alpha / (2 U)] = 0,   w = Z' alpha,   y' alpha = penalty b,
    s alpha = mu,   t v = mu,   mu -> 0

(for the squared hinge with the term in brackets, and without t and v).

Invariants
- alpha stays inside its box and, with a free offset, on y' alpha = 0, so that its dual value is
  a lower bound at every moment; the proof of the gap is the caller's.
- X is read in blocks of rows, and no copy of it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["interior_point"]

Array = npt.NDArray[np.float64]

_BLOCK = 4096  # rows
_INSIDE = 0.995  # of the way to the boundary


class _Rows:
    """Products with A, whose row i is y_i (x_i - center, 1); the last column is the offset's."""

    def __init__(self, X: Any, y: Array, offset: bool, centered: bool) -> None:
        self.X, self.y, self.offset = X, y, offset
        self.n, self.d = X.shape
        self.center = np.zeros(self.d)
        if centered:  # a free offset absorbs it, and the equations are better conditioned
            self.center = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()

    def times(self, u: Array) -> Array:
        w = u[: self.d]
        scores = np.concatenate([part @ w for part in self._parts()])
        return self.y * (scores - self.center @ w + (u[self.d] if self.offset else 0.0))

    def transposed_times(self, p: Array) -> Array:
        p = self.y * p
        total = p.sum()
        w, start = -total * self.center, 0
        for part in self._parts():
            stop = start + part.shape[0]
            w += p[start:stop] @ part
            start = stop
        return np.append(w, total) if self.offset else w

    def _parts(self) -> Iterator[Any]:
        """X, and float32 arrays in blocks, which become float64 one by one."""
        if self.X.dtype == np.float64 or hasattr(self.X, "toarray"):
            yield self.X
            return
        for start in range(0, self.n, _BLOCK):
            yield self.X[start : start + _BLOCK].astype(np.float64)

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        for start in range(0, self.n, _BLOCK):
            part = self.X[start : start + _BLOCK]
            part = part.toarray() if hasattr(part, "toarray") else part
            yield slice(start, start + part.shape[0]), part - self.center

    def gram(self, weight: Array) -> Array:
        """A' diag(weight) A"""
        d = self.d
        out = np.zeros((d + self.offset, d + self.offset))
        for rows, part in self._blocks():
            if self.offset:
                out[d, :d] += weight[rows] @ part
            part *= np.sqrt(weight[rows])[:, None]
            out[:d, :d] += part.T @ part
        if self.offset:
            out[:d, d] = out[d, :d]
            out[d, d] = weight.sum()
        return out


class _Point:
    """alpha, u = (w, b) and the multipliers s and t, moved by Newton's steps."""

    def __init__(self, A: _Rows, U: Array, squared: bool, penalty: float) -> None:
        self.A, self.U, self.squared, self.penalty = A, U, squared, penalty
        self.ridge = np.ones(A.d + A.offset)
        self.curved = 0.5 / U if squared else np.zeros(A.n)
        self.count = A.n * (1 if squared else 2)
        # The middle of the box with y' alpha = 0; w as far along as lowers the objective.
        alpha = 0.5 * U
        if A.offset:
            self.ridge[A.d] = penalty
            plus, minus = float(U[A.y > 0].sum()), float(U[A.y < 0].sum())
            alpha *= min(plus, minus) / np.where(A.y > 0, plus, minus)
        u = A.transposed_times(alpha)
        u *= min(1.0, float(alpha.sum() / max(u[: A.d] @ u[: A.d], 1e-300)))
        u[A.d :] = 0.0
        slope = A.times(u) - 1.0 + self.curved * alpha
        s, t = np.maximum(slope, 0.0) + 1.0, np.maximum(-slope, 0.0) + 1.0
        self.set(alpha, u, s, np.zeros(A.n) if squared else t)

    def set(self, alpha: Array, u: Array, s: Array, t: Array) -> None:
        """Take the place, and what follows from it."""
        self.alpha, self.u, self.s, self.t = alpha, u, s, t
        self.v = np.ones(self.A.n) if self.squared else self.U - alpha
        self.scores, self.built = self.A.times(u), self.A.transposed_times(alpha)

    def gap(self, tol: float) -> float:
        """The relative duality gap; infinite while w and alpha are not one model yet."""
        d, alpha = self.A.d, self.alpha
        w, z, loss = self.u[:d], self.built[:d], np.maximum(0.0, 1.0 - self.scores)
        if np.linalg.norm(z - w) > 0.1 * tol * np.linalg.norm(w):
            return np.inf
        primal = 0.5 * (w @ w) + self.U @ (loss**2 if self.squared else loss)
        dual = alpha.sum() - 0.5 * (z @ z) - 0.5 * self.curved @ alpha**2
        if self.A.offset and self.penalty > 0.0:
            primal += 0.5 * self.penalty * self.u[d] ** 2
            dual -= 0.5 * self.built[d] ** 2 / self.penalty
        return float((primal - dual) / max(abs(primal), 1e-300))

    def factorize(self) -> None:
        """The equations of this point, scaled to a diagonal of ones."""
        from scipy.linalg import cho_factor  # slow to load, and few fits come here

        self.weight = 1.0 / (self.s / self.alpha + self.t / self.v + self.curved)
        gram = self.A.gram(self.weight)
        diagonal = np.diag_indices(len(gram))
        gram[diagonal] += self.ridge
        self.scale = 1.0 / np.sqrt(gram[diagonal])
        gram *= self.scale[:, None] * self.scale
        gram[diagonal] += 1e-14
        self.factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
        self.off_slope = self.scores - 1.0 - self.s + self.t + self.curved * self.alpha
        self.off_w = self.ridge * self.u - self.built

    def newton(self, to_s: Any, to_t: Any) -> tuple[Array, Array, Array, Array]:
        """The step whose first-order effect is s alpha += to_s, t v += to_t."""
        from scipy.linalg import cho_solve

        rhs = to_s / self.alpha - to_t / self.v - self.off_slope
        side = self.A.transposed_times(self.weight * rhs) - self.off_w
        du = self.scale * cho_solve(self.factor, self.scale * side, check_finite=False)
        da = self.weight * (rhs - self.A.times(du))
        return da, du, (to_s - self.s * da) / self.alpha, (to_t + self.t * da) / self.v

    def longest(self, da: Array, ds: Array, dt: Array) -> float:
        """The largest part of the step, up to all of it, that stays inside."""
        pairs = [(self.alpha, da), (self.s, ds)]
        if not self.squared:
            pairs += [(self.v, -da), (self.t, dt)]
        most = 1.0
        for x, step in pairs:
            negative = step < 0.0
            if negative.any():
                most = min(most, float((-x[negative] / step[negative]).min()))
        return most

    def move(self) -> bool:
        """Predictor and corrector; False where rounding errors allow no further step."""
        try:
            self.factorize()
        except np.linalg.LinAlgError:
            return False
        alpha, s, t, v = self.alpha, self.s, self.t, self.v
        da, du, ds, dt = self.newton(-s * alpha, -t * v)
        part = self.longest(da, ds, dt)
        mu = (s @ alpha + t @ v) / self.count
        after = (s + part * ds) @ (alpha + part * da)
        if not self.squared:
            after += (t + part * dt) @ (v - part * da)
        aim = mu * (after / self.count / mu) ** 3
        to_t = 0.0 if self.squared else aim - t * v + dt * da
        da, du, ds, dt = self.newton(aim - s * alpha - ds * da, to_t)
        part = min(1.0, _INSIDE * self.longest(da, ds, dt))
        if not (part > 1e-10 and np.isfinite(du).all()):
            return False
        self.set(alpha + part * da, self.u + part * du, s + part * ds, t + part * dt)
        return True


def interior_point(
    X: Any,
    y: Array,
    U: Array,
    *,
    squared: bool,
    offset: bool,
    penalty: float,
    tol: float,
    max_steps: int = 100,
) -> tuple[Array, Array | None, float, int]:
    """alpha, w and b near the optimum, and the number of steps.

    w is None where the steps ended before it was the sum of alpha_i y_i x_i: alpha alone is
    then a model.

    Parameters
    ----------
    X : array or CSR matrix, shape (n, d)
    y : array of -1 and +1, both present
    U : array of n positive numbers
        The weight of each row's loss against ``1/2 ||w||^2``.
    squared, offset : bool
        The squared hinge; whether there is an offset.
    penalty : float
        The offset costs ``penalty/2 b^2``; 0 for a free one.
    tol : float
        Relative duality gap to reach.
    max_steps : int
    """
    A = _Rows(X, y, offset, offset and penalty == 0.0)
    point, n_steps = _Point(A, U, squared, penalty), 0
    with np.errstate(all="ignore"):  # a step that is not finite is not made
        while n_steps < max_steps and point.gap(tol) > tol and point.move():
            n_steps += 1
        is_one = point.gap(tol) < np.inf
    w = point.u[: A.d]
    b = float(point.u[A.d] - A.center @ w) if offset else 0.0
    return point.alpha, w if is_one else None, b, n_steps
