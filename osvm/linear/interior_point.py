"""An interior-point method for the hinge loss with few columns, whatever their scales.

Source: Ferris, Munson, "Interior-point methods for massive support vector machines" (SIAM J.
Optim. 2002), with Mehrotra's predictor and corrector.  Coordinate ascent needs very many
epochs where columns have other units or are nearly dependent; Newton's method does not mind.
Each step solves one system of d + 1 equations, so that it is for narrow data.

The dual problem is that of `osvm/linear/dual_steps.pxd`.  With Z the rows y_i x_i, s and t the
multipliers of alpha >= 0 and alpha <= U, and v = U - alpha,

    Z w + y b - 1 - s + t = 0,   w = Z' alpha,   y' alpha = penalty b,
    s alpha = mu,   t v = mu,   mu -> 0

Invariants
- alpha stays inside its box and, with a free offset, on y' alpha = 0, so that its dual value is
  a lower bound at every moment; the proof of the gap is the caller's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dpotrf, dpotrs

from osvm.linear.narrow_rows import NarrowRows

Array = npt.NDArray[np.float64]

_INSIDE = 0.995  # of the way to the boundary


class _Point:
    """alpha, u = (w, b) and the multipliers s and t, moved by Newton's steps."""

    def __init__(self, A: NarrowRows, U: Array, penalty: float) -> None:
        self.A, self.U, self.penalty = A, U, penalty
        self.ridge = np.ones(A.d + A.offset)
        # The middle of the box with y' alpha = 0; w as far along as lowers the objective.
        alpha = 0.5 * U
        if A.offset:
            self.ridge[A.d] = penalty
            plus, minus = float(U[A.y > 0].sum()), float(U[A.y < 0].sum())
            alpha *= min(plus, minus) / np.where(A.y > 0, plus, minus)
        u = A.transposed_times(alpha)
        u *= min(1.0, float(alpha.sum() / max(u[: A.d] @ u[: A.d], 1e-300)))
        u[A.d :] = 0.0
        slope = A.times(u) - 1.0
        s, t = np.maximum(slope, 0.0) + 1.0, np.maximum(-slope, 0.0) + 1.0
        self.set(alpha, u, s, t)

    def set(self, alpha: Array, u: Array, s: Array, t: Array) -> None:
        """Take the place, and what follows from it."""
        self.alpha, self.u, self.s, self.t = alpha, u, s, t
        self.v = self.U - alpha
        self.scores, self.built = self.A.times(u), self.A.transposed_times(alpha)

    def gap(self, tol: float) -> float:
        """The relative duality gap; infinite while w and alpha are not one model yet."""
        d, alpha = self.A.d, self.alpha
        w, z, loss = self.u[:d], self.built[:d], np.maximum(0.0, 1.0 - self.scores)
        if np.linalg.norm(z - w) > 0.1 * tol * np.linalg.norm(w):
            return np.inf
        primal = 0.5 * (w @ w) + self.U @ loss
        dual = alpha.sum() - 0.5 * (z @ z)
        if self.A.offset and self.penalty > 0.0:
            primal += 0.5 * self.penalty * self.u[d] ** 2
            dual -= 0.5 * self.built[d] ** 2 / self.penalty
        return float((primal - dual) / max(abs(primal), 1e-300))

    def factorize(self) -> bool:
        """The equations of this point, scaled to a diagonal of ones; False if singular."""
        self.per_alpha, self.per_v = 1.0 / self.alpha, 1.0 / self.v
        self.weight = 1.0 / (self.s * self.per_alpha + self.t * self.per_v)
        gram = self.A.gram(self.weight)
        diagonal = np.einsum("ii->i", gram)  # a view that can be written
        diagonal += self.ridge
        self.scale = 1.0 / np.sqrt(diagonal)
        gram *= self.scale[:, None] * self.scale
        diagonal += 1e-14
        self.factor, failed = dpotrf(gram.T, lower=1, clean=0, overwrite_a=1)
        self.off_slope = self.scores - 1.0 - self.s + self.t
        self.off_w = self.ridge * self.u - self.built
        return not failed

    def newton(self, to_s: Any, to_t: Any) -> tuple[Array, Array, Array, Array]:
        """The step whose first-order effect is s alpha += to_s, t v += to_t."""
        by_s, by_t = to_s * self.per_alpha, to_t * self.per_v
        rhs = by_s - by_t - self.off_slope
        side = self.A.transposed_times(self.weight * rhs) - self.off_w
        du = self.scale * dpotrs(self.factor, self.scale * side, lower=1)[0]
        da = self.weight * (rhs - self.A.times(du))
        return da, du, by_s - self.s * self.per_alpha * da, by_t + self.t * self.per_v * da

    def longest(self, da: Array, ds: Array, dt: Array) -> float:
        """The largest part of the step, up to all of it, that stays inside."""
        most = 1.0
        for x, step in ((self.alpha, da), (self.s, ds), (self.v, -da), (self.t, dt)):
            most = max(most, -float((step / x).min()))
        return 1.0 / most

    def move(self) -> bool:
        """Predictor and corrector; False where rounding errors allow no further step."""
        if not self.factorize():
            return False
        alpha, s, t, v = self.alpha, self.s, self.t, self.v
        da, du, ds, dt = self.newton(-s * alpha, -t * v)
        part = self.longest(da, ds, dt)
        before = s @ alpha + t @ v
        after = (s + part * ds) @ (alpha + part * da) + (t + part * dt) @ (v - part * da)
        aim = before / (2 * self.A.n) * (after / before) ** 3
        da, du, ds, dt = self.newton(aim - s * alpha - ds * da, aim - t * v + dt * da)
        part = min(1.0, _INSIDE * self.longest(da, ds, dt))
        if not (part > 1e-10 and np.isfinite(du).all()):
            return False
        self.set(alpha + part * da, self.u + part * du, s + part * ds, t + part * dt)
        return True


def interior_point(
    A: NarrowRows, U: Array, *, penalty: float, tol: float, max_steps: int
) -> tuple[Array, Array | None, int]:
    """As `osvm.linear.newton.newton`, for the hinge and from a start of its own."""
    point, n_steps = _Point(A, U, penalty), 0
    with np.errstate(all="ignore"):  # a step that is not finite is not made
        while n_steps < max_steps and point.gap(tol) > tol and point.move():
            n_steps += 1
        is_one = point.gap(tol) < np.inf
    return point.alpha, point.u if is_one else None, n_steps
