"""`LinearClassifier(solver="dual")`: the estimator's side of dual coordinate ascent.

The solver needs all rows at once and proves how near the optimum it is
(`osvm/linear/dual.py`).  Its weights are handed to an ordinary learner, so that prediction,
model files and a later `partial_fit` are the same as after SGD.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from osvm._input.parameters import make_generator
from osvm.exceptions import ConvergenceWarning
from osvm.linear import options
from osvm.linear.dual import LOSSES, DualSolver
from osvm.linear.learner import SGDLearner
from osvm.linear.plan import Plan
from osvm.linear.training import Examples

__all__ = ["DEFAULT_TOL", "check_dual", "fit_dual"]

# Relative duality gap when `tol` is None.
DEFAULT_TOL = 1e-3


def check_dual(model: Any, plan: Plan) -> None:
    """Refuse what only SGD can do."""
    if plan.loss.name not in LOSSES:
        raise ValueError(
            f"solver='dual' is for the losses {list(LOSSES)}, not {plan.loss.name!r}; use "
            "solver='sgd'"
        )
    if plan.reg <= 0:
        raise ValueError("solver='dual' needs reg > 0")
    options.refuse("dual", options.asked(model))


def fit_dual(
    model: Any, plan: Plan, data: Examples, shape: tuple[int, Any]
) -> tuple[SGDLearner, dict[str, Any]]:
    """Solve the problem; the learner that holds the result, and attributes to store."""
    check_dual(model, plan)
    (n_out, dtype), source = shape, data.X
    tol = DEFAULT_TOL if model.tol is None else model.tol
    # float32 weights cannot come closer than a gap of about 1e-5.
    precise = np.float64 if tol < 1e-4 else dtype
    seed = int(make_generator(model.random_state).integers(2**63))
    n_jobs = model.n_jobs or 1
    if n_jobs < 0:
        import os

        n_jobs = os.cpu_count() or 1
    solver = DualSolver(
        source.n_features,
        n_out,
        reg=plan.reg,
        loss=plan.loss.name,
        dtype=precise,
        fit_intercept=plan.fit_intercept,
        shuffle=bool(model.shuffle),
        seed=seed,
    )
    solver.fit(
        source,
        data.targets,
        data.weight,
        tol=tol,
        max_epochs=model.epochs,
        n_jobs=n_jobs,
        callback=_report(model),
    )
    if not solver.converged.all():
        worst = float(np.max(solver.dual_gap_ / np.maximum(solver.objective_, 1e-300)))
        warnings.warn(
            f"the relative duality gap is {worst:.2g} after {model.epochs} epochs, above "
            f"tol={tol:g}: raise epochs, or accept the gap (dual_gap_)",
            ConvergenceWarning,
            stacklevel=4,
        )
    plan_weights = solver.weights.array()
    learner = plan.with_usual_t0().learner(source.n_features, n_out, precise)
    learner.weights.set_array(plan_weights)
    learner.intercept[:] = solver.intercept
    # Later steps of a stream are those of a model that has seen these examples.
    learner.seen = learner.t = float(source.n_rows * int(solver.n_epochs.max()))
    attributes = {
        "n_epochs_": int(solver.n_epochs.max()),
        "objective_": solver.objective_.copy(),
        "dual_gap_": float(solver.dual_gap_[0]) if n_out == 1 else solver.dual_gap_.copy(),
        "dual_coef_": None if solver.alpha is None else solver.alpha.copy(),
        "dual_history_": solver.history,
    }
    return learner, attributes


def _report(model: Any) -> Any:
    """Lines of progress and the user's callback, per epoch."""
    if not model.verbose and model.callback is None:
        return None

    def report(output: int, row: dict[str, float]) -> bool:
        if model.verbose:
            import sys

            stream = model.verbose if hasattr(model.verbose, "write") else sys.stderr
            if row["epoch"] == 1:
                stream.write(
                    f"{'output':>8} {'epoch':>7} {'active':>10} {'dual':>13} {'gap':>11}\n"
                )
            stream.write(
                f"{output:>8} {int(row['epoch']):>7} {int(row['active']):>10} "
                f"{row['dual']:>13.8f} {row['gap']:>11.3e}\n"
            )
        return model.callback is not None and model.callback(model, row) is True

    return report
