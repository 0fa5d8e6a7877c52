"""Plots: what they show, not how they look."""

import numpy as np
import pytest

import osvm
from osvm.stream import HashingTokenizer

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")


def shown(ax):
    """Names and weights of the bars, the largest first."""
    names = [text.get_text() for text in ax.get_yticklabels()]
    return list(zip(names, [bar.get_width() for bar in ax.patches]))[::-1]


@pytest.fixture
def ax():
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_top_features_are_words(ax):
    texts, y = ["good film", "bad film", "good play", "bad play"] * 5, ["pos", "neg"] * 10
    tokenizer = HashingTokenizer(bits=12, keep_terms=True)
    model = osvm.LinearClassifier(random_state=0).fit(tokenizer.fit_transform(texts), y)
    bars = shown(osvm.plot.top_features(model, ax, n=2, tokenizer=tokenizer))
    assert {name for name, _ in bars} == {"good", "bad"}
    columns, signs = np.array([tokenizer.column(name) for name, _ in bars]).T
    np.testing.assert_allclose([value for _, value in bars], model.coef_[0, columns] * signs)
    assert ax.get_xlabel() == "weight for pos"


def test_words_hashed_with_a_minus_are_drawn_on_their_own_side(ax):
    good, bad = ["good", "lovely", "fine", "superb"], ["bad", "awful", "dull", "poor"]
    texts = [f"{a} {b} film" for words in (good, bad) for a in words for b in words]
    tokenizer = HashingTokenizer(keep_terms=True)
    assert {tokenizer.column(word)[1] for word in good} == {-1, 1}
    assert {tokenizer.column(word)[1] for word in bad} == {-1, 1}
    X = tokenizer.fit_transform(texts)
    model = osvm.LinearClassifier(random_state=0).fit(X, ["pos"] * 16 + ["neg"] * 16)
    bars = dict(shown(osvm.plot.top_features(model, ax, n=8, tokenizer=tokenizer)))
    assert {name for name, value in bars.items() if value > 0} == set(good)
    assert {name for name, value in bars.items() if value < 0} == set(bad)


def test_top_features_of_a_class(ax):
    X = np.eye(3)
    model = osvm.LinearClassifier(random_state=0).fit(X, ["a", "b", "c"])
    bars = shown(osvm.plot.top_features(model, ax, n=1, output="b"))
    best = abs(model.coef_[1]).argmax()
    assert bars == [(f"column {best}", pytest.approx(model.coef_[1, best]))]
    with pytest.raises(ValueError, match="no class 'd'"):
        osvm.plot.top_features(model, ax, output="d")
