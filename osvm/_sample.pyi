from typing import Any

import numpy as np
import numpy.typing as npt

from osvm._rows import RowSource

def take_rows(
    X: RowSource, rows: npt.NDArray[Any], renumber: bool = ...
) -> tuple[RowSource, npt.NDArray[np.float64]]: ...
