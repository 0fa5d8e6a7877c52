"""Checked examples on their way from an estimator to a solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from osvm._input.labels import LabelIndex
from osvm._input.rows import RowSource
from osvm._input.types import Array


@dataclass
class Batch:
    """Checked examples.

    Attributes
    ----------
    source : RowSource
        The rows, for compiled code.
    X : array or CSR matrix
        The same rows, for `gamma="scale"`.
    task : "classify", "regress" or "novelty"
    labels : int32 array or None
        Codes of the classes.
    targets : float64 array or None
        Numbers to predict.
    weights : float64 array or None
        Class and sample weights, multiplied.
    index : LabelIndex or None
        The classes known.
    numbers : int array or None
        The rows' numbers in the user's X, where they are a part of it.
    """

    source: RowSource
    X: Any
    task: str
    labels: Array | None = None
    targets: Array | None = None
    weights: Array | None = None
    index: LabelIndex | None = None
    numbers: Array | None = None

    def told(self) -> Batch:
        """The examples that have weight: what parameters go by. All where none has."""
        if self.weights is None or self.weights.all() or not self.weights.any():
            return self
        return self.take(np.flatnonzero(self.weights))

    def take(self, rows: Array) -> Batch:
        """Some of the examples, by their numbers."""
        X = self.X[rows]
        source = RowSource.of(X if hasattr(X, "indptr") else np.ascontiguousarray(X))

        def pick(array: Array | None) -> Array | None:
            return None if array is None else array[rows]

        labels, targets, weights = map(pick, (self.labels, self.targets, self.weights))
        numbers = rows if self.numbers is None else self.numbers[rows]
        return Batch(source, X, self.task, labels, targets, weights, self.index, numbers)
