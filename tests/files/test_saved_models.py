"""What can be saved can be loaded, and goes on as if nothing had happened, bit for bit."""

import copy
import pickle

import numpy as np
import pytest
from saved_models import DENSE, KINDS, Y, learn, make, rows_of, scores

import osvm
from osvm import recipes
from osvm._estimator.compat import clone


def through_file(model, tmp_path):
    model.save(tmp_path / "model.osvm")
    return osvm.load(tmp_path / "model.osvm")


WAYS = {
    "file": through_file,
    "bytes": lambda model, tmp_path: osvm.from_bytes(model.to_bytes()),
    "pickle": lambda model, tmp_path: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, tmp_path: copy.deepcopy(model),
}


def state_bytes(model, tmp_path):
    """The whole fitted state, as the bytes of a file."""
    model.save(tmp_path / "state.osvm")
    return (tmp_path / "state.osvm").read_bytes()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_model_comes_back_and_goes_on(kind, way, tmp_path):
    model, data, target = make(kind), rows_of(kind), KINDS[kind][1]
    again = WAYS[way](model, tmp_path)
    assert type(again) is type(model)
    assert repr(again.get_params()) == repr(model.get_params())
    assert scores(again, data).tobytes() == scores(model, data).tobytes()
    assert np.array_equal(again.predict(data), model.predict(data))
    assert state_bytes(again, tmp_path) == state_bytes(model, tmp_path) == model.to_bytes()
    if getattr(model, "warm_start", None) is True:
        learn(model, target, data=data)
        learn(again, target, data=data)
        assert state_bytes(again, tmp_path) == state_bytes(model, tmp_path)
    if not hasattr(model, "partial_fit"):
        return
    for rows in (slice(0, 10), slice(10, 11), slice(11, 60)):  # mini-batches stay open
        for one in (model, again):
            learn(one, target, "partial_fit", rows, data)
        assert scores(again, data).tobytes() == scores(model, data).tobytes()
        again = WAYS[way](again, tmp_path)
    assert state_bytes(again, tmp_path) == state_bytes(model, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_clone_learns_the_same_model(kind, tmp_path):
    model, data, target = make(kind), rows_of(kind), KINDS[kind][1]
    other = learn(clone(model), target, data=data)
    assert scores(other, data).tobytes() == scores(model, data).tobytes()
    model.__dict__.pop("tokenizer_", None)  # fitted, and not a parameter: a clone has none
    model.__dict__.pop("_input", None)
    assert state_bytes(other, tmp_path) == state_bytes(model, tmp_path)


@pytest.mark.parametrize("kind", [k for k in KINDS if not k.startswith(("SV", "OneClass"))])
def test_models_of_a_stream_come_back(kind, tmp_path):
    """Models that have seen `partial_fit` alone, where their parameters allow it."""
    maker, target = KINDS[kind]
    data = rows_of(kind)
    model = maker()
    if not hasattr(model, "partial_fit"):
        pytest.skip("it learns a fixed training set")
    extra = {"classes": np.unique(Y[target])} if type(model).__name__ == "AlmaClassifier" else {}
    y = Y[target]
    first = (data[:20],) if y is None else (data[:20], y[:20])
    params = model.get_params()
    whole = params.get("C") or params.get("batch_size") == "full"
    if whole or params.get("scale") in ("std", "maxabs"):
        with pytest.raises(ValueError, match=r"C needs|'full' needs|looks at all rows"):
            model.partial_fit(*first, **extra)
        return
    model.partial_fit(*first, **extra)
    again = through_file(model, tmp_path)
    for one in (model, again):
        learn(one, target, "partial_fit", slice(20, 60), data)
    assert scores(again, data).tobytes() == scores(model, data).tobytes()
    assert state_bytes(again, tmp_path) == state_bytes(model, tmp_path)


def test_a_full_batch_without_C_comes_back(tmp_path):
    """It was saved, and refused when it was loaded."""
    model = make("recipes.batch_gd")
    again = through_file(model, tmp_path)
    assert scores(again).tobytes() == scores(model).tobytes()
    assert again._plan.batch_size == 60


@pytest.mark.parametrize("width", [1, 30, 300_000])
def test_labels_of_wide_dtypes_come_back(width, tmp_path):
    y = np.where(Y["binary"] == "yes", "ja", "nein").astype(f"U{max(width, 4)}")
    model = osvm.LinearClassifier(random_state=0).fit(rows_of("a"), y)
    again = through_file(model, tmp_path)
    assert again.classes_.tolist() == ["ja", "nein"]
    assert again.predict(rows_of("a")).tolist() == model.predict(rows_of("a")).tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1e-30, 1e-15, 1e15, 1e20, 1e30])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "sigmoid", "polynomial", "cosine"])
@pytest.mark.parametrize(
    "make", [osvm.KernelClassifier, osvm.SVC, lambda **o: osvm.SVC(solver="ol_svm", **o)]
)
def test_rows_of_any_size_are_refused_or_come_back(make, kernel, size, dtype, tmp_path):
    model = make(kernel=kernel, gamma=1.0, random_state=0)
    data = (DENSE * size).astype(dtype)
    try:
        model.fit(data, Y["binary"])
    except ValueError as refusal:
        text = str(refusal)
    else:
        again = through_file(model, tmp_path)
        assert np.isfinite(scores(model, data)).all()
        assert scores(again, data).tobytes() == scores(model, data).tobytes()
        return
    assert "scale" in text


@pytest.mark.parametrize("size", [1e-300, 1e30, 1e49, 1e51, 1e200])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    "maker",
    [
        osvm.LinearClassifier,
        lambda: osvm.LinearClassifier("logistic", class_weight={"yes": 1e50, "no": 1.0}),
        lambda: osvm.LinearClassifier(schedule="bottou"),
        lambda: osvm.KernelClassifier(budget=10),
        lambda: osvm.KernelClassifier(budget=10, class_weight={"yes": 1e50, "no": 1.0}),
    ],
)
def test_weights_of_any_size_are_refused_or_come_back(maker, method, size):
    """Sums of weights of 1e30 were saved, and refused when they were loaded."""
    for weight in np.full(60, size), np.where(np.arange(60) == 7, size, 1.0):
        model = maker().set_params(random_state=0)
        try:
            getattr(model, method)(DENSE, Y["binary"], sample_weight=weight)
        except (ValueError, FloatingPointError) as refusal:
            text = str(refusal)
        else:
            text = ""
        assert size < 1e50 or "at most 1e+50" in text
        if text:
            continue
        again = osvm.from_bytes(model.to_bytes())
        assert np.isfinite(scores(model, DENSE)).all()
        assert scores(again, DENSE).tobytes() == scores(model, DENSE).tobytes()


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if k % 6 == 0 else pytest.mark.slow)
     for k, kind in enumerate(KINDS)],
)  # fmt: skip
@pytest.mark.parametrize("size", [1e-300, 1e-100, 1e-30, 1e18, 1e30, 1e100, 1e150, 1e300])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_of_any_size_are_refused_or_come_back(kind, size, tmp_path):
    maker, target = KINDS[kind]
    for dtype in (np.float32, np.float64):
        data = (DENSE * size).astype(dtype)
        if not np.isfinite(data).all():
            continue
        model = maker()
        try:
            learn(model, target, data=data)
        except (ValueError, FloatingPointError):
            assert not hasattr(model, "t_")
            continue
        again = through_file(model, tmp_path)
        assert scores(again, data).tobytes() == scores(model, data).tobytes()


@pytest.mark.parametrize("way", [*WAYS, "copy"])
def test_a_balanced_model_of_label_sets_comes_back_with_its_bits(way, tmp_path):
    """It learnt label by label, came back side by side, and its scores were rounded anew."""
    model = learn(osvm.MultilabelClassifier(class_weight="balanced", random_state=0), "sets")
    learn(model, "sets", "partial_fit", slice(0, 30))
    ways = {**WAYS, "copy": lambda model, tmp_path: copy.copy(model)}
    again = ways[way](model, tmp_path)
    for _ in range(2):
        assert scores(again).tobytes() == scores(model).tobytes()
        for one in (model, again):
            learn(one, "sets", "partial_fit", slice(30, 60))


@pytest.mark.parametrize("change", ["dual", "support", "votes_0", "t", "vectors_indices"])
def test_a_pickled_cached_machine_passes_the_schema(change):
    """Pickles restored whatever attributes they held."""
    make_model = recipes.voted_perceptron if change == "votes_0" else recipes.ol_svm
    model = learn(make_model(), "binary")
    machine = model._machine
    state = machine.__getstate__()
    if change == "t":
        state["scalars"] |= {"t": np.nan}
    else:
        state["arrays"] = {**state["arrays"], change: -1 - state["arrays"][change]}
        if change == "dual":
            state["arrays"][change][0, 0] = np.inf
    again = type(machine).__new__(type(machine))
    with pytest.raises(ValueError, match=r"saved|exceed"):
        again.__setstate__(state)
    assert again.__dict__ == {}


def test_a_pickled_cached_machine_keeps_a_kernel_of_ones_own(tmp_path):
    model = recipes.ol_svm(kernel=_own_kernel)
    learn(model, "binary", data=DENSE)
    again = pickle.loads(pickle.dumps(model))
    assert scores(again, DENSE).tobytes() == scores(model, DENSE).tobytes()
    with pytest.raises(TypeError, match="kernel"):
        model.save(tmp_path / "model.osvm")


def _own_kernel(A, B):
    return np.asarray(A @ B.T)


def test_label_models_with_other_plans_are_not_put_side_by_side(tmp_path):
    """The plan of the first label was taken for all of them."""
    model = learn(osvm.MultilabelClassifier(reg=0.01, random_state=0), "sets")
    scalars, arrays = model._get_state()
    scalars["models"][1]["plan"] = {**scalars["models"][1]["plan"], "fit_intercept": False}
    again = osvm.MultilabelClassifier(reg=0.01, random_state=0)
    again._set_state(scalars, arrays)
    assert [one._plan.fit_intercept for one in again._label_models()] == [True, False, True]


CACHED_RECIPES = [
    "ballseptron", "kernel_adatron", "kernel_perceptron", "lasvm", "norma_cached", "ol_svm",
    "pegaz", "voted_perceptron",
]  # fmt: skip


@pytest.mark.parametrize("size", [1e-300, 1e100, 1e149, 1e200, 1e308])
@pytest.mark.parametrize("name", CACHED_RECIPES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_coefficients_of_any_size_are_refused_by_fit_or_come_back(name, size, tmp_path):
    """Coefficients beyond 1e150 were saved, and refused when they were loaded."""
    model = getattr(recipes, name)()
    try:
        model.fit(DENSE, Y["binary"], sample_weight=np.full(60, size))
    except (ValueError, FloatingPointError) as error:
        refusal = str(error)
    else:
        again = through_file(model, tmp_path)
        assert again.dual_coef_.tobytes() == model.dual_coef_.tobytes()
        assert np.abs(model.dual_coef_).max() <= 1e150
        return
    assert "overflow" in refusal or "too large" in refusal
    assert not hasattr(model, "t_")


@pytest.mark.parametrize("size", [1e100, 1e149, 1e153, 1e300])
def test_coefficients_of_targets_of_any_size_are_refused_by_fit_or_come_back(size, tmp_path):
    """The offset of such a regression is as large as its targets."""
    model = osvm.SVR()
    if size > 1e150:
        with pytest.raises(ValueError, match=r"targets must be at most 1e\+150"):
            model.fit(DENSE, Y["number"] * size)
        return
    model.fit(DENSE, Y["number"] * size)
    assert through_file(model, tmp_path).intercept_.tobytes() == model.intercept_.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_parameter_that_is_invalid_by_now_does_not_keep_a_model_from_its_file(kind):
    """What was learnt is in the file; the next call that reads the parameter refuses it."""
    model, data = make(kind), rows_of(kind)
    want = scores(model, data).tobytes()
    for name, value in model.get_params(deep=False).items():
        for other in ("nonsense", -1):
            model.set_params(**{name: other})
            again = osvm.from_bytes(model.to_bytes())
            assert again.to_bytes() == model.to_bytes()
        model.set_params(**{name: value})
        assert scores(again.set_params(**{name: value}), data).tobytes() == want
