"""Which threads train a linear model, and when they pay.

Two ways share the work of a call, both without the GIL:

- the outputs of a one-vs-rest model in blocks (`osvm._output_blocks`), bit for bit the
  model of one thread;
- the rows, with lock-free updates of shared weights (`osvm._lock_free`), for any loss;
  not deterministic, and so only on request.

Small calls stay in one thread.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from osvm._check import largest_magnitude
from osvm._lock_free import LockFree
from osvm._output_blocks import OutputBlock, count_errors, is_separable
from osvm._params import check_bool, check_integer
from osvm._rows import RowSource
from osvm._sgd import SGDLearner

__all__ = ["Threads", "check_lock_free", "resolve_jobs"]

Array = npt.NDArray[Any]

# Multiplications below which a second thread costs more than it brings.
_WORTH = 4_000_000
# Outputs of a thread: a stored value costs about as much for eight outputs as for one.
_BLOCK = 8
# Stored values per weight for which copying the outputs out and back pays.
_COPY = 8
# Multiplications of one thread between two looks at Ctrl-C, about 20 ms.
_TURN = 16_000_000


def resolve_jobs(n_jobs: int | None) -> int:
    """Threads to use: None is one, a negative number counts back from all cores."""
    if n_jobs is None:
        return 1
    n_jobs = check_integer("n_jobs", n_jobs)
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: give a number of threads, or -1 for all cores")
    return n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)


def check_lock_free(model: Any, plan: Any) -> None:
    """Refuse what lock-free updates cannot do."""
    if not check_bool("lock_free", model.lock_free):
        return
    for name, wanted in (
        ("project", plan.radius > 0),
        ("average", plan.average_from >= 0),
        ("batch_size", plan.batch_size > 1),
        ("probability", getattr(model, "probability", False)),
        ("record", model.record),
    ):
        if wanted:
            raise ValueError(
                f"lock_free=True does not go with {name}: threads share nothing but the "
                f"weights; leave {name} alone, or use lock_free=False"
            )
    if plan.schedule.name == "smd":
        raise ValueError(
            "lock_free=True needs a schedule of t; schedule='smd' adapts to the steps"
        )
    if getattr(model, "solver", "sgd") != "sgd":
        raise ValueError("lock_free=True is for solver='sgd'")
    if _calls_python(plan.loss):
        raise ValueError(
            f"lock_free=True needs a compiled loss; {plan.loss!r} is written in Python, which "
            "runs one thread at a time"
        )


def _calls_python(loss: Any) -> bool:
    """A loss of the user's own that is not a LowLevelCallable."""
    return loss.name == "python"


@dataclass(frozen=True)
class Threads:
    """How many threads a call may use, and whether rows are shared out.

    Examples
    --------
    >>> from osvm._threads import Threads
    >>> Threads(2).sizes(20)
    [8, 12]
    """

    n_jobs: int = 1
    lock_free: bool = False

    def run(
        self,
        learner: Any,
        X: RowSource,
        targets: Array,
        order: Array | None = None,
        start: int = 0,
        stop: int = -1,
        weight: Array | None = None,
        record: dict[str, Array] | None = None,
        undo: bool = False,
        curvature: float = 0.0,
    ) -> None:
        """`learner.run` with the same arguments, in threads where that pays."""
        stop = (X.n_rows if order is None else len(order)) if stop < 0 else stop
        way = None
        if self.n_jobs > 1 and record is None and type(learner) is SGDLearner:
            way = self._way(learner, X, stop - start)
        if way is None:
            # learners with a step size per weight undo by copies, not here
            options = (undo, curvature) if undo else ()
            learner.run(X, targets, order, start, stop, weight, record, *options)
            return
        if X.largest < 0.0:
            X.largest = largest_magnitude(X)
        way(learner, X, targets, order, start, stop, weight, undo)

    def sizes(self, n_out: int) -> list[int]:
        """Outputs per block, in whole registers: 8 or more."""
        n_blocks = max(1, min(self.n_jobs, n_out // _BLOCK))
        edges = [round(n_out / 4 * k / n_blocks) * 4 for k in range(n_blocks)] + [n_out]
        return [b - a for a, b in itertools.pairwise(edges)]

    def _way(self, learner: SGDLearner, X: RowSource, n: int) -> Callable[..., None] | None:
        """The way that pays for n examples, if there is one."""
        n_out = learner.weights.n_out
        values = n * (1.0 + X.mean_count)
        if values * n_out < _WORTH:
            return None
        if self.lock_free:
            return self._share_rows
        if n_out < 2 * _BLOCK or not is_separable(learner) or values < _COPY * learner.weights.dim:
            return None
        return self._share_outputs

    def _turns(self, X: RowSource, start: int, stop: int, n_out: float) -> range:
        """First examples of the turns between which signals are looked at."""
        return range(start, stop, max(256, int(_TURN / (n_out * (1.0 + X.mean_count)))))

    # ------------------------------------------------------- outputs in blocks

    def _share_outputs(
        self,
        learner: Any,
        X: RowSource,
        targets: Array,
        order: Array | None,
        start: int,
        stop: int,
        weight: Array | None,
        undo: bool,
    ) -> None:
        sizes = self.sizes(learner.weights.n_out)
        firsts = np.cumsum([0, *sizes[:-1]]).tolist()
        blocks = [OutputBlock(learner, *part) for part in zip(firsts, sizes, strict=True)]
        turns = self._turns(X, start, stop, max(sizes))
        t, seen, loss_sum, error_sum = learner.t, learner.seen, 0.0, 0
        done = start

        def store() -> None:
            for block in blocks:
                block.hand_back()
            learner.t, learner.seen = t + (done - start), seen + (done - start)
            learner.loss_sum += loss_sum
            learner.error_sum += error_sum

        with Team(len(blocks)) as team:
            try:
                for first in turns:
                    last = min(first + turns.step, stop)
                    rest = (X, targets, order, first, last, weight, X.largest)
                    now = (t + (first - start), seen + (first - start))
                    ends = team.each(lambda k: blocks[k].learn(*rest, *now))  # noqa: B023
                    failures = [(at, status) for status, at in ends if status]
                    if failures:
                        at, status = min(failures)
                        learner._complain(status, at if order is None else int(order[at]))
                    loss_sum += sum(block.loss_sum for block in blocks)
                    error_sum += count_errors(blocks, targets, order, first, last)
                    done = last
                    team.raise_interrupt()
            except KeyboardInterrupt:
                store()
                raise
        store()

    # ------------------------------------------------------- rows, lock-free

    def _share_rows(
        self,
        learner: Any,
        X: RowSource,
        targets: Array,
        order: Array | None,
        start: int,
        stop: int,
        weight: Array | None,
        undo: bool,
    ) -> None:
        shared = LockFree(learner, self.n_jobs)
        saved = learner.get_state() if undo else None
        turns = self._turns(X, start, stop, learner.weights.n_out / self.n_jobs)
        with Team(self.n_jobs) as team:
            try:
                for first in turns:
                    last = min(first + turns.step, stop)
                    if not shared.prepare(last - first):
                        learner.run(X, targets, order, first, last, weight)
                        continue
                    rest = (X, targets, order, first, last, weight, X.largest)
                    team.each(lambda k: shared.learn(k, *rest))  # noqa: B023
                    status = shared.join(last - first)
                    if status:
                        at = shared.position
                        learner._complain(status, at if order is None else int(order[at]))
                    team.raise_interrupt()
            except KeyboardInterrupt:
                raise
            except BaseException:
                if saved is not None:
                    learner.set_state(*saved)
                raise


class Team:
    """The calling thread and n - 1 others, which work in turns.

    A Ctrl-C waits until all threads are through with their turn, so that it always finds
    a consistent model.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self._interrupt: tuple[Any, ...] | None = None
        self._handler: Any = None

    def __enter__(self) -> Team:
        self._pool = ThreadPoolExecutor(self.n - 1)
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                self._handler = handler
                signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
        if error[0] is None:
            self.raise_interrupt()

    def _note(self, *interrupt: Any) -> None:
        self._interrupt = interrupt

    def each(self, work: Callable[[int], Any]) -> list[Any]:
        """work(0) .. work(n - 1), all at once; the results."""
        others = [self._pool.submit(work, k) for k in range(1, self.n)]
        try:
            own = work(0)
        finally:
            wait(others)
        return [own, *(other.result() for other in others)]

    def raise_interrupt(self) -> None:
        """What the program does at the Ctrl-C that came meanwhile, if one came."""
        if self._interrupt is not None:
            interrupt, self._interrupt = self._interrupt, None
            self._handler(*interrupt)
