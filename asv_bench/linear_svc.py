"""`LinearSVC` beside scikit-learn's at the defaults of both: scaled rows and raw units.

    OSVM_DATA=folder python -m asv_bench.linear_svc

CPU seconds of the quickest run, taken in turns; the objective is that of a free offset, summed
over the classes, so that scikit-learn's is larger where its penalty on the offset or its
`max_iter` keeps it from the minimum.  "gap" is the largest proven relative duality gap.  "to its
objective" is osvm with the loosest `tol` of TOLS whose objective is no larger than the peer's, and
how many times faster that is.
"""

from __future__ import annotations

import functools
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from asv_bench.report import Report, default_repeats, make_parser

LOSSES = ("squared_hinge", "hinge")
TOLS = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4)


def sets() -> Iterator[tuple[str, Any, Any]]:
    """Names, rows and labels."""
    from sklearn import datasets

    for name in ("iris", "wine", "breast_cancer", "digits"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        yield f"{name}, raw", X, y
        yield f"{name}, standardized", (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12), y
    rng = np.random.default_rng(0)
    for n, d in ((300, 10), (2000, 50), (5000, 20)):
        X = rng.normal(size=(n, d))
        y = (X @ rng.normal(size=d) + rng.normal(size=n) > 0).astype(int)
        scales = 10.0 ** rng.uniform(-3, 6, size=d)
        yield f"normal, {n} × {d}", X, y
        yield f"columns from 1e-3 to 1e6 on a mean of 1e5, {n} × {d}", X * scales + 1e5, y
    if "OSVM_DATA" in os.environ:
        usps = np.load(os.path.join(os.environ["OSVM_DATA"], "usps.npz"))
        yield "usps", usps["X_train"].astype(np.float64), usps["y_train"]


def objective(model: Any, X: Any, y: Any) -> float:
    """``1/2 ||w||^2 + sum loss``, summed over the classes."""
    scores = model.decision_function(X).reshape(len(y), -1)
    classes = model.classes_[-scores.shape[1] :]
    missing = np.maximum(0.0, 1.0 - np.where(y[:, None] == classes, 1.0, -1.0) * scores)
    power = 1 if model.loss == "hinge" else 2
    return float(0.5 * np.sum(model.coef_**2) + np.sum(missing**power))


def fit(make: Callable[[], Any], X: Any, y: Any) -> tuple[Any, float]:
    """The model and its CPU seconds; warnings are silent, as the gap stands in the table."""
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make().fit(X, y)
    return model, time.process_time() - begin


def main(arguments: Sequence[str] | None = None) -> None:
    """Print and store a row for each set and loss."""
    import sklearn.svm

    import osvm

    parser = make_parser("linear_svc", str(__doc__).splitlines()[0])
    options = parser.parse_args(arguments)
    repeats = options.repeats or default_repeats(options.quick)
    about = str(__doc__).split("linear_svc\n", 1)[1].strip()
    report = Report("linear-svc", "LinearSVC beside scikit-learn's", about, options)
    rows = []
    for name, X, y in sets():
        for loss in LOSSES:
            makers = [functools.partial(module.LinearSVC, loss=loss, random_state=0)
                      for module in (osvm, sklearn.svm)]  # fmt: skip
            models = [fit(make, X, y)[0] for make in makers]
            values = [objective(model, X, y) for model in models]
            for tol in TOLS:
                loose = functools.partial(makers[0], tol=tol)
                if objective(fit(loose, X, y)[0], X, y) <= values[1]:
                    break
            best = [np.inf] * 3
            for _ in range(repeats):
                for k, make in enumerate((*makers, loose)):
                    best[k] = min(best[k], fit(make, X, y)[1])
            gap = float(np.max(models[0].dual_gap_ / models[0].objective_))
            rows.append([
                name, loss, f"{1e3 * best[0]:.1f} ms", f"{1e3 * best[1]:.1f} ms",
                f"{best[1] / best[0]:.2f}", f"{max(gap, 0.0):.1e}", f"{values[0]:.6g}",
                f"{values[1]:.6g}", f"{1e3 * best[2]:.1f} ms", f"{best[1] / best[2]:.2f}",
            ])  # fmt: skip
    columns = [
        "set", "loss", "osvm", "scikit-learn", "ratio", "gap", "objective", "scikit-learn's",
        "to its objective", "ratio",
    ]  # fmt: skip
    report.add_table("C = 1", columns, rows)
    report.finish()


if __name__ == "__main__":
    main()
