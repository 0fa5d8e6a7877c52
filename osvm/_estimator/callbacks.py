"""Telling callbacks about the epochs of a `fit`: the user's own, and scikit-learn's.

scikit-learn 1.9 has a protocol for callbacks (progress bars, scoring monitors): the
estimator opens a context for the fit and one below it for each epoch, and hands over
what a copy of it needs to predict as if the fit had ended there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from osvm._estimator.compat import HAS_CALLBACKS


class EpochWatch:
    """Begins and ends epochs towards all who want to know.

    Parameters
    ----------
    model : estimator
        Its `callback` parameter is the user's function, which gets an estimator with the
        weights of the moment; `model` itself changes when the fit has ended.
    epochs : int
        The most there can be.
    X, y, sample_weight
        As the user gave them.
    attributes : callable
        Gives the fitted attributes of the moment, by name.
    """

    def __init__(
        self,
        model: Any,
        epochs: int,
        X: Any,
        y: Any,
        sample_weight: Any,
        attributes: Callable[[], dict[str, Any]],
    ) -> None:
        self._model = model
        self._attributes = attributes
        self._context: Any = None
        self._epoch: Any = None
        self._data = {"estimator": model, "X": X, "y": y}
        if sample_weight is not None:
            self._data["metadata"] = {"sample_weight": sample_weight}
        if HAS_CALLBACKS and hasattr(model, "_skl_callbacks"):
            self._context = model._init_callback_context(max_subtasks=epochs)
            self._context.call_on_fit_task_begin(**self._data)

    def begin(self) -> None:
        """An epoch begins."""
        if self._context is not None:
            self._epoch = self._context.subcontext(task_name="epoch")
            self._epoch.call_on_fit_task_begin(**self._data)

    def end(self, epoch: Any) -> bool:
        """An epoch has ended; True when somebody wants to stop."""
        stop = False
        if self._context is not None:
            stop = self._epoch.call_on_fit_task_end(
                **self._data, reconstruction_attributes=self._attributes
            )
        if self._model.callback is not None:
            now = type(self._model)(**self._model.get_params(deep=False))
            now.__dict__.update(self._attributes())
            answer = self._model.callback(now, epoch)
            stop = (isinstance(answer, bool | np.bool_) and bool(answer)) or stop
        return bool(stop)

    def close(self) -> None:
        """The fit has ended."""
        if self._context is not None:
            self._context.call_on_fit_task_end(
                **self._data, reconstruction_attributes=self._attributes
            )
