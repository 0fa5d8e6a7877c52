"""One example at a time: `learn_one`, `predict_one`, `predict_proba_one` and `score_one`.

The methods take an example as two arrays or as a dict and go through compiled
code (`osvm.linear.one_row`) in about a microsecond.  What that code does not handle goes
through a matrix of one row, with the same result.

A dict of names (str) is hashed by the tokenizer of the model, as river's users write examples.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import scipy.sparse as sp

import osvm.linear.one_row as one_row
from osvm._input.parameters import check_integer
from osvm.linear.learner import Learner
from osvm.stream.tokenizer import HashingTokenizer

_NOT_GIVEN: Any = object()
_csr_matrix, _csr_array, _ndarray = sp.csr_matrix, sp.csr_array, np.ndarray
NAMED_BITS = 20  # columns of a model that learns from names are 2**20, unless n_features says so


class OneExample:
    """Mixin of the linear estimators."""

    __dict__: dict[str, Any]

    def learn_one(
        self, x: Any, values: Any = None, y: Any = _NOT_GIVEN, *, n_features: int | None = None
    ) -> Any:
        """Learn one example; the same as `partial_fit` on one row, and much quicker.

        Written ``learn_one(columns, values, y)``, or ``learn_one(features, y)`` with
        a dict.  A novelty model takes no y.

        Parameters
        ----------
        x : array of column numbers, or dict of column number or name to value
            int32 or int64 arrays are used as they are.  Names (str) are hashed, into ``2**20``
            columns unless `n_features`, a power of two, says otherwise; a model that was
            trained on text takes them for its words, and their values for counts.
        values : array of as many values
            float32 or float64; left out with a dict.
        y : label or number
            A label that was not seen before makes a classifier grow.
        n_features : int, optional
            Needed at the first example of a new model unless it has names: the model cannot
            know how many columns there are.

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
        >>> model = osvm.LinearClassifier()
        >>> model.learn_one({"good": 1.0, "film": 1.0}, "pos").predict_one({"film": 1.0})
        'pos'
        """
        if y is _NOT_GIVEN:
            if type(x) is dict:
                values, y = None, values
            else:
                y = None
        if one_row.learn(self, x, values, y):
            return self
        known = self.__dict__
        if type(x) is dict and _has_names(x):
            if "tokenizer_" in known:
                return self._learn_named(x, y, n_features)
            with self._lock.changing():  # type: ignore[attr-defined]
                return self._learn_named(x, y, n_features)
        if n_features is not None:
            check_integer("n_features", n_features, 1)
        width = known.get("n_features_in_", n_features)
        if width is None:
            raise ValueError(
                "the first example of a new model must say how many features there are: "
                "learn_one(..., n_features=...)"
            )
        if n_features is not None and n_features != width:
            raise ValueError(f"n_features={n_features}, but the model has {width}")
        row = _one_row(x, values, width)
        if self._one_target == "none":
            self.partial_fit(row)  # type: ignore[attr-defined]
        else:
            self.partial_fit(row, np.array([y]))  # type: ignore[attr-defined]
        self._make_one()
        return self

    def _learn_named(self, x: dict[str, Any], y: Any, n_features: int | None) -> Any:
        """`learn_one` of named features; the first example brings the tokenizer along."""
        tokenizer = self._tokenizer_of(x, n_features)
        self.learn_one(*tokenizer.columns_of(x), y, n_features=tokenizer.n_features)
        self.tokenizer_ = tokenizer
        return self

    def score_one(self, x: Any, values: Any = None) -> Any:
        """`decision_function` of one example.

        Parameters
        ----------
        x : array of column numbers, or dict of column number to value
        values : array of as many values; left out with a dict

        Returns
        -------
        float, or an array with one score per class where there are several
        """
        if self._has_offset:
            with self._lock:  # type: ignore[attr-defined]  # weights and offset of the same moment
                answer = one_row.score(self, x, values)
                if answer is not None:
                    return answer - self.offset_  # type: ignore[attr-defined]
        else:
            answer = one_row.score(self, x, values)
        if answer is None:
            if values is None and type(x) is dict and _has_names(x):
                x, values = self._columns_of(x)
                return 0.0 if x is None else self.score_one(x, values)
            row = self._row_to_predict(x, values)
            name = "predict" if self._one_target == "number" else "decision_function"
            answer = getattr(self, name)(row)[0]
            self._make_one()
            return float(answer) if np.ndim(answer) == 0 else answer
        if type(answer) is float:
            return answer
        if len(self._index) == 2:  # type: ignore[attr-defined]
            return answer[1] - answer[0]
        return np.array(answer[: len(self._index)])  # type: ignore[attr-defined]

    def predict_one(self, x: Any, values: Any = None) -> Any:
        """`predict` of one example.

        Parameters
        ----------
        x : array of column numbers, or dict of column number to value
        values : array of as many values; left out with a dict

        Returns
        -------
        a label, a number, or +1/-1, as `predict` gives
            For names, a classifier that has learnt nothing answers None, a regressor 0.
        """
        if self._one_target == "label":
            answer = one_row.classify(self, x, values)
            if answer is not None:
                return answer
        if values is None and type(x) is dict and _has_names(x):
            x, values = self._columns_of(x)
            if x is None:
                return None if self._one_target == "label" else 0.0
            return self.predict_one(x, values)
        if self._one_target == "number":
            return self.score_one(x, values)
        if self._one_target == "none":
            return 1 if self.score_one(x, values) >= 0.0 else -1
        row = self._row_to_predict(x, values)
        label = self.predict(row).tolist()[0]  # type: ignore[attr-defined]
        self._make_one()
        return label

    def predict_proba_one(self, x: Any, values: Any = None) -> dict[Any, float]:
        """`predict_proba` of one example, as a dict of label to probability.

        Parameters
        ----------
        x : array of column numbers, or dict of column number or name to value
        values : array of as many values; left out with a dict

        Returns
        -------
        dict
            Empty for names when the model has learnt nothing.
        """
        if values is None and type(x) is dict and _has_names(x):
            x, values = self._columns_of(x)
            if x is None:
                return {}
        shares = self.predict_proba(self._row_to_predict(x, values))  # type: ignore[attr-defined]
        return dict(zip(self.classes_.tolist(), shares[0].tolist()))  # type: ignore[attr-defined]

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

    @property
    def _supervised(self) -> bool:  # asked by river
        return self._one_target != "none"

    def _join_river(self) -> None:
        """Let river, if it is there, take the model for one of its own kind."""
        base = sys.modules.get("river.base")
        kind = {"label": "Classifier", "number": "Regressor"}.get(self._one_target)
        if base is not None and kind is not None:
            getattr(base, kind).register(type(self))

    def _learn_row(self, X: Any, y: Any) -> bool:
        """`partial_fit` on a matrix of one row on the fast path; False when it cannot."""
        kind = type(X)
        known = self.__dict__
        sparse = kind is _csr_matrix or kind is _csr_array
        if not sparse and kind is not _ndarray:
            return False
        if (X._shape if sparse else X.shape) != (1, known.get("n_features_in_")):
            return False
        if "_one" not in known:
            if "_learner" in known:
                self._make_one()
            return False
        if type(y) is np.ndarray and y.shape == (1,) and y.dtype.kind in "biufU":
            target = y.item()
        elif type(y) is list and len(y) == 1:
            target = y[0]
        else:
            return False
        if "feature_names_in_" in known:
            return False
        if sparse:
            if X.indptr.tolist() != [0, len(X.indices)]:
                return False
            learnt = one_row.learn(self, X.indices, X.data, target)
        else:
            learnt = one_row.learn_dense(self, X, target)
        if not learnt:
            self._make_one()
        return learnt

    # What a target is ("label", "number" or "none").
    _one_target: str
    # Whether `offset_` is taken off a score.
    _has_offset = False

    def _make_one(self) -> None:
        """The fast path for later calls, where there is none or an old one."""
        known = self.__dict__
        if not isinstance(known["_learner"], Learner) or known.get("_scaling") is not None:
            return  # meta-descent and scaled columns go through partial_fit
        if not self._plan_is_current():  # type: ignore[attr-defined]
            return  # partial_fit follows the parameters first
        index = known.get("_index")
        one = known.get("_one")
        if one is None or one.learner is not known["_learner"] or one.index is not index:
            plan = known["_plan"]
            self._one = one_row.OneByOne(
                known["_learner"],
                index,
                self._one_target == "none",
                plan.average_from >= 0,
                plan.curvature,
                known.get("_recent"),
                not any(self._is_set(name) for name in one_row.UNUSUAL),
            )

    def _is_set(self, name: str) -> bool:
        """Whether a parameter is something else than None or False."""
        value = self.__dict__.get(name)
        return value is not None and value is not False

    def _row_to_predict(self, x: Any, values: Any) -> sp.csr_matrix:
        self._check_fitted()  # type: ignore[attr-defined]
        return _one_row(x, values, self.__dict__["n_features_in_"])


def _has_names(x: dict[Any, Any]) -> bool:
    """Whether the features are named; those of one dict must be of one kind."""
    for key in x:
        return isinstance(key, str)
    return False


def _one_row(x: Any, values: Any, n_features: int) -> sp.csr_matrix:
    """The example as a matrix of one row, not checked yet."""
    if isinstance(x, dict):
        odd = next((key for key in x if not hasattr(key, "__index__")), None)
        if odd is not None:
            raise TypeError(
                f"a feature is named {odd!r}: features of one example are column numbers, or "
                "names (str)"
            )
        try:
            columns = np.fromiter(x.keys(), dtype=np.int64, count=len(x))
        except OverflowError:
            worst = max(x, key=abs)
            raise ValueError(f"there is no column {worst} in {n_features} features") from None
        try:
            values = np.fromiter(x.values(), dtype=np.float64, count=len(x))
        except OverflowError:
            raise ValueError("a value is too large for a float64") from None
    else:
        if values is None:
            raise ValueError("give the values that belong to the columns, or one dict for both")
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
    row = sp.csr_matrix((1, n_features), dtype=np.float64)
    # Set one by one: the constructor would copy, and check less than partial_fit does.
    row.data, row.indices = values, columns
    row.indptr = np.array([0, len(columns)], dtype=columns.dtype)
    return row
