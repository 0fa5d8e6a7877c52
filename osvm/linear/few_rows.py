"""Few rows: `fit` of `Auto` takes the weights of a proven optimum, not those of many passes.

Classes: with some hundred rows the errors of one pass do not tell settings apart, and the
optimum of a regularized problem costs less than the passes: the squared hinge with C = 1, as
`osvm.LinearSVC` solves it (`osvm/linear/dual.py`).  One pass with the first setting goes
before, so that the model can learn on in a stream.

Of two classes, one of which is rare and not found in full, errors on it count more in a second
solution, as they do in the steps of a stream (adaptive_judge.pxd).

Sparse rows of norm 1, nearly, as tf-idf has them, are solved up to some thousand: passes without
a regularizer learn what a text has by chance.  Where labels are noisy, C = 1 still does: a smaller
C is taken if rows err less with it when they are left out (`osvm/linear/strength.py`).

Rows whose columns differ much in size stay with the passes, whose rates adapt to them.

Numbers: with fewer than five rows to a column, passes end at weights that repeat the training
rows and answer for others with noise.  Ridge regression on standardized columns does not; how
much it shrinks is what errs least on each row when it is left out, and a constant is among the
choices.  Allen (1974) has the errors of all rows from one solution.

More sparse rows, up to some thousand, are solved by conjugate gradients, which stop where three
tenths of the rows, each left out first, err least: the noise of the targets decides how much of
them is worth learning, and none at all is among the choices (Hanke 1995).  With five rows to a
column and more, columns are brought to one size first, and passes would stop short of the
solution.  With fewer rows the sizes of columns that come seldom are known by chance only; where
columns have very different units passes learn then, as many as suit a tenth that is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp

from osvm._input.rows import RowSource
from osvm._input.scan import largest_magnitude
from osvm._input.types import Array
from osvm.linear.examples import column_moments
from osvm.linear.first_step import rare_rows
from osvm.linear.learner import SGDLearner
from osvm.linear.scaling import spread_rows, take
from osvm.linear.strength import optimum, suited_strength, weaker_solution
from osvm.linear.training import run
from osvm.losses import Hinge
from osvm.schedules import MOST_COST, Constant

MOST_ROWS = 500
MOST_UNIT_ROWS, UNIT = 5000, 2.0  # sparse ones, whose usual norm is 1 within this factor
MOST_VALUES = 200_000  # of dense rows
MOST_RATIO = 100.0  # of the columns' largest values
LARGEST = 1e6  # of them all, and the smallest such is its inverse
_LOOKED_AT_ROWS, _ALIKE = 64, 3.0  # times the median of their squared norms
ROWS_PER_COLUMN = 5  # of numbers: with more, passes do not fit the noise
MOST_NUMBERS = 2**21  # of dense rows that are copied to be standardized
_SHRINKAGES = np.geomspace(1e-4, 1e3, 15)  # of the mean squared norm of a row's share
MOST_TRIED_ROWS = 20_000  # to find how many passes are worth it: one of these,
_PASSES, _LEFT_OUT = (5, 10, 20, 50), 10  # by one row in so many,
_WORTH = 0.98  # whose error more passes must lower to this, to be worth their time
_LIKE_UNITS = 10.0  # times the middle column's size, of stored values
_MOST_STEPS, _PATIENCE, _AS_GOOD = 60, 4, 0.99  # of conjugate gradients,
_JUDGING = 3  # judged by so many tenths of the rows
_VISITS, _FOLDS = 2000, 5  # from which the sigmoids of `probability` are learnt


def are_few(X: Any, numbers: bool = False) -> bool:
    """Whether these rows are few, and columns (or norms) alike; `numbers`: few beside columns."""
    if numbers:
        small = X.n_rows * X.n_features <= MOST_NUMBERS
        small = small and (X.n_rows <= MOST_ROWS or not X.sparse)
        return small and X.n_rows > 1 and have_few_rows(X)
    if X.n_rows > MOST_ROWS:
        return X.n_rows <= MOST_UNIT_ROWS and _have_one_norm(X, UNIT)
    X = _rows(X)
    if not 1.0 / LARGEST <= largest_magnitude(X) <= LARGEST:
        return False
    if X.sparse:
        return True
    if X.n_rows * X.n_features > MOST_VALUES:
        return False
    sizes = column_moments(X)[0]
    sizes = sizes[sizes > 0.0]
    return len(sizes) > 0 and float(sizes.max()) <= MOST_RATIO * float(sizes.min())


def suit_one_step(X: Any) -> bool:
    """Whether there are too many rows to solve, of one norm, nearly, by some of them.

    Steps of one size then suit all.  Counts of words are not, and need rates of their own even
    where each is seen but once.
    """
    return X.n_rows > MOST_ROWS and _have_one_norm(X, np.inf)


def _have_one_norm(X: Any, near: float) -> bool:
    """Whether sparse rows have one norm, nearly, by some of them: 1 within the factor `near`.

    Dense rows have none to speak of with a bound.
    """
    if near < np.inf and not X.sparse:
        return False
    squares = take(X, spread_rows(X.n_rows, _LOOKED_AT_ROWS))[1]
    squares = squares[squares > 0.0]
    if len(squares) == 0:
        return near == np.inf
    middle = float(np.median(squares))
    usual = near**-2 <= middle <= near**2
    return bool(usual and np.quantile(squares, 0.9) <= _ALIKE * middle)


def _rows(X: Any) -> RowSource:
    """All rows, scaled where their columns are to be."""
    return X if isinstance(X, RowSource) else take(X, np.arange(X.n_rows), renumber=False)[0]


def left_out_ridge(
    X: Array, y: Array, weight: Array, offset: bool, seldom: bool = False
) -> tuple[Array, float]:
    """Weights and offset of ridge regression that err least on rows that are left out.

    `seldom`: columns may have a few values only, which do not tell their sizes, and whose rows
    err by chance when they are left out.  No column is then smaller than the middle one, and
    weights shrink for as long as the errors are not larger by more than their standard error.
    """
    weight = weight / weight.sum()
    center, mean = (weight @ X, float(weight @ y)) if offset else (np.zeros(X.shape[1]), 0.0)
    Z = X - center
    size = np.sqrt(weight @ np.square(Z))
    if seldom:
        size = np.maximum(size, np.median(size[size > 0.0])) if size.any() else size
    size[~(size > 0.0)] = 1.0
    root = np.sqrt(weight)[:, None]
    Z *= root / size
    rest = root[:, 0] * (y - mean)
    values, U = _directions(Z)
    in_offset = weight if offset else 0.0 * weight
    along, squares = U.T @ rest, np.square(U)
    errors, solutions = [np.square(rest / (1.0 - in_offset))], [np.zeros(len(values))]
    for shrinkage in _SHRINKAGES[::-1] * X.shape[1] / len(X):
        kept = values / (values + shrinkage)
        own = np.minimum(squares @ kept + in_offset, 1.0 - 1e-12)
        errors.append(np.square((rest - U @ (kept * along)) / (1.0 - own)))
        solutions.append(along / (values + shrinkage))
    more = np.array(errors) - errors[int(np.sum(errors, axis=1).argmin())]
    worse = more.sum(axis=1) - (np.sqrt(len(X)) * more.std(axis=1) if seldom else 0.0)
    w = (U @ solutions[int((worse <= 0.0).argmax())]) @ Z / size
    return w, mean - float(center @ w)


def _directions(Z: Array) -> tuple[Array, Array]:
    """Eigenvalues of Z Z' and their vectors; with more rows than columns without the zeros."""
    if len(Z) <= Z.shape[1]:
        values, U = np.linalg.eigh(Z @ Z.T)
        return np.maximum(values, 0.0), U
    values, V = np.linalg.eigh(Z.T @ Z)
    large = values > 1e-13 * values[-1]  # others are rounding, which no shrinkage lets pass
    return values[large], Z @ V[:, large] / np.sqrt(values[large])


def _solve_numbers(data: Any, dtype: Any, offset: bool) -> tuple[Array, Array] | None:
    """Weights and offset of `left_out_ridge`."""
    weight = np.ones(data.X.n_rows) if data.weight is None else data.weight
    X = np.asarray(_rows(data.X).array(), np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            w, b = left_out_ridge(X, data.targets, weight, offset, data.X.sparse)
        except np.linalg.LinAlgError:
            return None
    return _fitting(w, b, dtype)


def _fitting(w: Array, b: float, dtype: Any) -> tuple[Array, Array] | None:
    """Weights and offset of one output, if a learner can hold them."""
    largest = 1e35 if dtype == np.float32 else 1e150
    if np.abs(w).max() <= largest and np.isfinite(b):
        return w[None, :], np.array([b])
    return None


def solve_few(
    data: Any, shape: tuple[int, Any], offset: bool, numbers: bool, seed: int
) -> tuple[Array, Array] | None:
    """Weights and offsets of the optimum; None where it is not reached, for passes to learn."""
    n_out, dtype = shape
    if numbers:
        return _solve_numbers(data, dtype, offset)
    X, used = _rows(data.X), None
    if X.sparse:
        X, used = _own_columns(X, dtype)
    C = suited_strength(X, shape, offset, seed, data)
    solver = optimum(X, shape, offset, seed, data.targets, data.weight, C)
    if n_out == 1:
        weight = rare_weights(solver, X, data.targets, data.weight)
        if weight is not None:
            solver = optimum(X, shape, offset, seed, data.targets, weight, C)
    if not X.sparse and (weaker := weaker_solution(solver, X, data, offset)) is not None:
        return weaker
    weights = np.atleast_2d(solver.weights.array())
    if used is not None:
        weights, own = np.zeros((n_out, data.X.n_features), dtype), weights
        weights[:, used] = own
    right = solver.converged.all() and np.isfinite(weights).all()
    return (weights, solver.intercept) if right and np.isfinite(solver.intercept).all() else None


def _own_columns(X: Any, dtype: Any) -> tuple[RowSource, Array]:
    """Sparse rows with the columns that they store alone, and which these are.

    A solver of many classes would spend its time on the weights of the others.
    """
    values, columns, ends = X.stored()
    is_used = np.zeros(X.n_features, bool)
    is_used[columns] = True
    used = np.flatnonzero(is_used)
    number = np.zeros(X.n_features, np.int64)
    number[used] = np.arange(len(used))
    rows = RowSource.csr(values.astype(dtype), number[columns], ends, max(1, len(used)))
    return rows, used


def rare_weights(solver: Any, X: Any, targets: Array, weight: Array | None) -> Array | None:
    """Weights of the rows with what it costs to miss a rare class; None where there is none,
    or all of it is found.
    """
    rare = rare_rows(targets, weight)
    if rare is None:
        return None
    weight = np.ones(X.n_rows) if weight is None else weight
    plain = SGDLearner(
        X.n_features,
        1,
        solver.weights.array().dtype,
        Hinge().spec(),
        Constant().spec(eta0=1.0),
        reg=0.0,
        fit_intercept=True,
    )
    plain.weights.set_array(solver.weights.array())
    plain.intercept[:] = solver.intercept
    scores = np.empty((X.n_rows, 1))
    plain.decide(X, scores)
    found = rare & ((scores[:, 0] > 0.0) == (targets > 0.0))
    share = (weight[found].sum() + 1.0) / (weight[rare].sum() + 2.0)
    cost = min(MOST_COST, 2.0 / share - 1.0)
    return np.where(rare, cost * weight, weight) if not found[rare].all() else None


def _stored_sizes(values: Array, columns: Array, n_features: int) -> Array:
    """Root mean squares of the stored values of each column; 0 of the others."""
    counts = np.bincount(columns, minlength=n_features)
    squares = np.bincount(columns, weights=np.square(values), minlength=n_features)
    return np.sqrt(squares / np.maximum(counts, 1))


def _in_own_unit(values: Array) -> tuple[Array, float]:
    """Values divided by the largest of them, whose squares would be lost otherwise; and it."""
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    return values / largest, largest


def _are_alike(sizes: Array) -> bool:
    """Whether nine of ten columns have stored values of like size."""
    sizes = sizes[sizes > 0.0]
    if not len(sizes):
        return False
    small, middle, large = np.quantile(sizes, [0.05, 0.5, 0.95])
    return bool(large <= _LIKE_UNITS * middle and middle <= _LIKE_UNITS * small)


def gradient_steps(X: Any, y: Array, weight: Array, offset: bool) -> Iterator[tuple[Array, float]]:
    """Weights and offset after 0, 1, 2, ... steps of conjugate gradients on squared errors.

    With an offset rows are centered, implicitly: weights are those of the centered problem.
    """
    weight = weight / weight.sum()
    center, mean = (X.T @ weight, float(weight @ y)) if offset else (np.zeros(X.shape[1]), 0.0)
    w, rest = np.zeros(X.shape[1]), y - mean
    yield w, mean
    gradient = X.T @ (weight * rest) - center * float(weight @ rest)
    along, square = gradient, float(gradient @ gradient)
    for _ in range(_MOST_STEPS):
        moved = X @ along - float(center @ along)
        curvature = float(weight @ np.square(moved))
        if not (curvature > 0.0 and square > 0.0):
            return
        step = square / curvature
        w, rest = w + step * along, rest - step * moved
        yield w, mean - float(center @ w)
        gradient = X.T @ (weight * rest) - center * float(weight @ rest)
        before, square = square, float(gradient @ gradient)
        along = gradient + square / before * along


def _left_out_errors(
    X: Any, y: Array, weight: Array, offset: bool, left_out: Array
) -> Iterator[float]:
    """Squared errors on some rows after 0, 1, 2, ... steps on the others."""
    kept = np.delete(np.arange(len(y)), left_out)
    rows, targets, weights = X[left_out], y[left_out], weight[left_out]
    for w, b in gradient_steps(X[kept], y[kept], weight[kept], offset):
        yield float(weights @ np.square(rows @ w + b - targets))


def solve_numbers_by_steps(
    data: Any, dtype: Any, offset: bool, seed: int
) -> tuple[Array, Array] | None:
    """Weights and offset of sparse numbers after the steps that rows left out ask for.

    None where rows are few and columns have very different units.
    """
    rows = _rows(data.X)
    n = rows.n_rows
    values, columns, ends = rows.stored()
    values, unit = _in_own_unit(values)
    sizes, as_good = _stored_sizes(values, columns, rows.n_features), _AS_GOOD
    if not have_few_rows(data.X):
        sizes[~(sizes > 0.0)], as_good = 1.0, 1.0
        values /= sizes[columns]
    elif _are_alike(sizes):
        sizes = np.ones(1)
    else:
        return None
    X = sp.csr_matrix((values, columns, ends), (n, rows.n_features))
    y, spread = _in_own_unit(data.targets)
    weight = np.ones(n) if data.weight is None else data.weight
    parts = np.array_split(np.random.default_rng(seed).permutation(n), _LEFT_OUT)[:_JUDGING]
    errors: list[float] = []
    with np.errstate(over="ignore", invalid="ignore"):
        for error in zip(*(_left_out_errors(X, y, weight, offset, part) for part in parts)):
            errors.append(float(np.sum(error)))
            if len(errors) > _PATIENCE and min(errors[-_PATIENCE:]) > min(errors):
                break
        steps = int((np.array(errors) <= min(errors) / as_good).argmax())
        [(w, b)] = deque(islice(gradient_steps(X, y, weight, offset), steps + 1), maxlen=1)
        w = w / sizes * (spread / unit)
    return _fitting(w, spread * b, dtype)


def have_few_rows(X: Any) -> bool:
    """Whether rows are so few beside their columns that passes may fit the noise."""
    return bool(X.n_rows < ROWS_PER_COLUMN * X.n_features)


def need_tries(X: Any) -> bool:
    """Whether sparse rows of numbers are not too many for a part that is left out first."""
    return X.sparse and MOST_ROWS < X.n_rows <= MOST_TRIED_ROWS


def tried_passes(learner: Any, data: Any, seed: int) -> int:
    """How many passes err least on rows that are left out; `learner` is new, and learns."""
    order = np.random.default_rng(seed).permutation(data.X.n_rows).astype(np.int64)
    left_out, order = np.split(order, [data.X.n_rows // _LEFT_OUT])
    X, targets = take(data.X, left_out, renumber=False)[0], data.targets[left_out]
    weight = None if data.weight is None else data.weight[left_out]
    scores, best, least = np.empty((X.n_rows, 1)), _PASSES[0], np.inf
    for before, passes in zip((0, *_PASSES), _PASSES):
        for _ in range(before, passes):
            run(learner, data, order)
        learner.decide(X, scores, True)
        error = float(np.average(np.square(scores[:, 0] - targets), weights=weight))
        if not error < _WORTH * least:
            break
        best, least = passes, error
    return best


def take_solution(
    learner: Any, solution: tuple[Array, Array], data: Any, platt: Any, offset: bool
) -> None:
    """Put the optimum in the place of the learner's weights, and learn its sigmoids."""
    if platt is not None:
        scores = _left_out_scores(learner, solution, data, offset)
        platt.state[:] = type(platt)(learner.n_out).state
        for _ in range(max(1, _VISITS // data.X.n_rows)):
            platt.learn(scores, data.targets, data.times)
    learner.set_weights(*solution)


def _left_out_scores(
    learner: Any, solution: tuple[Array, Array], data: Any, offset: bool
) -> Array:
    """Scores of all rows, each fifth by an optimum without it: scores of rows that were learnt
    are too far from 0.  Those of `solution` where an optimum is not reached.  The learner's
    weights are lost.
    """
    scores = np.empty((data.X.n_rows, learner.n_out))
    shape = learner.n_out, learner.weights.array().dtype
    order = np.argsort(data.targets, kind="stable")  # classes spread over the fifths
    for fifth in range(_FOLDS):
        left_out, kept = order[fifth::_FOLDS].copy(), np.delete(order, slice(fifth, None, _FOLDS))
        part = replace(data, X=take(data.X, kept, renumber=False)[0], targets=data.targets[kept])
        part.weight = None if data.weight is None else data.weight[kept]
        without = solve_few(part, shape, offset, False, fifth) if len(kept) else None
        learner.set_weights(*(without or solution))
        if without is None:
            learner.decide(_rows(data.X), scores)
            break
        own = np.empty((len(left_out), learner.n_out))
        learner.decide(take(data.X, left_out, renumber=False)[0], own)
        scores[left_out] = own
    return scores
