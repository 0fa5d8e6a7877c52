"""A file in random order: its blocks shuffled, so that a sorted file can be learnt in one pass.

The file is cut into blocks of about `block_bytes`; each begins where a record begins.  A pass
visits them in a random order, each from begin to end.  `ShuffledReader` on top of it mixes the
rows of many blocks.  Only plain files can be visited so: not pipes, compressed files, Parquet,
nor CSV files with quotes whose malformed records are skipped.

In CSV files a line feed within quotes is no end of a record, so the quotes of the file are
counted once beforehand.

Invariant: every record is given exactly once per pass; the order is that of the generator, and
the place in it goes into checkpoints.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from osvm._input.parameters import (
    check_integer,
    generator_state,
    make_generator,
    restore_generator,
)
from osvm.stream.ahead import Ahead, Parsed
from osvm.stream.base import LineReader, ParsedReader, Reader, WrappedReader
from osvm.stream.csv import CsvReader
from osvm.stream.open import FormatError

ROWS = 1024  # of a block, about
LEAST, MOST = 1 << 14, 1 << 18  # bytes of a block
PIECE = 1 << 16


def can_visit_blocks(reader: Reader) -> bool:
    """Whether the records of a reader can be found from the middle of its data."""
    if not isinstance(reader, LineReader):
        return False
    source = reader.lines.bytes
    if source.compression is not None or not source.seekable:
        return False
    if not isinstance(source.source, (str, os.PathLike)) or not os.path.isfile(source.source):
        return False
    quotes = isinstance(reader, CsvReader) and reader.quote is not None
    return not (quotes and reader.on_error == "skip")


class BlockReader(WrappedReader):
    """The records of a file, its blocks in random order.

    Parameters
    ----------
    reader : reader of a plain file of lines
        See `can_visit_blocks`.
    block_bytes : int, optional
        Of a block; by default what about a thousand records take.
    random_state : int, optional
    shuffle : bool, default=True
        False visits the blocks as they lie in the file.
    threads : int, default=1
        Parse blocks ahead in so many threads; the batches are those of one.  For svmlight and
        Vowpal Wabbit's format, which are parsed without Python's global lock; other formats
        are refused.

    Examples
    --------
    >>> import os, tempfile
    >>> from osvm.stream import BlockReader, SvmlightReader
    >>> path = os.path.join(tempfile.mkdtemp(), "sorted.svm")
    >>> with open(path, "w") as file:
    ...     _ = file.writelines(f"{k} 1:1\\n" for k in range(100))
    >>> reader = BlockReader(SvmlightReader(path), block_bytes=100, random_state=0)
    >>> labels = [int(label) for X, y in reader for label in y]
    >>> sorted(labels) == list(range(100)), labels == list(range(100))
    (True, False)
    """

    reader: LineReader

    def __init__(
        self,
        reader: LineReader,
        *,
        block_bytes: int | None = None,
        random_state: Any = None,
        shuffle: bool = True,
        threads: int = 1,
    ) -> None:
        if not can_visit_blocks(reader):
            raise ValueError(
                f"{reader.name}: only plain files of lines can be visited in blocks, and CSV "
                "files with quotes only if malformed records raise"
            )
        threads = check_integer("threads", threads, 1)
        if threads > 1 and not isinstance(reader, ParsedReader):
            raise ValueError(
                f"{reader.name}: only svmlight and vw files are parsed by several threads; other "
                "formats hold Python's global lock, or count documents as they come"
            )
        super().__init__(reader)
        self.shuffle = shuffle
        self._path = reader.lines.bytes.source
        self._size = os.path.getsize(self._path)
        self._first = reader._first[0] if isinstance(reader, CsvReader) else 0
        self.block_bytes = block_bytes or self._find_block_bytes()
        quoted = isinstance(reader, CsvReader) and reader.quote is not None
        self._quote = reader.quote.encode() if quoted else None  # type: ignore[attr-defined]
        self._n_blocks = max(1, -(-(self._size - self._first) // self.block_bytes))
        self._inside = self._count_quotes() if quoted else None
        self._generator = make_generator(random_state)
        self._ahead: Ahead | None = None
        if threads > 1:
            assert isinstance(reader, ParsedReader)
            self._ahead = Ahead(reader, self._first, self.block_bytes, threads)
        self._start_pass()

    def _find_block_bytes(self) -> int:
        with open(self._path, "rb") as file:
            file.seek(self._first)
            head = file.read(PIECE)
        row = len(head) / max(1, head.count(b"\n"))
        size = min(MOST, max(LEAST, int(ROWS * row)))
        return max(size, (self._size >> 20) + 1)  # a million blocks are enough

    def _count_quotes(self) -> np.ndarray:
        """Whether the last byte before each block lies within quotes."""
        inside, count = np.zeros(self._n_blocks, bool), 0
        assert self._quote is not None
        with open(self._path, "rb") as file:
            file.seek(self._first)
            for k in range(1, self._n_blocks):
                # up to the byte before the block, which `_start_of` looks at
                piece = file.read(self.block_bytes - (k == 1))
                count += piece.count(self._quote)
                inside[k] = count % 2 == 1
        return inside

    def _start_of(self, block: int) -> int:
        """Where the first record of a block begins; the size of the file when there is none."""
        at = self._first + block * self.block_bytes
        if block == 0 or at >= self._size:
            return min(at, self._size)
        at -= 1  # a block may begin exactly where a record does
        inside = self._inside is not None and bool(self._inside[block])
        with open(self._path, "rb") as file:
            file.seek(at)
            while piece := file.read(PIECE):
                if self._quote is None:
                    found = piece.find(b"\n")
                else:
                    found, inside = _line_end(piece, self._quote, inside)
                if found >= 0:
                    return at + found + 1
                at += len(piece)
        return self._size

    # -------------------------------------------------------------------- passes

    def _start_pass(self) -> None:
        self._before = generator_state(self._generator)  # what gives this order again
        if self.shuffle:
            self._order = self._generator.permutation(self._n_blocks)
        else:
            self._order = np.arange(self._n_blocks)
        self._next = 0  # place in the order
        if self._parsed is not None:
            self._parsed.close()
        self._parsed = None
        self._used = False  # whether a thread has parsed the whole block
        self._block = -1  # no block is open
        self._begin = 0
        self._read = 0  # bytes of the blocks before

    def _open_block(self) -> bool:
        """Go to the next block that is not empty; False when there is none."""
        while self._next < self._n_blocks:
            block = int(self._order[self._next])
            parsed = self._take_parsed()
            self._next += 1
            if parsed is not None:
                if parsed.batch is None:
                    self._read += parsed.end - parsed.begin
                    continue
                self._use(block, parsed)
                return True
            begin, end = self._start_of(block), self._start_of(block + 1)
            if begin < end:
                self._block, self._begin, self._rows_before = block, begin, self.reader.n_rows
                self.reader._go({"offset": begin, "line": 0})
                self.reader.lines.end = end
                return True
        return False

    def _take_parsed(self) -> Parsed | None:
        """What threads have made of the next block."""
        if self._ahead is None:
            return None
        if self._parsed is None:
            self._parsed = self._ahead.over(self._order[self._next :])
        return next(self._parsed)

    def _use(self, block: int, parsed: Parsed) -> None:
        """Leave the reader as if it had gone through the block."""
        inner: Any = self.reader
        self._block, self._begin, self._rows_before = block, parsed.begin, inner.n_rows
        inner.lines.end = parsed.end
        inner.lines.stand_at(parsed.end)
        inner._parser.lines = parsed.lines
        self._waiting, self._used = parsed.batch, True

    def _read_batch(self) -> tuple | None:
        inner = self.reader
        while True:
            if self._used and self._waiting is not None:
                parsed, self._waiting = self._waiting, None
                self.first_row = self._block << 32
                inner.n_rows += parsed[0].shape[0]
                return parsed
            if self._used:
                self._read += inner.lines.offset - self._begin
                self._block, self._used = -1, False
            if self._block >= 0:
                errors = len(inner.errors)
                self.first_row = (self._block << 32) + inner.n_rows - self._rows_before
                try:
                    batch = inner._next_batch()
                except FormatError as error:
                    raise self._placed(error) from None
                inner.errors[errors:] = map(self._placed, inner.errors[errors:])
                self.n_skipped = inner.n_skipped
                if batch is not None:
                    return batch
                self._read += inner.lines.offset - self._begin
                self._block = -1
            if not self._open_block():
                inner.counting = False
                inner.lines.end = None
                return None

    def _placed(self, error: FormatError) -> FormatError:
        """The error with its line counted from the start of the file."""
        lines, left = 0, self._begin
        with open(self._path, "rb") as file:
            while left > 0 and (piece := file.read(min(left, 1 << 20))):
                lines += piece.count(b"\n")
                left -= len(piece)
        return FormatError(error.name, error.line + lines, error.column, error.reason)

    def rewind(self) -> None:
        """Start the data anew, in another order."""
        self.reader.lines.end = None
        super().rewind()
        self._start_pass()

    def get_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        scalars, arrays = super().get_state()
        scalars |= {
            "generator": self._before,
            "block_bytes": self.block_bytes,
            "next": self._next,
            "block": self._block,
            "read": self._read,
            "rows_before": self.reader.n_rows if self._block < 0 else self._rows_before,
        }
        return scalars, arrays

    def set_state(self, scalars: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        if scalars.get("block_bytes", self.block_bytes) != self.block_bytes:
            raise ValueError(f"{self.name}: the data are not those of the checkpoint")
        self.reader.lines.end = None
        super().set_state(scalars, arrays)
        self._generator = restore_generator(scalars["generator"])
        self._start_pass()
        self._next, self._block = int(scalars["next"]), int(scalars["block"])
        self._read = int(scalars["read"])
        self._rows_before = int(scalars["rows_before"])
        if self._block >= 0:
            self._begin = self._start_of(self._block)
            self.reader.lines.end = self._start_of(self._block + 1)

    def close(self) -> None:
        if self._parsed is not None:
            self._parsed.close()
        super().close()

    _rows_before = 0
    _parsed: Any = None  # what threads make of the blocks that come
    _waiting: tuple | None = None  # the batch of that block

    @property
    def bytes_read(self) -> int:
        return self._read + (self.reader.lines.offset - self._begin if self._block >= 0 else 0)

    @property
    def progress(self) -> tuple[int, int] | None:
        return self.bytes_read, self._size


def _line_end(piece: bytes, quote: bytes, inside: bool) -> tuple[int, bool]:
    """The first line feed outside of quotes, or -1; whether the piece ends within quotes."""
    at = 0
    while True:
        if inside:
            closing = piece.find(quote, at)
            if closing < 0:
                return -1, True
            at, inside = closing + 1, False
        feed, opening = piece.find(b"\n", at), piece.find(quote, at)
        if feed >= 0 and (opening < 0 or feed < opening):
            return feed, False
        if opening < 0:
            return -1, False
        at, inside = opening + 1, True
