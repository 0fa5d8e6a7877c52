"""The plane that the linear family learns, as a kernel machine.

As a Gaussian widens it becomes a plane, but stochastic gradients learn planes slowly with wide
Gaussians, whose rows all look alike.  So `fit` lets the plane of `LinearClassifier`, or of
`LinearRegressor`, compete with Gaussians (`choice.PLANE`).  It is kept as an expansion with one
term for each output, of the kernel gamma x.z, a polynomial of degree 1.

Invariants
- scores are those of the linear learner, to rounding: rows are kept in float64;
- the linear learner's own state is not kept, and it warns of nothing;
- a class that the rows learnt lack has the score -1.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from osvm import losses, schedules
from osvm._input.types import Array
from osvm.exceptions import ConvergenceWarning
from osvm.kernel.batch import Batch
from osvm.kernel.buffer.machine import BufferMachine
from osvm.kernel.buffer.measures import sample_rows
from osvm.kernels import Kernel, Polynomial


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


def warn_grown_plane() -> None:
    """Warn of new labels for a plane that `fit` has taken: no more than planes will tell them."""
    warnings.warn(
        "fit has taken a plane (see kernel_), and new labels come: planes learn them worse than a "
        "Gaussian would; fit again with these labels, or fit with gamma='scale' before a stream",
        ConvergenceWarning,
        stacklevel=2,
    )


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


def _fill(state: Any, kernel: Any, coef: Array, intercept: Array) -> None:
    """Make rows of weights, at most 1 in size, and one of zeros the terms of a new state."""
    size = np.abs(coef).max(axis=1, initial=0.0)
    size[size == 0.0] = 1.0
    rows: Any = coef / size[:, None]
    alpha = np.diag(size / kernel.gamma)
    if kernel.coef0:
        rows = np.vstack([rows, np.zeros_like(rows[:1])])
        alpha = np.vstack([alpha, intercept / kernel.coef0 - alpha.sum(axis=0)])
        intercept = np.zeros(len(intercept))
    n, sq = len(rows), np.einsum("ij,ij->i", rows, rows)
    scalars, arrays = state.get_state()
    scalars |= {"n": n, "births": n}
    nothing = np.zeros(n, np.intp)
    arrays |= {"start": nothing, "length": nothing, "ids": nothing - 1, "birth": np.arange(n)}
    arrays |= {"sq": sq, "k_self": kernel.gamma * sq + kernel.coef0}
    arrays |= {"A": alpha, "B": np.zeros_like(alpha), "intercept": np.array(intercept)}
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
