"""`SVC`: LIBSVM's solution, scikit-learn's shapes, every solver, probabilities, weights."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm import solvers
from osvm.kernel.cached.pairs import couple
from osvm.kernel.cached.sigmoid import apply_sigmoid, fit_sigmoid

svm = pytest.importorskip("sklearn.svm")
KERNELS = {
    "rbf": {"gamma": 0.3},
    "linear": {},
    "poly": {"degree": 2, "coef0": 1.0, "gamma": 0.2},
    "scale": {"kernel": "rbf"},
}


def problem(n=160, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = np.digitize(
        X[:, 0] + X[:, 1] ** 2 / 2 + 0.5 * rng.normal(size=n), [0.4, 1.2][: classes - 1]
    )
    return X, np.array(["a", "b", "c"])[y]


def dual_objective(K, y, alpha):
    """LIBSVM's: 1/2 (y a)' K (y a) - sum a."""
    return 0.5 * alpha @ K @ alpha - np.abs(alpha).sum()


# ------------------------------------------------------------- LIBSVM's problem


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, lambda X: X.astype(np.float32)])
@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_solution_is_that_of_libsvm(kernel, C, form):
    X, y = problem()
    options = {"kernel": kernel, "C": C, "tol": 1e-6, **KERNELS[kernel]}
    theirs = svm.SVC(**options).fit(X, y)
    for solver in ("adatron", "lasvm"):
        ours = osvm.SVC(**options, solver=solver).fit(form(X), y)
        atol = 2e-3 if form(X).dtype == np.float32 else 2e-4
        np.testing.assert_allclose(
            ours.decision_function(X), theirs.decision_function(X), atol=atol
        )
        assert ours.fit_status_ == 0
    if form is np.asarray:
        assert ours.support_.tolist() == theirs.support_.tolist()
        assert ours.n_support_.tolist() == theirs.n_support_.tolist()
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
        np.testing.assert_allclose(ours.support_vectors_, theirs.support_vectors_)
        if kernel != "linear":  # its coefficients are not unique
            np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-2 * C)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
def test_the_objective_is_optimal_to_the_tolerance(C, dtype):
    X, y = problem(300)
    solver = solvers.Adatron(dtype=dtype)
    ours = osvm.SVC(C=C, gamma=0.5, solver=solver).fit(X, y)
    theirs = svm.SVC(C=C, gamma=0.5, tol=1e-8).fit(X, y)
    K = osvm.kernels.RBF(gamma=0.5)(X)
    found = []
    for model in (ours, theirs):
        alpha = np.zeros(len(y))
        alpha[model.support_] = model.dual_coef_[0]
        assert abs(alpha.sum()) < 1e-6 * C * len(y)
        assert np.abs(alpha).max() <= C * (1 + 1e-12)
        found.append(dual_objective(K, y, alpha))
    # a violation of at most tol costs at most tol times the weight that can still move
    assert found[0] <= found[1] + 1e-3 * C * len(y)
    assert found[0] >= found[1] - 1e-6 * abs(found[1])


@pytest.mark.parametrize("class_weight", [{"a": 2.0}, "balanced"])
def test_weights_are_factors_of_C(class_weight):
    X, y = problem()
    weight = np.random.default_rng(1).uniform(0, 3, len(y))
    weight[:20] = 0
    options = {"gamma": 0.3, "tol": 1e-6, "class_weight": class_weight}
    theirs = svm.SVC(**options).fit(X, y, sample_weight=weight)
    ours = osvm.SVC(**options).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)
    numbers = (theirs.support_ + 20).tolist()  # LIBSVM counts without the rows of weight 0
    assert ours.support_.tolist() == numbers
    assert ours.class_weight_.tolist() == theirs.class_weight_.tolist()
    for zero, message in ((weight * 0, "zero"), ((y == "a") * 1.0, "same class")):
        with pytest.raises(ValueError, match=message):
            ours.fit(X, y, sample_weight=zero)
    assert ours.support_.tolist() == numbers


# ------------------------------------------------------------------ its shapes


PAIRS = [(0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_several_classes_are_one_against_one_as_in_libsvm(kernel, form):
    X, y = problem(300, classes=3)
    options = {"kernel": kernel, "C": 3.0, "tol": 1e-6, "class_weight": {"b": 2.0}}
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    theirs = svm.SVC(**options).fit(X, y, sample_weight=weight)
    ours = osvm.SVC(**options).fit(form(X), y, sample_weight=weight)
    for shape in ("ovr", "ovo"):
        ours.decision_function_shape = theirs.decision_function_shape = shape
        np.testing.assert_allclose(
            ours.decision_function(X), theirs.decision_function(X), atol=2e-4
        )
    assert ours.support_.tolist() == theirs.support_.tolist()
    assert ours.n_support_.tolist() == theirs.n_support_.tolist()
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
    assert ours.n_iter_.shape == theirs.n_iter_.shape
    ours.decision_function_shape = theirs.decision_function_shape = "ovr"
    grid = np.random.default_rng(1).normal(size=(2000, 4)) * 4
    for ties in (False, True):
        ours.break_ties = theirs.break_ties = ties
        assert np.mean(ours.predict(grid) == theirs.predict(grid)) > 0.999
    best = ours.classes_[ours.decision_function(grid).argmax(axis=1)]
    assert ours.predict(grid).tolist() == best.tolist()
    if kernel == "linear":
        coef = ours.coef_.toarray() if sp.issparse(ours.coef_) else ours.coef_
        np.testing.assert_allclose(coef, theirs.coef_, atol=1e-3)
    else:
        np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-2)


@pytest.mark.parametrize("solver", solvers.names())
def test_each_pair_is_a_machine_of_two_classes(solver):
    X, y = problem(classes=3)
    part = solvers.get(solver, **({} if solver == "lasvm" else {"shuffle": False}))
    model = osvm.SVC(solver=part, gamma=0.3, decision_function_shape="ovo").fit(X, y)
    scores = model.decision_function(X)
    assert scores.shape == (160, 3)
    votes = np.zeros((160, 3))
    for k, (p, q) in enumerate(PAIRS):
        rows = np.concatenate([np.flatnonzero(y == label) for label in model.classes_[[p, q]]])
        two = osvm.SVC(solver=part, gamma=0.3).fit(X[rows], y[rows] == model.classes_[p])
        # lasvm shuffles, and "adatron" is exact to tol
        atol = 0.02 if solver == "lasvm" else 1e-9
        np.testing.assert_allclose(scores[:, k], two.decision_function(X), atol=atol)
        votes[np.arange(160), np.where(scores[:, k] > 0, p, q)] += 1
    assert model.predict(X).tolist() == model.classes_[votes.argmax(axis=1)].tolist()
    with pytest.raises(ValueError, match="break_ties"):
        model.set_params(break_ties=True).predict(X)


def test_coupled_probabilities_minimize_their_objective():
    rng = np.random.default_rng(0)
    wins = rng.uniform(0.05, 0.95, size=(20, 6))
    found = couple(wins, 4)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)

    def cost(P, r):
        pairs = itertools.combinations(range(4), 2)
        return sum(((1 - r[k]) * P[p] - r[k] * P[q]) ** 2 for k, (p, q) in enumerate(pairs))

    for P, r in zip(found, wins):
        for change in rng.normal(size=(20, 4)) * 1e-3:
            other = np.abs(P + change - change.mean())
            assert cost(P, r) <= cost(other / other.sum(), r) + 1e-15
    exact = rng.dirichlet(np.ones(4), size=5)
    pairs = list(itertools.combinations(range(4), 2))
    wins = np.array([[P[p] / (P[p] + P[q]) for p, q in pairs] for P in exact])
    np.testing.assert_allclose(couple(wins, 4), exact, atol=1e-6)


@pytest.mark.parametrize("solver", solvers.names())
def test_several_classes_one_against_the_rest(solver):
    X, y = problem(classes=3)
    model = osvm.SVC(solver=solver, gamma=0.3, multi_class="ovr").fit(X, y)
    n = model.n_support_.sum()
    assert model.n_support_.shape == model.intercept_.shape == model.n_iter_.shape == (3,)
    assert model.dual_coef_.shape == (3, n)
    assert model.support_vectors_.shape == (n, 4)
    assert model.decision_function(X).shape == (160, 3)
    assert model.shape_fit_ == (160, 4)
    grouped = y[model.support_]
    assert grouped.tolist() == np.repeat(["a", "b", "c"], model.n_support_).tolist()
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    best = model.classes_[model.decision_function(X).argmax(axis=1)]
    assert model.predict(X).tolist() == best.tolist()
    assert model.score(X, y) > (0.4 if solver == "norma" else 0.55)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_weights_of_a_linear_kernel(form):
    X, y = problem(classes=3)
    model = osvm.SVC(kernel="linear", multi_class="ovr").fit(form(X), y)
    coef = model.coef_.toarray() if sp.issparse(model.coef_) else model.coef_
    assert coef.shape == (3, 4)
    expected = X @ coef.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-9)
    with pytest.raises(AttributeError, match="linear kernel"):
        _ = osvm.SVC().fit(X, y).coef_


def test_a_precomputed_kernel():
    X, y = problem()
    kernel = osvm.kernels.RBF(gamma=0.3)
    plain = osvm.SVC(gamma=0.3, tol=1e-6).fit(X, y)
    given = osvm.SVC(kernel="precomputed", tol=1e-6).fit(kernel(X), y)
    np.testing.assert_allclose(
        given.decision_function(kernel(X[:9], X)), plain.decision_function(X[:9]), atol=1e-8
    )
    assert given.support_.tolist() == plain.support_.tolist()
    with pytest.raises(ValueError, match="square"):
        given.fit(X, y)


def test_no_limit_and_no_luck():
    X, y = problem(400)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = osvm.SVC(C=100.0).fit(X, y)
    assert model.fit_status_ == 0
    with pytest.warns(osvm.ConvergenceWarning, match="max_iter"):
        model = osvm.SVC(C=1e4, max_iter=1, tol=1e-6).fit(X, y)
    assert model.fit_status_ == 1
    assert model.n_iter_[0] <= 2


@pytest.mark.parametrize("C", [np.inf, 1e300])
def test_a_hard_margin(C):
    X = np.array([[0.0], [1.0], [3.0], [4.0]])
    model = osvm.SVC(C=C, kernel="linear").fit(X, [0, 0, 1, 1])
    np.testing.assert_allclose(model.coef_[0] * [1.0, 3.0] + model.intercept_, [-1, 1], atol=1e-3)


def test_a_repeated_fit_is_the_same():
    X, y = problem(classes=3)
    one, other = (osvm.SVC(probability=True).fit(X, y) for _ in range(2))
    assert one.dual_coef_.tobytes() == other.dual_coef_.tobytes()
    assert one.predict_proba(X).tobytes() == other.predict_proba(X).tobytes()


# ----------------------------------------------------------------- probabilities


def test_the_sigmoid_is_the_likeliest():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=400) * 3
    positive = rng.random(400) < 1 / (1 + np.exp(1.5 * -scores + 0.4))
    found = fit_sigmoid(scores, positive)
    high, low = (positive.sum() + 1) / (positive.sum() + 2), 1 / ((~positive).sum() + 2)
    target = np.where(positive, high, low)

    def loss(point):
        p = apply_sigmoid(scores, np.asarray(point))
        return -(target * np.log(p) + (1 - target) * np.log(1 - p)).sum()

    for change in ([1e-3, 0], [-1e-3, 0], [0, 1e-3], [0, -1e-3]):
        assert loss(found) <= loss(found + change)
    assert found[0] == pytest.approx(-1.5, abs=0.3)
    assert apply_sigmoid(np.array([-1e9, 0.0, 1e9]), np.array([-1.0, 0.0])).tolist() == [0, 0.5, 1]


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities(classes):
    X, y = problem(600, classes)
    model = osvm.SVC(probability=True, random_state=0).fit(X[:300], y[:300])
    p = model.predict_proba(X)
    assert p.shape == (600, classes)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), p)
    right = np.mean(p[300:].max(axis=1))
    agreed = model.classes_[p[300:].argmax(axis=1)] == y[300:]
    assert right == pytest.approx(agreed.mean(), abs=0.1)  # calibrated on rows held out
    plain = osvm.SVC()
    assert not hasattr(plain, "predict_proba")
    assert not hasattr(plain, "predict_log_proba")
    with pytest.raises(ValueError, match="fit it again"):
        plain.fit(X, y).set_params(probability=True).predict_proba(X)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("classes", [2, 3])
def test_class_weights_do_not_shift_probabilities(classes, multi_class):
    """A rare class of "balanced" weights was given a third of all probability."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(600) < 0.9, 0, rng.integers(1, classes, 600))
    X = rng.normal(size=(600, 4)) + y[:, None]
    options = {"probability": True, "class_weight": "balanced", "random_state": 0}
    ours = osvm.SVC(multi_class=multi_class, **options).fit(X, y)
    shares = ours.predict_proba(X).mean(axis=0)
    np.testing.assert_allclose(shares, np.bincount(y) / 600, atol=0.04)
    double = osvm.SVC(multi_class=multi_class, **options).fit(
        X, y, sample_weight=np.full(600, 2.0)
    )
    assert double.predict_proba(X).mean(axis=0) == pytest.approx(shares, abs=0.02)


# -------------------------------------------------------------------- what fails


def test_a_model_that_fails_to_fit_is_as_before():
    X, y = problem()
    model = osvm.SVC().fit(X, y)
    before = model.decision_function(X).tobytes()
    for bad_X, bad_y in ((X, np.full(len(y), "a")), (X * np.nan, y), (X[:-1], y)):
        with pytest.raises(ValueError, match=r"class|NaN|rows|samples|length"):
            model.fit(bad_X, bad_y)
        assert model.decision_function(X).tobytes() == before
    with pytest.raises(ValueError, match="decision_function_shape"):
        model.set_params(decision_function_shape="ovo", multi_class="ovr").fit(X, y)
    with pytest.raises(ValueError, match="multi_class"):
        model.set_params(multi_class="all").fit(X, y)


def test_hidden_names():
    assert not {"Task", "Fit", "make_columns"} & set(dir(solvers))
    assert not hasattr(osvm.kernel, "SOLVERS")
