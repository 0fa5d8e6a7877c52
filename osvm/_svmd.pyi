import numpy as np

from osvm._meta import MetaLearner
from osvm._rows import RowSource
from osvm._weights import ScaledMatrix, ScaledVector

class SVMDLearner(MetaLearner):
    weights: ScaledVector | ScaledMatrix
    trace: ScaledVector | ScaledMatrix
    r: float
    pi: float
    sq_f: float
    def trace_array(self) -> np.ndarray: ...
    def decide(
        self,
        X: RowSource,
        out: np.ndarray,
        averaged: bool = False,
        start: int = 0,
        stop: int = -1,
    ) -> None: ...
    def frozen_average(self) -> SVMDLearner: ...
