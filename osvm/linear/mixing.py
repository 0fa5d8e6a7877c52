"""One epoch in several threads: each learns its own share of the rows, then they are merged.

The threads share X and nothing else: each has weights of its own, starts from the same model,
and visits a contiguous part of the epoch's order.  `osvm.linear.merging` averages them by rows.
The result depends on the number of threads, and on nothing else that threads do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from osvm._estimator.threads import Team
from osvm.linear.learner import SGDLearner
from osvm.linear.merging import merge_sigmoids, merge_states
from osvm.linear.scores import Platt

__all__ = ["mixed_epoch", "useful_jobs"]

Array = npt.NDArray[Any]
ROWS_PER_THREAD = 2000  # with fewer a thread learns too little before the merge


def useful_jobs(jobs: int, n_rows: int, learner: Any, record: Any) -> int:
    """Threads that can share an epoch; a record of all examples in order takes one."""
    plain = isinstance(learner, SGDLearner) and learner.lift is None
    if jobs == 1 or record is not None or not plain:
        return 1
    return max(1, min(jobs, n_rows // ROWS_PER_THREAD))


def mixed_epoch(
    learner: SGDLearner, platt: Platt | None, learn: Any, order: Array, jobs: int
) -> None:
    """Learn the rows in `order`; learn(part, its sigmoids, its order) is called by threads.

    A Ctrl-C comes through after the merge: it finds the model of whole shares.
    """
    edges = np.linspace(0, len(order), jobs + 1).astype(int).tolist()
    sigmoids = [None if platt is None else platt.copy() for _ in range(jobs)]

    def share(k: int) -> Any:
        part = learner.copy()
        learn(part, sigmoids[k], order[edges[k] : edges[k + 1]])
        part.flush()
        return part.get_state()

    with Team(jobs) as team:
        states = team.each(share)
        shares = np.diff(edges) / len(order)
        learner.set_state(*merge_states(states, shares, learner.get_state()))
        if platt is not None:
            fitted: Any = [one.state for one in sigmoids if one is not None]
            platt.state[:] = merge_sigmoids(fitted, shares, platt.state, None, len(platt.state))
