from typing import Any

import numpy as np
import numpy.typing as npt

from osvm._rows import RowSource
from osvm._sgd import SGDLearner

class LockFree:
    n_threads: int
    position: int
    def __init__(self, learner: SGDLearner, n_threads: int) -> None: ...
    def prepare(self, n: int) -> bool: ...
    def learn(
        self,
        thread: int,
        X: RowSource,
        targets: npt.NDArray[Any],
        order: npt.NDArray[np.int64] | None,
        start: int,
        stop: int,
        weight: npt.NDArray[np.float64] | None,
        largest: float,
    ) -> None: ...
    def join(self, n: int) -> int: ...
