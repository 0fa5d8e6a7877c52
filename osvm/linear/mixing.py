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
from typing import Any

import numpy as np

from osvm._estimator.threads import Team
from osvm._input.types import Array
from osvm.linear.adaptive_merging import merge_adaptive
from osvm.linear.adaptive_state import AdaptiveLearner
from osvm.linear.learner import SGDLearner
from osvm.linear.merging import State, merge_sigmoids, merge_states
from osvm.linear.scores import Platt

Learn = Callable[[Any, Platt | None, Array], None]
ROWS_PER_THREAD = 2000  # with fewer a thread learns too little before the merge
MERGED = 1 << 17  # weights that are merged at a time; their sums stay in the cache
_PER_FEATURE = {"w_v", "w_u", "cells"}  # arrays that threads share


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

    def epoch(self, learn: Learn, order: Array) -> None:
        """Learn the rows in `order`; learn(part, its sigmoids, its order) is called by threads.

        A Ctrl-C comes through after the merge: it finds the model of whole shares.
        """
        learner, platt, jobs = self.parts[0], self.platt, self.jobs
        base = learner.get_state(copy=False)
        if self.adapts or "w_u" in base[1]:  # what there was before is needed
            base = learner.get_state()
        edges = np.linspace(0, len(order), jobs + 1).astype(int).tolist()
        shares = np.diff(edges) / len(order)
        sigmoids = [None if platt is None else platt.copy() for _ in range(jobs)]
        for k in range(1, jobs):  # before any thread changes the first
            if self.fresh or (self.adapts and self.parts[k].alive != learner.alive):
                self.parts[k] = learner.copy()
            elif self.adapts:  # settings or averages may have begun anew
                self.parts[k].cells[:] = base[1]["cells"]
                self.parts[k].set_numbers(*base)
            if self.adapts:
                self.parts[k].follow(learner)
        self.fresh = False

        def share(k: int) -> State:
            learn(self.parts[k], sigmoids[k], order[edges[k] : edges[k + 1]])
            self.parts[k].flush()
            return self.parts[k].get_state(copy=False)

        with Team(jobs) as team:
            states = team.each(share)
            self._merge(team, states, shares, base)
            if platt is not None:
                fitted: Any = [one.state for one in sigmoids if one is not None]
                platt.state[:] = merge_sigmoids(fitted, shares, platt.state, None, len(fitted[0]))

    def _merge(self, team: Team, states: list[State], shares: Array, base: State) -> None:
        """Put the merged numbers into all parts; threads share the features."""
        first, n_out = self.parts[0], self.parts[0].n_out
        layout: Any = None
        if self.adapts:
            layout = self.plan.layout(first.restarts_windows, first.decay)
            settings = layout.common([scalars for scalars, _ in states], shares)
        step = max(1, MERGED // max(n_out, base[1]["offsets"].shape[1] if self.adapts else 0))
        step = min(step, -(-first.n_features // self.jobs))  # none of the threads stands by
        blocks = [slice(k, k + step) for k in range(0, first.n_features, step)]
        edges = [len(blocks) * k // self.jobs for k in range(self.jobs + 1)]

        def columns(k: int) -> list[State]:
            """Features of thread k: the merged weights go to every part."""
            made = []
            for block in blocks[edges[k] : edges[k + 1]]:
                parts = (_cut(state, block) for state in states)
                if self.adapts:
                    scalars, arrays = merge_adaptive(
                        parts, shares, layout, settings, _cut(base, block)
                    )
                else:
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
            into = scalars if n_out == 1 else arrays
            into["w_sq_v"] = sum((s | a)["w_sq_v"] for s, a in made)
        for part in self.parts:
            part.set_numbers(scalars, arrays)


def _cut(state: State, block: slice) -> State:
    """The state with some of the features alone."""
    scalars, arrays = state
    return scalars, {k: v[block] if k in _PER_FEATURE else v for k, v in arrays.items()}
