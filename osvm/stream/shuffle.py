"""Shuffling a stream through a reservoir of bounded size.

The reservoir fills with up to `size` rows; then its rows are put in random
order, the first half is given out and the second half stays to mix with what
comes.  Each row is copied about twice, and the distance that a row can travel
is unbounded, as with the one-at-a-time reservoir.  Another thread may copy the
half that stays while the first one is used.

Invariant: every row is given exactly once per pass, and the state (the rows in
the reservoir and the generator) goes into checkpoints.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from osvm._input.parameters import (
    check_integer,
    generator_state,
    make_generator,
    restore_generator,
)
from osvm.stream.base import WrappedReader, check_batch_size
from osvm.stream.batches import cut_rows, gather_rows
from osvm.stream.iterables import as_reader


class ShuffledReader(WrappedReader):
    """The rows of another reader in random order.

    Parameters
    ----------
    reader : Reader or iterable of (X, y)
        X must be CSR.
    size : int, default=65536
        Rows that the reservoir holds.
    max_values : int, default=2**21
        Values that it holds; it is full when either is reached.
    batch_size : int, optional
        Rows of a batch; that of the inner reader by default.
    random_state : int, optional
    threads : int, default=1
        With two and more, one of them copies the rows that stay while others are used; their
        order does not depend on it.

    Examples
    --------
    >>> import io
    >>> from osvm.stream import ShuffledReader, SvmlightReader
    >>> lines = b"".join(b"%d 1:%d\\n" % (k, k) for k in range(8))
    >>> reader = ShuffledReader(SvmlightReader(io.BytesIO(lines)), random_state=0)
    >>> X, y = next(reader)
    >>> sorted(y.tolist()) == list(range(8)), y.tolist() == list(range(8))
    (True, False)
    """

    def __init__(
        self,
        reader: Any,
        *,
        size: int = 65536,
        max_values: int = 1 << 21,
        batch_size: int | None = None,
        random_state: Any = None,
        threads: int = 1,
    ) -> None:
        super().__init__(as_reader(reader), batch_size=batch_size)
        self.size = check_batch_size(size)
        self.max_values = check_batch_size(max_values)
        self._generator = make_generator(random_state)
        threads = check_integer("threads", threads, 1)
        self._pool = ThreadPoolExecutor(1) if threads > 1 else None
        self._empty()

    def _empty(self) -> None:
        self._parts: list[tuple] = []  # batches that wait to be mixed
        self._waiting = 0
        self._mixed: tuple | None = None  # rows in random order
        self._next = 0  # the first row of it that was not given
        self._give = 0  # rows of it that may be given
        self._later: Future | None = None  # the rows that come after those of it, and stay
        self._dry = False

    def _mix(self) -> bool:
        """Fill the reservoir and put it in random order; False when nothing is left."""
        if self._mixed is not None:
            rest = self._from(self._give)
            self._parts, self._waiting = [rest], rest[0].shape[0]
            self._mixed = self._later = None
        values = sum(_count(part[0]) for part in self._parts)
        while self._waiting < self.size and values < self.max_values and not self._dry:
            batch = next(self.reader, None)
            if batch is None:
                self._dry = True
                break
            self._parts.append(batch)
            self._waiting += batch[0].shape[0]
            values += _count(batch[0])
        if not self._waiting:
            return False
        rows, parts = self._waiting, self._parts
        self._parts, self._waiting = [], 0
        order = self._generator.permutation(rows)
        self._next = 0
        self._give = give = rows if self._dry else max(1, rows // 2)
        if self._pool is not None and give < rows:
            self._later = self._pool.submit(gather_rows, parts, order[give:])
            order = order[:give]
        self._mixed = gather_rows(parts, order)
        return True

    def _from(self, start: int) -> tuple:
        """The rows in random order from one on, those that stay among them."""
        assert self._mixed is not None
        held = cut_rows(self._mixed, start, self._mixed[0].shape[0])
        if self._later is None:
            return held
        later = self._later.result()
        if not held[0].shape[0]:
            return later
        rows = held[0].shape[0] + later[0].shape[0]
        return gather_rows([held, later], np.arange(rows))

    def _read_batch(self) -> tuple | None:
        if (self._mixed is None or self._next >= self._give) and not self._mix():
            return None
        assert self._mixed is not None
        stop = min(self._next + self.batch_size, self._give)
        batch = cut_rows(self._mixed, self._next, stop)
        self._next = stop
        return batch

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        super().close()

    def rewind(self) -> None:
        """Start the data anew; the order will be another one."""
        super().rewind()
        self._empty()

    def get_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        scalars, arrays = super().get_state()
        scalars |= {
            "dry": self._dry,
            "give": self._give - self._next,
            "generator": generator_state(self._generator),
        }
        if self._mixed is not None:
            held = self._from(self._next)
            X = csr_array(held[0])
            arrays.update(values=X.data, indices=X.indices, indptr=X.indptr)
            scalars["columns"] = len(held) - 1
            for k, part in enumerate(held[1:]):
                if isinstance(part, np.ndarray) and part.dtype.kind in "biuf":
                    arrays[f"column{k}"] = part
                else:  # label sets, text, nothing
                    scalars[f"column{k}"] = part
        return scalars, arrays

    def set_state(self, scalars: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        super().set_state(scalars, arrays)
        self._empty()
        self._dry = bool(scalars["dry"])
        self._generator = restore_generator(scalars["generator"])
        if "values" in arrays:
            shape = (len(arrays["indptr"]) - 1, self.n_features)
            X = csr_array((arrays["values"], arrays["indices"], arrays["indptr"]), shape=shape)
            names = [f"column{k}" for k in range(int(scalars["columns"]))]
            rest = [arrays[n] if n in arrays else scalars[n] for n in names]
            self._mixed = (X, *rest)
            self._give = int(scalars["give"])


def _count(X: Any) -> int:
    return int(X.nnz if hasattr(X, "nnz") else X.size)
