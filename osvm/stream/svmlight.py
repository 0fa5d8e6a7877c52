"""Reader of svmlight / libsvm files.

Whether columns count from 0 or from 1, and how many there are, is settled for
the whole file before the first batch: by what the caller says or by a first
pass (which looks at the ends of the lines only and runs at memory speed).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from osvm.stream._svmlight import SvmlightParser, survey
from osvm.stream.base import ParsedReader
from osvm.stream.lines import LineSource, LineTooLong

MAX_LABELS = 100_000  # distinct labels that a survey keeps


class SvmlightReader(ParsedReader):
    """Batches from an svmlight / libsvm file.

    Parameters
    ----------
    source : str, path or binary file object
        Plain or compressed (gzip, bzip2, xz, zstd); ``"-"`` is standard input.
    n_features : int, optional
        Columns of X.  Found by a first pass over the file when it is not given; standard
        input cannot be read twice, so there it must be given.  A larger index is an error.
    zero_based : bool or "auto", default="auto"
        Whether indices count from 0.  "auto" takes the whole file: from 0 if index 0 occurs
        anywhere, from 1 otherwise; on standard input it means from 1, and index 0 is an error.
    batch_size : int, default=4096
        Rows of a batch; a batch also ends after a row that brings it to a million values.
    dtype : float32 or float64, default=float32
    multilabel : bool, default=False
        Read any number of labels per row; y is then a list of tuples.
    query_id : bool, default=False
        Give batches ``(X, y, qid)``.  Otherwise query ids are checked and dropped.
    on_error : {"raise", "skip"}, default="raise"
        What to do about a malformed line.
    max_line : int, default=2**25
        Longest line in bytes.

    Examples
    --------
    >>> import io
    >>> from osvm.stream import SvmlightReader
    >>> for X, y in SvmlightReader(io.BytesIO(b"1 1:0.5 3:2  # first\\n-1 2:1\\n")):
    ...     print(X.toarray(), y)
    [[0.5 0.  2. ]
     [0.  1.  0. ]] [ 1. -1.]
    """

    def __init__(
        self,
        source: Any,
        *,
        n_features: int | None = None,
        zero_based: bool | str = "auto",
        batch_size: int = 4096,
        dtype: Any = np.float32,
        multilabel: bool = False,
        query_id: bool = False,
        on_error: str = "raise",
        max_line: int = 1 << 25,
    ) -> None:
        if zero_based not in (True, False, "auto"):
            raise ValueError(f"zero_based must be True, False or 'auto', got {zero_based!r}")
        if n_features is not None and n_features < 1:
            raise ValueError(f"n_features must be at least 1, got {n_features}")
        super().__init__(
            source, batch_size=batch_size, dtype=dtype, on_error=on_error, max_line=max_line
        )
        self.multilabel = multilabel
        self.query_id = query_id
        self.labels: np.ndarray | None = None
        self.n_lines: int | None = None
        seekable = self.lines.bytes.seekable
        if n_features is None and not seekable:
            self.close()
            raise ValueError(
                f"{self.name} cannot be read twice to find the number of columns; pass n_features"
            )
        if seekable and (n_features is None or zero_based == "auto"):
            smallest, largest = self._survey(zero_based)
            if zero_based == "auto":
                zero_based = smallest == 0
            if n_features is None:
                n_features = max(1, largest + (1 if zero_based else 0))
        elif zero_based == "auto":
            zero_based = False
        self.zero_based = bool(zero_based)
        self.n_features = int(n_features)  # type: ignore[arg-type]
        self._parser = self.new_parser()

    def new_parser(self) -> SvmlightParser:
        return self._make_parser(0 if self.zero_based else 1, self.n_features)

    def _make_parser(self, base: int, limit: int) -> SvmlightParser:
        return SvmlightParser(
            float32=self.dtype == np.float32,
            base=base,
            limit=limit,
            max_rows=self.batch_size,
            multilabel=self.multilabel,
        )

    def _survey(self, zero_based: bool | str) -> tuple[int, int]:
        """Smallest and largest index of the file; also its labels.

        A malformed line will stop an ``on_error="raise"`` reader anyway, so there the ends of
        the lines suffice; when such lines are skipped they must not count, so there every
        line is parsed, and so are label sets.
        """
        if self.on_error == "skip" or self.multilabel:
            self._parser = self._make_parser(1 if zero_based is False else 0, 10**18)
            labels: set[float] = set()
            while self._collect():
                _, _, _, y, _, _ = self._parser.take()
                if len(labels) < MAX_LABELS:
                    labels.update(np.unique(y).tolist())
            self.n_lines = self._parser.lines
            found = self._parser.seen
            self.labels = np.array(sorted(labels))
            self.n_skipped, self.errors = 0, []
        else:
            found = self._survey_quickly()
        self.lines.seek(0)
        return found

    def _survey_quickly(self) -> tuple[int, int]:
        lines: LineSource = self.lines
        room = np.empty(0)
        smallest, largest, count = -1, -1, 0
        labels: np.ndarray = np.empty(0)
        while True:
            try:
                if not lines.fill():
                    break
            except LineTooLong:
                lines.discard_line()
                continue
            self._skip_mark()
            if len(room) < (lines.stop - lines.start) // 2:  # a row takes two bytes at least
                room = np.empty((lines.stop - lines.start) // 2)
            first, last, rows, n_lines = survey(lines.buffer, lines.start, lines.stop, room)
            lines.start = lines.stop
            if first >= 0:
                smallest = first if smallest < 0 else min(smallest, first)
            largest = max(largest, last)
            count += n_lines
            if len(labels) < MAX_LABELS:
                labels = np.union1d(labels, room[:rows])
        self.labels, self.n_lines = labels, count
        return smallest, largest

    def _batch(self, taken: tuple) -> tuple:
        values, indices, indptr, labels, label_ptr, qids = taken
        X = self._matrix(values, indices, indptr)
        if self.multilabel:
            y: Any = [tuple(labels[a:b].tolist()) for a, b in pairwise(label_ptr)]
        else:
            y = labels
        return (X, y, qids) if self.query_id else (X, y)

    def config(self) -> dict[str, Any]:
        return {
            "format": "svmlight",
            "n_features": self.n_features,
            "zero_based": self.zero_based,
            **({"multilabel": True} if self.multilabel else {}),
        }
