"""The binary models of many labels, trained in one pass over the rows or one by one.

`LabelModels` holds what `osvm.linear.columns` learns, with each label's plan; the models
of single labels (`LinearClassifier`) go in and come out bit for bit, which is how they
are saved.

Nothing here knows a label's name: labels are columns 0 .. K-1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from osvm._input.label_sets import membership_column
from osvm._input.labels import LabelIndex, RunningBalance, resolve_class_weight
from osvm._input.rows import RowSource
from osvm._input.types import Array
from osvm._input.validate import check_scores
from osvm.linear import options
from osvm.linear.adaptive_state import AdaptiveLearner
from osvm.linear.classifier import LinearClassifier
from osvm.linear.columns import LabelBlock
from osvm.linear.first_step import Sample, first_step_trials, trial_plan, with_intercept_step
from osvm.linear.learner import SGDLearner
from osvm.linear.plan import EPOCHS, Plan, resolve_plan
from osvm.linear.scaling import ScaledRows, Scaling, decide, rows_named, scaled
from osvm.linear.training import resolve_shuffle, visiting_order
from osvm.linear.weights import ScaledMatrix
from osvm.schedules import Auto

Sets = tuple[Array, Array]  # where each row's labels begin (n + 1), and their columns


def in_one_pass(model: LinearClassifier) -> bool:
    """Whether labels with these parameters can share a pass."""
    plan = resolve_plan(model, 1)
    if isinstance(plan.schedule, Auto):
        return False
    return not plan.multi_loss and not options.refused("labels").keys() & options.asked(model)


class LabelModels:
    """K binary models side by side.

    Parameters
    ----------
    plans : list of K plans
        They differ in t0 alone.
    block : LabelBlock
    balances : list of K RunningBalance
        Rows without and with the label, as `LinearClassifier` counts them.
    rng : Generator, optional
    scaling : Scaling, optional
        Of the columns, for all labels.
    """

    def __init__(
        self,
        plans: list[Plan],
        block: LabelBlock,
        balances: list[RunningBalance],
        rng: Any,
        scaling: Scaling | None = None,
    ) -> None:
        self.plans, self.block, self.balances, self.rng = plans, block, balances, rng
        self.scaling = scaling

    # ---------------------------------------------------------------- training

    @classmethod
    def fit(
        cls,
        plan: Plan,
        X: RowSource | ScaledRows,
        sets: Sets,
        n_labels: int,
        dtype: Any,
        *,
        weight: Array | None,
        class_weight: Array | None,
        epochs: int,
        shuffle: bool | str,
        rng: np.random.Generator,
    ) -> LabelModels:
        """Passes over all rows, with a first step size that each label has tried out."""
        n = X.n_rows
        first = np.append(sets[1], -1)[sets[0][:-1]]
        shuffle = resolve_shuffle(shuffle, np.where(np.diff(sets[0]) > 0, first, -1) + 1)
        order = visiting_order(n, shuffle, rng)
        counts = np.bincount(sets[1], minlength=n_labels)
        plans = tried_plans(plan, X, sets, counts, dtype, weight, class_weight, epochs)
        block = _block(plans, ScaledMatrix(X.n_features, n_labels, dtype, plan.radius > 0))
        for epoch in range(epochs):
            if epoch > 0:
                order = visiting_order(n, shuffle, rng)
            _run(block, X, sets, order, weight=weight, class_weight=class_weight)
        balances = [RunningBalance([n - count, count]) for count in counts.tolist()]
        return cls(plans, block, balances, rng, getattr(X, "scaling", None))

    @classmethod
    def empty(cls, plan: Plan, n_features: int, n_labels: int, dtype: Any) -> LabelModels:
        """Models that have seen nothing."""
        plans = [plan] * n_labels
        block = _block(plans, ScaledMatrix(n_features, n_labels, dtype, plan.radius > 0))
        return cls(plans, block, [RunningBalance() for _ in plans], None)

    def with_labels(self, n_labels: int, source: RowSource) -> LabelModels:
        """A wider copy: the present labels, then new ones whose stream begins here."""
        plan = _shared(self.plans[0]).for_stream(scaled(source, self.scaling))
        return self._wider([plan] * (n_labels - len(self.plans)))

    def copy(self) -> LabelModels:
        """An independent copy."""
        return self._wider([])

    def _wider(self, new_plans: list[Plan]) -> LabelModels:
        new = len(new_plans)
        plans = self.plans + new_plans
        seen = np.append(self.block.seen, np.zeros(new))
        averaged = np.append(self.block.averaged, np.zeros(new))
        block = _block(plans, self.block.weights.with_outputs(len(plans)), seen, averaged)
        self.block.grow(block)
        balances = self.balances + [RunningBalance() for _ in range(new)]
        return LabelModels(plans, block, balances, self.rng, self.scaling)

    def learn(self, source: RowSource, sets: Sets, weight: Array | None) -> None:
        """The next rows of a stream; all of them or none."""
        X = scaled(source, self.scaling)
        in_blocks = isinstance(X, ScaledRows) and X.n_rows > X.block_rows
        before = self.copy().block if in_blocks else self.block
        try:
            _run(self.block, X, sets, weight=weight, roll_back=True)
        except FloatingPointError:
            self.block = before
            raise

    # -------------------------------------------------------------- predicting

    @property
    def _mean(self) -> bool:
        return self.plans[0].average_from >= 0

    def scores(self, source: RowSource) -> Array:
        """Rows by labels."""
        out = np.empty((source.n_rows, len(self.plans)))
        decide(self.block, scaled(source, self.scaling), out, self._mean)
        return check_scores(out)

    @property
    def coef(self) -> Array:
        """In the user's units."""
        coef = self.block.coef(self._mean)
        return coef if self.scaling is None else self.scaling.to_user(coef)

    @property
    def intercept(self) -> Array:
        return self.block.offsets(self._mean)

    @property
    def totals(self) -> tuple[float, float]:
        """Losses summed, errors averaged over the labels."""
        return float(self.block.loss_sum.sum()), float(self.block.error_sum.mean())

    # ----------------------------------------------------- models of single labels

    def apart(self, new_model: Callable[[], LinearClassifier]) -> list[LinearClassifier]:
        """Each label's model as an estimator of its own."""
        weights = self.block.weights
        index = LabelIndex.of(np.array([0, 1]))
        models = []
        for k, plan in enumerate(self.plans):
            learner = plan.learner(weights.dim, 1, weights.v.dtype)
            learner.set_state(*self.block.label_state(k))
            model = new_model()
            model.n_features_in_ = weights.dim
            model._learner, model._plan, model._rng, model._platt = learner, plan, self.rng, None
            model._index, model._balance = index, self.balances[k]
            model._scaling = self.scaling
            model._changed()
            models.append(model)
        return models

    @classmethod
    def joined(cls, models: list[LinearClassifier]) -> LabelModels | None:
        """The models of single labels side by side; None where they cannot share a pass."""
        if not all(_is_joinable(model) for model in models):
            return None
        plans = [model._plan for model in models]
        if any(_shared(plan) != _shared(plans[0]) for plan in plans):
            return None
        scaling = models[0]._scaling
        if any(model._scaling != scaling for model in models):
            return None
        first = models[0]._learner.weights
        states = [model._learner.get_state() for model in models]
        block = _block(
            plans,
            ScaledMatrix(first.dim, len(models), first.v.dtype, plans[0].radius > 0),
            np.array([scalars["t"] for scalars, _ in states]),
            np.array([scalars["w_avg_count"] for scalars, _ in states]),
        )
        for k, state in enumerate(states):
            block.set_label(k, *state)
        balances = [model._balance for model in models]
        return cls(plans, block, balances, models[0]._rng, scaling)


def _run(
    block: LabelBlock, X: Any, sets: Sets, order: Any = None, *, weight: Any, **options: Any
) -> None:
    """One pass over the rows, which may have to be scaled."""
    if not isinstance(X, ScaledRows):
        block.run(X, *sets, order=order, weight=weight, **options)
        return
    for _, rows, part in X.blocks(order):
        own = None if weight is None else weight[rows]
        with rows_named(rows):
            block.run(part, *_rows_of(sets, rows), weight=own, **options)


def _shared(plan: Plan) -> Plan:
    """What the labels of a block have in common."""
    return dataclasses.replace(plan, t0=None, intercept_step=1.0)


def _is_joinable(model: LinearClassifier) -> bool:
    """A plain learner of one output that has made a step for each example it has seen."""
    learner = model._learner
    return (
        isinstance(learner, SGDLearner)
        and model._platt is None
        and model._plan.batch_size == 1
        and learner.weights.n_out == 1
        and learner.t == learner.seen
        and not learner.pending_examples
    )


def _block(
    plans: list[Plan],
    weights: ScaledMatrix,
    seen: Array | None = None,
    averaged: Array | None = None,
) -> LabelBlock:
    """A block whose labels share a schedule state where their t0, examples and averages agree."""
    seen = np.zeros(len(plans)) if seen is None else seen
    averaged = np.zeros(len(plans)) if averaged is None else averaged
    places: dict[tuple[Any, ...], int] = {}
    groups: list[tuple[Any, float, float, float]] = []
    group_of = []
    for plan, t, n in zip(plans, seen.tolist(), averaged.tolist()):
        key = (plan.t0, plan.intercept_step, t, n)
        if key not in places:
            places[key] = len(groups)
            groups.append((plan.step_spec(), plan.intercept_eta0, t, n))
        group_of.append(places[key])
    plan = plans[0]
    return LabelBlock(
        weights,
        plan.loss.spec(),
        groups,
        group_of,
        reg=plan.reg,
        radius=plan.radius,
        average_from=plan.average_from,
        fit_intercept=plan.fit_intercept,
        curvature=plan.curvature,
    )


# -------------------------------------------------------------- the first step size


def tried_plans(
    plan: Plan,
    source: Any,
    sets: Sets,
    counts: Array,
    dtype: Any,
    weight: Array | None,
    class_weight: Array | None,
    epochs: int,
) -> list[Plan]:
    """A plan for each label, with the first steps that `LinearClassifier` finds for it.

    The trials of all labels are made side by side: as many passes over the sample as the
    label needs that needs most.  A label that all rows carry, or none, tells nothing; it
    gets the t0 of a stream.
    """
    plans = [plan.for_stream(source)] * len(counts)
    told = np.flatnonzero((counts > 0) & (counts < source.n_rows)).tolist()
    if not plan.needs_t0 or not told:
        return plans
    sample = Sample(source, epochs)
    owned, all_rows = counts, float(source.n_rows)
    if weight is not None:
        by_entry = np.repeat(weight, np.diff(sets[0]))
        owned = np.bincount(sets[1], weights=by_entry, minlength=len(counts))
        all_rows = float(weight.sum())
        weight = np.ascontiguousarray(weight[sample.rows])
    sets = _rows_of(sets, sample.rows)
    present = np.bincount(sets[1], minlength=len(counts))
    trials: dict[int, Plan] = {}
    owns: dict[int, Plan] = {}
    searches = {}
    made: dict[tuple[float, float], Plan] = {}  # many labels try the same

    def trial(k: int, eta: float) -> Plan:
        key = owns[k].intercept_step, eta
        if key not in made:
            made[key] = trial_plan(owns[k], eta, sample)
        return made[key]

    for k in told:
        classes = np.array([all_rows - owned[k], owned[k]])
        if class_weight is not None:
            classes *= class_weight[:, k]
        owns[k] = with_intercept_step(plan, classes)
        rarer = min(present[k], sample.X.n_rows - present[k])
        searches[k] = first_step_trials(owns[k], sample, rarer=rarer)
        trials[k] = trial(k, next(searches[k]))
    while trials:
        labels = list(trials)
        factors = None if class_weight is None else np.ascontiguousarray(class_weight[:, labels])
        own_sets = _restricted(sets, labels)
        costs = _trial_costs(list(trials.values()), sample, own_sets, dtype, weight, factors)
        for k, cost in zip(labels, costs.tolist()):
            try:
                trials[k] = trial(k, searches[k].send(cost))
            except StopIteration as stop:
                plans[k] = stop.value
                del trials[k]
    return plans


def _trial_costs(
    plans: list[Plan],
    sample: Sample,
    sets: Sets,
    dtype: Any,
    weight: Array | None,
    class_weight: Array | None,
) -> Array:
    """`osvm.linear.first_step.trial_cost` for the label of each plan."""
    n_labels, n = len(plans), sample.X.n_rows
    block = _block(plans, ScaledMatrix(sample.X.n_features, n_labels, dtype, plans[0].radius > 0))
    try:
        for _ in range(sample.passes):
            block.run(sample.X, *sets, weight=weight, class_weight=class_weight)
    except FloatingPointError:
        if n_labels == 1:
            return np.array([np.inf])
        # One of them fails and stops the others: find out which.
        half = n_labels // 2
        parts = [np.arange(half), np.arange(half, n_labels)]
        return np.concatenate(
            [
                _trial_costs(
                    [plans[k] for k in part],
                    sample,
                    _restricted(sets, part.tolist()),
                    dtype,
                    weight,
                    None if class_weight is None else np.ascontiguousarray(class_weight[:, part]),
                )
                for part in parts
            ]
        )
    scores = np.empty((n, n_labels))
    block.decide(sample.X, scores, False)
    member = np.zeros((n, n_labels), bool)
    member[np.repeat(np.arange(n), np.diff(sets[0])), sets[1]] = True
    values = plans[0].loss.value(np.where(member, 1.0, -1.0), scores)
    if class_weight is not None:
        values = values * np.where(member, class_weight[1], class_weight[0])
    if weight is not None:
        values = values * weight[:, None]
    costs = 0.5 * plans[0].reg * np.square(block.coef(False)).sum(axis=1) + values.mean(axis=0)
    costs += block.loss_sum / block.seen
    return np.where(np.isfinite(costs), costs, np.inf)


def _rows_of(sets: Sets, rows: Array) -> Sets:
    """The sets of these rows."""
    ends, codes = sets
    counts = np.diff(ends)[rows]
    new_ends = np.append(0, np.cumsum(counts))
    places = np.repeat(ends[rows] - new_ends[:-1], counts) + np.arange(new_ends[-1])
    return new_ends.astype(np.int64), np.ascontiguousarray(codes[places], np.int32)


def _restricted(sets: Sets, labels: list[int]) -> Sets:
    """The sets without any other labels; those are numbered 0, 1, ..."""
    ends, codes = sets
    number = np.full(max(codes.max(initial=-1), max(labels)) + 1, -1, np.int32)
    number[labels] = np.arange(len(labels))
    kept = number[codes] >= 0
    before = np.append(0, np.cumsum(kept))
    return before[ends], number[codes[kept]]


def label_weights(
    class_weight: Any, member: Any, weight: Array | None, index: LabelIndex
) -> Array | None:
    """Weights of the rows without and with each label, or None for none."""
    if class_weight is None:
        return None
    columns = [membership_column(member, k) for k in range(member.shape[1])]
    found = np.array([resolve_class_weight(class_weight, index, y, weight) for y in columns])
    return np.ascontiguousarray(found.T)


# ------------------------------------------------------------ one label after the other


def fit_apart(
    new_model: Callable[..., LinearClassifier],
    params: dict[str, Any],
    rows: Any,
    member: Any,
    sample_weight: Any,
) -> list[LinearClassifier]:
    """A fitted model for each column of `member`; `params` are those that it goes on with."""
    models = []
    for k in range(member.shape[1]):
        y = membership_column(member, k)
        if y.min() != y.max():
            models.append(new_model().fit(rows, y, sample_weight=sample_weight))
            continue
        # All rows have the label, or none: a stream, which has no C and no full batch.
        whole = {"batch_size": len(y)} if params["batch_size"] == "full" else {}
        constant = new_model(C=None, tol=None, **whole)
        constant._scaling = getattr(constant._open(rows, reset=True)[0], "scaling", None)
        for _ in range(EPOCHS if params["epochs"] is None else params["epochs"]):
            constant.partial_fit(rows, y, classes=[0, 1], sample_weight=sample_weight)
        # It goes on with the parameters of the others, which are its own resolved.
        constant.set_params(**params)
        constant._plan = dataclasses.replace(constant._plan, C=params["C"])
        constant._keep_plan_values()
        models.append(constant)
    return models


def learn_apart(
    models: list[LinearClassifier],
    new_model: Callable[..., LinearClassifier],
    rows: Any,
    member: Any,
    sample_weight: Any,
) -> None:
    """The next rows of a stream for all models, and for a new one of each further label.

    An error leaves every model as it was.
    """
    scaling = models[0]._scaling if models else None
    for model in models:
        model._n_siblings = member.shape[1]
    for _ in range(member.shape[1] - len(models)):
        models.append(new_model())
        models[-1]._scaling = scaling
        if "_learner" in models[0].__dict__:
            models[-1]._sibling_dtype = models[0]._learner.weights.v.dtype
    columns = np.unique(rows.indices) if sp.issparse(rows) else None
    backups: list[Callable[[], None]] = []
    try:
        for k, model in enumerate(models):
            if "t_" in model.__dict__:
                backups.append(_prepared_roll_back(model, columns))
            options = {} if "t_" in model.__dict__ else {"classes": [0, 1]}
            y = membership_column(member, k)
            model.partial_fit(rows, y, sample_weight=sample_weight, **options)
    except BaseException:
        for go_back in backups:
            go_back()
        raise


def _prepared_roll_back(model: LinearClassifier, columns: Array | None) -> Callable[[], None]:
    """What rolls back the learning of rows that store these columns (None: any).

    Adaptive steps change no other columns, so that one short row costs no copy of the weights.
    """
    learner = model._learner
    if columns is None or model._scaling is not None or not isinstance(learner, AdaptiveLearner):
        state = model._get_state()
        return lambda: model._set_state(*state)
    scalars, arrays = learner.get_state(copy=False)
    # Where settings are dropped on the way, this array stays as it was but for the columns.
    cells = arrays.pop("cells")
    stored, attributes = cells[columns], dict(model.__dict__)
    arrays = {name: array.copy() for name, array in arrays.items()}

    def go_back() -> None:
        cells[columns] = stored
        learner.set_state(scalars, arrays | {"cells": cells})
        model.__dict__.clear()
        model.__dict__.update(attributes)

    return go_back
