"""What comes in as y and as sample_weight, and what is refused.

Each check returns a one-dimensional array, the given one where it is fit for
use, and raises `ValueError` naming the row otherwise.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse as sp

from osvm._input.convert import to_floats, warn
from osvm._input.scan import all_finite, first_bad_weight, first_not_whole
from osvm.exceptions import ConversionWarning

_ndarray = np.ndarray
# Of an example and of a class: their products, sums over a stream and squares of them are numbers.
MOST_WEIGHT = 1e50
MOST_TARGET = 1e150  # sums of errors are finite


def check_y_classes(
    y: Any, n_rows: int | None = None, *, estimator_name: str = "this estimator"
) -> npt.NDArray[Any]:
    """Class labels as a one-dimensional array of numbers, bools or strings.

    Parameters
    ----------
    y : array-like
        Integers, bools, strings, or floats without a fraction.
    n_rows : int, optional
        The number of labels there must be.
    estimator_name : str
        For messages.
    """
    try:
        labels = _to_vector(y, estimator_name)
        if labels.dtype.kind in "OT":
            labels = _object_labels(labels.astype(object, copy=False))
        elif isinstance(y, list | tuple) and labels.dtype.kind in "USf":
            _check_items(y, labels)
    except ValueError as error:
        if not _holds_label_sets(y):
            raise
        text = str(error)
        if "inhomogeneous" in text:  # numpy's word for rows of other lengths
            text = f"{estimator_name} takes one label a row, and y holds collections of them."
        raise ValueError(f"{text} osvm.MultilabelClassifier learns sets of labels.") from None
    kind = labels.dtype.kind
    if kind == "f":
        if labels.dtype.itemsize not in (4, 8) or not labels.dtype.isnative:
            given, labels = labels, labels.astype(np.float64)
            if given.dtype.itemsize > 8:
                _check_exact(given, labels)
        row = first_not_whole(labels)
        if row >= 0:
            if not np.isfinite(labels).all():
                _refuse_not_finite(labels, "y")
            raise ValueError(
                f"Unknown label type: continuous. y holds {labels[row]!r} at row {row}; class "
                "labels are integers, bools or strings. For numbers use a regressor, or bin them "
                "into classes."
            )
    elif kind not in "biuUSO":
        raise ValueError(
            f"Unknown label type: y has dtype {labels.dtype}; class labels are integers, bools or "
            "strings."
        )
    if n_rows is not None and len(labels) != n_rows:
        _refuse_lengths(n_rows, len(labels), "y")
    return labels


def _holds_label_sets(y: Any) -> bool:
    """Whether y has a collection of labels for each row, or an indicator matrix."""
    shape = getattr(y, "shape", None)
    if shape is not None and len(shape) == 2 and shape[1] > 1:
        values = np.asarray(y.data if hasattr(y, "indptr") else y)
        return values.dtype.kind in "biuf" and bool(np.isin(values, (0, 1)).all())
    if not isinstance(y, list | tuple | np.ndarray):
        return False
    return len(y) > 0 and all(isinstance(row, list | tuple | set | frozenset) for row in y)


def check_y_regression(
    y: Any, n_rows: int | None = None, *, estimator_name: str = "this estimator"
) -> npt.NDArray[np.float64]:
    """Targets as a contiguous, finite float64 vector."""
    targets = _to_vector(y, estimator_name)
    if targets.dtype.kind != "f":
        targets = to_floats(targets, estimator_name, "y")
    out: npt.NDArray[np.float64] = np.ascontiguousarray(targets, dtype=np.float64)
    if not all_finite(out):
        _refuse_not_finite(out, "y")
    if len(out) and not max(out.max(), -out.min()) <= MOST_TARGET:
        row = int(np.abs(out).argmax())
        raise ValueError(
            f"row {row}: targets must be at most {MOST_TARGET:g} in size, got {out[row]:g}; "
            "divide all targets by the largest."
        )
    if n_rows is not None and len(out) != n_rows:
        _refuse_lengths(n_rows, len(out), "y")
    return out


def check_sample_weight(
    sample_weight: Any,
    n_rows: int,
    *,
    estimator_name: str = "this estimator",
    allow_zero: bool = True,
) -> npt.NDArray[np.float64] | None:
    """Weights as a contiguous float64 vector, finite and not negative; None stays None.

    A single number weighs every row alike.  All weights zero is fine for a block of
    a stream; with ``allow_zero=False``, as `fit` wants, it is an error, because
    nothing could be learnt.
    """
    if sample_weight is None:
        return None
    if type(sample_weight) is _ndarray:
        weights = sample_weight
    elif sp.issparse(sample_weight):
        raise ValueError("sample_weight must be a dense vector; use .toarray().ravel().")
    else:
        refuse_masked(sample_weight, "sample_weight")
        weights = np.asarray(sample_weight)
    if weights.ndim == 0:
        weights = np.full(n_rows, weights)
    if weights.ndim != 1:
        raise ValueError(
            f"Sample weights must be 1D array or scalar, got {weights.ndim} dimensions."
        )
    if weights.dtype.kind != "f":
        weights = to_floats(weights, estimator_name, "sample_weight")
    out: npt.NDArray[np.float64] = np.ascontiguousarray(weights, dtype=np.float64)
    if len(out) != n_rows:
        raise ValueError(
            f"sample_weight.shape == {out.shape}, expected ({n_rows},): one weight per row of X."
        )
    row = first_bad_weight(out, MOST_WEIGHT)
    if row >= 0:
        if not np.isfinite(out[row]):
            _refuse_not_finite(out, "sample_weight")
        if out[row] > MOST_WEIGHT:
            raise ValueError(
                f"sample_weight at row {row} is {out[row]:.3g}, which is too large (at most "
                f"{MOST_WEIGHT:g}): divide all weights by the largest."
            )
        raise ValueError(
            f"Negative values in data passed to `sample_weight`: row {row} has {out[row]}. "
            "Weights must be 0 or more."
        )
    if not allow_zero and n_rows and not out.any():
        raise ValueError(
            "Sample weights must contain at least one non-zero number: all are zero from row 0 on."
        )
    return out


def _to_vector(y: Any, name: str) -> npt.NDArray[Any]:
    """y as a one-dimensional array; a column is flattened with a warning."""
    kind = type(y)
    if kind is _ndarray and y.ndim == 1 and y.dtype.kind != "c":
        return y
    if y is None:
        raise ValueError(f"requires y to be passed, but the target y is None: {name} requires y.")
    if sp.issparse(y):
        raise ValueError(
            "sparse y is not supported: y must be a dense vector; use y.toarray().ravel()."
        )
    refuse_masked(y, "y")
    array = np.asarray(y) if kind is not _ndarray else y
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: y has dtype {array.dtype}.")
    if array.ndim == 2 and array.shape[1] == 1:
        warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape "
            "of y to (n_samples,), for example using ravel().",
            _column_warning(),
        )
        array = array.ravel()
    if array.ndim != 1:
        raise ValueError(
            f"y should be a 1d array, got an array of shape {array.shape} instead. Give one label "
            "or target per row of X."
        )
    return array


def _column_warning() -> type[Warning]:
    """scikit-learn's DataConversionWarning where scikit-learn is loaded, else ours."""
    if "sklearn" in sys.modules:
        try:
            from sklearn.exceptions import DataConversionWarning

            return DataConversionWarning
        except ImportError:
            pass
    return ConversionWarning


def _object_labels(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels of dtype object: all strings stay, numbers become numbers."""
    items = labels.tolist()
    if all(isinstance(item, str) for item in items):
        return labels
    if all(isinstance(item, bytes) for item in items):
        as_bytes = np.array(items)
        _check_items(items, as_bytes)
        return as_bytes
    for row, item in enumerate(items):
        if _is_missing(item):
            raise ValueError(
                f"Input y contains NaN or a missing value at row {row}. Drop that row or label it."
            )
    if any(isinstance(item, str | bytes) for item in items):
        row = next(i for i, item in enumerate(items) if type(item) is not type(items[0]))
        raise ValueError(
            f"Unknown label type: y mixes strings and other types ({items[0]!r} at row 0, "
            f"{items[row]!r} at row {row}). Give labels of one type."
        )
    numbers = np.array(items)
    if numbers.dtype.kind == "f":
        _check_items(items, numbers)
    if numbers.ndim != 1 or numbers.dtype.kind not in "biuf":
        raise ValueError(
            "Unknown label type: unknown. y must hold integers, bools or strings, not "
            f"{type(items[0]).__name__}."
        )
    return numbers


def _is_missing(item: Any) -> bool:
    """None, NaN, or pandas's NA, which cannot say whether it differs from itself."""
    try:
        return item is None or bool(item != item)
    except TypeError:
        return True


def _check_items(items: Any, labels: npt.NDArray[Any]) -> None:
    """Refuse a list whose labels numpy has changed to make one dtype of them."""
    if labels.dtype.kind == "f":
        _check_exact(items, labels.tolist())
        return
    kind, nul = (str, "\0") if labels.dtype.kind == "U" else (bytes, b"\0")
    if not all(isinstance(item, kind) for item in items):
        _object_labels(np.array([*items, None], dtype=object)[:-1])  # names the first other one
    row = next((row for row, item in enumerate(items) if item.endswith(nul)), None)
    if row is not None:
        raise ValueError(
            f"the label {items[row]!r} at row {row} ends with a null character, which numpy "
            "drops: give labels without it, or an array of dtype object."
        )


def _check_exact(given: Any, labels: Any) -> None:
    """Refuse numbers that are others as float64: two labels might become one."""
    for row, (item, label) in enumerate(zip(given, labels)):
        if item != label and item == item:
            raise ValueError(
                f"the label {item!r} at row {row} cannot be kept exactly beside the others: give "
                "all labels as integers of one 64-bit type, or as strings."
            )


def refuse_masked(array: Any, what: str) -> None:
    """Raise for a masked array in which something is masked."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        row = int(np.argmax(np.ma.getmaskarray(array)))
        raise ValueError(f"{what} is masked at row {row}. Drop that row or fill it in.")


def _refuse_not_finite(array: npt.NDArray[Any], what: str) -> None:
    row = int(np.argmin(np.isfinite(array)))
    kind = "NaN" if np.isnan(array[row]) else "infinity"
    raise ValueError(f"Input {what} contains {kind} at row {row}. Drop that row or fill it in.")


def _refuse_lengths(n_rows: int, n_other: int, what: str) -> None:
    raise ValueError(
        f"Found input variables with inconsistent numbers of samples: [{n_rows}, {n_other}]. "
        f"X has {n_rows} rows but {what} has {n_other} entries (they part at row "
        f"{min(n_rows, n_other)}); give one per row."
    )
