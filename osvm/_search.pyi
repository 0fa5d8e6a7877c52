from typing import Any

import numpy as np
import numpy.typing as npt

from osvm._parts import LossSpec, StepSpec
from osvm._rows import RowSource

def limit_simd(level: int) -> int: ...

class SearchLearner:
    weights: Any
    intercept: npt.NDArray[np.float64]
    intercept_sum: npt.NDArray[np.float64]
    loss_sum: npt.NDArray[np.float64]
    error_sum: npt.NDArray[np.float64]
    seen: float
    def __init__(
        self,
        n_features: int,
        n_out: int,
        dtype: Any,
        loss: LossSpec,
        steps: list[StepSpec],
        *,
        regs: Any,
        radii: Any,
        intercept_eta0: Any,
        average_from: float = ...,
        fit_intercept: bool = ...,
    ) -> None: ...
    def run(
        self,
        X: RowSource,
        targets: npt.NDArray[Any],
        order: npt.NDArray[np.int64] | None = ...,
        start: int = ...,
        stop: int = ...,
        sample_weight: npt.NDArray[np.float64] | None = ...,
    ) -> None: ...
    def candidate_state(self, g: int) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]: ...
