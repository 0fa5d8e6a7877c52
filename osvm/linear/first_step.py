"""The first step size of Bottou's schedule, found by trial on a sample of the rows.

A candidate is judged as Bottou did, by the objective on the sample *after* it has been
learnt, intercept included, together with the loss on the way.  The latter alone is the
wrong judge: with few examples it is smallest for steps so small that nothing is learnt.

A trial makes far fewer steps than the fit.  It therefore goes through the schedule faster:
its last step is as long as the fit's last one will be, so that the noise that stays in the
weights is the fit's.

The sample is drawn from all rows, whatever the order they are visited in (sorted rows
would show a part of the classes), and by itself: all labels of a multilabel model, all
candidates of a search and all seeds try the same rows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Generator
from functools import lru_cache
from typing import Any

import numpy as np

from osvm._input.types import Array
from osvm._parts.compiled import StepSpec
from osvm.linear.examples import column_moments
from osvm.linear.learner import SGDLearner
from osvm.linear.plan import Plan, affordable
from osvm.linear.scaling import spread_rows, take
from osvm.linear.training import Examples, objective, run
from osvm.schedules import (
    CANDIDATES,
    JOINT,
    MOST_COLUMNS_PER_ROW,
    OF_FIT,
    OF_RARE,
    OF_WIDE,
    RARE_RATIO,
    Adaptive,
    Auto,
    Bottou,
)

# One row in so many is tried, and more where rows are short; between so many rows and so
# many stored values.  All trials together, beside one epoch over rows of 75 values: as long
# on 2,000 rows (0.5 ms), a fifth to a half on 20,000, a tenth on 200,000.
_SHARE = 400
_FEWEST_VALUES, _MOST_VALUES = 1 << 14, 1 << 17
_FEWEST_ROWS, _MOST_ROWS = 128, 1000
_FEWEST_WIDE_ROWS = 32
# Of the rarer class, for a sample to say that small steps are enough.
_FEWEST_RARE_ROWS = 8
# Mini-batches of a trial: as many steps as the fit, or at least these.
_FEWEST_STEPS = 8
# Another step must be better by a factor; a smaller one by more.  On a flat stretch, where
# the sample is too small to tell, the larger step is the one that gets somewhere; less so
# for numbers, whose loss falls by little in all.
_BETTER, _BETTER_NUMBERS, _BETTER_LARGER = 0.9, 0.99, 0.98
_MOST_MOVES = 20
# Of the intercept's step: b moves at rows with a loss, which are few with a rare class.
_LARGEST_INTERCEPT_STEP, _LARGEST_SHARED_STEP = 64.0, 16.0
# The share of one of two classes below which it is rare.
_RARE = 0.025
# Rows in which columns are looked at, how many times the size of the middle one they may have,
# and how many times as far as its example a step may reach.
_LOOKED_AT_ROWS, _ALIKE, _LONGEST = 256, 32.0, 1000.0
# Targets whose median is where b starts.
_MEDIAN_ROWS = 4096


class Sample:
    """Rows to try step sizes on.

    Parameters
    ----------
    X : RowSource or ScaledRows
        All rows.
    epochs : int
        That the fit will make at most.
    """

    def __init__(self, X: Any, epochs: int) -> None:
        n, size = X.n_rows, self._size(X.n_rows, X.mean_count)
        self.rows = some_rows(n, size)
        self.X, sq_norms = take(X, self.rows)
        # Of a typical row; in counts, the mean is that of a few long documents.
        self.sq_norm = float(np.median(sq_norms[sq_norms > 0.0])) if sq_norms.any() else 0.0
        # All the rows there are: as often as the fit will visit them, if that is cheap.
        self.has_all = size == n
        self.passes = 1 if size < n else max(1, min(epochs, 2 * _FEWEST_ROWS // size))
        self.visits, self.fit_visits = self.passes * size, n * epochs

    @staticmethod
    def _size(n: int, count: float) -> int:
        """How many of n rows with so many stored values each."""
        count = max(1.0, count)
        size = min(max(n // _SHARE, int(_FEWEST_VALUES / count), _FEWEST_ROWS), _MOST_ROWS)
        return min(size, max(_FEWEST_WIDE_ROWS, int(_MOST_VALUES / count)), n)


@lru_cache(8)  # for the next fold, candidate or label
def some_rows(n: int, most: int) -> Array:
    """At most so many of n rows at random, always the same ones; read-only."""
    rows = np.random.default_rng(n).choice(n, min(n, most), replace=False).astype(np.int64)
    rows.setflags(write=False)
    return rows


def trial_plan(plan: Plan, eta: float, sample: Sample) -> Plan:
    """The plan with this first step, for the sample: as the fit, but faster through time."""
    steps = max(1.0, sample.fit_visits / plan.batch_size)
    batch = 1
    if plan.batch_size > 1:
        wanted = min(steps, max(sample.visits / plan.batch_size, _FEWEST_STEPS))
        batch = max(1, int(sample.visits / wanted))
    haste = max(1.0, steps / (sample.visits / batch))
    reg = plan.schedule_reg * haste
    return dataclasses.replace(
        plan,
        schedule=Bottou(reg=reg),
        t0=1.0 / (eta * reg),
        intercept_step=plan.intercept_step / math.sqrt(haste),
        average_from=-1.0,
        batch_size=batch,
    )


def first_step_trials(
    plan: Plan, sample: Sample, spread: float = 1.0, rarer: float = math.inf
) -> Generator[float, float, Plan]:
    """Yields first steps to try (`trial_plan`), is sent their costs, returns the plan to use.

    The search starts where a step changes the score of a typical row by 1 (by `spread`,
    for numbers) and goes from there by factors of four for as long as it gets better.  It
    ends where all the fit's steps would hardly move a score; and where it starts, if the
    sample has but `rarer` rows of one of two classes, too few to say what smaller steps
    would miss.
    """
    if 0.0 < sample.sq_norm < math.inf:
        start = spread / sample.sq_norm
    else:
        start = plan.usual_first_step()
    start = min(max(start, 1e-290), 1e290)
    floor = start
    if rarer >= _FEWEST_RARE_ROWS or sample.has_all:
        floor /= math.sqrt(max(1.0, sample.fit_visits))
    # Longer steps than these are no others: one empties w, or is kept within its example.
    ceiling = 1.0 / plan.schedule_reg
    if plan.curvature > 0.0:
        ceiling = min(ceiling, start / plan.curvature)
    start = min(start, ceiling)
    best, cost = start, (yield start)
    smaller = _BETTER_NUMBERS if plan.error_kind == "absolute" else _BETTER
    for factor, better in ((4.0, _BETTER_LARGER), (0.25, smaller)):
        began = best
        for _ in range(_MOST_MOVES):
            eta = best * factor
            if eta > ceiling or (eta < floor and math.isfinite(cost)):
                break
            other = yield eta
            # Of two steps that both overflow the smaller one is the better.
            if not (other < better * cost or (factor < 1.0 and cost == math.inf)):
                break
            best, cost = eta, other
        if best != began:
            break
    return plan.with_first_step(best)


def tried_plan(
    plan: Plan,
    sample: Sample,
    targets: Array,
    n_out: int,
    dtype: Any,
    weight: Array | None = None,
    intercept: float = 0.0,
) -> Plan:
    """The plan with the t0 that learns the sample best.

    `targets` and `weight` are of all rows; `intercept` is where b starts.
    """
    if not plan.needs_t0:
        return plan
    targets = np.ascontiguousarray(targets[sample.rows])
    weight = None if weight is None else np.ascontiguousarray(weight[sample.rows])
    spread = 1.0
    if plan.error_kind == "absolute" and plan.curvature == 0.0:
        # b and the scores have the targets' unit, the slope of the loss has none.
        spread = float(np.abs(targets - intercept).mean()) or 1.0
        plan = dataclasses.replace(plan, intercept_step=spread)
    rarer = math.inf
    if n_out == 1 and plan.error_kind == "class":
        rarer = float(class_weights(targets, None).min())
    choice = first_step_trials(plan, sample, spread, rarer)
    eta = next(choice)
    trial = trial_plan(plan, eta, sample)
    loss, reg = trial.loss_spec(), trial.schedule_reg
    data = Examples(sample.X, targets, weight)
    learner = None
    while True:
        if learner is None:
            learner = trial.learner(sample.X.n_features, n_out, dtype)
        # One learner makes all trials, which differ in t0 alone.
        learner.set_parts(loss, StepSpec(Bottou.kind, reg=reg, t0=1.0 / (eta * reg)))
        learner.intercept[:] = intercept
        cost = trial_cost(learner, trial, data, sample.passes)
        try:
            eta = choice.send(cost)
        except StopIteration as stop:
            return stop.value
        if cost == math.inf:  # it may have stopped within a mini-batch
            learner = None
            continue
        learner.weights.set_array(np.zeros(learner.weights.array().shape))
        learner.t = learner.seen = learner.loss_sum = learner.error_sum = 0.0


def trial_cost(learner: SGDLearner, trial: Plan, data: Examples, passes: int) -> float:
    """Objective of the sample after it has been learnt, and mean loss on the way.

    The first shows what a step can learn, also where rows have hardly a column in common;
    the second is a mean over many weights, which the last ones' noise does not sway.
    Infinite where a step overflows.
    """
    try:
        for _ in range(passes):
            run(learner, data, None, trial.curvature)
            learner.flush()
        cost = objective(learner, trial, data, False) + learner.loss_sum / learner.seen
    except FloatingPointError:
        return math.inf
    return cost if math.isfinite(cost) else math.inf


def with_first_step(
    plan: Plan, data: Examples, epochs: int, n_out: int, dtype: Any
) -> tuple[Plan, float]:
    """The plan with the t0 and the intercept's step that the data ask for, and where b starts."""
    intercept = starting_intercept(plan, data.targets, data.weight)
    if not plan.needs_t0:
        return plan, intercept
    if plan.error_kind == "class":
        plan = with_intercept_step(plan, class_weights(data.targets, data.weight))
    sample = Sample(data.X, epochs)
    plan = tried_plan(plan, sample, data.targets, n_out, dtype, data.weight, intercept)
    return plan, intercept


# ------------------------------------------------------------------ the intercept


def class_weights(targets: Array, weight: Array | None) -> Array:
    """Total weight of each class, of targets -1 and +1 or of codes."""
    codes = targets > 0.0 if targets.dtype.kind == "f" else targets
    if codes.dtype == bool and weight is None:
        n = int(np.count_nonzero(codes))
        return np.array([len(codes) - n, n])
    return np.bincount(codes, weights=weight, minlength=2)


def rare_rows(targets: Array, weight: Array | None) -> Array | None:
    """Which rows are of the rarer of two classes (targets -1 and +1); None if it is not rare."""
    weights = class_weights(targets, weight)
    rarer = int(weights.argmin())
    if not RARE_RATIO * weights[rarer] < weights[1 - rarer]:
        return None
    return np.asarray((targets > 0.0) == bool(rarer))


def competing(plan: Plan, data: Examples) -> int:
    """The settings of `Auto` (bits) that compete in a fit to these examples.

    Errors do not tell settings apart that never find a rare class: explicit steps alone do,
    but where there are more columns than rows they fit the noise, and are there for columns
    in odd units only.  So are those that learn classes jointly: with so many columns any class
    can be told from all others at once.  Where columns are many times as many, the first
    setting learns alone: all come out alike, and memory is what costs.
    """
    targets, n_features = data.targets, data.X.n_features
    if n_features > MOST_COLUMNS_PER_ROW * len(targets):
        return 1
    wide = n_features >= len(targets)
    if wide and has_usual_units(data.X):
        return OF_WIDE
    if targets.dtype.kind != "f":
        return OF_FIT | JOINT if plan.open_loss else OF_FIT
    if wide:
        return OF_FIT
    weights = class_weights(targets, data.weight)
    return OF_FIT if float(weights.min()) >= _RARE * float(weights.sum()) else OF_RARE


def needs_bets(plan: Plan, data: Examples, n_models: int) -> bool:
    """Whether one of two classes is rare in sparse rows of more columns than rows, as in text.

    Its words come seldom, and steps that shrink have not learnt them when the class is told
    from what the training rows happen to hold.  Bets on them grow for as long as they are right.
    """
    may = isinstance(plan.schedule, Auto) and affordable(data.X.n_features, 2 * n_models)
    if not (may and data.X.sparse and data.targets.dtype.kind == "f"):
        return False
    return rare_rows(data.targets, data.weight) is not None


def has_usual_units(X: Any) -> bool:
    """Whether sparse columns have like sizes, by some rows, and steps suit their units.

    The first step of a rate r moves each weight of its row by r at most, and the score by
    r |x|_1: by 1 and more, which the implicit step then bounds, or it is too short.
    """
    if not X.sparse:  # every row has all columns, and sizes that are a few times as large count
        return False
    part = take(X, spread_rows(X.n_rows, _LOOKED_AT_ROWS))[0]
    sizes = column_moments(part)[0]
    sizes = sizes[sizes > 0.0]
    if not len(sizes):
        return False
    at = [len(sizes) // 10, len(sizes) // 2, len(sizes) - 1]
    small, middle, largest = np.partition(sizes, at)[at]
    alike = middle <= _ALIKE * small and largest <= _ALIKE * middle
    reach = CANDIDATES[0].eta0 * part.mean_count * middle
    return bool(alike and 1.0 <= reach <= _LONGEST)


def with_intercept_step(plan: Plan, weights: Array) -> Plan:
    """The plan with a step of b for classes of these weights.

    b moves at rows with a loss only, which are few for a class that is rare: its step
    grows as the share of the rarest class falls, so that b gets as far as it does with
    equal classes.  One step serves all outputs, so that it grows less with more of them.
    Powers of two, which many labels can share.
    """
    rarest = float(np.min(weights)) * len(weights) / max(float(np.sum(weights)), 1e-300)
    if not plan.needs_t0 or plan.multi_loss or not rarest > 0.0:
        return plan
    largest = _LARGEST_INTERCEPT_STEP if len(weights) == 2 else _LARGEST_SHARED_STEP
    step = 2.0 ** round(-math.log2(rarest))
    step = min(step, largest)
    return plan if step == plan.intercept_step else plan.with_intercept_step(step)


def starting_intercept(plan: Plan, targets: Array, weight: Array | None) -> float:
    """Where b starts: at the constant that fits numbers best; 0 for classes.

    Adaptive steps would begin at the first target where b is 0, and rows in more columns can
    be learnt without a fault from there.
    """
    adapts = isinstance(plan.schedule, Adaptive)
    if plan.error_kind != "absolute" or not plan.fit_intercept or not (plan.needs_t0 or adapts):
        return 0.0
    if plan.loss.best_constant == "mean":
        constant = float(np.average(targets, weights=weight))
    else:
        if weight is not None:
            targets = targets[weight > 0.0]
        constant = float(np.median(targets[some_rows(len(targets), _MEDIAN_ROWS)]))
    return constant or (1e-300 if adapts and targets.any() else 0.0)
