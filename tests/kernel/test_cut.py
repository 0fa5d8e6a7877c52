"""The offset of a stream of two classes."""

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from tests.reference_kernel import Offset, rbf


def make_rare(n, seed=0, share=0.1, apart=1.0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    X = rng.normal(size=(n, 5))
    X[:, :2] += apart * y[:, None]
    return X, y


def learn(model, X, y, size, weight=None):
    for i in range(0, len(y), size):
        part = slice(i, i + size)
        options = {"classes": [0, 1]} if i == 0 else {}
        weights = None if weight is None else weight[part]
        model.partial_fit(X[part], y[part], sample_weight=weights, **options)
    return model


def reference_offset(X, y, gamma, reg, weight, average):
    """Offset and coefficients of a stream that nothing is evicted from, by Gram matrix."""
    K, n = rbf(gamma)(X, X), len(X)
    alpha, mean, offset = np.zeros(n), np.zeros(n), Offset()
    for t in range(n):
        sign, eta = 2 * y[t] - 1, 1 / (reg * (1 / reg + t))
        violates = sign * (K[t] @ alpha) < 1
        offset.judge(K[t] @ (mean if average else alpha), y[t] == 1, weight[t])
        alpha *= 1 - eta * reg
        alpha[t] = eta * weight[t] * sign * violates
        mean += 4 / (t + 4) * (alpha - mean)
    return offset.value(), mean if average else alpha


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("size", [1, 7, 500])
@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("share", [0.1, 0.9])
def test_the_offset_of_a_stream_is_that_of_the_reference(kind, size, average, share):
    X, y = make_rare(500, share=share)
    weight = np.random.default_rng(1).integers(0, 4, 500) * 0.5
    model = osvm.KernelClassifier(gamma=0.1, reg=1e-3, budget=None, average=average)
    learn(model, kind(X), y, size, weight)
    offset, coefficients = reference_offset(X, y, 0.1, 1e-3, weight, average)
    assert offset != 0.0
    assert model.intercept_[0] == pytest.approx(offset, rel=1e-10)
    scores = rbf(0.1)(X, X) @ coefficients + offset
    np.testing.assert_allclose(model.decision_function(X), scores, rtol=1e-9, atol=1e-10)


def test_the_majority_may_change():
    """The quantile goes over to the other tail, as in the reference."""
    X, y = make_rare(400, share=0.7)
    X_more, y_more = make_rare(600, seed=1, share=0.1)
    X, y = np.vstack([X, X_more]), np.r_[y, y_more]
    model = learn(osvm.KernelClassifier(gamma=0.1, reg=1e-3, budget=None), X, y, 100)
    offset, _ = reference_offset(X, y, 0.1, 1e-3, np.ones(1000), True)
    assert model.intercept_[0] == pytest.approx(offset, rel=1e-10)


def test_a_rare_class_gets_answers_in_a_stream():
    """Of 602 rows, 343 were answered so."""
    X, y = make_rare(6000, apart=1.5)
    X_test, y_test = make_rare(6000, seed=1, apart=1.5)
    model = learn(osvm.KernelClassifier(), X, y, 1000)
    without = learn(osvm.KernelClassifier(fit_intercept=False), X, y, 1000)
    found, before = (m.predict(X_test) for m in (model, without))
    assert found.sum() > 1.3 * before.sum()
    assert found[y_test == 1].mean() > before[y_test == 1].mean() + 0.05
    n_errors = [np.sum(p != y_test) for p in (found, before)]
    assert n_errors[0] <= n_errors[1] + 2.0 * np.sqrt(n_errors[1])


def test_no_offset_of_few_rows_of_one_class_or_after_fit():
    X, y = make_rare(400)
    assert learn(osvm.KernelClassifier(), X[:59], y[:59], 10).intercept_[0] == 0.0
    assert learn(osvm.KernelClassifier(), X, np.zeros(400, int), 50).intercept_[0] == 0.0
    model = osvm.KernelClassifier(random_state=0).fit(X, y)
    offset = model.intercept_[0]
    model.partial_fit(X[:50], y[:50])
    assert model.intercept_[0] == offset


def test_classes_as_large_and_as_hard_need_none():
    rng = np.random.default_rng(0)
    y = np.arange(2000) % 2
    X = rng.normal(size=(2000, 3)) + 0.7 * (2 * y - 1)[:, None]
    model = learn(osvm.KernelClassifier(gamma=0.2), X, y, 100)
    assert abs(np.mean(model.predict(X)) - 0.5) < 0.05


def test_a_third_class_keeps_the_scores():
    X, y = make_rare(400)
    model = osvm.KernelClassifier().partial_fit(X, y)
    before = model.decision_function(X)
    model.partial_fit(X[:1], [2])
    assert model.decision_function(X).shape == (400, 3)
    assert np.corrcoef(before, model.decision_function(X)[:, 1])[0, 1] > 0.99


def test_a_resumed_and_a_merged_stream_go_on(tmp_path):
    X, y = make_rare(900)
    model = learn(osvm.KernelClassifier(budget=40, gamma=0.1), X[:500], y[:500], 100)
    model.save(tmp_path / "model.osvm")
    other = osvm.load(tmp_path / "model.osvm")
    merged = osvm.merge([model, learn(osvm.KernelClassifier(budget=40, gamma=0.1), X, y, 300)])
    for each in (model, other, merged):
        each.partial_fit(X[500:], y[500:])
    assert np.array_equal(other.decision_function(X), model.decision_function(X))
    assert np.isfinite(merged.decision_function(X)).all()
    assert merged._machine.state.running[6] == 500 + 900 + 400


@pytest.mark.parametrize("seed", range(4))
def test_an_offset_is_not_beyond_all_scores(seed):
    """Scores that are nothing beside a later one made it 1e90, and all answers one class."""
    rng = np.random.default_rng(seed)
    n, d = 200, 20
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7) * 10.0 ** rng.integers(-3, 3, d)
    y = np.sort((X @ rng.normal(size=d) > 0).astype(int))
    model = osvm.KernelClassifier(gamma=0.1, random_state=0).partial_fit(X, y, classes=[0, 1])
    largest = np.abs(model.decision_function(X) - model.intercept_).max()
    assert abs(float(model.intercept_[0])) <= largest
    novelty = osvm.KernelNovelty(gamma=0.1).partial_fit(X)
    assert abs(novelty.offset_) <= np.abs(novelty.score_samples(X)).max()
