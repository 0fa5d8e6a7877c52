from typing import Any

import numpy as np
import numpy.typing as npt

def score_csr(
    values: Any,
    indices: Any,
    indptr: Any,
    n_rows: int,
    weights: npt.NDArray[Any],
    scale: float,
    b: float,
    out: npt.NDArray[np.float64],
) -> bool: ...
