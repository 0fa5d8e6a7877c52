"""Names for hashed columns: which terms of the training text carry the largest weights.

Hashing cannot be undone, so after training the text is read once more (its
first part only) and the terms that fall into the columns with the largest
weights are kept with the model, for ``osvm inspect``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from osvm.stream._text import HashingTokenizer
from osvm.stream.formats import read

TOP = 200  # columns per output and sign
MAX_BYTES = 64_000_000  # of text that is read again
MAX_TERMS = 3  # per column


class TermFinder(HashingTokenizer):
    """A tokenizer that notes the terms of the wanted columns and gives empty rows."""

    def watch(self, columns: np.ndarray) -> None:
        self.wanted = np.zeros(self.n_features, np.uint8)
        self.wanted[columns] = 1
        self.found: dict[int, list[str]] = {int(column): [] for column in columns}

    def add(self, builder: Any, document: Any) -> None:
        self._note(self.find(document, self.wanted))
        HashingTokenizer.add(self, builder, b"")

    def add_line(self, builder: Any, buffer: Any, start: int, stop: int) -> None:
        self.add(builder, bytes(buffer[start:stop]))

    def _note(self, terms: list[tuple[int, bytes]]) -> None:
        for column, term in terms:
            names = self.found[column]
            if len(names) < MAX_TERMS:
                text = term.decode("utf-8", "replace")
                if text not in names:
                    names.append(text)


def largest_columns(model: Any, top: int = TOP) -> np.ndarray:
    """Columns with the largest weights of each output, of either sign."""
    coef = getattr(model, "coef_", None)
    if coef is None:
        return np.empty(0, np.int64)
    coef = np.atleast_2d(coef.toarray() if hasattr(coef, "toarray") else coef)
    chosen: set[int] = set()
    for row in coef:
        k = min(2 * top, len(row))
        best = np.argpartition(-np.abs(row), k - 1)[:k]
        chosen.update(best[row[best] != 0].tolist())
    return np.array(sorted(chosen), dtype=np.int64)


def find_terms(model: Any, source: Any, config: dict[str, Any]) -> dict[str, list[str]] | None:
    """Terms by column number (as text, for JSON); None where there is no text to read."""
    if not config.get("tokenizer") or source == "-" or not hasattr(model, "coef_"):
        return None
    columns = largest_columns(model)
    if not len(columns):
        return None
    finder = TermFinder(**config["tokenizer"])
    finder.watch(columns)
    options = {k: v for k, v in config.items() if k not in ("format", "tokenizer", "n_features")}
    if config["format"] != "parquet":
        options["on_error"] = "skip"
    with read(source, config["format"], tokenizer=finder, **options) as reader:
        for _ in reader:
            if reader.bytes_read > MAX_BYTES:
                break
    return {str(column): names for column, names in finder.found.items() if names}
