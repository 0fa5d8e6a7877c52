"""The data contract: what comes in as X, y and sample_weight, and what is refused.

`check_X` turns anything a user may hold into a `RowSource` for the compiled
loops.  Invariants:

- a valid CSR matrix (float32 or float64 values, int32 or int64 indices, sorted
  or not, read-only or memory-mapped) and a float array in any memory order are
  viewed, never copied; X is never modified;
- a row that names a column twice means the sum of its values: they are added in a
  copy, here and nowhere else, unless the caller uses them in sums only (`summed`);
- anything malformed raises `ValueError`, which names the row and what to do,
  before the caller has touched its state.

The common case takes the first lines of `check_X`: one compiled call that
opens and checks the arrays.  Everything after them is diagnosis or conversion.
Phrases follow scikit-learn's where a user (or its test suite) looks for them.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse as sp

from osvm._input.convert import sparse_frame, to_csr, to_floats, to_ndarray, warn, warn_once
from osvm._input.rows import RowSource, row_norms
from osvm._input.scan import all_finite, find_fault, open_csr, open_dense, repeats_columns
from osvm._input.targets import check_sample_weight as check_sample_weight
from osvm._input.targets import check_y_classes, check_y_regression

_csr_matrix = sp.csr_matrix
_csr_array = sp.csr_array
_ndarray = np.ndarray


# ---------------------------------------------------------------------- X


def check_X(
    X: Any,
    *,
    n_features: int | None = None,
    estimator_name: str = "this estimator",
    allow_empty: bool = False,
    summed: bool = True,
) -> tuple[RowSource, Any]:
    """Check X and open it for the compiled loops.

    Parameters
    ----------
    X : CSR matrix or array, ndarray, other sparse matrix, data frame or list
        Two-dimensional data, one example per row.  float32 and float64 are used
        as they are; other numbers (integers of any size, bool, float16) are
        converted to float64 once.
    n_features : int, optional
        The number of columns that X must have.
    estimator_name : str
        For messages.
    allow_empty : bool
        Accept X with no rows (a stream's empty block).
    summed : bool
        Add up the values of columns that a row names twice, in a copy; False where they
        are added up anyway.

    Returns
    -------
    source : RowSource
        The view that compiled code reads.
    X : csr_matrix, csr_array or ndarray
        The arrays that `source` views: X itself unless it had to be converted.

    Raises
    ------
    ValueError
        X is malformed, empty, not finite, not numeric or has another number of
        columns.
    """
    kind = type(X)
    source: RowSource | None
    if kind is _csr_matrix or kind is _csr_array:
        shape = X._shape
        if len(shape) == 2:
            source = open_csr(X.data, X.indices, X.indptr, shape[0], shape[1], summed)
        else:
            source = None
        if source is None:
            source, X = _open_slow_csr(X, estimator_name)
    elif kind is _ndarray:
        source = open_dense(X)
        if source is None:
            source, X = _open_slow_dense(X, estimator_name)
    else:
        source, X = _open_other(X, estimator_name)
    if source.n_features != n_features and n_features is not None:
        check_n_features(source.n_features, n_features, estimator_name)
    if source.n_rows == 0 or source.n_features == 0:
        _refuse_empty(source.n_rows, source.n_features, allow_empty, estimator_name)
    if summed and source.sparse and repeats_columns(source):
        return _open_repeated(X, estimator_name)
    return source, X


def _open_repeated(X: Any, name: str) -> tuple[RowSource, Any]:
    """A valid CSR matrix with the values of repeated columns added up, in a copy."""
    warn_once(
        "repeated columns",
        "a row of X names a column more than once; the values were added up in a copy of X: call "
        "X.sum_duplicates() once before to save the copy at every call.",
    )
    n = int(X.indptr[-1])
    arrays = X.data[:n].copy(), X.indices[:n].copy(), X.indptr.copy()
    X = type(X)(arrays, shape=X.shape)
    X.has_canonical_format = False  # whatever was said of the columns before they changed
    X.sum_duplicates()
    return _open_sparse(X, name)


def check_n_features(found: int, expected: int, estimator_name: str) -> None:
    """Raise when X has another number of columns than the model."""
    if found != expected:
        raise ValueError(
            f"X has {found} features, but {estimator_name} is expecting {expected} features as "
            "input. Give the columns the model was trained on (for text: the same vectorizer)."
        )


def _refuse_empty(n_rows: int, n_features: int, allow_rows: bool, name: str) -> None:
    if n_rows == 0 and not allow_rows:
        raise ValueError(
            f"Found array with 0 sample(s) (shape=({n_rows}, {n_features})) while a minimum of 1 "
            f"is required by {name}."
        )
    if n_features == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape=({n_rows}, {n_features})) while a minimum of 1 "
            f"is required by {name}."
        )


def _raise_fault(source: RowSource, X: Any, name: str) -> None:
    """Raise for what `find_fault` finds; return if it finds nothing."""
    fault, row, entry, column, value = find_fault(source)
    mend = "rebuild X, e.g. scipy.sparse.csr_matrix(X.tocoo()) from its coordinates"
    if fault == "none":
        return
    if fault == "start":
        raise ValueError(
            f"X is not a valid CSR matrix: indptr[0] is {column}, so row 0 does not start at 0; "
            f"{mend}."
        )
    if fault == "decreasing":
        raise ValueError(
            f"X is not a valid CSR matrix: row {row} starts at entry {entry} and ends at "
            f"{column} (indptr must not decrease); {mend}."
        )
    if fault == "past_end":
        raise ValueError(
            f"X is not a valid CSR matrix: row {row} ends at entry {column}, but data and indices "
            f"hold {len(X.indices)} entries; {mend}."
        )
    if fault == "index":
        raise ValueError(
            f"X is not a valid CSR matrix: row {row} holds column {column} (its entry {entry}), "
            f"but X has columns 0 to {source.n_features - 1}; {mend} with the right shape."
        )
    if value != value:
        raise ValueError(
            f"Input X contains NaN at row {row}, column {column}. {name} does not accept missing "
            "values: drop those rows or fill them in first, e.g. with numpy.nan_to_num or "
            "sklearn.impute.SimpleImputer."
        )
    raise ValueError(
        f"Input X contains infinity or a value too large for its type at row {row}, column "
        f"{column} ({value}). Drop that row or clip the values, e.g. with numpy.clip."
    )


# ------------------------------------------------------------- CSR, diagnosed


def _open_slow_csr(X: Any, name: str) -> tuple[RowSource, Any]:
    """A CSR matrix that needs a conversion, or the error that it deserves."""
    shape = tuple(X.shape)
    if len(shape) != 2:
        raise ValueError(_reshape_text(f"{len(shape)}D sparse array"))
    n_rows, n_features = (int(size) for size in shape)
    values, indices, indptr = X.data, X.indices, X.indptr
    for what, array in (("data", values), ("indices", indices), ("indptr", indptr)):
        if not isinstance(array, np.ndarray) or array.ndim != 1:
            raise ValueError(
                f"X is not a valid CSR matrix: X.{what} must be a one-dimensional array, got "
                f"{_describe(array)}; rebuild X."
            )
    for what, array in (("indices", indices), ("indptr", indptr)):
        if array.dtype.kind not in "iu":
            raise ValueError(
                f"X is not a valid CSR matrix: X.{what} has dtype {array.dtype}, it must be int32 "
                "or int64; rebuild X."
            )
    if len(values) != len(indices):
        row = int(np.searchsorted(indptr, min(len(values), len(indices)), side="right")) - 1
        raise ValueError(
            f"X is not a valid CSR matrix: data has {len(values)} entries but indices has "
            f"{len(indices)}, which disagree from row {max(row, 0)} on; rebuild X."
        )
    if len(indptr) != n_rows + 1:
        raise ValueError(
            f"X is not a valid CSR matrix: indptr has {len(indptr)} entries, but {n_rows} rows "
            f"need {n_rows + 1} (row {min(len(indptr), n_rows + 1) - 1}); rebuild X."
        )
    new_values = to_floats(values, name)
    new_indices, new_indptr = _match_indices(indices, indptr)
    source = RowSource.csr(new_values, new_indices, new_indptr, n_features)
    _raise_fault(source, X, name)
    if new_values is not values or new_indices is not indices or new_indptr is not indptr:
        X = copy.copy(X)  # shares the arrays that stay
        X.data, X.indices, X.indptr = new_values, new_indices, new_indptr
    return source, X


def _match_indices(
    indices: npt.NDArray[Any], indptr: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Both index arrays in one native, aligned integer type; the long one stays if it can."""
    int32, int64 = np.dtype(np.int32), np.dtype(np.int64)
    target = indices.dtype if indices.dtype in (int32, int64) else int64
    if target == int32 and indptr.dtype != int32 and len(indptr):
        limits = np.iinfo(np.int32)
        if int(indptr.max()) > limits.max or int(indptr.min()) < limits.min:
            target = int64
    if indices.dtype != target:
        warn_once(
            f"indices {indices.dtype}",
            f"X.indices has dtype {indices.dtype} and was copied to {np.dtype(target)}; build X "
            "with int32 or int64 indices to save the copy.",
        )
    return (
        np.require(indices, np.dtype(target), ["C", "A"]),
        np.require(indptr, np.dtype(target), ["C", "A"]),
    )


# ------------------------------------------------------------ dense, diagnosed


def _open_slow_dense(X: npt.NDArray[Any], name: str) -> tuple[RowSource, npt.NDArray[Any]]:
    """An array that needs a conversion, or the error that it deserves."""
    if X.ndim < 2:
        raise ValueError(_reshape_text(f"{_dimension_word(X.ndim)} array"))
    if X.ndim > 2:
        raise ValueError(
            f"Found array with dim {X.ndim}, while dim <= 2 is required by {name}. "
            "Reshape your data to (examples, features)."
        )
    X = to_floats(X, name)
    if any(stride % X.itemsize for stride in X.strides):
        X = np.ascontiguousarray(X)
    source = RowSource.dense(X)
    _raise_fault(source, X, name)
    return source, X


def _dimension_word(ndim: int) -> str:
    return "scalar" if ndim == 0 else f"{ndim}D"


def _reshape_text(what: str) -> str:
    return (
        f"Expected 2D array, got {what} instead. Reshape your data either using "
        "array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if it "
        "contains a single sample."
    )


# ------------------------------------------------- other formats, frames, lists


def _open_other(X: Any, name: str) -> tuple[RowSource, Any]:
    """Anything that is neither exactly a CSR matrix nor exactly an ndarray."""
    if sp.issparse(X):
        return _open_sparse(X, name)
    if isinstance(X, str | bytes) or are_documents(X):
        what = f"the text {X[:20]!r}" if isinstance(X, str | bytes) else "a list of texts"
        raise ValueError(
            f"Expected 2D array, got {what} instead. Turn texts into numbers first, e.g. with "
            "make_pipeline(osvm.stream.HashingTokenizer(), ...)."
        )
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(
            "X is a masked array with masked values: fill them first, X.filled(value)."
        )
    matrix = sparse_frame(X)
    if matrix is not None:
        return _open_sparse(matrix, name)
    array = to_ndarray(X, name)
    source = open_dense(array)
    if source is None:
        return _open_slow_dense(array, name)
    return source, array


def _open_sparse(X: Any, name: str) -> tuple[RowSource, Any]:
    if X.format != "csr":
        if X.dtype.kind == "c":
            raise ValueError(f"Complex data not supported: X has dtype {X.dtype}.")
        if X.ndim != 2:
            raise ValueError(_reshape_text(f"{X.ndim}D sparse array"))
        warn_once(
            f"format {X.format}",
            f"X is a {X.format.upper()} matrix and was copied to CSR; call X.tocsr() once before "
            "to save the copy at every call.",
        )
        X = to_csr(X)
    if X.ndim == 2:
        source = open_csr(X.data, X.indices, X.indptr, *X.shape)
        if source is not None:
            return source, X
    return _open_slow_csr(X, name)


# ------------------------------------------------------------- feature names


def are_documents(X: Any) -> bool:
    """Whether X is a list or column of texts."""
    kind = type(X)
    if kind is _csr_matrix or kind is _csr_array or sp.issparse(X) or isinstance(X, str | bytes):
        return False
    if isinstance(X, list | tuple):
        return len(X) > 0 and isinstance(X[0], str | bytes)
    if getattr(X, "ndim", 0) != 1 or not hasattr(X, "dtype"):
        return False
    first = next(iter(X), None)
    return isinstance(first, str | bytes)


def rows_between(X: Any, rows: Any, start: int, stop: int) -> Any:
    """Some rows of X, which `check_X` gave as `rows`; a data frame stays one, with its names."""
    return rows[start:stop] if feature_names(X) is None else X[start:stop]


def feature_names(X: Any) -> npt.NDArray[Any] | None:
    """Column names of a data frame when all are strings; None otherwise.

    A frame with string and other names together is refused, as in scikit-learn.
    """
    kind = type(X)
    if kind is _ndarray or kind is _csr_matrix or kind is _csr_array:
        return None
    columns = getattr(X, "columns", None)
    if columns is None or not hasattr(X, "shape"):
        return None
    names = list(columns)
    strings = [isinstance(column, str) for column in names]
    if not names or not any(strings):
        return None
    if not all(strings):
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your "
            "input has mixed types of names. Use X.columns = X.columns.astype(str), or strip the "
            "names with X.to_numpy()."
        )
    return np.asarray(names, dtype=object)


def check_feature_names(
    names: npt.NDArray[Any] | None, expected: npt.NDArray[Any] | None, estimator_name: str
) -> None:
    """Compare the names of new data with those that the model was fitted on."""
    if names is None and expected is None:
        return
    if expected is None:
        warn(
            f"X has feature names, but {estimator_name} was fitted without feature names",
            UserWarning,
        )
        return
    if names is None:
        warn(
            f"X does not have valid feature names, but {estimator_name} was fitted with feature "
            "names",
            UserWarning,
        )
        return
    if len(names) == len(expected) and np.array_equal(names, expected):
        return
    lines = ["The feature names should match those that were passed during fit."]
    unseen = sorted(set(names) - set(expected))
    missing = sorted(set(expected) - set(names))
    for title, group in (
        ("Feature names unseen at fit time:", unseen),
        ("Feature names seen at fit time, yet now missing:", missing),
    ):
        if group:
            lines.append(title)
            lines += [f"- {label}" for label in group[:5]]
            lines += ["- ..."] * (len(group) > 5)
    if not unseen and not missing:
        lines.append("Feature names must be in the same order as they were in fit.")
    raise ValueError("\n".join(lines) + "\n")


def unit_scale(source: RowSource) -> npt.NDArray[np.float64]:
    """1/||x|| for every row (1 for a zero row), repeated columns counted as their sum."""
    out = np.empty(source.n_rows)
    row_norms(source, out, inverse=True)
    return out


def check_scores(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The scores of a C-ordered array; FloatingPointError where one of them overflowed."""
    if not all_finite(scores):
        row = np.isfinite(scores.reshape(len(scores), -1)).all(axis=1).argmin()
        raise FloatingPointError(
            f"the score of row {row} is too large for a number: scale the features, here and "
            "where the model is trained"
        )
    return scores


def check_X_y(
    X: Any,
    y: Any,
    *,
    classes: bool = True,
    n_features: int | None = None,
    estimator_name: str = "this estimator",
    allow_empty: bool = False,
) -> tuple[RowSource, Any, npt.NDArray[Any]]:
    """`check_X`, then y of the same length: labels, or numbers with ``classes=False``."""
    if y is None:
        raise ValueError(
            f"requires y to be passed, but the target y is None: {estimator_name} requires y."
        )
    source, X = check_X(
        X, n_features=n_features, estimator_name=estimator_name, allow_empty=allow_empty
    )
    check = check_y_classes if classes else check_y_regression
    return source, X, check(y, source.n_rows, estimator_name=estimator_name)


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return type(value).__name__
