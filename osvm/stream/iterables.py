"""Any Python iterable of (X, y) as a reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from osvm.stream.base import Reader


class IterableReader(Reader):
    """Batches from an iterable of ``(X, y)`` or ``(X, y, weight)``.

    Parameters
    ----------
    iterable : iterable, or a callable without arguments that gives one
        A generator can be passed over once; a list, or a callable, as often as is asked for
        (`seek` passes over the batches before the place).

    Examples
    --------
    >>> import numpy as np
    >>> from osvm.stream import IterableReader
    >>> reader = IterableReader([(np.ones((2, 3)), [0, 1])])
    >>> [X.shape for X, y in reader], [X.shape for X, y in reader]
    ([(2, 3)], [(2, 3)])
    """

    def __init__(self, iterable: Any) -> None:
        super().__init__(batch_size=1, on_error="raise")
        self._make = iterable if callable(iterable) else None
        self._iterable: Iterable[tuple] | None = None if callable(iterable) else iterable
        self._batches: Iterator[tuple] | None = None
        self._count = 0

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Columns of the last batch."""
        return self._n_features

    _n_features = 0

    def _start(self) -> Iterator[tuple]:
        return iter(self._make() if self._make is not None else self._iterable)  # type: ignore

    def _read_batch(self) -> tuple | None:
        if self._batches is None:
            self._batches = self._start()
        batch = next(self._batches, None)
        if batch is None:
            return None
        if not isinstance(batch, tuple) or len(batch) not in (2, 3):
            raise ValueError("the iterable must give tuples (X, y) or (X, y, weight)")
        self._count += 1
        self._n_features = batch[0].shape[1]
        self.weighted = len(batch) == 3
        return batch

    def _position(self) -> dict[str, Any]:
        return {"batch": self._count}

    def _go(self, position: dict[str, Any]) -> None:
        count = int(position.get("batch", 0))
        if self._batches is not None and self._make is None and self._iterable is self._batches:
            raise ValueError("a generator cannot be read twice; pass a list or a callable")
        self._batches = self._start()
        for _ in range(count):
            if next(self._batches, None) is None:
                raise ValueError("the iterable ends before the saved position")
        self._count = count


def as_reader(stream: Any) -> Reader:
    """The stream itself if it is a reader, else an `IterableReader` of it."""
    return stream if isinstance(stream, Reader) else IterableReader(stream)
