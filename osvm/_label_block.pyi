from typing import Any

import numpy as np
import numpy.typing as npt

from osvm._parts import LossSpec, StepSpec
from osvm._rows import RowSource
from osvm._weights import ScaledMatrix

_Doubles = npt.NDArray[np.float64]

class LabelBlock:
    weights: ScaledMatrix
    intercept: _Doubles
    intercept_sum: _Doubles
    loss_sum: _Doubles
    error_sum: _Doubles
    clock_of: npt.NDArray[np.int64]
    def __init__(
        self,
        weights: ScaledMatrix,
        loss: LossSpec,
        clocks: list[tuple[StepSpec, float, float, float]],
        clock_of: Any,
        *,
        reg: float,
        radius: float,
        average_from: float,
        fit_intercept: bool,
        curvature: float,
    ) -> None: ...
    def clock_numbers(self) -> list[tuple[float, float]]: ...
    @property
    def is_reach_known(self) -> bool: ...
    @property
    def seen(self) -> _Doubles: ...
    @property
    def averaged(self) -> _Doubles: ...
    def run(
        self,
        X: RowSource,
        ends: npt.NDArray[np.int64],
        codes: npt.NDArray[np.int32],
        *,
        order: npt.NDArray[np.int64] | None = None,
        weight: _Doubles | None = None,
        class_weight: _Doubles | None = None,
        undo: bool = False,
    ) -> None: ...
    def decide(self, X: RowSource, out: _Doubles, averaged: bool) -> None: ...
    def coef(self, averaged: bool) -> _Doubles: ...
    def offsets(self, averaged: bool) -> _Doubles: ...
    def get_state(self) -> Any: ...
    def set_state(self, state: Any) -> None: ...
    def label_state(self, k: int) -> tuple[dict[str, Any], dict[str, Any]]: ...
    def set_label(self, k: int, scalars: dict[str, Any], arrays: dict[str, Any]) -> None: ...
    def grow(self, wide: LabelBlock) -> None: ...
