"""One door to all readers: the format by its name, or told by the file."""

from __future__ import annotations

import os
import re
from typing import Any

from osvm.stream.base import Reader
from osvm.stream.csv import CsvReader
from osvm.stream.jsonl import JsonlReader
from osvm.stream.open import ByteSource
from osvm.stream.parquet import ParquetReader
from osvm.stream.svmlight import SvmlightReader
from osvm.stream.text import TextReader
from osvm.stream.vw import VwReader

FORMATS: dict[str, Any] = {
    "svmlight": SvmlightReader,
    "vw": VwReader,
    "text": TextReader,
    "csv": CsvReader,
    "tsv": CsvReader,
    "jsonl": JsonlReader,
    "parquet": ParquetReader,
}

SUFFIXES = {
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".vw": "vw",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "parquet",
    ".feather": "parquet",
}
HEAD = 1 << 16  # bytes of a .txt file that are looked at
_NUMBER = rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
SVMLIGHT = re.compile(
    rb"%b(,%b)*([ \t]+(qid:\d+|\d+:%b))*[ \t]*(#.*)?|\d+:.*" % (_NUMBER, _NUMBER, _NUMBER)
)
VW = re.compile(rb"[^|\t]*\|")
PACKED = (".gz", ".bz2", ".xz", ".zst")


def sniff_format(source: Any) -> str:
    """The format of a ``.txt`` file, told by its first line that is not blank or a comment.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("good\\tWhat a film!\\n")
    >>> sniff_format(path)
    'text'
    """
    head = bytearray(HEAD)
    data = ByteSource(source)
    try:
        filled = data.readinto(memoryview(head))
    finally:
        data.close()
    lines = (line.strip(b"\r\n") for line in bytes(head[:filled]).split(b"\n"))
    line = next((line for line in lines if line.strip() and not line.startswith(b"#")), b"")
    if line.lstrip().startswith(b"{"):
        return "jsonl"
    if SVMLIGHT.fullmatch(line):
        return "svmlight"
    if VW.match(line):
        return "vw"
    if b"\t" in line:
        return "text"
    raise ValueError(
        f"{os.fspath(source)}: cannot tell the format of a .txt file whose first line is "
        f"{line[:40].decode('utf-8', 'replace')!r}; name it (--format, or read(path, format))"
    )


def guess_format(source: Any) -> str:
    """The format that a file's name tells; svmlight where it tells none.

    A ``.txt`` file that exists is looked into.

    Examples
    --------
    >>> guess_format("reviews.csv.gz"), guess_format("rcv1.svm"), guess_format("-")
    ('csv', 'svmlight', 'svmlight')
    """
    if not isinstance(source, (str, os.PathLike)):
        return "svmlight"
    stem, suffix = os.path.splitext(os.fspath(source))
    if suffix in PACKED:
        suffix = os.path.splitext(stem)[1]
    if str(suffix).lower() == ".txt" and os.path.isfile(source):
        return sniff_format(source)
    return SUFFIXES.get(str(suffix).lower(), "svmlight")


def read(source: Any, format: str | None = None, **options: Any) -> Reader:
    """A reader of a file.

    Parameters
    ----------
    source : str, path or binary file object
        ``"-"`` is standard input.
    format : {"svmlight", "vw", "text", "csv", "tsv", "jsonl", "parquet"}, optional
        Told by the file's name when it is not given.
    **options
        What the reader of that format takes.

    Examples
    --------
    >>> import io, osvm.stream
    >>> X, y = next(osvm.stream.read(io.BytesIO(b"1 1:2\\n"), "svmlight"))
    """
    format = guess_format(source) if format is None else format
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    if format == "tsv":
        options.setdefault("separator", "\t")
    return FORMATS[format](source, **options)
