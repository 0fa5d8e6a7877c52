"""`tol=`: the minimum of the objective over all blocks, against scipy's."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from fake_engine import Unreliable
from scipy.optimize import minimize

import osvm
from osvm.distributed import InProcess, fit
from osvm.distributed.optimum import LBFGS, SMOOTHING, Problem, Sums, fold_sums

rng = np.random.default_rng(3)
N, D = 600, 7
X = sp.csr_matrix(rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.7))
SCORE = X @ rng.normal(size=D) + 0.5 * rng.normal(size=N) + 0.4
Y = {
    "binary": np.where(SCORE > 0, "yes", "no"),
    "multi": np.digitize(SCORE, [-1, 1]),
    "number": SCORE,
}
EDGES = [0, 50, 51, 300, 420, N]


def blocks_of(target, weight=None):
    columns = (X, Y[target]) if weight is None else (X, Y[target], weight)
    return [tuple(c[a:b] for c in columns) for a, b in itertools.pairwise(EDGES)]


def losses(name, y, f):
    """Values and derivatives, from their formulas; y is -1/+1 or a number."""
    z = y * f
    if name == "logistic":
        return np.logaddexp(0, -z), -y / (1 + np.exp(z))
    if name == "squared_hinge":
        gap = np.maximum(1 - z, 0)
        return gap**2, -2 * y * gap
    if name == "hinge":
        gap = np.maximum(1 - z, 0)
        inside = gap < SMOOTHING
        value = np.where(inside, gap**2 / (2 * SMOOTHING), gap - SMOOTHING / 2)
        return value, -y * np.minimum(gap / SMOOTHING, 1)
    if name == "squared":
        return 0.5 * (f - y) ** 2, f - y
    delta = 1.0
    e = f - y
    small = np.abs(e) <= delta
    return np.where(small, 0.5 * e**2, delta * (np.abs(e) - 0.5 * delta)), np.clip(
        e, -delta, delta
    )


def best(name, target, reg, factor, rows=X, intercept=True):
    """Minimum and minimizer of J, all outputs one after the other."""
    y = Y[target]
    if target == "number":
        outputs = [y]
    elif target == "binary":
        outputs = [np.where(y == "yes", 1.0, -1.0)]
    else:
        outputs = [np.where(y == k, 1.0, -1.0) for k in range(3)]
    total, found = 0.0, []
    for signs in outputs:

        def J(theta, signs=signs):
            w, b = theta[:-1], theta[-1] if intercept else 0.0
            value, xi = losses(name, signs, rows @ w + b)
            slope = np.append(rows.T @ (factor * xi) / N + reg * w, (factor * xi).mean())
            if not intercept:
                slope[-1] = 0
            return (factor * value).mean() + reg / 2 * w @ w, slope

        result = minimize(J, np.zeros(D + 1), jac=True, method="BFGS", options={"gtol": 1e-9})
        total += result.fun
        found.append(result.x)
    return total, np.array(found)


CASES = [
    ("LinearClassifier", "binary", "logistic", {}),
    ("LinearClassifier", "binary", "squared_hinge", {"fit_intercept": False}),
    ("LinearClassifier", "binary", "hinge", {}),
    ("LinearClassifier", "binary", "logistic", {"class_weight": "balanced"}),
    ("LinearClassifier", "binary", "squared_hinge", {"class_weight": {"no": 3.0}}),
    ("LinearClassifier", "binary", "logistic", {"normalize": True, "average": True}),
    ("LinearClassifier", "multi", "squared_hinge", {}),
    ("LinearClassifier", "multi", "logistic", {"C": 0.02}),
    ("LinearRegressor", "number", "squared", {}),
    ("LinearRegressor", "number", "huber", {}),
]


@pytest.mark.filterwarnings("ignore:the hinge has no gradient")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("cls", "target", "loss", "params"), CASES)
def test_the_minimum_is_scipys(cls, target, loss, params, weighted):
    params = {
        "loss": loss,
        "random_state": 0,
        **({"reg": 0.05} if "C" not in params else {}),
        **params,
    }
    weight = rng.uniform(0.5, 2, N) if weighted else None
    model = fit(getattr(osvm, cls)(**params), blocks_of(target, weight), tol=1e-12, rounds=400)
    factor = np.ones(N) if weight is None else weight
    if isinstance(params.get("class_weight"), dict):
        factor = factor * np.where(Y["binary"] == "no", 3.0, 1.0)
    elif "class_weight" in params:
        share = np.mean(Y["binary"] == "yes")
        factor = factor * np.where(Y["binary"] == "yes", 0.5 / share, 0.5 / (1 - share))
    rows = X
    if params.get("normalize"):
        norms = np.sqrt(X.multiply(X).sum(axis=1)).A1
        rows = sp.diags(1 / np.where(norms > 0, norms, 1)) @ X
    reg = params.get("reg") or 1 / (params["C"] * N)
    value, found = best(loss, target, reg, factor, rows, params.get("fit_intercept", True))
    assert np.isclose(model.rounds_[-1]["objective"], value, rtol=1e-7)
    tolerance = {"rtol": 1e-3, "atol": 1e-3 * np.abs(found).max()}
    np.testing.assert_allclose(
        model.coef_.reshape(found[:, :-1].shape), found[:, :-1], **tolerance
    )
    np.testing.assert_allclose(np.atleast_1d(model.intercept_), found[:, -1], **tolerance)
    assert model.get_params()["average"] == params.get("average", False)
    model.partial_fit(X[:10], Y[target][:10])  # it goes on like any other
    assert osvm.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_messages_have_the_type_of_the_model(dtype, monkeypatch):
    """And float32 is enough: the points that are asked for are float32 points."""
    engine = InProcess()
    reduce, sent = engine.reduce, []

    def watched(leaf, blocks, fold, shared):
        out = reduce(leaf, blocks, fold, shared)
        sent.append((shared.W, out.W, out.squares) if isinstance(shared, Problem) else ())
        return out

    monkeypatch.setattr(engine, "reduce", watched)
    blocks = [(rows.astype(dtype), y) for rows, y in blocks_of("binary")]
    model = osvm.LinearClassifier("logistic", reg=0.05, random_state=0)
    fit(model, blocks, tol=1e-10, rounds=100, engine=engine)
    gradients = [arrays for arrays in sent if arrays]
    assert len(gradients) > 5
    assert {a.dtype for arrays in gradients for a in arrays if a is not None} == {np.dtype(dtype)}
    assert model._learner.weights.v.dtype == dtype
    value, found = best("logistic", "binary", 0.05, np.ones(N))
    assert np.isclose(model.rounds_[-1]["objective"], value, rtol=1e-6)
    np.testing.assert_allclose(model.coef_.ravel(), found[0, :-1], rtol=1e-3, atol=1e-3)


def test_a_gradient_beyond_float32_is_cut_off():
    sums = Sums(1, 0.0, np.array([[1e300, -1e300, 2.0]]), np.zeros(1), np.array([1e300, 0, 1]))
    cut = fold_sums([sums.rounded(np.float32)] * 2)
    largest = np.finfo(np.float32).max
    assert cut.W.tolist() == [[largest, -largest, 4.0]]
    assert cut.squares.tolist() == [largest, 0.0, 2.0]


def test_softmax():
    blocks = blocks_of("multi")
    model = fit(osvm.LinearClassifier("softmax", reg=0.05, random_state=0), blocks, tol=1e-12)
    y = Y["multi"]

    def J(theta):
        W, b = theta[: 3 * D].reshape(3, D), theta[3 * D :]
        f = X @ W.T + b
        top = f.max(axis=1, keepdims=True)
        log_sum = top[:, 0] + np.log(np.exp(f - top).sum(axis=1))
        return (log_sum - f[np.arange(N), y]).mean() + 0.025 * (W**2).sum()

    result = minimize(J, np.zeros(3 * D + 3), method="BFGS")
    assert np.isclose(model.rounds_[-1]["objective"], result.fun, rtol=1e-5)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_the_same_bits_on_any_engine_and_after_a_kill(loss, tmp_path):
    def run(**options):
        model = osvm.LinearClassifier(loss, reg=0.01, random_state=1)
        return fit(model, blocks_of("multi"), tol=1e-9, **options)

    whole = run()
    assert len(whole.rounds_) > 5
    assert run(engine=Unreliable(1)).to_bytes() == whole.to_bytes()

    class Dying(InProcess):
        left = 45

        def finished(self, tokens):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            yield from super().finished(tokens)

    path = tmp_path / "run.osvm"
    with pytest.raises(KeyboardInterrupt):
        run(engine=Dying(), checkpoint=path)
    again = run(checkpoint=path, resume=True)
    assert again.to_bytes() == whole.to_bytes()


def test_what_has_no_gradient():
    blocks = blocks_of("binary")
    with pytest.warns(UserWarning, match="smoothed over a width of 0.05"):
        fit(osvm.LinearClassifier(reg=0.01), blocks, tol=1e-3)
    for model, named in [
        (osvm.LinearClassifier("perceptron"), "smooth loss"),
        (osvm.LinearClassifier("multiclass_hinge"), "smooth loss"),
        (osvm.LinearRegressor("epsilon_insensitive"), "smooth loss"),
        (osvm.LinearClassifier("logistic", project=True), "project=False"),
        (osvm.MultilabelClassifier("logistic"), "tol= is for"),
        (osvm.KernelClassifier(), "tol= is for"),
        (osvm.LinearNovelty(), "tol= is for"),
    ]:
        with pytest.raises(ValueError, match=named):
            fit(model, blocks, tol=1e-3)
    with pytest.raises(ValueError, match="tol"):
        fit(osvm.LinearClassifier("logistic"), blocks, tol=0)


def test_few_rounds_whatever_the_number_of_blocks():
    X_text, y_text, *_ = osvm.datasets.make_rcv1_like(
        n_train=8000, n_test=10, n_features=1000, nnz=20, random_state=0
    )
    needed = []
    for n in (4, 16):
        blocks = [(X_text[k::n], y_text[k::n]) for k in range(n)]
        model = fit(osvm.LinearClassifier("logistic", reg=1e-4, random_state=0), blocks, tol=1e-9)
        values = np.array([figures["objective"] for figures in model.rounds_[1:]])
        needed.append(int(np.argmax(values <= 1.001 * values.min())) + 2)
    assert max(needed) <= 25


def test_rosenbrock():
    """Not convex, and with a curved valley: the line search has to work."""
    solver, calls = LBFGS(np.array([-1.2, 1.0]), 0.0), 0
    while not solver.done and calls < 300:
        a, b = solver.asked
        value = (1 - a) ** 2 + 100 * (b - a * a) ** 2
        slope = np.array([-2 * (1 - a) - 400 * a * (b - a * a), 200 * (b - a * a)])
        solver.tell(value, slope)
        calls += 1
    np.testing.assert_allclose(solver.x, [1, 1], atol=1e-4)
