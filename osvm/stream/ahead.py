"""Blocks of a plain file, parsed ahead of their use by several threads.

A task takes a few blocks in the order of the pass, reads each at once and parses it without
Python's global lock.  Only a block that is one plain batch of well-formed lines is parsed
here; for any other the answer is None, and the reader itself goes through it, with its errors and
its places: the batches of a pass, and their order, are those of one thread.

Enough blocks wait for a refill of the reservoir behind (`WAITING`): with fewer, threads would
stand still while the learner works, and the learner while they parse.

Invariant: the tasks that wait hold about `WAITING` values, so that memory does not depend on the
file.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from io import FileIO
from typing import Any, NamedTuple

from osvm.stream.base import ParsedReader
from osvm.stream.lines import PAD

BLOCKS = 8  # of a task
WAITING = 1 << 20  # values, and rows, that wait to be used
MOST_TASKS = 64  # however few values they have
SLACK = 1 << 16  # bytes after a block where its last line may end


class Parsed(NamedTuple):
    """A block that was parsed: its batch (None where no row begins in it) and its place."""

    batch: tuple | None
    begin: int
    end: int
    lines: int


class _Own(threading.local):
    """What each thread has for itself: made in the thread, at its first use there."""

    def __init__(self, ahead: Ahead, files: ExitStack) -> None:
        source = ahead.reader.lines.bytes.source
        self.file = files.enter_context(FileIO(source))
        self.size = os.fstat(self.file.fileno()).st_size
        self.buffer = bytearray(1 + ahead.block_bytes + SLACK + 1 + PAD)
        self.parser = ahead.reader.new_parser()


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

    def over(self, blocks: Any) -> Iterator[Parsed | None]:
        """What was parsed of each block, in this order; the threads end with the iterator."""
        tasks: deque[Future] = deque()
        starts = iter(range(0, len(blocks), BLOCKS))
        depth = 2 * self.threads
        with ExitStack() as files, ThreadPoolExecutor(self.threads) as pool:
            own = _Own(self, files)
            try:
                while True:
                    while len(tasks) < depth and (at := next(starts, None)) is not None:
                        tasks.append(pool.submit(self._parse_all, own, blocks[at : at + BLOCKS]))
                    if not tasks:
                        return
                    done = tasks.popleft().result()
                    depth = max(2 * self.threads, min(MOST_TASKS, WAITING // _size(done)))
                    yield from done
            finally:
                for task in tasks:
                    task.cancel()

    def _parse_all(self, own: _Own, blocks: Any) -> list[Parsed | None]:
        return [self._parse(own, int(block)) for block in blocks]

    def _parse(self, own: _Own, block: int) -> Parsed | None:
        size, buffer = self.block_bytes, own.buffer
        at = self.first + block * size
        before = 1 if block else 0  # the byte before, which may end a line
        own.file.seek(at - before)
        with memoryview(buffer) as view:
            n = own.file.readinto(view[: before + size + SLACK])
        start = buffer.find(b"\n", 0, n) + 1 if block else 0
        if block and not start:
            return None
        stop = buffer.find(b"\n", before + size - 1, n) + 1
        if not stop:
            if at - before + n < own.size:
                return None
            if not buffer.endswith(b"\n", 0, n):
                buffer[n] = 10
                n += 1
            stop = n
        if start >= stop:  # the line before goes on through the whole block
            return Parsed(None, at, at, 0)
        if n > self.reader.lines.max_line or buffer.startswith(b"\xef\xbb\xbf", 0, n):
            return None
        parser = own.parser
        parser.lines = 0
        _, stopped = parser.feed(buffer, start, stop)
        lines, n_rows = parser.lines, parser.n_rows
        taken = parser.take() if n_rows else None
        if stopped:
            return None
        batch = None if taken is None else self.reader._batch(taken)
        end = min(at - before + stop, own.size)
        return Parsed(batch, at - before + start, end, lines)


def _size(blocks: list[Parsed | None]) -> int:
    """Values and rows, at least 1."""
    batches = [block.batch[0] for block in blocks if block is not None and block.batch is not None]
    return max(1, sum(X.nnz + X.shape[0] for X in batches))
