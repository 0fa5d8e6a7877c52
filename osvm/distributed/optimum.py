"""To the optimum of the objective over all blocks: L-BFGS with one gradient a round.

    J(W, b) = reg/2 ||W||^2 + 1/n sum_i c_i loss(y_i, W x_i + b)

J and its gradient are sums over blocks: every block adds up its own, the sums are folded in the
tree of `osvm.distributed.tree`, and the driver makes the step (Liu, Nocedal 1989: two-loop
recursion, Armijo condition; a unit step is nearly always accepted).  It starts from one mixed
pass, and there from the average of its iterates, with the initial matrix diag(1/D),

    D_j = sqrt(reg + h sum_i c_i x_ij^2 / n)        h: the largest curvature of the loss

whose sums come with the first gradient.  (The diagonal of the Hessian itself, without the root,
takes more rounds on text: it overrates what rare columns can still do.)  The number of rounds does
not grow with the number of blocks.

The hinge has no gradient at the margin; it is replaced by its quadratic smoothing over a width of
`SMOOTHING`, whose minimum is within `SMOOTHING`/2 of the hinge's, and a warning says so.

Messages have the model's own type.  Points are rounded to it before they are asked for, so that a
float32 model loses nothing, and sums are made in float64 and rounded when they are sent.

Invariants
- rows are added up in their order, blocks in the tree's: the same bits on any engine;
- the state between rounds is in the checkpoint, so that a run goes on bit for bit.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from osvm._input import validate
from osvm._input.labels import LabelIndex, resolve_class_weight
from osvm._input.types import Array
from osvm.distributed.blocks import chunks, naming
from osvm.linear import LinearClassifier, LinearRegressor
from osvm.linear.classifier import encode_targets

SMOOTHING = 0.05
MEMORY = 20  # pairs of steps and gradients
_SMOOTH = ("logistic", "squared_hinge", "modified_huber", "softmax", "huber", "squared")


def check_smooth(model: Any, loss: Any, radius: float) -> None:
    """Raise unless L-BFGS can minimize the objective; warn where it is a smoothed one."""
    if not isinstance(model, LinearClassifier | LinearRegressor):
        raise ValueError(f"tol= is for LinearClassifier and LinearRegressor, not {model!r:.40}")
    if radius > 0:
        raise ValueError("tol= solves the problem without a ball: set project=False")
    if loss.name == "hinge":
        warnings.warn(
            f"the hinge has no gradient at the margin: tol= minimizes it smoothed over a width of "
            f"{SMOOTHING}, which is within {SMOOTHING / 2} of it; loss='squared_hinge' is smooth",
            stacklevel=5,
        )
    elif loss.name not in _SMOOTH:
        raise ValueError(
            f"tol= needs a smooth loss ({', '.join(_SMOOTH)}; or hinge, smoothed), "
            f"not {loss.name!r}"
        )


@dataclass(frozen=True)
class Problem:
    """What a worker needs for its part of the gradient."""

    estimator: Any
    loss: Any
    classes: Any  # array of labels, or None in regression
    factors: Array | None  # of the classes
    W: Array  # outputs x columns, of the type that messages have
    b: Array  # float64
    with_squares: bool = False


@dataclass
class Sums:
    """Losses and gradients, added up over rows."""

    rows: int
    value: float
    W: Array
    b: Array
    squares: Array | None = None  # of each column

    def rounded(self, dtype: Any) -> Sums:
        """As they are sent: what has the model's size in the model's type."""
        squares = None if self.squares is None else _rounded(self.squares, dtype)
        return Sums(self.rows, self.value, _rounded(self.W, dtype), self.b, squares)


def _rounded(array: Array, dtype: Any) -> Array:
    """A sum beyond the type's range becomes its largest number: steps stay finite."""
    largest = np.finfo(dtype).max
    return np.clip(array, -largest, largest).astype(dtype)


def gradient(number: int, block: Any, problem: Problem) -> Sums:
    """The sums of one block."""
    sums = Sums(0, 0.0, np.zeros(problem.W.shape), np.zeros_like(problem.b))
    if problem.with_squares:
        sums.squares = np.zeros(problem.W.shape[1])
    exact = replace(problem, W=problem.W.astype(np.float64))
    with naming(number):
        for X, y, weight in chunks(block):
            _add(sums, exact, X, y, weight)
    return sums.rounded(problem.W.dtype)


def _add(sums: Sums, problem: Problem, X: Any, y: Any, weight: Any) -> None:
    model, K = problem.estimator, len(problem.b)
    source, rows = model._check_X(X)
    if source.n_features != problem.W.shape[1]:
        raise ValueError(f"{source.n_features} columns, the model has {problem.W.shape[1]}")
    n = source.n_rows
    factor: Any = np.ones(n)
    if weight is not None:
        factor = validate.check_sample_weight(weight, n, allow_zero=True)
    if problem.classes is None:
        targets = validate.check_y_regression(y, n)
    else:
        labels = validate.check_y_classes(y, n, estimator_name=type(model).__name__)
        codes = LabelIndex(problem.classes).encode(labels)
        if problem.factors is not None:
            factor = factor * problem.factors[codes]
        targets = encode_targets(codes, K)
    scale = validate.unit_scale(source)[:, None] if model.normalize else 1.0
    scores = np.ascontiguousarray(scale * (rows @ problem.W.T) + problem.b)
    value, xi = _losses(problem.loss, targets, scores)
    xi *= factor[:, None]
    sums.rows += n
    sums.value += float(factor @ value)
    sums.W += (rows.T @ (scale * xi)).T
    sums.b += xi.sum(axis=0)
    if sums.squares is not None:
        squared = rows.power(2) if hasattr(rows, "power") else np.square(rows)
        sums.squares += squared.T @ (np.square(scale) * factor[:, None])[:, 0]


def _losses(loss: Any, targets: Array, scores: Array) -> tuple[Array, Array]:
    """Values (n,) and derivatives by the scores (n, K)."""
    if loss.name == "hinge":
        signs = targets[:, None]
        if scores.shape[1] > 1:
            signs = np.where(np.arange(scores.shape[1]) == targets[:, None], 1.0, -1.0)
        gap = np.maximum(1.0 - signs * scores, 0.0)
        inside = gap < SMOOTHING
        value = np.where(inside, gap * gap / (2 * SMOOTHING), gap - SMOOTHING / 2)
        return value.sum(axis=1), -signs * np.minimum(gap / SMOOTHING, 1.0)
    if scores.shape[1] > 1:
        value, xi = loss.spec().multi_value_dloss(targets, scores)
        return value, xi
    return loss.value(targets, scores[:, 0]), loss.dloss(targets, scores[:, 0])[:, None]


def fold_sums(parts: list[Sums], problem: Any = None) -> Sums:
    """The sums of several blocks."""
    first = parts[0]
    out = Sums(first.rows, first.value, first.W.astype(np.float64), first.b.copy())
    if first.squares is not None:
        squares = [np.asarray(part.squares, np.float64) for part in parts]
        out.squares = np.asarray(np.sum(squares, axis=0))
    for part in parts[1:]:
        out.rows += part.rows
        out.value += part.value
        out.W += part.W
        out.b += part.b
    return out.rounded(first.W.dtype)


def diagonal(sums: Sums, loss: Any, reg: float) -> Array:
    """D of all weights, outputs one after the other, then of the offsets."""
    assert sums.squares is not None
    bound = 1.0 / SMOOTHING if loss.name == "hinge" else getattr(loss, "curvature_bound", 1.0)
    h = bound if np.isfinite(bound) else 1.0
    D = np.sqrt(reg + h * sums.squares / sums.rows)
    D = np.maximum(D, 1e-3 * D.max() or 1.0)  # columns without a value
    return np.append(np.tile(D, len(sums.b)), np.full(len(sums.b), np.sqrt(reg + h)))


def class_factors(class_weight: Any, index: LabelIndex, counts: dict[Any, int]) -> Array | None:
    """Weights of the classes; "balanced" by the counts of all blocks."""
    if class_weight is None:
        return None
    if isinstance(class_weight, dict):
        return resolve_class_weight(class_weight, index)
    found = np.array([counts.get(label, 0) for label in index.classes.tolist()], float)
    present = found > 0
    factors = np.ones(len(found))
    factors[present] = found.sum() / (present.sum() * found[present])
    return factors


@dataclass
class LBFGS:
    """Limited-memory BFGS, asked for the next point and told its value and gradient.

    Parameters
    ----------
    x : array
        Where to start.
    tol : float
        `done` when two accepted steps in a row have lowered the value by less than this
        fraction of it.
    diagonal : array, optional
        How curved the function is along each coordinate, up to a common factor.

    Examples
    --------
    >>> import numpy as np
    >>> solver = LBFGS(np.zeros(2), 1e-12)
    >>> while not solver.done:
    ...     gap = solver.asked - np.array([1.0, -2.0])
    ...     _ = solver.tell(float(gap @ gap) + 1.0, 2 * gap)
    >>> solver.x.round(6).tolist()
    [1.0, -2.0]
    """

    x: Array
    tol: float
    diagonal: Array | float = 1.0
    value: float = np.inf
    slope: Array | None = None
    steps: list[Array] = field(default_factory=list)
    changes: list[Array] = field(default_factory=list)
    stale: int = 0
    done: bool = False
    length: float = field(init=False, default=0.0)
    descent: float = field(init=False, default=0.0)
    direction: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.asked = self.x
        self.is_searching = False  # between two accepted points
        if self.slope is not None:
            self._search()

    def tell(self, value: float, slope: Array) -> bool:
        """Take the value and gradient at `asked`; whether the point was accepted."""
        if self.slope is None:
            self.value, self.slope = value, slope
            self.done = not slope.any()
            self._search()
            return True
        decrease = 1e-4 * self.length * self.descent
        if not value <= self.value + decrease:
            # the minimum of the parabola through both values and the slope, within bounds
            bend = value - self.value - self.length * self.descent
            best = -self.descent * self.length**2 / (2 * bend) if bend > 0 else 0.0
            self.length = min(max(best, 0.1 * self.length), 0.5 * self.length)
            if self.length < 1e-10:
                self.done = True
            self.asked = self.x + self.length * self.direction
            self.is_searching = True
            return False
        self.is_searching = False
        step, change = self.asked - self.x, slope - self.slope
        if step @ change > 1e-10 * (change @ change):
            self.steps, self.changes = self.steps[1 - MEMORY :], self.changes[1 - MEMORY :]
            self.steps.append(step)
            self.changes.append(change)
        is_small = bool(self.steps[1:]) and self.value - value <= self.tol * abs(value)
        self.stale = self.stale + 1 if is_small else 0
        self.done = self.stale >= 2 or not slope.any()
        self.x, self.value, self.slope = self.asked, value, slope
        self._search()
        return True

    def _search(self) -> None:
        """The direction of the two-loop recursion, and the first point on it."""
        assert self.slope is not None
        q, factors = self.slope.copy(), []
        for s, y in zip(reversed(self.steps), reversed(self.changes)):
            factors.append((s @ q) / (s @ y))
            q -= factors[-1] * y
        q /= self.diagonal
        if self.steps:
            s, y = self.steps[-1], self.changes[-1]
            q *= (s @ y) / (y @ (y / self.diagonal))
        for s, y, a in zip(self.steps, self.changes, reversed(factors)):
            q += (a - (y @ q) / (s @ y)) * s
        self.direction, self.length = -q, 1.0
        self.descent = float(self.slope @ self.direction)
        if not self.steps:
            # a tenth of the way that was made so far; the parabola corrects it
            size = 0.1 * float(np.linalg.norm(self.x)) or 1.0
            self.length = size / max(float(np.linalg.norm(q)), 1e-300)
        self.asked = self.x + self.length * self.direction

    def get_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """For a checkpoint, at an accepted point."""
        assert self.slope is not None
        arrays = {"x": self.x, "slope": self.slope, "diagonal": np.asarray(self.diagonal)}
        pairs = {"steps": self.steps, "changes": self.changes}
        for name, vectors in pairs.items():
            arrays[name] = np.array(vectors).reshape(len(vectors), len(self.x))
        return {"value": self.value, "stale": self.stale, "done": self.done}, arrays

    @classmethod
    def from_state(cls, scalars: dict[str, Any], arrays: dict[str, Array], tol: float) -> LBFGS:
        """The solver whose state this is."""
        x, slope, steps, changes = (arrays[k] for k in ("x", "slope", "steps", "changes"))
        diagonal = arrays.get("diagonal", np.array(1.0))
        solver = cls(x, tol, diagonal, scalars["value"], slope, list(steps), list(changes))
        solver.stale, solver.done = scalars["stale"], scalars["done"]
        return solver
