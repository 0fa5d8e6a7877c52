"""What readers of records with named fields share: CSV and JSON lines.

A record's features come either from text columns, through the compiled
tokenizer, or from number columns, one column of X each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from osvm.stream._parsing import CsrBuilder, read_double
from osvm.stream.base import LineReader
from osvm.stream.open import FormatError
from osvm.stream.text import (
    MAX_VALUES,
    check_label_separator,
    check_label_type,
    label_array,
    read_labels,
)
from osvm.stream.tokenizer import HashingTokenizer


def as_names(names: str | Sequence[str] | None) -> list[str] | None:
    if names is None:
        return None
    return [names] if isinstance(names, str) else [str(name) for name in names]


class RecordReader(LineReader):
    """Rows from records: what CSV and JSON lines share."""

    def __init__(
        self,
        source: Any,
        *,
        label: str | None = "label",
        text: str | Sequence[str] | None = None,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        label_type: str = "str",
        label_separator: str | None = None,
        tokenizer: HashingTokenizer | dict | None = None,
        batch_size: int = 4096,
        dtype: Any = np.float32,
        on_error: str = "raise",
        max_line: int = 1 << 25,
    ) -> None:
        if text is not None and features is not None:
            raise ValueError("give text or features, not both")
        super().__init__(
            source, batch_size=batch_size, dtype=dtype, on_error=on_error, max_line=max_line
        )
        self.label, self.weight = label, weight
        self.text = as_names(text)
        self.features = as_names(features)
        self.label_type = check_label_type(label_type)
        self.label_separator = label_separator
        self._label_separator = check_label_separator(label_separator)
        self.weighted = weight is not None
        if self.text:
            self._set_tokenizer(tokenizer)
        self._all_columns = text is None and features is None  # none was named
        self._line = 0  # lines used so far
        self._builder = CsrBuilder()
        self._begin()

    def _begin(self) -> None:
        """Settle the columns, `features` and `n_features`."""
        if self.tokenizer is not None:
            self.n_features = self.tokenizer.n_features
            return
        assert self.features is not None
        if not self.features:
            raise FormatError(self.name, 1, 1, "no column is left for the features")
        self.n_features = len(self.features)

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
        add = self.tokenizer.hasher.add if self.tokenizer is not None else None
        while rows < self.batch_size and self._builder.n_values < MAX_VALUES:
            if self.eager and rows and self.lines.start >= self.lines.stop:
                break
            line = self._line + 1
            try:
                record = self._next_record()
                if record is None:
                    break
                label, weight, inputs = self._read_fields(record)
            except FormatError:  # broken compression: there is no next record
                raise
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
        y = None
        if self.label is not None:
            y = label_array(labels, self.label_type, self._label_separator)
        return (X, y, np.array(weights)) if self.weighted else (X, y)

    def _read_fields(self, record: list[Any]) -> tuple[Any, float | None, Any]:
        """Label, weight and inputs from the fields of a record."""
        k = 0
        label = weight = None
        if self.label is not None:
            label = read_labels(record[0], self.label_type, self._label_separator)
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
            shown = field[:40].decode("utf-8", "replace")
            hint = ""
            if self._all_columns:
                hint = "; name columns of text with text (--text), or of numbers with features"
            raise ValueError(
                f"column {name!r} holds {shown!r}, which is not a finite number{hint}"
            )
        return value

    def _columns(self) -> list[str]:
        """Names of the fields of a record, in the order that `_read_fields` wants."""
        out = [name for name in (self.label, self.weight) if name is not None]
        return out + (self.text or self.features or [])

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns of X; None when they are hashed."""
        return self.features

    def _position(self) -> dict[str, Any]:
        return {"offset": self.lines.offset, "line": self._line}

    def _go(self, position: dict[str, Any]) -> None:
        self.lines.seek(int(position["offset"]))
        self._line = int(position["line"])

    def _fill(self) -> bool:
        try:
            return super()._fill()
        except FormatError:
            raise
        except ValueError:
            self.lines.discard_line()
            self._line += 1
            raise

    def config(self) -> dict[str, Any]:
        return self._named(
            "label", "text", "features", "weight", "label_type", "label_separator", "tokenizer"
        )
