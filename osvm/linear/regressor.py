"""Linear regression."""

from __future__ import annotations

from typing import Any

from osvm._estimator.compat import RegressorMixin, with_callbacks
from osvm._input import validate
from osvm._input.types import Array
from osvm.linear.constant import warn_of_targets
from osvm.linear.one_score import OneScore
from osvm.linear.plan import resolve_plan
from osvm.linear.training import Examples, n_told


class LinearRegressor(RegressorMixin, OneScore):
    """Linear regression that learns one example at a time.

    Minimizes ``mean loss(y, w.x + b)``, and ``reg/2 ||w||²`` with it where `reg` or `C` is given.

    Parameters
    ----------
    loss : str or object, default "squared"
        "squared", "huber", "epsilon_insensitive", or a loss of your own.  Give
        parameters through an object: ``losses.Huber(delta=1.5)``.  The last two heed targets
        a little off less than "squared" does; `delta` and `epsilon` have the targets' unit.
    schedule : str or object, default "auto"
        With "auto" (:class:`osvm.schedules.Auto`) each feature has a rate of its own, in units
        of the feature and of the targets' deviation, and predictions are those of an average
        of the weights: nothing has to be scaled, in one pass and in `fit`.  Where `reg`, `C`,
        `project`, `average` or `batch_size` ask for what that does not have, it is
        "bottou".  Others as for :class:`LinearClassifier`.
    reg, C, eta0, project, average, batch_size, normalize, scale, fit_intercept
        As for :class:`LinearClassifier`.  With "squared" and "bottou" no step goes beyond its
        example, however large the row.
    epochs : int, optional
        Passes over the data in `fit`; 5 by default, with "auto" up to 100 where there are fewer
        than 800 rows.  At most 500 dense rows, fewer than five to a column, are solved instead:
        ridge regression, shrunk as suits rows that are left out.
    tol, shuffle, random_state, warm_start, n_jobs, verbose, record, callback
        As for :class:`LinearClassifier`.

    Attributes
    ----------
    coef_ : array, shape (d,)
    intercept_ : array, shape (1,)
    t_, n_iter_, objective_, history_, schedule_
        As for :class:`LinearClassifier`; "error" is the running mean of `|f - y|`.

    Examples
    --------
    >>> import numpy as np, osvm
    >>> X = np.arange(20.0).reshape(-1, 1) / 20
    >>> model = osvm.LinearRegressor(epochs=20, random_state=0)
    >>> model.fit(X, 3 * X[:, 0] + 1).predict([[0.5]]).round(1).tolist()
    [2.5]
    """

    _tasks = ("regression",)
    _error_kind = "absolute"
    _one_target = "number"

    def __init__(
        self,
        loss: Any = "squared",
        *,
        reg: float | None = None,
        C: float | None = None,
        schedule: Any = "auto",
        eta0: float = 0.1,
        project: bool | float = False,
        average: bool | int = False,
        batch_size: int | str = 1,
        normalize: bool = False,
        scale: str | None = None,
        fit_intercept: bool = True,
        epochs: int | None = None,
        tol: float | None = None,
        shuffle: bool | str = True,
        random_state: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        record: bool = False,
        callback: Any = None,
    ) -> None:
        self._keep(locals())

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearRegressor:
        """Learn from all rows, `epochs` times."""
        with self._lock.writing():
            source, rows = self._open(X, reset=True)
            targets = validate.check_y_regression(y, source.n_rows)
            weight = validate.check_sample_weight(sample_weight, source.n_rows, allow_zero=False)
            n = source.n_rows if weight is None else n_told(weight)
            plan = resolve_plan(self, n)
            data = Examples(source, targets, weight)
            self._train((X, y, sample_weight), data, plan, (1, self._weight_dtype(rows)))
            warn_of_targets(targets, plan.loss, stacklevel=2)
            return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearRegressor:
        """Learn from the next rows of a stream, in their order."""
        if sample_weight is None and self._learn_row(X, y):
            return self
        with self._lock.changing():
            source, rows = self._open(X)
            targets = validate.check_y_regression(y, source.n_rows)
            weight = validate.check_sample_weight(sample_weight, source.n_rows, allow_zero=True)
            self._learn_next(X, source, rows, targets, weight)
            is_first = self.t_ == source.n_rows
            warn_of_targets(targets, self._plan.loss if is_first else None, stacklevel=2)
        return self

    def predict(self, X: Any) -> Array:
        """w.x + b for each row."""
        with self._lock:
            return self._scores(X)[:, 0]
