"""The data contract: what is viewed, what is converted, what is refused and how."""

import copy
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse as sp

from osvm import _convert
from osvm._validate import (
    check_feature_names,
    check_sample_weight,
    check_X,
    check_X_y,
    check_y_classes,
    check_y_regression,
    feature_names,
    unit_scale,
)
from osvm.exceptions import ConversionWarning

NAME = "LinearClassifier"
FLOATS = [np.float32, np.float64]
INTS = [np.int32, np.int64]


@pytest.fixture(autouse=True)
def _forget_messages():
    """Conversion messages are shown once per process: start each test afresh."""
    _convert._said.clear()


def make(value=np.float64, index=np.int32, kind=sp.csr_matrix, n_rows=12, n_features=9):
    X = kind(sp.random(n_rows, n_features, density=0.4, format="csr", random_state=0))
    X.data = X.data.astype(value)
    X.indices = X.indices.astype(index)
    X.indptr = X.indptr.astype(index)
    return X


def address(array):
    return array.__array_interface__["data"][0]


# ------------------------------------------------------------ viewed, not copied


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("value", FLOATS)
@pytest.mark.parametrize("index", INTS)
def test_valid_csr_is_not_copied(kind, value, index):
    X = make(value, index, kind)
    before = [a.copy() for a in (X.data, X.indices, X.indptr)]
    arrays = [id(a) for a in (X.data, X.indices, X.indptr)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        source, same = check_X(X, estimator_name=NAME)
    assert same is X
    assert [id(a) for a in (X.data, X.indices, X.indptr)] == arrays
    assert (source.n_rows, source.n_features, source.sparse) == (12, 9, True)
    for now, then in zip((X.data, X.indices, X.indptr), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_no_memory_for_a_copy_is_taken():
    import tracemalloc

    X = make(n_rows=20_000, n_features=50)
    tracemalloc.start()
    check_X(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000 < X.data.nbytes


def test_unsorted_and_repeated_columns_are_fine():
    X = sp.csr_matrix((np.ones(4), np.array([3, 1, 1, 0]), np.array([0, 3, 4])), shape=(2, 5))
    assert check_X(X)[1] is X
    assert X.indices.tolist() == [3, 1, 1, 0]
    np.testing.assert_allclose(unit_scale(check_X(X)[0]), [1 / np.sqrt(5), 1.0])


def test_read_only_and_memory_mapped(tmp_path):
    X = make()
    for array in (X.data, X.indices, X.indptr):
        array.flags.writeable = False
    assert check_X(X)[1] is X
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{name}.npy", getattr(X, name))
        setattr(X, name, np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    assert isinstance(X.data, np.memmap)
    assert check_X(X)[1] is X
    np.save(tmp_path / "dense.npy", np.ones((3, 4)))
    dense = np.load(tmp_path / "dense.npy", mmap_mode="r")
    _, out = check_X(dense)
    assert address(out) == address(dense)


@pytest.mark.parametrize("value", FLOATS)
def test_dense_layouts_are_not_copied(value):
    base = np.random.default_rng(0).normal(size=(6, 8)).astype(value)
    for X in (base, np.asfortranarray(base), base[::2], base[:, ::2], base[::-1], base.T):
        source, same = check_X(X)
        assert same is X
        assert (source.n_rows, source.n_features) == X.shape


def test_subclasses_are_viewed():
    class Named(sp.csr_matrix):
        pass

    X = Named(make())
    assert check_X(X)[1] is X
    dense = np.ones((2, 2)).view(np.recarray)
    assert address(check_X(dense)[1]) == address(dense)


# ------------------------------------------------------------------ conversions


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float16, np.longdouble])
def test_other_numbers_become_float64_once(dtype):
    X = make()
    X.data = (X.data * 10).astype(dtype)
    data = X.data
    source, out = check_X(X)
    assert X.data is data
    assert out.data.dtype == np.float64
    assert out.indices is X.indices
    assert source.n_features == 9
    np.testing.assert_array_equal(out.data, data.astype(np.float64))
    dense = np.arange(6).reshape(2, 3).astype(dtype)
    assert check_X(dense)[1].dtype == np.float64


def test_byte_order_and_alignment():
    X = make()
    expected = X.toarray()
    X.data = X.data.astype(">f8")
    assert check_X(X)[1].data.dtype.isnative
    np.testing.assert_array_equal(check_X(X)[1].toarray(), expected)
    assert check_X(np.ones((2, 2), ">f4"))[1].dtype == np.dtype("=f4")
    raw = np.zeros(8 * 6 + 1, dtype=np.uint8)
    unaligned = raw[1:].view(np.float64).reshape(2, 3)
    assert check_X(unaligned)[1].flags.aligned
    packed = np.zeros(4, dtype=[("a", "u1"), ("x", "f8", (3,))])["x"]  # strides of 25 bytes
    assert check_X(packed)[0].n_features == 3


def test_strided_csr_arrays():
    X = make()
    expected = X.toarray()
    X.data = np.repeat(X.data, 2)[::2]
    X.indices = np.repeat(X.indices, 2)[::2]
    np.testing.assert_array_equal(check_X(X)[1].toarray(), expected)


def test_mixed_index_types_convert_the_short_array():
    for indices, indptr in ((np.int32, np.int64), (np.int64, np.int32)):
        X = make()
        X.indices, X.indptr = X.indices.astype(indices), X.indptr.astype(indptr)
        kept = X.indices
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _, out = check_X(X)
        assert out.indices is kept
        assert out.indptr.dtype == indices
        assert X.indptr.dtype == indptr


def test_odd_index_types_convert_with_one_message():
    X = make()
    X.indices = X.indices.astype(np.uint32)
    with pytest.warns(ConversionWarning, match="uint32"):
        check_X(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_X(X)


@pytest.mark.parametrize("fmt", ["csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
def test_other_formats_convert_with_one_message(fmt, kind):
    expected = make(kind=kind)
    X = expected.asformat(fmt)
    with pytest.warns(ConversionWarning, match="copied to CSR") as seen:
        _, out = check_X(X)
    assert len(seen) == 1
    assert seen[0].filename == __file__
    np.testing.assert_array_equal(out.toarray(), expected.toarray())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_X(X)


def test_lists_and_array_likes():
    assert check_X([[1, 2], [3, 4]])[1].dtype == np.float64
    assert check_X([[1.0, 2.0]])[0].n_features == 2

    class Like:
        def __array__(self, dtype=None, copy=None):
            return np.ones((2, 3), np.float32)

    assert check_X(Like())[1].dtype == np.float32
    assert check_X(np.ones((1, 2)).view(np.matrix))[0].n_features == 2
    assert check_X(np.ma.masked_array([[1.0, 2.0]], mask=False))[0].n_features == 2
    with pytest.raises(ValueError, match="masked"):
        check_X(np.ma.masked_array([[1.0, 2.0]], mask=[[True, False]]))


def test_object_numbers():
    assert check_X(np.array([[1, 2.5], [True, "3"]], dtype=object))[1].tolist() == [
        [1, 2.5],
        [1, 3],
    ]
    with pytest.raises(ValueError, match="row 1, column 0"):
        check_X(np.array([[1, 2], ["spam", 3]], dtype=object))
    with pytest.raises(TypeError, match=r"row 0, column 1.*argument must be .* string.* number"):
        check_X(np.array([[1, {}], [2, 3]], dtype=object))


class FrameLike:
    """What polars offers: columns, shape and to_numpy, without __array__."""

    def __init__(self, array, columns):
        self._array, self.columns, self.shape = array, columns, array.shape

    def to_numpy(self):
        return self._array


def test_frames_by_duck_typing():
    frame = FrameLike(np.ones((2, 2)), ["a", "b"])
    assert check_X(frame)[0].n_features == 2
    assert feature_names(frame).tolist() == ["a", "b"]


def test_pandas_frames():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]})
    source, array = check_X(frame)
    assert source.n_features == 2
    assert array.dtype == np.float64
    assert feature_names(frame).tolist() == ["a", "b"]
    assert feature_names(pd.DataFrame(np.ones((2, 2)))) is None
    with pytest.raises(TypeError, match="only supported if all input features have string names"):
        feature_names(pd.DataFrame({"a": [1.0], 3: [2.0]}))
    with pytest.raises(ValueError, match="row 0, column 1"):
        check_X(pd.DataFrame({"a": [1.0], "b": ["text"]}))
    with pytest.raises(ValueError, match="NaN at row 1, column 0"):
        check_X(pd.DataFrame({"a": [1.0, None]}))
    with pytest.raises(ValueError, match="Reshape your data"):
        check_X(pd.Series([1.0, 2.0]))


def test_pandas_sparse_frames():
    pd = pytest.importorskip("pandas")
    expected = make()
    frame = pd.DataFrame.sparse.from_spmatrix(expected, columns=list("abcdefghi"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        source, X = check_X(frame)
    assert source.sparse
    np.testing.assert_array_equal(X.toarray(), expected.toarray())


def test_polars_frames():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    assert check_X(frame)[0].n_features == 2
    assert feature_names(frame).tolist() == ["a", "b"]


# -------------------------------------------------------------------- refusals


def breaks():
    """Every malformed CSR: a name, how to break a good one, what the message says."""

    def indices(value):
        def change(X):
            X.indices[X.indptr[5]] = value

        return change

    def data(value):
        def change(X):
            X.data[X.indptr[5]] = value

        return change

    def indptr(position, value):
        def change(X):
            X.indptr[position] = value

        return change

    def replace(name, make):
        def change(X):
            setattr(X, name, make(getattr(X, name)))

        return change

    return [
        ("index too large", indices(9), "row 5 holds column 9"),
        ("index 5e7", indices(50_000_000), "row 5 holds column 50000000"),
        ("index -1", indices(-1), "row 5 holds column -1"),
        ("index -2^31", indices(-(2**31)), "row 5 holds column -2147483648"),
        ("indptr decreases", indptr(5, 1), "row 4 starts at"),
        ("indptr negative", indptr(5, -4), "row 4 starts at"),
        ("indptr past the end", indptr(12, 10_000), "row 11 ends at entry 10000"),
        ("indptr far past the end", indptr(12, 2**31 - 1), "row 11 ends at"),
        ("indptr starts late", indptr(0, 1), "row 0 does not start at 0"),
        ("data short", replace("data", lambda a: a[:-3]), "disagree from row"),
        ("data empty", replace("data", lambda a: a[:0]), "disagree from row 0"),
        ("indices short", replace("indices", lambda a: a[:-3]), "disagree from row"),
        ("indptr short", replace("indptr", lambda a: a[:-1]), "12 rows need 13"),
        ("indptr long", replace("indptr", lambda a: np.append(a, a[-1])), "12 rows need 13"),
        ("indptr empty", replace("indptr", lambda a: a[:0]), "indptr has 0 entries"),
        ("indices float", replace("indices", lambda a: a.astype(float)), "dtype float64"),
        ("indptr float", replace("indptr", lambda a: a.astype(float)), "dtype float64"),
        (
            "data complex",
            replace("data", lambda a: a.astype(complex)),
            "Complex data not supported",
        ),
        ("data text", replace("data", lambda a: a.astype(str)), "needs numbers"),
        ("data dates", replace("data", lambda a: a.astype("M8[s]")), "needs numbers"),
        ("data 2-d", replace("data", lambda a: a.reshape(-1, 1)), "one-dimensional"),
        (
            "indices list",
            replace("indices", lambda a: a.tolist()),
            "one-dimensional array, got list",
        ),
        ("data None", replace("data", lambda a: None), "got NoneType"),
        ("NaN", data(np.nan), "Input X contains NaN at row 5"),
        ("inf", data(np.inf), "Input X contains infinity .* at row 5"),
        ("-inf", data(-np.inf), "Input X contains infinity .* at row 5"),
    ]


@pytest.mark.parametrize("index", INTS)
@pytest.mark.parametrize("value", FLOATS)
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize(
    ("change", "message"), [b[1:] for b in breaks()], ids=[b[0] for b in breaks()]
)
def test_malformed_csr(kind, value, index, change, message):
    X = make(value, index, kind)
    change(X)
    with pytest.raises(ValueError, match=message):
        check_X(X, estimator_name=NAME)


def cut(name):
    def change(X):
        setattr(X, name, getattr(X, name)[:-3])

    return change


def put(name, position, value):
    def change(X):
        getattr(X, name)[position] = value

    return change


def key(X):
    X._dict[(0, 400)] = 1.0  # past the checks of __setitem__


def lil(X):
    X.rows[0] = [400]
    X.data[0] = [1.0]


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize(
    ("fmt", "change"),
    [
        ("csc", put("indices", 3, 4000)),
        ("csc", put("indices", 3, -1)),
        ("csc", put("indptr", 3, 10**6)),
        ("csc", cut("data")),
        ("csc", cut("indptr")),
        ("csc", put("data", 3, np.nan)),
        ("bsr", put("indices", 3, 4000)),
        ("bsr", put("indices", 3, -1)),
        ("bsr", cut("data")),
        ("coo", put("row", 3, 4000)),
        ("coo", put("col", 3, -1)),
        ("coo", cut("data")),
        ("coo", put("data", 3, np.inf)),
        ("dok", key),
        ("lil", lil),
    ],
)
def test_malformed_other_formats(fmt, change, kind):
    X = make(kind=kind).asformat(fmt)
    change(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConversionWarning)
        with pytest.raises(ValueError, match=r"not a valid|Input X contains .* at row"):
            check_X(X)


def test_dense_refusals():
    X = np.ones((4, 3))
    X[2, 1] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN at row 2, column 1"):
        check_X(X)
    X[2, 1] = -np.inf
    with pytest.raises(ValueError, match=r"Input X contains infinity .* at row 2, column 1"):
        check_X(X)
    with pytest.raises(ValueError, match="infinity"):  # too large for float64
        check_X(np.full((1, 1), np.longdouble("1e400")))
    with pytest.raises(ValueError, match=r"Reshape your data either using array.reshape"):
        check_X(np.ones(3))
    with pytest.raises(ValueError, match=r"Expected 2D array, got scalar array instead"):
        check_X(3.0)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
        check_X([1.0, 2.0])
    with pytest.raises(ValueError, match="Found array with dim 3"):
        check_X(np.ones((2, 2, 2)))
    with pytest.raises(ValueError, match="Complex data not supported"):
        check_X(np.ones((2, 2), complex))
    with pytest.raises(ValueError, match="needs numbers"):
        check_X(np.array([["a", "b"]]))
    with pytest.raises(ValueError, match="row 1 has 1 entries where row 0 has 2"):
        check_X([[1, 2], [3]])
    with pytest.raises(ValueError, match="text"):
        check_X("hello")


def test_one_dimensional_sparse():
    if not hasattr(sp, "coo_array"):
        pytest.skip("no sparse arrays")
    try:
        X = sp.csr_array(np.ones(4))
    except ValueError:
        pytest.skip("this scipy has no one-dimensional sparse arrays")
    with pytest.raises(ValueError, match="Reshape your data"):
        check_X(X)


@pytest.mark.parametrize("convert", [sp.csr_matrix, sp.csr_array, np.asarray])
def test_empty(convert):
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\) \(shape=\(0, 3\)\)"):
        check_X(convert(np.zeros((0, 3))))
    assert check_X(convert(np.zeros((0, 3))), allow_empty=True)[0].n_rows == 0
    with pytest.raises(ValueError, match=r"0 feature\(s\) \(shape=\(3, 0\)\)"):
        check_X(convert(np.zeros((3, 0))))
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        check_X(convert(np.zeros((3, 0))), allow_empty=True)
    assert check_X(convert(np.zeros((3, 4))))[0].n_rows == 3


@pytest.mark.parametrize("convert", [sp.csr_matrix, np.asarray])
def test_feature_count(convert):
    X = convert(np.ones((2, 3)))
    assert check_X(X, n_features=3)[1] is X
    message = "X has 3 features, but LinearClassifier is expecting 4 features as input"
    with pytest.raises(ValueError, match=message):
        check_X(X, n_features=4, estimator_name=NAME)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_mutation_raises_value_error_or_passes(data):
    X = make(data.draw(st.sampled_from(FLOATS)), data.draw(st.sampled_from(INTS)), n_rows=5)
    good = copy.deepcopy(X)
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(["data", "indices", "indptr"]))
        array = getattr(X, name)
        how = data.draw(st.sampled_from(["entry", "cut", "grow", "type"]))
        if how == "entry" and len(array) and array.dtype.kind in "if":
            k = data.draw(st.integers(0, len(array) - 1))
            if array.dtype.kind == "f":
                values = st.floats()
            else:
                limits = np.iinfo(array.dtype)
                values = st.integers(-5, 20) | st.integers(limits.min, limits.max)
            with np.errstate(all="ignore"):
                array[k] = data.draw(values)
        elif how == "cut":
            setattr(X, name, array[: data.draw(st.integers(0, len(array)))])
        elif how == "grow":
            setattr(X, name, np.concatenate([array, array[:2]]))
        elif how == "type":
            dtype = data.draw(
                st.sampled_from(["f4", "i8", "i4", "u4", "u8", "i2", "U5", "O", "?"])
            )
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    setattr(X, name, array.astype(dtype))
                except (ValueError, OverflowError):
                    continue
    before = copy.deepcopy((X.data, X.indices, X.indptr))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConversionWarning)
        try:
            source, out = check_X(X)
        except ValueError:
            pass
        else:
            assert source.n_rows == good.shape[0]
            copy.copy(out).check_format(full_check=True)
            assert np.isfinite(out.data[: out.indptr[-1]]).all()
    for now, then in zip((X.data, X.indices, X.indptr), before, strict=True):
        np.testing.assert_array_equal(now, then)


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
