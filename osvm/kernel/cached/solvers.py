"""The learners with cached outputs as named parts: what `SVC(solver=...)` takes.

Each solver is a frozen dataclass with the parameters that only it has; what all share (C,
kernel, max_iter, ...) comes in a `Task`.  `solve` returns a `Fit`.

Sources: Kecman and Melki, "Fast online algorithms for support vector machines", lists 1, 2,
3a, 3b; the algorithms surveyed by Vishwanathan, Schraudolph and Smola (JMLR 2006), section 3.

Invariants
- one task has one or more outputs (rows of Y, -1 and +1); all share the kernel columns;
- one pass of a sequential solver needs no column twice, so it keeps none;
- a solver to a tolerance says whether it reached it (`Fit.converged`), others make a number
  of passes, one unless `max_iter` says more.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from osvm._input.parameters import check_bool, check_integer
from osvm._parts.registry import Part, Registry, check_number
from osvm.kernel.cached.block_problems import most_passes, solve_sets
from osvm.kernel.cached.lasvm import Lasvm
from osvm.kernel.cached.resting import Resting, can_rest
from osvm.kernel.cached.sequential import OnlineLoop
from osvm.kernel.cached.task import FEW_ROWS, Fit, Task

__all__ = [
    "Adatron",
    "Alma",
    "Ballseptron",
    "CachedSolver",
    "LaSvm",
    "Norma",
    "OlSvm",
    "Pegaz",
    "Perceptron",
    "VotedPerceptron",
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
    dtype : "float32" or "float64", optional
        Type of the kernel columns; None is float64 for few rows (2,048) or a small `tol`
        (1e-4), else float32.
    """

    dtype: str | None = None

    # options of the estimator that some solvers read and others do not (`kernel/options.py`)
    takes: ClassVar[frozenset[str]] = frozenset({"C"})

    def __post_init__(self) -> None:
        if self.dtype not in (None, "float32", "float64"):
            raise ValueError(f"{self.name}: dtype must be 'float32', 'float64' or None")
        for field in dataclasses.fields(self):
            if field.type == "bool":
                check_bool(f"{self.name}: {field.name}", getattr(self, field.name))
        self._check()

    def _check(self) -> None:
        """Raise for parameters out of range."""

    def solve(self, task: Task) -> Fit:
        raise NotImplementedError

    def type_of_halves(self, task: Task) -> str | None:
        """Type of the columns that `task.halves` may have; None: they would not be read."""
        return None


# ------------------------------------------------------------- one after another


@dataclass(frozen=True)
class Sequential(CachedSolver):
    """Solvers that run `osvm.kernel.cached.sequential.OnlineLoop`.

    Parameters
    ----------
    shuffle : bool
        Visit the rows in a new random order in each pass.
    average : bool
        Predict by the average of the coefficients over all steps.
    record : bool
        Keep `history_`, one entry per example (of the first output).
    keep_outputs : bool
        Keep the outputs of all training rows (`outputs_`) in a single pass too.  Without,
        a single pass leaves out those of rows that it has visited, and needs half of the
        kernel values; several passes keep them anyway.
    """

    shuffle: bool = True
    average: bool = False
    record: bool = False
    keep_outputs: bool = False

    stops_early: ClassVar[bool] = True  # a pass without a change ends learning

    def _rule(self) -> tuple[str, dict[str, float]]:
        raise NotImplementedError

    def _wants_corrections(self) -> bool:
        return False

    def _bias(self) -> bool:
        """Is an offset learnt by steps of its own?"""
        return bool(getattr(self, "fit_intercept", False))

    def _offset(self) -> float:
        """What is added to every kernel value."""
        return 0.0

    def _in_sets(self) -> bool:
        """Are rows chosen by their violations, instead of in turn?"""
        return False

    def _passes(self, task: Task) -> int:
        return 1 if task.max_iter == -1 else task.max_iter

    def solve(self, task: Task) -> Fit:
        rule, options = self._rule()
        offset, passes = self._offset(), self._passes(task)
        once = passes == 1 and not self.keep_outputs
        # a single pass goes through the rows from the last to the first
        order = task.order(self.shuffle)[::-1] if once else None
        columns = task.columns(
            self.dtype, offset=offset, order=order, max_columns=1 if passes == 1 else None
        )
        loop = OnlineLoop(
            columns,
            task.Y if order is None else task.Y[:, order],
            rule,
            task.C,
            weights=task.weights if order is None or task.weights is None else task.weights[order],
            bias=self._bias(),
            average=self.average,
            record=self.record,
            keep_corrections=self._wants_corrections(),
            **options,
        )
        made, stopped = 0, False
        while made < passes and not stopped:
            made += 1
            changes, worst = loop.run_once() if once else loop.run(task.order(self.shuffle))
            if task.progress is not None:
                loss, mistakes = loop.progress
                task.progress.update(task.n * made * len(task.Y), loss=loss, errors=mistakes)
            stopped = (changes == 0 and self.stops_early) or self._good(worst, task)
        alpha, b = loop.alpha_, loop.bias_
        if order is not None:
            alpha = np.empty_like(alpha)
            alpha[:, order] = loop.alpha_
        votes = None
        if self._wants_corrections():
            votes = [_votes(y, np.concatenate(c), order, int(loop.t.max()), task.weights)
                     for y, c in zip(task.Y, loop.corrections)]  # fmt: skip
        if offset:
            b = offset * alpha.sum(axis=1)
        return task.result(
            alpha,
            b,
            outputs=None if once else loop.outputs_,
            t=int(loop.t.max()),
            n_iter=made,
            converged=stopped if "tol" in self.takes else None,
            history=_history(loop) if self.record else None,
            votes=votes,
            voted_bias=self._bias(),
            columns={"computed": columns.computed, "hits": columns.hits},
        )

    def _good(self, worst: float, task: Task) -> bool:
        return False


def _votes(y: Array, changes: Any, order: Any, t: int, weights: Array | None) -> Array:
    """(row, what was added to its coefficient, steps survived) of every change (row, t)."""
    rows = changes[:, 0] if order is None else order[changes[:, 0]]
    added = y[rows] * (1.0 if weights is None else weights[rows])
    return np.stack([rows, added, np.diff(np.append(changes[:, 1], t + 1))], axis=1)


def _history(loop: Any) -> dict[str, Array]:
    """One entry per example from the loop's trace (eta, y f, support, b)."""
    eta, score, support, _ = np.concatenate(loop.trace).T
    mistakes = np.cumsum(score <= 0)
    return {
        "eta": eta.copy(),
        "loss": np.maximum(0.0, 1.0 - score),
        "error": mistakes / np.arange(1, len(score) + 1),
        "support": support.astype(np.int64),
    }


@dataclass(frozen=True)
class OlSvm(Sequential):
    """OL SVM, list 3b (hinge loss alone) or 3a (``regularized=True``); eta = C sqrt(2/t).

    ``fit_intercept=True`` learns an offset by the same steps, (6) and (7).
    """

    name: ClassVar[str] = "ol_svm"
    regularized: bool = False
    fit_intercept: bool = False

    def _rule(self) -> tuple[str, dict[str, float]]:
        return ("ol_svm_regularized" if self.regularized else "ol_svm"), {}


@dataclass(frozen=True)
class Norma(Sequential):
    """NORMA, list 1: all coefficients shrink by 1 - eta/C; ``printed=True`` as printed."""

    name: ClassVar[str] = "norma"
    stops_early: ClassVar[bool] = False
    printed: bool = False
    fit_intercept: bool = False

    def _rule(self) -> tuple[str, dict[str, float]]:
        return ("norma_printed" if self.printed else "norma"), {}


@dataclass(frozen=True)
class Pegaz(Sequential):
    """Pegaz, list 2: alpha = eta beta, beta counts violations."""

    name: ClassVar[str] = "pegaz"
    stops_early: ClassVar[bool] = False
    fit_intercept: bool = False

    def _rule(self) -> tuple[str, dict[str, float]]:
        return "pegaz", {}


@dataclass(frozen=True)
class Perceptron(Sequential):
    """Kernel perceptron: a mistake adds y to the row's coefficient."""

    name: ClassVar[str] = "perceptron"
    takes: ClassVar[frozenset[str]] = frozenset()
    fit_intercept: bool = False

    def _rule(self) -> tuple[str, dict[str, float]]:
        return "perceptron", {}


@dataclass(frozen=True)
class VotedPerceptron(Perceptron):
    """Voted perceptron: all iterates vote, each weighted by the steps it survived."""

    name: ClassVar[str] = "voted_perceptron"

    def _check(self) -> None:
        if self.average:
            raise ValueError("voted_perceptron: iterates vote; Perceptron(average=True) averages")

    def _wants_corrections(self) -> bool:
        return True


@dataclass(frozen=True)
class Ballseptron(Sequential):
    """Ballseptron: learns the worst point of a ball of this radius that meets the boundary."""

    name: ClassVar[str] = "ballseptron"
    takes: ClassVar[frozenset[str]] = frozenset()
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
    takes: ClassVar[frozenset[str]] = frozenset()
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
    working_set : int, optional
        Rows in a set, at most 256.  By default 256 where a single output has many rows of
        more than eight features, whose kernel values are best computed in large blocks; else
        128.
    fit_intercept : bool
        With ``selection="blocks"`` the support vector machine's own offset, and steps move
        weight between pairs of rows; where rows are taken singly it is that of a constant
        feature (it is regularized with the rest).
    """

    name: ClassVar[str] = "adatron"
    takes: ClassVar[frozenset[str]] = frozenset({"C", "tol"})
    selection: str = "blocks"
    eta: float | None = None
    working_set: int | None = None
    fit_intercept: bool = True

    def _check(self) -> None:
        if self.selection not in ("order", "largest", "blocks"):
            raise ValueError("selection must be 'order', 'largest' or 'blocks'")
        if self.eta is not None:
            check_number(self.name, "eta", self.eta, above=0.0)
        if self.selection != "order":
            for key in ("eta", "average", "record"):
                if getattr(self, key):
                    raise ValueError(f"adatron: {key} needs selection='order'")
        if self.working_set is not None:
            check_integer("working_set", self.working_set, 2, 256)

    def _rule(self) -> tuple[str, dict[str, float]]:
        return "adatron", {"eta": float(self.eta or 0.0)}

    def _bias(self) -> bool:
        return self.fit_intercept and self.selection == "blocks"

    def _offset(self) -> float:
        return 1.0 if self.fit_intercept and self.selection != "blocks" else 0.0

    def _in_sets(self) -> bool:
        return self.selection != "order"

    def _passes(self, task: Task) -> int:
        return most_passes(task.n) if task.max_iter == -1 else task.max_iter

    def _good(self, worst: float, task: Task) -> bool:
        return worst <= task.tol

    def _column_type(self, task: Task) -> str:
        few = FEW_ROWS // 8 if self.selection == "blocks" else FEW_ROWS
        return task.column_type(self.dtype, few)

    def type_of_halves(self, task: Task) -> str | None:
        dtype = self._column_type(task)
        can_use = self.selection == "blocks" and self.shuffle and not can_rest(task, dtype)
        return dtype if can_use else None

    def solve(self, task: Task) -> Fit:
        if self.selection == "order":
            return super().solve(task)
        dtype = self._column_type(task)
        alone = self.selection == "blocks" and task.halves is None
        if alone and self.shuffle and can_rest(task, dtype):
            return self._solve_resting(task, dtype)
        order = task.order(self.shuffle and alone)
        columns = task.columns(dtype, offset=self._offset(), order=order)
        upper, shape = task.upper()[order], task.Y.shape
        alpha, outputs, b = np.zeros(shape), np.zeros(shape), np.zeros(len(task.Y))
        machines, good = self.solve_all(
            columns, task.Y[:, order], upper, tol=task.tol, passes=self._passes(task), grow=alone
        )
        for q, machine in enumerate(machines):
            alpha[q, order] = machine.alpha_
            b[q] = machine.b if machine.bias else columns.offset * machine.alpha_.sum()
            outputs[q, order] = machine.outputs + (machine.b if machine.bias else 0.0)
        visited = np.array([machine.n_sets * machine.size for machine in machines])
        if task.progress is not None:
            margin = task.Y * outputs
            task.progress.update(
                margin.size, loss=np.maximum(0, 1 - margin).sum(), errors=np.sum(margin <= 0)
            )
        found = {"computed": columns.computed, "hits": columns.hits}
        return task.result(
            alpha,
            b,
            outputs=outputs,
            t=int(visited.max()),
            n_iter=-(-visited // task.n),
            converged=all(good),
            columns=found,
        )

    def _solve_resting(self, task: Task, dtype: str) -> Fit:
        """One output of more rows than the cache has room for."""
        upper, passes = task.upper(), self._passes(task)

        def learn_first(columns: Any, rows: Array) -> Any:
            (machine,), _ = self.solve_all(
                columns, task.Y[:, rows], upper[rows], tol=max(task.tol, 0.1), passes=passes
            )
            return machine

        problem = Resting(task, upper, self._bias(), dtype)
        size = self.working_set or 256
        good = problem.solve(learn_first, size, max(1, -(-passes * task.n // size)))
        if task.progress is not None:
            task.progress.update(problem.n_sets * size, loss=None)
        return task.result(
            problem.alpha[None, :],
            np.array([problem.b]),
            t=problem.n_sets * size,
            n_iter=-(-problem.n_sets * size // task.n),
            converged=good,
            columns=problem.stats,
        )

    def solve_all(
        self, columns: Any, Y: Array, upper: Array, **options: Any
    ) -> tuple[list[Any], list[bool]]:
        """All outputs by working sets on a growing prefix of the rows; see `solve_sets`."""
        size = 1 if self.selection == "largest" else self.working_set
        return solve_sets(columns, Y, upper, bias=self._bias(), size=size, **options)


@dataclass(frozen=True)
class LaSvm(CachedSolver):
    """LASVM: PROCESS and REPROCESS for each example, then the finishing step.

    Parameters
    ----------
    finish : "all", "active" or False
        The finishing step after each pass: over all rows, which leads to the support vector
        machine's solution; over the active set, as published; or none.  True is "all".
    shuffle : bool
        Visit the rows in a new random order in each pass.
    admit : "violators" or "all"
        Which rows PROCESS lets into the active set: those that make a step with an active
        row, or every row, as Bordes et al. (2005) print it.
    """

    name: ClassVar[str] = "lasvm"
    takes: ClassVar[frozenset[str]] = frozenset({"C", "tol"})
    finish: bool | str = "all"
    shuffle: bool = True
    admit: str = "violators"

    def _check(self) -> None:
        if self.admit not in ("violators", "all"):
            raise ValueError(f"admit must be 'violators' or 'all', got {self.admit!r}")
        if self.finish not in (True, False, "all", "active"):
            raise ValueError("finish must be 'all', 'active' or False")

    def solve(self, task: Task) -> Fit:
        columns = task.columns(self.dtype)
        machines = [
            Lasvm(columns, y, task.upper(), task.tol, admit_all=self.admit == "all")
            for y in task.Y
        ]
        everywhere = self.finish in (True, "all")
        most = 1 if task.max_iter == -1 else task.max_iter
        made, changed, good = 0, 1, everywhere
        while made < most and changed:
            made, changed, good = made + 1, 0, everywhere
            order = task.order(self.shuffle)
            for machine in machines:
                changed += machine.run(order)
                if self.finish:
                    machine.finish(everywhere=everywhere)
                    good = good and machine.finished
            if task.progress is not None:
                task.progress.update(task.n * made * len(machines), loss=None)
        b = np.array([machine.b for machine in machines])
        return task.result(
            np.array([machine.alpha for machine in machines]),
            b,
            outputs=np.array([machine.outputs for machine in machines]) + b[:, None],
            t=max(machine.t for machine in machines),
            n_iter=made,
            converged=good or not changed if everywhere else None,
            columns={"computed": columns.computed, "hits": columns.hits},
        )


_REGISTRY: Registry[CachedSolver] = Registry(
    "solver",
    [OlSvm, Norma, Pegaz, Perceptron, VotedPerceptron, Ballseptron, Alma, Adatron, LaSvm],
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
