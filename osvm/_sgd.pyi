from typing import Any

import numpy as np
import numpy.typing as npt

from osvm._parts import LossSpec, StepSpec
from osvm._rows import RowSource

State = tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]

class SGDLearner:
    weights: Any
    intercept: npt.NDArray[np.float64]
    intercept_sum: npt.NDArray[np.float64]
    t: float
    seen: float
    loss_sum: float
    error_sum: float
    def __init__(
        self,
        n_features: int,
        n_out: int,
        dtype: Any,
        loss: LossSpec,
        step: StepSpec,
        *,
        reg: float,
        radius: float = ...,
        average_from: float = ...,
        intercept_eta0: float = ...,
        batch_size: int = ...,
        fit_intercept: bool = ...,
        error_kind: str = ...,
        weights: Any = ...,
    ) -> None: ...
    def set_parts(self, loss: LossSpec, step: StepSpec) -> None: ...
    def run(
        self,
        X: RowSource,
        targets: npt.NDArray[Any],
        order: npt.NDArray[np.int64] | None = ...,
        start: int = ...,
        stop: int = ...,
        sample_weight: npt.NDArray[np.float64] | None = ...,
        record: dict[str, npt.NDArray[Any]] | None = ...,
        undo: bool = ...,
        curvature: float = ...,
    ) -> None: ...
    def flush(self) -> None: ...
    @property
    def pending_examples(self) -> int: ...
    def decide(
        self,
        X: RowSource,
        out: npt.NDArray[np.float64],
        averaged: bool = ...,
        start: int = ...,
        stop: int = ...,
    ) -> None: ...
    def frozen_average(self) -> SGDLearner: ...
    def average_intercept(self) -> npt.NDArray[np.float64]: ...
    def get_state(self) -> State: ...
    def set_state(self, scalars: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None: ...
    def copy(self) -> SGDLearner: ...
    def with_outputs(self, n_out: int) -> SGDLearner: ...
