"""Progress of a run on standard error: a table, a bar where the size is known.

Lines come at examples 1, 2, 4, 8, ..., as `verbose=True` of an estimator prints them.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from osvm._estimator.progress import Progress


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("report")
    group.add_argument(
        "--progress",
        action="store_true",
        help="show the bar even when standard error is not a terminal",
    )
    group.add_argument("--quiet", "-q", action="store_true", help="no progress, no summary")
    group.add_argument("--json", action="store_true", help="the result as JSON on standard output")


def positive(text: str) -> int:
    """A flag's value that counts something."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


class Report(Progress):
    """The table of `Progress` with megabytes a second, the bar, and the figures of a run."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        reader: Any,
        *,
        start: int = 0,
        loss: float = 0.0,
        table: bool = True,
        absolute: bool = False,
    ) -> None:
        super().__init__(start=start, absolute=absolute)
        # A run that was resumed after `start` examples: averages are over all of it.
        self._resumed_at, self._start, self._shown_loss = start, 0, loss
        self.table = table and not arguments.quiet
        self.reader = reader
        self.bytes_before = 0
        self._bar = self._make_bar(arguments) if not arguments.quiet else None

    def _make_bar(self, arguments: argparse.Namespace) -> Any:
        place = self.reader.progress
        if place is None or not (arguments.progress or sys.stderr.isatty()):
            return None
        try:
            from tqdm import tqdm
        except ImportError:
            return None
        return tqdm(
            total=place[1],
            unit="B",
            unit_scale=True,
            file=sys.stderr,
            leave=False,
            mininterval=0.2,
        )

    def update(self, examples: int, *, loss: float | None, errors: float | None = None) -> None:
        if self._bar is not None:
            place = self.reader.progress
            if place is not None:
                self._bar.update(max(0, place[0] - self._bar.n))
        super().update(examples, loss=loss, errors=errors)

    def new_pass(self, bytes_read: int) -> None:
        """The data begin again."""
        self.bytes_before += bytes_read
        if self._bar is not None:
            self._bar.reset()

    def close_table(self) -> None:
        """The last line; what comes after it is counted and not shown."""
        self._print()
        self.table = False

    @property
    def megabytes(self) -> float:
        return (self.bytes_before + self.reader.bytes_read) / 1e6

    def _head(self) -> tuple[str, str]:
        first, second = super()._head()
        return f"{first} {'MB/s':>8}", f"{second} {'':>8}"

    def _speed(self, n: int) -> str:
        return f"{super()._speed(n - self._resumed_at)} {self.megabytes / self.seconds:>8.1f}"

    def _print(self) -> None:
        if self.table:
            super()._print()

    def _write(self, text: str) -> None:
        if self._bar is not None:
            self._bar.write(text, file=sys.stderr)
        else:
            super()._write(text)

    def finish(self) -> dict[str, Any]:
        """The last line; the figures."""
        super().finish()
        if self._bar is not None:
            self._bar.close()
        n = self.examples - self._resumed_at
        counted = self.loss is not None and n > 0
        return {
            "examples": self.examples,
            "seconds": self.seconds,
            "examples_per_second": n / self.seconds,
            "megabytes_per_second": self.megabytes / self.seconds,
            "average_loss": (self.loss or 0.0) / n if counted else None,
            error_name(self.absolute): (self.errors or 0.0) / n if counted else None,
            "skipped": self.reader.n_skipped,
        }


def error_name(absolute: bool) -> str:
    """Of the figure: the share of wrong answers, or the mean absolute error of numbers."""
    return "absolute_error" if absolute else "error"


class FirstPassTable:
    """What `verbose` of an estimator writes to: lines of the first pass only.

    Later passes meet rows that have been learnt; their errors would flatter the model.
    """

    def __init__(self, rows: int, absolute: bool = False) -> None:
        self.rows, self.absolute = rows, absolute
        self._last: tuple[int, float, float] | None = None

    def write(self, text: str) -> int:
        words = text.split()
        if words and words[0].isdigit():
            if int(words[0]) > self.rows:
                return len(text)
            try:
                unit = 1.0 if self.absolute else 0.01
                self._last = int(words[0]), float(words[1]), float(words[3]) * unit
            except (IndexError, ValueError):
                self._last = None
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()

    def figures(self) -> dict[str, Any]:
        """Of the last line within the first pass."""
        if self._last is None:
            return {}
        names = ("progressive_examples", "average_loss", error_name(self.absolute))
        return dict(zip(names, self._last))


def say(arguments: argparse.Namespace, text: str) -> None:
    """A line of the summary."""
    if not arguments.quiet:
        print(text, file=sys.stderr, flush=True)


def say_skipped(arguments: argparse.Namespace, reader: Any) -> None:
    """How many records were malformed, and the first of them."""
    if reader.n_skipped:
        first = f"; the first: {reader.errors[0]}" if reader.errors else ""
        say(arguments, f"skipped {reader.n_skipped} malformed records{first}")
