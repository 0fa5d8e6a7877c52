"""Losses: what an example costs at score f, and the derivative xi that the update uses.

Follows Vishwanathan, Schraudolph, Smola, *Step Size Adaptation in RKHS* (JMLR 2006),
Table 1.  The arithmetic is that of `osvm/core/loss.pxd`: calling a loss here runs the
very function that the compiled loops run.

Invariants

- A loss is a frozen dataclass with a `name`, and `kind` is its number in `LossKind` of
  `osvm/core/loss.pxd`.
- Kinks are part of the definition: a margin is violated by `<`, never by `<=`, except
  that the perceptron counts a score of exactly 0 as a mistake.
- The margin is 1; the nu-trick passes another one to the compiled functions.

To add a loss, see the documentation's page on extending.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osvm._parts import compiled
from osvm._parts.compiled import LossSpec
from osvm._parts.loss import ScoredLoss
from osvm._parts.registry import Part, Registry, check_number
from osvm.taxonomy import Taxonomy

__all__ = [
    "CompiledLoss",
    "EpsilonInsensitive",
    "GraphHinge",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "ModifiedHuber",
    "MultiLoss",
    "MulticlassHinge",
    "Novelty",
    "NuTrick",
    "Perceptron",
    "PythonLoss",
    "Softmax",
    "Squared",
    "SquaredHinge",
    "from_config",
    "get",
    "names",
    "parameters",
    "register",
]


@dataclass(frozen=True)
class Loss(ScoredLoss):
    """A loss of one label and one score.

    Labels are -1 and +1 for `task == "binary"`, any number for `"regression"`; novelty
    has none and ignores `y`; `"any"` fits every estimator.  With more than two classes,
    estimators apply a binary loss one-vs-rest.
    """

    task: ClassVar[str] = "binary"
    #: Bounds of the size of xi and of rho; infinite where there is none, or none is known.
    slope_bound: ClassVar[Any] = math.inf
    curvature_bound: ClassVar[Any] = math.inf
    #: The constant score that costs least: the "mean" of the targets, or nearly their "median".
    best_constant: ClassVar[str] = "median"

    def value(self, y: ArrayLike, f: ArrayLike, margin: float = 1.0) -> Any:
        """The loss at each pair of label and score, in float64.

        `margin` replaces the 1 in the formulas of hinge, squared_hinge and novelty; the
        other losses have no margin.
        """
        return self.spec().value(y, f, margin)

    def dloss(self, y: ArrayLike, f: ArrayLike, margin: float = 1.0) -> Any:
        """xi, the derivative of the loss by the score."""
        return self.spec().dloss(y, f, margin)

    def curvature(self, y: ArrayLike, f: ArrayLike, margin: float = 1.0) -> Any:
        """rho, the second derivative; 0 where the loss is a straight line."""
        return self.spec().curvature(y, f, margin)


@dataclass(frozen=True)
class MultiLoss(ScoredLoss):
    """A loss of one label out of K and all K scores.

    `y` holds label numbers from 0 to K - 1, shape (n,); `f` the scores, shape (n, K).
    """

    task: ClassVar[str] = "multiclass"
    multi: ClassVar[bool] = True

    def value(self, y: ArrayLike, f: ArrayLike, margin: float = 1.0) -> NDArray[np.float64]:
        """The loss of each example, shape (n,)."""
        return self.spec().multi_value_dloss(y, f, margin)[0]

    def dloss(self, y: ArrayLike, f: ArrayLike, margin: float = 1.0) -> NDArray[np.float64]:
        """xi, shape (n, K)."""
        return self.spec().multi_value_dloss(y, f, margin)[1]

    def curvature_times(
        self, y: ArrayLike, f: ArrayLike, z: ArrayLike, margin: float = 1.0
    ) -> NDArray[np.float64]:
        """rho z with the K x K second derivative rho of each example, shape (n, K)."""
        return self.spec().multi_curvature_times(y, f, z, margin)


# ------------------------------------------------------------ classification


@dataclass(frozen=True)
class Hinge(Loss):
    """max(0, 1 - y f): the support vector machine's loss.

    xi is -y when y f < 1 and 0 otherwise, at y f = 1 too.

    Examples
    --------
    >>> from osvm.losses import Hinge
    >>> Hinge().value([1, 1, -1], [0.5, 1.0, 0.5])
    array([0.5, 0. , 1.5])
    >>> Hinge().dloss([1, 1, -1], [0.5, 1.0, 0.5])
    array([-1.,  0.,  1.])
    """

    name: ClassVar[str] = "hinge"
    kind: ClassVar[int] = 0
    slope_bound: ClassVar[Any] = 1.0


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """max(0, 1 - y f)^2; xi is -2 y (1 - y f) when y f < 1, else 0."""

    name: ClassVar[str] = "squared_hinge"
    kind: ClassVar[int] = 1
    curvature_bound: ClassVar[Any] = 2.0


@dataclass(frozen=True)
class Perceptron(Loss):
    """max(0, -y f); xi is -y when y f <= 0, else 0.

    A score of exactly 0 counts as a mistake although its value is 0: from zero weights
    nothing would ever be learnt otherwise.
    """

    name: ClassVar[str] = "perceptron"
    kind: ClassVar[int] = 2
    slope_bound: ClassVar[Any] = 1.0


@dataclass(frozen=True)
class Logistic(Loss):
    """log(1 + exp(-y f)); xi = -y / (1 + exp(y f)), rho = p (1 - p).

    Examples
    --------
    >>> from osvm.losses import Logistic
    >>> Logistic().value(1, [-1e4, 0.0, 1e4]).round(3)
    array([1.00e+04, 6.93e-01, 0.00e+00])
    """

    name: ClassVar[str] = "logistic"
    kind: ClassVar[int] = 3
    slope_bound: ClassVar[Any] = 1.0
    curvature_bound: ClassVar[Any] = 0.25
    probabilistic: ClassVar[bool] = True

    def probability(self, f: ArrayLike) -> Any:
        """Probability of the label +1 at score f."""
        return self.dloss(-1.0, f)  # xi at the label -1 is 1/(1 + exp(-f))


@dataclass(frozen=True)
class ModifiedHuber(Loss):
    """max(0, 1 - y f)^2 for y f >= -1, -4 y f below: a squared hinge with linear arm.

    At y f = 1 xi is 0; at y f = -1 the two pieces meet with the same slope.
    """

    name: ClassVar[str] = "modified_huber"
    kind: ClassVar[int] = 4
    slope_bound: ClassVar[Any] = 4.0
    curvature_bound: ClassVar[Any] = 2.0

    def probability(self, f: ArrayLike) -> Any:
        """Probability of the label +1 at score f: a straight line from -1 to 1 (Zhang 2004)."""
        return 0.5 * (np.clip(np.asarray(f, dtype=np.float64), -1.0, 1.0) + 1.0)


# ------------------------------------------------------------------- novelty


@dataclass(frozen=True)
class Novelty(Loss):
    """max(0, 1 - f), for novelty detection; labels are not read.  xi is -1 when f < 1."""

    name: ClassVar[str] = "novelty"
    kind: ClassVar[int] = 5
    slope_bound: ClassVar[Any] = 1.0
    task: ClassVar[str] = "novelty"


# ---------------------------------------------------------------- regression


@dataclass(frozen=True)
class EpsilonInsensitive(Loss):
    """max(0, abs(f - y) - epsilon); xi is the sign of f - y outside the tube, else 0.

    Parameters
    ----------
    epsilon : float, default 0.1
        Half the width of the tube; an error of exactly epsilon costs nothing.
    """

    name: ClassVar[str] = "epsilon_insensitive"
    kind: ClassVar[int] = 6
    slope_bound: ClassVar[Any] = 1.0
    task: ClassVar[str] = "regression"
    epsilon: float = 0.1

    def __post_init__(self) -> None:
        check_number("epsilon_insensitive", "epsilon", self.epsilon, least=0.0)

    def spec(self) -> LossSpec:
        return LossSpec(self.kind, self.epsilon)


@dataclass(frozen=True)
class Huber(Loss):
    """Quadratic up to an error of delta, linear beyond; r = f - y.

    The value is r^2/2 where abs(r) <= delta, else delta abs(r) - delta^2/2.

    Parameters
    ----------
    delta : float, default 1.0
        The error at which the parabola becomes a straight line.
    """

    name: ClassVar[str] = "huber"
    kind: ClassVar[int] = 7
    curvature_bound: ClassVar[Any] = 1.0
    task: ClassVar[str] = "regression"
    delta: float = 1.0

    def __post_init__(self) -> None:
        check_number("huber", "delta", self.delta, above=0.0)

    @property
    def slope_bound(self) -> float:
        return self.delta

    def spec(self) -> LossSpec:
        return LossSpec(self.kind, self.delta)


@dataclass(frozen=True)
class Squared(Loss):
    """(f - y)^2 / 2; xi = f - y."""

    name: ClassVar[str] = "squared"
    kind: ClassVar[int] = 8
    curvature_bound: ClassVar[Any] = 1.0
    best_constant: ClassVar[str] = "mean"
    task: ClassVar[str] = "regression"


# -------------------------------------------------------------- multi-output


@dataclass(frozen=True)
class MulticlassHinge(MultiLoss):
    """max(0, 1 + max_{k != y} f_k - f_y), after Crammer and Singer.

    On a violation xi is -1 at the true label and +1 at the best rival, the first one
    among equals.

    Examples
    --------
    >>> from osvm.losses import MulticlassHinge
    >>> MulticlassHinge().dloss([0], [[0.2, 0.5, 0.5]])
    array([[-1.,  1.,  0.]])
    """

    name: ClassVar[str] = "multiclass_hinge"
    kind: ClassVar[int] = 64


@dataclass(frozen=True)
class GraphHinge(MultiLoss):
    """max(0, max_{k != y} (D[y, k] + f_k) - f_y), D the distances between labels.

    Parameters
    ----------
    taxonomy : osvm.taxonomy.Taxonomy, optional
        Gives D.  Estimators pass the distances of their own classes instead.

    Notes
    -----
    Under the nu-trick the margin multiplies D.
    """

    name: ClassVar[str] = "graph_hinge"
    kind: ClassVar[int] = 65
    needs_distances: ClassVar[bool] = True
    taxonomy: Taxonomy | None = None

    def __post_init__(self) -> None:
        if isinstance(self.taxonomy, dict):  # from a config
            object.__setattr__(self, "taxonomy", Taxonomy.from_config(self.taxonomy))
        if self.taxonomy is not None and not isinstance(self.taxonomy, Taxonomy):
            raise TypeError(
                "graph_hinge: taxonomy must be an osvm.taxonomy.Taxonomy, "
                f"not {type(self.taxonomy).__name__}"
            )

    def spec(self, delta: ArrayLike | None = None) -> LossSpec:
        """The compiled form; `delta` (K, K) replaces the taxonomy's distances."""
        if delta is None:
            if self.taxonomy is None:
                raise ValueError("graph_hinge needs a taxonomy: GraphHinge(taxonomy=...)")
            delta = self.taxonomy.distances()
        return LossSpec(self.kind, delta=delta)

    def config(self) -> dict[str, Any]:
        taxonomy = None if self.taxonomy is None else self.taxonomy.config()
        return {"name": self.name, "taxonomy": taxonomy}


@dataclass(frozen=True)
class Softmax(MultiLoss):
    """log sum_k exp(f_k - f_y); xi = p - onehot(y), rho = diag(p) - p p'."""

    name: ClassVar[str] = "softmax"
    kind: ClassVar[int] = 66
    probabilistic: ClassVar[bool] = True

    def probability(self, f: ArrayLike) -> NDArray[np.float64]:
        """Probability of each label, shape (n, K)."""
        return compiled.softmax(f)


# ------------------------------------------------------------------- custom


@dataclass(frozen=True)
class PythonLoss(Loss):
    """A loss written in Python: convenient and slow, for it takes the GIL at each example.

    Parameters
    ----------
    wrapped : object
        Has `value(y, f)` and `dloss(y, f)` that take and return single numbers, and may
        have `curvature(y, f)`; without it the curvature is 0.  It may declare `task`,
        `slope_bound`, `curvature_bound` and `best_constant` (see `Loss`); without them it is
        taken by every estimator, and its slope has no bound.

    Notes
    -----
    When it raises, the loop sees NaN and stops, and the exception comes out of the call
    that ran the loop (`spec().raise_error()` in compiled code).  It cannot be written to
    a model file.

    Examples
    --------
    >>> from osvm.losses import PythonLoss
    >>> class Absolute:
    ...     def value(self, y, f):
    ...         return abs(f - y)
    ...     def dloss(self, y, f):
    ...         return 1.0 if f > y else -1.0
    >>> PythonLoss(Absolute()).value(0.0, [-2.0, 3.0])
    array([2., 3.])
    """

    name: ClassVar[str] = "python"
    kind: ClassVar[int] = 9
    wrapped: Any

    def __post_init__(self) -> None:
        for method in ("value", "dloss"):
            if not callable(getattr(self.wrapped, method, None)):
                raise TypeError(f"a custom loss needs a method {method}(y, f)")

    @property
    def task(self) -> str:  # type: ignore[override]
        return getattr(self.wrapped, "task", "any")

    @property
    def slope_bound(self) -> float:
        return float(getattr(self.wrapped, "slope_bound", math.inf))

    @property
    def curvature_bound(self) -> float:
        return float(getattr(self.wrapped, "curvature_bound", math.inf))

    @property
    def best_constant(self) -> str:  # type: ignore[override]
        return getattr(self.wrapped, "best_constant", "median")

    def spec(self) -> LossSpec:
        return LossSpec.python(self.wrapped)

    def config(self) -> dict[str, Any]:
        raise TypeError("a loss written in Python cannot be saved in a model file")


@dataclass(frozen=True, init=False)
class CompiledLoss(Loss):
    """A loss compiled elsewhere, at full speed.

    Parameters
    ----------
    value, dloss : scipy.LowLevelCallable
        With signature ``double (double y, double f, void *user_data)``, from Cython,
        ctypes, cffi or numba; they run without the GIL.
    curvature : scipy.LowLevelCallable, optional
        Without it the curvature is 0.

    Notes
    -----
    All of them share one ``user_data``.  It cannot be written to a model file.
    """

    name: ClassVar[str] = "compiled"
    kind: ClassVar[int] = 9
    task: ClassVar[str] = "any"
    callables: tuple[Any, Any, Any]

    def __init__(self, value: Any, dloss: Any, curvature: Any = None) -> None:
        LossSpec.compiled(value, dloss, curvature)  # refuses wrong signatures now
        object.__setattr__(self, "callables", (value, dloss, curvature))

    def spec(self) -> LossSpec:
        return LossSpec.compiled(*self.callables)

    def config(self) -> dict[str, Any]:
        raise TypeError("a loss compiled elsewhere cannot be saved in a model file")


# -------------------------------------------------------------- the nu-trick


@dataclass(frozen=True)
class NuTrick(Part):
    """A margin that is learnt, so that about a fraction `nu` of the examples violates it.

    What kernel estimators take as `nu` in place of the number, where the margin's beginning
    matters.

    Parameters
    ----------
    nu : float
        Between 0 and 1.
    epsilon0 : float, default 1.0
        The margin to begin with.
    eta0 : float, optional
        The margin's first step size, which adapts by itself (`schedule="smd"`, 1 by
        default); with other schedules the margin takes the step size of f.

    Examples
    --------
    >>> from osvm.losses import NuTrick
    >>> NuTrick(0.05, epsilon0=0.1)
    NuTrick(nu=0.05, epsilon0=0.1, eta0=None)
    """

    name: ClassVar[str] = "nu_trick"
    nu: float
    epsilon0: float = 1.0
    eta0: float | None = None

    def __post_init__(self) -> None:
        check_number("nu", "nu", self.nu, above=0.0)
        if not self.nu < 1.0:
            raise ValueError(f"nu must be less than 1, not {self.nu!r}")
        check_number("nu", "epsilon0", self.epsilon0, above=0.0)
        if self.eta0 is not None:
            check_number("nu", "eta0", self.eta0, above=0.0)


# ----------------------------------------------------------------- registry

_SCALAR = (Hinge, SquaredHinge, Perceptron, Logistic, ModifiedHuber, Novelty, EpsilonInsensitive,
           Huber, Squared)  # fmt: skip
_REGISTRY: Registry[Any] = Registry("loss", [*_SCALAR, MulticlassHinge, GraphHinge, Softmax])


def _adopt(loss: Any) -> Any:
    if callable(getattr(loss, "value", None)) and callable(getattr(loss, "dloss", None)):
        return PythonLoss(loss)
    return None


def get(loss: Any, **params: Any) -> Any:
    """The loss of that name, or the loss given, with `params` set.

    Parameters
    ----------
    loss : str, Loss, MultiLoss or object
        An object with `value(y, f)` and `dloss(y, f)` becomes a `PythonLoss`.
    **params
        Parameters of the loss that replace its own.

    Examples
    --------
    >>> import osvm.losses
    >>> osvm.losses.get("huber", delta=2.0)
    Huber(delta=2.0)
    """
    return _REGISTRY.get(loss, params, (Loss, MultiLoss), _adopt)


def names() -> list[str]:
    """The names that `get` knows."""
    return _REGISTRY.names()


def register(loss: type) -> type:
    """Make a loss class known by its `name`, also to model files; returns the class."""
    return _REGISTRY.add(loss)


def for_tasks(tasks: tuple[str, ...]) -> list[str]:
    """The names of the losses for these tasks."""
    return [name for name, loss in _REGISTRY.classes.items() if loss.task in tasks]


def parameters(name: str) -> list[str]:
    """The parameters that the loss of that name takes."""
    return _REGISTRY.parameters(name)


def from_config(config: dict[str, Any]) -> Any:
    """The loss, or the nu-trick, that `config()` described."""
    if isinstance(config, dict) and config.get("name") == NuTrick.name:
        return NuTrick(**{key: value for key, value in config.items() if key != "name"})
    return _REGISTRY.from_config(config)
