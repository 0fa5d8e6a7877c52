"""Kernel regression: what a stream takes from its first targets."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm.exceptions import ConvergenceWarning
from osvm.kernel.buffer import choice
from tests.reference_kernel import epsilon_insensitive, huber, rbf

LOSSES = {
    "epsilon_insensitive": (epsilon_insensitive(0.1), 1.0, False),
    "huber": (huber(osvm.losses.Huber().delta), osvm.losses.Huber().delta, True),
}


def make_wave(n, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1]


def learn(model, X, y, size):
    for i in range(0, len(y), size):
        model.partial_fit(X[i : i + size], y[i : i + size])
    return model


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("size", [1, 7, 600])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "huber", "squared"])
def test_a_stream_of_targets_far_from_zero_is_that_of_targets_near_it(kind, size, loss):
    """Whatever its batches: f is the same, and the offset is further by as much."""
    X, y = make_wave(600)
    X, near, far = kind(X), y - y[0], y + 5000.0
    options = {"loss": loss, "gamma": 0.3, "eta0": 0.1, "random_state": 0}
    models = []
    for targets in (near, far):
        models.append(learn(osvm.KernelRegressor(**options), X, targets, size))
    one, other = models
    np.testing.assert_allclose(other.predict(X) - far[0], one.predict(X), rtol=0.0, atol=1e-6)
    assert other.score(X, far) > 0.6


def test_without_an_offset_a_stream_has_none():
    X, y = make_wave(50)
    model = osvm.KernelRegressor(fit_intercept=False).partial_fit(X, y + 9.0)
    assert model.intercept_[0] == 0.0


def test_targets_of_another_spread_are_named_where_steps_are_taken_as_they_are():
    X, y = make_wave(100)
    with pytest.warns(ConvergenceWarning, match="targets have a standard deviation of"):
        osvm.KernelRegressor(schedule="smd").partial_fit(X, 1000.0 * y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        osvm.KernelRegressor(schedule="smd").partial_fit(X, y + 1000.0)
        osvm.KernelRegressor(loss="squared", eta0=0.1).partial_fit(X, 10.0 * y)  # it has the unit
        osvm.KernelRegressor(schedule="smd").partial_fit(
            X[:19], 1000.0 * y[:19]
        )  # too few to tell
        osvm.KernelRegressor().partial_fit(X, 1000.0 * y)  # it finds the unit
        osvm.KernelRegressor().fit(X, 1000.0 * y)


class Stream:
    """Steps of 1/t in units of the spread of the targets so far, from the Gram matrix."""

    def __init__(self, X, loss, slope, curved, gamma, offset, reg=1e-4, eta0=0.1):
        self.K, self.loss, self.slope, self.curved = rbf(gamma)(X, X), loss, slope, curved
        self.reg, self.t0, self.offset = reg, 1.0 / (reg * eta0) - 1.0, offset

    def learn(self, y, weight):
        n = len(y)
        alpha, mean = np.zeros(n), np.zeros(n)
        b = b_mean = y[0] if self.offset else 0.0
        for t in range(n):
            seen, w = y[: t + 1], weight[: t + 1]
            center = np.average(seen, weights=w) if self.offset and w.sum() else 0.0
            unit = np.sqrt(np.average((seen - center) ** 2, weights=w)) if w.sum() else 0.0
            unit = (unit if unit > 1e-100 else 1.0) / self.slope
            if self.curved:
                unit = max(unit, 1.0)
            xi = weight[t] * self.loss(y[t], [self.K[t] @ alpha + b], 1.0)[1][0]
            eta = 1.0 / (self.reg * (self.t0 + t + 1))
            alpha *= 1.0 - eta * self.reg
            alpha[t] = -eta * unit * xi
            b -= eta * unit * xi * self.offset
            mean += 4 / (t + 4) * (alpha - mean)
            b_mean += 4 / (t + 4) * (b - b_mean)
        return self.K @ mean + b_mean


@pytest.mark.parametrize("size", [1, 7, 300])
@pytest.mark.parametrize("unit", [0.01, 1.0, 1000.0])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "huber"])
@pytest.mark.parametrize("offset", [True, False])
def test_a_stream_steps_in_units_of_its_targets_as_the_reference_does(size, unit, loss, offset):
    X, y = make_wave(300)
    y = unit * y + 3.0
    weight = np.random.default_rng(1).integers(0, 4, 300) * 0.5
    model = osvm.KernelRegressor(loss, gamma=0.3, reg=1e-4, budget=None, fit_intercept=offset)
    for i in range(0, 300, size):
        model.partial_fit(X[i : i + size], y[i : i + size], weight[i : i + size])
    part = LOSSES[loss]
    naive = Stream(X, *part, 0.3, offset).learn(y, weight)
    np.testing.assert_allclose(model.predict(X), naive, rtol=1e-10, atol=1e-10 * unit)


@pytest.mark.parametrize("schedule", ["bottou", "constant", "inverse_sqrt"])
@pytest.mark.parametrize("size", [1, 50, 2000])
def test_a_stream_of_targets_in_another_unit_is_the_same_in_that_unit(schedule, size):
    """R2 was 0 with targets a thousand times larger."""
    X, y = make_wave(2000)
    found = []
    for unit in (1e-6, 1.0, 1e6):
        loss = osvm.losses.EpsilonInsensitive(0.1 * unit)
        model = osvm.KernelRegressor(loss, gamma=0.3, schedule=schedule)
        learn(model, X, unit * y, size)
        found.append(model.predict(X) / unit)
    np.testing.assert_allclose(found[0], found[1], rtol=0.0, atol=1e-7)
    np.testing.assert_allclose(found[2], found[1], rtol=0.0, atol=1e-7)
    # steps of 1/sqrt(1 + t/10) are short
    least = 0.4 if schedule == "inverse_sqrt" else 0.8
    assert 1.0 - np.mean((found[1] - y) ** 2) / np.var(y) > least


@pytest.mark.parametrize("size", [1, 13, 100])
def test_a_tube_wider_than_the_targets_is_named_however_the_stream_is_cut(size):
    """Nothing was learnt, without a word."""
    X, y = make_wave(100)
    model = osvm.KernelRegressor(gamma=0.3)
    with pytest.warns(ConvergenceWarning, match="errors up to epsilon=0.1 count as none") as found:
        learn(model, X, 0.01 * y, size)
    assert len(found) == 1
    with pytest.warns(ConvergenceWarning, match="errors up to epsilon=0.1 count as none"):
        osvm.KernelRegressor().fit(X, 0.01 * y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        osvm.KernelRegressor("huber").fit(X, 0.01 * y)
        osvm.KernelRegressor(osvm.losses.EpsilonInsensitive(0.001)).partial_fit(X, 0.01 * y)
        osvm.KernelRegressor().fit(X, np.zeros(100))


def test_targets_of_one_value_are_learnt_without_an_offset():
    X, _ = make_wave(400)
    model = osvm.KernelRegressor(gamma=0.1, fit_intercept=False)
    model.partial_fit(X, np.full(400, 50.0))
    assert abs(np.median(model.predict(X)) - 50.0) < 5.0


def test_a_resumed_stream_knows_the_spread_of_its_targets(tmp_path):
    X, y = make_wave(600)
    model = osvm.KernelRegressor(budget=40, gamma=0.3).partial_fit(X[:300], 100.0 * y[:300])
    model.save(tmp_path / "model.osvm")
    other = osvm.load(tmp_path / "model.osvm")
    for each in (model, other):
        each.partial_fit(X[300:], 100.0 * y[300:])
    assert np.array_equal(model.predict(X), other.predict(X))


def test_merged_streams_have_the_spread_of_all_targets():
    X, y = make_wave(900)
    y = 100.0 * y + 7.0
    parts = [osvm.KernelRegressor(gamma=0.3).partial_fit(X[i::3], y[i::3]) for i in range(3)]
    merged = osvm.merge(parts)
    weight, mean, squares = merged._machine.state.running
    assert weight == 900.0
    assert mean == pytest.approx(y.mean(), rel=1e-12)
    assert squares / weight == pytest.approx(y.var(), rel=1e-12)


def make_numbers(n, kind, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10))
    plane = X @ np.random.default_rng(7).normal(size=10) / np.sqrt(10)
    if kind == "plane":
        return X, plane + 0.5 * rng.normal(size=n)
    X = 3.0 * X[:, :2]
    return X, np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("rows", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_a_plane_takes_a_wide_kernel_and_waves_a_narrow_one(unit, rows):
    """A plane was learnt 8 points of R2 below a linear model's, in units of "scale"."""
    for kind, n in (("plane", 400), ("plane", 1000), ("waves", 1000)):
        (X, y), (X_test, y_test) = (make_numbers(m, kind, seed) for m, seed in ((n, 0), (2000, 1)))
        scale = 1.0 / (X.shape[1] * X.var())
        X, X_test = rows(X), rows(X_test)
        loss = osvm.losses.EpsilonInsensitive(0.1 * unit)
        model = osvm.KernelRegressor(loss, record=True, random_state=0).fit(X, unit * y)
        plain = osvm.KernelRegressor(loss, gamma="scale", random_state=0).fit(X, unit * y)
        assert (model.gamma_ < 0.3 * scale) if kind == "plane" else (model.gamma_ > 3.9 * scale)
        score, usual = (m.score(X_test, unit * y_test) for m in (model, plain))
        assert score > usual + 0.03
        assert model.reg_ == pytest.approx(3e-4)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "huber", "squared"])
def test_the_width_chosen_is_that_given(loss, tmp_path):
    X, y = make_numbers(300, "plane")
    weight = np.random.default_rng(2).uniform(0.5, 2.0, 300)
    model = osvm.KernelRegressor(loss, record=True, random_state=0).fit(X, y, weight)
    options = {"gamma": model.gamma_, "reg": 3e-4, "eta0": 0.3}
    given = osvm.KernelRegressor(loss, random_state=0, **options).fit(X, y, weight)
    np.testing.assert_allclose(model.dual_coef_, given.dual_coef_, rtol=1e-10)
    osvm.io.save(model, tmp_path / "model.osvm")
    more = make_numbers(100, "plane", 1)
    given.partial_fit(*more)
    for one in (osvm.io.load(tmp_path / "model.osvm"), model):
        one.partial_fit(*more)
        np.testing.assert_allclose(one.predict(X), given.predict(X), rtol=1e-8)


def test_few_rows_or_equal_targets_choose_nothing():
    X, y = make_numbers(choice.FEWEST - 1, "plane")
    model = osvm.KernelRegressor().fit(X, y)
    assert model.gamma_ == pytest.approx(1.0 / (10 * X.var()))
    assert model.reg_ == pytest.approx(1e-4)
    X, _ = make_numbers(100, "plane")
    model = osvm.KernelRegressor().fit(X, np.full(100, 3.0))
    np.testing.assert_allclose(model.predict(X), 3.0, atol=0.2)


def make_curve(n, seed):
    X = np.random.default_rng(seed).uniform(-2.0, 2.0, size=(n, 2))
    return X, np.sin(2.0 * X[:, 0]) * np.cos(2.0 * X[:, 1])


def test_the_mean_of_a_fit_forgets_the_first_epochs():
    """Evictions are chosen for f: with all epochs in its mean R2 was .926 and .939."""
    X, y = make_curve(3000, 0)
    noisy = y + 0.5 * np.random.default_rng(2).normal(size=3000)
    test = make_curve(2000, 1)
    for epochs, least in ((5, 0.932), (20, 0.947)):
        options = {"gamma": "scale", "reg": 3e-4, "eta0": 0.3, "epochs": epochs, "random_state": 0}
        assert osvm.KernelRegressor(**options).fit(X, noisy).score(*test) > least
