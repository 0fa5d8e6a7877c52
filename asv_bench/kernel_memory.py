"""Accuracy against memory: every eviction, random features, Nystroem, and all support vectors.

    python -m asv_bench.kernel_memory            two sets of up to 10,000 rows, two seeds
    python -m asv_bench.kernel_memory --quick    small sizes

Memory is the numbers that a model keeps: of a buffer its rows and their coefficients, of random
features the directions, phases and weights, of Nystroem its rows, their inner products and
weights, of SVC its support vectors and coefficients.  Scores are balanced accuracy in percent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from asv_bench import defaults_kernel as kernel
from asv_bench.report import Report, bench_scale, make_parser, new_figure

SIZES = (32, 64, 128, 256, 512, 1024)
EVICTIONS = ("merge", "project", "fifo", "coefficient", "term", "change")


def numbers(name: str, size: int, d: int, outputs: int) -> int:
    """Numbers kept by a learner of a size."""
    if name == "Nystroem":
        return size * (d + size + outputs)
    return size * (d + outputs + (name == "RBFSampler"))


def run(data: Any, sizes: Sequence[int], seeds: int) -> list[dict[str, Any]]:
    """One record for each learner, size and seed."""
    found = []
    for seed in range(seeds):
        problem = data.load(seed)
        X, y = problem[0], problem[1]
        classes = len(np.unique(y))
        outputs = classes if classes > 2 else 1
        makers = {
            (f'eviction="{rule}"', size): kernel._osvm(
                "KernelClassifier", eviction=rule, budget=size
            )
            for rule in EVICTIONS
            for size in sizes
        }
        for kind in ("RBFSampler", "Nystroem"):
            for size in sizes:
                makers[kind, size] = lambda seed, k=kind, n=size: kernel.Mapped(k, n, seed)
        makers["SVC", 0] = kernel._sklearn("SVC")
        for (name, size), make in makers.items():
            models: list[Any] = []

            def keep(seed: int, make: Any = make, models: list[Any] = models) -> Any:
                models.append(make(seed))
                return models[0]

            answer, seconds = kernel.learn(keep, data, "fit", problem, seed)
            kept = len(models[0].support_) if name == "SVC" else size
            found.append({
                "set": data.name, "learner": name, "size": kept, "seed": seed,
                "numbers": numbers(name, kept, X.shape[1], outputs), "seconds": seconds,
                "score": kernel.score("balanced", answer, problem[3]),
            })  # fmt: skip
    return found


def draw(records: list[dict[str, Any]], names: Sequence[str]) -> Any:
    """A panel for each set."""
    figure, axes = new_figure(len(names))
    for ax, name in zip(np.atleast_1d(axes), names):
        own = [r for r in records if r["set"] == name]
        for learner in dict.fromkeys(r["learner"] for r in own):
            rows = [r for r in own if r["learner"] == learner]
            if learner == "SVC":
                x, y = (np.mean([r[key] for r in rows]) for key in ("numbers", "score"))
                ax.plot([x], [y], "k*", markersize=10, label="SVC, all support vectors")
                continue
            sizes = list(dict.fromkeys(r["size"] for r in rows))
            x = [next(r["numbers"] for r in rows if r["size"] == s) for s in sizes]
            y = [np.mean([r["score"] for r in rows if r["size"] == s]) for s in sizes]
            ax.plot(x, y, "o-" if "eviction" in learner else "s--", markersize=3, label=learner)
        ax.set(xscale="log", xlabel="numbers kept", ylabel="balanced accuracy, %", title=name)
    np.atleast_1d(axes)[0].legend(fontsize=7)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    options = make_parser("kernel_memory", __doc__ or "").parse_args(arguments)
    quick = options.quick or bench_scale() < 1
    names = ("digits", "5 % positives") if quick else ("usps-2", "clusters-2")
    sizes = SIZES[:2] if quick else SIZES
    report = Report("kernel-memory", "Accuracy against memory",
                    (__doc__ or "").split("\n\n")[0], options)  # fmt: skip
    records: list[dict[str, Any]] = []
    for data in kernel._make_sets():
        if data.name in names:
            records += run(data, sizes, 1 if quick else 2)
    names = tuple(dict.fromkeys(r["set"] for r in records))
    for name in names:
        own = [r for r in records if r["set"] == name]
        rows = []
        for learner in dict.fromkeys(r["learner"] for r in own):
            cells = []
            for size in (0, *sizes):
                scores = [r["score"] for r in own if r["learner"] == learner
                          and (r["size"] == size if size else learner == "SVC")]  # fmt: skip
                cells.append(f"{np.mean(scores):.1f}" if scores else "")
            rows.append([learner, *cells[1:], cells[0]])
        report.add_table(name, ["learner", *map(str, sizes), "all"], rows)
    report.add_plot(draw(records, names))
    report.data = {"records": records}
    report.finish()


if __name__ == "__main__":
    main()
