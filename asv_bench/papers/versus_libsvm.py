"""Kernel learners with cached outputs beside LIBSVM, in one run and on one thread.

    python -m asv_bench.papers.versus_libsvm --quick
    python -m asv_bench.papers.versus_libsvm

For every set: C and gamma are chosen by cross-validation on training rows only, once for the
support vector machine's problem (which LIBSVM, the adatron and LASVM all solve; the search
uses the adatron) and once for OL SVM; then all learners are fitted in turn, several times
round, and the smallest CPU time of each counts.  Sets without a test part are split in five
folds, and the choice is made inside each.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.svm import SVC

from asv_bench.papers import kernel_sets
from asv_bench.report import Report, bench_scale, make_parser
from osvm import recipes
from osvm.model_selection import cached_grid_search


def learners(svm: dict[str, float], online: dict[str, float]) -> dict[str, Any]:
    """What is compared, by name."""
    return {
        "LIBSVM": SVC(**svm),
        "kernel_adatron": recipes.kernel_adatron(**svm, tol=1e-2),
        "kernel_adatron tol=.1": recipes.kernel_adatron(**svm, tol=1e-1),
        "lasvm": recipes.lasvm(**svm, shuffle=True, random_state=0, tol=1e-2),
        "ol_svm 1 epoch": recipes.ol_svm(**online, shuffle=True, random_state=0),
        "ol_svm 2 epochs": recipes.ol_svm(**online, max_iter=2, shuffle=True, random_state=0),
    }


def choose(X: Any, y: np.ndarray, widths: Any, quick: bool) -> tuple[dict, dict, float]:
    """Parameters of the support vector machine and of OL SVM, and the seconds it took."""
    begin = time.process_time()
    gamma = [1 / (2 * s * s) for s in widths]
    folds = 3 if quick else 5
    C = [1, 10, 100, 1000] if quick else [0.1, 1, 10, 100, 1000]
    svm = cached_grid_search(
        X, y, C=C, gamma=gamma, cv=folds, solver="adatron", tol=0.1, max_iter=10,
        random_state=0, refit=False,
    ).best_params_  # fmt: skip
    online = cached_grid_search(
        X, y, C=[0.01, 0.1, 1, 10, 100], gamma=gamma, cv=folds, solver="ol_svm",
        random_state=0, refit=False,
    ).best_params_  # fmt: skip
    return svm, online, time.process_time() - begin


def compare(
    train: tuple[Any, np.ndarray], test: tuple[Any, np.ndarray], models: dict, rounds: int
) -> dict[str, dict[str, float]]:
    """CPU seconds (the least of all rounds) and test error of each model."""
    found: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for name, model in models.items():
            begin = time.process_time()
            model.fit(*train)
            seconds = time.process_time() - begin
            entry = found.setdefault(name, {"seconds": seconds})
            entry["seconds"] = min(entry["seconds"], seconds)
    for name, model in models.items():
        found[name]["error"] = 100 * float(np.mean(model.predict(test[0]) != test[1]))
        found[name]["support"] = int(np.sum(model.n_support_))
        stats = getattr(model, "column_stats_", None)
        if stats:
            found[name]["columns"] = stats["computed"]
    return found


def split(data: kernel_sets.KernelSet) -> list[tuple]:
    """(train, test) pairs: the given split, or five folds, scaled by training rows."""
    if data.X_test is not None:
        return [((data.X, data.y), (data.X_test, data.y_test))]
    rng = np.random.default_rng(0)
    order = rng.permutation(len(data.y))
    order = order[np.argsort(data.y[order], kind="stable")]
    fold = np.empty(len(order), dtype=int)
    fold[order] = np.arange(len(order)) % 5
    pairs = []
    for k in range(5):
        X, X_test = data.X[fold != k], data.X[fold == k]
        if data.scale:
            mean, deviation = X.mean(axis=0), X.std(axis=0) + 1e-12
            X, X_test = (X - mean) / deviation, (X_test - mean) / deviation
        pairs.append(((X, data.y[fold != k]), (X_test, data.y[fold == k])))
    return pairs


def run(names: list[str], quick: bool, rounds: int, limit: int | None) -> dict[str, Any]:
    report: dict[str, Any] = {}
    for name in names:
        data = kernel_sets.load(name, limit)
        results = []
        for train, test in split(data):
            rows = train[0].shape[0]
            keep = np.random.default_rng(1).permutation(rows)[: 3000 if quick else rows]
            widths = data.widths if data.X_test is not None else (1, 3, 10, 30)
            svm, online, seconds = choose(train[0][keep], train[1][keep], widths, quick)
            found = compare(train, test, learners(svm, online), rounds)
            results.append({"svm": svm, "online": online, "choosing": seconds, "found": found})
        report[name] = {"rows": int(data.X.shape[0]), "runs": results}
        print_set(name, report[name])
    return report


def print_set(name: str, entry: dict[str, Any]) -> None:
    """A table of means over the runs."""
    runs = entry["runs"]
    print(f"\n{name}: {entry['rows']} rows; {runs[0]['svm']}, OL SVM {runs[0]['online']}")
    base = np.sum([r["found"]["LIBSVM"]["seconds"] for r in runs])
    for model in runs[0]["found"]:
        seconds = np.sum([r["found"][model]["seconds"] for r in runs])
        error = np.mean([r["found"][model]["error"] for r in runs])
        support = np.mean([r["found"][model]["support"] for r in runs])
        print(
            f"  {model:24s} {seconds:8.3f} s {base / seconds:7.1f} x  error {error:6.2f} %  "
            f"support {support:7.0f}",
            flush=True,
        )


def report_sets(report: Report, found: dict[str, Any]) -> None:
    """One table for all sets: times and errors of each learner."""
    learners = list(next(iter(found.values()))["runs"][0]["found"])
    rows = []
    for name, entry in found.items():
        runs = entry["runs"]
        base = np.sum([r["found"]["LIBSVM"]["seconds"] for r in runs])
        for learner in learners:
            seconds = np.sum([r["found"][learner]["seconds"] for r in runs])
            error = np.mean([r["found"][learner]["error"] for r in runs])
            support = np.mean([r["found"][learner]["support"] for r in runs])
            faster = base / seconds
            rows.append(
                [name if learner == learners[0] else "", learner, f"{seconds:.3f} s",
                 f"{faster:.1f} ×" + ("" if faster >= 1 else " (slower)"), f"{error:.2f} %",
                 f"{support:,.0f}"]
            )  # fmt: skip
    report.add_table(
        "Training time and test error beside LIBSVM",
        ["set", "learner", "CPU time", "times faster than LIBSVM", "test error",
         "support vectors"],
        rows,
        "Sets without a test part: five folds, times added up. The smallest time of all rounds.",
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser("papers.versus_libsvm", str(__doc__).splitlines()[0])
    parser.add_argument("--sets", nargs="*", help="names of data sets")
    parser.add_argument("--limit", type=int, help="training rows at most")
    options = parser.parse_args(arguments)
    smoke = bench_scale() < 1
    real = ["usps", *kernel_sets.SMALL] if kernel_sets.FOLDER.exists() else []
    names = options.sets or [*kernel_sets.GENERATED, *real]
    report = Report(
        "versus-libsvm",
        "Cached outputs beside LIBSVM",
        "Source (5)'s learners, the adatron and LASVM beside scikit-learn's SVC, in one run on "
        "one thread; C and gamma by cross-validation on training rows.",
        options,
    )
    rounds = options.repeats or (1 if smoke else 2 if options.quick else 5)
    limit = options.limit or (200 if smoke else None)
    found = run(names[:1] if smoke else names, options.quick, rounds, limit)
    report.data["sets"] = found
    report_sets(report, found)
    report.finish()


if __name__ == "__main__":
    main()
