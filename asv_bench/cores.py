"""Two threads beside one: `fit`, `predict` and ``osvm train``, in seconds of the clock.

    python -m asv_bench.cores --quick
    python -m asv_bench.cores                  400,000 rows; a file of 1 GB
    python -m asv_bench.cores --only predict

For a machine that has at least two cores and nothing else to do: times are those of the clock,
and the table says what the load was.  One thread and two take turns; a figure is the ratio of
the quickest runs.  `fit` makes `epochs` passes, so that both numbers of threads do the same
work; the accuracy is that on 20,000 rows held out.
"""

from __future__ import annotations

import copy
import filecmp
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from asv_bench.common import rcv1_like
from asv_bench.report import Report, default_repeats, make_parser, scaled, show_seconds

THREADS = (1, 2)
EPOCHS = 5
Line = tuple[str, dict[int, Callable[[], Any]], Callable[[], str]]  # what, by threads, remark


def clock(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def fits(quick: bool) -> Iterator[Line]:
    """Fits of two and of twenty classes with two schedules, and predictions."""
    import osvm

    for n_classes in (2, 20):
        X, y, X_test, y_test = rcv1_like(scaled(20_000 if quick else 400_000, 4000), n_classes)
        for schedule in ("auto", "bottou"):
            models = {
                k: osvm.LinearClassifier(
                    schedule=schedule, epochs=EPOCHS, n_jobs=k, random_state=0
                )
                for k in THREADS
            }

            def accuracy(models: Any = models, X: Any = X_test, y: Any = y_test) -> str:
                return " / ".join(f"{100 * m.score(X, y):.2f} %" for m in models.values())

            work = {k: (lambda m=m, X=X, y=y: m.fit(X, y)) for k, m in models.items()}
            yield f"fit, {n_classes} classes, {schedule}", work, accuracy
        fitted = osvm.LinearClassifier(random_state=0, epochs=1).fit(X, y)
        models = {k: copy.deepcopy(fitted).set_params(n_jobs=k) for k in THREADS}

        def same(models: Any = models, X: Any = X) -> str:
            one, two = (m.predict(X) for m in models.values())
            return "same answers" if np.array_equal(one, two) else "OTHER ANSWERS"

        yield (
            f"predict, {n_classes} classes",
            {k: (lambda m=m, X=X: m.predict(X)) for k, m in models.items()},
            same,
        )


def write_svmlight(path: Path, size: int, X: Any, y: Any) -> None:
    """A file of at least `size` bytes; the rows come again and again."""
    lines = b"".join(
        b"%d %b\n" % (label, b" ".join(b"%d:%.6g" % pair for pair in zip(
            (X.indices[a:b] + 1).tolist(), X.data[a:b].tolist())))
        for label, a, b in zip(y.tolist(), X.indptr, X.indptr[1:])
    )  # fmt: skip
    with open(path, "wb") as file:
        for _ in range(-(-size // len(lines))):
            file.write(lines)


def trains(quick: bool, folder: Path) -> Iterator[Line]:
    """``osvm train`` of an svmlight file, start of the process included."""
    path = folder / "rows.svm"
    X, y, _, _ = rcv1_like(scaled(20_000, 500), 2)
    write_svmlight(path, scaled(50_000_000 if quick else 1_000_000_000, 500_000), X, y)

    # byte code is kept, as an installation does, whatever the environment says
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "byte-code")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def command(threads: int) -> None:
        words = ["train", str(path), "-m", str(folder / f"model-{threads}"), "--quiet"]
        words += ["--random-state", "0", "--threads", str(threads)]
        subprocess.run(
            [sys.executable, "-m", "osvm", *words],
            check=True,
            capture_output=True,
            env=environment,
        )

    def remark() -> str:
        same = filecmp.cmp(folder / "model-1", folder / "model-2", shallow=False)
        return f"{'same bytes' if same else 'OTHER BYTES'}; {path.stat().st_size / 1e6:.0f} MB"

    yield "osvm train", {k: (lambda k=k: command(k)) for k in THREADS}, remark


def lines(quick: bool, folder: Path, words: Sequence[str]) -> Iterator[Line]:
    """The lines whose names contain one of the words; the file is written only where it counts."""
    file = trains(quick, folder) if any(word in "osvm train" for word in words) else ()
    for line in itertools.chain(fits(quick), file):
        if any(word in line[0] for word in words):
            yield line


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser("cores", str(__doc__).splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="word", help="lines that contain a word")
    options = parser.parse_args(arguments)
    report = Report("cores", "Two threads", str(__doc__).split("\n\n", 2)[2], options)
    repeats = options.repeats or default_repeats(options.quick)
    rows = []
    with tempfile.TemporaryDirectory(prefix="osvm-cores-") as folder:
        for name, jobs, remark in lines(options.quick, Path(folder), options.only or [""]):
            for work in jobs.values():
                work()
            times: dict[int, list[float]] = {k: [] for k in jobs}
            for _ in range(repeats):
                for k, work in jobs.items():
                    times[k].append(clock(work))
            quicker = min(times[1]) / min(times[2])
            shown = (show_seconds(t) for t in times.values())
            rows.append([name, *shown, f"{quicker:.2f}", remark()])
            report.data[name] = times
            print(*rows[-1], sep="  ", flush=True)
    report.add_table(
        "Two threads", ["what", "one thread", "two threads", "times quicker", "beside it"], rows
    )
    report.finish()


if __name__ == "__main__":
    main()
