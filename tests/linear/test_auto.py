"""Settings that compete: against their equations, however a stream is cut, and what falls back."""

import itertools
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import reference_adaptive as reference
import scipy.sparse as sp

import osvm
from osvm._input.rows import RowSource
from osvm.linear.first_step import competing
from osvm.linear.plan import resolve_plan
from osvm.linear.training import Examples
from osvm.schedules import JOINT, OF_FIT, OF_WIDE, Auto, Bottou, CoinBetting


def make_problem(n=700, d=8, K=2, seed=0, scales=True, rare=False):
    """Normal columns of several sizes, with zeros; `rare`: the last class comes seldom."""
    rng = np.random.default_rng(seed)
    units = np.geomspace(0.1, 30.0, d) if scales else np.ones(d)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)
    scores = X @ rng.standard_normal((d, K)) + 0.5 * rng.standard_normal((n, K))
    scores[:, -1] -= 2.5 * rare * scores.std()
    return X * units, np.argmax(scores, axis=1)


def assert_same_state(one, two):
    (scalars, arrays), (others, other_arrays) = (m._learner.get_state() for m in (one, two))
    assert scalars == others
    assert arrays.keys() == other_arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, other_arrays[name], err_msg=name)


# pairwise covering of the choices; the other cases, which add triples only, are slow
COVERING = [
    (2, False, False, False),
    (2, True, True, True),
    (3, True, False, True),
    (3, False, True, False),
    (2, False, True, True),
    (3, True, True, False),
]
CHOICES = [
    case if case in COVERING else pytest.param(*case, marks=pytest.mark.slow)
    for case in itertools.product([2, 3], *[[False, True]] * 3)
]


@pytest.mark.parametrize(("K", "scales", "weighted", "rare"), CHOICES)
def test_competition_follows_the_equations(K, scales, weighted, rare):
    n = 600 if rare else 1050
    X, y = make_problem(n, K=K, scales=scales, seed=3, rare=rare)
    assert (0 < np.bincount(y).min() < np.bincount(y).max() / 16) == rare
    weight = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 3.0], n) if weighted else None
    model = osvm.LinearClassifier()
    naive = reference.Auto(8, 1 if K == 2 else K, Auto().decay)
    for i in range(n):
        part = slice(i, i + 1)
        model.partial_fit(
            sp.csr_matrix(X[part]), y[part], classes=range(K) if i == 0 else None,
            sample_weight=None if weight is None else weight[part],
        )  # fmt: skip
        target = (1 if y[i] else -1) if K == 2 else y[i]
        naive.learn(X[i], target, 1.0 if weight is None else weight[i])
        learner = model._learner
        alive = sum(1 << g for g, one in enumerate(naive.alive) if one is not None)
        assert (learner.alive, learner.chosen) == (alive, naive.chosen), i
        assert learner.error_sum == naive.errors
        kept = np.isfinite(naive.E)
        np.testing.assert_allclose(learner.figures[kept], naive.E[kept], rtol=1e-12)
        W = naive.weights()
        np.testing.assert_allclose(model.coef_, W[:, :-1], rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(model.intercept_, W[:, -1], rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(learner.class_weights, [naive.came, naive.found])
    if scales and not weighted and not rare:
        assert learner.alive != 0b11111  # some were dropped, or the test shows little


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [2, 4])
def test_cuts_of_a_stream_do_not_matter(K, dtype):
    X, y = make_problem(1100, K=K)
    X, rng, columns = X.astype(dtype), np.random.default_rng(0), np.arange(8)
    whole = osvm.LinearClassifier().partial_fit(X, y, classes=range(K))
    cut, at = osvm.LinearClassifier(), 0
    while at < len(y):
        stop = at + int(rng.integers(1, 120))
        cut.partial_fit(X[at:stop], y[at:stop], classes=range(K))
        cut, at = pickle.loads(pickle.dumps(cut)), stop
    single = osvm.LinearClassifier().partial_fit(X[:1], y[:1], classes=range(K))
    for x, label in zip(X[1:], y[1:]):
        single.learn_one(columns, x, label)
    assert whole._learner.alive != 0b11111
    assert_same_state(whole, cut)
    assert_same_state(whole, single)
    answers = [single.predict_one(columns, x) for x in X]
    np.testing.assert_array_equal(whole.predict(X), answers)
    np.testing.assert_allclose(
        whole.decision_function(X[:9]), osvm.LinearClassifier.decision_function(whole, X)[:9]
    )


def test_dropped_candidates_leave_smaller_files_that_go_on(tmp_path):
    X, y = make_problem(1500)
    model = osvm.LinearClassifier().partial_fit(X[:200], y[:200])
    early = len(pickle.dumps(model))
    model.partial_fit(X[200:1100], y[200:1100])
    assert len(pickle.dumps(model)) < early
    model.save(tmp_path / "model.osvm")
    again = osvm.load(tmp_path / "model.osvm")
    assert_same_state(model, again)
    for one in (model, again):
        one.partial_fit(X[1100:], y[1100:])
    assert_same_state(model, again)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="tells what memory is held")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dropped_settings_give_their_memory_back(dtype):
    def held():
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE")

    plan = resolve_plan(osvm.LinearClassifier(), None)
    learner = plan.learner(300_000, 1, dtype)
    learner.cells[:] = np.arange(21, dtype=dtype)
    size, before = learner.cells.nbytes, held()
    learner.keep(0b01010)
    after = held()
    np.testing.assert_array_equal(
        learner.cells, np.tile([0, 2, 4, 7, 9, 12, 14, 17, 19], (300_000, 1))
    )
    assert learner.cells.nbytes == size * 9 // 21
    assert before - after > 0.4 * size
    learner.keep(0b00010)
    np.testing.assert_array_equal(learner.cells, np.tile([2, 7, 12, 17], (300_000, 1)))


def test_a_saved_state_that_does_not_fit_is_refused():
    X, y = make_problem(1100)
    model = osvm.LinearClassifier().partial_fit(X, y)
    scalars, arrays = model._learner.get_state()
    fresh = model._plan.learner(8, 1, np.float64)
    for changed in ({"alive": 0}, {"alive": 32}, {"alive": True}, {"alive": 1.0}, {"chosen": 8}):
        with pytest.raises(ValueError, match="saved"):
            fresh.set_state(scalars | changed, arrays)
    dropped = next(g for g in range(4) if not scalars["alive"] >> g & 1)
    with pytest.raises(ValueError, match="saved"):
        fresh.set_state(scalars | {"chosen": (0, 2, 4, 5)[dropped]}, arrays)
    with pytest.raises(ValueError, match="saved"):
        fresh.set_state(scalars | {"alive": 31}, arrays)
    assert fresh.seen == 0
    fresh.set_state(scalars, arrays)


def test_a_failed_block_changes_nothing():
    X, y = make_problem(400)
    model = osvm.LinearClassifier().partial_fit(X[:200], y[:200])
    before = pickle.loads(pickle.dumps(model))
    bad = X[200:].copy()
    bad[-1] = 1e180 * np.where(y[-1], -1.0, 1.0) * np.sign(model.coef_[0])
    with pytest.raises(FloatingPointError):
        model.partial_fit(bad, y[200:])
    assert_same_state(model, before)


@pytest.mark.parametrize("known", [1, 2, 3])
def test_labels_may_come_late(known):
    ahead = []
    for seed in range(4):
        X, y = make_problem(1600, K=4, scales=False, seed=seed)
        few = y[:500] < known
        model = osvm.LinearClassifier().partial_fit(X[:500][few], y[:500][few])
        model.partial_fit(X[500:], y[500:])
        assert sorted(model.classes_.tolist()) == [0, 1, 2, 3]
        assert model.coef_.shape == (4, 8)
        informed = osvm.LinearClassifier().partial_fit(X[500:], y[500:])
        ahead.append(model.score(X, y) - informed.score(X, y))
    assert np.mean(ahead) > -0.015
    assert min(ahead) > -0.05


def test_fit_goes_on_with_the_best_setting_alone():
    X, y = make_problem(1000, seed=2)
    model = osvm.LinearClassifier(epochs=1, shuffle=False).fit(X, y)
    stream = model._plan.learner(8, 1, np.float64, alive=OF_FIT)
    stream.decay = 1.0
    stream.run(RowSource.dense(X), np.where(y, 1.0, -1.0))
    np.testing.assert_array_equal(model.coef_[0], stream.weights.array(True))
    assert model._learner.alive.bit_count() == 1
    assert model.n_iter_ == 1
    # several epochs: the average of the last half of them
    model = osvm.LinearClassifier(epochs=3, shuffle=False).fit(X, y)
    group = next(g for g in range(5) if model._learner.alive >> g & 1)
    settings = [{"eta0": 0.5}, {"eta0": 0.1}, {"eta0": 2.0, "normalized": True},
                {"eta0": 10.0, "normalized": True, "implicit": False}]  # fmt: skip
    naive = reference.Adaptive("hinge", 8, tail=False, average_from=1000, **settings[group])
    assert y[:11].tolist() == [1] * 10 + [0]  # a class that is rare when it first comes
    for epoch in range(3):
        for n in range(1000):
            naive.learn(X[n], 1 if y[n] else -1, 3.0 if (epoch, n) == (0, 10) else 1.0)
    np.testing.assert_allclose(model.coef_, naive.average()[:, :-1], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.last_coef_, naive.weights()[:, :-1], rtol=1e-8, atol=1e-10)
    # and on in a stream, from a file as from memory
    again = pickle.loads(pickle.dumps(model))
    for one in (model, again):
        one.partial_fit(X, y)
    assert_same_state(model, again)
    assert osvm.LinearClassifier(random_state=0).fit(X, y).n_iter_ == 16
    model = osvm.LinearClassifier(random_state=0).fit(np.tile(X, (12, 1)), np.tile(y, 12))
    assert model.n_iter_ == 2


def f1_of(answer, truth):
    """Of class 1."""
    return 2.0 * np.sum(answer & truth) / max(1, np.sum(answer) + np.sum(truth))


def unit_rows(X):
    return (sp.diags(1.0 / np.sqrt(X.multiply(X).sum(axis=1)).A1) @ X).tocsr()


def make_wide_rare(n, seed, d=20_000, count=40):
    """Sparse rows, most of whose columns come once or twice; 5 % are of class 1."""
    rng = np.random.default_rng(seed)
    m, k = n + 2000, count // 2
    columns = [rng.integers(0, 2000, (m, k)), rng.integers(0, d, (m, count - k))]
    values = np.abs(rng.normal(size=m * count))
    ends = np.arange(0, m * count + 1, count)
    X = sp.csr_matrix((values, np.hstack(columns).ravel(), ends), (m, d))
    w = np.zeros(d)
    w[rng.permutation(2000)[:100]] = rng.normal(size=100)
    score = X @ w
    y = (score > np.quantile(score, 0.95)).astype(int)
    return X[:n], y[:n], X[n:], y[n:]


@pytest.mark.parametrize(("n", "norm"), [(4000, False), (1500, True)])
def test_a_rare_class_of_more_columns_than_rows_is_found(n, norm):
    found = []
    for seed in range(2):
        X, y, X_test, y_test = make_wide_rare(n, seed)
        if norm:  # as tf-idf has them
            X, X_test = (unit_rows(rows) for rows in (X, X_test))
        model = osvm.LinearClassifier(random_state=0).fit(X, y)
        assert model.schedule_ == CoinBetting()
        found.append(f1_of(model.predict(X_test), y_test))
    assert np.mean(found) > (0.3 if norm else 0.45)  # 0 and .12 with steps that shrink
    assert osvm.LinearClassifier(reg=1e-4).fit(X, y).schedule_ == Bottou()
    # and on in a stream, from a file as from memory, with a new label
    again = pickle.loads(pickle.dumps(model))
    for one in (model, again):
        one.partial_fit(X[:300], y[:300]).partial_fit(X[300:400], np.where(y[300:400], 1, 2))
    assert_same_state(model, again)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.set_params(reg=1e-3).partial_fit(X[:9], y[:9]).schedule_ == Bottou()


@pytest.mark.parametrize("K", [2, 3])
def test_averages_of_a_fit_begin_where_those_of_a_stream_would(K):
    X, y = make_problem(1024, K=K, seed=5)
    rows = RowSource.dense(X)
    targets = 2.0 * y - 1.0 if K == 2 else y.astype(np.int32)
    plan = resolve_plan(osvm.LinearClassifier(), None)
    fit, stream = (plan.learner(8, 1 if K == 2 else K, np.float64, alive=OF_FIT) for _ in range(2))
    for learner in (fit, stream):
        learner.decay = 1.0
    fit.compete(1024)
    fit.run(rows, targets, None, 0, 1023)
    stream.run(rows, targets, None, 0, 512)
    stream.figures[:] = 0.0
    stream.run(rows, targets, None, 512, 1023)
    np.testing.assert_array_equal(fit.figures, stream.figures)
    assert fit.chosen == stream.chosen
    assert len(set(fit.figures)) > 2
    np.testing.assert_array_equal(fit.weight_array(True), stream.weight_array(True))
    fit.run(rows, targets, None, 1023, 1024)
    assert fit.alive.bit_count() == 1
    assert not fit.judging


def test_a_setting_without_a_rival_does_not_compete():
    learner = resolve_plan(osvm.LinearClassifier(), None).learner(8, 1, np.float64, alive=1)
    learner.compete(1024)
    assert not learner.judging
    assert learner.averaged_count == 0


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (None, OF_WIDE),
        ("short", OF_FIT),
        ("long", OF_FIT),
        ("one column", OF_FIT),
        ("many columns", OF_FIT),
        ("dense", OF_FIT),
        ("rows", OF_FIT),
        ("empty", OF_FIT),
    ],
)
def test_columns_in_odd_units_keep_the_normalized_setting(change, expected):
    n, d = (1200, 600) if change == "rows" else (600, 1200)
    rng = np.random.default_rng(0)
    X = sp.random(n, d, 0.02, format="csr", random_state=0)
    X.data[:] = rng.uniform(0.2, 1.0, len(X.data))
    if change in ("short", "long"):
        X.data *= 1e-2 if change == "short" else 1e3
    elif change == "one column":
        X.data[X.indices == X.indices[0]] *= 100.0
    elif change == "many columns":
        X.data[X.indices < d // 4] /= 100.0
    elif change == "empty":
        X = sp.csr_matrix((n, d))
    rows = RowSource.csr(X.data, X.indices, X.indptr, d)
    if change == "dense":
        rows = RowSource.dense(X.toarray())
    y = rng.integers(2, size=n)
    plan = resolve_plan(osvm.LinearClassifier(), None)
    assert competing(plan, Examples(rows, 2.0 * y - 1.0)) == expected
    joint = JOINT if expected == OF_FIT else 0
    assert competing(plan, Examples(rows, y)) == expected | joint  # codes of several classes


@pytest.mark.parametrize("unit", [1e-3, 1.0])
def test_fit_learns_wide_rows_in_any_unit(unit):
    X, y, X_test, y_test = osvm.datasets.make_rcv1_like(2000, 1000, random_state=0)
    model = osvm.LinearClassifier(random_state=0).fit(unit * X, y)
    assert model.score(unit * X_test, y_test) > 0.8
    assert (model._learner.alive & OF_WIDE == 0) == (unit < 1.0)


def test_fit_decides_after_the_first_rows(monkeypatch):
    monkeypatch.setattr("osvm.linear.training.DECIDED_AT", 400)
    X, y = make_problem(700, seed=2)
    model = osvm.LinearClassifier(epochs=2, shuffle=False).fit(X, y)
    naive = reference.Auto(8, 1, 1.0, alive=OF_FIT)
    for n in range(400):
        if n == 200:
            naive.E *= 0.0  # those of the second half decide
        naive.learn(X[n], 1 if y[n] else -1, 1.0)
    group = naive.PREDICTORS[naive.chosen][0]
    assert model._learner.alive == 1 << group
    best = naive.alive[group]
    for n in [*range(400, 700), *range(700)]:
        best.learn(X[n], 1 if y[n] else -1)
    W = best.weights()
    np.testing.assert_allclose(model.last_coef_, W[:, :-1], rtol=1e-7, atol=1e-9)


def test_fit_ends_where_no_row_has_a_loss():
    X = np.linspace(-1.0, 1.0, 600)[:, None]
    X = X[np.abs(X[:, 0]) > 0.2]
    y = (X[:, 0] > 0).astype(int)
    X = np.hstack([X, 1000.0 * X])  # not for `osvm.linear.few_rows`
    model = osvm.LinearClassifier(random_state=0).fit(X, y)
    assert model.n_iter_ < 42  # 20,000 visits
    assert model.score(X, y) == 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_few_rows_get_the_optimum(K, dtype, weighted):
    X, y = make_problem(200, K=K, scales=False)
    X = X.astype(dtype)
    weight = np.random.default_rng(0).choice([0.5, 1.0, 3.0], 200) if weighted else None
    model = osvm.LinearClassifier(random_state=0).fit(X, y, sample_weight=weight)
    assert model.n_iter_ == 1
    for words in ({"record": True}, {"verbose": True}):  # looking on changes nothing
        seen = osvm.LinearClassifier(random_state=0, **words).fit(X, y, sample_weight=weight)
        np.testing.assert_array_equal(seen.coef_, model.coef_)

    def objective(W, b):
        signs = np.where(np.arange(len(W)) == y[:, None], 1, -1) if K > 2 else 2 * y[:, None] - 1
        loss = np.maximum(0.0, 1.0 - signs * (X @ W.T + b)) ** 2
        c = 1.0 if weight is None else weight[:, None]
        return 0.5 * (W**2).sum(1) + 0.5 * b**2 + (c * loss).sum(0)

    from scipy.optimize import minimize

    found = objective(model.coef_, model.intercept_)
    for k in range(len(found)):

        def one(w, k=k):
            W, b = np.array(model.coef_, np.float64), np.array(model.intercept_, np.float64)
            W[k], b[k] = w[:-1], w[-1]
            return objective(W, b)[k]

        least = minimize(one, np.zeros(9), method="BFGS").fun
        assert least - 1e-6 <= found[k] <= 1.003 * least
    # and it learns on
    again = pickle.loads(pickle.dumps(model))
    for other in (model, again):
        other.partial_fit(X, y)
    assert_same_state(model, again)
    assert model.score(X, y) > 0.6
    for words in ({"epochs": 3}, {"callback": lambda *_: None}):
        passes = osvm.LinearClassifier(random_state=0, **words).fit(X, y)
        assert passes.n_iter_ > 1


@pytest.mark.parametrize(
    "words",
    [
        {"reg": 1e-4},
        {"C": 1.0},
        {"average": True},
        {"project": True, "reg": 1e-3},
        {"batch_size": 4},
        {"tol": 1e-3},
        {"loss": "perceptron"},
    ],
)
def test_what_it_does_not_go_with_is_learnt_by_bottou(words):
    X, y = make_problem(300, scales=False)
    auto = osvm.LinearClassifier(random_state=0, **words).fit(X, y)
    words = {"epochs": 5, **words}
    plain = osvm.LinearClassifier(schedule="bottou", random_state=0, **words).fit(X, y)
    assert isinstance(auto.schedule_, Bottou)
    np.testing.assert_array_equal(auto.coef_, plain.coef_)
    assert_same_state(auto, plain)


LOSSES = ["hinge", "logistic", "squared_hinge", "modified_huber", "softmax", "multiclass_hinge"]


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("loss", LOSSES)
def test_settings_compete_whatever_the_loss_is(loss, K):
    X, y = make_problem(300, K=K, seed=3)
    model = osvm.LinearClassifier(loss).partial_fit(X, y, classes=range(K))
    assert isinstance(model.schedule_, Auto)
    joint = osvm.losses.get(loss).multi
    naive = reference.Auto(8, K if K > 2 or joint else 1, Auto().decay, loss=loss)
    for x, label in zip(X, y):
        naive.learn(x, label if K > 2 or joint else 2 * label - 1)
    learner = model._learner
    assert learner.chosen == naive.chosen
    assert learner.error_sum == naive.errors
    W = naive.weights()
    np.testing.assert_allclose(np.atleast_2d(learner.weight_array(True)), W[:, :-1], rtol=1e-7)
    np.testing.assert_allclose(learner.offset_array(True), W[:, -1], rtol=1e-7, atol=1e-9)


def many_classes(n, K=25, d=6, seed=0):
    """Nearest of K points: no class is on one side of a plane."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    centers = rng.standard_normal((K, d))
    return X, np.argmin(((X[:, None] - centers) ** 2).sum(2), axis=1)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_many_classes_in_few_columns_are_learnt_jointly(n_jobs, tmp_path):
    X, y = many_classes(6000)
    train, test = slice(4000), slice(4000, None)
    for learn in ("fit", "partial_fit"):
        model = osvm.LinearClassifier(random_state=0, n_jobs=n_jobs)
        getattr(model, learn)(X[train], y[train])
        one_vs_rest = osvm.LinearClassifier("hinge", random_state=0)
        getattr(one_vs_rest, learn)(X[train], y[train])
        assert model.loss_ == osvm.losses.MulticlassHinge()
        assert one_vs_rest.loss_ == osvm.losses.Hinge()
        assert model.score(X[test], y[test]) > one_vs_rest.score(X[test], y[test]) + 0.05
        model.save(tmp_path / "model")
        for again in (osvm.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
            assert again.loss_ == model.loss_
            again.partial_fit(X[test], y[test])
            np.testing.assert_array_equal(
                again.coef_, osvm.load(tmp_path / "model").partial_fit(X[test], y[test]).coef_
            )


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_classes_in_order_are_learnt_jointly(kind):
    """The middle classes are on neither side of a plane: one-vs-rest was 11 points behind."""
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(2, 2, size=64), size=(4000, 64)).astype(float)
    sums = X @ rng.normal(size=64)
    y = np.digitize(sums, np.quantile(sums, [0.25, 0.5, 0.75]))
    X, train, test = kind(X), slice(2700), slice(2700, None)
    model = osvm.LinearClassifier(random_state=0).fit(X[train], y[train])
    one_vs_rest = osvm.LinearClassifier("hinge", random_state=0).fit(X[train], y[train])
    assert model.loss_ == osvm.losses.MulticlassHinge()
    assert model.score(X[test], y[test]) > one_vs_rest.score(X[test], y[test]) + 0.08
    assert model.score(X[test], y[test]) > 0.84


def test_as_many_classes_as_columns_are_learnt_jointly(tmp_path):
    """One-vs-rest led after one pass, and lost 4 points to LinearSVC in the end."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5000, 40))
    y = (0.9 * X @ rng.normal(size=(40, 40)) + rng.gumbel(size=(5000, 40))).argmax(axis=1)
    model = osvm.LinearClassifier(random_state=0).fit(X[:3500], y[:3500])
    assert model.loss_ == osvm.losses.MulticlassHinge()
    svc = osvm.LinearSVC(random_state=0).fit(X[:3500], y[:3500])
    assert model.score(X[3500:], y[3500:]) > svc.score(X[3500:], y[3500:]) - 0.01
    model.save(tmp_path / "model")
    for again in (osvm.load(tmp_path / "model"), model):
        assert again.loss_ == osvm.losses.MulticlassHinge()
        again.set_params(epochs=3)  # parameters that change do not change what was decided
        again.partial_fit(X[3500:], y[3500:])
        assert again.loss_ == osvm.losses.MulticlassHinge()


def test_classes_that_are_learnt_jointly_one_by_one_and_merged():
    X, y = many_classes(3000)
    whole = osvm.LinearClassifier().partial_fit(X, y, classes=range(25))
    single = osvm.LinearClassifier().partial_fit(X[:1], y[:1], classes=range(25))
    columns = np.arange(X.shape[1])
    for x, label in zip(X[1:], y[1:]):
        single.learn_one(columns, x, label)
    assert_same_state(whole, single)
    parts = [
        osvm.LinearClassifier().partial_fit(X[k::2], y[k::2], classes=range(25)) for k in (0, 1)
    ]
    merged = osvm.merge(parts)
    assert merged.loss_ == parts[0].loss_ == osvm.losses.MulticlassHinge()
    assert merged.score(X, y) > min(part.score(X, y) for part in parts) - 0.02
    # another loss from here on
    whole.set_params(loss="hinge").partial_fit(X[:10], y[:10])
    assert whole.loss_ == osvm.losses.Hinge()
    other = osvm.LinearClassifier("hinge").partial_fit(X, y, classes=range(25))
    assert other.loss_ == osvm.losses.Hinge()
    with pytest.raises(ValueError, match="loss="):
        osvm.merge([parts[0], other])


def test_a_fit_decides_between_losses(monkeypatch):
    """As test_fit_decides_after_the_first_rows, of several classes."""
    monkeypatch.setattr("osvm.linear.training.DECIDED_AT", 400)
    monkeypatch.setattr("osvm.linear.plan.FEW_COLUMNS", 0)  # columns are many enough to compete
    X, y = many_classes(700, K=9, d=4)  # without ties of scores, which rounding would break
    model = osvm.LinearClassifier(epochs=2, shuffle=False).fit(X, y)
    naive = reference.Auto(4, 9, 1.0, alive=OF_FIT | JOINT)
    for n in range(400):
        if n == 200:
            naive.E *= 0.0
        naive.learn(X[n], y[n])
    group = naive.PREDICTORS[naive.chosen][0]
    assert model._learner.alive == 1 << group == JOINT
    for n in [*range(400, 700), *range(700)]:
        naive.alive[group].learn(X[n], y[n])
    W = naive.alive[group].weights()
    np.testing.assert_allclose(model.last_coef_, W[:, :-1], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(model._learner.offset_array(False), W[:, -1], atol=1e-10)


def test_few_rows_of_another_loss_are_passed_over():
    """The optimum of the squared hinge is no model of probabilities."""
    X, y = make_problem(120, scales=False)
    model = osvm.LinearClassifier("logistic", random_state=0).fit(X, y)
    assert isinstance(model.schedule_, Auto)
    assert model.n_iter_ > 1
    p = model.predict_proba(X)[:, 1]
    assert abs(p.mean() - y.mean()) < 0.1


def test_many_columns_a_row_are_learnt_by_the_first_setting():
    X, y = make_problem(600, scales=False)
    X *= np.random.default_rng(0).lognormal(0.0, 1.0, (600, 1))
    wide = sp.csr_matrix(np.hstack([X, np.zeros((600, 31_000))]))
    model = osvm.LinearClassifier(random_state=0).fit(wide, y)
    assert isinstance(model._plan.schedule, Auto)
    assert model._learner.alive == 1
    assert model.score(wide, y) > 0.85
    alike = osvm.LinearClassifier(random_state=0, normalize=True).fit(wide, y)
    assert isinstance(alike._plan.schedule, Bottou)


def test_many_weights_have_fewer_settings(monkeypatch):
    most = ((0b11111, 1000), (0b01001, 1000), (0b00001, 1500))
    monkeypatch.setattr("osvm.linear.plan.MOST_NUMBERS", most)
    rng = np.random.default_rng(0)
    for d, alive in ((40, 31), (100, 9), (250, 1), (350, 0)):
        X = rng.standard_normal((300, d))
        y = (X[:, 0] > 0).astype(int)
        model = osvm.LinearClassifier().partial_fit(X[:200], y[:200])
        assert getattr(model._learner, "alive", 0) == alive
        assert isinstance(model._plan.schedule, Auto if alive else Bottou)
        again = pickle.loads(pickle.dumps(model))
        assert_same_state(model, again)
        model.partial_fit(X[200:], np.where(y[200:], 1, 2))  # three labels: more of everything
        assert model.coef_.shape == (3, d)
        if alive:
            assert model._learner.alive.bit_count() == 1
        model = osvm.LinearClassifier(epochs=1).fit(X, y)
        assert isinstance(model._plan.schedule, Auto if alive else Bottou)


def test_parameters_that_change_in_mid_stream():
    X, y = make_problem(600, scales=False)
    model = osvm.LinearClassifier().partial_fit(X, y)
    coef, b = model.coef_, model.intercept_
    model.set_params(reg=1e-6).partial_fit(X[:1], y[:1])
    assert isinstance(model._plan.schedule, Bottou)
    assert np.linalg.norm(model.coef_ - coef) < 0.2 * np.linalg.norm(coef)
    assert abs(model.intercept_ - b) < 0.2 * np.linalg.norm(coef)
    assert model.t_ == 601


def test_merged_models_are_judged_on():
    X, y = make_problem(900, K=3, scales=False)
    parts = [osvm.LinearClassifier().partial_fit(X[k::3], y[k::3]) for k in range(3)]
    merged = osvm.merge(parts)
    assert merged.t_ == 900
    assert isinstance(merged.schedule_, Auto)
    assert merged.partial_fit(X, y).score(X, y) > 0.6
    base = osvm.LinearClassifier().partial_fit(X[:300], y[:300])
    went_on = [pickle.loads(pickle.dumps(base)).partial_fit(X[300:], y[300:]) for _ in range(2)]
    merged = osvm.merge(went_on, base)
    assert merged.t_ == 1500
    np.testing.assert_allclose(merged.last_coef_, went_on[0].last_coef_)


def test_probabilities_and_class_weights():
    X, y = make_problem(1500, scales=False)
    keep = (y == 0) | (np.arange(1500) % 12 == 0)
    X, y = X[keep], y[keep]
    model = osvm.LinearClassifier(probability=True, random_state=0).fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert abs(p[:, 1].mean() - np.mean(y)) < 0.05
    shares = [
        osvm.LinearClassifier(random_state=0, class_weight=w).fit(X, y).predict(X).mean()
        for w in (None, "balanced")
    ]
    assert shares[1] > shares[0]
    plain = osvm.LinearClassifier().partial_fit(X, y, sample_weight=np.where(y, 10.0, 1.0))
    weighed = osvm.LinearClassifier(class_weight={0: 1.0, 1: 10.0}).partial_fit(X, y)
    assert_same_state(plain, weighed)


def test_drift_is_followed_as_by_meta_descent():
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((12000, 20)), rng.standard_normal((4, 20))
    y = (np.einsum("ij,ij->i", X, np.repeat(W, 3000, axis=0)) > 0).astype(int)
    errors = [
        osvm.LinearClassifier(schedule=step).partial_fit(X, y)._learner.error_sum / len(y)
        for step in ("auto", "smd")
    ]
    assert errors[0] < errors[1] + 0.005


def test_a_setting_that_begins_slowly_is_not_dropped():
    X, y, X_test, y_test = osvm.datasets.make_rcv1_like(40_000, 10_000, random_state=0)
    p = np.random.default_rng(0).permutation(len(y))
    X, y = X[p], y[p]
    slow = osvm.LinearClassifier(schedule=osvm.schedules.Adaptive(eta0=0.1), random_state=0)
    least = slow.partial_fit(X, y).score(X_test, y_test) - 0.005
    assert osvm.LinearClassifier(random_state=0).partial_fit(X, y).score(X_test, y_test) > least
    assert osvm.LinearClassifier(random_state=0).fit(X, y).score(X_test, y_test) > least
