"""Rows with several labels: all labels in one pass, against one after the other.

    python -m asv_bench.bench_multilabel [--rows N] [--labels N] [--repeats N]

Generated text in the shape of RCV1, three labels per row.  The peer is scikit-learn's
``OneVsRestClassifier(SGDClassifier())``, which trains a model for each label as well; one
thread, processor time, taken in turns, one epoch each.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from asv_bench.common import ROWS, interleaved, ratio, rcv1_like
from asv_bench.report import Report, make_parser
from osvm import MultilabelClassifier
from osvm._label_sets import LabelSets

REG = 1e-4
BLOCK = 1000


def label_matrix(X: Any, n_labels: int, per_row: int = 3) -> Any:
    """0 and 1: the labels whose random direction is nearest to a row."""
    rng = np.random.default_rng(0)
    found = []
    for start in range(0, X.shape[0], 10_000):
        part = X[start : start + 10_000]
        if start == 0:
            directions = rng.normal(size=(X.shape[1], n_labels)).astype(X.dtype)
        found.append(np.argpartition(-(part @ directions), per_row, axis=1)[:, :per_row])
    columns = np.concatenate(found).ravel()
    ends = np.arange(0, len(columns) + 1, per_row)
    ones = np.ones(len(columns), np.int64)
    return sp.csr_array((ones, columns, ends), shape=(X.shape[0], n_labels))


def jobs(n_rows: int, n_labels: int, average: bool = False) -> dict[str, Callable[[], Any]]:
    """fit and a stream in one pass, fit one label after the other, and the peer."""
    X = rcv1_like(n_rows)[0]
    Y = label_matrix(X, n_labels)
    options: dict[str, Any] = {"reg": REG, "epochs": 1, "random_state": 0, "average": average}

    def one_pass() -> Any:
        return MultilabelClassifier(**options).fit(X, Y)

    def one_by_one() -> Any:
        sets = LabelSets.of(Y, X.shape[0])
        member = sets.membership(sets.flat, n_labels)
        return MultilabelClassifier(**options)._fit_apart(X, member, None)

    def stream() -> Any:
        model = MultilabelClassifier(**options)
        for start in range(0, X.shape[0], BLOCK):
            model.partial_fit(X[start : start + BLOCK], Y[start : start + BLOCK])
        return model

    def peer() -> Any:
        from sklearn.linear_model import SGDClassifier
        from sklearn.multiclass import OneVsRestClassifier

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inner = SGDClassifier(max_iter=1, tol=None, alpha=REG, random_state=0, average=average)
            return OneVsRestClassifier(inner).fit(X, Y)

    return {"one pass": one_pass, "one by one": one_by_one, "stream": stream, "peer": peer}


class Labels:
    """A hundred labels: times quicker than one after the other, and than the peer."""

    params = ([False, True],)
    param_names = ("average",)

    def setup(self, average: bool) -> None:
        self.jobs = jobs(min(ROWS, 10_000), 100, average)

    def time_fit(self, average: bool) -> None:
        self.jobs["one pass"]()

    def time_stream(self, average: bool) -> None:
        self.jobs["stream"]()

    def track_times_quicker_than_one_by_one(self, average: bool) -> float:
        times = interleaved({name: self.jobs[name] for name in ("one pass", "one by one")}, 2)
        return ratio(times, "one by one", "one pass")

    def track_times_quicker_than_peer(self, average: bool) -> float:
        try:
            times = interleaved({name: self.jobs[name] for name in ("one pass", "peer")}, 2)
        except ImportError:
            raise NotImplementedError("needs scikit-learn") from None
        return ratio(times, "peer", "one pass")


def main() -> None:
    parser = make_parser("bench_multilabel", str(__doc__).splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--labels", type=int, default=100)
    options = parser.parse_args()
    rows = min(options.rows, 2000) if options.quick else options.rows
    report = Report("multilabel", "Many labels per row", str(__doc__).split("\n\n")[2], options)
    table = []
    for average in (False, True):
        work = jobs(rows, options.labels, average)
        times = interleaved(work, options.repeats or 3, warm=False)
        for name in work:
            seconds = min(times[name])
            row = [name, "yes" if average else "no", f"{seconds:.2f}"]
            table.append([*row, f"{ratio(times, name, 'one pass'):.1f} x"])
    headings = ["way", "average", "seconds", "of one pass"]
    report.add_table(f"{rows:,} rows, {options.labels} labels, one epoch", headings, table)
    report.finish()


if __name__ == "__main__":
    main()
