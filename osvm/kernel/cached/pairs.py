"""Several classes one against one: a problem for each pair of classes, and what follows from them.

Sources: Chang and Lin, "LIBSVM" (2011), sections 7 and 8, for the layout and the votes; Wu, Lin
and Weng, "Probability estimates for multi-class classification by pairwise coupling" (JMLR
2004), second method, for probabilities.

Invariants
- pairs are (0, 1), (0, 2), ..., (1, 2), ...; a positive score of (p, q) is a vote for p;
- a row of class p has a coefficient against each other class q, in line q - (q > p);
- kernel values of two rows of one class serve all of its pairs: `class_columns` are kept in half
  of the memory for columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from osvm._input.types import Array
from osvm.kernel.cached.columns import Columns
from osvm.kernel.cached.task import Fit, Task

CHUNK = 4096  # rows whose probabilities are coupled at once
MAX_BLOCK = 256  # as in osvm/_c/blocks.pxd
SHARING = 4  # pairs of a class from which on its own kernel values are kept for all of them


def class_pairs(K: int) -> list[tuple[int, int]]:
    """The pairs of K classes in the order of the outputs."""
    return list(combinations(range(K), 2))


def class_members(codes: Array, K: int) -> list[Array]:
    """The rows of each class."""
    return [np.flatnonzero(codes == p) for p in range(K)]


def split_pairs(
    task: Task, members: list[Array], kept: list[Columns] | None = None
) -> Iterator[tuple[Array, Task]]:
    """The rows of each pair of classes, and the problem of telling them apart.

    `members` are the rows of each class, `kept` its columns.
    """
    for p, q in class_pairs(len(members)):
        rows = np.concatenate([members[p], members[q]])
        Y = np.ones((1, len(rows)))
        Y[0, len(members[p]) :] = -1.0
        yield rows, task.part(rows, Y, (kept[p], kept[q]) if kept else None)


def class_columns(solver: Any, task: Task, members: list[Array]) -> list[Columns]:
    """Columns of each class, whose rows get a random order.

    None if the solver reads none, for few classes, if half of the memory holds less than a
    quarter of the columns, or if values are quicker to compute than to copy.
    """
    if len(members) <= SHARING:
        return []
    sizes = sorted(map(len, members))
    ends = [replace(task, Y=np.empty((1, sum(some)))) for some in (sizes[:2], sizes[-2:])]
    dtype, most = map(solver.type_of_halves, ends)
    if dtype is None or dtype != most or task.kernel.name in ("precomputed", "python"):
        return []
    per_row = task.cache_size / 2 / task.n
    slots = per_row * 2**20 / np.dtype(dtype).itemsize  # of each class
    if slots < max(sizes[-1] / 4, min(MAX_BLOCK, sizes[-1])):  # a cache has so many at least
        return []
    kept: list[Columns] = []
    for p in range(len(members)):
        members[p] = task.rng.permutation(members[p])
        room = per_row * len(members[p])
        kept.append(Columns(task.X, task.kernel, dtype=dtype, cache_mb=room, order=members[p]))
        if kept[0].near:
            return []
    return kept


def solve_pairs(solver: Any, task: Task, codes: Array, K: int) -> Fit:
    """What `solver` learns of each pair; `alpha` is (K - 1, n), `history` the first pair's."""
    alpha = np.zeros((K - 1, task.n))
    fits: list[Fit] = []
    votes: list[Array] | None = None
    members = class_members(codes, K)
    kept = class_columns(solver, task, members)
    for (p, q), (rows, part) in zip(class_pairs(K), split_pairs(task, members, kept)):
        fit = solver.solve(part)
        fits.append(fit)
        first = part.Y[0] > 0
        alpha[q - 1, rows[first]] = fit.alpha[0, first]
        alpha[p, rows[~first]] = fit.alpha[0, ~first]
        if fit.votes is not None:
            fit.votes[0][:, 0] = rows[fit.votes[0][:, 0].astype(np.intp)]
            votes = [*(votes or []), fit.votes[0]]
        if task.progress is not None:
            task.progress.update(sum(each.t for each in fits), loss=None)
    ends = [fit.converged for fit in fits]
    stats = {name: sum(fit.columns[name] for fit in fits) for name in fits[0].columns}
    if kept:
        # in columns of a pair of mean size
        stats["computed"] += sum(c.computed * c.n for c in kept) * K / (2 * task.n)
    return Fit(
        alpha,
        np.concatenate([fit.b for fit in fits]),
        t=max(fit.t for fit in fits),
        n_iter=np.concatenate([np.ravel(fit.n_iter) for fit in fits]),
        converged=None if None in ends else all(ends),
        history=fits[0].history,
        votes=votes,
        voted_bias=fits[0].voted_bias,
        columns=stats,
    )


def pair_sums(values: Array, dual: Array, groups: Array) -> Array:
    """`values` (n, vectors), class by class, times the coefficients of each pair: (n, pairs)."""
    K, ends = len(groups), np.cumsum(groups)
    place = {pair: k for k, pair in enumerate(class_pairs(K))}
    out = np.zeros((values.shape[0], len(place)))
    for p, (end, count) in enumerate(zip(ends, groups)):
        own = slice(end - count, end)
        sums = values[:, own] @ dual[:, own].T
        for q in range(K):
            if q != p:
                out[:, place[min(p, q), max(p, q)]] += sums[:, q - (q > p)]
    return out


def pair_votes(scores: Array, K: int) -> tuple[Array, Array]:
    """Votes for each class, and the sum of the scores in its favor, both (n, K)."""
    votes, sums = np.zeros((2, len(scores), K))
    for k, (p, q) in enumerate(class_pairs(K)):
        first = scores[:, k] > 0
        votes[:, p] += first
        votes[:, q] += ~first
        sums[:, p] += scores[:, k]
        sums[:, q] -= scores[:, k]
    return votes, sums


def couple(wins: Array, K: int) -> Array:
    """Probabilities of the classes, (n, K), from those of p within each pair (p, q).

    They minimize sum_{p, q} (r_qp P_p - r_pq P_q)^2 under sum P = 1.
    """
    out = np.empty((len(wins), K))
    wins = np.clip(wins, 1e-7, 1 - 1e-7)
    for start in range(0, len(wins), CHUNK):
        part = wins[start : start + CHUNK]
        r = np.zeros((len(part), K, K))
        for k, (p, q) in enumerate(class_pairs(K)):
            r[:, p, q], r[:, q, p] = part[:, k], 1.0 - part[:, k]
        system = np.ones((len(part), K + 1, K + 1))
        system[:, :K, :K] = -r * r.transpose(0, 2, 1)
        classes = np.arange(K)
        system[:, classes, classes] = (r**2).sum(axis=1)
        system[:, K, K] = 0.0
        right = np.zeros((len(part), K + 1, 1))
        right[:, K] = 1.0
        out[start : start + CHUNK] = np.linalg.solve(system, right)[:, :K, 0]
    out = np.maximum(out, 0.0)
    return out / out.sum(axis=1, keepdims=True)
