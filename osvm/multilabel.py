"""`MultilabelClassifier`: any number of labels per row, one linear model for each label.

One-vs-rest on label sets: label k has a binary `LinearClassifier` of its own, whose
positive rows are those that carry k.  The labels do not compete, so a row may get none.

Invariants:

- the models of all labels have seen the same rows in the same order; a label that first
  appears in mid-stream starts there;
- an error while learning leaves every one of them as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from osvm import _validate
from osvm._base import OnlineEstimator
from osvm._compat import ClassifierMixin, available_if
from osvm._labels import LabelIndex
from osvm._params import check_choice, check_integer
from osvm.linear import LinearClassifier

__all__ = ["MultilabelClassifier"]

Array = npt.NDArray[Any]
MAX_LABELS = 100_000


def _has_probabilities(model: MultilabelClassifier) -> bool:
    probe = LinearClassifier(**model._inner_params())
    if not hasattr(probe, "predict_proba"):
        raise AttributeError("predict_proba needs loss='logistic' or probability=True")
    return True


class MultilabelClassifier(ClassifierMixin, OnlineEstimator):
    """Linear classifier of rows that carry any number of labels.

    Parameters
    ----------
    loss : str or object, default "hinge"
        "hinge", "squared_hinge", "perceptron", "logistic", "modified_huber", or a loss of
        your own.
    solver, reg, C, schedule, eta0, project, average, batch_size, normalize, fit_intercept, \
epochs, tol, shuffle, random_state, probability
        As in `LinearClassifier`, for the model of each label.
    class_weight : None or "balanced"
        "balanced" gives the rows with and those without a label the same weight in all.

    Attributes
    ----------
    classes_ : array of K labels
    coef_ : array, shape (K, d)
    intercept_ : array of K
    n_features_in_ : int
    t_ : int
        Examples seen.

    Examples
    --------
    >>> from osvm.multilabel import MultilabelClassifier
    >>> X = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    >>> model = MultilabelClassifier(random_state=0, epochs=50)
    >>> model.fit(X, [["tea"], ["milk"], ["tea", "milk"]]).predict_labels(X)
    [('tea',), ('milk',), ('milk', 'tea')]
    """

    _error_kind = "class"

    def __init__(
        self,
        loss: Any = "hinge",
        *,
        solver: str = "sgd",
        reg: float | None = None,
        C: float | None = None,
        schedule: Any = "bottou",
        eta0: float = 0.1,
        project: bool | float = False,
        average: bool | int = False,
        batch_size: int | str = 1,
        normalize: bool = False,
        fit_intercept: bool = True,
        epochs: int = 5,
        tol: float | None = None,
        shuffle: bool | str = True,
        random_state: Any = None,
        class_weight: Any = None,
        probability: bool = False,
    ) -> None:
        self.loss = loss
        self.solver = solver
        self.reg = reg
        self.C = C
        self.schedule = schedule
        self.eta0 = eta0
        self.project = project
        self.average = average
        self.batch_size = batch_size
        self.normalize = normalize
        self.fit_intercept = fit_intercept
        self.epochs = epochs
        self.tol = tol
        self.shuffle = shuffle
        self.random_state = random_state
        self.class_weight = class_weight
        self.probability = probability

    def _inner_params(self) -> dict[str, Any]:
        return self.get_params(deep=False)

    def _new_inner(self, **changed: Any) -> LinearClassifier:
        if self.class_weight is not None:
            check_choice("class_weight", self.class_weight, ["balanced"])
        return LinearClassifier(**{**self._inner_params(), **changed})

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> MultilabelClassifier:
        """Learn from all rows, `epochs` times.

        Parameters
        ----------
        X : CSR matrix, array or data frame, shape (n, d)
        Y : n collections of labels, or an (n, K) matrix of 0 and 1, dense or sparse
        sample_weight : array of n weights, optional

        Returns
        -------
        self
        """
        source, rows = self._check_X(X, reset=True)
        sets = _LabelSets.of(Y, source.n_rows)
        index = sets.new_index()
        member = sets.membership(index.encode(sets.flat), len(index))
        epochs = check_integer("epochs", self.epochs, 1)
        models = []
        for k in range(len(index)):
            y = _column(member, k)
            if y.min() != y.max():
                models.append(self._new_inner().fit(rows, y, sample_weight=sample_weight))
                continue
            constant = self._new_inner(solver="sgd", C=None, tol=None)  # all rows, or none
            for _ in range(epochs):
                constant.partial_fit(rows, y, classes=[0, 1], sample_weight=sample_weight)
            models.append(constant)
        self._set_features(X, source)
        self._index, self._models = index, models
        self.t_ = source.n_rows * epochs
        return self

    def partial_fit(
        self, X: Any, Y: Any, classes: Any = None, sample_weight: Any = None
    ) -> MultilabelClassifier:
        """Learn from the next rows of a stream, in their order.

        Parameters
        ----------
        X : CSR matrix, array or data frame, shape (n, d)
        Y : n collections of labels, or an (n, K) matrix of 0 and 1, dense or sparse
        classes : array, optional
            All labels, if they are known at the first call.  A label that appears later is
            learnt from there on.
        sample_weight : array of n weights, optional

        Returns
        -------
        self
        """
        known = self.__dict__
        source, rows = self._check_X(X)
        sets = _LabelSets.of(Y, source.n_rows)
        index = known.get("_index")
        if index is None:
            index = sets.new_index() if classes is None else LabelIndex.of(_labels(classes))
        elif classes is not None:
            index, _ = index.grown(_labels(classes))
        if sets.width is not None and sets.width > len(index):
            raise ValueError(f"Y has {sets.width} columns where the model has {len(index)} labels")
        index, codes = index.grown(sets.flat) if len(sets.flat) else (index, sets.flat)
        if not 0 < len(index) <= MAX_LABELS:
            raise ValueError(f"{len(index)} labels; there must be 1 to {MAX_LABELS}")
        member = sets.membership(codes, len(index))
        models = list(known.get("_models", ()))
        models += [self._new_inner() for _ in range(len(index) - len(models))]
        before: list[tuple[LinearClassifier, Any]] = []
        try:
            for k, model in enumerate(models):
                if "t_" in model.__dict__:
                    before.append((model, model._get_state()))
                options = {} if "t_" in model.__dict__ else {"classes": [0, 1]}
                y = _column(member, k)
                model.partial_fit(rows, y, sample_weight=sample_weight, **options)
        except BaseException:
            for model, state in before:
                model._set_state(*state)
            raise
        self._set_features(X, source)
        self._index, self._models = index, models
        self.t_ = known.get("t_", 0) + source.n_rows
        return self

    # ---------------------------------------------------------------- predicting

    def decision_function(self, X: Any) -> Array:
        """Scores, shape (n, K): a row has the labels whose scores are positive."""
        self._check_fitted()
        _, rows = self._check_X(X)
        return np.column_stack([model.decision_function(rows) for model in self._models])

    def predict(self, X: Any) -> Array:
        """Which labels each row has: 0 and 1, shape (n, K), columns as in `classes_`."""
        return (self.decision_function(X) > 0).astype(np.int64)

    def predict_labels(self, X: Any) -> list[tuple]:
        """The labels of each row, in the order of `classes_`."""
        classes = self.classes_.tolist()
        return [tuple(classes[k] for k in np.flatnonzero(row)) for row in self.predict(X)]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Probability of each label, shape (n, K); they need not add up to one."""
        self._check_fitted()
        _, rows = self._check_X(X)
        return np.column_stack([model.predict_proba(rows)[:, 1] for model in self._models])

    def score(self, X: Any, Y: Any, sample_weight: Any = None) -> float:
        """The fraction of rows whose label sets are predicted exactly."""
        found = self.predict(X)
        sets = _LabelSets.of(Y, len(found))
        index, codes = self._index.grown(sets.flat) if len(sets.flat) else (self._index, sets.flat)
        wanted = sets.membership(codes, len(index)).toarray()
        extra = wanted[:, len(self._index) :].any(axis=1)  # labels that the model does not know
        right = (found == wanted[:, : len(self._index)]).all(axis=1) & ~extra
        return float(np.average(right, weights=sample_weight))

    # ---------------------------------------------------------------- attributes

    def _fitted(self, name: str) -> Any:
        if "t_" not in self.__dict__:
            raise AttributeError(f"this {type(self).__name__} has no {name} before it is fitted")
        return self.__dict__["_models"]

    @property
    def classes_(self) -> Array:
        """Labels, in the order of the columns of `predict`."""
        self._fitted("classes_")
        return self._index.classes

    @property
    def coef_(self) -> Array:
        """Weights, one row for each label."""
        return np.vstack([np.atleast_2d(model.coef_) for model in self._fitted("coef_")])

    @property
    def intercept_(self) -> Array:
        """Offsets."""
        return np.concatenate(
            [np.atleast_1d(model.intercept_) for model in self._fitted("intercept_")]
        )

    def _totals(self) -> tuple[float, float]:
        """Losses and errors of test-then-train: summed, and averaged, over the labels."""
        learners = [model._learner for model in self._models]
        loss = sum(float(learner.loss_sum) for learner in learners)
        return loss, sum(float(learner.error_sum) for learner in learners) / len(learners)

    # --------------------------------------------------------------------- state

    def _get_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        scalars = self._get_base_state()
        states = [model._get_state() for model in self._models]
        scalars["labels"] = self._index.get_state()
        scalars["models"] = [state[0] for state in states]
        names = sorted({name for _, arrays in states for name in arrays})
        stacked = {name: np.stack([arrays[name] for _, arrays in states]) for name in names}
        return scalars, stacked

    def _set_state(self, scalars: dict[str, Any], arrays: dict[str, Array]) -> None:
        index = LabelIndex.from_state(scalars["labels"])
        states = scalars["models"]
        if not isinstance(states, list) or not 0 < len(states) == len(index):
            raise ValueError("the number of models is not the number of labels")
        for name, array in arrays.items():
            if array.ndim < 1 or len(array) != len(states):
                raise ValueError(f"{name} is not there for each label")
        models = []
        for k, state in enumerate(states):
            if state["n_features_in"] != scalars["n_features_in"]:
                raise ValueError("the models of the labels differ in their features")
            model = self._new_inner()
            model._set_state(state, {name: array[k].copy() for name, array in arrays.items()})
            models.append(model)
        self._set_base_state(scalars)
        self._index, self._models = index, models

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        return tags


class _LabelSets:
    """The labels of n rows, one after another, and where each row's begin."""

    def __init__(self, flat: Array, ends: Array, width: int | None) -> None:
        self.flat, self.ends, self.width = flat, ends, width

    @classmethod
    def of(cls, Y: Any, n: int) -> _LabelSets:
        """From collections of labels, or from a matrix of 0 and 1."""
        if issparse(Y) or (isinstance(Y, np.ndarray) and Y.ndim == 2):
            return cls._of_matrix(Y, n)
        if Y is None or isinstance(Y, (str, bytes)) or not hasattr(Y, "__len__"):
            raise ValueError("Y must hold a collection of labels for each row")
        if len(Y) != n:
            raise ValueError(f"X has {n} rows and Y has {len(Y)}")
        flat: list = []
        ends = [0]
        for row, labels in enumerate(Y):
            if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
                raise ValueError(
                    f"row {row} of Y is {labels!r}; give a collection of labels for each row, "
                    "such as a list or a set"
                )
            mine = list(dict.fromkeys(labels))
            flat += mine
            ends.append(ends[-1] + len(mine))
        return cls(_labels(flat), np.array(ends), None)

    @classmethod
    def _of_matrix(cls, Y: Any, n: int) -> _LabelSets:
        if Y.shape[0] != n:
            raise ValueError(f"X has {n} rows and Y has {Y.shape[0]}")
        matrix = csr_array(Y)
        matrix.sum_duplicates()
        if not np.isin(matrix.data, (0, 1)).all():
            raise ValueError("a matrix Y may hold 0 and 1 only")
        matrix.eliminate_zeros()
        return cls(matrix.indices.astype(np.int64), matrix.indptr, int(Y.shape[1]))

    def new_index(self) -> LabelIndex:
        """The labels that a new model has."""
        index = LabelIndex.of(self.flat if self.width is None else np.arange(self.width))
        if not 0 < len(index) <= MAX_LABELS:
            raise ValueError(f"Y has {len(index)} labels; there must be 1 to {MAX_LABELS}")
        return index

    def membership(self, codes: Array, n_labels: int) -> Any:
        """Rows by labels, 0 and 1; columns can be taken quickly."""
        ones = np.ones(len(codes), np.int64)
        rows = csr_array((ones, codes, self.ends), shape=(len(self.ends) - 1, n_labels))
        return rows.tocsc()


def _labels(labels: Any) -> Array:
    """Labels as an array of numbers or strings."""
    labels = list(labels)
    return _validate.check_y_classes(labels) if labels else np.empty(0, np.int64)


def _column(member: Any, k: int) -> Array:
    """Which rows carry label k, as 0 and 1."""
    y = np.zeros(member.shape[0], np.int64)
    y[member.indices[member.indptr[k] : member.indptr[k + 1]]] = 1
    return y
