"""Data and clocks that the benchmarks share.

Figures are ratios to a reference timed in the same run (see `interleaved`), since
machines differ and are noisy.  Generated data are kept in the temporary folder.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

CACHE = Path(tempfile.gettempdir()) / "osvm-bench"
DATA = Path(os.environ.get("OSVM_DATA", Path(__file__).parents[2] / "shared" / "data"))
SCALE = float(os.environ.get("OSVM_BENCH_SCALE", "1"))
ROWS = int(os.environ.get("OSVM_BENCH_ROWS", 200_000 * SCALE))


def rcv1_like(
    n_rows: int = ROWS, n_classes: int = 2, dtype: Any = np.float32, index: Any = np.int32
) -> tuple[sp.csr_matrix, np.ndarray, sp.csr_matrix, np.ndarray]:
    """RCV1-shaped text: training rows and labels, 20,000 test rows and labels."""
    path = CACHE / f"rcv1-{n_rows}-{n_classes}-v1.npz"
    if not path.exists():
        from osvm.datasets import make_rcv1_like

        X, y, X_test, y_test = make_rcv1_like(
            n_rows, 20_000, n_classes=n_classes, random_state=0, dtype=np.float32
        )
        CACHE.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.stem}-{os.getpid()}.npz")
        parts = {"y": y, "y_test": y_test}
        for name, part in (("", X), ("test_", X_test)):
            parts |= {name + key: getattr(part, key) for key in ("data", "indices", "indptr")}
        np.savez(partial, shape=X.shape, **parts)
        partial.replace(path)
    saved = np.load(path)
    out: list[Any] = []
    for name, labels in (("", "y"), ("test_", "y_test")):
        arrays = (
            saved[name + "data"].astype(dtype),
            saved[name + "indices"].astype(index),
            saved[name + "indptr"].astype(index),
        )
        matrix = sp.csr_matrix((len(arrays[2]) - 1, int(saved["shape"][1])), dtype=dtype)
        # Set one by one: the constructor would narrow int64 indices.
        matrix.data, matrix.indices, matrix.indptr = arrays
        out += [matrix, saved[labels]]
    return tuple(out)  # type: ignore[return-value]


def news20(dtype: Any = np.float32) -> tuple[sp.csr_matrix, np.ndarray, sp.csr_matrix, np.ndarray]:
    """20 Newsgroups as unit-norm tf-idf; NotImplementedError (asv: skip) where it is not there."""
    if not (DATA / "news20_counts.npz").exists():
        raise NotImplementedError("set OSVM_DATA to the folder with news20_counts.npz")
    counts = sp.csr_matrix(sp.load_npz(DATA / "news20_counts.npz"), dtype=np.float64)
    labels = np.load(DATA / "news20_labels.npz")
    n = int(labels["n_train"])
    key = next(k for k in ("y", "labels", "target") if k in labels.files)
    y = labels[key].astype(np.int64)
    frequency = np.bincount(counts[:n].indices, minlength=counts.shape[1])
    counts.data = 1.0 + np.log(counts.data)
    counts.data *= (np.log((1 + n) / (1 + frequency)) + 1.0)[counts.indices]
    norms = np.sqrt(counts.multiply(counts).sum(axis=1).A1)
    counts.data /= np.repeat(np.where(norms > 0, norms, 1.0), np.diff(counts.indptr))
    X = counts.astype(dtype)
    return X[:n], y[:n], X[n:], y[n:]


@contextmanager
def pinned() -> Iterator[None]:
    """This process on one core, where the system can say so."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    # processes that measure at the same time should not all choose the same core
    os.sched_setaffinity(0, {sorted(before)[os.getpid() % len(before)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpu_seconds(work: Callable[[], Any]) -> float:
    """Processor time of one call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def interleaved(
    jobs: dict[str, Callable[[], Any]], repeats: int = 7, warm: bool = True
) -> dict[str, list[float]]:
    """CPU seconds of every job, taken in turns so that noise hits all of them alike."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    with pinned():
        if warm:
            for work in jobs.values():
                work()
        for _ in range(repeats):
            for name, work in jobs.items():
                times[name].append(cpu_seconds(work))
    return times


def ratio(times: dict[str, list[float]], name: str, reference: str) -> float:
    """Quickest of one over the quickest of the other."""
    return min(times[name]) / min(times[reference])
