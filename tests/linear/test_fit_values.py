"""Values that are not finite: every call checks them, names the row and changes nothing."""

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm.model_selection import one_pass_search

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


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"record": True},
        {"verbose": 1},
        {"batch_size": 4},
        {"normalize": True},
        {"schedule": "smd"},
        {"loss": "squared_hinge"},
        {"probability": True},
        {"warm_start": True},
        {"callback": lambda model, epoch: False},
    ],
    ids=lambda params: next(iter(params), "plain") if isinstance(params, dict) else str(params),
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_option_checks_values(params, bad, n_classes, capsys):
    X, _ = problem(np.float64)
    X.data[3] = bad
    row = np.searchsorted(X.indptr, 3, side="right") - 1
    with pytest.raises(ValueError, match=rf"row {row}\b"):
        osvm.LinearClassifier(**params).fit(X, np.arange(ROWS) % n_classes)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_stream_checks_values(model, bad):
    X, y = problem(np.float64)
    model = fresh(model)
    model.partial_fit(X, y)
    before = model._get_state()
    X.data[5] = bad
    row = np.searchsorted(X.indptr, 5, side="right") - 1
    with pytest.raises(ValueError, match=rf"row {row}\b"):
        model.partial_fit(X, y)
    assert_same_state(model._get_state(), before)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("params", [{}, {"schedule": "inverse_time"}, {"average": True}], ids=str)
def test_a_search_checks_values(params, n_classes, sparse, dtype, bad):
    X, _ = problem(dtype)
    X.data[X.indptr[ROWS - 1]] = bad
    X = X if sparse else X.toarray()
    base = osvm.LinearClassifier(shuffle=False, **params)
    with pytest.raises(ValueError, match=rf"row {ROWS - 1}\b"):
        one_pass_search(base, X, np.arange(ROWS) % n_classes, {"reg": [1e-3, 1e-2]})
