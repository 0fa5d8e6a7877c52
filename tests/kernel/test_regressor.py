"""Kernel regression: what a stream takes from its first targets."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm.exceptions import ConvergenceWarning


def make_wave(n, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1]


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
        model = osvm.KernelRegressor(**options)
        for i in range(0, 600, size):
            model.partial_fit(X[i : i + size], targets[i : i + size])
        models.append(model)
    one, other = models
    np.testing.assert_allclose(other.predict(X) - far[0], one.predict(X), rtol=0.0, atol=1e-6)
    assert other.score(X, far) > 0.6


def test_without_an_offset_a_stream_has_none():
    X, y = make_wave(50)
    model = osvm.KernelRegressor(fit_intercept=False).partial_fit(X, y + 9.0)
    assert model.intercept_[0] == 0.0


def test_targets_of_another_spread_are_named():
    X, y = make_wave(100)
    with pytest.warns(ConvergenceWarning, match="targets have a standard deviation of"):
        osvm.KernelRegressor().partial_fit(X, 1000.0 * y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        osvm.KernelRegressor().partial_fit(X, y + 1000.0)
        osvm.KernelRegressor(eta0=100.0).partial_fit(X, 1000.0 * y)
        osvm.KernelRegressor(loss="squared", eta0=0.1).partial_fit(X, 10.0 * y)  # it has the unit
        osvm.KernelRegressor().partial_fit(X[:19], 1000.0 * y[:19])  # too few to tell
        osvm.KernelRegressor().fit(X, 1000.0 * y)
