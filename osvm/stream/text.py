"""Reader of raw text, one document a line, through the compiled tokenizer."""

from __future__ import annotations

from typing import Any

import numpy as np

from osvm.stream._parsing import CsrBuilder, read_double
from osvm.stream.base import ParsedReader
from osvm.stream.tokenizer import HashingTokenizer

LABEL_TYPES = ("str", "int", "float")
MAX_VALUES = 1 << 20  # a batch ends when it holds so many


def check_label_type(label_type: str) -> str:
    if label_type not in LABEL_TYPES:
        raise ValueError(f"label_type must be one of {LABEL_TYPES}, got {label_type!r}")
    return label_type


def read_label(text: bytes, label_type: str) -> Any:
    """A label from its text; ValueError with the reason when it is not one."""
    if not text:
        raise ValueError("the label is empty")
    if label_type == "str":
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise ValueError("the label is not UTF-8") from None
    value = read_double(text.strip())
    if value is None:
        raise ValueError(f"the label {text[:40]!r} is not a finite number")
    if label_type == "int":
        if value != int(value) or abs(value) >= 2**53:  # where neighbors are rounded to one
            raise ValueError(f"the label {text[:40]!r} is not an integer")
        return int(value)
    return value


def read_labels(text: bytes, label_type: str, separator: bytes | None) -> Any:
    """A label, or with a separator the tuple of labels between separators (none if empty)."""
    if separator is None:
        return read_label(text, label_type)
    if not text.strip():
        return ()
    return tuple(read_label(part.strip(), label_type) for part in text.split(separator))


def check_label_separator(separator: str | None) -> bytes | None:
    if separator is None:
        return None
    if not separator or "\n" in separator:
        raise ValueError(f"label_separator must be text within a line, got {separator!r}")
    return separator.encode()


def label_array(labels: list, label_type: str, separator: bytes | None = None) -> Any:
    """Labels as an array of one type, whatever the batch holds; label sets as they are."""
    if separator is not None:
        return labels
    if label_type == "str":
        return np.array(labels, dtype=np.str_)
    return np.array(labels, dtype=np.int64 if label_type == "int" else np.float64)


class TextReader(ParsedReader):
    """Batches from raw text: one document a line, its label first.

    Parameters
    ----------
    source : str, path or binary file object
        Plain or compressed; ``"-"`` is standard input.  The text is UTF-8.
    labelled : bool, default=True
        Each line is ``label <separator> document``; blank lines are passed over.  If False a
        line is a document, blank or not, and y is None.
    separator : str, default="\\t"
        Between the label and the document.
    label_type : {"str", "int", "float"}, default="str"
    label_separator : str, optional
        Lines carry any number of labels with this between them; y is a list of tuples.
    tokenizer : HashingTokenizer or dict of its parameters, optional
    batch_size : int, default=4096
    dtype : float32 or float64, default=float32
    on_error : {"raise", "skip"}, default="raise"
    max_line : int, default=2**25

    Examples
    --------
    >>> import io
    >>> from osvm.stream import TextReader
    >>> data = io.BytesIO(b"good\\tWhat a film!\\nbad\\tWhat a bore.\\n")
    >>> for X, y in TextReader(data, tokenizer={"bits": 10}):
    ...     print(X.shape, y)
    (2, 1024) ['good' 'bad']
    """

    def __init__(
        self,
        source: Any,
        *,
        labelled: bool = True,
        separator: str = "\t",
        label_type: str = "str",
        label_separator: str | None = None,
        tokenizer: HashingTokenizer | dict | None = None,
        batch_size: int = 4096,
        dtype: Any = np.float32,
        on_error: str = "raise",
        max_line: int = 1 << 25,
    ) -> None:
        super().__init__(
            source, batch_size=batch_size, dtype=dtype, on_error=on_error, max_line=max_line
        )
        self.labelled = labelled
        if not separator or "\n" in separator:
            raise ValueError(f"separator must be text within a line, got {separator!r}")
        self.separator = separator
        self.label_type = check_label_type(label_type)
        self.label_separator = label_separator
        self._label_separator = check_label_separator(label_separator)
        self.tokenizer: HashingTokenizer = self._set_tokenizer(tokenizer)
        self.n_features = self.tokenizer.n_features
        self._parser = _TextParser(self)

    def config(self) -> dict[str, Any]:
        names = "separator", "label_type", "label_separator", "tokenizer"
        return {"format": "text", **self._named(*names)}


class _TextParser:
    """`feed` and `take` as the compiled parsers have them."""

    def __init__(self, reader: TextReader) -> None:
        self.reader = reader
        self.separator = reader.separator.encode()
        self.builder = CsrBuilder()
        self.labels: list = []
        self.lines = 0
        self.column = 1

    @property
    def n_rows(self) -> int:
        return self.builder.n_rows

    def feed(self, buffer: bytearray, start: int, stop: int) -> tuple[int, str]:
        reader, builder, add = self.reader, self.builder, self.reader.tokenizer.hasher.add_line
        separator, width = self.separator, len(self.separator)
        while start < stop:
            end = buffer.find(b"\n", start, stop)
            last = end - 1 if end > start and buffer[end - 1] == 13 else end
            nul = buffer.find(b"\0", start, last)
            if nul >= 0:
                self.column = nul - start + 1
                return start, "a NUL byte"
            body = start
            if reader.labelled:
                if start == last:
                    self.lines += 1
                    start = end + 1
                    continue
                body = buffer.find(separator, start, last)
                self.column = 1
                if body < 0:
                    return start, f"no {reader.separator!r} between the label and the document"
                try:
                    text = bytes(buffer[start:body])
                    label = read_labels(text, reader.label_type, reader._label_separator)
                except ValueError as error:
                    return start, str(error)
                self.labels.append(label)
                body += width
            add(builder, buffer, body, last)
            self.lines += 1
            start = end + 1
            if builder.n_rows >= reader.batch_size or builder.n_values >= MAX_VALUES:
                return start, "full"
        return start, ""

    def take(self) -> tuple:
        reader = self.reader
        X = reader._matrix(*self.builder.take(reader.dtype))
        labels, self.labels = self.labels, []
        if not reader.labelled:
            return X, None
        return X, label_array(labels, reader.label_type, reader._label_separator)
