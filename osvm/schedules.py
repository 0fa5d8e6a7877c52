"""Step sizes eta(t): schedules, stochastic meta-descent (SMD), and rates per coordinate.

Sources: Bagnell's notes and Pegasos for 1/(reg t); Bottou for 1/(reg (t0 + t));
Vishwanathan, Schraudolph, Smola (JMLR 2006) for eta0 sqrt(tau/(tau + t)) (62, whose
print omits eta0) and for SMD (36); Kecman and Melki for C sqrt(2/t).  The arithmetic is
that of `osvm/core/step.pxd`.

Invariants

- t starts at 1.
- A parameter left at None is taken from the estimator (`reg`, `C`, `eta0`, and the `t0`
  that it finds from the data); one that is set here wins.
- `capped` is for kernel learners: no step goes beyond the example, that is past the point where
  its loss would be 0 were it straight (for the hinge loss the margin).  None: with a polynomial
  kernel, whose k(x, x) differs from row to row.

To add a schedule, see the documentation's page on extending.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from osvm._parts.compiled import StepSpec
from osvm._parts.registry import Part, Registry, check_flag, check_number

__all__ = [
    "SMD",
    "Adaptive",
    "Auto",
    "Bottou",
    "CoinBetting",
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
    # Parameters that `_compiled` does not take as they are.
    _beside: ClassVar[tuple[str, ...]] = ("capped",)

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
            if name in self._beside:
                continue
            if value is None:
                value = context.get(name)
                if value is None:
                    raise ValueError(
                        f"schedule {self.name!r} needs {name}: give it to the estimator or as "
                        f"{type(self).__name__}({name}=...)"
                    )
                self._check(name, value)
            values[name] = value
        return self._compiled(values, reg)

    def _compiled(self, values: dict[str, Any], reg: float | None) -> StepSpec:
        """The compiled form of these parameters, none of which is None."""
        return StepSpec(self.kind, flags=_CAPPED * bool(getattr(self, "capped", False)), **values)

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
        if getattr(self, "capped", None) is not None:
            check_flag(self.name, "capped", self.capped)  # type: ignore[attr-defined]

    def _check(self, name: str, value: Any) -> None:
        """Raise unless the parameter is within its bounds."""
        if type(value) is float and 0.0 < value < math.inf and "most" not in _BOUNDS[name]:
            return  # within all bounds without an upper one
        check_number(self.name, name, value, **_BOUNDS[name])


# What each parameter may be.
_CAPPED = 16  # STEP_CAPPED of the header
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
    "forget": {"least": 0.5, "most": 1.0},
    "alpha": {"least": 0.0},
    "half_life": {"least": 1.0},
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
    capped: bool | None = None


@dataclass(frozen=True)
class Bottou(Schedule):
    """1 / (reg (t0 + t)); the estimator finds t0 from the data when it is None."""

    name: ClassVar[str] = "bottou"
    kind: ClassVar[int] = 1
    reg: float | None = None
    t0: float | None = None
    capped: bool | None = None


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
    capped: bool | None = None


@dataclass(frozen=True)
class Kecman(Schedule):
    """C sqrt(2 / t), the step of OL SVM."""

    name: ClassVar[str] = "kecman"
    kind: ClassVar[int] = 3
    C: float | None = None


@dataclass(frozen=True)
class Constant(Schedule):
    """eta0 for ever.

    Parameters
    ----------
    eta0 : float, optional
    lazy : bool, default False
        For linear models with `project` and reg=0: a step starts from the weights as they were
        before their projection, not from the projected ones.
    """

    name: ClassVar[str] = "constant"
    kind: ClassVar[int] = 4
    keeps_eta0: ClassVar[bool] = True
    _beside: ClassVar[tuple[str, ...]] = ("lazy", "capped")
    eta0: float | None = None
    lazy: bool = False
    capped: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag(self.name, "lazy", self.lazy)


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
    rest : bool, default True
        With `per_coordinate`: the step size of a feature rests while its value is 0, and only
        the regularizer moves its weight, any number of steps at once.  False is the paper's
        update at every feature and step, made one by one when the feature comes again or is
        read; on sparse rows with reg > 0 the models differ, with reg = 0 or dense rows not.
    eta0_intercept : float, optional
        The first step size of the intercept (kernel machines); `eta0` by default.

    Notes
    -----
    `value(t)` has no schedule to give and returns eta0.
    """

    name: ClassVar[str] = "smd"
    kind: ClassVar[int] = 5
    _beside: ClassVar[tuple[str, ...]] = ("eta_max", "per_coordinate", "eta0_intercept", "rest")
    keeps_eta0: ClassVar[bool] = True
    eta0: float | None = None
    mu: float = 0.1
    decay: float = 0.95
    eta_min: float = 1e-6
    eta_max: float | None = None
    per_coordinate: bool = False
    eta0_intercept: float | None = None
    rest: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.rest and not self.per_coordinate:
            raise ValueError("smd: rest=False is for per_coordinate=True; leave it at True")
        if self.eta_max is not None and self.eta_max < self.eta_min:
            raise ValueError(f"smd: eta_max {self.eta_max!r} lies below eta_min {self.eta_min!r}")

    def _compiled(self, values: dict[str, Any], reg: float | None) -> StepSpec:
        reg = 0.0 if reg is None else reg
        check_number("smd", "reg", reg, least=0.0)
        kind = self.kind + int(self.per_coordinate)
        return StepSpec(kind, reg=reg, eta_max=self.eta_max, **values)


@dataclass(frozen=True)
class Adaptive(Schedule):
    """Rates per coordinate and implicit steps, for linear models.

    The rate of feature j is eta0 / sqrt(sum of its squared gradients); a step ends where
    its example has no loss any more, whatever the rates are, so that eta0 matters little.

    Parameters
    ----------
    eta0 : float, optional
        The first step of a weight is about this large for a feature of size 1; for numbers
        in units of the targets' standard deviation.
    normalized : bool, default False
        Adapt to the scale of each feature: rates are divided by its largest value so far.
    mirror : bool, default False
        Where `reg` enters: False shrinks all weights a little at each example, True pulls
        each weight to 0 as its own rate allows (the mirror form).
    forget : float, default 1.0
        What squared gradients of the past are multiplied by at each example; below 1 the
        rates rise again, and a change of the data is followed.
    tail : bool, default True
        Whether ``average=True`` is the average of the last half to three quarters of the
        examples, or of all.
    implicit : bool, default True
        False for steps as long as the rates make them, however far that is beyond the
        example: larger weights, for rare classes.

    Notes
    -----
    Rates: Duchi, Hazan and Singer (2011).  Steps: Kulis and Bartlett (2010), Karampatziakis
    and Langford (2011).  Normalization: Ross, Mineiro and Langford (2013).  `value(t)` has
    no schedule to give and returns eta0.

    Examples
    --------
    >>> import numpy as np, osvm
    >>> X, y = np.array([[1.0, 0.0], [0.0, 100.0]]), [0, 1]
    >>> step = osvm.schedules.Adaptive(eta0=0.5)
    >>> osvm.LinearClassifier(schedule=step).partial_fit(X, y).predict(X)
    array([0, 1])
    """

    name: ClassVar[str] = "adaptive"
    kind: ClassVar[int] = 7
    _beside: ClassVar[tuple[str, ...]] = ("normalized", "mirror", "tail", "implicit")
    keeps_eta0: ClassVar[bool] = True
    eta0: float | None = None
    normalized: bool = False
    mirror: bool = False
    forget: float = 1.0
    tail: bool = True
    implicit: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("normalized", "mirror", "tail", "implicit"):
            check_flag(self.name, name, getattr(self, name))

    def _compiled(self, values: dict[str, Any], reg: float | None) -> StepSpec:
        flags = self.normalized + 2 * self.mirror + 4 * self.tail + 8 * (not self.implicit)
        return StepSpec(self.kind, reg=0.0 if reg is None else reg, flags=flags, **values)


@dataclass(frozen=True)
class CoinBetting(Schedule):
    """No step size at all: each weight is a bet on the sign of its next gradient.

    Orabona and Tommasi (2017), for each coordinate of a linear model.

    Parameters
    ----------
    alpha : float, default 10.0
        The first bets are made as if so many gradients had been seen; larger is more
        careful.
    tail : bool, default True
        As for :class:`Adaptive`.

    Notes
    -----
    There is no place for `reg`, which must be 0.  `value(t)` returns 0.
    """

    name: ClassVar[str] = "coin_betting"
    kind: ClassVar[int] = 8
    _beside: ClassVar[tuple[str, ...]] = ("tail",)
    alpha: float = 10.0
    tail: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag(self.name, "tail", self.tail)

    def _compiled(self, values: dict[str, Any], reg: float | None) -> StepSpec:
        return StepSpec(self.kind, flags=4 * self.tail, **values)


@dataclass(frozen=True)
class Auto(Schedule):
    """What suits the task: the default of the linear classifier and regressor.

    Classes: several settings of :class:`Adaptive` side by side, the best so far answers.  Each
    setting is judged by the errors that it makes on examples before it learns them; one that
    is clearly worse is dropped, so that a long stream costs little more than one setting.  To
    miss an example of a rare class, an eighth as frequent as the first one or less, counts as
    2/F - 1 errors, where F is the share of the class that was found so far, and as 3 at most: as
    F1 counts it.  With two classes its steps are so many times as long.
    `fit` lets three of them (four with several classes and the loss "auto") compete over the
    first 4,096 rows that it visits (of two classes, one of which has less than 2.5 % of the
    rows, of which there are more than columns, only the one with explicit steps), goes on with
    the one that errs least on the second half of them, and predicts with the average over the
    last half of its epochs.  There are two epochs, more where there are less than 10,000 rows:
    so many that 20,000 are visited, and at most 16 (of less than 312 rows so many that 5,000 are,
    and at most 50); they end where no row has a loss any more.
    With more than 50 columns to a row the first setting learns alone, or :class:`Bottou`'s where
    the rows are alike in norm.  Where one of two classes is rare in sparse rows of more columns
    than rows, `fit` takes :class:`CoinBetting`.

    Numbers are learnt with normalized :class:`Adaptive` steps and the average of the last half
    to three quarters of the examples: neither the units of the features nor those of the
    targets matter.  `fit` of 501 to 20,000 sparse rows takes as many steps of conjugate gradients
    as err least on rows that are left out first; with less than five rows to a column, and
    columns of very different units, as many passes, 5 to 50.

    Parameters
    ----------
    half_life : float, default 1000.0
        Of classes: examples after which an error of a stream counts for half; `fit` counts
        all of its first epoch.

    Notes
    -----
    The settings: eta0 .5 and .1; normalized with 10 and explicit steps; for streams also
    normalized with 2, and .5 with ``forget=0.98``, which is never dropped, since it serves
    after a change.  With several classes and ``loss="auto"`` normalized with 2 learns jointly.
    `value(t)` returns the first eta0.

    The first two alone compete in `fit` to sparse rows of more columns than rows, if the
    columns have values of like size (within a factor of 32 of the middle one).

    Settings are judged by their errors, whatever the loss is.  :class:`Bottou` is used where a
    regularizer (`reg`, `C`), `project`, `average` or `batch_size` are asked for, and for classes
    with the loss "perceptron" or with `tol`; ``model.schedule_`` tells.  A setting takes four
    numbers for each weight: where all of them would be more than 2**25 numbers, two or one of
    them compete, and beyond 2**26 it is Bottou again.
    """

    name: ClassVar[str] = "auto"
    kind: ClassVar[int] = 7
    half_life: float = 1000.0

    def _compiled(self, values: dict[str, Any], reg: float | None) -> StepSpec:
        return CANDIDATES[0].spec()

    def specs(self) -> list[StepSpec]:
        """The compiled form of each setting."""
        return [candidate.spec() for candidate in CANDIDATES]

    @property
    def decay(self) -> float:
        """What an error of the past counts for, one example later."""
        return 0.5 ** (1.0 / self.half_life)


#: What `Auto` is for numbers.
NUMBERS = Adaptive(eta0=2.0, normalized=True)
# The settings of `Auto` for classes; which of their predictors are judged: 1 is the last
# iterate, 2 the tail average, 3 both; and bits of those that compete in `fit`, for more columns
# than rows, and for a rare class.
CANDIDATES = (
    Adaptive(eta0=0.5),
    Adaptive(eta0=0.1),
    Adaptive(eta0=2.0, normalized=True),
    Adaptive(eta0=10.0, normalized=True, implicit=False),
    Adaptive(eta0=0.5, forget=0.98),
)
PREDICTORS = (3, 3, 2, 3, 1)
OF_FIT = 0b01011
OF_WIDE = 0b00011
JOINT = 0b00100  # with loss="auto" they learn several classes jointly, and compete in `fit` too
OF_RARE = 0b01000
# How many times as often the most frequent class comes, at least, where one is rare, and how
# many errors it is at most to miss it: as in adaptive_judge.pxd.
RARE_RATIO, MOST_COST = 8.0, 3.0
MOST_COLUMNS_PER_ROW = 50  # of a fit; beyond, settings do not compete
DECIDED_AT = 4096  # examples of a fit before the best candidate goes on alone

_REGISTRY: Registry[Schedule] = Registry(
    "schedule",
    [InverseTime, Bottou, InverseSqrt, Kecman, Constant, SMD, Adaptive, CoinBetting, Auto],
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
