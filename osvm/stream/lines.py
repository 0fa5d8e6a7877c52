"""Whole lines from a byte source, in pieces, with bounded memory.

Invariants
- `buffer[start:stop]` holds whole lines only, each with its line feed; a last
  line without one is given one;
- at least 32 NUL bytes' worth of room follows `stop` (the scanners look ahead);
- a line longer than `max_line` is never held: it is refused or passed over.
"""

from __future__ import annotations

from typing import Any

from osvm.stream.open import ByteSource

PAD = 32


class LineSource:
    """Pieces of whole lines.

    Parameters
    ----------
    source : str, path or binary file object
    piece : int
        Bytes to read at a time.
    max_line : int
        Longest line in bytes.
    """

    def __init__(self, source: Any, *, piece: int = 1 << 20, max_line: int = 1 << 25):
        self.bytes = ByteSource(source)
        self.max_line = max_line
        self.buffer = bytearray(min(piece, max_line) + PAD + 1)
        self.end: int | None = None  # the offset where the data are to end, after a line
        self.stand_at(0)

    def stand_at(self, offset: int) -> None:
        """Be where reading up to `offset` would have led; `seek` comes before the next line."""
        self.start = self.stop = self._filled = 0
        self._offset = offset  # of buffer[0] in the data
        self._ended = False
        self._added = 0  # line feeds that are not in the data

    @property
    def name(self) -> str:
        return self.bytes.name

    @property
    def offset(self) -> int:
        """Where buffer[start] lies in the (decompressed) data."""
        return self._offset + min(self.start, self._filled - self._added)

    def seek(self, offset: int) -> None:
        """Go to a byte offset that `offset` once gave."""
        if offset < 0:
            raise ValueError(f"the offset must not be negative, got {offset}")
        fresh = self._offset == 0 and self._filled == 0 and not self._ended
        if not fresh:
            self.bytes.restart()
        self.stand_at(offset)
        self.bytes.skip(offset)

    def fill(self) -> bool:
        """Bring more whole lines into buffer[start:stop]; False at the end of the data.

        Call it when all lines at hand are used.  Raises `LineTooLong` for a line beyond
        `max_line`; `discard_line` then passes over it.
        """
        if self.start < self.stop:
            return True
        self._shift()
        return self._read_on(0)

    def extend(self) -> bool:
        """Keep buffer[start:stop] and bring more lines after it; False at the end of the data."""
        before = self.stop - self.start
        self._shift()
        return self._read_on(before)

    def _shift(self) -> None:
        """Drop what lies before `start`."""
        rest = self._filled - self.start
        self.buffer[:rest] = self.buffer[self.start : self._filled]
        self._offset += self.start
        self.stop -= self.start
        self.start = 0
        self._filled = rest

    def _read_on(self, searched: int) -> bool:
        """Read until there is a line end at or after `searched`."""
        if searched == 0:
            self.stop = 0
        held = self.stop
        while True:
            room = len(self.buffer) - PAD - 1
            if self._filled == room and not self._ended:
                if room >= self.max_line:
                    raise LineTooLong
                self.buffer.extend(bytes(min(room, self.max_line - room)))
                room = len(self.buffer) - PAD - 1
            got = 0
            if not self._ended:
                got = self._read(room)
            if not got:
                self._ended = True
                if self._filled == held:
                    return False
                self.buffer[self._filled] = 10
                if self.buffer[self._filled - 1] != 10:
                    self._filled += 1
                    self._added = 1
                self.stop = self._filled
                self._mark_end()
                return True
            self._filled += got
            newline = self.buffer.rfind(b"\n", searched, self._filled)
            if newline >= 0:
                self.stop = newline + 1
                return True
            searched = self._filled

    def _read(self, room: int) -> int:
        """Bytes into buffer[_filled:room], not beyond `end`; how many."""
        if self.end is not None:
            room = min(room, self.end - self._offset)
            if room <= self._filled:
                return 0
        with memoryview(self.buffer) as view:
            return self.bytes.readinto(view[self._filled : room])

    def _mark_end(self) -> None:
        self.buffer[self._filled : self._filled + PAD] = bytes(PAD)

    def discard_line(self) -> None:
        """Pass over the line that begins at the buffer's start, however long it is."""
        while True:
            newline = self.buffer.find(b"\n", 0, self._filled)
            if newline >= 0:
                self._offset += newline + 1
                rest = self._filled - newline - 1
                self.buffer[:rest] = self.buffer[newline + 1 : self._filled]
                self._filled = rest
                break
            self._offset += self._filled
            self._filled = 0
            self._filled = self._read(len(self.buffer) - PAD - 1)
            if not self._filled:
                self._ended = True
                break
        self.start = 0
        newline = self.buffer.rfind(b"\n", 0, self._filled)
        self.stop = newline + 1

    def close(self) -> None:
        self.bytes.close()


class LineTooLong(Exception):
    """A line beyond `max_line`."""
