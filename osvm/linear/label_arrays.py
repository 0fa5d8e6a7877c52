"""The arrays of many labels' models in one saved state.

Arrays of one shape are stacked, one label below the other.  Where shapes differ from label to
label, or some labels have no such array, the numbers stand in a row, and ``<name>_shapes`` has the
shape for each label, or -1 for none.
"""

from __future__ import annotations

import math

import numpy as np

from osvm._input.schema import ArrayField, Schema
from osvm._input.types import Array

_SHAPES = "_shapes"


def stack_arrays(states: list[dict[str, Array]]) -> dict[str, Array]:
    """One dict for the arrays of every label."""
    stacked = {}
    for name in sorted({name for arrays in states for name in arrays}):
        parts = [arrays.get(name) for arrays in states]
        present = [part for part in parts if part is not None]
        if len({part.shape for part in present}) == 1 and len(present) == len(parts):
            stacked[name] = np.stack(present)
            continue
        none = (-1,) * present[0].ndim
        shapes = [none if part is None else part.shape for part in parts]
        stacked[name + _SHAPES] = np.array(shapes, np.int64)
        stacked[name] = np.concatenate([part.ravel() for part in present])
    return stacked


def part_arrays(arrays: dict[str, Array], n_labels: int) -> list[dict[str, Array]]:
    """The arrays of every label; ValueError where they are not those of so many."""
    arrays = _without_ends(dict(arrays), n_labels)
    parts: list[dict[str, Array]] = [{} for _ in range(n_labels)]
    for name in [name for name in arrays if name.endswith(_SHAPES)]:
        own = name.removesuffix(_SHAPES)
        places = _places(own, arrays.pop(name), arrays.pop(own, None), n_labels)
        for part, array in zip(parts, places):
            if array is not None:
                part[own] = array
    for name, array in arrays.items():
        if array.ndim < 1 or len(array) != n_labels:
            raise ValueError(f"the saved {name[:60]} of the model is not there for each label")
        for part, row in zip(parts, array):
            part[name] = np.array(row)
    return parts


def _places(name: str, shapes: Array, flat: Array | None, n_labels: int) -> list[Array | None]:
    """The array of each label out of the numbers of all."""
    what = f"the saved {name[:60]} of the model"
    if flat is None or flat.ndim != 1 or shapes.ndim != 2 or shapes.shape[1] > 8:
        raise ValueError(f"{what} is not there for each label")
    size = ArrayField((n_labels, shapes.shape[1]), np.int64, -1, len(flat))
    Schema("model", {}, {name + _SHAPES: size}).check({}, {name + _SHAPES: shapes})
    found: list[Array | None] = []
    at = 0
    for shape in shapes.tolist():
        if -1 in shape:
            found.append(None)
            continue
        end = at + math.prod(shape)
        if end > len(flat):
            raise ValueError(f"{what} is shorter than its shapes")
        found.append(flat[at:end].reshape(shape).copy())
        at = end
    if at != len(flat):
        raise ValueError(f"{what} is longer than its shapes")
    return found


def _without_ends(arrays: dict[str, Array], n_labels: int) -> dict[str, Array]:
    """The features of open mini-batches as the first files have them: with ends, not shapes."""
    ends = arrays.pop("touched_ends", None)
    if ends is None:
        return arrays
    whole = arrays.get("touched", np.empty(0))
    size = len(whole) if whole.ndim == 1 else 0
    bounds = ArrayField((n_labels,), np.int64, 0, size)
    Schema("model", {}, {"touched_ends": bounds}).check({}, {"touched_ends": ends})
    if (np.diff(ends) < 0).any() or ends[-1] != size:
        raise ValueError("the saved touched_ends of the model do not ascend to its end")
    arrays["touched" + _SHAPES] = np.diff(ends, prepend=0)[:, None]
    return arrays
