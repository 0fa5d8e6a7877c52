"""One pass for a whole grid: every candidate is what it would be alone."""

import numpy as np
import pytest

import osvm
from osvm import schedules
from osvm.linear import columns
from osvm.model_selection import OnePassSearch, one_pass_search


def text(n=800, classes=2):
    X, y, *_ = osvm.datasets.make_rcv1_like(
        n_train=n, n_test=10, n_features=400, nnz=15, n_classes=classes, random_state=0
    )
    return X.astype(np.float64), y


GRID = [
    {"reg": 1e-1},
    {"reg": 1e-3, "schedule": "inverse_time", "project": True},
    {"reg": 1e-4, "schedule": schedules.Bottou(t0=100.0)},
    {"reg": 1e-2, "schedule": "constant", "eta0": 0.5},
]


@pytest.mark.parametrize("loss", ["hinge", "logistic", "softmax"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("average", [False, True])
def test_each_candidate_equals_its_own_fit(loss, classes, average):
    X, y = text(300, classes)
    base = osvm.LinearClassifier(loss, epochs=2, average=average, random_state=0)
    for i, params in enumerate(GRID):
        others = [c for j, c in enumerate(GRID) if j != i]
        search = OnePassSearch(base, [params, *others])
        search.fit(X, y)
        alone = osvm.LinearClassifier(
            loss, epochs=2, average=average, random_state=0, record=True, **params
        ).fit(X, y)
        assert search.error_[0] == pytest.approx(alone.history_["error"][-1], abs=1e-12)
        assert search.loss_[0] == pytest.approx(alone.history_["loss"].mean(), rel=1e-9)
        if search.best_index_ == 0:
            assert np.allclose(search.best_estimator_.coef_, alone.coef_, rtol=1e-9, atol=1e-12)
            assert np.allclose(search.best_estimator_.intercept_, alone.intercept_, rtol=1e-9)


def test_the_best_model_goes_on_learning():
    X, y = text()
    search = one_pass_search(
        osvm.LinearClassifier(random_state=0, epochs=1), X, y, {"reg": [1.0, 1e-2, 1e-4]}
    )
    best = search.best_estimator_
    assert best.reg == search.best_params_["reg"]
    assert best.t_ == X.shape[0]
    before = best.coef_.copy()
    best.partial_fit(X[:50], y[:50])
    assert best.t_ == X.shape[0] + 50
    assert not np.array_equal(best.coef_, before)
    assert search.error_[search.best_index_] == search.error_.min()


def test_the_path_ends_with_the_scores():
    X, y = text()
    search = one_pass_search(
        osvm.LinearClassifier(random_state=0, epochs=1),
        X,
        y,
        {"reg": [1e-2, 1e-4], "schedule": ["bottou", "inverse_time"]},
    )
    assert search.path_["examples"][-1] == X.shape[0]
    assert search.path_["error"].shape == (len(search.path_["examples"]), 4)
    assert np.array_equal(search.path_["error"][-1], search.error_)
    assert search.table().count("\n") == 4


def test_plot_shows_every_candidate():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    X, y = text()
    base = osvm.LinearClassifier(random_state=0, epochs=1)
    ax = one_pass_search(base, X, y, {"reg": [1e-2, 1e-4]}).plot()
    assert len(ax.lines) == 2
    assert "(best)" in " ".join(t.get_text() for t in ax.get_legend().get_texts())


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({}, None),
        ({"loss": ["hinge"]}, "searchable"),
        ({"reg": 1e-3}, "list of values"),
        ([], "no candidates"),
        ("reg", "dict of lists"),
    ],
)
def test_a_bad_grid_is_refused(grid, message):
    base = osvm.LinearClassifier()
    if message is None:
        assert OnePassSearch(base, grid).candidates_ == [{}]
        return
    with pytest.raises((TypeError, ValueError), match=message):
        OnePassSearch(base, grid)


def test_what_cannot_be_searched_in_one_pass_is_refused():
    X, y = text(50)
    with pytest.raises(ValueError, match="batch_size=1"):
        one_pass_search(osvm.LinearClassifier(batch_size=5), X, y, {"reg": [1e-3]})
    with pytest.raises(TypeError, match="LinearClassifier"):
        OnePassSearch(osvm.LinearRegressor(), {"reg": [1.0]})


def same_bits(base, X, y, grid):
    searches = []
    try:
        for level in (0, 9):
            columns.limit_simd(level)
            searches.append(one_pass_search(base, X, y, grid))
    finally:
        columns.limit_simd(9)
    plain, wide = searches
    assert np.array_equal(plain.path_["loss"], wide.path_["loss"])
    assert np.array_equal(plain.path_["error"], wide.path_["error"])
    assert np.array_equal(plain.best_estimator_.coef_, wide.best_estimator_.coef_)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("average", [False, True])
def test_wide_instructions_give_the_same_bits(fit_intercept, average):
    X, y = text()
    base = osvm.LinearClassifier(
        random_state=0, epochs=2, fit_intercept=fit_intercept, average=average
    )
    same_bits(base, X, y, {"reg": np.geomspace(1e-6, 1.0, 11).tolist()})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("candidates", [1, 3, 4, 16, 75])
def test_wide_instructions_in_every_type_and_width(dtype, index, candidates):
    X, y = text(300)
    X = X.astype(dtype)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    # in no order, so that those that take a step lie here and there
    regs = np.random.default_rng(0).permutation(np.geomspace(1e-6, 10.0, candidates)).tolist()
    same_bits(osvm.LinearClassifier(random_state=0, epochs=2), X, y, {"reg": regs})


@pytest.mark.parametrize("loss", ["hinge", "multiclass_hinge"])
def test_wide_instructions_with_many_classes(loss):
    X, y = text(300, 7)
    grid = {"reg": np.geomspace(1e-6, 1.0, 11).tolist()}
    same_bits(osvm.LinearClassifier(loss, random_state=0, epochs=2), X, y, grid)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("average", [False, True])
def test_dense_rows_are_learnt_as_sparse_ones_to_the_bit(dtype, classes, average):
    X, y = text(200, classes)
    X = X[:, np.unique(X.indices)[:60]].astype(dtype)
    dense = X.toarray()
    base = osvm.LinearClassifier(epochs=2, average=average, normalize=True, random_state=0)
    grid = {"reg": np.geomspace(1e-5, 1e-1, 11).tolist()}
    wide = np.zeros((200, 2 * dense.shape[1]), dtype)
    wide[:, ::2] = dense
    expected = one_pass_search(base, X, y, grid)
    for rows in (dense, np.asfortranarray(dense), wide[:, ::2], dense[::-1][::-1]):
        found = one_pass_search(base, rows, y, grid)
        np.testing.assert_array_equal(found.loss_, expected.loss_)
        np.testing.assert_array_equal(found.error_, expected.error_)
        np.testing.assert_array_equal(found.best_estimator_.coef_, expected.best_estimator_.coef_)
