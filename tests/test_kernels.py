"""Kernels: values against plain numpy, arrays against rows, dense against sparse."""

import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import osvm
from osvm import kernels
from osvm._input.rows import RowSource
from osvm._parts.compiled import KernelSpec

ROOT = Path(__file__).resolve().parents[1]


def distances(X, Z):
    return ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2)


def cosine(X, Z):
    norms = np.linalg.norm(X, axis=1)[:, None] * np.linalg.norm(Z, axis=1)[None, :]
    return np.divide(X @ Z.T, norms, out=np.zeros_like(norms), where=norms > 0)


# A new kernel needs one entry here: the object and a plain numpy reading of it.
CASES = [
    (kernels.Linear(), lambda X, Z: X @ Z.T),
    (kernels.RBF(gamma=0.3), lambda X, Z: np.exp(-0.3 * distances(X, Z))),
    (
        kernels.Polynomial(gamma=0.5, coef0=1.0, degree=9),
        lambda X, Z: (0.5 * (X @ Z.T) + 1.0) ** 9,
    ),
    (kernels.Polynomial(gamma=2.0, degree=1), lambda X, Z: 2.0 * (X @ Z.T)),
    (
        kernels.Sigmoid(gamma=0.2, coef0=-0.1),
        lambda X, Z: np.tanh(0.2 * (X @ Z.T) - 0.1),
    ),
    (kernels.Cosine(), cosine),
]
PLAIN = [kernel for kernel, _ in CASES] + [kernels.Precomputed()]

every = pytest.mark.parametrize(
    ("kernel", "formula"), [pytest.param(*case, id=repr(case[0])) for case in CASES]
)


@pytest.fixture
def data():
    rng = np.random.default_rng(5)
    X = sp.random(13, 7, density=0.4, format="csr", rng=rng)
    Z = sp.random(9, 7, density=0.5, format="csr", rng=rng)
    X = sp.csr_array(sp.vstack([X, sp.csr_array((1, 7))]))  # an empty row
    return X, sp.csr_array(Z)


def source(X):
    """Rows of any matrix, as the compiled loops see them."""
    if sp.issparse(X):
        return RowSource.csr(X.data, X.indices, X.indptr, X.shape[1])
    return RowSource.dense(X)


# ------------------------------------------------------------------- values


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_matrix_is_the_formula(kernel, formula, dtype, data):
    X, Z = data
    dense = X.toarray(), Z.toarray()
    tolerance = 3e-5 if dtype is np.float32 else 1e-12
    for a, b in [(X, Z), dense, (X, dense[1]), (dense[0], Z)]:
        got = kernel(a.astype(dtype), b.astype(dtype))
        assert got.dtype == dtype
        np.testing.assert_allclose(got, formula(*dense), rtol=tolerance, atol=tolerance)
    square = kernel(X.astype(dtype))
    np.testing.assert_allclose(square, formula(dense[0], dense[0]), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(
        kernel.diagonal(X), np.diagonal(formula(dense[0], dense[0])), rtol=1e-12, atol=1e-14
    )


@every
def test_rows_of_any_kind_agree_with_the_matrix(kernel, formula, data):
    X, Z = data
    expected = formula(X.toarray(), Z.toarray())
    spec = kernel.spec()

    def forms(M):
        wide = M.copy()
        wide.indices, wide.indptr = M.indices.astype(np.int64), M.indptr.astype(np.int64)
        return [
            M,
            wide,
            M.toarray(),
            np.asfortranarray(M.toarray()),
            M.toarray()[:, ::-1][:, ::-1],
        ]

    for a in forms(X):
        for b in forms(Z):
            got = spec.rows(source(a), source(b))
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)
    single = spec.rows(source(X.astype(np.float32)), source(Z))
    np.testing.assert_allclose(single, expected, rtol=1e-5, atol=1e-6)


@every
def test_compiled_single_and_array_forms_agree_bit_for_bit(kernel, formula, inline_client):
    rng = np.random.default_rng(0)
    dots = np.concatenate([rng.normal(size=301) * 5, [0.0, 1.0, 40.0, np.nan]])
    sq_z = np.abs(rng.normal(size=len(dots))) * 20
    sq_z[:3] = 0.0
    for n in (1, 3, 130, len(dots)):
        single, array = inline_client.kernel_values(
            kernel.spec(), dots[:n].copy(), 7.0, sq_z[:n].copy()
        )
        np.testing.assert_array_equal(single, array)
    for i in range(5):
        assert kernel.spec().from_dot(dots[i], 7.0, sq_z[i]) == single[i]


@every
def test_self_value_is_the_diagonal(kernel, formula):
    spec = kernel.spec()
    for sq in (0.0, 0.7, 3.0):
        x = np.array([[np.sqrt(sq), 0.0]])
        assert spec.self_value(sq) == pytest.approx(formula(x, x)[0, 0], rel=1e-12, abs=1e-15)


@every
def test_input_is_left_alone(kernel, formula, data):
    X, _ = data
    X.data.flags.writeable = False
    before = X.toarray()
    locked = X.toarray()
    locked.flags.writeable = False
    np.testing.assert_allclose(kernel(X), kernel(locked), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(X.toarray(), before)


def messy():
    """Unsorted and repeated columns, beside the same rows written plainly."""
    data = np.array([1.0, 2.0, 3.0, -1.0, 5.0, 0.5, 0.25])
    indices = np.array([3, 0, 3, 1, 2, 2, 0])
    indptr = np.array([0, 4, 4, 7])
    X = sp.csr_array((data, indices, indptr), shape=(3, 5))
    return X, X.toarray()


@every
def test_unsorted_and_repeated_columns(kernel, formula):
    X, dense = messy()
    expected = formula(dense, dense)
    np.testing.assert_allclose(kernel.spec().rows(source(X), source(X)), expected, rtol=1e-12)
    np.testing.assert_allclose(kernel.spec().rows(source(X), source(dense)), expected, rtol=1e-12)
    np.testing.assert_allclose(kernel(X), expected, rtol=1e-12)
    np.testing.assert_array_equal(X.indices, messy()[0].indices)  # still as it was


def test_row_scale_is_applied(data):
    X, Z = data
    scale = np.linspace(0.5, 2.0, X.shape[0])
    rows = RowSource.csr(X.data, X.indices, X.indptr, X.shape[1], scale)
    got = kernels.RBF(gamma=0.3).spec().rows(rows, source(Z))
    expected = kernels.RBF(gamma=0.3)(scale[:, None] * X.toarray(), Z.toarray())
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_dot_of_any_two_rows(data):
    """Merge, gather and pairwise search all give x.z."""
    kinds = []
    for _ in range(2):
        n = data.draw(st.integers(0, 8))
        columns = data.draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))
        values = data.draw(st.lists(st.integers(-4, 4), min_size=n, max_size=n))
        integer = data.draw(st.sampled_from([np.int32, np.int64]))
        real = data.draw(st.sampled_from([np.float32, np.float64]))
        csr = (np.array(values, real), np.array(columns, integer), np.array([0, n], integer))
        dense = np.zeros((1, 6))
        np.add.at(dense[0], columns, values)
        kinds.append((RowSource.csr(*csr, 6), dense))
    (x, dense_x), (z, dense_z) = kinds
    spec = kernels.Linear().spec()
    assert spec.rows(x, z)[0, 0] == (dense_x @ dense_z.T)[0, 0]
    assert spec.rows(x, RowSource.dense(dense_z))[0, 0] == (dense_x @ dense_z.T)[0, 0]


# ---------------------------------------------------------- the library's exp


@pytest.mark.parametrize(
    ("dtype", "low", "ulps"), [(np.float32, -87.3365, 1.1), (np.float64, -708.39, 1.1)]
)
def test_exp_is_within_a_little_more_than_one_ulp(dtype, low, ulps):
    x = np.linspace(low, 0.0, 200_003).astype(dtype)
    values = np.zeros((1, len(x)), dtype)
    KernelSpec(1, gamma=1.0).apply(values, np.zeros(1), -x)  # distances -x: exp(x)
    exact = np.exp(x.astype(np.longdouble))
    ulp = np.spacing(exact.astype(dtype)).astype(np.longdouble)
    assert (np.abs(values[0].astype(np.longdouble) - exact) / ulp).max() < ulps


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exp_at_its_ends(dtype):
    x = np.array([0.0, 1e-30, 5000.0, np.inf, np.nan, 1.0], dtype)
    values = np.zeros((1, len(x)), dtype)
    KernelSpec(1, gamma=1.0).apply(values, np.zeros(1), x)
    assert values[0, :4].tolist() == [1, 1, 0, 0]
    assert np.isnan(values[0, 4])
    assert values[0, 5] == pytest.approx(np.exp(-1), rel=1e-6)


def test_rounding_never_lifts_rbf_above_one():
    X = np.random.default_rng(0).normal(size=(50, 30)).astype(np.float32) * 100
    K = kernels.RBF(gamma=1.0)(X)
    assert K.max() <= 1.0


# ---------------------------------------------------------------- as objects


@pytest.mark.parametrize("kernel", PLAIN, ids=repr)
def test_equal_hash_repr_pickle_config(kernel):
    twin = pickle.loads(pickle.dumps(kernel))
    assert twin == kernel
    assert hash(twin) == hash(kernel)
    assert eval(repr(kernel), vars(kernels)) == kernel
    assert kernels.from_config(json.loads(json.dumps(kernel.config()))) == kernel
    assert kernels.get(kernel) is kernel
    assert type(kernels.get(kernel.name)) is type(kernel)
    assert kernel.resolve(np.ones((2, 2))) == kernel
    with pytest.raises(AttributeError):
        kernel.gamma = 2.0


def test_every_registered_kernel_is_tested():
    assert {kernel.name for kernel in PLAIN} == set(kernels.names())


def test_kinds_are_those_of_the_header():
    text = (ROOT / "osvm" / "core" / "kernel.pxd").read_text()
    enum = text.split("cdef enum KernelKind:")[1].split("ctypedef")[0]
    numbers = {name.lower(): int(n) for name, n in re.findall(r"KERNEL_(\w+) = (\d+)", enum)}
    assert numbers.pop("custom") == kernels.PythonKernel.kind
    assert numbers == {kernel.name: kernel.kind for kernel in PLAIN}


def test_numpy_numbers_are_saved_as_plain_ones():
    kernel = kernels.Polynomial(gamma=np.float32(0.5), degree=np.int64(2))
    assert kernels.from_config(json.loads(json.dumps(kernel.config()))) == kernel


def test_get():
    assert kernels.get("poly", degree=2) == kernels.Polynomial(degree=2)
    assert kernels.parameters("poly") == ["gamma", "coef0", "degree"]
    assert kernels.get(kernels.RBF(0.1), gamma=0.2) == kernels.RBF(gamma=0.2)
    with pytest.raises(ValueError, match="unknown kernel"):
        kernels.get("gauss")
    with pytest.raises(ValueError, match="has no parameter 'gamma'"):
        kernels.get("linear", gamma=1.0)
    with pytest.raises(TypeError, match="must be a name"):
        kernels.get(3)


@pytest.mark.parametrize(
    ("name", "params", "error"),
    [
        ("rbf", {"gamma": 0.0}, ValueError),
        ("rbf", {"gamma": np.inf}, ValueError),
        ("rbf", {"gamma": "large"}, ValueError),
        ("rbf", {"gamma": None}, TypeError),
        ("polynomial", {"degree": 0}, ValueError),
        ("polynomial", {"degree": 2.5}, ValueError),
        ("sigmoid", {"coef0": np.nan}, ValueError),
    ],
)
def test_wrong_parameters_are_refused(name, params, error):
    with pytest.raises(error, match=next(iter(params))):
        kernels.get(name, **params)


# --------------------------------------------------------------------- gamma


def test_gamma_rules(data):
    X, _ = data
    dense = X.toarray()
    scale = 1.0 / (7 * dense.var())
    assert kernels.RBF().resolve(dense).gamma == pytest.approx(scale, rel=1e-13)
    assert kernels.RBF().resolve(X).gamma == pytest.approx(scale, rel=1e-13)
    assert kernels.RBF().resolve(X.astype(np.float32)).gamma == pytest.approx(scale, rel=1e-6)
    assert kernels.RBF("auto").resolve(X).gamma == 1 / 7
    assert kernels.RBF().resolve(np.ones((3, 4))).gamma == 1.0  # no variance
    messy_X, messy_dense = messy()
    expected = 1.0 / (5 * messy_dense.var())
    assert kernels.RBF().resolve(messy_X).gamma == pytest.approx(expected, rel=1e-13)
    with pytest.raises(ValueError, match="call resolve"):
        kernels.RBF().spec()
    with pytest.raises(ValueError, match="without rows"):
        kernels.RBF().resolve(np.ones((0, 3)))


def test_gamma_of_sparse_rows_far_from_the_origin():
    """The mean of squares less the squared mean was 0 or noise, and gamma 1 without a word."""
    dense = 1e8 + np.random.default_rng(0).normal(size=(50, 4))
    expected = 1.0 / (4 * dense.var())
    assert kernels.RBF().resolve(sp.csr_array(dense)).gamma == pytest.approx(expected, rel=1e-6)


def test_gamma_is_that_of_scikit_learn(data):
    svm = pytest.importorskip("sklearn.svm")
    X, _ = data
    y = np.arange(X.shape[0]) % 2
    for rule in ("scale", "auto"):
        for form in (X, X.toarray()):
            theirs = svm.SVC(gamma=rule).fit(form, y)._gamma
            assert kernels.RBF(rule).resolve(form).gamma == pytest.approx(theirs, rel=1e-12)


# ------------------------------------------------------- custom, precomputed


def overlap(X, Z):
    """Histogram intersection, for sparse and for dense rows."""
    X = X.toarray() if sp.issparse(X) else X
    Z = Z.toarray() if sp.issparse(Z) else Z
    return np.minimum(X[:, None, :], Z[None, :, :]).sum(axis=2)


def test_python_kernel(data):
    X, Z = data
    kernel = kernels.get(overlap)
    assert kernel == kernels.PythonKernel(overlap)
    expected = overlap(X, Z)
    np.testing.assert_array_equal(kernel(X, Z), expected)
    np.testing.assert_array_equal(kernel.diagonal(X), np.diagonal(overlap(X, X)))
    spec = kernel.spec(n_features=7)
    np.testing.assert_array_equal(spec.rows(source(X), source(Z)), expected)
    np.testing.assert_array_equal(spec.rows(source(X.toarray()), source(Z.toarray())), expected)
    assert not spec.uses_dots
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    with pytest.raises(TypeError, match="cannot be saved"):
        kernel.config()
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        kernels.PythonKernel(lambda X, Z: np.zeros(2))(X, Z)


def test_exception_in_a_python_kernel_comes_out(data):
    X, Z = data
    calls = []

    def broken(x, z):
        calls.append(1)
        raise KeyError("no value")

    spec = kernels.PythonKernel(broken).spec(n_features=7)
    with pytest.raises(KeyError, match="no value"):
        spec.rows(source(X), source(Z))
    assert len(calls) == 1
    assert spec.error is None


def test_precomputed():
    K = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(kernels.Precomputed()(K), K)
    np.testing.assert_array_equal(kernels.Precomputed().diagonal(K[:, :2]), [0.0, 4.0])
    with pytest.raises(ValueError, match="without Z"):
        kernels.Precomputed()(K, K)
    spec = kernels.Precomputed().spec()
    assert np.isnan(spec.from_dot(1.0))
    with pytest.raises(ValueError, match="no value for two rows"):
        spec.rows(source(K), source(K))


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="X has 2 features but Z has 3"):
        kernels.Linear()(np.ones((1, 2)), np.ones((1, 3)))
    with pytest.raises(ValueError, match="two-dimensional"):
        kernels.Linear()([1.0, 2.0])
    with pytest.raises(ValueError, match="rows of 2 and of 3"):
        kernels.Linear().spec().rows(source(np.ones((1, 2))), source(np.ones((1, 3))))
    assert kernels.RBF(1.0)(np.ones((0, 2)), np.ones((3, 2))).shape == (0, 3)
    assert kernels.RBF(1.0)(np.ones((3, 2)), np.ones((0, 2))).shape == (3, 0)


def test_row_ends_that_fall_back_to_zero_are_refused():
    """scipy takes a matrix for an empty one when its last row end is 0, and looks no further."""
    bad = sp.csr_matrix((4, 3))
    bad.data, bad.indices = np.ones(5), np.zeros(5, np.int32)
    bad.indptr = np.array([0, 0, 5000, 0, 0], np.int32)
    for X in (bad, bad.T):  # and CSC
        for call in (kernels.Linear().diagonal, kernels.RBF(1.0), kernels.RBF(1.0).diagonal):
            with pytest.raises(ValueError, match="indptr"):
                call(X)
        with pytest.raises(ValueError, match=r"indptr|row"):
            osvm.LinearClassifier().fit(X, np.arange(X.shape[0]) % 2)
