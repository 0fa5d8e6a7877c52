"""How a linear model is trained: the plan of parts, and passes over the rows.

`Plan` is what the parameters resolve to, `train` runs epochs over validated rows.
Nothing here knows a label or a constructor: targets are -1/+1, codes or numbers.
"""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from osvm._estimator.callbacks import EpochWatch
from osvm._estimator.progress import Progress
from osvm._input.rows import RowSource
from osvm._input.schema import Schema, meta_schema, sgd_schema
from osvm.linear.examples import bounded_weight, full, sq_norm, windowed
from osvm.linear.learner import SGDLearner
from osvm.linear.scores import Platt
from osvm.linear.scores import objective as compiled_objective
from osvm.linear.smd import SMDLearner
from osvm.linear.svmd import SVMDLearner
from osvm.losses import MultiLoss
from osvm.schedules import SMD, Bottou, InverseTime, Schedule

Array = npt.NDArray[Any]

# Rows whose scores are kept at a time for Platt scaling.
_SCORED_ROWS = 8192


@dataclass(frozen=True)
class Plan:
    """The parts and numbers that one model is trained with.

    Parameters
    ----------
    loss, schedule : parts of `osvm.losses` and `osvm.schedules`
    reg : float
    C, eta0, t0 : float or None
        For the schedules that ask for them.
    intercept_step : float
        Where b has a step of its own, this / sqrt(t).
    radius : float
        Of the ball for projection; 0 for none.
    average_from : float
        Examples before averaging starts; -1 for no average.
    batch_size : int
    fit_intercept : bool
    error_kind : {"class", "absolute", "novel"}
    delta : array or None
        Label distances of the graph loss.
    """

    loss: Any
    schedule: Schedule
    reg: float
    C: float | None = None
    eta0: float | None = None
    t0: float | None = None
    intercept_step: float = 1.0
    radius: float = 0.0
    average_from: float = -1.0
    batch_size: int = 1
    fit_intercept: bool = True
    error_kind: str = "class"
    delta: Array | None = None

    @property
    def multi_loss(self) -> bool:
        """The loss looks at all outputs of an example at once."""
        return isinstance(self.loss, MultiLoss)

    @property
    def intercept_eta0(self) -> float:
        """Not 0 where the step size relies on the regulariser, which b does not have."""
        return self.intercept_step if isinstance(self.schedule, InverseTime | Bottou) else 0.0

    @property
    def curvature(self) -> float:
        """Of the loss, where a step may not go beyond its example; else 0.

        So it is for the losses whose slope has no bound, under the default step size.
        An explicit t0, or another schedule, is taken at its word.
        """
        if not isinstance(self.schedule, Bottou) or self.schedule.t0 is not None:
            return 0.0
        return {"squared": 1.0, "squared_hinge": 2.0}.get(self.loss.name, 0.0)

    def specs(self) -> tuple[Any, Any]:
        """The compiled loss and step."""
        loss = self.loss.spec() if self.delta is None else self.loss.spec(self.delta)
        return loss, self.step_spec()

    def step_spec(self) -> Any:
        """The compiled step."""
        return self.schedule.spec(reg=self.reg, C=self.C, eta0=self.eta0, t0=self.t0)

    def learner(self, n_features: int, n_out: int, dtype: Any, weights: Any = None) -> SGDLearner:
        """A learner with zero (or the given) weights."""
        loss, step = self.specs()
        if isinstance(self.schedule, SMD):
            kind = SMDLearner if self.schedule.per_coordinate else SVMDLearner
            return self._meta_learner(kind, n_features, n_out, dtype, loss, step)
        return SGDLearner(
            n_features,
            n_out,
            dtype,
            loss,
            step,
            reg=self.reg,
            radius=self.radius,
            average_from=self.average_from,
            intercept_eta0=self.intercept_eta0,
            batch_size=self.batch_size,
            fit_intercept=self.fit_intercept,
            error_kind=self.error_kind,
            weights=weights,
        )

    def _meta_learner(
        self, kind: Any, n_features: int, n_out: int, dtype: Any, loss: Any, step: Any
    ) -> SGDLearner:
        """A learner that adapts its step sizes; it answers to the same calls."""
        for name, plain in (("radius", 0.0), ("average_from", -1.0), ("batch_size", 1)):
            if getattr(self, name) != plain:
                word = {"radius": "project", "average_from": "average"}.get(name, name)
                raise ValueError(
                    f"schedule='smd' has no {word}: its trace follows the plain steps; leave "
                    f"{word} alone or choose another schedule"
                )
        return kind(
            n_features,
            n_out,
            dtype,
            loss,
            step,
            reg=self.reg,
            fit_intercept=self.fit_intercept,
            error_kind=self.error_kind,
        )

    def schema(self, n_features: int, n_out: int, dtype: Any) -> Schema:
        """What the state of such a learner holds."""
        if isinstance(self.schedule, SMD):
            per_coordinate = self.schedule.per_coordinate
            return meta_schema(
                n_features, n_out, dtype, per_coordinate=per_coordinate, reg=self.reg
            )
        return sgd_schema(
            n_features,
            n_out,
            dtype,
            average_from=self.average_from,
            radius=self.radius,
            batch_size=self.batch_size,
        )

    def needs_t0(self) -> bool:
        return isinstance(self.schedule, Bottou) and self.schedule.t0 is None and self.t0 is None

    def with_usual_t0(self) -> Plan:
        """t0 from reg and the loss alone, for a stream whose data are not there yet.

        Bottou's rule: the first step moves w about as far as its usual size,
        ``reg**-0.25``.
        """
        return self.with_first_step(self.usual_first_step()) if self.needs_t0() else self

    def for_stream(self, X: RowSource) -> Plan:
        """t0 for a stream that begins with these rows: the usual one, or a larger one.

        Where the loss has a curvature, the first step corrects at most half of the
        first row's error.  Only that row is looked at, so that the model does not
        depend on how the stream is cut.
        """
        if not self.needs_t0() or self.curvature == 0.0:
            return self.with_usual_t0()
        pull = 2.0 * self.curvature * sq_norm(X, 0)
        return self.with_first_step(min(self.usual_first_step(), 1.0 / max(pull, 1e-300)))

    def usual_first_step(self) -> float:
        """As far as w usually gets, and no further for a steep loss."""
        size = math.sqrt(1.0 / math.sqrt(self.reg_of_schedule()))
        slope = 1.0 if self.multi_loss else abs(float(self.loss.dloss(1.0, -size)))
        return size / max(1.0, slope)

    def reg_of_schedule(self) -> float:
        """What Bottou's steps are made of; an error without a regulariser."""
        reg = getattr(self.schedule, "reg", None)
        reg = self.reg if reg is None else reg
        if reg <= 0:
            raise ValueError(
                f"schedule {self.schedule.name!r} needs reg > 0; without a regulariser choose "
                "'constant' or 'inverse_sqrt'"
            )
        return float(reg)

    def with_first_step(self, eta: float) -> Plan:
        """t0 for a first step of this size."""
        return dataclasses.replace(self, t0=1.0 / (eta * self.reg_of_schedule()))


@dataclass
class Epoch:
    """What a callback is told after each epoch."""

    number: int
    seconds: float
    average_loss: float
    objective: float | None


def objective(
    learner: SGDLearner, plan: Plan, X: RowSource, targets: Array, weight: Array | None, mean: bool
) -> float:
    """reg/2 ||w||^2 + the weighted mean loss, from a pass over all rows."""
    if isinstance(learner, SGDLearner):
        return compiled_objective(learner, X, targets, weight, mean)
    scores = np.empty((X.n_rows, learner.weights.n_out))
    learner.decide(X, scores, mean)
    if scores.shape[1] == 1:
        values = plan.loss.value(targets, scores[:, 0])
    elif plan.multi_loss:
        loss, _ = plan.specs()
        values = loss.multi_value_dloss(targets, scores)[0]
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


def train(
    learner: SGDLearner,
    plan: Plan,
    X: RowSource,
    targets: Array,
    *,
    weight: Array | None,
    epochs: int,
    shuffle: bool | str,
    rng: np.random.Generator,
    tol: float | None = None,
    progress: Progress | None = None,
    record: dict[str, Array] | None = None,
    watch: EpochWatch | None = None,
    first_order: Array | None = None,
    platt: Platt | None = None,
) -> list[float]:
    """Passes over the rows; the true objective after each where `tol` asks for it.

    Stops early when two epochs in a row have not lowered the objective by the
    fraction `tol`, or when a callback asks for it.
    """
    objectives: list[float] = []
    best, stale = math.inf, 0
    for epoch in range(epochs):
        if watch is not None:
            watch.begin()
        began = time.perf_counter()
        before = learner.loss_sum
        order = first_order if epoch == 0 else None
        if order is None:
            order = visiting_order(X.n_rows, shuffle, rng)
        run(
            learner,
            X,
            targets,
            order,
            weight,
            progress,
            record,
            epoch * X.n_rows,
            platt,
            plan.curvature,
        )
        learner.flush()
        value = None
        if tol is not None:
            value = objective(learner, plan, X, targets, weight, plan.average_from >= 0)
            objectives.append(value)
            stale = stale + 1 if value > best - tol * abs(best) else 0
            best = min(best, value)
        stop = False
        if watch is not None:
            seconds = time.perf_counter() - began
            mean_loss = (learner.loss_sum - before) / X.n_rows
            stop = watch.end(Epoch(epoch + 1, seconds, mean_loss, value))
        if stop or stale >= 2:
            break
    if progress is not None:
        progress.finish()
    return objectives


def run(
    learner: SGDLearner,
    X: RowSource,
    targets: Array,
    order: Array | None,
    weight: Array | None,
    progress: Progress | None,
    record: dict[str, Array] | None = None,
    offset: int = 0,
    platt: Platt | None = None,
    curvature: float = 0.0,
) -> None:
    """One pass, cut where the progress table has a line.

    With `platt`, the scores that examples have before their steps go there; `curvature`
    is the plan's.
    """
    start, n = 0, X.n_rows
    scores = None if platt is None else np.empty((min(n, _SCORED_ROWS), learner.weights.n_out))
    while start < n:
        stop = n if scores is None else min(n, start + len(scores))
        if progress is not None:
            stop = min(stop, start + max(1, progress.next_at - int(learner.seen)))
        part = None
        if record is not None:
            part = {key: a[offset + start : offset + stop] for key, a in record.items()}
        if scores is not None:
            part = {**(part or {}), "score": scores}
        loss, errors = learner.loss_sum, learner.error_sum
        learn(learner, X, targets, order, start, stop, weight, part, curvature)
        if platt is not None and scores is not None:
            rows = slice(start, stop) if order is None else order[start:stop]
            platt.learn(scores[: stop - start], targets[rows])
        if progress is not None:
            progress.add(
                stop - start, loss=learner.loss_sum - loss, errors=learner.error_sum - errors
            )
        start = stop


def learn(
    learner: SGDLearner,
    X: RowSource,
    targets: Array,
    order: Array | None,
    start: int,
    stop: int,
    weight: Array | None,
    record: dict[str, Array] | None,
    curvature: float,
    undo: bool = False,
) -> None:
    """The examples start:stop, none of them with a step that goes beyond it."""
    given = weight
    if curvature > 0.0:
        weight = bounded_weight(learner, X, curvature, order, start, stop, given)
    # learners that adapt their step sizes roll back by copies, not here
    options = (undo, curvature) if undo else ()
    learner.run(X, targets, order, start, stop, weight, record, *options)
    if weight is not given and weight is not None and record is not None and "eta" in record:
        rows = np.arange(start, stop) if order is None else order[start:stop]
        own = 1.0 if given is None else np.where(given[rows] > 0, given[rows], 1.0)
        record["eta"][: stop - start] *= np.where(weight[rows] > 0, weight[rows], 1.0) / own
