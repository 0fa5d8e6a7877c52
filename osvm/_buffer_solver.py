"""solver="buffer": NORMA and SVMD on a bounded kernel expansion.

Follows Vishwanathan, Schraudolph, Smola (JMLR 2006); the step is in
`osvm/_kernel_loop.pyx`.  This file turns an estimator's parameters into the parts that
the loop takes, and keeps the expansion, its history and its generator together.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from osvm import losses, schedules
from osvm._base import (
    LabelIndex,
    check_bool,
    check_choice,
    check_integer,
    check_number,
    generator_state,
    make_generator,
    resolve_reg,
    restore_generator,
)
from osvm._kernel_base import Batch
from osvm._kernel_loop import learn
from osvm._kernel_state import EVICTIONS, KernelState
from osvm._progress import make_progress
from osvm._rows import RowSource
from osvm.kernels import Kernel
from osvm.kernels import from_config as kernel_from_config
from osvm.taxonomy import Taxonomy

__all__ = ["BufferMachine", "BufferSolver"]

Array = npt.NDArray[Any]
_HISTORY = ("eta", "loss", "error", "epsilon", "prediction")
_WITH_MARGIN = ("hinge", "multiclass_hinge", "graph_hinge", "novelty")


class BufferMachine:
    """A kernel expansion with everything needed to go on learning."""

    def __init__(
        self,
        state: KernelState,
        kernel: Kernel,
        reg: float,
        generator: np.random.Generator,
        record: bool,
    ) -> None:
        self.state = state
        self.kernel = kernel
        self.reg = reg
        self.generator = generator
        self.n_features = state.n_features
        self._chunks: dict[str, Array] | None = None
        self._recorded = 0
        if record:
            self._chunks = {name: np.empty(0) for name in _HISTORY}
            self._chunks["support"] = np.empty(0, np.intp)
        self._plan: Any = None  # what the parameters came to, and the parameters

    # what estimators read
    @property
    def n_support(self) -> int:
        return int(self.state.n_support)

    @property
    def n_outputs(self) -> int:
        return int(self.state.n_outputs)

    @property
    def t(self) -> float:
        return float(self.state.t)

    @property
    def intercept(self) -> Array:
        return self.state.intercept

    def decision(self, source: RowSource) -> Array:
        return self.state.decision(source)

    def support_vectors(self) -> Any:
        if self.kernel.name == "precomputed":
            return self.state.ids()
        return self.state.support_vectors()

    def alpha(self) -> Array:
        return self.state.alpha()

    def history(self) -> dict[str, Array]:
        if self._chunks is None:
            raise AttributeError("history_ is kept with record=True only")
        return {name: array[: self._recorded] for name, array in self._chunks.items()}

    def room_to_record(self, n: int) -> dict[str, Array] | None:
        """Arrays with room for n more entries."""
        if self._chunks is None:
            return None
        need = self._recorded + n
        if need > len(self._chunks["eta"]):
            size = max(need, 2 * len(self._chunks["eta"]))
            for name, old in self._chunks.items():
                new = np.empty(size, old.dtype)
                new[: self._recorded] = old[: self._recorded]
                self._chunks[name] = new
        return self._chunks

    def get_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        scalars, arrays = self.state.get_state()
        scalars["kernel"] = self.kernel.config()
        scalars["reg"] = self.reg
        scalars["generator"] = generator_state(self.generator)
        scalars["eviction"] = self.state.eviction
        scalars["budget"] = self.state.budget
        scalars["record"] = self._chunks is not None
        if self._chunks is not None:
            for name, array in self.history().items():
                arrays[f"history_{name}"] = array.copy()
        return scalars, arrays

    def __getstate__(self) -> dict[str, Any]:
        scalars, arrays = self.get_state_for_pickle()
        return {"scalars": scalars, "arrays": arrays, "kernel": self.kernel}

    def get_state_for_pickle(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """As get_state, for kernels that no file can hold as well."""
        scalars, arrays = self.state.get_state()
        scalars.update(
            reg=self.reg,
            generator=generator_state(self.generator),
            eviction=self.state.eviction,
            budget=self.state.budget,
            record=self._chunks is not None,
            n_features=self.n_features,
            label_kernel=self.state.label_kernel,
        )
        if self._chunks is not None:
            for name, array in self.history().items():
                arrays[f"history_{name}"] = array.copy()
        return scalars, arrays

    def __setstate__(self, saved: dict[str, Any]) -> None:
        scalars = saved["scalars"]
        made = restore_machine(
            saved["kernel"], scalars["n_features"], scalars["label_kernel"], scalars,
            saved["arrays"],
        )  # fmt: skip
        self.__dict__.update(made.__dict__)


def restore_machine(
    kernel: Kernel, n_features: int, label_kernel: Any, scalars: Any, arrays: Any
) -> BufferMachine:
    """The machine that gave these scalars and arrays."""
    state = KernelState(
        kernel.spec(n_features),
        n_features,
        check_integer("n_outputs", scalars["n_outputs"], 1),
        float64=bool(scalars["float64"]),
        sparse=bool(scalars["sparse"]),
        budget=check_integer("budget", scalars["budget"], -1),
        eviction=check_choice("eviction", scalars["eviction"], EVICTIONS),
        trace=bool(scalars["trace"]),
        label_kernel=label_kernel,
    )
    state.set_state(scalars, arrays)
    generator = restore_generator(scalars["generator"])
    machine = BufferMachine(state, kernel, float(scalars["reg"]), generator, scalars["record"])
    if scalars["record"]:
        n = len(arrays["history_eta"])
        chunks = machine.room_to_record(n)
        assert chunks is not None
        for name in chunks:
            chunks[name][:n] = arrays[f"history_{name}"]
        machine._recorded = n
    return machine


class _Plan:
    """Parameters of an estimator, resolved."""

    __slots__ = ("delta", "label_kernel", "loss", "loss_part", "multi", "nu", "offset", "reg",
                 "schedule", "step", "values")  # fmt: skip


_NAMES = (
    "loss", "reg", "C", "kernel", "gamma", "degree", "coef0", "budget", "eviction", "schedule",
    "eta0", "tau", "mu", "decay", "eta_min", "eta_max", "nu", "epsilon0", "eta0_epsilon",
    "eta0_intercept", "fit_intercept", "taxonomy", "label_kernel", "record",
)  # fmt: skip


class BufferSolver:
    """NORMA (any schedule of t) and SVMD (schedule "smd")."""

    streams = True

    # ---------------------------------------------------------------- learning

    def fit(self, model: Any, batch: Batch, machine: Any) -> BufferMachine:
        epochs = check_integer("epochs", model.epochs, 1)
        shuffle = check_bool("shuffle", model.shuffle)
        progress = make_progress(model.verbose)
        if machine is not None:
            plan, machine = self._plan_for(model, batch, _copy(machine))
        else:
            plan, machine = self._begin(model, batch, batch.source.n_rows)
        if machine.kernel.name == "precomputed":
            _check_square(batch.source)
        n = batch.source.n_rows
        for _ in range(epochs):
            order = machine.generator.permutation(n).astype(np.intp) if shuffle else None
            self._run(machine, plan, batch, order, 0, progress)
        if progress is not None:
            progress.finish()
        return machine

    def partial_fit(self, model: Any, batch: Batch, machine: Any) -> BufferMachine:
        n = batch.source.n_rows
        if machine is None:
            plan, machine = self._begin(model, batch, None)
            backup = None
        else:
            plan, grown = self._plan_for(model, batch, machine)
            # one example is learnt or it is not; of several, the first might have been
            backup = _Backup(machine) if n > 1 and grown is machine else None
            machine = grown
        seen = int(machine.state.t)
        progress = make_progress(model.verbose, start=seen) if model.verbose else None
        try:
            self._run(machine, plan, batch, None, seen, progress)
        except BaseException:
            if backup is not None:
                backup.restore(machine)
            raise
        if progress is not None:
            progress.finish()
        return machine

    def _run(
        self,
        machine: BufferMachine,
        plan: _Plan,
        batch: Batch,
        order: Array | None,
        first_id: int,
        progress: Any,
    ) -> None:
        n = batch.source.n_rows
        state = machine.state
        history = machine.room_to_record(n)
        start = 0
        loss0, errors0 = state.loss_sum, state.errors
        while start < n:
            stop = n
            if progress is not None:
                stop = min(n, start + max(1, progress.next_at - int(state.t)))
            try:
                learn(
                    state, batch.source, plan.loss, plan.step, task=batch.task, reg=plan.reg,
                    labels=batch.labels, targets=batch.targets, weights=batch.weights,
                    order=order, nu=plan.nu, offset=plan.offset, first_id=first_id,
                    history=history, record=machine._recorded, start=start, stop=stop,
                )  # fmt: skip
            except FloatingPointError as error:
                raise ValueError(
                    f"learning diverged: the score of row {error.args[1]} is not finite. Lower "
                    "eta0 or mu, raise reg, or scale X (e.g. to unit norm)."
                ) from None
            if history is not None:
                machine._recorded += stop - start
            start = stop
            if progress is not None:
                progress.add(
                    int(state.t) - progress._n,
                    loss=state.loss_sum - loss0,
                    errors=state.errors - errors0 if batch.task != "regress" else None,
                )
                loss0, errors0 = state.loss_sum, state.errors

    # -------------------------------------------------------------- parameters

    def _begin(
        self, model: Any, batch: Batch, n_rows: int | None
    ) -> tuple[_Plan, BufferMachine]:
        """A new machine for these parameters and data."""
        plan = _resolve(model, batch, n_rows)
        budget = check_integer("budget", model.budget, 1, none=True)
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
        kernel = kernel.resolve(batch.X)
        state = KernelState(
            kernel.spec(source.n_features),
            source.n_features,
            _count_outputs(plan, batch),
            float64=batch.X.dtype != np.float32,
            sparse=source.sparse,
            budget=-1 if budget is None else budget,
            eviction=eviction,
            trace=plan.schedule.name == "smd",
            label_kernel=plan.label_kernel,
        )
        state.eta = plan.step.eta if plan.schedule.name == "smd" else plan.step.next(1.0)
        if plan.nu is not None:
            state.epsilon = check_number("epsilon0", model.epsilon0, 0.0, low_open=True)
        state.eta_epsilon = check_number("eta0_epsilon", model.eta0_epsilon, 0.0, low_open=True)
        state.eta_intercept[:] = _eta_intercept(model)
        record = check_bool("record", model.record)
        generator = make_generator(getattr(model, "random_state", None))
        machine = BufferMachine(state, kernel, plan.reg, generator, record)
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
            plan = _resolve(model, batch, batch.source.n_rows, machine.reg)
            _check_unchanged(model, plan, machine)
            outputs = _count_outputs(plan, batch)
            if outputs != machine.n_outputs:
                machine = _copy(machine)
                _grow(machine.state, outputs, plan, _eta_intercept(model))
            machine._plan = plan
        return plan, machine

    def restore(
        self, model: Any, n_features: int, index: LabelIndex | None, scalars: Any, arrays: Any
    ) -> BufferMachine:
        label_kernel = None
        if index is not None:
            label_kernel = _label_kernel(model, index, int(scalars["n_outputs"]))
        kernel = kernel_from_config(scalars["kernel"])
        return restore_machine(kernel, n_features, label_kernel, scalars, arrays)


# ------------------------------------------------------------------ parameters


def _resolve(model: Any, batch: Batch, n_rows: int | None, reg: float | None = None) -> _Plan:
    """Check the parameters and make the parts."""
    plan = _Plan()
    plan.values = tuple(map(model.__dict__.get, _NAMES))
    part = losses.get(getattr(model, "loss", "novelty"))
    if isinstance(getattr(part, "name", None), str) and part.name in losses.names():
        check_choice("loss", part.name, model._losses)
    plan.loss_part = part
    plan.multi = isinstance(part, losses.MultiLoss)
    nu = check_number("nu", model.nu, 0.0, 1.0, low_open=True, high_open=True, none=True)
    plan.nu = nu
    if nu is not None:
        if part.name not in _WITH_MARGIN:
            raise ValueError(
                f"nu needs a loss with a margin ({', '.join(_WITH_MARGIN)}), not {part.name!r}"
            )
        if model.C is not None or (model.reg is not None and model.reg != 1.0):
            raise ValueError("the nu-trick fixes reg at 1: give nu or reg (or C), not both")
        plan.reg = 1.0
    elif reg is not None and model.C is not None and n_rows is None:
        plan.reg = reg
    else:
        plan.reg = resolve_reg(model.reg, model.C, n_rows)
    plan.offset = check_bool("fit_intercept", model.fit_intercept)
    plan.schedule = _schedule(model)
    plan.step = plan.schedule.spec(reg=plan.reg, C=model.C, eta0=model.eta0, t0=0.0)
    plan.delta = plan.label_kernel = None
    if batch.index is not None:
        if part.name == "graph_hinge":
            taxonomy = _taxonomy(model, part)
            plan.delta = taxonomy.distances(batch.index.classes.tolist())
        plan.label_kernel = _label_kernel(model, batch.index, _count_outputs(plan, batch))
    elif getattr(model, "label_kernel", None) is not None:
        raise ValueError("label_kernel is for classes only")
    plan.loss = part.spec(plan.delta) if plan.delta is not None else part.spec()
    return plan


def _schedule(model: Any) -> schedules.Schedule:
    """The schedule with the parameters of the estimator that were given."""
    given = {name: getattr(model, name) for name in ("tau", "mu", "decay", "eta_min", "eta_max")}
    given = {name: value for name, value in given.items() if value is not None}
    cap = given.get("eta_max")
    schedule = schedules.get(model.schedule)
    if schedule.name != "smd" and cap is not None:
        raise ValueError("eta_max is for schedule='smd'; other schedules are capped at 1/reg")
    schedule = schedules.get(schedule, **given)
    if getattr(schedule, "per_coordinate", False):
        raise ValueError("smd: per_coordinate is for linear models; a kernel machine has one eta")
    return schedule


def _taxonomy(model: Any, part: Any) -> Taxonomy:
    taxonomy = getattr(part, "taxonomy", None) or getattr(model, "taxonomy", None)
    if not isinstance(taxonomy, Taxonomy):
        raise ValueError(
            "this needs taxonomy=..., an object from osvm.taxonomy, e.g. "
            f"osvm.taxonomy.from_paths(labels); got {taxonomy!r}"
        )
    return taxonomy


def _label_kernel(model: Any, index: LabelIndex, outputs: int) -> Array | None:
    """The matrix between the outputs, or None for delta."""
    given = getattr(model, "label_kernel", None)
    if given is None or (isinstance(given, str) and given == "delta"):
        return None
    if outputs != len(index):
        raise ValueError(
            "label_kernel needs an output for each class: use a multi-output loss, e.g. "
            "loss='multiclass_hinge'"
        )
    if isinstance(given, str):
        check_choice("label_kernel", given, ["delta", "taxonomy"])
        part = losses.get(model.loss)
        return _taxonomy(model, part).kernel(index.classes.tolist())
    matrix = np.array(given, dtype=np.float64, ndmin=2)
    if matrix.shape != (outputs, outputs):
        raise ValueError(
            f"label_kernel has shape {matrix.shape}, but there are {outputs} classes"
        )
    if not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T):
        raise ValueError("label_kernel must be finite and symmetric")
    if np.linalg.eigvalsh(matrix)[0] < -1e-8 * max(1.0, np.abs(matrix).max()):
        raise ValueError("label_kernel must be positive semi-definite")
    return matrix


def _eta_intercept(model: Any) -> float:
    value = model.eta0_intercept if model.eta0_intercept is not None else model.eta0
    return float(check_number("eta0_intercept", value, 0.0, low_open=True))


def _count_outputs(plan: _Plan, batch: Batch) -> int:
    n = 1 if batch.index is None else len(batch.index)
    return n if plan.multi or n > 2 else 1


def _check_unchanged(model: Any, plan: _Plan, machine: BufferMachine) -> None:
    """Parameters that a running machine cannot change."""
    state = machine.state
    budget = check_integer("budget", model.budget, 1, none=True)
    if (-1 if budget is None else budget) != state.budget or model.eviction != state.eviction:
        raise ValueError("budget and eviction are fixed once learning has begun; use fit")
    if (plan.schedule.name == "smd") != state.trace:
        raise ValueError("schedule='smd' cannot be swapped with others in mid-stream; use fit")
    kernel = model._kernel_part()
    same = kernel == machine.kernel
    if not same and isinstance(getattr(kernel, "gamma", None), str):
        same = type(kernel) is type(machine.kernel)
    if not same:
        raise ValueError("the kernel is fixed once learning has begun; use fit")


def _grow(state: KernelState, outputs: int, plan: _Plan, eta_intercept: float) -> None:
    """More outputs: new ones start at 0; a binary machine becomes the pair (-f, f)."""
    old = state.n_outputs
    if old == 1 and not plan.multi:
        transfer = np.zeros((1, outputs))
        transfer[0, :2] = (-1.0, 1.0)
    else:
        transfer = np.eye(old, outputs)
    state.grow_outputs(transfer, plan.label_kernel, eta_intercept)


def _check_square(source: RowSource) -> None:
    if source.n_rows != source.n_features:
        raise ValueError(
            "Precomputed metric requires shape (n_queries, n_indexed). Got "
            f"({source.n_rows}, {source.n_features}): fit needs a square matrix."
        )


# ---------------------------------------------------------------- going back


def _copy(machine: BufferMachine) -> BufferMachine:
    made = BufferMachine.__new__(BufferMachine)
    made.__setstate__(machine.__getstate__())
    return made


class _Backup:
    """What partial_fit needs to undo a batch."""

    def __init__(self, machine: BufferMachine) -> None:
        self.saved = machine.state.get_state()
        self.recorded = machine._recorded

    def restore(self, machine: BufferMachine) -> None:
        machine.state.set_state(*self.saved)
        machine._recorded = self.recorded
