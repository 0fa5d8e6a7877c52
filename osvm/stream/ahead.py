"""Blocks of a plain file, parsed ahead of their use by several threads.

A task takes a few blocks in the order of the pass, reads each with one `pread` and parses it
without Python's global lock.  Only a block that is one plain batch of well-formed lines is parsed
here; for any other the answer is None, and the reader itself goes through it, with its errors and
its places: the batches of a pass, and their order, are those of one thread.

Invariant: at most `2 * threads` tasks wait, so that memory does not depend on the file.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from osvm.stream.base import ParsedReader
from osvm.stream.lines import PAD

BLOCKS = 8  # of a task
SLACK = 1 << 16  # bytes after a block where its last line may end


class Parsed(NamedTuple):
    """A block that was parsed: its batch (None where no row begins in it) and its place."""

    batch: tuple | None
    begin: int
    end: int
    lines: int


class Ahead:
    """Threads that parse the blocks of one file.

    Parameters
    ----------
    reader : ParsedReader
        Of a plain file.
    first, block_bytes : int
        Where the first block begins, and how long all are.
    threads : int
    """

    def __init__(self, reader: ParsedReader, first: int, block_bytes: int, threads: int) -> None:
        self.reader, self.first, self.block_bytes, self.threads = (
            reader, first, block_bytes, threads,
        )  # fmt: skip
        self._own = threading.local()

    def over(self, blocks: Any) -> Iterator[Parsed | None]:
        """What was parsed of each block, in this order; the threads end with the iterator."""
        tasks: deque[Future] = deque()
        starts = iter(range(0, len(blocks), BLOCKS))
        with open(self.reader.lines.bytes.source, "rb") as file:
            self._file, self._size = file.fileno(), os.fstat(file.fileno()).st_size
            with ThreadPoolExecutor(self.threads) as pool:
                try:
                    while True:
                        while len(tasks) < 2 * self.threads:
                            if (at := next(starts, None)) is None:
                                break
                            tasks.append(pool.submit(self._parse_all, blocks[at : at + BLOCKS]))
                        if not tasks:
                            return
                        yield from tasks.popleft().result()
                finally:
                    for task in tasks:
                        task.cancel()

    def _parse_all(self, blocks: Any) -> list[Parsed | None]:
        return [self._parse(int(block)) for block in blocks]

    def _parse(self, block: int) -> Parsed | None:
        size = self.block_bytes
        at = self.first + block * size
        before = 1 if block else 0  # the byte before, which may end a line
        data = os.pread(self._file, before + size + SLACK, at - before)
        start = data.find(b"\n") + 1 if block else 0
        if block and not start:
            return None
        stop = data.find(b"\n", before + size - 1) + 1
        at_end = at - before + len(data) >= self._size
        if not stop:
            if not at_end:
                return None
            data += b"" if data.endswith(b"\n") else b"\n"
            stop = len(data)
        if start >= stop:  # the line before goes on through the whole block
            return Parsed(None, at, at, 0)
        if len(data) > self.reader.lines.max_line or data.startswith(b"\xef\xbb\xbf"):
            return None
        if stop + PAD > len(data):
            data += bytes(PAD)
        parser = self._own.__dict__.get("parser")
        if parser is None:
            parser = self._own.parser = self.reader.new_parser()
        parser.lines = 0
        _, stopped = parser.feed(data, start, stop)
        lines, n_rows = parser.lines, parser.n_rows
        taken = parser.take() if n_rows else None
        if stopped:
            return None
        batch = None if taken is None else self.reader._batch(taken)
        end = min(at - before + stop, self._size)
        return Parsed(batch, at - before + start, end, lines)
