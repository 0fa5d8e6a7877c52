"""Kernel learners with cached outputs beside LIBSVM, in one run and on one thread.

    python -m asv_bench.papers.versus_libsvm --quick
    python -m asv_bench.papers.versus_libsvm --full --out results

For every set: C and gamma are chosen by cross-validation on training rows only, once for the
support vector machine's problem (which LIBSVM, the adatron and LASVM all solve; the search
uses the adatron) and once for OL SVM; then all learners are fitted in turn, several times
round, and the smallest CPU time of each counts.  Sets without a test part are split in five
folds, and the choice is made inside each.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.svm import SVC

from asv_bench.papers import kernel_sets
from osvm import recipes
from osvm.model_selection import cached_grid_search

RESULTS = Path(__file__).with_name("results")


def learners(svm: dict[str, float], online: dict[str, float]) -> dict[str, Any]:
    """What is compared, by name."""
    return {
        "LIBSVM": SVC(**svm),
        "kernel_adatron": recipes.kernel_adatron(**svm, tol=1e-2),
        "kernel_adatron tol=.1": recipes.kernel_adatron(**svm, tol=1e-1),
        "lasvm": recipes.lasvm(**svm, shuffle=True, random_state=0, tol=1e-2),
        "ol_svm 1 epoch": recipes.ol_svm(**online, shuffle=True, random_state=0),
        "ol_svm 2 epochs": recipes.ol_svm(**online, epochs=2, shuffle=True, random_state=0),
    }


def choose(X: Any, y: np.ndarray, widths: Any, quick: bool) -> tuple[dict, dict, float]:
    """Parameters of the support vector machine and of OL SVM, and the seconds it took."""
    begin = time.process_time()
    gamma = [1 / (2 * s * s) for s in widths]
    folds = 3 if quick else 5
    C = [1, 10, 100, 1000] if quick else [0.1, 1, 10, 100, 1000]
    svm = cached_grid_search(
        X, y, C=C, gamma=gamma, cv=folds, solver="kernel_adatron", tol=0.1, epochs=10,
        fit_intercept=True, random_state=0, refit=False,
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small searches, fewer rounds")
    size.add_argument("--full", action="store_true")
    parser.add_argument("--sets", nargs="*", help="names of data sets")
    parser.add_argument("--limit", type=int, help="training rows at most")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    names = options.sets or [*kernel_sets.GENERATED, "usps", *kernel_sets.SMALL]
    quick = not options.full
    report = run(names, quick, 2 if quick else 5, options.limit)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "versus_libsvm.json").write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
