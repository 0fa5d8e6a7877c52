"""One door to all readers: the format by its name, or told by the file."""

from __future__ import annotations

import os
from typing import Any

from osvm.stream.base import Reader
from osvm.stream.csv import CsvReader
from osvm.stream.jsonl import JsonlReader
from osvm.stream.open import FormatError
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
PACKED = (".gz", ".bz2", ".xz", ".zst")


def guess_format(source: Any) -> str:
    """The format that a file's name tells; svmlight where it tells none.

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


__all__ = ["FORMATS", "FormatError", "guess_format", "read"]
