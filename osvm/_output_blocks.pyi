from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from osvm._rows import RowSource
from osvm._sgd import SGDLearner

class OutputBlock:
    first: int
    count: int
    loss_sum: float
    best: npt.NDArray[np.float64]
    best_output: npt.NDArray[np.int32]
    def __init__(self, learner: SGDLearner, first: int, count: int) -> None: ...
    def hand_back(self) -> None: ...
    def learn(
        self,
        X: RowSource,
        labels: npt.NDArray[Any],
        order: npt.NDArray[np.int64] | None,
        start: int,
        stop: int,
        weight: npt.NDArray[np.float64] | None,
        largest: float,
        t: float,
        seen: float,
    ) -> tuple[int, int]: ...

def is_separable(learner: SGDLearner) -> bool: ...
def count_errors(
    blocks: Sequence[OutputBlock],
    labels: npt.NDArray[Any],
    order: npt.NDArray[np.int64] | None,
    start: int,
    stop: int,
) -> int: ...
