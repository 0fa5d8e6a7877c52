"""What a worker does with a block of rows: count it, learn it, fold the results of several.

A block is (X, y), (X, y, weights) or X alone, a function that gives one of these, a reader of
`osvm.stream` or anything else that gives them chunk by chunk.  Nothing here knows an engine.

Invariants
- the result depends on the block, its number, the round and the shared model alone;
- an error names the block.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from osvm._estimator.compat import ClassifierMixin, clone
from osvm._input import validate
from osvm._input.label_sets import LabelSets
from osvm.distributed.merging import merge
from osvm.io.models import from_bytes
from osvm.linear import MultilabelClassifier
from osvm.linear.base import LinearEstimator
from osvm.schedules import Auto


@dataclass(frozen=True)
class Shared:
    """What every task of a round gets.

    Parameters
    ----------
    estimator : estimator
        Parameters alone; not fitted.
    model : bytes or None
        The model to go on from.
    classes : list or None
        All labels.
    seed : int
    number : int
        Of the round, from 0.
    """

    estimator: Any
    model: bytes | None = None
    classes: list[Any] | None = None
    seed: int = 0
    number: int = 0


@dataclass
class Census:
    """Rows, columns and labels of blocks."""

    first: int
    last: int
    rows: int = 0
    empty: int = 0
    blocks: int = 0
    columns: int | None = None
    names: list[str] | None = None
    labels: dict[Any, int] = field(default_factory=dict)
    within: float = 0.0  # sum over the blocks of rows times the entropy of their labels

    def purity(self) -> float:
        """How much of the labels' entropy the block tells: 1 where each has one label."""
        whole = sum(self.labels.values()) * _entropy(self.labels)
        return 1.0 - self.within / whole if whole > 0 else 0.0


@dataclass
class Part:
    """What blocks first .. last have taught."""

    census: Census
    model: bytes | None


def chunks(block: Any) -> Iterator[tuple[Any, Any, Any]]:
    """(X, y, weights) of a block; empty chunks are left out."""
    if callable(block):
        block = block()
    if isinstance(block, tuple | list) or hasattr(block, "shape"):
        block = [block]
    for chunk in block:
        parts = tuple(chunk) if isinstance(chunk, tuple | list) else (chunk,)
        if not 1 <= len(parts) <= 3:
            raise ValueError(
                f"a block is X, (X, y) or (X, y, sample_weight), got {len(parts)} parts"
            )
        X, y, weight = (*parts, None, None)[:3]
        rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if rows:
            yield X, y, weight


def is_classifier(model: Any) -> bool:
    return isinstance(model, ClassifierMixin)


def is_auto(model: Any) -> bool:
    """Whether settings compete in the (fitted) model."""
    return isinstance(model, LinearEstimator) and isinstance(model._plan.schedule, Auto)


def has_sets(model: Any) -> bool:
    return isinstance(model, MultilabelClassifier)


def count(number: int, block: Any, shared: Shared) -> Census:
    """What a block holds."""
    census = Census(number, number, blocks=1)
    with naming(number):
        for X, y, _ in chunks(block):
            _count_chunk(census, shared.estimator, X, y)
    return _closed(census)


def _count_chunk(census: Census, model: Any, X: Any, y: Any) -> None:
    columns, names = np.shape(X)[1], validate.feature_names(X)
    if census.columns is not None and census.columns != columns:
        raise ValueError(f"a chunk has {columns} columns, the first one {census.columns}")
    census.columns, census.names = columns, None if names is None else list(names)
    census.rows += np.shape(X)[0]
    if not is_classifier(model):
        return
    if y is None:
        raise ValueError(f"{type(model).__name__} needs labels: give y")
    if has_sets(model):
        labels = LabelSets.of(y, np.shape(X)[0])
        found = Counter(labels.flat.tolist())
        for label in range(labels.width or 0):  # columns of a 0/1 matrix
            found[label] += 0
    else:
        checked = validate.check_y_classes(y, np.shape(X)[0], estimator_name=type(model).__name__)
        found = Counter(checked.tolist())
    for label, n in found.items():
        census.labels[label] = census.labels.get(label, 0) + n


def _closed(census: Census) -> Census:
    census.empty = int(census.rows == 0)
    census.within = sum(census.labels.values()) * _entropy(census.labels)
    return census


def _entropy(counts: dict[Any, int]) -> float:
    """In nats, of a label drawn at random."""
    total = sum(counts.values())
    return -sum(n / total * math.log(n / total) for n in counts.values() if n)


def fold_census(parts: list[Census], shared: Any = None) -> Census:
    """What blocks hold together; ValueError where they differ in their columns."""
    out = Census(parts[0].first, parts[-1].last)
    known = None
    for part in parts:
        if part.columns is not None:
            if known is None:
                known, out.columns, out.names = part, part.columns, part.names
            elif part.columns != out.columns:
                raise ValueError(
                    f"block {part.first} has {part.columns} columns, block {known.first} "
                    f"{out.columns}: all blocks must have the same columns"
                )
            elif part.names != out.names:
                raise ValueError(
                    f"block {part.first} and block {known.first} differ in the names of their "
                    "columns"
                )
        for name in ("rows", "empty", "blocks", "within"):
            setattr(out, name, getattr(out, name) + getattr(part, name))
        for label, n in part.labels.items():
            out.labels[label] = out.labels.get(label, 0) + n
    return out


def learn(number: int, block: Any, shared: Shared) -> Part:
    """One pass over a block, from the shared model."""
    model = clone(shared.estimator) if shared.model is None else from_bytes(shared.model)
    if shared.model is not None and is_auto(model):
        model._learner.settle()  # as the model is that was sent
    options = {} if shared.classes is None else {"classes": shared.classes}
    census = Census(number, number, blocks=1)
    with naming(number):
        for k, (X, y, weight) in enumerate(chunks(block)):
            _count_chunk(census, model, X, y)
            if isinstance(model, LinearEstimator):
                model._visits = np.random.default_rng((shared.seed, shared.number, number, k))
            if y is None:
                model.partial_fit(X, sample_weight=weight)
            else:
                model.partial_fit(X, y, sample_weight=weight, **options)
    model.__dict__.pop("_visits", None)
    return Part(_closed(census), None if census.rows == 0 else model.to_bytes())


def fold_parts(parts: list[Part], shared: Shared) -> Part:
    """The merged model of several parts."""
    census = fold_census([part.census for part in parts])
    found = [part.model for part in parts if part.model is not None]
    if len(found) < 2:
        return Part(census, found[0] if found else None)
    base = None if shared.model is None else from_bytes(shared.model)
    try:
        merged = merge([from_bytes(model) for model in found], base)
    except ValueError as error:
        raise ValueError(f"blocks {census.first} to {census.last}: {error}") from None
    return Part(census, merged.to_bytes())


class naming:
    """Errors about data name the block."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is ValueError:
            raise ValueError(f"block {self.number}: {error}") from error
        if error is not None:
            error.add_note(f"in block {self.number}")
