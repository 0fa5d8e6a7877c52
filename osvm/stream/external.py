"""All rows of a reader in uniformly random order, on disk where they do not fit in memory.

Scatter and gather: every row goes to one of `buckets` files, drawn at random; then each file is
read, permuted and given out, or scattered once more where it is larger than `memory_bytes`.  Since
the buckets are independent of the rows, the order is a uniform permutation, and each bucket is a
uniform sample: a block that is as mixed as the whole.

Invariants
- every row is given exactly once;
- the order depends on the seed, the batches of the reader, `buckets` and `memory_bytes` alone;
- about `memory_bytes` are held; the folder of the buckets is removed at the end.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from osvm._input.parameters import make_generator
from osvm.stream.base import Reader, WrappedReader
from osvm.stream.batches import cut_rows, gather_rows

AGAIN = 16  # buckets of a bucket that is too large,
DEEPEST = 4  # so often; what is still too large are long rows
BATCH = 4096  # rows of a batch
SHARE = 4  # of the memory: rows that wait to be scattered, of which copies are made


class ExternalShuffle(WrappedReader):
    """The rows of another reader, permuted.

    Parameters
    ----------
    reader : Reader
        Read to its end at the first batch.
    buckets : int
    memory_bytes : int
    folder : path
        Where the files go, in a folder of their own.
    random_state : int, optional

    Examples
    --------
    >>> import io, tempfile
    >>> from osvm.stream import SvmlightReader
    >>> lines = b"".join(b"%d 1:%d\\n" % (k, k) for k in range(9))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     shuffled = ExternalShuffle(
    ...         SvmlightReader(io.BytesIO(lines)), 2, 10**6, folder, random_state=0
    ...     )
    ...     rows = [int(k) for X, y in shuffled for k in y]
    >>> sorted(rows) == list(range(9)), rows == list(range(9))
    (True, False)
    """

    def __init__(
        self,
        reader: Reader,
        buckets: int,
        memory_bytes: int,
        folder: Any,
        random_state: Any = None,
    ) -> None:
        super().__init__(reader, batch_size=BATCH)
        self.buckets, self.memory_bytes = buckets, memory_bytes
        self._generator = make_generator(random_state)
        self._folder = tempfile.TemporaryDirectory(prefix=".shuffle-", dir=folder)
        self._rows: Iterator[tuple] | None = None
        self._scattered = False
        self._sizes: Counter[str] = Counter()  # bytes of the rows in each file

    @property
    def feature_names(self) -> list[str] | None:
        return getattr(self.reader, "feature_names", None)

    def _read_batch(self) -> tuple | None:
        if self._rows is None:
            self._rows = (b for k in range(self.buckets) for b in self._bucket(k))
        return next(self._rows, None)

    def go_to(self, bucket: int) -> None:
        """Give the rows of one bucket, then end."""
        self._rows, self._finished, self.n_rows = self._bucket(bucket), False, 0

    def _bucket(self, number: int) -> Iterator[tuple]:
        if not self._scattered:
            self._scatter(self.reader, "", self.buckets)
            self._scattered = True
        return self._gather(str(number))

    def _scatter(self, batches: Iterable[tuple], prefix: str, buckets: int) -> None:
        waiting: list[tuple] = []
        size = 0
        for batch in batches:
            waiting.append(batch)
            size += _size(batch)
            if size > self.memory_bytes // SHARE:
                self._write(waiting, prefix, buckets)
                size = 0
        if waiting:
            self._write(waiting, prefix, buckets)

    def _write(self, waiting: list[tuple], prefix: str, buckets: int) -> None:
        """Append the rows to the files of their buckets; `waiting` is emptied."""
        drawn = self._generator.integers(buckets, size=sum(batch[0].shape[0] for batch in waiting))
        order = np.argsort(drawn, kind="stable")
        ends = np.searchsorted(drawn[order], np.arange(buckets + 1)).tolist()
        rows = gather_rows(waiting, order)
        waiting.clear()
        for k in range(buckets):
            if ends[k] < ends[k + 1]:
                part, name = cut_rows(rows, ends[k], ends[k + 1]), f"{prefix}{k}"
                self._sizes[name] += _size(part)
                with open(self._path(name), "ab") as file:
                    _save(file, part)

    def _gather(self, name: str) -> Iterator[tuple]:
        """The rows of a bucket in random order; its file is removed."""
        path = self._path(name)
        size = self._sizes.pop(name, 0)
        if not size:
            return
        if size > self.memory_bytes // SHARE and name.count("-") < DEEPEST:
            with open(path, "rb") as file:
                self._scatter(self._chunks(file), f"{name}-", AGAIN)
            os.unlink(path)
            for k in range(AGAIN):
                yield from self._gather(f"{name}-{k}")
            return
        with open(path, "rb") as file:
            chunks = list(self._chunks(file))
        os.unlink(path)
        n_rows = sum(chunk[0].shape[0] for chunk in chunks)
        rows = gather_rows(chunks, self._generator.permutation(n_rows))
        chunks.clear()
        for start in range(0, n_rows, self.batch_size):
            yield cut_rows(rows, start, min(start + self.batch_size, n_rows))

    def _chunks(self, file: Any) -> Iterator[tuple]:
        end = os.fstat(file.fileno()).st_size
        while file.tell() < end:
            yield _load(file, self.n_features)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder.name, name)

    def get_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        raise ValueError("rows that are shuffled on disk have no place to come back to")

    def close(self) -> None:
        self._folder.cleanup()
        super().close()


def _size(batch: tuple) -> int:
    X = batch[0]
    return X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + 32 * X.shape[0]


def _save(file: Any, batch: tuple) -> None:
    """Arrays one after the other; label sets as their lengths and all labels."""
    X, *columns = batch
    arrays: list[Any] = [X.data, X.indices, X.indptr]
    kinds = []
    for column in columns:
        kinds.append(0 if column is None else 2 if isinstance(column, list) else 1)
        if kinds[-1] == 2:
            arrays += [[len(labels) for labels in column], [one for row in column for one in row]]
        elif kinds[-1] == 1:
            arrays.append(column)
    for array in (kinds, *arrays):
        np.save(file, np.asarray(array), allow_pickle=False)


def _load(file: Any, n_features: int) -> tuple:
    """What `_save` has written."""

    def array() -> np.ndarray:
        return np.load(file, allow_pickle=False)

    kinds = array().tolist()
    data, indices, indptr = array(), array(), array()
    columns: list[Any] = [csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_features))]
    for kind in kinds:
        if kind == 2:
            ends = np.cumsum([0, *array().tolist()]).tolist()
            flat = array().tolist()
            columns.append([tuple(flat[a:b]) for a, b in zip(ends, ends[1:])])  # noqa: RUF007
        else:
            columns.append(array() if kind else None)
    return tuple(columns)
