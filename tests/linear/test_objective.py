"""The objective that `tol` looks at, against plain numpy."""

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm import losses, schedules
from osvm._input.rows import RowSource
from osvm.linear.learner import SGDLearner
from osvm.linear.scores import objective

REG = 0.03


def binary_loss(name, y, f):
    z = y * f
    return {
        "hinge": np.maximum(0.0, 1.0 - z),
        "squared_hinge": np.maximum(0.0, 1.0 - z) ** 2,
        "logistic": np.logaddexp(0.0, -z),
    }[name]


def row_losses(name, y, scores):
    """One number per row, from labels 0 .. K - 1 and their scores."""
    rows, K = np.arange(len(y)), scores.shape[1]
    if K == 1:
        return binary_loss(name, 2.0 * y - 1.0, scores[:, 0])
    own = scores[rows, y]
    if name == "softmax":
        return np.log(np.exp(scores - own[:, None]).sum(axis=1))
    if name == "multiclass_hinge":
        others = np.where(np.arange(K) == y[:, None], -np.inf, scores)
        return np.maximum(0.0, 1.0 - own + others.max(axis=1))
    signs = np.where(np.arange(K) == y[:, None], 1.0, -1.0)
    return binary_loss(name, signs, scores).sum(axis=1)


def problem(n_classes, n_features, seed=0):
    rng = np.random.default_rng(seed)
    density = 0.4 if n_features < 100 else 0.02  # few non-zeros: the average is not written out
    X = sp.random(120, n_features, density=density, random_state=seed, format="csr")
    y = rng.integers(n_classes, size=120)
    return X, y, rng.uniform(0.5, 2.0, size=120)


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize(
    ("loss", "n_classes"),
    [
        ("hinge", 2),
        ("logistic", 2),
        ("hinge", 4),
        ("squared_hinge", 4),
        ("logistic", 3),
        ("multiclass_hinge", 4),
        ("softmax", 3),
    ],
)
@pytest.mark.parametrize("n_features", [5, 29, 331])
@pytest.mark.parametrize("dense", [False, True])
def test_objective_of_tol_is_the_plain_one(loss, n_classes, n_features, average, dense):
    X, y, weight = problem(n_classes, n_features)
    model = osvm.LinearClassifier(
        loss=loss, reg=REG, average=average, epochs=3, tol=1e-9, random_state=0
    )
    model.fit(X.toarray() if dense else X, y, sample_weight=weight)
    scores = X @ model.coef_.T + model.intercept_
    expected = (weight * row_losses(loss, y, scores)).mean() + REG / 2 * (model.coef_**2).sum()
    assert model.objective_[-1] == pytest.approx(expected, rel=1e-10)
    model.fit(X, y)
    scores = X @ model.coef_.T + model.intercept_
    expected = row_losses(loss, y, scores).mean() + REG / 2 * (model.coef_**2).sum()
    assert model.objective_[-1] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("n_out", [1, 3])
@pytest.mark.parametrize("averaged", [False, True])
def test_float32_weights_are_summed_in_float64(n_out, averaged):
    X, y, _ = problem(max(2, n_out), 1003)
    targets = 2.0 * y - 1.0 if n_out == 1 else y.astype(np.int32)
    rows = RowSource.dense(X.toarray().astype(np.float32))
    step = schedules.get("constant", eta0=0.5).spec(reg=REG)
    learner = SGDLearner(
        1003, n_out, np.float32, losses.get("hinge").spec(), step, reg=REG, average_from=20
    )
    learner.run(rows, targets)
    before = learner.get_state()
    found = objective(learner, rows, targets, None, averaged)
    w = learner.weights.array(averaged=averaged).reshape(n_out, -1)
    loss = row_losses("hinge", y, X @ w.T).mean()
    assert found == pytest.approx(REG / 2 * (w**2).sum() + loss, rel=1e-6)
    nothing = RowSource.dense(np.zeros((1, 1003), np.float32))
    norm = objective(learner, nothing, targets[:1], None, averaged) - n_out
    assert norm == pytest.approx(REG / 2 * (w**2).sum(), rel=1e-10)
    for name, value in learner.get_state()[1].items():
        assert np.array_equal(value, before[1][name])


def test_an_average_that_has_not_begun_is_the_last_iterate():
    X, y, _ = problem(2, 7)
    rows, targets = RowSource.dense(X.toarray()), 2.0 * y - 1.0
    step = schedules.get("constant", eta0=0.5).spec(reg=REG)
    learner = SGDLearner(
        7, 1, np.float64, losses.get("hinge").spec(), step, reg=REG, average_from=1e6
    )
    learner.run(rows, targets)
    assert objective(learner, rows, targets, None, True) == objective(learner, rows, targets)


def test_regression_stops_on_the_plain_objective():
    X, y, _ = problem(2, 11)
    target = X @ np.arange(11.0) + y
    model = osvm.LinearRegressor(loss="squared", reg=REG, epochs=3, tol=1e-9, random_state=0)
    model.fit(X, target)
    # the loss is half of the squared error
    errors = X @ model.coef_ + model.intercept_ - target
    expected = (errors**2).mean() / 2 + REG / 2 * (model.coef_**2).sum()
    assert model.objective_[-1] == pytest.approx(expected, rel=1e-10)


def test_meta_descent_stops_on_the_same_objective():
    X, y, _ = problem(3, 11)
    model = osvm.LinearClassifier(
        reg=REG, epochs=2, tol=1e-9, schedule="smd", eta0=0.1, random_state=0
    ).fit(X, y)
    scores = X @ model.coef_.T + model.intercept_
    expected = row_losses("hinge", y, scores).mean() + REG / 2 * (model.coef_**2).sum()
    assert model.objective_[-1] == pytest.approx(expected, rel=1e-10)


def test_what_a_python_loss_raises_comes_out():
    class Fails:
        def value(self, y, f):
            raise ArithmeticError("not today")

        def dloss(self, y, f):
            return 0.0

    X, y, _ = problem(2, 5)
    rows = RowSource.dense(X.toarray())
    step = schedules.get("constant", eta0=0.5).spec(reg=REG)
    for n_out, targets in ((1, 2.0 * y - 1.0), (3, y.astype(np.int32))):
        learner = SGDLearner(
            5, n_out, np.float64, losses.PythonLoss(Fails()).spec(), step, reg=REG
        )
        with pytest.raises(ArithmeticError, match="not today"):
            objective(learner, rows, targets)


def test_what_does_not_fit_is_refused():
    X, y, weight = problem(2, 5)
    rows, targets = RowSource.dense(X.toarray()), 2.0 * y - 1.0
    step = schedules.get("constant", eta0=0.5).spec(reg=REG)
    learner = SGDLearner(5, 1, np.float64, losses.get("hinge").spec(), step, reg=REG)
    for bad in ((targets[1:], None), (targets, weight[1:])):
        with pytest.raises(ValueError, match="do not fit"):
            objective(learner, rows, *bad)
    with pytest.raises(ValueError, match="do not fit"):
        objective(learner, RowSource.dense(np.zeros((120, 6))), targets)
