"""What validation costs: a whole matrix beside ``X @ w``, and one row by itself."""

from __future__ import annotations

import numpy as np

from asv_bench.common import interleaved, ratio, rcv1_like
from asv_bench.report import scaled
from osvm._validate import check_X, check_y_classes


class Matrix:
    """A CSR matrix of 100,000 rows, 76 non-zeros each."""

    params = (["float32", "float64"], ["int32", "int64"])
    param_names = ["values", "indices"]

    def setup(self, values: str, indices: str) -> None:
        self.X, self.y, _, _ = rcv1_like(
            scaled(100_000, 1000), dtype=np.dtype(values), index=np.dtype(indices)
        )
        self.X64 = self.X.astype(np.float64)
        self.w = np.random.default_rng(0).normal(size=self.X.shape[1])

    def time_check_X(self, values: str, indices: str) -> None:
        check_X(self.X)

    def time_check_labels(self, values: str, indices: str) -> None:
        check_y_classes(self.y, len(self.y))

    def track_to_matvec(self, values: str, indices: str) -> float:
        """CPU time of the check as a multiple of float64 ``X @ w``; the bar is 0.35."""
        times = interleaved({"check": lambda: check_X(self.X), "X @ w": lambda: self.X64 @ self.w})
        return ratio(times, "check", "X @ w")

    track_to_matvec.unit = "X @ w"


class OneRow:
    """One row at a time, sparse and dense."""

    params = ["sparse", "dense"]
    param_names = ["row"]

    def setup(self, row: str) -> None:
        X, _, _, _ = rcv1_like(1000)
        self.X = X[:1] if row == "sparse" else X[:1].toarray()[:, :100]

    def time_check_X(self, row: str) -> None:
        check_X(self.X)

    def track_per_second(self, row: str) -> float:
        def work() -> None:
            for _ in range(1000):
                check_X(self.X)

        return 1000 / min(interleaved({"check": work}, repeats=3)["check"])

    track_per_second.unit = "rows/s"
