"""The suites of `asv_bench.compare` whose target is a test error.

Each suite yields (title, jobs, evaluate, slack in points, note).  C and gamma are the same
for all solvers of a problem and are not tuned for any of them.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from asv_bench import problems
from asv_bench.common import news20, rcv1_like
from asv_bench.peers import safe_import
from asv_bench.report import scaled

Suite = Iterator[tuple[str, list[Any], Callable[[Any], dict[str, float]], float, str]]


class Job:
    """Fit what `make(effort, seed)` returns."""

    def __init__(
        self, name: str, make: Callable[[float, int], Any], data: tuple[Any, Any],
        efforts: tuple[float, ...], effort_name: str = "epochs", note: str = "",
    ) -> None:  # fmt: skip
        self.name, self.make, self.data, self.note = name, make, data, note
        self.efforts, self.effort_name = efforts, effort_name
        self.ours = name.startswith("osvm")

    def run(self, effort: float, seed: int = 0) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model = self.make(effort, seed).fit(*self.data)


def wrong(X_test: Any, y_test: np.ndarray) -> Callable[[Any], dict[str, float]]:
    """Test error in percent."""
    return lambda job: {"error": 100 * float(np.mean(job.model.predict(X_test) != y_test))}


# ---------------------------------------------------------------------- many classes


def multiclass(options: argparse.Namespace) -> Suite:
    """Twenty classes, one against the rest."""
    sets = {"generated, 20 classes": lambda: rcv1_like(options.rows, 20)}
    if problems.have("news20") and not options.quick:
        sets["news20, 20 classes"] = news20
    for title, load in sets.items():
        X, y, X_test, y_test = load()
        reg = 1e-5 if title.startswith("news20") else 1e-4
        jobs = multiclass_jobs(X, y, reg)
        yield (
            f"{title}, {X.shape[0]:,} × {X.shape[1]:,}, reg {reg:g}", jobs,
            wrong(X_test, y_test), 0.2, "Hinge loss, one against the rest, with intercept.",
        )  # fmt: skip


def multiclass_jobs(X: Any, y: np.ndarray, reg: float) -> list[Job]:
    from osvm import LinearClassifier, recipes

    epochs = (1.0, 2.0, 5.0, 10.0)
    jobs = [
        Job(
            "osvm SGD",
            lambda e, s: LinearClassifier("hinge", reg=reg, epochs=int(e), random_state=s),
            (X, y), epochs, note="one pass for all classes",
        ),
        Job(
            "osvm SGD, Crammer–Singer",
            lambda e, s: LinearClassifier(
                "multiclass_hinge", reg=reg, epochs=int(e), random_state=s
            ),
            (X, y), epochs, note="joint hinge",
        ),
    ]  # fmt: skip
    dual = getattr(recipes, "dual_svm", None)
    if dual is not None:
        jobs.append(
            Job("osvm dual", lambda e, s: dual(C=1 / (reg * len(y)), tol=e, random_state=s),
                (X, y), (1e-1, 1e-2, 1e-3), "tol")
        )  # fmt: skip
    linear, svm = safe_import("sklearn.linear_model"), safe_import("sklearn.svm")
    if linear is not None and svm is not None:
        X64 = X.astype(np.float64)
        jobs += [
            Job(
                "SGDClassifier",
                lambda e, s: linear.SGDClassifier(
                    loss="hinge", alpha=reg, max_iter=int(e), tol=None, random_state=s
                ),
                (X, y), epochs, note="one pass per class and epoch",
            ),
            Job(
                "LinearSVC",
                lambda e, s: svm.LinearSVC(
                    loss="hinge", C=1 / (reg * X.shape[0]), tol=e, max_iter=100_000, random_state=s
                ),
                (X64, y), (1.0, 1e-1, 1e-2), "tol",
            ),
        ]  # fmt: skip
    return jobs


# ---------------------------------------------------------------------- kernels


def kernel(options: argparse.Namespace) -> Suite:
    """RBF kernels: whole training sets, bounded buffers, and explicit features."""
    from osvm.datasets import make_chessboard, make_two_normals

    n = scaled(2000 if options.quick else 4992, 300)
    board, board_test = make_chessboard(n, random_state=0), make_chessboard(5000, random_state=1)
    yield (
        f"chessboard, {n:,} rows", kernel_jobs(*board, C=100.0, gamma=2.0, budget=512),
        wrong(*board_test), 0.5, "C = 100, gamma = 2 for all.",
    )  # fmt: skip
    n = scaled(3000 if options.quick else 15_000, 300)
    normals = make_two_normals(n, random_state=0)
    normals_test = make_two_normals(5000, random_state=1)
    yield (
        f"two normals, {n:,} rows", kernel_jobs(*normals, C=1.0, gamma=0.5, budget=512),
        wrong(*normals_test), 0.1, "C = 1, gamma = 0.5 for all.",
    )  # fmt: skip
    if problems.have("usps"):
        X, y, X_test, y_test = problems.usps()
        if options.quick:
            X, y = X[:2000], y[:2000]
        yield (
            f"USPS 0–4 against 5–9, {len(X):,} rows",
            kernel_jobs(X, y, C=10.0, gamma=1 / 128, budget=1024),
            wrong(X_test, y_test), 0.3, "C = 10, gamma = 1/128 (width 8) for all.",
        )  # fmt: skip


def kernel_jobs(X: Any, y: np.ndarray, C: float, gamma: float, budget: int) -> list[Job]:
    from osvm import KernelClassifier, recipes

    n = len(y)
    jobs = [
        Job(
            f"osvm SVMD, buffer {budget}",
            lambda e, s: KernelClassifier(
                "hinge", C=C, gamma=gamma, budget=budget, schedule="smd", eviction="fifo",
                eta0=1.0, epochs=int(e), random_state=s,
            ),
            (X.astype(np.float32), y), (1, 2, 5, 10), note="online, bounded memory",
        )
    ]  # fmt: skip
    for name, key, efforts in (
        ("osvm kernel_adatron", "tol", (1.0, 1e-1, 1e-2, 1e-3)),
        ("osvm lasvm", "tol", (1e-1, 1e-2, 1e-3)),
        ("osvm ol_svm", "max_iter", (1, 2, 5)),
    ):
        recipe = getattr(recipes, name.split()[1], None)
        if recipe is not None:
            shuffled = {} if name.endswith("adatron") else {"shuffle": True}
            jobs.append(
                Job(
                    name,
                    lambda e, s, r=recipe, k=key, m=shuffled: r(
                        C=C, gamma=gamma, random_state=s, **m,
                        **{k: int(e) if k == "max_iter" else e},
                    ),
                    (X, y), efforts, key,
                )
            )  # fmt: skip
    intel = safe_import("sklearnex.svm")
    if intel is not None:
        jobs.append(
            Job("SVC of scikit-learn-intelex", lambda e, s: intel.SVC(C=C, gamma=gamma, tol=e),
                (X, y), (1.0, 1e-1, 1e-2, 1e-3), "tol", "oneDAL")
        )  # fmt: skip
    svm = safe_import("sklearn.svm")
    if svm is not None:
        from sklearn.kernel_approximation import Nystroem
        from sklearn.linear_model import SGDClassifier
        from sklearn.pipeline import make_pipeline

        jobs += [
            Job("SVC", lambda e, s: svm.SVC(C=C, gamma=gamma, tol=e), (X, y),
                (1.0, 1e-1, 1e-2, 1e-3), "tol", "LIBSVM"),
            Job(
                "Nystroem + SGDClassifier",
                lambda e, s: make_pipeline(
                    Nystroem(gamma=gamma, n_components=min(int(e), n), random_state=s),
                    SGDClassifier(alpha=1 / (C * n), max_iter=20, tol=None, random_state=s),
                ),
                (X, y), (64, 128, 256, 512, 1024), "components", "20 epochs",
            ),
        ]  # fmt: skip
    return jobs


# ---------------------------------------------------------------------- novelty


def novelty(options: argparse.Namespace) -> Suite:
    """One class: 1 - area under the ROC curve, in percent, as the error."""
    from osvm import KernelNovelty, LinearNovelty
    from osvm.datasets import make_novelty

    n = scaled(5000 if options.quick else 50_000, 500)
    points, kinds = make_novelty(n + 5000, 3, outliers=0.1, random_state=0)
    X, X_test, y_test = points[:n], points[n:], kinds[n:]
    y = None
    features = safe_import("sklearn.kernel_approximation")

    def evaluate(job: Job) -> dict[str, float]:
        scores = job.model.decision_function(X_test)
        rank = np.empty(len(scores))
        rank[np.argsort(scores, kind="stable")] = np.arange(1, len(scores) + 1)
        usual = y_test == 1
        m, k = usual.sum(), (~usual).sum()
        return {"error": 100 * float(1 - (rank[usual].sum() - m * (m + 1) / 2) / (m * k))}

    X32 = X.astype(np.float32)
    jobs = [
        Job(
            "osvm KernelNovelty, buffer 256",
            lambda e, s: KernelNovelty(
                gamma=1.0, budget=256, nu=None, reg=0.05, schedule="smd", eviction="fifo",
                epochs=int(e), random_state=s,
            ),
            (X32, y), (1, 2), note="reg = 0.05",
        )
    ]  # fmt: skip
    if features is not None:
        from sklearn.linear_model import SGDOneClassSVM
        from sklearn.pipeline import make_pipeline
        from sklearn.svm import OneClassSVM

        def mapped(last: Callable[[float, int], Any]) -> Callable[[float, int], Any]:
            return lambda e, s: make_pipeline(
                features.Nystroem(gamma=1.0, n_components=100, random_state=0), last(e, s)
            )

        jobs += [
            Job(
                "osvm LinearNovelty after Nystroem",
                mapped(lambda e, s: LinearNovelty(epochs=int(e), reg=0.05, random_state=s)),
                (X32, y), (1, 2, 5), note="100 components",
            ),
            Job(
                "Nystroem + SGDOneClassSVM",
                mapped(lambda e, s: SGDOneClassSVM(
                    nu=0.05, max_iter=int(e), tol=None, random_state=s
                )),
                (X, y), (1, 2, 5), note="100 components",
            ),
            Job("OneClassSVM", lambda e, s: OneClassSVM(nu=0.05, gamma=1.0, tol=e),
                (X[:10_000], y), (1e-1, 1e-3), "tol", "LIBSVM, 10,000 rows at most"),
        ]  # fmt: skip
    yield (
        f"novelty, {n:,} × 3", jobs, evaluate, 0.1,
        "A tenth of the rows are novel. The error is 1 − area under the ROC curve, in percent.",
    )  # fmt: skip


SUITES = {"multiclass": multiclass, "kernel": kernel, "novelty": novelty}
