"""Scores and labels of linear classifiers that store what they have learnt as `coef_`."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from osvm._estimator.base import OnlineEstimator
from osvm._input import validate
from osvm._input.labels import pick_codes
from osvm._input.types import Array


class CoefScores(OnlineEstimator):
    """Base of LinearSVC and AlmaClassifier."""

    classes_: Array
    coef_: Any
    intercept_: Array

    def decision_function(self, X: Any) -> Array:
        """Scores: one per row for two classes (positive means ``classes_[1]``), else K."""
        with self._lock:
            return self._decide(X)

    def _decide(self, X: Any) -> Array:
        """`decision_function`; the caller holds the lock."""
        self._check_fitted()
        _, rows = self._check_X(X)
        with np.errstate(over="ignore", invalid="ignore"):  # named by `check_scores`
            scores = rows @ self.coef_.T
            if sp.issparse(scores):
                scores = scores.toarray()
            scores = np.asarray(scores, dtype=np.float64) + self.intercept_
        scores = validate.check_scores(np.ascontiguousarray(scores))
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Array:
        """The label with the largest score; the first of equals."""
        with self._lock:
            scores, classes = self._decide(X), self.classes_
        return classes[pick_codes(scores, len(classes))]
