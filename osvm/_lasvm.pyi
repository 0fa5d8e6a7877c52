import numpy as np
from numpy.typing import ArrayLike, NDArray

from osvm._columns import Columns

class Lasvm:
    columns: Columns
    y: NDArray[np.float64]
    upper: NDArray[np.float64]
    alpha: NDArray[np.float64]
    outputs: NDArray[np.float64]
    n_active: int
    n_steps: int
    t: int
    tau: float
    b: float
    gap: float
    def __init__(
        self, columns: Columns, y: ArrayLike, upper: ArrayLike, tau: float = 1e-3
    ) -> None: ...
    @property
    def active_(self) -> NDArray[np.intp]: ...
    def run(self, order: ArrayLike) -> int: ...
    def finish(
        self, tau: float | None = None, *, everywhere: bool = False, max_sets: int = 1000000
    ) -> int: ...
