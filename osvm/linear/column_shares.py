"""Epochs of many classes in several threads: each learns all rows for its own share of columns.

One-vs-rest, a column of an adaptive learner depends on no other one, so that the model is that of
one thread, bit for bit (but for the average loss, a sum in another order).  Each thread has
numbers of its own, next to each other in memory: where threads share cache lines they wait for
each other.  Errors are counted afterwards, as they take the scores of all columns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise, repeat
from typing import Any

import numpy as np

from osvm._estimator.threads import Team
from osvm._input.types import Array
from osvm.linear.adaptive_state import AdaptiveLearner

Learn = Callable[[Any, Array, dict[str, Array]], None]
MIN_COLUMNS = 10  # per thread; with fewer, reading the rows takes longer than learning them
CHUNK = 1 << 18  # rows whose errors are counted at a time


def shares_columns(learner: Any, jobs: int) -> bool:
    """Whether so many threads had better share the columns than the rows."""
    return (
        isinstance(learner, AdaptiveLearner)
        and learner.n_out >= MIN_COLUMNS * jobs
        and learner.columns_are_apart
    )


class ColumnShares:
    """Learners of some of the columns each, of one that `shares_columns`."""

    def __init__(self, learner: AdaptiveLearner, jobs: int) -> None:
        self.learner, self.jobs = learner, jobs
        self.edges = np.linspace(0, learner.n_out, jobs + 1).astype(np.int64)
        self.shares = [slice(a, b) for a, b in pairwise(self.edges.tolist())]
        self.parts = [learner.like(share.stop - share.start) for share in self.shares]

    def epoch(self, learn: Learn, labels: Array, weight: Array | None, order: Array) -> None:
        """Learn the rows in `order`; learn(part, its order, its record) is called by threads.

        A Ctrl-C comes through afterwards.
        """
        learner = self.learner
        scalars, before = learner.numbers()
        ranks = np.empty((self.jobs, min(CHUNK, len(order))))
        with Team(self.jobs) as team:
            team.each(lambda k: self._begin(k, scalars, before))
            for start in range(0, len(order), CHUNK):
                rows = order[start : start + CHUNK]
                records = [{"rank": rank[: len(rows)]} for rank in ranks]
                team.each(partial(_learn, learn, list(zip(self.parts, repeat(rows), records))))
                learner.count_ranks(ranks, self.edges, labels, rows, weight)
            team.each(self._end)
        scalars, arrays = self.parts[0].numbers()
        loss = before["losses"][0]
        learner.set_numbers(
            scalars,
            before
            | {
                "groups": arrays["groups"],
                "offsets": np.concatenate([part.offsets for part in self.parts], axis=1),
                "losses": loss + sum(part.losses[0] - loss for part in self.parts),
            },
        )

    def _begin(self, k: int, scalars: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Let part k go on from the learner."""
        part, share = self.parts[k], self.shares[k]
        part.follow(self.learner)
        part.first_label = share.start
        own = {"offsets", "class_weights"} & arrays.keys()
        part.set_numbers(scalars, arrays | {name: arrays[name][:, share] for name in own})
        for to, numbers in zip(_cells(part), _cells(self.learner)):
            to[:] = numbers[..., share] if numbers.ndim > 2 else numbers

    def _end(self, k: int) -> None:
        """Put the numbers of part k in place."""
        (sizes, columns), (own_sizes, own) = _cells(self.learner), _cells(self.parts[k])
        columns[..., self.shares[k]] = own
        if k == 0:
            sizes[:] = own_sizes


def _learn(learn: Learn, tasks: list[tuple[Any, Array, dict[str, Array]]], k: int) -> None:
    learn(*tasks[k])


def _cells(learner: AdaptiveLearner) -> tuple[Array, Array]:
    """Views: what a feature has for all columns, and (n_features, planes, outputs)."""
    cells, n_out, planes = learner.own_cells, learner.n_out, learner.planes
    header = cells.shape[1] - planes * n_out
    return cells[:, :header], cells[:, header:].reshape(len(cells), planes, n_out)
