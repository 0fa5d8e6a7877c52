"""``osvm demo``: generated text in the shape of RCV1, learnt and measured.

Every number in the table was measured in this run.  The ratio is the time of a
fit over that of one plain float64 ``X @ w`` of scipy on the same matrix: the
cost of touching every non-zero once.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from osvm.datasets import make_rcv1_like

N_FEATURES = 47_152
NNZ = 76


@dataclass
class Result:
    """One line of the table."""

    learner: str
    seconds: float
    objective: float
    test_error: float
    ratio: float


@dataclass
class Problem:
    """The data of the demo, the regularizer, and the time of one ``X @ w``."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    reg: float
    matvec: float

    def objective(self, model: Any) -> float:
        """reg/2 ||w||^2 + mean hinge loss on the training rows."""
        w = np.asarray(model.coef_, dtype=float).ravel()
        margins = self.y * np.asarray(model.decision_function(self.X), dtype=float)
        return 0.5 * self.reg * float(w @ w) + float(np.maximum(0, 1 - margins).mean())

    def test_error(self, model: Any) -> float:
        return float(np.mean(model.predict(self.X_test) != self.y_test))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=200_000, help="training rows (%(default)s)")
    parser.add_argument("--reg", type=float, default=1e-4, help="regularizer (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="names the problem (%(default)s)")
    parser.add_argument("--plot", default="osvm-demo.png", help="where to save (%(default)s)")
    parser.add_argument("--no-plot", action="store_true", help="do not draw")
    parser.add_argument("--quiet", action="store_true", help="no progress line")


def learners(reg: float, seed: int, n_rows: int) -> list[tuple[str, Callable[[], Any]]]:
    """What the demo compares; each function makes an estimator that is not fitted."""
    from osvm import LinearClassifier, recipes

    common: dict[str, Any] = {
        "loss": "hinge",
        "reg": reg,
        "fit_intercept": False,
        "random_state": seed,
    }
    exact: dict[str, Any] = {"tol": 1e-3, "fit_intercept": False, "random_state": seed}
    made: list[tuple[str, Callable[[], Any]]] = [
        ("one pass", lambda: LinearClassifier(epochs=1, **common)),
        ("one pass, averaged", lambda: LinearClassifier(epochs=1, average=True, **common)),
        ("five passes", lambda: LinearClassifier(epochs=5, **common)),
        ("dual ascent to 0.1 %", lambda: recipes.dual_svm(1.0 / (reg * n_rows), **exact)),
    ]
    if importlib.util.find_spec("sklearn") is not None:
        from sklearn.linear_model import SGDClassifier

        def peer() -> Any:
            return SGDClassifier(
                alpha=reg, max_iter=1, tol=None, fit_intercept=False, random_state=seed
            )

        made.append(("scikit-learn SGDClassifier, one pass", peer))
    return made


class ProgressLine:
    """A line on standard error; on a terminal it is written over.  Silent when asked to be."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.width = 0

    def show(self, text: str) -> None:
        if self.quiet:
            return
        if sys.stderr.isatty():
            sys.stderr.write("\r" + text.ljust(self.width))
            sys.stderr.flush()
            self.width = len(text)
        else:
            print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()


def time_matvec(X: Any) -> float:
    """Seconds of one float64 ``X @ w``: the median of seven."""
    X64 = X.astype(np.float64)
    w = np.ones(X.shape[1])
    X64 @ w
    times = []
    for _ in range(7):
        start = time.perf_counter()
        X64 @ w
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def measure(name: str, model: Any, problem: Problem) -> Result:
    """Fit and score one learner; the time is that of ``fit`` alone."""
    start = time.perf_counter()
    model.fit(problem.X, problem.y)
    seconds = time.perf_counter() - start
    return Result(
        name,
        seconds,
        problem.objective(model),
        problem.test_error(model),
        seconds / problem.matvec,
    )


def learning_curve(
    model: Any, problem: Problem, progress: ProgressLine, n_parts: int = 20
) -> tuple[Result, list[tuple[int, float]]]:
    """Learn from parts of the rows as they come; test error after each part."""
    n = problem.X.shape[0]
    ends = np.unique(np.geomspace(min(500, n), n, n_parts).astype(int))
    curve, seconds, start_row = [], 0.0, 0
    for end in ends:
        X, y = problem.X[start_row:end], problem.y[start_row:end]
        start = time.perf_counter()
        model.partial_fit(X, y, classes=np.array([-1, 1]))
        seconds += time.perf_counter() - start
        curve.append((int(end), problem.test_error(model)))
        progress.show(f"{end:,} of {n:,} examples, test error {100 * curve[-1][1]:.2f} %")
        start_row = end
    name = f"partial_fit in {len(ends)} parts"
    result = Result(
        name, seconds, problem.objective(model), curve[-1][1], seconds / problem.matvec
    )
    return result, curve


def format_table(results: list[Result]) -> str:
    width = max(len(r.learner) for r in results)
    lines = [f"{'learner':<{width}}  seconds  objective  test error %  time / (X @ w)"]
    for r in results:
        lines.append(
            f"{r.learner:<{width}}  {r.seconds:7.3f}  {r.objective:9.4f}  "
            f"{100 * r.test_error:12.2f}  {r.ratio:14.1f}"
        )
    return "\n".join(lines)


def save_plot(curve: list[tuple[int, float]], results: list[Result], path: str) -> bool:
    """Test error against examples and against time; False without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        return False
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.semilogx([n for n, _ in curve], [100 * e for _, e in curve], marker=".", color="#0072B2")
    left.set(xlabel="examples seen", ylabel="test error, %", title="learning from a stream")
    shown = results[::-1]  # the first line at the top
    bars = right.barh([r.learner for r in shown], [r.ratio for r in shown], color="#0072B2")
    right.bar_label(bars, [f"error {100 * r.test_error:.1f} %" for r in shown], padding=3)
    right.margins(x=0.25)
    right.set(xlabel="time of the fit / time of one X @ w", title="time to learn")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=90)
    return True


def run(arguments: argparse.Namespace) -> int:
    if arguments.rows < 1000:
        raise ValueError(f"--rows must be at least 1000, got {arguments.rows}")
    progress = ProgressLine(arguments.quiet)
    progress.show("generating text ...")
    n_test = max(1000, min(20_000, arguments.rows // 10))
    X, y, X_test, y_test = make_rcv1_like(
        arguments.rows, n_test, N_FEATURES, NNZ, random_state=arguments.seed
    )
    problem = Problem(X, y, X_test, y_test, arguments.reg, time_matvec(X))
    made = learners(arguments.reg, arguments.seed, problem.X.shape[0])
    stream, curve = learning_curve(made[0][1](), problem, progress)
    results = []
    for name, make in made:
        progress.show(f"fitting: {name} ...")
        results.append(measure(name, make(), problem))
    results.append(stream)
    progress.clear()
    print(
        f"{X.shape[0]:,} x {X.shape[1]:,} generated text, {X.nnz / X.shape[0]:.0f} non-zeros a "
        f"row, hinge loss, reg {arguments.reg:g}; one X @ w takes {problem.matvec:.4f} s\n"
    )
    print(format_table(results))
    if not arguments.no_plot:
        if save_plot(curve, results, arguments.plot):
            print(f"\nplot saved to {arguments.plot}")
        else:
            print("\nno plot: matplotlib is not installed (pip install 'osvm[plot]')")
    return 0
