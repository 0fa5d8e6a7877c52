"""What rounds of `osvm.distributed` move and hold, how soon they are done, how far they reach.

    python -m asv_bench.rounds                    all of it; some minutes
    python -m asv_bench.rounds bytes memory       some studies

bytes      moved per round, in models times workers, with one block a worker
memory     of the driver from 4 to 64 blocks, for a model of 40 MB
accuracy   after 3 and 5 rounds of 8 blocks, against one process
optimum    rounds to 1% and 0.1% of the optimum, 8 and 64 blocks
cluster    10^10 rows on 1,000 workers: a simulation from constants that are measured here

`Counting` runs all tasks in this process, but as a cluster would: results lie on the disk, and
what goes from one worker to another is counted.  A block is learnt where it lies, a fold is made
where its first part lies.
"""

from __future__ import annotations

import math
import os
import pickle
import sys
import tempfile
import time
import tracemalloc
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

import osvm
from osvm.distributed.tree import FAN_IN, InProcess, levels


class Token:
    """A result on a worker's disk."""

    def __init__(self, path: str, worker: int) -> None:
        self.path, self.worker = path, worker


class Counting(InProcess):
    """An engine of `workers` that counts bytes, and the driver's memory where it is traced."""

    def __init__(self, workers: int, folder: str) -> None:
        super().__init__()
        self.workers, self.folder = workers, folder
        self.moved: list[int] = []  # bytes of each round
        self.driver_peak = self.number = 0

    def broadcast(self, value: Any) -> Any:
        self.moved.append(self.workers * len(pickle.dumps(value)))
        return value

    def reduce(self, leaf: Any, blocks: Any, fold: Any, shared: Any) -> Any:
        n = len(blocks)
        row = [self._run(k * self.workers // n, leaf, k, blocks[k], shared) for k in range(n)]
        while len(row) > 1:
            groups = [row[k : k + FAN_IN] for k in range(0, len(row), FAN_IN)]
            row = [self._fold(fold, group, shared) for group in groups]
        self.moved[-1] += os.path.getsize(row[0].path)
        return self._load(row[0])

    def _fold(self, fold: Any, group: list[Token], shared: Any) -> Token:
        for token in group[1:]:
            if token.worker != group[0].worker:
                self.moved[-1] += os.path.getsize(token.path)
        return self._run(group[0].worker, fold, group, shared)

    def _run(self, worker: int, function: Any, *arguments: Any) -> Token:
        if tracemalloc.is_tracing():  # what the driver has held since the last task
            self.driver_peak = max(self.driver_peak, tracemalloc.get_traced_memory()[1])
        opened = [
            [self._load(token) for token in a] if isinstance(a, list) else a for a in arguments
        ]
        token = Token(os.path.join(self.folder, str(self.number)), worker)
        self.number += 1
        with open(token.path, "wb") as file:
            pickle.dump(function(*opened), file)
        del opened
        if tracemalloc.is_tracing():
            tracemalloc.reset_peak()
        return token

    @staticmethod
    def _load(token: Token) -> Any:
        with open(token.path, "rb") as file:
            return pickle.load(file)


def wide_blocks(columns: int, n: int) -> list[Any]:
    """Blocks of few rows and many columns."""
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(
        (np.ones(200, np.float32), rng.integers(columns, size=200), np.arange(0, 201, 5)),
        shape=(40, columns),
    )
    return [(X, np.arange(40) % 2)] * n


def moved_per_round(workers: int, columns: int = 100_000, **options: Any) -> list[float]:
    """Bytes of each round in models times workers, one block a worker."""
    model = osvm.LinearClassifier("logistic", schedule="bottou", random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        engine = Counting(workers, folder)
        osvm.distributed.fit(
            model, wide_blocks(columns, workers), engine=engine, classes=[0, 1], **options
        )
        size = len(model.to_bytes())
    return [moved / (workers * size) for moved in engine.moved]


def driver_memory(blocks: int, columns: int) -> tuple[int, int]:
    """Bytes of the model, and the most that the driver held in two rounds."""
    model = osvm.LinearClassifier(schedule="bottou", random_state=0)
    data = wide_blocks(columns, blocks)
    with tempfile.TemporaryDirectory() as folder:
        engine = Counting(min(blocks, 8), folder)
        tracemalloc.start()
        osvm.distributed.fit(model, data, engine=engine, rounds=2, classes=[0, 1])
        peak = max(engine.driver_peak, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return len(model.to_bytes()), peak


def bytes_study() -> None:
    print("bytes moved per round / (workers x model)")
    for workers in (4, 16, 64):
        mixing = moved_per_round(workers, rounds=3)
        optimum = moved_per_round(workers, rounds=4, tol=1e-12)
        print(
            f"  {workers:3} workers: mixing {_list(mixing)}, then gradients {_list(optimum[1:])}"
        )


def memory_study() -> None:
    print("most that the driver holds (MB)")
    for blocks in (4, 16, 64):
        size, peak = driver_memory(blocks, 10_000_000)
        print(f"  {blocks:3} blocks, model of {size / 1e6:.0f} MB: {peak / 1e6:.0f}")


def accuracy_study() -> None:
    from asv_bench.problems import binary_news20, generated, have

    sets = {"RCV1 shape": lambda: generated(40_000)}
    if have("news20"):
        sets["20 Newsgroups, two classes"] = binary_news20
    print("test accuracy: one process, then 8 blocks after 1 to 5 rounds")
    for name, problem in sets.items():
        X, y, X_test, y_test = problem()
        alone = 100 * osvm.LinearClassifier(random_state=0).fit(X, y).score(X_test, y_test)
        blocks = [(X[k::8], y[k::8]) for k in range(8)]
        found = [
            100
            * osvm.distributed.fit(osvm.LinearClassifier(random_state=0), blocks, rounds=r).score(
                X_test, y_test
            )
            for r in range(1, 6)
        ]
        print(f"  {name}: {alone:.2f}; {_list(found)}")


def optimum_study() -> None:
    X, y, _, _ = osvm.datasets.make_rcv1_like(20_000, 0, n_features=5000, random_state=0)
    print("rounds to 1% and 0.1% of the optimum")
    for loss in ("logistic", "squared_hinge"):
        paths = {}
        for n in (8, 64):
            model = osvm.LinearClassifier(loss, reg=1e-4, random_state=0)
            blocks = [(X[k::n], y[k::n]) for k in range(n)]
            osvm.distributed.fit(model, blocks, tol=1e-8, rounds=60)
            paths[n] = np.array([figures["objective"] for figures in model.rounds_[1:]])
        best = min(path.min() for path in paths.values())
        for n, path in paths.items():
            needed = [int(np.argmax(path <= (1 + e) * best)) + 2 for e in (0.01, 0.001)]
            print(f"  {loss}, {n} blocks: {needed[0]} and {needed[1]}")


# ------------------------------------------------------------------ 10^10 rows


def constants() -> dict[str, float]:
    """CPU seconds per row learnt, per row parsed, and per weight merged, here."""
    X, y, _, _ = osvm.datasets.make_rcv1_like(20_000, 0, random_state=0)
    model = osvm.LinearClassifier(schedule="bottou", average=True, random_state=0)
    model.partial_fit(X, y)
    learn = _cpu(lambda: model.partial_fit(X, y)) / X.shape[0]
    lines = b"".join(
        b"%d %b\n" % (label, b" ".join(b"%d:%.6g" % pair for pair in zip(
            (X.indices[a:b] + 1).tolist(), X.data[a:b].tolist())))
        for label, a, b in zip(y[:5000].tolist(), X.indptr, X.indptr[1:])
    )  # fmt: skip
    with tempfile.NamedTemporaryFile(suffix=".svm") as file:
        file.write(lines)
        file.flush()
        parse = _cpu(lambda: list(osvm.stream.read(file.name, n_features=X.shape[1]))) / 5000
    wide = osvm.LinearClassifier(schedule="bottou", average=True, random_state=0)
    wide.partial_fit(*wide_blocks(1_000_000, 1)[0])
    merge = _cpu(lambda: osvm.merge([wide] * FAN_IN)) / (FAN_IN * 1_000_000)
    pack = _cpu(lambda: osvm.from_bytes(wide.to_bytes())) / 1_000_000
    return {"learn": learn, "parse": parse, "merge": merge, "pack": pack}


def simulate(
    rows: float, workers: int, weights: int, c: dict[str, float], gigabits: float = 10.0,
    spread: float = 0.05, seed: int = 0, item: int = 8,
) -> dict[str, float]:  # fmt: skip
    """Seconds of one round: broadcast along a tree, one block a worker, folds as results arrive.

    Workers differ in speed by `spread` (log-normal).  A link carries one message at a time;
    the model has `weights` numbers of `item` bytes.
    """
    rng = np.random.default_rng(seed)
    send = weights * item * 8 / (gigabits * 1e9)
    spread_out = math.ceil(math.log(workers, FAN_IN)) * FAN_IN * send
    unpack = c["pack"] * weights
    speed = rng.lognormal(0.0, spread, workers)
    ready = spread_out + unpack + speed * (rows / workers * (c["learn"] + c["parse"]) + unpack)
    learnt = ready.max()
    for _ in levels(workers)[1:]:
        groups = [ready[k : k + FAN_IN] for k in range(0, len(ready), FAN_IN)]
        ready = np.array(
            [g.max() + (len(g) - 1) * send + len(g) * (c["merge"] + c["pack"]) * weights
             for g in groups]
        )  # fmt: skip
    return {
        "round": float(ready[0]), "broadcast": spread_out, "learn": float(learnt) - spread_out,
        "fold": float(ready[0]) - float(learnt), "gigabytes": 2 * workers * weights * item / 1e9,
    }  # fmt: skip


def cluster_study() -> None:
    c = constants()
    print("constants (CPU):", ", ".join(f"{k} {1e9 * v:.1f} ns" for k, v in c.items()))
    print("10^10 rows of 76 values, 10 Gbit/s: seconds of a round")
    print("  workers    weights  broadcast  learn   fold  round  GB moved  efficiency")
    for workers in (10, 100, 1000, 10_000):
        for weights in (50_000, 1_000_000, 100_000_000):
            s = simulate(1e10, workers, weights, c)
            ideal = 1e10 * (c["learn"] + c["parse"]) / workers
            share = ideal / s["round"]
            print(
                f"  {workers:7}  {weights:9}  {s['broadcast']:9.1f} {s['learn']:6.0f} "
                f"{s['fold']:6.1f} {s['round']:6.0f} {s['gigabytes']:9.1f}  {share:.0%}"
            )


def _cpu(work: Any, repeats: int = 3) -> float:
    best = math.inf
    for _ in range(repeats):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def _list(values: list[float]) -> str:
    return " ".join(f"{value:.2f}" for value in values)


STUDIES = {
    "bytes": bytes_study, "memory": memory_study, "accuracy": accuracy_study,
    "optimum": optimum_study, "cluster": cluster_study,
}  # fmt: skip

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or STUDIES:
        STUDIES[name]()
