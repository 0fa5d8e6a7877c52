"""learn_one and the like of every stream learner: the model of a matrix of one row."""

import pickle
import threading
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm._estimator.compat import not_fitted_error
from osvm.stream import HashingTokenizer

DIM = 6
SMALL = {"gamma": 0.3, "budget": 12, "random_state": 0}
KERNELS = {
    "classes": lambda: osvm.KernelClassifier(**SMALL),
    "logistic": lambda: osvm.KernelClassifier("logistic", **SMALL),
    "softmax": lambda: osvm.KernelClassifier("softmax", **SMALL),
    "smd": lambda: osvm.KernelClassifier(schedule="smd", **SMALL),
    "balanced": lambda: osvm.KernelClassifier(
        class_weight="balanced", fit_intercept=True, **SMALL
    ),
    "numbers": lambda: osvm.KernelRegressor(**SMALL),
    "novelty": lambda: osvm.KernelNovelty(**SMALL),
}
LINEAR = {
    "classes": osvm.LinearClassifier,
    "numbers": osvm.LinearRegressor,
    "novelty": osvm.LinearNovelty,
}
NAMES = np.array(["pear", "fig", "plum"])


def make_rows(n=50, seed=0):
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, DIM)) < 0.5, rng.normal(size=(n, DIM)), 0.0)


def target_of(kind, row):
    if kind == "novelty":
        return ()
    if kind == "numbers":
        return (float(row[0] - row[1]),)
    return (str(NAMES[int(row[0] > 0) + int(row[1] > 0.5)]),)


def as_pair(row, dtype=np.int32):
    columns = np.flatnonzero(row).astype(dtype)
    return columns, row[columns]


def as_dict(row):
    columns, values = as_pair(row)
    return dict(zip(columns.tolist(), values.tolist()))


# name -> (arguments of learn_one before y, the matrix of one row that it is)
FORMS = {
    "dense": lambda row: ((row,), row[None]),
    "float32": lambda row: ((row.astype("f4"),), row[None].astype("f4")),
    "list": lambda row: ((row.tolist(),), row[None]),
    "int32": lambda row: (as_pair(row), sp.csr_matrix(row[None])),
    "int64": lambda row: (as_pair(row, np.int64), sp.csr_array(row[None])),
    "dict": lambda row: ((as_dict(row),), sp.csr_matrix(row[None])),
    "Counter": lambda row: ((Counter(as_dict(row)),), sp.csr_matrix(row[None])),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KERNELS)
def test_a_kernel_model_learns_the_same_bits(kind, form):
    one, many = KERNELS[kind](), KERNELS[kind]()
    for row in make_rows():
        y = target_of(kind, row)
        given, matrix = FORMS[form](row)
        assert one.learn_one(*given, *y, n_features=DIM) is one
        many.partial_fit(matrix, *([value] for value in y))
    assert one.to_bytes() == many.to_bytes()
    assert one.t_ == 50
    for row in make_rows(10, seed=1):
        given, matrix = FORMS[form](row)
        assert one.predict_one(*given) == many.predict(matrix)[0]
        ask = many.predict if kind == "numbers" else many.decision_function
        np.testing.assert_array_equal(one.score_one(*given), ask(matrix)[0])
        if kind in ("logistic", "softmax"):
            shares = many.predict_proba(matrix)[0].tolist()
            assert one.predict_proba_one(*given) == dict(zip(many.classes_.tolist(), shares))


@pytest.mark.parametrize("kind", LINEAR)
def test_a_dense_row_of_a_linear_model(kind):
    one, many = LINEAR[kind](), LINEAR[kind]()
    for row in make_rows():
        y = target_of(kind, row)
        assert one.learn_one(row, *y) is one
        many.partial_fit(row[None], *([value] for value in y))
    assert one.to_bytes() == many.to_bytes()
    for row in make_rows(10, seed=1):
        assert one.predict_one(row) == pytest.approx(many.predict(row[None])[0], rel=1e-12)


@pytest.mark.parametrize("kind", KERNELS)
def test_blocks_and_single_examples_of_both_storages_mix(kind):
    """A dense model takes sparse examples and the other way round, after a pickle too."""
    rows = make_rows(60)
    y = [target_of(kind, row) for row in rows]
    for matrix in (np.asarray, sp.csr_matrix):
        model, whole = KERNELS[kind](), KERNELS[kind]()
        targets = () if kind == "novelty" else (np.array([value for (value,) in y]),)
        for each in (model, whole):
            each.partial_fit(matrix(rows[:30]), *(t[:30] for t in targets))
        for k in range(30, 60):
            model.learn_one(*FORMS[("dense", "dict")[k % 2]](rows[k])[0], *y[k])
            if k == 40:
                model = pickle.loads(pickle.dumps(model))
        whole.partial_fit(matrix(rows[30:]), *(t[30:] for t in targets))
        assert model.t_ == whole.t_ == 60
        ask = "predict" if kind == "numbers" else "decision_function"
        np.testing.assert_allclose(
            getattr(model, ask)(rows), getattr(whole, ask)(rows), rtol=1e-7, atol=1e-10
        )


BAD = {
    "column beyond": (([0, DIM], [1.0, 1.0]), ValueError, f"column {DIM}"),
    "negative column": (([-1], [1.0]), ValueError, "column -1"),
    "nan": (([0], [np.nan]), ValueError, "NaN"),
    "nan in a dense row": ((np.array([0, 0, np.nan, 0, 0, 0]),), ValueError, "NaN at row 0"),
    "inf in a dict": (({0: np.inf},), ValueError, "infinity"),
    "a short row": ((np.zeros(DIM - 1),), ValueError, "5 features"),
    "lengths": (([0, 1], [1.0]), ValueError, "one length"),
    "halves": (([0.5], [1.0]), ValueError, "integers"),
    "no values": ((np.arange(DIM),), ValueError, "values that belong to the columns"),
    "a matrix": ((np.zeros((1, DIM)),), ValueError, "values that belong to the columns"),
    "a name": (({"word": 1.0},), TypeError, "trained on numbered"),
    "a column of halves": (({0.5: 1.0},), TypeError, "0.5"),
    "a name among numbers": (({0: 1.0, "a": 1.0},), TypeError, "'a'"),
    "a huge column": (({10**20: 1.0},), ValueError, "no column"),
    "a huge value": (({0: 10**400},), ValueError, "too large"),
    "nothing": ((None,), (TypeError, ValueError), "values"),
}


@pytest.mark.parametrize("kind", ["classes", "numbers", "novelty"])
@pytest.mark.parametrize("bad", BAD)
def test_what_is_wrong_is_said_and_changes_nothing(kind, bad):
    given, error, text = BAD[bad]
    for makers in (KERNELS, LINEAR):
        model = makers[kind]()
        for row in make_rows(20):
            model.learn_one(row, *target_of(kind, row))
        before = model.to_bytes()
        y = target_of(kind, np.zeros(DIM))
        with pytest.raises(error, match=text):
            model.learn_one(*given, *y)
        with pytest.raises(error, match=text):
            model.predict_one(*given)
        with pytest.raises(error, match=text):
            model.score_one(*given)
        assert model.to_bytes() == before


@pytest.mark.parametrize("makers", [KERNELS, LINEAR], ids=["kernel", "linear"])
def test_a_target_is_one_label_or_number(makers):
    for kind, bad in (("classes", [0]), ("classes", None), ("classes", np.nan), ("numbers", "a"),
                      ("numbers", np.inf), ("numbers", [1.0])):  # fmt: skip
        model = makers[kind]()
        with pytest.raises((TypeError, ValueError)):
            model.learn_one(np.zeros(DIM), bad)
        assert "t_" not in model.__dict__
    with pytest.raises(ValueError, match="n_features"):
        makers["classes"]().learn_one([0], [1.0], "a")
    with pytest.raises(ValueError, match="the row has 6 values"):
        makers["classes"]().learn_one(np.zeros(DIM), "a", n_features=7)
    for method in ("predict_one", "score_one"):
        for given in ((np.zeros(DIM),), ({0: 1.0},), ([0], [1.0])):
            with pytest.raises(not_fitted_error(), match="not fitted yet"):
                getattr(makers["classes"](), method)(*given)


def test_a_kernel_without_probabilities_has_none_for_one_example():
    model = KERNELS["classes"]().learn_one(np.zeros(DIM), "a").learn_one(np.ones(DIM), "b")
    with pytest.raises(AttributeError, match="defines no probability"):
        model.predict_proba_one(np.ones(DIM))


# ------------------------------------------------------------------------------- names


def examples(n=120, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        y = ["neg", "pos"][rng.integers(2)]
        word = rng.choice(["good", "fine"] if y == "pos" else ["bad", "poor"])
        yield {str(word): 1.0, str(rng.choice(["film", "play"])): float(rng.random()), "b": 1}, y


@pytest.mark.parametrize("kind", ["classes", "logistic", "numbers", "novelty"])
def test_names_are_hashed_as_the_tokenizer_does(kind, tmp_path):
    tokenizer = HashingTokenizer(tf="count", idf=False, norm=False)
    named, numbered = KERNELS[kind](), KERNELS[kind]()
    is_label = kind in ("classes", "logistic")

    def target(y):
        return () if kind == "novelty" else (y if is_label else float(y == "pos"),)

    for x, y in examples():
        assert named.learn_one(x, *target(y)) is named
        numbered.partial_fit(tokenizer.transform_named([x]), *([value] for value in target(y)))
    assert named.n_features_in_ == 2**20
    np.testing.assert_array_equal(named.dual_coef_, numbered.dual_coef_)
    named.save(tmp_path / "named.osvm")
    loaded, copied = osvm.load(tmp_path / "named.osvm"), pickle.loads(pickle.dumps(named))
    for x, y in examples(20, seed=1):
        row = tokenizer.transform_named([x])
        ask = numbered.predict if kind == "numbers" else numbered.decision_function
        for each in (named, loaded, copied):
            assert each.predict_one(x) == numbered.predict(row)[0]
            assert each.score_one(x) == ask(row)[0]
            if kind == "logistic":
                assert list(each.predict_proba_one(x)) == numbered.classes_.tolist()
            each.learn_one(x, *target(y))
        numbered.partial_fit(row, *([value] for value in target(y)))
    assert named.to_bytes() == loaded.to_bytes() == copied.to_bytes()


def test_names_before_the_first_example_and_names_that_do_not_fit():
    x = {"a": 1.0}
    assert KERNELS["classes"]().predict_one(x) is None
    assert KERNELS["logistic"]().predict_proba_one(x) == {}
    assert KERNELS["numbers"]().predict_one(x) == 0.0
    assert KERNELS["novelty"]().score_one(x) == 0.0
    model = KERNELS["classes"]()
    for bad, error, text in (
        ({"a": np.nan}, ValueError, "NaN"),
        ({"a": 1.0, 3: 1.0}, TypeError, "names"),
        ({"a": None}, TypeError, "NoneType"),
    ):
        with pytest.raises(error, match=text):
            model.learn_one(bad, "pos")
        assert not {"t_", "tokenizer_"} & set(model.__dict__)
    with pytest.raises(ValueError, match="power of two"):
        model.learn_one(x, "pos", n_features=1000)
    assert model.learn_one(x, "pos", n_features=1024).n_features_in_ == 1024
    assert model.learn_one(Counter("aab"), "neg").predict_one(x) in ("pos", "neg")


def test_a_kernel_model_of_text_takes_names_for_its_words():
    tokenizer = HashingTokenizer(bits=12)
    texts = ["good good film", "bad film", "good play", "bad bad play"] * 5
    model = KERNELS["classes"]()
    model.tokenizer_ = tokenizer
    model.partial_fit(tokenizer.fit_transform(texts), ["pos", "neg"] * 10)
    x = {"good": 2, "film": 1}
    assert model.score_one(x) == pytest.approx(model.decision_function(["film good good"])[0])


def test_a_refused_fit_leaves_a_model_of_text_its_words():
    """The next call that learnt took the rows for those of another text, and lost the words."""
    tokenizer = HashingTokenizer(bits=6)
    rows = tokenizer.fit_transform(["good good film", "bad film", "good play", "bad play"] * 5)
    y = [("pos",), ("neg",)] * 10
    models = []
    for refused in (False, True):
        model = osvm.MultilabelClassifier(random_state=0)
        model.tokenizer_ = tokenizer
        model.fit(rows, y)
        if refused:
            with pytest.raises(ValueError, match="20 rows"):
                model.fit(rows, y[:-1])
        models.append(model.partial_fit(rows[:1], y[:1]))
    assert models[1].tokenizer_ is tokenizer
    assert models[0].to_bytes() == models[1].to_bytes()
    model.fit(rows, y)  # of columns that nobody knows to be the words'
    assert "tokenizer_" not in model.__dict__


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_river_evaluates_kernel_models(kind):
    evaluate = pytest.importorskip("river.evaluate")
    from river import metrics

    stream = [(x, y == "pos") for x, y in examples(300)]
    if kind == "numbers":
        stream = [(x, 2.0 if y else -1.0) for x, y in stream]
        model = osvm.KernelRegressor(gamma=0.5, eta0=0.5)
        assert evaluate.progressive_val_score(stream, model, metrics.MAE()).get() < 0.7
        return
    model = osvm.KernelClassifier(gamma=0.5)
    assert evaluate.progressive_val_score(stream, model, metrics.Accuracy()).get() > 0.9
    logistic = osvm.KernelClassifier("logistic", gamma=0.5)
    assert evaluate.progressive_val_score(stream, logistic, metrics.ROCAUC()).get() > 0.95
    numbered = [({"x": float(k % 5), "z": 1.0}, k % 5 > 2) for k in range(100)]
    found = evaluate.progressive_val_score(numbered, osvm.KernelClassifier(), metrics.F1())
    assert 0.5 < found.get() <= 1.0


# ----------------------------------------------------------------------------- threads


def test_threads_that_predict_sparse_rows_get_the_scores_of_one():
    rng = np.random.default_rng(3)
    X = sp.random_array((300, 5000), density=0.004, format="csr", rng=rng)
    model = osvm.KernelClassifier(gamma=0.1, budget=64).partial_fit(X, rng.integers(3, size=300))
    together = model.decision_function(X)
    alone = [model.decision_function(X[k : k + 1]) for k in range(300)]
    np.testing.assert_allclose(np.vstack(alone), together, rtol=1e-10, atol=1e-12)
    failed = []

    def predict(rows):
        for _ in range(5):
            for k in rows:
                if not np.array_equal(model.decision_function(X[k : k + 1]), alone[k]):
                    failed.append(k)
            if not np.array_equal(model.decision_function(X), together):
                failed.append("all")

    threads = [threading.Thread(target=predict, args=(range(k, 300, 17),)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@pytest.mark.parametrize("kind", ["classes", "numbers", "novelty"])
def test_examples_of_several_threads_add_up(kind):
    rows = make_rows(40)
    model = KERNELS[kind]().learn_one(rows[0], *target_of(kind, rows[0]))
    failed = []

    def learn():
        try:
            for row in rows:
                model.learn_one(*as_pair(row), *target_of(kind, row))
                model.predict_one(row)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=learn) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert model.t_ == 161


SETS = {
    "default": osvm.MultilabelClassifier,
    "one pass": lambda: osvm.MultilabelClassifier(schedule="bottou"),
    "logistic": lambda: osvm.MultilabelClassifier("logistic"),
}


def set_of(row):
    return [str(name) for name, value in zip(NAMES, row) if value > 0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", SETS)
def test_label_sets_learn_the_same_bits(kind, form):
    """Labels come one after another, some with a dict that says which an example has."""
    one, many = SETS[kind](), SETS[kind]()
    rows = [row for row in make_rows() if set_of(row)]
    for k, row in enumerate(rows):
        labels = set_of(row)
        y = {name: name in labels for name in NAMES.tolist()} if k % 2 else labels
        given, matrix = FORMS[form](row)
        assert one.learn_one(*given, y, n_features=DIM) is one
        many.partial_fit(matrix, [labels])
    assert one.to_bytes() == many.to_bytes()
    assert one.t_ == len(rows)
    for row in make_rows(10, seed=1):
        given, matrix = FORMS[form](row)
        assert one.predict_one(*given) == many.predict_labels(matrix)[0]
        np.testing.assert_array_equal(one.score_one(*given), many.decision_function(matrix)[0])
        if kind == "logistic":
            shares = many.predict_proba(matrix)[0].tolist()
            assert one.predict_proba_one(*given) == dict(zip(many.classes_.tolist(), shares))


def test_label_sets_of_named_features(tmp_path):
    model = osvm.MultilabelClassifier()
    assert model.predict_one({"hot": 1.0}) == ()
    for _ in range(5):
        model.learn_one({"green": 1.0, "hot": 1.0}, ["tea", "drink"], n_features=2**10)
        model.learn_one({"cold": 1.0}, ["milk", "drink"])
    model.save(tmp_path / "model.osvm")
    for again in (model, osvm.load(tmp_path / "model.osvm"), pickle.loads(pickle.dumps(model))):
        assert again.predict_one({"hot": 1.0}) == ("drink", "tea")
        assert again.predict_one({"cold": 1.0}) == ("drink", "milk")
    before = model.to_bytes()
    for y in ("tea", 3, None):
        with pytest.raises(ValueError, match="collection of labels"):
            model.learn_one({"cold": 1.0}, y)
    with pytest.raises(ValueError, match=r"finite|NaN"):
        model.learn_one({"cold": np.nan}, ["tea"])
    assert model.to_bytes() == before
