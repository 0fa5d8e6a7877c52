"""Past one machine: linear models learnt on a dask cluster by parameter mixing.

In each round every worker goes on from the same weights, learns its own block of
rows in one pass, and the driver averages what comes back, weighted by rows
(McDonald, Hall, Mann, "Distributed training strategies for the structured perceptron",
2010).  A block is named by how it is loaded, so that a block whose worker dies is
loaded again elsewhere.

One pass over the rows on one machine takes little more than reading them: this pays
where the rows do not fit, or are spread already.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from osvm.linear.base import LinearEstimator
from osvm.linear.learner import SGDLearner

__all__ = ["fit"]

Block = Callable[[], tuple[Any, Any]] | Any


def fit(
    model: Any,
    blocks: Iterable[Block],
    *,
    classes: Any = None,
    rounds: int = 5,
    client: Any = None,
    verbose: bool = False,
) -> Any:
    """Train a linear model on blocks of rows that lie on a cluster.

    Parameters
    ----------
    model : LinearClassifier or LinearRegressor
        Fitted or not; it is changed in place.  Without averaging and mini-batches.
    blocks : iterable of callables, or of dask delayed objects
        Each gives (X, y) when called or computed, on the worker.
    classes : array, optional
        All labels; a classifier that is not fitted yet needs them.
    rounds : int
        Passes over all blocks.
    client : distributed.Client, optional
        The current one by default.
    verbose : bool
        Print a line per round: rows learnt and the average loss of test-then-train.

    Returns
    -------
    model

    Examples
    --------
    >>> import osvm.dask
    >>> def load(part):
    ...     return lambda: read_rows(part)
    >>> model = osvm.dask.fit(                                    # doctest: +SKIP
    ...     osvm.LinearClassifier(reg=1e-5), [load(p) for p in parts], classes=[0, 1])
    """
    if not isinstance(model, LinearEstimator):
        raise TypeError(f"osvm.dask.fit trains linear models, not {type(model).__name__}")
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}")
    blocks = list(blocks)
    if not blocks:
        raise ValueError("there are no blocks to learn from")
    if client is None:
        from distributed import get_client

        client = get_client()
    current = copy.deepcopy(model)
    for number in range(rounds):
        futures = [_submit(client, current, block, classes) for block in blocks]
        parts = client.gather(futures)
        seen, loss = current.__dict__.get("t_", 0), 0.0
        current = _mixed([learnt for learnt, _ in parts], seen)
        rows = sum(n for _, (n, _) in parts)
        loss = sum(total for _, (_, total) in parts) / rows
        if verbose:
            print(f"round {number + 1}: {rows} rows, average loss {loss:.6f}", file=sys.stderr)
    model.__dict__.update(current.__dict__)
    return model


def _submit(client: Any, model: Any, block: Block, classes: Any) -> Any:
    """One block's task; never answered from an earlier round's result."""
    if callable(block) and not hasattr(block, "dask"):
        return client.submit(_learn, model, block, classes, pure=False)
    return client.submit(_learn_rows, model, client.compute(block), classes, pure=False)


def _learn(model: Any, load: Callable[[], tuple[Any, Any]], classes: Any) -> Any:
    """On a worker: load the block and learn it."""
    return _learn_rows(model, load(), classes)


def _learn_rows(model: Any, rows: tuple[Any, Any], classes: Any) -> Any:
    """The model after one pass, with the rows learnt and the sum of their losses."""
    X, y = rows
    model = copy.deepcopy(model)
    before = 0.0
    if "_learner" in model.__dict__:
        before = model._learner.loss_sum
    if classes is None:
        model.partial_fit(X, y)
    else:
        model.partial_fit(X, y, classes=classes)
    return model, (X.shape[0], model._learner.loss_sum - before)


def _mixed(models: list[Any], seen: int) -> Any:
    """The average of models that went on from one, weighted by the rows of each."""
    rows = np.array([model.t_ - seen for model in models], dtype=np.float64)
    learners = [model._learner for model in models]
    first = learners[0]
    if not isinstance(first, SGDLearner) or models[0]._averaged or first.pending_examples:
        raise ValueError("osvm.dask.fit needs plain steps: no average, no batch_size, no 'smd'")
    for model in models[1:]:
        if model._learner.weights.n_out != first.weights.n_out:
            raise ValueError("the blocks have other labels than each other: give classes=")
    share = rows / rows.sum()
    weights = sum(part * learner.weights.array() for part, learner in zip(share, learners))
    intercept = sum(part * learner.intercept for part, learner in zip(share, learners))
    first.weights.set_array(weights)
    first.intercept[:] = intercept
    # Every worker made its own steps: the schedule moves on by as many as one of them.
    first.t = float(np.mean([learner.t for learner in learners]))
    first.seen = seen + float(rows.sum())
    first.loss_sum = sum(learner.loss_sum for learner in learners)
    first.error_sum = sum(learner.error_sum for learner in learners)
    models[0]._changed()
    return models[0]
