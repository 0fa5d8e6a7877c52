"""The table of options: complete, obeyed by the estimators, printed in the guide."""

import inspect
from pathlib import Path

import numpy as np
import pytest

import osvm
from osvm import solvers
from osvm.kernel.options import OPTIONS, format_table, goes_with

GUIDE = Path(__file__).resolve().parents[2] / "doc" / "guide" / "cached.rst"
SOLVERS = ["buffer", *map(solvers.get, solvers.names())]

# A value of each option that is not its default.
OTHER = {
    "loss": "squared_hinge", "reg": 0.1, "C": 2.0, "budget": 7, "eviction": "term",
    "schedule": "constant", "eta0": 0.2, "tau": 2.0, "mu": 0.3, "decay": 0.9, "eta_min": 1e-5,
    "eta_max": 0.5, "nu": 0.3, "epsilon0": 2.0, "eta0_epsilon": 2.0, "eta0_intercept": 0.1,
    "fit_intercept": True, "taxonomy": osvm.taxonomy.from_paths(["a/b", "a/c"]),
    "label_kernel": np.eye(2), "warm_start": True, "record": True, "average": True, "tol": 0.1,
    "cache_mb": 10.0,
}  # fmt: skip


@pytest.mark.parametrize(
    "estimator", [osvm.KernelClassifier, osvm.KernelRegressor, osvm.KernelNovelty]
)
def test_every_parameter_is_in_the_table(estimator):
    assert set(inspect.signature(estimator).parameters) <= set(OPTIONS)


def test_the_table_has_no_other_options():
    assert set(OPTIONS) == set(inspect.signature(osvm.KernelClassifier).parameters)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: getattr(solver, "name", solver))
@pytest.mark.parametrize("option", sorted(OTHER))
def test_foreign_options_are_refused_and_others_are_not(option, solver):
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = (X[:, 0] > 0).astype(int)
    needs = {"fit_intercept": True} if getattr(solver, "needs_bias", False) else {}
    model = osvm.KernelClassifier(solver=solver, epochs=1, gamma=1.0, **needs)
    model.set_params(**{option: OTHER[option]})
    if not goes_with(option, solver):
        with pytest.raises(ValueError, match=f"{option}|offset|average|record"):
            model.fit(X, y)
        return
    if option == "nu":
        model.set_params(reg=1.0)
    if option == "tau":
        model.set_params(schedule="inverse_sqrt")
    if option in ("mu", "decay", "eta_min", "eta_max"):
        model.set_params(schedule="smd")
    if option == "label_kernel":
        model.set_params(loss="multiclass_hinge")
    if option in ("average", "record") and getattr(solver, "selection", "order") != "order":
        model.set_params(solver=type(solver)(selection="order"))
    model.fit(X, y)


def test_the_guide_shows_this_table():
    assert format_table(SOLVERS) in GUIDE.read_text(encoding="utf-8")
