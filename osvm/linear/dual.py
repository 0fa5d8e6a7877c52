"""Dual coordinate ascent for linear SVMs, binary and one-vs-rest (recipe `dual_svm`).

Source: Hsieh, Chang, Lin, Keerthi, Sundararajan, "A dual coordinate descent method for
large-scale linear SVM" (ICML 2008); the problem, its dual and the treatment of the
offset stand in `osvm/linear/dual_steps.pxd`, the epochs in `osvm/linear/dual_loop.pyx`.

A fit works on new arrays and hands them over at its end, so that an error leaves the
solver as it was; an interrupt (Ctrl-C) hands over what has been reached.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from osvm._input.rows import RowSource
from osvm.linear.dual_loop import DualProblem, mean_sq_norm
from osvm.linear.weights import ScaledMatrix, ScaledVector

LOSSES = ("hinge", "squared_hinge")
# The multipliers' step for a free offset, as a share of the mean squared norm of the rows:
# 0.01 to 0.3 need about as many epochs, more slows the other steps down.
OFFSET_STEP = 0.1
COLUMNS = ("epoch", "active", "primal", "dual", "gap")


class DualSolver:
    """Dual coordinate ascent on one problem, or on K one-vs-rest problems.

    Minimises ``reg/2 ||w||^2 + 1/n sum_i c_i loss(y_i (w.x_i + b))`` until the duality
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
    keep_alpha : bool
        Keep the dual variables of all K problems (n x K numbers) for a warm start.
        A single problem always keeps them.

    Attributes
    ----------
    weights : ScaledVector or ScaledMatrix
    intercept : float64 array of n_out
    alpha : float64 array, (n,) or (n_out, n), or None
        w = sum_i alpha_i y_i x_i; 0 <= alpha_i <= c_i / (reg n) for the hinge.
    objective_, dual_objective_, dual_gap_ : float64 arrays of n_out
        The objective at the end, the proven lower bound on its minimum, and their
        difference, each by a pass over all rows.
    n_epochs : int64 array of n_out
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
        keep_alpha: bool = False,
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
        self.keep_alpha = bool(keep_alpha) or n_out == 1
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
        self.history: list[dict[str, np.ndarray]] = []

    def fit(
        self,
        X: RowSource,
        y: np.ndarray,
        sample_weight: np.ndarray | None = None,
        *,
        tol: float = 1e-3,
        max_epochs: int = 1000,
        check_every: int = 0,
        warm_start: bool = False,
        callback: Callable[[int, dict[str, float]], Any] | None = None,
        n_jobs: int = 1,
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
            Epochs are cheap where most rows have been set aside.
        check_every : int
            Compute the true gap at least every so many epochs (0: when the estimate says
            that `tol` is near, and at the end).
        warm_start : bool
            Start from the dual variables of the last fit, which saw as many rows.
        callback : callable or None
            ``callback(output, {"epoch": ..., "active": ..., "primal": ..., "dual": ...,
            "gap": ...})`` after each epoch; an output's problem ends where it returns
            True.
        n_jobs : int
            Threads for the K problems.  The result does not depend on it.

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
                bias_sq = OFFSET_STEP * mean_sq_norm(X, sq) or 1.0
            else:
                bias_sq = float(self.intercept_scaling) ** 2
        options = {
            "weight": weight,
            "sq": sq,
            "bias_sq": bias_sq,
            "start": start,
            "tol": tol,
            "max_epochs": max_epochs,
            "check_every": check_every,
            "callback": callback,
        }
        run = _Run(self, X, y, options)
        try:
            if n_jobs > 1 and self.n_out > 1:
                mean_sq_norm(X, sq, every=1)  # the threads share the norms
                run.in_threads(n_jobs)
            else:
                for k in range(self.n_out):
                    run.solve(k)
        except KeyboardInterrupt:
            run.hand_over()
            raise
        run.hand_over()
        return self

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

    # ------------------------------------------------------------ saving

    def get_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """(scalars, arrays) that `from_state` turns back into an equal solver."""
        scalars: dict[str, Any] = {name: getattr(self, name) for name in _PARAMETERS}
        scalars["dtype"] = self.dtype.name
        arrays = {name: getattr(self, name).copy() for name in _RESULTS}
        if self.alpha is not None:
            arrays["alpha"] = self.alpha.copy()
        scalars["weights"], weights = self.weights.get_state()
        arrays.update({f"weights_{name}": a for name, a in weights.items()})
        return scalars, arrays

    @staticmethod
    def from_state(scalars: dict[str, Any], arrays: dict[str, np.ndarray]) -> DualSolver:
        self = DualSolver(dtype=scalars["dtype"], **{k: scalars[k] for k in _PARAMETERS})
        kind = ScaledVector if self.n_out == 1 else ScaledMatrix
        weights = {
            name.removeprefix("weights_"): a
            for name, a in arrays.items()
            if name.startswith("weights_")
        }
        self.weights = kind.from_state(scalars["weights"], weights)
        for name in _RESULTS:
            setattr(self, name, arrays[name].copy())
        self.alpha = arrays["alpha"].copy() if "alpha" in arrays else None
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return DualSolver.from_state, self.get_state()


_PARAMETERS = (
    "n_features",
    "n_out",
    "reg",
    "loss",
    "fit_intercept",
    "intercept_scaling",
    "shrinking",
    "shuffle",
    "seed",
    "keep_alpha",
)
_RESULTS = (
    "intercept",
    "objective_",
    "dual_objective_",
    "dual_gap_",
    "n_epochs",
    "converged",
)


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
        self.alpha = np.zeros((n_out, X.n_rows)) if solver.keep_alpha else None
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
        alpha = np.zeros(n) if self.alpha is None else self.alpha[k]
        if o["start"] is not None:
            alpha[:] = o["start"][k]
        problem = DualProblem(
            self.X,
            y,
            o["weight"],
            solver.reg,
            solver.loss == "squared_hinge",
            solver.shrinking,
            solver.shuffle,
            o["bias_sq"],
            solver.fit_intercept and solver.intercept_scaling is None,
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

        r = self.results
        try:
            r["n_epochs"][k], r["converged"][k] = problem.solve(
                o["tol"], o["max_epochs"], o["check_every"], self.history[k], report
            )
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
        solver.alpha = self.alpha
        if self.alpha is not None and solver.n_out == 1:
            solver.alpha = self.alpha[0]
        for name, values in self.results.items():
            setattr(solver, name, values)
        solver.history = [
            dict(zip(COLUMNS, map(np.array, zip(*rows)))) if rows else {} for rows in self.history
        ]
