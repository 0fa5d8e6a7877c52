"""Linear models with one score per row: regression and novelty detection."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from osvm._estimator.compat import OutlierMixin, RegressorMixin, with_callbacks
from osvm._input import validate
from osvm._input.rows import RowSource
from osvm.linear.base import LinearEstimator

__all__ = ["LinearNovelty", "LinearRegressor"]

Array = npt.NDArray[Any]


class OneOutput(LinearEstimator):
    """What regression and novelty detection share."""

    def _learn_next(
        self, X: Any, source: RowSource, rows: Any, targets: Array, weight: Array | None
    ) -> None:
        """The next block of a stream."""
        if "_learner" in self.__dict__:
            learner, plan = self._going_on(None, source)
        else:
            plan = self._resolve_plan(None).for_stream(source)
            learner = plan.learner(source.n_features, 1, self._weight_dtype(rows))
        self._learn_block(source, learner, targets, weight, curvature=plan.curvature)
        if self.__dict__.get("_learner") is learner:
            self._changed()
        else:
            self._store(X, source, learner, plan, self.__dict__.get("_rng"))

    @property
    def coef_(self) -> Any:
        """The weights that prediction uses."""
        with self._lock:
            self._need_attribute("_learner")
            return self._shown_coef(self._weights_array(self._averaged))[0]

    @property
    def intercept_(self) -> Array:
        """The intercept that prediction uses."""
        with self._lock:
            learner = self._need_attribute("_learner")
            return learner.average_intercept() if self._averaged else learner.intercept.copy()


class LinearRegressor(RegressorMixin, OneOutput):
    """Linear regression that learns one example at a time.

    Minimises ``reg/2 ||w||² + mean loss(y, w.x + b)``.

    Parameters
    ----------
    loss : str or object, default "epsilon_insensitive"
        "epsilon_insensitive", "huber", "squared", or a loss of your own.  Give
        parameters through an object: ``losses.Huber(delta=1.5)``.
    reg, C, schedule, eta0, project, average, batch_size, normalize, fit_intercept
        As for :class:`LinearClassifier`.  With "squared" and the default schedule no step
        goes beyond its example, however large the row.
    epochs, tol, shuffle, random_state, warm_start, n_jobs, verbose, record, callback
        As for :class:`LinearClassifier`.

    Attributes
    ----------
    coef_ : array, shape (d,)
    intercept_ : array, shape (1,)
    t_, n_epochs_, objective_, history_
        As for :class:`LinearClassifier`; "error" is the running mean of `|f - y|`.

    Examples
    --------
    >>> import numpy as np, osvm
    >>> X = np.arange(20.0).reshape(-1, 1) / 20
    >>> model = osvm.LinearRegressor("squared", reg=1e-4, epochs=200, random_state=0)
    >>> model.fit(X, 3 * X[:, 0] + 1).predict([[0.5]]).round(1).tolist()
    [2.5]
    """

    _losses = ("epsilon_insensitive", "huber", "squared")
    _error_kind = "absolute"
    _one_target = "number"

    def __init__(
        self,
        loss: Any = "epsilon_insensitive",
        *,
        reg: float | None = None,
        C: float | None = None,
        schedule: Any = "bottou",
        eta0: float = 0.1,
        project: bool | float = False,
        average: bool | int = False,
        batch_size: int | str = 1,
        normalize: bool = False,
        fit_intercept: bool = True,
        epochs: int = 5,
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
        """Learn from all rows, `epochs` times.

        Parameters
        ----------
        X : CSR matrix, array or data frame, shape (n, d)
        y : array of n numbers
        sample_weight : array of n weights, optional

        Returns
        -------
        self
        """
        with self._lock.writing():
            source, rows = self._open(X, reset=True)
            targets = validate.check_y_regression(y, source.n_rows)
            weight = validate.check_sample_weight(sample_weight, source.n_rows, allow_zero=False)
            plan = self._resolve_plan(source.n_rows)
            self._fit_targets((X, y, sample_weight), source, rows, targets, 1, plan, weight)
            return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearRegressor:
        """Learn from the next rows of a stream, in their order.

        Parameters
        ----------
        X : CSR matrix, array or data frame, shape (n, d)
        y : array of n numbers
        sample_weight : array of n weights, optional

        Returns
        -------
        self
        """
        if sample_weight is None and self._learn_row(X, y):
            return self
        with self._lock.changing():
            source, rows = self._open(X)
            targets = validate.check_y_regression(y, source.n_rows)
            weight = validate.check_sample_weight(sample_weight, source.n_rows, allow_zero=True)
            self._learn_next(X, source, rows, targets, weight)
        return self

    def predict(self, X: Any) -> Array:
        """w.x + b for each row.

        Parameters
        ----------
        X : CSR matrix, array or data frame, shape (n, d)

        Returns
        -------
        array of n numbers
        """
        with self._lock:
            return self._scores(X)[:, 0]


class LinearNovelty(OutlierMixin, OneOutput):
    """One-class linear SVM: learns what is usual, and flags the rest.

    Minimises ``reg/2 ||w||² + mean max(0, 1 - w.x)``; a row is novel when
    ``w.x < 1``.

    Parameters
    ----------
    loss : str or object, default "novelty"
    reg, C, schedule, eta0, project, average, batch_size, normalize
        As for :class:`LinearClassifier`.  A larger `reg` flags more rows.
    fit_intercept : bool, default False
    epochs, tol, shuffle, random_state, warm_start, n_jobs, verbose, record, callback
        As for :class:`LinearClassifier`.

    Attributes
    ----------
    coef_ : array, shape (d,)
    intercept_ : array, shape (1,)
    offset_ : float
        ``decision_function = score_samples - offset_``; 1.
    t_, n_epochs_, objective_, history_
        As for :class:`LinearClassifier`; "error" is the share of rows flagged.

    Examples
    --------
    >>> import numpy as np, osvm
    >>> X = np.array([[1.0, 0.1], [0.9, 0.0], [1.1, 0.2], [1.0, 0.0]])
    >>> model = osvm.LinearNovelty(reg=0.01, epochs=50, random_state=0).fit(X)
    >>> model.predict([[1.0, 0.1], [-1.0, 0.1]]).tolist()
    [1, -1]
    """

    _losses = ("novelty",)
    _error_kind = "novel"
    _one_target = "none"
    offset_ = 1.0
    _one_offset = 1.0

    def __init__(
        self,
        loss: Any = "novelty",
        *,
        reg: float | None = None,
        C: float | None = None,
        schedule: Any = "bottou",
        eta0: float = 0.1,
        project: bool | float = False,
        average: bool | int = False,
        batch_size: int | str = 1,
        normalize: bool = False,
        fit_intercept: bool = False,
        epochs: int = 5,
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
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearNovelty:
        """Learn from all rows, `epochs` times.

        Parameters
        ----------
        X : CSR matrix, array or data frame, shape (n, d)
        y : ignored
        sample_weight : array of n weights, optional

        Returns
        -------
        self
        """
        with self._lock.writing():
            source, rows = self._open(X, reset=True)
            weight = validate.check_sample_weight(sample_weight, source.n_rows, allow_zero=False)
            plan = self._resolve_plan(source.n_rows)
            targets = np.ones(source.n_rows)
            self._fit_targets((X, None, sample_weight), source, rows, targets, 1, plan, weight)
            return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearNovelty:
        """Learn from the next rows of a stream, in their order.

        Parameters
        ----------
        X : CSR matrix, array or data frame, shape (n, d)
        y : ignored
        sample_weight : array of n weights, optional

        Returns
        -------
        self
        """
        with self._lock.changing():
            source, rows = self._open(X)
            weight = validate.check_sample_weight(sample_weight, source.n_rows, allow_zero=True)
            self._learn_next(X, source, rows, np.ones(source.n_rows), weight)
            return self

    def score_samples(self, X: Any) -> Array:
        """w.x + b for each row: the larger, the more usual.

        Parameters
        ----------
        X : CSR matrix, array or data frame, shape (n, d)

        Returns
        -------
        array of n numbers
        """
        with self._lock:
            return self._scores(X)[:, 0]

    def decision_function(self, X: Any) -> Array:
        """`score_samples` minus `offset_`: negative for novel rows.

        Parameters
        ----------
        X : CSR matrix, array or data frame, shape (n, d)

        Returns
        -------
        array of n numbers
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> Array:
        """+1 for usual rows, -1 for novel ones.

        Parameters
        ----------
        X : CSR matrix, array or data frame, shape (n, d)

        Returns
        -------
        array of n integers
        """
        return np.where(self.decision_function(X) >= 0, 1, -1)
