"""The table of options: obeyed by the estimators, printed in the guide."""

import inspect
from pathlib import Path

import numpy as np
import pytest

import osvm
from osvm import kernels, solvers
from osvm.kernel.options import LISTED, READERS, format_table

GUIDE = Path(__file__).resolve().parents[2] / "doc" / "guide" / "cached.rst"
SOLVERS = [solvers.get(name) for name in solvers.names()]
STREAMS = [osvm.KernelClassifier, osvm.KernelRegressor, osvm.KernelNovelty]
OTHER = {"C": 2.0, "tol": 0.1}  # a value of each listed option that is not its default


def problem():
    X = np.random.default_rng(0).normal(size=(30, 2))
    return X, (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("estimator", [osvm.SVC, *STREAMS])
def test_few_parameters(estimator):
    names = set(inspect.signature(estimator).parameters)
    assert len(names) <= 24
    gone = {"tau", "mu", "decay", "eta_min", "eta_max", "epsilon0", "eta0_epsilon",
            "eta0_intercept", "cache_mb"}  # fmt: skip
    assert not names & gone
    if estimator in STREAMS:
        assert not names & {"solver", "tol"}


def test_the_table_names_parameters():
    assert set(OTHER) == set(LISTED) <= set(inspect.signature(osvm.SVC).parameters)
    assert set(READERS) <= set(inspect.signature(osvm.KernelClassifier).parameters)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
@pytest.mark.parametrize("option", sorted(OTHER))
def test_options_that_a_solver_does_not_read_are_refused(option, solver):
    X, y = problem()
    model = osvm.SVC(solver=solver, gamma=1.0, **{option: OTHER[option]})
    if option in solver.takes:
        model.fit(X, y)
        return
    with pytest.raises(ValueError, match=option):
        model.fit(X, y)
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize("schedule", ["inverse_time", "kecman"])
def test_schedules_without_a_first_step_size_refuse_it(schedule):
    X, y = problem()
    model = osvm.KernelClassifier(schedule=schedule, C=1.0, gamma=1.0, eta0=0.3)
    with pytest.raises(ValueError, match="eta0 is read with"):
        model.fit(X, y)
    model.set_params(eta0=None).fit(X, y)


def test_the_guide_shows_this_table():
    assert format_table(osvm.SVC, SOLVERS) in GUIDE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name", ["KernelClassifier", "KernelRegressor", "KernelNovelty", "SVC", "SVR"]
)
@pytest.mark.parametrize("kernel", ["rbf", "linear", kernels.RBF(1.0)])
@pytest.mark.parametrize(
    ("option", "value"),
    [("degree", "nonsense"), ("degree", 0.5), ("coef0", np.nan), ("gamma", -1.0)],
)
def test_parameters_of_other_kernels_are_checked(name, kernel, option, value):
    X, y = problem()
    model = getattr(osvm, name)(**{"kernel": kernel, "gamma": 1.0, option: value})
    with pytest.raises((TypeError, ValueError), match=option):
        model.fit(X, y)


@pytest.mark.parametrize("name", ["KernelClassifier", "KernelRegressor", "KernelNovelty"])
@pytest.mark.parametrize("value", ["no", 0, np.nan, []])
def test_warm_start_is_true_or_false(name, value):
    X, y = problem()
    with pytest.raises((TypeError, ValueError), match="warm_start"):
        getattr(osvm, name)(gamma=1.0, warm_start=value).fit(X, y)
