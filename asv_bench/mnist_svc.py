"""`SVC` on MNIST beside LIBSVM and oneDAL, one thread: ``python -m asv_bench.mnist_svc``.

    OSVM_DATA=folder python -m asv_bench.mnist_svc --rows 10000 20000 --classes two ten
    OSVM_DATA=folder python -m asv_bench.mnist_svc --rows 60000 --classes two --peers osvm onedal

C = 10, gamma = .02, rows in [0, 1]; "two" tells even digits from odd ones.  CPU seconds, taken
in turns, of `fit` and of `predict` for the 10,000 test rows; errors are equal but for rounding.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np

PEERS = {"osvm": "osvm", "onedal": "sklearnex.svm", "libsvm": "sklearn.svm"}


def load(rows: int, two: bool) -> tuple[Any, ...]:
    """X, y, X_test, y_test"""
    data = np.load(os.path.join(os.environ["OSVM_DATA"], "mnist.npz"))
    X, T = ((data[f"X_{part}"] / 255.0).astype(np.float32) for part in ("train", "test"))
    y, t = (data[f"y_{part}"].astype(int) % (2 if two else 10) for part in ("train", "test"))
    return X[:rows], y[:rows], T, t


def measure(peer: str, X: Any, y: Any, T: Any, t: Any) -> tuple[float, float, float]:
    """Seconds of fit and predict, and the error in percent."""
    import importlib

    model = importlib.import_module(PEERS[peer]).SVC(C=10.0, gamma=0.02)
    begin = time.process_time()
    model.fit(X, y)
    fitted = time.process_time()
    wrong = 100 * float(np.mean(model.predict(T) != t))
    return fitted - begin, time.process_time() - fitted, wrong


def main() -> None:
    """Print a line for each size and peer."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000])
    parser.add_argument("--classes", nargs="+", choices=["two", "ten"], default=["two", "ten"])
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--repeats", type=int, default=2)
    asked = parser.parse_args()
    for rows in asked.rows:
        for classes in asked.classes:
            data = load(rows, classes == "two")
            found = {peer: [] for peer in asked.peers}  # type: dict[str, list[Any]]
            for _ in range(asked.repeats):
                for peer in asked.peers:
                    found[peer].append(measure(peer, *data))
            ours = np.min(found["osvm"], axis=0) if "osvm" in found else np.full(3, np.nan)
            for peer, runs in found.items():
                fit, predict, wrong = np.min(runs, axis=0)
                print(
                    f"{rows:6} {classes} {peer:7} fit {fit:7.2f} s ({fit / ours[0]:.2f} x), "
                    f"predict {predict:6.2f} s ({predict / ours[1]:.2f} x), error {wrong:.2f} %",
                    flush=True,
                )


if __name__ == "__main__":
    main()
