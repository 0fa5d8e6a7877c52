"""Few rows: `fit` of `Auto` takes the weights of a proven optimum, not those of many passes.

With some hundred rows the errors of one pass do not tell settings apart, and the optimum of a
regularized problem costs less than the passes: the squared hinge with C = 1, as
`osvm.LinearSVC` solves it (`osvm/linear/dual.py`).  One pass with the first setting goes
before, so that the model can learn on in a stream.

Rows whose columns differ much in size stay with the passes, whose rates adapt to them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from osvm._input.rows import RowSource
from osvm._input.scan import largest_magnitude
from osvm.linear.dual import DualSolver
from osvm.linear.examples import column_moments
from osvm.linear.scaling import take

__all__ = ["are_few", "solve_few", "suit_one_step"]

MOST_ROWS = 500
MOST_VALUES = 200_000  # of dense rows
MOST_RATIO = 100.0  # of the columns' largest values
LARGEST = 1e6  # of them all
_LOOKED_AT_ROWS, _ALIKE = 64, 3.0  # times the median of their squared norms
_TOL, _MOST_EPOCHS = 1e-3, 300
_VISITS = 2000  # from which the sigmoids of `probability` are learnt


def are_few(X: Any) -> bool:
    """Whether these rows are few, and columns alike."""
    if X.n_rows > MOST_ROWS:
        return False
    X = _rows(X)
    if largest_magnitude(X) > LARGEST:
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
    if X.n_rows <= MOST_ROWS:
        return False
    rows = np.linspace(0, X.n_rows - 1, min(X.n_rows, _LOOKED_AT_ROWS)).astype(np.int64)
    squares = take(X, rows)[1]
    squares = squares[squares > 0.0]
    return len(squares) == 0 or bool(np.quantile(squares, 0.9) <= _ALIKE * np.median(squares))


def _rows(X: Any) -> RowSource:
    """All rows, scaled where their columns are to be."""
    return X if isinstance(X, RowSource) else take(X, np.arange(X.n_rows), renumber=False)[0]


def solve_few(learner: Any, data: Any, seed: int, platt: Any = None) -> None:
    """Put the optimum in the place of the learner's weights, and learn its sigmoids."""
    X = _rows(data.X)
    solver = DualSolver(
        learner.n_features,
        learner.n_out,
        reg=1.0 / data.X.n_rows,
        loss="squared_hinge",
        dtype=learner.dtype,
        fit_intercept=learner.fits_intercept,
        intercept_scaling=1.0,
        seed=seed,
    )
    solver.fit(X, data.targets, data.weight, tol=_TOL, max_epochs=_MOST_EPOCHS)
    weights = np.atleast_2d(solver.weights.array())
    if not (np.isfinite(weights).all() and np.isfinite(solver.intercept).all()):
        return
    learner.set_weights(weights, solver.intercept)
    if platt is not None:
        scores = np.empty((data.X.n_rows, learner.n_out))
        learner.decide(X, scores)
        platt.state[:] = type(platt)(learner.n_out).state
        for _ in range(_VISITS // data.X.n_rows):
            platt.learn(scores, data.targets)
