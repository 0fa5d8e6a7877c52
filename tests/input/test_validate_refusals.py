"""The data contract: what is refused, and what the message says."""

import copy
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse as sp

from osvm._input.validate import check_X
from osvm.exceptions import ConversionWarning
from tests.matrices import FLOATS, INTS, make

NAME = "LinearClassifier"


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


@pytest.mark.parametrize("extra", [2**32, -(2**32), 2**40])
def test_a_64_bit_indptr_is_not_cut_to_the_32_bits_of_the_indices(extra):
    """Row starts beyond 32 bits would look valid once their upper half is gone."""
    X = make(np.float64, np.int32)
    X.indptr = X.indptr.astype(np.int64)
    check_X(X)  # the types may differ
    X.indptr[-1] += extra
    with pytest.raises(ValueError, match="not a valid CSR matrix"):
        check_X(X)
