"""Step sizes eta(t): schedules, and stochastic meta-descent (SMD).

Sources: Bagnell's notes and Pegasos for 1/(reg t); Bottou for 1/(reg (t0 + t));
Vishwanathan, Schraudolph, Smola (JMLR 2006) for eta0 sqrt(tau/(tau + t)) (62, whose
print omits eta0) and for SMD (36); Kecman and Melki for C sqrt(2/t).  The arithmetic is
that of `osvm/core/step.pxd`.

Invariants

- t starts at 1.
- A parameter left at None is taken from the estimator (`reg`, `C`, `eta0`, and the `t0`
  that it finds from the data); one that is set here wins.

To add a schedule, see the documentation's page on extending.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from osvm._parts.compiled import StepSpec
from osvm._parts.registry import Part, Registry, check_number

__all__ = [
    "SMD",
    "Bottou",
    "Constant",
    "InverseSqrt",
    "InverseTime",
    "Kecman",
    "Schedule",
    "from_config",
    "get",
    "names",
    "parameters",
    "register",
]


@dataclass(frozen=True)
class Schedule(Part):
    """A step size for each example."""

    kind: ClassVar[int]
    #: Whether every step has about the size eta0, which must then not exceed 1/reg.
    keeps_eta0: ClassVar[bool] = False

    def spec(
        self,
        *,
        reg: float | None = None,
        C: float | None = None,
        eta0: float | None = None,
        t0: float | None = None,
    ) -> StepSpec:
        """The compiled form; the arguments stand in for parameters left at None."""
        context = {"reg": reg, "C": C, "eta0": eta0, "t0": t0}
        values: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            name, value = field.name, getattr(self, field.name)
            if value is None:
                value = context.get(name)
                if value is None:
                    raise ValueError(
                        f"schedule {self.name!r} needs {name}: give it to the estimator or as "
                        f"{type(self).__name__}({name}=...)"
                    )
                self._check(name, value)
            values[name] = value
        return StepSpec(self.kind, **values)

    def value(self, t: ArrayLike, **context: float | None) -> Any:
        """The step size at each t, in float64; `context` as for `spec`."""
        return self.spec(**context).value(t)

    def __call__(self, t: ArrayLike, **context: float | None) -> Any:
        return self.value(t, **context)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None and field.name in _BOUNDS:
                self._check(field.name, value)

    def _check(self, name: str, value: Any) -> None:
        """Raise unless the parameter is within its bounds."""
        if type(value) is float and 0.0 < value < math.inf and name != "decay":
            return  # within all bounds but that of `decay`
        check_number(self.name, name, value, **_BOUNDS[name])


# What each parameter may be.
_BOUNDS: dict[str, dict[str, float]] = {
    "reg": {"above": 0.0},
    "C": {"above": 0.0},
    "eta0": {"above": 0.0},
    "tau": {"above": 0.0},
    "t0": {"least": 0.0},
    "mu": {"least": 0.0},
    "decay": {"least": 0.0, "most": 1.0},
    "eta_min": {"least": 0.0},
    "eta_max": {"above": 0.0},
    "eta0_intercept": {"above": 0.0},
}


@dataclass(frozen=True)
class InverseTime(Schedule):
    """1 / (reg t), the step of Pegasos; at t = 1 the shrink 1 - eta reg is exactly 0.

    Examples
    --------
    >>> from osvm.schedules import InverseTime
    >>> InverseTime(reg=0.5)([1, 2, 4])
    array([2. , 1. , 0.5])
    """

    name: ClassVar[str] = "inverse_time"
    kind: ClassVar[int] = 0
    reg: float | None = None


@dataclass(frozen=True)
class Bottou(Schedule):
    """1 / (reg (t0 + t)); the estimator finds t0 from the data when it is None."""

    name: ClassVar[str] = "bottou"
    kind: ClassVar[int] = 1
    reg: float | None = None
    t0: float | None = None


@dataclass(frozen=True)
class InverseSqrt(Schedule):
    """eta0 sqrt(tau / (tau + t)): NORMA's step, about eta0 until t = tau.

    Examples
    --------
    >>> from osvm.schedules import InverseSqrt
    >>> InverseSqrt(eta0=1.0, tau=10.0)([1, 30]).round(3)
    array([0.953, 0.5  ])
    """

    name: ClassVar[str] = "inverse_sqrt"
    kind: ClassVar[int] = 2
    eta0: float | None = None
    tau: float = 1.0


@dataclass(frozen=True)
class Kecman(Schedule):
    """C sqrt(2 / t), the step of OL SVM."""

    name: ClassVar[str] = "kecman"
    kind: ClassVar[int] = 3
    C: float | None = None


@dataclass(frozen=True)
class Constant(Schedule):
    """eta0 for ever."""

    name: ClassVar[str] = "constant"
    kind: ClassVar[int] = 4
    keeps_eta0: ClassVar[bool] = True
    eta0: float | None = None


@dataclass(frozen=True)
class SMD(Schedule):
    """Stochastic meta-descent: the step size is itself learnt by gradient descent.

    Each example multiplies eta by max(1/2, 1 - mu gv), where gv is the product of the
    current gradient and the trace of how past steps moved the model; eta is adapted
    first and used then.

    Parameters
    ----------
    eta0 : float, optional
        The first step size, before any adaptation.
    mu : float, default 0.1
        Meta step size; 0 keeps eta constant.
    decay : float, default 0.95
        How much of the trace survives an example: the lambda of the paper, 0 to 1.
    eta_min : float, default 1e-6
        Floor.  With `decay` near 1 the product can stay positive for long, which halves
        eta at every step down to 0.
    eta_max : float, optional
        Cap; by default 1/reg, beyond which shrinking by 1 - eta reg flips the sign of
        the model.  An eta0 above the cap starts at the cap.
    per_coordinate : bool, default False
        One step size per feature (linear models) instead of one for all.
    eta0_intercept : float, optional
        The first step size of the intercept (kernel machines); `eta0` by default.

    Notes
    -----
    `value(t)` has no schedule to give and returns eta0.
    """

    name: ClassVar[str] = "smd"
    kind: ClassVar[int] = 5
    keeps_eta0: ClassVar[bool] = True
    eta0: float | None = None
    mu: float = 0.1
    decay: float = 0.95
    eta_min: float = 1e-6
    eta_max: float | None = None
    per_coordinate: bool = False
    eta0_intercept: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eta_max is not None and self.eta_max < self.eta_min:
            raise ValueError(f"smd: eta_max {self.eta_max!r} lies below eta_min {self.eta_min!r}")

    def spec(
        self,
        *,
        reg: float | None = None,
        C: float | None = None,
        eta0: float | None = None,
        t0: float | None = None,
    ) -> StepSpec:
        eta0 = self.eta0 if self.eta0 is not None else eta0
        if eta0 is None:
            raise ValueError(
                "schedule 'smd' needs eta0: give it to the estimator or as SMD(eta0=...)"
            )
        check_number("smd", "eta0", eta0, above=0.0)
        reg = 0.0 if reg is None else reg
        check_number("smd", "reg", reg, least=0.0)
        return StepSpec(
            self.kind + int(self.per_coordinate),
            eta0=eta0,
            reg=reg,
            mu=self.mu,
            decay=self.decay,
            eta_min=self.eta_min,
            eta_max=self.eta_max,
        )


_REGISTRY: Registry[Schedule] = Registry(
    "schedule", [InverseTime, Bottou, InverseSqrt, Kecman, Constant, SMD]
)


def get(schedule: Any, **params: Any) -> Schedule:
    """The schedule of that name, or the schedule given, with `params` set.

    Examples
    --------
    >>> import osvm.schedules
    >>> osvm.schedules.get("kecman", C=2.0)
    Kecman(C=2.0)
    """
    return _REGISTRY.get(schedule, params, Schedule, lambda other: None)


def names() -> list[str]:
    """The names that `get` knows."""
    return _REGISTRY.names()


def register(schedule: type) -> type:
    """Make a schedule class known by its `name`, also to model files; returns the class."""
    return _REGISTRY.add(schedule)


def parameters(name: str) -> list[str]:
    """The parameters that the schedule of that name takes."""
    return _REGISTRY.parameters(name)


def from_config(config: dict[str, Any]) -> Schedule:
    """The schedule that `config()` described."""
    return _REGISTRY.from_config(config)
