"""Dual coordinate ascent: the price of an epoch, and time to the optimum beside its peers.

    python -m asv_bench.bench_dual                  200,000 generated rows, and 20 Newsgroups
    python -m asv_bench.bench_dual --quick          20,000 rows
    python -m asv_bench.bench_dual --data news20-0  20 Newsgroups, group 0 against the rest

All minimize ``reg/2 ||w||^2 + mean hinge`` without an intercept, on one thread; CPU time,
taken in turns.  A solver's time for a target is that of its cheapest effort that met it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from asv_bench import compare, peers, problems
from asv_bench.common import cpu_seconds, interleaved, news20, ratio, rcv1_like
from asv_bench.report import Report, bench_scale, default_repeats, make_parser, scaled
from osvm._input.rows import RowSource
from osvm.linear.dual import DualSolver

TARGETS = [("to 1 %", "gap", 1e-2), ("to 0.1 %", "gap", 1e-3)]


def rows_of(X: Any) -> RowSource:
    return RowSource.csr(X.data, X.indices, X.indptr, X.shape[1])


class Dual(peers.Solver):
    """The compiled solver itself, to a proven gap."""

    name = "osvm dual"
    ours = True
    effort_name = "tol"
    efforts = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3)
    weight_dtype: Any = np.float32
    note = "float32 rows and weights; tol is a proven relative gap"

    def run(self, effort: float, seed: int = 0) -> None:
        self.solver = DualSolver(
            self.X.shape[1], reg=self.reg, dtype=self.weight_dtype, seed=seed
        ).fit(rows_of(self.X), self.y, tol=effort)

    def weights(self) -> np.ndarray:
        return self.solver.weights.array()


class Dual64(Dual):
    name = "osvm dual, float64 weights"
    weight_dtype = np.float64
    note = "float32 rows, float64 weights"


class DualEpochs(Dual):
    name = "osvm dual, fixed epochs"
    effort_name = "epochs"
    efforts = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 80)
    note = "float32; a number of epochs, as SGDClassifier's max_iter"

    def run(self, effort: float, seed: int = 0) -> None:
        self.solver = DualSolver(self.X.shape[1], reg=self.reg, dtype=np.float32, seed=seed).fit(
            rows_of(self.X), self.y, tol=0.0, max_epochs=int(effort)
        )


SOLVERS = (
    Dual, Dual64, DualEpochs, peers.SklearnSGD, peers.SklearnLinearSVC, peers.Liblinear,
    peers.LightningSDCA,
)  # fmt: skip


def load(name: str, rows: int) -> tuple[Any, np.ndarray]:
    """A problem by name: "generated", or "news20-k" for group k against the rest."""
    if name == "generated":
        X, y, _, _ = rcv1_like(rows)
        return X, y.astype(np.int64)
    X, labels, _, _ = news20()
    return X, np.where(labels == int(name.removeprefix("news20-")), 1, -1)


def compare_solvers(
    X: Any, y: np.ndarray, reg: float, repeats: int, limit: float
) -> tuple[list[compare.Runs], float]:
    """Every installed solver at growing effort, in turns; the optimum."""
    X64 = X.astype(np.float64)
    best = DualSolver(X.shape[1], reg=reg).fit(rows_of(X), y, tol=1e-6, max_epochs=20_000)
    optimum = float(best.dual_objective_[0])

    def evaluate(job: peers.Solver) -> dict[str, float]:
        return {"gap": peers.objective(job.weights(), X64, y, reg) / optimum - 1}

    jobs = [make() for make in SOLVERS if not make.missing()]
    for job in jobs:
        job.prepare(X, y, reg)
    runs = compare.run_in_turns(jobs, evaluate, repeats, limit, ("gap", TARGETS[-1][2]))
    for job in jobs:
        job.close()
    return runs, optimum


class Epoch:
    """CPU time over that of the float64 ``X @ w`` of scipy, on the generated RCV1 shape."""

    params = ([1e-4, 1e-5], ["float32", "float64"])
    param_names = ("reg", "weights")
    timeout = 600

    def setup(self, reg: float, weights: str) -> None:
        X, y, _, _ = rcv1_like(scaled(200_000, 1000))
        self.y, self.rows = y.astype(np.float64), rows_of(X)
        self.X, self.X64 = X, X.astype(np.float64)
        self.w = np.random.default_rng(0).normal(size=X.shape[1])

    def fit(self, reg: float, weights: str, **stop: Any) -> DualSolver:
        solver = DualSolver(self.X.shape[1], reg=reg, dtype=np.dtype(weights))
        return solver.fit(self.rows, self.y, **stop)

    def in_matvecs(self, job: Any) -> float:
        times = interleaved({"job": job, "matvec": lambda: self.X64 @ self.w}, repeats=5)
        return ratio(times, "job", "matvec")

    def time_to_one_percent(self, reg: float, weights: str) -> None:
        self.fit(reg, weights, tol=1e-2)

    def track_three_epochs(self, reg: float, weights: str) -> float:
        """Three epochs and the pass that computes the gap."""
        return self.in_matvecs(lambda: self.fit(reg, weights, tol=0.0, max_epochs=3))

    def track_to_one_percent(self, reg: float, weights: str) -> float:
        return self.in_matvecs(lambda: self.fit(reg, weights, tol=1e-2))

    def track_to_one_permille(self, reg: float, weights: str) -> float:
        return self.in_matvecs(lambda: self.fit(reg, weights, tol=1e-3))

    def track_gap(self, reg: float, weights: str) -> float:
        """The relative gap behind `track_to_one_permille`."""
        solver = self.fit(reg, weights, tol=1e-3)
        return float(solver.dual_gap_[0] / solver.objective_[0])


for _name in ("track_three_epochs", "track_to_one_percent", "track_to_one_permille"):
    getattr(Epoch, _name).unit = "matvec"


def compare_one_vs_rest(report: Report, reg: float, repeats: int) -> None:
    """All 20 groups, LinearSVC and ours at matching accuracy of the objective."""
    X, y, X_test, y_test = news20()
    X64 = X.astype(np.float64)
    jobs: dict[str, Any] = {
        f"osvm dual, tol {tol:g}": lambda tol=tol: DualSolver(
            X.shape[1], 20, reg=reg, dtype=np.float32
        ).fit(rows_of(X), y, tol=tol)
        for tol in (1e-2, 1e-3)
    }
    svm = peers.safe_import("sklearn.svm")
    if svm is not None:
        for tol in (1e-1, 1e-2):
            jobs[f"LinearSVC, tol {tol:g}"] = lambda tol=tol: svm.LinearSVC(
                loss="hinge", C=1.0 / (reg * len(y)), fit_intercept=False, tol=tol, max_iter=10_000
            ).fit(X64, y)

    def weights(model: Any) -> np.ndarray:
        return model.coef_ if hasattr(model, "coef_") else model.weights.array()

    table = []
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            times[name].append(cpu_seconds(job))
    for name, job in jobs.items():
        W = weights(job())
        value = sum(
            peers.objective(W[k], X64, np.where(y == k, 1, -1), reg) for k in range(len(W))
        )
        right = float(np.mean(np.argmax(X_test @ W.T, axis=1) == y_test))
        table.append([name, f"{min(times[name]):.3f} s", value, f"{100 * right:.2f} %"])
    report.add_table(
        f"20 Newsgroups, 20 problems one-vs-rest, reg {reg:g}",
        ["solver", "CPU time (quickest)", "sum of the 20 objectives", "test accuracy"],
        table,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser("bench_dual", str(__doc__).splitlines()[0])
    parser.add_argument("--rows", type=int, help="of the generated set")
    parser.add_argument("--reg", type=float, nargs="*", default=[1e-4, 1e-5])
    parser.add_argument("--data", nargs="*", help="generated, news20-0 .. news20-19, one-vs-rest")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds for one run")
    options = parser.parse_args(arguments)
    rows = options.rows or scaled(20_000 if options.quick else 200_000, 1000)
    repeats = options.repeats or default_repeats(options.quick)
    # a real set is as large as it is: not at a reduced scale
    whole = bench_scale() >= 1 and problems.have("news20")
    real = ["news20-0", "news20-7", "one-vs-rest"] if whole else []
    report = Report(
        "dual", "Dual coordinate ascent", str(__doc__).split("All minimize")[0], options
    )
    for name in options.data or ["generated", *real]:
        for reg in options.reg:
            if name == "one-vs-rest":
                compare_one_vs_rest(report, reg, repeats)
                continue
            X, y = load(name, rows)
            X64, w = X.astype(np.float64), np.ones(X.shape[1])
            matvec = min(cpu_seconds(lambda: X64 @ w) for _ in range(9))  # noqa: B023
            print(f"{name}, {X.shape[0]:,} rows, reg {reg:g}")
            runs, optimum = compare_solvers(X, y, reg, repeats, options.limit)
            key = f"{name}, {X.shape[0]:,} x {X.shape[1]:,}, reg {reg:g}"
            report.data[key] = compare.add_results(
                report, key, runs, TARGETS,
                f"Optimum {optimum:.6f}; one X @ w takes {1e3 * matvec:.1f} ms.",
            )  # fmt: skip
    report.finish()


if __name__ == "__main__":
    main()
