from typing import Any

import numpy as np

class VwParser:
    column: int
    lines: int
    def __init__(
        self,
        *,
        bits: int = ...,
        float32: bool = ...,
        unlabelled: bool = ...,
        max_rows: int = ...,
        max_values: int = ...,
    ) -> None: ...
    @property
    def n_rows(self) -> int: ...
    def feed(self, buffer: Any, start: int, stop: int) -> tuple[int, str]: ...
    def take(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]: ...

def hash_feature(namespace: str, name: str, bits: int) -> int: ...
