"""A kernel expansion with everything needed to go on learning, copy it and save it."""

from __future__ import annotations

from typing import Any

import numpy as np

from osvm._input.parameters import generator_state, restore_generator
from osvm._input.rows import RowSource
from osvm._input.schema import ArrayField, Field, Schema
from osvm._input.types import Array
from osvm.kernel.buffer.state import EVICTIONS, KernelState
from osvm.kernels import Kernel

GAUSSIAN = "gaussian_"  # before the names of its arrays
_HISTORY = ("eta", "loss", "error", "epsilon", "prediction")


def make_history(n: int) -> dict[str, Array]:
    """Arrays for what is recorded of n examples."""
    return {name: np.empty(n) for name in _HISTORY} | {"support": np.empty(n, np.intp)}


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
            self._chunks = make_history(0)
        self.unit = 1.0  # spread of the targets of `fit`
        # beside a plane that `fit` has taken: who answers once it errs less, and by how much it
        # does so far (`plane.follow_lead`)
        self.gaussian: BufferMachine | None = None
        self.lead = (0.0, 0.0)
        self._plan: Any = None  # resolved parameters, and the parameters

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
        return self.state._means[:-1] if self.state.average else self.state.intercept

    @property
    def margin(self) -> float:
        if self.state.running is not None:
            return float(self.state.running[0])
        return float(self.state._means[-1] if self.state.average else self.state.epsilon)

    def decision(self, source: RowSource) -> Array:
        return self.state.decision(source)

    def support_vectors(self) -> Any:
        if self.kernel.name == "precomputed":
            return self.state.ids()
        return self.state.support_vectors()

    @property
    def support(self) -> Array:
        """Numbers of the support vectors among the rows learnt; -1 for merged ones."""
        return self.state.ids()

    def refresh(self) -> None:
        for machine in filter(None, (self, self.gaussian)):
            machine.state.refresh()

    def alpha(self) -> Array:
        return self.state.beta() if self.state.average else self.state.alpha()

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

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        scalars, arrays = self.state.get_state()
        scalars.update(
            reg=self.reg,
            unit=self.unit,
            generator=generator_state(self.generator),
            eviction=self.state.eviction,
            budget=self.state.budget,
            record=self._chunks is not None,
        )
        if self._chunks is not None:
            for name, array in self.history().items():
                arrays[f"history_{name}"] = array.copy()
        return scalars, arrays

    def get_state(self, beside: bool = True) -> tuple[dict[str, Any], dict[str, Array]]:
        """For model files, with a Gaussian `beside`: refuses a kernel that no file can hold."""
        scalars, arrays = self._state()
        scalars["kernel"] = self.kernel.config()
        scalars["label_kernel"] = self.state.label_kernel is not None
        if self.state.label_kernel is not None:
            arrays["label_kernel"] = self.state.label_kernel.copy()
        if beside and self.gaussian is not None:
            scalars["lead"], scalars["lead_squares"] = self.lead
            scalars["gaussian"], own = self.gaussian.get_state()
            arrays |= {GAUSSIAN + name: array for name, array in own.items()}
        return scalars, arrays

    def __getstate__(self) -> dict[str, Any]:
        scalars, arrays = self._state()
        return {
            "scalars": scalars,
            "arrays": arrays,
            "kernel": self.kernel,
            "n_features": self.n_features,
            "label_kernel": self.state.label_kernel,
            "gaussian": None if self.gaussian is None else copy_machine(self.gaussian),
            "lead": self.lead,
        }

    def __setstate__(self, saved: dict[str, Any]) -> None:
        saved = dict(saved)
        beside, lead = saved.pop("gaussian", None), saved.pop("lead", (0.0, 0.0))
        self.__dict__.update(restore_machine(**saved).__dict__)
        self.gaussian, self.lead = beside, lead


_FIELDS = {
    "n_outputs": Field("int", 1, 2**31),
    "float64": Field("flag"),
    "sparse": Field("flag"),
    "trace": Field("flag"),
    "reg": Field("float", 0.0),
    "unit": Field("float", 1e-100, 1e100, optional=True),  # later than the first files
    "generator": Field("dict"),
    "eviction": Field("str", choices=tuple(EVICTIONS)),
    "budget": Field("int", -1, 2**48),
    "record": Field("flag"),
}
_OWN = ("reg", "unit", "generator", "eviction", "budget", "record")  # not of the state


def restore_machine(
    kernel: Kernel, n_features: int, label_kernel: Any, scalars: Any, arrays: Any
) -> BufferMachine:
    """The machine that gave these scalars and arrays; ValueError when there is none."""
    Schema("kernel machine", _FIELDS, {}).check_layout(
        {name: scalars[name] for name in _FIELDS if name in scalars}, {}
    )
    K, sparse = scalars["n_outputs"], bool(scalars["sparse"])
    if len(arrays["intercept"]) != K or scalars["budget"] == 0:
        raise ValueError("the saved kernel machine is inconsistent")
    if sparse and n_features >= 2**31:
        raise ValueError(f"{n_features} features are too many for sparse rows")
    if sparse and kernel.name == "precomputed":
        raise ValueError("a precomputed kernel has no sparse rows")
    state = KernelState(
        kernel.spec(n_features),
        n_features,
        K,
        float64=bool(scalars["float64"]),
        sparse=sparse,
        budget=scalars["budget"],
        eviction=scalars["eviction"],
        trace=bool(scalars["trace"]),
        label_kernel=label_kernel,
    )
    history = {name: a for name, a in arrays.items() if name.startswith("history_")}
    n = len(history["history_eta"]) if scalars["record"] else 0
    fields = {f"history_{name}": ArrayField((n,)) for name in _HISTORY}
    fields["history_support"] = ArrayField((n,), np.intp, 0)
    Schema("history", {}, fields if scalars["record"] else {}).check({}, history)
    state.set_state(
        {name: value for name, value in scalars.items() if name not in _OWN},
        {name: array for name, array in arrays.items() if name not in history},
    )
    generator = restore_generator(scalars["generator"])
    record = bool(scalars["record"])
    machine = BufferMachine(state, kernel, float(scalars["reg"]), generator, record)
    machine.unit = float(scalars.get("unit", 1.0))
    if record:
        chunks = machine.room_to_record(n)
        assert chunks is not None
        for name in chunks:
            chunks[name][:n] = history[f"history_{name}"]
        machine._recorded = n
    return machine


def copy_machine(machine: BufferMachine) -> BufferMachine:
    made = BufferMachine.__new__(BufferMachine)
    made.__setstate__(machine.__getstate__())
    return made


class Backup:
    """What partial_fit needs to roll a batch back."""

    def __init__(self, machine: BufferMachine) -> None:
        self.saved = machine.state.get_state()
        self.recorded = machine._recorded
        self.gaussian, self.lead = machine.gaussian, machine.lead
        self.beside = None if self.gaussian is None else Backup(self.gaussian)

    def restore(self, machine: BufferMachine) -> None:
        machine.state.roll_back(*self.saved)
        machine._recorded = self.recorded
        machine.gaussian, machine.lead = self.gaussian, self.lead
        if self.gaussian is not None and self.beside is not None:
            self.beside.restore(self.gaussian)
