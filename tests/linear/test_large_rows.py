"""Malformed entries of large matrices, in every way of training: refused, and nothing lost."""

import numpy as np
import pytest
import scipy.sparse as sp

from osvm import LinearClassifier, LinearNovelty, LinearRegressor
from osvm._input.validate import check_X

N, D, COUNT = 3000, 500, 8  # more entries than a small input has

FAULTS = {
    "index too large": ("indices", D),
    "index far too large": ("indices", 50_000_000),
    "index -1": ("indices", -1),
    "index -2**31": ("indices", -(2**31)),
    "nan": ("data", np.nan),
    "inf": ("data", np.inf),
    "-inf": ("data", -np.inf),
}


def make(values="float64", index="int32", seed=0):
    rng = np.random.default_rng(seed)
    X = sp.csr_matrix((N, D), dtype=values)
    X.data = rng.normal(size=N * COUNT).astype(values)
    X.indices = rng.integers(D, size=N * COUNT).astype(index)
    X.indptr = np.arange(0, N * COUNT + 1, COUNT).astype(index)
    y = np.where(rng.random(N) < 0.5, -1, 1)
    return X, y


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("values", ["float32", "float64"])
@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("place", [0, N * COUNT // 2, N * COUNT - 1])
def test_a_bad_entry_is_refused_and_the_model_stays(fault, values, index, place):
    X, y = make(values, index)
    model = LinearClassifier(epochs=1, random_state=0).fit(X, y)
    before, state = model.coef_.copy(), dict(model.__dict__)
    where, value = FAULTS[fault]
    getattr(X, where)[place] = value
    with pytest.raises(ValueError, match="row") as expected:
        check_X(X, estimator_name="LinearClassifier")
    with pytest.raises(ValueError, match="row") as found:
        model.fit(X, y)
    assert str(found.value) == str(expected.value)
    np.testing.assert_array_equal(model.coef_, before)
    assert model.__dict__.keys() == state.keys()
    assert model.t_ == N


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 10},
        {"record": True},
        {"n_jobs": 2},
        {"schedule": "smd"},
        {"loss": "squared_hinge"},
        {"probability": True},
        {"normalize": True},
        {"verbose": True},
    ],
    ids=str,
)
def test_every_way_of_training_refuses_a_bad_entry(options, capsys):
    X, y = make()
    X.indices[-1] = 50_000_000
    with pytest.raises(ValueError, match="holds column 50000000"):
        LinearClassifier(random_state=0, **options).fit(X, y)
    labels = np.arange(N) % 3  # several outputs
    with pytest.raises(ValueError, match="holds column 50000000"):
        LinearClassifier(random_state=0, **options).fit(X, labels)


@pytest.mark.parametrize("fault", ["indptr", "decreasing", "short"])
def test_bad_row_starts(fault):
    X, y = make()
    if fault == "indptr":
        X.indptr[-1] = N * COUNT + 5
    elif fault == "decreasing":
        X.indptr[7] = 10**6
    else:
        X.data = X.data[:-3]
    with pytest.raises(ValueError, match="not a valid CSR matrix"):
        LinearClassifier().fit(X, y)


@pytest.mark.parametrize("kind", [LinearRegressor, LinearNovelty])
def test_the_other_estimators(kind):
    X, _ = make()
    target = np.random.default_rng(1).normal(size=N)
    kind(epochs=1, random_state=0).fit(X, target)
    X.data[5] = np.nan
    with pytest.raises(ValueError, match="contains NaN at row 0"):
        kind(epochs=1, random_state=0).fit(X, target)
