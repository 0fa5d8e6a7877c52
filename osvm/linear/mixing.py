"""Epochs in several threads: each learns its own share of the rows, then they are merged.

The threads share X and nothing else: each has weights of its own, starts from the same model,
and visits a contiguous part of the epoch's order.  `osvm.linear.merging` averages them by rows,
`osvm.linear.adaptive_merging` by what each has learnt of a weight, in place and in the same
threads, which share the features for it: a merge takes as long as reading and writing every
thread's weights once.  The result depends on the number of threads, and on nothing else that
threads do.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from osvm._estimator.threads import Team
from osvm._input.types import Array
from osvm.linear.adaptive_merging import Merger, smaller
from osvm.linear.adaptive_state import AdaptiveLearner
from osvm.linear.column_shares import ColumnShares
from osvm.linear.learner import SGDLearner
from osvm.linear.merging import State, merge_sigmoids, merge_states
from osvm.linear.scores import Platt

Learn = Callable[[Any, Platt | None, Array], None]
ROWS_PER_THREAD = 2000  # with fewer a thread learns too little before the merge
# Weights that are merged at a time, and with more numbers to each; sums stay in the cache.
MERGED, SUMMED = 1 << 17, 1 << 13
_PER_FEATURE = {"w_v", "w_u"}  # arrays that threads share


def useful_jobs(jobs: int, n_rows: int, learner: Any, record: Any) -> int:
    """Threads that can share an epoch; a record of all examples in order takes one."""
    adapts = isinstance(learner, AdaptiveLearner)
    plain = isinstance(learner, SGDLearner) and learner.lift is None
    if jobs == 1 or record is not None or not (plain or adapts):
        return 1
    return max(1, min(jobs, n_rows // ROWS_PER_THREAD))


class Mixer:
    """Learners that go on from one model; the first of them is the one that is trained.

    Parameters
    ----------
    learner : SGDLearner or AdaptiveLearner
    platt : Platt or None
    jobs : int
        Threads, at least 2.
    plan : Plan
        Of the learner.
    """

    def __init__(self, learner: Any, platt: Platt | None, jobs: int, plan: Any) -> None:
        self.parts, self.platt, self.jobs, self.plan = [learner] * jobs, platt, jobs, plan
        self.adapts = isinstance(learner, AdaptiveLearner)
        self.fresh = True
        self.columns: ColumnShares | None = None  # for epochs that share columns instead
        self.before: Array | None = None  # cells of an adaptive learner before the epoch

    def epoch(self, learn: Learn, order: Array) -> None:
        """Learn the rows in `order`; learn(part, its sigmoids, its order) is called by threads.

        A Ctrl-C comes through after the merge: it finds the model of whole shares.
        """
        platt, jobs = self.platt, self.jobs
        edges = np.linspace(0, len(order), jobs + 1).astype(int).tolist()
        shares = np.diff(edges) / len(order)
        sigmoids = [None if platt is None else platt.copy() for _ in range(jobs)]

        def share(k: int) -> State:
            learn(self.parts[k], sigmoids[k], order[edges[k] : edges[k + 1]])
            self.parts[k].flush()
            return self.parts[k].numbers() if self.adapts else self.parts[k].get_state(copy=False)

        with Team(jobs) as team:
            base = self._begin(team)
            states = team.each(share)
            if self.adapts:
                self._merge_adaptive(team, states, shares, base)
            else:
                self._merge(team, states, shares, base)
            if platt is not None:
                fitted: Any = [one.state for one in sigmoids if one is not None]
                platt.state[:] = merge_sigmoids(fitted, shares, platt.state, None, len(fitted[0]))

    def _begin(self, team: Team) -> State:
        """The state before any thread changes it, from which all parts go on."""
        learner = self.parts[0]
        if not self.adapts:
            base = learner.get_state(copy=False)
            if "w_u" in base[1]:  # what there was before is needed
                base = learner.get_state()
            for k in range(1, self.jobs if self.fresh else 0):
                self.parts[k] = learner.copy()
            self.fresh = False
            return base
        scalars, arrays = learner.numbers()
        cells = arrays["cells"]
        arrays = {name: a if name == "cells" else a.copy() for name, a in arrays.items()}
        for k in range(1, self.jobs):
            if self.parts[k] is learner or self.parts[k].alive != learner.alive:
                self.parts[k] = learner.like(learner.n_out)
            self.parts[k].follow(learner)
            self.parts[k].set_numbers(scalars, arrays)
        if self.before is None or self.before.shape != cells.shape:
            self.before = np.empty_like(cells)
        before = self.before

        def copied(k: int) -> None:
            part = slice(len(cells) * k // self.jobs, len(cells) * (k + 1) // self.jobs)
            for to in (before, *(part.own_cells for part in self.parts[1:])):
                to[part] = cells[part]

        team.each(copied)
        return scalars, arrays | {"cells": before}

    def _blocks(self, width: int) -> list[list[slice]]:
        """Blocks of features for each thread, with so many numbers to a feature."""
        n_features = self.parts[0].n_features
        step = max(1, width)
        step = min(step, -(-n_features // self.jobs))  # none of the threads stands by
        blocks = [slice(k, min(k + step, n_features)) for k in range(0, n_features, step)]
        edges = [len(blocks) * k // self.jobs for k in range(self.jobs + 1)]
        return [blocks[a:b] for a, b in pairwise(edges)]

    def _merge(self, team: Team, states: list[State], shares: Array, base: State) -> None:
        """Put the merged numbers into all parts; threads share the features."""
        first = self.parts[0]
        blocks = self._blocks(MERGED // first.n_out)

        def columns(k: int) -> list[State]:
            """Features of thread k: the merged weights go to every part."""
            made = []
            for block in blocks[k]:
                parts = (_cut(state, block) for state in states)
                scalars, arrays = merge_states(parts, shares, _cut(base, block))
                for name in _PER_FEATURE & arrays.keys():
                    merged = arrays.pop(name)
                    for state in states:
                        state[1][name][block] = merged
                made.append((scalars, arrays))
            return made

        made = [state for part in team.each(columns) for state in part]
        scalars, arrays = made[0]
        if scalars.get("w_track_norm"):
            into = scalars if first.n_out == 1 else arrays
            into["w_sq_v"] = sum((s | a)["w_sq_v"] for s, a in made)
        for part in self.parts:
            part.set_numbers(scalars, arrays)

    def _merge_adaptive(self, team: Team, states: list[State], shares: Array, base: State) -> None:
        """The same of adaptive learners."""
        first = self.parts[0]
        layout = self.plan.layout(first.restarts_windows, first.decay)
        settings = layout.common([scalars for scalars, _ in states], shares)
        windows = max(part.windows for part in self.parts)
        merger = Merger(layout, settings, first.n_out, base, windows=windows, planes=first.planes)
        for state, share in zip(states, shares):
            merger.add(state, float(share))
        merged = merger.finish()
        cells, before = [arrays["cells"] for _, arrays in states], base[1]["cells"]
        blocks = self._blocks(SUMMED // merger.n_columns)

        def columns(k: int) -> None:
            for block in blocks[k]:
                sums = merger.sums(block.stop - block.start)
                sizes: Array | None = None
                for part, own in enumerate(cells):
                    merger.add_features(sums, part, own[block], before[block])
                    sizes = smaller(sizes, own[block, : merger.header])
                cells[0][block, : merger.header] = sizes
                merger.finish_features(sums, before[block], cells[0][block])
                for own in cells[1:]:
                    own[block] = cells[0][block]

        team.each(columns)
        for part in self.parts:
            part.set_numbers(*merged)


def _cut(state: State, block: slice) -> State:
    """The state with some of the features alone."""
    scalars, arrays = state
    return scalars, {k: v[block] if k in _PER_FEATURE else v for k, v in arrays.items()}
