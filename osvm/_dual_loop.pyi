from collections.abc import Callable

import numpy as np

from osvm._rows import RowSource
from osvm._weights import ScaledVector

class DualProblem:
    stopped: bool
    reg: float
    def __init__(
        self,
        X: RowSource,
        y: np.ndarray,
        weight: np.ndarray | None,
        reg: float,
        squared: bool,
        shrinking: bool,
        shuffle: bool,
        bias_sq: float,
        free_offset: bool,
        weights: ScaledVector,
        alpha: np.ndarray,
        intercept: float,
        sq: np.ndarray,
        seed: int,
    ) -> None: ...
    @property
    def intercept(self) -> float: ...
    @property
    def primal(self) -> float: ...
    @property
    def dual(self) -> float: ...
    def finish(self) -> None: ...
    def solve(
        self,
        tol: float,
        max_epochs: int,
        check_every: int,
        history: list[tuple],
        callback: Callable[..., object] | None,
    ) -> tuple[int, bool]: ...

def mean_sq_norm(X: RowSource, sq: np.ndarray, every: int = 0) -> float: ...
