"""Data sets of the kernel experiments: generated ones, and real ones under OSVM_DATA.

Features of the real tables are scaled to mean 0 and variance 1 by their training rows in
each experiment; pixels and points are used as they are.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from osvm.datasets import make_chessboard, make_two_normals

FOLDER = Path(
    os.environ.get("OSVM_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data")
)

GENERATED = ("chessboard 4992", "chessboard 8000", "two normals 15000")
SMALL = ("cancer", "sonar", "vote", "eukaryotic", "prototask")


@dataclass
class KernelSet:
    """Rows with labels -1 and +1; test rows where a split is given."""

    name: str
    X: Any
    y: np.ndarray
    X_test: Any = None
    y_test: np.ndarray | None = None
    scale: bool = False
    widths: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0)  # sigma of the Gaussian


def signs(y: np.ndarray, positive: Any) -> np.ndarray:
    return np.where(y == positive, 1, -1)


def load(name: str, limit: int | None = None) -> KernelSet:
    """The set of that name; at most `limit` training rows (taken at random)."""
    found = _load(name)
    if limit is not None and found.X.shape[0] > limit:
        keep = np.random.default_rng(0).permutation(found.X.shape[0])[:limit]
        found.X, found.y = found.X[keep], found.y[keep]
    return found


def _load(name: str) -> KernelSet:
    if name.startswith("chessboard"):
        n = int(name.split()[1])
        X, y = make_chessboard(n, random_state=0)
        X_test, y_test = make_chessboard(10_000, random_state=1)
        return KernelSet(name, X, signs(y, 1), X_test, signs(y_test, 1), widths=(0.1, 0.5, 1, 5))
    if name.startswith("two normals"):
        n = int(name.split()[2])
        X, y = make_two_normals(n, random_state=0)
        X_test, y_test = make_two_normals(n, random_state=1)
        return KernelSet(name, X, signs(y, 1), X_test, signs(y_test, 1))
    if name == "usps":
        data = np.load(FOLDER / "usps.npz")
        y, y_test = (np.where(data[k] <= 4, 1, -1) for k in ("y_train", "y_test"))
        return KernelSet(name, data["X_train"], y, data["X_test"], y_test, widths=(1, 3, 6, 12))
    if name == "prototask":
        data = np.load(FOLDER / "compactiv.npz")
        y = np.where(data["y_usr"] >= 89, 1, -1)
        return KernelSet(name, data["X"], y, scale=True)
    if name == "reuters":
        return _load_reuters()
    data = np.load(FOLDER / "kecman_small.npz")
    key = {"cancer": "wpbc"}.get(name, name)
    y = data[f"{key}_y"]
    positive = 4 if name == "eukaryotic" else np.unique(y)[0]
    return KernelSet(name, data[f"{key}_X"], signs(y, positive), scale=True)


def _load_reuters() -> KernelSet:
    """Training part, topic earn against the rest; tf-idf, unit norm."""
    import scipy.sparse as sp

    counts = sp.load_npz(FOLDER / "reuters21578_counts.npz").tocsr().astype(np.float32)
    topics = sp.load_npz(FOLDER / "reuters21578_topics.npz").tocsc()
    meta = np.load(FOLDER / "reuters21578_meta.npz", allow_pickle=False)
    n = int(meta["n_train"])
    names = next((meta[k] for k in meta.files if meta[k].dtype.kind == "U"), None)
    column = int(np.flatnonzero(names == "earn")[0]) if names is not None else int(
        np.argmax(np.asarray(topics.sum(axis=0)).ravel())
    )  # fmt: skip
    y = np.where(np.asarray(topics[:, column].todense()).ravel() > 0, 1, -1)
    idf = np.log(n / (1 + np.bincount(counts[:n].indices, minlength=counts.shape[1]))) + 1
    X = counts.multiply(idf[None, :].astype(np.float32)).tocsr()
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X = sp.diags(1 / np.maximum(norms, 1e-12)).dot(X).tocsr().astype(np.float32)
    return KernelSet("reuters", X[:n], y[:n], X[n:], y[n:], widths=(0.1, 1, 10, 100))
