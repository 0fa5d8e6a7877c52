"""Training in threads: time of the clock, and what lock-free updates do to the objective.

    python -m asv_bench.bench_threads [--rows N] [--repeats N] [--jobs N ...]

One-vs-rest models share their outputs among the threads and give the same model; two-class
models share their rows (``lock_free=True``).  Time of the clock, not of the processor, so
that other work on the machine shows: the quickest of the repeats counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from asv_bench.common import ROWS, rcv1_like
from asv_bench.report import Report, make_parser
from osvm import LinearClassifier

EPOCHS = 5


def make(n_classes: int, n_jobs: int) -> LinearClassifier:
    return LinearClassifier(
        reg=1e-5, epochs=EPOCHS, random_state=0, n_jobs=n_jobs, lock_free=n_classes == 2
    )


def objective(model: LinearClassifier, X: Any, y: np.ndarray) -> float:
    """reg/2 ||w||^2 + mean hinge of a two-class model."""
    f = model.decision_function(X)
    w = model.coef_[0].astype(np.float64)
    return float(0.5e-5 * w @ w + np.maximum(0.0, 1.0 - np.where(y > 0, 1, -1) * f).mean())


def clock(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class Threads:
    """Seconds of a fit."""

    params = ([2, 20], [1, 2])
    param_names = ("n_classes", "n_jobs")

    def setup(self, n_classes: int, n_jobs: int) -> None:
        self.X, self.y, _, _ = rcv1_like(ROWS, n_classes)
        self.model = make(n_classes, n_jobs)

    def time_fit(self, n_classes: int, n_jobs: int) -> None:
        self.model.fit(self.X, self.y)


def main() -> None:
    parser = make_parser("bench_threads", str(__doc__).splitlines()[0])
    parser.add_argument("--rows", type=int)
    parser.add_argument("--jobs", type=int, nargs="*", default=[1, 2])
    options = parser.parse_args()
    rows = options.rows or (20_000 if options.quick else ROWS)
    report = Report("threads", "Training in threads", str(__doc__).split("\n\n")[2], options)
    for n_classes in (2, 20):
        X, y, X_test, y_test = rcv1_like(rows, n_classes)
        models = {jobs: make(n_classes, jobs) for jobs in options.jobs}
        times: dict[int, list[float]] = {jobs: [] for jobs in models}
        work: dict[int, list[float]] = {jobs: [] for jobs in models}
        for _ in range(options.repeats or 5):
            for jobs, model in models.items():
                began = time.process_time()
                times[jobs].append(clock(lambda: model.fit(X, y)))  # noqa: B023
                work[jobs].append(time.process_time() - began)
        table = []
        first = models[options.jobs[0]]
        for jobs, model in models.items():
            same = (
                f"objective {objective(model, X, y):.6f}"
                if n_classes == 2
                else f"same bits: {np.array_equal(model.coef_, first.coef_)}"
            )
            table.append([
                jobs, f"{min(times[jobs]):.3f} s", f"{min(work[jobs]):.3f} s",
                f"{min(times[options.jobs[0]]) / min(times[jobs]):.2f} ×",
                f"{100 * model.score(X_test, y_test):.2f} %", same,
            ])  # fmt: skip
        report.add_table(
            f"{rows:,} rows, {n_classes} classes, {EPOCHS} epochs, "
            + ("rows lock-free" if n_classes == 2 else "outputs in blocks")
            + f"; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
            ["threads", "clock", "processor", "speed-up", "accuracy", "result"],
            table,
        )
    report.finish()


if __name__ == "__main__":
    main()
