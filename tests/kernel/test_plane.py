"""The plane among the settings of `fit`: a linear learner's scores in an expansion."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm.exceptions import ConvergenceWarning
from osvm.kernel.buffer import choice, plane, solver


def make_plane(n, seed=0, classes=2, units=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 12))
    y = (X @ np.random.default_rng(9).normal(size=(12, classes))).argmax(axis=1)
    return X * units + 0.5, y


def make_ring(n, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 4))
    return X, (np.square(X).sum(axis=1) > 3.36).astype(int)


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("offset", [True, False, None])
def test_scores_are_those_of_the_linear_learner(kind, dtype, classes, offset, monkeypatch):
    monkeypatch.setattr(choice, "choose", lambda *given: given[1](given[2]).any() and given[2])
    X, y = make_plane(700, classes=classes)
    X, names = kind(X.astype(dtype)), np.array(["a", "b", "c", "d"])
    weight = np.random.default_rng(1).uniform(0.5, 1.5, 700)
    options = {"random_state": 3, "class_weight": {"a": 2.0}}
    model = osvm.KernelClassifier(fit_intercept=offset, **options).fit(X, names[y], weight)
    options["fit_intercept"] = offset is not False
    linear = osvm.LinearClassifier(**options).fit(X, names[y], weight)
    outputs = 1 if classes == 2 else 4
    assert model.n_support_ == outputs + (offset is None)
    assert (model.t_, model.n_iter_) == (5 * 700, 5)
    X_test = kind(make_plane(300, 1, classes)[0].astype(dtype))
    scores = linear.decision_function(X_test)
    found = model.decision_function(X_test)
    if offset is None:
        found -= model.intercept_  # a shift, where the trial has found one
    tolerance = (3e-5 if dtype == np.float32 else 1e-11) * np.abs(scores).max()
    np.testing.assert_allclose(found, scores, rtol=0, atol=tolerance)
    assert sp.issparse(model.support_vectors_) == sp.issparse(X)
    assert (model.support_ == -1).all()


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("units", [1.0, np.geomspace(0.01, 100.0, 12)], ids=["one", "many"])
def test_planes_are_not_learnt_worse_than_by_the_linear_learner(classes, units):
    """Gaussians were 2 points behind, and 18 with columns in units of their own."""
    X, y = make_plane(1500, 0, classes, units)
    X_test, y_test = make_plane(4000, 1, classes, units)
    model = osvm.KernelClassifier(random_state=0).fit(X, y)
    linear = osvm.LinearClassifier(random_state=0).fit(X, y)
    narrow = osvm.KernelClassifier(gamma="scale", random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > linear.score(X_test, y_test) - 0.003
    assert model.score(X_test, y_test) > narrow.score(X_test, y_test) + 0.015


def test_numbers_on_a_plane_are_those_of_the_linear_learner():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    y = 1000.0 * (X @ rng.normal(size=6) + 0.3 * rng.normal(size=400)) + 5000.0
    model = osvm.KernelRegressor(random_state=0).fit(X, y)
    linear = osvm.LinearRegressor(random_state=0).fit(X, y)
    assert plane.is_plane(model.kernel_)
    np.testing.assert_allclose(model.predict(X), linear.predict(X), rtol=1e-9)
    before = model.score(X, y)
    for i in range(0, 400, 50):
        model.partial_fit(X[i : i + 50], y[i : i + 50])
    assert model.score(X, y) > before - 0.01
    curve = np.sin(2.0 * X[:, 0]) * X[:, 1]
    assert osvm.KernelRegressor(random_state=0).fit(X, curve).kernel_.name == "rbf"


def test_what_is_no_plane_keeps_a_gaussian():
    X, y = make_ring(600)
    model = osvm.KernelClassifier(random_state=0).fit(X, y)
    assert model.kernel_ == osvm.kernels.RBF(gamma=model.gamma_)


@pytest.mark.parametrize("given", [
    {"reg": 1e-4}, {"C": 1.0}, {"nu": 0.2}, {"eta0": 1.0}, {"average": True}, {"record": True},
    {"schedule": "smd"}, {"schedule": osvm.schedules.InverseSqrt()}, {"loss": "logistic"},
    {"loss": "squared_hinge"}, {"gamma": "scale"}, {"kernel": osvm.kernels.RBF()},
    {"label_kernel": "delta", "loss": "multiclass_hinge"},
])  # fmt: skip
def test_parameters_that_only_gaussians_read_leave_no_plane(given):
    X, y = make_plane(300)
    assert osvm.KernelClassifier(random_state=0, **given).fit(X, y).kernel_.name == "rbf"


def test_a_budget_below_the_classes_leaves_no_plane():
    X, y = make_plane(300, classes=4)
    for budget, name in ((4, "rbf"), (5, "polynomial"), (None, "polynomial")):
        model = osvm.KernelClassifier(budget=budget, random_state=0).fit(X, y)
        assert model.kernel_.name == name


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("eviction", ["merge", "project", "fifo", "change", "term"])
def test_a_stream_goes_on_from_a_plane(kind, dtype, eviction, tmp_path):
    X, y = make_plane(600, classes=3)
    X = kind(X.astype(dtype))
    model = osvm.KernelClassifier(eviction=eviction, random_state=0).fit(X[:400], y[:400])
    assert plane.is_plane(model.kernel_)
    before = model.score(X[400:], y[400:])
    osvm.io.save(model, tmp_path / "model.osvm")
    models = [
        model, osvm.io.load(tmp_path / "model.osvm"), pickle.loads(pickle.dumps(model)),
    ]  # fmt: skip
    for one in models:
        np.testing.assert_array_equal(one.decision_function(X), model.decision_function(X))
    for one in models:
        one.partial_fit(X[400:], y[400:])
        np.testing.assert_array_equal(one.decision_function(X), model.decision_function(X))
    assert 4 < model.n_support_ <= 204
    assert model.score(X[400:], y[400:]) > before - 0.04
    model.partial_fit(X[:1], [7])  # a label not seen before
    assert model.classes_.tolist() == [0, 1, 2, 7]
    with pytest.raises(ValueError, match="kernel is fixed"):
        model.set_params(gamma=0.5).partial_fit(X, y)


@pytest.mark.parametrize("shift", [0.0, 30.0, 1e5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_stream_far_from_the_origin_keeps_the_plane(shift, dtype):
    """In units of the spread the first steps were as large as the square of the shift."""
    X, y = make_plane(900)
    X = (X + shift).astype(dtype)
    model = osvm.KernelClassifier(random_state=0).fit(X[:600], y[:600])
    assert plane.is_plane(model.kernel_)
    assert model.gamma_ * np.square(X[:600], dtype=float).sum(axis=1).mean() == pytest.approx(1.0)
    before = model.score(X[600:], y[600:])
    model.partial_fit(X[600:], y[600:])
    assert model.score(X[600:], y[600:]) > before - 0.05


def test_a_warm_start_goes_on_from_a_plane():
    X, y = make_plane(500)
    X_test, y_test = make_plane(1000, 1)
    model = osvm.KernelClassifier(warm_start=True, random_state=0).fit(X, y)
    before = model.score(X_test, y_test)
    model.fit(X, y)
    assert plane.is_plane(model.kernel_)
    assert (model.t_, model.n_iter_) == (10 * 500, 5)
    assert model.score(X_test, y_test) > before - 0.02


def test_a_shift_that_the_trial_found_is_the_offset(monkeypatch):
    """Read off all rows where the fit does so, else as it was found."""
    X, y = make_plane(400)
    judge = choice.Trials.judge
    for found, budget, shift in ((0.0, 512, 0.0), (0.5, 512, 0.5), (0.5, 100, 2.0)):
        with monkeypatch.context() as patch:
            patch.setattr(
                choice.Trials,
                "judge",
                lambda self, *given, found=found: (judge(self, *given)[0], np.array([found])),
            )
            patch.setattr(solver, "find_offsets", lambda *given: np.array([2.0]))
            model = osvm.KernelClassifier(budget=budget, random_state=0).fit(X, y)
        assert plane.is_plane(model.kernel_)
        assert model.intercept_.tolist() == [shift]


def test_a_class_that_a_trial_lacks_is_not_its_answer():
    X, y = make_plane(90, classes=3)
    y[y == 1] = 0
    y[40] = 1  # in two of the three parts that are learnt
    model = osvm.KernelClassifier(random_state=0).fit(X, y)
    assert plane.is_plane(model.kernel_)
    assert set(model.predict(make_plane(500, 1)[0]).tolist()) <= {0, 1, 2}
    learnt = np.flatnonzero(y != 1)

    class Two:
        coef_, intercept_, classes_ = np.ones((1, 2)), np.array([0.25]), np.array([0, 2])

    coef, intercept = plane._weights(Two(), 3)
    assert coef.tolist() == [[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]]
    assert intercept.tolist() == [-0.25, -1.0, 0.25]
    assert len(learnt) == 89


def test_rows_beyond_the_numbers_of_a_linear_learner_get_a_gaussian(monkeypatch):
    """In the trial, and in the fit after a trial that went well."""
    X, y = make_plane(200)
    learn = solver.learn_plane
    for most in (0, 150):
        monkeypatch.setattr(
            solver,
            "learn_plane",
            lambda machine, batch, options, most=most: (
                learn(machine, batch, options) if batch.source.n_rows <= most else None
            ),
        )
        model = osvm.KernelClassifier(random_state=0).fit(X, y)
        assert model.kernel_.name == "rbf"
        assert model.score(X, y) > 0.9


def test_only_a_gaussian_warns_of_columns_it_cannot_see():
    X, y = make_plane(300, units=np.geomspace(0.01, 100.0, 12))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = osvm.KernelClassifier(random_state=0).fit(X, y)
        # and of labels that no plane tells
        osvm.KernelClassifier(random_state=0).fit(*make_ring(300))
    assert plane.is_plane(model.kernel_)
    with pytest.warns(ConvergenceWarning, match="columns of X differ"):
        osvm.KernelClassifier(gamma="scale").fit(X, y)


def test_the_plane_must_err_less_than_the_best_gaussian():
    few, fewer = np.r_[np.ones(5), np.zeros(5)], np.r_[np.ones(4), np.zeros(6)]
    settings = choice.SETTINGS["classify"]
    for errors, chosen in ((few, settings[0]), (fewer, choice.PLANE)):
        found = {choice.PLANE: errors}
        best = choice.choose(settings, lambda s, found=found: found.get(s, few), choice.PLANE)
        assert best == chosen
