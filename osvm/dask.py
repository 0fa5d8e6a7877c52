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

from osvm._input.labels import RunningBalance
from osvm.linear import options
from osvm.linear.base import LinearEstimator

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
        Fitted or not; it is changed in place.  Without averaging, mini-batches,
        probabilities and `record`.
    blocks : iterable of callables, or of dask delayed objects
        Each gives (X, y) when called or computed, on the worker.
    classes : array, optional
        All labels.  Without them all blocks of a classifier must have the same labels, or
        labels that the model knows already.
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
    options.refuse("dask", options.asked(model))
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}")
    blocks = list(blocks)
    if not blocks:
        raise ValueError("there are no blocks to learn from")
    if client is None:
        from distributed import get_client

        client = get_client()
    with model._lock.writing():
        current = copy.deepcopy(model)
        for number in range(rounds):
            futures = [_submit(client, current, block, classes) for block in blocks]
            before, current = current, _mixed(current, client.gather(futures))
            if verbose:
                rows = current.t_ - before.__dict__.get("t_", 0)
                loss = (current._learner.loss_sum - _total(before, "loss_sum")) / rows
                print(f"round {number + 1}: {rows} rows, average loss {loss:.6f}", file=sys.stderr)
        with model._lock.changing():
            model.__dict__.update(current.__dict__)
            model._changed()
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
    """The model after one pass."""
    X, y = rows
    model = copy.deepcopy(model)
    if classes is None:
        model.partial_fit(X, y)
    else:
        model.partial_fit(X, y, classes=classes)
    return model


def _total(model: Any, name: str) -> float:
    """A running total of the model's learner; 0 before the first example."""
    learner = model.__dict__.get("_learner")
    return 0.0 if learner is None else float(getattr(learner, name))


def _mixed(before: Any, models: list[Any]) -> Any:
    """The average of models that went on from `before`, weighted by the rows of each."""
    seen = before.__dict__.get("t_", 0)
    rows = np.array([model.t_ - seen for model in models], dtype=np.float64)
    learners = [model._learner for model in models]
    mixed, first = models[0], learners[0]
    _check_labels(models)
    share = rows / rows.sum()
    weights = sum(part * learner.weights.array() for part, learner in zip(share, learners))
    intercept = sum(part * learner.intercept for part, learner in zip(share, learners))
    first.weights.set_array(weights)
    first.intercept[:] = intercept
    # Every worker made its own steps: the schedule moves on by as many as one of them.
    first.t = float(round(np.mean([learner.t for learner in learners])))
    # Every worker began with the totals of all rounds so far, which count once.
    first.seen = seen + float(rows.sum())
    for name in ("loss_sum", "error_sum"):
        start = _total(before, name)
        setattr(first, name, start + sum(getattr(learner, name) - start for learner in learners))
    if "_balance" in mixed.__dict__:
        old = before.__dict__.get("_balance")
        counts = sum(model._balance.counts for model in models)
        if old is not None:
            counts[: len(old.counts)] -= (len(models) - 1) * old.counts
        mixed._balance = RunningBalance(counts)
    mixed._changed()
    return mixed


def _check_labels(models: list[Any]) -> None:
    """Weights can be averaged only where they belong to the same labels in the same order."""
    first = models[0].__dict__.get("_index")
    for number, model in enumerate(models):
        index = model.__dict__.get("_index")
        if index != first:
            raise ValueError(
                f"with block {number} the model has the labels {_shown(index)}, with block 0 "
                f"{_shown(first)}: name all labels, osvm.dask.fit(..., classes=...)"
            )


def _shown(index: Any) -> str:
    labels = index.classes.tolist()
    more = f" and {len(labels) - 20} more" if len(labels) > 20 else ""
    return f"{labels[:20]}{more}"
