"""NORMA and SVMD on a bounded kernel expansion.

Follows Vishwanathan, Schraudolph, Smola (JMLR 2006); the step is in
`osvm/kernel/buffer/loop.pyx`.  This file turns an estimator's parameters into the parts that
the loop takes, and keeps the expansion, its history and its generator together.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from osvm import losses, schedules
from osvm._estimator.base import (
    LabelIndex,
    check_bool,
    check_choice,
    check_integer,
    check_number,
    make_generator,
    resolve_reg,
)
from osvm._estimator.progress import make_progress
from osvm._input.rows import RowSource
from osvm._input.schema import ArrayField, Schema
from osvm._parts.compiled import LossSpec, StepSpec
from osvm.kernel.batch import Batch
from osvm.kernel.buffer import choice
from osvm.kernel.buffer.label_kernel import find_taxonomy, label_kernel_of
from osvm.kernel.buffer.loop import learn
from osvm.kernel.buffer.machine import Backup, BufferMachine, copy_machine, restore_machine
from osvm.kernel.buffer.measures import (
    OUT_OF_RANGE,
    TOLD,
    find_margin,
    find_offsets,
    finite_scores,
    loss_slope,
    measure_share,
    measure_targets,
    sample_rows,
    step_unit,
    warn_rows,
    warn_targets,
    warn_tube,
)
from osvm.kernel.buffer.state import EVICTIONS, KernelState
from osvm.kernel.options import refuse_unread
from osvm.kernels import Kernel
from osvm.kernels import from_config as kernel_from_config

Array = npt.NDArray[Any]
OFFSET_ROWS = 5000  # that the offset is read off at most
_SETTLING = ("bottou", "inverse_time")  # steps of 1/t
_WITH_MARGIN = ("hinge", "multiclass_hinge", "graph_hinge", "novelty")


@dataclass
class _Plan:
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

    def reads_offset(self, budget: int, n_rows: int) -> bool:
        """Whether off the rows of `fit`, which must not be fitted closely.

        Most are outside of the buffer, or they are so many that each can move f but little (by
        1/(reg n)) and that a trial on some of them has scores of another size.
        """
        return self.set_offset and (0 < 2 * budget <= n_rows or n_rows > choice.FEW)


_NAMES = (
    "loss", "reg", "C", "kernel", "gamma", "degree", "coef0", "budget", "eviction", "schedule",
    "eta0", "nu", "fit_intercept", "taxonomy", "label_kernel", "record", "average",
)  # fmt: skip


class BufferSolver:
    """NORMA (any schedule of t) and SVMD (schedule "smd")."""

    # ---------------------------------------------------------------- learning

    def fit(self, model: Any, batch: Batch, machine: Any) -> BufferMachine:
        epochs = check_integer("epochs", model.epochs, 1)
        shuffle = check_bool("shuffle", model.shuffle)
        progress = make_progress(model.verbose, absolute=batch.task == "regress")
        n = batch.source.n_rows
        if machine is not None:
            plan, machine = self._plan_for(model, batch, copy_machine(machine))
            offsets: Array | float = machine.state.intercept.copy()
        else:
            setting, offsets = self._choose(model, batch)
            plan, machine = self._begin(model, batch, n, setting)
        if machine.kernel.name == "precomputed":
            _check_square(batch.source)
        state = machine.state
        generator = machine.generator if shuffle else None
        self._run_epochs(machine, plan, batch, epochs, generator, progress)
        if plan.nu is not None and batch.task == "novelty":
            scores = finite_scores(state, batch.source)[:, 0]
            state.epsilon = find_margin(scores, batch.weights, plan.nu.nu)
            state.set_share(measure_share(scores, batch.weights, state.epsilon))
        elif plan.reads_offset(state.budget, n):
            sample = batch if n <= OFFSET_ROWS else batch.take(sample_rows(n, OFFSET_ROWS))
            state.intercept[:] = 0.0
            scores = finite_scores(state, sample.source)
            assert sample.labels is not None
            state.intercept[:] = find_offsets(scores, sample.labels, sample.weights)
        elif plan.set_offset:
            state.intercept[:] = offsets
        if progress is not None:
            progress.finish()
        return machine

    def partial_fit(self, model: Any, batch: Batch, machine: Any) -> BufferMachine:
        n = batch.source.n_rows
        if machine is None:
            plan, machine = self._begin(model, batch, None)
            if plan.slope and plan.schedule.name == "smd":  # its steps have their own size
                warn_targets(batch.targets, plan.slope * machine.state.eta)
            elif plan.slope:
                machine.state.follow("targets")
            elif plan.set_offset and machine.n_outputs == 1:
                machine.state.follow("classes")
            backup = None
        else:
            plan, grown = self._plan_for(model, batch, machine)
            # one example is learnt or it is not; of several, the first might have been
            begins = not _is_set(machine.state, *_wanted(plan, batch))
            backup = Backup(machine) if grown is machine and (n > 1 or begins) else None
            machine = grown
        seen = int(machine.state.t)
        numbers = batch.task == "regress"
        progress = make_progress(model.verbose, start=seen, absolute=numbers)
        try:
            average, flags = _wanted(plan, batch)
            _set_average(machine.state, average, anew=not flags)
            if flags and machine.state.running is None:
                machine.state.set_share()
            self._run(machine, plan, batch, None, seen, progress)
        except BaseException:
            if backup is not None:
                backup.restore(machine)
            raise
        if seen < TOLD <= machine.state.t and plan.slope and machine.state.running is not None:
            weight, _, squares = machine.state.running
            warn_tube(plan.loss_part, float(np.sqrt(squares / (weight or 1.0))), TOLD)
        if progress is not None:
            progress.finish()
        return machine

    def _choose(self, model: Any, batch: Batch) -> tuple[choice.Setting, Array | float]:
        """gamma in units of "scale", and reg: by errors on held-out rows if gamma is None.

        And the offsets that those rows tell, for a fit of classes that keeps most of its rows:
        their own scores are fitted closely.
        """
        n, kernel = batch.source.n_rows, model._kernel_part()
        usual = choice.USUAL
        if batch.task == "novelty" or kernel.name != "rbf" or n < choice.FEWEST:
            return usual, 0.0
        is_free = model.gamma is None and model.kernel == "rbf"
        plan, budget = _resolve(model, batch, n), _budget(model)
        is_read = plan.reads_offset(budget, n)
        if not is_free and (is_read or not plan.set_offset):
            return usual, 0.0
        kernel = kernel.resolve(batch.X)
        trials = choice.Trials(batch)
        found: dict[choice.Setting, Array | float] = {}

        def errors_of(setting: choice.Setting) -> Array:
            scores = []
            for learnt, judged in trials.splits:
                plan, machine = self._begin(model, learnt, n, setting, kernel)
                generator = np.random.default_rng(0)
                self._run_epochs(machine, plan, learnt, choice.EPOCHS, generator, None)
                scores.append(finite_scores(machine.state, judged.source))
            if batch.task == "regress":
                found[setting] = 0.0
                return trials.judge_numbers(scores)
            errors, found[setting] = trials.judge(scores, plan.set_offset, is_read)
            return errors

        is_fixed = model.reg is not None or model.C is not None or model.nu is not None
        if not is_free:
            errors_of(usual)
            return usual, found[usual]
        settings = [(w, None if is_fixed else reg) for w, reg in choice.SETTINGS[batch.task]]
        best = choice.choose(settings, errors_of)
        return best, found[best]

    def _run_epochs(
        self,
        machine: BufferMachine,
        plan: _Plan,
        batch: Batch,
        epochs: int,
        generator: np.random.Generator | None,
        progress: Any,
    ) -> None:
        """Passes over a training set, in a new order each with a generator."""
        n, state = batch.source.n_rows, machine.state
        state.begin_fit(n, machine.kernel.name == "precomputed")
        state.follow(None)
        _set_average(state, False)
        _set_average(state, plan.average)
        for _ in range(epochs):
            order = None if generator is None else generator.permutation(n).astype(np.intp)
            self._run(machine, plan, batch, order, 0, progress)
        _set_average(state, False)
        state.end_fit()

    def _run(
        self,
        machine: BufferMachine,
        plan: _Plan,
        batch: Batch,
        order: Array | None,
        first_id: int,
        progress: Any,
    ) -> None:
        start, n = 0, batch.source.n_rows
        state = machine.state
        history = machine.room_to_record(n)
        loss0, errors0 = state.loss_sum, state.errors
        while start < n:
            stop = n
            if progress is not None:
                stop = min(n, start + max(1, progress.next_at - int(state.t)))
            try:
                learn(
                    state, batch.source, plan.loss, plan.step, task=batch.task, reg=plan.reg,
                    labels=batch.labels, targets=batch.targets, weights=batch.weights,
                    order=order, nu=None if plan.nu is None else plan.nu.nu,
                    offset=plan.offset, aside=plan.set_offset, slope=plan.slope,
                    curved=plan.curved, first_id=first_id, history=history,
                    record=machine._recorded, start=start, stop=stop,
                )  # fmt: skip
            except FloatingPointError as error:
                row = error.args[1] if batch.numbers is None else batch.numbers[error.args[1]]
                raise ValueError(f"learning diverged: at row {row} {OUT_OF_RANGE}") from None
            if history is not None:
                machine._recorded += stop - start
            start = stop
            if progress is not None:
                progress.add(
                    int(state.t) - progress.examples,
                    loss=state.loss_sum - loss0,
                    errors=state.errors - errors0 if batch.task != "regress" else None,
                )
                loss0, errors0 = state.loss_sum, state.errors

    # -------------------------------------------------------------- parameters

    def _begin(
        self,
        model: Any,
        batch: Batch,
        n_rows: int | None,
        setting: choice.Setting = choice.USUAL,
        trial: Kernel | None = None,
    ) -> tuple[_Plan, BufferMachine]:
        """A new machine for these parameters and data; `trial` is the kernel of a trial."""
        middle, unit = measure_targets(batch, n_rows)
        width, reg = setting
        if reg is not None:
            reg /= step_unit(losses.get(getattr(model, "loss", "novelty")), unit)
        plan = _resolve(model, batch, n_rows, reg, unit)
        budget = _budget(model)
        eviction = check_choice("eviction", model.eviction, EVICTIONS)
        kernel = model._kernel_part()
        source = batch.source
        if kernel.name == "precomputed" and source.sparse:
            raise ValueError("a precomputed kernel must be a dense array: X.toarray()")
        if source.sparse and source.n_features >= 2**31:
            raise ValueError(
                f"X has {source.n_features} features; kernel machines take at most 2**31 - 1: "
                "hash the features to fewer columns"
            )
        kernel = trial or kernel.resolve(batch.X)
        if width != 1.0:
            kernel = replace(kernel, gamma=width * kernel.gamma)  # type: ignore[union-attr]
        if trial is None:
            warn_rows(kernel, batch.X)
            if n_rows is not None:
                warn_tube(plan.loss_part, unit, n_rows)
        state = KernelState(
            kernel.spec(source.n_features),
            source.n_features,
            _count_outputs(plan, batch),
            float64=batch.X.dtype != np.float32,
            sparse=source.sparse,
            budget=budget,
            eviction=eviction,
            trace=plan.schedule.name == "smd",
            label_kernel=plan.label_kernel,
        )
        state.eta = plan.step.eta if plan.schedule.name == "smd" else plan.step.next(1.0)
        state.eta_epsilon = 1.0
        if plan.nu is not None:
            state.epsilon = float(plan.nu.epsilon0)
            state.eta_epsilon = float(plan.nu.eta0 or 1.0)
        state.eta_intercept[:] = plan.eta_intercept
        if plan.offset:
            state.intercept[:] = middle
        record = check_bool("record", model.record) and trial is None
        generator = make_generator(getattr(model, "random_state", None) if trial is None else 0)
        machine = BufferMachine(state, kernel, plan.reg, generator, record)
        machine.unit = unit
        machine._plan = plan
        return plan, machine

    def _plan_for(
        self, model: Any, batch: Batch, machine: BufferMachine
    ) -> tuple[_Plan, BufferMachine]:
        """The plan of a machine that exists, and the machine: a larger copy for new labels."""
        plan = machine._plan
        values = model.__dict__
        n_classes = 0 if batch.index is None else len(batch.index)
        if (
            plan is None
            or not all(map(operator.is_, plan.values, map(values.get, _NAMES)))
            or n_classes > max(machine.n_outputs, 2)
            or (plan.multi and n_classes != machine.n_outputs)
        ):
            plan = _resolve(model, batch, batch.source.n_rows, machine.reg, machine.unit)
            _check_unchanged(model, plan, machine)
            outputs = _count_outputs(plan, batch)
            if outputs != machine.n_outputs:
                machine = copy_machine(machine)
                _grow(machine.state, outputs, plan)
            elif not _same(machine.state.label_kernel, plan.label_kernel):
                machine = copy_machine(machine)
                machine.state.set_label_kernel(plan.label_kernel)
                machine.state.refresh()
            machine._plan = plan
        return plan, machine

    def restore(
        self, model: Any, n_features: int, index: LabelIndex | None, scalars: Any, arrays: Any
    ) -> BufferMachine:
        scalars, arrays = dict(scalars), dict(arrays)
        kernel = kernel_from_config(scalars.pop("kernel"))
        outputs, n_classes = scalars.get("n_outputs"), 1 if index is None else len(index)
        if outputs != n_classes and (n_classes > 2 or outputs != 1):
            raise ValueError(f"{outputs!r:.60} outputs for {n_classes} classes")
        label_kernel = None
        if "label_kernel" not in scalars:  # the first files of format 1
            label_kernel = None if index is None else label_kernel_of(model, index, outputs)
        elif scalars.pop("label_kernel"):
            label_kernel = arrays.pop("label_kernel")
            shape = (outputs, outputs)
            schema = Schema(
                "kernel machine", {}, {"label_kernel": ArrayField(shape, low=-1e100, high=1e100)}
            )
            schema.check({}, {"label_kernel": label_kernel})
        return restore_machine(kernel, n_features, label_kernel, scalars, arrays)


# ------------------------------------------------------------------ parameters


def _resolve(
    model: Any, batch: Batch, n_rows: int | None, reg: float | None = None, unit: float = 1.0
) -> _Plan:
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
    plan = _Plan(
        values=tuple(map(model.__dict__.get, _NAMES)),
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
        plan.label_kernel = label_kernel_of(model, batch.index, _count_outputs(plan, batch))
    return plan


def _budget(model: Any) -> int:
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


def _wanted(plan: _Plan, batch: Batch) -> tuple[bool, bool]:
    """Of a stream: whether to average, and whether to follow the share of novel rows.

    A step size that stays up follows a drift, which the mean would lag behind; but with reg=1 of
    the nu-trick f is no more than its last few novel rows.
    """
    flags = batch.task == "novelty" and plan.nu is not None
    return plan.average and (plan.schedule.name in _SETTLING or flags), flags


def _is_set(state: KernelState, average: bool, flags: bool) -> bool:
    """Whether `partial_fit` finds the state as it wants it."""
    return state.average == average and (state.running is not None or not flags)


def _set_average(state: KernelState, average: bool, anew: bool = True) -> None:
    """Begin the running mean, or make it the function to go on from."""
    if average and not state.average:
        state.begin_average(anew)
    elif state.average and not average:
        state.end_average()


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


def _count_outputs(plan: _Plan, batch: Batch) -> int:
    n = 1 if batch.index is None else len(batch.index)
    return n if plan.multi or n > 2 else 1


def _check_unchanged(model: Any, plan: _Plan, machine: BufferMachine) -> None:
    """Parameters that a running machine cannot change."""
    state = machine.state
    if _budget(model) != state.budget or model.eviction != state.eviction:
        raise ValueError("budget and eviction are fixed once learning has begun; use fit")
    if (plan.schedule.name == "smd") != state.trace:
        raise ValueError("schedule='smd' cannot be swapped with others in mid-stream; use fit")
    kernel = model._kernel_part()
    same = kernel == machine.kernel
    if not same and isinstance(getattr(kernel, "gamma", None), str):
        same = type(kernel) is type(machine.kernel)
    if not same:
        raise ValueError("the kernel is fixed once learning has begun; use fit")


def _grow(state: KernelState, outputs: int, plan: _Plan) -> None:
    """More outputs: new ones start at 0; a binary machine becomes the pair (-f, f)."""
    old = state.n_outputs
    if old == 1 and not plan.multi:
        transfer = np.zeros((1, outputs))
        transfer[0, :2] = (-1.0, 1.0)
    else:
        transfer = np.eye(old, outputs)
    state.follow(None)
    state.grow_outputs(transfer, plan.label_kernel, plan.eta_intercept)


def _same(one: Array | None, other: Array | None) -> bool:
    """Are these label kernels equal?"""
    if one is None or other is None:
        return one is other
    return bool(np.array_equal(one, other))


def _check_square(source: RowSource) -> None:
    if source.n_rows != source.n_features:
        raise ValueError(
            "Precomputed metric requires shape (n_queries, n_indexed). Got "
            f"({source.n_rows}, {source.n_features}): fit needs a square matrix."
        )
