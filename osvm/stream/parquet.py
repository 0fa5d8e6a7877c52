"""Reader of Parquet and Arrow files and of Arrow tables, through pyarrow.

A row's features are number columns (one column of X each), text columns (hashed), a pair
of list columns (column numbers and values, as ``osvm convert`` writes them), or one list
column of equal lengths (a dense vector).

Invariants
- nulls, NaN, infinities, indices out of range and columns of another type are errors that
  name the column and the row, never values;
- one record batch is in memory at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from osvm.stream.base import Reader, check_dtype
from osvm.stream.open import FormatError
from osvm.stream.records import as_names
from osvm.stream.text import check_label_type
from osvm.stream.tokenizer import HashingTokenizer

N_FEATURES = b"osvm.n_features"  # metadata of files that osvm writes


class ParquetReader(Reader):
    """Batches from a Parquet or Arrow file, or an Arrow table, when pyarrow is installed.

    Parameters
    ----------
    source : str, path or pyarrow.Table
        A Parquet file, an Arrow IPC file (Feather), or a table in memory.
    label : str or None
        Column of the label; None when there is none.
    indices, values : str, optional
        List columns with the column numbers and the values of each row.  Without `values`
        they are 1; without `indices` all lists have one length and are dense rows.
    text : str or list of str, optional
        Text columns, joined by a space and hashed.
    features : list of str, optional
        Number columns.  When none of `indices`, `values`, `text` and `features` is given, the
        list columns "indices" and "values" are taken if they exist, otherwise all columns but
        label and weight.
    weight : str, optional
        Column of weights; batches are then ``(X, y, weight)``.
    n_features : int, optional
        Columns, with `indices`; otherwise told by the file's metadata, or found by a first
        pass over that column.
    label_type : {"str", "int", "float"}, optional
        The column's own type by default.
    multilabel : bool, default=False
        The label's column is a list column; y is then a list of tuples.
    tokenizer, batch_size, dtype
        As in `CsvReader`.

    Examples
    --------
    >>> import pyarrow as pa  # doctest: +SKIP
    >>> table = pa.table({"label": [1, 0], "indices": [[0, 3], [1]]})  # doctest: +SKIP
    >>> X, y = next(ParquetReader(table))  # doctest: +SKIP
    >>> X.shape  # doctest: +SKIP
    (2, 4)
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
        label_type: str | None = None,
        multilabel: bool = False,
        tokenizer: HashingTokenizer | dict | None = None,
        batch_size: int = 4096,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__(batch_size=batch_size, on_error="raise")
        lists = indices is not None or values is not None
        if lists + (text is not None) + (features is not None) > 1:
            raise ValueError("give one of indices (and values), text and features")
        self.dtype = check_dtype(dtype)
        self.label_type = None if label_type is None else check_label_type(label_type)
        self.multilabel = multilabel
        self.weighted = weight is not None
        self._table = _Table(source)
        self.name = self._table.name
        names = self._table.names
        self.label, self.weight, self.indices, self.values = label, weight, indices, values
        self.text, self.features = as_names(text), as_names(features)
        if not lists and text is None and features is None:
            if "indices" in names and self._table.is_list("indices"):
                self.indices = "indices"
                if "values" in names and self._table.is_list("values"):
                    self.values = "values"
            else:
                self.features = [n for n in names if n not in (label, weight)]
                if not self.features:
                    raise ValueError(f"{self.name} has no column left for the features")
        wanted = [label, weight, self.indices, self.values, *(self.text or self.features or ())]
        self._names = [name for name in wanted if name is not None]
        for name in self._names:
            if name not in names:
                raise FormatError(
                    self.name, 0, 0, f"no column {name!r}; the columns are {', '.join(names)}"
                )
        if self.text is not None:
            self._set_tokenizer(tokenizer)
            self.left_out = [name for name in names if name not in self._names]
        self.n_features = self._count_columns(n_features)
        self._batches: Iterator[Any] | None = None
        self._used = 0  # batches

    def _count_columns(self, n_features: int | None) -> int:
        """The width of X."""
        if self.tokenizer is not None:
            return self.tokenizer.n_features
        if self.features is not None:
            return len(self.features)
        if n_features is not None:
            if n_features < 1:
                raise ValueError(f"n_features must be at least 1, got {n_features}")
            return n_features
        if self.indices is None:  # dense lists: the first row tells
            first = next(self._table.batches([self.values], 1), None)
            length = 0 if first is None else self._list(first.column(0), self.values)[1][0]
            return max(1, int(length))
        stated = self._table.metadata.get(N_FEATURES)
        if stated is not None and stated.isdigit() and 0 < int(stated) < 2**62:
            return int(stated)
        largest = 0
        for batch in self._table.batches([self.indices], 1 << 14):
            flat, _ = self._list(batch.column(0), self.indices)
            if len(flat):
                largest = max(largest, int(flat.max()))
        return largest + 1

    # ------------------------------------------------------------- batches

    def _read_batch(self) -> tuple | None:
        if self._batches is None:
            self._batches = self._table.batches(self._names, self.batch_size)
            for _ in range(self._used):
                next(self._batches, None)
        batch = next(self._batches, None)
        if batch is None:
            return None
        self._used += 1
        columns = dict(zip(batch.schema.names, batch.columns))
        for name, column in columns.items():
            if column.null_count:
                row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
                raise self._wrong(f"column {name!r} has no value in row {self.n_rows + row}")
        X = self._inputs(columns)
        if not np.isfinite(X.data).all():
            place = int(np.flatnonzero(~np.isfinite(X.data))[0])
            row = int(np.searchsorted(X.indptr, place, side="right")) - 1
            raise self._wrong(f"a value in row {self.n_rows + row} is not finite")
        y = None if self.label is None else self._labels(columns[self.label])
        if self.weight is None:
            return X, y
        weight = self._numbers(columns[self.weight], self.weight).astype(np.float64)
        if not (np.isfinite(weight).all() and (weight >= 0).all()):
            raise self._wrong(
                f"column {self.weight!r} has a weight that is negative or not finite"
            )
        return X, y, weight

    def _wrong(self, reason: str) -> FormatError:
        return FormatError(self.name, 0, 0, reason)

    def _inputs(self, columns: dict[str, Any]) -> csr_array:
        if self.tokenizer is not None:
            assert self.text is not None
            texts = zip(*(self._texts(columns[name], name) for name in self.text))
            return self.tokenizer.read_rows((" ".join(parts) for parts in texts), self.dtype)
        if self.features is not None:
            dense = [self._numbers(columns[name], name) for name in self.features]
            with np.errstate(over="ignore"):
                return csr_array(np.stack(dense, axis=1).astype(self.dtype))
        return self._dense_lists(columns) if self.indices is None else self._lists(columns)

    def _lists(self, columns: dict[str, Any]) -> csr_array:
        """Column numbers and values."""
        flat, lengths = self._list(columns[self.indices], self.indices)  # type: ignore[index]
        if len(flat) and flat.max() >= self.n_features:
            row = int(np.repeat(np.arange(len(lengths)), lengths)[np.argmax(flat)])
            raise self._wrong(
                f"an index in row {self.n_rows + row} is {flat.max()}, which is not below "
                f"n_features={self.n_features}"
            )
        if self.values is None:
            data = np.ones(len(flat), self.dtype)
        else:
            found, other = self._list(columns[self.values], self.values)
            if not np.array_equal(lengths, other):
                row = int(np.flatnonzero(lengths != other)[0])
                raise self._wrong(
                    f"{self.indices!r} and {self.values!r} differ in length in row "
                    f"{self.n_rows + row}"
                )
            with np.errstate(over="ignore"):
                data = found.astype(self.dtype)
        kind = np.int64 if self.n_features > 2**31 - 1 else np.int32
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(kind)
        return self._matrix(data, flat.astype(kind), indptr)

    def _dense_lists(self, columns: dict[str, Any]) -> csr_array:
        """Values of rows that are all of one length."""
        assert self.values is not None
        flat, lengths = self._list(columns[self.values], self.values)
        if (lengths != self.n_features).any():
            row = int(np.flatnonzero(lengths != self.n_features)[0])
            raise self._wrong(
                f"{self.values!r} has {lengths[row]} values in row {self.n_rows + row} and "
                f"{self.n_features} before; name the column numbers with indices"
            )
        with np.errstate(over="ignore"):
            return csr_array(flat.reshape(-1, self.n_features).astype(self.dtype))

    # ------------------------------------------------------------- columns

    def _list(self, column: Any, name: str | None) -> tuple[np.ndarray, np.ndarray]:
        """A list column as one flat array, and the lengths of its lists."""
        import pyarrow.compute as pc

        if not _is_list(column.type):
            raise self._wrong(f"column {name!r} is {column.type}, not a list")
        flat = pc.list_flatten(column)
        if flat.null_count or column.null_count:
            raise self._wrong(f"column {name!r} has missing values after row {self.n_rows}")
        lengths = np.asarray(pc.list_value_length(column)).astype(np.int64)
        numbers = self._numbers(flat, name)
        if name == self.indices:
            if numbers.dtype.kind not in "iu":
                raise self._wrong(f"column {name!r} holds {flat.type}, not whole numbers")
            if len(numbers) and numbers.min() < 0:
                raise self._wrong(f"column {name!r} has a negative index after row {self.n_rows}")
        return numbers, lengths

    def _numbers(self, column: Any, name: str | None) -> np.ndarray:
        import pyarrow as pa

        kind = column.type
        if not (
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        ):
            raise self._wrong(f"column {name!r} holds {kind}, not numbers; name it in text?")
        numbers = column.to_numpy(zero_copy_only=False)
        return numbers.astype(np.int8) if numbers.dtype == bool else numbers

    def _texts(self, column: Any, name: str) -> list[str]:
        texts = column.to_pylist()
        if any(not isinstance(text, str) for text in texts):
            raise self._wrong(f"column {name!r} holds {column.type}, not text")
        return texts

    def _labels(self, column: Any) -> Any:
        import pyarrow.compute as pc

        if self.multilabel:
            if not _is_list(column.type):
                raise self._wrong(f"column {self.label!r} is {column.type}, not a list of labels")
            flat = pc.list_flatten(column)
            if flat.null_count:
                raise self._wrong(f"column {self.label!r} has missing labels")
            labels = self._flat_labels(flat).tolist() if len(flat) else []
            ends = np.cumsum(np.asarray(pc.list_value_length(column))).tolist()
            return [tuple(labels[a:b]) for a, b in zip([0, *ends], ends)]
        if _is_list(column.type):
            raise self._wrong(
                f"column {self.label!r} holds lists; several labels need multilabel=True "
                "(--multilabel)"
            )
        return self._flat_labels(column)

    def _flat_labels(self, column: Any) -> np.ndarray:
        import pyarrow as pa

        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        y = column.to_numpy(zero_copy_only=False)
        if y.dtype == object:
            y = np.array(y.tolist())
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise self._wrong(f"a label after row {self.n_rows} is not finite")
        if self.label_type is None:
            return y
        if self.label_type == "str":
            whole = y.dtype.kind == "f" and ((y == np.rint(y)) & (np.abs(y) < 2**53)).all()
            return (y.astype(np.int64) if whole else y).astype(np.str_)
        if self.label_type == "int" and y.dtype.kind in "biu" and (y <= 2**63 - 1).all():
            return y.astype(np.int64)  # not through float64, where large ones are rounded
        try:
            numbers = y.astype(np.float64)
        except ValueError:
            raise self._wrong(f"column {self.label!r} holds labels that are not numbers") from None
        if self.label_type == "float":
            return numbers
        if ((numbers != np.rint(numbers)) | (np.abs(numbers) >= 2**53)).any():
            raise self._wrong(f"column {self.label!r} holds labels that are not integers")
        return numbers.astype(np.int64)

    # ---------------------------------------------------------------- misc.

    def _position(self) -> dict[str, Any]:
        return {"batch": self._used}

    def _go(self, position: dict[str, Any]) -> None:
        self._used = int(position.get("batch", 0))
        self._batches = None

    @property
    def numeric_labels(self) -> bool:
        """Whether labels are numbers."""
        import pyarrow as pa

        if self.label is None or self.label_type is not None:
            return self.label_type != "str"
        kind = self._table.schema.field(self.label).type
        kind = kind.value_type if self.multilabel and _is_list(kind) else kind
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns of X; None when they have none."""
        return self.features

    def close(self) -> None:
        self._table.close()

    def config(self) -> dict[str, Any]:
        columns = "label", "weight", "indices", "values", "text", "features"
        others = "n_features", "label_type", "multilabel", "tokenizer"
        return {"format": "parquet", **self._named(*columns, *others)}


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


class _Table:
    """A Parquet file, an Arrow file or an Arrow table: names, types and record batches."""

    def __init__(self, source: Any) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError:
            raise ImportError("reading Parquet needs the package 'pyarrow'") from None
        self.parquet: Any = None
        self.arrow: Any = None
        self.memory: Any = None
        if isinstance(source, pa.Table):
            self.name, self.memory = "<table>", source
            schema = source.schema
        elif not isinstance(source, (str, os.PathLike)):
            raise TypeError(f"expected a path or a pyarrow.Table, got {type(source).__name__}")
        elif os.fspath(source) == "-":
            raise ValueError("Parquet cannot come through a pipe; give the file's name")
        else:
            self.name = str(source)
            with open(source, "rb") as file:
                magic = file.read(6)
            try:
                if magic == b"ARROW1":
                    self._map = pa.memory_map(self.name)
                    self.arrow = pa.ipc.open_file(self._map)
                    schema = self.arrow.schema
                else:
                    self.parquet = pq.ParquetFile(source)
                    schema = self.parquet.schema_arrow
                list(schema.names)  # as text
            except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
                raise self._broken(error) from error
        self.schema = schema
        self.names = list(schema.names)
        self.metadata: dict[bytes, bytes] = schema.metadata or {}

    def _broken(self, error: Exception) -> FormatError:
        reason = " ".join(str(error).split())
        return FormatError(self.name, 0, 0, f"not a sound Parquet or Arrow file: {reason}")

    def is_list(self, name: str) -> bool:
        return _is_list(self.schema.field(name).type)

    def batches(self, columns: Sequence[Any], size: int) -> Iterator[Any]:
        """Record batches of at most `size` rows, none of them empty."""
        import pyarrow as pa

        try:
            if self.parquet is not None:
                source = self.parquet.iter_batches(
                    batch_size=size, columns=list(columns), use_threads=False
                )
            elif self.arrow is not None:
                count = self.arrow.num_record_batches
                source = (self.arrow.get_batch(k).select(list(columns)) for k in range(count))
            else:
                source = iter(self.memory.select(list(columns)).to_batches())
            for batch in source:
                if self.memory is None:
                    batch.validate(full=True)  # text that is UTF-8, lists within their values
                for start in range(0, batch.num_rows, size):
                    yield batch.slice(start, size)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise self._broken(error) from error

    def close(self) -> None:
        if self.parquet is not None:
            self.parquet.close()
        elif self.arrow is not None:
            self._map.close()
