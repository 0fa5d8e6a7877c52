from typing import Any

class RowSource:
    n_rows: int
    n_features: int
    sparse: bool
    largest: float
    @property
    def mean_count(self) -> float: ...
    @staticmethod
    def csr(
        values: Any, indices: Any, indptr: Any, n_features: int, row_scale: Any = None
    ) -> RowSource: ...
    @staticmethod
    def dense(array: Any, row_scale: Any = None) -> RowSource: ...
    def set_row_scale(self, row_scale: Any, largest: float = -1.0) -> None: ...
