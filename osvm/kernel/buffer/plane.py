"""The plane that the linear family learns, as a kernel machine.

As a Gaussian widens it becomes a plane, but stochastic gradients learn planes slowly with wide
Gaussians, whose rows all look alike.  So `fit` lets the plane of `LinearClassifier`, or of
`LinearRegressor`, compete with Gaussians (`choice.PLANE`).  It is kept as an expansion with one
term for each output, of the kernel gamma x.z, a polynomial of degree 1.

Invariants
- scores are those of the linear learner, to rounding: rows are kept in float64;
- the linear learner's own state is not kept, and it warns of nothing;
- a class that the rows learnt lack has the score -1;
- a stream that goes on learns the plane without loss, whatever the budget (`make_room`);
- a stream that goes on from a plane may bend: a Gaussian of the trial learns beside the plane, and
  is the machine once it errs less.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from osvm import losses, schedules
from osvm._input.types import Array
from osvm.kernel.batch import Batch
from osvm.kernel.buffer.machine import BufferMachine
from osvm.kernel.buffer.measures import sample_rows
from osvm.kernel.buffer.plan import Plan
from osvm.kernels import Kernel, Polynomial

LARGEST_GAP = 1e6  # between two errors
AHEAD = 4.0  # standard deviations


def can_be_plane(model: Any, loss: Any, n_outputs: int, budget: int) -> bool:
    """Whether the plane may compete: no parameter is given that its learner does not read."""
    given = ("reg", "C", "nu", "eta0", "average", "label_kernel")
    return (
        loss == (losses.Hinge() if model._task == "classify" else losses.EpsilonInsensitive())
        and all(getattr(model, name, None) is None for name in given)
        and schedules.get(model.schedule) == schedules.get("bottou")
        and not model.record
        and (budget < 0 or n_outputs < budget)
    )


def plane_kernel(kernel: Kernel, X: Any, constant: bool) -> Polynomial:
    """The kernel of planes; gamma x.x is 1 in the mean over the rows, as a Gaussian's k(x, x) is.

    With a `constant` f has the plane's offset; else the machine has one, or none is learnt.
    """
    rows = X[sample_rows(X.shape[0], 1000)].astype(np.float64)
    values = rows.data if hasattr(rows, "indptr") else rows
    with np.errstate(over="ignore"):
        square = float(np.square(values).sum()) / rows.shape[0]
    gamma = 1.0 / square if 1e-300 < square < 1e300 else kernel.gamma  # type: ignore[attr-defined]
    return Polynomial(gamma=gamma, coef0=float(constant), degree=1)


def is_plane(kernel: Kernel) -> bool:
    return isinstance(kernel, Polynomial) and kernel.degree == 1


def told_errors(answers: Array, batch: Batch, unit: float) -> Array:
    """Of what a machine has said of rows before it learnt them."""
    if batch.targets is not None:
        errors = np.abs(answers - batch.targets) / unit
    else:
        errors = (answers != batch.labels).astype(np.float64)
    return errors if batch.weights is None else errors * batch.weights


def follow_lead(
    lead: tuple[float, float], plane: Array, gaussian: Array
) -> tuple[tuple[float, float], bool]:
    """How far a Gaussian is ahead, row after row of a stream, and whether that was never chance.

    `plane` and `gaussian` are the errors on rows that neither had learnt.  What the Gaussian has
    saved since it was last behind (Page's cumulative sum), and the squares of these numbers; it
    is ahead by more than chance from four standard deviations on, were neither better.
    """
    gaps = np.clip(plane - gaussian, -LARGEST_GAP, LARGEST_GAP)
    if not gaps.any():
        return lead, False
    total, squares = lead[0] + np.cumsum(gaps), lead[1] + np.cumsum(np.square(gaps))
    lowest = np.minimum(np.minimum.accumulate(total), 0.0)
    squares -= np.maximum.accumulate(np.where(total <= lowest, squares, 0.0))
    total -= lowest
    is_ahead = bool((np.square(total) > AHEAD**2 * squares).any())
    return (float(total[-1]), float(max(0.0, squares[-1]))), is_ahead


def plane_options(plan: Plan, verbose: bool | int = False) -> dict[str, Any]:
    """Options of the linear learner; the seed of trials is 0."""
    # an offset is learnt unless there is to be none
    return {"random_state": 0, "fit_intercept": plan.offset or plan.set_offset, "verbose": verbose}


def learn_plane(
    machine: BufferMachine, batch: Batch, options: dict[str, Any]
) -> BufferMachine | None:
    """Fill a new machine with the plane that fits the rows; None where there is none.

    `options` are those of the linear learner.
    """
    from osvm import linear

    state, numbers = machine.state, batch.task == "regress"
    plane = (linear.LinearRegressor if numbers else linear.LinearClassifier)(**options)
    plane._n_siblings = 1  # whose owner warns
    try:
        plane.fit(batch.X, batch.targets if numbers else batch.labels, batch.weights)
        _fill(state, machine.kernel, *_weights(plane, state.n_outputs))
    except (ValueError, FloatingPointError):  # one class in these rows, or numbers too large
        return None
    return machine


def _weights(plane: Any, n_outputs: int) -> tuple[Array, Array]:
    """A row of weights and an offset for each output."""
    coef = np.atleast_2d(np.asarray(plane.coef_, np.float64))
    intercept = np.broadcast_to(np.asarray(plane.intercept_, np.float64), len(coef))
    if len(coef) == n_outputs:
        return coef, intercept
    if len(coef) == 1:
        coef, intercept = np.vstack([-coef, coef]), np.append(-intercept, intercept)
    full, offsets = np.zeros((n_outputs, coef.shape[1])), np.full(n_outputs, -1.0)
    full[plane.classes_], offsets[plane.classes_] = coef, intercept
    return full, offsets


def make_room(machine: BufferMachine) -> bool:
    """Write a plane whose buffer is full, and its running mean, with a row for each output.

    Eviction would lose what a row has told; weights hold it all.  False: there is no room even so.
    """
    state, kernel = machine.state, machine.kernel
    n_functions = 1 + state.average
    if not 0 <= n_functions * state.n_outputs + 1 < state.budget:
        return False
    rows, coefficients = state.support_vectors(), [state.alpha(), state.beta()][:n_functions]
    gamma, coef0 = kernel.gamma, kernel.coef0  # type: ignore[attr-defined]
    _set_terms(
        state, kernel, [(gamma * (rows.T @ a).T, coef0 * a.sum(axis=0)) for a in coefficients]
    )
    return True


def _fill(state: Any, kernel: Any, coef: Array, intercept: Array) -> None:
    """Make weights and offsets the terms of a new state."""
    _set_terms(state, kernel, [(coef, intercept)])
    if not kernel.coef0:
        state.intercept[:] = intercept


def _set_terms(state: Any, kernel: Any, functions: list[tuple[Array, Array]]) -> None:
    """Make f, and its mean while averaging, sums over rows of weights, at most 1 in size.

    Where the kernel has a constant, one more row, of zeros, has that of each function.
    """
    K, is_constant = state.n_outputs, int(bool(kernel.coef0))
    n, parts, terms = len(functions) * K + is_constant, [], []
    for number, (coef, constant) in enumerate(functions):
        size = np.abs(coef).max(axis=1, initial=0.0)
        size[size == 0.0] = 1.0
        parts.append(coef / size[:, None])
        alpha = np.zeros((n, K))
        alpha[number * K : (number + 1) * K] = np.diag(size / kernel.gamma)
        if is_constant:
            alpha[-1] = constant / kernel.coef0 - alpha.sum(axis=0)
        terms.append(alpha)
    rows: Any = np.vstack([*parts, np.zeros((is_constant, state.n_features))])
    sq = np.einsum("ij,ij->i", rows, rows)
    scalars, arrays = state.get_state()
    scalars |= {"n": n, "births": n, "head": 0, "n_victims": 0, "a": 1.0, "p": 0.0, "q": 1.0}
    arrays = {name: array for name, array in arrays.items() if "victim" not in name}
    nothing = np.zeros(n, np.intp)
    arrays |= {"start": nothing, "length": nothing, "ids": nothing - 1, "birth": np.arange(n)}
    arrays |= {"sq": sq, "k_self": kernel.gamma * sq + kernel.coef0}
    arrays |= {"A": terms[0], "B": terms[1] if len(terms) > 1 else np.zeros((n, K))}
    arrays |= {"size": np.zeros(n), "row_sq": np.square(kernel(rows)).sum(axis=1)}
    if state.sparse:
        rows = sp.csr_matrix(rows)
        arrays |= {"values": rows.data, "columns": rows.indices.astype(np.int32)}
        arrays |= {"start": rows.indptr[:-1].astype(np.intp)}
        arrays |= {"length": np.diff(rows.indptr).astype(np.intp)}
    else:
        arrays["X"] = rows
    state.set_state(scalars, arrays)
    state.refresh()
