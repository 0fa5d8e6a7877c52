import numpy as np
from numpy.typing import NDArray

from osvm._rows import RowSource

class AlmaState:
    raw: NDArray[np.float64]
    scale: NDArray[np.float64]
    power: NDArray[np.float64]
    count: NDArray[np.float64]
    p: float
    slack: float
    margin: float
    step: float
    def __init__(
        self, n_outputs: int, d: int, p: float, slack: float, margin: float, step: float
    ) -> None: ...
    def copy(self) -> AlmaState: ...
    def set_arrays(
        self,
        raw: NDArray[np.float64],
        scale: NDArray[np.float64],
        power: NDArray[np.float64],
        count: NDArray[np.float64],
    ) -> None: ...
    def weights(self) -> NDArray[np.float64]: ...
    def learn(self, source: RowSource, Y: NDArray[np.float64], order: NDArray[np.intp]) -> int: ...
