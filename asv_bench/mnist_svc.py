"""`SVC` on MNIST beside LIBSVM and oneDAL (scikit-learn-intelex), on one core.

    OSVM_DATA=folder python -m asv_bench.mnist_svc
    OSVM_DATA=folder python -m asv_bench.mnist_svc --lines 60000-two 20000-ten --peers osvm onedal

C = 10, gamma = .02, rows in [0, 1] of type float32; "two" tells even digits from odd ones.  CPU
seconds of the quickest run, taken in turns, of `fit` and of `predict` for the 10,000 test rows.
A line that is measured replaces the stored one.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from asv_bench.report import Report, make_parser

PEERS = {"osvm": "osvm", "onedal": "sklearnex.svm", "libsvm": "sklearn.svm"}
LINES = ("10000-two", "20000-two", "60000-two", "10000-ten", "20000-ten")


def load(line: str, quick: bool) -> tuple[Any, ...]:
    """X, y, X_test, y_test"""
    rows, classes = line.split("-")
    data = np.load(os.path.join(os.environ["OSVM_DATA"], "mnist.npz"))
    X, T = ((data[f"X_{part}"] / 255.0).astype(np.float32) for part in ("train", "test"))
    n_labels = 2 if classes == "two" else 10
    y, t = (data[f"y_{part}"].astype(int) % n_labels for part in ("train", "test"))
    n = int(rows) // 20 if quick else int(rows)
    return X[:n], y[:n], T, t


def measure(peer: str, X: Any, y: Any, T: Any, t: Any) -> tuple[float, float, float]:
    """Seconds of fit and predict, and the error in percent."""
    model = importlib.import_module(PEERS[peer]).SVC(C=10.0, gamma=0.02)
    begin = time.process_time()
    model.fit(X, y)
    fitted = time.process_time()
    wrong = 100 * float(np.mean(model.predict(T) != t))
    return fitted - begin, time.process_time() - fitted, wrong


def add_table(report: Report) -> None:
    """A row for each line: seconds of fit and predict, the error, and how much later peers end."""
    rows = []
    for line in (line for line in LINES if line in report.data):
        runs = report.data[line]
        for peer, found in runs.items():
            fit, predict, wrong = np.min(found["runs"], axis=0)
            ours = np.min(runs["osvm"]["runs"], axis=0)
            rows.append([
                line.replace("-", ", "), peer, f"{fit:.2f}", f"{predict:.2f}", f"{wrong:.2f}",
                f"{fit / ours[0]:.2f}", f"{predict / ours[1]:.2f}", found["date"],
            ])  # fmt: skip
    columns = [
        "rows, classes", "solver", "fit [s]", "predict [s]", "error [%]",
        "fit / osvm's", "predict / osvm's", "measured",
    ]  # fmt: skip
    report.add_table("MNIST, C = 10, γ = .02", columns, rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the lines that are asked for; print and store all of them."""
    parser = make_parser("mnist_svc", str(__doc__).splitlines()[0])
    parser.add_argument("--lines", nargs="+", choices=LINES, default=LINES)
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS))
    options = parser.parse_args(arguments)
    if hasattr(os, "sched_setaffinity"):  # before a peer starts its threads
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    about = str(__doc__).split("C = 10", 1)[1].split("A line that")[0]
    report = Report("mnist-svc", "SVC beside LIBSVM and oneDAL", f"C = 10{about}", options)
    stored = report.folder / f"{report.name}.json"
    if stored.exists():
        report.data = json.loads(stored.read_text())["data"]
    for line in options.lines:
        data = load(line, report.quick)
        runs: dict[str, list[Any]] = {peer: [] for peer in options.peers}
        for _ in range(options.repeats or 2):
            for peer in options.peers:
                runs[peer].append(measure(peer, *data))
                print(line, peer, *(f"{figure:.2f}" for figure in runs[peer][-1]), flush=True)
        date = report.machine["date"]
        made = {peer: {"date": date, "runs": found} for peer, found in runs.items()}
        report.data[line] = {**report.data.get(line, {}), **made}
    add_table(report)
    report.finish()


if __name__ == "__main__":
    main()
