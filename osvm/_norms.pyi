import numpy as np
import numpy.typing as npt

from osvm._rows import RowSource

def is_sorted_unique(source: RowSource) -> bool: ...
def row_norms(source: RowSource, out: npt.NDArray[np.float64], inverse: bool = False) -> None: ...
