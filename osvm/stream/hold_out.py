"""Rows of a stream that are never learnt, for figures that mean something in later passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from osvm.stream.base import Reader, WrappedReader
from osvm.stream.batches import gather_rows


class HoldOutReader(WrappedReader):
    """The batches of another reader without one row in `period`, the same ones in every pass.

    Parameters
    ----------
    reader : Reader
    period : int
    held_out : callable
        Called with the rows that were left out of a batch and the number of the pass, from 0:
        ``held_out(batch, number)``.
    """

    def __init__(self, reader: Reader, period: int, held_out: Callable[[tuple, int], Any]) -> None:
        super().__init__(reader)
        self._pass = 0
        self.period = period
        self.held_out = held_out

    def _read_batch(self) -> tuple | None:
        while True:
            batch = self.reader._next_batch()
            if batch is None:
                self.reader.counting = False
                return None
            numbers = (self.reader.first_row + np.arange(batch[0].shape[0])) % self.period
            left_out = numbers == self.period - 1
            if left_out.any():
                self.held_out(gather_rows([batch], np.flatnonzero(left_out)), self._pass)
            if not left_out.all():
                return gather_rows([batch], np.flatnonzero(~left_out))

    def rewind(self) -> None:
        """Start the next pass."""
        super().rewind()
        self._pass += 1

    def get_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        scalars, arrays = super().get_state()
        return {**scalars, "pass": self._pass}, arrays

    def set_state(self, scalars: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        super().set_state(scalars, arrays)
        self._pass = int(scalars["pass"])
