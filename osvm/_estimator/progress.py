"""Progress of learning, a line at examples 1, 2, 4, 8, ..., as Vowpal Wabbit shows it.

The estimators feed totals to date and the reporter decides when to print, so a
compiled loop may run up to `next_at` examples before it reports.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO


class Progress:
    """A table of examples, average loss, loss since the last line, error and speed.

    Parameters
    ----------
    stream : text file, optional
        Where to write; standard error (looked up at each line) by default.
    start : int
        Examples seen before, when a run goes on from a checkpoint; its average
        covers the examples since.
    absolute : bool
        Whether errors are absolute errors of numbers, rather than wrong answers.
    clock : callable
        Seconds; for tests.

    Attributes
    ----------
    next_at : int
        The number of examples at which the next line is due.

    Examples
    --------
    >>> import sys
    >>> ticks = iter([0.0, 0.5, 1.0, 2.0])
    >>> progress = Progress(sys.stdout, clock=lambda: next(ticks))
    >>> progress.update(1, loss=1.0, errors=1)
        examples     average       since     error   examples/s
                        loss        last         %
               1    1.000000    1.000000    100.00            2
    >>> progress.update(2, loss=1.5, errors=1)
               2    0.750000    0.500000     50.00            2
    >>> progress.update(3, loss=1.5, errors=1)
    >>> progress.finish()
               3    0.500000    0.000000     33.33            2
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        start: int = 0,
        absolute: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._began = clock()
        self._start = start
        self.absolute = absolute
        self._shown = start  # examples, loss of the last line
        self._shown_loss = 0.0
        self._header = False
        self.examples = start
        self.loss: float | None = None
        self.errors: float | None = None
        self.next_at = _next_power(start)

    def update(self, examples: int, *, loss: float | None, errors: float | None = None) -> None:
        """Totals to date; prints when `next_at` is reached.

        Parameters
        ----------
        examples : int
            Seen so far, `start` included.
        loss : float or None
            Sum of losses over this run; None where nobody counts them.
        errors : float, optional
            Sum of errors over this run; None where there is no such thing.
        """
        self.examples, self.loss, self.errors = examples, loss, errors
        if examples >= self.next_at:
            self._print()
            self.next_at = _next_power(examples)

    def add(self, examples: int, *, loss: float | None, errors: float | None = None) -> None:
        """The same with what was added since the last call."""
        loss = self.loss if loss is None else loss + (self.loss or 0.0)
        errors = self.errors if errors is None else errors + (self.errors or 0.0)
        self.update(self.examples + examples, loss=loss, errors=errors)

    def finish(self) -> Any:
        """Print the last line, unless it was printed."""
        self._print()

    @property
    def seconds(self) -> float:
        """Since the start, never 0."""
        return max(self._clock() - self._began, 1e-9)

    def _print(self) -> None:
        n, since = self.examples - self._start, self.examples - self._shown
        if since <= 0:
            return
        average = last = error = "-"
        if self.loss is not None:
            average = _number(self.loss / n)
            last = _number((self.loss - self._shown_loss) / since)
            self._shown_loss = self.loss
        if self.errors is not None:
            mean = self.errors / n
            error = _number(mean) if self.absolute else f"{100.0 * mean:.2f}"
        if not self._header:
            self._write("\n".join(self._head()))
            self._header = True
        self._write(f"{self.examples:>12} {average:>11} {last:>11} {error:>9} {self._speed(n)}")
        self._shown = self.examples

    def _head(self) -> tuple[str, str]:
        """The two lines above the table."""
        first, second = ("absolute", "error") if self.absolute else ("error", "%")
        return (
            f"{'examples':>12} {'average':>11} {'since':>11} {first:>9} {'examples/s':>12}",
            f"{'':>12} {'loss':>11} {'last':>11} {second:>9} {'':>12}",
        )

    def _speed(self, n: int) -> str:
        """The last columns of a line."""
        return f"{n / self.seconds:>12,.0f}"

    def _write(self, text: str) -> None:
        stream = sys.stderr if self._stream is None else self._stream
        if stream is None:  # a program without a console
            return
        stream.write(text + "\n")
        stream.flush()


def make_progress(verbose: Any, *, start: int = 0, absolute: bool = False) -> Progress | None:
    """The reporter that the parameter `verbose` asks for.

    False or 0 gives None, True or a number standard error, an object with a
    `write` method that stream.
    """
    if hasattr(verbose, "write"):
        return Progress(verbose, start=start, absolute=absolute)
    if isinstance(verbose, bool | int):
        return Progress(start=start, absolute=absolute) if verbose else None
    raise ValueError(f"verbose must be True, False, a number or a text stream, got {verbose!r}")


def _next_power(n: int) -> int:
    """The smallest power of two above n."""
    return 1 << max(int(n), 0).bit_length()


def _number(value: float) -> str:
    """Six decimals where they fit."""
    if value == 0 or 1e-4 <= abs(value) < 1e4:
        return f"{value:.6f}"
    return f"{value:.4e}"
