"""Rows of batches: cut out as views, or gathered in another order with one copy.

A batch is X in CSR form and columns beside it: arrays, lists (label sets) or None.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from osvm.stream._parsing import gather


def cut_rows(batch: tuple, start: int, stop: int) -> tuple:
    """Rows start to stop of a batch; views where these are possible."""
    X, *columns = batch
    if start == 0 and stop == X.shape[0]:
        return batch
    if isinstance(X, csr_array):  # its own slices are copies, and so is what it makes of views
        whole, X = X, csr_array((stop - start, X.shape[1]), dtype=X.dtype)
        first, last = whole.indptr[start], whole.indptr[stop]
        X.data, X.indices = whole.data[first:last], whole.indices[first:last]
        X.indptr = whole.indptr[start : stop + 1] - first
    else:
        X = X[start:stop]
    return X, *(None if column is None else column[start:stop] for column in columns)


def gather_rows(parts: list[tuple], order: Any) -> tuple:
    """Rows `order` of batches one after the other; the matrices are copied once."""
    # what is a csr_array already is not made again, which would take as long as copying it
    matrices = [X if type(X) is csr_array else csr_array(X) for X, *_ in parts]
    n_features = matrices[0].shape[1]
    if any(X.shape[1] != n_features for X in matrices):
        raise ValueError("batches of one stream differ in their number of columns")
    value_type = np.result_type(*{X.data.dtype for X in matrices})
    index_type = np.result_type(*{X.indices.dtype for X in matrices})
    order = np.asarray(order, np.int64)
    data, indices, indptr = gather(
        [
            (
                X.data.astype(value_type, copy=False),
                X.indices.astype(index_type, copy=False),
                X.indptr,
            )
            for X in matrices
        ],
        order,
    )
    if indptr[-1] <= np.iinfo(index_type).max:
        indptr = indptr.astype(index_type)
    X = csr_array((data, indices, indptr), shape=(len(order), n_features))
    return X, *(_gather_column(column, order) for column in zip(*(part[1:] for part in parts)))


def _gather_column(parts: tuple, order: np.ndarray) -> Any:
    if parts[0] is None:
        return None
    if isinstance(parts[0], list):
        joined = list(chain.from_iterable(parts))
        return [joined[k] for k in order.tolist()]
    return np.concatenate(parts)[order]
