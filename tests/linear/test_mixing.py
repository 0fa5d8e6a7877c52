"""`n_jobs` in `fit`: shares of the rows in threads, merged after each epoch."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm.linear.mixing import ROWS_PER_THREAD
from osvm.schedules import Adaptive, Bottou, CoinBetting

rng = np.random.default_rng(1)
N, D = 3 * ROWS_PER_THREAD + 1, 20
X = sp.csr_matrix(rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.4))
SCORE = X @ rng.normal(size=D) + 0.3 * rng.normal(size=N)
Y = {
    "LinearClassifier": np.where(SCORE > 0, "yes", "no"),
    "multi": np.digitize(SCORE, [-1, 1]),
    "LinearRegressor": SCORE,
    "LinearNovelty": None,
}
CASES = [
    ("LinearClassifier", "LinearClassifier", {"schedule": "bottou"}),
    ("LinearClassifier", "LinearClassifier", {"average": True, "loss": "logistic"}),
    ("LinearClassifier", "LinearClassifier", {"loss": "squared_hinge", "project": True}),
    ("LinearClassifier", "LinearClassifier", {"schedule": "bottou", "probability": True}),
    ("LinearClassifier", "multi", {"average": 50}),
    ("LinearClassifier", "multi", {"loss": "softmax"}),
    ("LinearRegressor", "LinearRegressor", {"loss": "huber", "average": True}),
    ("LinearNovelty", "LinearNovelty", {"reg": 1e-4}),
]


def fitted(cls, target, **params):
    model = getattr(osvm, cls)(**params)
    y = Y[target]
    return model.fit(X) if y is None else model.fit(X, y)


@pytest.mark.parametrize("jobs", [2, 3])
@pytest.mark.parametrize(("cls", "target", "params"), CASES)
def test_an_epoch_is_the_merge_of_its_shares(cls, target, params, jobs):
    if cls == "LinearRegressor":  # `fit` starts the intercept at the targets' median
        params = {**params, "fit_intercept": False}
    params = {**params, "schedule": Bottou(t0=100.0), "shuffle": False, "random_state": 0}
    model = fitted(cls, target, epochs=2, n_jobs=jobs, **params)
    y, current = Y[target], None
    edges = np.linspace(0, N, jobs + 1).astype(int)
    classes = {} if cls != "LinearClassifier" else {"classes": np.unique(y)}
    for _ in range(2):
        parts = []
        for a, b in itertools.pairwise(edges):
            part = getattr(osvm, cls)(**params)
            if current is not None:
                part = osvm.from_bytes(current.to_bytes())
            rows = X[a:b]
            if y is None:
                parts.append(part.partial_fit(rows))
            else:
                parts.append(part.partial_fit(rows, y[a:b], **classes))
        current = osvm.merge(parts, current)
    np.testing.assert_allclose(model.coef_, current.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.intercept_, current.intercept_, rtol=1e-9, atol=1e-12)
    assert model.t_ == current.t_ == 2 * N
    assert model._learner.t == current._learner.t
    assert np.isclose(model._learner.loss_sum, current._learner.loss_sum)
    if params.get("probability"):
        np.testing.assert_allclose(model._platt.state, current._platt.state, rtol=1e-9)


ADAPTIVE = [
    ("LinearClassifier", {"schedule": Adaptive(eta0=0.5), "average": True}),
    ("multi", {"schedule": Adaptive(eta0=2.0, normalized=True)}),
    ("LinearClassifier", {"schedule": CoinBetting()}),
]


@pytest.mark.parametrize("jobs", [2, 3])
@pytest.mark.parametrize(("target", "params"), ADAPTIVE)
def test_rates_of_shares_are_merged(target, params, jobs):
    params = {**params, "shuffle": False}
    y, current = Y[target], None
    model = osvm.LinearClassifier(epochs=2, n_jobs=jobs, **params).fit(X, y)
    edges = np.linspace(0, N, jobs + 1).astype(int)
    for _ in range(2):
        parts = [
            osvm.LinearClassifier(**params) if current is None else osvm.from_bytes(current)
            for _ in range(jobs)
        ]
        for part, (a, b) in zip(parts, itertools.pairwise(edges)):
            part.partial_fit(X[a:b], y[a:b], classes=np.unique(y))
        base = None if current is None else osvm.from_bytes(current)
        current = osvm.merge(parts, base).to_bytes()
    expected = osvm.from_bytes(current)
    for a, b in zip(model._learner.get_state(), expected._learner.get_state()):
        for name in a:
            np.testing.assert_allclose(a[name], b[name], rtol=1e-9, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("target", ["LinearClassifier", "multi"])
def test_the_default_stays_the_default(target):
    """Settings compete in one thread; the winner goes on in all of them."""
    y = Y[target]
    one, two, three = (
        osvm.LinearClassifier(random_state=0, n_jobs=jobs).fit(X, y) for jobs in (None, 2, 3)
    )
    for model in (two, three):
        assert model._plan.schedule.name == "auto"
        assert model._learner.alive == one._learner.alive
        assert model.score(X, y) > one.score(X, y) - 0.01
        assert model.t_ == one.t_
        assert model._learner.averaged_count == one._learner.averaged_count
    again = osvm.LinearClassifier(random_state=0, n_jobs=2).fit(X, y)
    assert again.to_bytes() == two.to_bytes() != three.to_bytes()
    assert two.partial_fit(X, y).t_ == one.t_ + N


def test_one_epoch_of_the_default_in_threads():
    y = Y["multi"]
    model = osvm.LinearClassifier(random_state=0, n_jobs=2, epochs=1).fit(X, y)
    assert model.t_ == N
    alone = osvm.LinearClassifier(random_state=0, epochs=1).fit(X, y)
    assert model.score(X, y) > alone.score(X, y) - 0.02


@pytest.mark.parametrize(("cls", "target", "params"), CASES)
def test_the_same_bits_every_time(cls, target, params):
    made = {fitted(cls, target, random_state=5, n_jobs=2, **params).to_bytes() for _ in range(3)}
    assert len(made) == 1
    one = fitted(cls, target, random_state=5, **params)
    two = fitted(cls, target, random_state=5, n_jobs=2, **params)
    assert two.to_bytes() != one.to_bytes()
    assert two.t_ == one.t_
    if cls == "LinearClassifier":
        assert two.score(X, Y[target]) > one.score(X, Y[target]) - 0.02


def test_what_takes_one_thread():
    """A record of all examples in order, adapted step sizes, and few rows."""
    y = Y["LinearClassifier"]
    for params in ({"record": True}, {"schedule": "smd"}):
        one, two = (
            osvm.LinearClassifier(random_state=0, epochs=2, n_jobs=n, **params).fit(X, y)
            for n in (1, 2)
        )
        assert np.array_equal(one.coef_, two.coef_)
    few = slice(0, 2 * ROWS_PER_THREAD - 1)
    one, two = (
        osvm.LinearClassifier(random_state=0, n_jobs=n).fit(X[few], y[few]) for n in (1, 2)
    )
    assert np.array_equal(one.coef_, two.coef_)


def test_callbacks_tol_and_progress_see_whole_epochs(capsys):
    seen = []
    model = osvm.LinearClassifier(
        random_state=0, n_jobs=2, tol=1e-9, epochs=4, verbose=True,
        callback=lambda model, epoch: seen.append(epoch) or None,
    ).fit(X, Y["LinearClassifier"])  # fmt: skip
    assert [epoch.number for epoch in seen] == [1, 2, 3, 4]
    assert [epoch.objective for epoch in seen] == model.objective_.tolist()
    mean = sum(epoch.average_loss for epoch in seen) / 4
    assert np.isclose(mean, model._learner.loss_sum / (4 * N))
    assert str(4 * N) in capsys.readouterr().err


def test_an_error_in_a_thread_leaves_the_model():
    model = osvm.LinearRegressor("squared", schedule="constant", eta0=1e3, reg=0.0, n_jobs=2)
    with pytest.raises(FloatingPointError):
        model.fit(1e3 * X, SCORE)
    assert not hasattr(model, "t_")
