"""A kernel and a solver from outside the package, by the words of doc/extending."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import reference_kernel as ref
import scipy.sparse as sp

import osvm
from osvm import solvers
from osvm.kernel.buffer.state import EVICTIONS


def cosh_of_dots(X, Z):
    """A kernel that osvm does not have."""
    dots = X @ Z.T
    return np.cosh(dots.toarray() if sp.issparse(dots) else dots)


def problem(n=120, classes=2, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3)) / 2
    return X, (np.hypot(X[:, 0], X[:, 1]) * 3).astype(int) % classes


def gram_of(model, X, vectors):
    return cosh_of_dots(X, vectors) @ model.dual_coef_.T + model.intercept_


# ------------------------------------------------------------------ a kernel


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(
    "solver", [None, *(n for n in solvers.names() if n != "voted_perceptron")]
)
def test_a_kernel_with_every_solver(solver, form):
    X, y = problem(n=40)
    model = osvm.KernelClassifier(kernel=cosh_of_dots, random_state=0)
    if solver is not None:
        model = osvm.SVC(kernel=cosh_of_dots, solver=solver)
    model.fit(form(X), y)
    scores = model.decision_function(form(X))
    expected = gram_of(model, form(X), model.support_vectors_)
    np.testing.assert_allclose(scores, expected[:, 0], rtol=1e-6, atol=1e-9)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(form(X)), scores)
    with pytest.raises(TypeError, match="cannot be saved"):
        model.save("never-written.osvm")


def test_a_kernel_with_the_other_estimators():
    X, _ = problem()
    regressor = osvm.KernelRegressor(kernel=cosh_of_dots, random_state=0).fit(X, X[:, 0])
    expected = gram_of(regressor, X, regressor.support_vectors_)[:, 0]
    np.testing.assert_allclose(regressor.predict(X), expected, rtol=1e-9)
    novelty = osvm.KernelNovelty(kernel=cosh_of_dots, random_state=0).fit(X)
    expected = cosh_of_dots(X, novelty.support_vectors_) @ novelty.dual_coef_[0]
    np.testing.assert_allclose(novelty.score_samples(X), expected, rtol=1e-9)


# ------------------------------------------------------------------ a solver


@dataclass(frozen=True)
class ClassMeans(solvers.CachedSolver):
    """The nearer of two class means in the kernel's space, without the offset."""

    name = "class_means"
    takes = frozenset({"C"})

    def solve(self, task):
        columns = task.columns(self.dtype)
        positive = task.Y > 0
        share = np.where(
            positive,
            task.C / positive.sum(axis=1, keepdims=True),
            -task.C / (~positive).sum(axis=1, keepdims=True),
        )
        outputs = share @ columns.take(range(task.n))
        return task.result(share, np.zeros(len(task.Y)), outputs=outputs)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "cosine", cosh_of_dots])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_solver_with_the_classifier(classes, kernel):
    X, y = problem(classes=classes)
    solver = ClassMeans(dtype="float64")
    model = osvm.SVC(solver=solver, C=2.0, kernel=kernel, gamma=1.0, multi_class="ovr").fit(X, y)
    K = model._machine.kernel(X)
    targets = [1] if classes == 2 else range(classes)
    expected = [2 * (K[:, y == c].mean(axis=1) - K[:, y != c].mean(axis=1)) for c in targets]
    np.testing.assert_allclose(model.decision_function(X).T.reshape(-1, len(X)), expected)
    np.testing.assert_allclose(model.outputs_, expected, atol=1e-12)
    assert model.column_stats_ == {}
    assert model.n_support_.tolist() == np.bincount(y).tolist()
    assert model.n_iter_.tolist() == [1] * len(targets)
    assert model.fit_status_ == 0
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_options_of_a_solver():
    X, y = problem()
    with pytest.raises(ValueError, match="class_means"):
        osvm.SVC(solver=ClassMeans(), tol=0.1).fit(X, y)
    with pytest.raises(ValueError, match="dtype must be"):
        ClassMeans(dtype="float16")


# ----------------------------------------------------------- an eviction rule


def test_every_eviction_rule_has_a_reference():
    """Rules cannot come from outside; one of the package has an entry in VICTIMS."""
    assert set(EVICTIONS) == set(ref.VICTIMS)


@pytest.mark.parametrize("eviction", EVICTIONS)
def test_every_eviction_rule_with_every_estimator(eviction):
    X, y = problem()
    for model in (
        osvm.KernelClassifier(budget=9, eviction=eviction, gamma=1.0),
        osvm.KernelRegressor(budget=9, eviction=eviction, gamma=1.0),
        osvm.KernelNovelty(budget=9, eviction=eviction, gamma=1.0),
    ):
        assert model.fit(X, y).n_support_ == 9
