"""Kernel novelty detection: the share of rows that a stream flags."""

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from tests.reference_kernel import rbf


def make_blobs(n, seed=0, d=5):
    rng = np.random.default_rng(seed)
    centers = 3.0 * np.random.default_rng(99).normal(size=(6, d))
    return centers[rng.integers(0, 6, n)] + rng.normal(size=(n, d))


def make_text(n, seed=0):
    rng = np.random.default_rng(seed)
    share = 12.0 / (np.arange(200) + 5.0)
    X = (rng.random((n, 200)) < share / share.sum() * 12.0).astype(np.float64)
    return sp.csr_matrix(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0))


def learn(model, X, size, weight=None):
    for i in range(0, X.shape[0], size):
        model.partial_fit(
            X[i : i + size], sample_weight=None if weight is None else weight[i : i + size]
        )
    return model


class Quantile:
    """Running quantile of scores, in units of their mean size; each score is rescaled anew."""

    def __init__(self, nu):
        self.nu, self.count, self.weight = nu, 0, 0.0
        self.level = self.shortfall = self.spread = 0.0
        self.size = self.mass = 1.0  # everything is kept in units of both

    def judge(self, score, weight, mass):
        if weight == 0 or (self.count == 0 and score == 0):
            return
        self.count += 1
        self.weight += weight
        scale = self.size * mass
        if self.count == 1:
            self.size, scale, self.level = abs(score) / mass, abs(score), np.sign(score)
        relative = weight * self.count / self.weight
        gap = score / scale - self.level
        gap = 0.0 if abs(gap) <= 1e-6 * abs(self.level) else gap
        rate = min(0.5, relative / (self.nu * self.count + 2))
        self.spread += 2 / (self.count + 2) * (max(gap, 0.0) - self.spread)
        if gap < 0:
            self.shortfall += rate * (-gap - self.shortfall)
        step = max(self.shortfall, self.spread * np.sqrt(rate))
        self.level += 2 * rate * step * (self.nu - (gap < 0))
        rate = min(1.0, 4 * relative / (self.count + 3))
        self.size += rate * (abs(score) / mass - self.size)

    def margin(self, mass):
        return (self.level - 1e-6 * abs(self.level)) * self.size * mass


def reference_margin(X, nu, eta, gamma, weight):
    """Margin and coefficients of a stream that nothing is evicted from, by Gram matrix."""
    K, n = rbf(gamma)(X, X), len(X)
    alpha, mean, epsilon, quantile = np.zeros(n), np.zeros(n), 1.0, Quantile(nu)
    for t in range(n):
        violates = K[t] @ alpha < epsilon
        quantile.judge(K[t] @ mean, weight[t], mean.sum())
        alpha *= 1 - eta
        alpha[t] = eta * weight[t] * violates
        epsilon *= np.exp(eta * epsilon * weight[t] * (nu - violates))
        mean += 4 / (t + 4) * (alpha - mean)
    return quantile.margin(mean.sum()), mean


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("size", [1, 7, 400])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_margin_of_a_stream_is_that_of_the_reference(kind, size, weighted):
    X = make_blobs(400)
    weight = np.random.default_rng(1).integers(0, 4, 400) * 0.5 if weighted else np.ones(400)
    model = osvm.KernelNovelty(0.1, gamma=0.1, budget=None)
    learn(model, kind(X), size, weight if weighted else None)
    margin, mean = reference_margin(X, 0.1, 0.1, 0.1, weight)
    assert model.offset_ == pytest.approx(margin, rel=1e-10)
    np.testing.assert_allclose(model.score_samples(X), rbf(0.1)(X, X) @ mean, rtol=1e-10)


@pytest.mark.parametrize("make", [make_blobs, make_text])
@pytest.mark.parametrize("options", [{}, {"budget": 60}, {"schedule": "bottou"}, {"budget": None}])
@pytest.mark.parametrize("nu", [0.05, 0.1, 0.3])
def test_a_stream_flags_the_share_nu_of_later_rows(make, options, nu):
    """It flagged from none to 80 % of them."""
    model = learn(osvm.KernelNovelty(nu, **options), make(4000), 1000)
    flagged = np.mean(model.predict(make(4000, seed=1)) == -1)
    assert nu / 1.5 <= flagged <= nu * 1.5


@pytest.mark.parametrize("eviction", ["merge", "project", "fifo", "coefficient", "change"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_margin_does_not_depend_on_the_blocks(eviction, dtype):
    X = make_blobs(600).astype(dtype)
    models = [
        learn(osvm.KernelNovelty(0.1, gamma=0.1, budget=30, eviction=eviction), X, size)
        for size in (1, 13, 600)
    ]
    rel = 1e-9 if dtype == np.float64 else 1e-4
    for model in models[1:]:
        assert model.offset_ == pytest.approx(models[0].offset_, rel=rel)


def test_a_stream_goes_on_from_the_margin_of_fit():
    """It forgot the fit within ten rows."""
    X, later = make_blobs(3000), make_blobs(3000, seed=1)
    model = osvm.KernelNovelty(0.1, random_state=0).fit(X)
    scores = model.score_samples(later)
    model.partial_fit(make_blobs(20, seed=2))
    assert np.corrcoef(scores, model.score_samples(later))[0, 1] > 0.99
    assert 0.08 < np.mean(model.predict(later) == -1) < 0.12
    learn(model, make_blobs(2000, seed=3), 100)
    assert 0.08 < np.mean(model.predict(later) == -1) < 0.12


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_are_all_alike_are_not_novel(dtype):
    X = np.tile(np.array([[0.3, -1.7, 2.2]], dtype), (300, 1))
    model = learn(osvm.KernelNovelty(0.1, gamma=0.7), X, 50)
    assert (model.predict(X) == 1).all()
    assert model.predict(X[:1] + 5.0).tolist() == [-1]


def test_the_unit_of_the_weights_does_not_matter_to_the_share():
    X, later = make_blobs(3000), make_blobs(3000, seed=1)
    for weight in (1e-3, 1e3):
        model = osvm.KernelNovelty(0.1, schedule="bottou", eta0=0.01)
        learn(model, X, 500, np.full(3000, weight))
        assert 0.07 < np.mean(model.predict(later) == -1) < 0.15


def test_history_tells_what_the_margin_said():
    X = make_blobs(3000)
    model = learn(osvm.KernelNovelty(0.1, record=True), X, 500)
    novel = model.history_["prediction"] == -1
    assert 0.08 < novel[500:].mean() < 0.12
    assert model.history_["error"][-1] == pytest.approx(novel.mean())


def test_a_file_and_a_failed_batch_keep_the_margin(tmp_path):
    X = make_blobs(900)
    model = learn(osvm.KernelNovelty(0.1, budget=40), X[:500], 100)
    model.save(tmp_path / "model.osvm")
    other = osvm.load(tmp_path / "model.osvm")
    assert other.offset_ == model.offset_
    heavy = np.r_[np.ones(300), np.full(100, 1e50)]
    with pytest.raises(ValueError, match="learning diverged"):
        model.partial_fit(X[500:], sample_weight=heavy)
    for each in (model, other):
        each.partial_fit(X[500:])
    assert other.offset_ == model.offset_
    assert np.array_equal(other.score_samples(X), model.score_samples(X))


def test_merged_streams_flag_about_the_share():
    models = [learn(osvm.KernelNovelty(0.1, gamma=0.1), make_blobs(2000, s), 500) for s in (0, 1)]
    merged = osvm.merge(models)
    assert 0.05 < np.mean(merged.predict(make_blobs(3000, 5)) == -1) < 0.2
    merged.partial_fit(make_blobs(1000, 6))
    assert 0.06 < np.mean(merged.predict(make_blobs(3000, 5)) == -1) < 0.16
