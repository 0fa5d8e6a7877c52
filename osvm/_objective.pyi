from typing import Any

import numpy as np
import numpy.typing as npt

from osvm._rows import RowSource
from osvm._sgd import SGDLearner

def objective(
    learner: SGDLearner,
    X: RowSource,
    targets: npt.NDArray[Any],
    weight: npt.NDArray[np.float64] | None = ...,
    averaged: bool = ...,
) -> float: ...
