"""Sparse text: the RCV1 shape at any size, whole or in chunks, and labels in a tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from osvm.datasets import _text_model as model_of_text
from osvm.datasets._arguments import float_type, positive, seed


def signed(classes: np.ndarray, n_classes: int) -> np.ndarray:
    """Two classes are named -1 and +1, more keep their numbers."""
    return 2 * classes - 1 if n_classes == 2 else classes


def make_rcv1_like(
    n_train: int = 781_265,
    n_test: int = 23_149,
    n_features: int = 47_152,
    nnz: int = 76,
    n_classes: int = 2,
    *,
    dtype: Any = np.float32,
    random_state: int | np.random.Generator | None = None,
    sorted_by_class: bool = False,
    label_noise: float = 0.025,
) -> tuple[sparse.csr_array, np.ndarray, sparse.csr_array, np.ndarray]:
    """Sparse text in the shape of RCV1, with unit-norm tf-idf rows.

    Words follow Zipf's law and are scattered over the columns; documents mix
    background words with those of two topics, and classes are sets of topics
    (see `osvm.model_of_text`).  At the default shape a linear SVM makes about 6 %
    test errors, as on the CCAT topic of RCV1.

    Parameters
    ----------
    n_train, n_test : int
        Rows of the two parts.  Row i of a part depends on `random_state` and the
        model's sizes only, so a smaller set is the beginning of a larger one.
    n_features : int
        Columns, up to 2**40; memory does not depend on it.
    nnz : int
        Mean number of non-zeros a row.
    n_classes : int
        2 gives labels -1 and +1, more give 0 .. n_classes - 1.
    dtype : float32 or float64
        Type of the values.
    random_state : int, Generator or None
        Names the problem; None draws a fresh one.
    sorted_by_class : bool
        Sort the training rows by class: the worst order for one pass.
    label_noise : float
        Share of documents that speak for a class other than their label.

    Returns
    -------
    X_train, y_train, X_test, y_test
        CSR arrays with sorted columns, int32 indices where they fit, and labels.

    Examples
    --------
    >>> from osvm.datasets import make_rcv1_like
    >>> X, y, X_test, y_test = make_rcv1_like(1000, 200, random_state=0)
    >>> X.shape, X.dtype, sorted(set(y.tolist()))
    ((1000, 47152), dtype('float32'), [-1, 1])
    """
    positive(n_train=n_train)
    if n_test < 0:
        raise ValueError(f"n_test must not be negative, got {n_test}")
    value_type = float_type(dtype)
    model = model_of_text.make_model(
        n_features, nnz, n_classes, seed(random_state), label_noise=label_noise
    )
    X, classes = model_of_text.make_part(
        model, model_of_text.TRAIN, n_train, value_type, sorted_by_class
    )
    X_test, test_classes = model_of_text.make_part(model, model_of_text.TEST, n_test, value_type)
    return X, signed(classes, n_classes), X_test, signed(test_classes, n_classes)


def iter_rcv1_like(
    n_rows: int,
    *,
    chunk_rows: int = 16_384,
    n_features: int = 47_152,
    nnz: int = 76,
    n_classes: int = 2,
    dtype: Any = np.float32,
    random_state: int | np.random.Generator | None = None,
    sorted_by_class: bool = False,
    label_noise: float = 0.025,
    test: bool = False,
) -> Iterator[tuple[sparse.csr_array, np.ndarray]]:
    """The rows of `make_rcv1_like` as a stream of chunks, in bounded memory.

    Parameters
    ----------
    n_rows : int
        Rows in all.
    chunk_rows : int
        Rows a chunk; the last one may be shorter.
    test : bool
        Give the test rows instead of the training rows.
    n_features, nnz, n_classes, dtype, random_state, sorted_by_class, label_noise
        As in `make_rcv1_like`; the same values give the same rows.

    Yields
    ------
    X, y
        A CSR array and its labels.

    Examples
    --------
    >>> from osvm.datasets import iter_rcv1_like
    >>> [X.shape for X, y in iter_rcv1_like(2500, chunk_rows=1000, random_state=0)]
    [(1000, 47152), (1000, 47152), (500, 47152)]
    """
    positive(n_rows=n_rows, chunk_rows=chunk_rows)
    value_type = float_type(dtype)
    model = model_of_text.make_model(
        n_features, nnz, n_classes, seed(random_state), label_noise=label_noise
    )
    part = model_of_text.TEST if test else model_of_text.TRAIN
    blocks = model_of_text.iterate_blocks(model, part, n_rows, value_type, sorted_by_class)
    for X, classes in model_of_text.iterate_chunks(model, blocks, n_rows, chunk_rows):
        yield X, signed(classes, n_classes)


def make_tree_text(
    n_train: int = 4000,
    n_test: int = 1000,
    *,
    branching: tuple[int, ...] = (4, 5),
    n_features: int = 10_000,
    nnz: int = 60,
    dtype: Any = np.float32,
    random_state: int | np.random.Generator | None = None,
    label_noise: float = 0.02,
) -> tuple[sparse.csr_array, np.ndarray, sparse.csr_array, np.ndarray, np.ndarray]:
    """Text whose labels are the leaves of a tree and share their ancestors' words.

    Parameters
    ----------
    n_train, n_test : int
        Rows of the two parts.
    branching : tuple of int
        Children of each node, level by level: (4, 5) is 4 groups of 5 leaves.
    n_features, nnz, dtype, random_state, label_noise
        As in `make_rcv1_like`.

    Returns
    -------
    X_train, y_train, X_test, y_test
        Labels are 0 .. n_leaves - 1, in the order of the leaves among the nodes.
    parents : ndarray of int
        Parent of each node, -1 for the root, which is node 0; the last n_leaves
        nodes are the leaves.

    Examples
    --------
    >>> from osvm.datasets import make_tree_text
    >>> X, y, X_test, y_test, parents = make_tree_text(branching=(2, 2), random_state=0)
    >>> parents
    array([-1,  0,  0,  1,  1,  2,  2])
    >>> sorted(set(y.tolist()))
    [0, 1, 2, 3]
    """
    positive(n_train=n_train, n_test=n_test)
    if not branching or min(branching) < 2:
        raise ValueError(f"branching needs a number of at least 2 per level, got {branching}")
    parents = [-1]
    level = [0]
    for children in branching:
        below = []
        for node in level:
            for _ in range(children):
                below.append(len(parents))
                parents.append(node)
        level = below
    value_type = float_type(dtype)
    model = model_of_text.make_model(
        n_features,
        nnz,
        len(level),
        seed(random_state),
        topics_per_class=1,
        label_noise=label_noise,
        parents=tuple(parents),
    )
    X, classes = model_of_text.make_part(model, model_of_text.TRAIN, n_train, value_type)
    X_test, test_classes = model_of_text.make_part(model, model_of_text.TEST, n_test, value_type)
    return X, classes, X_test, test_classes, np.array(parents)
