"""osvm beside its peers, in one run, to the same accuracy.

    python -m asv_bench.compare --quick                 all suites, small, under 5 minutes
    python -m asv_bench.compare linear --rows 200000    the generated RCV1 shape at any size
    OSVM_DATA=folder python -m asv_bench.compare linear --data news20

Every solver is run at growing effort (epochs or tolerance).  Runs are taken in turns and
repeated, times are processor time of one thread, figures are medians with quartiles.  A
solver's time for a target is that of its cheapest effort whose median run met the target.
A ratio stands in the table only where both sides met it.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from asv_bench import compare_suites, peers, problems
from asv_bench.common import cpu_seconds, pinned
from asv_bench.report import (
    Report,
    bench_scale,
    default_repeats,
    make_parser,
    median_spread,
    new_figure,
    scaled,
    show_seconds,
)

NOT_MET = "not met"


class Runs:
    """What one solver did: a list of runs for each effort."""

    def __init__(self, name: str, ours: bool, note: str, effort_name: str) -> None:
        self.name, self.ours, self.note, self.effort_name = name, ours, note, effort_name
        self.times: dict[float, list[float]] = {}
        self.scores: dict[float, list[dict[str, float]]] = {}

    def add(self, effort: float, seconds: float, scores: dict[str, float]) -> None:
        self.times.setdefault(effort, []).append(seconds)
        self.scores.setdefault(effort, []).append(scores)

    def score(self, effort: float, key: str) -> float:
        """Median of a score over the repeats."""
        return float(np.median([run[key] for run in self.scores[effort]]))

    def seconds_to(self, key: str, target: float) -> list[float] | None:
        """Times of the cheapest effort that met the target; None if none did."""
        met = [e for e in self.times if self.score(e, key) <= target]
        return min((self.times[e] for e in met), key=np.median) if met else None

    def curve(self, key: str) -> tuple[list[float], list[float]]:
        """Median time and median score of each effort."""
        efforts = sorted(self.times, key=lambda e: np.median(self.times[e]))
        return [float(np.median(self.times[e])) for e in efforts], [
            self.score(e, key) for e in efforts
        ]

    def plain(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "note": self.note,
            "efforts": [
                {self.effort_name: e, "seconds": self.times[e], "scores": self.scores[e]}
                for e in self.times
            ],
        }


def show_ratio(times: list[float] | None, ours: list[float] | None) -> str:
    """How many times longer than osvm; refused unless both met the target."""
    if times is None or ours is None:
        return "–"
    ratio = float(np.median(times) / np.median(ours))
    return f"{ratio:.1f} ×" if ratio >= 1 else f"{ratio:.2f} × (ahead of osvm)"


def run_in_turns(
    jobs: Sequence[Any],
    evaluate: Callable[[Any], dict[str, float]],
    repeats: int,
    limit: float,
    stop: tuple[str, float],
) -> list[Runs]:
    """Run every job at every effort, in turns.

    A job goes no further up its efforts once a run took more than `limit` seconds or
    reached the hardest target.
    """
    all_runs = [Runs(j.name, j.ours, j.note, j.effort_name) for j in jobs]
    efforts: dict[int, list[float]] = {i: list(job.efforts) for i, job in enumerate(jobs)}
    key, target = stop
    with pinned():
        for repeat in range(repeats):
            for i, job in enumerate(jobs):
                for effort in list(efforts[i]):
                    gc.collect()
                    seconds = cpu_seconds(lambda j=job, e=effort, s=repeat: j.run(e, seed=s))
                    scores = evaluate(job)
                    all_runs[i].add(effort, seconds, scores)
                    if repeat == 0 and (seconds > limit or scores[key] <= target):
                        efforts[i] = efforts[i][: efforts[i].index(effort) + 1]
                        break
            print(f"  round {repeat + 1} of {repeats}", flush=True)
    return all_runs


def add_results(
    report: Report,
    title: str,
    all_runs: list[Runs],
    targets: list[tuple[str, str, float]],
    note: str,
) -> dict[str, Any]:
    """Table of times to the targets, and the summary for the README."""
    best: dict[str, list[float] | None] = {}
    for label, key, target in targets:
        mine = [r.seconds_to(key, target) for r in all_runs if r.ours]
        best[label] = min((t for t in mine if t is not None), key=np.median, default=None)
    columns = ["solver"]
    for label, _, _ in targets:
        columns += [label, "ratio to osvm"]
    rows = []
    for runs in all_runs:
        row = [runs.name]
        for label, key, target in targets:
            times = runs.seconds_to(key, target)
            row.append(NOT_MET if times is None else show_seconds(times))
            row.append("" if runs.ours else show_ratio(times, best[label]))
        rows.append(row)
    report.add_table(title, columns, rows, note)
    return {
        "targets": [list(t) for t in targets],
        "runs": [runs.plain() for runs in all_runs],
        "best_osvm": {k: v and median_spread(v)[0] for k, v in best.items()},
    }


def plot_runs(report: Report, all_runs: list[Runs], axes_of: dict[str, str], suffix: str) -> None:
    """Time against each score, logarithmic axes."""
    figure, axes = new_figure(len(axes_of))
    for ax, (key, label) in zip(np.atleast_1d(axes), axes_of.items()):
        for runs in all_runs:
            times, scores = runs.curve(key)
            style = {"lw": 2.2, "marker": "o"} if runs.ours else {"lw": 1.0, "marker": "x"}
            ax.plot(times, np.maximum(scores, 1e-7), label=runs.name, ms=4, **style)
        ax.set(xscale="log", yscale="log", xlabel="CPU seconds, one thread", ylabel=label)
        if key == "gap":  # what is ten times the optimum away need not be told apart
            ax.set_ylim(top=min(10.0, ax.get_ylim()[1]))
    np.atleast_1d(axes)[0].legend(fontsize=6, ncol=2)
    report.add_plot(figure, suffix)


# ---------------------------------------------------------------------- linear


def compare_linear(report: Report, options: argparse.Namespace) -> None:
    """Hinge loss on sparse rows, to 1 % and 0.1 % of the optimum and to its test error."""
    real = ["news20"] if problems.have("news20") and bench_scale() >= 1 else []
    names = options.data or ["generated", *real]
    for name in names:
        for reg in options.reg:
            _compare_linear(report, options, name, reg)


def _compare_linear(report: Report, options: argparse.Namespace, name: str, reg: float) -> None:
    X, y, X_test, y_test = problems.BINARY[name](options.rows)
    print(f"linear: {name}, {X.shape[0]:,} × {X.shape[1]:,}, {X.nnz:,} non-zeros, reg {reg:g}")
    X64 = X.astype(np.float64)
    w, optimum = peers.find_optimum(X, y, reg)
    best_error = peers.error_rate(w, X_test, y_test)
    matvec = float(np.median([cpu_seconds(lambda: X64 @ w) for _ in range(5)]))

    def evaluate(job: peers.Solver) -> dict[str, float]:
        w = job.weights()
        value = peers.objective(w, X64, y, reg)
        return {"gap": value / optimum - 1, "error": 100 * peers.error_rate(w, X_test, y_test)}

    jobs = []
    for make in peers.installed():
        job = make()
        job.prepare(X, y, reg)
        jobs.append(job)
    all_runs = run_in_turns(jobs, evaluate, options.repeats, options.limit, ("gap", 1e-3))
    for job in jobs:
        job.close()
    hard_error = 100 * best_error + 0.1
    targets = [
        ("to 1 % of the optimum", "gap", 1e-2),
        ("to 0.1 % of the optimum", "gap", 1e-3),
        (f"to {hard_error:.2f} % test error", "error", hard_error),
    ]
    summary = add_results(
        report,
        f"{name}, {X.shape[0]:,} × {X.shape[1]:,}, reg {reg:g}",
        all_runs,
        targets,
        f"Optimum {optimum:.6f} with test error {100 * best_error:.2f} %; one X @ w takes "
        f"{1e3 * matvec:.1f} ms. No intercept. Quartiles of {options.repeats} runs in brackets.",
    )
    first = [
        [r.name, e, show_seconds(r.times[e]), float(np.median(r.times[e])) / matvec,
         f"{100 * r.score(e, 'gap'):.3g} %", f"{r.score(e, 'error'):.2f} %", r.note]
        for r in all_runs for e in list(r.times)[:1]
    ]  # fmt: skip
    report.add_table(
        f"The cheapest run of each, {name}, reg {reg:g}",
        ["solver", "epochs or tol", "CPU time", "in X @ w", "gap", "test error", "note"],
        first,
    )
    plot_runs(
        report, all_runs,
        {"gap": "relative objective gap",
         "error": f"test error, % (optimum {100 * best_error:.2f})"},
        f"{name}-{reg:g}",
    )  # fmt: skip
    report.data[f"linear {name} {reg:g}"] = summary | {
        "optimum": optimum, "optimum_error": best_error, "matvec": matvec,
        "rows": X.shape[0], "columns": X.shape[1], "nnz": X.nnz,
    }  # fmt: skip


# ---------------------------------------------------------------------- other suites


def compare_by_error(report: Report, options: argparse.Namespace, suite: str) -> None:
    """Suites whose target is a test error: multiclass, kernel, novelty."""
    for title, jobs, evaluate, slack, note in compare_suites.SUITES[suite](options):
        print(f"{suite}: {title}")
        all_runs = run_in_turns(jobs, evaluate, options.repeats, options.limit, ("error", -1.0))
        reached = [min(r.score(e, "error") for e in r.times) for r in all_runs if not r.ours]
        if not reached:
            print("  no peer is installed")
            continue
        target = min(reached) + slack
        summary = add_results(
            report, title, all_runs, [(f"to {target:.2f} % test error", "error", target)],
            f"The target is the best peer's error plus {slack} points. {note}",
        )  # fmt: skip
        best = []
        for r in all_runs:
            e = min(r.times, key=lambda e: r.score(e, "error"))
            best.append(
                [r.name, e, show_seconds(r.times[e]), f"{r.score(e, 'error'):.2f} %", r.note]
            )
        report.add_table(
            f"The best run of each, {title}",
            ["solver", "effort", "CPU time", "test error", "note"],
            best,
        )
        plot_runs(
            report, all_runs, {"error": "test error, %"}, title.split(",")[0].replace(" ", "-")
        )
        report.data[f"{suite} {title}"] = summary


# ---------------------------------------------------------------------- command

SUITES = ("linear", "multiclass", "kernel", "novelty")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser("compare", str(__doc__).splitlines()[0])
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"of {', '.join(SUITES)}")
    parser.add_argument("--rows", type=int, help="of the generated set, up to 781265")
    parser.add_argument("--reg", type=float, nargs="*", help="default 1e-4 and 1e-5")
    parser.add_argument(
        "--data", nargs="*", choices=sorted(problems.BINARY), help="sets of the linear suite"
    )
    parser.add_argument("--limit", type=float, help="seconds after which a solver goes no further")
    options = parser.parse_args(arguments)
    unknown = set(options.suites) - set(SUITES)
    if unknown:
        parser.error(f"no suite named {sorted(unknown)[0]!r}; there are {', '.join(SUITES)}")
    quick = options.quick
    options.rows = options.rows or scaled(10_000 if quick else 200_000, 1000)
    options.reg = options.reg or ([1e-4] if quick else [1e-4, 1e-5])
    smoke = bench_scale() < 1
    options.repeats = options.repeats or default_repeats(quick)
    options.limit = options.limit or (0.2 if smoke else 3.0 if quick else 60.0)
    if quick and options.data is None:
        options.data = ["generated"]
    for suite in options.suites or SUITES:
        report = Report(
            f"compare-{suite}",
            f"osvm beside its peers: {suite}",
            "All solvers in one run, taken in turns and repeated; processor time of one thread; "
            "the time of a solver is that of its cheapest run that met the target. "
            "A ratio is given only where both sides met the target.",
            options,
        )
        if suite == "linear":
            compare_linear(report, options)
        else:
            compare_by_error(report, options, suite)
        report.finish()


if __name__ == "__main__":
    main()
