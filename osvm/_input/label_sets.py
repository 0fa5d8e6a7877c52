"""Label sets as they come from users: collections of labels, or a matrix of 0 and 1."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from osvm._input import validate
from osvm._input.convert import check_csr, to_csr, to_floats
from osvm._input.labels import LabelIndex
from osvm._input.targets import refuse_masked
from osvm._input.types import Array

MAX_LABELS = 100_000


class LabelSets:
    """The labels of n rows, one after another, and where each row's begin.

    Examples
    --------
    >>> from osvm._input.label_sets import LabelSets
    >>> sets = LabelSets.of([["tea"], [], ["tea", "milk"]], 3)
    >>> sets.flat.tolist(), sets.ends.tolist()
    (['tea', 'tea', 'milk'], [0, 1, 1, 3])
    """

    def __init__(self, flat: Array, ends: Array, width: int | None) -> None:
        self.flat, self.ends, self.width = flat, ends, width

    @classmethod
    def of(cls, Y: Any, n: int) -> LabelSets:
        """From collections of labels, from a column of one label a row, or from a 0-1 matrix."""
        refuse_masked(Y, "Y")
        if Y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        is_frame = hasattr(Y, "columns") and hasattr(Y, "to_numpy")
        if is_frame or (not hasattr(Y, "__len__") and hasattr(Y, "__array__")):
            Y = np.asarray(Y)
        if isinstance(Y, np.ndarray) and Y.shape[1:] == (1,) and not np.isin(Y, (0, 1)).all():
            Y = validate.check_y_classes(Y[:, 0]).reshape(-1, 1).tolist()
        if issparse(Y) or (isinstance(Y, np.ndarray) and Y.ndim == 2):
            return cls._of_matrix(Y, n)
        if isinstance(Y, (str, bytes)) or not hasattr(Y, "__len__"):
            raise ValueError("Y must hold a collection of labels for each row")
        if len(Y) != n:
            raise ValueError(f"X has {n} rows and Y has {len(Y)}")
        if _is_matrix(Y):
            return cls._of_matrix(np.array(Y), n)
        flat: list = []
        ends = [0]
        for row, labels in enumerate(Y):
            if isinstance(labels, (str, bytes)) or not isinstance(labels, Collection):
                raise ValueError(
                    f"row {row} of Y is {labels!r}; give a collection of labels for each row, "
                    "such as a list or a set, or one column of labels: y.reshape(-1, 1)"
                )
            mine = list(dict.fromkeys(labels))
            flat += mine
            ends.append(ends[-1] + len(mine))
        return cls(label_array(flat), np.array(ends, np.int64), None)

    @classmethod
    def _of_matrix(cls, Y: Any, n: int) -> LabelSets:
        if Y.shape[0] != n:
            raise ValueError(f"X has {n} rows and Y has {Y.shape[0]}")
        if not issparse(Y):
            is_number = Y.dtype.kind in "biuf"
            Y = csr_array(Y if is_number else to_floats(Y, "this estimator", "Y"))
        elif Y.format != "csr":
            Y = to_csr(Y, "Y")
        try:
            matrix = csr_array(Y, copy=True)  # the user's stays as it is
            check_csr(matrix)
        except ValueError as error:
            raise ValueError(f"Y is not a valid CSR matrix: {error}; rebuild Y.") from None
        matrix.sum_duplicates()
        if not np.isin(matrix.data, (0, 1)).all():
            raise ValueError("a matrix Y may hold 0 and 1 only")
        matrix.eliminate_zeros()
        ends = matrix.indptr.astype(np.int64)
        return cls(matrix.indices.astype(np.int64), ends, int(Y.shape[1]))

    def new_index(self) -> LabelIndex:
        """The labels that a new model has."""
        index = LabelIndex.of(self.flat if self.width is None else np.arange(self.width))
        if not 0 < len(index) <= MAX_LABELS:
            raise ValueError(f"Y has {len(index)} labels; there must be 1 to {MAX_LABELS}")
        return index

    def stream_index(self, known: LabelIndex | None, classes: Any) -> LabelIndex:
        """The labels that a model has before it learns these sets, with those of `classes`."""
        index = known
        if classes is not None:
            given = label_array(classes)
            index = LabelIndex.of(given) if index is None else index.grown(given)[0]
        elif index is None:
            index = LabelIndex.empty() if self.width is None else self.new_index()
        return index

    def named(self, index: LabelIndex, classes: Any = None) -> LabelSets:
        """With the labels of `index` for the columns of a matrix, as `predict` has them."""
        if self.width is None:
            return self
        if classes is not None and list(classes) != index.classes.tolist():
            raise ValueError(
                f"the columns of a matrix Y are those of classes_, here {index.classes.tolist()}: "
                "give classes in that order, or sets of labels"
            )
        numbered = index.classes.tolist() == list(range(len(index)))
        if classes is not None and self.width < len(index) and numbered:
            return self  # labels that are their columns' numbers, more of which are named
        if self.width != len(index):
            raise ValueError(f"Y has {self.width} columns where the model has {len(index)} labels")
        return LabelSets(index.classes[self.flat], self.ends, None)

    def row_of(self) -> Array:
        """The row of each label."""
        return np.repeat(np.arange(len(self.ends) - 1), np.diff(self.ends))

    def between(self, start: int, stop: int) -> LabelSets:
        """The labels of some rows."""
        ends = self.ends[start : stop + 1]
        return LabelSets(self.flat[ends[0] : ends[-1]], ends - ends[0], self.width)

    def membership(self, codes: Array, n_labels: int) -> Any:
        """Rows by labels, 0 and 1; columns can be taken quickly."""
        ones = np.ones(len(codes), np.int64)
        rows = csr_array((ones, codes, self.ends), shape=(len(self.ends) - 1, n_labels))
        return rows.tocsc()


def _is_matrix(Y: Any) -> bool:
    """Whether lists of equal length hold 0 and 1 alone, and one twice: then they are no labels."""
    kinds = list | tuple | np.ndarray
    if not isinstance(Y, list | tuple) or not all(isinstance(row, kinds) for row in Y):
        return False
    if len({len(row) for row in Y}) != 1:
        return False
    values = {value for row in Y for value in row if isinstance(value, int | float | np.number)}
    repeats = any(len(set(row)) < len(row) for row in Y)
    return repeats and values <= {0, 1} and all(v in values for row in Y for v in row)


def label_array(labels: Any) -> Array:
    """Labels as an array of numbers or strings."""
    labels = list(labels)
    return validate.check_y_classes(labels) if labels else np.empty(0, np.int64)


def membership_column(member: Any, k: int) -> Array:
    """Which rows carry label k, as 0 and 1."""
    y = np.zeros(member.shape[0], np.int64)
    y[member.indices[member.indptr[k] : member.indptr[k + 1]]] = 1
    return y
