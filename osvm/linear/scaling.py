"""Columns in units of their own: `scale="std"` and `scale="maxabs"`, without a copy of X.

The learner sees x_j / s_j, where s_j is the standard deviation of column j over all rows of
`fit`, zeros included, or its largest |x_j|.  A bounded block of rows at a time is copied, scaled
and handed on: loops, losses, schedules and averages know nothing of it.  Weights stay in the
learner's units, and are divided by s_j where a user reads them.

A column far from 0, whose mean c_j is more than three deviations, would fill all rows with one
large number, which steps could not go around.  The learner sees (x_j - c_j) / s_j instead, also
without `scale` where the schedule is "auto", and the user's intercept is its offset less
sum_j w_j c_j / s_j: as the offset is not regularized, the model is one of X as it is.  Nine in ten
rows store such a column, so that sparse rows stay sparse; of them, only columns that hold half of
the rows' squared norms, or whose mean is thirty deviations, are worth it.  A column that does not
vary is a second offset: s_j is 1, and without `scale` it is far from 0 where it is more than three
times as large as the first one, which is 1.  Where nothing can be subtracted (no offset, novelty,
`normalize`), s_j is at least a tenth of the mean, and a column that does not vary is one of tens.
A column of zeros is divided by 1.

A column that most sparse rows have, and that is three times as large as all that is smaller in a
row, takes the steps of the others, as a price does beside words.  `fit` learns it with the s_j
that makes it as large as the rest, for classes and where it may center too.

`scale="running"`, for streams, is a property of the steps instead: those of normalized online
learning (Ross, Mineiro, Langford, UAI 2013), `schedules.Adaptive(normalized=True)`.

Invariants
- a model is bit for bit that of the scaled matrix, however blocks are cut;
- factors and centers are those of the first `fit`, and stay while the model learns on;
- `ScaledRows` is no `RowSource`: what reads rows without scaling them fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from osvm._input.rows import RowSource
from osvm._input.schema import ArrayField, Schema
from osvm._input.types import Array
from osvm.linear.examples import column_moments, sq_norm, stored_columns, take_rows

Columns = tuple[Array, ...]  # what some rows say of them: `some_columns`

FIXED = ("std", "maxabs")  # what needs all rows before the first step
CENTER = "center"  # what a fit does by itself
_ARRAYS = ("column_factors", "column_center")  # in model files
_BLOCK_VALUES = 1 << 17
# Rows that tell how often columns come, at least and at most; values of a column that are few.
_FEWEST_ROWS, _COUNTED_ROWS, _SELDOM = 200, 4096, 20
_MOST_DEVIATIONS = 10.0  # of a mean
_FAR = 3.0  # deviations of a mean, for a column to be far from 0,
VARIES = 1e-9  # and the share of it that its deviation is, to be more than rounding
_LARGE = 9.0  # times the squares of all that is smaller in a row
OFF_CENTER = 30.0  # deviations of a mean that hide what a column says
_LOOKED_AT_ROWS, _SPARSE_ROWS = 64, 16  # before all of them
_SMALLEST = 1e-30  # size of a column: no factor is above 1e30


@dataclass(frozen=True)
class Scaling:
    """What the columns of a model are multiplied by, and what is subtracted before."""

    kind: str
    factors: Array
    largest: float = -1.0  # of the scaled rows that it was found from
    center: Array | None = None

    @classmethod
    def of(cls, scale: Any, X: RowSource, moves: bool = False) -> Scaling | None:
        """From all rows; None where `scale` asks for nothing that needs them.

        `moves`: columns far from 0 are centered.
        """
        if not isinstance(scale, str) or scale not in FIXED:
            return None
        top, mean, deviation = column_moments(X)
        size, center = top, None
        if scale == "std":
            size = np.maximum(deviation, np.abs(mean) / _MOST_DEVIATIONS)
            varies = deviation > VARIES * np.abs(mean)
            far = np.abs(mean) > _FAR * deviation
            if moves and far.any():
                size = np.where(far, np.where(varies, deviation, 0.0), size)
                center = np.where(far, mean, 0.0)
                top = top + np.abs(center)
        factors = np.where(size > 0.0, 1.0 / np.maximum(size, _SMALLEST), 1.0)
        # float32 values may be rounded up
        return cls(scale, factors, float((top * factors).max()) * (1.0 + 1e-6), center)

    @classmethod
    def around_zero(cls, X: RowSource, solved: bool, sizes: bool) -> Scaling | None:
        """For columns that are far from 0, in their own units; None without any.

        `solved`: not by steps (`few_rows`), which bears more in dense rows.  `sizes`: columns that
        are large beside the rest of sparse rows become as large as it.
        """
        bears_more, some = solved and not X.sparse, some_columns(X)
        columns, top, mean, _ = far_columns(X, _MOST_DEVIATIONS if bears_more else _FAR, some)
        large, times = large_columns(X, some) if sizes else (columns[:0], mean[:0])
        if not len(columns) and not len(large):
            return None
        center, factors = np.zeros(X.n_features), np.ones(X.n_features)
        center[columns], factors[large] = mean, times
        largest = X.largest
        if len(large):
            largest = -1.0  # that of the other columns
        elif largest > 0.0:
            largest = max(largest, float((top + np.abs(mean)).max())) * (1.0 + 1e-6)
        return cls(CENTER, factors, largest, center)

    @classmethod
    def from_state(cls, kind: str | None, arrays: dict[str, Array], d: int) -> Scaling | None:
        """From a model file, whose arrays are taken out."""
        given = {name: arrays.pop(name) for name in _ARRAYS if name in arrays}
        fields = {}
        if kind is not None:
            fields["column_factors"] = ArrayField((d,), np.float64, 1e-309, 1.0 / _SMALLEST)
            if kind == CENTER or "column_center" in given:
                fields["column_center"] = ArrayField((d,), np.float64)
        Schema("scale", {}, fields).check({}, given)
        if kind is None:
            return None
        center = given.get("column_center")
        return cls(
            kind,
            np.array(given["column_factors"]),
            center=None if center is None else np.array(center),
        )

    def arrays(self) -> dict[str, Array]:
        """For a model file."""
        center = {} if self.center is None else {"column_center": self.center.copy()}
        return {"column_factors": self.factors.copy(), **center}

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Scaling)
            and self.kind == other.kind
            and np.array_equal(self.factors, other.factors)
            and same_center(self.center, other.center)
        )

    @property
    def asked(self) -> str | None:
        """The `scale` that it comes from."""
        return None if self.kind == CENTER else self.kind

    def intercept_to_user(self, intercept: Array, coef: Array) -> Array:
        """Intercepts for rows as the user has them; `coef` are the learner's weights."""
        if self.center is None:
            return intercept
        return intercept - np.atleast_2d(coef).astype(np.float64) @ (self.center * self.factors)

    def to_user(self, coef: Array) -> Array:
        """Weights for rows as the user has them."""
        return (coef * self.factors).astype(coef.dtype)


class ScaledRows:
    """Rows of X times the factors of their columns, made block by block."""

    def __init__(self, X: RowSource, scaling: Scaling, largest: float = -1.0) -> None:
        self.X, self.scaling, self.largest = X, scaling, largest
        self.n_rows, self.n_features = X.n_rows, X.n_features
        self.sparse, self.mean_count = X.sparse, X.mean_count
        self.replaces_text = X.replaces_text
        if X.sparse and scaling.center is not None:  # whose columns all rows store
            moved = self.mean_count + np.count_nonzero(scaling.center)
            self.mean_count = min(moved, float(X.n_features))
        self.block_rows = max(1, int(_BLOCK_VALUES / max(1.0, self.mean_count)))
        self._whole: RowSource | None = None

    def in_one_block(self) -> RowSource | None:
        """All rows, made once, where they are one block."""
        if self._whole is None and self.n_rows <= self.block_rows:
            self._whole = take(self, np.arange(self.n_rows), renumber=False)[0]
        return self._whole

    def blocks(self, order: Array | None = None, start: int = 0, stop: int = -1) -> Iterator:
        """For one block after the other: where it begins, its row numbers, and the rows."""
        stop = self.n_rows if stop < 0 else stop
        for at in range(start, stop if order is None else len(order), self.block_rows):
            if order is None:
                rows = np.arange(at, min(at + self.block_rows, stop))
            else:
                rows = order[at : at + self.block_rows]
            yield at, rows, take(self, rows, renumber=False)[0]


def same_center(one: Array | None, other: Array | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def scaled(X: RowSource, scaling: Scaling | None, fresh: bool = False) -> Any:
    """The rows as a model with this scaling sees them; `fresh`: it was found from them."""
    if scaling is None:
        return X
    return ScaledRows(X, scaling, scaling.largest if fresh else -1.0)


def take(X: Any, rows: Array, renumber: bool = True) -> tuple[RowSource, Array]:
    """`osvm.linear.examples.take_rows`, scaled."""
    if isinstance(X, ScaledRows):
        return take_rows(X.X, rows, renumber, X.scaling.factors, X.largest, X.scaling.center)
    return take_rows(X, rows, renumber)


def _are_far(mean: Array, deviation: Array, most: float) -> Array:
    """Columns around a mean of more than so many deviations, and of so many times the offset's 1
    where they do not vary.
    """
    size = np.abs(mean)
    return (size > most * deviation) & ((deviation > VARIES * size) | (size > most))


def spread_rows(n: int, most: int) -> Array:
    """At most so many of n row numbers, the first and the last and others evenly between them."""
    count = min(n, most)
    return np.arange(count) * (n - 1) // max(count - 1, 1)


def some_columns(X: Any, most: int = 0) -> Columns:
    """Numbers of some rows; largest |x|, mean and deviation of the columns that they have, which
    sparse rows number as they come; and the mean of their squared norms.
    """
    X = X.X if isinstance(X, ScaledRows) else X
    most = most or (_SPARSE_ROWS if X.sparse else _LOOKED_AT_ROWS)
    rows = spread_rows(X.n_rows, most)
    part, squares = take_rows(X, rows)
    return rows, *column_moments(part), squares.mean()


def far_columns(
    X: Any, most: float = _FAR, some: Columns | None = None
) -> tuple[Array, Array, Array, Array]:
    """Numbers of the columns that are far from 0; of them, largest |x|, mean, deviation.

    By all rows where some suggest it.
    """
    X = X.X if isinstance(X, ScaledRows) else X
    rows, top, mean, deviation, sq_norm = some or some_columns(X)
    sure = 0.5 if X.sparse else 0.75
    columns = np.flatnonzero(np.abs(mean) > sure * most * deviation)
    if X.sparse and len(columns):
        columns = columns[_are_far(mean[columns], deviation[columns], sure * most)]
        if not _matter(mean[columns], deviation[columns], float(sq_norm)):
            return np.empty(0, np.int64), *np.empty((3, 0))
        stored, count = np.unique(stored_columns(X, rows), return_counts=True)
        columns = stored[2 * count > len(rows)]
    if len(columns) and (len(rows) < X.n_rows or X.sparse):
        top, mean, deviation = column_moments(X, columns)
    else:
        top, mean, deviation = top[columns], mean[columns], deviation[columns]
    far = _are_far(mean, deviation, most)
    return columns[far], top[far], mean[far], deviation[far]


def large_columns(X: Any, some: Columns | None = None) -> tuple[Array, Array]:
    """Columns that most sparse rows have and that are large beside the rest of a row, as prices
    beside words; and what makes their deviations as large as that rest.

    Most columns must come seldom: other rows are as dense ones.
    """
    X = X.X if isinstance(X, ScaledRows) else X
    none = np.empty(0, np.int64), np.empty(0)
    if not X.sparse or 2.0 * X.mean_count > X.n_features or X.n_rows < _SPARSE_ROWS:
        return none
    _, _, mean, deviation, _ = some or some_columns(X)
    if not _have_gap(mean, deviation):
        return none
    rows, _, mean, deviation, _ = some_columns(X, _LOOKED_AT_ROWS)
    stored, first, count = np.unique(
        stored_columns(X, rows), return_index=True, return_counts=True
    )
    often = 2 * count > len(rows)
    seldom = ~often[np.argsort(first)]
    rest = float(np.square(mean[seldom]).sum() + np.square(deviation[seldom]).sum())
    if not often.any() or not rest > 0.0:
        return none
    columns = stored[often]
    _, mean, deviation = column_moments(X, columns)
    squares = np.square(deviation)
    squares += np.where(_are_far(mean, deviation, _FAR), 0.0, np.square(mean))
    order = np.argsort(squares)
    smaller = rest + np.cumsum(np.append(0.0, squares[order[:-1]]))
    above = np.flatnonzero(squares[order] > _LARGE * smaller)
    if not len(above):
        return none
    large = np.sort(order[above[0] :])
    return columns[large], np.sqrt(smaller[above[0]]) / deviation[large]


def _have_gap(mean: Array, deviation: Array) -> bool:
    """Whether one of the larger columns is large beside all smaller ones together."""
    squares = np.sort(np.square(mean) + np.square(deviation))
    return bool((squares[1:] > _LARGE * np.cumsum(squares)[:-1])[len(squares) // 2 :].any())


def _matter(mean: Array, deviation: Array, sq_norm: float) -> bool:
    """Whether far columns are half of what sparse rows of this squared norm hold, or one of them
    says what steps would not see.

    Words that nearly all rows have are far from 0 too, and change no more than the offset does.
    """
    return 2.0 * float(mean @ mean) > sq_norm or bool(
        (np.abs(mean) > OFF_CENTER * deviation).any()
    )


def common_size(X: Any) -> float:
    """The size of the values of sparse rows whose columns come seldom; 0 for other rows.

    The largest of two or three values does not tell the size of a column: a weight in its
    units would answer for the next value, ten times as large, with ten times what was learnt.
    Fewer rows than 200 tell by how often their columns come twice: one row does not.
    """
    if not X.sparse or X.n_rows < 2:
        return 0.0
    rows = spread_rows(X.n_rows, _COUNTED_ROWS)
    part, squares = take(X, rows)
    count = part.mean_count * part.n_rows
    # how often columns that come at all do so, if one row in ten has each of them
    share = _SELDOM / _FEWEST_ROWS
    often = min(_SELDOM, share * len(rows) / (1.0 - (1.0 - share) ** len(rows)))
    if not 0.0 < count < often * part.n_features:
        return 0.0
    return float(np.sqrt(squares.sum() / count))


@contextmanager
def rows_named(rows: Array) -> Iterator[None]:
    """Errors name the rows of X, not those of the block."""
    try:
        yield
    except FloatingPointError as error:
        text = re.sub(r"\brow (\d+)", lambda at: f"row {rows[int(at[1])]}", str(error))
        raise FloatingPointError(text) from None


def first_sq_norm(X: Any) -> float:
    """||x||^2 of the first row."""
    if isinstance(X, ScaledRows):
        X, _ = take(X, np.zeros(1, np.int64))
    return sq_norm(X, 0)


def decide(learner: Any, X: Any, out: Array, averaged: bool, *span: int) -> None:
    """`learner.decide` for rows that may have to be scaled; `span` is start and stop."""
    if not isinstance(X, ScaledRows):
        learner.decide(X, out, averaged, *span)
        return
    X = ScaledRows(X.X, X.scaling, largest=0.0)  # scores need no bound of the values
    for at, rows, block in X.blocks(None, *span):
        scores = np.empty((len(rows), out.shape[1]))
        learner.decide(block, scores, averaged)
        out[at : at + len(rows)] = scores
