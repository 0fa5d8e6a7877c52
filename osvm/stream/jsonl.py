"""Reader of JSON lines."""

from __future__ import annotations

import json
from typing import Any

from osvm.stream.records import RecordReader


class JsonlReader(RecordReader):
    """Batches from JSON lines: one object a line.

    Parameters are those of `CsvReader` without the ones that concern separators.  Labels are
    strings or numbers (as text with ``label_type="str"``); a text field is a string; a number
    field a number; with `label_separator` the label may also be a list.  `features` must be
    given when there is no `text`.

    Examples
    --------
    >>> import io
    >>> from osvm.stream import JsonlReader
    >>> data = io.BytesIO(b'{"stars": 5, "body": "Good"}\\n{"stars": 1, "body": "Awful"}\\n')
    >>> X, y = next(JsonlReader(data, label="stars", text="body", label_type="int"))
    >>> y
    array([5, 1])
    """

    def _begin(self) -> None:
        if self._all_columns:
            raise ValueError("JSON lines need text=... or features=...")
        super()._begin()

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
            elif isinstance(value, list) and name == self.label and self.label_separator:
                fields.append(self._joined_labels(value))
            elif isinstance(value, bool) and name == self.label:
                fields.append(str(value).lower().encode())
            else:
                missing = "missing" if value is None else f"a {type(value).__name__}"
                raise ValueError(1, f"the field {name!r} is {missing}")
        return fields

    def _joined_labels(self, labels: list[Any]) -> bytes:
        """A list of labels as one field."""
        separator = self.label_separator
        assert separator is not None
        words = [label if isinstance(label, str) else repr(label) for label in labels]
        if any(separator in word or not word.strip() for word in words):
            raise ValueError(
                1, f"a label of {labels!r} is empty or contains the separator {separator!r}"
            )
        return separator.join(words).encode("utf-8", "replace")

    def config(self) -> dict[str, Any]:
        return {"format": "jsonl", **super().config()}


def _refuse_constant(text: str) -> Any:
    raise ValueError(1, f"{text} is not a finite number")
