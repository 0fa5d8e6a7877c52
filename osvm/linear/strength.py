"""The strength C of the squared hinge on few rows: 1, or less where rows that are left out tell.

Sparse rows are left out in parts, and their errors count.  Dense ones are left out one by one:
what they lose then follows from the solution (Chapelle, Vapnik, Bousquet, Mukherjee, "Choosing
multiple parameters for support vector machines", Machine Learning 2002).

Small rows get a C as much larger as makes their unit not matter (`row_unit`): with C = 1 their
weights would stay near zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from osvm._input.types import Array
from osvm.linear.dual import DualSolver
from osvm.linear.examples import column_moments
from osvm.linear.first_step import rare_rows
from osvm.linear.narrow_rows import NarrowRows
from osvm.linear.newton import newton
from osvm.linear.scaling import take

_TOL, _MOST_EPOCHS = 1e-3, 300
_SMALL = 0.5  # mean square of rows, below which C goes by it
_STRENGTHS, _FEWEST_JUDGED = (1.0, 0.3, 0.1), 200  # C, the first unless rows left out tell
_TRIED_TOL, _SELDOM = 1e-2, 0.02  # errors that no other C needs to mend
_WEAKER, _FEWEST_DENSE, _SELDOM_DENSE = (0.1, 0.003), 30, 0.1  # the same for dense rows,
_MOST_WORK, _CLEARLY = 2**23, 2.5  # of so many numbers, and by so many standard deviations


def suited_strength(X: Any, shape: tuple[int, Any], offset: bool, seed: int, data: Any) -> float:
    """C: 1, or a smaller one with which rows left out err less by more than chance.

    Three quarters are left out in turn, unless the first tells enough.  Dense rows of some hundred
    have too few errors to tell, and a rare class is judged by others.
    """
    n, targets, usual = X.n_rows, data.targets, _STRENGTHS[0]
    rare = shape[0] == 1 and rare_rows(targets, data.weight) is not None
    if not X.sparse or rare or n < _FEWEST_JUDGED:
        return usual
    weight = np.ones(n) if data.weight is None else data.weight
    values, columns, ends = X.stored()
    rows = sp.csr_matrix((values, columns, ends), (n, X.n_features))
    errors = {C: np.zeros(n) for C in _STRENGTHS}
    for left_out in np.array_split(np.random.default_rng(seed).permutation(n), 4)[:3]:
        kept = np.delete(np.arange(n), left_out)
        part, judged = take(X, kept, renumber=False)[0], rows[left_out]
        for k, C in enumerate(_STRENGTHS):
            solver = optimum(part, shape, offset, seed, targets[kept], weight[kept], C, _TRIED_TOL)
            scores = judged @ np.atleast_2d(solver.weights.array()).T + solver.intercept
            answer = np.sign(scores[:, 0]) if shape[0] == 1 else scores.argmax(axis=1)
            errors[C][left_out] = weight[left_out] * (answer != targets[left_out])
            if k == 0 and errors[C].sum() <= _SELDOM * weight[left_out].sum():
                return usual
            if k == 1 and _is_clear(errors[C] - errors[usual], 0.5):
                return usual
    clear = [C for C in _STRENGTHS if _is_clear(errors[usual] - errors[C])]
    return min(clear, key=lambda C: errors[C].sum(), default=usual)


def left_out_margins(A: NarrowRows, u: Array, U: Array, penalty: float) -> Array:
    """The margins y f(x) of rows when each is left out, from the optimum of all.

    A row beyond the margin has no part in it.  The others are rows of least squares, whose loss
    is larger by 1/(1 - q) when they are left out, q being their share of their own score; that is
    exact as long as the same rows stay within the margin.
    """
    margins = A.times(u)
    slope = np.where(margins < 1.0, 2.0 * U, 0.0)
    equations = A.gram(slope)
    np.einsum("ii->i", equations)[: A.d] += 1.0
    if A.offset:
        equations[A.d, A.d] += penalty if slope.any() else 1.0
    rows = np.hstack([A.X, np.ones((A.n, int(A.offset)))])
    share = slope * np.einsum("ij,ji->i", rows, np.linalg.solve(equations, rows.T))
    return 1.0 - (1.0 - margins) / np.maximum(1.0 - share, 1e-9)


def weaker_solution(
    solver: DualSolver, X: Any, data: Any, offset: bool
) -> tuple[Array, Array] | None:
    """A solution with a smaller C and a free offset, if dense rows left out lose clearly less.

    With the smallest C, what the rows do not tell is nearly a constant answer.
    """
    rows, single, codes = X.array(), solver.n_out == 1, data.targets
    n, d = rows.shape
    rare = single and rare_rows(codes, data.weight) is not None
    if rare or not solver.converged.all() or n < _FEWEST_DENSE or n * d * d > _MOST_WORK:
        return None
    signs = codes[None]
    if not single:
        signs = np.where(codes == np.arange(solver.n_out)[:, None], 1.0, -1.0)
    weight = np.ones(n) if data.weight is None else data.weight
    U = weight / row_unit(X, offset)
    A = NarrowRows(rows, signs[0], offset, centered=False)
    w, b = np.atleast_2d(solver.weights.array()), solver.intercept
    points = [A.point(w[k], b[k]) for k in range(len(signs))]
    margins = _all_left_out(A, signs, points, U, 1.0)
    wrong = margins[0] <= 0.0 if single else (signs * margins).argmax(axis=0) != codes
    if weight @ wrong <= _SELDOM_DENSE * weight.sum():
        return None
    usual = weight * _loss(margins)
    best, least = None, usual
    A = NarrowRows(rows, signs[0], offset, centered=offset)
    for C in _WEAKER:
        for k, u in enumerate(points):
            A.y = signs[k]
            _, found, _ = newton(A, C * U, u, penalty=0.0, tol=_TOL, max_steps=50)
            if found is None:
                return None
            points[k] = found
        loss = weight * _loss(_all_left_out(A, signs, points, C * U, 0.0))
        if loss.sum() < least.sum():
            best, least = [A.solution(u) for u in points], loss
    if best is None or not _is_clear(usual - least, _CLEARLY):
        return None
    return np.array([w for w, _ in best]), np.array([b for _, b in best])


def _all_left_out(
    A: NarrowRows, signs: Array, points: list[Array], U: Array, penalty: float
) -> Array:
    """`left_out_margins` of each output."""
    margins = np.empty(signs.shape)
    for k, u in enumerate(points):
        A.y = signs[k]
        margins[k] = left_out_margins(A, u, U, penalty)
    return margins


def _loss(margins: Array) -> Array:
    """The squared hinge of each row, all outputs together."""
    return np.square(np.maximum(0.0, 1.0 - margins)).sum(axis=0)


def _is_clear(fewer: Array, most: float = 1.5) -> bool:
    """Whether errors are fewer by more than so many standard deviations of their sum."""
    return bool(fewer.sum() > most * np.sqrt(np.square(fewer).sum()))


def row_unit(X: Any, offset: bool) -> float:
    """Mean square of small rows, of dense ones around the mean an offset takes; 1 of others."""
    _, mean, deviation = column_moments(X)
    squares = np.square(deviation) + (0.0 if offset and not X.sparse else np.square(mean))
    return float(squares.sum()) if 0.0 < squares.sum() < _SMALL else 1.0


def optimum(
    X: Any,
    shape: tuple[int, Any],
    offset: bool,
    seed: int,
    targets: Array,
    weight: Array | None,
    C: float = 1.0,
    tol: float = _TOL,
) -> DualSolver:
    """A solver that has been fitted."""
    solver = DualSolver(
        X.n_features,
        shape[0],
        reg=row_unit(X, offset) / (C * X.n_rows),
        loss="squared_hinge",
        dtype=shape[1],
        fit_intercept=offset,
        intercept_scaling=1.0,
        seed=seed,
    )
    # With the rows themselves, columns of several sizes are solved by Newton's method.
    rows = None if X.sparse else X.array()
    return solver.fit(X, targets, weight, tol=tol, max_epochs=_MOST_EPOCHS, rows=rows)
