"""Bytes from anywhere: plain or compressed files, standard input, open file objects.

The compression is told by the first bytes, never by the name, so that a
renamed file is still read for what it is.
"""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from typing import IO, Any

MAGIC = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
MODULES = {"gzip": "gzip", "bz2": "bz2", "xz": "lzma"}

PIPE_PIECE = 1 << 17  # bytes that are taken from a pipe at a time


class FormatError(ValueError):
    """Malformed data, with the place where it was met.

    Attributes
    ----------
    name : str
        The file, or ``"<stdin>"``.
    line, column : int
        Counted from 1; the column counts bytes.  0 where they mean nothing.
    reason : str
        What is wrong.
    """

    def __init__(self, name: str, line: int, column: int, reason: str):
        self.name, self.line, self.column, self.reason = name, line, column, reason
        place = f"{name}:{line}:{column}" if line else name
        super().__init__(f"{place}: {reason}")

    def __reduce__(self) -> tuple:
        return FormatError, (self.name, self.line, self.column, self.reason)


class ByteSource:
    """A forward reader of bytes that knows its name and, where it can, its size.

    Parameters
    ----------
    source : str, path or binary file object
        ``"-"`` is standard input.

    Attributes
    ----------
    name : str
        For messages.
    seekable : bool
        Whether `restart` works.
    compression : str or None
        What was found.
    """

    def __init__(self, source: Any):
        self.source = source
        self.compression: str | None = None
        self.size: int | None = None
        self._raw: IO[bytes] | None = None
        self._file: Any = None
        self._head = b""
        if isinstance(source, (str, os.PathLike)):
            path = os.fspath(source)
            self.name = "<stdin>" if path == "-" else str(path)
            self._owned = path != "-"
        elif hasattr(source, "read"):
            self.name = str(getattr(source, "name", "<stream>"))
            self._owned = False
        else:
            raise TypeError(
                f"expected a path, '-' or a binary file object, got {type(source).__name__}"
            )
        self._open()

    def _open(self) -> None:
        if self._owned:
            self._raw = open(self.source, "rb", buffering=0)  # noqa: SIM115
        elif self.name == "<stdin>" and isinstance(self.source, str):
            if sys.stdin is None:
                raise ValueError("standard input is closed")
            self._raw = sys.stdin.buffer
        else:
            self._raw = self.source
        raw: Any = self._raw
        try:
            self._base = raw.tell()
            self.seekable = bool(raw.seekable())
        except (OSError, AttributeError, io.UnsupportedOperation):
            self._base, self.seekable = 0, False
        if self._owned:
            self.size = os.fstat(raw.fileno()).st_size
        self._begin()

    def _begin(self) -> None:
        """Look at the first bytes and set up decompression."""
        raw: Any = self._raw
        head = b""
        while len(head) < 6:
            more = raw.read(6 - len(head))
            if isinstance(more, str):
                raise TypeError(f"{self.name} is open in text mode; open it in binary mode")
            if not more:
                break
            head += more
        self.compression = next(
            (kind for magic, kind in MAGIC.items() if head.startswith(magic)), None
        )
        if self.seekable:
            raw.seek(self._base)
            head = b""
        self._head = head
        inner: Any = raw if not head else _Joined(head, raw)
        if self.compression is None:
            self._file = inner
        elif self.compression == "zstd":
            self._file = _open_zstd(inner, self.name)
        else:  # modules of Python's own
            self._file = import_module(MODULES[self.compression]).open(inner)

    def readinto(self, view: memoryview) -> int:
        """Fill `view` as far as the data go; 0 at the end."""
        try:
            return self._file.readinto(view) or 0
        except (EOFError, OSError, ValueError) as error:
            raise self._broken(error) from error
        except Exception as error:
            if type(error).__name__ in ("LZMAError", "ZstdError", "error"):
                raise self._broken(error) from error
            raise

    def _broken(self, error: Exception) -> Exception:
        if self.compression is None:
            return error
        return FormatError(
            self.name, 0, 0, f"broken or truncated {self.compression} data: {error}"
        )

    def restart(self) -> None:
        """Go back to the first byte."""
        raw: Any = self._raw
        if not self.seekable:
            raise ValueError(
                f"{self.name} cannot be read twice; give a file, or one pass and the settings "
                "that would otherwise be found by a first pass"
            )
        raw.seek(self._base)
        self._begin()

    def skip(self, count: int) -> None:
        """Pass over bytes (after decompression)."""
        if self.compression is None and self.seekable:
            raw: Any = self._raw
            raw.seek(self._base + count)
            return
        view = memoryview(bytearray(1 << 16))
        while count > 0:
            got = self.readinto(view[: min(count, len(view))])
            if not got:
                raise FormatError(self.name, 0, 0, "the data end before the saved position")
            count -= got

    @property
    def position(self) -> int | None:
        """Bytes of the file used so far, compressed ones if it is compressed."""
        try:
            raw: Any = self._raw
            return raw.tell() - self._base
        except (OSError, AttributeError, ValueError):
            return None

    def close(self) -> None:
        if self._owned and self._raw is not None:
            self._raw.close()


class _Joined(io.RawIOBase):
    """Some bytes already taken from a pipe, then the pipe."""

    def __init__(self, head: bytes, rest: Any):
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, view: Any) -> int:
        if self._head:
            n = min(len(view), len(self._head))
            view[:n] = self._head[:n]
            self._head = self._head[n:]
            return n
        if hasattr(self._rest, "read1"):  # what is there; `readinto1` waits for more
            data = self._rest.read1(min(len(view), PIPE_PIECE))
        elif hasattr(self._rest, "readinto"):
            return self._rest.readinto(view) or 0
        else:
            data = self._rest.read(len(view))
        view[: len(data)] = data
        return len(data)


def _open_zstd(raw: Any, name: str) -> Any:
    try:
        from compression import zstd  # Python 3.14

        return zstd.ZstdFile(raw)
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError:
        raise FormatError(
            name, 0, 0, "zstd data; install the package 'zstandard' to read them"
        ) from None
    return zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
