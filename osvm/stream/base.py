"""What every reader is: an iterator of batches that can say where it stands.

A batch is ``(X, y)`` or, where the data carry weights, ``(X, y, weight)``.  A
pass ends with StopIteration; the next `iter` starts the data anew, so that
``for epoch in range(3): for X, y in reader`` does what it says.

`tell` gives a dictionary that JSON can hold; `seek` takes it back.  Batches
after a `seek` are the ones that an undisturbed reader gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from osvm.stream.lines import LineSource, LineTooLong
from osvm.stream.open import FormatError
from osvm.stream.tokenizer import HashingTokenizer, make_tokenizer

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
    counting : bool
        Whether documents that come for the first time count for the weights of terms: in
        the first pass, unless the tokenizer had been fitted before.
    raw : bool
        Whether rows of documents are signed counts, for `HashingTokenizer.weigh`.
    """

    name = "<data>"
    n_features: int
    weighted = False  # whether batches carry weights
    eager = False  # whether a batch ends where the data pause, for pipes that are read live
    tokenizer: HashingTokenizer | None = None  # of documents, where there are any
    left_out: Sequence[str] = ()  # columns of a table beside those of text

    def __init__(self, *, batch_size: int, on_error: str):
        self.batch_size = check_batch_size(batch_size)
        self.on_error = check_on_error(on_error)
        self.n_rows = 0
        self.n_skipped = 0
        self.errors: list[FormatError] = []
        self._finished = False
        self.counting = False
        self.raw = False
        self.first_row = 0  # a number for the first row of the last batch, the same in every pass
        self._counted = 0  # rows whose documents have been counted

    # ------------------------------------------------------------ iteration

    def __iter__(self) -> Iterator[tuple]:
        if self._finished:
            self.rewind()
        return self

    def __next__(self) -> tuple:
        if self._finished:
            raise StopIteration
        batch = self._next_batch()
        if batch is None:
            self._finished = True
            self.counting = False  # all documents have been seen
            raise StopIteration
        return batch

    def _next_batch(self) -> tuple | None:
        """The next batch, counted; None at the end."""
        self.first_row = self.n_rows
        batch = self._read_batch() if self.tokenizer is None else self._read_documents()
        if batch is not None:
            self.n_rows += batch[0].shape[0]
        return batch

    def _read_batch(self) -> tuple | None:
        """The next batch, None at the end."""
        raise NotImplementedError

    def _read_documents(self) -> tuple | None:
        """The next batch of documents, which count when they come for the first time."""
        assert self.tokenizer is not None
        hasher = self.tokenizer.hasher
        hasher.counting = self.counting and self.n_rows >= self._counted
        hasher.raw = self.raw
        try:
            batch = self._read_batch()
            if hasher.counting and batch is not None:
                self._counted = self.n_rows + batch[0].shape[0]
        finally:
            hasher.counting = hasher.raw = False
        return batch

    def _set_tokenizer(self, tokenizer: HashingTokenizer | dict | None) -> HashingTokenizer:
        """Read documents with this tokenizer, counting them if it has counted none."""
        self.tokenizer = made = make_tokenizer(tokenizer)
        self.counting = made.n_documents_ == 0
        return made

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
        if self.tokenizer is None:
            return self.tell(), {}
        scalars, arrays = self.tokenizer.get_state()
        counts = {**scalars, "rows": self._counted, "counting": self.counting}
        return {**self.tell(), "counts": counts}, arrays

    def set_state(self, scalars: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Go to the place that `get_state` described."""
        counts = scalars.get("counts")
        if self.tokenizer is not None and counts is not None:
            self.tokenizer.set_state({"n_documents": counts["n_documents"]}, arrays)
            self.counting, self._counted = bool(counts["counting"]), int(counts["rows"])
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

    def _named(self, *names: str) -> dict[str, Any]:
        """These attributes, for `config`; the tokenizer by its parameters."""
        found = {name: getattr(self, name) for name in names}
        if found.get("tokenizer") is not None:
            found["tokenizer"] = found["tokenizer"].config()
        return found

    def close(self) -> None:
        """Release the file."""

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _matrix(self, values: Any, indices: Any, indptr: Any) -> csr_array:
        return csr_array((values, indices, indptr), shape=(len(indptr) - 1, self.n_features))


class WrappedReader(Reader):
    """Base of readers that change the batches of another one."""

    def __init__(self, reader: Reader, *, batch_size: int | None = None) -> None:
        super().__init__(batch_size=batch_size or reader.batch_size, on_error=reader.on_error)
        self.reader = reader
        self.name = reader.name

    @property
    def n_features(self) -> int:  # type: ignore[override]
        return self.reader.n_features

    @property
    def weighted(self) -> bool:  # type: ignore[override]
        return self.reader.weighted

    def rewind(self) -> None:
        """Start the data anew; a random order will be another one."""
        self.reader.rewind()
        self.n_rows = self.n_skipped = 0
        self._finished = False

    def tell(self) -> dict[str, Any]:
        raise ValueError(f"a {type(self).__name__} has no single position; use get_state")

    def seek(self, position: dict[str, Any]) -> None:
        raise ValueError(f"a {type(self).__name__} has no single position; use set_state")

    def get_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        inner, arrays = self.reader.get_state()
        scalars = {"inner": inner, "rows": self.n_rows, "finished": self._finished}
        return scalars, {f"inner.{name}": array for name, array in arrays.items()}

    def set_state(self, scalars: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        if "inner" not in scalars:
            raise ValueError(
                f"{self.name}: the checkpoint was made with the data in another order; resume "
                "with the same flags"
            )
        nested = {k[6:]: v for k, v in arrays.items() if k.startswith("inner.")}
        self.reader.set_state(scalars["inner"], nested)
        self.n_rows, self._finished = int(scalars["rows"]), bool(scalars["finished"])

    @property
    def bytes_read(self) -> int:
        return self.reader.bytes_read

    @property
    def progress(self) -> tuple[int, int] | None:
        return self.reader.progress

    def config(self) -> dict[str, Any]:
        return self.reader.config()

    def close(self) -> None:
        self.reader.close()


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
            self._skip_mark()
        return True

    def _skip_mark(self) -> None:
        """Pass over a byte order mark at the start of the data."""
        if self.lines.offset == 0 and self.lines.buffer[:3] == b"\xef\xbb\xbf":
            self.lines.start = 3

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

    def new_parser(self) -> Any:
        """A parser of such lines, as it is before the first."""
        raise NotImplementedError

    def _batch(self, taken: tuple) -> tuple:
        """A batch from what the parser's `take` gives."""
        return taken

    def _read_batch(self) -> tuple | None:
        return self._batch(self._parser.take()) if self._collect() else None

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
