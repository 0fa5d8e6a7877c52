"""Peak memory; beside each measurement an empty one that only makes the data.

The difference of the two is what learning costs above X.
"""

from __future__ import annotations

import numpy as np

import osvm
from asv_bench.common import rcv1_like
from asv_bench.report import scaled

ROWS = 100_000


class LinearFit:
    """fit on sparse rows."""

    params = (["plain", "averaged", "projected", "dual"], [2, 20])
    param_names = ["kind", "classes"]

    def setup(self, kind: str, classes: int) -> None:
        if kind == "dual" and not hasattr(osvm.recipes, "dual_svm"):
            raise NotImplementedError("this version has no dual solver")
        self.X, self.y, _, _ = rcv1_like(scaled(ROWS, 1000), classes)

    def peakmem_fit(self, kind: str, classes: int) -> None:
        if kind == "dual":
            model = osvm.recipes.dual_svm(C=1e4 / len(self.y), tol=1e-2, random_state=0)
        else:
            model = osvm.LinearClassifier(
                reg=1e-4, epochs=1, average=kind == "averaged", project=kind == "projected",
                random_state=0,
            )  # fmt: skip
        model.fit(self.X, self.y)

    def peakmem_reference(self, kind: str, classes: int) -> None:
        pass

    def track_bytes_of_X(self, kind: str, classes: int) -> int:
        return self.X.data.nbytes + self.X.indices.nbytes + self.X.indptr.nbytes

    track_bytes_of_X.unit = "bytes"


class LinearStream:
    """partial_fit on chunks that are made as they come: memory does not grow with the rows."""

    params = [20_000, 200_000]
    param_names = ["rows"]

    def peakmem_partial_fit(self, rows: int) -> None:
        model = osvm.LinearClassifier(reg=1e-4)
        chunks = osvm.datasets.iter_rcv1_like(
            scaled(rows, 1000), chunk_rows=2000, random_state=0, dtype=np.float32
        )
        for X, y in chunks:
            model.partial_fit(X, y)

    def peakmem_reference(self, rows: int) -> None:
        for _ in osvm.datasets.iter_rcv1_like(
            2000, chunk_rows=2000, random_state=0, dtype=np.float32
        ):
            pass


class KernelStream:
    """A bounded buffer: memory depends on the budget alone."""

    params = ([512, 4096], [10_000, 40_000])
    param_names = ["budget", "rows"]

    def setup(self, budget: int, rows: int) -> None:
        rng = np.random.default_rng(0)
        n = scaled(rows, 500)
        self.X = rng.normal(size=(n, 64)).astype(np.float32)
        self.y = np.where(self.X[:, 0] * self.X[:, 1] > 0, 1, -1)

    def peakmem_partial_fit(self, budget: int, rows: int) -> None:
        osvm.KernelClassifier(gamma=0.05, budget=scaled(budget, 64)).partial_fit(self.X, self.y)

    def peakmem_reference(self, budget: int, rows: int) -> None:
        pass


class Predict:
    """decision_function on sparse rows."""

    def setup(self) -> None:
        self.X, y, _, _ = rcv1_like(scaled(ROWS, 1000))
        self.model = osvm.LinearClassifier(epochs=1, random_state=0).fit(self.X, y)

    def peakmem_decision_function(self) -> None:
        self.model.decision_function(self.X)

    def peakmem_reference(self) -> None:
        pass
