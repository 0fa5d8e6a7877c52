from typing import Any

import numpy as np

class CsrBuilder:
    @property
    def n_rows(self) -> int: ...
    @property
    def n_values(self) -> int: ...
    def take(self, dtype: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...
