"""Dual coordinate ascent for linear SVMs, binary and one-vs-rest (recipe `dual_svm`).

Source: Hsieh, Chang, Lin, Keerthi, Sundararajan, "A dual coordinate descent method for
large-scale linear SVM" (ICML 2008); the problem, its dual and the treatment of the
offset stand in `osvm/linear/dual_steps.pxd`, the epochs in `osvm/linear/dual_loop.pyx`.
Narrow data that some epochs do not solve go to a method that solves d + 1 equations a step:
`osvm/linear/newton.py` (squared hinge) or `osvm/linear/interior_point.py` (hinge).

A fit works on new arrays and hands them over at its end, so that an error leaves the
solver as it was; an interrupt (Ctrl-C) hands over what has been reached.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from osvm._input.rows import RowSource
from osvm.linear.dual_loop import DualProblem, sample_sq_norms
from osvm.linear.interior_point import interior_point
from osvm.linear.narrow_rows import NarrowRows
from osvm.linear.newton import newton
from osvm.linear.weights import ScaledMatrix, ScaledVector

LOSSES = ("hinge", "squared_hinge")
# The multipliers' step for a free offset, as a share of the median squared norm of the rows:
# a hundredth to a tenth need about as many epochs; raw counts have a few rows whose norm is
# a hundred times the usual one, and a step that goes by those needs ten times as many.
OFFSET_STEP = 0.03
# Nanoseconds of coordinate ascent before a method for narrow data: a constant, and for each row
# a constant, a share of d and one of d^2.  Newton's method goes on from what it is given, so
# that a tenth of its own time is best; an interior-point method starts afresh, and is entered
# after half of its time.
BEFORE_NARROW = {"squared_hinge": (8e4, 0.0, 0.0, 0.025), "hinge": (7.5e5, 420.0, 30.0, 0.28)}
ROW_TIME, VALUE_TIME = 15.0, 0.7  # nanoseconds of a visit
NARROW = 2000  # columns; more would need too much memory
COLUMNS = ("epoch", "active", "primal", "dual", "gap")


class DualSolver:
    """Dual coordinate ascent on one problem, or on K one-vs-rest problems.

    Minimizes ``reg/2 ||w||^2 + 1/n sum_i c_i loss(y_i (w.x_i + b))`` until the duality
    gap proves that the objective is within the fraction `tol` of its minimum.

    Parameters
    ----------
    n_features : int
    n_out : int
        1 for labels -1 and +1; K for labels 0 .. K-1, one problem per label.
    reg : float
        The weight of ``1/2 ||w||^2`` against the mean loss; LIBLINEAR's C is
        ``1 / (reg * n)``.
    loss : {"hinge", "squared_hinge"}
    dtype : float64 or float32
        Type of the weights.  With float32 the relative gap stops falling at about
        1e-5.
    fit_intercept : bool
        Learn an offset b.
    intercept_scaling : float or None
        None leaves b without a penalty: exact, by the method of multipliers.  A
        number s treats b as the weight of a constant feature s, with the penalty
        ``reg/2 (b/s)^2``, as LIBLINEAR does.
    shrinking : bool
        Set rows aside that are unlikely to change.  The result is verified on all rows.
    shuffle : bool
        Visit the rows in random order (in file order otherwise).
    seed : int
    positive : array of n_out, optional
        Weight of the rows of class k in problem k, as LIBLINEAR weighs classes.

    Attributes
    ----------
    weights : ScaledVector or ScaledMatrix
    intercept : float64 array of n_out
    alpha : float64 array, (n,) or (n_out, n)
        w = sum_i alpha_i y_i x_i; 0 <= alpha_i <= c_i / (reg n) for the hinge.
    objective_, dual_objective_, dual_gap_ : float64 arrays of n_out
        The objective at the end, the proven lower bound on its minimum, and their
        difference, each by a pass over all rows.
    n_epochs : int64 array of n_out
        Passes over the rows: a visit of half of them is half a pass.  Steps of the
        interior-point method are added.
    converged : bool array of n_out
        The relative gap ``dual_gap_ / objective_`` reached `tol`.
    history : list of dict
        One per output, with arrays `epoch`, `active` (rows not set aside), `primal`,
        `dual` and `gap`; `primal` and `gap` are NaN where the epoch had no pass over all
        rows, and `dual` then belongs to the problem with the offset's current center.

    Examples
    --------
    >>> import numpy as np
    >>> from osvm.linear.dual import DualSolver
    >>> from osvm._input.rows import RowSource
    >>> X = RowSource.dense(np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> solver = DualSolver(2, reg=0.25).fit(X, np.array([1.0, -1.0]), tol=1e-9)
    >>> solver.weights.array(), solver.objective_
    (array([ 1., -1.]), array([0.25]))
    """

    weights: ScaledVector | ScaledMatrix
    alpha: np.ndarray | None

    def __init__(
        self,
        n_features: int,
        n_out: int = 1,
        *,
        reg: float,
        loss: str = "hinge",
        dtype: Any = np.float64,
        fit_intercept: bool = False,
        intercept_scaling: float | None = None,
        shrinking: bool = True,
        shuffle: bool = True,
        seed: int = 0,
        positive: np.ndarray | None = None,
    ) -> None:
        if not (np.isfinite(reg) and reg > 0.0):
            raise ValueError(f"reg must be positive and finite, got {reg}")
        if loss not in LOSSES:
            raise ValueError(
                f"dual coordinate ascent needs one of the losses {LOSSES}, got {loss!r}"
            )
        if intercept_scaling is not None and not 0.0 < intercept_scaling < np.inf:
            raise ValueError(
                f"intercept_scaling must be None or a positive number, got {intercept_scaling}"
            )
        self.reg, self.loss, self.seed = float(reg), loss, int(seed)
        self.fit_intercept, self.intercept_scaling = bool(fit_intercept), intercept_scaling
        self.shrinking, self.shuffle = bool(shrinking), bool(shuffle)
        self.n_features, self.n_out, self.dtype = int(n_features), int(n_out), np.dtype(dtype)
        self.positive = positive
        self.weights: Any
        if n_out == 1:
            self.weights = ScaledVector(n_features, self.dtype)
        else:
            self.weights = ScaledMatrix(n_features, n_out, self.dtype)
        self.intercept = np.zeros(n_out)
        self.alpha = None
        self.objective_, self.dual_objective_, self.dual_gap_ = np.full((3, n_out), np.nan)
        self.n_epochs = np.zeros(n_out, np.int64)
        self.converged = np.zeros(n_out, bool)
        self._epochs: list[list[tuple]] = []

    def fit(
        self,
        X: RowSource,
        y: np.ndarray,
        sample_weight: np.ndarray | None = None,
        *,
        tol: float = 1e-3,
        max_epochs: int = 1000,
        warm_start: bool = False,
        callback: Callable[[int, dict[str, float]], Any] | None = None,
        n_jobs: int = 1,
        rows: Any = None,
        narrow_first: bool = False,
    ) -> DualSolver:
        """Solve to a relative duality gap of `tol`.

        Parameters
        ----------
        X : RowSource
            Validated rows.
        y : array
            -1.0 and +1.0 for one output, labels 0 .. K-1 for K.
        sample_weight : array or None
            c_i; the loss is ``1/n sum_i c_i loss_i``, whatever the weights sum to.
        tol : float
        max_epochs : int
            Passes over all rows, at most.  An epoch that leaves out the rows that have
            been set aside counts as the part of a pass that it is.
        warm_start : bool
            Start from the dual variables of the last fit, which saw as many rows.
        callback : callable or None
            ``callback(output, {"epoch": ..., "active": ..., "primal": ..., "dual": ...,
            "gap": ...})`` after each epoch; an output's problem ends where it returns
            True.
        n_jobs : int
            Threads for the K problems.  The result does not depend on it.
        rows : array or CSR matrix, optional
            The rows of X; with them, Newton's method (squared hinge) or an interior-point
            method (hinge) solves what coordinate ascent does not, if there are few columns.
        narrow_first : bool
            Begin with that method.

        Returns
        -------
        self
        """
        y, weight = self._check(X, y, sample_weight, tol, max_epochs)
        n = X.n_rows
        start = None
        if warm_start and self.alpha is not None:
            start = np.atleast_2d(self.alpha)
            if start.shape[1] != n:
                raise ValueError(
                    f"warm start: the last fit saw {start.shape[1]} rows, this one {n}"
                )
        sq = np.full(n, -1.0, np.float32)
        bias_sq = 0.0
        if self.fit_intercept:
            if self.intercept_scaling is None:
                norms = sample_sq_norms(X, sq)
                bias_sq = OFFSET_STEP * float(_middle(norms) or norms.mean()) or 1.0
            else:
                bias_sq = float(self.intercept_scaling) ** 2
        options = {
            "weight": weight,
            "sq": sq,
            "bias_sq": bias_sq,
            "start": start,
            "tol": tol,
            "max_epochs": max_epochs,
            "callback": callback,
            "rows": rows,
            "narrow_first": narrow_first,
        }
        run = _Run(self, X, y, options)
        try:
            if n_jobs > 1 and self.n_out > 1:
                sample_sq_norms(X, sq, every=1)  # the threads share the norms
                run.in_threads(n_jobs)
            else:
                for k in range(self.n_out):
                    run.solve(k)
        except KeyboardInterrupt:
            run.hand_over()
            raise
        run.hand_over()
        return self

    @property
    def history(self) -> list[dict[str, np.ndarray]]:
        """For each output, one entry per epoch of what `callback` gets."""
        return [
            dict(zip(COLUMNS, map(np.array, zip(*rows)))) if rows else {} for rows in self._epochs
        ]

    def _check(
        self,
        X: RowSource,
        y: np.ndarray,
        sample_weight: np.ndarray | None,
        tol: float,
        max_epochs: int,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Labels as small integers, weights as float64; refuse what cannot be solved."""
        if X.n_rows < 1:
            raise ValueError("there are no rows to learn from")
        if X.n_features != self.n_features:
            raise ValueError(f"rows have {X.n_features} features, the weights {self.n_features}")
        if not tol >= 0.0:
            raise ValueError(f"tol must not be negative, got {tol}")
        if max_epochs < 1:
            raise ValueError(f"max_epochs must be at least 1, got {max_epochs}")
        y = np.asarray(y)
        if y.shape != (X.n_rows,):
            raise ValueError(f"expected {X.n_rows} labels, got shape {y.shape}")
        if self.n_out == 1:
            valid = np.abs(y) == 1
            codes = y.astype(np.int8)
        else:
            codes = y.astype(np.int32)
            valid = (codes == y) & (codes >= 0) & (codes < self.n_out)
        if not valid.all():
            row = int(np.argmin(valid))
            wanted = "-1 or +1" if self.n_out == 1 else f"0 to {self.n_out - 1}"
            raise ValueError(f"row {row}: the label must be {wanted}, got {y[row]}")
        if sample_weight is None:
            return codes, None
        weight = np.ascontiguousarray(sample_weight, dtype=np.float64)
        if weight.shape != (X.n_rows,):
            raise ValueError(f"expected {X.n_rows} sample weights, got shape {weight.shape}")
        valid = np.isfinite(weight) & (weight >= 0.0)
        if not valid.all():
            row = int(np.argmin(valid))
            raise ValueError(
                f"row {row}: a sample weight must be finite and not negative, got {weight[row]}"
            )
        return codes, weight


_RESULTS = (
    "intercept",
    "objective_",
    "dual_objective_",
    "dual_gap_",
    "n_epochs",
    "converged",
)


def _middle(values: np.ndarray) -> float:
    """The median, which numpy's own function takes as long for as a pass over few rows."""
    values, n = np.sort(values), len(values)
    return 0.5 * (float(values[(n - 1) // 2]) + float(values[n // 2]))


class _Run:
    """The problems of one `fit`, solved one by one or in threads, handed over together."""

    def __init__(self, solver: DualSolver, X: RowSource, y: np.ndarray, options: dict) -> None:
        n_out, size = solver.n_out, (solver.n_features, solver.dtype)
        self.solver, self.X, self.y, self.options = solver, X, y, options
        self.weights: Any = (
            ScaledVector(*size)
            if n_out == 1
            else ScaledMatrix(solver.n_features, n_out, solver.dtype)
        )
        self.alpha = np.zeros((n_out, X.n_rows))
        self.results = {name: np.full(n_out, np.nan) for name in _RESULTS}
        self.results["intercept"] = np.zeros(n_out)
        self.results["n_epochs"] = np.zeros(n_out, np.int64)
        self.results["converged"] = np.zeros(n_out, bool)
        self.history: list[list[tuple]] = [[] for _ in range(n_out)]
        self.problems: dict[int, DualProblem] = {}
        self.stopped = False

    def solve(self, k: int) -> None:
        """Solve problem k; store what there is, also when interrupted."""
        solver, o, n = self.solver, self.options, self.X.n_rows
        single = solver.n_out == 1
        y = self.y if single else np.where(self.y == k, 1, -1).astype(np.int8)
        w: Any = self.weights if single else ScaledVector(solver.n_features, solver.dtype)
        weight = o["weight"]
        if solver.positive is not None:
            own = np.where(y > 0, solver.positive[k], 1.0)
            weight = own if weight is None else own * weight
        r, n_steps = self.results, 0
        used = y if weight is None else y[weight > 0.0]
        free = solver.fit_intercept and solver.intercept_scaling is None
        if free and (len(used) == 0 or used.min() == used.max()):
            # One class alone: the offset meets all margins, and nothing is lost.
            r["intercept"][k] = used[0] if len(used) else 0.0
            for name in ("objective_", "dual_objective_", "dual_gap_"):
                r[name][k] = 0.0
            r["converged"][k] = True
            return
        alpha = self.alpha[k]
        if o["start"] is not None:
            alpha[:] = o["start"][k]
        problem = DualProblem(
            self.X,
            y,
            weight,
            solver.reg,
            solver.loss == "squared_hinge",
            solver.shrinking,
            solver.shuffle,
            o["bias_sq"],
            free,
            w,
            alpha,
            float(solver.intercept[k]) if o["start"] is not None else 0.0,
            o["sq"],
            (solver.seed + 0x9E3779B97F4A7C15 * k) % 2**64,
        )
        problem.stopped = self.stopped
        self.problems[k] = problem
        callback = o["callback"]
        report = None
        if callback is not None:

            def report(*row):
                return callback(k, dict(zip(COLUMNS, row)))

        try:
            most = o["max_epochs"]
            first = min(self.patience(y, weight), most)
            rest = (self.history[k], report)
            ending = problem.solve(o["tol"], first, *rest) if first else "limit"
            if ending == "limit" and first < most:
                n_steps = self.solve_narrow(
                    problem, y, weight, alpha, w.array(), min(100, most - first)
                )
                gap = problem.primal - problem.dual
                row = (len(self.history[k]) + n_steps, n, problem.primal, problem.dual, gap)
                self.history[k].append(row)
                if report is not None and report(*row):
                    ending = "stopped"
                elif gap <= o["tol"] * abs(problem.primal):
                    ending = "solved"
                elif first + n_steps < most:
                    ending = problem.solve(o["tol"], most - n_steps, *rest)
            r["converged"][k] = ending == "solved"
            r["n_epochs"][k] = min(most, -(-problem.n_rows_read // n) + n_steps)
            r["objective_"][k], r["dual_objective_"][k] = problem.primal, problem.dual
            r["dual_gap_"][k] = problem.primal - problem.dual
        except KeyboardInterrupt:
            r["n_epochs"][k] = len(self.history[k])
            raise
        finally:
            r["intercept"][k] = problem.intercept
            problem.finish()
            if not single:
                self.weights.v[:, k] = w.v
                self.weights.sq_v[k] = w.norm**2

    def patience(self, y: np.ndarray, weight: np.ndarray | None) -> float:
        """Passes of coordinate ascent before a method for narrow data."""
        X, rows = self.X, self.options["rows"]
        used = y if weight is None else y[weight > 0.0]
        if rows is None or X.n_features > NARROW or len(used) == 0 or used.min() == used.max():
            return np.inf
        if self.options["narrow_first"]:
            return 0
        n_values = rows.nnz if hasattr(rows, "nnz") else rows.size
        calls, *powers = BEFORE_NARROW[self.solver.loss]
        before = calls + X.n_rows * sum(c * X.n_features**k for k, c in enumerate(powers))
        passes = int(before / (ROW_TIME * X.n_rows + VALUE_TIME * n_values)) + 1
        return min(passes, -(-self.options["max_epochs"] // 2))

    def solve_narrow(
        self, problem: DualProblem, y: Any, weight: Any, alpha: Any, w: Any, max_steps: int
    ) -> int:
        """A method for narrow data, unless its result is worse; the number of its steps."""
        o, solver = self.options, self.solver
        cap = 1.0 / (solver.reg * self.X.n_rows)
        U = np.full(len(y), cap) if weight is None else cap * weight
        used = slice(None) if U.min() > 0.0 else np.flatnonzero(U)
        free = solver.intercept_scaling is None
        before, b = alpha.copy(), problem.intercept
        gap = problem.primal - problem.dual if problem.n_rows_read else np.inf
        A = NarrowRows(
            o["rows"][used],
            y[used].astype(np.float64),
            offset=solver.fit_intercept,
            centered=solver.fit_intercept and free,
        )
        limits = {
            "penalty": 1.0 / o["bias_sq"] if solver.fit_intercept and not free else 0.0,
            "tol": 0.5 * o["tol"],
            "max_steps": max_steps,
        }
        if solver.loss == "squared_hinge":
            start = A.point(w, b)
            alpha[used], u, n_steps = newton(A, U[used], start, **limits)
        else:
            alpha[used], u, n_steps = interior_point(A, U[used], **limits)
        w, offset = (None, b) if u is None else A.solution(u)
        problem.restart(offset, w)
        if not problem.primal - problem.dual <= gap:
            alpha[:] = before
            problem.restart(b)
        return n_steps

    def in_threads(self, n_jobs: int) -> None:
        """Solve all problems in `n_jobs` threads; Ctrl-C reaches every one."""
        with ThreadPoolExecutor(n_jobs) as pool:
            futures = [pool.submit(self.solve, k) for k in range(self.solver.n_out)]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                self.stopped = True
                for future in futures:
                    future.cancel()
                for problem in list(self.problems.values()):
                    problem.stopped = True
                raise

    def hand_over(self) -> None:
        """Give the solver what this run has found."""
        solver = self.solver
        solver.weights = self.weights
        solver.alpha = self.alpha[0] if solver.n_out == 1 else self.alpha
        for name, values in self.results.items():
            setattr(solver, name, values)
        solver._epochs = self.history
