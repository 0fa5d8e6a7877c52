"""Linear novelty detection: a one-class model."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from osvm._estimator.compat import OutlierMixin, with_callbacks
from osvm._input import validate
from osvm.linear.one_score import OneScore
from osvm.linear.plan import resolve_plan
from osvm.linear.training import Examples

__all__ = ["LinearNovelty"]

Array = npt.NDArray[Any]


class LinearNovelty(OutlierMixin, OneScore):
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
    t_, n_iter_, objective_, history_
        As for :class:`LinearClassifier`; "error" is the share of rows flagged.

    Examples
    --------
    >>> import numpy as np, osvm
    >>> X = np.array([[1.0, 0.1], [0.9, 0.0], [1.1, 0.2], [1.0, 0.0]])
    >>> model = osvm.LinearNovelty(reg=0.01, epochs=50, random_state=0).fit(X)
    >>> model.predict([[1.0, 0.1], [-1.0, 0.1]]).tolist()
    [1, -1]
    """

    _tasks = ("novelty",)
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
            plan = resolve_plan(self, source.n_rows)
            targets = np.ones(source.n_rows)
            data = Examples(source, targets, weight)
            self._train((X, None, sample_weight), data, plan, (1, self._weight_dtype(rows)))
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
