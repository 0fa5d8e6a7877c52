"""Binary and multi-class problems by name: generated text at any size, and real sets.

Real sets are read from the folder that OSVM_DATA names and are never part of the
project.  A function raises NotImplementedError (asv: skip) where its set is not there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from asv_bench.common import DATA, news20, rcv1_like

Problem = tuple[Any, np.ndarray, Any, np.ndarray]  # X, y, X_test, y_test


def real_file(name: str) -> Any:
    """Path of a real data file."""
    path = DATA / name
    if not path.exists():
        raise NotImplementedError(f"set OSVM_DATA to the folder with {name}")
    return path


def have(name: str) -> bool:
    """Whether the problem's data are at hand."""
    files = {"news20": "news20_counts.npz", "a9a": "a9a.npz", "rcv1": "rcv1_vw1500.npz",
             "reuters": "reuters21578_counts.npz", "usps": "usps.npz"}  # fmt: skip
    return name not in files or (DATA / files[name]).exists()


def generated(rows: int) -> Problem:
    """RCV1-shaped text, two classes."""
    X, y, X_test, y_test = rcv1_like(rows)
    return X, y.astype(np.int64), X_test, y_test.astype(np.int64)


def binary_news20(rows: int = 0) -> Problem:
    """20 Newsgroups, the ten groups with the higher numbers against the others."""
    X, y, X_test, y_test = news20()
    return X, np.where(y >= 10, 1, -1), X_test, np.where(y_test >= 10, 1, -1)


def one_news20(rows: int = 0) -> Problem:
    """20 Newsgroups, the first group against the rest."""
    X, y, X_test, y_test = news20()
    return X, np.where(y == 0, 1, -1), X_test, np.where(y_test == 0, 1, -1)


def a9a(rows: int = 0) -> Problem:
    """a9a, rows of unit norm."""
    X = sp.csr_matrix(sp.load_npz(real_file("a9a.npz")), dtype=np.float32)
    labels = np.load(real_file("a9a_labels.npz"))
    norms = np.sqrt(np.diff(X.indptr).clip(1))
    X.data /= np.repeat(norms, np.diff(X.indptr)).astype(np.float32)
    return _split(X, np.where(labels["y"] > 0, 1, -1), int(labels["n_train"]))


def rcv1_sample(rows: int = 0) -> Problem:
    """A thousand rows of RCV1, topic CCAT."""
    X = sp.csr_matrix(sp.load_npz(real_file("rcv1_vw1500.npz")), dtype=np.float32)
    labels = np.load(real_file("rcv1_vw1500_labels.npz"))
    return _split(X, np.where(labels["y"] > 0, 1, -1), int(labels["n_train"]))


def reuters(rows: int = 0, topic: str = "earn") -> Problem:
    """Reuters-21578 ModApte, one topic against the rest, unit-norm tf-idf."""
    X = sp.csr_matrix(sp.load_npz(real_file("reuters21578_counts.npz")), dtype=np.float64)
    topics = sp.csc_matrix(sp.load_npz(real_file("reuters21578_topics.npz")))
    meta = np.load(real_file("reuters21578_meta.npz"))
    n = int(meta["n_train"])
    column = meta["topics"].tolist().index(topic)
    y = np.where(np.asarray(topics[:, [column]].todense()).ravel() > 0, 1, -1)
    frequency = np.bincount(X[:n].indices, minlength=X.shape[1])
    X.data = (1.0 + np.log(X.data)) * (np.log((1 + n) / (1 + frequency)) + 1.0)[X.indices]
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X.data /= np.repeat(np.where(norms > 0, norms, 1.0), np.diff(X.indptr))
    return _split(X.astype(np.float32), y, n)


def usps(rows: int = 0) -> Problem:
    """USPS digits in [-1, 1], 0-4 against 5-9, dense."""
    data = np.load(real_file("usps.npz"))
    X, X_test = (2 * data[k].astype(np.float32) - 1 for k in ("X_train", "X_test"))
    y, y_test = (np.where(data[k] >= 5, 1, -1) for k in ("y_train", "y_test"))
    return X, y, X_test, y_test


def _split(X: Any, y: np.ndarray, n: int) -> Problem:
    return X[:n], y[:n].astype(np.int64), X[n:], y[n:].astype(np.int64)


BINARY = {
    "generated": generated,
    "news20": one_news20,
    "a9a": a9a,
    "rcv1": rcv1_sample,
    "reuters": reuters,
}
