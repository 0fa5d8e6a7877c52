"""Passes of a linear learner over rows: `train` makes the epochs of a fit, `run` one pass.

Nothing here knows a label or a constructor: targets are -1/+1, codes or numbers, and every
number comes from the `Plan`.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from osvm._estimator.callbacks import EpochWatch
from osvm._estimator.progress import Progress
from osvm._input.types import Array
from osvm.linear.column_shares import ColumnShares, shares_columns
from osvm.linear.examples import BLOCK, WINDOW, bounded_weight, full, windowed
from osvm.linear.learner import SGDLearner
from osvm.linear.mixing import Mixer, useful_jobs
from osvm.linear.plan import Plan
from osvm.linear.scaling import ScaledRows, decide, rows_named, scaled, spread_rows, take
from osvm.linear.scores import Platt
from osvm.linear.scores import objective as compiled_objective
from osvm.schedules import DECIDED_AT, Auto

# Rows whose scores are kept at a time for Platt scaling.
_SCORED_ROWS = 8192
# Correlation of targets within blocks that the windows' order may have, and blocks looked at.
# Their first row is compared with the other ones.
_ALIKE, _LOOKED_AT_BLOCKS, _LOOKED_AT_ROWS = 0.03, 4096, np.array([0, 2, 5, 8, 11, 14])


@dataclass(slots=True)  # frozen ones take three times as long to make, at every call
class Examples:
    """Rows (a `RowSource`, or `ScaledRows`), what is to be learnt, and weights.

    `times` are weights of rows alone, without those of classes: what probabilities go by.
    """

    X: Any
    targets: Array
    weight: Array | None = None
    times: Array | None = None

    def told(self) -> Examples:
        """Those that have weight; all where none has."""
        if self.weight is None or self.weight.all() or not self.weight.any():
            return self
        rows = np.flatnonzero(self.weight)
        times = None if self.times is None else self.times[rows]
        if isinstance(self.X, ScaledRows):
            X: Any = scaled(take(self.X.X, rows, renumber=False)[0], self.X.scaling)
        else:
            X, _ = take(self.X, rows, renumber=False)
        return Examples(X, self.targets[rows], self.weight[rows], times)


def n_told(weight: Array) -> int:
    """How many rows have weight; all where none has."""
    return int(np.count_nonzero(weight)) or len(weight)


@dataclass(frozen=True)
class Passes:
    """How often and in which order `train` visits the rows; `tol` ends it early."""

    epochs: int
    shuffle: bool | str
    rng: np.random.Generator
    tol: float | None = None
    first_order: Array | None = None
    jobs: int = 1  # threads that share an epoch
    may_stop: bool = False  # after an epoch without a loss


@dataclass(slots=True)
class Watch:
    """What is done beside the steps of a pass.

    Parameters
    ----------
    progress : Progress, optional
        Gets a line where one is due.
    record : dict of arrays, optional
        Step size, loss and error of each example.
    platt : Platt, optional
        Learns from the scores that examples have before their steps.
    epochs : EpochWatch, optional
        Callbacks.
    """

    progress: Progress | None = None
    record: dict[str, Array] | None = None
    platt: Platt | None = None
    epochs: EpochWatch | None = None


@dataclass
class Epoch:
    """What a callback gets after each epoch."""

    number: int
    seconds: float
    average_loss: float
    objective: float | None


NO_WATCH = Watch()


def train(
    learner: SGDLearner, plan: Plan, data: Examples, passes: Passes, watch: Watch = NO_WATCH
) -> list[float]:
    """Passes over the rows; the true objective after each where `tol` asks for it.

    Stops early when two epochs in a row have not lowered the objective by the
    fraction `tol`, or when a callback asks for it.
    """
    objectives: list[float] = []
    best, stale, n = math.inf, 0, data.X.n_rows
    order, jobs = passes.first_order, passes.jobs
    if jobs > 1:
        jobs = useful_jobs(jobs, n, learner, watch.record)
    mixer = Mixer(learner, watch.platt, jobs, plan) if jobs > 1 else None
    judged = isinstance(plan.schedule, Auto)
    for epoch in range(passes.epochs):
        if watch.epochs is not None:
            watch.epochs.begin()
        began, before = time.perf_counter(), learner.loss_sum
        if judged:
            _prepare(learner, epoch, passes.epochs, n)
        if order is None:
            order = visiting_order(n, passes.shuffle, passes.rng)
        if mixer is not None:
            _mixed_epoch(mixer, learner, plan, data, order, watch)
        else:
            run(learner, data, order, plan.curvature, watch, offset=epoch * n)
            learner.flush()
        order, value = None, None
        if passes.tol is not None:
            value = objective(learner, plan, data, plan.average_from >= 0)
            objectives.append(value)
            stale = stale + 1 if value > best - passes.tol * abs(best) else 0
            best = min(best, value)
        stop = passes.may_stop and learner.loss_sum == before
        if watch.epochs is not None:
            seconds = time.perf_counter() - began
            mean_loss = (learner.loss_sum - before) / n
            stop |= watch.epochs.end(Epoch(epoch + 1, seconds, mean_loss, value))
        if stop or stale >= 2:
            break
    if watch.progress is not None:
        watch.progress.finish()
    return objectives


def _prepare(learner: Any, epoch: int, epochs: int, n_rows: int) -> None:
    """`Auto` before an epoch: candidates compete in the first one, then the best goes on.

    The answer is the average over the last half of the epochs, the last weights before them.
    """
    if epoch == 0 and learner.seen == 0:
        if epochs > 1:
            learner.compete(min(n_rows, DECIDED_AT))
        return
    learner.settle()
    if epoch <= epochs // 2:
        learner.restart_average(epoch == epochs // 2)


def settle(learner: Any, schedule: Auto, averaged: bool) -> None:
    """Leave the best candidate of `Auto` after a fit, ready for a stream.

    `averaged` says whether it answers with the average of the last epochs.
    """
    learner.settle()
    learner.resume(averaged)
    learner.decay = schedule.decay


def compete_in_block(learner: Any, settings: int) -> None:
    """`Auto` before a block that is learnt beside others: these settings (bits) compete, and none
    is dropped, so that all blocks can decide together.
    """
    learner.keep(learner.alive & settings or learner.alive)
    learner.decay, learner.decided_at = 1.0, math.inf


def begin_round(learner: Any) -> None:
    """`Auto` before a round after the first: the best setting goes on, with a new average."""
    learner.settle()
    learner.restart_average()


def _mixed_epoch(
    mixer: Mixer,
    learner: Any,
    plan: Plan,
    data: Examples,
    order: Array | None,
    watch: Watch,
) -> None:
    """One epoch in several threads; settings compete in one of them."""
    n = data.X.n_rows
    order = np.arange(n) if order is None else order
    if isinstance(plan.schedule, Auto) and learner.seen == 0:
        only_epoch, alone = learner.decided_at == 0, min(n, DECIDED_AT)
        if only_epoch:
            learner.compete(alone)
        alone = alone if learner.judging else 0
        run(learner, data, order[:alone], plan.curvature, watch)
        order = order[alone:]
        if only_epoch:
            learner.restart_average()
    loss, errors = learner.loss_sum, learner.error_sum

    def learn(part: SGDLearner, platt: Platt | None, rows: Array) -> None:
        run(part, data, rows, plan.curvature, Watch(platt=platt))

    def learn_columns(part: Any, rows: Array, record: dict[str, Array]) -> None:
        run(part, data, rows, plan.curvature, Watch(record=record))

    if len(order) and watch.platt is None and shares_columns(learner, mixer.jobs):
        mixer.columns = mixer.columns or ColumnShares(learner, mixer.jobs)
        mixer.columns.epoch(learn_columns, data.targets, data.weight, order)
    elif len(order):
        mixer.epoch(learn, order)
    if watch.progress is not None:
        watch.progress.add(
            len(order), loss=learner.loss_sum - loss, errors=learner.error_sum - errors
        )


def run(
    learner: SGDLearner,
    data: Examples,
    order: Array | None = None,
    curvature: float = 0.0,
    watch: Watch = NO_WATCH,
    *,
    offset: int = 0,
    roll_back: bool = False,
) -> None:
    """One pass, cut where the progress table has a line.

    Parameters
    ----------
    learner, data
    order : array, optional
        Of the rows; as they are by default.
    curvature : float
        Of the plan: weights are lowered so that no step goes beyond its example.
    watch : Watch
    offset : int
        Where the record of this pass begins.
    roll_back : bool
        All examples or none: the pass is not cut, and an error restores the weights.
    """
    if isinstance(data.X, ScaledRows):
        _run_scaled(learner, data, order, curvature, watch, offset, roll_back)
        return
    start, n, given = 0, data.X.n_rows if order is None else len(order), data.weight
    progress, record, platt = watch.progress, watch.record, watch.platt
    scores = None
    if platt is not None:
        scores = np.empty((n if roll_back else min(n, _SCORED_ROWS), learner.weights.n_out))
    options = (True, curvature) if roll_back else ()
    while start < n:
        stop = n if scores is None else min(n, start + len(scores))
        if progress is not None:
            stop = min(stop, start + max(1, progress.next_at - int(learner.seen)))
        part: dict[str, Array] | None = None
        if record is not None:
            part = {key: a[offset + start : offset + stop] for key, a in record.items()}
        if scores is not None:
            part = {**(part or {}), "score": scores}
        loss, errors, weight = learner.loss_sum, learner.error_sum, given
        if curvature > 0.0:
            weight = bounded_weight(learner, data.X, curvature, order, start, stop, given)
        learner.run(data.X, data.targets, order, start, stop, weight, part, *options)
        rows: Any = slice(start, stop) if order is None else order[start:stop]
        if weight is not None and weight is not given and record is not None:
            assert part is not None
            own = 1.0 if given is None else np.where(given[rows] > 0, given[rows], 1.0)
            part["eta"][:] *= np.where(weight[rows] > 0, weight[rows], 1.0) / own
        if platt is not None and scores is not None:
            times = None if data.times is None else data.times[rows]
            platt.learn(scores[: stop - start], data.targets[rows], times)
        if progress is not None:
            progress.add(
                stop - start, loss=learner.loss_sum - loss, errors=learner.error_sum - errors
            )
        start = stop


def _run_scaled(
    learner: SGDLearner,
    data: Examples,
    order: Array | None,
    curvature: float,
    watch: Watch,
    offset: int,
    roll_back: bool,
) -> None:
    """`run` on one block of scaled rows after the other, or on all of them where they are one."""
    if order is not None and (whole := data.X.in_one_block()) is not None:
        data = replace(data, X=whole)
        run(learner, data, order, curvature, watch, offset=offset, roll_back=roll_back)
        return
    n = data.X.n_rows if order is None else len(order)
    before = learner.get_state() if roll_back and n > data.X.block_rows else None
    for start, rows, block in data.X.blocks(order):
        weight = None if data.weight is None else data.weight[rows]
        times = None if data.times is None else data.times[rows]
        part = replace(data, X=block, targets=data.targets[rows], weight=weight, times=times)
        try:
            with rows_named(rows):
                run(
                    learner,
                    part,
                    None,
                    curvature,
                    watch,
                    offset=offset + start,
                    roll_back=roll_back,
                )
        except FloatingPointError:
            if before is not None:
                learner.set_state(*before)
            raise


def objective(learner: SGDLearner, plan: Plan, data: Examples, mean: bool) -> float:
    """reg/2 ||w||^2 + the weighted mean loss, from a pass over all rows."""
    X, targets, weight = data.X, data.targets, data.weight
    if isinstance(learner, SGDLearner) and isinstance(X, ScaledRows):
        total = 0.0
        for _, rows, block in X.blocks():
            own = None if weight is None else weight[rows]
            total += len(rows) * compiled_objective(learner, block, targets[rows], own, mean)
        return total / X.n_rows
    if isinstance(learner, SGDLearner):
        return compiled_objective(learner, X, targets, weight, mean)
    scores = np.empty((X.n_rows, learner.weights.n_out))
    decide(learner, X, scores, mean)
    if scores.shape[1] == 1:
        values = plan.loss.value(targets, scores[:, 0])
    elif plan.multi_loss:
        values = plan.specs()[0].multi_value_dloss(targets, scores)[0]
    else:
        signs = np.where(np.arange(scores.shape[1]) == targets[:, None], 1.0, -1.0)
        values = plan.loss.value(signs, scores).sum(axis=1)
    weights = learner.weights.array(averaged=mean)
    mean_loss = float(values.mean() if weight is None else (weight * values).mean())
    return 0.5 * plan.reg * float(np.vdot(weights, weights)) + mean_loss


def visiting_order(n_rows: int, shuffle: bool | str, rng: np.random.Generator) -> Array | None:
    """Row numbers for one epoch; None for the order of the rows."""
    if shuffle is False:
        return None
    seed = int(rng.integers(2**63))
    return full(n_rows, seed) if shuffle == "full" else windowed(n_rows, seed)


def resolve_shuffle(shuffle: bool | str, targets: Array) -> bool | str:
    """`shuffle`, with "full" for True where the rows of a block have like targets.

    A window mixes 64 blocks.  Where rows come sorted, each block is of one class, and the
    window holds the classes in shares as uneven as those of 64 rows.  How like they are is the
    correlation r of the targets within blocks: shares vary by 1 + 15 r times as much as those
    of unsorted rows.  It is looked at in at most 4,096 blocks.
    """
    n_blocks = len(targets) // BLOCK
    if shuffle is not True or n_blocks <= WINDOW:  # one window is mixed as a whole
        return shuffle
    blocks = spread_rows(n_blocks, _LOOKED_AT_BLOCKS)
    values = targets.take(blocks[:, None] * BLOCK + _LOOKED_AT_ROWS)
    first, others = values[:, :1], values[:, 1:]
    if values.dtype.kind == "f":
        apart, off = (others - first).ravel(), values.ravel() - values.mean()
        unlike = float(apart @ apart) / apart.size
        usual = 2.0 * float(off @ off) / off.size
    else:
        unlike = float(np.count_nonzero(others != first)) / others.size
        shares = np.bincount(values.ravel()) / values.size
        usual = 1.0 - float(shares @ shares)
    # by chance alone: a rare class has few rows to tell it by
    chance = 3.0 / math.sqrt(others.size * min(1.0, usual)) if usual > 0.0 else math.inf
    return "full" if usual - unlike > (_ALIKE + chance) * usual else True
