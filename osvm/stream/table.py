"""Readers of records with named fields: CSV, JSON lines, Parquet.

A record's features come either from text columns, through the compiled
tokenizer, or from number columns, one column of X each.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from osvm.stream._base import Reader, check_dtype
from osvm.stream._builder import CsrBuilder
from osvm.stream._csv import split_record
from osvm.stream._lines import LineSource, LineTooLong
from osvm.stream._scan import read_double
from osvm.stream._text import HashingTokenizer
from osvm.stream.open import FormatError
from osvm.stream.text import (
    MAX_VALUES,
    check_label_type,
    label_array,
    make_tokenizer,
    read_label,
)


def as_names(names: str | Sequence[str] | None) -> list[str] | None:
    if names is None:
        return None
    return [names] if isinstance(names, str) else [str(name) for name in names]


class _RecordReader(Reader):
    """Rows from records: what CSV and JSON lines share."""

    def __init__(
        self,
        source: Any,
        *,
        label: str | None,
        text: str | Sequence[str] | None,
        features: Sequence[str] | None,
        weight: str | None,
        label_type: str,
        tokenizer: HashingTokenizer | dict | None,
        batch_size: int,
        dtype: Any,
        on_error: str,
        max_line: int,
    ) -> None:
        super().__init__(batch_size=batch_size, on_error=on_error)
        if text is not None and features is not None:
            raise ValueError("give text or features, not both")
        self.dtype = check_dtype(dtype)
        self.label, self.weight = label, weight
        self.text = as_names(text)
        self.features = as_names(features)
        self.label_type = check_label_type(label_type)
        self.weighted = weight is not None
        self.tokenizer = make_tokenizer(tokenizer) if self.text else None
        self.lines = LineSource(source, max_line=max_line)
        self.name = self.lines.name
        self._line = 0  # lines used so far
        self._builder = CsrBuilder()

    def _next_record(self) -> list[Any] | None:
        """Label, weight and inputs (each only where asked for); None at the end.

        Raises ValueError(column, reason) for a malformed record, having passed over it.
        """
        raise NotImplementedError

    def _read_batch(self) -> tuple | None:
        labels: list = []
        weights: list = []
        numbers: list = []
        rows = 0
        add = self.tokenizer.add if self.tokenizer is not None else None
        while rows < self.batch_size and self._builder.n_values < MAX_VALUES:
            line = self._line + 1
            try:
                record = self._next_record()
                if record is None:
                    break
                label, weight, inputs = self._read_fields(record)
            except ValueError as error:
                column, reason = error.args if len(error.args) == 2 else (1, str(error))
                self._malformed(FormatError(self.name, line, column, reason))
                continue
            if add is not None:
                add(self._builder, inputs)
            else:
                numbers.append(inputs)
            if label is not None:
                labels.append(label)
            if weight is not None:
                weights.append(weight)
            rows += 1
        if not rows:
            return None
        if add is not None:
            X = self._matrix(*self._builder.take(self.dtype))
        else:
            with np.errstate(over="ignore"):
                X = csr_array(np.array(numbers, dtype=self.dtype).reshape(rows, self.n_features))
        y = label_array(labels, self.label_type) if self.label is not None else None
        return (X, y, np.array(weights)) if self.weighted else (X, y)

    def _read_fields(self, record: list[Any]) -> tuple[Any, float | None, Any]:
        """Label, weight and inputs from the fields of a record."""
        k = 0
        label = weight = None
        if self.label is not None:
            label = read_label(record[0], self.label_type)
            k = 1
        if self.weight is not None:
            weight = self._number(record[k], self.weight)
            if weight < 0:
                raise ValueError(f"the weight {weight} is negative")
            k += 1
        if self.text is not None:
            return label, weight, b" ".join(record[k:])
        assert self.features is not None
        values = [self._number(field, name) for field, name in zip(record[k:], self.features)]
        return label, weight, values

    def _number(self, field: bytes, name: str) -> float:
        value = read_double(field.strip())
        if value is None or (self.dtype == np.float32 and abs(value) > 3.4028235e38):
            raise ValueError(f"column {name!r} holds {field[:40]!r}, which is not a finite number")
        return value

    def _columns(self) -> list[str]:
        """Names of the fields of a record, in the order that `_read_fields` wants."""
        out = [name for name in (self.label, self.weight) if name is not None]
        return out + (self.text or self.features or [])

    def _settle(self) -> None:
        """Set the number of columns once the names are known."""
        if self.tokenizer is not None:
            self.n_features = self.tokenizer.n_features
        else:
            assert self.features is not None
            if not self.features:
                raise ValueError(f"{self.name} has no column left for the features")
            self.n_features = len(self.features)

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns of X; None when they are hashed."""
        return self.features

    def _position(self) -> dict[str, Any]:
        return {"offset": self.lines.offset, "line": self._line}

    def _go(self, position: dict[str, Any]) -> None:
        self.lines.seek(int(position["offset"]))
        self._line = int(position["line"])

    @property
    def bytes_read(self) -> int:
        return self.lines.offset

    @property
    def progress(self) -> tuple[int, int] | None:
        size, position = self.lines.bytes.size, self.lines.bytes.position
        return None if size is None or position is None else (position, size)

    def close(self) -> None:
        self.lines.close()

    def _fill(self) -> bool:
        """Whether a line is at hand; passes over lines that are too long."""
        lines = self.lines
        while lines.start >= lines.stop:
            try:
                if not lines.fill():
                    return False
            except LineTooLong:
                lines.discard_line()
                self._line += 1
                raise ValueError(
                    1, f"the line is longer than max_line={lines.max_line} bytes"
                ) from None
            if lines.offset == 0 and lines.buffer[:3] == b"\xef\xbb\xbf":
                lines.start = 3
        return True

    def config(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "text": self.text,
            "features": self.features,
            "weight": self.weight,
            "label_type": self.label_type,
            "tokenizer": None if self.tokenizer is None else self.tokenizer.config(),
        }


class CsvReader(_RecordReader):
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
        tokenizer: HashingTokenizer | dict | None = None,
        batch_size: int = 4096,
        dtype: Any = np.float32,
        on_error: str = "raise",
        max_line: int = 1 << 25,
    ) -> None:
        for given, what in ((separator, "separator"), (quote, "quote")):
            if given is not None and (len(given.encode()) != 1 or given in "\r\n\0"):
                raise ValueError(f"{what} must be one ASCII character, got {given!r}")
        super().__init__(
            source,
            label=label,
            text=text,
            features=features,
            weight=weight,
            label_type=label_type,
            tokenizer=tokenizer,
            batch_size=batch_size,
            dtype=dtype,
            on_error=on_error,
            max_line=max_line,
        )
        self.separator, self.quote, self.header = separator, quote, header
        self._separator = ord(separator)
        self._quote = ord(quote) if quote else 0
        self._wanted: bytes | None = None
        self._pending: list[bytes] | None = None
        self._n_fields = 0
        self._begin()

    def _begin(self) -> None:
        """Settle the columns from the first record."""
        try:
            first = self._split(None)
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
        places = [names.index(name) for name in columns]
        self._wanted = bytes(1 if k in places else 0 for k in range(len(names)))
        rank = {place: k for k, place in enumerate(sorted(set(places)))}
        self._order = [rank[place] for place in places]
        self._in_order = self._order == list(range(len(self._order)))
        self._places = sorted(set(places))
        self._settle()

    _had_mark = False

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
        if wanted is not None and count != self._n_fields:
            raise ValueError(1, f"{count} fields where the file has {self._n_fields} columns")
        return fields

    def _pass_line(self) -> None:
        """Go on after the line where a refused record begins."""
        lines = self.lines
        lines.start = lines.buffer.index(b"\n", lines.start) + 1
        self._line += 1

    def _next_record(self) -> list[Any] | None:
        if self._pending is not None:
            first, self._pending = self._pending, None
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


class JsonlReader(_RecordReader):
    """Batches from JSON lines: one object a line.

    Parameters are those of `CsvReader` without the ones that concern separators.  Labels are
    strings or numbers (as text with ``label_type="str"``); a text field is a string; a number
    field a number.  `features` must be given when there is no `text`.

    Examples
    --------
    >>> import io
    >>> from osvm.stream import JsonlReader
    >>> data = io.BytesIO(b'{"stars": 5, "body": "Good"}\\n{"stars": 1, "body": "Awful"}\\n')
    >>> X, y = next(JsonlReader(data, label="stars", text="body", label_type="int"))
    >>> y
    array([5, 1])
    """

    def __init__(
        self,
        source: Any,
        *,
        label: str | None = "label",
        text: str | Sequence[str] | None = None,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        label_type: str = "str",
        tokenizer: HashingTokenizer | dict | None = None,
        batch_size: int = 4096,
        dtype: Any = np.float32,
        on_error: str = "raise",
        max_line: int = 1 << 25,
    ) -> None:
        if text is None and features is None:
            raise ValueError("JSON lines need text=... or features=...")
        super().__init__(
            source,
            label=label,
            text=text,
            features=features,
            weight=weight,
            label_type=label_type,
            tokenizer=tokenizer,
            batch_size=batch_size,
            dtype=dtype,
            on_error=on_error,
            max_line=max_line,
        )
        self._settle()

    def _next_record(self) -> list[Any] | None:
        lines = self.lines
        while True:
            if not self._fill():
                return None
            end = lines.buffer.index(b"\n", lines.start)
            line = bytes(lines.buffer[lines.start : end])
            lines.start = end + 1
            self._line += 1
            if line.strip():
                break
        try:
            record = json.loads(line.decode(), parse_constant=_refuse_constant)
        except json.JSONDecodeError as error:
            raise ValueError(error.colno, f"not JSON: {error.msg}") from None
        except UnicodeDecodeError as error:
            raise ValueError(error.start + 1, "the line is not UTF-8") from None
        except RecursionError:
            raise ValueError(1, "the JSON is nested too deeply") from None
        if not isinstance(record, dict):
            raise ValueError(1, "the line is not a JSON object")
        fields = []
        texts = self.text or ()
        for name in self._columns():
            value = record.get(name)
            if isinstance(value, str):
                fields.append(value.encode("utf-8", "replace"))
            elif isinstance(value, (int, float)) and not isinstance(value, bool):
                if name in texts:
                    raise ValueError(1, f"the field {name!r} is not text")
                fields.append(repr(value).encode())
            elif isinstance(value, bool) and name == self.label:
                fields.append(str(value).lower().encode())
            else:
                missing = "missing" if value is None else f"a {type(value).__name__}"
                raise ValueError(1, f"the field {name!r} is {missing}")
        return fields

    def config(self) -> dict[str, Any]:
        return {"format": "jsonl", **super().config()}


def _refuse_constant(text: str) -> Any:
    raise ValueError(1, f"{text} is not a finite number")


class ParquetReader(Reader):
    """Batches from a Parquet file, when pyarrow is installed.

    Parameters
    ----------
    source : str or path
    label : str or None
        Column of the label; None when there is none.
    indices, values : str, optional
        List columns with the column numbers and the values of each row (the values are 1
        when there is no such column).
    text : str or list of str, optional
        Text columns, joined by a space and hashed.
    features : list of str, optional
        Number columns; the default, without `indices` and `text`, is all others.
    weight : str, optional
    n_features : int, optional
        Columns, with `indices`; found by a first pass over that column otherwise.
    tokenizer, batch_size, dtype
        As in `CsvReader`.
    """

    def __init__(
        self,
        source: Any,
        *,
        label: str | None = "label",
        indices: str | None = None,
        values: str | None = None,
        text: str | Sequence[str] | None = None,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        n_features: int | None = None,
        tokenizer: HashingTokenizer | dict | None = None,
        batch_size: int = 4096,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__(batch_size=batch_size, on_error="raise")
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError:
            raise ImportError("reading Parquet needs the package 'pyarrow'") from None
        if sum(part is not None for part in (indices, text, features)) > 1:
            raise ValueError("give one of indices, text and features")
        self.dtype = check_dtype(dtype)
        self.name = str(source)
        self.label, self.weight, self.indices, self.values = label, weight, indices, values
        self.text = as_names(text)
        self.weighted = weight is not None
        try:
            self._file = pq.ParquetFile(source)
        except (pa.ArrowInvalid, OSError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise FormatError(self.name, 0, 0, f"not a Parquet file: {error}") from error
        names = list(self._file.schema_arrow.names)
        self.features = as_names(features)
        if indices is None and text is None and features is None:
            self.features = [n for n in names if n not in (label, weight)]
        wanted = [label, weight, indices, values, *(self.text or ()), *(self.features or ())]
        self._names = [name for name in wanted if name is not None]
        for name in self._names:
            if name not in names:
                raise FormatError(
                    self.name, 0, 0, f"no column {name!r}; the columns are {', '.join(names)}"
                )
        self.tokenizer = make_tokenizer(tokenizer) if text is not None else None
        if self.tokenizer is not None:
            self.n_features = self.tokenizer.n_features
        elif self.features is not None:
            self.n_features = len(self.features)
        elif n_features is not None:
            self.n_features = n_features
        else:
            self.n_features = self._largest_index() + 1
        self._batches: Any = None
        self._skip = 0

    def _largest_index(self) -> int:
        import pyarrow.compute as pc

        largest = 0
        for batch in self._file.iter_batches(columns=[self.indices], batch_size=1 << 14):
            found = pc.max(pc.list_flatten(batch.column(0))).as_py()
            largest = max(largest, -1 if found is None else found)
        return largest

    def _read_batch(self) -> tuple | None:
        if self._batches is None:
            self._batches = self._file.iter_batches(
                batch_size=self.batch_size, columns=self._names, use_threads=False
            )
            for _ in range(self._skip):
                next(self._batches, None)
        batch = next(self._batches, None)
        if batch is None:
            return None
        self._skip += 1
        columns = dict(zip(batch.schema.names, batch.columns))
        for name, column in columns.items():
            if column.null_count:
                raise FormatError(
                    self.name, 0, 0, f"column {name!r} has missing values after row {self.n_rows}"
                )
        X = self._inputs(columns, batch.num_rows)
        if not np.isfinite(X.data).all():
            raise FormatError(self.name, 0, 0, f"a value is not finite after row {self.n_rows}")
        y = None if self.label is None else columns[self.label].to_numpy(zero_copy_only=False)
        if y is not None and y.dtype == object:
            y = np.array(y.tolist())
        if self.weight is None:
            return X, y
        weight = columns[self.weight].to_numpy(zero_copy_only=False).astype(np.float64)
        return X, y, weight

    def _inputs(self, columns: dict[str, Any], rows: int) -> csr_array:
        if self.tokenizer is not None:
            assert self.text is not None
            texts = zip(*(columns[name].to_pylist() for name in self.text))
            return self.tokenizer.transform((" ".join(parts) for parts in texts), self.dtype)
        if self.features is not None:
            dense = [columns[name].to_numpy(zero_copy_only=False) for name in self.features]
            return csr_array(np.stack(dense, axis=1).astype(self.dtype))
        lists = columns[self.indices]  # type: ignore[index]
        offsets = np.asarray(lists.offsets)
        flat = lists.values.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]]
        if len(flat) and (flat.min() < 0 or flat.max() >= self.n_features):
            raise FormatError(
                self.name,
                0,
                0,
                f"an index after row {self.n_rows} is negative or not below "
                f"n_features={self.n_features}",
            )
        index_type = np.int64 if self.n_features > 2**31 - 1 else np.int32
        indptr = (offsets - offsets[0]).astype(index_type)
        if self.values is None:
            data = np.ones(len(flat), self.dtype)
        else:
            other = columns[self.values]
            ends = np.asarray(other.offsets)
            if not np.array_equal(ends - ends[0], offsets - offsets[0]):
                raise FormatError(
                    self.name,
                    0,
                    0,
                    f"{self.indices!r} and {self.values!r} differ in length after row "
                    f"{self.n_rows}",
                )
            data = other.values.to_numpy(zero_copy_only=False)[ends[0] : ends[-1]]
            data = data.astype(self.dtype)
        return self._matrix(data, flat.astype(index_type), indptr)

    def _position(self) -> dict[str, Any]:
        return {"batch": self._skip}

    def _go(self, position: dict[str, Any]) -> None:
        self._skip = int(position.get("batch", 0))
        self._batches = None

    @property
    def feature_names(self) -> list[str] | None:
        return self.features

    def close(self) -> None:
        self._file.close()

    def config(self) -> dict[str, Any]:
        return {
            "format": "parquet",
            "label": self.label,
            "weight": self.weight,
            "indices": self.indices,
            "values": self.values,
            "text": self.text,
            "features": self.features,
            "n_features": self.n_features,
            "tokenizer": None if self.tokenizer is None else self.tokenizer.config(),
        }
