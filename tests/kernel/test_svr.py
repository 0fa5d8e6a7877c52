"""`SVR` and `OneClassSVM`: LIBSVM's solutions, scikit-learn's shapes."""

import numpy as np
import pytest
import scipy.sparse as sp

import osvm

svm = pytest.importorskip("sklearn.svm")


def numbers(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n), rng.uniform(0.1, 3, n)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"C": 20.0, "epsilon": 0.02},
        {"epsilon": 0.0, "gamma": 0.5},
        {"kernel": "linear", "C": 0.1},
        {"kernel": "poly", "degree": 2, "coef0": 1.0},
    ],
)
def test_regression_is_that_of_libsvm(options, form):
    X, y, weight = numbers()
    for w in (None, weight):
        theirs = svm.SVR(tol=1e-6, **options).fit(X, y, sample_weight=w)
        ours = osvm.SVR(tol=1e-6, **options).fit(form(X), y, sample_weight=w)
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-4)
        assert abs(ours.dual_coef_.sum()) < 1e-6
        if options.get("kernel") != "linear":  # its coefficients are not unique
            assert ours.support_.tolist() == theirs.support_.tolist()
            np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-2)
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)
        assert ours.n_support_.tolist() == [len(ours.support_)]
        assert ours.outputs_.shape == (1, len(y))
        np.testing.assert_allclose(ours.outputs_[0], ours.predict(X), atol=1e-6)


def test_regression_of_large_targets_and_float32():
    X, y, _ = numbers(3000)
    theirs = svm.SVR(C=1e4, epsilon=10.0).fit(X, 1e3 * y)
    ours = osvm.SVR(C=1e4, epsilon=10.0).fit(X.astype(np.float32), 1e3 * y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=0.5)
    assert ours.score(X, 1e3 * y) > 0.9


def test_nothing_outside_the_tube():
    X, y, _ = numbers()
    model = osvm.SVR(epsilon=10.0).fit(X, y)
    assert model.support_.size == 0
    assert np.ptp(model.predict(X)) == 0
    assert abs(y - model.predict(X)).max() <= 10.0


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(
    "options", [{}, {"nu": 0.05}, {"nu": 0.99}, {"kernel": "linear", "nu": 0.3}, {"gamma": 0.1}]
)
def test_novelty_is_that_of_libsvm(options, form):
    X, _, weight = numbers()
    X += 2.0  # a linear kernel finds nothing around 0
    for w in (None, weight):
        theirs = svm.OneClassSVM(tol=1e-6, **options).fit(X, sample_weight=w)
        ours = osvm.OneClassSVM(tol=1e-6, **options).fit(form(X), sample_weight=w)
        gap = ours.decision_function(X) - theirs.decision_function(X)
        np.testing.assert_allclose(gap, 0.0, atol=1e-3)
        total = options.get("nu", 0.5) * (len(X) if w is None else w.sum())
        assert ours.dual_coef_.sum() == pytest.approx(total)
        np.testing.assert_allclose(
            ours.score_samples(X), ours.decision_function(X) + ours.offset_, atol=1e-9
        )
        if w is None:
            assert np.mean(ours.decision_function(X) < -1e-4) <= options.get("nu", 0.5)
        np.testing.assert_array_equal(ours.predict(X) < 0, ours.decision_function(X) < 0)


def test_all_rows_left_out():
    X, _, _ = numbers()
    model = osvm.OneClassSVM(nu=1.0).fit(X)
    np.testing.assert_allclose(model.dual_coef_, 1.0)
    assert model.decision_function(X).max() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("make", [osvm.SVR, osvm.OneClassSVM])
def test_what_they_share(make, tmp_path):
    X, y, _ = numbers()
    kernel = osvm.kernels.RBF(gamma=0.5)
    plain = make(gamma=0.5, tol=1e-6).fit(X, y)
    given = make(kernel="precomputed", tol=1e-6).fit(kernel(X), y)
    mine = make(kernel=kernel, tol=1e-6).fit(X, y)
    answers = "predict" if make is osvm.SVR else "decision_function"
    expected = getattr(plain, answers)(X)
    np.testing.assert_allclose(getattr(given, answers)(kernel(X)), expected, atol=1e-6)
    np.testing.assert_allclose(getattr(mine, answers)(X), expected, atol=1e-6)
    plain.save(tmp_path / "a.osvm")
    again = osvm.load(tmp_path / "a.osvm")
    assert getattr(again, answers)(X).tobytes() == expected.tobytes()
    assert again.n_iter_ == plain.n_iter_
    linear = make(kernel="linear").fit(X, y)
    scores = X @ linear.coef_[0] + linear.intercept_
    np.testing.assert_allclose(getattr(linear, answers)(X), scores, atol=1e-9)
    with pytest.warns(osvm.ConvergenceWarning, match="max_iter=1"):
        short = make(max_iter=1, tol=1e-12).fit(np.tile(X, (8, 1)), np.tile(y, 8))
    assert short.fit_status_ == 1
    for options in ({"nu": 0.0}, {"nu": 2.0}, {"epsilon": -1.0}, {"C": 0.0}, {"tol": 0.0}):
        if set(options) <= set(make().get_params()):
            with pytest.raises(ValueError, match=next(iter(options))):
                make(**options).fit(X, y)
