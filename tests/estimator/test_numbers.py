"""Inputs from 1e-300 to 1e300, regularizers from 1e-12 to 1e6, long shrinkage.

What comes out is finite and right to the tolerance stated here, or an error says what to do.
"""

import numpy as np
import pytest
from saved_models import DENSE, KINDS, X, Y, learn, scores
from scipy.sparse import csr_array

import osvm
from osvm.linear.weights import ScaledVector

SIZES = [5e-324, 1e-310, 1e-300, 1e-200, 1e-100, 1e-30, 1e-10, 1e10, 1e30, 1e100, 1e200, 1e300]
ERRORS = (ValueError, FloatingPointError)
STREAMS = [
    kind for kind in KINDS
    if hasattr(KINDS[kind][0](), "partial_fit") and "alma" not in kind.lower()  # needs classes
]  # fmt: skip


def finite_or_refused(model, call, rows):
    """Whether the call went through; its refusal names a row or a remedy."""
    try:
        call()
        found = scores(model, rows)
    except ERRORS as error:
        refusal = str(error)
    else:
        assert np.isfinite(found).all()
        return True
    words = ("row", "scale", "C needs", "'full' needs", "large", "overflow", "lower eta0")
    assert any(word in refusal for word in words), refusal
    return False


@pytest.mark.parametrize("kind", STREAMS[::4])
@pytest.mark.filterwarnings("ignore")
def test_streams_of_any_size(kind):
    maker, target = KINDS[kind]
    went = 0
    for size in SIZES:
        rows, model = DENSE * size, maker()
        went += finite_or_refused(
            model, lambda m=model, r=rows: learn(m, target, "partial_fit", data=r), rows
        )
    params = maker().get_params()
    fixed = params.get("scale") in ("std", "maxabs")
    if not params.get("C") and params.get("batch_size") != "full" and not fixed:
        assert went >= 3  # sizes around one at the least


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.filterwarnings("ignore")
def test_a_fitted_model_scores_rows_of_any_size(size):
    for kind in ("LinearClassifier() binary", "MultilabelClassifier() sets"):
        maker, target = KINDS[kind]
        model = learn(maker(), target, data=DENSE)
        coef, b = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
        rows = DENSE * size
        with np.errstate(over="ignore", invalid="ignore"):
            want = rows @ coef.T + b
        if not np.isfinite(want).all():
            with pytest.raises(FloatingPointError, match="row"):
                model.decision_function(rows)
            continue
        found = model.decision_function(rows).reshape(want.shape)
        scale = np.abs(rows) @ np.abs(coef).T + np.abs(b)
        assert (np.abs(found - want) <= 1e-12 * scale).all()


@pytest.mark.parametrize("reg", [1e-12, 1e-6, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("schedule", ["bottou", "inverse_time", "constant"])
@pytest.mark.filterwarnings("ignore")
def test_regularizers_of_any_size_follow_the_equations(reg, schedule):
    """w <- max(0, 1 - eta reg) w + eta y x, eta = 1/(reg t): followed to 1e-9."""
    model = osvm.LinearClassifier(
        reg=reg, schedule=schedule, fit_intercept=False, shuffle=False, random_state=0
    )
    y = np.where(Y["binary"] == "yes", 1.0, -1.0)
    went = finite_or_refused(model, lambda: model.partial_fit(DENSE, y), DENSE)
    assert went or schedule == "constant"  # whose eta0 * reg must not exceed 1
    if schedule != "inverse_time":
        return
    w = np.zeros(16)
    for t, (x, target) in enumerate(zip(DENSE, y), 1):
        eta = 1.0 / (reg * t)
        step = eta * target * x if target * (w @ x) < 1.0 else 0.0
        w = (1.0 - eta * reg) * w + step
    assert np.allclose(model.coef_[0], w, rtol=1e-9, atol=1e-9 * np.abs(w).max())


@pytest.mark.parametrize("factor", [1.0 - 1e-9, 1.0 - 1e-6, 0.5])
def test_many_shrinkages_keep_their_digits(factor):
    """2,000 calls, each with the factor of `count` shrinkages, folds included, to 1e-6."""
    v = np.array([1.0, -2.0, 3.0])
    w = ScaledVector(3, np.float64)
    w.set_array(v)
    n, count = 2_000, {1.0 - 1e-9: 500_000, 1.0 - 1e-6: 500, 0.5: 1}[factor]
    each = factor**count  # what `count` shrinkages in a row come to
    for _ in range(n if factor != 0.5 else 900):
        w.shrink(each)
    total = (n if factor != 0.5 else 900) * count
    want = v * np.exp(total * np.log1p(factor - 1.0))
    assert np.allclose(w.array(), want, rtol=1e-6, atol=0)


def shrunk_by_empty_rows(schedule, n, blocks):
    """(weights, what the equations make of them) after n * blocks rows without a value."""
    params = {"constant": {"eta0": 1e-3, "reg": 1e-6}, "inverse_time": {"reg": 1e-4}}[schedule]
    model = osvm.LinearClassifier(fit_intercept=False, schedule=schedule, **params)
    model.partial_fit(X, Y["binary"])
    w, before = model.coef_.copy(), model.t_
    nothing = csr_array((np.zeros(0), np.zeros(0, np.int32), np.zeros(n + 1, np.int32)), (n, 16))
    for _ in range(blocks):
        model.partial_fit(nothing, np.full(n, "yes"))
    assert model.t_ == before + n * blocks
    if schedule == "constant":
        return model.coef_, w * np.exp(n * blocks * np.log1p(-1e-9))
    return model.coef_, w * before / model.t_  # the product of 1 - 1/t


@pytest.mark.parametrize("schedule", ["constant", "inverse_time"])
def test_rows_without_a_value_shrink_by_the_equations(schedule):
    found, want = shrunk_by_empty_rows(schedule, 100_000, 20)
    assert np.allclose(found, want, rtol=1e-9, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["constant", "inverse_time"])
def test_a_billion_rows_without_a_value_shrink_by_the_equations(schedule):
    """10^9 steps of the loop, one by one, folds included, to 1e-7."""
    found, want = shrunk_by_empty_rows(schedule, 10_000_000, 100)
    assert np.allclose(found, want, rtol=1e-7, atol=0)


@pytest.mark.parametrize("cls", [osvm.KernelClassifier, osvm.KernelRegressor])
def test_a_first_step_whose_product_with_reg_is_zero(cls):
    y = (DENSE[:, 0] > 0).astype(int)
    with pytest.raises(ValueError, match="too small: raise one of them"):
        cls(eta0=1e-200, reg=1e-200).partial_fit(DENSE, y)
    assert np.abs(cls(eta0=1e-200, reg=1e-50).partial_fit(DENSE, y).dual_coef_).max() <= 1e-199
