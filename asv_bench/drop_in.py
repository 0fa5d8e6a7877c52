"""Three scripts written for scikit-learn, with `from sklearn.svm import ...` and from osvm.

    python -m asv_bench.drop_in

Each returns accuracies in percent; `tests/test_drop_in.py` compares them, this prints them with
the CPU time, taken in turns: of the whole script, and of the learner's own calls, because making
documents, vectorizing and calibrating are the same for both.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def make_documents(n: int = 1500, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Texts of four subjects that share most of their words."""
    rng = np.random.default_rng(seed)
    words = np.array([f"word{k}" for k in range(6000)])
    common = 1.0 / np.arange(1, len(words) + 1)
    topics = [common * rng.gamma(0.6, size=len(words)) for _ in range(4)]
    y = rng.integers(4, size=n)
    texts = []
    for subject in y:
        p = 0.6 * common / common.sum() + 0.4 * topics[subject] / topics[subject].sum()
        texts.append(" ".join(rng.choice(words, size=rng.integers(20, 90), p=p / p.sum())))
    return texts, y


def text_grid_search(svm: Any) -> list[float]:
    """A text pipeline with a grid search."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    texts, y = make_documents()
    pipeline = make_pipeline(TfidfVectorizer(sublinear_tf=True), svm.LinearSVC(random_state=0))
    search = GridSearchCV(pipeline, {"linearsvc__C": [0.1, 1.0, 10.0]}, cv=3).fit(texts, y)
    return [100 * float(search.best_score_)]


def digits_cross_validation(svm: Any) -> list[float]:
    """SVC on digits with cross-validation."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import cross_val_score

    X, y = load_digits(return_X_y=True)
    models = [svm.SVC(), svm.SVC(kernel="linear"), svm.SVC(gamma=0.001, C=10.0)]
    return [100 * float(cross_val_score(model, X, y, cv=5).mean()) for model in models]


def calibrated(svm: Any) -> list[float]:
    """A calibrated LinearSVC: accuracy, and the Brier score of its probabilities."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.datasets import load_breast_cancer
    from sklearn.metrics import brier_score_loss
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    X, y = load_breast_cancer(return_X_y=True)
    X, T, y, t = train_test_split(StandardScaler().fit_transform(X), y, random_state=0)
    model = CalibratedClassifierCV(svm.LinearSVC(random_state=0), cv=5).fit(X, y)
    p = model.predict_proba(T)[:, 1]
    return [100 * float(model.score(T, t)), 100 * float(brier_score_loss(t, p))]


SCRIPTS: list[Callable[[Any], list[float]]] = [
    text_grid_search,
    digits_cross_validation,
    calibrated,
]


class Timed:
    """A module whose learners add the CPU time of their calls to `seconds`."""

    def __init__(self, module: Any) -> None:
        self.module, self.seconds, self.busy = module, 0.0, False

    def __getattr__(self, name: str) -> Any:
        base = getattr(self.module, name)
        methods = ("fit", "predict", "decision_function")
        return type(name, (base,), {each: self.timed(getattr(base, each)) for each in methods})

    def timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """`method`, timed unless another one calls it."""

        @functools.wraps(method)
        def call(*args: Any, **options: Any) -> Any:
            if self.busy:
                return method(*args, **options)
            self.busy, begin = True, time.process_time()
            try:
                return method(*args, **options)
            finally:
                self.busy = False
                self.seconds += time.process_time() - begin

        return call


def main() -> None:
    """Print scores and CPU seconds of both."""
    import sklearn.svm

    import osvm

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    for script in SCRIPTS:
        best, alone = [np.inf, np.inf], [np.inf, np.inf]
        scores: list[list[float]] = [[], []]
        for _ in range(repeats):
            for k, module in enumerate((osvm, sklearn.svm)):
                begin, timed = time.process_time(), Timed(module)
                scores[k] = script(timed)
                best[k] = min(best[k], time.process_time() - begin)
                alone[k] = min(alone[k], timed.seconds)
        shown = ["/".join(f"{s:.2f}" for s in each) for each in scores]
        print(
            f"{script.__name__:24} osvm {shown[0]} in {best[0]:.2f} s, "
            f"scikit-learn {shown[1]} in {best[1]:.2f} s: {best[1] / best[0]:.2f} x; "
            f"the learner alone {1e3 * alone[0]:.1f} and {1e3 * alone[1]:.1f} ms: "
            f"{alone[1] / alone[0]:.2f} x"
        )


if __name__ == "__main__":
    main()
