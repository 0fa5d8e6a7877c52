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
    columns = [tokenizer.column(name)[0] for name, _ in bars]
    np.testing.assert_allclose([value for _, value in bars], model.coef_[0, columns])
    assert ax.get_xlabel() == "weight for pos"


def test_top_features_of_a_class(ax):
    X = np.eye(3)
    model = osvm.LinearClassifier(random_state=0).fit(X, ["a", "b", "c"])
    bars = shown(osvm.plot.top_features(model, ax, n=1, output="b"))
    best = abs(model.coef_[1]).argmax()
    assert bars == [(f"column {best}", pytest.approx(model.coef_[1, best]))]
    with pytest.raises(ValueError, match="no class 'd'"):
        osvm.plot.top_features(model, ax, output="d")
