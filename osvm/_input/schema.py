"""What the saved state of a learner may hold, declared field by field.

Every `set_state` checks its scalars and arrays against a `Schema` before it allocates or
changes anything, wherever the state comes from: a model file, a pickle, a copy.  A state
that passes cannot make compiled code read or write outside of its arrays.

Invariants
- a field that the schema does not name, and one that it names and the state lacks, are
  errors: ValueError with the name of the field;
- numbers are finite, and arrays have exactly the dtype and shape declared;
- relations between fields (`rules`) are looked at after each field has been found valid.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from osvm._input.types import Array

Rule = tuple[Callable[[dict[str, Any], dict[str, Array]], bool], str]
MOST = 2.0**53  # counts are kept in float64
LONGEST = 2**48  # elements of an array
_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Field:
    """A scalar.

    Parameters
    ----------
    kind : {"float", "count", "int", "flag", "str", "list", "dict", "nothing"}
        A "count" is a whole number, as int or float; a "flag" is a bool, or 0 or 1;
        "nothing" is None.
    low, high : float
        Bounds of a number, both inclusive.
    none : bool
        Whether None is valid.
    optional : bool
        Whether the field may be missing.
    choices : tuple
        The valid values of a "str".
    """

    kind: str = "float"
    low: float = -math.inf
    high: float = math.inf
    none: bool = False
    optional: bool = False
    choices: tuple[Any, ...] = ()

    def problem(self, value: Any) -> str | None:
        """What is wrong with the value."""
        if value is None:
            return None if self.none else "is missing"
        if self.kind in _TYPES:
            if not isinstance(value, _TYPES[self.kind]):
                return f"must be a {self.kind}, got {type(value).__name__}"
            if self.choices and value not in self.choices:
                return f"must be one of {', '.join(map(repr, self.choices))}, got {value!r:.60}"
            return None
        if self.kind == "flag":
            is_flag = isinstance(value, (bool, np.bool_)) or (
                isinstance(value, numbers.Integral) and value in (0, 1)
            )
            return None if is_flag else f"must be true or false, got {value!r:.60}"
        number: Any = value
        whole = self.kind == "int"
        if isinstance(value, (bool, np.bool_)) or not isinstance(
            value, numbers.Integral if whole else numbers.Real
        ):
            return f"must be a {'whole ' * whole}number, got {value!r:.60}"
        # Integers beyond the range of float64 compare without conversion.
        if not self.low <= number <= self.high or not abs(number) <= _LARGEST:
            return f"must be a finite number in [{self.low:g}, {self.high:g}], got {value!r:.60}"
        if self.kind == "count" and number != int(number):
            return f"must be a whole number, got {value!r:.60}"
        return None


_TYPES: dict[str, type] = {"str": str, "list": list, "dict": dict, "nothing": type(None)}


@dataclass(frozen=True)
class AtMost:
    """A length of an array that may be anything up to a bound."""

    size: int


@dataclass(frozen=True)
class ArrayField:
    """An array.

    Parameters
    ----------
    shape : tuple of int or AtMost
    dtype : dtype, or several that are valid
    low, high : float
        Bounds of the elements, both inclusive; NaN is never within them.
    optional : bool
        Whether the array may be missing.
    """

    shape: tuple[int | AtMost, ...]
    dtype: Any = np.float64
    low: float = -np.finfo(np.float64).max
    high: float = np.finfo(np.float64).max
    optional: bool = False

    def layout_problem(self, array: Any) -> str | None:
        """What is wrong with dtype or shape."""
        if not isinstance(array, np.ndarray):
            return f"must be an array, got {type(array).__name__}"
        dtypes = self.dtype if isinstance(self.dtype, tuple) else (self.dtype,)
        if array.dtype not in [np.dtype(dtype) for dtype in dtypes]:
            return f"must have dtype {np.dtype(dtypes[0])}, got {array.dtype}"
        fits = array.ndim == len(self.shape) and all(
            n <= wanted.size if isinstance(wanted, AtMost) else n == wanted
            for n, wanted in zip(array.shape, self.shape)
        )
        if not fits:
            wanted = tuple(s.size if isinstance(s, AtMost) else s for s in self.shape)
            return f"has another shape than the model's: {array.shape}, expected {wanted}"
        return None

    def problem(self, array: Array) -> str | None:
        """What is wrong with the elements of an array whose layout is right."""
        if array.size == 0 or array.dtype.kind == "b":
            return None
        # NaN propagates through min and max and is within no bounds.
        low, high = array.min().item(), array.max().item()
        if array.dtype.kind == "f" and not (math.isfinite(low) and math.isfinite(high)):
            return "holds a value that is not finite"
        if not (self.low <= low and high <= self.high):
            return f"holds a value outside of [{self.low:g}, {self.high:g}]"
        return None


@dataclass(frozen=True)
class Schema:
    """Fields, arrays and relations of one learner's state.

    Examples
    --------
    >>> import numpy as np
    >>> schema = Schema("ring", {"head": Field("int", 0, 2)}, {"w": ArrayField((3,))})
    >>> schema.check({"head": 1}, {"w": np.zeros(3)})
    >>> schema.check({"head": 3}, {"w": np.zeros(3)})
    Traceback (most recent call last):
        ...
    ValueError: the saved head of the ring must be a finite number in [0, 2], got 3
    """

    what: str
    scalars: dict[str, Field]
    arrays: dict[str, ArrayField]
    rules: tuple[Rule, ...] = ()

    def check(self, scalars: Any, arrays: dict[str, Array]) -> None:
        """Raise ValueError unless every field, array and relation is valid."""
        self.check_layout(scalars, arrays)
        self._check_each(self.arrays, arrays, ArrayField.problem)
        for holds, problem in self.rules:
            if not holds(scalars, arrays):
                raise ValueError(f"the saved {self.what} is inconsistent: {problem}")

    def check_layout(self, scalars: Any, arrays: dict[str, Array]) -> None:
        """The same without a look at the elements of the arrays: quick."""
        if not isinstance(scalars, dict):
            raise ValueError(f"the saved {self.what} must be a dict")
        self._check_names(scalars, self.scalars)
        self._check_names(arrays, self.arrays)
        self._check_each(self.scalars, scalars, Field.problem)
        self._check_each(self.arrays, arrays, ArrayField.layout_problem)

    def _check_each(
        self, declared: dict[str, Any], found: dict[str, Any], find: Callable[..., str | None]
    ) -> None:
        for name, field in declared.items():
            problem = find(field, found[name]) if name in found else None
            if problem is not None:
                raise ValueError(f"the saved {name} of the {self.what} {problem}")

    def _check_names(self, found: dict[str, Any], declared: dict[str, Any]) -> None:
        for name in found:
            if name not in declared:
                raise ValueError(f"the saved {self.what} has an unknown field {str(name)[:60]!r}")
        for name, field in declared.items():
            if name not in found and not field.optional:
                raise ValueError(f"the saved {self.what} lacks {name!r}")


def check_list(
    name: str, values: Any, field: Field, *, most: int = LONGEST, least: int = 0
) -> None:
    """Raise ValueError unless `values` is a list of valid elements."""
    if not isinstance(values, list) or not least <= len(values) <= most:
        raise ValueError(f"the saved {name} must be a list of {least} to {most} elements")
    for value in values:
        problem = field.problem(value)
        if problem is not None:
            raise ValueError(f"an element of the saved {name} {problem}")


def fair_dtype(dtype: npt.DTypeLike, values: Iterable[Any]) -> np.dtype[Any]:
    """A dtype of strings, not much wider than the strings in `values`.

    Arrays of strings have elements of one length, so that a short text can declare an
    array of any size.  Up to a mebibyte the dtype stays as it is.
    """
    dtype = np.dtype(dtype)
    if dtype.kind not in "US":
        return dtype
    lengths = [len(value) if isinstance(value, (str, bytes)) else 32 for value in values]
    if dtype.itemsize * len(lengths) <= (1 << 20) + 16 * sum(lengths):
        return dtype
    return np.dtype(f"{dtype.kind}{max(1, *lengths)}")


# ------------------------------------------------------------------- linear learners

COUNT = Field("count", 0.0, MOST)
NUMBER = Field("float")
COUNTERS = {"t": COUNT, "seen": COUNT, "loss_sum": NUMBER, "error_sum": NUMBER}


def weight_limit(dtype: Any) -> float:
    """What no entry of scaled weights exceeds; `step_limit` of the linear loops keeps it."""
    return 1e35 if np.dtype(dtype) == np.float32 else 1e150


def _in_range(scalars: dict[str, Any], arrays: dict[str, Array], prefix: str) -> bool:
    """Whether every scale is within [low, high]."""
    scale: Any = arrays.get(f"{prefix}scale", scalars.get(f"{prefix}scale"))
    size = np.abs(scale)
    # One rounding of a scale that was moved together with its bounds.
    low, high = scalars[f"{prefix}low"] * 0.999, scalars[f"{prefix}high"] * 1.001
    return bool(np.all((low <= size) & (size <= high)))


def _has_accumulator(scalars: dict[str, Any], arrays: dict[str, Array], prefix: str) -> bool:
    """Averaging implies an accumulator."""
    if f"{prefix}u" in arrays:
        return True
    sums: Any = arrays.get(f"{prefix}avg_scale", scalars.get(f"{prefix}avg_scale"))
    return not (
        scalars[f"{prefix}averaging"]
        or scalars[f"{prefix}avg_count"]
        or np.any(np.not_equal(sums, 0))
    )


def weights_schema(
    shape: tuple[int, ...], dtype: Any, *, averaged: bool | None = None, prefix: str = ""
) -> Schema:
    """State of a `ScaledVector` or, with two lengths in `shape`, of a `ScaledMatrix`.

    `averaged` says whether there is an accumulator; None leaves it open.
    """
    limit = weight_limit(dtype)
    scalars = {
        "avg_count": COUNT,
        "low": Field("float", 1e-60, 1.0),  # of the trace of SVMD, which fades fast
        "high": Field("float", 1.0, 1e12),
        "averaging": Field("flag"),
        "track_norm": Field("flag"),
    }
    arrays = {"v": ArrayField(shape, dtype, -limit, limit)}
    if averaged is None or averaged:
        # the sum of all steps, each times a sum of scales
        bound = np.finfo(dtype).max if np.dtype(dtype) == np.float32 else 1e30 * limit
        arrays["u"] = ArrayField(shape, dtype, -float(bound), float(bound), averaged is None)
    per_output = {"scale": (-1e12, 1e12), "sq_v": (-1e300, 1e300), "avg_scale": (-1e30, 1e30)}
    for name, bounds in per_output.items():
        if len(shape) == 1:
            scalars[name] = Field("float", *bounds)
        else:
            arrays[name] = ArrayField(shape[1:], np.float64, *bounds)
    return Schema(
        "weights",
        {prefix + name: field for name, field in scalars.items()},
        {prefix + name: field for name, field in arrays.items()},
        (
            (lambda s, a: _in_range(s, a, prefix), "a scale is outside of its bounds"),
            (lambda s, a: _has_accumulator(s, a, prefix), "an average without its accumulator"),
        ),
    )


def sgd_schema(
    dim: int,
    n_out: int,
    dtype: Any,
    *,
    average_from: float,
    radius: float,
    batch_size: int,
    lazy: bool = False,
) -> Schema:
    """State of an `SGDLearner` with these options."""
    shape = (dim,) if n_out == 1 else (dim, n_out)
    weights = weights_schema(shape, dtype, averaged=average_from >= 0, prefix="w_")
    limit = weight_limit(np.float64)
    scalars = weights.scalars | {
        **COUNTERS,
        "pending": Field("count", 0.0, batch_size - 1.0),
        "touched_all": Field("flag"),
        "eta": Field("float", 0.0),
    }
    arrays = weights.arrays | {
        "intercept": ArrayField((n_out,), np.float64, -limit, limit),
        "intercept_sum": ArrayField((n_out,), np.float64, -1e30 * limit, 1e30 * limit),
    }
    if lazy:
        arrays["lift"] = ArrayField((n_out,), np.float64, 1.0, 1e300)
    if batch_size > 1:
        bound = weight_limit(dtype)
        arrays |= {
            "grad": ArrayField((dim, n_out), dtype, -bound, bound),
            "grad_b": ArrayField((n_out,), np.float64, -limit, limit),
            "touched": ArrayField((AtMost(dim),), np.int64, 0, dim - 1),
        }
    rules = weights.rules
    if radius > 0:
        rules += ((lambda s, a: bool(s["w_track_norm"]), "projection without a norm"),)
    return Schema("linear learner", scalars, arrays, rules)


def meta_schema(dim: int, n_out: int, dtype: Any, *, per_coordinate: bool, reg: float) -> Schema:
    """State of an `SMDLearner` (`per_coordinate`) or `SVMDLearner`."""
    limit = weight_limit(np.float64)
    # Steps are capped at 1/reg, rounded to float32 perhaps.
    cap = min(1.000001 / reg, 1e30) if reg > 0.0 else 1e30
    scalars = {**COUNTERS, "eta": Field("float", 0.0, cap)}
    arrays = {
        "intercept": ArrayField((n_out,), np.float64, -limit, limit),
        "eta_b": ArrayField((n_out,), np.float64, 0.0, limit),
        "z_b": ArrayField((n_out,), np.float64, -limit, limit),
    }
    if per_coordinate:
        bound = weight_limit(dtype)
        arrays |= {
            "w": ArrayField((dim, n_out), dtype, -bound, bound),
            "z": ArrayField((dim, n_out), dtype, -bound, bound),
            "etas": ArrayField((dim, n_out), dtype, 0.0, cap),
            "stamp": ArrayField((dim,), np.int64, 0, MOST),
        }
        late: Rule = (lambda s, a: bool(a["stamp"].max() <= s["t"]), "time stamps are after t")
        return Schema("linear learner", scalars, arrays, (late,))
    shape = (dim,) if n_out == 1 else (dim, n_out)
    w = weights_schema(shape, dtype, averaged=False, prefix="w_")
    u = weights_schema(shape, dtype, averaged=False, prefix="u_")
    scalars |= {
        "r": Field("float", -1e6, 1e6),
        "pi": NUMBER,
        "sq_f": NUMBER,
        "since": COUNT,
        **w.scalars,
        **u.scalars,
    }
    return Schema("linear learner", scalars, arrays | w.arrays | u.arrays, w.rules + u.rules)


def adaptive_schema(
    dim: int,
    n_columns: int,
    dtype: Any,
    *,
    averaged: bool,
    normalized: bool,
    coin: bool,
    n_groups: int = 1,
) -> Schema:
    """State of an `AdaptiveLearner`; n_columns is that of all groups together."""
    n_planes = 2 + 2 * averaged + 3 * coin
    most = float(np.finfo(dtype).max)
    scalars = {
        "t": COUNT,
        "seen": COUNT,
        "sum_x": Field("float", 0.0, 1e100),
        "target_weight": Field("float", 0.0, 1e100),
        "target_mean": Field("float", -1e60, 1e60),
        "target_sq": Field("float", 0.0, 1e200),
        "count_0": COUNT,
        "count_1": COUNT,
        "older": Field("int", 0, 1),
    }
    limit = weight_limit(np.float64)
    arrays = {
        "cells": ArrayField((dim, normalized + n_planes * n_columns), dtype, -most, most),
        "offsets": ArrayField((n_planes, n_columns), np.float64, -1e30 * limit, 1e30 * limit),
        "losses": ArrayField((n_groups,)),
        "errors": ArrayField((n_groups,)),
        "groups": ArrayField((n_groups, 4), np.float64, 0.0, 1e30),  # scale, inflation, sums
    }

    def in_range(scalars: dict[str, Any], arrays: dict[str, Array]) -> bool:
        groups, cells, offsets = arrays["groups"], arrays["cells"], arrays["offsets"]
        for planes, bound in (
            (cells[:, normalized:].reshape(dim, n_planes, n_columns), weight_limit(dtype)),
            (offsets[None], limit),
        ):
            weights, roots = planes[:, 0], planes[:, 1]
            extra = planes[:, n_planes - 3 :] if coin else roots
            within = max(float(np.abs(weights).max()), float(np.abs(roots).max())) <= bound
            if not within or not 0.0 <= float(extra.min()) <= float(extra.max()) <= bound:
                return False
            if averaged and float(np.abs(planes[:, 2:4]).max()) > 1e30 * limit:
                return False
        return bool(
            groups[:, :2].min() >= 1e-10
            and groups[:, :2].max() <= 1e13
            and (
                not normalized
                or 0.0 <= float(cells[:, 0].min()) <= float(cells[:, 0].max()) <= 1e101
            )
        )

    return Schema("linear learner", scalars, arrays, ((in_range, "a number is out of range"),))


def judged_schema(
    dim: int,
    n_out: int,
    dtype: Any,
    *,
    normalized: bool,
    n_groups: int,
    n_candidates: int,
    n_predictors: int,
    open_ended: bool = False,
) -> Schema:
    """State of an `AdaptiveLearner` that judges its candidates.

    `open_ended` is for a look at the layout before it is known how many candidates are left,
    `n_groups` at most.
    """
    schema = adaptive_schema(
        dim, n_groups * n_out, dtype, averaged=True, normalized=normalized, coin=False,
        n_groups=n_groups,
    )  # fmt: skip
    most = 1e120  # sums of weights, which are at most 1e50 each, of an example and of its class
    scalars = schema.scalars | {
        "alive": Field("int", 1, 2**n_candidates - 1),
        "chosen": Field("int", 0, n_predictors - 1),
    }
    arrays = schema.arrays | {
        "losses": ArrayField((1,)),
        "errors": ArrayField((1,)),
        "figures": ArrayField((n_predictors,), np.float64, 0.0, most),
        "outcomes": ArrayField((2, 2**n_predictors), np.float64, 0.0, 1e100 * most),  # squares
        "class_weights": ArrayField((2, max(n_out, 2)), np.float64, 0.0, most),
    }
    if open_ended:
        for name in ("cells", "offsets", "groups"):
            rows, columns = cast("tuple[int, int]", arrays[name].shape)
            free = (AtMost(rows), columns) if name == "groups" else (rows, AtMost(columns))
            arrays[name] = dataclasses.replace(arrays[name], shape=free)
    return Schema(schema.what, scalars, arrays, () if open_ended else schema.rules)
