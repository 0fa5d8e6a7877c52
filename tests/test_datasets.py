"""Shapes, determinism and learnability of the generated data sets."""

import numpy as np
import pytest

from osvm import datasets


def hinge_sgd(X, y, reg=1e-4, epochs=3):
    """Pegasos in plain Python: a check that the data can be learnt, no more."""
    w = np.zeros(X.shape[1])
    t = 0
    for _ in range(epochs):
        for i in range(X.shape[0]):
            t += 1
            row = slice(X.indptr[i], X.indptr[i + 1])
            margin = y[i] * (X.data[row] @ w[X.indices[row]])
            w *= 1 - 1 / t
            if margin < 1:
                w[X.indices[row]] += y[i] / (reg * t) * X.data[row]
    return w


def same(A, B):
    return (
        A.shape == B.shape
        and np.array_equal(A.indptr, B.indptr)
        and np.array_equal(A.indices, B.indices)
        and np.array_equal(A.data, B.data)
    )


# ------------------------------------------------------------------------ text


def test_text_has_the_shape_of_rcv1():
    X, y, X_test, _ = datasets.make_rcv1_like(20_000, 3000, random_state=0)
    assert X.shape == (20_000, 47_152)
    assert X_test.shape == (3000, 47_152)
    assert X.dtype == np.float32
    assert X.indices.dtype == np.int32
    assert abs(X.nnz / 20_000 - 76) < 2
    assert X.has_sorted_indices
    assert X.has_canonical_format
    X.check_format(full_check=True)
    assert np.all(np.diff(X.indices)[np.setdiff1d(np.arange(X.nnz - 1), X.indptr[1:-1] - 1)] > 0)
    np.testing.assert_allclose(np.sqrt(X.multiply(X).sum(axis=1)), 1, rtol=1e-5)
    assert set(np.unique(y)) == {-1, 1}
    assert abs(y.mean()) < 0.05
    # Zipf: a few columns hold much of the mass, and they are spread over the matrix
    seen = np.sort(np.bincount(X.indices, minlength=X.shape[1]))[::-1]
    assert seen[:472].sum() > 0.35 * X.nnz
    frequent = np.argsort(np.bincount(X.indices, minlength=X.shape[1]))[-20:]
    assert np.ptp(frequent) > 20_000


def test_text_is_linear_with_noise():
    X, y, X_test, y_test = datasets.make_rcv1_like(
        8000, 4000, n_features=5000, nnz=60, dtype=np.float64, random_state=3
    )
    w = hinge_sgd(X, y)
    error = np.mean(np.sign(X_test @ w) != y_test)
    assert 0.03 < error < 0.12


def test_rows_depend_on_the_seed_alone():
    X, y, X_test, _ = datasets.make_rcv1_like(5000, 10, random_state=5)
    X2, y2, X_test2, _ = datasets.make_rcv1_like(5000, 10, random_state=5)
    assert same(X, X2)
    assert same(X_test, X_test2)
    assert np.array_equal(y, y2)
    X3, y3, X_test3, _ = datasets.make_rcv1_like(3000, 700, random_state=5)
    assert same(X[:3000], X3)
    assert same(X_test, X_test3[:10])
    assert np.array_equal(y[:3000], y3)
    assert not same(X, datasets.make_rcv1_like(5000, 10, random_state=6)[0])


@pytest.mark.parametrize("chunk_rows", [700, 2048, 5000, 6001])
@pytest.mark.parametrize("by_class", [False, True])
def test_stream_gives_the_same_rows(chunk_rows, by_class):
    sizes = {
        "n_features": 3000,
        "nnz": 20,
        "n_classes": 3,
        "random_state": 7,
        "sorted_by_class": by_class,
    }
    X, y, _, _ = datasets.make_rcv1_like(6000, 0, **sizes)
    start = 0
    for part, labels in datasets.iter_rcv1_like(6000, chunk_rows=chunk_rows, **sizes):
        stop = start + part.shape[0]
        assert same(part, X[start:stop])
        assert np.array_equal(labels, y[start:stop])
        start = stop
    assert start == 6000


def test_stream_of_test_rows():
    _, _, X, y = datasets.make_rcv1_like(1, 900, random_state=7)
    part, labels = next(datasets.iter_rcv1_like(900, random_state=7, test=True))
    assert same(part, X)
    assert np.array_equal(labels, y)


def test_sorted_by_class():
    _, y, _, y_test = datasets.make_rcv1_like(
        5000, 500, n_classes=4, n_features=2000, nnz=20, random_state=0, sorted_by_class=True
    )
    assert np.all(np.diff(y) >= 0)
    assert np.array_equal(np.bincount(y), [1250] * 4)
    assert np.any(np.diff(y_test) < 0)


def test_very_wide_text_takes_no_memory_per_feature():
    ((X, _y),) = datasets.iter_rcv1_like(500, n_features=10**8, random_state=0)
    assert X.shape == (500, 10**8)
    assert X.indices.max() > 5 * 10**7
    assert abs(X.nnz / 500 - 76) < 8
    X, *_ = datasets.make_rcv1_like(300, 1, n_features=2**33, random_state=0)
    assert X.indices.dtype == np.int64
    assert X.indices.max() > 2**32


@pytest.mark.parametrize("nnz", [1, 10, 300])
def test_row_length(nnz):
    X, *_ = datasets.make_rcv1_like(4096, 1, n_features=2000, nnz=nnz, random_state=1)
    assert abs(X.nnz / 4096 / nnz - 1) < 0.05
    assert np.diff(X.indptr).min() >= 1


def test_many_classes():
    X, y, X_test, y_test = datasets.make_rcv1_like(
        6000, 1000, n_features=2000, nnz=40, n_classes=5, dtype=np.float64, random_state=0
    )
    gram = (X.T @ X).toarray() + 3 * np.eye(2000)
    W = np.linalg.solve(gram, X.T @ np.eye(5)[y])
    assert np.mean((X_test @ W).argmax(axis=1) != y_test) < 0.3


def test_tree_text():
    X, y, X_test, y_test, parents = datasets.make_tree_text(
        4000, 1000, branching=(3, 3), n_features=3000, nnz=40, dtype=np.float64, random_state=0
    )
    assert np.array_equal(parents, [-1, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
    assert set(np.unique(y)) == set(range(9))
    gram = (X.T @ X).toarray() + 1 * np.eye(3000)
    W = np.linalg.solve(gram, X.T @ np.eye(9)[y])
    guess = (X_test @ W).argmax(axis=1)
    wrong = guess != y_test
    assert wrong.mean() < 0.35
    # siblings share words: a wrong guess is a sibling more often than by chance (2 of 8)
    assert np.mean(guess[wrong] // 3 == y_test[wrong] // 3) > 0.4


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_train": 0},
        {"n_test": -1},
        {"n_features": 1},
        {"nnz": 0},
        {"nnz": 100, "n_features": 120},
        {"n_classes": 1},
        {"dtype": np.int32},
        {"label_noise": 0.7},
        {"random_state": -1},
    ],
)
def test_refuses_impossible_sizes(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        datasets.make_rcv1_like(**{"n_train": 10, "n_test": 1, **wrong})


# ------------------------------------------------------------- small and dense


@pytest.mark.parametrize("n", [4992, 8000, 100])
def test_chessboard(n):
    X, y = datasets.make_chessboard(n, random_state=0)
    assert X.shape == (n, 2)
    square = np.floor(X).astype(int)
    assert square.min() == 0
    assert square.max() == 3
    counts = np.bincount(square[:, 0] * 4 + square[:, 1])
    assert np.ptp(counts) <= 1
    assert np.array_equal(y, np.where(square.sum(axis=1) % 2 == 0, 1, -1))
    _, noisy = datasets.make_chessboard(n, label_noise=0.2, random_state=0)
    assert 0.1 < np.mean(noisy != y) < 0.3


def test_two_normals_error_is_that_of_the_best_rule():
    X, y = datasets.make_two_normals(random_state=0)
    assert X.shape == (15_000, 2)
    w = np.linalg.lstsq(X, y, rcond=None)[0]
    assert abs(np.mean(np.sign(X @ w) != y) - 0.0786) < 0.01


def test_drift_turns():
    X, y, angle = datasets.make_drift(8000, 10, turns=1, label_noise=0, random_state=0)
    assert angle[0] == 0
    assert np.all(np.diff(angle) >= 0)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1)
    early, late = slice(0, 800), slice(3600, 4400)  # half a turn later the labels are opposite
    w = np.linalg.lstsq(X[early], y[early], rcond=None)[0]
    assert np.mean(np.sign(X[early] @ w) != y[early]) < 0.2
    assert np.mean(np.sign(X[late] @ w) != y[late]) > 0.8
    _, _, steps = datasets.make_drift(1000, kind="abrupt", concepts=5, random_state=0)
    assert np.unique(steps).size == 5
    with pytest.raises(ValueError, match="kind"):
        datasets.make_drift(kind="sudden")


def test_sparse_regression():
    X, y, w = datasets.make_sparse_regression(n_features=500, nnz=20, noise=0.1, random_state=0)
    assert abs(np.std(y - X @ w) - 0.1) < 0.01
    assert abs(np.std(X @ w) - 1) < 1e-6
    found = np.linalg.lstsq(X.toarray(), y, rcond=None)[0]
    assert np.std(X @ (found - w)) < 0.1
    _, moved, _ = datasets.make_sparse_regression(outliers=0.1, random_state=0)
    assert np.abs(moved).max() > 20


def test_novelty():
    X, y = datasets.make_novelty(2000, random_state=0)
    assert X.shape == (2000, 2)
    assert np.mean(y == -1) == 0.1
    assert np.std(X[y == -1]) > np.std(X[y == 1])


# ---------------------------------------------------------------------- digits


def test_digits_can_be_told_apart():
    X, y = datasets.make_digits(60, random_state=0)
    assert X.shape == (600, 256)
    assert X.dtype == np.float32
    assert np.array_equal(np.bincount(y), [60] * 10)
    half = 300
    gram = X[:half].T @ X[:half] + 10 * np.eye(256)
    W = np.linalg.solve(gram, X[:half].T @ np.eye(10)[y[:half]])
    assert np.mean((X[half:] @ W).argmax(axis=1) != y[half:]) < 0.25


def test_counting_sequence_counts():
    X, y = datasets.make_counting_sequence(random_state=0)
    assert X.shape == (6000, 256)
    assert np.array_equal(np.bincount(y), [600] * 10)
    shown = y.reshape(-1, 3) @ [100, 10, 1]
    assert np.array_equal(shown, np.tile(np.arange(1000), 2))
    assert len(np.unique(X, axis=0)) == 6000


def test_counting_sequence_from_given_digits():
    digits = np.repeat(np.arange(10), 25)
    images = np.arange(250.0)[:, None]
    X, y = datasets.make_counting_sequence(images, digits, places=2, runs=1, random_state=0)
    assert np.array_equal(digits[X[:, 0].astype(int)], y)
    with pytest.raises(ValueError, match="needs 600 images of digit 0"):
        datasets.make_counting_sequence(images, digits)
    with pytest.raises(ValueError, match="both"):
        datasets.make_counting_sequence(images)
    with pytest.raises(ValueError, match="rows"):
        datasets.make_counting_sequence(images, digits[:-1])


@pytest.mark.parametrize(
    "make",
    [
        datasets.make_chessboard,
        datasets.make_two_normals,
        datasets.make_drift,
        datasets.make_sparse_regression,
        datasets.make_novelty,
        datasets.make_counting_sequence,
        datasets.make_tree_text,
    ],
)
def test_same_seed_same_data(make):
    first, second, other = make(random_state=1), make(random_state=1), make(random_state=2)
    for a, b in zip(first, second):
        assert same(a, b) if hasattr(a, "indptr") else np.array_equal(a, b)
    a, b = first[0], other[0]
    assert not (same(a, b) if hasattr(a, "indptr") else np.array_equal(a, b))
