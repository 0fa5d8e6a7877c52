"""Overflow is refused before it happens, and a failed block leaves no trace."""

import numpy as np
import pytest
import scipy.sparse as sp

from osvm import LinearClassifier, LinearRegressor

BOUNDED = [
    {"loss": "squared_hinge"},
    {"loss": "squared_hinge", "average": True, "fit_intercept": False},
]
HUGE = {np.float32: 3e38, np.float64: 1.7e308}


def state(model):
    scalars, arrays = model._get_state()
    return repr(scalars), {name: a.tobytes() for name, a in arrays.items()}


def make_block(dtype, n=20, dim=12, seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    X = sp.random(n, dim, 0.4, format="csr", random_state=rng, dtype=np.float64).astype(dtype)
    X[:, :1] = 1.0
    return sp.csr_matrix(X), np.arange(n) % n_classes


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"average": True},
        {"project": True},
        {"batch_size": 3},
        {"batch_size": 3, "average": True},
        {"loss": "squared_hinge", "schedule": "inverse_sqrt"},
        *BOUNDED,
        {"loss": "logistic"},
        {"loss": "modified_huber", "schedule": "constant"},
        {"verbose": True},
    ],
    ids=str,
)
def test_a_block_that_overflows_leaves_the_model_as_it_was(dtype, n_classes, params, capsys):
    if dtype == np.float32 and params in BOUNDED:
        pytest.skip("no float32 value is too large for a step that keeps within its example")
    X, y = make_block(dtype, n_classes=n_classes)
    model = LinearClassifier(**params).partial_fit(X, y)
    before = state(model)
    # One huge row under two labels: whatever its score is, it is wrong for one of them.
    # It comes last, when all others have been learnt.
    huge = sp.csr_matrix(([HUGE[dtype]], ([0], [3])), shape=(1, X.shape[1]), dtype=dtype)
    bad = sp.vstack([X, huge, huge], format="csr")
    with pytest.raises(FloatingPointError, match=r"row 2[01]\b"):
        model.partial_fit(bad, np.append(y, [0, 1]))
    assert state(model) == before
    assert np.isfinite(model.coef_).all()
    other = LinearClassifier(**{**params, "verbose": False})
    other.partial_fit(X, y).partial_fit(X, y)
    np.testing.assert_array_equal(model.partial_fit(X, y).coef_, other.coef_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_fit_refuses_huge_values_and_keeps_the_old_model(dtype, batch_size):
    X, y = make_block(dtype)
    model = LinearClassifier(
        epochs=2, random_state=0, batch_size=batch_size, schedule="constant", eta0=0.5
    ).fit(X, y)
    before = state(model)
    huge = sp.csr_matrix(([HUGE[dtype]], ([0], [3])), shape=(1, X.shape[1]), dtype=dtype)
    X = sp.vstack([X, huge, huge], format="csr")
    with pytest.raises(FloatingPointError, match="scale the features"):
        model.fit(X, np.append(y, [0, 1]))
    assert state(model) == before


def test_huge_values_at_unit_norm_are_fine():
    X, y = make_block(np.float64)
    X.data *= 1e300
    model = LinearClassifier(normalize=True, random_state=0).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert np.abs(model.coef_).max() > 0


def test_steps_that_grow_without_bound_are_refused():
    X, _ = make_block(np.float32, n=400)
    y = np.linspace(-1e3, 1e3, 400)
    model = LinearRegressor("squared", schedule="constant", eta0=5.0, reg=1e-3)
    before = None

    def go_on():
        nonlocal before
        for _ in range(20):
            model.partial_fit(X, y)
            before = state(model)

    with pytest.raises(FloatingPointError, match="lower"):
        go_on()
    if before is not None:
        assert state(model) == before
    else:
        assert not hasattr(model, "t_")


def test_an_error_in_a_loss_of_ones_own_leaves_no_trace():
    class Fragile:
        name = "fragile"
        calls = 0

        def value(self, y, f):
            return max(0.0, 1.0 - y * f)

        def dloss(self, y, f):
            Fragile.calls += 1
            if Fragile.calls > 30:
                raise RuntimeError("enough")
            return -y if y * f < 1 else 0.0

    loss = Fragile()
    X, y = make_block(np.float64)
    model = LinearClassifier(loss, schedule="bottou").partial_fit(X, y)
    before = model.coef_.copy(), model.t_
    with pytest.raises(RuntimeError, match="enough"):
        model.partial_fit(X, y)
    np.testing.assert_array_equal(model.coef_, before[0])
    assert model.t_ == before[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", ["binary", "classes", "regression"])
@pytest.mark.parametrize("reg", [1e-6, 1e-2, 2.0])
def test_bounded_steps_stay_within_the_reach_that_saves_a_copy(dtype, intercept, kind, reg):
    """Rows of all sizes and labels at random: the norm never exceeds its bound."""
    rng = np.random.default_rng(0)
    make = LinearRegressor if kind == "regression" else LinearClassifier
    loss = "squared" if kind == "regression" else "squared_hinge"
    model = make(loss, reg=reg, fit_intercept=intercept, average=kind == "classes")
    largest = 0.0
    for block in range(60):
        n = int(rng.integers(2, 40))
        sizes = 10.0 ** rng.uniform(-3, 3, size=(n, 1))
        X = sp.csr_matrix((rng.normal(size=(n, 8)) * sizes).astype(dtype))
        y = (
            rng.normal(size=n) * 10
            if kind == "regression"
            else rng.integers(0, 4 if kind == "classes" else 2, size=n)
        )
        options = {} if kind == "regression" else {"classes": range(4 if kind == "classes" else 2)}
        weight = rng.random(n) * 5 if block % 2 else None
        model.partial_fit(X, y, sample_weight=weight, **options)
        learner = model._learner
        assert learner.weight_bound >= 0, "no copy was needed"
        t, t0 = learner.t + 1, model._plan.t0
        rho = np.sqrt(t) / (reg * (t0 + t)) if intercept else 0.0
        W = np.atleast_2d(learner.weights.array())
        size = np.sqrt((W**2).sum(axis=1) + rho * learner.intercept**2).max()
        assert size <= learner.weight_bound * (1 + 1e-5)
        largest = max(largest, size / learner.weight_bound)
    assert largest > 1e-6, "a bound that says nothing"
