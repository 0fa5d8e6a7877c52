"""Rounds on Ray: tasks, and the model in the object store.  The public address is `osvm.ray`.

The logic is in `osvm.distributed.rounds`.  Ray computes lost results again by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from osvm.distributed.rounds import Options, fit_on
from osvm.distributed.tree import TaskEngine

__all__ = ["RayEngine", "fit"]


def fit(model: Any, blocks: Any, *, label: str | None = None, **options: Any) -> Any:
    """Train a model on blocks of rows in a Ray cluster.

    Parameters
    ----------
    model : estimator with `partial_fit`
        Fitted or not; it is changed in place, at the end.
    blocks : list, or ray.data.Dataset
        Object references, functions, file names or rows, as in `osvm.distributed.fit`; the
        blocks of a data set are frames.
    label : str, optional
        The column of a data set that holds y; the others are X, in their order.
    **options
        See `osvm.distributed.Options`.

    Returns
    -------
    model

    Examples
    --------
    >>> import osvm                                                    # doctest: +SKIP
    >>> osvm.ray.fit(osvm.LinearClassifier(), [ray.put((X, y)), "more.svm"])  # doctest: +SKIP
    """
    asked = Options(**options)
    if hasattr(blocks, "to_pandas_refs"):
        import ray

        cut = ray.remote(split_frame)
        blocks = [cut.remote(frame, label) for frame in blocks.to_pandas_refs()]
    elif label is not None:
        raise ValueError("label names a column of a data set; blocks bring their own y")
    return fit_on(RayEngine(), model, blocks, asked)


def split_frame(frame: Any, label: str | None) -> tuple[Any, ...]:
    """(X, y) of a frame with a column of labels."""
    if label is None:
        return (frame,)
    return frame.drop(columns=label), frame[label].to_numpy()


class RayEngine(TaskEngine):
    """Tasks on a Ray cluster, which must have been started (`ray.init`)."""

    def __init__(self) -> None:
        import ray

        self.ray = ray
        self._call = ray.remote(_call)

    def broadcast(self, value: Any) -> Any:
        return self.ray.put(value)

    def submit(self, function: Any, *arguments: Any, level: int = 0) -> Any:
        if level:
            parts, shared = arguments
            return self._call.remote(function, shared, *parts)
        number, block, shared = arguments
        return self._call.remote(function, shared, number, block)

    def finished(self, tokens: Sequence[Any]) -> Iterator[tuple[Any, bool]]:
        ready, _ = self.ray.wait(list(tokens), num_returns=1, fetch_local=False)
        for token in ready:
            yield token, True

    def result(self, token: Any) -> Any:
        try:
            return self.ray.get(token)
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None


def _call(function: Any, shared: Any, *arguments: Any) -> Any:
    """Ray opens references among the arguments, not within lists."""
    if arguments and isinstance(arguments[0], int):
        return function(*arguments, shared)
    return function(list(arguments), shared)
