"""`MultilabelClassifier`: any number of labels per row, one linear model for each label.

One-vs-rest on label sets: label k has a binary model of its own, whose positive rows are
those that carry k.  The labels do not compete, so a row may get none.

By default each label learns as `LinearClassifier` does by itself, one after the other.  With a
schedule of one step size for all columns, such as "bottou", all of them learn in one pass over the
rows (`osvm.linear.label_models`), unless a parameter asks for what only `LinearClassifier` has.

Invariants:

- the models of all labels have seen the same rows in the same order; a label that first
  appears in mid-stream starts there;
- an error while learning leaves every one of them as it was;
- either `_joined` holds the models of all labels or `_models` one for each.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np

from osvm._estimator.base import OnlineEstimator
from osvm._estimator.compat import ClassifierMixin, available_if
from osvm._input import validate
from osvm._input.label_sets import MAX_LABELS, LabelSets
from osvm._input.labels import LabelIndex, LabelRuns
from osvm._input.parameters import check_choice, check_integer, make_generator
from osvm._input.rows import RowSource
from osvm._input.schema import Field, check_list
from osvm._input.types import Array
from osvm.linear.classifier import LinearClassifier
from osvm.linear.constant import warn_if_off_center, warn_of_columns, warn_of_labels
from osvm.linear.label_arrays import part_arrays, stack_arrays
from osvm.linear.label_models import (
    LabelModels,
    fit_apart,
    in_one_pass,
    label_weights,
    learn_apart,
)
from osvm.linear.one_set import OneSet
from osvm.linear.plan import EPOCHS, one_setting, resolve_plan
from osvm.linear.scaling import Scaling, scaled
from osvm.linear.state import PlanParams
from osvm.schedules import Auto

_BINARY = LabelIndex.of(np.array([0, 1]))


def _has_probabilities(model: MultilabelClassifier) -> bool:
    probe = LinearClassifier(**model.get_params(deep=False))
    if not hasattr(probe, "predict_proba"):
        raise AttributeError("predict_proba needs loss='logistic' or probability=True")
    return True


class MultilabelClassifier(ClassifierMixin, PlanParams, OneSet, OnlineEstimator):
    """Linear classifier of rows that carry any number of labels.

    Parameters
    ----------
    loss : str or object, default "hinge"
        "hinge", "squared_hinge", "perceptron", "logistic", "modified_huber", or a loss of
        your own.
    reg, C, schedule, eta0, project, average, batch_size, normalize, scale, fit_intercept, \
epochs, tol, shuffle, random_state, probability
        As in `LinearClassifier`, for the model of each label.  "bottou" learns all labels in
        one pass, which is quicker; `epochs` None is then 5.
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
    n_iter_ : int
        Passes that the last `fit` made, of the label that needed most.
    schedule_ : Schedule
        What the labels learn with.

    Examples
    --------
    >>> from osvm.linear.multilabel import MultilabelClassifier
    >>> X = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    >>> model = MultilabelClassifier(random_state=0, epochs=50)
    >>> model.fit(X, [["tea"], ["milk"], ["tea", "milk"]]).predict_labels(X)
    [('tea',), ('milk',), ('milk', 'tea')]
    """

    _error_kind = "class"
    _docs: ClassVar[dict[str, str]] = {
        "y": "n collections of labels, or an (n, K) matrix of 0 and 1, dense or sparse, with "
        "the columns of `classes_`",
        "predict": "array, shape (n, K)",
        "decision_function": "array, shape (n, K)",
    }

    def __init__(
        self,
        loss: Any = "hinge",
        *,
        reg: float | None = None,
        C: float | None = None,
        schedule: Any = "auto",
        eta0: float = 0.1,
        project: bool | float = False,
        average: bool | int = False,
        batch_size: int | str = 1,
        normalize: bool = False,
        scale: str | None = None,
        fit_intercept: bool = True,
        epochs: int | None = None,
        tol: float | None = None,
        shuffle: bool | str = True,
        random_state: Any = None,
        class_weight: Any = None,
        probability: bool = False,
    ) -> None:
        self._keep(locals())

    def _new_inner(self, n_labels: int = 1, auto: bool = True, **changed: Any) -> LinearClassifier:
        """The model of one of the labels; without `auto`, with one setting."""
        params = self.get_params(deep=False)
        if not auto and self.scale != "running":  # which has one setting
            params["schedule"] = one_setting(self.schedule)
        model = LinearClassifier(**params | changed)
        # Most labels are on few rows, and a warning for each would be too many.
        model._n_siblings, model._runs = n_labels, LabelRuns(silent=True)
        return model

    def _check_class_weight(self) -> None:
        """Before anything is learnt; what was learnt may be saved whatever it is now."""
        if self.class_weight is not None:
            check_choice("class_weight", self.class_weight, ["balanced"])

    def _stream_inner(self, source: RowSource, n_labels: int) -> Callable[..., LinearClassifier]:
        """`_new_inner` for a stream of such rows, as the labels have begun or will."""
        if "t_" in self.__dict__:
            schedule = self.schedule_
        else:
            plan = resolve_plan(self._new_inner(n_labels), None)
            schedule = plan.of_size(source.n_features, n_labels).schedule
        return partial(self._new_inner, n_labels, isinstance(schedule, Auto))

    def set_params(self, **params: Any) -> Any:
        """Set parameters; those of learning take effect at the next call that learns."""
        out = super().set_params(**params)
        self.__dict__.pop("_plan_values", None)
        for model in self.__dict__.get("_models") or []:
            model.set_params(**self.get_params(deep=False))
        return out

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MultilabelClassifier:
        """Learn from all rows."""
        with self._lock.writing():
            self._check_class_weight()
            source, rows = self._open(X, reset=True)
            sets = LabelSets.of(y, source.n_rows)
            index = sets.new_index()
            codes = index.encode(sets.flat)
            epochs = EPOCHS
            if self.epochs is not None:
                epochs = check_integer("epochs", self.epochs, 1)
            inner = self._new_inner(len(index))
            plan = inner._of_size(resolve_plan(inner, source.n_rows), source, 1)
            new_model = partial(self._new_inner, len(index), isinstance(plan.schedule, Auto))
            joined, models = None, []
            member = sets.membership(codes, len(index))
            if in_one_pass(new_model()):
                labels = sets.ends, np.ascontiguousarray(codes, np.int32)
                joined = self._fit_joined(source, rows, labels, member, sample_weight, epochs)
            else:
                params = self.get_params(deep=False)
                models = fit_apart(new_model, params, rows, member, sample_weight)
            with self._lock.holding():
                self._set_features(X, source)
                self._index = index
                self._joined, self._models = joined, models
                self._keep_plan_values()
                own = [model.n_iter_ for model in models if hasattr(model, "n_iter_")]
                self.n_iter_ = max(own, default=epochs)
                self.t_ = source.n_rows * self.n_iter_
            one: Any = joined or models[0]
            plan, moved = (one.plans[0], one.scaling) if joined else (one._plan, one._scaling)
            if moved is None:
                warn_of_columns(source, plan, stacklevel=2)
            scores_of = lambda some: self.decision_function(rows[some])  # noqa: E731
            learners = [joined.block] if joined else [model._learner for model in models]
            errors = np.hstack([learner.error_sum / learner.seen for learner in learners])
            names = self.classes_.tolist()
            warn_of_labels(plan, names, member, scores_of, sample_weight, errors, 2)
            return self

    def _fit_joined(
        self,
        source: RowSource,
        rows: Any,
        labels: tuple[Array, Array],
        member: Any,
        sample_weight: Any,
        epochs: int,
    ) -> LabelModels:
        """All labels in one pass."""
        weight = validate.check_sample_weight(sample_weight, source.n_rows, allow_zero=False)
        return LabelModels.fit(
            resolve_plan(self._new_inner(auto=False), source.n_rows),
            scaled(source, Scaling.of(self.scale, source), fresh=True),
            labels,
            member.shape[1],
            LinearClassifier._weight_dtype(rows),
            weight=weight,
            class_weight=label_weights(self.class_weight, member, weight, _BINARY),
            epochs=epochs,
            shuffle=self.shuffle,
            rng=make_generator(self.random_state),
        )

    def _label_models(self) -> list[LinearClassifier]:
        """A model for each label, as saved files have them."""
        if self._joined is None:
            return self._models
        return self._joined.apart(partial(self._new_inner, len(self._joined.plans), auto=False))

    def _open(self, X: Any, *, reset: bool = False) -> tuple[RowSource, Any]:
        """Validated rows, at unit norm where `normalize` asks for it."""
        source, rows = self._check_X(X, reset=reset)
        if self.normalize:
            source.set_row_scale(validate.unit_scale(source), largest=1.0)
        return source, rows

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> MultilabelClassifier:
        """Learn from the next rows of a stream, in their order.

        Cutting a stream into other blocks gives the same scores of each label bit for bit: a
        label that was not seen before is learnt from its own row on.  `classes_` holds the
        labels of `classes`, or else of the first call, sorted, then others as they came.  A
        label that comes widens the weights of all: name `classes` when there are many.

        Parameters
        ----------
        classes : array, optional
            All labels, if they are known at the first call.  A label that appears later is
            learnt from there on.
        """
        with self._lock.changing():
            self._check_class_weight()
            source, rows = self._open(X)
            sets = LabelSets.of(y, source.n_rows)
            weight = None
            if sample_weight is not None:
                weight = validate.check_sample_weight(
                    sample_weight, source.n_rows, allow_zero=True
                )
            is_first = "_index" not in self.__dict__
            index = sets.stream_index(self.__dict__.get("_index"), classes)
            sets = sets.named(index, classes)
            wide, codes = index.grown(sets.flat) if len(sets.flat) else (index, sets.flat)
            if not 0 < len(wide) <= MAX_LABELS:
                raise ValueError(f"{len(wide)} labels; there must be 1 to {MAX_LABELS}")
            if wide is index:
                self._learn_sets(X, source, rows, sets, codes, index, weight)
                return self
            new = index.entries(sets.flat, sets.row_of())

            def learn(start: int, stop: int) -> None:
                own = sets.between(start, stop)
                now = index if start == 0 else self.__dict__.get("_index", index)
                if not len(now) + len(own.flat):  # rows before the first label tell nothing
                    return
                now, codes = now.grown(own.flat) if len(own.flat) else (now, own.flat)
                piece, some = self._open(validate.rows_between(X, rows, start, stop))
                own_weight = None if weight is None else weight[start:stop]
                self._learn_sets(X, piece, some, own, codes, now, own_weight)

            before = self.__dict__.get("t_", 0)
            self._learn_pieces([row for row in new if row], source.n_rows, learn)
            self.t_ = before + source.n_rows
            if is_first and classes is None:
                self._sort_labels()
            return self

    def _learn_sets(
        self,
        X: Any,
        source: RowSource,
        rows: Any,
        sets: LabelSets,
        codes: Array,
        index: LabelIndex,
        weight: Array | None,
    ) -> None:
        """Rows whose new labels, if any, begin with the first."""
        known = self.__dict__
        joined = self._stream_joined(source, rows, len(index))
        models: list[LinearClassifier] = []
        before = known.get("t_", 0)
        if joined is not None:
            start, is_present = joined.block.seen.max(), known.get("_joined") is joined
            try:
                joined.learn(source, (sets.ends, np.ascontiguousarray(codes, np.int32)), weight)
            except KeyboardInterrupt:  # all labels have learnt the same rows
                if is_present:
                    self.t_ = before + int(joined.block.seen.max() - start)
                raise
        else:
            models = list(self._label_models()) if "t_" in known else []
            member = sets.membership(codes, len(index))
            if not models:
                warn_if_off_center(source, stacklevel=4)
            learn_apart(models, self._stream_inner(source, len(index)), rows, member, weight)
        self._set_features(X, source)
        self._index = index
        self._joined, self._models = joined, models
        self._keep_plan_values()
        self.t_ = before + source.n_rows

    def _detach(self) -> None:
        known = self.__dict__
        joined: LabelModels | None = known.get("_joined")
        if joined is not None:
            self._joined = joined.copy()
        elif "_models" in known:
            self._models = copy.deepcopy(self._models)

    def _sort_labels(self) -> None:
        """Labels in sorted order, and their models with them."""
        order = np.argsort(self._index.classes, kind="stable")
        self._index = LabelIndex(self._index.classes[order])
        models = self._label_models()
        self._keep_models([models[k] for k in order], self._joined is not None)

    def _stream_joined(self, source: RowSource, rows: Any, n_labels: int) -> LabelModels | None:
        """The models for the next block in one pass; None where they learn one by one."""
        known = self.__dict__
        inner = self._stream_inner(source, n_labels)()
        # "balanced" goes by running counts, which every label has for itself.
        if self.class_weight is not None or not in_one_pass(inner):
            return None
        joined: LabelModels | None = known.get("_joined")
        models: list[LinearClassifier] = known.get("_models") or []
        if "t_" in known and not self._plan_is_current():
            # Each label follows the parameters; together again where they can be.
            models = [copy.copy(model) for model in self._label_models()]
            for model in models:
                model._learner, model._plan = model._going_on(None, source)
            joined = None
        if joined is None and models:
            joined = LabelModels.joined(models)
            if joined is None:
                return None
        if joined is None:
            plan = resolve_plan(inner, None).for_stream(source)
            dtype = LinearClassifier._weight_dtype(rows)
            return LabelModels.empty(plan, source.n_features, n_labels, dtype)
        if n_labels > len(joined.plans):
            joined = joined.with_labels(n_labels, source)
        return joined

    # ---------------------------------------------------------------- predicting

    def decision_function(self, X: Any) -> Array:
        """Scores, shape (n, K): a row has the labels whose scores are positive."""
        with self._lock:
            self._check_fitted()
            source, rows = self._open(X)
            if self._joined is not None:
                return self._joined.scores(source)
            return np.column_stack([model.decision_function(rows) for model in self._models])

    def predict(self, X: Any) -> Array:
        """Which labels each row has: 0 and 1, shape (n, K), columns as in `classes_`."""
        return (self.decision_function(X) > 0).astype(np.int64)

    def predict_labels(self, X: Any) -> list[tuple]:
        """The labels of each row, in the order of `classes_`."""
        self._check_fitted()
        with self._lock:
            found, classes = self.predict(X), self.classes_.tolist()
        return [tuple(classes[k] for k in np.flatnonzero(row)) for row in found]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Probability of each label, shape (n, K); they need not add up to one."""
        with self._lock:
            self._check_fitted()
            source, rows = self._open(X)
            if self._joined is not None and not self.probability:
                return self._joined.plans[0].loss.probability(self._joined.scores(source))
            return np.column_stack(
                [model.predict_proba(rows)[:, 1] for model in self._label_models()]
            )

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The fraction of rows whose label sets are predicted exactly."""
        self._check_fitted()
        with self._lock:
            found, known = self.predict(X), self._index
        sets = LabelSets.of(y, len(found)).named(known)
        index, codes = known.grown(sets.flat) if len(sets.flat) else (known, sets.flat)
        wanted = sets.membership(codes, len(index)).toarray()
        extra = wanted[:, len(known) :].any(axis=1)  # labels that the model does not know
        right = (found == wanted[:, : len(known)]).all(axis=1) & ~extra
        weight = validate.check_sample_weight(sample_weight, len(found))
        return float(np.average(right, weights=weight))

    # ---------------------------------------------------------------- attributes

    def _need(self, name: str) -> None:
        if "t_" not in self.__dict__:
            raise AttributeError(f"this {type(self).__name__} has no {name} before it is fitted")

    @property
    def classes_(self) -> Array:
        """Labels, in the order of the columns of `predict`."""
        self._need("classes_")
        return self._index.classes

    @property
    def coef_(self) -> Array:
        """Weights, one row for each label."""
        with self._lock:
            self._need("coef_")
            if self._joined is not None:
                return self._joined.coef
            return np.vstack([np.atleast_2d(model.coef_) for model in self._models])

    @property
    def schedule_(self) -> Any:
        """The schedule that the labels learn with."""
        with self._lock:
            self._need("schedule_")
            plans = self._joined.plans if self._joined is not None else []
            return plans[0].schedule if plans else self._models[0].schedule_

    @property
    def intercept_(self) -> Array:
        """Offsets."""
        with self._lock:
            self._need("intercept_")
            if self._joined is not None:
                return self._joined.intercept
            return np.concatenate([np.atleast_1d(model.intercept_) for model in self._models])

    def _totals(self) -> tuple[float, float]:
        """Losses and errors of test-then-train: summed, and averaged, over the labels."""
        with self._lock:
            if self._joined is not None:
                return self._joined.totals
            learners = [model._learner for model in self._models]
            loss = sum(float(learner.loss_sum) for learner in learners)
            return loss, sum(float(learner.error_sum) for learner in learners) / len(learners)

    # --------------------------------------------------------------------- state

    def _get_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        scalars = self._get_base_state()
        states = [model._get_state() for model in self._label_models()]
        scalars["labels"] = self._index.get_state()
        scalars["joined"] = self._joined is not None
        scalars["models"] = [state[0] for state in states]
        return scalars, stack_arrays([state[1] for state in states])

    def _set_state(self, scalars: dict[str, Any], arrays: dict[str, Array]) -> None:
        self._check_scalars(scalars, _STATE)
        index = LabelIndex.from_state(scalars["labels"])
        states = scalars["models"]
        check_list("models", states, Field("dict"), least=len(index), most=len(index))
        parts = part_arrays(arrays, len(states))
        models = []
        for own, state in zip(parts, states):
            if state.get("n_features_in") != scalars["n_features_in"]:
                raise ValueError("the models of the labels differ in their features")
            if state.get("n_out") != 1:
                raise ValueError("the model of a label has one output")
            model = self._new_inner(len(states), not scalars.get("joined"))
            model._set_state(state, own)
            models.append(model)
        self._set_base_state(scalars)
        self._index = index
        self.__dict__.pop("_plan_values", None)
        self._keep_models(models, scalars.get("joined"))

    def _keep_models(self, models: list[LinearClassifier], is_joined: Any) -> None:
        """Side by side where they were so, or could be: sums are rounded in another order."""
        if is_joined is None:  # an old file does not tell
            is_joined = in_one_pass(models[0])
        self._joined = LabelModels.joined(models) if is_joined else None
        self._models = [] if self._joined is not None else models

    # The weights are compiled; pickles carry the labels' own models instead.
    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state["_is_joined"] = state.pop("_joined", None) is not None
        if state["_is_joined"]:
            state["_models"] = self._label_models()
        elif "_models" in state:  # as they are now: pickles are written after the lock is free
            state["_models"] = [copy.copy(model) for model in state["_models"]]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        is_joined = state.pop("_is_joined", None)
        setstate = getattr(super(), "__setstate__", None)
        if setstate is not None:
            setstate(state)
        else:
            self.__dict__.update(state)
        if "_models" in self.__dict__:
            self._keep_models(self._models, is_joined)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags


_STATE = {
    "labels": Field("dict"),
    "models": Field("list"),
    "joined": Field("flag", optional=True),  # not in the first files of format 1
}
