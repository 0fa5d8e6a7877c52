"""Progress of learning, a line at examples 1, 2, 4, 8, ..., as Vowpal Wabbit shows it.

The estimators feed totals to date and the reporter decides when to print, so a
compiled loop may run up to `next_at` examples before it reports.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

__all__ = ["Progress", "make_progress"]

_HEADER = (
    f"{'examples':>12} {'average':>11} {'since':>11} {'error':>9} {'examples/s':>12}\n"
    f"{'':>12} {'loss':>11} {'last':>11} {'%':>9} {'':>12}\n"
)


class Progress:
    """A table of examples, average loss, loss since the last line, error and speed.

    Parameters
    ----------
    stream : text file, optional
        Where to write; standard error (looked up at each line) by default.
    start : int
        Examples seen before, when a run goes on from a checkpoint; its average
        covers the examples since.
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
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._began = clock()
        self._start = start
        self._shown = start  # examples, loss of the last line
        self._shown_loss = 0.0
        self._n = start
        self._loss = 0.0
        self._errors: float | None = None
        self._header = False
        self.next_at = _next_power(start)

    def update(self, examples: int, *, loss: float, errors: float | None = None) -> None:
        """Totals to date; prints when `next_at` is reached.

        Parameters
        ----------
        examples : int
            Seen so far, `start` included.
        loss : float
            Sum of losses over this run.
        errors : float, optional
            Number of mistakes over this run; None where there is no such thing.
        """
        self._n, self._loss, self._errors = examples, loss, errors
        if examples >= self.next_at:
            self._print()
            self.next_at = _next_power(examples)

    def add(self, examples: int, *, loss: float, errors: float | None = None) -> None:
        """The same with what was added since the last call."""
        if errors is not None:
            errors += self._errors or 0.0
        self.update(self._n + examples, loss=self._loss + loss, errors=errors)

    def finish(self) -> None:
        """Print the last line, unless it was printed."""
        if self._n > self._shown:
            self._print()

    def _print(self) -> None:
        n = self._n - self._start
        if n <= 0:
            return
        since = self._n - self._shown
        seconds = max(self._clock() - self._began, 1e-9)
        error = "-" if self._errors is None else f"{100.0 * self._errors / n:.2f}"
        line = (
            f"{self._n:>12} {_number(self._loss / n)} "
            f"{_number((self._loss - self._shown_loss) / max(since, 1))} "
            f"{error:>9} {n / seconds:>12,.0f}\n"
        )
        stream = sys.stderr if self._stream is None else self._stream
        if not self._header:
            stream.write(_HEADER)
            self._header = True
        stream.write(line)
        stream.flush()
        self._shown, self._shown_loss = self._n, self._loss


def make_progress(verbose: Any, *, start: int = 0) -> Progress | None:
    """The reporter that the parameter `verbose` asks for.

    False or 0 gives None, True or a number standard error, an object with a
    `write` method that stream.
    """
    if hasattr(verbose, "write"):
        return Progress(verbose, start=start)
    if isinstance(verbose, bool | int):
        return Progress(start=start) if verbose else None
    raise ValueError(f"verbose must be True, False, a number or a text stream, got {verbose!r}")


def _next_power(n: int) -> int:
    """The smallest power of two above n."""
    return 1 << max(int(n), 0).bit_length()


def _number(value: float) -> str:
    """Six decimals where they fit."""
    if value == 0 or 1e-4 <= abs(value) < 1e4:
        return f"{value:>11.6f}"
    return f"{value:>11.4e}"
