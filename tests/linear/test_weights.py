"""The scaled vector and matrix against plain numpy arrays."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from osvm._input.rows import RowSource
from osvm.linear.weights import ScaledMatrix, ScaledVector

ROW_KINDS = ["csr32-i32", "csr32-i64", "csr64-i32", "csr64-i64", "dense-C", "dense-F", "dense32"]


def make_rows(kind, n=40, dim=30, seed=0):
    """A RowSource of the given kind and the same numbers as a dense float64 array.

    The sparse kinds have an empty row, a repeated column and an unsorted row.
    """
    rng = np.random.default_rng(seed)
    X = sp.random(n, dim, 0.2, format="csr", random_state=rng, dtype=np.float64)
    X.data = np.round(rng.normal(size=X.nnz), 3)
    keep = np.ones(n)
    keep[3] = 0
    X = sp.csr_matrix(sp.diags(keep) @ X)
    X.eliminate_zeros()
    if kind.startswith("dense"):
        dense = X.toarray(order="F" if kind == "dense-F" else "C")
        dense = dense.astype(np.float32 if kind == "dense32" else np.float64)
        return RowSource.dense(dense), dense.astype(np.float64)
    dtype = np.float32 if kind.startswith("csr32") else np.float64
    index = np.int64 if kind.endswith("i64") else np.int32
    data, indices, indptr = X.data.astype(dtype), X.indices.copy(), X.indptr
    indices[indptr[0] + 1] = indices[indptr[0]]
    for a in (data, indices):
        a[indptr[1] : indptr[2]] = a[indptr[1] : indptr[2]][::-1].copy()
    dense = np.zeros((n, dim))
    for i in range(n):
        np.add.at(dense[i], indices[indptr[i] : indptr[i + 1]], data[indptr[i] : indptr[i + 1]])
    arrays = [data, indices.astype(index), indptr.astype(index)]
    for a in arrays:
        a.setflags(write=False)
    return RowSource.csr(*arrays, dim), dense


class PlainAverage:
    """The average of the counted iterates, by adding them all up."""

    def __init__(self, shape):
        self.total, self.count, self.on = np.zeros(shape), 0, False

    def tick(self, w):
        if self.on:
            self.total += w
            self.count += 1

    def value(self, w):
        return self.total / self.count if self.count else w


@pytest.mark.parametrize("kind", ROW_KINDS)
@pytest.mark.parametrize(("dtype", "tol"), [(np.float64, 1e-10), (np.float32, 1e-4)])
def test_ten_thousand_random_operations_follow_a_plain_vector(kind, dtype, tol):
    X, dense = make_rows(kind)
    rng = np.random.default_rng(1)
    w, plain = ScaledVector(dense.shape[1], dtype), np.zeros(dense.shape[1])
    average = PlainAverage(plain.shape)
    for step in range(10_000):
        op = rng.choice(6, p=[0.5, 0.35, 0.1, 0.02, 0.02, 0.01])
        i = int(rng.integers(len(dense)))
        if op == 0:
            c = float(rng.normal())
            w.axpy(c, X, i)
            plain = plain + c * dense[i]
        elif op == 1:
            factor = float(rng.uniform(0.8, 1.01))
            w.shrink(factor)
            plain = plain * factor
        elif op == 2:
            radius, norm = float(rng.uniform(2, 5)), np.linalg.norm(plain)
            assert w.project(radius) == (norm > radius)
            plain = plain * radius / norm if norm > radius else plain
        elif op == 3:
            w.fold()
        elif op == 4:
            w.shrink(0.0)
            plain = plain * 0
        elif not average.on and step > 3000:
            w.start_average()
            average.on = True
        w.count_average()
        average.tick(plain)
        if step % 50 == 0:
            size = max(1.0, np.abs(plain).max())
            assert np.abs(w.array() - plain).max() <= tol * size
            assert w.norm == pytest.approx(np.linalg.norm(plain), rel=tol, abs=tol)
            assert w.dot(X, i) == pytest.approx(dense[i] @ plain, rel=tol, abs=20 * tol)
            mean = average.value(plain)
            assert np.abs(w.array(averaged=True) - mean).max() <= tol * size
            assert abs(w.dot(X, i, averaged=True) - dense[i] @ mean) <= 20 * tol * size
    assert average.on


@pytest.mark.parametrize("kind", ROW_KINDS)
@pytest.mark.parametrize(("dtype", "tol"), [(np.float64, 1e-10), (np.float32, 1e-4)])
@pytest.mark.parametrize("track_norm", [True, False])
def test_random_operations_follow_a_plain_matrix(kind, dtype, tol, track_norm):
    X, dense = make_rows(kind, seed=2)
    K, rng = 9, np.random.default_rng(3)
    W = ScaledMatrix(dense.shape[1], K, dtype, track_norm)
    plain = np.zeros((K, dense.shape[1]))
    average = PlainAverage(plain.shape)
    for step in range(2_000):
        op = rng.choice(6, p=[0.5, 0.3, 0.1, 0.04, 0.04, 0.02])
        i, k = int(rng.integers(len(dense))), int(rng.integers(-1, K))
        which = k if k >= 0 else slice(None)
        if op == 0:
            c = rng.normal(size=K) * (rng.random(K) < rng.choice([0.1, 0.5, 1.0]))
            W.axpy(c, X, i)
            plain += np.outer(c, dense[i])
        elif op == 1:
            factor = float(rng.uniform(0.8, 1.01))
            W.shrink(factor, k)
            plain[which] *= factor
        elif op == 2:
            radius = float(rng.uniform(2, 5))
            W.project(radius, k)
            plain[which] *= min(1.0, radius / max(np.linalg.norm(plain[which]), 1e-300))
        elif op == 3:
            W.fold()
        elif op == 4:
            W.shrink(0.0, k)
            plain[which] = 0
        elif not average.on and step > 500:
            W.start_average()
            average.on = True
        W.count_average()
        average.tick(plain)
        if step % 20 == 0:
            size = max(1.0, np.abs(plain).max())
            assert np.abs(W.array() - plain).max() <= tol * size
            assert np.allclose(W.norms, np.linalg.norm(plain, axis=1), rtol=tol, atol=tol)
            assert np.abs(W.dot(X, i) - plain @ dense[i]).max() <= 20 * tol * size
            mean = average.value(plain)
            assert np.abs(W.array(averaged=True) - mean).max() <= tol * size
            assert np.abs(W.dot(X, i, averaged=True) - mean @ dense[i]).max() <= 20 * tol * size
    assert average.on


def test_norm_stays_exact_over_a_long_run_on_sparse_rows():
    X, dense = make_rows("csr64-i32", n=200, dim=500, seed=5)
    w, plain = ScaledVector(500), np.zeros(500)
    rng = np.random.default_rng(0)
    for t in range(1, 20_000):
        i, c = int(rng.integers(200)), float(rng.normal())
        w.shrink(1 - 1 / t)
        w.axpy(c, X, i)
        plain = plain * (1 - 1 / t) + c * dense[i]
    assert w.norm == pytest.approx(np.linalg.norm(plain), rel=1e-10)


def test_constant_shrinkage_keeps_the_average_exact():
    """s falls geometrically, the case in which S*v - u cancels most."""
    X, dense = make_rows("csr64-i32")
    w, plain, average = ScaledVector(30), np.zeros(30), PlainAverage(30)
    w.start_average()
    average.on = True
    for t in range(3000):
        w.shrink(0.9)
        w.axpy(1.0, X, t % 40)
        plain = 0.9 * plain + dense[t % 40]
        w.count_average()
        average.tick(plain)
    assert np.allclose(w.array(averaged=True), average.value(plain), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", ["vector", "matrix"])
def test_state_round_trip_is_exact(shape):
    X, _ = make_rows("csr64-i32")
    w = ScaledVector(30) if shape == "vector" else ScaledMatrix(30, 4)
    step = 0.7 if shape == "vector" else np.array([0.7, 0, 1, -1])
    w.axpy(step, X, 1)
    w.start_average()
    w.shrink(0.9)
    w.count_average()
    w.axpy(step, X, 2)
    before, before_average = w.array(), w.array(averaged=True)
    twins = [w.copy(), pickle.loads(pickle.dumps(w))]
    w.axpy(step, X, 4)
    w.shrink(0.5)
    for twin in twins:
        assert np.array_equal(twin.array(), before)
        assert np.array_equal(twin.array(averaged=True), before_average)
        twin.axpy(step, X, 4)
        twin.shrink(0.5)
        assert np.array_equal(twin.array(), w.array())
        assert np.array_equal(twin.array(averaged=True), w.array(averaged=True))


def test_wider_matrix_keeps_what_was_learnt():
    X, _ = make_rows("csr64-i32")
    W = ScaledMatrix(30, 2)
    W.start_average()
    W.axpy([1.0, -2.0], X, 1)
    W.shrink(0.5, 0)
    W.count_average()
    wider = W.with_outputs(5)
    assert np.array_equal(wider.array()[:2], W.array())
    assert np.array_equal(wider.array(averaged=True)[:2], W.array(averaged=True))
    assert not wider.array()[2:].any()


def test_wrong_rows_are_refused():
    X, _ = make_rows("csr64-i32")
    with pytest.raises(ValueError, match="30 features, the weights 29"):
        ScaledVector(29).dot(X, 0)
    with pytest.raises(IndexError):
        ScaledVector(30).dot(X, 40)
    with pytest.raises(ValueError, match="float32 or float64"):
        ScaledVector(3, np.int32)


@settings(max_examples=60, deadline=None)
@given(factors=st.lists(st.floats(1e-12, 1e12), max_size=30))
def test_scale_stays_in_its_range(factors):
    X, dense = make_rows("dense-C")
    w, plain = ScaledVector(30), np.zeros(30)
    for f in factors:
        w.axpy(1.0, X, 1)
        plain += dense[1]
        w.shrink(f)
        plain *= f
        if np.abs(plain).max() > 1e200:
            break
        assert 1e-9 <= abs(w.scale) <= 1e9
        assert np.allclose(w.array(), plain, rtol=1e-9, atol=0)
