"""Reader of comma-separated values (and of any other separator)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from osvm.stream._parsing import split_record
from osvm.stream.lines import LineTooLong
from osvm.stream.open import FormatError
from osvm.stream.records import RecordReader
from osvm.stream.tokenizer import HashingTokenizer


class CsvReader(RecordReader):
    """Batches from comma-separated values.

    Parameters
    ----------
    source : str, path or binary file object
        Plain or compressed; ``"-"`` is standard input.
    label : str or None
        Column of the label; None when there is none (y is then None).
    text : str or list of str, optional
        Columns of text, joined by a space and hashed.
    features : list of str, optional
        Columns of numbers; without `text`, all others by default.
    weight : str, optional
        Column of weights; batches are then ``(X, y, weight)``.
    separator : str, default=","
    quote : str or None, default='"'
    header : bool or list of str, default=True
        Whether the first record names the columns; False names them "0", "1", ...; a list
        names them itself, and then the first record is data.
    label_type : {"str", "int", "float"}, default="str"
    label_separator : str, optional
        The label's column holds any number of labels with this between them; y is then a list
        of tuples.
    tokenizer : HashingTokenizer or dict of its parameters, optional
    batch_size : int, default=4096
    dtype : float32 or float64, default=float32
    on_error : {"raise", "skip"}, default="raise"
    max_line : int, default=2**25
        Longest record in bytes.

    Examples
    --------
    >>> import io
    >>> from osvm.stream import CsvReader
    >>> data = io.BytesIO(b'stars,body\\n5,"Good, really"\\n1,Awful\\n')
    >>> X, y = next(CsvReader(data, label="stars", text="body"))
    >>> y
    array(['5', '1'], dtype='<U1')
    """

    def __init__(
        self,
        source: Any,
        *,
        label: str | None = "label",
        text: str | Sequence[str] | None = None,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        separator: str = ",",
        quote: str | None = '"',
        header: bool | Sequence[str] = True,
        label_type: str = "str",
        label_separator: str | None = None,
        tokenizer: HashingTokenizer | dict | None = None,
        batch_size: int = 4096,
        dtype: Any = np.float32,
        on_error: str = "raise",
        max_line: int = 1 << 25,
    ) -> None:
        for given, what in ((separator, "separator"), (quote, "quote")):
            if given is not None and (len(given.encode()) != 1 or given in "\r\n\0"):
                raise ValueError(f"{what} must be one ASCII character, got {given!r}")
        self.separator, self.quote, self.header = separator, quote, header
        self._separator = ord(separator)
        self._quote = ord(quote) if quote else 0
        self._wanted: bytes | None = None
        self._pending: list[bytes] | None = None
        self._n_fields = 0
        super().__init__(
            source,
            label=label,
            text=text,
            features=features,
            weight=weight,
            label_type=label_type,
            label_separator=label_separator,
            tokenizer=tokenizer,
            batch_size=batch_size,
            dtype=dtype,
            on_error=on_error,
            max_line=max_line,
        )

    def _begin(self) -> None:
        """Settle the columns from the first record."""
        try:
            first = self._split(None)
        except FormatError:
            raise
        except ValueError as error:
            column, reason = error.args if len(error.args) == 2 else (1, str(error))
            raise FormatError(self.name, 1, column, reason) from None
        if first is None:
            raise FormatError(self.name, 0, 0, "the file is empty")
        if self.header is True:
            names = [field.decode("utf-8", "replace").strip() for field in first]
            self._first = (self.lines.offset, self._line)
        else:
            given = self.header if self.header else None
            names = list(given) if given else [str(k) for k in range(len(first))]
            self._first = (3 if self._had_mark else 0, 0)
            self._pending = first
            self._pending_lines, self._line = self._line, 0
        if len(set(names)) != len(names):
            raise FormatError(self.name, 1, 1, f"two columns have the same name: {names}")
        self._n_fields = len(names)
        if self.text is None and self.features is None:
            self.features = [n for n in names if n not in (self.label, self.weight)]
        columns = self._columns()
        for name in columns:
            if name not in names:
                raise FormatError(
                    self.name, 1, 1, f"no column {name!r}; the columns are {', '.join(names)}"
                )
        if self.text is not None:
            self.left_out = [name for name in names if name not in columns]
        places = [names.index(name) for name in columns]
        self._wanted = bytes(1 if k in places else 0 for k in range(len(names)))
        rank = {place: k for k, place in enumerate(sorted(set(places)))}
        self._order = [rank[place] for place in places]
        self._in_order = self._order == list(range(len(self._order)))
        self._places = sorted(set(places))
        super()._begin()

    _had_mark = False
    _pending_lines = 0

    def _split(self, wanted: bytes | None) -> list[bytes] | None:
        """The wanted fields of the next record; None at the end."""
        lines = self.lines
        while True:
            if not self._fill():
                return None
            if lines.offset == 3 and lines.start == 3:
                self._had_mark = True
            first = lines.buffer[lines.start]
            if first != 10 and (first != 13 or lines.buffer[lines.start + 1] != 10):
                break
            lines.start += 1 if first == 10 else 2  # a blank line
            self._line += 1
        while True:
            after, count, fields, used = split_record(
                lines.buffer, lines.start, lines.stop, self._separator, self._quote, wanted
            )
            if after != -1:
                break
            try:
                if not lines.extend():
                    self._pass_line()
                    raise ValueError(1, "a quoted field is not closed before the end of the data")
            except LineTooLong:
                self._pass_line()
                raise ValueError(
                    1, f"the record is longer than max_line={lines.max_line} bytes"
                ) from None
        if after == -2:
            self._pass_line()
            raise ValueError(count, fields)
        lines.start = after
        self._line += used
        if wanted is not None:
            self._check_count(count)
        return fields

    def _check_count(self, count: int) -> None:
        if count != self._n_fields:
            raise ValueError(1, f"{count} fields where the file has {self._n_fields} columns")

    def _pass_line(self) -> None:
        """Go on after the line where a refused record begins."""
        lines = self.lines
        lines.start = lines.buffer.index(b"\n", lines.start) + 1
        self._line += 1

    def _next_record(self) -> list[Any] | None:
        if self._pending is not None:
            first, self._pending = self._pending, None
            self._line += self._pending_lines
            self._check_count(len(first))
            return [first[self._places[k]] for k in self._order]
        fields = self._split(self._wanted)
        if fields is None or self._in_order:
            return fields
        return [fields[k] for k in self._order]

    def rewind(self) -> None:
        """Start the data anew, after the header."""
        self.seek({"offset": self._first[0], "line": self._first[1]})

    def _position(self) -> dict[str, Any]:
        if self._pending is not None:
            return {"offset": self._first[0], "line": 0}
        return super()._position()

    def _go(self, position: dict[str, Any]) -> None:
        self._pending = None
        super()._go(position)

    def config(self) -> dict[str, Any]:
        return {
            "format": "csv",
            **super().config(),
            "separator": self.separator,
            "quote": self.quote,
            "header": self.header if isinstance(self.header, bool) else list(self.header),
        }
