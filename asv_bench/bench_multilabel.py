"""Rows with several labels: all labels in one pass, against one after the other.

    python -m asv_bench.bench_multilabel [--rows N] [--labels N] [--repeats N]

Generated text in the shape of RCV1; a row carries its topic and the topic's group.  The
peer is scikit-learn's ``OneVsRestClassifier(SGDClassifier())``, which trains a model for
each label as well; one thread, processor time, taken in turns, one epoch each, streams in
blocks of a thousand rows.  The F1 is that of test rows.
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
from osvm._input.label_sets import LabelSets
from osvm.linear.label_models import fit_apart

REG = 1e-4
BLOCK = 1000


def labelled_rows(n_rows: int, n_labels: int) -> tuple[Any, Any, Any, Any]:
    """X, Y, X_test, Y_test: the topic of a document, and the group that it belongs to.

    Four labels of five are topics, the others groups of topics; both can be learnt.
    """
    n_topics = max(2, n_labels * 4 // 5)
    X, y, X_test, y_test = rcv1_like(n_rows, n_topics)

    def matrix(topics: Any) -> Any:
        topics = np.asarray(topics).astype(np.int64)
        groups = n_topics + topics % (n_labels - n_topics)
        columns = np.column_stack([topics, groups]).ravel()
        ends = np.arange(0, len(columns) + 1, 2)
        ones = np.ones(len(columns), np.int64)
        return sp.csr_array((ones, columns, ends), shape=(len(topics), n_labels))

    return X, matrix(y), X_test, matrix(y_test)


def micro_f1(found: Any, wanted: Any) -> float:
    """2 right / (found + wanted), over all labels and rows."""
    found = (found.toarray() if sp.issparse(found) else np.asarray(found)) > 0
    wanted = wanted.toarray() > 0
    return float(2 * (found & wanted).sum() / (found.sum() + wanted.sum()))


class OneByOne(MultilabelClassifier):
    """The labels of a stream one after the other."""

    def _stream_joined(self, *rows: Any) -> None:
        return None


def jobs(
    n_rows: int, n_labels: int, average: bool = False
) -> tuple[dict[str, Callable[[], None]], Callable[[str], float]]:
    """Ways to learn one epoch, and the quality on test rows of what a way has learnt."""
    X, Y, X_test, Y_test = labelled_rows(n_rows, n_labels)
    options: dict[str, Any] = {"reg": REG, "epochs": 1, "random_state": 0, "average": average}
    found: dict[str, Any] = {}

    def one_pass() -> None:
        found["one pass"] = MultilabelClassifier(**options).fit(X, Y)

    def one_by_one() -> None:
        sets = LabelSets.of(Y, X.shape[0])
        member = sets.membership(sets.flat, n_labels)
        model = MultilabelClassifier(**options)
        models = fit_apart(model._new_inner, model.get_params(deep=False), X, member, None)
        model._keep_models(models, is_joined=False)
        model.t_, model.n_features_in_ = X.shape
        found["one by one"] = model

    def stream(name: str, cls: Any) -> None:
        model = cls(**options)
        for start in range(0, X.shape[0], BLOCK):
            rows = slice(start, start + BLOCK)
            model.partial_fit(X[rows], Y[rows], classes=range(n_labels))
        found[name] = model

    def peer() -> None:
        from sklearn.linear_model import SGDClassifier
        from sklearn.multiclass import OneVsRestClassifier

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inner = SGDClassifier(max_iter=1, tol=None, alpha=REG, random_state=0, average=average)
            found["peer"] = OneVsRestClassifier(inner).fit(X, Y)

    ways: dict[str, Callable[[], None]] = {
        "one pass": one_pass,
        "one by one": one_by_one,
        "stream": lambda: stream("stream", MultilabelClassifier),
        "stream, one by one": lambda: stream("stream, one by one", OneByOne),
        "peer": peer,
    }
    return ways, lambda name: micro_f1(found[name].predict(X_test), Y_test)


class Labels:
    """A hundred labels: times quicker than one after the other, and than the peer."""

    params = ([False, True],)
    param_names = ("average",)

    def setup(self, average: bool) -> None:
        self.jobs, self.quality = jobs(min(ROWS, 10_000), 100, average)

    def time_fit(self, average: bool) -> None:
        self.jobs["one pass"]()

    def track_micro_f1(self, average: bool) -> float:
        self.jobs["one pass"]()
        return self.quality("one pass")

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
        work, quality = jobs(rows, options.labels, average)
        times = interleaved(work, options.repeats or 3, warm=False)
        for name in work:
            seconds = min(times[name])
            row = [name, "yes" if average else "no", f"{seconds:.2f}"]
            table.append([*row, f"{ratio(times, name, 'one pass'):.1f} x", f"{quality(name):.3f}"])
    headings = ["way", "average", "seconds", "of one pass", "micro F1"]
    report.add_table(f"{rows:,} rows, {options.labels} labels, one epoch", headings, table)
    report.finish()


if __name__ == "__main__":
    main()
