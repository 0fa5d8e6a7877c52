"""The first step of the default schedule: it is found on a sample, and never collapses."""

import dataclasses
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm import losses, schedules
from osvm._input.rows import RowSource
from osvm.linear import first_step
from osvm.linear.examples import take_rows
from osvm.linear.first_step import Sample, first_step_trials, tried_plan
from osvm.linear.plan import Plan
from osvm.model_selection import one_pass_search


def source_of(X):
    if sp.issparse(X):
        return RowSource.csr(X.data, X.indices, X.indptr, X.shape[1])
    return RowSource.dense(X)


# Columns of three sentences: those that share words made the step collapse.
SENTENCES = {
    "one word apart": [[0, 1], [2, 1], [3, 1]],
    "most words shared": [[0, 1, 2, 3, 4], [0, 5, 2, 3, 4], [0, 1, 2, 3, 6]],
    "few words shared": [[0, 1, 2, 3, 4], [5, 6, 7, 8], [4, 9, 10, 11]],
}


def sentences(words):
    """Rows of unit norm, as TfidfVectorizer gives them."""
    rows = np.repeat(np.arange(3), [len(w) for w in words])
    X = sp.csr_matrix((np.ones(len(rows)), (rows, np.concatenate(words))), (3, 12))
    return sp.csr_matrix(X.multiply(1.0 / np.sqrt(X.multiply(X).sum(axis=1)))), [5, 1, 5]


def sparse_rows(seed, n=2000, d=200_000, count=100):
    rng = np.random.default_rng(seed)
    columns = np.sort(rng.integers(0, d, (n, count)), axis=1)
    values = np.abs(rng.standard_normal(n * count)) / np.sqrt(count)
    X = sp.csr_matrix((values, columns.ravel(), np.arange(0, n * count + 1, count)), (n, d))
    X.sum_duplicates()
    return X, np.where(X @ rng.standard_normal(d) > 0, "yes", "no")


def line(seed, n=1000, mean=10.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    return X, X @ rng.standard_normal(5) + mean + 0.1 * rng.standard_normal(n)


def rare_class(seed, n=5000, share=0.02):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((2 * n, 20))
    score = X @ rng.standard_normal(20)
    y = score > np.quantile(score, 1 - share)
    return X[:n], y[:n], X[n:], y[n:]


def f1(y, p):
    return 2 * np.sum(y & p) / max(1, y.sum() + p.sum())


# ------------------------------------------------------------------- no collapse


@pytest.mark.parametrize(
    "loss", ["hinge", "squared_hinge", "logistic", "modified_huber", "perceptron"]
)
@pytest.mark.parametrize("words", SENTENCES.values(), ids=SENTENCES)
def test_three_sentences_are_learnt(loss, words):
    X, y = sentences(words)
    for seed in range(50):
        model = osvm.LinearClassifier(loss=loss, random_state=seed).fit(X, y)
        assert model.predict(X).tolist() == y, seed


def test_sparse_rows_are_learnt():
    for seed in range(30):
        X, y = sparse_rows(seed)
        model = osvm.LinearClassifier(random_state=seed).fit(X, y)
        assert model.score(X, y) >= 0.99, seed


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "huber", "squared"])
@pytest.mark.parametrize("mean", [10.0, -1000.0])
def test_regression_with_an_offset(loss, mean):
    for seed in range(30):
        X, y = line(seed, mean=mean)
        model = osvm.LinearRegressor(loss=loss, random_state=seed).fit(X, y)
        assert model.score(X, y) >= 0.95, seed


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_regression_in_other_units(scale):
    for seed in range(10):
        X, y = line(seed)
        loss = losses.EpsilonInsensitive(epsilon=0.01 * scale)
        model = osvm.LinearRegressor(loss=loss, reg=1e-4 / scale, random_state=seed)
        model.fit(X, scale * y)
        assert model.score(X, scale * y) >= 0.9, seed


def test_rows_in_other_units_learn_as_well():
    for scale in (1e-3, 1e3):
        X, y, Xt, yt = rare_class(0, share=0.5)
        model = osvm.LinearClassifier(random_state=0, reg=1e-4 * scale**2)
        assert model.fit(scale * X, y).score(scale * Xt, yt) >= 0.95, scale


def test_a_rare_class_is_found():
    figures = []
    for seed in range(10):
        X, y, Xt, yt = rare_class(seed)
        figures.append(f1(yt, osvm.LinearClassifier(random_state=seed).fit(X, y).predict(Xt)))
    assert np.mean(figures) >= 0.75
    assert min(figures) >= 0.6


def test_a_class_that_the_sample_may_miss_is_found():
    figures = []
    for seed in range(10):
        X, y, Xt, yt = rare_class(seed, share=0.005)
        figures.append(f1(yt, osvm.LinearClassifier(random_state=seed).fit(X, y).predict(Xt)))
    assert np.mean(figures) >= 0.5


@pytest.mark.parametrize("shuffle", [True, "full"])
def test_sorted_rows_get_the_step_of_all_rows(shuffle):
    X, y = sparse_rows(0)
    order = np.argsort(y, kind="stable")
    model = osvm.LinearClassifier(random_state=0, shuffle=shuffle).fit(X[order], y[order])
    assert model.score(X, y) >= 0.99


@pytest.mark.parametrize("batch_size", [8, "full"])
def test_mini_batches_are_tried_as_they_are_learnt(batch_size):
    X, y, Xt, yt = rare_class(1, n=1000, share=0.5)
    model = osvm.LinearClassifier(random_state=0, batch_size=batch_size, epochs=20).fit(X, y)
    assert model.score(Xt, yt) >= 0.85


def test_zero_rows_and_one_class_in_the_sample_are_no_error():
    X = sp.csr_matrix((2000, 5))
    y = np.arange(2000) == 77
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", osvm.ConvergenceWarning)
        model = osvm.LinearClassifier(random_state=0).fit(X, y)
    assert not model.predict(X).any()


# ---------------------------------------------------------- the search for the step


def costs_of(function, plan, sample):
    """What the search chooses where `function` gives the cost of a step; steps tried."""
    search = first_step_trials(plan, sample)
    trial, tried = next(search), []
    while True:
        tried.append(trial)
        try:
            trial = search.send(function(tried[-1]))
        except StopIteration as stop:
            return 1.0 / (stop.value.t0 * plan.reg), tried


@pytest.fixture
def small():
    rng = np.random.default_rng(0)
    return Sample(source_of(rng.standard_normal((300, 4))), 5)


PLAN = Plan(losses.Hinge(), schedules.Bottou(), 1e-4)


@pytest.mark.parametrize("place", [1e-2, 0.3, 1.0, 40.0])
def test_the_search_finds_the_lowest_place(small, place):
    found, tried = costs_of(lambda eta: 1 + np.log(eta / place) ** 2, PLAN, small)
    assert 0.25 < found / place < 4.0
    assert len(tried) <= 8


def test_on_a_flat_stretch_it_stays_where_steps_move_scores(small):
    found, _ = costs_of(lambda eta: 1.0, PLAN, small)
    assert found == pytest.approx(1 / small.sq_norm)


def test_smaller_is_always_better_ends_at_the_bound(small):
    found, _ = costs_of(lambda eta: eta, PLAN, small)
    assert found >= 1 / small.sq_norm / np.sqrt(small.fit_visits)


def test_larger_is_always_better_ends_at_the_bound(small):
    found, _ = costs_of(lambda eta: 1 / eta, PLAN, small)
    assert found <= 1 / PLAN.reg


def test_steps_that_overflow_give_way_to_smaller_ones(small):
    found, _ = costs_of(lambda eta: np.inf if eta > 1e-9 else 1.0, PLAN, small)
    assert 1e-10 < found <= 1e-9


def test_all_steps_overflow(small):
    found, tried = costs_of(lambda eta: np.inf, PLAN, small)
    assert found > 0.0
    assert len(tried) < 30


# --------------------------------------------------------------------- its cost


def test_a_trial_has_the_size_of_the_sample(monkeypatch):
    X, y = sparse_rows(0)
    wide = sp.csr_matrix((X.data, X.indices, X.indptr), (X.shape[0], 10**8))
    sizes = []
    cost = first_step.trial_cost
    monkeypatch.setattr(
        first_step,
        "trial_cost",
        lambda learner, *rest: sizes.append(learner.weights.dim) or cost(learner, *rest),
    )
    plan, sample = PLAN, Sample(source_of(wide), 5)
    y = np.where(y == "yes", 1.0, -1.0)
    wide_plan = tried_plan(plan, sample, y, 1, np.float64)
    assert 3 <= len(sizes) <= 10
    assert max(sizes) <= len(sample.rows) * 100
    narrow = tried_plan(plan, Sample(source_of(X), 5), y, 1, np.float64)
    assert wide_plan.t0 == narrow.t0


@pytest.mark.parametrize(
    ("n", "count", "most"), [(10**6, 1, 1000), (20_000, 100, 200), (10_000, 3000, 50), (7, 3, 7)]
)
def test_size_of_the_sample(n, count, most):
    assert Sample._size(n, count) <= most
    assert Sample._size(n, count) >= min(n, 32)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_taken_rows_are_the_rows(index, dtype):
    rng = np.random.default_rng(3)
    X = sp.random(40, 1000, 0.01, "csr", dtype=dtype, random_state=rng)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    rows = np.array([5, 0, 39, 5])
    scale = rng.uniform(1, 2, 40)
    taken, sq_norms = take_rows(
        RowSource.csr(X.data, X.indices, X.indptr, 1000, scale), rows, renumber=False
    )
    w = rng.standard_normal(1000)
    weights = Plan(losses.Hinge(), schedules.Bottou(t0=1.0), 1e-4).learner(1000, 1, np.float64)
    weights.weights.set_array(w)
    scores = np.empty((4, 1))
    weights.decide(taken, scores)
    expected = (X @ w * scale)[rows]
    np.testing.assert_allclose(scores[:, 0], expected, rtol=1e-5)
    squares = np.asarray(X.multiply(X).sum(axis=1)).ravel() * scale**2
    np.testing.assert_allclose(sq_norms, squares[rows], rtol=1e-5)
    small, _ = take_rows(RowSource.csr(X.data, X.indices, X.indptr, 1000), rows)
    assert small.n_features == max(1, len(np.unique(X[rows].indices)))


def test_taken_rows_must_exist():
    X = RowSource.dense(np.ones((3, 2)))
    with pytest.raises(IndexError):
        take_rows(X, np.array([3]))
    with pytest.raises(ValueError, match="at least one"):
        take_rows(X, np.array([], np.int64))


def test_dense_rows_in_any_layout():
    X = np.asfortranarray(np.random.default_rng(0).standard_normal((20, 6)))[::2, ::-1]
    _, sq_norms = take_rows(RowSource.dense(X), np.array([9, 0]))
    np.testing.assert_allclose(sq_norms, (X[[9, 0]] ** 2).sum(axis=1))


# ------------------------------------------------------- others that use the trial


def test_the_step_does_not_depend_on_the_seed_or_the_order():
    X, y = sparse_rows(4)
    first = osvm.LinearClassifier(random_state=0).fit(X, y)
    other = osvm.LinearClassifier(random_state=1, shuffle=False).fit(X, y)
    assert first._plan.t0 == other._plan.t0


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_labels_together_find_the_step_of_each_alone(loss):
    X, _ = sparse_rows(5, n=1500, d=2000, count=20)
    rng = np.random.default_rng(0)
    scores = X @ rng.standard_normal((2000, 4))
    Y = (scores > np.quantile(scores, [0.5, 0.9, 0.98, 0.998], axis=0).diagonal()).astype(int)
    joint = osvm.MultilabelClassifier(loss, schedule="bottou", random_state=0).fit(X, Y)
    weight = rng.uniform(0.5, 2.0, 1500)
    heavy = osvm.MultilabelClassifier(
        loss, schedule="bottou", random_state=0, class_weight="balanced"
    )
    heavy.fit(X, Y, sample_weight=weight)
    for k in range(4):
        alone = osvm.LinearClassifier(loss=loss, schedule="bottou", random_state=0).fit(X, Y[:, k])
        assert joint._joined.plans[k].t0 == alone._plan.t0
        assert joint._joined.plans[k].intercept_step == alone._plan.intercept_step
        alone = osvm.LinearClassifier(
            loss=loss, schedule="bottou", random_state=0, class_weight="balanced"
        )
        alone.fit(X, Y[:, k], sample_weight=weight)
        assert heavy._joined.plans[k].t0 == alone._plan.t0
        assert heavy._joined.plans[k].intercept_step == alone._plan.intercept_step


def test_a_search_finds_the_steps_of_single_fits():
    X, y = sparse_rows(6, d=2000, count=20)
    grid = {"reg": [1e-2, 1e-3, 1e-4, 1e-5]}
    search = one_pass_search(osvm.LinearClassifier(random_state=0, epochs=2), X, y, grid)
    best = search.best_estimator_
    alone = osvm.LinearClassifier(random_state=0, epochs=2, reg=best.reg).fit(X, y)
    assert best._plan.t0 == alone._plan.t0
    np.testing.assert_allclose(best.coef_, alone.coef_, rtol=1e-6)


def test_a_plan_with_other_numbers_is_the_one_that_would_be_made_anew():
    for loss in (losses.Hinge(), losses.Squared()):
        plan = Plan(loss, schedules.Bottou(), 1e-4)
        for changed, anew in (
            (plan.with_first_step(0.5), dataclasses.replace(plan, t0=1.0 / (0.5 * 1e-4))),
            (plan.with_intercept_step(8.0), dataclasses.replace(plan, intercept_step=8.0)),
        ):
            assert vars(changed) == vars(anew) != vars(plan)


def test_the_intercept_steps_further_for_a_rare_class():
    assert first_step.with_intercept_step(PLAN, [10, 10]).intercept_step == 1.0
    assert first_step.with_intercept_step(PLAN, [1, 63]).intercept_step == 32.0
    assert first_step.with_intercept_step(PLAN, [63, 1]).intercept_step == 32.0
    assert first_step.with_intercept_step(PLAN, [1, 10**6]).intercept_step == 64.0
    assert first_step.with_intercept_step(PLAN, [10, 10, 10]).intercept_step == 1.0
    assert first_step.with_intercept_step(PLAN, [6, 15, 3]).intercept_step == 2.0
    assert first_step.with_intercept_step(PLAN, [1, 999, 999]).intercept_step == 16.0
    given = dataclasses.replace(PLAN, schedule=schedules.Bottou(t0=3.0))
    assert first_step.with_intercept_step(given, [1, 63]).intercept_step == 1.0


def test_saved_models_keep_the_intercept_step(tmp_path):
    X, y, Xt, _ = rare_class(0, n=500)
    model = osvm.LinearClassifier(random_state=0, schedule="bottou").fit(X, y)
    assert model._plan.intercept_step > 1.0
    model.save(tmp_path / "m.osvm")
    again = osvm.load(tmp_path / "m.osvm")
    for one in (model, again):
        one.partial_fit(X, y)
    assert np.array_equal(model.decision_function(Xt), again.decision_function(Xt))


# -------------------------------------------------------------- nothing was learnt


@pytest.mark.parametrize("n", [60, 20_000])
def test_a_model_no_better_than_a_constant_warns(n):
    X = np.ones((n, 3))
    y = np.arange(n) % 4 == 0
    with pytest.warns(osvm.ConvergenceWarning, match="no better on its training rows"):
        osvm.LinearClassifier(random_state=0).fit(X, y)
    with pytest.warns(osvm.ConvergenceWarning, match="no better on its training rows"):
        osvm.LinearClassifier(random_state=0).fit(X, np.arange(n) % 5 // 2)
    with pytest.warns(osvm.ConvergenceWarning, match="loss"):
        osvm.LinearRegressor(losses.EpsilonInsensitive(epsilon=0.0), random_state=0).fit(
            X, 1.0 * y
        )


def test_good_fits_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error", osvm.ConvergenceWarning)
        for seed in range(5):
            X, y, *_ = rare_class(seed, share=0.01)
            for average in (False, True):
                osvm.LinearClassifier(random_state=seed, average=average).fit(X, y)
                osvm.LinearRegressor(random_state=seed, average=average).fit(*line(seed))
            osvm.LinearClassifier(random_state=seed, class_weight="balanced").fit(X, y)
            osvm.LinearClassifier(random_state=seed).fit(*sentences([[0, 1], [2, 1], [3, 1]]))
            osvm.LinearNovelty(random_state=seed).fit(X)
