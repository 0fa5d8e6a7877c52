"""The learners of the comparison of defaults, all behind one call.

``learner.run(problem, seed)`` trains on the first two parts and gives the predictions for
the third (labels, targets, or scores of novelty) and the CPU seconds of training.  Nothing
is tuned: every learner is made with no argument but its seed.  "one pass" learners see
each row once, in the order given.
"""

from __future__ import annotations

import re
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from asv_bench.peers import safe_import
from asv_bench.problems import Problem

__all__ = ["LEARNERS", "Learner"]

Result = tuple[np.ndarray, float]  # predictions for the test rows, seconds


@dataclass(frozen=True)
class Learner:
    """One learner at its defaults: for a task, in a mode ("fit" or "one pass")."""

    name: str
    task: str
    mode: str
    run: Callable[[Problem, int], Result]
    module: str = "osvm"

    @property
    def ours(self) -> bool:
        return self.module == "osvm"

    def missing(self) -> bool:
        return safe_import(self.module) is None


def _estimator(
    make: Callable[[int], Any], mode: str, score: str
) -> Callable[[Problem, int], Result]:
    """An estimator with `fit` or `partial_fit`, and the method that gives its answer."""

    def run(problem: Problem, seed: int) -> Result:
        X, y, X_test, _ = problem
        model = make(seed)
        novelty = score == "decision_function"
        options = {"classes": np.unique(y)} if score == "predict" and y.dtype.kind in "iu" else {}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            began = time.process_time()
            if mode == "fit":
                model.fit(X) if novelty else model.fit(X, y)
            elif novelty:
                model.partial_fit(X)
            else:
                model.partial_fit(X, y, **options)
            seconds = time.process_time() - began
            return np.ravel(getattr(model, score)(X_test)), seconds

    return run


def _osvm(name: str, **options: Any) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        import osvm

        return getattr(osvm, name)(random_state=seed, **options)

    return make


def _sklearn(module: str, name: str) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        cls = getattr(safe_import(f"sklearn.{module}"), name)
        return cls(random_state=seed) if "random_state" in cls().get_params() else cls()

    return make


# ---------------------------------------------------------------------- Vowpal Wabbit


def vw_lines(X: Any, labels: np.ndarray | None) -> bytes:
    """Rows in Vowpal Wabbit's format; without labels they are for prediction alone."""
    from sklearn.datasets import dump_svmlight_file

    out = BytesIO()
    numbers = np.zeros(X.shape[0]) if labels is None else labels
    dump_svmlight_file(sp.csr_matrix(X), numbers, out, zero_based=True)
    shown = rb"| " if labels is None else rb"\1 | "
    return re.sub(rb"(?m)^(\S+) ?", shown, out.getvalue())


def vw_run(problem: Problem, options: str, passes: int) -> Result:
    """Train and predict with Vowpal Wabbit, 24 bits, through its own files."""
    X, y, X_test, _ = problem
    vw = safe_import("vowpalwabbit")
    classes, target = None, y
    if y.dtype.kind in "iu":
        classes, codes = np.unique(y, return_inverse=True)
        target = codes + 1 if len(classes) > 2 else 2 * codes - 1
        options += f" --oaa {len(classes)}" if len(classes) > 2 else ""
    with tempfile.TemporaryDirectory(prefix="osvm-vw-") as name:
        folder = Path(name)
        (folder / "train").write_bytes(vw_lines(X, target))
        (folder / "test").write_bytes(vw_lines(X_test, None))
        many = f"--passes {passes} --cache_file {folder}/cache -k --holdout_off"
        began = time.process_time()
        vw.Workspace(
            f"--quiet -b 24 -d {folder}/train -f {folder}/model {options} "
            + (many if passes > 1 else "")
        ).finish()
        seconds = time.process_time() - began
        vw.Workspace(f"--quiet -t -i {folder}/model -d {folder}/test -p {folder}/answers").finish()
        answers = np.loadtxt(folder / "answers", ndmin=1)
    if classes is None:
        return answers, seconds
    chosen = answers.astype(int) - 1 if len(classes) > 2 else (answers > 0).astype(int)
    return classes[chosen], seconds


def _vw(loss: str, passes: int) -> Callable[[Problem, int], Result]:
    return lambda problem, seed: vw_run(problem, f"--loss_function {loss}", passes)


# ---------------------------------------------------------------------- river


def _river(task: str) -> Callable[[Problem, int], Result]:
    """Its linear learner after its standard scaler, as its documentation shows it."""

    def run(problem: Problem, seed: int) -> Result:
        from river import linear_model, multiclass, preprocessing

        X, y, X_test, _ = problem
        values = X.nnz if sp.issparse(X) else X.size
        if values * (len(np.unique(y)) if task == "class" else 1) > 1e6:
            raise NotImplementedError("too slow for this size")
        learner: Any = linear_model.LinearRegression()
        if task == "class":
            learner = linear_model.LogisticRegression()
            if len(np.unique(y)) > 2:
                learner = multiclass.OneVsRestClassifier(learner)
        model = learner if sp.issparse(X) else preprocessing.StandardScaler() | learner
        train, test = _dicts(X), _dicts(X_test)
        labels = (
            y.tolist() if task != "class" or len(np.unique(y)) > 2 else (y == y.max()).tolist()
        )
        began = time.process_time()
        for row, label in zip(train, labels):
            model.learn_one(row, label)
        seconds = time.process_time() - began
        answers = np.array([model.predict_one(row) for row in test])
        if answers.dtype == bool:
            answers = np.where(answers, y.max(), y.min())
        return answers, seconds

    return run


def _dicts(X: Any) -> list[dict[int, float]]:
    rows = sp.csr_matrix(X)
    return [
        dict(zip(rows.indices[a:b].tolist(), rows.data[a:b].tolist()))
        for a, b in zip(rows.indptr[:-1], rows.indptr[1:])
    ]


# ---------------------------------------------------------------------- the lists


def _learners() -> list[Learner]:
    found = []
    for task, ours, peers in (
        ("class", "LinearClassifier", {"SGDClassifier": "linear_model", "LinearSVC": "svm"}),
        ("regression", "LinearRegressor",
         {"Ridge": "linear_model", "SGDRegressor": "linear_model"}),
        ("novelty", "LinearNovelty", {"SGDOneClassSVM": "linear_model"}),
    ):  # fmt: skip
        score = "decision_function" if task == "novelty" else "predict"
        for mode in ("fit", "one pass"):
            found.append(Learner(f"osvm {ours}", task, mode, _estimator(_osvm(ours), mode, score)))
            for name, module in peers.items():
                # only the SGD learners have partial_fit; Ridge is the yardstick of one pass too
                if mode == "fit" or name.startswith("SGD"):
                    run = _estimator(_sklearn(module, name), mode, score)
                    found.append(Learner(name, task, mode, run, "sklearn"))
                elif name == "Ridge":
                    run = _estimator(_sklearn(module, name), "fit", score)
                    found.append(Learner(name, task, mode, run, "sklearn"))
    for loss in ("hinge", "logistic", "squared"):
        tasks = ("class", "regression") if loss == "squared" else ("class",)
        for task in tasks:
            for mode, passes in (("one pass", 1), ("fit", 10)):
                name = f"VW {loss}"
                found.append(Learner(name, task, mode, _vw(loss, passes), "vowpalwabbit"))
    for task in ("class", "regression"):
        found.append(Learner("river", task, "one pass", _river(task), "river"))
    return found


LEARNERS = _learners()
