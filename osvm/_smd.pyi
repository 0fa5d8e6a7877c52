import numpy as np

from osvm._meta import MetaLearner
from osvm._rows import RowSource
from osvm._weights import ScaledMatrix, ScaledVector

class SMDLearner(MetaLearner):
    @property
    def weights(self) -> ScaledVector | ScaledMatrix: ...
    def trace_array(self) -> np.ndarray: ...
    def eta_array(self) -> np.ndarray: ...
    def decide(
        self,
        X: RowSource,
        out: np.ndarray,
        averaged: bool = False,
        start: int = 0,
        stop: int = -1,
    ) -> None: ...
    def frozen_average(self) -> SMDLearner: ...
