"""What validation costs: a whole matrix beside ``X @ w``, and one row by itself.

    python -m asv_bench.bench_validate

prints it in one interleaved, pinned run, with the time of ``import osvm`` below it.
"""

from __future__ import annotations

import numpy as np

from asv_bench.bench_import import import_seconds
from asv_bench.common import interleaved, ratio, rcv1_like
from asv_bench.report import Report, bench_scale, default_repeats, make_parser, scaled
from osvm._input.validate import check_X, check_y_classes


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


def main() -> None:
    parser = make_parser("bench_validate", str(__doc__).split("\n\n")[0])
    options = parser.parse_args()
    repeats = options.repeats or 3 * default_repeats(options.quick)
    n_rows = scaled(10_000 if options.quick else 100_000, 1000)
    report = Report(
        "validate", "What validation and import cost",
        f"Generated RCV1 shape, {n_rows:,} rows of 76 non-zeros, processor time of one thread; "
        "the quickest of the repeats counts. The bars are those that the project set itself.",
        options,
    )  # fmt: skip
    rows = []
    for values in ("float32", "float64"):
        for indices in ("int32", "int64"):
            X, _, _, _ = rcv1_like(n_rows, dtype=np.dtype(values), index=np.dtype(indices))
            wide, w = X.astype(np.float64), np.random.default_rng(0).normal(size=X.shape[1])
            jobs = {
                "all": lambda X=X: check_X(X),
                "X @ w": lambda M=wide, w=w: M @ w,
            }
            times = interleaved(jobs, repeats)
            found = f"{ratio(times, 'all', 'X @ w'):.2f}"
            rows.append([f"rows of {values}, indices {indices}", found, "0.35"])
    report.add_table(
        "Validation, in units of float64 X @ w",
        ["X", "all", "bar"],
        rows,
    )
    seconds = import_seconds(default_repeats(options.quick) + (2 if bench_scale() >= 1 else 0))
    unit = seconds["numpy and scipy.sparse"]
    report.add_table(
        "Imports, in units of import numpy, scipy.sparse",
        ["what", "found", "bar"],
        [[k, f"{v / unit:.2f}", "1.15" if k == "osvm" else "-"] for k, v in seconds.items()],
        note="In a fresh process. `import osvm` is lazy: the other names load what they need.",
    )
    report.finish()


if __name__ == "__main__":
    main()
