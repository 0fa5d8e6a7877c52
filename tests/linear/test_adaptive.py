"""Adaptive, implicit steps: every form against its equations, numerics, state."""

import gc

import numpy as np
import pytest
import reference_adaptive as reference
import scipy.sparse as sp

import osvm
from osvm import losses, schedules
from osvm._input.rows import RowSource
from osvm.linear.adaptive_state import AdaptiveLearner

BINARY = ["hinge", "squared_hinge", "perceptron", "logistic", "modified_huber"]
NUMBERS = ["epsilon_insensitive", "huber", "squared"]
FORMS = {
    "plain": {},
    "shrinking": {"reg": 0.01},
    "mirror": {"reg": 0.01, "mirror": True},
    "normalized": {"normalized": True},
    "normalized mirror": {"normalized": True, "mirror": True, "reg": 0.01},
    "normalized shrinking forgetting": {"normalized": True, "reg": 0.01, "forget": 0.9},
    "forgetting": {"forget": 0.95},
    "explicit": {"implicit": False},
    "normalized explicit": {"normalized": True, "implicit": False},
    "whole average": {"tail": False},
    "late average": {"average_from": 30},
}


def make_rows(n=150, d=12, seed=0, scales=True):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.4)
    if scales:
        X *= 10.0 ** rng.integers(-1, 2, d)
    return X


def make_learner(loss, d, K=1, *, dtype=np.float64, offset=True, average_from=0, error="class",
                 reg=0.0, coin=None, **words):  # fmt: skip
    part = schedules.CoinBetting(coin) if coin is not None else schedules.Adaptive(**words)
    return AdaptiveLearner(d, K, dtype, losses.get(loss).spec(), part.spec(reg=reg, eta0=0.5),
                           average_from=average_from, fit_intercept=offset,
                           error_kind=error)  # fmt: skip


def follow(learner, naive, X, y, weight=None, *, sparse=True, rtol=1e-10):
    """The learner and the reference, example by example."""
    K = learner.n_out
    rows = sp.csr_matrix(X) if sparse else X
    source = RowSource.csr(rows.data, rows.indices, rows.indptr, X.shape[1]) if sparse \
        else RowSource.dense(rows)  # fmt: skip
    targets = np.asarray(y, float if K == 1 else np.int32)
    for i in range(len(X)):
        scores = np.empty((len(X), K))
        learner.decide(source, scores, False, i, i + 1)
        learner.run(source, targets, None, i, i + 1, weight)
        f = naive.learn(X[i], y[i], 1.0 if weight is None else weight[i])
        if not naive.normalized:  # whose weights may change before the score
            np.testing.assert_allclose(scores[i], f, rtol=rtol, atol=1e-11)
        w = np.atleast_2d(learner.weights.array())
        expected = naive.weights()
        np.testing.assert_allclose(w, expected[:, :-1], rtol=rtol, atol=1e-12)
        np.testing.assert_allclose(learner.intercept, expected[:, -1], rtol=rtol, atol=1e-12)
        if naive.past:
            mean = naive.average()
            w = np.atleast_2d(learner.weights.array(averaged=True))
            np.testing.assert_allclose(w, mean[:, :-1], rtol=1e-9, atol=1e-10)
            np.testing.assert_allclose(learner.average_intercept(), mean[:, -1], rtol=1e-9,
                                       atol=1e-10)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", BINARY)
def test_one_output_follows_the_equations(loss, form):
    X, words = make_rows(), FORMS[form]
    y = np.where(X @ np.arange(12) + 0.3 > 0, 1.0, -1.0)
    y[::7] *= -1
    follow(make_learner(loss, 12, **words), reference.Adaptive(loss, 12, **words), X, y)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("loss", NUMBERS)
def test_numbers_follow_the_equations(loss, offset, form):
    X, words = make_rows(80), FORMS[form]
    y = 3 * X[:, 0] - X[:, 1] + 10 + np.random.default_rng(1).standard_normal(80)
    learner = make_learner(loss, 12, offset=offset, error="absolute", **words)
    naive = reference.Adaptive(loss, 12, offset=offset, numbers=True, **words)
    follow(learner, naive, X, y, rtol=1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", ["hinge", "logistic", "multiclass_hinge", "softmax"])
def test_columns_follow_the_equations(loss, form):
    X, words = make_rows(100), FORMS[form]
    y = np.argmax(X @ np.random.default_rng(2).standard_normal((12, 4)), axis=1)
    learner = make_learner(loss, 12, 4, **words)
    follow(learner, reference.Adaptive(loss, 12, 4, **words), X, y)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared_hinge"])
def test_weights_and_dense_rows_follow_the_equations(loss, sparse):
    X = make_rows(100)
    y = np.where(X @ np.arange(12) > 0, 1.0, -1.0)
    weight = np.random.default_rng(3).choice([0.0, 0.3, 1.0, 5.0], 100)
    follow(make_learner(loss, 12), reference.Adaptive(loss, 12), X, y, weight, sparse=sparse)


@pytest.mark.parametrize(("loss", "K"), [("hinge", 1), ("logistic", 1), ("hinge", 3)])
def test_coin_betting_follows_the_equations(loss, K):
    X = make_rows(100)
    y = np.where(X[:, 0] > X[:, 1], 1, 0)
    y = y + (X[:, 2] > 0) if K == 3 else 2.0 * y - 1
    follow(make_learner(loss, 12, K, coin=10.0), reference.Adaptive(loss, 12, K, coin=10.0), X, y)


def test_novelty_follows_the_equations():
    X = np.abs(make_rows(60))
    learner = make_learner("novelty", 12, offset=False, error="novel")
    follow(learner, reference.Adaptive("novelty", 12, offset=False), X, np.ones(60))


# ------------------------------------------------------------------ invariants


def source_of(X):
    X = sp.csr_matrix(X)
    return RowSource.csr(X.data, X.indices, X.indptr, X.shape[1])


def states_equal(one, two):
    (scalars, arrays), (other_scalars, other_arrays) = one.get_state(), two.get_state()
    assert scalars == other_scalars
    for name in arrays:
        np.testing.assert_array_equal(arrays[name], other_arrays[name])


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "modified_huber"])
def test_a_weight_is_the_limit_of_copies_with_the_same_rates(loss):
    # With rates that hardly change any more, c small steps are one step of weight c.
    X, y = np.array([[1.0, -2.0, 0.5]]), np.array([1.0])
    warm = np.repeat(np.diag([200.0, 200.0, 200.0]), 2, axis=0)
    signs = np.tile([1.0, -1.0], 3)

    def learner():
        made = make_learner("hinge", 3, offset=False, average_from=-1, eta0=0.05)
        made.run(source_of(warm), signs)  # roots are large now, weights small
        other = make_learner(loss, 3, offset=False, average_from=-1, eta0=0.05)
        other.set_state(*made.get_state())
        return other

    once, copies = learner(), learner()
    once.run(source_of(X), y, sample_weight=np.array([6.0]))
    parts = 600
    for _ in range(parts):
        copies.run(source_of(X), y, sample_weight=np.array([6.0 / parts]))
    before = learner().weights.array()
    np.testing.assert_allclose(
        copies.weights.array() - before, once.weights.array() - before, rtol=2e-2
    )


@pytest.mark.parametrize("loss", [*BINARY, *NUMBERS])
@pytest.mark.parametrize("eta0", [0.01, 1.0, 1e6])
def test_a_step_does_not_pass_its_example(loss, eta0):
    if loss == "perceptron":
        pytest.skip("its steps are plain")
    rng = np.random.default_rng(5)
    numbers = loss in NUMBERS
    learner = make_learner(loss, 8, eta0=eta0, error="absolute" if numbers else "class")
    part = losses.get(loss)
    for t in range(50):
        X = rng.standard_normal((1, 8)) * 10.0 ** rng.integers(-3, 3)
        y = rng.standard_normal(1) * 5 if numbers else rng.choice([-1.0, 1.0], 1)
        before, after = np.empty((2, 1, 1))
        learner.decide(source_of(X), before)
        learner.run(source_of(X), y)
        learner.decide(source_of(X), after)
        first = numbers and t == 0  # b starts at y
        slopes = part.dloss(y, before[:, 0]), part.dloss(y, after[:, 0])
        assert first or slopes[0] * slopes[1] >= -1e-9
        assert part.value(y, after[:, 0]) <= part.value(y, before[:, 0]) + 1e-12


@pytest.mark.parametrize("words", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(("loss", "K"), [("hinge", 1), ("softmax", 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_how_a_stream_is_cut_does_not_matter(loss, K, dtype, words):
    X = make_rows(300)
    y = np.argmax(X[:, :4], axis=1).astype(np.int32) if K > 1 else np.sign(X[:, 0] + 0.1)
    whole, parts = (make_learner(loss, 12, K, dtype=dtype, **words) for _ in range(2))
    whole.run(source_of(X), y)
    for start, stop in [(0, 1), (1, 64), (64, 65), (65, 129), (129, 300)]:
        parts.run(source_of(X), y, None, start, stop)
        parts = parts.copy()
    states_equal(whole, parts)
    order = np.arange(300)[::-1].astype(np.int64)
    whole, parts = (make_learner(loss, 12, K, dtype=dtype, **words) for _ in range(2))
    whole.run(source_of(X), y, order)
    parts.run(source_of(X[::-1]), np.ascontiguousarray(y[::-1]))
    states_equal(whole, parts)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_types_of_rows_and_weights(loss):
    X = make_rows(200, scales=False)
    y = np.where(X @ np.arange(12.0) > 0, 1.0, -1.0)
    exact = make_learner(loss, 12)
    exact.run(source_of(X), y)
    for value in (np.float32, np.float64):
        for index in (np.int32, np.int64):
            rows = sp.csr_matrix(X.astype(value))
            source = RowSource.csr(rows.data, rows.indices.astype(index),
                                   rows.indptr.astype(index), 12)  # fmt: skip
            for made in (source, RowSource.dense(X.astype(value)),
                         RowSource.dense(np.asfortranarray(X.astype(value)))):  # fmt: skip
                for dtype in (np.float32, np.float64):
                    learner = make_learner(loss, 12, dtype=dtype)
                    learner.run(made, y)
                    for averaged in (False, True):
                        w, expected = (m.weights.array(averaged) for m in (learner, exact))
                        np.testing.assert_allclose(w, expected, rtol=2e-3, atol=2e-3)


def test_repeated_columns_are_their_sum():
    indices, data = np.array([3, 1, 3, 0, 1]), np.array([1.0, 2.0, 0.5, -1.0, -2.0])
    split = RowSource.csr(data, indices, np.array([0, 5]), 4)
    joined = RowSource.csr(np.array([-1.0, 1.5]), np.array([0, 3]), np.array([0, 2]), 4)
    for words in FORMS.values():
        one, two = (make_learner("logistic", 4, **words) for _ in range(2))
        for _ in range(3):
            one.run(split, np.array([1.0]))
            two.run(joined, np.array([1.0]))
        np.testing.assert_allclose(one.weights.array(), two.weights.array(), rtol=1e-12)


@pytest.mark.parametrize(("loss", "K"), [("hinge", 1), ("hinge", 3), ("softmax", 3)])
def test_candidates_learn_as_if_alone(loss, K):
    X = make_rows(150)
    y = np.argmax(X[:, :3], axis=1).astype(np.int32) if K > 1 else np.sign(X[:, 0] + 0.1)
    parts = [
        schedules.Adaptive(0.5),
        schedules.Adaptive(2.0, normalized=True),
        schedules.Adaptive(1.0, mirror=True),
        schedules.CoinBetting(),
        schedules.Adaptive(0.1, forget=0.99),
    ]
    spec = losses.get(loss).spec()
    words = {"average_from": 0.0, "fit_intercept": True}
    steps = [part.spec(reg=0.01) for part in parts]
    many = AdaptiveLearner(12, K, np.float64, spec, steps, **words)
    many.run(source_of(X), y)
    for g, step in enumerate(steps):
        alone = AdaptiveLearner(12, K, np.float64, spec, step, **words)
        alone.run(source_of(X), y)
        taken = AdaptiveLearner(12, K, np.float64, spec, step, **words)
        taken.set_state(*many.candidate_state(g))
        for averaged in (False, True):
            np.testing.assert_allclose(
                taken.weights.array(averaged), alone.weights.array(averaged), rtol=1e-9,
                atol=1e-12,
            )  # fmt: skip
        assert taken.loss_sum == pytest.approx(alone.loss_sum)
        assert taken.error_sum == alone.error_sum
        np.testing.assert_allclose(taken.intercept, alone.intercept, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", NUMBERS)
def test_numbers_in_other_units_give_the_same_answers(loss):
    X = make_rows(200)
    y = X[:, 0] - 2 * X[:, 3] + np.random.default_rng(0).standard_normal(200)
    part = {
        "epsilon_insensitive": lambda s: losses.EpsilonInsensitive(0.1 * s),
        "huber": lambda s: losses.Huber(1.0 * s),
        "squared": lambda s: losses.Squared(),
    }[loss]
    plain = osvm.LinearRegressor(part(1.0), schedule="adaptive", reg=0.0).partial_fit(X, y)
    other = osvm.LinearRegressor(part(1e4), schedule="adaptive", reg=0.0)
    other.partial_fit(X, 1e4 * y + 3e6)
    np.testing.assert_allclose(other.predict(X), 1e4 * plain.predict(X) + 3e6, rtol=1e-6)


def test_a_failed_example_changes_nothing():
    X = make_rows(20)
    y = np.sign(X[:, 0] + 0.1)
    for words in FORMS.values():
        learner = make_learner("hinge", 12, **words)
        learner.run(source_of(X), y)
        large, failed = source_of(np.full((1, 12), 1e150)), 0
        for sign in (-1.0, 1.0):  # one of them is a violation
            tried = learner.copy()
            try:
                tried.run(large, np.array([sign]))
            except FloatingPointError:
                states_equal(learner, tried)
                failed += 1
        assert failed > 0
    model = osvm.LinearRegressor("squared", schedule="adaptive").partial_fit(X, y)
    before = model._learner.copy()
    with pytest.raises(FloatingPointError):
        model.partial_fit(np.vstack([X, np.full(12, 1e180)]), np.append(y, 1e140))
    states_equal(model._learner, before)


def test_a_late_label_is_learnt_at_full_rate():
    rng = np.random.default_rng(0)
    centers = 3 * rng.standard_normal((4, 10))
    codes = np.concatenate([rng.integers(0, 3, 3000), rng.integers(0, 4, 400)])
    X = centers[codes] + rng.standard_normal((len(codes), 10))
    model = osvm.LinearClassifier(schedule="adaptive", eta0=0.5, average=True)
    model.partial_fit(X[:10], codes[:10]).partial_fit(X[10:3000], codes[10:3000])
    model.partial_fit(X[3000:], codes[3000:])
    late = codes == 3
    assert model.score(X[late], codes[late]) > 0.8
    binary = osvm.LinearClassifier(schedule="adaptive")
    binary.partial_fit(X[codes < 2], codes[codes < 2])
    learner, rows = binary._learner, source_of(X)
    score, wide = np.empty((len(X), 1)), np.empty((len(X), 3))
    learner.decide(rows, score)
    learner.with_outputs(3).decide(rows, wide)
    np.testing.assert_allclose(
        wide, np.hstack([-score, score, np.zeros_like(score)]), rtol=1e-10, atol=1e-12
    )


def test_forgetting_follows_a_change():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, 10))
    w = rng.standard_normal(10)
    y = np.where(X @ w > 0, 1, -1) * np.where(np.arange(6000) < 4000, 1, -1)
    errors = {}
    for forget in (1.0, 0.95):
        part = schedules.Adaptive(0.1, forget=forget)
        model = osvm.LinearClassifier(schedule=part, record=True).partial_fit(X, y)
        counts = model.history_["error"] * np.arange(1, 6001)
        errors[forget] = counts[4500] - counts[3999]
    assert errors[0.95] < 0.7 * errors[1.0]


@pytest.mark.parametrize("schedule", ["adaptive", schedules.Adaptive(normalized=True)])
def test_one_example_at_a_time(schedule):
    X = sp.csr_matrix(make_rows(120))
    y = np.where(X[:, [0]].toarray()[:, 0] > 0, "a", "b")
    whole, single = (osvm.LinearClassifier(schedule=schedule, average=True) for _ in range(2))
    whole.partial_fit(X, y)
    single.partial_fit(X[:1], y[:1], classes=["a", "b"])
    for i in range(1, 120):
        row = X[[i]]
        single.learn_one(row.indices, row.data, y[i])
    states_equal(whole._learner, single._learner)
    row = X[[5]]
    assert single.score_one(row.indices, row.data) == pytest.approx(
        whole.decision_function(row)[0], rel=1e-12
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"project": True}, "no project"),
        ({"batch_size": 5}, "no batch_size"),
        ({"schedule": "coin_betting", "reg": 0.1}, "no regularizer"),
        ({"eta0": 1e6, "reg": 0.1}, "eta0"),
    ],
)
def test_what_does_not_go_together(params, message):
    with pytest.raises(ValueError, match=message):
        osvm.LinearClassifier(**{"schedule": "adaptive", **params}).fit(np.eye(2), [0, 1])
    with pytest.raises(ValueError, match="linear models"):
        osvm.KernelClassifier(schedule="adaptive").fit(np.eye(2), [0, 1])


@pytest.mark.parametrize(
    "cls", [osvm.LinearClassifier, osvm.LinearRegressor, osvm.MultilabelClassifier]
)
def test_the_memory_of_the_last_fit_does_not_wait_for_the_garbage_collector(cls):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(600, 5))
    y = (rows[:, 0] > 0).astype(int)
    targets = [[k] for k in y] if cls is osvm.MultilabelClassifier else y
    model = cls(random_state=0).fit(rows, targets)
    gc.collect()
    gc.disable()
    try:
        model.fit(rows, targets).partial_fit(rows, targets)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_sets_of_labels():
    X = make_rows(200)
    sets = [[k for k in range(3) if x[k] > 0] for x in X]
    model = osvm.MultilabelClassifier(schedule=schedules.Adaptive(0.5)).partial_fit(X, sets)
    assert np.mean(model.predict(X) == (X[:, :3] > 0)) > 0.85  # 0.8 for none


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_windows_of_a_fit_are_equal_wherever_they_are_read(n_classes):
    """A fit keeps one of them; copies, states and what goes on as a stream have both."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(600, 6))
    y = rng.integers(0, n_classes, 600)
    between = []

    def keep(model, epoch):
        between.append(model._learner)

    model = osvm.LinearClassifier(random_state=0, epochs=4, callback=keep).fit(rows, y)
    own = model._learner
    for learner in (*between[2:], own):
        u0, u1 = (learner._planes()[:, plane] for plane in (2, 3))
        assert np.array_equal(u0, u1)
        assert u0.any()
    assert own.windows == 1
    assert own.planes == (4 if n_classes == 2 else 3)
    if n_classes > 2:  # what is read is a copy, which nobody may write to
        assert own.own_cells.size < own.cells.size
        assert not own.cells.flags.writeable
    again = osvm.from_bytes(model.to_bytes())
    for one in (model, again):
        one.partial_fit(rows[:100], y[:100])
        one.learn_one(rows[100], y[100])
        assert (one._learner.windows, one._learner.planes) == (2, 4)
    assert np.array_equal(model._learner.cells, again._learner.cells)
    assert np.array_equal(model.coef_, again.coef_)
