"""Whatever numbers a model is trained with, it learns them, or refuses and is as it was.

Random sequences of calls with values, targets, weights, step sizes and regularizers from 1e-300
to 1e307, over all kinds of model.  After each call the whole state is saved and loaded, which
checks every number of it against the schema of its learner.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from saved_models import KINDS, Y, rows_of

import osvm

EXPONENTS = [
    -300, -150, -50, -20, 0, 0, 0, 20, 30, 49, 50, 75, 99, 100, 120, 149, 150, 160, 200, 290, 307,
]  # fmt: skip


def sizes(rng, n):
    """Factors of n rows: all alike, or one that is not 1."""
    size = 10.0 ** rng.choice(EXPONENTS)
    factors = np.full(n, size)
    if rng.random() < 0.5:
        factors = np.ones(n)
        factors[rng.integers(n)] = size
    return factors


def change_numbers(model, rng):
    """Other numbers among the parameters, of any size."""
    params = model.get_params()
    changes = {}
    if "gamma" in params and rng.random() < 0.7:
        changes["gamma"] = float(rng.choice([1.0, 1e-3, 1e3, 1e10]))
    if "eta0" in params and rng.random() < 0.3:
        changes["eta0"] = float(10.0 ** rng.integers(-30, 60))
    if "reg" in params and rng.random() < 0.2 and not params.get("C") and not params.get("nu"):
        changes["reg"] = float(10.0 ** rng.integers(-30, 10))
    if "epochs" in params:
        changes["epochs"] = int(rng.integers(1, 3))
    model.set_params(**changes)


def calls(model, data, target, rng):
    """Some calls that train, each as (name, arguments, keywords)."""
    for _ in range(4):
        name = str(rng.choice(["fit", "partial_fit", "partial_fit", "learn_one"]))
        if not hasattr(model, name):
            name = "fit"
        n = int(rng.choice([1, 5, 60])) if name == "partial_fit" else 60
        start = int(rng.integers(0, 61 - n))
        rows, factors = data[start : start + n], sizes(rng, n) if rng.random() < 0.6 else 1.0
        X = sp.csr_array(rows * np.reshape(factors, (-1, 1))) if sp.issparse(rows) else (
            rows * np.reshape(factors, (-1, 1)))  # fmt: skip
        if rng.random() < 0.3:
            X = X.astype(np.float32)
        y = Y[target]
        if y is not None:
            y = y[start : start + n]
            if target == "number":
                y = y * sizes(rng, n)
        given = (X,) if y is None else (X, y)
        if name == "learn_one":
            for i in range(3):
                row = X[[i]].toarray()[0] if sp.issparse(X) else X[i]
                x = {int(j): float(v) for j, v in enumerate(row) if v}
                yield name, (x, *(one[i] for one in given[1:])), {}
            continue
        options = {}
        if rng.random() < 0.5 and "Alma" not in type(model).__name__:
            options["sample_weight"] = np.minimum(sizes(rng, n), 1e50)
        if "Alma" in type(model).__name__ and name == "partial_fit":
            options["classes"] = np.unique(Y[target])
        yield name, given, options


def state(model):
    """The state as bytes; None of a model that is not fitted."""
    try:
        return model.to_bytes()
    except ValueError:
        assert not hasattr(model, "t_")
        return None


def walk(kind, seed):
    rng = np.random.default_rng(seed)
    maker, target = KINDS[kind]
    model = maker()
    change_numbers(model, rng)
    before = state(model)
    for name, given, options in calls(model, rows_of(kind), target, rng):
        try:
            getattr(model, name)(*given, **options)
        except (ValueError, FloatingPointError):
            assert state(model) == before, f"{name} changed the model that it refused to train"
            continue
        before = state(model)
        assert osvm.from_bytes(before).to_bytes() == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_numbers_of_any_size_are_learnt_or_refused(kind):
    with np.errstate(all="ignore"):
        walk(kind, sum(kind.encode()))


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        *((kind, 23) for kind in KINDS if "batch_size='full'" in kind),
        ("LinearClassifier(schedule='smd', loss='softmax') multi", 19),
        ("LinearClassifier(schedule='coin_betting', probability=True) multi", 37),
        ("LinearSVC() binary", 9),
        ("LinearSVC() binary", 21),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_walks_that_ended_in_models_that_no_file_takes(kind, seed):
    with np.errstate(all="ignore"):
        walk(kind, seed)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_numbers_of_any_size_are_learnt_or_refused_many(kind):
    with np.errstate(all="ignore"):
        for seed in range(40):
            walk(kind, seed)


# ------------------------------------------------------------- what the walk has found

X = np.random.default_rng(0).normal(size=(200, 4))
CLASSES = np.arange(200) % 3


@pytest.mark.parametrize("eviction", ["fifo", "coefficient", "term", "change", "merge", "project"])
@pytest.mark.parametrize("classes", [2, 3])
def test_offsets_of_huge_scores_are_refused_by_fit(eviction, classes):
    """`fit` read an offset beyond 1e150 off the scores, and `load` refused the model."""
    model = osvm.KernelClassifier(
        budget=10, eviction=eviction, kernel="polynomial", gamma=1.0, random_state=0
    )
    for size in (1e10, 1e20, 1e25, 1e30, 1e40):
        try:
            model.fit(size * X, CLASSES % classes)
        except ValueError as error:
            refusal = str(error)
        else:
            refusal = ""
        assert ("beyond 1e150" in refusal) == (size >= 1e25)
        if refusal:
            continue
        assert np.abs(model.intercept_).max() < 1e150
        assert osvm.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_rows_whose_norm_overflows_are_refused_by_kernel_machines(method):
    """The norm was kept as infinity, and `load` refused the model."""
    for cls, y in (
        (osvm.KernelClassifier, CLASSES),
        (osvm.KernelRegressor, X[:, 0]),
        (osvm.KernelNovelty, None),
    ):
        for size, dtype in ((1e200, np.float64), (1e25, np.float32)):
            rows = X.copy()
            rows[7] *= size
            with pytest.raises(ValueError, match="at row 7 a score, a coefficient or a norm"):
                getattr(cls(gamma=1.0, shuffle=False), method)(rows.astype(dtype), y)


def test_an_average_that_began_with_a_refused_row_is_undone():
    """The first `partial_fit` of one row after `fit` began the average, then refused the row."""
    for model in (osvm.KernelRegressor(gamma=1.0), osvm.KernelNovelty(gamma=1.0)):
        model.fit(X, X[:, 0])
        before = model.to_bytes()
        with pytest.raises(ValueError, match="at row 0"):
            model.partial_fit(1e200 * X[:1], X[:1, 0])
        assert model.to_bytes() == before


def test_the_spread_of_targets_is_not_negative():
    """Rounding made the squares negative, and `load` refused the model."""
    weight = np.full(60, 1e30)
    for seed in range(50):
        y = np.random.default_rng(seed).normal(size=60)
        model = osvm.KernelRegressor(gamma=1.0).partial_fit(X[:60], y, sample_weight=weight)
        assert osvm.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


@pytest.mark.parametrize(
    "model",
    [
        osvm.LinearRegressor(schedule="coin_betting"),
        osvm.LinearRegressor(),
        osvm.LinearRegressor(schedule="adaptive", eta0=1e-40),
    ],
)
def test_targets_beyond_the_range_of_the_steps_are_refused(model):
    with pytest.raises(FloatingPointError, match="row 0"):
        model.partial_fit(X[:5], 1e90 * X[:5, 0])
    assert state(model) is None


def test_targets_beyond_the_range_of_sums_are_refused():
    """Sums of losses were infinite, and `load` refused the model."""
    y = X[:, 0].copy()
    y[3] = -1e200
    for model in (osvm.LinearRegressor("huber"), osvm.KernelRegressor(), osvm.SVR()):
        with pytest.raises(ValueError, match=r"row 3: targets must be at most 1e\+150"):
            model.fit(X, y)
    model = osvm.LinearRegressor().partial_fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"row 0: targets must be at most 1e\+150"):
        model.learn_one({0: 1.0}, 1e200)


@pytest.mark.parametrize("schedule", ["bottou", "smd"])
def test_graph_hinge_learns_a_stream_that_begins_with_one_class(schedule):
    """Distances were those of one class, and those of two classes never came."""
    tree = osvm.taxonomy.from_paths(["x/a", "x/b", "y/c"])
    y = np.array(["x/a", "y/c"])[(X[:, 0] > 0).astype(int)]
    order = np.argsort(y, kind="stable")

    def new():
        return osvm.LinearClassifier(loss="graph_hinge", taxonomy=tree, schedule=schedule)

    first = new().partial_fit(X[order[:1]], y[order[:1]])
    assert osvm.from_bytes(first.to_bytes()).to_bytes() == first.to_bytes()
    for one in order[[1, -1, -2]]:
        first.partial_fit(X[one : one + 1], y[one : one + 1])
    assert np.array_equal(first._plan.delta, tree.distances(["x/a", "y/c"]))
    assert first.partial_fit(X, y).score(X, y) > 0.8
    assert osvm.from_bytes(first.to_bytes()).to_bytes() == first.to_bytes()


def test_a_tiny_row_of_a_huge_weight_is_refused_by_float32_weights():
    """The step's coefficient was infinite in float32, and times a value of 0 not a number."""
    sets = [("a",) if x > 0 else ("b",) for x in X[:, 0]]
    steps = {"eta0": 1e14, "schedule": "constant", "reg": 1e-20}
    for model, y in (
        (osvm.MultilabelClassifier("logistic", **steps), sets),
        (osvm.LinearClassifier("logistic", **steps), CLASSES),
        (osvm.LinearClassifier("logistic", **steps), CLASSES > 0),
    ):
        model.partial_fit(X.astype(np.float32), y, sample_weight=np.full(200, 1e-20))
        before = model.to_bytes()
        with pytest.raises(FloatingPointError, match="row 0"):
            model.partial_fit(1e-300 * X[:1], y[1:2], sample_weight=[1e50])
        assert model.to_bytes() == before


@pytest.mark.parametrize("schedule", ["coin_betting", "bottou", "auto"])
def test_a_label_that_comes_with_rows_of_another_dtype_is_saved(schedule):
    """Its weights had the dtype of these rows, others' that of the first, and no file has both."""
    model = osvm.MultilabelClassifier(schedule=schedule)
    for dtype, label in ((np.float64, "a"), (np.float32, "b"), (np.float64, "c")):
        model.partial_fit(X[:50].astype(dtype), [(label,) if x > 0 else () for x in X[:50, 0]])
    again = osvm.from_bytes(model.to_bytes())
    assert again.to_bytes() == model.to_bytes()
    assert np.array_equal(again.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("n_out", [1, 3])
def test_a_mini_batch_refuses_a_coefficient_that_float32_cannot_hold(n_out):
    """Infinite in float32, it made the gradient of a row of zeros NaN."""
    rows, y = (1e-30 * X).astype(np.float32), CLASSES if n_out == 3 else CLASSES > 0
    model = osvm.LinearClassifier(batch_size=7, reg=1e-3, schedule="bottou")
    with pytest.raises(FloatingPointError, match="row 0"):
        model.partial_fit(rows, y, sample_weight=np.full(200, 1e50))
    assert state(model) is None
    model.partial_fit(rows, y)
    assert osvm.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_batch_that_shrinks_the_weights_first_keeps_their_bound(dtype, classes):
    """The bound was that of the scale before the step, which may be a billion times smaller."""
    size, weight = (1e15, 1e14) if dtype == np.float32 else (1e94, 1e50)
    model = osvm.LinearClassifier(
        batch_size=2, reg=1.0, schedule="constant", eta0=1.0 - 1e-8, fit_intercept=False
    )
    y = CLASSES[:2] % classes
    try:
        model.partial_fit((size * X[:2]).astype(dtype), y, sample_weight=np.full(2, weight))
    except FloatingPointError:
        assert state(model) is None
    else:
        assert osvm.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


def test_coin_betting_refuses_gradients_out_of_range():
    """Bounds were those of the root of a weight, which adaptive steps go by, and no bet does."""
    for y in (CLASSES, CLASSES > 0):
        model = osvm.LinearClassifier(schedule="coin_betting")
        with pytest.raises(FloatingPointError, match="row 0"):
            model.partial_fit(1e100 * X, y, sample_weight=np.full(200, 1e50))
        assert state(model) is None


def test_the_reward_of_a_bet_keeps_its_bound():
    """Large weights that cancel in the score made rewards that no file may hold."""
    model = osvm.LinearClassifier("hinge", schedule="coin_betting", fit_intercept=False)
    model.partial_fit([[1e-100, 0], [0, 1e-100]] * 400, [1] * 800, classes=[0, 1])
    model.partial_fit([[1e80, -1e80]], [1])
    assert osvm.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


def test_linear_svc_refuses_a_solution_that_is_not_finite():
    """An offset of NaN was stored; a refused `fit` keeps the solution of before."""
    rows, y = rows_of("LinearSVC() binary"), Y["binary"]
    rows = rows.toarray() if sp.issparse(rows) else rows.copy()
    model = osvm.LinearSVC(random_state=3).fit(rows, y)
    before = model.to_bytes()
    rows[59] *= 1e307
    with pytest.raises(ValueError, match="overflow"):
        model.fit(rows, y, sample_weight=np.full(60, 1e50))
    assert model.to_bytes() == before


def test_a_first_row_whose_square_overflows():
    """A stream raised ZeroDivisionError: the first step was 0."""
    model = osvm.LinearRegressor("squared", reg=1e-24)
    for size in (1e160, 1e200):
        try:
            model.partial_fit([[size, 1.0]], [1.0])
        except FloatingPointError:
            assert state(model) is None
        else:
            assert osvm.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


@pytest.mark.parametrize("target", [CLASSES, CLASSES > 0, X[:, 0]])
def test_bets_on_gradients_below_float32_are_not_made(target):
    """0/0 made weights NaN."""
    number = target.dtype.kind == "f"
    model = (osvm.LinearRegressor if number else osvm.LinearClassifier)(schedule="coin_betting")
    model.partial_fit(X.astype(np.float32), target, sample_weight=np.full(200, 1e-50))
    assert np.isfinite(model.coef_).all()
    assert osvm.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


@pytest.mark.parametrize(("eta0", "reg"), [(0.1, 10.0), (1e-3, 100.0), (1e-22, 1e7)])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_averages_of_weights_that_shrink_fast_are_finite(loss, eta0, reg):
    """Sums in units of a scale that falls overflowed, and all weights were NaN."""
    for y in (CLASSES, CLASSES > 0):
        model = osvm.LinearClassifier(loss, scale="running", eta0=eta0, reg=reg, random_state=0)
        model.fit(X, y).partial_fit(X, y)
        assert np.isfinite(model.coef_).all()
        assert osvm.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
