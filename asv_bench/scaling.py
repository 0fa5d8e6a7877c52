"""How the cost grows with the work: rows, features, non-zeros, classes, buffer.

    python -m asv_bench.scaling --quick
    python -m asv_bench.scaling                  up to 10⁷ rows and 10⁸ features

Each study doubles or decuples one size, measures processor time, divides it by the work
that this size means (non-zeros, non-zeros × classes, kernel values) and fits the exponent
of time against the size.  1 is linear; what exceeds it is explained in the table's note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from asv_bench.common import cpu_seconds, pinned
from asv_bench.report import (
    Report,
    default_repeats,
    fit_exponent,
    make_parser,
    new_figure,
    scaled,
    show_seconds,
)

REG = 1e-4
Point = tuple[int, Callable[[], list[float]], float]  # size, CPU seconds of runs, units of work


def repeat(work: Callable[[], Any], repeats: int) -> list[float]:
    return [cpu_seconds(work) for _ in range(repeats)]


# ---------------------------------------------------------------------- studies


def rows(options: Any) -> Iterator[tuple[int, list[float], float]]:
    """A stream of rows, learnt as it is generated; the clock runs while learning only."""
    import osvm

    top = 5 if options.quick else 7
    for size in (scaled(10**k, 200) for k in range(3, top + 1)):
        seconds, nnz = 0.0, 0
        model = osvm.LinearClassifier(reg=REG)
        # A first block makes the weights; it is not counted.
        for X, y in osvm.datasets.iter_rcv1_like(100, chunk_rows=100, random_state=1):
            model.partial_fit(X, y)
        for X, y in osvm.datasets.iter_rcv1_like(size, chunk_rows=10_000, random_state=0):
            seconds += cpu_seconds(lambda m=model, r=X, t=y: m.partial_fit(r, t))
            nnz += X.nnz
        yield size, [seconds], nnz


def features(options: Any) -> Iterator[tuple[int, list[float], float]]:
    """The number of columns; the non-zeros stay the same."""
    import osvm

    n = scaled(5000 if options.quick else 50_000, 200)
    top = 6 if options.quick else 8
    for size in (scaled(10**k, 1000) for k in range(4, top + 1)):
        X, y, _, _ = osvm.datasets.make_rcv1_like(n, 0, n_features=size, random_state=0)
        model = osvm.LinearClassifier(reg=REG)
        model.partial_fit(X, y)
        yield size, repeat(lambda m=model, r=X, t=y: m.partial_fit(r, t), options.repeats), X.nnz


def nonzeros(options: Any) -> Iterator[tuple[int, list[float], float]]:
    """Non-zeros a row."""
    import osvm

    n = scaled(2000 if options.quick else 20_000, 200)
    for size in (10, 30, 100, 300, 1000):
        X, y, _, _ = osvm.datasets.make_rcv1_like(n, 0, nnz=size, random_state=0)
        model = osvm.LinearClassifier(reg=REG)
        model.partial_fit(X, y)
        yield size, repeat(lambda m=model, r=X, t=y: m.partial_fit(r, t), options.repeats), X.nnz


def classes(options: Any) -> Iterator[tuple[int, list[float], float]]:
    """Classes, one against the rest, in one pass."""
    import osvm

    n = scaled(2000 if options.quick else 10_000, 200)
    sizes = (3, 10, 30, 100) if options.quick else (3, 10, 30, 100, 300, 1000)
    for size in sizes:
        X, y, _, _ = osvm.datasets.make_rcv1_like(n, 0, n_classes=size, random_state=0)
        model = osvm.LinearClassifier(reg=REG)
        every = list(range(size))
        model.partial_fit(X, y, classes=every)
        seconds = repeat(lambda m=model, r=X, t=y: m.partial_fit(r, t), options.repeats)
        yield size, seconds, X.nnz * size


def buffer(options: Any) -> Iterator[tuple[int, list[float], float]]:
    """Rows in the buffer of SVMD with an RBF kernel, 64 columns."""
    import osvm

    rng = np.random.default_rng(0)
    n, d = scaled(500 if options.quick else 4000, 100), 64
    top = 10 if options.quick else 14
    for size in (scaled(2**k, 2 ** (k - 2)) for k in range(6, top + 1)):
        model = osvm.KernelClassifier(
            gamma=1 / (2 * d), budget=size, schedule="smd", eviction="fifo", eta0=0.1, reg=1e-5
        )
        X = rng.normal(size=(3 * size, d)).astype(np.float32)
        model.partial_fit(X, rng.integers(2, size=len(X)), classes=[0, 1])  # noise fills it
        Z = rng.normal(size=(n, d)).astype(np.float32)
        y = (Z[:, 0] > 0).astype(int)
        seconds = repeat(lambda m=model, r=Z, t=y: m.partial_fit(r, t), options.repeats)
        yield size, seconds, n * int(model.n_support_)


STUDIES: dict[str, tuple[Callable[[Any], Any], str, str, str]] = {
    # name: study, unit of work, what should be constant, explanation
    "rows": (rows, "ns a non-zero", "linear", ""),
    "features": (
        features, "ns a non-zero", "constant: the rows' non-zeros do not change",
        "The exponent is that of the cache: the same non-zeros are spread over more memory, until "
        "every one of them is a miss (4 bytes of weights a feature: 40 kB at 10⁴, 400 MB at 10⁸).",
    ),
    "non-zeros a row": (
        nonzeros, "ns a non-zero", "linear",
        "Below 1: what a row costs whatever its length is spread over more non-zeros.",
    ),
    "classes": (
        classes, "ns a non-zero and class", "linear",
        "Below 1: the row is read once for all classes.",
    ),
    "buffer": (
        buffer, "ns a kernel value", "linear",
        "Below 1 for small buffers, where work that does not depend on the buffer counts; above "
        "the cache's size kernel values wait for the buffer's rows.",
    ),
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser("scaling", str(__doc__).splitlines()[0])
    parser.add_argument("studies", nargs="*", metavar="study", help=f"of {', '.join(STUDIES)}")
    options = parser.parse_args(arguments)
    options.repeats = options.repeats or default_repeats(options.quick)
    unknown = set(options.studies) - set(STUDIES)
    if unknown:
        parser.error(f"no study named {sorted(unknown)[0]!r}; there are {', '.join(STUDIES)}")
    report = Report(
        "scaling", "Cost as the work grows",
        "Processor time of `partial_fit` on one thread while one size grows; the exponent is "
        "fitted to time against the size.",
        options,
    )  # fmt: skip
    names = options.studies or list(STUDIES)
    figure, ax = new_figure()
    summary = []
    for name in names:
        study, unit, expected, why = STUDIES[name]
        sizes, medians, table, each = [], [], [], []
        with pinned():
            for size, seconds, work in study(options):
                middle = float(np.median(seconds))
                sizes.append(size)
                medians.append(middle)
                each.append(1e9 * middle / work)
                table.append([size, show_seconds(seconds), f"{each[-1]:.3g}"])
                print(f"  {name} {size:,}: {show_seconds(seconds)}", flush=True)
        power = fit_exponent(sizes, medians) if len(set(sizes)) > 1 else float("nan")
        report.add_table(f"{name}: time ~ size^{power:.2f}", [name, "CPU time", unit], table, why)
        ax.plot(sizes, np.array(each) / each[0], "o-", ms=4, label=f"{name} ({unit})")
        summary.append([name, f"{power:.2f}", expected, f"{min(each):.3g}–{max(each):.3g} {unit}"])
        report.data[name] = {"size": sizes, "seconds": medians, "each": each, "exponent": power}
    ax.set(xscale="log", yscale="log", xlabel="size", ylabel="cost of a unit, first size = 1")
    ax.legend(fontsize=7)
    report.add_plot(figure)
    report.add_table("Exponents", ["size", "exponent", "expected", "cost of a unit"], summary)
    report.tables.insert(0, report.tables.pop())
    report.finish()


if __name__ == "__main__":
    main()
