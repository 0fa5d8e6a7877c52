"""The sets of the comparison of defaults: real, bundled with scikit-learn, and generated.

``SETS[name].load(seed)`` gives ``(X, y, X_test, y_test)``, the training rows in random
order unless the set is about their order.  Real sets keep their published split, so a seed
changes the order alone; the others are split or generated afresh for each seed.  A set
whose files are not there raises NotImplementedError.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from asv_bench.problems import Problem, real_file

__all__ = ["SETS", "Dataset", "names"]


@dataclass(frozen=True)
class Dataset:
    """A named problem.

    `task` is "class", "regression" or "novelty"; `kind` is "text" or "dense" (which bar of
    time applies, and what is in the table); `metric` is what is compared; `one_pass` says
    whether one pass in random order makes sense (enough rows); `quick` is for ``--quick``.
    """

    name: str
    load: Callable[[int], Problem]
    task: str = "class"
    kind: str = "dense"
    metric: str = "accuracy"
    one_pass: bool = True
    quick: bool = False
    keep_order: bool = False


SETS: dict[str, Dataset] = {}


def names(task: str = "", quick: bool = False) -> list[str]:
    """Names of the sets for a task, all of them or those for a quick look."""
    return [s.name for s in SETS.values() if (not task or s.task == task) and s.quick >= quick]


def _add(name: str, load: Callable[[int], Problem], **about: Any) -> None:
    def shuffled(seed: int) -> Problem:
        X, y, X_test, y_test = load(seed)
        if not about.get("keep_order"):
            order = np.random.default_rng(1000 + seed).permutation(X.shape[0])
            X, y = X[order], y[order]
        return X, y, X_test, y_test

    SETS[name] = Dataset(name, shuffled, **about)


# ---------------------------------------------------------------------- forms


def tfidf(counts: sp.csr_matrix, n: int) -> sp.csr_matrix:
    """Sublinear tf, idf of the first n rows, unit norm: as in `common.news20`."""
    X = counts.astype(np.float64)
    frequency = np.bincount(X[:n].indices, minlength=X.shape[1])
    X.data = (1.0 + np.log(X.data)) * (np.log((1 + n) / (1 + frequency)) + 1.0)[X.indices]
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X.data /= np.repeat(np.where(norms > 0, norms, 1.0), np.diff(X.indptr))
    return X


def scaled(X: np.ndarray, X_test: np.ndarray, form: str) -> tuple[np.ndarray, np.ndarray]:
    """Dense columns in a form: "raw", "std" (mean 0, variance 1) or "unit" (in [0, 1])."""
    X, X_test = np.asarray(X, np.float64), np.asarray(X_test, np.float64)
    if form == "raw":
        return X, X_test
    shift, scale = (X.mean(0), X.std(0)) if form == "std" else (X.min(0), np.ptp(X, 0))
    scale = np.where(scale > 0, scale, 1.0)
    return (X - shift) / scale, (X_test - shift) / scale


def split(X: Any, y: np.ndarray, seed: int, form: str = "raw") -> Problem:
    """70 % for training, by seed."""
    order = np.random.default_rng(seed).permutation(len(y))
    n = round(0.7 * len(y))
    train, test = order[:n], order[n:]
    A, B = X[train], X[test]
    if form != "raw":
        A, B = scaled(A, B, form)
    return A, y[train], B, y[test]


# ---------------------------------------------------------------------- real sets


@lru_cache(maxsize=2)
def _counts(name: str) -> sp.csr_matrix:
    return sp.csr_matrix(sp.load_npz(real_file(f"{name}.npz")), dtype=np.float64)


def _news20(classes: int, form: str) -> Callable[[int], Problem]:
    def load(seed: int) -> Problem:
        labels = np.load(real_file("news20_labels.npz"))
        n, y = int(labels["n_train"]), labels["y"].astype(np.int64)
        X = _counts("news20_counts")
        X = tfidf(X, n) if form == "tf-idf" else X
        y = y if classes == 20 else (y >= 10).astype(np.int64) if classes == 2 else (y == 0) * 1
        return X[:n], y[:n], X[n:], y[n:]

    return load


def _reuters(topic: str, form: str) -> Callable[[int], Problem]:
    def load(seed: int) -> Problem:
        meta = np.load(real_file("reuters21578_meta.npz"))
        topics = sp.csc_matrix(sp.load_npz(real_file("reuters21578_topics.npz")))
        n = int(meta["n_train"])
        column = topics[:, [meta["topics"].tolist().index(topic)]]
        y = (np.asarray(column.todense()).ravel() > 0).astype(np.int64)
        X = _counts("reuters21578_counts")
        X = tfidf(X, n) if form == "tf-idf" else X
        return X[:n], y[:n], X[n:], y[n:]

    return load


def _sms(form: str) -> Callable[[int], Problem]:
    def load(seed: int) -> Problem:
        X, y = _counts("sms_spam_counts"), np.load(real_file("sms_spam_labels.npy"))
        A, u, B, v = split(X, (y > 0).astype(np.int64), seed)
        if form == "tf-idf":
            both = tfidf(sp.vstack([A, B], format="csr"), A.shape[0])
            A, B = both[: A.shape[0]], both[A.shape[0] :]
        return A, u, B, v

    return load


def _split_file(file: str, labels: str) -> Callable[[int], Problem]:
    def load(seed: int) -> Problem:
        X, found = _counts(file), np.load(real_file(labels))
        n, y = int(found["n_train"]), (found["y"] > 0).astype(np.int64)
        return X[:n], y[:n], X[n:], y[n:]

    return load


def _digits_file(file: str, rows: int, form: str, two: bool = False) -> Callable[[int], Problem]:
    def load(seed: int) -> Problem:
        data = np.load(real_file(file))
        pick = np.random.default_rng(0).permutation(len(data["y_train"]))[:rows]
        X, X_test = scaled(data["X_train"][pick], data["X_test"][:5000], form)
        y, y_test = (
            data["y_train"][pick].astype(np.int64),
            data["y_test"][:5000].astype(np.int64),
        )
        if two:
            y, y_test = (y >= 5) * 1, (y_test >= 5) * 1
        return X, y, X_test, y_test

    return load


def _compactiv(form: str, target: str = "y") -> Callable[[int], Problem]:
    def load(seed: int) -> Problem:
        data = np.load(real_file("compactiv.npz"))
        y = data["y_usr"] if target != "y" else (data["y"] > 0).astype(np.int64)
        X, y, X_test, y_test = split(data["X"], y, seed, form)
        if target == "both":
            y, y_test = (y - y.mean()) / y.std(), (y_test - y.mean()) / y.std()
        return X, y, X_test, y_test

    return load


def _small(name: str, form: str = "raw") -> Callable[[int], Problem]:
    def load(seed: int) -> Problem:
        data = np.load(real_file("kecman_small.npz"))
        return split(data[f"{name}_X"], data[f"{name}_y"].astype(np.int64), seed, form)

    return load


def _bundled(name: str, form: str = "raw") -> Callable[[int], Problem]:
    def load(seed: int) -> Problem:
        from sklearn import datasets

        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return split(X, y, seed, form)

    return load


# ---------------------------------------------------------------------- generated sets


def _sentences(seed: int) -> Problem:
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = [
        "the film was very good", "what a bad and dull film", "good music, good actors",
        "a dull bad story", "very good story and music", "bad music, dull actors",
    ]  # fmt: skip
    X = TfidfVectorizer().fit_transform(texts)
    y = np.array([5, 1, 5, 1, 5, 1])
    return X, y, X, y


def _normal(
    n: int, d: int, *, flip: float = 0.0, share: float = 0.5, order: bool = False
) -> Callable[[int], Problem]:
    """Normal columns, a random direction, labels flipped, a share of positives."""

    def load(seed: int) -> Problem:
        rng = np.random.default_rng(seed)
        w = rng.normal(size=d) / np.sqrt(d)
        X = rng.normal(size=(n + 2000, d))
        score = X @ w
        y = (score > np.quantile(score, 1 - share)).astype(np.int64)
        noisy = rng.random(len(y)) < flip
        y[noisy] = 1 - y[noisy]
        A, u = X[:n], y[:n]
        if order:
            by_label = np.argsort(u, kind="stable")
            A, u = A[by_label], u[by_label]
        return A, u, X[n:], y[n:]

    return load


def _sparse(n: int, d: int, nnz: int) -> Callable[[int], Problem]:
    """Rows with `nnz` normal values in random columns, labels by a random direction."""

    def load(seed: int) -> Problem:
        rng = np.random.default_rng(seed)
        m = n + 1000
        hot = rng.integers(0, min(d, 2000), size=(m, nnz // 2))
        cold = rng.integers(0, d, size=(m, nnz - nnz // 2))
        data = rng.normal(size=(m, nnz)).ravel()
        indptr = np.arange(0, m * nnz + 1, nnz)
        X = sp.csr_matrix((data, np.hstack([hot, cold]).ravel(), indptr), shape=(m, d))
        X.sum_duplicates()
        y = (X @ rng.normal(size=d) > 0).astype(np.int64)
        return X[:n], y[:n], X[n:], y[n:]

    return load


def _text(n: int, classes: int = 2, order: bool = False) -> Callable[[int], Problem]:
    def load(seed: int) -> Problem:
        from osvm.datasets import make_rcv1_like

        X, y, X_test, y_test = make_rcv1_like(
            n, 3000, n_classes=classes, dtype=np.float64, random_state=seed, sorted_by_class=order
        )
        return sp.csr_matrix(X), y.astype(np.int64), sp.csr_matrix(X_test), y_test.astype(np.int64)

    return load


def _cover(n: int, classes: int, form: str) -> Callable[[int], Problem]:
    """Like forest cover: ten measures in raw units (scales 1 to 7,000), 44 indicators."""

    def load(seed: int) -> Problem:
        rng = np.random.default_rng(seed)
        m = n + 3000
        hidden = rng.normal(size=(m, 6))
        measures = hidden @ rng.normal(size=(6, 10)) + rng.normal(size=(m, 10))
        kind, wild = rng.integers(0, 40, size=m), rng.integers(0, 4, size=m)
        kind = np.where(rng.random(m) < 0.5, kind, kind // 6)  # some indicators are rare
        effect = rng.normal(size=(40 + 4, classes))
        score = 0.8 * hidden @ rng.normal(size=(6, classes)) + effect[kind] + effect[40 + wild]
        score += 0.7 * np.maximum(hidden[:, :1], 0) * rng.normal(size=classes)  # not linear
        score += rng.gumbel(size=(m, classes)) + np.linspace(1.0, 0.0, classes)
        units = np.array([280.0, 110, 7.5, 210, 58, 1560, 27, 20, 38, 7000])
        offset = np.array([2960.0, 155, 14, 270, 46, 2350, 212, 223, 142, 1980])
        X = np.zeros((m, 54))
        X[:, :10] = offset + units * measures / measures.std(0)
        X[np.arange(m), 10 + wild] = 1.0
        X[np.arange(m), 14 + kind] = 1.0
        y = score.argmax(1).astype(np.int64)
        return (*scaled_pair(X, n, form, y),)  # type: ignore[return-value]

    return load


def scaled_pair(X: np.ndarray, n: int, form: str, y: np.ndarray) -> Problem:
    """First n rows and the others, in a form."""
    A, B = scaled(X[:n], X[n:], form)
    return A, y[:n], B, y[n:]


def _linear_target(
    n: int, d: int, *, noise: float, offset: float, unit: float = 1.0
) -> Callable[[int], Problem]:
    """Normal columns, y = unit (offset + w.x + noise) with |w| = 1."""

    def load(seed: int) -> Problem:
        rng = np.random.default_rng(seed)
        w = rng.normal(size=d)
        X = rng.normal(size=(n + 1000, d))
        y = X @ (w / np.linalg.norm(w)) + noise * rng.normal(size=len(X)) + offset
        return X[:n], unit * y[:n], X[n:], unit * y[n:]

    return load


def _sparse_target(n: int, d: int) -> Callable[[int], Problem]:
    def load(seed: int) -> Problem:
        from osvm.datasets import make_sparse_regression

        X, y, _ = make_sparse_regression(n + 1000, d, noise=0.3, random_state=seed)
        X = sp.csr_matrix(X)
        return X[:n], y[:n], X[n:], y[n:]

    return load


# ------------------------------------------------------------- novelty: y_test is +1 or -1


def _digit_novelty(file: str, digit: int) -> Callable[[int], Problem]:
    """Rows of one digit for training; the others are novel."""

    def load(seed: int) -> Problem:
        data = np.load(real_file(file))
        scale = float(data["X_train"].max())
        X = data["X_train"][data["y_train"] == digit] / scale
        X_test, y_test = data["X_test"][:3000] / scale, data["y_test"][:3000]
        return X, np.ones(len(X)), X_test, np.where(y_test == digit, 1, -1)

    return load


def _text_novelty(form: str) -> Callable[[int], Problem]:
    """News of two neighboring groups (hardware) for training; all others are novel."""

    def load(seed: int) -> Problem:
        X, y, X_test, y_test = _news20(20, form)(seed)
        usual, usual_test = (y == 3) | (y == 4), (y_test == 3) | (y_test == 4)
        return X[usual], np.ones(int(usual.sum())), X_test, np.where(usual_test, 1, -1)

    return load


def _shifted_novelty(n: int, d: int) -> Callable[[int], Problem]:
    """Normal rows around a mean of norm 3; novel rows around its opposite half."""

    def load(seed: int) -> Problem:
        rng = np.random.default_rng(seed)
        mean = rng.normal(size=d)
        mean *= 3.0 / np.linalg.norm(mean)
        X = mean + rng.normal(size=(n, d))
        usual, novel = mean + rng.normal(size=(500, d)), 0.2 * mean + rng.normal(size=(500, d))
        return X, np.ones(n), np.vstack([usual, novel]), np.repeat([1, -1], 500)

    return load


def _fill() -> None:
    for classes in (2, 20):
        for form in ("tf-idf", "counts"):
            _add(f"news20-{classes} {form}", _news20(classes, form), kind="text")
    _add("news20-0 tf-idf", _news20(1, "tf-idf"), kind="text", metric="F1")
    _add("reuters-earn tf-idf", _reuters("earn", "tf-idf"), kind="text")
    _add("reuters-acq counts", _reuters("acq", "counts"), kind="text")
    _add("reuters-grain tf-idf", _reuters("grain", "tf-idf"), kind="text", metric="F1")
    _add("sms tf-idf", _sms("tf-idf"), kind="text")
    _add("sms counts", _sms("counts"), kind="text", quick=True)
    _add("rcv1 sample", _split_file("rcv1_vw1500", "rcv1_vw1500_labels.npz"), kind="text")
    _add("rcv1-like", _text(20_000), kind="text")
    _add("rcv1-like-10", _text(10_000, 10), kind="text")
    _add("a9a", _split_file("a9a", "a9a_labels.npz"), kind="text")
    _add("usps unit", _digits_file("usps.npz", 7291, "unit"))
    _add("usps-2 std", _digits_file("usps.npz", 7291, "std", two=True))
    _add("mnist unit", _digits_file("mnist.npz", 6000, "unit"))
    _add("mnist raw", _digits_file("mnist.npz", 6000, "raw"))
    for form in ("unit", "std", "raw"):
        _add(f"compactiv {form}", _compactiv(form))
        _add(f"cover-2 {form}", _cover(15_000, 2, form), quick=form == "raw")
        _add(f"cover-7 {form}", _cover(15_000, 7, form))
    for form in ("std", "raw"):
        _add(f"eukaryotic {form}", _small("eukaryotic", form))
        _add(f"breast_cancer {form}", _bundled("breast_cancer", form), one_pass=False,
             quick=form == "std")  # fmt: skip
        _add(f"wine {form}", _bundled("wine", form), one_pass=False)
    _add("prokaryotic std", _small("prokaryotic", "std"))
    for name in ("sonar", "vote"):
        _add(f"{name} raw", _small(name), one_pass=False)
    _add("wpbc std", _small("wpbc", "std"), one_pass=False)
    _add("iris raw", _bundled("iris"), one_pass=False, quick=True)
    _add("digits raw", _bundled("digits"), quick=True)
    _add("6 sentences", _sentences, kind="text", one_pass=False, quick=True)
    _add("tiny 20", _normal(20, 5), one_pass=False, quick=True)
    _add("tiny 100", _normal(100, 20), one_pass=False)
    _add("noise 0.2", _normal(5000, 20, flip=0.2), quick=True)
    for percent in (10, 2, 1):
        _add(f"{percent} % positives", _normal(5000, 20, share=percent / 100), metric="F1",
             quick=percent == 2)  # fmt: skip
    _add("sorted dense", _normal(5000, 20, flip=0.05, order=True), one_pass=False,
         keep_order=True)  # fmt: skip
    _add("sorted text", _text(10_000, order=True), kind="text", one_pass=False, keep_order=True)
    _add("d 200,000", _sparse(2000, 200_000, 100), kind="text", quick=True)
    _add("d 1,000,000", _sparse(5000, 1_000_000, 50), kind="text")
    for form, target in (("std", "usr"), ("std", "both"), ("raw", "usr")):
        _add(f"compactiv {form} {target}", _compactiv(form, target), task="regression",
             metric="R2")  # fmt: skip
    _add("diabetes", _bundled("diabetes"), task="regression", metric="R2", one_pass=False)
    _add("diabetes std", _bundled("diabetes", "std"), task="regression", metric="R2",
         one_pass=False, quick=True)  # fmt: skip
    _add("offset 10", _linear_target(1000, 5, noise=0.1, offset=10), task="regression",
         metric="R2", quick=True)  # fmt: skip
    _add("offset 1,000 unit 1e-3", _linear_target(5000, 20, noise=0.3, offset=1000, unit=1e-3),
         task="regression", metric="R2")  # fmt: skip
    _add("unit 1e6", _linear_target(5000, 20, noise=1.0, offset=-3, unit=1e6),
         task="regression", metric="R2")  # fmt: skip
    _add("sparse target", _sparse_target(10_000, 2000), task="regression", kind="text",
         metric="R2")  # fmt: skip
    for digit in (0, 3):
        _add(f"usps {digit}", _digit_novelty("usps.npz", digit), task="novelty", metric="AUC")
    _add("mnist 1", _digit_novelty("mnist.npz", 1), task="novelty", metric="AUC")
    _add("news20 hardware", _text_novelty("tf-idf"), task="novelty", kind="text", metric="AUC")
    _add("shifted", _shifted_novelty(2000, 20), task="novelty", metric="AUC", quick=True)


_fill()
