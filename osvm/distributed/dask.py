"""Rounds on dask: collections become blocks, tasks run on a cluster or in this process.

The public address is `osvm.dask`.  The logic is in `osvm.distributed.rounds`; here are an
engine of a few lines, what turns collections into blocks, lazy prediction, and estimators that
take collections.

Invariants
- a block is named by how it is computed: dask computes it again where its worker has died;
- the model goes out as the result of a task, not scattered, so that it survives any worker;
- folds have a higher priority than further blocks: few results wait on the workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from osvm import kernel, linear
from osvm._estimator.compat import available_if
from osvm.distributed.rounds import Options, fit_on, plain
from osvm.distributed.tree import InProcess, TaskEngine
from osvm.stream import HashingTokenizer

__all__ = [
    "KernelClassifier",
    "KernelNovelty",
    "KernelRegressor",
    "LinearClassifier",
    "LinearNovelty",
    "LinearRegressor",
    "MultilabelClassifier",
    "decision_function",
    "fit",
    "predict",
    "predict_proba",
]


def fit(
    model: Any,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    client: Any = None,
    tokenizer: Any = None,
    **options: Any,
) -> Any:
    """Train a model on dask collections, or on blocks of rows.

    Parameters
    ----------
    model : estimator with `partial_fit`
        A linear model, `MultilabelClassifier`, or a kernel model of streams.  A fitted model
        goes on learning.  It is changed in place, at the end.
    X : dask array, data frame or bag, or a list of blocks
        Blocks of an array are dense or CSR, cut by rows.  Items of a bag are texts (see
        `tokenizer`).  A list holds file names, which the workers open with `osvm.stream`,
        or functions, delayed objects and futures that give (X, y) or (X, y, sample_weight).
    y : dask array, series or bag, or array, optional
        Cut like X; left out where blocks bring their own.
    sample_weight : like y, optional
    client : distributed.Client, optional
        The current one by default; without any, dask's own scheduler computes the blocks and
        this process learns them.
    tokenizer : HashingTokenizer or dict of its parameters, optional
        For bags of text; ``idf=False`` unless it is given.  One with idf must have counted
        documents before (`HashingTokenizer.fit`, or `merge` of what workers counted).
    **options
        See `osvm.distributed.Options`: classes, rounds (5), tol, checkpoint, resume,
        validation, patience, read, verbose.

    Returns
    -------
    model
        With `rounds_`, a list of figures per round.

    Examples
    --------
    >>> import dask.array as da, numpy as np, osvm.dask  # doctest: +SKIP
    >>> X = da.random.default_rng(0).normal(size=(1000, 4), chunks=(250, 4))  # doctest: +SKIP
    >>> y = (X[:, 0] > 0).astype(int)  # doctest: +SKIP
    >>> model = osvm.LinearClassifier(random_state=0)  # doctest: +SKIP
    >>> model = osvm.dask.fit(model, X, y, rounds=2)  # doctest: +SKIP
    >>> model.t_  # doctest: +SKIP
    2000
    """
    asked = Options(**options)
    blocks = to_blocks(X, y, sample_weight, tokenizer)
    return fit_on(_engine(client), model, blocks, asked)


# ---------------------------------------------------------------------- engines


def _engine(client: Any) -> Any:
    if client is not None:
        return DaskEngine(client)
    try:
        from distributed import get_client

        return DaskEngine(get_client())
    except (ImportError, ValueError):  # no distributed, or no client
        return LocalEngine()


class LocalEngine(InProcess):
    """Blocks are computed by dask's scheduler, one at a time, and learnt here."""

    def submit(self, function: Any, *arguments: Any, level: int = 0) -> Any:
        if level == 0:
            number, block, shared = arguments
            return super().submit(_computed, function, number, block, shared)
        return super().submit(function, *arguments, level=level)


def _computed(function: Any, number: int, block: Any, shared: Any) -> Any:
    import dask

    if dask.is_dask_collection(block):
        (block,) = dask.compute(block)
    return function(number, block, shared)


class DaskEngine(TaskEngine):
    """Tasks on a cluster."""

    def __init__(self, client: Any) -> None:
        from distributed import as_completed

        self.client = client
        self._watch = as_completed([])

    def broadcast(self, value: Any) -> Any:
        import dask

        # the message is as large as the model, and meant to be
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
            return self.client.submit(_same, value, pure=False)

    def submit(self, function: Any, *arguments: Any, level: int = 0) -> Any:
        import dask

        if level == 0 and dask.is_dask_collection(arguments[1]):
            number, block, shared = arguments
            arguments = number, self.client.compute(block), shared
        future = self.client.submit(function, *arguments, pure=False, priority=level)
        self._watch.add(future)
        return future

    def finished(self, tokens: Sequence[Any]) -> Iterator[tuple[Any, bool]]:
        future = next(self._watch)
        if future.status == "error":
            future.result()  # raises
        yield future, future.status == "finished"

    def result(self, token: Any) -> Any:
        return token.result()


def _same(value: Any) -> Any:
    return value


# ----------------------------------------------------------- collections to blocks


def to_blocks(X: Any, y: Any = None, sample_weight: Any = None, tokenizer: Any = None) -> Any:
    """A list of blocks, one for each piece of the collections."""
    import dask

    if not dask.is_dask_collection(X) or hasattr(X, "_is_delayed") or _is_delayed(X):
        if isinstance(X, np.ndarray) or hasattr(X, "shape") or _is_delayed(X):
            raise TypeError(
                f"X is a {type(X).__name__}: give a dask collection, or a list of blocks"
            )
        if y is not None or sample_weight is not None:
            raise TypeError("blocks of a list bring their own y: give (X, y) pairs")
        return list(X)
    if tokenizer is not None and not _is_bag(X):
        raise ValueError("tokenizer is for bags of text")
    rows = _row_pieces(X)
    columns = [rows]
    for name, other in (("y", y), ("sample_weight", sample_weight)):
        if other is None:
            columns.append([None] * len(rows))
            continue
        pieces = _row_pieces(_cut_like(X, other, name))
        if len(pieces) != len(rows):
            raise ValueError(f"X has {len(rows)} blocks, {name} {len(pieces)}: cut them alike")
        columns.append(pieces)
    words = None
    if _is_bag(X):
        words = (
            tokenizer
            if isinstance(tokenizer, HashingTokenizer)
            else HashingTokenizer(**{"idf": False, **(tokenizer or {})})
        )
        if words.idf and not words.n_documents_:
            raise ValueError(
                "the tokenizer has counted no documents, which idf=True needs: call its fit, or "
                "use idf=False"
            )
    joined = dask.delayed(_joined, pure=False)
    return [joined(x, t, w, words) for x, t, w in zip(*columns)]


def _is_delayed(X: Any) -> bool:
    return type(X).__name__ in ("Delayed", "DelayedLeaf", "DelayedAttr")


def _is_bag(X: Any) -> bool:
    return type(X).__name__ == "Bag"


def _row_pieces(X: Any) -> list[Any]:
    """Delayed blocks of rows."""
    if getattr(X, "numblocks", (1,))[1:] and X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    return list(np.asarray(X.to_delayed(), dtype=object).ravel())


def _cut_like(X: Any, other: Any, name: str) -> Any:
    """`other` in blocks as X has them, as far as their lengths are known."""
    import dask

    chunks: Any = getattr(X, "chunks", None)
    known = chunks is not None and not np.isnan(chunks[0]).any()
    if not dask.is_dask_collection(other):
        if not known:
            raise TypeError(f"{name} must be a dask collection, since X does not tell its length")
        import dask.array as da

        other = da.from_array(np.asarray(other), chunks=-1)
    own: Any = getattr(other, "chunks", None)
    if known and own is not None and not np.isnan(own[0]).any():
        if sum(own[0]) != sum(chunks[0]):
            raise ValueError(f"X has {sum(chunks[0])} rows and {name} {sum(own[0])}")
        if own[0] != chunks[0]:
            other = other.rechunk({0: chunks[0]})
    return other


def _joined(X: Any, y: Any, weight: Any, tokenizer: Any) -> tuple[Any, Any, Any]:
    """One block, on the worker."""
    if tokenizer is not None:
        items = list(X)
        if y is None and items and isinstance(items[0], tuple):
            items, y = [item[0] for item in items], [item[1] for item in items]
        X = tokenizer.transform(items)
    if isinstance(y, list | Iterator):
        y = list(y)
    return X, y, weight


# ------------------------------------------------------------------- prediction


def predict(model: Any, X: Any, tokenizer: Any = None) -> Any:
    """`model.predict` of a dask collection, as a dask array that is computed when asked for.

    Parameters
    ----------
    model : fitted estimator
        As it is now: training it further changes nothing here.
    X : dask array, data frame or bag of text
    tokenizer : HashingTokenizer or dict, optional
        For bags of text, as in `fit`.

    Returns
    -------
    dask array
    """
    return _mapped(model, X, "predict", tokenizer)


def decision_function(model: Any, X: Any, tokenizer: Any = None) -> Any:
    """`model.decision_function` of a dask collection, like `predict`."""
    return _mapped(model, X, "decision_function", tokenizer)


def predict_proba(model: Any, X: Any, tokenizer: Any = None) -> Any:
    """`model.predict_proba` of a dask collection, like `predict`."""
    return _mapped(model, X, "predict_proba", tokenizer)


def _mapped(model: Any, X: Any, method: str, tokenizer: Any = None) -> Any:
    import dask
    import dask.array as da

    model = plain(model, fitted=True)
    getattr(model, method)  # an AttributeError says what to do
    width = getattr(X, "shape", (0, np.nan))[1:]
    if width and not np.isnan(width[0]) and width[0] != model.n_features_in_:
        raise ValueError(f"X has {width[0]} columns, the model {model.n_features_in_}")
    names = model.__dict__.pop("feature_names_in_", None)
    empty = getattr(model, method)(sp.csr_matrix((1, model.n_features_in_)))
    if names is not None:
        model.feature_names_in_ = names
    shared = dask.delayed(model, traverse=False)
    apply = dask.delayed(_apply, pure=True)
    blocks = to_blocks(X, tokenizer=tokenizer)
    lengths = getattr(X, "chunks", [[np.nan] * len(blocks)])[0]
    return da.concatenate(
        [
            da.from_delayed(apply(shared, block, method), (n, *empty.shape[1:]), meta=empty[:0])
            for n, block in zip(lengths, blocks)
        ],
        allow_unknown_chunksizes=True,
    )


def _apply(model: Any, block: tuple[Any, Any, Any], method: str) -> Any:
    X = block[0]
    if X.shape[0] == 0:
        answer = getattr(model, method)(sp.csr_matrix((1, X.shape[1])))
        return answer[:0]
    return getattr(model, method)(X)


# ------------------------------------------------------------------- estimators


def _lazy(name: str) -> Any:
    """A method that maps collections and passes everything else on."""

    def method(self: Any, X: Any) -> Any:
        import dask

        if dask.is_dask_collection(X):
            return _mapped(self, X, name)
        return getattr(super(_Collections, self), name)(X)

    method.__name__ = name
    method.__doc__ = f"`{name}` of rows, or of a dask collection as a lazy dask array."
    return available_if(lambda self: hasattr(super(_Collections, self), name))(method)


def _with_schedule_of(model: Any, other: Any) -> Any:
    """The model with the schedule that was asked for, "auto" too."""
    if hasattr(other, "schedule"):
        model.schedule = other.schedule
    return model


class _Collections:
    """Mixin: `fit` and prediction of dask collections."""

    def fit(self: Any, X: Any, y: Any = None, sample_weight: Any = None, **options: Any) -> Any:
        """Learn a dask collection from scratch; see `osvm.dask.fit` for the options.

        Rows that are no collection are learnt as the class of the same name in `osvm` does.
        """
        import dask

        fresh, params = _with_schedule_of(plain(self), self), self.get_params(deep=False)
        if dask.is_dask_collection(X) or isinstance(X, list | tuple) or options:
            fit(fresh, X, y, sample_weight, **{"verbose": bool(params.get("verbose")), **options})
        else:
            weights = {} if sample_weight is None else {"sample_weight": sample_weight}
            fresh.fit(X, y, **weights)
        with self._lock.changing():
            for name in set(self.__dict__) - set(params):
                del self.__dict__[name]
            self.__dict__.update({**fresh.__dict__, **params})
        return self

    predict = _lazy("predict")
    decision_function = _lazy("decision_function")
    predict_proba = _lazy("predict_proba")

    def local(self: Any) -> Any:
        """The fitted model as the class of the same name in `osvm`."""
        model = _with_schedule_of(plain(self), self)
        model._set_state(*self._get_state())
        return model

    def save(self: Any, path: Any) -> None:
        """Write the fitted model to one file, as the class of the same name in `osvm`."""
        self.local().save(path)

    def to_bytes(self: Any) -> bytes:
        """The bytes of that file."""
        return self.local().to_bytes()


class LinearClassifier(_Collections, linear.LinearClassifier):
    """`osvm.LinearClassifier` that takes dask collections."""


class LinearRegressor(_Collections, linear.LinearRegressor):
    """`osvm.LinearRegressor` that takes dask collections."""


class LinearNovelty(_Collections, linear.LinearNovelty):
    """`osvm.LinearNovelty` that takes dask collections."""


class MultilabelClassifier(_Collections, linear.MultilabelClassifier):
    """`osvm.MultilabelClassifier` that takes dask collections."""


class KernelClassifier(_Collections, kernel.KernelClassifier):
    """`osvm.KernelClassifier` that takes dask collections."""


class KernelRegressor(_Collections, kernel.KernelRegressor):
    """`osvm.KernelRegressor` that takes dask collections."""


class KernelNovelty(_Collections, kernel.KernelNovelty):
    """`osvm.KernelNovelty` that takes dask collections."""
