"""Products with the rows of a narrow training set, for the methods that solve d + 1 equations.

Invariant: X is read in blocks of rows; a copy of it is kept only if it has at most `COPIED`
numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

BLOCK = 4096  # rows
COPIED = 2**20  # numbers


class NarrowRows:
    """A, whose row i is y_i (x_i - center, 1); the last column is the offset's.

    Parameters
    ----------
    X : array or CSR matrix, shape (n, d)
    y : array of -1 and +1
    offset : bool
        Whether A has the last column.
    centered : bool
        Center the columns of X: a free offset absorbs it, and the equations are better
        conditioned.
    """

    def __init__(self, X: Any, y: Array, offset: bool, centered: bool) -> None:
        self.y, self.offset = y, offset
        self.n, self.d = X.shape
        self.center = self.zero = np.zeros(self.d)
        if centered:
            self.center = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
        self.X = self.given = X
        if self.n * self.d <= COPIED:
            self.X = (X.toarray() if hasattr(X, "toarray") else X) - self.center

    def times(self, u: Array) -> Array:
        """A u"""
        w = u[: self.d]
        if self.X is not self.given:
            scores = self.X @ w
        else:
            scores = np.concatenate([part @ w - shift @ w for part, shift in self._parts()])
        return self.y * (scores + u[self.d] if self.offset else scores)

    def transposed_times(self, p: Array) -> Array:
        """A' p"""
        p = self.y * p
        out, start = np.zeros(self.d + self.offset), 0
        w = out[: self.d]
        if self.X is not self.given:
            np.dot(p, self.X, out=w)
        else:
            for part, shift in self._parts():
                mine = p[start : start + part.shape[0]]
                w += mine @ part - mine.sum() * shift
                start += part.shape[0]
        if self.offset:
            out[self.d] = p.sum()
        return out

    def gram(self, weight: Array) -> Array:
        """A' diag(weight) A"""
        d = self.d
        out = np.zeros((d + self.offset, d + self.offset))
        counted = np.flatnonzero(weight)
        for start in range(0, len(counted), BLOCK):
            rows: Any = slice(start, start + BLOCK)  # not copied, where every row counts
            if len(counted) < self.n:
                rows = counted[rows]
            part, root = self.X[rows], np.sqrt(weight[rows])
            part = part.toarray() if hasattr(part, "toarray") else part
            if self.X is self.given:
                part = part - self.center
            part = part * root[:, None]
            if self.offset:
                out[d, :d] += root @ part
            out[:d, :d] += part.T @ part
        if self.offset:
            out[:d, d] = out[d, :d]
            out[d, d] = weight.sum()
        return out

    def point(self, w: Array, b: float) -> Array:
        """u of weights and an offset for the rows that are not centered."""
        return np.append(w, b + self.center @ w) if self.offset else np.array(w, np.float64)

    def solution(self, u: Array) -> tuple[Array, float]:
        """w and b of the rows that are not centered."""
        w = u[: self.d]
        return w, float(u[self.d] - self.center @ w) if self.offset else 0.0

    def _parts(self) -> Iterator[tuple[Any, Any]]:
        """Rows of X as given, and what is yet to be subtracted: nothing but of sparse ones."""
        if hasattr(self.X, "toarray"):
            yield self.X, self.center
        else:
            for start in range(0, self.n, BLOCK):
                yield self.X[start : start + BLOCK] - self.center, self.zero
