"""Prediction beside the products that it cannot do without."""

from __future__ import annotations

import numpy as np

import osvm
from asv_bench.common import interleaved, ratio, rcv1_like
from asv_bench.report import scaled


class Linear:
    """decision_function on sparse rows, for one and for many outputs."""

    params = ([2, 20], ["float32", "float64"])
    param_names = ["classes", "values"]

    def setup(self, classes: int, values: str) -> None:
        n = scaled(50_000, 1000)
        X, y, self.X_test, self.y_test = rcv1_like(n, classes, dtype=np.dtype(values))
        self.model = osvm.LinearClassifier(epochs=1, random_state=0).fit(X, y)
        self.X = X
        self.X64 = X.astype(np.float64)
        self.W = np.ascontiguousarray(self.model.coef_.T, dtype=np.float64)
        if classes == 2:
            self.W = self.W[:, 0].copy()
        self.row = X[:1]

    def time_decision_function(self, classes: int, values: str) -> None:
        self.model.decision_function(self.X)

    def time_predict(self, classes: int, values: str) -> None:
        self.model.predict(self.X)

    def time_one_row(self, classes: int, values: str) -> None:
        self.model.predict(self.row)

    def track_to_matvec(self, classes: int, values: str) -> float:
        """CPU time as a multiple of float64 ``X @ w`` (``X @ W`` for many classes)."""
        times = interleaved(
            {
                "decision": lambda: self.model.decision_function(self.X),
                "X @ w": lambda: self.X64 @ self.W,
            }
        )
        return ratio(times, "decision", "X @ w")

    track_to_matvec.unit = "X @ w"

    def track_test_error(self, classes: int, values: str) -> float:
        return 100 * (1 - self.model.score(self.X_test, self.y_test))

    track_test_error.unit = "%"


class Kernel:
    """decision_function of an expansion, beside one gemm with the support vectors and exp."""

    params = [512, 4096]
    param_names = ["budget"]

    def setup(self, budget: int) -> None:
        budget = scaled(budget, 32)
        rng = np.random.default_rng(0)
        centres = rng.normal(size=(10, 256))

        def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
            label = rng.integers(10, size=n)
            X = centres[label] + 1.5 * rng.normal(size=(n, 256))
            return X.astype(np.float32), np.where((label >= 5) ^ (rng.random(n) < 0.3), 1, -1)

        X, y = draw(4 * budget)
        self.model = osvm.KernelClassifier(
            gamma=1 / 512, budget=budget, epochs=1, random_state=0
        ).fit(X, y)
        self.X, self.y = draw(scaled(4096, 200))
        self.support = np.ascontiguousarray(self.model.support_vectors_, dtype=np.float32)

    def _gemm(self) -> None:
        for start in range(0, len(self.X), 256):
            values = self.X[start : start + 256] @ self.support.T
            values *= -1 / 512
            np.exp(values, out=values)

    def time_decision_function(self, budget: int) -> None:
        self.model.decision_function(self.X)

    def track_to_gemm(self, budget: int) -> float:
        """CPU time as a multiple of sgemm plus exp on the same buffer."""
        times = interleaved(
            {"decision": lambda: self.model.decision_function(self.X), "gemm": self._gemm}
        )
        return ratio(times, "decision", "gemm")

    track_to_gemm.unit = "gemm + exp"

    def track_support(self, budget: int) -> int:
        return int(self.model.n_support_)
