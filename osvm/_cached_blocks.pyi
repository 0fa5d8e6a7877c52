import numpy as np
from numpy.typing import ArrayLike, NDArray

from osvm._columns import Columns

class BlockSolver:
    columns: Columns
    y: NDArray[np.float64]
    upper: NDArray[np.float64]
    a: NDArray[np.float64]
    outputs: NDArray[np.float64]
    m: int
    size: int
    n_sets: int
    n_steps: int
    violation: float
    b: float
    bias: bool
    def __init__(
        self,
        columns: Columns,
        y: ArrayLike,
        upper: ArrayLike,
        *,
        bias: bool = False,
        size: int = 64,
    ) -> None: ...
    def start(self, alpha: ArrayLike, outputs: ArrayLike | None = None) -> None: ...
    def grow(self, m: int) -> None: ...
    def solve(self, tol: float, max_sets: int = 1000000, inner: float = 0.1) -> bool: ...
    @property
    def alpha_(self) -> NDArray[np.float64]: ...
