"""`LinearRegressor`: where its offset begins, and what it warns of."""

import warnings

import numpy as np
import pytest

import osvm


@pytest.mark.parametrize("loss", ["huber", "epsilon_insensitive", "squared"])
def test_an_offset_does_not_stay_at_the_first_target(loss):
    """With more columns than rows, weights learnt all rows from there: R² was -2."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1070, 400))
    y = X[:, :5].sum(axis=1) + 0.1 * rng.normal(size=1070)
    y[0] = -4.0
    for shift in (0.0, 1e3, -np.mean(y[:70])):
        model = osvm.LinearRegressor(loss, shuffle=False, epochs=20).fit(X[:70], y[:70] + shift)
        assert model.score(X[70:], y[70:] + shift) > -0.05
    weight = np.arange(70) % 3 > 0  # targets of weight 0 do not say where it starts
    y[:70][~weight] = 1e4
    model = osvm.LinearRegressor(loss, shuffle=False, epochs=20)
    assert model.fit(X[:70], y[:70], sample_weight=weight).score(X[70:], y[70:]) > -0.1


def test_an_epsilon_wider_than_the_targets_spread_is_named():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y = 1e-6 * X[:, 0] + 1
    for learn in ("fit", "partial_fit"):
        model = osvm.LinearRegressor("epsilon_insensitive")
        with pytest.warns(osvm.ConvergenceWarning, match=r"epsilon=0\.1 count as none"):
            getattr(model, learn)(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(loss="squared").fit(X, y)
        osvm.LinearRegressor("epsilon_insensitive").fit(X, np.ones(100))
