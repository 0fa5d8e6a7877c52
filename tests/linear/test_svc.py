"""`LinearSVC` as a user meets it; the solver itself: test_dual.py."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm import recipes


def text(n=600, classes=2, dtype=np.float64):
    X, y, *_ = osvm.datasets.make_rcv1_like(
        n_train=n, n_test=10, n_features=300, nnz=15, n_classes=classes, random_state=0
    )
    return X.astype(dtype), y


def objective(model, X, y, weight=None):
    """1/2 ||w||^2 + C sum of weighted losses, for each output."""
    scores = np.atleast_2d(model.decision_function(X).T).T
    labels = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
    t = np.where(np.asarray(y)[:, None] == labels, 1.0, -1.0)
    m = np.maximum(0.0, 1.0 - t * scores)
    loss = m if model.loss == "hinge" else m**2
    if weight is not None:
        loss = loss * (weight if np.ndim(weight) == 2 else np.asarray(weight)[:, None])
    return 0.5 * np.sum(np.asarray(model.coef_, float) ** 2, axis=1) + model.C * loss.sum(axis=0)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_gap_bounds_the_objective(loss, fit_intercept):
    X, y = text()
    options = {"C": 1.6, "loss": loss, "fit_intercept": fit_intercept, "random_state": 0}
    rough = osvm.LinearSVC(tol=1e-2, **options).fit(X, y)
    fine = osvm.LinearSVC(tol=1e-7, max_iter=10_000, **options).fit(X, y)
    assert 0 <= fine.dual_gap_ <= 1e-7 * fine.objective_ * 1.001
    assert rough.objective_ - fine.objective_ <= rough.dual_gap_ + 1e-9
    np.testing.assert_allclose(objective(fine, X, y), [fine.objective_], rtol=1e-9)
    np.testing.assert_allclose(fine.dual_coef_ @ X, fine.coef_, atol=1e-8)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("balanced", [None, "balanced"])
def test_agrees_with_scikit_learn(classes, loss, balanced):
    svm = pytest.importorskip("sklearn.svm")
    X, y = text(classes=classes)
    weight = np.random.default_rng(0).uniform(0.0, 2.0, len(y))
    weight[:20] = 0.0
    options = {"C": 0.5, "loss": loss, "random_state": 0, "class_weight": balanced}
    own = osvm.LinearSVC(tol=1e-7, intercept_scaling=1, max_iter=10_000, **options)
    own.fit(X, y, weight)
    peer = svm.LinearSVC(dual=True, tol=1e-9, max_iter=100_000, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer.fit(X, y, weight)
    np.testing.assert_allclose(own.coef_, peer.coef_, atol=2e-3)
    np.testing.assert_allclose(own.intercept_, peer.intercept_, atol=2e-3)
    assert np.mean(own.predict(X) == peer.predict(X)) > 0.99


def test_the_offset_is_free_by_default():
    X, y = text()
    free = osvm.LinearSVC(random_state=0, tol=1e-6).fit(X, y)
    scaled = osvm.LinearSVC(intercept_scaling=1.0, random_state=0, tol=1e-6).fit(X, y)
    large = osvm.LinearSVC(intercept_scaling=1e3, random_state=0, tol=1e-6, max_iter=10_000)
    assert free.objective_ < scaled.objective_ - 0.5 * scaled.intercept_[0] ** 2 + 1e-9
    np.testing.assert_allclose(large.fit(X, y).intercept_, free.intercept_, atol=1e-2)


def test_sgd_comes_near_the_optimum():
    X, y = text(2000)
    best = recipes.dual_svm(C=0.05, tol=1e-6, random_state=0).fit(X, y).objective_ / 100
    sgd = osvm.LinearClassifier(reg=1e-2, epochs=60, average=True, tol=0.0, random_state=0)
    value = sgd.fit(X, y).objective_[-1]
    assert best <= value <= 1.02 * best


def test_several_classes_and_threads():
    X, y = text(classes=4)
    one = osvm.LinearSVC(random_state=0).fit(X, y)
    two = osvm.LinearSVC(random_state=0, n_jobs=2).fit(X, y)
    assert np.array_equal(one.coef_, two.coef_)
    assert one.dual_gap_.shape == one.objective_.shape == (4,)
    assert one.dual_coef_.shape == (4, len(y))
    np.testing.assert_allclose(one.dual_coef_ @ X, one.coef_, atol=1e-6)
    assert np.array_equal(osvm.from_bytes(one.to_bytes()).dual_coef_, one.dual_coef_)
    assert one.score(X, y) > 0.8
    np.testing.assert_allclose(objective(one, X, y), one.objective_, rtol=1e-6)
    with pytest.raises(ValueError, match="two classes"):
        one.fit(X, np.zeros(len(y)))
    assert np.array_equal(one.coef_, two.coef_)


@pytest.mark.parametrize("classes", [2, 3])
def test_warm_start(classes):
    X, y = text(classes=classes)
    model = osvm.LinearSVC(warm_start=True, loss="hinge", random_state=0).fit(X, y)
    best, passes = model.objective_, model.n_iter_
    again = pickle.loads(pickle.dumps(model)).fit(X, y)
    assert again.n_iter_ < passes
    np.testing.assert_allclose(again.objective_, best, rtol=1e-3)
    assert again.dual_coef_.shape == (1 if classes == 2 else classes, len(y))
    other = np.roll(y, 1)  # labels that have changed cost nothing but time
    cold = osvm.LinearSVC(loss="hinge", random_state=0, max_iter=5000).fit(X, other)
    again.set_params(max_iter=5000)
    np.testing.assert_allclose(again.fit(X, other).objective_, cold.objective_, rtol=1e-3)
    with pytest.raises(ValueError, match="warm_start=False"):
        again.fit(X[:100], y[:100])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("dual", ["auto", True, False])
def test_every_kind_of_rows_and_of_method(dtype, dense, dual):
    X, y = text(dtype=dtype)
    best = osvm.LinearSVC(tol=1e-6, random_state=0).fit(X.astype(float), y).objective_
    rows = X.toarray() if dense else X
    model = osvm.LinearSVC(dual=dual, random_state=0).fit(rows, y)
    assert model.objective_ <= best * (1 + 2e-4)
    found = model.decision_function(rows)
    assert found.dtype == np.float64
    sparse = model.sparsify()
    assert sp.issparse(sparse.coef_)
    np.testing.assert_allclose(sparse.decision_function(rows), found, atol=1e-5)
    assert np.array_equal(sparse.densify().decision_function(rows), found)


def test_columns_in_raw_units_are_solved():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)) * [1e-2, 1.0, 1e1, 1e3, 1e5] + 1e4
    y = (X - 1e4) @ [1e2, 1.0, 1e-1, 1e-3, 1e-5] + rng.normal(size=400) > 0
    for loss in ("hinge", "squared_hinge"):
        model = osvm.LinearSVC(loss=loss, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(X, y)
        np.testing.assert_allclose(objective(model, X, y), [model.objective_], rtol=1e-6)
        assert model.score(X, y) > 0.7


def test_too_few_passes_are_told():
    X, y = text()
    model = osvm.LinearSVC("l2", "hinge", tol=1e-9, max_iter=2, C=100.0)
    with pytest.warns(osvm.ConvergenceWarning, match="raise max_iter"):
        model.fit(X, y)
    assert model.n_iter_ == 2
    with pytest.warns(osvm.ConvergenceWarning, match=r"gap is .* after"):
        osvm.LinearSVC(tol=1e-12, max_iter=1).fit(X, y)


def test_scikit_learns_warning_is_given_too():
    exceptions = pytest.importorskip("sklearn.exceptions")
    from osvm._estimator.compat import HAS_SKLEARN

    if not HAS_SKLEARN:
        pytest.skip("scikit-learn is kept out")
    X, y = text()
    with pytest.warns(exceptions.ConvergenceWarning):
        osvm.LinearSVC(tol=1e-12, max_iter=1).fit(X, y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"loss": "logistic"}, "squared_hinge"),
        ({"penalty": "l1"}, "penalty='l2' only"),
        ({"multi_class": "crammer_singer"}, "multiclass_hinge"),
        ({"C": 0.0}, "C"),
        ({"C": -1.0}, "C"),
        ({"tol": -1.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"dual": "maybe"}, "dual"),
        ({"intercept_scaling": 0.0}, "intercept_scaling"),
        ({"intercept_scaling": 1.0, "fit_intercept": False}, "fit_intercept=True"),
    ],
)
def test_what_makes_no_sense_is_refused(params, message):
    X, y = text(50)
    with pytest.raises((ValueError, TypeError), match=message):
        osvm.LinearSVC(**params).fit(X, y)


def test_verbose_prints_epochs(capsys):
    X, y = text(100)
    osvm.LinearSVC(verbose=1).fit(X, y)
    assert "epoch" in capsys.readouterr().err


@pytest.mark.parametrize("options", [{}, {"loss": "hinge"}, {"dual": True}, {"dual": False}])
def test_weights_beyond_the_range_of_numbers_are_refused(options):
    X, y = np.arange(12.0).reshape(6, 2) - 5, np.array([0, 0, 1, 1, 2, 2])
    with pytest.raises(ValueError, match="too large"):
        osvm.LinearSVC(**options).fit(X, y, sample_weight=np.full(6, 1e307))
    with pytest.raises(ValueError, match="less than 1e300"):
        osvm.LinearSVC(C=1e308, **options).fit(X, y)


@pytest.mark.parametrize(("options", "advice"), [
    ({"max_iter": 1}, "raise max_iter"),
    ({"C": 1e6, "tol": 1e-14, "max_iter": 10**5}, "rounding allows no smaller one"),
])  # fmt: skip
def test_the_warning_says_what_helps(options, advice):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 30)
    X = rng.normal(size=(60, 4)) + 5.0 * y[:, None]
    with pytest.warns(UserWarning, match=advice):
        osvm.LinearSVC(loss="hinge", random_state=0, **options).fit(X, y)


@pytest.mark.parametrize("scaled", [True, False], ids=["standardized", "raw"])
def test_a_large_C_is_solved(scaled):
    X, y = pytest.importorskip("sklearn.datasets").load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0) if scaled else X
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = osvm.LinearSVC(loss="hinge", C=1e6, random_state=0).fit(X, y)
    missing = np.maximum(0.0, 1.0 - (2 * y - 1) * (X @ model.coef_[0] + model.intercept_[0]))
    objective = 0.5 * np.sum(model.coef_**2) + 1e6 * missing.sum()
    assert objective == pytest.approx(model.objective_, rel=1e-6)
    assert model.dual_gap_ <= 1e-4 * model.objective_


def test_intercept_scaling_whose_square_overflows_is_refused():
    X, y = text(50)
    with pytest.raises(ValueError, match="intercept_scaling"):
        osvm.LinearSVC(intercept_scaling=1e200).fit(X, y)


def test_several_classes_of_values_that_overflow_are_a_value_error():
    """The root of a norm that is not a number was a complex one: a TypeError."""
    X = 1e300 * np.random.default_rng(0).normal(size=(60, 4))
    with pytest.raises(ValueError, match="overflow"):
        osvm.LinearSVC(class_weight="balanced", dual=False).fit(X, np.arange(60) % 3)
