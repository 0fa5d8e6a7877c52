"""The data contract: feature names, labels, targets and sample weights."""

import numpy as np
import pytest
from scipy import sparse as sp

import osvm
from osvm._input.validate import (
    check_feature_names,
    check_sample_weight,
    check_X_y,
    check_y_classes,
    check_y_regression,
)
from tests.matrices import make

NAME = "LinearClassifier"

# ---------------------------------------------------------------- feature names


def test_feature_names_are_compared():
    a, b = np.array(["a", "b"], object), np.array(["b", "a"], object)
    check_feature_names(None, None, NAME)
    check_feature_names(a, a.copy(), NAME)
    with pytest.raises(ValueError, match="must be in the same order"):
        check_feature_names(b, a, NAME)
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- c\n(.|\n)*now missing:\n- b"):
        check_feature_names(np.array(["a", "c"], object), a, NAME)
    many = np.array([f"x{i}" for i in range(9)], object)
    with pytest.raises(ValueError, match=r"- \.\.\."):
        check_feature_names(many, a, NAME)
    with pytest.warns(UserWarning, match="was fitted without feature names"):
        check_feature_names(a, None, NAME)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        check_feature_names(None, a, NAME)


# ------------------------------------------------------------------ y and weights


@pytest.mark.parametrize(
    "y",
    [
        [1, -1, 1],
        [0.0, 1.0, 2.0],
        ["a", "b", "a"],
        [True, False, True],
        np.array([1, 2, 3], np.uint8),
        np.array([1, 2, 3], np.float32),
        np.array([1, 2, 3], np.float16),
        np.array([1, 2, 3], ">f8"),
        np.array(["a", "b", "a"], object),
        np.array([1, 2, 1], object),
        (1, 2, 1),
    ],
)
def test_labels(y):
    labels = check_y_classes(y, 3)
    assert labels.ndim == 1
    assert labels.tolist() == list(y)


def test_labels_from_pandas():
    pd = pytest.importorskip("pandas")
    assert check_y_classes(pd.Series(["a", "b"]), 2).tolist() == ["a", "b"]
    assert check_y_classes(pd.Series([1, 2], dtype="Int64"), 2).tolist() == [1, 2]
    with pytest.raises(ValueError, match="row 1"):
        check_y_classes(pd.Series(["a", None]), 2)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0.5, 1.0, 2.0], "Unknown label type: continuous.* row 0"),
        ([0.0, np.nan, 2.0], "Input y contains NaN at row 1"),
        ([0.5, np.inf, 2.0], "Input y contains infinity at row 1"),
        ([1, 2], r"inconsistent numbers of samples: \[3, 2\]"),
        ([[1, 2], [3, 4], [5, 6]], "y should be a 1d array"),
        (np.array([1, 2, 3], complex), "Complex data not supported"),
        (np.array(["a", 1, "b"], object), "mixes strings.*row 1"),
        (np.array(["a", None, "b"], object), "row 1"),
        (np.array([(1,), (2,), (3,), 0], object)[:3], "Unknown label type"),
        (np.array([1, 2, 3], "M8[s]"), "Unknown label type"),
        (sp.csr_matrix(np.ones((3, 1))), "sparse y is not supported"),
        (None, "requires y to be passed, but the target y is None"),
        (3, "y should be a 1d array"),
    ],
)
def test_labels_refused(y, message):
    with pytest.raises(ValueError, match=message):
        check_y_classes(y, 3)


def test_column_y_is_flattened_with_a_warning():
    for check in (check_y_classes, check_y_regression):
        with pytest.warns(UserWarning, match="A column-vector y was passed"):
            assert check(np.ones((3, 1)), 3).shape == (3,)


def test_targets():
    y = np.array([0.5, 1.5])
    assert check_y_regression(y, 2) is y
    assert check_y_regression([1, 2], 2).dtype == np.float64
    assert check_y_regression(y[::-1], 2).flags.c_contiguous
    for bad, message in (
        ([0.5, np.nan], "Input y contains NaN at row 1"),
        ([-np.inf, 1], "Input y contains infinity at row 0"),
        ([1.0], "inconsistent numbers of samples"),
        (["a", "b"], "needs numbers"),
        (np.ones((2, 2)), "1d array"),
        (sp.csr_matrix(np.ones((2, 1))), "sparse y"),
        (None, "requires y"),
    ):
        with pytest.raises(ValueError, match=message):
            check_y_regression(bad, 2)


def test_sample_weight():
    assert check_sample_weight(None, 3) is None
    weights = np.array([1.0, 0.0, 2.0])
    assert check_sample_weight(weights, 3) is weights
    assert check_sample_weight([0, 0, 0], 3).tolist() == [0, 0, 0]
    assert check_sample_weight(2, 3).tolist() == [2, 2, 2]
    assert check_sample_weight([1, 2, 3], 3).dtype == np.float64
    assert check_sample_weight(np.ones(3, np.float32), 3).dtype == np.float64
    for bad, message in (
        ([1, 2], "expected .3,."),
        ([0, 0, 0], "at least one non-zero"),
        ([1, -1, 2], "Negative values.*row 1"),
        ([1, np.nan, 2], "sample_weight contains NaN at row 1"),
        ([1, 2, np.inf], "sample_weight contains infinity at row 2"),
        ([[1, 2, 3]], "must be 1D"),
        (["a", "b", "c"], "needs numbers"),
        (sp.csr_matrix(np.ones((3, 1))), "dense"),
        (np.array([1, 2, 3j]), "Complex"),
    ):
        with pytest.raises(ValueError, match=message):
            check_sample_weight(bad, 3, allow_zero=False)


def test_X_and_y_together():
    X = make()
    source, same, y = check_X_y(X, np.arange(12))
    assert same is X
    assert source.n_rows == len(y) == 12
    assert check_X_y(X, np.linspace(0, 1, 12), classes=False)[2].dtype == np.float64
    with pytest.raises(ValueError, match=r"\[12, 11\]"):
        check_X_y(X, np.arange(11))
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        check_X_y(X, None)


# ------------------------------------------------- labels that numpy would change in silence


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a", 1], "mixes strings and other types"),
        ([1, "1"], "mixes strings and other types"),
        (["a", b"a"], "mixes strings and other types"),
        (["a", float("nan")], "missing value at row 1"),
        (("a", np.float64("nan")), "missing value at row 1"),
        (["a\0", "a"], "row 0 ends with a null character"),
        ([b"a", b"b\0"], "row 1 ends with a null character"),
        ([2**63, 2**63 + 1, -1], "row 1 cannot be kept exactly"),
        ([2**53 + 1, 1.0], "row 0 cannot be kept exactly"),
        (np.array([2**53 + 1, 1.0], object), "row 0 cannot be kept exactly"),
        (np.ma.array([1, 2, 3], mask=[0, 1, 0]), "y is masked at row 1"),
    ],
)
def test_labels_that_would_become_others_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        check_y_classes(y)


def test_long_doubles_that_differ_in_their_last_bits():
    y = np.array([2**63, 2**63], np.longdouble) + np.array([1, 0], np.longdouble)
    if y[0] == y[1]:
        pytest.skip("a long double is a double here")
    with pytest.raises(ValueError, match="cannot be kept exactly"):
        check_y_classes(y)


def test_labels_that_stay_what_they_are():
    assert check_y_classes([1, 0.0, True]).tolist() == [1.0, 0.0, 1.0]
    assert check_y_classes([2**53, 2**53 + 1]).tolist() == [2**53, 2**53 + 1]
    assert check_y_classes(["a", np.str_("b")]).tolist() == ["a", "b"]
    assert check_y_classes(np.ma.array([1, 2])).tolist() == [1, 2]
    words = getattr(np.dtypes, "StringDType", None)
    if words is not None:
        assert check_y_classes(np.array(["x", "y"], words())).tolist() == ["x", "y"]


def test_a_missing_value_of_pandas():
    pandas = pytest.importorskip("pandas")
    for dtype in ("string", object):
        with pytest.raises(ValueError, match="missing value at row 1"):
            check_y_classes(pandas.Series(["a", pandas.NA], dtype=dtype))


def test_masked_numbers_and_weights():
    masked = np.ma.array([1.0, 2.0], mask=[0, 1])
    with pytest.raises(ValueError, match="y is masked at row 1"):
        check_y_regression(masked, 2)
    with pytest.raises(ValueError, match="sample_weight is masked at row 1"):
        check_sample_weight(masked, 2)


def test_objects_that_are_no_numbers():
    for bad, message in (
        (np.array([np.datetime64("2020-01-01"), 1.0], object), "dates or times"),
        (np.array([10**400, 1.0], object), "too large for a float64"),
    ):
        with pytest.raises(ValueError, match=message):
            check_y_regression(bad, 2)


@pytest.mark.parametrize("cls", [osvm.LinearClassifier, osvm.KernelClassifier])
def test_learn_one_refuses_a_label_that_numpy_would_cut(cls):
    """It became the label without its last character, in silence."""
    model = cls(random_state=0).partial_fit(np.eye(2), ["a", "b"])
    before = model.to_bytes()
    for label in ("a\0", b"a\0"):
        with pytest.raises(ValueError, match=r"null character|other"):
            model.learn_one({0: 1.0}, label)
    assert model.to_bytes() == before


def test_bytes_in_an_array_of_objects_are_labels():
    """They raised StopIteration."""
    y = np.array([b"one", b"two"] * 10, dtype=object)
    X = np.eye(2)[[0, 1] * 10]
    model = osvm.LinearClassifier(random_state=0).fit(X, y)
    assert model.classes_.tolist() == [b"one", b"two"]
    assert model.predict(X).tolist() == y.tolist()
    with pytest.raises(ValueError, match="row 3 ends with a null character"):
        model.fit(X, np.array([*y[:3], b"one\0", *y[4:]], dtype=object))
