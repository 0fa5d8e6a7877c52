"""The data contract: what is viewed without a copy, and what is converted."""

import warnings

import numpy as np
import pytest
from scipy import sparse as sp

from osvm._input import convert
from osvm._input.validate import check_X, feature_names, unit_scale
from osvm.exceptions import ConversionWarning
from tests.matrices import FLOATS, INTS, make

NAME = "LinearClassifier"


@pytest.fixture(autouse=True)
def _forget_messages():
    """Conversion messages are shown once per process: start each test afresh."""
    convert._warned.clear()


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
    assert check_X(X, summed=False)[1] is X
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
