"""`fit` without a look at the values beforehand: learning shows what is not finite."""

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm._input import validate

ROWS, FEATURES = 300, 20


def problem(dtype):
    rng = np.random.default_rng(5)
    X = sp.random(ROWS, FEATURES, 0.4, "csr", dtype, rng)
    X.data += dtype(0.1)
    return X, np.where(X.toarray() @ rng.normal(size=FEATURES) > 0, 1, -1)


MODELS = [
    osvm.LinearClassifier(random_state=0),
    osvm.LinearClassifier("logistic", random_state=0, average=True, shuffle=False),
    osvm.LinearClassifier(random_state=0, project=True, shuffle="full"),
    osvm.LinearClassifier(random_state=0, tol=1e-3, class_weight="balanced"),
    osvm.LinearRegressor("epsilon_insensitive", random_state=0),
    osvm.LinearNovelty(random_state=0),
]


def fresh(model, **changes):
    return type(model)(**{**model.get_params(deep=False), **changes})


def fit(model, X, y):
    return model.fit(X) if isinstance(model, osvm.LinearNovelty) else model.fit(X, y)


@pytest.fixture
def no_look(monkeypatch):
    """A look at the values is an error."""

    def look(source):
        raise AssertionError("the values were looked at")

    monkeypatch.setattr(validate, "compiled_look", look)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_sound_values_are_not_looked_at_and_nothing_else_changes(model, dtype, monkeypatch):
    X, y = problem(dtype)
    careful = fit(fresh(model, record=True), X, y)
    with monkeypatch.context() as patch:
        patch.setattr(validate, "compiled_look", None)
        quick = fit(fresh(model), X, y)
    assert np.array_equal(quick.coef_, careful.coef_)
    assert np.array_equal(quick.intercept_, careful.intercept_)
    assert quick.t_ == careful.t_


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 151, ROWS - 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_value_that_is_not_finite_is_named_and_loses_nothing(model, dtype, row, bad):
    X, y = problem(dtype)
    model = fit(fresh(model), X, y)
    before = model._get_state()
    spoilt = X.copy()
    spoilt.data[X.indptr[row]] = bad
    with pytest.raises(ValueError, match=rf"row {row}\b"):
        fit(model, spoilt, y)
    assert_same_state(model._get_state(), before)


def assert_same_state(found, expected):
    assert str(found[0]) == str(expected[0])
    assert found[1].keys() == expected[1].keys()
    for name, array in expected[1].items():
        assert np.array_equal(found[1][name], array)


def test_an_infinite_score_with_no_loss_is_found_too():
    # y = sign of the score: the hinge loss of the spoilt row is 0
    X = sp.csr_matrix(np.tile(np.eye(2), (50, 1)))
    y = np.tile([1, -1], 50)
    X.data[98] = np.inf
    with pytest.raises(ValueError, match="row 98"):
        osvm.LinearClassifier(shuffle=False, epochs=1).fit(X, y)


@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 3e37), (np.float64, 1e307)])
def test_finite_values_that_overflow_fail_as_in_a_careful_fit(dtype, size):
    X, y = problem(dtype)
    X.data[X.indptr[7] : X.indptr[8]] = size
    messages = []
    for record in (False, True):
        model = osvm.LinearClassifier(
            "hinge", schedule="constant", eta0=1e6, reg=1e-9, shuffle=False, record=record
        )
        with pytest.raises(FloatingPointError, match="row 7") as error:
            model.fit(X, y)
        messages.append(str(error.value))
        assert not hasattr(model, "coef_")
    assert messages[0] == messages[1]


@pytest.mark.parametrize(
    "params",
    [
        {"record": True},
        {"verbose": 1},
        {"batch_size": 4},
        {"normalize": True},
        {"schedule": "smd"},
        {"loss": "squared_hinge"},
        {"solver": "dual"},
        {"probability": True},
        {"warm_start": True},
        {"callback": lambda model, epoch: False},
    ],
    ids=lambda params: next(iter(params)),
)
def test_other_ways_of_fitting_look_first(params, no_look, capsys):
    X, y = problem(np.float64)
    if "normalize" in params:  # its norms come from checked values, in the same pass
        X.data[3] = np.nan
        with pytest.raises(ValueError, match="NaN"):
            osvm.LinearClassifier(**params).fit(X, y)
    else:
        with pytest.raises(AssertionError, match="looked at"):
            osvm.LinearClassifier(**params).fit(X, y)


def test_many_outputs_look_first(no_look):
    X, _ = problem(np.float64)
    with pytest.raises(AssertionError, match="looked at"):
        osvm.LinearClassifier().fit(X, np.arange(ROWS) % 3)


def test_a_stream_looks_first():
    X, y = problem(np.float64)
    X.data[5] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        osvm.LinearClassifier().partial_fit(X, y)
