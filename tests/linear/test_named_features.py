"""Examples as dicts of names: `learn_one`, `predict_one` and the like, and river's evaluation."""

import pickle

import numpy as np
import pytest

import osvm
from osvm.stream import HashingTokenizer


def examples(n=200, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        y = ["neg", "pos"][rng.integers(2)]
        word = rng.choice(["good", "fine"] if y == "pos" else ["bad", "poor"])
        yield {str(word): 1.0, str(rng.choice(["film", "play"])): float(rng.random()), "b": 1}, y


def test_names_are_hashed_as_the_tokenizer_does():
    tokenizer = HashingTokenizer(tf="count", idf=False, norm=False)
    named = osvm.LinearClassifier(loss="logistic")
    numbered = osvm.LinearClassifier(loss="logistic")
    for x, y in examples():
        assert named.learn_one(x, y) is named
        numbered.partial_fit(tokenizer.transform_named([x]), [y])
    assert named.n_features_in_ == 2**20
    assert named.coef_.tobytes() == numbered.coef_.tobytes()
    for x, _ in examples(20, seed=1):
        row = tokenizer.transform_named([x])
        assert named.predict_one(x) == numbered.predict(row)[0]
        assert named.score_one(x) == pytest.approx(numbered.decision_function(row)[0])
        shares = named.predict_proba_one(x)
        assert list(shares) == named.classes_.tolist()
        np.testing.assert_allclose(list(shares.values()), numbered.predict_proba(row)[0])


def test_before_the_first_example():
    x = {"a": 1.0}
    assert osvm.LinearClassifier().predict_one(x) is None
    assert osvm.LinearClassifier().score_one(x) == 0.0
    assert osvm.LinearClassifier(loss="logistic").predict_proba_one(x) == {}
    assert osvm.LinearRegressor().predict_one(x) == 0.0


def test_three_classes_and_numbers():
    model = osvm.LinearClassifier()
    for k in range(60):
        model.learn_one({f"word{k % 3}": 1.0}, k % 3)
    assert [model.predict_one({f"word{k}": 1.0}) for k in range(3)] == [0, 1, 2]
    assert model.score_one({"word1": 1.0}).argmax() == 1
    named, numbered = osvm.LinearRegressor(), osvm.LinearRegressor()
    a, b = (HashingTokenizer().column(name) for name in "ab")
    for _ in range(200):
        named.learn_one({"a": 1.0}, 2.0).learn_one({"b": 1.0}, -1.0)
        numbered.learn_one({a[0]: a[1]}, 2.0, n_features=2**20).learn_one({b[0]: b[1]}, -1.0)
    assert named.predict_one({"a": 1.0}) == numbered.predict_one({a[0]: a[1]})
    novelty = osvm.LinearNovelty()
    for _ in range(50):
        novelty.learn_one({"a": 1.0})
    assert novelty.score_one({"a": 1.0}) > novelty.score_one({"z": 1.0})


def test_what_does_not_fit_is_refused():
    model = osvm.LinearClassifier().learn_one({0: 1.0}, "a", n_features=4)
    with pytest.raises(TypeError, match="trained on numbered"):
        model.learn_one({"name": 1.0}, "b")
    with pytest.raises(TypeError, match="trained on numbered"):
        model.predict_one({"name": 1.0})
    fresh = osvm.LinearClassifier()
    with pytest.raises(ValueError, match="power of two"):
        fresh.learn_one({"name": 1.0}, "a", n_features=1000)
    with pytest.raises(ValueError, match="NaN"):
        fresh.learn_one({"name": float("nan")}, "a")
    assert "tokenizer_" not in fresh.__dict__
    with pytest.raises(TypeError, match="names"):
        fresh.learn_one({"name": 1.0, 3: 1.0}, "a")
    with pytest.raises(TypeError, match="names"):
        fresh.learn_one({3: 1.0, "name": 1.0}, "a", n_features=8)
    fresh.learn_one({"name": 1.0}, "a", n_features=1024)
    assert fresh.n_features_in_ == 1024


def test_names_survive_files_and_pickles(tmp_path):
    model = osvm.LinearClassifier()
    for x, y in examples():
        model.learn_one(x, y)
    model.save(tmp_path / "named.osvm")
    loaded, copied = osvm.load(tmp_path / "named.osvm"), pickle.loads(pickle.dumps(model))
    for x, y in examples(20, seed=2):
        assert loaded.score_one(x) == copied.score_one(x) == model.score_one(x)
        for each in (model, loaded, copied):
            each.learn_one(x, y)


def test_a_model_of_text_takes_names_for_its_words(tmp_path):
    tokenizer = HashingTokenizer(bits=12)
    texts = ["good good film", "bad film", "good play", "bad bad play"] * 5
    model = osvm.LinearClassifier().fit(tokenizer.fit_transform(texts), ["pos", "neg"] * 10)
    model.tokenizer_ = tokenizer
    x = {"good": 2, "film": 1}
    assert model.score_one(x) == pytest.approx(model.decision_function(["film good good"])[0])


def test_river_evaluates_the_models():
    evaluate = pytest.importorskip("river.evaluate")
    from river import metrics

    stream = [(x, y == "pos") for x, y in examples(500)]
    found = evaluate.progressive_val_score(stream, osvm.LinearClassifier(), metrics.Accuracy())
    assert found.get() > 0.9
    logistic = osvm.LinearClassifier(loss="logistic")
    found = evaluate.progressive_val_score(stream, logistic, metrics.ROCAUC())
    assert found.get() > 0.95
    numbers = [(x, 2.0 if y else -1.0) for x, y in stream]
    regressor = osvm.LinearRegressor(schedule="constant", eta0=0.05)
    found = evaluate.progressive_val_score(numbers, regressor, metrics.MAE())
    assert found.get() < 1.0
