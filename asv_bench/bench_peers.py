"""Each installed peer as a multiple of osvm, to the same accuracy and in the same run.

The asv form of `asv_bench.compare`, at a small size.  A value above 1 means that the peer
takes longer; nan means that one of the two did not meet the target, so that there is no
ratio to give.  A peer that is not installed is skipped.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from asv_bench import compare, compare_suites, peers, problems
from asv_bench.report import scaled

REG = 1e-4


def ratio_of(all_runs: list[compare.Runs], name: str, key: str, target: float) -> dict[str, float]:
    """Median time of a peer over that of osvm's quickest solver, and what both reached."""
    mine = [runs for runs in all_runs if runs.ours]
    runs = next(runs for runs in all_runs if runs.name == name)
    theirs = runs.seconds_to(key, target)
    best = min(
        (t for t in (r.seconds_to(key, target) for r in mine) if t is not None),
        key=np.median,
        default=None,
    )
    met = theirs is not None and best is not None
    return {
        "ratio": float(np.median(theirs) / np.median(best)) if met else float("nan"),
        "score": min(runs.score(effort, key) for effort in runs.times),
    }


class Linear:
    """Hinge loss on generated text, to 1 % of the optimal objective."""

    params = [solver.name for solver in peers.SOLVERS if not solver.ours]
    param_names = ["peer"]
    timeout = 900

    def setup_cache(self) -> dict[str, dict[str, float]]:
        X, y, X_test, y_test = problems.generated(scaled(20_000, 1000))
        _, optimum = peers.find_optimum(X, y, REG)
        X64 = X.astype(np.float64)

        def evaluate(job: Any) -> dict[str, float]:
            w = job.weights()
            return {
                "gap": peers.objective(w, X64, y, REG) / optimum - 1,
                "error": 100 * peers.error_rate(w, X_test, y_test),
            }

        jobs = [solver() for solver in peers.installed()]
        for job in jobs:
            job.prepare(X, y, REG)
        repeats = 3 if scaled(10, 1) == 10 else 1
        all_runs = compare.run_in_turns(jobs, evaluate, repeats, 5.0, ("gap", 1e-2))
        for job in jobs:
            job.close()
        return {
            runs.name: ratio_of(all_runs, runs.name, "gap", 1e-2)
            for runs in all_runs
            if not runs.ours
        }

    def setup(self, cache: dict[str, dict[str, float]], peer: str) -> None:
        if peer not in cache:
            raise NotImplementedError(f"{peer} is not installed")

    def track_times_osvm(self, cache: dict[str, dict[str, float]], peer: str) -> float:
        return cache[peer]["ratio"]

    track_times_osvm.unit = "osvm"

    def track_gap(self, cache: dict[str, dict[str, float]], peer: str) -> float:
        """The relative objective gap that the peer reached."""
        return cache[peer]["score"]


class ByError:
    """Kernels, many classes and novelty, to the best peer's test error plus a little."""

    params = [
        "multiclass: SGDClassifier",
        "multiclass: LinearSVC",
        "kernel: SVC",
        "kernel: Nystroem + SGDClassifier",
        "novelty: Nystroem + SGDOneClassSVM",
    ]
    param_names = ["suite and peer"]
    timeout = 900

    def setup_cache(self) -> dict[str, dict[str, float]]:
        options = argparse.Namespace(quick=True, rows=scaled(10_000, 1000))
        out = {}
        for suite, make in compare_suites.SUITES.items():
            # the first problem of each suite needs no real data
            _, jobs, evaluate, slack, _ = next(make(options))
            repeats = 3 if scaled(10, 1) == 10 else 1
            all_runs = compare.run_in_turns(jobs, evaluate, repeats, 5.0, ("error", -1.0))
            reached = [min(r.score(e, "error") for e in r.times) for r in all_runs if not r.ours]
            for runs in all_runs:
                if not runs.ours:
                    target = min(reached) + slack
                    out[f"{suite}: {runs.name}"] = ratio_of(all_runs, runs.name, "error", target)
        return out

    def setup(self, cache: dict[str, dict[str, float]], peer: str) -> None:
        if peer not in cache:
            raise NotImplementedError(f"{peer} is not installed")

    def track_times_osvm(self, cache: dict[str, dict[str, float]], peer: str) -> float:
        return cache[peer]["ratio"]

    track_times_osvm.unit = "osvm"

    def track_error(self, cache: dict[str, dict[str, float]], peer: str) -> float:
        return cache[peer]["score"]

    track_error.unit = "%"
