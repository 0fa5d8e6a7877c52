"""What `fit` knows that a stream does not: its rows, and which epoch is the last."""

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm.kernel.buffer.state import EVICTIONS

SCHEDULES = {"smd": {}, "bottou": {"eta0": 1.0}, "inverse_time": {"reg": 0.01}}


def make_data(n=150, outputs=2):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 4))
    y = rng.integers(0, outputs, n)  # noise: every row is a support vector again and again
    return X, y


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("outputs", [2, 3])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_row_has_one_slot(schedule, outputs, sparse):
    """The function is that of a stream, which keeps a copy for each visit."""
    X, y = make_data(outputs=outputs)
    rows = sp.csr_matrix(X) if sparse else X
    options = {"gamma": 0.3, "budget": None, "schedule": schedule, **SCHEDULES[schedule]}
    options |= {"average": False, "fit_intercept": False}  # a stream has no rows to set it by
    model = osvm.KernelClassifier(shuffle=False, epochs=4, **options).fit(rows, y)
    stream = osvm.KernelClassifier(**options)
    for _ in range(4):
        stream.partial_fit(rows, y, classes=np.unique(y))
    assert model.n_support_ <= len(X) < stream.n_support_
    assert len(set(model.support_.tolist())) == model.n_support_
    kept = model.support_vectors_.toarray() if sparse else model.support_vectors_
    np.testing.assert_array_equal(kept, X[model.support_])
    np.testing.assert_allclose(
        model.decision_function(rows), stream.decision_function(rows), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("eviction", EVICTIONS)
@pytest.mark.parametrize("schedule", ["smd", "bottou"])
def test_slots_and_rows_agree_with_a_budget(eviction, schedule):
    """Each row number stands once, and beside the row that it names."""
    X, y = make_data(300)
    model = osvm.KernelClassifier(
        gamma=0.3, budget=60, eviction=eviction, schedule=schedule, random_state=0
    ).fit(X, y)
    known = model.support_ >= 0
    assert eviction == "merge" or known.all()
    assert len(set(model.support_[known].tolist())) == known.sum()
    np.testing.assert_array_equal(model.support_vectors_[known], X[model.support_[known]])
    state = model._machine.state
    if state.trace:  # sums that were carried along are those of the rows
        sq, pi = state.sq_norm, state.pi
        state.refresh()
        assert state.sq_norm == pytest.approx(sq, rel=1e-9)
        assert state.pi == pytest.approx(pi, rel=1e-7, abs=1e-9)


def test_a_precomputed_kernel_goes_on_with_its_rows():
    X, y = make_data(80)
    gram = X @ X.T
    options = {"kernel": "precomputed", "budget": None, "warm_start": True, "shuffle": False}
    options["average"] = False
    twice = osvm.KernelClassifier(epochs=1, **options).fit(gram, y).fit(gram, y)
    once = osvm.KernelClassifier(epochs=2, **options).fit(gram, y)
    assert twice.n_support_ <= 80
    np.testing.assert_allclose(twice.decision_function(gram), once.decision_function(gram))


def average_over_steps(model, X, y, epochs=1):
    """Scores of X by the mean of f over the steps, the k-th of weight k (k + 1) (k + 2)."""
    total, weights, k = 0.0, 0.0, 0
    for _ in range(epochs):
        for i in range(len(X)):
            model.partial_fit(X[i : i + 1], y[i : i + 1], classes=np.unique(y))
            k += 1
            weight = k * (k + 1.0) * (k + 2.0)
            total, weights = total + weight * model.decision_function(X), weights + weight
    return total / weights


@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("outputs", [2, 3])
@pytest.mark.parametrize("schedule", ["bottou", "inverse_time"])
def test_average_is_the_mean_over_the_steps(epochs, outputs, schedule):
    X, y = make_data(90, outputs)
    options = {
        "gamma": 0.3, "budget": None, "schedule": schedule, "reg": 1e-3, "fit_intercept": True,
    }  # fmt: skip
    model = osvm.KernelClassifier(average=True, shuffle=False, epochs=epochs, **options)
    model.fit(X, y)
    stream = osvm.KernelClassifier(**options, average=False)
    mean = average_over_steps(stream, X, y, epochs)
    np.testing.assert_allclose(model.decision_function(X), mean, atol=1e-10)


@pytest.mark.parametrize("outputs", [2, 3])
@pytest.mark.parametrize("eviction", ["fifo", "coefficient"])
def test_a_stream_averages_beside_learning(outputs, eviction):
    """Learning is the same with and without; what leaves the buffer leaves the mean too."""
    X, y = make_data(90, outputs)
    options = {"gamma": 0.3, "reg": 1e-3, "fit_intercept": True, "eviction": eviction}
    mean = average_over_steps(osvm.KernelClassifier(budget=None, average=False, **options), X, y)
    model = osvm.KernelClassifier(budget=None, **options)
    model.partial_fit(X[:40], y[:40], classes=np.unique(y)).partial_fit(X[40:], y[40:])
    np.testing.assert_allclose(model.decision_function(X), mean, atol=1e-10)
    plain = osvm.KernelClassifier(budget=20, average=False, **options).partial_fit(X, y)
    model = osvm.KernelClassifier(budget=20, **options).partial_fit(X, y)
    np.testing.assert_array_equal(model.support_, plain.support_)
    np.testing.assert_allclose(
        model._machine.state.alpha(), plain._machine.state.alpha(), rtol=1e-12
    )
    kernel = np.exp(-0.3 * ((X[:, None] - model.support_vectors_) ** 2).sum(-1))
    scores = kernel @ model.dual_coef_.T + model.intercept_
    np.testing.assert_allclose(
        model.decision_function(X), scores if outputs == 3 else scores[:, 0], atol=1e-10
    )
    model.set_params(average=False)  # goes on from the mean
    before = model.decision_function(X)
    model.partial_fit(X[:1], y[:1], sample_weight=[0.0])  # a step that shrinks f by reg at most
    assert not model._machine.state.average
    np.testing.assert_allclose(model.decision_function(X), before, rtol=2e-3, atol=2e-3)


def test_a_merged_buffer_averages_like_one_without_a_budget():
    """Rows that come again and again are merged without loss, and so is their mean."""
    rng = np.random.default_rng(0)
    corners = 3.0 * rng.normal(size=(12, 3))
    X, y = np.tile(corners, (20, 1)), np.tile(np.arange(12) % 2, 20)
    options = {"gamma": 0.3, "reg": 1e-3, "loss": "logistic"}
    large = osvm.KernelClassifier(budget=None, **options).partial_fit(X, y)
    small = osvm.KernelClassifier(budget=40, eviction="merge", **options).partial_fit(X, y)
    assert small.n_support_ == 40
    np.testing.assert_allclose(
        small.decision_function(corners), large.decision_function(corners), atol=1e-8
    )


def test_a_schedule_for_drift_does_not_average_a_stream():
    X, y = make_data(60)
    for schedule in ("constant", "inverse_sqrt", "smd"):
        model = osvm.KernelClassifier(schedule=schedule, gamma=0.3).partial_fit(X, y)
        assert not model._machine.state.average


@pytest.mark.parametrize("nu", [0.05, 0.1, 0.4])
@pytest.mark.parametrize("schedule", ["smd", "bottou", "constant"])
def test_nu_is_the_share_flagged(nu, schedule):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    model = osvm.KernelNovelty(nu=nu, schedule=schedule, budget=50, random_state=0).fit(X)
    assert np.mean(model.predict(X) == -1) == pytest.approx(nu, abs=1 / 400)
    weight = np.where(X[:, 0] > 0, 3.0, 1.0)
    model.fit(X, sample_weight=weight)
    flagged = weight[model.predict(X) == -1].sum() / weight.sum()
    assert flagged == pytest.approx(nu, abs=3 / weight.sum())


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "huber", "squared"])
@pytest.mark.parametrize("schedule", ["smd", "bottou"])
def test_the_unit_of_the_targets_does_not_matter(loss, schedule):
    """Shifted and scaled targets give the shifted and scaled model (with a scaled width)."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(600, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    width = {"epsilon_insensitive": "epsilon", "huber": "delta", "squared": None}[loss]
    results = []
    for unit in (1.0, 64.0):
        part = osvm.losses.get(loss, **({width: 0.25 * unit} if width else {}))
        model = osvm.KernelRegressor(part, gamma=1.0, schedule=schedule, random_state=0)
        if schedule == "smd":
            model.set_params(schedule__mu=0.0)  # the meta step has a unit of its own
        results.append((model.fit(X, 1024.0 + unit * y).predict(X) - 1024.0) / unit)
        assert 1 - np.mean((results[-1] - y) ** 2) / y.var() > 0.5
    np.testing.assert_allclose(results[1], results[0], atol=1e-6)


def test_a_stream_goes_on_in_the_unit_of_fit(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(300, 2))
    y = 500 + 80 * np.sin(2 * X[:, 0])
    model = osvm.KernelRegressor(gamma=1.0, budget=30, eviction="merge", schedule="bottou")
    model.fit(X, y)
    model.save(tmp_path / "model.osvm")
    again = osvm.load(tmp_path / "model.osvm")
    for one in (model, again):
        one.partial_fit(X[:50], y[:50])
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    assert np.abs(model.predict(X) - y).mean() < 40


def test_meta_descent_does_not_average():
    X, y = make_data(30)
    with pytest.raises(ValueError, match="does not average"):
        osvm.KernelClassifier(schedule="smd", average=True).fit(X, y)
