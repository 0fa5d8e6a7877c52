"""Whether a fit has learnt anything: its rows beside the best constant answer.

A model that is no better on its own training rows than one that looks at no feature is
useless, and looks like any other.  The figures that the fit has summed on the way settle
it nearly always; otherwise some thousand rows are scored.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from osvm._input.label_sets import membership_column
from osvm._input.scan import may_be_far
from osvm._input.types import Array
from osvm.exceptions import ConvergenceWarning
from osvm.linear.first_step import class_weights, rare_rows, some_rows
from osvm.linear.learner import SGDLearner
from osvm.linear.plan import Plan
from osvm.linear.scaling import (
    OFF_CENTER,
    VARIES,
    Columns,
    ScaledRows,
    far_columns,
    large_columns,
    some_columns,
    take,
)
from osvm.linear.training import Examples
from osvm.schedules import MOST_COST, Adaptive, Auto, CoinBetting

# Rows that are scored where the figures of the fit do not settle it.
_SCORED_ROWS = 4096
# What is better than the constant: beyond doubt in other rows than its own, and at all.
_CLEARLY, _AT_ALL = 0.95, 0.999
# What is no loss, of that of the answer 0: nothing is left that features could tell.
_PERFECT = 1e-6
# How many times as far as others a target may be off, and among how many.
_FAR, _FEWEST_TARGETS = 1000.0, 20
# How many times the smallest column the largest one may be, by so many rows.
_UNEQUAL = 1000.0


def _compare(
    plan: Plan, targets: Array, scores: Array, weight: Array | None
) -> tuple[bool, tuple[str, float, float]]:
    """Whether scores are better than the best constant; and by what they are judged, theirs and
    the constant's.
    """
    found, constant, what = 0.0, 0.0, "loss"
    if scores.shape[1] == 1 and not plan.loss.multi:  # a label's loss may be of two scores
        found = float(np.average(plan.loss.value(targets, scores[:, 0]), weights=weight))
        constant = _constant_loss(plan, targets, weight)
        if found < _AT_ALL * constant:
            return True, (what, found, constant)
    if plan.error_kind == "absolute":
        return False, (what, found, constant)
    wrong = (
        (scores[:, 0] > 0.0) != (targets > 0.0)
        if scores.shape[1] == 1
        else scores.argmax(axis=1) != targets
    )
    found = float(np.average(wrong, weights=weight))
    constant = _constant_error(targets, weight)
    return found < constant, ("error", found, constant)


def warn_if_constant(
    learner: SGDLearner,
    plan: Plan,
    data: Examples,
    *,
    on_the_way: float,
    stacklevel: int,
) -> None:
    """Warn of a model that is not better on its rows than the best constant.

    A classifier is better when it makes fewer errors or has a lower loss; a regressor,
    when it has a lower loss.  Novelty detection has nothing to compare with.

    `on_the_way` is the mean error, for numbers the mean loss, of the examples before they
    were learnt.
    """
    if plan.error_kind == "novel":
        return
    numbers = plan.error_kind == "absolute"
    if not numbers and on_the_way < _CLEARLY * _constant_error(data.targets):
        return
    rows = some_rows(data.X.n_rows, _SCORED_ROWS)
    targets = data.targets[rows]
    weight = None if data.weight is None else data.weight[rows]
    if numbers and on_the_way < _CLEARLY * _constant_loss(plan, targets, None):
        return
    X, _ = take(data.X, rows, renumber=False)
    scores = np.empty((X.n_rows, learner.weights.n_out))
    learner.decide(X, scores, plan.average_from >= 0)
    figures = _no_better(plan, targets, scores, weight)
    if figures is None:
        return
    what, found, constant = figures
    warnings.warn(
        f"the model is no better on its training rows than a constant answer ({what} "
        f"{found:.3g}, of the constant {constant:.3g}): if the features say anything about the "
        "targets, scale them (unit norm for text, unit variance for measurements), lower reg, "
        "or raise epochs",
        ConvergenceWarning,
        stacklevel=stacklevel + 1,
    )


def _no_better(
    plan: Plan, targets: Array, scores: Array, weight: Array | None
) -> tuple[str, float, float] | None:
    """Figures of scores that are no better than the best constant: of what, theirs, its own."""
    if isinstance(plan.schedule, Auto) and scores.shape[1] == 1:
        # who looks for a rare class errs more on the other one: by what it costs to miss it
        rare = rare_rows(targets, weight)
        if rare is not None:
            costs = np.where(rare, MOST_COST, 1.0)
            costs = costs if weight is None else costs * weight
            better, _ = _compare(plan, targets, scores, costs)
            if better:
                return None
    better, figures = _compare(plan, targets, scores, weight)
    if better or max(figures[1:]) <= _nearly_none(plan, targets, weight):
        return None
    return figures


def warn_of_labels(
    plan: Plan,
    names: list[Any],
    member: Any,
    scores_of: Callable[[Array], Array],
    sample_weight: Any,
    on_the_way: Array,
    stacklevel: int,
) -> None:
    """Warn of labels whose models are no better on their rows than one answer for all.

    `member` is rows by labels, in columns; `scores_of` gives the scores of rows by their numbers;
    `on_the_way` is the mean error of each label before its examples were learnt.
    """
    n, counts = member.shape[0], np.diff(member.indptr)
    doubtful = np.flatnonzero(on_the_way >= _CLEARLY * np.minimum(counts, n - counts) / n)
    if not len(doubtful):
        return
    rows = some_rows(n, _SCORED_ROWS)
    scores, member = scores_of(rows), member[rows]
    weight = None if sample_weight is None else np.asarray(sample_weight, np.float64)[rows]
    bad = []
    for k in doubtful.tolist():
        targets = np.where(membership_column(member, k), 1.0, -1.0)
        varies = targets.min() < targets.max()
        if varies and _no_better(plan, targets, scores[:, k : k + 1], weight) is not None:
            bad.append(repr(names[k]))
    if not bad:
        return
    some = ", ".join(bad[:3]) + (", ..." if len(bad) > 3 else "")
    warnings.warn(
        f"{len(bad)} of {len(names)} labels ({some}) are predicted no better on the training "
        "rows than by one answer for all rows: if the features say anything about them, scale "
        "them (unit norm for text, unit variance for measurements), lower reg, or raise epochs",
        ConvergenceWarning,
        stacklevel=stacklevel + 1,
    )


def _nearly_none(plan: Plan, targets: Array, weight: Array | None) -> float:
    """The loss, or error, at which an answer is as good as perfect."""
    if plan.error_kind != "absolute":
        return 0.0
    return _PERFECT * float(
        np.average(plan.loss.value(targets, np.zeros(len(targets))), weights=weight)
    )


def warn_of_targets(targets: Array, loss: Any, stacklevel: int) -> None:
    """Warn of a target that is far from all others, which the weights would follow.

    With a `loss`, also where it forgives more than targets differ.
    """
    if len(targets) < _FEWEST_TARGETS:
        return
    if loss is not None and np.ptp(targets) > 0.0:
        warn_tube(loss, float(np.std(targets)), stacklevel + 1)
    if not may_be_far(targets, _FAR):
        return
    off = np.abs(targets - np.median(targets))
    k = int(off.argmax())
    others = float((off.sum() - off[k]) / (len(off) - 1))
    if off[k] > _FAR * others > 0.0:
        warnings.warn(
            f"target {k} is {targets[k]:.3g}, {off[k] / others:.1g} times as far from the "
            "median as targets usually are, and the weights follow it: if it is an error, "
            "remove or clip it",
            ConvergenceWarning,
            stacklevel=stacklevel + 1,
        )


def warn_tube(loss: Any, spread: float, stacklevel: int) -> None:
    """Warn where a loss that forgives small errors forgives those of a constant answer."""
    epsilon = float(getattr(loss, "epsilon", 0.0))
    if loss.task == "regression" and 0.0 < spread < epsilon:
        warnings.warn(
            f"targets have a standard deviation of {spread:.3g}, and errors up to "
            f"epsilon={epsilon:.3g} count as none: little is learnt; lower epsilon (e.g. "
            f"loss=osvm.losses.EpsilonInsensitive({0.1 * spread:.2g})), or divide the targets "
            f"by {spread:.2g}",
            ConvergenceWarning,
            stacklevel=stacklevel + 1,
        )


def warn_of_columns(X: Any, plan: Plan, stacklevel: int) -> None:
    """Warn of columns of very different size or far from 0, or large among sparse ones."""
    some = some_columns(X)
    warn_if_unequal(X, plan, stacklevel + 1, some)
    warn_if_off_center(X, stacklevel + 1, some)
    warn_if_large(X, plan, stacklevel + 1, some)


def warn_if_large(X: Any, plan: Plan, stacklevel: int, some: Columns | None = None) -> None:
    """Warn of sparse columns that are large beside the rest of their rows."""
    steps_suit = plan.error_kind == "absolute" and getattr(plan.schedule, "normalized", False)
    if steps_suit or isinstance(X, ScaledRows):
        return
    columns, times = large_columns(X, some)
    if not len(columns):
        return
    k = int(times.argmin())
    also = "" if len(columns) == 1 else f" (and {len(columns) - 1} more are alike)"
    warnings.warn(
        f"column {columns[k]} has values {1.0 / times[k]:.1g} times as large as the rest of its "
        f"rows{also}, and takes the steps of the other columns: divide it by its deviation first "
        "(LinearClassifier.fit does that by itself at its defaults)",
        ConvergenceWarning,
        stacklevel=stacklevel + 1,
    )


def warn_if_unequal(X: Any, plan: Plan, stacklevel: int, some: Columns) -> None:
    """Warn of dense columns of very different size, where the steps do not adapt to it."""
    adapts = isinstance(plan.schedule, Adaptive | CoinBetting | Auto)
    if X.sparse or adapts or isinstance(X, ScaledRows):
        return
    sizes = some[1]
    small, large = np.where(sizes > 0.0, sizes, np.inf).argmin(), sizes.argmax()
    if sizes[large] > _UNEQUAL * sizes[small] > 0.0:
        warnings.warn(
            f"columns differ in size by more than {_UNEQUAL:g}: values of column {large} reach "
            f"{sizes[large]:.3g}, those of column {small} {sizes[small]:.3g}, and steps of "
            f"schedule {plan.schedule.name!r} suit one size: choose scale='std' or 'maxabs', for "
            "a stream schedule='adaptive' and scale='running'",
            ConvergenceWarning,
            stacklevel=stacklevel + 1,
        )


def warn_if_off_center(X: Any, stacklevel: int, some: Columns | None = None) -> None:
    """Warn of columns that hardly differ from their mean, where it is not subtracted."""
    if isinstance(X, ScaledRows) and X.scaling.center is not None:
        return
    columns, _, mean, deviation = far_columns(X, OFF_CENTER, some)
    varies = deviation > VARIES * np.abs(mean)  # a constant has nothing to say
    columns, mean, deviation = columns[varies], mean[varies], deviation[varies]
    if not len(columns):
        return
    k = int((np.abs(mean) / deviation).argmax())
    also = "" if len(columns) == 1 else f" (and {len(columns) - 1} more are alike)"
    warnings.warn(
        f"column {columns[k]} has mean {mean[k]:.3g} and deviation {deviation[k]:.1g}{also}: "
        "steps see a constant, and what it says of the targets is lost; subtract its mean first "
        "(fit at its defaults and with scale='std' does that by itself, where the model has an "
        "intercept)",
        ConvergenceWarning,
        stacklevel=stacklevel + 1,
    )


def _constant_error(targets: Array, weight: Array | None = None) -> float:
    """Of the most frequent class."""
    counts = class_weights(targets, weight)
    return 1.0 - float(counts.max() / counts.sum())


def _constant_loss(plan: Plan, targets: Array, weight: Array | None) -> float:
    """Of the best constant score of one output, nearly."""
    if plan.error_kind == "absolute":
        choices = np.array([np.median(targets), np.average(targets, weights=weight)])
    else:
        choices = 0.25 * np.arange(-24.0, 25.0)
        weight = class_weights(targets, weight)
        targets = np.array([-1.0, 1.0])
    if not plan.fit_intercept:
        choices = np.zeros(1)
    # one loss for all pairs: a call for each choice would cost more than a small fit
    pairs = np.repeat(choices, len(targets)), np.tile(targets, len(choices))
    losses = plan.loss.value(pairs[1], pairs[0]).reshape(len(choices), len(targets))
    means = losses.mean(axis=1) if weight is None else losses @ weight / weight.sum()
    return float(means.min())
