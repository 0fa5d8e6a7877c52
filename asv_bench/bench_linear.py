"""Linear learners: epochs, many outputs, fit's own cost, one example at a time, a search.

The unit is `matvec`: scipy's float64 ``X @ w`` on the same rows, one thread.

    python -m asv_bench.bench_linear [--rows N] [--repeats N] [--part NAME ...]

prints everything in one interleaved, pinned run of processor time.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from asv_bench.common import ROWS, interleaved, news20, pinned, ratio, rcv1_like
from asv_bench.report import Report, make_parser
from osvm import LinearClassifier
from osvm._input.validate import check_X
from osvm.linear.examples import full, windowed
from osvm.linear.plan import resolve_plan
from osvm.model_selection import one_pass_search

REG = 1e-4


class Data:
    """Rows, labels and the reference job of one combination of types."""

    def __init__(
        self, n_rows: int, dtype: str = "float32", index: str = "int32", n_classes: int = 2
    ):
        parts = rcv1_like(n_rows, n_classes, np.dtype(dtype), np.dtype(index))
        self.X, self.y, self.X_test, self.y_test = parts
        self.wide = sp.csr_matrix(self.X, dtype=np.float64)
        self.w = np.random.default_rng(0).normal(size=self.X.shape[1])
        self.source, _ = check_X(self.X)
        self.dtype, self.n_classes = np.dtype(dtype), n_classes
        if n_classes == 2:
            self.targets = np.where(self.y > 0, 1.0, -1.0)
        else:
            self.targets = self.y.astype(np.int32)

    def matvec(self) -> Any:
        return self.wide @ self.w

    def order(self, name: str) -> Any:
        n = self.X.shape[0]
        return {"file": None, "window": windowed(n, 1), "full": full(n, 1)}[name]

    def epoch(self, order: str = "file", n_out: int = 1, **params: Any) -> Callable[[], None]:
        """A further epoch of a model that has seen one."""
        model = LinearClassifier(reg=REG, **params)
        plan = dataclasses.replace(resolve_plan(model, self.X.shape[0]), t0=1000.0)
        learner = plan.learner(self.X.shape[1], n_out, self.dtype)
        targets, visits = self.targets, self.order(order)
        learner.run(self.source, targets)
        return lambda: learner.run(self.source, targets, visits)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "average": {"average": True},
    "project": {"project": True},
    "logistic": {"loss": "logistic"},
}


class Epoch:
    """One more hinge epoch."""

    params = (
        ["float32", "float64"],
        ["int32", "int64"],
        ["file", "window", "full"],
        list(OPTIONS),
    )
    param_names = ("dtype", "index", "order", "option")

    def setup(self, dtype: str, index: str, order: str, option: str) -> None:
        self.data = Data(ROWS, dtype, index)
        self.work = self.data.epoch(order, **OPTIONS[option])

    def time_epoch(self, dtype: str, index: str, order: str, option: str) -> None:
        self.work()

    def track_matvecs(self, dtype: str, index: str, order: str, option: str) -> float:
        times = interleaved({"matvec": self.data.matvec, "epoch": self.work}, 3)
        return ratio(times, "epoch", "matvec")


class ManyOutputs:
    """One more epoch of K outputs, one-vs-rest and jointly."""

    params = ([2, 20, 100], ["hinge", "multiclass_hinge"], [False, True])
    param_names = ("n_out", "loss", "average")

    def setup(self, n_out: int, loss: str, average: bool) -> None:
        self.data = Data(ROWS, n_classes=20)
        self.data.targets = (self.data.targets % n_out).astype(np.int32)
        self.work = self.data.epoch("window", n_out, loss=loss, average=average)

    def time_epoch(self, n_out: int, loss: str, average: bool) -> None:
        self.work()

    def track_matvecs(self, n_out: int, loss: str, average: bool) -> float:
        times = interleaved({"matvec": self.data.matvec, "epoch": self.work}, 3)
        return ratio(times, "epoch", "matvec")


class Fit:
    """A whole `fit` of one epoch, its accuracy, and what it costs besides the epoch."""

    params = (["float32", "float64"],)
    param_names = ("dtype",)

    def setup(self, dtype: str) -> None:
        self.data = Data(ROWS, dtype)

    def fit(self, epochs: int) -> LinearClassifier:
        model = LinearClassifier(reg=REG, epochs=epochs, random_state=0)
        return model.fit(self.data.X, self.data.y)

    def time_fit(self, dtype: str) -> None:
        self.fit(1)

    def track_accuracy(self, dtype: str) -> float:
        return self.fit(1).score(self.data.X_test, self.data.y_test)

    def track_overhead_matvecs(self, dtype: str) -> float:
        jobs = {"matvec": self.data.matvec, "1": lambda: self.fit(1), "3": lambda: self.fit(3)}
        return overhead(interleaved(jobs, 3))

    def track_times_quicker_than_sgdclassifier(self, dtype: str) -> float:
        jobs = {"osvm": lambda: self.fit(1), "peer": peer_fit(self.data.X, self.data.y, 1)}
        return 1.0 / ratio(interleaved(jobs, 2, warm=False), "osvm", "peer")


class OneByOne:
    """Examples a second, one call for each."""

    params = (["partial_fit", "learn_one", "predict_one", "score_one", "learn_one(dict)"],)
    param_names = ("call",)

    def setup(self, call: str) -> None:
        self.jobs = one_by_one_jobs(Data(min(ROWS, 20_000)))

    def track_per_second(self, call: str) -> float:
        n, work = self.jobs[call]
        return n / min(interleaved({call: work}, 3)[call])


# ------------------------------------------------------------------ what they share


def overhead(times: dict[str, list[float]]) -> float:
    """fit of one epoch less an epoch, in matvecs; an epoch from fits of 3 and 1."""
    one, three = min(times["1"]), min(times["3"])
    return (one - (three - one) / 2) / min(times["matvec"])


def peer_fit(X: Any, y: Any, epochs: int) -> Callable[..., Any]:
    try:
        from sklearn.linear_model import SGDClassifier
    except ImportError:
        raise NotImplementedError("needs scikit-learn") from None

    def work(seed: int = 0) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SGDClassifier(max_iter=epochs, tol=None, alpha=REG, random_state=seed)
            return model.fit(X, y)

    return work


def one_by_one_jobs(data: Data, n: int = 5000) -> dict[str, tuple[int, Callable[[], None]]]:
    n = min(n, data.X.shape[0])
    X, y = data.X[:n], data.y[:n]
    model = LinearClassifier(reg=REG).partial_fit(X, y)
    rows, labels = [X[i] for i in range(n)], [y[i : i + 1] for i in range(n)]
    examples = [(row.indices, row.data, int(label[0])) for row, label in zip(rows, labels)]
    dicts = [(dict(zip(j.tolist(), x.tolist())), c) for j, x, c in examples]

    def partial_fit() -> None:
        for row, label in zip(rows, labels):
            model.partial_fit(row, label)

    def learn_one() -> None:
        for j, x, c in examples:
            model.learn_one(j, x, c)

    def predict_one() -> None:
        for j, x, _ in examples:
            model.predict_one(j, x)

    def score_one() -> None:
        for j, x, _ in examples:
            model.score_one(j, x)

    def learn_dict() -> None:
        for features, c in dicts:
            model.learn_one(features, c)

    return {
        "partial_fit": (n, partial_fit),
        "learn_one": (n, learn_one),
        "predict_one": (n, predict_one),
        "score_one": (n, score_one),
        "learn_one(dict)": (n, learn_dict),
    }


_MEMORY = """
import resource, sys
import numpy as np
from asv_bench.common import rcv1_like
from osvm import LinearClassifier
X, y, _, _ = rcv1_like({rows}, dtype=np.{dtype})
LinearClassifier(epochs=1, random_state=0).fit(X[:2000], y[:2000])
def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) * 1024
def now():
    return int(open("/proc/self/status").read().split("VmRSS:")[1].split()[0]) * 1024
open("/proc/self/clear_refs", "w").write("5")
before = now()
LinearClassifier(epochs=2, random_state=0).fit(X, y)
size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
print(peak() - before, size, X.shape[1] * X.dtype.itemsize)
"""


def memory_above(rows: int, dtype: str) -> tuple[float, float]:
    """(bytes that a fit adds at its peak, 5 % of X + 3 weight vectors)."""
    code = _MEMORY.format(rows=rows, dtype=dtype)
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    extra, size, vector = (float(number) for number in out)
    return extra, 0.05 * size + 3 * vector


# ---------------------------------------------------------------------- the table


FOUND: list[list[str]] = []  # rows of the table


def show(measure: str, value: str, bar: str, aim: str = "") -> None:
    FOUND.append([measure.strip(), value, bar])
    print(f"{measure:<58} {value:>12}   {bar:<10} {aim}", flush=True)


def part_epochs(rows: int, repeats: int) -> None:
    for dtype, bars in (("float32", ("1.2", "1.5")), ("float64", ("1.6", "2.2"))):
        data = Data(rows, dtype)
        jobs: dict[str, Callable[[], Any]] = {"matvec": data.matvec}
        for order in ("file", "window", "full"):
            jobs[order] = data.epoch(order)
        for option in ("average", "project"):
            jobs[f"file {option}"] = data.epoch("file", **OPTIONS[option])
            jobs[option] = data.epoch("window", **OPTIONS[option])
        model = LinearClassifier(reg=REG, epochs=1, random_state=0).fit(data.X, data.y)
        jobs["decide"] = lambda model=model, data=data: model.decision_function(data.X)
        for epochs in (1, 3):
            jobs[str(epochs)] = lambda epochs=epochs, data=data: LinearClassifier(
                reg=REG, epochs=epochs, random_state=0
            ).fit(data.X, data.y)
        times = interleaved(jobs, repeats)
        print(f"{dtype}: matvec {1e3 * min(times['matvec']):.1f} ms")
        for order, bar in zip(("file", "window", "full"), (*bars, "-")):
            show(
                f"  {dtype} hinge epoch, order {order}",
                f"{ratio(times, order, 'matvec'):.2f}",
                bar,
            )
        for base, prefix in (("file", "file "), ("window", "")):
            for option, bar in (("average", "1.3 x"), ("project", "1.1 x")):
                value = ratio(times, prefix + option, base)
                show(f"  {dtype} with {option}, order {base}", f"{value:.2f} x", bar)
        show(f"  {dtype} fit besides its epochs", f"{overhead(times):.2f}", "0.45", "0.25")
        show(
            f"  {dtype} decision_function", f"{ratio(times, 'decide', 'matvec'):.2f}", "1.1", "0.8"
        )


def part_fit(rows: int, repeats: int) -> None:
    for dtype, bar in (("float32", "3.5 x"), ("float64", "2.5 x")):
        data = Data(rows, dtype)
        jobs = {
            "osvm": lambda data=data: LinearClassifier(reg=REG, epochs=1, random_state=0).fit(
                data.X, data.y
            ),
            "peer": peer_fit(data.X, data.y, 1),
            "matvec": data.matvec,
        }
        times = interleaved(jobs, max(2, repeats // 2))
        show(
            f"  {dtype} fit of 1 epoch against SGDClassifier's "
            f"({ratio(times, 'osvm', 'matvec'):.2f} / {ratio(times, 'peer', 'matvec'):.2f})",
            f"{1 / ratio(times, 'osvm', 'peer'):.1f} x",
            bar,
        )


def part_classes(rows: int, repeats: int) -> None:
    data = Data(rows, n_classes=20)
    sets = {"generated, 1 epoch": (data.X, data.y, data.X_test, data.y_test, 1, "10 x")}
    try:
        sets["20 Newsgroups, 5 epochs"] = (*news20(), 5, "4 x")
    except NotImplementedError as error:
        print(f"  20 Newsgroups skipped: {error}")
    for name, (X, y, X_test, y_test, epochs, bar) in sets.items():
        found: dict[str, list[Any]] = {"osvm": [], "peer": []}  # a model of each seed

        def osvm_fit(X: Any = X, y: Any = y, epochs: int = epochs, done: Any = found) -> None:
            model = LinearClassifier(reg=REG, epochs=epochs, random_state=len(done["osvm"]))
            done["osvm"].append(model.fit(X, y))

        work = peer_fit(X, y, epochs)

        def peer(work: Any = work, done: Any = found) -> None:
            done["peer"].append(work(len(done["peer"])))

        # one seed says little about a few thousand test rows
        seeds = max(1, repeats // 4) if "generated" in name else max(1, repeats)
        times = interleaved({"osvm": osvm_fit, "peer": peer}, seeds, warm=False)
        scores = [
            100 * np.mean([model.score(X_test, y_test) for model in found[who]])
            for who in ("osvm", "peer")
        ]
        show(
            f"  20 classes, {name}: accuracy {scores[0]:.2f} / {scores[1]:.2f}",
            f"{1 / ratio(times, 'osvm', 'peer'):.1f} x",
            bar,
        )
    jobs: dict[str, Callable[[], Any]] = {"matvec": data.matvec}
    labels = data.targets
    for n_out in (2, 20, 100):
        data.targets = (labels % n_out).astype(np.int32)
        jobs[f"K = {n_out}"] = data.epoch("window", n_out)
    data.targets = labels.astype(np.int32)
    averaged = "K = 20 with average"
    jobs[averaged] = data.epoch("window", 20, average=True)
    times = interleaved(jobs, max(2, repeats // 2))
    for n_out in (2, 20, 100):
        value = ratio(times, f"K = {n_out}", "matvec")
        show(f"  K = {n_out} outputs, a further epoch", f"{value:.2f}", "-")
    show("  K = 20 outputs with average", f"{ratio(times, averaged, 'K = 20'):.2f} x", "1.3 x")


def part_one(rows: int, repeats: int) -> None:
    bars = {"partial_fit": "50,000", "learn_one": "500,000", "predict_one": "500,000"}
    jobs = one_by_one_jobs(Data(min(ROWS, 20_000)))
    times = interleaved({name: work for name, (_, work) in jobs.items()}, repeats)
    for name, (n, _) in jobs.items():
        show(f"  {name}, examples a second", f"{n / min(times[name]):,.0f}", bars.get(name, "-"))


def part_memory(rows: int, repeats: int) -> None:
    for dtype in ("float32", "float64"):
        extra, allowed = memory_above(rows, dtype)
        show(
            f"  {dtype} memory above X during fit, MB",
            f"{extra / 1e6:.1f}",
            f"{allowed / 1e6:.1f}",
        )


def part_search(rows: int, repeats: int) -> None:
    X, y, _, _ = rcv1_like(rows)
    compare_search("", X, y, repeats)
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(rows // 4, 300)).astype(np.float32)
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    compare_search(" on dense rows", dense, dense @ rng.normal(size=300) > 0, repeats)


def compare_search(what: str, X: Any, y: Any, repeats: int) -> None:
    regs = np.geomspace(1e-6, 1e-2, 16).tolist()

    def search() -> None:
        one_pass_search(LinearClassifier(epochs=1, random_state=0), X, y, {"reg": regs})

    def fits() -> None:
        for reg in regs:
            LinearClassifier(reg=reg, epochs=1, random_state=0).fit(X, y)

    times = interleaved({"search": search, "fits": fits}, repeats)
    show(
        f"  one_pass_search over 16 values of reg{what}",
        f"{ratio(times, 'fits', 'search'):.1f} x",
        "5 x",
    )


PARTS = {
    "epochs": part_epochs,
    "fit": part_fit,
    "classes": part_classes,
    "one": part_one,
    "memory": part_memory,
    "search": part_search,
}


def main() -> None:
    parser = make_parser("bench_linear", str(__doc__).split("\n\n")[0])
    parser.add_argument("--rows", type=int)
    parser.add_argument("--part", nargs="*", choices=list(PARTS), default=list(PARTS))
    options = parser.parse_args()
    rows = options.rows or (min(ROWS, 20_000) if options.quick else ROWS)
    report = Report(
        "linear", "Linear learners in units of X @ w",
        f"Generated RCV1 shape, {rows:,} rows. The unit is scipy's float64 X @ w on the same rows "
        "in the same run, one pinned thread; the quickest of the repeats counts. The bars are "
        "those that the project set itself.",
        options,
    )  # fmt: skip
    show("measure", "found", "bar", "aim")
    FOUND.clear()
    with pinned():
        for name in options.part:
            PARTS[name](rows, options.repeats or (3 if options.quick else 7))
    report.add_table("Multiples of X @ w, or as said", ["measure", "found", "bar"], FOUND)
    report.finish()


if __name__ == "__main__":
    main()
