"""Test-then-train: each example is predicted first and learnt afterwards.

The running error of such a run is an honest estimate without a test set, and
figures per window show drift.  Linear models count their own loss and errors
while they learn, example by example; where only these are asked for they cost
nothing.  Other metrics need predictions: rows are predicted in blocks and then
learnt, and a block is never longer than a hundredth of what was seen before
(unless `block` says so), so that predictions come from a model that lacks the
last 1% at most.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from osvm.stream.batches import cut_rows
from osvm.stream.iterables import as_reader
from osvm.stream.metrics import Metric, get_metric, losses_of

MAX_BLOCK = 1024


@dataclass
class ProgressiveResult:
    """What `progressive_validate` measured.

    Attributes
    ----------
    metrics : list of str
    examples : list of int
        Examples seen at the end of each window.
    running : dict of list
        Each metric over everything up to there.
    window : dict of list
        Each metric over the window alone.
    n_examples : int
    seconds : float
    """

    metrics: list[str]
    examples: list[int] = field(default_factory=list)
    running: dict[str, list[float]] = field(default_factory=dict)
    window: dict[str, list[float]] = field(default_factory=dict)
    n_examples: int = 0
    seconds: float = 0.0

    @property
    def final(self) -> dict[str, float]:
        """Each metric over the whole run."""
        return {name: self.running[name][-1] for name in self.metrics if self.running[name]}

    def table(self) -> list[dict[str, float]]:
        """One dictionary per window, ready for a data frame."""
        rows = []
        for k, examples in enumerate(self.examples):
            row: dict[str, float] = {"examples": examples}
            for name in self.metrics:
                row[name] = self.running[name][k]
                row[f"window_{name}"] = self.window[name][k]
            rows.append(row)
        return rows

    def __str__(self) -> str:
        head = f"{'examples':>12}"
        for name in self.metrics:
            head += f" {name[:14]:>14} {'in window':>14}"
        lines = [head]
        for row in self.table():
            line = f"{row['examples']:>12}"
            for name in self.metrics:
                line += f" {row[name]:>14.6f} {row[f'window_{name}']:>14.6f}"
            lines.append(line)
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Draw running and windowed figures over the examples; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib axes, optional

        Returns
        -------
        matplotlib axes
        """
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots()
        for name in self.metrics:
            (line,) = ax.plot(self.examples, self.running[name], label=name)
            ax.plot(
                self.examples,
                self.window[name],
                color=line.get_color(),
                alpha=0.4,
                label=f"{name}, in window",
            )
        widths = np.diff(self.examples)
        if len(widths) > 2 and widths[-2] > 2 * widths[0]:
            ax.set_xscale("log")
        ax.set_xlabel("examples")
        ax.legend()
        return ax


def progressive_validate(
    model: Any,
    stream: Any,
    *,
    metrics: Sequence[Any] | str = ("loss", "error"),
    window: int | None = None,
    delay: int = 0,
    block: int | None = None,
    classes: Any = None,
    limit: int | None = None,
    on_window: Callable[[ProgressiveResult], None] | None = None,
) -> ProgressiveResult:
    """Predict each example, then learn it.

    Parameters
    ----------
    model : estimator with `partial_fit`
        Goes on from where it stands; holds what was learnt afterwards.
    stream : Reader or iterable of (X, y) or (X, y, weight)
    metrics : sequence, default=("loss", "error")
        "error", "accuracy", "loss" (the model's own), "squared_error", "absolute_error", the
        name of a function of `sklearn.metrics`, or functions of ``(y_true, y_pred)``.
    window : int, optional
        Examples per window.  By default windows end at examples 1, 2, 4, 8, ...
    delay : int, default=0
        Labels arrive this many examples late: the model learns an example only after the
        `delay` examples behind it have been predicted.
    block : int, optional
        Rows predicted at a time; 1 is exact.  See the head of this module for the default.
    classes : array, optional
        Passed to the first `partial_fit` of a classifier.
    limit : int, optional
        Stop after so many examples.
    on_window : callable, optional
        Called with the result so far at the end of each window.

    Returns
    -------
    ProgressiveResult

    Examples
    --------
    >>> import numpy as np, osvm
    >>> from osvm.stream import progressive_validate
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5))
    >>> stream = [(X, (X[:, 0] > 0).astype(int))]
    >>> result = progressive_validate(osvm.LinearClassifier(), stream, window=250)
    >>> result.examples
    [250, 500, 750, 1000]
    >>> result.final["error"] < 0.2
    True
    """
    named = [get_metric(m) for m in ([metrics] if isinstance(metrics, str) else metrics)]
    if len({metric.name for metric in named}) != len(named):
        raise ValueError(f"metrics repeat: {[metric.name for metric in named]}")
    for name, value in (("window", window), ("block", block), ("limit", limit)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if delay < 0:
        raise ValueError(f"delay must not be negative, got {delay}")
    run = _Run(model, named, window, delay, block, classes, on_window)
    return run.over(as_reader(stream), limit)


def running_totals(model: Any) -> tuple[float, float] | None:
    """Sum of losses and of errors that a model has counted while learning, where it does."""
    if hasattr(model, "_totals") and hasattr(model, "t_"):
        return model._totals()
    learner = model.__dict__.get("_learner")  # linear
    if learner is None:  # a kernel expansion with a buffer
        learner = getattr(model.__dict__.get("_machine"), "state", None)
    loss = getattr(learner, "loss_sum", None)
    error = getattr(learner, "error_sum", getattr(learner, "errors", None))
    return None if loss is None or error is None else (float(loss), float(error))


class _Run:
    """The state of one validation."""

    def __init__(
        self,
        model: Any,
        metrics: list[Metric],
        window: int | None,
        delay: int,
        block: int | None,
        classes: Any,
        on_window: Callable[[ProgressiveResult], None] | None,
    ) -> None:
        self.model, self.metrics, self.window = model, metrics, window
        self.delay, self.block, self.classes = delay, block, classes
        self.on_window = on_window
        names = [metric.name for metric in metrics]
        self.result = ProgressiveResult(
            names, running={n: [] for n in names}, window={n: [] for n in names}
        )
        self.n = 0
        self.sums = dict.fromkeys(names, 0.0)  # over the run, weighted by examples
        self.window_sums = dict.fromkeys(names, 0.0)
        self.held: list[tuple] = []  # (y, prediction, scores) of the window, for functions
        self.waiting: deque[tuple] = deque()  # batches whose labels have not arrived
        self.n_waiting = 0
        self.started = 0
        self.window_end = window or 1
        own = all(metric.name in ("loss", "error") for metric in metrics)
        kind = getattr(model, "_error_kind", None)
        self.counted = (
            own
            and not delay
            and block is None
            and (kind == "class" or running_totals(model) is not None)
        )

    def over(self, reader: Any, limit: int | None) -> ProgressiveResult:
        began = time.perf_counter()
        for batch in reader:
            start, rows = 0, batch[0].shape[0]
            if limit is not None:
                rows = min(rows, limit - self.n)
            while start < rows:
                stop = min(rows, start + self._step())
                self._take(cut_rows(batch, start, stop))
                start = stop
            if limit is not None and self.n >= limit:
                break
        self._learn_waiting(0)
        self._end_window()
        self.result.n_examples = self.n
        self.result.seconds = time.perf_counter() - began
        return self.result

    def _step(self) -> int:
        """Rows to take next: to the end of the window at most."""
        left = self.window_end - self.n
        if self.counted:
            return left
        block = self.block or min(MAX_BLOCK, max(1, (self.n - self.n_waiting) // 100))
        return min(left, block)

    def _take(self, batch: tuple) -> None:
        rows = batch[0].shape[0]
        if self.counted:
            self._learn_counted(batch)
        else:
            self._predict(batch)
            self.waiting.append(batch)
            self.n_waiting += rows
            self._learn_waiting(self.delay)
        self.n += rows
        if self.n >= self.window_end:
            self._end_window()
            self.window_end = self.n + self.window if self.window else 2 * self.n

    # -------------------------------------------------------------- learning

    def _learn(self, batch: tuple) -> None:
        X, y, *weight = batch
        options: dict[str, Any] = {}
        if weight and weight[0] is not None:
            options["sample_weight"] = weight[0]
        if self.classes is not None:
            options["classes"] = self.classes
            self.classes = None
        if y is None:
            self.model.partial_fit(X, **options)
        else:
            self.model.partial_fit(X, y, **options)

    def _learn_waiting(self, keep: int) -> None:
        """Learn the oldest rows until `keep` are left."""
        while self.n_waiting > keep:
            batch = self.waiting.popleft()
            rows = batch[0].shape[0]
            extra = self.n_waiting - keep
            if rows > extra:
                self.waiting.appendleft(cut_rows(batch, extra, rows))
                batch, rows = cut_rows(batch, 0, extra), extra
            self.n_waiting -= rows
            self._learn(batch)

    def _learn_counted(self, batch: tuple) -> None:
        """Learn, and take loss and errors from the model's own counts."""
        before = running_totals(self.model) or (0.0, 0.0)
        self._learn(batch)
        after = running_totals(self.model)
        if after is None:
            raise ValueError(
                f"{type(self.model).__name__} does not count its losses; pass block=1 or more"
            )
        for name, old, new in zip(("loss", "error"), before, after):
            if name in self.window_sums:
                self.window_sums[name] += new - old

    # ------------------------------------------------------------- predicting

    def _predict(self, batch: tuple) -> None:
        X, y = batch[0], batch[1]
        if y is None:
            raise ValueError("these metrics need labels, but the stream has none")
        if isinstance(y, list):
            raise ValueError("label sets are measured by loss and error, without delay and block")
        n = X.shape[0]
        fitted = hasattr(self.model, "t_") or hasattr(self.model, "classes_")
        scores = None
        if fitted:
            prediction = self.model.predict(X)
            if any(metric.scores or metric.name == "loss" for metric in self.metrics):
                score = getattr(self.model, "decision_function", None)
                scores = prediction if score is None else score(X)
        elif (
            hasattr(self.model, "classes_")
            or getattr(self.model, "_estimator_type", "") == "classifier"
            or self.classes is not None
        ):
            prediction = np.full(n, None, dtype=object)  # nothing is known: no label is right
        else:
            prediction = np.zeros(n)
        y = np.asarray(y)
        hold = False
        for metric in self.metrics:
            if metric.mean:
                loss = None
                if metric.name == "loss":
                    loss = losses_of(self.model, y, scores)
                self.window_sums[metric.name] += float(metric.of(y, prediction, loss).sum())
            else:
                hold = True
        if hold and fitted:
            self.held.append((y, prediction, scores))

    def _end_window(self) -> None:
        rows = self.n - self.started
        if not rows:
            return
        result = self.result
        for metric in self.metrics:
            name = metric.name
            if metric.mean:
                value = self.window_sums[name] / rows
            else:
                value = self._of_window(metric)
            if np.isfinite(value):
                self.sums[name] += value * rows
            result.window[name].append(float(value))
            result.running[name].append(self.sums[name] / self.n)
            self.window_sums[name] = 0.0
        result.examples.append(self.n)
        self.started = self.n
        self.held = []
        if self.on_window is not None:
            self.on_window(result)

    def _of_window(self, metric: Metric) -> float:
        if not self.held:
            return float("nan")
        y = np.concatenate([part[0] for part in self.held])
        if metric.scores:
            widest = max(np.ndim(part[2]) for part in self.held)
            parts = [part for part in self.held if np.ndim(part[2]) == widest]
            if widest > 1:
                columns = parts[-1][2].shape[1]
                parts = [part for part in parts if part[2].shape[1] == columns]
            y = np.concatenate([part[0] for part in parts])
            guess = np.concatenate([part[2] for part in parts])
        else:
            guess = np.concatenate([part[1] for part in self.held])
        try:
            return float(metric.of(y, guess))
        except ValueError:  # undefined on this window, for example a single class
            return float("nan")
