"""Rounds on Spark: one job a round, `mapInPandas` and a tree of folds.

The public address is `osvm.spark`; Spark 3.5 and 4.  The logic is in `osvm.distributed.rounds`.
Spark computes lost partitions again by itself; its own `treeReduce` folds in any order, so that
the levels of the tree are written out here.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from osvm.distributed.rounds import Options, fit_on
from osvm.distributed.tree import FAN_IN, levels

__all__ = ["SparkEngine", "fit"]


def fit(
    model: Any,
    data: Any,
    *,
    label: str | None = None,
    features: Any = None,
    n_features: int | None = None,
    weight: str | None = None,
    spark: Any = None,
    **options: Any,
) -> Any:
    """Train a model on a Spark data frame, whose partitions are the blocks, or on blocks.

    Parameters
    ----------
    model : estimator with `partial_fit`
        Fitted or not; it is changed in place, at the end.
    data : pyspark.sql.DataFrame, or list of blocks
        A list holds functions, file names or rows, as in `osvm.distributed.fit`.
    label : str, optional
        The column of y.
    features : list of str, str or pair of str, optional
        Columns of numbers; one column of arrays; or a pair (indices, values) of columns of
        arrays, for sparse rows.  All columns but `label` and `weight` by default.
    n_features : int, optional
        Width of sparse rows.
    weight : str, optional
        The column of weights.
    spark : SparkSession, optional
        The active one by default.
    **options
        See `osvm.distributed.Options`.

    Returns
    -------
    model

    Examples
    --------
    >>> import osvm                                                    # doctest: +SKIP
    >>> osvm.spark.fit(osvm.LinearClassifier(), frame, label="y")      # doctest: +SKIP
    """
    asked = Options(**options)
    if not hasattr(data, "mapInPandas"):
        if any(given is not None for given in (label, features, n_features, weight)):
            raise ValueError("label, features and weight name columns of a Spark data frame")
        return fit_on(SparkEngine(spark), model, data, asked)
    reader = _Columns(label, features, n_features, weight)
    reader.check(data.columns)
    n = data.rdd.getNumPartitions()
    return fit_on(SparkEngine(spark, (data, reader)), model, range(n), asked)


class _Columns:
    """From a frame of pandas to (X, y, weight)."""

    def __init__(self, label: Any, features: Any, n_features: Any, weight: Any) -> None:
        if isinstance(features, tuple) and (len(features) != 2 or n_features is None):
            raise ValueError("sparse rows need features=(indices, values) and n_features")
        self.label, self.features, self.n_features = label, features, n_features
        self.weight = weight

    def check(self, columns: list[str]) -> None:
        asked = [self.features] if isinstance(self.features, str) else list(self.features or [])
        for name in [*asked, self.label, self.weight]:
            if name is not None and name not in columns:
                raise ValueError(f"the data frame has no column {name!r}; it has {columns}")

    def __call__(self, frame: Any) -> tuple[Any, Any, Any]:
        y = None if self.label is None else frame[self.label].to_numpy()
        weight = None if self.weight is None else frame[self.weight].to_numpy()
        if isinstance(self.features, tuple):
            indices, values = (frame[name].tolist() for name in self.features)
            ends = np.cumsum([0, *map(len, indices)])
            parts = [np.concatenate([*column, []]) for column in (values, indices)]
            X: Any = sp.csr_matrix(
                (parts[0], parts[1].astype(np.int32), ends), shape=(len(frame), self.n_features)
            )
        elif isinstance(self.features, str):
            X = np.array(frame[self.features].tolist())
        else:
            names = self.features or [c for c in frame if c not in (self.label, self.weight)]
            X = frame[list(names)]
        return X, y, weight


class SparkEngine:
    """Whole reductions as Spark jobs.

    Parameters
    ----------
    spark : SparkSession, optional
    frame : (DataFrame, function), optional
        What blocks stand for where they are numbers of partitions.
    """

    def __init__(self, spark: Any = None, frame: Any = None) -> None:
        if spark is None:
            from pyspark.sql import SparkSession

            spark = SparkSession.getActiveSession()
            if spark is None:
                raise ValueError("there is no active Spark session: make one, or give spark=")
        self.spark, self.frame = spark, frame

    def broadcast(self, value: Any) -> Any:
        return self.spark.sparkContext.broadcast(value)

    def reduce(self, leaf: Any, blocks: Any, fold: Any, shared: Any) -> Any:
        """The fold of leaf(k, block, shared) over all blocks, as one job."""
        from pyspark.errors import PythonException

        if self.frame is None:
            context = self.spark.sparkContext
            parts = context.parallelize(list(enumerate(blocks)), len(blocks)).map(
                lambda pair: (pair[0], leaf(pair[0], pair[1], shared.value))
            )
        else:
            data, reader = self.frame
            found = data.mapInPandas(_learner(leaf, reader, shared), "number int, part binary")
            parts = found.rdd.map(lambda row: (row[0], pickle.loads(bytes(row[1]))))
        for width in levels(len(blocks))[1:]:
            parts = (
                parts.map(lambda pair: (pair[0] // FAN_IN, pair))
                .groupByKey(width)
                .map(lambda group: (group[0], _folded(fold, group[1], shared)))
            )
        try:
            return parts.collect()[0][1]
        except PythonException as error:
            raise _cause(error) from error
        finally:
            shared.unpersist()


def _learner(leaf: Any, reader: Any, shared: Any) -> Any:
    """What `mapInPandas` does with a partition: its batches are one block."""

    def learn(frames: Iterator[Any]) -> Iterator[Any]:
        import pandas as pd
        from pyspark import TaskContext

        task: Any = TaskContext.get()
        number = task.partitionId()
        rows = [frame for frame in frames if len(frame)]
        block = [reader(pd.concat(rows, ignore_index=True))] if rows else []
        part = leaf(number, iter(block), shared.value)
        yield pd.DataFrame({"number": [number], "part": [pickle.dumps(part)]})

    return learn


def _folded(fold: Any, group: Any, shared: Any) -> Any:
    """Results in the order of their blocks; a single one is folded too, as everywhere."""
    return fold([part for _, part in sorted(group, key=lambda pair: pair[0])], shared.value)


def _cause(error: Any) -> Exception:
    """The last line of a worker's traceback as the error it was, where it was about data."""
    lines = [line for line in str(error).splitlines() if line.startswith("ValueError: ")]
    return ValueError(lines[-1][len("ValueError: ") :]) if lines else error
