"""Rows of weight 0 in a fit are as good as absent, whatever they hold."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import osvm

N, D = 1200, 8
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D))
SCORES = X @ RNG.normal(size=(D, 2))
WEIGHT = (RNG.random(N) < 0.5).astype(float)
TRAIN, TEST = slice(0, 600), slice(600, N)
SPOILT = np.where(WEIGHT[:, None] > 0, X, 100 * X + 1e4)[TRAIN]


@pytest.mark.parametrize("form", [np.asarray, csr_array])
@pytest.mark.parametrize(
    ("model", "how"),
    [
        (osvm.LinearClassifier(schedule="bottou", random_state=0), "fit"),
        (osvm.LinearClassifier(scale="std", random_state=0), "fit"),
        (osvm.LinearClassifier("logistic", random_state=0), "fit"),
        (osvm.LinearClassifier(probability=True, n_jobs=2, random_state=0), "fit"),
        (osvm.LinearRegressor(schedule="bottou", random_state=0), "fit"),
        (osvm.LinearRegressor("huber", scale="std", random_state=0), "fit"),
        (osvm.KernelClassifier("logistic", random_state=0), "fit"),
        (osvm.KernelClassifier(random_state=0), "partial_fit"),
        (osvm.KernelRegressor(random_state=0), "partial_fit"),
    ],
    ids=str,
)
def test_rows_of_weight_0_may_hold_anything(model, how, form):
    """Their size set the first step, the scale of columns, gamma and where the offset begins."""
    y = SCORES[:, 0] if "Regressor" in type(model).__name__ else (SCORES[:, 0] > 0).astype(int)
    spoilt = np.where(WEIGHT > 0, y, 1e4 if y.dtype.kind == "f" else 1 - y)[TRAIN]
    options = {"sample_weight": WEIGHT[TRAIN]}
    found = getattr(model, how)(form(SPOILT), spoilt, **options).score(form(X[TEST]), y[TEST])
    alone = np.flatnonzero(WEIGHT[TRAIN])
    same = getattr(model, how)(form(X[alone]), y[alone]) if how == "fit" else None
    least = 0.9 if same is None else same.score(form(X[TEST]), y[TEST]) - 0.01
    assert found >= (0.5 if how == "partial_fit" else least)


def test_a_C_goes_by_the_rows_that_have_weight():
    y = (SCORES[TRAIN, 0] > 0).astype(int)
    alone = np.flatnonzero(WEIGHT[TRAIN])
    model = osvm.LinearClassifier(C=0.01, shuffle=False, epochs=50)
    found = model.fit(SPOILT, y, sample_weight=WEIGHT[TRAIN]).coef_
    same = model.fit(X[alone], y[alone]).coef_
    np.testing.assert_allclose(found, same, rtol=1e-6)


def test_a_search_goes_by_the_rows_that_have_weight():
    """Errors on the others decided which candidate was best."""
    y = (SCORES[TRAIN, 0] > 0).astype(int)
    spoilt = np.where(WEIGHT[TRAIN] > 0, y, 1 - y)
    alone = np.flatnonzero(WEIGHT[TRAIN])
    model = osvm.LinearClassifier(epochs=1, shuffle=False)
    grid = {"reg": [1e-1, 1e-5]}
    search = osvm.model_selection.one_pass_search
    found = search(model, X[TRAIN], spoilt, grid, sample_weight=WEIGHT[TRAIN])
    np.testing.assert_allclose(found.error_, search(model, X[alone], y[alone], grid).error_)
