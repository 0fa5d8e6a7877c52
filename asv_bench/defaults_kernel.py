"""Every kernel estimator's defaults beside the peers' defaults.

    python -m asv_bench.defaults kernel                  all sets, three seeds
    python -m asv_bench.defaults kernel --quick          small sets, one seed
    python -m asv_bench.defaults kernel --only a9a usps  sets whose names contain a word
    python -m asv_bench.defaults kernel --part drift     fit, "one pass" or drift

Sets have 10,000 training rows at most; a seed is another split or another order of the rows.
Classes are scored by balanced accuracy in percent, targets by 100 R2, novelty by 100 AUC.
RBFSampler has 512 and 1,024 features, Nystroem 512: 512 rows of d numbers in a buffer are as
many numbers as 512 random directions.  Both feed `LinearClassifier` at its defaults.  Under
drift the score is the accuracy of test-then-train over the whole stream.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from asv_bench import defaults_sets as sets
from asv_bench.defaults_sets import Dataset
from asv_bench.problems import Problem, real_file
from asv_bench.report import Report, bench_scale, make_parser

ROWS = 10_000
BLOCK = 1000  # rows of a stream at a time: "scale" is read off the first block
KERNELS = ("merge", "project", "fifo", "coefficient")

# ---------------------------------------------------------------------- sets


def _capped(load: Callable[[int], Problem], rows: int) -> Callable[[int], Problem]:
    """The first `rows` training rows in a random order, 5,000 test rows."""

    def capped(seed: int) -> Problem:
        X, y, X_test, y_test = load(seed)
        order = np.random.default_rng(1000 + seed).permutation(X.shape[0])[:rows]
        return X[order], y[order], X_test[:5000], y_test[:5000]

    return capped


def _board(n: int, noise: float) -> Callable[[int], Problem]:
    def load(seed: int) -> Problem:
        from osvm.datasets import make_chessboard

        X, y = make_chessboard(n + 2000, label_noise=noise, random_state=seed)
        return X[:n], y[:n], X[n:], y[n:]

    return load


def _normals(n: int) -> Callable[[int], Problem]:
    def load(seed: int) -> Problem:
        from osvm.datasets import make_two_normals

        X, y = make_two_normals(n + 2000, random_state=seed)
        return X[:n], y[:n], X[n:], y[n:]

    return load


def _rare(n: int, share: float) -> Callable[[int], Problem]:
    """Normal columns; a share of the rows lies 1.5 away in three of them."""

    def load(seed: int) -> Problem:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n + 3000, 10))
        y = (rng.random(len(X)) < share).astype(np.int64)
        X[y == 1, :3] += 1.5
        return X[:n], y[:n], X[n:], y[n:]

    return load


def _clusters(n: int, classes: int, form: str) -> Callable[[int], Problem]:
    """120 normal clusters, a tenth of the labels wrong."""

    def load(seed: int) -> Problem:
        rng = np.random.default_rng(seed)
        centers, label = 1.5 * rng.normal(size=(120, 10)), rng.integers(0, classes, 120)
        group = rng.integers(0, 120, n + 3000)
        X = np.hstack([centers[group] + 0.7 * rng.normal(size=(len(group), 10)),
                       np.eye(4)[group % 4]])  # fmt: skip
        y = np.where(rng.random(len(X)) < 0.1, rng.integers(0, classes, len(X)), label[group])
        return sets.scaled_pair(X, n, form, y)

    return load


def _web(n: int) -> Callable[[int], Problem]:
    """Like w8a: 300 binary columns, 4 % in use, 3 % positives that share words."""

    def load(seed: int) -> Problem:
        rng = np.random.default_rng(seed)
        y = (rng.random(n + 5000) < 0.03).astype(np.int64)
        p = 1.0 / (np.arange(300) + 8.0)
        p *= 9.0 / p.sum()
        topic = np.zeros((4, 300))
        for t in range(4):  # of positives, four kinds
            topic[t, rng.integers(20, 300, 12)] = 0.35
        kind = rng.integers(0, 4, len(y))
        X = rng.random((len(y), 300)) < p + y[:, None] * topic[kind]
        X = sp.csr_matrix(X.astype(np.float64))
        return X[:n], y[:n], X[n:], y[n:]

    return load


def _covtype(form: str) -> Callable[[int], Problem]:
    """Forest cover, class 2 against the rest, from covtype.npz with X and y."""

    def load(seed: int) -> Problem:
        data = np.load(real_file("covtype.npz"))
        pick = np.random.default_rng(seed).permutation(len(data["y"]))[: ROWS + 5000]
        return sets.scaled_pair(data["X"][pick], ROWS, form, (data["y"][pick] == 2) * 1)

    return load


def _make_sets() -> list[Dataset]:
    found = []

    def add(name: str, load: Callable[[int], Problem], rows: int = ROWS, **about: Any) -> None:
        found.append(Dataset(name, _capped(load, rows), metric="balanced", **about))

    add("usps", sets._digits_file("usps.npz", ROWS, "unit"))
    add("usps-2", sets._digits_file("usps.npz", ROWS, "unit", two=True))
    add("mnist", sets._digits_file("mnist.npz", 5000, "unit"))
    add("digits", sets._bundled("digits", "unit"), quick=True)
    for name in ("sonar", "vote", "wpbc", "eukaryotic", "prokaryotic"):
        small = name not in ("eukaryotic", "prokaryotic")
        add(name, sets._small(name, "std"), one_pass=not small)
    add("breast_cancer", sets._bundled("breast_cancer", "std"), one_pass=False, quick=True)
    add("compactiv unit", sets._compactiv("unit"))
    add("compactiv std", sets._compactiv("std"))
    add("a9a", sets._split_file("a9a", "a9a_labels.npz"), 8000)
    add("w8a", sets._split_file("w8a", "w8a_labels.npz"))
    add("w8a-like", _web(8000))
    add("chessboard", _board(5000, 0.0))
    add("chessboard noisy", _board(5000, 0.1))
    add("two normals", _normals(6000))
    add("noise 0.2", sets._normal(5000, 20, flip=0.2))
    add("5 % positives", _rare(6000, 0.05), quick=True)
    for form in ("unit", "std"):
        add(f"covtype {form}", _covtype(form))
        add(f"cover-2 {form}", sets._cover(ROWS, 2, form))
        add(f"cover-7 {form}", sets._cover(ROWS, 7, form))
    add("clusters-2", _clusters(ROWS, 2, "raw"))
    add("clusters-7", _clusters(ROWS, 7, "std"))
    about = {"task": "regression", "metric": "R2"}
    for form in ("raw", "unit", "std"):
        found.append(Dataset(f"compactiv {form} usr", sets._compactiv(form, "usr"), **about))
    found.append(Dataset("diabetes std", sets._bundled("diabetes", "std"), quick=True, **about))
    about = {"task": "novelty", "metric": "AUC"}
    for digit in (0, 3):
        load = sets._digit_novelty("usps.npz", digit)
        found.append(Dataset(f"usps {digit}", _capped(load, ROWS), **about))
    found.append(Dataset("shifted", sets._shifted_novelty(2000, 20), quick=True, **about))
    return found


# ---------------------------------------------------------------------- learners

Answer = tuple[np.ndarray, float]  # predictions for the test rows, CPU seconds of training


class Mapped:
    """A linear learner on the features of a kernel approximation."""

    def __init__(self, kind: str, size: int, seed: int) -> None:
        self.kind, self.size, self.seed = kind, size, seed
        self.map: Any = None

    def _features(self, X: Any) -> np.ndarray:
        from sklearn import kernel_approximation as ka

        if self.map is None:
            gamma = 1.0 / (X.shape[1] * _variance(X))
            size = min(self.size, X.shape[0]) if self.kind == "Nystroem" else self.size
            self.map = getattr(ka, self.kind)(
                n_components=size, gamma=gamma, random_state=self.seed
            )
            self.map.fit(X)
        return self.map.transform(X)

    def fit(self, X: Any, y: np.ndarray) -> Mapped:
        self.model = _osvm("LinearClassifier")(self.seed).fit(self._features(X), y)
        return self

    def partial_fit(self, X: Any, y: np.ndarray, classes: Any = None) -> Mapped:
        features = self._features(X)
        if not hasattr(self, "model"):
            self.model = _osvm("LinearClassifier")(self.seed)
        self.model.partial_fit(features, y, classes=classes)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.model.predict(self._features(X))


def _variance(X: Any) -> float:
    if sp.issparse(X):
        return float(X.multiply(X).mean() - X.mean() ** 2)
    return float(X.var())


def _osvm(name: str, **options: Any) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        import osvm

        return getattr(osvm, name)(random_state=seed, **options)

    return make


def _sklearn(name: str) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        from sklearn import svm

        return getattr(svm, name)()

    return make


LEARNERS: dict[tuple[str, str], dict[str, Callable[[int], Any]]] = {
    ("class", "fit"): {
        "KernelClassifier": _osvm("KernelClassifier"),
        "KernelClassifier budget=None": _osvm("KernelClassifier", budget=None),
        "SVC": _sklearn("SVC"),
        "RBFSampler 512": lambda seed: Mapped("RBFSampler", 512, seed),
        "RBFSampler 1024": lambda seed: Mapped("RBFSampler", 1024, seed),
        "Nystroem 512": lambda seed: Mapped("Nystroem", 512, seed),
        "LinearClassifier": _osvm("LinearClassifier"),
    },
    ("class", "one pass"): {
        "KernelClassifier": _osvm("KernelClassifier"),
        **{f"KernelClassifier {name}": _osvm("KernelClassifier", eviction=name)
           for name in KERNELS[1:]},
        "RBFSampler 512": lambda seed: Mapped("RBFSampler", 512, seed),
        "RBFSampler 1024": lambda seed: Mapped("RBFSampler", 1024, seed),
        "LinearClassifier": _osvm("LinearClassifier"),
    },
    ("regression", "fit"): {
        "KernelRegressor": _osvm("KernelRegressor"),
        "SVR": _sklearn("SVR"),
        "LinearRegressor": _osvm("LinearRegressor"),
    },
    ("novelty", "fit"): {
        "KernelNovelty": _osvm("KernelNovelty"),
        "OneClassSVM": _sklearn("OneClassSVM"),
    },
}  # fmt: skip
OURS = {"class": "KernelClassifier", "regression": "KernelRegressor", "novelty": "KernelNovelty"}


def learn(make: Callable[[int], Any], data: Dataset, mode: str, problem: Problem,
          seed: int) -> Answer:  # fmt: skip
    """Train a learner at its defaults; answers are labels, values, or scores of novelty."""
    X, y, X_test, _ = problem
    model = make(seed)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        began = time.process_time()
        if mode == "one pass":
            for i in range(0, X.shape[0], BLOCK):
                model.partial_fit(X[i : i + BLOCK], y[i : i + BLOCK], classes=np.unique(y))
        elif data.task == "novelty":
            model.fit(X)
        else:
            model.fit(X, y)
        seconds = time.process_time() - began
        score = "decision_function" if data.task == "novelty" else "predict"
        return np.ravel(getattr(model, score)(X_test)), seconds


def score(metric: str, answer: np.ndarray, truth: np.ndarray) -> float:
    from sklearn import metrics

    if metric == "balanced":
        return 100.0 * float(metrics.balanced_accuracy_score(truth, answer))
    if metric == "R2":
        return 100.0 * float(metrics.r2_score(truth, answer))
    return 100.0 * float(metrics.roc_auc_score(truth, answer))


def run_set(data: Dataset, mode: str, seeds: int) -> list[dict[str, Any]]:
    """One record for each learner and seed."""
    found = []
    for seed in range(seeds):
        problem = data.load(seed)
        for name, make in LEARNERS.get((data.task, mode), {}).items():
            answer, seconds = learn(make, data, mode, problem, seed)
            found.append({
                "set": data.name, "task": data.task, "mode": mode, "learner": name, "seed": seed,
                "rows": problem[0].shape[0], "seconds": seconds,
                "score": score(data.metric, answer, problem[3]),
                "accuracy": 100.0 * float(np.mean(answer == problem[3])),
            })  # fmt: skip
    return found


# ---------------------------------------------------------------------- drift


def _flipped_board(seed: int) -> tuple[Any, np.ndarray]:
    """A chess board whose colors are swapped in the middle of the stream."""
    from osvm.datasets import make_chessboard

    X, y = make_chessboard(20_000, random_state=seed)
    y[10_000:] *= -1
    return X, y


def _moving_board(seed: int) -> tuple[Any, np.ndarray]:
    """A chess board that moves by two squares during the stream."""
    from osvm.datasets import make_chessboard

    X, y = make_chessboard(20_000, random_state=seed)
    moved = (X[:, 0] + np.linspace(0.0, 2.0, len(y))) // 1 + X[:, 1] // 1
    return X, np.where(moved % 2 == 0, 1, -1)


def _turning(kind: str) -> Callable[[int], tuple[Any, np.ndarray]]:
    def load(seed: int) -> tuple[Any, np.ndarray]:
        from osvm.datasets import make_drift

        X, y, _ = make_drift(20_000, kind=kind, random_state=seed)
        return X, y

    return load


def _counting(seed: int) -> tuple[Any, np.ndarray]:
    from osvm.datasets import make_counting_sequence

    return make_counting_sequence(random_state=seed)


STREAMS = {
    "board, colors swapped": _flipped_board,
    "board, moving": _moving_board,
    "plane, turning": _turning("gradual"),
    "plane, jumping": _turning("abrupt"),
    "counting digits": _counting,
    "board, no drift": lambda seed: _board(20_000, 0.0)(seed)[:2],
}
SCHEDULES = ("bottou", "inverse_sqrt", "constant", "smd")


def stream_accuracy(model: Any, X: Any, y: np.ndarray) -> float:
    """Accuracy of test-then-train, in blocks of 100 rows."""
    hits = 0
    classes = np.unique(y)
    model.partial_fit(X[:100], y[:100], classes=classes)
    for i in range(100, len(y), 100):
        A, u = X[i : i + 100], y[i : i + 100]
        hits += int(np.sum(model.predict(A) == u))
        model.partial_fit(A, u, classes=classes)
    return 100.0 * hits / (len(y) - 100)


def run_drift(seeds: int, only: Sequence[str]) -> list[dict[str, Any]]:
    """Accuracy on every stream, of every eviction with every schedule, and of peers."""
    makers: dict[str, Callable[[int], Any]] = {
        f"{eviction}, {schedule}": _osvm("KernelClassifier", eviction=eviction, schedule=schedule)
        for eviction in ("merge", "project", "fifo")
        for schedule in SCHEDULES
    }
    makers["defaults"] = _osvm("KernelClassifier")
    makers["RBFSampler 512"] = lambda seed: Mapped("RBFSampler", 512, seed)
    makers["LinearClassifier"] = _osvm("LinearClassifier")
    found = []
    for name, load in STREAMS.items():
        if only and not any(word in name for word in only):
            continue
        for seed in range(seeds):
            X, y = load(seed)
            for learner, make in makers.items():
                began = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    value = stream_accuracy(make(seed), X, y)
                found.append({"set": name, "mode": "drift", "learner": learner, "seed": seed,
                              "score": value, "seconds": time.process_time() - began})  # fmt: skip
    return found


# ---------------------------------------------------------------------- tables


def by_learner(records: list[dict[str, Any]], key: str = "score") -> dict[str, np.ndarray]:
    """Values of each learner, in the order of the seeds."""
    names = dict.fromkeys(r["learner"] for r in records)
    return {n: np.array([r[key] for r in records if r["learner"] == n]) for n in names}


def compare(records: list[dict[str, Any]], ours: str, peer: str) -> list[Any] | None:
    """Ours minus a peer: mean over sets, worst set, worst seed, largest ratio of times."""
    gaps, worst, ratio = {}, {}, {}
    for name in dict.fromkeys(r["set"] for r in records):
        rows = [r for r in records if r["set"] == name]
        scores, seconds = by_learner(rows), by_learner(rows, "seconds")
        if ours not in scores or peer not in scores:
            continue
        difference = scores[ours] - scores[peer]
        gaps[name], worst[name] = float(difference.mean()), float(difference.min())
        if rows[0].get("rows", 0) >= 5000:
            ratio[name] = float(seconds[ours].min() / seconds[peer].min())
    if not gaps:
        return None
    low, lowest = min(gaps, key=lambda n: gaps[n]), min(worst, key=lambda n: worst[n])
    slow = max(ratio, key=lambda n: ratio[n]) if ratio else ""
    return [f"{ours} − {peer}", len(gaps), f"{np.mean(list(gaps.values())):+.2f}",
            f"{gaps[low]:+.2f} ({low})", f"{worst[lowest]:+.2f} ({lowest})",
            f"{ratio[slow]:.2f} ({slow})" if slow else ""]  # fmt: skip


def add_tables(report: Report, records: list[dict[str, Any]]) -> None:
    summary = []
    for (task, mode), learners in LEARNERS.items():
        part = [r for r in records if r.get("task") == task and r["mode"] == mode]
        if not part:
            continue
        for about, key, digits in (("score", "score", 1), ("CPU seconds", "seconds", 3)):
            rows = []
            for name in dict.fromkeys(r["set"] for r in part):
                values = by_learner([r for r in part if r["set"] == name], key)
                cells = [f"{v.mean() if key == 'score' else v.min():.{digits}f}"
                         for v in values.values()]  # fmt: skip
                rows.append([name, *cells])
            report.add_table(f"{task}, {mode}: {about}", ["set", *learners], rows)
        ours = OURS[task]
        peers = [name for name in learners if name != ours]
        pairs = [(ours, peer) for peer in peers]
        if "KernelClassifier budget=None" in peers and "SVC" in peers:
            pairs.append(("KernelClassifier budget=None", "SVC"))
        for pair in pairs:
            line = compare(part, *pair)
            if line is not None:
                summary.append([f"{mode}", *line])
    drift = [r for r in records if r["mode"] == "drift"]
    if drift:
        streams = list(dict.fromkeys(r["set"] for r in drift))
        rows = []
        for name in dict.fromkeys(r["learner"] for r in drift):
            means = [by_learner([r for r in drift if r["set"] == s])[name].mean() for s in streams]
            rows.append([name, *(f"{m:.1f}" for m in means), f"{np.mean(means):.1f}"])
        report.add_table("drift: accuracy of test-then-train", ["learner", *streams, "mean"], rows)
    if summary:
        columns = ["mode", "difference", "sets", "mean", "worst set", "worst seed",
                   "time over the peer's, 5,000 rows and more"]  # fmt: skip
        report.add_table("Measures", columns, summary)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser("defaults kernel", __doc__ or "")
    parser.add_argument("--only", nargs="*", default=[], help="words that a set's name contains")
    parser.add_argument("--seeds", type=int, help="number of seeds (3; 1 with --quick)")
    parser.add_argument("--part", choices=("fit", "one pass", "drift"), help="one of the parts")
    options = parser.parse_args(arguments)
    quick = options.quick or bench_scale() < 1
    seeds = options.seeds or (1 if quick else 3)
    title = "Defaults of the kernel estimators"
    name = "-".join(["defaults-kernel", *(options.part or "").split()])
    report = Report(name, title, (__doc__ or "").split("\n\n")[0], options)
    records: list[dict[str, Any]] = []
    missing = []
    for data in _make_sets():
        wanted = not options.only or any(word in data.name for word in options.only)
        if not wanted or data.quick < quick:
            continue
        for mode in ("fit", "one pass"):
            if options.part not in (None, mode) or (mode == "one pass" and not data.one_pass):
                continue
            try:
                records += run_set(data, mode, seeds)
            except NotImplementedError as error:
                missing.append(f"{data.name} ({error})")
                break
            means = by_learner([r for r in records if (r["set"], r["mode"]) == (data.name, mode)])
            scores = " ".join(f"{v.mean():.1f}" for v in means.values())
            print(f"{data.name:20s}{mode:10s}{scores}", file=sys.stderr, flush=True)
    if options.part in (None, "drift") and not quick:
        records += run_drift(seeds, options.only)
    add_tables(report, records)
    if missing:
        print("left out:", "; ".join(missing))
    report.data = {"seeds": seeds, "left_out": missing, "records": records}
    report.finish()
