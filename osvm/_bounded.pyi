import numpy as np
import numpy.typing as npt

from osvm._rows import RowSource
from osvm._sgd import SGDLearner

def sq_norm(X: RowSource, i: int) -> float: ...
def bounded_weight(
    learner: SGDLearner,
    X: RowSource,
    curvature: float,
    order: npt.NDArray[np.int64] | None,
    start: int,
    stop: int,
    weight: npt.NDArray[np.float64] | None,
) -> npt.NDArray[np.float64] | None: ...
