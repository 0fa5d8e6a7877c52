"""NORMA and SVMD on a bounded kernel expansion.

Follows Vishwanathan, Schraudolph, Smola (JMLR 2006); the step is in
`osvm/kernel/buffer/loop.pyx`.  This file makes machines, chooses their settings and runs the
epochs of `fit` and the batches of a stream.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import numpy as np

from osvm import losses
from osvm._estimator.progress import make_progress
from osvm._input.labels import LabelIndex
from osvm._input.parameters import (
    check_bool,
    check_choice,
    check_integer,
    make_generator,
)
from osvm._input.rows import RowSource
from osvm._input.schema import ArrayField, Field, Schema
from osvm._input.types import Array
from osvm.kernel.batch import Batch
from osvm.kernel.buffer import choice
from osvm.kernel.buffer.label_kernel import label_kernel_of
from osvm.kernel.buffer.loop import learn
from osvm.kernel.buffer.machine import (
    GAUSSIAN,
    Backup,
    BufferMachine,
    copy_machine,
    make_history,
    restore_machine,
)
from osvm.kernel.buffer.measures import (
    OUT_OF_RANGE,
    TOLD,
    find_margin,
    find_offsets,
    finite_scores,
    measure_share,
    measure_targets,
    sample_rows,
    step_unit,
    warn_if_constant,
    warn_rows,
    warn_targets,
)
from osvm.kernel.buffer.plan import (
    PARAMETERS,
    Plan,
    count_outputs,
    find_budget,
    resolve_plan,
)
from osvm.kernel.buffer.plane import (
    can_be_plane,
    follow_lead,
    is_plane,
    learn_plane,
    make_room,
    plane_kernel,
    plane_options,
    told_errors,
)
from osvm.kernel.buffer.state import EVICTIONS, KernelState
from osvm.kernels import Kernel
from osvm.kernels import from_config as kernel_from_config
from osvm.linear.constant import warn_tube

OFFSET_ROWS = 5000  # that the offset is read off at most
_LEAD = {"lead": Field("float", 0.0), "lead_squares": Field("float", 0.0)}
# Epochs of a fit of numbers that the mean is of: evictions are chosen for f, and what the mean has
# of early f goes to rows that suit it badly.  Of labels more epochs are as good.
AVERAGED = 2
_SETTLING = ("bottou", "inverse_time")  # steps of 1/t


class BufferSolver:
    """NORMA (any schedule of t) and SVMD (schedule "smd")."""

    # ---------------------------------------------------------------- learning

    def fit(self, model: Any, batch: Batch, machine: Any) -> BufferMachine:
        epochs = check_integer("epochs", model.epochs, 1)
        shuffle = check_bool("shuffle", model.shuffle)
        progress = make_progress(model.verbose, absolute=batch.task == "regress")
        n, setting, gaussian = batch.source.n_rows, choice.USUAL, None
        if machine is not None:
            machine = copy_machine(machine)
            if machine.gaussian is not None and self._choose(model, batch)[0] != choice.PLANE:
                machine = machine.gaussian
            plan, machine = self._plan_for(model, batch, machine)
            offsets: Array | float = machine.state.intercept.copy()
        else:
            setting, offsets, gaussian = self._choose(model, batch)
            plan, machine = self._begin(model, batch, n, setting)
        if machine.kernel.name == "precomputed":
            _check_square(batch.source)
        if setting == choice.PLANE:  # of the linear learner; `epochs` are for the others
            options = {"random_state": model.random_state, "shuffle": shuffle}
            if learn_plane(machine, batch, plane_options(plan, model.verbose) | options):
                machine.gaussian, plan.is_plane = gaussian, True
                for one in filter(None, (machine, gaussian)):
                    one.state.t = float(epochs * n)  # for the steps of a stream after it
                    one.state.errors = one.state.loss_sum = 0.0
                _shift_plane(machine.state, plan, batch, offsets)
                warn_if_constant(machine.state, batch, np.inf)
                return machine
            offsets = 0.0  # rows that were not in the trial are beyond its numbers
            plan, machine = self._begin(model, batch, n)
        state = machine.state
        generator = machine.generator if shuffle else None
        errors = self._run_epochs(machine, plan, batch, epochs, generator, progress)
        if machine.gaussian is not None:  # a warm start stays with the plane
            own, machine.gaussian = self._plan_for(model, batch, machine.gaussian)
            self._run_epochs(machine.gaussian, own, batch, epochs, generator, None)
        if plan.nu is not None and batch.task == "novelty":
            scores = finite_scores(state, batch.source)[:, 0]
            state.epsilon = find_margin(scores, batch.weights, plan.nu.nu)
            state.set_share(measure_share(scores, batch.weights, state.epsilon))
        elif plan.reads_offset(state.budget, n):
            state.intercept[:] = 0.0
            state.intercept[:] = _read_offsets(state, batch)
        elif plan.set_offset:
            state.intercept[:] = offsets
        if progress is not None:
            progress.finish()
        warn_if_constant(state, batch, errors / n)
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
            _set_average(machine.state, average, anew=not (flags or plan.is_plane))
            if flags and machine.state.running is None:
                machine.state.set_share()
            if machine.gaussian is None:
                self._run(machine, plan, batch, None, seen, progress)
            else:
                machine = self._run_both(model, machine, plan, batch, progress)
        except BaseException:
            if backup is not None:
                backup.restore(machine)
            raise
        if seen < TOLD <= machine.state.t and plan.slope and machine.state.running is not None:
            weight, _, squares = machine.state.running
            warn_tube(plan.loss_part, float(np.sqrt(squares / (weight or 1.0))), 1)
        if progress is not None:
            progress.finish()
        return machine

    def _run_both(
        self, model: Any, machine: BufferMachine, plan: Plan, batch: Batch, progress: Any
    ) -> BufferMachine:
        """Rows of a stream for a plane and the Gaussian beside it; the one that answers now."""
        assert machine.gaussian is not None
        seen, gaussian, errors = int(machine.state.t), machine.gaussian, []
        told = make_history(batch.source.n_rows)
        try:
            own, gaussian = self._plan_for(model, batch, gaussian)
            _set_average(gaussian.state, machine.state.average)
            for one, its, shown in ((machine, plan, progress), (gaussian, own, None)):
                self._run(one, its, batch, None, seen, shown, told)
                errors.append(told_errors(told["prediction"], batch, machine.unit))
        except ValueError:
            if not errors:
                raise
            machine.gaussian = None  # the plane alone can learn these rows
            return machine
        machine.gaussian = gaussian
        for name in ("errors", "loss_sum"):  # of who answers
            setattr(gaussian.state, name, getattr(machine.state, name))
        machine.lead, is_ahead = follow_lead(machine.lead, *errors)
        return gaussian if is_ahead else machine

    def _choose(
        self, model: Any, batch: Batch
    ) -> tuple[choice.Setting, Array | float, BufferMachine | None]:
        """gamma in units of "scale", and reg: by errors on held-out rows if gamma is None.

        And the offsets that those rows tell, for a fit of classes that keeps most of its rows:
        their own scores are fitted closely.  With a plane comes a Gaussian of the trial.
        """
        n, kernel = batch.source.n_rows, model._kernel_part()
        usual = choice.USUAL
        if batch.task == "novelty" or kernel.name != "rbf" or n < choice.FEWEST:
            return usual, 0.0, None
        is_free = model.gamma is None and model.kernel == "rbf"
        plan, budget = resolve_plan(model, batch, n), find_budget(model)
        is_read = plan.reads_offset(budget, n)
        if not is_free and (is_read or not plan.set_offset):
            return usual, 0.0, None
        kernel = kernel.resolve(batch.X)
        trials = choice.Trials(batch)
        found: dict[choice.Setting, Array | float] = {}
        machines: dict[choice.Setting, BufferMachine] = {}

        def errors_of(setting: choice.Setting) -> Array:
            scores = []
            for learnt, judged in trials.splits:
                plan, machine = self._begin(model, learnt, n, setting, kernel)
                generator = np.random.default_rng(0)
                if setting != choice.PLANE:
                    self._run_epochs(machine, plan, learnt, choice.EPOCHS, generator, None)
                elif not learn_plane(machine, learnt, plane_options(plan)):
                    return np.full(trials.n_judged, np.inf)
                scores.append(finite_scores(machine.state, judged.source))
            if batch.task == "regress":
                errors, found[setting] = trials.judge_numbers(scores), 0.0
            else:
                always = is_read and setting != choice.PLANE  # the linear learner has an offset
                errors, found[setting] = trials.judge(scores, plan.set_offset, always)
            machines[setting] = machine
            return errors

        is_fixed = model.reg is not None or model.C is not None or model.nu is not None
        if not is_free:
            errors_of(usual)
            return usual, found[usual], None
        settings = [(w, None if is_fixed else reg) for w, reg in choice.SETTINGS[batch.task]]
        outputs = count_outputs(plan, batch)
        is_rival = can_be_plane(model, plan.loss_part, outputs, budget)
        best = choice.choose(settings, errors_of, choice.PLANE if is_rival else None)
        gaussian = machines.get(settings[0])
        if best != choice.PLANE or gaussian is None:
            return best, found[best], None
        state = gaussian.state
        state.begin_fit(0, False)  # its rows' numbers are those of the trial
        state.end_fit()
        if plan.set_offset:
            state.intercept[:] = _read_offsets(state, batch) if is_read else found[settings[0]]
        return best, found[best], gaussian

    def _run_epochs(
        self,
        machine: BufferMachine,
        plan: Plan,
        batch: Batch,
        epochs: int,
        generator: np.random.Generator | None,
        progress: Any,
    ) -> float:
        """Passes over a training set, in a new order each with a generator; the last's errors."""
        n, state = batch.source.n_rows, machine.state
        state.begin_fit(n, machine.kernel.name == "precomputed")
        state.follow(None)
        _set_average(state, False)
        errors = 0.0
        begins = max(0, epochs - AVERAGED) if batch.task == "regress" else 0
        for epoch in range(epochs):
            if epoch == begins:
                _set_average(state, plan.average)
            errors = state.errors
            order = None if generator is None else generator.permutation(n).astype(np.intp)
            self._run(machine, plan, batch, order, 0, progress)
        _set_average(state, False)
        state.end_fit()
        return float(state.errors - errors)

    def _run(
        self,
        machine: BufferMachine,
        plan: Plan,
        batch: Batch,
        order: Array | None,
        first_id: int,
        progress: Any,
        told: dict[str, Array] | None = None,
    ) -> None:
        """One pass; the history goes to the machine's own, or into `told`."""
        start, n = 0, batch.source.n_rows
        state = machine.state
        history = machine.room_to_record(n) if told is None else told
        recorded = machine._recorded if told is None else 0
        loss0, errors0 = state.loss_sum, state.errors
        while start < n:
            stop = n
            is_full = plan.is_plane and state.n_support == state.budget
            if is_full and make_room(machine) and order is not None:
                state.begin_fit(n, False)
            if plan.is_plane and state.n_support < state.budget:
                stop = min(n, start + state.budget - state.n_support)
            if progress is not None:
                stop = min(stop, start + max(1, progress.next_at - int(state.t)))
            try:
                learn(
                    state, batch.source, plan.loss, plan.step, task=batch.task, reg=plan.reg,
                    labels=batch.labels, targets=batch.targets, weights=batch.weights,
                    order=order, nu=None if plan.nu is None else plan.nu.nu,
                    offset=plan.offset, aside=plan.set_offset, slope=plan.slope,
                    curved=plan.curved, first_id=first_id, history=history,
                    record=recorded + start, start=start, stop=stop,
                )  # fmt: skip
            except FloatingPointError as error:
                row = error.args[1] if batch.numbers is None else batch.numbers[error.args[1]]
                raise ValueError(f"learning diverged: at row {row} {OUT_OF_RANGE}") from None
            start = stop
            if told is None and history is not None:
                machine._recorded = recorded + start
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
    ) -> tuple[Plan, BufferMachine]:
        """A new machine for these parameters and data; `trial` is the kernel of a trial."""
        told = batch.told()
        middle, unit = measure_targets(told, n_rows)
        width, reg = setting
        if reg is not None:
            reg /= step_unit(losses.get(getattr(model, "loss", "novelty")), unit)
        plan = resolve_plan(model, batch, n_rows, reg, unit)
        budget = find_budget(model)
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
        kernel = trial or kernel.resolve(told.X)
        if setting == choice.PLANE:
            kernel = plane_kernel(kernel, told.X, plan.set_offset)
        elif width != 1.0:
            kernel = replace(kernel, gamma=width * kernel.gamma)  # type: ignore[union-attr]
        if trial is None:
            if setting != choice.PLANE:  # whose learner follows the size of each column
                warn_rows(kernel, told.X)
            if n_rows is not None and n_rows >= TOLD:
                warn_tube(plan.loss_part, unit, 1)
        state = KernelState(
            kernel.spec(source.n_features),
            source.n_features,
            count_outputs(plan, batch),
            float64=batch.X.dtype != np.float32 or setting == choice.PLANE,
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
    ) -> tuple[Plan, BufferMachine]:
        """The plan of a machine that exists, and the machine: a larger copy for new labels."""
        plan = machine._plan
        values = model.__dict__
        n_classes = 0 if batch.index is None else len(batch.index)
        if (
            plan is None
            or not all(map(operator.is_, plan.values, map(values.get, PARAMETERS)))
            or n_classes > max(machine.n_outputs, 2)
            or (plan.multi and n_classes != machine.n_outputs)
        ):
            plan = resolve_plan(model, batch, batch.source.n_rows, machine.reg, machine.unit)
            _check_unchanged(model, plan, machine)
            outputs = count_outputs(plan, batch)
            if outputs != machine.n_outputs:
                machine = copy_machine(machine)
                _grow(machine.state, outputs, plan)
            elif not _same(machine.state.label_kernel, plan.label_kernel):
                machine = copy_machine(machine)
                machine.state.set_label_kernel(plan.label_kernel)
                machine.state.refresh()
            plan.is_plane = is_plane(machine.kernel) and model.kernel == "rbf"
            machine._plan = plan
        return plan, machine

    def restore(
        self, model: Any, n_features: int, index: LabelIndex | None, scalars: Any, arrays: Any
    ) -> BufferMachine:
        scalars, arrays = dict(scalars), dict(arrays)
        beside = scalars.pop("gaussian", None)
        if beside is not None:
            lead = {name: scalars.pop(name, None) for name in _LEAD}
            own = {name: arrays.pop(name) for name in list(arrays) if name.startswith(GAUSSIAN)}
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
        machine = restore_machine(kernel, n_features, label_kernel, scalars, arrays)
        if beside is None:
            return machine
        Schema("plane", _LEAD, {}).check(lead, {})
        own = {name.removeprefix(GAUSSIAN): array for name, array in own.items()}
        machine.gaussian = self.restore(model, n_features, index, beside, own)
        if (machine.gaussian.kernel.name, kernel.name) != ("rbf", "polynomial"):
            raise ValueError("a Gaussian stands beside a plane only")
        machine.lead = (float(lead["lead"]), float(lead["lead_squares"]))
        return machine


# ------------------------------------------------------------------ parameters


def _wanted(plan: Plan, batch: Batch) -> tuple[bool, bool]:
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


def _check_unchanged(model: Any, plan: Plan, machine: BufferMachine) -> None:
    """Parameters that a running machine cannot change."""
    state = machine.state
    if find_budget(model) != state.budget or model.eviction != state.eviction:
        raise ValueError("budget and eviction are fixed once learning has begun; use fit")
    if (plan.schedule.name == "smd") != state.trace:
        raise ValueError("schedule='smd' cannot be swapped with others in mid-stream; use fit")
    kernel = model._kernel_part()
    same = kernel == machine.kernel
    if not same and isinstance(getattr(kernel, "gamma", None), str):
        same = type(kernel) is type(machine.kernel)
    if model.gamma is None and kernel.name == "rbf":
        same = same or is_plane(machine.kernel)  # which `fit` has chosen
    if not same:
        raise ValueError("the kernel is fixed once learning has begun; use fit")


def _grow(state: KernelState, outputs: int, plan: Plan) -> None:
    """More outputs: new ones start at 0; a binary machine becomes the pair (-f, f)."""
    old = state.n_outputs
    if old == 1 and not plan.multi:
        transfer = np.zeros((1, outputs))
        transfer[0, :2] = (-1.0, 1.0)
    else:
        transfer = np.eye(old, outputs)
    state.follow(None)
    state.grow_outputs(transfer, plan.label_kernel, plan.eta_intercept)


def _read_offsets(state: KernelState, batch: Batch) -> Array:
    """The offsets that the training rows tell."""
    n = batch.source.n_rows
    sample = batch if n <= OFFSET_ROWS else batch.take(sample_rows(n, OFFSET_ROWS))
    assert sample.labels is not None
    return find_offsets(finite_scores(state, sample.source), sample.labels, sample.weights)


def _shift_plane(state: KernelState, plan: Plan, batch: Batch, offsets: Array | float) -> None:
    """Shift the plane as the rows tell, if the trial has found that worth it."""
    if np.any(offsets):
        is_read = plan.reads_offset(state.budget, batch.source.n_rows)
        state.intercept[:] = _read_offsets(state, batch) if is_read else offsets


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
