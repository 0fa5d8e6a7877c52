from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osvm._columns import Columns

RULES: dict[str, int]

class OnlineLoop:
    columns: Columns
    n_outputs: int
    alpha_raw: NDArray[np.float64]
    outputs_raw: NDArray[np.float64]
    y: NDArray[np.float64]
    mask: NDArray[np.uint8]
    weights: NDArray[np.float64]
    trace: NDArray[np.float64]
    corrections: list[list[NDArray[np.intp]]]
    def __init__(
        self,
        columns: Columns,
        y: ArrayLike,
        rule: str,
        C: ArrayLike = 1.0,
        *,
        mask: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        bias: bool = False,
        average: bool = False,
        eta: float = 0.0,
        radius: float = 0.0,
        slack: float = 0.5,
        margin: float = 0.0,
        step: float = 0.0,
        record: bool = False,
        keep_corrections: bool = False,
    ) -> None: ...
    @property
    def t(self) -> NDArray[np.float64]: ...
    @property
    def progress(self) -> tuple[float, float]: ...
    @property
    def bias_(self) -> NDArray[np.float64]: ...
    @property
    def alpha_(self) -> NDArray[np.float64]: ...
    @property
    def outputs_(self) -> NDArray[np.float64]: ...
    def run_once(self) -> tuple[int, float]: ...
    def run(self, order: Any, *, falling: bool = False) -> tuple[int, float]: ...
