"""Reader of Vowpal Wabbit's text format, with Vowpal Wabbit's own columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from osvm.stream._vw import VwParser
from osvm.stream.base import ParsedReader


class VwReader(ParsedReader):
    """Batches ``(X, y, weight)`` from a file in Vowpal Wabbit's text format.

    Names are hashed as Vowpal Wabbit hashes them, to ``2**bits`` columns; a row may hold a
    column more than once (its values add up).

    Parameters
    ----------
    source : str, path or binary file object
        Plain or compressed; ``"-"`` is standard input.
    bits : int, default=18
        Columns are ``2**bits``.
    unlabelled : bool, default=False
        Accept lines without a label; their y is NaN.
    batch_size : int, default=4096
    dtype : float32 or float64, default=float32
    on_error : {"raise", "skip"}, default="raise"
    max_line : int, default=2**25

    Examples
    --------
    >>> import io
    >>> from osvm.stream import VwReader
    >>> data = io.BytesIO(b"1 2.0 'a|words the cat |n x:0.5\\n-1 |words dog\\n")
    >>> for X, y, weight in VwReader(data):
    ...     print(X.shape, X.nnz, y, weight)
    (2, 262144) 4 [ 1. -1.] [2. 1.]
    """

    weighted = True

    def __init__(
        self,
        source: Any,
        *,
        bits: int = 18,
        unlabelled: bool = False,
        batch_size: int = 4096,
        dtype: Any = np.float32,
        on_error: str = "raise",
        max_line: int = 1 << 25,
    ) -> None:
        super().__init__(
            source, batch_size=batch_size, dtype=dtype, on_error=on_error, max_line=max_line
        )
        self.bits = bits
        self.n_features = 1 << bits
        self.unlabelled = unlabelled
        self._parser = self.new_parser()

    def new_parser(self) -> VwParser:
        return VwParser(
            bits=self.bits,
            float32=self.dtype == np.float32,
            unlabelled=self.unlabelled,
            max_rows=self.batch_size,
        )

    def _batch(self, taken: tuple) -> tuple:
        values, indices, indptr, labels, weights = taken
        return self._matrix(values, indices, indptr), labels, weights

    def config(self) -> dict[str, Any]:
        return {"format": "vw", "bits": self.bits}
