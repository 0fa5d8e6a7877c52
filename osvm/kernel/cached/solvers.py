"""The learners with cached outputs as named parts: what `KernelClassifier(solver=...)` takes.

Each solver is a frozen dataclass with the parameters that only it has; what all share (C,
kernel, epochs, bias, ...) comes in a `Task`.  `solve` returns a `Fit`.

Sources: Kecman and Melki, "Fast online algorithms for support vector machines", lists 1, 2,
3a, 3b; the algorithms surveyed by Vishwanathan, Schraudolph and Smola (JMLR 2006), section 3.

Invariants
- one task has one or more outputs (rows of Y, -1 and +1); all share the kernel columns;
- one epoch of a sequential solver needs no column twice, so it keeps none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from osvm._parts.registry import Part, Registry, check_number
from osvm.kernel.cached.sequential import OnlineLoop
from osvm.kernel.cached.task import Fit, Task
from osvm.kernel.cached.working_sets import BlockSolver, Lasvm

__all__ = [
    "Adatron",
    "Alma",
    "Ballseptron",
    "CachedNorma",
    "CachedSolver",
    "Fit",
    "LaSvm",
    "OlSvm",
    "Pegaz",
    "Perceptron",
    "Task",
    "from_config",
    "get",
    "names",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CachedSolver(Part):
    """Base of the solvers.

    Parameters
    ----------
    dtype : "float32" or "float64"
        Type of the kernel columns.
    """

    dtype: str = "float32"

    # options of the estimator that some solvers read and others do not (`kernel/options.py`)
    takes: ClassVar[frozenset[str]] = frozenset({"reg", "C", "fit_intercept", "record"})
    needs_bias: ClassVar[bool] = False  # fit_intercept=False is an error

    def __post_init__(self) -> None:
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"{self.name}: dtype must be 'float32' or 'float64'")
        self._check()

    def _check(self) -> None:
        """Refuse parameters out of range."""

    def solve(self, task: Task) -> Fit:
        raise NotImplementedError


# ------------------------------------------------------------- one after another


@dataclass(frozen=True)
class Sequential(CachedSolver):
    """Solvers that run `osvm.kernel.cached.sequential.OnlineLoop`.

    Parameters
    ----------
    keep_outputs : bool
        Keep the outputs of all training rows (`outputs_`) in a single epoch too.  Without,
        a single epoch leaves out those of rows that it has visited, and needs half of the
        kernel values; several epochs keep them anyway.
    """

    takes: ClassVar[frozenset[str]] = CachedSolver.takes | {"average"}
    keep_outputs: bool = False

    stops_early: ClassVar[bool] = True  # an epoch without a change ends learning

    def _rule(self) -> tuple[str, dict[str, float]]:
        raise NotImplementedError

    def _wants_corrections(self) -> bool:
        return False

    def _average(self, task: Task) -> bool:
        return task.average

    def _offset(self, task: Task) -> float:
        return 0.0

    def solve(self, task: Task) -> Fit:
        rule, options = self._rule()
        offset = self._offset(task)
        once = task.epochs == 1 and not self.keep_outputs
        # a single epoch goes through the rows from the last to the first
        order = task.order()[::-1] if once else None
        columns = task.columns(
            self.dtype, offset=offset, order=order, max_columns=1 if task.epochs == 1 else None
        )
        loop = OnlineLoop(
            columns,
            task.Y if order is None else task.Y[:, order],
            rule,
            task.C,
            weights=task.weights if order is None or task.weights is None else task.weights[order],
            bias=task.bias and offset == 0.0,
            average=self._average(task),
            record=task.record,
            keep_corrections=self._wants_corrections(),
            **options,
        )
        converged = False
        epoch = 0
        for epoch in range(1, task.epochs + 1):
            changes, worst = loop.run_once() if once else loop.run(task.order())
            if task.progress is not None:
                loss, mistakes = loop.progress
                examples = task.n * epoch * len(task.Y)
                task.progress.update(examples, loss=loss, errors=mistakes)
            if (changes == 0 and self.stops_early) or self._good(worst, task):
                converged = True
                break
        alpha, b = loop.alpha_, loop.bias_
        outputs = None if once else loop.outputs_
        corrections = None
        if self._wants_corrections():
            corrections = [np.concatenate(c) for c in loop.corrections]
        if order is not None:
            alpha = np.empty_like(alpha)
            alpha[:, order] = loop.alpha_
            for changes_of_one in corrections or []:
                changes_of_one[:, 0] = order[changes_of_one[:, 0]]
        if offset:
            b = offset * alpha.sum(axis=1)
        return Fit(
            alpha,
            b,
            outputs,
            int(loop.t.max()),
            epoch,
            converged,
            _history(loop) if task.record else None,
            corrections,
            {"computed": columns.computed, "hits": columns.hits},
        )

    def _good(self, worst: float, task: Task) -> bool:
        return False


def _history(loop: Any) -> dict[str, Array]:
    """One entry per example from the loop's trace (eta, y f, support, b)."""
    eta, score, support, _ = loop.trace.T
    mistakes = np.cumsum(score <= 0)
    return {
        "eta": eta.copy(),
        "loss": np.maximum(0.0, 1.0 - score),
        "error": mistakes / np.arange(1, len(score) + 1),
        "support": support.astype(np.int64),
    }


@dataclass(frozen=True)
class OlSvm(Sequential):
    """OL SVM, list 3b (hinge loss alone) or 3a (``regularized=True``); eta = C sqrt(2/t)."""

    name: ClassVar[str] = "ol_svm"
    regularized: bool = False

    def _rule(self) -> tuple[str, dict[str, float]]:
        return ("ol_svm_regularized" if self.regularized else "ol_svm"), {}


@dataclass(frozen=True)
class CachedNorma(Sequential):
    """NORMA, list 1: all coefficients shrink by 1 - eta/C; ``printed=True`` as printed."""

    name: ClassVar[str] = "norma_cached"
    stops_early: ClassVar[bool] = False
    printed: bool = False

    def _rule(self) -> tuple[str, dict[str, float]]:
        return ("norma_printed" if self.printed else "norma"), {}


@dataclass(frozen=True)
class Pegaz(Sequential):
    """Pegaz, list 2: alpha = eta beta, beta counts violations."""

    name: ClassVar[str] = "pegaz"
    stops_early: ClassVar[bool] = False

    def _rule(self) -> tuple[str, dict[str, float]]:
        return "pegaz", {}


@dataclass(frozen=True)
class Perceptron(Sequential):
    """Kernel perceptron; ``predict`` by its last iterate, their average or their vote."""

    name: ClassVar[str] = "kernel_perceptron"
    takes: ClassVar[frozenset[str]] = frozenset({"fit_intercept", "record"})
    combine: str = "last"

    def _check(self) -> None:
        if self.combine not in ("last", "average", "vote"):
            raise ValueError("combine must be 'last', 'average' or 'vote'")

    def _rule(self) -> tuple[str, dict[str, float]]:
        return "perceptron", {}

    def _wants_corrections(self) -> bool:
        return self.combine == "vote"

    def _average(self, task: Task) -> bool:
        return self.combine == "average"


@dataclass(frozen=True)
class Ballseptron(Sequential):
    """Ballseptron: learns the worst point of a ball of this radius that meets the boundary."""

    name: ClassVar[str] = "ballseptron"
    takes: ClassVar[frozenset[str]] = frozenset({"average", "record"})
    radius: float = 0.1

    def _check(self) -> None:
        check_number(self.name, "radius", self.radius, least=0.0)

    def _rule(self) -> tuple[str, dict[str, float]]:
        return "ballseptron", {"radius": float(self.radius)}


@dataclass(frozen=True)
class Alma(Sequential):
    """ALMA for p = 2: aims at (1 - slack) of the largest margin.

    ``margin`` and ``step`` are Gentile's B and C; his choice is sqrt(8)/slack and sqrt(2).
    """

    name: ClassVar[str] = "alma"
    takes: ClassVar[frozenset[str]] = frozenset({"average", "record"})
    slack: float = 0.9
    margin: float | None = None
    step: float | None = None

    def _check(self) -> None:
        check_number(self.name, "slack", self.slack, above=0.0, most=1.0)
        for key in ("margin", "step"):
            if getattr(self, key) is not None:
                check_number(self.name, key, getattr(self, key), above=0.0)

    def _rule(self) -> tuple[str, dict[str, float]]:
        return "alma", {
            "slack": float(self.slack),
            "margin": float(self.margin or 0.0),
            "step": float(self.step or 0.0),
        }


# ------------------------------------------------------------------ adatron, LASVM


@dataclass(frozen=True)
class Adatron(Sequential):
    """Kernel adatron: alpha_i <- clip(alpha_i + eta (1 - y_i o_i), 0, C).

    Parameters
    ----------
    selection : "order", "largest" or "blocks"
        The next example: the rows in turn (shuffled or not), the row with the largest
        violation, or sets of `working_set` large violators that are solved together.
    eta : float, optional
        Step size with ``selection="order"``; the exact step 1/k(x, x) without.
    working_set : int
        Rows in a set, at most 256.

    Notes
    -----
    The bias is that of a constant feature (it is regularised with the rest) where rows are
    taken singly; with ``selection="blocks"`` it is the support vector machine's own, and
    steps move weight between pairs of rows.
    """

    name: ClassVar[str] = "kernel_adatron"
    takes: ClassVar[frozenset[str]] = Sequential.takes | {"tol"}
    selection: str = "blocks"
    eta: float | None = None
    working_set: int = 128

    def _check(self) -> None:
        if self.selection not in ("order", "largest", "blocks"):
            raise ValueError("selection must be 'order', 'largest' or 'blocks'")
        if self.eta is not None:
            check_number(self.name, "eta", self.eta, above=0.0)
            if self.selection != "order":
                raise ValueError("eta is the step of selection='order'; the others step exactly")
        if self.working_set != int(self.working_set) or not 2 <= self.working_set <= 256:
            raise ValueError("working_set must be a whole number from 2 to 256")

    def _rule(self) -> tuple[str, dict[str, float]]:
        return "adatron", {"eta": float(self.eta or 0.0)}

    def _offset(self, task: Task) -> float:
        return 1.0 if task.bias else 0.0

    def _good(self, worst: float, task: Task) -> bool:
        return task.tol is not None and worst <= task.tol

    def solve(self, task: Task) -> Fit:
        if self.selection == "order":
            return super().solve(task)
        if task.average:
            raise ValueError("average=True needs selection='order'")
        if task.record:
            raise ValueError("record=True needs selection='order'")
        return _solve_sets(self, task)


def _solve_sets(solver: Adatron, task: Task) -> Fit:
    """Working sets on a growing, shuffled prefix of the rows."""
    n = task.n
    single = solver.selection == "largest"
    tol = 1e-3 if task.tol is None else task.tol
    rng = task.rng if task.rng is not None else np.random.default_rng(0)
    order = np.arange(n) if single else rng.permutation(n)
    offset = 1.0 if task.bias and single else 0.0
    columns = task.columns(solver.dtype, offset=offset, order=order)
    upper = task.upper()[order]
    outputs = np.zeros(task.Y.shape)
    fit = Fit(np.zeros(task.Y.shape), np.zeros(len(task.Y)), outputs, 0, 0, True)
    for q, y in enumerate(task.Y):
        machine, good = solve_sets(
            columns,
            y[order],
            upper,
            bias=task.bias and not single,
            size=1 if single else solver.working_set,
            tol=tol,
            epochs=task.epochs,
            grow=not single,
        )
        fit.alpha[q, order] = machine.alpha_
        fit.b[q] = machine.b if machine.bias else offset * machine.alpha_.sum()
        outputs[q, order] = machine.outputs + (machine.b if machine.bias else 0.0)
        fit.t = max(fit.t, machine.n_sets * machine.size)
        fit.n_iter = max(fit.n_iter, -(-fit.t // n))
        fit.converged = fit.converged and good
    fit.columns = {"computed": columns.computed, "hits": columns.hits}
    return fit


def solve_sets(
    columns: Any,
    y: Array,
    upper: Array,
    *,
    bias: bool,
    size: int,
    tol: float,
    epochs: int,
    grow: bool = True,
    start: Array | None = None,
) -> tuple[Any, bool]:
    """A solved `BlockSolver` and whether it reached tol.

    An epoch is as many rows in working sets as there are rows.  Learning begins on a prefix
    of the rows that doubles (`grow`), or on all rows with the coefficients `start`.
    """
    n = columns.n
    machine = BlockSolver(columns, y, upper, bias=bias, size=size)
    budget = max(1, -(-epochs * n // machine.size))
    m = min(n, max(512, n // 8)) if grow and start is None else n
    if start is not None:
        machine.start(start)
    while True:
        machine.grow(m)
        left = max(0, budget - machine.n_sets)
        good = machine.solve(tol if m == n else max(tol, 0.1), max_sets=left)
        if m == n:
            return machine, good
        m = min(n, 2 * m)


@dataclass(frozen=True)
class LaSvm(CachedSolver):
    """LASVM: PROCESS and REPROCESS for each example, then the finishing step.

    Parameters
    ----------
    finish : "all", "active" or False
        The finishing step after each epoch: over all rows, which leads to the support vector
        machine's solution; over the active set, as published; or none.  True is "all".
    """

    name: ClassVar[str] = "lasvm"
    takes: ClassVar[frozenset[str]] = frozenset({"reg", "C", "fit_intercept", "tol"})
    needs_bias: ClassVar[bool] = True
    finish: bool | str = "all"

    def _check(self) -> None:
        if self.finish not in (True, False, "all", "active"):
            raise ValueError("finish must be 'all', 'active' or False")

    def solve(self, task: Task) -> Fit:
        tau = 1e-3 if task.tol is None else task.tol
        columns = task.columns(self.dtype)
        machines = [Lasvm(columns, y, task.upper(), tau) for y in task.Y]
        converged = False
        epochs = 0
        while epochs < task.epochs and not converged:
            epochs += 1
            order = task.order()
            changed = 0
            for machine in machines:
                changed += machine.run(order)
                if self.finish:
                    machine.finish(everywhere=self.finish != "active")
            converged = changed == 0
        b = np.array([machine.b for machine in machines])
        return Fit(
            np.array([machine.alpha for machine in machines]),
            b,
            np.array([machine.outputs for machine in machines]) + b[:, None],
            max(machine.t for machine in machines),
            epochs,
            converged,
            columns={"computed": columns.computed, "hits": columns.hits},
        )


_REGISTRY: Registry[CachedSolver] = Registry(
    "solver", [OlSvm, CachedNorma, Pegaz, Perceptron, Ballseptron, Alma, Adatron, LaSvm]
)


def get(solver: Any, **params: Any) -> CachedSolver:
    """The solver of that name, or the solver given."""
    return _REGISTRY.get(solver, params, CachedSolver, lambda other: None)


def names() -> list[str]:
    """The names that `get` knows."""
    return _REGISTRY.names()


def from_config(config: dict[str, Any]) -> CachedSolver:
    """The solver that `config()` described."""
    return _REGISTRY.from_config(config)


# The public address of the solvers; model files know parts by it.
for _name in __all__:
    if isinstance(globals()[_name], type) and issubclass(globals()[_name], CachedSolver):
        globals()[_name].__module__ = "osvm.solvers"
