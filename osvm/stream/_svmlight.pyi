from typing import Any

import numpy as np

class SvmlightParser:
    column: int
    lines: int
    float32: bool
    wide: bool
    def __init__(
        self,
        *,
        float32: bool = ...,
        base: int = ...,
        limit: int = ...,
        max_rows: int = ...,
        max_values: int = ...,
        multilabel: bool = ...,
    ) -> None: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def seen(self) -> tuple[int, int]: ...
    def feed(self, buffer: Any, start: int, stop: int) -> tuple[int, str]: ...
    def take(
        self,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]: ...

def survey(
    buffer: Any, start: int, stop: int, labels: np.ndarray
) -> tuple[int, int, int, int]: ...
