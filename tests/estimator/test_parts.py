"""Parts inside estimators: parameters by nested names, with scikit-learn and without it."""

import os
import subprocess
import sys

import pytest

import osvm
from osvm import kernels, losses, schedules
from osvm._estimator.compat import clone

SMD = schedules.SMD(mu=0.2, eta0=0.5)


@pytest.mark.parametrize(
    "part", [SMD, losses.Huber(delta=2.0), kernels.Polynomial(degree=2), schedules.Bottou()]
)
def test_a_part_answers_for_its_parameters(part):
    assert type(part)(**part.get_params()) == part
    assert part.get_params(deep=False) == part.get_params()
    assert part.set_params() == part
    assert clone(part) == part


def test_set_params_gives_a_new_part():
    changed = SMD.set_params(mu=0.3)
    assert changed == schedules.SMD(mu=0.3, eta0=0.5)
    assert SMD.mu == 0.2
    with pytest.raises(ValueError, match="has no parameter 'tau'"):
        SMD.set_params(tau=1.0)
    with pytest.raises(ValueError, match="mu must be at least 0"):
        SMD.set_params(mu=-1.0)


def test_nested_names_replace_the_part_of_one_estimator():
    one = osvm.LinearClassifier(schedule=SMD)
    two = clone(one).set_params(schedule__mu=0.7, reg=0.5)
    assert one.schedule is SMD
    assert two.schedule == schedules.SMD(mu=0.7, eta0=0.5)
    assert two.reg == 0.5
    assert two.get_params()["schedule__mu"] == 0.7
    assert "schedule__mu" not in two.get_params(deep=False)


def test_a_name_becomes_the_part():
    model = osvm.LinearClassifier(schedule="smd").set_params(schedule__mu=0.7)
    assert model.schedule == schedules.SMD(mu=0.7)
    model.set_params(schedule="inverse_sqrt", schedule__tau=3.0)
    assert model.schedule == schedules.InverseSqrt(tau=3.0)
    model = osvm.LinearRegressor("epsilon_insensitive").set_params(loss__epsilon=0.25)
    assert model.loss == losses.EpsilonInsensitive(epsilon=0.25)


def test_a_named_kernel_keeps_the_other_parameters_of_its_estimator():
    model = osvm.KernelClassifier(kernel="poly", gamma=0.5, coef0=1.0)
    model.set_params(kernel__degree=2)
    assert model.kernel == kernels.Polynomial(gamma=0.5, coef0=1.0, degree=2)
    model = osvm.KernelClassifier().set_params(kernel__gamma=0.125)
    assert model.kernel == kernels.RBF(gamma=0.125)


@pytest.mark.parametrize(
    "params",
    [
        {"reg": 0.5, "schedule__nothing": 1.0},
        {"reg": 0.5, "schedule__mu": -1.0},
        {"reg": 0.5, "kernel__gamma": 1.0},
        {"reg": 0.5, "schedule": 3, "schedule__mu": 1.0},
    ],
)
def test_an_error_leaves_the_parameters(params):
    model = osvm.LinearClassifier(schedule="smd")
    before = model.get_params()
    for given in (params, dict(reversed(params.items()))):
        with pytest.raises((ValueError, TypeError)):
            model.set_params(**given)
        assert model.get_params() == before


def test_a_fitted_model_follows_the_new_part():
    X, y = [[1.0, 0.0], [0.0, 1.0]], [0, 1]
    model = osvm.LinearClassifier(schedule="constant", random_state=0).fit(X, y)
    model.set_params(schedule__eta0=0.25, record=True).partial_fit(X, y)
    assert model.history_["eta"].tolist() == [0.25, 0.25]


def test_grid_search_over_parts():
    pytest.importorskip("sklearn")
    from sklearn.model_selection import GridSearchCV

    X, y, *_ = osvm.datasets.make_rcv1_like(200, 10, n_features=100, nnz=10, random_state=0)
    grid = {"schedule__mu": [0.0, 0.1], "schedule__decay": [0.9]}
    for schedule in ("smd", SMD):
        model = osvm.LinearClassifier(schedule=schedule, random_state=0)
        search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(X, y)
        assert search.best_estimator_.schedule.decay == 0.9
    grid = {"kernel__gamma": [0.1, 1.0]}
    search = GridSearchCV(osvm.KernelClassifier(random_state=0), grid, cv=2, error_score="raise")
    assert search.fit(X, y).best_estimator_.kernel.gamma in (0.1, 1.0)
    grid = {"loss": [losses.Hinge(), "logistic"], "schedule": [SMD, "bottou"]}
    search = GridSearchCV(osvm.LinearClassifier(random_state=0), grid, cv=2, error_score="raise")
    assert search.fit(X, y).best_score_ > 0.4


@pytest.mark.slow  # `.ci/run nosklearn` runs the file that way
@pytest.mark.skipif(bool(os.environ.get("OSVM_NO_SKLEARN")), reason="runs the others that way")
def test_without_scikit_learn():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env={**os.environ, "OSVM_NO_SKLEARN": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
