"""Progress of a run on standard error: a table, a bar where the size is known.

Lines come at examples 1, 2, 4, 8, ...: examples, average loss, loss since the
last line, error, examples a second, megabytes a second.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

HEAD = (
    f"{'examples':>12} {'average':>11} {'since':>11} {'error':>8} {'examples':>11} {'MB':>8}\n"
    f"{'':>12} {'loss':>11} {'last':>11} {'%':>8} {'per s':>11} {'per s':>8}"
)


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


class Report:
    """Counts and prints."""

    def __init__(
        self, arguments: argparse.Namespace, reader: Any, *, start: int = 0, table: bool = True
    ) -> None:
        self.quiet = arguments.quiet
        self.table = table and not self.quiet
        self.reader = reader
        self.began = time.perf_counter()
        self.examples = self.first = start
        self.loss = self.errors = 0.0
        self.counted = False
        self.bytes_before = 0
        self._shown = start
        self._shown_loss = 0.0
        self._headed = False
        self.next_at = 1
        while self.next_at <= start:
            self.next_at *= 2
        self._bar = self._make_bar(arguments) if not self.quiet else None

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

    def add(self, examples: int, loss: float | None, errors: float | None) -> None:
        """What was learnt since the last call."""
        self.examples += examples
        if loss is not None:
            self.loss += loss
            self.errors += errors or 0.0
            self.counted = True
        if self._bar is not None:
            place = self.reader.progress
            if place is not None:
                self._bar.update(max(0, place[0] - self._bar.n))
        if self.examples >= self.next_at:
            self.line()
            while self.next_at <= self.examples:
                self.next_at *= 2

    def new_pass(self, bytes_read: int) -> None:
        """The data begin again."""
        self.bytes_before += bytes_read
        if self._bar is not None:
            self._bar.reset()

    @property
    def seconds(self) -> float:
        return max(time.perf_counter() - self.began, 1e-9)

    @property
    def megabytes(self) -> float:
        return (self.bytes_before + self.reader.bytes_read) / 1e6

    def line(self) -> None:
        """One line of the table."""
        n = self.examples - self.first
        if not self.table or n <= 0 or self.examples == self._shown:
            return
        if not self._headed:
            self._write(HEAD)
            self._headed = True
        since = self.examples - self._shown
        if self.counted:
            average = f"{self.loss / n:>11.6f}"
            last = f"{(self.loss - self._shown_loss) / since:>11.6f}"
            error = f"{100 * self.errors / n:>8.2f}"
        else:
            average, last, error = f"{'-':>11}", f"{'-':>11}", f"{'-':>8}"
        speed = n / self.seconds
        self._write(
            f"{self.examples:>12} {average} {last} {error} {speed:>11,.0f} "
            f"{self.megabytes / self.seconds:>8.1f}"
        )
        self._shown, self._shown_loss = self.examples, self.loss

    def _write(self, text: str) -> None:
        if self._bar is not None:
            self._bar.write(text, file=sys.stderr)
        else:
            print(text, file=sys.stderr, flush=True)

    def finish(self) -> dict[str, Any]:
        """The last line; the figures."""
        self.line()
        if self._bar is not None:
            self._bar.close()
        n = self.examples - self.first
        return {
            "examples": self.examples,
            "seconds": self.seconds,
            "examples_per_second": n / self.seconds,
            "megabytes_per_second": self.megabytes / self.seconds,
            "average_loss": self.loss / n if self.counted and n else None,
            "error": self.errors / n if self.counted and n else None,
            "skipped": self.reader.n_skipped,
        }


def say(arguments: argparse.Namespace, text: str) -> None:
    """A line of the summary."""
    if not arguments.quiet:
        print(text, file=sys.stderr, flush=True)


def say_skipped(arguments: argparse.Namespace, reader: Any) -> None:
    """How many records were malformed, and the first of them."""
    if reader.n_skipped:
        first = f"; the first: {reader.errors[0]}" if reader.errors else ""
        say(arguments, f"skipped {reader.n_skipped} malformed records{first}")
