"""The faster path of `learn_one`, `predict_one` and `score_one` of linear estimators.

Two arrays or a dict of column numbers go through compiled code (`osvm.linear.one_row`) in about
a microsecond.  What that code does not handle goes through a matrix of one row, as for every
estimator, with the same result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

import osvm.linear.one_row as one_row
from osvm._estimator.one_example import NOT_GIVEN, OneExample

_csr_matrix, _csr_array, _ndarray = sp.csr_matrix, sp.csr_array, np.ndarray


class QuickOneExample(OneExample):
    """Mixin of the linear estimators."""

    # Whether `offset_` is taken off a score.
    _has_offset = False

    def learn_one(
        self, x: Any, values: Any = None, y: Any = NOT_GIVEN, *, n_features: int | None = None
    ) -> Any:
        if y is NOT_GIVEN:
            if type(x) is dict:  # as `_arguments` says, without the call
                values, y = None, values
            else:
                values, y = self._arguments(x, values)
        if values is None and type(x) is _ndarray:
            if x.ndim == 1 and one_row.learn_dense(self, x[None], y):
                return self
        elif one_row.learn(self, x, values, y):
            return self
        return super().learn_one(x, values, y, n_features=n_features)

    def score_one(self, x: Any, values: Any = None) -> Any:
        if self._has_offset:
            with self._lock:  # type: ignore[attr-defined]  # weights and offset of the same moment
                answer = one_row.score(self, x, values)
                if answer is not None:
                    return answer - self.offset_  # type: ignore[attr-defined]
        else:
            answer = one_row.score(self, x, values)
        if answer is None:
            return super().score_one(x, values)
        if type(answer) is float:
            return answer
        if len(self._index) == 2:  # type: ignore[attr-defined]
            return answer[1] - answer[0]
        return np.array(answer[: len(self._index)])  # type: ignore[attr-defined]

    def predict_one(self, x: Any, values: Any = None) -> Any:
        if self._one_target == "label":
            answer = one_row.classify(self, x, values)
            if answer is not None:
                return answer
        return super().predict_one(x, values)

    def _learn_row(self, X: Any, y: Any) -> bool:
        """`partial_fit` on a matrix of one row on the fast path; False when it cannot."""
        kind = type(X)
        known = self.__dict__
        sparse = kind is _csr_matrix or kind is _csr_array
        if not sparse and kind is not _ndarray:
            return False
        if (X._shape if sparse else X.shape) != (1, known.get("n_features_in_")):
            return False
        if "_one" not in known:
            if "_learner" in known:
                self._make_one()
            return False
        if type(y) is np.ndarray and y.shape == (1,) and y.dtype.kind in "biufU":
            target = y.item()
        elif type(y) is list and len(y) == 1:
            target = y[0]
        else:
            return False
        if "feature_names_in_" in known:
            return False
        if sparse:
            if X.indptr.tolist() != [0, len(X.indices)]:
                return False
            learnt = one_row.learn(self, X.indices, X.data, target)
        else:
            learnt = one_row.learn_dense(self, X, target)
        if not learnt:
            self._make_one()
        return learnt

    def _make_one(self) -> None:
        """The fast path for later calls, where there is none or an old one."""
        known = self.__dict__
        if known.get("_scaling") is not None:
            return  # scaled columns go through partial_fit
        if not self._plan_is_current():  # type: ignore[attr-defined]
            return  # partial_fit follows the parameters first
        index = known.get("_index")
        one = known.get("_one")
        if one is None or one.learner is not known["_learner"] or one.index is not index:
            plan = known["_plan"]
            self._one = one_row.OneByOne(
                known["_learner"],
                index,
                self._one_target == "none",
                plan.average_from >= 0,
                plan.curvature,
                known.get("_recent"),
                not any(self._is_set(name) for name in one_row.UNUSUAL),
            )

    def _is_set(self, name: str) -> bool:
        """Whether a parameter is something else than None or False."""
        value = self.__dict__.get(name)
        return value is not None and value is not False
