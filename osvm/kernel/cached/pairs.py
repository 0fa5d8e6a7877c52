"""Several classes one against one: a problem for each pair of classes, and what follows from them.

Sources: Chang and Lin, "LIBSVM" (2011), sections 7 and 8, for the layout and the votes; Wu, Lin
and Weng, "Probability estimates for multi-class classification by pairwise coupling" (JMLR
2004), second method, for probabilities.

Invariants
- pairs are (0, 1), (0, 2), ..., (1, 2), ...; a positive score of (p, q) is a vote for p;
- a row of class p has a coefficient against each other class q, in line q - (q > p).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osvm.kernel.cached.task import Fit, Task

__all__ = ["class_pairs", "couple", "pair_sums", "pair_votes", "solve_pairs", "split_pairs"]

Array = NDArray[Any]
CHUNK = 4096  # rows whose probabilities are coupled at once


def class_pairs(K: int) -> list[tuple[int, int]]:
    """The pairs of K classes in the order of the outputs."""
    return list(combinations(range(K), 2))


def split_pairs(task: Task, codes: Array, K: int) -> Iterator[tuple[Array, Task]]:
    """The rows of each pair of classes, and the problem of telling them apart."""
    members = [np.flatnonzero(codes == p) for p in range(K)]
    for p, q in class_pairs(K):
        rows = np.concatenate([members[p], members[q]])
        Y = np.ones((1, len(rows)))
        Y[0, len(members[p]) :] = -1.0
        yield rows, task.part(rows, Y)


def solve_pairs(solver: Any, task: Task, codes: Array, K: int) -> Fit:
    """What `solver` learns of each pair; `alpha` is (K - 1, n), `history` the first pair's."""
    alpha = np.zeros((K - 1, task.n))
    fits: list[Fit] = []
    votes: list[Array] | None = None
    for (p, q), (rows, part) in zip(class_pairs(K), split_pairs(task, codes, K)):
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
    return Fit(
        alpha,
        np.concatenate([fit.b for fit in fits]),
        t=max(fit.t for fit in fits),
        n_iter=np.concatenate([np.ravel(fit.n_iter) for fit in fits]),
        converged=None if None in ends else all(ends),
        history=fits[0].history,
        votes=votes,
        voted_bias=fits[0].voted_bias,
        columns={name: sum(fit.columns[name] for fit in fits) for name in fits[0].columns},
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
