"""One example at a time: `learn_one`, `predict_one`, `predict_proba_one` and `score_one`.

An example is a dense row, two arrays (column numbers and values), or a dict of either column
numbers or names; names (str) are hashed by the tokenizer of the model, as river's users write
examples.  It becomes a matrix of one row for `partial_fit`, `predict`, `decision_function` or
`predict_proba`, so that every estimator that has these can be asked for one example, and its
model is that of `partial_fit` bit for bit.  `osvm.linear.one_example` puts a faster path before.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
import scipy.sparse as sp

from osvm._input.parameters import check_integer
from osvm.stream.tokenizer import HashingTokenizer

NOT_GIVEN: Any = object()
NAMED_BITS = 20  # columns of a model that learns from names are 2**20, unless n_features says so


class OneExample:
    """Mixin of the estimators that learn a stream one example at a time."""

    # What a target is: "label", "number" or "none".  An estimator with targets of another kind
    # overrides `_one_y`, which makes of one what `partial_fit` takes for one row.
    _one_target: str
    __dict__: dict[str, Any]

    def learn_one(
        self, x: Any, values: Any = None, y: Any = NOT_GIVEN, *, n_features: int | None = None
    ) -> Any:
        """Learn one example; the same as `partial_fit` on one row.

        Written ``learn_one(columns, values, y)``, ``learn_one(features, y)`` with a dict, or
        ``learn_one(row, y)`` with a dense row.  A novelty model takes no y.

        Parameters
        ----------
        x : array of column numbers, dict of column number or name to value, or dense row
            Names (str) are hashed, into ``2**20`` columns unless `n_features`, a power of two,
            says otherwise; a model that was trained on text takes them for its words, and their
            values for counts.  A dense row is an array of floats, one for each column.
        values : array of as many values
            Left out with a dict and with a dense row.
        y : label or number
            A label that was not seen before makes a classifier grow.
        n_features : int, optional
            Needed at the first example of a new model that comes in column numbers: the model
            cannot know how many columns there are.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np, osvm
        >>> model = osvm.LinearClassifier()
        >>> model.learn_one(np.array([0, 3]), np.array([1.0, 0.5]), "spam", n_features=5)
        LinearClassifier()
        >>> model.learn_one({1: 1.0}, "ham").predict_one({3: 1.0})
        'spam'
        >>> model = osvm.KernelClassifier(gamma=0.5)
        >>> model.learn_one({"good": 1.0, "film": 1.0}, "pos").predict_one({"film": 1.0})
        'pos'
        """
        if y is NOT_GIVEN:
            values, y = self._arguments(x, values)
        known = self.__dict__
        if isinstance(x, dict) and has_names(x):
            if "tokenizer_" in known:
                return self._learn_named(x, y, n_features)
            with self._lock.holding():  # type: ignore[attr-defined]
                return self._learn_named(x, y, n_features)
        if n_features is not None:
            check_integer("n_features", n_features, 1)
        row = _dense_row(x) if values is None else None
        width = known.get("n_features_in_", n_features)
        if row is not None and n_features is None:
            width = row.shape[1]  # `partial_fit` compares it with the model's
        if width is None:
            raise ValueError(
                "the first example of a new model must say how many features there are: "
                "learn_one(..., n_features=...)"
            )
        if n_features is not None and n_features != width:
            raise ValueError(f"n_features={n_features}, but the model has {width}")
        if row is None:
            row = _sparse_row(x, values, width)
        elif row.shape[1] != width:
            raise ValueError(f"n_features={n_features}, but the row has {row.shape[1]} values")
        if self._one_target == "none":
            self.partial_fit(row)  # type: ignore[attr-defined]
        else:
            self.partial_fit(row, self._one_y(y))  # type: ignore[attr-defined]
        self._make_one()
        return self

    def score_one(self, x: Any, values: Any = None) -> Any:
        """`decision_function` of one example, or `predict` of a regressor.

        Parameters
        ----------
        x : array of column numbers, dict of column number or name to value, or dense row
        values : array of as many values; left out with a dict and with a dense row

        Returns
        -------
        float, or an array with one score per class where there are several
            0 for names when the model has learnt nothing.
        """
        if values is None and isinstance(x, dict) and has_names(x):
            x, values = self._columns_of(x)
            return 0.0 if x is None else self.score_one(x, values)
        row = self._row_to_predict(x, values)
        name = "predict" if self._one_target == "number" else "decision_function"
        answer = getattr(self, name)(row)[0]
        self._make_one()
        return float(answer) if np.ndim(answer) == 0 else answer

    def predict_one(self, x: Any, values: Any = None) -> Any:
        """`predict` of one example.

        Parameters
        ----------
        x : array of column numbers, dict of column number or name to value, or dense row
        values : array of as many values; left out with a dict and with a dense row

        Returns
        -------
        a label, a number, or +1/-1, as `predict` gives
            For names, a classifier that has learnt nothing answers None, a regressor 0.
        """
        if values is None and isinstance(x, dict) and has_names(x):
            x, values = self._columns_of(x)
            if x is None:
                return 0.0 if self._one_target in ("number", "none") else None
            return self.predict_one(x, values)
        if self._one_target == "number":
            return self.score_one(x, values)
        if self._one_target == "none":
            return 1 if self.score_one(x, values) >= 0.0 else -1
        row = self._row_to_predict(x, values)
        answer = self.predict(row)[:1].tolist()[0]  # type: ignore[attr-defined]
        self._make_one()
        return answer

    def predict_proba_one(self, x: Any, values: Any = None) -> dict[Any, float]:
        """`predict_proba` of one example, as a dict of label to probability.

        Parameters
        ----------
        x : array of column numbers, dict of column number or name to value, or dense row
        values : array of as many values; left out with a dict and with a dense row

        Returns
        -------
        dict
            Empty for names when the model has learnt nothing.
        """
        if values is None and isinstance(x, dict) and has_names(x):
            x, values = self._columns_of(x)
            if x is None:
                return {}
        row = self._row_to_predict(x, values)
        with self._lock:  # type: ignore[attr-defined]  # shares and labels of one moment
            shares = self.predict_proba(row)  # type: ignore[attr-defined]
            return dict(zip(self.classes_.tolist(), shares[0].tolist()))  # type: ignore[attr-defined]

    # ---------------------------------------------------------------- what is given

    def _arguments(self, x: Any, second: Any) -> tuple[Any, Any]:
        """(values, y) of ``learn_one(x, second)``: who needs a y takes the second for it."""
        if isinstance(x, dict) or self._one_target != "none":
            return None, second
        return second, None

    def _one_y(self, y: Any) -> Any:
        """The targets of a matrix of one row."""
        targets = np.array([y])
        if targets.ndim != 1:
            raise ValueError(f"y must be one target, got an array of shape {targets.shape[1:]}")
        return [y] if targets.dtype.kind in "US" else targets  # numpy may have cut the label

    def _row_to_predict(self, x: Any, values: Any) -> Any:
        self._check_fitted()  # type: ignore[attr-defined]
        row = _dense_row(x) if values is None else None
        return _sparse_row(x, values, self.__dict__["n_features_in_"]) if row is None else row

    def _make_one(self) -> None:
        """Prepare a faster path for later calls, where an estimator has one."""

    # ------------------------------------------------------------------------ names

    def _learn_named(self, x: dict[str, Any], y: Any, n_features: int | None) -> Any:
        """`learn_one` of named features; the first example brings the tokenizer along."""
        tokenizer = self._tokenizer_of(x, n_features)
        self.learn_one(*tokenizer.columns_of(x), y, n_features=tokenizer.n_features)
        self.tokenizer_ = tokenizer
        return self

    def _columns_of(self, x: dict[str, Any]) -> tuple[Any, Any]:
        """Columns and values of named features; (None, None) when nothing was learnt yet."""
        with self._lock:  # type: ignore[attr-defined]  # weights and tokenizer of one moment
            tokenizer, is_new = self._tokenizer_of(x), "t_" not in self.__dict__
        columns = tokenizer.columns_of(x)  # what does not fit is refused in any case
        return (None, None) if is_new else columns

    def _tokenizer_of(self, x: dict[str, Any], n_features: int | None = None) -> HashingTokenizer:
        """What hashes the names of features."""
        known = self.__dict__
        if "tokenizer_" in known:
            return known["tokenizer_"]
        if "t_" in known:
            raise TypeError(
                f"a feature is named {next(iter(x))!r}, but this model was trained on numbered "
                "columns: give column numbers"
            )
        if n_features is not None:
            check_integer("n_features", n_features, 1)
        bits = NAMED_BITS if n_features is None else int(n_features).bit_length() - 1
        if n_features is not None and n_features != 1 << bits:
            raise ValueError(f"n_features must be a power of two for names, got {n_features}")
        return HashingTokenizer(bits, tf="count", idf=False, norm=False)

    # ------------------------------------------------------------------------ river

    @property
    def _supervised(self) -> bool:  # asked by river
        return self._one_target != "none"

    def _join_river(self) -> None:
        """Let river, if it is there, take the model for one of its own kind."""
        base = sys.modules.get("river.base")
        kind = {"label": "Classifier", "number": "Regressor"}.get(self._one_target)
        if base is not None and kind is not None:
            getattr(base, kind).register(type(self))


def has_names(x: dict[Any, Any]) -> bool:
    """Whether the features are named; those of one dict must be of one kind."""
    for key in x:
        return isinstance(key, str)
    return False


def _dense_row(x: Any) -> Any:
    """A vector of floats as a matrix of one row; None for anything else.

    Whole numbers are not taken for a row: they would be columns whose values were forgotten.
    """
    if isinstance(x, dict):
        return None
    try:
        row = np.asarray(x)
    except ValueError:  # lists within lists
        return None
    return row[None] if row.ndim == 1 and row.dtype.kind == "f" else None


def _sparse_row(x: Any, values: Any, n_features: int) -> sp.csr_matrix:
    """The example as a matrix of one row, not checked yet."""
    if isinstance(x, dict):
        columns = _columns(x, n_features)
        try:
            values = np.fromiter(x.values(), dtype=np.float64, count=len(x))
        except OverflowError:
            raise ValueError("a value is too large for a float64") from None
    else:
        if values is None:
            raise ValueError(
                "give the values that belong to the columns, one dict for both, or a dense row of "
                "floats"
            )
        columns, values = np.asarray(x), np.asarray(values)
        if columns.ndim != 1 or columns.shape != values.shape:
            raise ValueError(
                f"columns and values must be vectors of one length, got shapes {columns.shape} "
                f"and {values.shape}"
            )
        if columns.size == 0:
            columns = columns.astype(np.int64)
        if columns.dtype.kind not in "iu":
            raise ValueError(f"column numbers must be integers, got {columns.dtype}")
    row = sp.csr_matrix.__new__(sp.csr_matrix)
    row.__dict__.update(_empty_row(n_features))
    # Set one by one: the constructor would copy, and check less than partial_fit does.
    row.data, row.indices = values, columns
    row.indptr = np.array([0, len(columns)], dtype=columns.dtype)
    return row


@functools.lru_cache(maxsize=16)
def _empty_row(n_features: int) -> dict[str, Any]:
    """The attributes of an empty matrix of one row, whose constructor takes longer than a step."""
    return dict(sp.csr_matrix((1, n_features), dtype=np.float64).__dict__)


def _columns(x: dict[Any, Any], n_features: int) -> Any:
    """The column numbers of a dict."""
    if not set(map(type, x)) <= {int}:
        odd = next((key for key in x if not hasattr(key, "__index__")), None)
        if odd is not None:
            raise TypeError(
                f"a feature is named {odd!r}: features of one example are column numbers, or "
                "names (str)"
            )
    try:
        return np.fromiter(x.keys(), dtype=np.int64, count=len(x))
    except OverflowError:
        worst = max(x, key=abs)
        raise ValueError(f"there is no column {worst} in {n_features} features") from None
