"""What estimators share: columns, state, parameters, labels, class weights, random numbers."""

import json
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse as sp

import osvm
from osvm._estimator.base import OnlineEstimator
from osvm._estimator.compat import HAS_SKLEARN, ClassifierMixin, RegressorMixin, not_fitted_error
from osvm._input.labels import (
    LabelIndex,
    RunningBalance,
    check_class_weight,
    resolve_class_weight,
)
from osvm._input.parameters import (
    check_bool,
    check_choice,
    check_integer,
    check_number,
    generator_state,
    make_generator,
    resolve_reg,
    restore_generator,
)
from osvm._input.validate import check_sample_weight, check_y_classes, check_y_regression
from osvm.linear.alma import AlmaClassifier


class NearestMean(ClassifierMixin, OnlineEstimator):
    """The smallest online classifier there is, on top of the base."""

    def __init__(self, shrink=0.0):
        self.shrink = shrink

    def _learn(self, X, y, classes, sample_weight, reset):
        source, rows = self._check_X(X, reset=reset)
        check_number("shrink", self.shrink, 0.0)
        y = check_y_classes(y, source.n_rows, estimator_name=type(self).__name__)
        weight = check_sample_weight(sample_weight, source.n_rows, allow_zero=not reset)
        if reset or not hasattr(self, "_labels"):
            labels = LabelIndex.of(y if classes is None else np.asarray(classes))
            if len(labels) < 2:
                raise ValueError(f"NearestMean needs at least 2 classes, got {len(labels)} class")
            sums = np.zeros((len(labels), source.n_features))
            counts, t = np.zeros(len(labels)), 0
        else:
            labels, sums, counts, t = self._labels, self._sums.copy(), self._counts.copy(), self.t_
        codes = labels.encode(y)
        weight = np.ones(source.n_rows) if weight is None else weight
        hot = sp.csr_matrix((weight, (codes, np.arange(len(y)))), shape=(len(labels), len(y)))
        sums += np.asarray((hot @ sp.csr_matrix(rows)).todense())
        counts += np.bincount(codes, weight, len(labels))
        # everything was checked: store
        if "n_features_in_" not in self.__dict__ or reset:
            self._set_features(X, source)
        self._labels, self._sums, self._counts = labels, sums, counts
        self.classes_, self.t_ = labels.classes, t + source.n_rows
        return self

    def fit(self, X, y, sample_weight=None):
        return self._learn(X, y, None, sample_weight, True)

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        return self._learn(X, y, classes, sample_weight, False)

    def decision_function(self, X):
        self._check_fitted()
        _, rows = self._check_X(X)
        means = self._sums / np.maximum(self._counts, 1e-300)[:, None]
        scores = rows @ means.T - 0.5 * np.sum(means**2, axis=1)
        scores = np.asarray(scores)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X):
        scores = self.decision_function(X)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self._labels.decode(codes)


class Mean(RegressorMixin, OnlineEstimator):
    """Predicts the mean target."""

    def fit(self, X, y):
        source, _ = self._check_X(X, reset=True)
        y = check_y_regression(y, source.n_rows, estimator_name="Mean")
        self._set_features(X, source)
        self.t_, self.mean_ = source.n_rows, float(y.mean())
        return self

    def predict(self, X):
        self._check_fitted()
        return np.full(self._check_X(X)[0].n_rows, self.mean_)


@pytest.mark.skipif(not HAS_SKLEARN, reason="scikit-learn is not there")
@pytest.mark.filterwarnings("ignore::osvm.ConversionWarning")
@pytest.mark.parametrize("estimator", [NearestMean(), Mean()], ids=["classifier", "regressor"])
def test_scikit_learns_own_checks_pass(estimator):
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    expected = {}
    if isinstance(estimator, Mean):
        expected = {"check_regressors_train": "the mean is a poor predictor on purpose"}
    results = checks.check_estimator(
        estimator, on_skip=None, on_fail=None, expected_failed_checks=expected
    )
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    assert not failed
    assert sum(r["status"] == "passed" for r in results) > 30


# ---------------------------------------------------------------------- columns


def test_columns_are_remembered_and_compared():
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    model = NearestMean().fit(X, y)
    assert model.n_features_in_ == 3
    assert not hasattr(model, "feature_names_in_")
    with pytest.raises(ValueError, match="X has 2 features, but NearestMean is expecting 3"):
        model.predict(X[:, :2])
    model.fit(X[:, :2], y)
    assert model.n_features_in_ == 2


def test_column_names_are_remembered_and_compared():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["a", "b"])
    y = np.arange(20) % 2
    model = NearestMean().fit(X, y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    model.predict(X)
    with pytest.raises(ValueError, match="same order"):
        model.predict(X[["b", "a"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X.to_numpy())
    model.fit(X.to_numpy(), y)
    assert not hasattr(model, "feature_names_in_")


def test_an_error_leaves_the_model_as_it_was():
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    model = NearestMean().partial_fit(X, y)
    before = {k: np.copy(v) for k, v in model.__dict__.items() if k != "_labels"}
    bad = X.copy()
    bad[7, 1] = np.nan
    for args in ((bad, y), (X, y[:-1]), (X[:, :2], y), (X, y + 5), (X, y, None, -np.ones(20))):
        with pytest.raises(ValueError):  # noqa: PT011
            model.partial_fit(*args)
        for name, value in before.items():
            np.testing.assert_array_equal(model.__dict__[name], value)


def test_base_state():
    model = NearestMean().fit(np.ones((4, 2)), [0, 1, 0, 1])
    state = json.loads(json.dumps(model._get_base_state()))
    other = NearestMean()
    other.feature_names_in_ = np.array(["x"], object)
    other._set_base_state(state)
    assert (other.t_, other.n_features_in_) == (4, 2)
    assert not hasattr(other, "feature_names_in_")
    other._set_base_state({**state, "feature_names_in": ["a", "b"]})
    assert other.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        other._set_base_state({**state, "feature_names_in": ["a"]})
    with pytest.raises(ValueError, match="n_features_in"):
        other._set_base_state({**state, "n_features_in": -1})
    with pytest.raises(NotImplementedError):
        model._get_state()
    with pytest.raises(NotImplementedError):
        model._set_state({}, {})


# ------------------------------------------------------------------- parameters


def test_numbers():
    assert check_number("x", 3) == 3.0
    assert isinstance(check_number("x", np.float32(0.5)), float)
    assert check_number("x", None, none=True) is None
    assert check_number("x", 0, 0, 1) == 0
    for value in (None, "1", True, np.True_, np.nan, np.inf, 1j, [1], -0.1, 1.1):
        with pytest.raises(ValueError, match=r"x must be a number >= 0 and <= 1, got"):
            check_number("x", value, 0, 1)
    for value in (0, 1):
        with pytest.raises(ValueError, match=r"> 0 and < 1"):
            check_number("x", value, 0, 1, low_open=True, high_open=True)
    with pytest.raises(ValueError, match="or None"):
        check_number("x", "a", none=True)


@pytest.mark.parametrize("value", [2**63, -(2**63), 10**400])
def test_numbers_that_no_machine_holds_are_refused(value):
    with pytest.raises(ValueError, match="n must be an integer"):
        check_integer("n", value)
    if abs(value) > 1e300:
        with pytest.raises(ValueError, match="x must be a number"):
            check_number("x", value)


def test_integers_bools_choices():
    assert check_integer("n", np.int64(3), 1) == 3
    assert check_integer("n", None, none=True) is None
    for value in (0, 2.0, True, "3", None, 11):
        with pytest.raises(ValueError, match="n must be an integer >= 1 and <= 10, got"):
            check_integer("n", value, 1, 10)
    assert check_bool("b", np.True_) is True
    for value in (0, 1, None, "True"):
        with pytest.raises(ValueError, match="b must be True or False"):
            check_bool("b", value)
    assert check_choice("c", "a", ["a", "b", None]) == "a"
    assert check_choice("c", None, ["a", None]) is None
    for value in ("z", 1, True, np.ones(2)):
        with pytest.raises(ValueError, match=r"c must be one of 'a', 1\.5, got"):
            check_choice("c", value, ["a", 1.5])


def test_reg_and_C():
    assert resolve_reg(0.1, None, None) == 0.1
    assert resolve_reg(None, None, 10, default=0.5) == 0.5
    assert resolve_reg(None, 2, 100) == 1 / 200
    assert resolve_reg(0, None, 10) == 0.0
    for reg, C, n, message in (
        (0.1, 1.0, 10, "not both"),
        (-1, None, 10, "reg must be"),
        (None, 0, 10, "C must be a number > 0"),
        (None, 1.0, None, "give reg instead"),
    ):
        with pytest.raises(ValueError, match=message):
            resolve_reg(reg, C, n)


# ----------------------------------------------------------------- random numbers


def test_generators_repeat():
    for make in (
        lambda: 7,
        lambda: np.int64(7),
        lambda: np.random.default_rng(7),
        lambda: np.random.RandomState(7),
    ):
        a, b = make_generator(make()), make_generator(make())
        assert a.random(5).tolist() == b.random(5).tolist()
    assert make_generator(None).random() != make_generator(None).random()
    shared = np.random.RandomState(7)
    assert make_generator(shared).random() != make_generator(shared).random()
    for bad in (-1, "7", 1.5, True):
        with pytest.raises(ValueError, match="random_state"):
            make_generator(bad)


def test_generator_state_goes_through_json():
    generator = make_generator(3)
    generator.integers(5, size=3, dtype=np.uint32)  # leaves half a word behind
    state = json.loads(json.dumps(generator_state(generator)))
    again = restore_generator(state)
    assert again.permutation(50).tolist() == generator.permutation(50).tolist()
    with pytest.raises(ValueError, match="unknown random generator"):
        restore_generator({**state, "bit_generator": "MT19937"})


# ------------------------------------------------------------------------ labels

LABELS = {
    "pm1": np.array([1, -1, -1, 1, 1, -1]),
    "01": np.array([0, 1, 1, 0, 0, 1]),
    "floats": np.array([1.0, -1.0, -1.0, 1.0, 1.0, -1.0]),
    "bools": np.array([True, False, True, True, False, False]),
    "codes": np.array([2, 0, 1, 2, 0, 1]),
    "far apart": np.array([10, -5, 300, 10, 300, -5]),
    "small": np.array([3, 1, 2, 3, 1, 2], np.uint8),
    "strings": np.array(["b", "a", "ccc", "b", "a", "ccc"]),
    "objects": np.array(["b", "a", "ccc", "b", "a", "ccc"], object),
    "bytes": np.array([b"b", b"a", b"b", b"b", b"a", b"b"]),
}


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("repeat", [1, 5])
def test_encode_and_decode(name, repeat):
    y = np.tile(LABELS[name], repeat)
    index = LabelIndex.of(y)
    assert index.classes.tolist() == sorted(set(y.tolist()))
    assert index.classes.dtype == y.dtype
    codes = index.encode(y)
    assert codes.dtype == np.int32
    assert index.decode(codes).tolist() == y.tolist()
    for k in range(len(y)):  # one at a time gives the same
        assert index.encode(y[k : k + 1]).tolist() == [codes[k]]
    assert len(index) == len(index.classes)
    state = json.loads(json.dumps(index.get_state()))
    assert LabelIndex.from_state(state) == index
    assert index.classes.tolist() == eval(repr(index)[len("LabelIndex(") : -1])


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("repeat", [1, 5])
def test_unknown_labels_name_the_row(name, repeat):
    y = np.tile(LABELS[name], repeat)
    index = LabelIndex.of(y)
    if y.dtype.kind == "b":
        y = y.astype(int)
    elif y.dtype.kind in "US":
        y = y.astype(f"{y.dtype.kind}9")
    other = {"U": "zz", "O": "zz", "S": b"zz"}.get(y.dtype.kind, 77)
    y[3] = other
    with pytest.raises(ValueError, match=r"label .* at row 3, which is not among the classes"):
        index.encode(y)
    grown, codes = index.grown(y)
    assert grown.classes.tolist() == [*index.classes.tolist(), other]
    assert codes[3] == len(index)
    assert grown.decode(codes).tolist() == y.tolist()
    assert len(index) == len(grown) - 1  # the old one is untouched
    assert grown.grown(y)[0] is grown


def test_other_types_of_the_same_number_match():
    index = LabelIndex.of(np.array([-1, 1]))
    assert index.encode(np.array([1.0, -1.0])).tolist() == [1, 0]
    assert index.encode(np.ones(9, np.float32)).tolist() == [1] * 9
    codes = LabelIndex.of(np.arange(3))
    assert codes.encode(np.arange(9) % 3 * 1.0).tolist() == [0, 1, 2] * 3
    for y in (np.full(9, 0.5), np.full(9, -1), np.full(9, 3), np.full(9, 2**40)):
        with pytest.raises(ValueError, match="row 0"):
            codes.encode(y)
    assert LabelIndex.of(np.array([False, True])).encode(np.ones(9, int)).tolist() == [1] * 9


def test_mixed_types_are_refused():
    for old, new in (([1, 2], ["a"]), (["a"], [1]), (["a"], [b"b"]), ([1], [b"b"])):
        index = LabelIndex.of(np.array(old))
        with pytest.raises(ValueError, match="another type"):
            index.grown(np.array(new))
        with pytest.raises(ValueError, match="not among"):
            index.encode(np.array(new * 9))
    with pytest.raises(ValueError, match="distinct"):
        LabelIndex(np.array([1, 1]))


def test_growing_from_nothing():
    index = LabelIndex(np.array([], dtype=np.int64))
    index, codes = index.grown(np.array(["b", "a"] * 4))
    assert index.classes.tolist() == ["a", "b"]
    assert codes.tolist() == [1, 0] * 4
    index, codes = LabelIndex(np.array([], dtype=np.int64)).grown(np.arange(9))
    assert codes.tolist() == list(range(9))


def test_label_states_are_checked():
    with pytest.raises(ValueError, match="not supported"):
        LabelIndex.from_state({"dtype": "<M8[s]", "labels": [1]})
    with pytest.raises(ValueError, match="strings"):
        LabelIndex.from_state({"dtype": "|O", "labels": [[1]]})
    with pytest.raises(TypeError):
        hash(LabelIndex.of(np.arange(2)))
    assert LabelIndex.of(np.arange(2)) != LabelIndex.of(np.arange(3))
    assert "(20)" in repr_of_error(LabelIndex.of(np.arange(20)))


def repr_of_error(index):
    with pytest.raises(ValueError, match="not among") as error:
        index.encode(np.array([99]))
    return str(error.value)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(-3, 6), min_size=1, max_size=12), min_size=1, max_size=6))
def test_growing_keeps_codes(blocks):
    index = LabelIndex(np.array([], dtype=np.int64))
    known = []
    for block in blocks:
        y = np.array(block)
        index, codes = index.grown(y)
        known += sorted(set(block) - set(known))
        assert index.classes.tolist() == known
        assert index.decode(codes).tolist() == block


# ----------------------------------------------------------------- class weights


def test_class_weights():
    index = LabelIndex.of(np.array(["a", "b", "c"]))
    codes = np.array([0, 0, 0, 1, 1, 2], np.int32)
    assert resolve_class_weight(None, index, codes) is None
    weights = resolve_class_weight("balanced", index, codes)
    np.testing.assert_allclose(weights, 6 / (3 * np.array([3, 2, 1])))
    weights = resolve_class_weight({"a": 2.0, "c": 0}, index, codes)
    assert weights.tolist() == [2.0, 1.0, 0.0]
    with pytest.raises(ValueError, match="names the label 'z'"):
        resolve_class_weight({"z": 2.0}, index, codes)
    assert resolve_class_weight({"z": 2.0}, index, strict=False).tolist() == [1, 1, 1]
    # weights of examples count like repeated examples
    repeated = resolve_class_weight("balanced", index, np.repeat(codes, [1, 2, 3, 1, 2, 3]))
    weighted = resolve_class_weight("balanced", index, codes, np.array([1.0, 2, 3, 1, 2, 3]))
    np.testing.assert_allclose(repeated, weighted)
    # a class that has not come yet weighs 1
    assert resolve_class_weight("balanced", index, codes[:2]).tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="all labels at once"):
        resolve_class_weight("balanced", index)
    for bad in ("auto", 3, [1, 2], {"a": -1}, {"a": np.nan}, {"a": "x"}, {"a": True}):
        with pytest.raises(ValueError, match="class_weight"):
            check_class_weight(bad)


def test_class_weights_agree_with_scikit_learn():
    utils = pytest.importorskip("sklearn.utils.class_weight")
    y = np.random.default_rng(0).integers(0, 4, 50)
    index = LabelIndex.of(y)
    expected = utils.compute_class_weight("balanced", classes=index.classes, y=y)
    np.testing.assert_allclose(resolve_class_weight("balanced", index, index.encode(y)), expected)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(0, 4), max_size=9), max_size=6))
def test_running_balance_does_not_depend_on_the_blocks(blocks):
    balance, weights = RunningBalance(), []
    for block in blocks:
        some, balance = balance.weigh(np.array(block, np.int32), 5)
        weights += some.tolist()
    counts = np.zeros(5)
    expected = []
    for t, code in enumerate(chain(*blocks), start=1):
        counts[code] += 1
        expected.append(t / (np.count_nonzero(counts) * counts[code]))
    np.testing.assert_allclose(weights, expected, rtol=1e-15)
    assert balance.counts.tolist() == counts.tolist() or not blocks


ESTIMATORS = [
    "LinearClassifier",
    "LinearRegressor",
    "LinearNovelty",
    "KernelClassifier",
    "KernelRegressor",
    "KernelNovelty",
    "SVC",
    "SVR",
    "OneClassSVM",
    "MultilabelClassifier",
    "AlmaClassifier",
]


@pytest.mark.parametrize("params", [{}, {"loss": "logistic"}, {"probability": True}], ids=str)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_reading_of_an_unfitted_model_is_the_same_error(name, params, tmp_path):
    make = AlmaClassifier if name == "AlmaClassifier" else getattr(osvm, name)
    if not set(params) <= set(make().get_params()):
        params = {}
    if "Classifier" not in name:
        params = {}
    model = make(**params)
    X = np.eye(2)
    asked = {
        "predict": (X,),
        "decision_function": (X,),
        "score_samples": (X,),
        "predict_proba": (X,),
        "predict_labels": (X,),
        "score": (X, [0, 1]),
        "predict_one": ({0: 1.0},),
        "score_one": ({0: 1.0},),
        "sparsify": (),
        "to_sklearn": (),
        "save": (tmp_path / "model.osvm",),
    }
    found = [method for method in asked if hasattr(model, method)]
    assert len(found) >= 3
    for method in found:
        with pytest.raises(not_fitted_error(), match="not fitted yet"):
            getattr(model, method)(*asked[method])
