"""What every reader is: an iterator of batches that can say where it stands.

A batch is ``(X, y)`` or, where the data carry weights, ``(X, y, weight)``.  A
pass ends with StopIteration; the next `iter` starts the data anew, so that
``for epoch in range(3): for X, y in reader`` does what it says.

`tell` gives a dictionary that JSON can hold; `seek` takes it back.  Batches
after a `seek` are the ones that an undisturbed reader gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from osvm.stream.lines import LineSource, LineTooLong
from osvm.stream.open import FormatError

MAX_KEPT_ERRORS = 20


def check_on_error(on_error: str) -> str:
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error must be 'raise' or 'skip', got {on_error!r}")
    return on_error


def check_batch_size(batch_size: int) -> int:
    if isinstance(batch_size, bool) or int(batch_size) != batch_size or batch_size < 1:
        raise ValueError(f"batch_size must be a positive integer, got {batch_size!r}")
    return int(batch_size)


def check_dtype(dtype: Any) -> np.dtype:
    dtype = np.dtype(dtype)
    if dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype must be float32 or float64, got {dtype}")
    return dtype


class Reader:
    """Base of all readers.

    Attributes
    ----------
    n_features : int
        Columns of every X.
    n_rows : int
        Rows given so far in this pass.
    n_skipped : int
        Malformed records passed over in this pass, with ``on_error="skip"``.
    errors : list of FormatError
        The first twenty of them.
    """

    name = "<data>"
    n_features: int
    weighted = False  # whether batches carry weights
    eager = False  # whether a batch ends where the data pause, for pipes that are read live

    def __init__(self, *, batch_size: int, on_error: str):
        self.batch_size = check_batch_size(batch_size)
        self.on_error = check_on_error(on_error)
        self.n_rows = 0
        self.n_skipped = 0
        self.errors: list[FormatError] = []
        self._finished = False

    # ------------------------------------------------------------ iteration

    def __iter__(self) -> Iterator[tuple]:
        if self._finished:
            self.rewind()
        return self

    def __next__(self) -> tuple:
        if self._finished:
            raise StopIteration
        batch = self._read_batch()
        if batch is None:
            self._finished = True
            raise StopIteration
        self.n_rows += batch[0].shape[0]
        return batch

    def _read_batch(self) -> tuple | None:
        """The next batch, None at the end."""
        raise NotImplementedError

    def _malformed(self, error: FormatError) -> None:
        """Raise, or count and go on."""
        if self.on_error == "raise":
            raise error
        self.n_skipped += 1
        if len(self.errors) < MAX_KEPT_ERRORS:
            self.errors.append(error)

    # ------------------------------------------------------------- position

    def tell(self) -> dict[str, Any]:
        """Where the next batch begins, as something that JSON can hold."""
        return {
            "rows": self.n_rows,
            "skipped": self.n_skipped,
            "finished": self._finished,
            **self._position(),
        }

    def seek(self, position: dict[str, Any]) -> None:
        """Go to a place that `tell` gave."""
        self._go(position)
        self.n_rows = int(position.get("rows", 0))
        self.n_skipped = int(position.get("skipped", 0))
        self._finished = bool(position.get("finished", False))
        if not self.n_skipped:
            self.errors = []

    def rewind(self) -> None:
        """Start the data anew."""
        self.seek({"offset": 0, "line": 0})

    def _position(self) -> dict[str, Any]:
        raise NotImplementedError

    def _go(self, position: dict[str, Any]) -> None:
        raise NotImplementedError

    def get_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Position as (JSON-able part, arrays), for checkpoints."""
        return self.tell(), {}

    def set_state(self, scalars: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Go to the place that `get_state` described."""
        self.seek(scalars)

    # ---------------------------------------------------------------- misc.

    @property
    def bytes_read(self) -> int:
        """Bytes of data (after decompression) that the rows so far came from."""
        return 0

    @property
    def progress(self) -> tuple[int, int] | None:
        """(bytes of the file used, bytes in all) where they are known."""
        return None

    def config(self) -> dict[str, Any]:
        """How the columns are made, JSON-able, so that a model can say what it was given."""
        return {}

    def close(self) -> None:
        """Release the file."""

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _matrix(self, values: Any, indices: Any, indptr: Any) -> csr_array:
        return csr_array((values, indices, indptr), shape=(len(indptr) - 1, self.n_features))


class LineReader(Reader):
    """Base of readers of text: they take whole lines from a `LineSource`."""

    def __init__(
        self, source: Any, *, batch_size: int, dtype: Any, on_error: str, max_line: int
    ) -> None:
        super().__init__(batch_size=batch_size, on_error=on_error)
        self.dtype = check_dtype(dtype)
        self.lines = LineSource(source, max_line=max_line)
        self.name = self.lines.name

    def _fill(self) -> bool:
        """Bring lines in when all are used; False at the end of the data.

        Raises ValueError(column, reason) for a line that is too long; `lines.discard_line`
        passes over it.
        """
        lines = self.lines
        while lines.start >= lines.stop:
            try:
                if not lines.fill():
                    return False
            except LineTooLong:
                raise ValueError(
                    1, f"the line is longer than max_line={lines.max_line} bytes"
                ) from None
            if lines.offset == 0 and lines.buffer[:3] == b"\xef\xbb\xbf":
                lines.start = 3  # a byte order mark
        return True

    @property
    def bytes_read(self) -> int:
        return self.lines.offset

    @property
    def progress(self) -> tuple[int, int] | None:
        size, position = self.lines.bytes.size, self.lines.bytes.position
        return None if size is None or position is None else (position, size)

    def close(self) -> None:
        self.lines.close()


class ParsedReader(LineReader):
    """Base of readers whose parser takes many lines at once (`feed` and `take`)."""

    _parser: Any

    def _collect(self) -> bool:
        """Feed the parser until its batch is full or the data end; whether it has rows."""
        lines, parser = self.lines, self._parser
        while True:
            if self.eager and parser.n_rows and lines.start >= lines.stop:
                return True
            try:
                if not self._fill():
                    return parser.n_rows > 0
            except FormatError:  # broken compression: there is no next line
                raise
            except ValueError as error:
                self._malformed(FormatError(self.name, parser.lines + 1, *error.args))
                lines.discard_line()
                parser.lines += 1
                continue
            lines.start, stopped = parser.feed(lines.buffer, lines.start, lines.stop)
            if stopped == "full":
                return True
            if stopped:
                self._malformed(FormatError(self.name, parser.lines + 1, parser.column, stopped))
                lines.start = lines.buffer.index(b"\n", lines.start) + 1
                parser.lines += 1

    def _position(self) -> dict[str, Any]:
        return {"offset": self.lines.offset, "line": self._parser.lines}

    def _go(self, position: dict[str, Any]) -> None:
        if self._parser.n_rows:
            self._parser.take()
        self.lines.seek(int(position["offset"]))
        self._parser.lines = int(position["line"])
