"""The parameters of an estimator with a kernel buffer, resolved: what the loop is to do.

Invariants
- every parameter is checked, and nothing is changed;
- what depends on the data (the spread of targets, a setting chosen) is given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from osvm import losses, schedules
from osvm._input.parameters import (
    check_bool,
    check_choice,
    check_integer,
    check_number,
    resolve_reg,
)
from osvm._input.types import Array
from osvm._parts.compiled import LossSpec, StepSpec
from osvm.kernel.batch import Batch
from osvm.kernel.buffer.choice import FEW
from osvm.kernel.buffer.label_kernel import find_taxonomy, label_kernel_of
from osvm.kernel.buffer.measures import loss_slope, step_unit
from osvm.kernel.options import refuse_unread

_WITH_MARGIN = ("hinge", "multiclass_hinge", "graph_hinge", "novelty")


@dataclass
class Plan:
    """Parameters of an estimator, resolved."""

    values: tuple[Any, ...]  # the parameters
    loss_part: Any
    multi: bool
    nu: losses.NuTrick | None
    reg: float
    offset: bool
    schedule: schedules.Schedule
    step: StepSpec
    loss: LossSpec
    eta_intercept: float  # the first step size of the intercept
    average: bool
    set_offset: bool  # at the end of a fit
    slope: float  # of the loss at most, 0 where it has the targets' unit
    curved: bool  # small errors have less slope
    label_kernel: Array | None = None
    is_plane: bool = False  # that `fit` has taken

    def reads_offset(self, budget: int, n_rows: int) -> bool:
        """Whether off the rows of `fit`, which must not be fitted closely.

        Most are outside of the buffer, or they are so many that each can move f but little (by
        1/(reg n)) and that a trial on some of them has scores of another size.
        """
        return self.set_offset and (0 < 2 * budget <= n_rows or n_rows > FEW)


PARAMETERS = (
    "loss", "reg", "C", "kernel", "gamma", "degree", "coef0", "budget", "eviction", "schedule",
    "eta0", "nu", "fit_intercept", "taxonomy", "label_kernel", "record", "average",
)  # fmt: skip


def resolve_plan(
    model: Any, batch: Batch, n_rows: int | None, reg: float | None = None, unit: float = 1.0
) -> Plan:
    """Check the parameters and make the parts.

    `unit` is the spread of the targets: losses of bounded slope take steps of that size, so
    that a model of targets in other units is the same model in other units.
    """
    part = losses.get(getattr(model, "loss", "novelty"))
    if part.name in losses.names():
        check_choice("loss", part.name, losses.for_tasks(model._loss_tasks))
    schedule = _schedule(model)
    nu = _nu_trick(model.nu, schedule)
    # `reg` given here was read off the rows of `fit`, or chosen by them
    is_read_off = model.C is not None or (model.gamma is None and model.reg is None)
    if nu is not None:
        if part.name not in _WITH_MARGIN:
            raise ValueError(
                f"nu needs a loss with a margin ({', '.join(_WITH_MARGIN)}), not {part.name!r}"
            )
        if model.C is not None or (model.reg is not None and model.reg != 1.0):
            raise ValueError("the nu-trick fixes reg at 1: give nu or reg (or C), not both")
        reg = 1.0
    elif reg is None or not is_read_off:
        reg = resolve_reg(model.reg, model.C, n_rows) / step_unit(part, unit)
    refuse_unread(model, part, schedule)
    eta0 = _eta0(model, schedule, reg * step_unit(part, unit) if is_read_off else None)
    eta_intercept = getattr(schedule, "eta0_intercept", None) or eta0
    eta0 *= step_unit(part, unit)
    unset = model.fit_intercept is None and batch.task == "classify"
    # a shift would change what a loss says of probabilities, distances, or of the margin
    says_more = part.name == "graph_hinge" or hasattr(part, "probability")
    plan = Plan(
        values=tuple(map(model.__dict__.get, PARAMETERS)),
        loss_part=part,
        multi=isinstance(part, losses.MultiLoss),
        nu=nu,
        reg=reg,
        offset=not unset and check_bool("fit_intercept", model.fit_intercept),
        schedule=schedule,
        step=schedule.spec(reg=reg, C=model.C, eta0=eta0, t0=_t0(eta0, reg)),
        loss=_loss_spec(model, part, batch),
        eta_intercept=float(eta_intercept) * step_unit(part, unit),
        average=_average(model, schedule),
        set_offset=unset and nu is None and not says_more,
        slope=loss_slope(part),
        curved=loss_slope(part) > 0.0 and bool(np.isfinite(part.curvature_bound)),
    )
    if batch.index is not None:
        plan.label_kernel = label_kernel_of(model, batch.index, count_outputs(plan, batch))
    return plan


def find_budget(model: Any) -> int:
    """Rows in the expansion at most; -1 for no bound."""
    budget = check_integer("budget", model.budget, 1, none=True)
    return -1 if budget is None else budget


def _average(model: Any, schedule: schedules.Schedule) -> bool:
    """Whether to average; None: where the schedule allows it."""
    can = schedule.name != "smd"
    average = getattr(model, "average", None)
    if average is None:
        return can
    if check_bool("average", average) and not can:
        raise ValueError("schedule='smd' does not average; use average=False")
    return bool(average)


def _eta0(model: Any, schedule: schedules.Schedule, reg: float | None) -> float:
    """The first step size unless it is given; `reg` where that was chosen, for targets of size 1.

    With "bottou" 1 for classes, and for numbers 0.1, or 0.3 with the `reg` of `choice`.
    """
    if model.eta0 is not None:
        return float(model.eta0)
    if schedule.name != "bottou":
        return 0.1
    if model._task == "regress" and reg is not None and model.C is None:
        return min(1.0, 1000.0 * reg)
    return 1.0 if model._task == "classify" else 0.1


def _t0(eta0: float, reg: float) -> float:
    """Of "bottou": the first step is eta0, so 1/reg at most."""
    if reg > 0.0 and reg * eta0 < 1e-300:
        raise ValueError(f"reg={reg:g} and eta0={eta0:g} are too small: raise one of them")
    return max(0.0, 1.0 / (reg * eta0) - 1.0) if reg > 0.0 else 0.0


def _loss_spec(model: Any, part: Any, batch: Batch) -> LossSpec:
    """The compiled loss; distances between the classes known for "graph_hinge"."""
    if part.needs_distances and batch.index is not None:
        return part.spec(find_taxonomy(model, part).distances(batch.index.classes.tolist()))
    return part.spec()


def _schedule(model: Any) -> schedules.Schedule:
    """The schedule, checked."""
    check_number("eta0", model.eta0, 0.0, low_open=True, none=True)
    schedule = schedules.get(model.schedule)
    if isinstance(schedule, schedules.Adaptive | schedules.CoinBetting | schedules.Auto):
        raise ValueError(f"schedule {schedule.name!r} is for linear models")
    if getattr(schedule, "lazy", False):
        raise ValueError("constant: lazy is for linear models; leave it at False")
    if hasattr(schedule, "capped") and schedule.capped is None and model._task == "classify":
        capped = model._kernel_part().name == "polynomial"
        schedule = replace(schedule, capped=capped)  # type: ignore[call-arg]
    if getattr(schedule, "per_coordinate", False):
        raise ValueError("smd: per_coordinate is for linear models; a kernel machine has one eta")
    if getattr(schedule, "eta0_intercept", None) is not None and not model.fit_intercept:
        raise ValueError("smd: eta0_intercept needs fit_intercept=True")
    return schedule


def _nu_trick(nu: Any, schedule: schedules.Schedule) -> losses.NuTrick | None:
    """The nu-trick, of a number or given as such."""
    if nu is None:
        return None
    if not isinstance(nu, losses.NuTrick):
        check_number("nu", nu, 0.0, 1.0, low_open=True, high_open=True, none=True)
        return losses.NuTrick(float(nu))
    if nu.eta0 is not None and schedule.name != "smd":
        raise ValueError(
            "nu: eta0 is the margin's step size under schedule='smd'; with other schedules it "
            "takes that of f: leave it at None"
        )
    return nu


def count_outputs(plan: Plan, batch: Batch) -> int:
    n = 1 if batch.index is None else len(batch.index)
    return n if plan.multi or n > 2 else 1
