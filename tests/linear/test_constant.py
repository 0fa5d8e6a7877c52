"""Warnings of a fit that is no better than a constant answer."""

import warnings

import numpy as np
import pytest

import osvm

X = np.random.default_rng(0).normal(size=(200, 3))


@pytest.mark.parametrize("loss", ["squared", "huber", "epsilon_insensitive"])
@pytest.mark.parametrize("schedule", ["auto", "bottou"])
@pytest.mark.parametrize("value", [0.0, 1e-3])
def test_no_warning_where_the_constant_is_perfect_and_the_model_is_too(loss, schedule, value):
    if value and loss != "epsilon_insensitive":
        return  # only there does a small constant cost nothing
    model = osvm.LinearRegressor(loss=loss, schedule=schedule, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, np.full(200, value))
    assert np.abs(model.predict(X) - value).max() <= 0.1


def test_no_warning_where_all_weight_is_on_one_class():
    y = np.arange(200) % 2
    weight = (y == 1).astype(float)
    model = osvm.LinearClassifier(schedule="bottou", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y, sample_weight=weight)
    assert model.score(X, y, sample_weight=weight) == 1.0


def test_a_model_that_is_worse_than_a_perfect_constant_is_warned_of():
    model = osvm.LinearRegressor(
        loss="squared", schedule="constant", eta0=1e-9, epochs=1, fit_intercept=True
    )
    with pytest.warns(osvm.ConvergenceWarning, match="no better"):
        model.fit(X, np.full(200, 5.0))
    assert np.abs(model.predict(X) - 5.0).max() > 1.0
