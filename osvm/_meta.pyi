from typing import Any

import numpy as np

from osvm._parts import LossSpec, StepSpec
from osvm._rows import RowSource

class MetaLearner:
    n_features: int
    n_out: int
    dtype: np.dtype
    intercept: np.ndarray
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
        intercept_eta0: float = 0.0,
        fit_intercept: bool = False,
        error_kind: str = "class",
    ) -> None: ...
    @property
    def eta(self) -> float: ...
    @property
    def eta_intercept(self) -> np.ndarray: ...
    @property
    def pending_examples(self) -> int: ...
    def set_parts(self, loss: LossSpec, step: StepSpec) -> None: ...
    def run(
        self,
        X: RowSource,
        targets: np.ndarray,
        order: np.ndarray | None = None,
        start: int = 0,
        stop: int = -1,
        sample_weight: np.ndarray | None = None,
        record: dict[str, np.ndarray] | None = None,
    ) -> None: ...
    def flush(self) -> None: ...
    def average_intercept(self) -> np.ndarray: ...
    def get_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]: ...
    def set_state(self, scalars: dict[str, Any], arrays: dict[str, np.ndarray]) -> None: ...
    @classmethod
    def from_state(
        cls, scalars: dict[str, Any], arrays: dict[str, np.ndarray], **parts: Any
    ) -> Any: ...
    def copy(self) -> Any: ...
