"""The linear classifier: labels to targets, scores to labels."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from osvm import losses, schedules
from osvm._estimator.compat import ClassifierMixin, available_if, with_callbacks
from osvm._input import validate
from osvm._input.labels import (
    LabelIndex,
    LabelRuns,
    RunningBalance,
    count_codes,
    pick_codes,
    weigh_rows,
)
from osvm._input.parameters import check_bool
from osvm._input.scan import copy_signs
from osvm._input.schema import Field
from osvm._input.types import Array
from osvm.linear.base import LinearEstimator
from osvm.linear.few_rows import MOST_ROWS, are_few, suit_one_step
from osvm.linear.first_step import needs_bets
from osvm.linear.plan import BETS, Plan, affordable, find_loss, resolve_plan
from osvm.linear.scores import Platt
from osvm.linear.state import _STATE
from osvm.linear.training import Examples, n_told
from osvm.schedules import MOST_COLUMNS_PER_ROW, SMD, Auto
from osvm.taxonomy import Taxonomy


class LinearClassifier(ClassifierMixin, LinearEstimator):
    """Linear classifier that learns one example at a time.

    At its defaults it tunes itself: several step sizes compete, and the one that errs least
    answers (:class:`osvm.schedules.Auto`).  With `reg` or `C` it minimizes
    ``reg/2 ||w||² + mean loss(y, w.x + b)``.  The intercept b is never regularized.  Two
    classes make one weight vector; more classes are learnt in one pass, one-vs-rest for
    binary losses, jointly for the others.

    Parameters
    ----------
    loss : str or object, default "auto"
        "auto", "hinge", "squared_hinge", "perceptron", "logistic", "modified_huber",
        "multiclass_hinge", "graph_hinge" (needs `taxonomy`), "softmax", or a loss
        of your own (see :mod:`osvm.losses`).  "auto" is the hinge; more than two classes are
        learnt jointly ("multiclass_hinge") by `fit` where columns are few: at most 256 with ten
        rows to each, or at most five to each of ten classes and more.  Elsewhere they are learnt
        one-vs-rest or jointly, whichever errs less on examples before they are learnt, as the
        schedule "auto" judges its settings, and one-vs-rest with other schedules.
    reg : float, optional
        The regularizer; 1e-4 unless `C` is given, none with "auto".
    C : float, optional
        Instead of `reg`: ``reg = 1/(C n)``.
    schedule : str or object, default "auto"
        The step size: "auto", which is "bottou" with `reg`, `C`, `project`, `average`,
        `batch_size`, `tol` or loss="perceptron" (`schedule_` tells which one ran); "bottou"
        ``1/(reg (t0 + t))`` with t0 found from the data, "inverse_time" ``1/(reg t)``,
        "inverse_sqrt", "kecman", "constant", "smd", "adaptive", "coin_betting".
    eta0 : float, default 0.1
        First step size, for the schedules that have one.
    project : bool or float, default False
        Keep ``||w|| <= 1/sqrt(reg)``, or within the given radius.
    average : bool or int, default False
        Predict with the average of the iterates after each step: all of them with True (or
        0), or without those of the first `average` examples.  1 leaves out the iterate
        after the first example, and so is not True.
    batch_size : int or "full", default 1
        Examples whose gradients are averaged for one step; "full" is all of them.
    normalize : bool, default False
        Divide each row by its norm, without a copy.
    scale : {"std", "maxabs", "running"}, optional
        Divide each column by its standard deviation over all rows of `fit`, or by its largest
        value, without a copy of X; `reg` is then one of the scaled weights, while `coef_` is
        for X as it is.  "std" also centers dense columns whose mean is more than three
        deviations, and so does "auto" without `scale`.  "running", for streams, adapts the
        steps to the largest value of each column so far (``schedule="auto"`` and "adaptive").
    fit_intercept : bool, default True
    epochs : int, optional
        Passes over the data in `fit`, at most: `tol` and `callback` may end it sooner.  5 by
        default; with "auto" two, and more where there are fewer than 10,000 rows, which end
        at a pass without a loss.  At most 500 rows whose columns are alike in size, and at most
        5,000 sparse ones of norm 1, are solved by "auto" instead, as :class:`~osvm.LinearSVC` does
        it (squared hinge, C = 1), unless `epochs`, `callback` or `normalize` is given.
    tol : float, optional
        Stop `fit` when two epochs in a row lower the objective by less than this
        fraction.  The objective is the true one, which costs a pass.
    shuffle : bool or "full", default True
        Visit the rows in a random order in `fit`: within windows of random blocks,
        which is kind to the cache, or in a uniform permutation ("full").  True is "full" where
        neighboring rows have like labels (or numbers), as in sorted data.
    random_state : int, Generator or RandomState, optional
    class_weight : dict or "balanced", optional
        While streaming, "balanced" goes by the counts so far.
    taxonomy : object, optional
        From :mod:`osvm.taxonomy`, for "graph_hinge".
    probability : bool, default False
        Give `predict_proba` for any loss, by Platt scaling: a sigmoid per output, learnt
        online from the score that each example has before its step.
    warm_start : bool, default False
        `fit` goes on from the present weights.
    n_jobs : int, optional
        Threads that share the rows of a prediction, and the rows of each epoch of `fit`:
        every thread learns its own share, and the weights are merged, so that the model
        depends on `n_jobs` (and on nothing else that threads do).  With adaptive steps, a loss
        that works one-vs-rest and ten classes a thread, they share the classes, and the model
        is that of one thread.
        With `record`, schedule="smd" or fewer than 2,000 rows a thread one thread learns.
        -1 for all cores.
    verbose : bool, default False
        Print progress at examples 1, 2, 4, 8, ...
    record : bool, default False
        Keep `history_`.
    callback : callable, optional
        Called as ``callback(model, epoch)`` after each epoch of `fit`; returning
        True stops.  `model` is a copy of the estimator as it is then, which can score,
        predict and be saved; `epoch` has `number` (from 1), `seconds`, `average_loss` (of
        the examples before their steps) and `objective` (with `tol`, else None).

    Attributes
    ----------
    classes_ : array
        Sorted in `fit`; new labels of a stream come at the end.
    coef_ : array, shape (1, d) for two classes, else (K, d)
    intercept_ : array, shape (1,) or (K,)
    t_ : int
        Examples seen.
    loss_ : Loss
        What answers: with "auto" :class:`osvm.losses.Hinge` (of several classes one-vs-rest), or
        :class:`osvm.losses.MulticlassHinge`.
    schedule_ : Schedule
        What ran: with "auto" either :class:`osvm.schedules.Auto`, or what it stands for where
        the other parameters ask for more than it has.
    n_iter_ : int
        Passes that the last `fit` made.
    objective_ : array
        After each epoch, with `tol`.
    history_ : dict of arrays
        With `record`: "eta", "loss" (before the update) and "error" (running error
        of test-then-train), one entry per example.

    Examples
    --------
    >>> import numpy as np, osvm
    >>> X = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.8]])
    >>> y = ["sport", "sport", "film", "film"]
    >>> model = osvm.LinearClassifier(reg=0.1, random_state=0).fit(X, y)
    >>> model.predict([[0.8, 0.3]]).tolist()
    ['sport']
    """

    _tasks = ("binary", "multiclass")
    _error_kind = "class"
    _one_target = "label"

    _index: LabelIndex
    _balance: RunningBalance
    _runs: LabelRuns

    def __init__(
        self,
        loss: Any = "auto",
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
        taxonomy: Any = None,
        probability: bool = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        record: bool = False,
        callback: Any = None,
    ) -> None:
        self._keep(locals())

    # ------------------------------------------------------------------ learning

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearClassifier:
        """Learn from all rows, `epochs` times."""
        with self._lock.writing():
            source, rows = self._open(X, reset=True)
            labels = validate.check_y_classes(y, source.n_rows, estimator_name=type(self).__name__)
            weight = validate.check_sample_weight(sample_weight, source.n_rows, allow_zero=False)
            index = LabelIndex.of_several(labels)
            n_classes, codes = len(index), index.encode(labels)
            times = None if weight is None else weight / weight.mean()
            weight = weigh_rows(self.class_weight, index, codes, weight)
            if self.warm_start and "_index" in self.__dict__ and self._index != index:
                raise ValueError("warm_start: y has other classes than the model; use partial_fit")
            labels_seen = {
                "_index": index,
                "_balance": RunningBalance(count_codes(codes, n_classes)),
            }
            n = source.n_rows if weight is None else n_told(weight)
            plan = resolve_plan(self, n)
            if source.n_rows > MOST_ROWS:
                plan = plan.of_classes(n_classes, source.n_features, source.n_rows)
            if plan.multi_loss or self.taxonomy is not None:
                plan = dataclasses.replace(plan, delta=self._distances(index))
            n_out = self._n_out(n_classes, plan)
            data = Examples(source, encode_targets(codes, n_out), weight, times)
            wide = source.n_features >= source.n_rows
            if wide and needs_bets(plan, data, max(1, self._n_siblings)):
                plan = dataclasses.replace(plan, schedule=BETS, reg=0.0, open_loss=False)
            plan = self._of_size(plan, source, n_out)
            shape = n_out, self._weight_dtype(rows)
            self._train((X, y, sample_weight), data, plan, shape, labels_seen)
            return self

    def _of_size(self, plan: Plan, source: Any, n_out: int) -> Plan:
        """The plan of a fit, as so many rows and columns allow it."""
        wide = source.n_features > MOST_COLUMNS_PER_ROW * source.n_rows
        outputs = n_out * max(1, self._n_siblings)
        one_size = wide and suit_one_step(source)
        one_size = one_size and not (self._may_be_solved(plan) and are_few(source))
        return plan.of_size(source.n_features, outputs, one_size)

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> LinearClassifier:
        """Learn from the next rows of a stream, in their order.

        Cutting a stream into other blocks gives the same scores of each label bit for
        bit: a label that was not seen before makes the model grow at its own row, with an
        output that starts at zero.  `classes_` holds the labels of `classes`, or else of the
        first call, sorted, then others as they came.  A loss that compares classes takes the
        first in that order of two whose scores are exactly equal, and softmax adds up in
        it, which rounds otherwise: name `classes` where that matters.  ``schedule="smd"``
        cannot grow; there all labels of the first call start with its first row.

        Parameters
        ----------
        classes : array, optional
            All labels, if they are known at the first call.
        """
        if classes is None and sample_weight is None and self._learn_row(X, y):
            return self
        with self._lock.changing():
            return self._learn_labels(X, y, classes, sample_weight)

    def _learn_labels(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> LinearClassifier:
        """`partial_fit` on the general path; the caller holds the lock."""
        source, rows = self._open(X)
        labels = validate.check_y_classes(y, source.n_rows, estimator_name=type(self).__name__)
        weight = validate.check_sample_weight(sample_weight, source.n_rows, allow_zero=True)
        known = self.__dict__
        index = known.get("_index")
        if index is None:
            index = LabelIndex.of(labels if classes is None else np.asarray(classes))
            if classes is not None:
                index.encode(labels)  # labels outside of `classes` are an error
        elif classes is not None and not set(np.asarray(classes).tolist()) <= set(
            index.classes.tolist()
        ):
            index, _ = index.grown(validate.check_y_classes(classes))
        seen, (index, codes) = index, index.grown(labels)
        is_first = "_index" not in known
        if rows_of_new := self._new_label_rows(seen, index, labels, classes):
            self._learn_pieces(
                rows_of_new,
                source.n_rows,
                lambda start, stop: self._learn_labels(
                    validate.rows_between(X, rows, start, stop),
                    labels[start:stop],
                    classes if start == 0 else None,
                    None if weight is None else weight[start:stop],
                ),
            )
            if is_first:
                self._sort_labels()
            return self
        balance = known.get("_balance") or RunningBalance()
        times = weight
        weight, balance = balance.weigh_rows(self.class_weight, index, codes, weight)
        learner, plan, n_out = self._stream_learner(source, rows, index)
        platt = self._stream_platt(n_out)
        data = Examples(source, encode_targets(codes, n_out), weight, times)
        self._learn_block(learner, plan, data, platt)
        if known.get("_learner") is not learner:
            self._store(X, source, learner, plan, known.get("_rng"))
        else:
            self._changed()
        known["_platt"], known["_index"], known["_balance"] = platt, index, balance
        if "_visits" not in known:  # or the rows are visited in another order
            if "_runs" not in known:
                self._runs = LabelRuns()
            self._runs.watch(codes)
        return self

    def _new_label_rows(
        self, seen: LabelIndex, index: LabelIndex, labels: Array, classes: Any
    ) -> list[int]:
        """Rows after the first at which the model must grow; usually none."""
        if "_index" in self.__dict__:
            return [row for row in seen.entries(labels) if row] if seen is not index else []
        if classes is not None or len(index) <= 2 or isinstance(schedules.get(self.schedule), SMD):
            return []
        return LabelIndex.empty().entries(labels)[2:]  # the first two share a score

    def _detach(self) -> None:
        if "_learner" in self.__dict__:
            self._learner = self._learner.copy()

    def _sort_labels(self) -> None:
        """Labels in sorted order, and the outputs with them."""
        order = np.argsort(self._index.classes, kind="stable")
        if "_runs" in self.__dict__:
            self._runs.reorder(order)
        self._index = index = LabelIndex(self._index.classes[order])
        self._learner = self._learner.reordered(order)
        if self._plan.delta is not None:
            self._plan = dataclasses.replace(self._plan, delta=self._distances(index))
            self._learner.set_parts(*self._plan.specs())
        if self._platt is not None:
            self._platt = Platt.from_state(self._platt.state[order], len(order))
        if len(self._balance.counts):
            self._balance = RunningBalance(self._balance.counts[order])

    def _stream_learner(self, source: Any, rows: Any, index: LabelIndex) -> tuple[Any, Plan, int]:
        """The learner for the next block: the present one, a wider one, or a new one."""
        known = self.__dict__
        if "_learner" not in known:
            plan = resolve_plan(self, None, self._distances(index))
            n_out = self._n_out(len(index), plan)
            outputs = n_out * max(1, self._n_siblings)
            alive = affordable(source.n_features, outputs)
            plan = plan.of_size(source.n_features, outputs).for_stream(source)
            dtype = self._sibling_dtype
            if dtype is None:
                dtype = self._weight_dtype(rows)
            return plan.learner(source.n_features, n_out, dtype, alive=alive), plan, n_out
        learner, plan = self._going_on(None, source)
        n_out = self._n_out(len(index), plan)
        if isinstance(plan.schedule, Auto):
            everyone = affordable(source.n_features, n_out * max(1, self._n_siblings))
            if learner.alive.bit_count() > max(1, everyone.bit_count()):
                learner = learner.copy()
                learner.keep_best()
        if plan.delta is not None and len(index) != len(self._index):
            plan = dataclasses.replace(plan, delta=self._distances(index))
            if n_out == learner.weights.n_out:  # the second class
                state = learner.get_state()
                learner = plan.learner(source.n_features, n_out, learner.weights.v.dtype)
                learner.set_state(*state)
        if n_out == learner.weights.n_out:
            return learner, plan, n_out
        if not hasattr(learner, "with_outputs"):
            raise ValueError(
                "schedule='smd' cannot take new labels in mid-stream: name all of them in the "
                "first call, partial_fit(..., classes=...)"
            )
        wide = learner.with_outputs(n_out)
        wide.set_parts(*plan.specs())
        return wide, plan, n_out

    def _new_platt(self, n_out: int) -> Platt | None:
        if not check_bool("probability", self.probability):
            return None
        if self.warm_start and self._platt is not None:
            return self._platt.copy()
        return Platt(n_out)

    def _stream_platt(self, n_out: int) -> Platt | None:
        """A copy of the sigmoids for the next block, grown with the outputs."""
        if not check_bool("probability", self.probability):
            return None
        if self._platt is None:
            return self._new_platt(n_out)
        if len(self._platt.state) == n_out:
            return self._platt.copy()
        return self._platt.with_outputs(n_out)

    @staticmethod
    def _n_out(n_classes: int, plan: Plan) -> int:
        """One score for two classes, unless the loss compares the scores of all."""
        if plan.multi_loss:
            return max(n_classes, 2)
        return n_classes if n_classes > 2 else 1

    def _distances(self, index: LabelIndex) -> Array | None:
        """Label distances of the graph loss."""
        name = self.loss if isinstance(self.loss, str) else getattr(self.loss, "name", "")
        if name != losses.GraphHinge.name:
            if self.taxonomy is not None:
                raise ValueError(f"taxonomy is for loss='graph_hinge', not {self.loss!r}")
            return None
        if self.taxonomy is None:
            raise ValueError("loss='graph_hinge' needs taxonomy=, see osvm.taxonomy")
        if not isinstance(self.taxonomy, Taxonomy):
            raise ValueError(f"taxonomy must come from osvm.taxonomy, got {self.taxonomy!r:.60}")
        distances = self.taxonomy.distances(index.classes.tolist())
        # a stream's first class has a rival that is still to come
        return distances if len(distances) > 1 else 1.0 - np.eye(2)

    # ---------------------------------------------------------------- predicting

    def decision_function(self, X: Any) -> Array:
        """Scores: one per row for two classes (positive means ``classes_[1]``), else K."""
        with self._lock:
            return self._scores(X, self._of_labels)

    def _of_labels(self, scores: Array) -> Array:
        """The scores of `decision_function` from those of all outputs."""
        if scores.shape[1] == 1:
            return scores[:, 0]
        if len(self._index) == 2:
            return scores[:, 1] - scores[:, 0]
        return scores[:, : len(self._index)]

    def _codes(self, scores: Array) -> Array:
        """The label with the largest score."""
        return pick_codes(self._of_labels(scores), len(self._index))

    def predict(self, X: Any) -> Array:
        """The label with the largest score; the first of equals."""
        with self._lock:
            codes, index = self._scores(X, self._codes), self._index
        return index.decode(codes)

    def _has_probability(self) -> bool | str:
        """True when there are probabilities, else what to do."""
        try:
            loss = self._plan.loss if "_plan" in self.__dict__ else find_loss(self)
        except (TypeError, ValueError) as error:
            return str(error)
        if self.probability or hasattr(loss, "probability"):
            return True
        return (
            f"loss {loss.name!r} defines no probability; use probability=True, or the loss "
            "'logistic', 'modified_huber' or 'softmax'"
        )

    @available_if(_has_probability)
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes: the loss's own, or by Platt scaling.

        The losses "logistic", "softmax" and "modified_huber" have their own; with a binary
        loss and several classes they are normalized.  `predict` goes by the scores, and so by
        the largest of these probabilities.  There are two exceptions: `probability=True`,
        whose sigmoids have offsets of their own, so that a row near the boundary may get a
        label of less than one half; and several classes that "modified_huber" gives all the
        same probability, 0 or 1.
        """
        with self._lock:
            self._check_fitted()
            scores = self._scores(X)
            loss = self._plan.loss
            if self.probability:
                if self._platt is None:
                    raise ValueError(
                        "the model was trained with probability=False: train it again, or some "
                        "more with partial_fit"
                    )
                p = self._platt.probability(scores)
            elif self._plan.multi_loss:
                return loss.probability(scores)[:, : len(self._index)]
            else:
                p = loss.probability(scores)
            if scores.shape[1] == 1:
                return np.column_stack([1.0 - p[:, 0], p[:, 0]])[:, : len(self._index)]
            p = p[:, : len(self._index)]
            total = p.sum(axis=1, keepdims=True)
            return np.divide(p, total, out=np.full_like(p, 1.0 / p.shape[1]), where=total > 0)

    @available_if(_has_probability)
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    # ---------------------------------------------------------------- attributes

    @property
    def classes_(self) -> Array:
        return self._need_attribute("_index").classes

    @property
    def loss_(self) -> Any:
        """The loss that the answering weights are learnt with: what "auto" has come to be."""
        with self._lock:
            plan = self._need_attribute("_plan")
            jointly = plan.open_loss and self._learner.answers_jointly
            return losses.MulticlassHinge() if jointly else plan.loss

    @property
    def coef_(self) -> Any:
        """The weights that prediction uses."""
        with self._lock:
            self._need_attribute("_index")
            return self._shown_coef(self._as_binary(self._weights_array(self._averaged)))

    @property
    def last_coef_(self) -> Any:
        """The last iterate; the same as `coef_` without averaging."""
        with self._lock:
            self._need_attribute("_index")
            return self._shown_coef(self._as_binary(self._weights_array(False)))

    @property
    def intercept_(self) -> Array:
        """The intercepts that prediction uses."""
        with self._lock:
            self._need_attribute("_index")
            return self._as_binary(self._offsets_array(self._averaged)[:, None])[:, 0]

    def _as_binary(self, per_output: Array) -> Array:
        """Two outputs of a two-class model as one."""
        if per_output.shape[0] == 2 and len(self._index) <= 2:
            return per_output[1:] - per_output[:1]
        return per_output

    # --------------------------------------------------------------------- state

    def _get_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        scalars, arrays = super()._get_state()
        scalars["classes"] = self._index.get_state()
        scalars["class_counts"] = self._balance.counts.tolist()
        return scalars, arrays

    _state_fields: ClassVar[dict[str, Field]] = {
        "classes": Field("dict"),
        "class_counts": Field("list"),
    }

    def _set_state(self, scalars: dict[str, Any], arrays: dict[str, Array]) -> None:
        self._check_scalars(scalars, {**_STATE, **self._state_fields})
        index = LabelIndex.from_state(scalars["classes"])
        balance = RunningBalance.from_state(scalars["class_counts"], len(index))
        super()._set_state(scalars, arrays)
        self._index, self._balance = index, balance

    def _check_outputs(self, scalars: dict[str, Any], plan: Plan) -> None:
        n_classes = len(scalars["classes"]["labels"])
        if scalars["n_out"] != self._n_out(n_classes, plan):
            raise ValueError(f"{scalars['n_out']} outputs for {n_classes} classes")

    def _present_delta(self, labels: Any = None) -> Array | None:
        return self._distances(self._index if labels is None else LabelIndex.from_state(labels))


def encode_targets(codes: Array, n_out: int) -> Array:
    """Codes as -1/+1 for one output, as they are for several."""
    if n_out == 1:
        targets = np.empty(len(codes))
        copy_signs(codes, targets)
        return targets
    return np.ascontiguousarray(codes, dtype=np.int32)
