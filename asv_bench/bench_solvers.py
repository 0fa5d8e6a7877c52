"""Other ways to a linear model: meta-descent, a grid in one pass, a few epochs.

Ratios are to scipy's float64 ``X @ w`` on the same rows; a score stands beside each time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import osvm
from asv_bench.common import interleaved, ratio, rcv1_like
from asv_bench.peers import objective
from asv_bench.report import scaled

REG = 1e-4


class MetaDescent:
    """Step sizes that adapt themselves, on sparse weights."""

    params = ["sparse_svmd", "smd"]
    param_names = ["recipe"]

    def setup(self, recipe: str) -> None:
        if not hasattr(osvm.recipes, recipe):
            raise NotImplementedError(f"this version has no recipe {recipe}")
        self.X, self.y, self.X_test, self.y_test = rcv1_like(scaled(50_000, 1000))
        self.X64, self.w = self.X.astype(np.float64), np.ones(self.X.shape[1])

    def fit(self, recipe: str) -> Any:
        return getattr(osvm.recipes, recipe)(reg=REG).fit(self.X, self.y)

    def time_fit(self, recipe: str) -> None:
        self.fit(recipe)

    def track_matvecs(self, recipe: str) -> float:
        times = interleaved(
            {"fit": lambda: self.fit(recipe), "X @ w": lambda: self.X64 @ self.w}, 3
        )
        return ratio(times, "fit", "X @ w")

    track_matvecs.unit = "X @ w"

    def track_test_error(self, recipe: str) -> float:
        return 100 * (1 - self.fit(recipe).score(self.X_test, self.y_test))

    track_test_error.unit = "%"


class OnePassSearch:
    """Sixteen regularizers in one pass, beside sixteen fits."""

    timeout = 300

    def setup(self) -> None:
        self.X, self.y, self.X_test, self.y_test = rcv1_like(scaled(50_000, 1000))
        self.regs = np.geomspace(1e-6, 1e-2, 16).tolist()

    def search(self) -> Any:
        from osvm.model_selection import one_pass_search

        base = osvm.LinearClassifier(epochs=1, random_state=0)
        return one_pass_search(base, self.X, self.y, {"reg": self.regs})

    def fits(self) -> None:
        for reg in self.regs:
            osvm.LinearClassifier(reg=reg, epochs=1, random_state=0).fit(self.X, self.y)

    def time_search(self) -> None:
        self.search()

    def track_times_faster_than_fits(self) -> float:
        times = interleaved({"search": self.search, "fits": self.fits}, 3)
        return ratio(times, "fits", "search")

    track_times_faster_than_fits.unit = "x"

    def track_test_error(self) -> float:
        return 100 * (1 - self.search().best_estimator_.score(self.X_test, self.y_test))

    track_test_error.unit = "%"


class Objective:
    """How far one, two and five epochs of SGD are from the optimum."""

    params = ([1, 2, 5], [False, True])
    param_names = ["epochs", "average"]

    def setup_cache(self) -> float:
        from asv_bench.peers import find_optimum

        X, y, _, _ = rcv1_like(scaled(50_000, 1000))
        return find_optimum(X, y, REG)[1]

    def setup(self, optimum: float, epochs: int, average: bool) -> None:
        self.X, self.y, _, _ = rcv1_like(scaled(50_000, 1000))

    def fit(self, epochs: int, average: bool) -> Any:
        return osvm.recipes.sgd_svm(
            reg=REG, epochs=epochs, average=average, fit_intercept=False, shuffle=True,
            random_state=0,
        ).fit(self.X, self.y)  # fmt: skip

    def time_fit(self, optimum: float, epochs: int, average: bool) -> None:
        self.fit(epochs, average)

    def track_gap(self, optimum: float, epochs: int, average: bool) -> float:
        w = np.ravel(self.fit(epochs, average).coef_)
        return objective(w, self.X, self.y, REG) / optimum - 1
