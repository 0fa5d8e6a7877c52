"""Conversions of input: dtypes to floats, sparse formats to CSR, frames to arrays.

Nothing here is reached by a valid CSR matrix or float array.  A conversion that
costs a copy of the matrix is announced, once per process for each kind.
"""

from __future__ import annotations

import copy
import sys
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from osvm.exceptions import ConversionWarning

_warned: set[str] = set()


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line outside osvm that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] == "osvm":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def brief(value: Any) -> str:
    """`repr` of what a user gave, for a message; also of a number of a thousand digits."""
    try:
        text = repr(value)
    except ValueError:  # Python writes out no integer of more than some thousand digits
        return f"an integer of {value.bit_length()} bits"
    return text if len(text) <= 200 else f"{text[:60]}... ({len(text)} characters)"


def warn_once(key: str, message: str) -> None:
    """Warn about a conversion, once per process for each key."""
    if key not in _warned:
        _warned.add(key)
        warn(message, ConversionWarning)


def to_floats(array: npt.NDArray[Any], name: str, what: str = "X") -> npt.NDArray[Any]:
    """The array as native, aligned float32 or float64; itself where it is that already."""
    kind = array.dtype.kind
    if kind == "f" and array.dtype.itemsize in (4, 8):
        if (
            array.dtype.isnative
            and array.flags.aligned
            and (array.ndim > 1 or array.flags.c_contiguous)
        ):
            return array
        return np.require(array, array.dtype.newbyteorder("="), ["A", *("C" * (array.ndim == 1))])
    if kind in "biuf":
        with np.errstate(over="ignore"):  # a long double too large becomes infinite: refused later
            return array.astype(np.float64, order="K")
    if kind == "c":
        raise ValueError(
            f"Complex data not supported: {what} has dtype {array.dtype}. Give real numbers, e.g. "
            f"{what}.real."
        )
    if kind == "O":
        return _objectsto_floats(array, what)
    raise ValueError(
        f"{what} has dtype {array.dtype}, but {name} needs numbers. Encode text or categories "
        "first, e.g. with a vectorizer or a one-hot encoder."
    )


def _objectsto_floats(array: npt.NDArray[Any], what: str) -> npt.NDArray[np.float64]:
    if any(isinstance(item, np.datetime64 | np.timedelta64) for item in array.flat):
        raise ValueError(f"{what} holds dates or times, which are no numbers: convert them first.")
    try:
        return array.astype(np.float64)
    except OverflowError:
        raise ValueError(f"{what} holds an integer that is too large for a float64.") from None
    except (ValueError, TypeError) as error:
        place = ""
        for where, item in np.ndenumerate(array):
            try:
                float(item)
            except (ValueError, TypeError):
                spot = ", ".join(
                    f"{axis} {k}" for axis, k in zip(("row", "column"), where, strict=False)
                )
                place = f" at {spot}"
                break
        if isinstance(item, complex):
            raise ValueError(f"Complex data not supported: {what}{place} is complex.") from None
        # scikit-learn raises TypeError for things that are no number at all.
        raise type(error)(
            f"{what}{place} is not a number ({error}). Encode text or categories first."
        ) from None


def check_csr(X: Any) -> None:
    """scipy's check of a compressed matrix, also where it takes the matrix for an empty one."""
    X.check_format(full_check=True)
    if (X.indptr[1:] < X.indptr[:-1]).any():
        raise ValueError("indptr must never decrease")


def to_csr(X: Any, what: str = "X") -> Any:
    """Another sparse format as CSR; checked first, because scipy's loops trust their input."""
    fmt = X.format.upper()
    try:
        if X.format in ("csc", "bsr"):
            if len(X.data) != len(X.indices):
                raise ValueError(f"{len(X.data)} values for {len(X.indices)} indices")
            check_csr(copy.copy(X))  # a copy, because it may trim the arrays
            return X.tocsr()
        X = X.tocoo()
        for axis, index, size in zip(("row", "column"), (X.row, X.col), X.shape, strict=True):
            if len(index) != len(X.data) or index.dtype.kind not in "iu":
                raise ValueError(f"{len(index)} {axis} numbers for {len(X.data)} values")
            if len(index) and (index.min() < 0 or index.max() >= size):
                k = int(np.argmax((index < 0) | (index >= size)))
                raise ValueError(
                    f"entry {k} (row {X.row[k]}, column {X.col[k]}) is outside the shape {X.shape}"
                )
        return X.tocsr()
    except Exception as error:
        raise ValueError(
            f"{what} is not a valid {fmt} matrix: {error}; rebuild {what}."
        ) from error


def sparse_frame(X: Any) -> Any:
    """A pandas frame of sparse columns as a COO matrix; None for anything else."""
    dtypes = getattr(X, "dtypes", None)
    if dtypes is None or not hasattr(X, "iloc") or not hasattr(X, "sparse"):
        return None
    try:
        kinds = list(dtypes)
    except TypeError:
        return None
    if not kinds or not all(hasattr(kind, "fill_value") for kind in kinds):
        return None
    return X.sparse.to_coo().tocsr()


def to_ndarray(X: Any, name: str) -> npt.NDArray[Any]:
    """A frame, list or array-like as an ndarray."""
    if not hasattr(X, "__array__") and hasattr(X, "to_numpy"):
        return np.asarray(X.to_numpy())
    try:
        return np.asarray(X)
    except ValueError as error:  # ragged lists
        lengths = [len(row) if hasattr(row, "__len__") else None for row in X]
        odd = next((i for i, n in enumerate(lengths) if n != lengths[0]), 0)
        raise ValueError(
            f"X is not a rectangular table: row {odd} has {lengths[odd]} entries where row 0 has "
            f"{lengths[0]}; {name} needs as many in every row."
        ) from error
