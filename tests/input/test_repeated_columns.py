"""A row that names a column twice means the sum of its values, in whatever is learnt from it."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm._input.rows import RowSource
from osvm._input.scan import repeats_columns
from osvm._input.validate import check_X


def matrix(rows, d, index="i4", value="f8", seed=0):
    """A CSR matrix of these columns, as they are."""
    X = sp.csr_matrix((len(rows), d), dtype=value)
    X.indices = np.array([j for row in rows for j in row], index)
    X.indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(index)
    X.data = np.random.default_rng(seed).normal(size=len(X.indices)).astype(value)
    return X


def repeated(n=120, d=12, count=9, seed=0):
    rng = np.random.default_rng(seed)
    return matrix([rng.integers(d, size=count).tolist() for _ in range(n)], d, seed=seed)


@pytest.mark.parametrize("index", ["i4", "i8"])
@pytest.mark.parametrize("longest", [3, 16, 17, 40, 300])
def test_repeats_are_found_in_rows_of_any_order(index, longest):
    rng = np.random.default_rng(longest)
    answers = []
    for _ in range(60):
        counts = rng.integers(0, longest + 1, size=int(rng.integers(1, 8)))
        rows = [rng.permutation(1000)[:count].tolist() for count in counts]
        rows = [sorted(row) if rng.random() < 0.5 else row for row in rows]
        if rng.random() < 0.4 and any(len(row) > 1 for row in rows):
            k = int(rng.choice([i for i, row in enumerate(rows) if len(row) > 1]))
            rows[k][int(rng.integers(1, len(rows[k])))] = rows[k][0]
        X = matrix(rows, 1000, index)
        source = RowSource.csr(X.data, X.indices, X.indptr, 1000)
        answers.append(repeats_columns(source))
        assert answers[-1] == any(len(set(row)) < len(row) for row in rows)
    assert 0 < sum(answers) < len(answers)


def test_rows_without_entries_and_a_column_at_the_end_of_one_row_and_the_start_of_the_next():
    for rows in ([[], [1, 2], [], [], [2, 3], []], [[5], [5], [5]], [[], []], [[0, 1], [0]]):
        _, found = check_X(X := matrix(rows, 6))
        assert found is X
    for rows in ([[], [2, 2], []], [[0, 1], [3, 3]], [[1], [], [4, 5, 4]]):
        _, found = check_X(X := matrix(rows, 6))
        assert found is not X
        np.testing.assert_array_equal(found.toarray(), X.toarray())


@pytest.mark.parametrize("index", ["i4", "i8"])
@pytest.mark.parametrize("value", ["f4", "f8"])
def test_a_repeated_column_is_found_wherever_the_pass_over_the_values_is(index, value):
    rng = np.random.default_rng(3)
    for longest in (5, 90, 3000):  # entries: rows many to a tile of the pass, and many tiles
        counts = rng.integers(0, longest, size=max(6, 9000 // longest))
        rows = [np.sort(rng.permutation(4000)[:count]).tolist() for count in counts]
        X = matrix(rows, 4000, index, value)
        assert check_X(X)[1] is X
        firsts = np.flatnonzero(counts > 1)
        for row in (firsts[0], firsts[-1], *rng.choice(firsts, 30)):
            k = int(X.indptr[row] + rng.integers(1, counts[row]))
            before, X.indices[k] = X.indices[k], X.indices[k - 1]
            _, found = check_X(X)
            assert len(found.data) == len(X.data) - 1
            X.indices[k] = before


def test_unsorted_rows_are_not_copied_and_repeated_ones_not_changed():
    X = matrix([[3, 1, 0], [2, 5, 4]], 6)
    assert check_X(X)[1] is X
    X = repeated()
    X.has_canonical_format = True  # which is wrong, and scipy would believe
    before = X.data.copy(), X.indices.copy(), X.indptr.copy()
    for array in (X.data, X.indices, X.indptr):
        array.setflags(write=False)
    _, found = check_X(X)
    assert len(found.data) < len(X.data)
    for array, old in zip((X.data, X.indices, X.indptr), before):
        np.testing.assert_array_equal(array, old)
    assert check_X(X, summed=False)[1] is X


def test_values_whose_sum_is_no_number_are_refused():
    X = matrix([[0], [1, 1]], 2)
    X.data[:] = 1e308
    with pytest.raises(ValueError, match="row 1, column 1"):
        check_X(X)


MODELS = {
    "auto": osvm.LinearClassifier(random_state=0),
    "bottou": osvm.LinearClassifier(schedule="bottou", random_state=0),
    "softmax": osvm.LinearClassifier(loss="softmax", schedule="bottou", random_state=0),
    "maxabs": osvm.LinearClassifier(scale="maxabs", random_state=0),
    "normalize": osvm.LinearClassifier(normalize=True, random_state=0),
    "novelty": osvm.LinearNovelty(random_state=0),
    "regressor": osvm.LinearRegressor(schedule="bottou", random_state=0),
    "multilabel": osvm.MultilabelClassifier(random_state=0),
    "LinearSVC": osvm.LinearSVC(random_state=0),
    "KernelClassifier": osvm.KernelClassifier(random_state=0),
    "SVC": osvm.SVC(),
    "ALMA": osvm.AlmaClassifier(),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_is_that_of_the_summed_rows(name):
    X = repeated()
    summed = X.copy()
    summed.sum_duplicates()
    y = (X.toarray() @ np.linspace(-1, 1, X.shape[1]) > 0).astype(int)
    target = [] if name == "novelty" else [np.stack([y, 1 - y], 1) if name == "multilabel" else y]
    model = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for learn in ("fit", "partial_fit"):
            if not hasattr(model, learn) or (
                learn == "partial_fit" and name in ("maxabs", "ALMA")
            ):
                continue  # which need a fit, or classes
            models = [type(model)(**model.get_params()) for _ in range(2)]
            found, wanted = (
                getattr(m, learn)(A, *target).to_bytes() for m, A in zip(models, (X, summed))
            )
            assert found == wanted
            score = "predict" if name == "regressor" else "decision_function"
            np.testing.assert_allclose(
                getattr(models[0], score)(X), getattr(models[1], score)(summed), 1e-10, 1e-12
            )


@pytest.mark.parametrize("count", [4, 30])
def test_one_example_is_its_sum_too(count):
    rng = np.random.default_rng(count)
    models = [osvm.LinearClassifier(schedule="bottou", loss="softmax") for _ in range(2)]
    for _ in range(40):
        columns, values = rng.integers(20, size=count), rng.normal(size=count)
        y, total = int(rng.integers(3)), np.zeros(20)
        np.add.at(total, columns, values)
        some = np.unique(columns)
        models[0].learn_one(columns, values, y, n_features=20)
        models[1].learn_one(some, total[some], y, n_features=20)
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, 1e-10, 1e-13)
