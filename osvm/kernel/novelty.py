"""Kernel novelty detection: one output.

Source: Vishwanathan, Schraudolph, Smola, "Step Size Adaptation in Reproducing Kernel
Hilbert Space" (JMLR 2006), sections 4 and 5.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from osvm._estimator.compat import OutlierMixin
from osvm._input import validate
from osvm._input.types import Array
from osvm.kernel.base import KernelEstimator
from osvm.kernel.batch import Batch


class KernelNovelty(OutlierMixin, KernelEstimator):
    """Novelty detection: f is above the margin where the data are.

    Labels are not used.  With `nu` the margin is learnt, so that about that fraction of
    the examples lies below it.

    Parameters
    ----------
    nu : float, NuTrick or None, default 0.1
        Fraction of examples below the margin (then `reg` is 1); None keeps the margin at 1.
        `fit` ends by setting the margin so that this share of the training rows is below it; in
        a stream the margin follows the score below which this share of the rows lay, each
        judged before it was learnt.
    reg, C, kernel, gamma, degree, coef0, budget, eviction, schedule, eta0, epochs, shuffle, \
random_state, warm_start, verbose, record
        As for :class:`KernelClassifier`; `schedule` is "constant" by default.

    Attributes
    ----------
    offset_ : float
        The margin: `decision_function` is `score_samples` minus it.
    support_vectors_, dual_coef_, n_support_, t_, n_iter_, history_
        As for :class:`KernelClassifier`; "error" is the running fraction of examples
        found novel, "prediction" is +1 or -1.

    Examples
    --------
    >>> import numpy as np, osvm
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> model = osvm.KernelNovelty(nu=0.05, gamma=0.5, random_state=0).fit(X)
    >>> model.predict([[0.0, 0.0], [9.0, 9.0]]).tolist()
    [1, -1]
    """

    _task = "novelty"
    _one_target = "none"
    _loss_tasks = ("novelty",)
    fit_intercept = False

    def __init__(
        self,
        nu: Any = 0.1,
        *,
        reg: float | None = None,
        C: float | None = None,
        kernel: Any = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        budget: int | None = 512,
        eviction: str = "merge",
        schedule: Any = "constant",
        eta0: float | None = None,
        epochs: int = 5,
        shuffle: bool = True,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: bool | int = False,
        record: bool = False,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelNovelty:
        """Learn from all rows, `epochs` times; y is not used."""
        with self._lock.writing():
            self._learn(X, self._batch(X, sample_weight, reset=True), reset=True)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelNovelty:
        """Learn from these rows once, in their order; y is not used."""
        with self._lock.changing():
            self._learn(X, self._batch(X, sample_weight, reset=False), reset=False)
        return self

    def _batch(self, X: Any, sample_weight: Any, *, reset: bool) -> Batch:
        source, rows = self._check_X(X, reset=reset)
        weight = validate.check_sample_weight(sample_weight, source.n_rows, allow_zero=not reset)
        return Batch(source, rows, "novelty", weights=weight)

    @property
    def offset_(self) -> float:
        self._check_fitted()
        return self._machine.margin

    def score_samples(self, X: Any) -> Array:
        """f(x): the larger, the more usual."""
        with self._lock:
            return self._scores(X)[:, 0]

    def decision_function(self, X: Any) -> Array:
        """f(x) minus the margin; negative for novel rows."""
        with self._lock:  # the margin moves with f
            return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> Array:
        """+1 for usual rows, -1 for novel ones."""
        return np.where(self.decision_function(X) < 0, -1, 1)
