"""Threads of one call: their number, their errors, and what they may not change."""

import os

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm._estimator.threads import MANY_VALUES, Team, open_in_shares, resolve_jobs
from osvm._input import validate
from osvm.datasets import make_rcv1_like


@pytest.mark.parametrize(
    ("cls", "options"),
    [(osvm.LinearSVC, {}), (osvm.LinearSVC, {"loss": "hinge"}),
     (osvm.LinearClassifier, {"record": True})],
    ids=str,
)  # fmt: skip
def test_the_number_of_threads_does_not_change_the_model(cls, options):
    """Of a solver, and of examples that are recorded in order; `test_mixing` has the others."""
    X, y, _, _ = make_rcv1_like(1500, 10, n_classes=21, random_state=0)
    one, two = (cls(random_state=3, n_jobs=n, **options) for n in (1, 2))
    with np.errstate(all="raise"):
        one.fit(X, y)
        two.fit(X, y)
    assert np.array_equal(one.coef_, two.coef_)
    assert np.array_equal(one.decision_function(X), two.decision_function(X))


def wide_rows(kind):
    """Enough values for threads to check them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(MANY_VALUES // 400, 500)).astype(np.float32)
    if kind == "dense":
        return X
    return sp.csr_matrix(np.where(np.abs(X) > 0.1, X, 0.0)[:, :490])


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_rows_that_threads_check_are_those_that_one_checks(kind):
    X = wide_rows(kind)
    X[-2, 7] = -1e3
    found, (expected, _) = open_in_shares(X, 2), validate.check_X(X)
    assert found.largest == expected.largest == 1e3
    assert (found.n_rows, found.n_features) == X.shape
    assert open_in_shares(X, 1) is open_in_shares(X[:1200], 2) is None


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("row", [0, -1], ids=["first", "last"])
def test_a_fault_in_a_share_is_named(kind, row):
    X = wide_rows(kind)
    y = np.arange(X.shape[0]) % 2
    X[row, 3] = np.nan
    row %= X.shape[0]
    assert open_in_shares(X, 2) is None
    with pytest.raises(ValueError, match=f"NaN at row {row}, column 3"):
        osvm.LinearClassifier(n_jobs=2).fit(X, y)


def test_indices_and_row_ends_out_of_range_in_a_share_are_named():
    X = wide_rows("sparse")
    y = np.arange(X.shape[0]) % 2
    model = osvm.LinearClassifier(n_jobs=2)
    X.indices[-1] = X.shape[1]
    with pytest.raises(ValueError, match=f"row {X.shape[0] - 1} holds column {X.shape[1]}"):
        model.fit(X, y)
    X = wide_rows("sparse")
    middle = X.shape[0] // 2
    for end in (-5, len(X.indices) + 5):
        X.indptr[middle] = end
        with pytest.raises(ValueError, match="is not a valid CSR matrix"):
            model.fit(X, y)


def test_a_share_that_repeats_a_column_is_added_up():
    X = wide_rows("sparse")
    y = (np.asarray(X.sum(axis=1)).ravel() > 0).astype(int)
    last = X[-1:].copy()
    rows = sp.vstack([X, last], format="csr")
    rows.indices[-1] = rows.indices[-2]  # the last row names a column twice
    assert open_in_shares(rows, 2) is None
    once = rows.copy()
    once.has_canonical_format = False
    once.sum_duplicates()
    y = np.append(y, 0)
    two, one = (osvm.LinearClassifier(n_jobs=2, random_state=0).fit(R, y) for R in (rows, once))
    assert np.array_equal(two.coef_, one.coef_)


def test_an_error_in_a_thread_is_raised():
    def work(k):
        if k == 1:
            raise RuntimeError("thread 1")
        return k

    with Team(3) as team, pytest.raises(RuntimeError, match="thread 1"):
        team.each(work)
    with Team(3) as team:
        assert team.each(lambda k: k) == [0, 1, 2]


def test_number_of_threads():
    assert resolve_jobs(None) == 1
    assert resolve_jobs(3) == 3
    assert resolve_jobs(-1) == os.cpu_count()
    with pytest.raises(ValueError, match="n_jobs must not be 0"):
        resolve_jobs(0)
