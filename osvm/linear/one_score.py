"""What linear models with one score per row share: regression and novelty detection."""

from __future__ import annotations

from typing import Any

from osvm._input.types import Array
from osvm.linear.base import LinearEstimator
from osvm.linear.plan import resolve_plan
from osvm.linear.training import Examples


class OneScore(LinearEstimator):
    """What regression and novelty detection share."""

    def _stream_reg(self, source: Any) -> float | None:
        """The regularizer of a stream that begins with these rows; None for the usual one."""
        return None

    def _learn_next(
        self, X: Any, source: Any, rows: Any, targets: Array, weight: Array | None
    ) -> None:
        """The next block of a stream."""
        if "_learner" in self.__dict__:
            learner, plan = self._going_on(None, source)
        else:
            plan = resolve_plan(self, None, usual_reg=self._stream_reg(source)).for_stream(source)
            learner = plan.learner(source.n_features, 1, self._weight_dtype(rows))
        self._learn_block(learner, plan, Examples(source, targets, weight))
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
            self._need_attribute("_learner")
            return self._offsets_array(self._averaged)
