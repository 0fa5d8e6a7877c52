"""Many kernel expansions into one: concatenated, then shrunk to the budget.

    f = sum_i share_i f_i

Rows that several parts hold (those of the model they went on from) are held once, their
coefficients added up.  What is beyond the budget goes by the eviction rule of the machine, one
row at a time, as if the rows had come one after the other.

Invariants
- before anything is evicted, merged scores are the weighted mean of the parts' scores, to
  rounding;
- the same parts in the same order give the same bits.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import scipy.sparse as sp

from osvm._input.types import Array, State
from osvm.kernel.buffer.machine import GAUSSIAN, BufferMachine, copy_machine
from osvm.kernel.buffer.plane import make_room
from osvm.kernel.buffer.schema import CUT_SIZE, TARGETS_SIZE

SIDE = 9  # of the numbers that two classes follow (cut.pxd)
_MEANS = ("eta", "epsilon", "eta_epsilon", "z_epsilon")
_SUMS = ("t", "errors", "loss_sum")
_PER_ROW = ("sq", "k_self", "ids", "start", "length")
EVICTED = {
    "fifo": lambda machine, rows, A, k_self: None,
    "coefficient": lambda machine, rows, A, k_self: np.einsum("ij,ij->i", A, A),
    "term": lambda machine, rows, A, k_self: k_self * _quadratic(machine, A),
    "change": lambda machine, rows, A, k_self: _change(machine, A),
}
EVICTED["merge"] = EVICTED["project"] = EVICTED["term"]  # and what goes is projected


def merge_machines(
    machines: list[BufferMachine],
    shares: Array,
    base: BufferMachine | None,
    transfers: list[Array],
) -> State:
    """The state (`BufferMachine.get_state`) of the merged machine.

    Parameters
    ----------
    machines : list
    shares : array
        They add up to 1.
    base : BufferMachine, optional
        That all of them went on from: examples, losses and errors count from there.
    transfers : list of (K_i, K) arrays
        From the outputs of each machine to those of the merged one.
    """
    kinds = {machine.kernel.name for machine in machines}
    if len(kinds) > 1:  # a Gaussian has taken over in some parts: all have one
        machines = [machine.gaussian or machine for machine in machines]
    elif all(machine.gaussian is not None for machine in machines):
        machines = [copy_machine(machine) for machine in machines]
        for machine in machines:  # nothing of a plane need go
            make_room(machine)
    scalars, arrays = _merged(machines, shares, base, transfers)
    if any(machine.gaussian is None for machine in machines):
        return scalars, arrays
    start = (0.0, 0.0) if base is None else base.lead
    leads = np.array([machine.lead for machine in machines]) - start
    lead = np.maximum(0.0, start + leads.sum(axis=0)).tolist()
    scalars["lead"], scalars["lead_squares"] = lead
    gaussians = [machine.gaussian for machine in machines if machine.gaussian is not None]
    beside = None if base is None else base.gaussian
    scalars["gaussian"], own = _merged(gaussians, shares, beside, transfers)
    return scalars, arrays | {GAUSSIAN + name: array for name, array in own.items()}


def _merged(
    machines: list[BufferMachine],
    shares: Array,
    base: BufferMachine | None,
    transfers: list[Array],
) -> State:
    """Of machines of one kernel; a Gaussian beside a plane is left out."""
    first = machines[0]
    for number, machine in enumerate(machines):
        _check_alike(first, machine, number)
    rule = first.state.eviction
    states = [machine.get_state(beside=False) for machine in machines]
    rows, alpha, beta, extra = _concatenated(machines, states, shares, transfers)
    order = np.arange(len(alpha))
    budget, n = first.state.budget, len(alpha)
    size = EVICTED[rule](first, rows, alpha, extra["k_self"])
    if 0 <= budget < n:
        gram = np.square(first.kernel(rows, rows)) if rule == "change" else None
        order = _kept(size, gram, n, budget)
        if rule in ("merge", "project"):
            alpha, beta = _projected(first.kernel, rows, order, extra["k_self"], alpha, beta)
    rows, alpha, beta = rows[order], alpha[order], beta[order]
    scalars, arrays = states[0]
    start = base.get_state(beside=False)[0] if base is not None else dict.fromkeys(_SUMS, 0.0)
    for name in _SUMS:
        scalars[name] = start[name] + sum(state[0][name] - start[name] for state in states)
    for name in _MEANS:
        scalars[name] = float(sum(c * state[0][name] for c, state in zip(shares, states)))
    for name in ("intercept", "eta_intercept", "z_intercept"):
        arrays[name] = sum(
            c * (state[1][name] @ (np.abs(T) if name == "eta_intercept" else T))
            for c, state, T in zip(shares, states, transfers)
        )
    if first.state.average:
        scalars |= {"lag": 0.0, "lag_squares": 0.0}
        arrays["means"] = sum(
            c * np.append(state[1]["means"][:-1] @ T, state[1]["means"][-1])
            for c, state, T in zip(shares, states, transfers)
        )
    if all(_is_followed(machine, first, alpha.shape[1]) for machine in machines):
        arrays["running"] = _merged_running(states, shares, base)
    else:
        arrays.pop("running", None)
    n = len(alpha)
    scalars |= {"a": 1.0, "p": 0.0, "q": 1.0, "sq_f": 0.0, "pi": 0.0, "n": n, "head": 0}
    scalars |= {"births": n, "n_victims": 0, "n_outputs": alpha.shape[1]}
    arrays = {name: array for name, array in arrays.items() if "victim" not in name}
    arrays |= {name: array[:0] for name, array in arrays.items() if name.startswith("history_")}
    arrays |= {name: extra[name][order] for name in _PER_ROW}
    arrays |= {"A": alpha, "B": beta, "birth": np.arange(n, dtype=np.intp)}
    arrays |= {"size": np.zeros(n), "row_sq": np.zeros(n)}
    if rule == "change" and n:
        arrays["row_sq"] = np.square(first.kernel(rows, rows)).sum(axis=1)
    if sp.issparse(rows):
        arrays |= {"values": rows.data, "columns": rows.indices.astype(np.int32)}
        arrays |= {"start": rows.indptr[:-1].astype(np.intp)}
        arrays |= {"length": np.diff(rows.indptr).astype(np.intp)}
    else:
        arrays["X"] = rows
    return scalars, arrays


def _check_alike(first: BufferMachine, machine: BufferMachine, number: int) -> None:
    if machine.kernel.name == "precomputed":
        raise ValueError("a precomputed kernel knows rows by their number: it cannot be merged")
    for name in ("float64", "sparse", "trace", "average", "budget", "eviction"):
        if getattr(machine.state, name) != getattr(first.state, name):
            raise ValueError(f"part {number} differs from part 0 in how it keeps rows ({name})")
    sizes = {0 if m.state.running is None else len(m.state.running) for m in (first, machine)}
    if len(sizes) > 1 and max(sizes) < CUT_SIZE:
        raise ValueError(
            f"part {number} differs from part 0 in what it follows of a stream: one of them was "
            "fitted, or made by a former version"
        )
    if machine.kernel != first.kernel:
        raise ValueError(
            f"part {number} has the kernel {machine.kernel!r}, part 0 {first.kernel!r}: give "
            "numbers for its parameters"
        )
    if machine.reg != first.reg:
        raise ValueError(f"part {number} has reg={machine.reg!r}, part 0 {first.reg!r}")


def _is_followed(machine: BufferMachine, first: BufferMachine, n_outputs: int) -> bool:
    """Whether the merged machine can follow its stream; else the offset of classes stays."""
    mine, running = machine.state.running, first.state.running
    if mine is None or running is None or len(mine) < CUT_SIZE:
        return mine is not None
    return n_outputs == 1 and mine[SIDE] == running[SIDE]


def _merged_running(states: list[State], shares: Array, base: BufferMachine | None) -> Array:
    """What the parts have followed of their streams; the rows that they have seen add up.

    Margins are means, as scores are.
    """
    parts = np.array([state[1]["running"] for state in states])
    start = 0.0 if base is None or base.state.running is None else base.state.running
    merged, total = shares @ parts, start + (parts - start).sum(axis=0)
    if len(merged) > TARGETS_SIZE:
        for which in (slice(5, 7), slice(10, 11)):  # rows and weights
            merged[which] = total[which]
        return merged
    weight, mean, squares = parts.T
    variance = shares @ (squares / np.maximum(weight, 1e-300) + np.square(mean - merged[1]))
    return np.array([total[0], merged[1], total[0] * variance])


def _concatenated(
    machines: list[BufferMachine], states: list[State], shares: Array, transfers: list[Array]
) -> tuple[Any, Array, Array, dict[str, Array]]:
    """Rows without repetition, oldest first, their coefficients, and what is kept with each."""
    parts, alphas, betas, ages, keys = [], [], [], [], []
    extra: dict[str, list[Array]] = {name: [] for name in _PER_ROW}
    for machine, (_, arrays), share, transfer in zip(machines, states, shares, transfers):
        by_age = np.argsort(arrays["birth"], kind="stable")
        rows = machine.state.support_vectors()
        parts.append(rows)
        alphas.append(share * (machine.state.alpha() @ transfer))
        betas.append(share * (machine.state.beta() @ transfer))
        ages.append(np.arange(len(by_age))[::-1])  # rows that came later
        keys += _keys(rows)
        for name in _PER_ROW:
            extra[name].append(arrays[name][by_age])
    rows = sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)
    age = np.concatenate(ages)
    first: dict[bytes, int] = {}
    group = np.array([first.setdefault(key, len(first)) for key in keys], np.intp)
    n = len(first)
    alpha, beta = (np.zeros((n, transfers[0].shape[1])) for _ in range(2))
    np.add.at(alpha, group, np.concatenate(alphas))
    np.add.at(beta, group, np.concatenate(betas))
    youngest = np.full(n, np.iinfo(np.intp).max)
    np.minimum.at(youngest, group, age)
    # the first row of each group, the oldest group first
    member = np.full(n, -1, np.intp)
    member[group[::-1]] = np.arange(len(group))[::-1]
    order = np.argsort(-youngest, kind="stable")
    member = member[order]
    return (
        rows[member],
        alpha[order],
        beta[order],
        {name: np.concatenate(parts)[member] for name, parts in extra.items()},
    )


def _keys(rows: Any) -> list[bytes]:
    """Equal for equal rows."""
    if not sp.issparse(rows):
        return [row.tobytes() for row in rows]
    at = rows.indptr
    return [
        rows.indices[a:b].tobytes() + rows.data[a:b].tobytes() for a, b in itertools.pairwise(at)
    ]


def _quadratic(machine: BufferMachine, A: Array) -> Array:
    kappa = machine.state.label_kernel
    return np.einsum("ij,ij->i", A, A if kappa is None else A @ kappa)


def _change(machine: BufferMachine, A: Array) -> Array:
    kappa = machine.state.label_kernel
    change = A if kappa is None else A @ kappa
    return np.einsum("ij,ij->i", change, change)


def _projected(
    kernel: Any, rows: Any, order: Array, k_self: Array, *coefficients: Array
) -> list[Array]:
    """The coefficients with those of rows that go added to their nearest rows that stay."""
    gone = np.setdiff1d(np.arange(rows.shape[0]), order)
    values = np.asarray(kernel(rows[gone], rows[order]), np.float64)
    # phi(x) loses k(x, z)^2 / k(z, z) of its square norm by going to z
    nearest = np.argmax(np.square(values) / np.maximum(k_self[order], 1e-300), axis=1)
    share = values[np.arange(len(gone)), nearest] / np.maximum(k_self[order[nearest]], 1e-300)
    out = []
    for given in coefficients:
        made = given.copy()
        np.add.at(made, order[nearest], share[:, None] * given[gone])
        out.append(made)
    return out


def _kept(size: Array | None, gram: Array | None, n: int, budget: int) -> Array:
    """Numbers of the rows that stay, oldest first; of two equals the older goes."""
    if size is None:
        return np.arange(n - budget, n)
    if gram is None:
        return np.sort(np.argsort(size, kind="stable")[n - budget :])
    alive, row_sq = np.ones(n, bool), gram.sum(axis=1)
    for _ in range(n - budget):
        victim = int(np.argmin(np.where(alive, size * row_sq, np.inf)))
        alive[victim] = False
        row_sq -= gram[:, victim]
    return np.flatnonzero(alive)
