"""learn_one, predict_one and score_one: the same as a matrix of one row."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
import osvm.linear.one_row as one_row
from osvm import LinearClassifier, LinearNovelty, LinearRegressor
from osvm._estimator.compat import not_fitted_error

DIM = 30


def make_examples(n=60, value="f8", index="i4", n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    examples = []
    for _ in range(n):
        count = int(rng.integers(0, 9))
        columns = rng.integers(DIM, size=count).astype(index)  # repeated ones among them
        values = rng.normal(size=count).astype(value)
        examples.append((columns, values, int(rng.integers(n_classes))))
    return examples


def as_row(columns, values):
    row = sp.csr_matrix((1, DIM), dtype=values.dtype)
    row.data, row.indices = values, columns
    row.indptr = np.array([0, len(columns)], dtype=columns.dtype)
    return row


def same(a, b):
    scalars, arrays = a._get_state()
    other_scalars, other_arrays = b._get_state()
    assert scalars == other_scalars
    for name in arrays:
        np.testing.assert_array_equal(arrays[name], other_arrays[name])


@pytest.mark.parametrize("value", ["f4", "f8"])
@pytest.mark.parametrize("index", ["i4", "i8"])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"average": True},
        {"average": 10, "project": True},
        {"batch_size": 4},
        {"loss": "logistic"},
        {"loss": "squared_hinge", "schedule": "constant", "eta0": 0.01},
        {"normalize": True},
        {"class_weight": "balanced"},
        {"class_weight": {1: 3.0}},
        {"record": True},
    ],
    ids=str,
)
def test_a_classifier_learns_the_same_bits(value, index, params):
    examples = make_examples(value=value, index=index)
    one, many = LinearClassifier(**params), LinearClassifier(**params)
    for columns, values, y in examples:
        assert one.learn_one(columns, values, y, n_features=DIM) is one
        many.partial_fit(as_row(columns, values), [y], sample_weight=np.ones(1))
    same(one, many)
    assert one.t_ == len(examples)
    for columns, values, _ in examples[:20]:
        X = as_row(columns, values)
        assert one.predict_one(columns, values) == many.predict(X)[0]
        assert one.score_one(columns, values) == pytest.approx(many.decision_function(X)[0])


@pytest.mark.parametrize("loss", ["hinge", "multiclass_hinge", "softmax"])
def test_labels_that_come_later_make_the_model_grow(loss):
    names = np.array(["pear", "apple", "fig", "plum"])
    examples = make_examples(80, n_classes=4)
    examples.sort(key=lambda example: example[2] > 1)  # two labels at first
    one, many = LinearClassifier(loss), LinearClassifier(loss)
    for columns, values, y in examples:
        one.learn_one(columns, values, str(names[y]), n_features=DIM)
        many.partial_fit(as_row(columns, values), names[y : y + 1], sample_weight=np.ones(1))
    same(one, many)
    assert sorted(one.classes_.tolist()) == sorted(names.tolist())
    for columns, values, _ in examples[:20]:
        X = as_row(columns, values)
        assert one.predict_one(columns, values) == many.predict(X)[0]
        np.testing.assert_allclose(one.score_one(columns, values), many.decision_function(X)[0])


def test_a_matrix_of_one_row_goes_the_short_way_and_learns_the_same():
    examples = make_examples(value="f4")
    short, long = LinearClassifier(), LinearClassifier()
    for columns, values, y in examples:
        short.partial_fit(as_row(columns, values), np.array([y]))
        long.partial_fit(as_row(columns, values), np.array([y]), sample_weight=np.ones(1))
    assert "_one" in short.__dict__
    assert "_one" not in long.__dict__
    same(short, long)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "huber", "squared"])
def test_a_regressor(loss):
    one, many = LinearRegressor(loss), LinearRegressor(loss)
    for columns, values, y in make_examples(n_classes=5):
        one.learn_one(columns, values, y / 4, n_features=DIM)
        many.partial_fit(as_row(columns, values), [y / 4], sample_weight=np.ones(1))
        X = as_row(columns, values)
        assert one.predict_one(columns, values) == pytest.approx(many.predict(X)[0])
    same(one, many)


def test_a_novelty_model():
    one, many = LinearNovelty(reg=0.01), LinearNovelty(reg=0.01)
    for columns, values, _ in make_examples():
        one.learn_one(columns, np.abs(values), n_features=DIM)
        many.partial_fit(as_row(columns, np.abs(values)))
        X = as_row(columns, np.abs(values))
        assert one.predict_one(columns, np.abs(values)) == many.predict(X)[0]
        assert one.score_one(columns, np.abs(values)) == pytest.approx(
            many.decision_function(X)[0]
        )
    same(one, many)


def test_dicts_are_the_same_examples():
    arrays, dicts = LinearClassifier(), LinearClassifier()
    for columns, values, y in make_examples(index="i8"):
        columns, first = np.unique(columns, return_index=True)
        values = values[first]
        features = dict(zip(columns.tolist(), values.tolist()))
        arrays.learn_one(columns, values, y, n_features=DIM)
        dicts.learn_one(features, y, n_features=DIM)
        assert arrays.predict_one(columns, values) == dicts.predict_one(features)
        assert arrays.score_one(columns, values) == dicts.score_one(features)
    same(arrays, dicts)
    assert dicts.learn_one({}, y=1) is dicts
    novelty = LinearNovelty().learn_one({3: 1.0}, n_features=DIM)
    assert novelty.predict_one({3: 1.0}) in (-1, 1)


def test_lists_and_integers_are_converted():
    a = LinearClassifier().learn_one([1, 2], [1, 2], "x", n_features=DIM)
    b = LinearClassifier().learn_one(np.array([1, 2]), np.array([1.0, 2.0]), "x", n_features=DIM)
    for model in (a, b):
        model.learn_one([0], [1], "y")
        model.learn_one([1, 2], [1, 2], "x")
    np.testing.assert_array_equal(a.coef_, b.coef_)
    assert a.predict_one([1], [1]) == b.predict_one(np.array([1]), np.array([1.0]))


@pytest.mark.parametrize(
    ("x", "values", "y", "error", "text"),
    [
        (np.array([0, DIM]), np.ones(2), 0, ValueError, f"column {DIM}"),
        (np.array([-1]), np.ones(1), 0, ValueError, "column -1"),
        (np.array([0]), np.array([np.nan]), 0, ValueError, "NaN"),
        (np.array([0]), np.array([np.inf]), 0, ValueError, "infinity"),
        (np.array([0, 1]), np.ones(1), 0, ValueError, "one length"),
        (np.array([0.5]), np.ones(1), 0, ValueError, "integers"),
        (np.array([0]), None, 0, ValueError, "values"),
        (np.array([0]), np.ones(1), None, ValueError, "y"),
        ({DIM: 1.0}, 0, ..., ValueError, f"column {DIM}"),
        ({0: np.nan}, 0, ..., ValueError, "NaN"),
        ({"word": 1.0}, 0, ..., TypeError, "word"),
        ({0.5: 1.0}, 0, ..., TypeError, "0.5"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(x, values, y, error, text):
    model = LinearClassifier()
    for example in make_examples(10):
        model.learn_one(*example, n_features=DIM)
    before = pickle.loads(pickle.dumps(model))
    arguments = (x, values) if y is ... else (x, values, y)
    with pytest.raises(error, match=text):
        model.learn_one(*arguments)
    if text not in ("y", "values"):
        with pytest.raises(error, match=text):
            model.predict_one(*(arguments[:1] if y is ... else arguments[:2]))
    same(model, before)


def test_the_first_example_needs_the_number_of_features():
    with pytest.raises(ValueError, match="n_features"):
        LinearClassifier().learn_one([0], [1.0], "a")
    model = LinearClassifier().learn_one([0], [1.0], "a", n_features=3)
    with pytest.raises(ValueError, match="n_features=4"):
        model.learn_one([0], [1.0], "new", n_features=4)


def test_an_unfitted_model_does_not_predict():
    with pytest.raises(Exception, match="fitted"):
        LinearClassifier().predict_one([0], [1.0])


def test_a_step_that_would_overflow_is_refused():
    model = LinearClassifier("hinge", schedule="constant", eta0=1.0)
    model.learn_one(np.array([0]), np.array([1.0]), 0, n_features=2)
    model.learn_one(np.array([0]), np.array([1.0]), 1)
    before = pickle.loads(pickle.dumps(model))
    with pytest.raises(FloatingPointError, match="overflow"):
        model.learn_one(np.array([1]), np.array([1e200]), 0)
    same(model, before)


def test_mixing_the_ways_of_learning():
    examples = make_examples(40)
    X = sp.vstack([as_row(c, v) for c, v, _ in examples], format="csr")
    y = np.array([example[2] for example in examples])
    mixed, whole = LinearClassifier(average=True), LinearClassifier(average=True)
    mixed.partial_fit(X[:10], y[:10])
    for i in range(10, 20):
        mixed.learn_one(X[i].indices, X[i].data, int(y[i]))
    mixed.partial_fit(X[20:30], y[20:30])
    mixed = pickle.loads(pickle.dumps(mixed))
    for i in range(30, 40):
        mixed.learn_one(X[i].indices, X[i].data, int(y[i]))
    same(mixed, whole.partial_fit(X, y))


MAKERS = {
    "classifier": osvm.LinearClassifier,
    "smd": lambda: osvm.LinearClassifier(schedule="smd"),
    "regressor": osvm.LinearRegressor,
    "regressor smd": lambda: osvm.LinearRegressor(schedule="smd"),
    "novelty": osvm.LinearNovelty,
}


@pytest.mark.parametrize("method", ["predict_one", "score_one"])
@pytest.mark.parametrize("example", [({0: 1.0},), (np.array([0]), np.array([1.0]))], ids=str)
@pytest.mark.parametrize("name", MAKERS)
def test_before_fitting_it_is_the_error_of_predict(name, example, method):
    model = MAKERS[name]()
    with pytest.raises(not_fitted_error(), match="not fitted yet"):
        model.predict(np.eye(2))
    with pytest.raises(not_fitted_error(), match="not fitted yet"):
        getattr(model, method)(*example)


@pytest.mark.parametrize("fitted", ["fit", "partial_fit"])
@pytest.mark.parametrize("name", MAKERS)
def test_one_example_before_any_was_learnt_singly(name, fitted):
    X = np.random.default_rng(0).normal(size=(30, 3))
    model = getattr(MAKERS[name](), fitted)(X, np.arange(30) % 2)
    columns = np.arange(3)
    for row in X[:5]:
        assert model.predict_one(columns, row) == model.predict(row[None])[0]
        ask = model.predict if "regressor" in name else model.decision_function
        assert model.score_one(columns, row) == pytest.approx(ask(row[None])[0], rel=1e-12)


@pytest.mark.parametrize("example", [{10**20: 1.0}, {-(10**20): 1.0}, {1: 10**400}])
def test_numbers_beyond_64_bits_are_refused(example):
    model = LinearClassifier().learn_one({1: 1.0}, "a", n_features=5)
    model.learn_one({2: 1.0}, "b").predict_one({1: 1.0})
    before = model.coef_.tobytes()
    for call in (lambda: model.learn_one(example, "a"), lambda: model.predict_one(example)):
        with pytest.raises(ValueError, match=r"no column|too large"):
            call()
    assert model.coef_.tobytes() == before


DENSE_MODELS = [
    (LinearClassifier(), 2),
    (LinearClassifier(), 5),
    (LinearClassifier(schedule="bottou"), 2),
    (LinearClassifier(schedule="bottou", loss="softmax"), 5),
    (LinearClassifier(schedule="bottou", average=True, loss="logistic"), 10),
    (LinearRegressor(), 0),
    (LinearRegressor(schedule="bottou"), 0),
    (LinearRegressor(schedule="bottou", loss="huber", average=True), 0),
]


@pytest.mark.parametrize("value", ["f4", "f8"])
@pytest.mark.parametrize(("model", "n_classes"), DENSE_MODELS)
def test_a_dense_row_takes_the_fast_path_to_the_same_model(model, n_classes, value):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, DIM)).astype(value)
    y = np.arange(40) % n_classes if n_classes else rows @ np.linspace(-1, 1, DIM)
    fast, general = (type(model)(**model.get_params()) for _ in range(2))
    for m in (fast, general):
        m.partial_fit(rows[:20], y[:20])
        m.partial_fit(rows[20:21], y[20:21])  # which makes the fast path
    for k in range(21, 40):
        assert one_row.learn_dense(fast, rows[k : k + 1], y[k].item())
        general.partial_fit(rows[k : k + 1], y[k : k + 1], sample_weight=np.ones(1))
    same(fast, general)
    assert fast.t_ == 40


def test_what_is_no_dense_row_is_not_learnt_on_the_fast_path():
    rows = np.random.default_rng(0).normal(size=(3, DIM))
    model = LinearClassifier().partial_fit(rows, [0, 1, 0])
    model.partial_fit(rows[:1], [0])
    before = model.to_bytes()
    bad = rows[:1].copy()
    bad[0, 3] = np.nan
    others = (bad, rows, rows[:1, 1:], rows[0], rows[:1].astype(int), rows[:1].astype(">f8"), None)
    for other in (*others, np.asfortranarray(rows)[:1]):
        assert not one_row.learn_dense(model, other, 0)
    assert not one_row.learn_dense(model, rows[:1], 7)
    with pytest.raises(ValueError, match="NaN at row 0, column 3"):
        model.partial_fit(bad, [0])
    for columns in (None, rows[:1], object()):
        with pytest.raises((TypeError, ValueError)):
            model.learn_one(columns, rows[:1], 0)
    assert model.to_bytes() == before


def test_a_parameter_that_is_set_ends_the_fast_path():
    rows = np.random.default_rng(0).normal(size=(9, DIM))
    model = LinearClassifier().partial_fit(rows, np.arange(9) % 2).learn_one({0: 1.0}, 1)
    assert one_row.learn(model, {0: 1.0}, None, 1)
    model.record = True
    model.learn_one({0: 1.0}, 1).learn_one({0: 1.0}, 1)
    assert len(model.history_["loss"]) == 2
    model.set_params(record=False).learn_one({0: 1.0}, 1)
    assert one_row.learn(model, {0: 1.0}, None, 1)


def test_a_stream_of_single_examples_of_one_label_warns():
    model = LinearClassifier().learn_one({0: 1.0}, "a", n_features=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(998):
            model.learn_one({0: 1.0}, "a")
    with pytest.warns(UserWarning, match="first 1000 rows of the stream have one label"):
        model.learn_one({0: 1.0}, "a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn_one({0: 1.0}, "a")
        mixed = LinearClassifier().learn_one({0: 1.0}, "a", n_features=2)
        for k in range(1500):
            mixed.learn_one({0: 1.0}, "ab"[k % 2])


def test_a_target_that_no_float_holds_is_refused():
    model = LinearRegressor().learn_one({0: 1.0}, 1.0, n_features=2).learn_one({1: 1.0}, 2.0)
    before = model.predict(np.eye(2))
    with pytest.raises(ValueError, match="y "):
        model.learn_one({0: 1.0}, 10**400)
    assert np.array_equal(model.predict(np.eye(2)), before)
    assert model.t_ == 2


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("per_coordinate", [False, True])
def test_meta_descent_learns_one_example_on_the_fast_path(per_coordinate, n_classes):
    rng = np.random.default_rng(0)
    columns = [rng.permutation(DIM)[: rng.integers(1, 9)] for _ in range(60)]
    values = [rng.normal(size=len(j)) for j in columns]
    y = np.arange(60) % n_classes
    X = sp.vstack([as_row(j, v) for j, v in zip(columns, values)], format="csr")
    schedule = osvm.schedules.SMD(per_coordinate=per_coordinate)
    params = {
        "schedule": schedule,
        "reg": 0.01,
        "loss": "logistic" if n_classes == 2 else "softmax",
    }
    whole = LinearClassifier(**params).partial_fit(X, y)
    single = LinearClassifier(**params).partial_fit(X[:n_classes], y[:n_classes])
    for j, v, label in list(zip(columns, values, y.tolist()))[n_classes:]:
        single.learn_one(j, v, label)
    same(whole, single)
    assert one_row.learn(single, columns[0], values[0], 0)
    assert one_row.score(single, columns[0], values[0]) is not None
    ones = np.ones(len(columns[0]))
    wrong = int(single.predict_one(columns[0], ones) == 0)
    with pytest.raises(FloatingPointError, match="lower eta0 or mu"):
        single.learn_one(columns[0], 1e200 * ones, wrong)
