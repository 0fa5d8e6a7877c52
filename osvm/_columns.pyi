from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

KINDS: dict[str, int]

class Columns:
    n: int
    d: int
    n_slots: int
    wide: bool
    offset: float
    hits: int
    computed: float
    def __init__(
        self,
        X: Any,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        *,
        gamma: float = 1.0,
        coef0: float = 0.0,
        degree: int = 3,
        dtype: DTypeLike = ...,
        cache_mb: float = 200.0,
        offset: float = 0.0,
        order: ArrayLike | None = None,
        max_columns: int | None = None,
    ) -> None: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    def take(self, columns: ArrayLike) -> NDArray[Any]: ...
    def touch_block(self, columns: ArrayLike) -> None: ...
    def square(self, rows: ArrayLike) -> NDArray[np.float64]: ...
    def forget(self) -> None: ...
