"""Newton's method for the squared hinge with few columns, whatever their scales.

Source: Keerthi, DeCoste, "A modified finite Newton method for fast solution of large scale
linear SVMs" (JMLR 2005).  With A the rows y_i (x_i, 1), u = (w, b) and R the diagonal matrix of
penalties (ones, and that of the offset), the objective

    1/2 u' R u + sum_i U_i max(0, 1 - (A u)_i)^2

is quadratic as long as the rows within the margin are the same, so that the minimum of that
quadratic function and an exact line search end after a few steps.

The proof of the gap is the caller's, who brings alpha to ``y' alpha = 0`` where rounding left it
near that.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dposv

from osvm.linear.narrow_rows import NarrowRows

Array = npt.NDArray[np.float64]

LINE_TRIES = 60


def newton(
    A: NarrowRows, U: Array, start: Array, *, penalty: float, tol: float, max_steps: int
) -> tuple[Array, Array | None, int]:
    """alpha and u = (w, b) near the optimum, and the number of steps.

    u is None where the steps ended before w was the sum of alpha_i y_i x_i.

    Parameters
    ----------
    A : NarrowRows
        With labels of both signs.
    U : array of n positive numbers
        The weight of each row's loss against ``1/2 ||w||^2``.
    start : array
        The first u; zeros are taken where they are better.
    penalty : float
        The offset costs ``penalty/2 b^2``; 0 for a free one.
    tol : float
        Relative duality gap to reach.
    max_steps : int
    """
    ridge = np.ones(A.d + A.offset)
    ridge[A.d :] = penalty
    u, margins, n_steps = start, A.times(start), 0
    if not 0.5 * ridge @ u**2 + U @ np.maximum(0.0, 1.0 - margins) ** 2 < U.sum():
        u, margins = np.zeros(len(ridge)), np.zeros(A.n)
    with np.errstate(all="ignore"):  # a step that is not finite is not made
        while True:
            loss = np.maximum(0.0, 1.0 - margins)
            alpha = 2.0 * U * loss
            built = A.transposed_times(alpha)
            slope = ridge * u - built
            gap, primal = _gap(alpha, loss, u, built, ridge)
            is_one = _is_one(slope, built, alpha, tol, A.d)
            if n_steps == max_steps or (is_one and gap <= tol * primal):
                break
            step = _solve(A.gram(np.where(loss > 0.0, 2.0 * U, 0.0)), ridge, -slope)
            if step is None:
                break
            change = A.times(step)
            part = _line_search(
                float((step * ridge) @ u), float((step * ridge) @ step), U, margins, change
            )
            if part == 0.0:  # as far as the arithmetic goes
                break
            u, margins, n_steps = u + part * step, margins + part * change, n_steps + 1
    return alpha, u if is_one else None, n_steps


def _is_one(slope: Array, built: Array, alpha: Array, tol: float, d: int) -> bool:
    """Whether w is the sum of alpha_i y_i x_i, and so for the offset, to a tenth of `tol`."""
    most = 0.1 * tol
    near = math.sqrt(slope[:d] @ slope[:d]) <= most * math.sqrt(built[:d] @ built[:d])
    return bool(near and np.abs(slope[d:]).sum() <= most * alpha.sum())


def _gap(alpha: Array, loss: Array, u: Array, built: Array, ridge: Array) -> tuple[float, float]:
    """The duality gap, where u and alpha are one model, and the objective."""
    total = 0.5 * float(alpha @ loss)  # sum U loss^2, and sum alpha^2 / 4U
    primal = 0.5 * float(ridge @ u**2) + total
    penalized = ridge > 0.0
    sq_norm = float(built[penalized] ** 2 @ (1.0 / ridge[penalized]))
    return primal - (float(alpha.sum()) - total - 0.5 * sq_norm), primal


def _solve(gram: Array, ridge: Array, side: Array) -> Array | None:
    """(gram + ridge)^-1 side, by equations that are scaled to a diagonal of ones."""
    diagonal = np.einsum("ii->i", gram)  # a view that can be written
    diagonal += ridge
    if gram[-1, -1] == 0.0:  # no row within the margin: the free offset stays
        gram[-1, -1] = 1.0
    scale = 1.0 / np.sqrt(diagonal)
    gram *= scale[:, None] * scale
    diagonal += 1e-14
    _, step, failed = dposv(gram, scale * side, lower=1, overwrite_a=1, overwrite_b=1)
    step = scale * step
    return None if failed or not np.isfinite(step).all() else step


def _line_search(first: float, second: float, U: Array, margins: Array, change: Array) -> float:
    """The t that minimizes the objective at margins + t change; 0 where nothing falls.

    The slope, first + t second - 2 sum U max(0, 1 - margins - t change) change, rises and has
    straight pieces: Newton's method in one variable, kept between points of both signs.
    """
    low, high, t = 0.0, np.inf, 1.0
    missing = 1.0 - margins
    at_zero = first - 2.0 * float((U * np.maximum(0.0, missing)) @ change)
    if not at_zero < 0.0:
        return 0.0
    for _ in range(LINE_TRIES):
        loss = missing - t * change
        pull = np.where(loss > 0.0, 2.0 * U * change, 0.0)
        slope, curvature = first + t * second - float(pull @ loss), second + float(pull @ change)
        if abs(slope) <= 1e-3 * -at_zero:
            return t
        low, high = (t, high) if slope < 0.0 else (low, t)
        t -= slope / curvature if curvature > 0.0 else 0.0
        if not low < t < high:
            t = 0.5 * (low + high) if high < np.inf else 10.0 * low
    return low
