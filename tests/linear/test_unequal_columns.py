"""A fit of dense columns of very different size says so."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm.exceptions import ConvergenceWarning
from osvm.schedules import Adaptive

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=300), 1e5 * RNG.normal(size=300), np.zeros(300)])
Y = (X[:, 0] > 0).astype(int)


def unequal(model, rows=X):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rows, Y)
    return [str(w.message) for w in caught if "differ in size" in str(w.message)]


@pytest.mark.parametrize("kind", [osvm.LinearClassifier, osvm.LinearRegressor, osvm.LinearNovelty])
def test_warns_once_and_names_columns_and_remedy(kind):
    for rows in (X, X.astype(np.float32), np.asfortranarray(X), X[::-1, ::-1]):
        (found,) = unequal(kind(schedule="bottou", random_state=0), rows)
        first, second = (0, 1) if rows[0, 2] == 0 else (2, 1)
        assert f"column {second} reach" in found
        assert f"of column {first}" in found
        assert "scale='std'" in found
        assert "scale='running'" in found


@pytest.mark.parametrize(
    ("params", "rows"),
    [
        ({"schedule": Adaptive(normalized=True)}, X),
        ({"schedule": "coin_betting"}, X),
        ({"schedule": "bottou", "scale": "std"}, X),
        ({"schedule": "adaptive", "scale": "running"}, X),
        ({"schedule": "bottou"}, X * [1.0, 0.9e-3, 1.0]),
        ({"schedule": "bottou"}, sp.csr_matrix(X)),
    ],
    ids=["adaptive", "coins", "scaled", "running", "within", "sparse"],
)
def test_does_not_warn(params, rows):
    assert not unequal(osvm.LinearClassifier(random_state=0, **params), rows)


def test_numbers_at_their_defaults_need_no_scaling():
    assert not unequal(osvm.LinearRegressor(random_state=0))


def test_it_is_a_convergence_warning():
    with pytest.warns(ConvergenceWarning, match="differ in size"):
        osvm.LinearClassifier(schedule="bottou", random_state=0).fit(X, Y)
