"""`n_jobs` in `fit` of many classes: threads that learn columns of their own, all rows each."""

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm.linear.column_shares import MIN_COLUMNS, shares_columns
from osvm.linear.mixing import ROWS_PER_THREAD
from osvm.schedules import Adaptive, CoinBetting

rng = np.random.default_rng(2)
K, D = 2 * MIN_COLUMNS + 1, 400
N = 2 * ROWS_PER_THREAD + 2500
DENSE = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.05)
DENSE[::50] = 0.0  # whose scores are offsets, equal for classes that were treated alike
X = sp.csr_matrix(DENSE)
y = np.argmax(X @ rng.normal(size=(D, K)) + 2.0 * rng.normal(size=(N, K)), axis=1)
WEIGHT = rng.uniform(0.0, 3.0, N)


def state(model):
    scalars, arrays = model._learner.get_state()
    return scalars | arrays


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "params",
    [
        {"loss": "hinge"},
        {"loss": "logistic", "epochs": 3},
        {"loss": "squared_hinge", "schedule": Adaptive(eta0=0.5), "average": True},
        {"loss": "modified_huber", "schedule": Adaptive(normalized=True), "average": 100},
        {"schedule": Adaptive(eta0=2.0, mirror=True), "reg": 1e-5},
        {"schedule": CoinBetting(), "fit_intercept": False},
        {"loss": "hinge", "scale": "std"},
    ],
)
def test_threads_that_share_columns_make_the_model_of_one(params, dtype):
    rows = DENSE[:, :60].astype(dtype) if "scale" in params else X.astype(dtype)
    one, two = (
        osvm.LinearClassifier(random_state=0, n_jobs=jobs, **params).fit(rows, y, WEIGHT)
        for jobs in (1, 2)
    )
    assert shares_columns(two._learner, 2) == (one.schedule_.name != "auto")  # judges again
    expected, found = state(one), state(two)
    assert found.pop("losses") == pytest.approx(expected.pop("losses"), rel=1e-9)
    for name, numbers in expected.items():
        np.testing.assert_array_equal(found[name], numbers, err_msg=name)
    more = [model.partial_fit(rows[:500], y[:500]).coef_ for model in (one, two)]
    assert np.array_equal(*more)


def test_many_threads_or_joint_losses_share_rows():
    for jobs, loss in ((3, "hinge"), (2, "multiclass_hinge")):
        one, more = (
            osvm.LinearClassifier(loss, random_state=0, n_jobs=n).fit(X, y) for n in (1, jobs)
        )
        assert not np.array_equal(one.coef_, more.coef_)
        assert more.t_ == one.t_


def test_callbacks_see_the_losses_of_all_columns():
    seen = {1: [], 2: []}
    for jobs, losses in seen.items():
        osvm.LinearClassifier(
            "hinge", random_state=0, n_jobs=jobs, epochs=2,
            callback=lambda model, epoch, to=losses: to.append(epoch.average_loss),
        ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(seen[1], seen[2], rtol=1e-9)


def test_a_row_that_one_share_cannot_learn_is_named():
    bad = X.copy()
    bad.data[bad.indptr[6001] : bad.indptr[6002]] = 1e200
    model = osvm.LinearClassifier("squared_hinge", schedule="adaptive", n_jobs=2)
    with pytest.raises(FloatingPointError, match="6001"):
        model.fit(bad, y)
    assert not hasattr(model, "t_")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_of_a_column_do_not_depend_on_the_number_of_columns(dtype):
    rows, codes = X[:300].astype(dtype), np.arange(300) % 60
    params = {"schedule": Adaptive(eta0=0.5), "shuffle": False, "epochs": 1, "loss": "hinge"}
    whole = osvm.LinearClassifier(**params).fit(rows, codes).coef_
    for n in range(3, 60):
        part = osvm.LinearClassifier(**params).fit(rows, np.minimum(codes, n)).coef_
        np.testing.assert_array_equal(part[:n], whole[:n])
