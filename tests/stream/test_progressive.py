"""Test-then-train against a loop that is written out."""

import io

import numpy as np
import pytest
from scipy.sparse import csr_array

import osvm
from osvm.stream import SvmlightReader, progressive_validate

pytest.importorskip("osvm.linear")

rng = np.random.default_rng(0)
X = csr_array(rng.normal(size=(400, 10)) * (rng.random((400, 10)) < 0.5))
F = X @ rng.normal(size=10)
BINARY = np.where(F > 0, 1, -1)
MULTI = np.array(["a", "b", "c"])[np.digitize(F, [-0.7, 0.7])]


def pieces(y, size):
    return [(X[k : k + size], y[k : k + size]) for k in range(0, X.shape[0], size)]


def loop(model, y, delay=0, classes=None):
    """Predictions, one row at a time, before the row is learnt."""
    out = np.full(len(y), None, dtype=object)
    for i in range(len(y)):
        if hasattr(model, "t_"):
            out[i] = model.predict(X[[i]])[0]
        k = i - delay
        if k >= 0:
            model.partial_fit(X[[k]], y[[k]], classes=classes)
    return out


@pytest.mark.parametrize("y", [BINARY, MULTI], ids=["binary", "multi"])
@pytest.mark.parametrize("delay", [0, 7])
def test_blocks_of_one_are_the_loop(y, delay):
    classes = np.unique(y)
    expected = loop(osvm.LinearClassifier(), y, delay, classes) != y
    result = progressive_validate(
        osvm.LinearClassifier(), pieces(y, 33), metrics=["error"], delay=delay, block=1, window=50,
        classes=classes,
    )  # fmt: skip
    assert result.examples == list(range(50, 401, 50))
    np.testing.assert_allclose(result.window["error"], expected.reshape(8, 50).mean(1))
    np.testing.assert_allclose(
        result.running["error"], np.cumsum(expected)[49::50] / np.array(result.examples)
    )


@pytest.mark.parametrize("y", [BINARY, MULTI], ids=["binary", "multi"])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_counted_figures_are_those_of_the_loop(y, loss):
    options = {"classes": np.unique(y), "window": 100}
    model = osvm.LinearClassifier(loss=loss, schedule="bottou")
    exact = progressive_validate(model, pieces(y, 50), block=1, **options)
    model = osvm.LinearClassifier(loss=loss, schedule="bottou")
    counted = progressive_validate(model, pieces(y, 33), **options)
    # before anything is learnt the loop has no prediction, the model a score of 0
    np.testing.assert_allclose(counted.window["error"], exact.window["error"], atol=0.011)
    np.testing.assert_allclose(counted.window["loss"], exact.window["loss"], atol=0.02)
    assert counted.window["error"][1:] == exact.window["error"][1:]


@pytest.mark.parametrize("K", [2, 3])
def test_counted_figures_of_competing_settings(K):
    """Those of the scores that answered; a feature's size may grow between answer and step."""
    y = BINARY if K == 2 else np.digitize(F, [-0.5, 0.5])
    options = {"classes": np.unique(y), "window": 100}
    exact, counted = (
        progressive_validate(osvm.LinearClassifier(), pieces(y, 50), **options, **how)
        for how in ({"block": 1}, {})
    )
    np.testing.assert_allclose(counted.window["error"], exact.window["error"], atol=0.03)
    np.testing.assert_allclose(counted.window["loss"], exact.window["loss"], rtol=0.2)


def test_everything_is_learnt_whatever_the_delay():
    whole = osvm.LinearClassifier().partial_fit(X, BINARY, classes=[-1, 1])
    for options in ({}, {"delay": 13}, {"block": 8, "delay": 3}, {"metrics": ["accuracy"]}):
        model = osvm.LinearClassifier()
        result = progressive_validate(model, pieces(BINARY, 64), classes=[-1, 1], **options)
        assert model.coef_.tolist() == whole.coef_.tolist()
        assert result.n_examples == 400
    assert result.examples == [1, 2, 4, 8, 16, 32, 64, 128, 256, 400]


def test_regression_metrics():
    result = progressive_validate(
        osvm.LinearRegressor(loss="squared", schedule="constant", eta0=0.02),
        pieces(F, 64),
        metrics=["squared_error", "absolute_error", "loss"],
        window=200,
    )
    assert result.window["squared_error"][1] < result.window["squared_error"][0]
    ratio = np.array(result.window["loss"]) / result.window["squared_error"]
    np.testing.assert_allclose(ratio, osvm.losses.get("squared").value(1.0, 0.0))


def test_functions_and_scikit_learn_metrics():
    metrics = pytest.importorskip("sklearn.metrics")
    result = progressive_validate(
        osvm.LinearClassifier(),
        pieces(BINARY, 64),
        metrics=["accuracy", "f1_score", "roc_auc_score", metrics.matthews_corrcoef,
                 ("mine", lambda y, p: float((y == p).mean()))],
        window=100,
    )  # fmt: skip
    assert result.metrics[3:] == ["matthews_corrcoef", "mine"]
    assert result.window["mine"][1:] == pytest.approx(result.window["accuracy"][1:])
    assert 0.5 < result.window["roc_auc_score"][-1] <= 1
    assert 0.5 < result.window["f1_score"][-1] <= 1


def test_result_prints_and_plots():
    result = progressive_validate(osvm.LinearClassifier(), pieces(BINARY, 64))
    assert str(result).splitlines()[0].split() == [
        "examples", "loss", "in", "window", "error", "in", "window",
    ]  # fmt: skip
    assert len(str(result).splitlines()) == 11
    assert result.table()[-1]["examples"] == 400
    plt = pytest.importorskip("matplotlib")
    plt.use("agg")
    axes = result.plot()
    assert len(axes.lines) == 4


def test_from_a_file_with_a_limit():
    lines = b"".join(b"%d 1:%d 2:1\n" % (k % 2, 2 * (k % 2) - 1) for k in range(500))
    reader = SvmlightReader(io.BytesIO(lines), batch_size=100)
    seen = []
    result = progressive_validate(
        osvm.LinearClassifier(),
        reader,
        limit=250,
        window=100,
        on_window=lambda result: seen.append(len(result.examples)),
    )
    assert result.n_examples == 250
    assert result.examples == [100, 200, 250]
    assert seen == [1, 2, 3]
    assert result.final["error"] < 0.1


def test_wrong_arguments():
    stream = pieces(BINARY, 64)
    with pytest.raises(ValueError, match="unknown metric 'nope'"):
        progressive_validate(osvm.LinearClassifier(), stream, metrics=["nope"])
    with pytest.raises(ValueError, match="repeat"):
        progressive_validate(osvm.LinearClassifier(), stream, metrics=["error", "error"])
    for wrong in ({"window": 0}, {"block": 0}, {"delay": -1}, {"limit": 0}):
        with pytest.raises(ValueError, match="must"):
            progressive_validate(osvm.LinearClassifier(), stream, **wrong)
