"""Scores that are too large for a number: an error that names the row, never NaN or inf."""

import numpy as np
import pytest
from saved_models import DENSE, KINDS, X, Y, learn, make

import osvm

LARGE = {np.float32: 1e38, np.float64: 1e308}


@pytest.mark.filterwarnings("ignore")
def test_an_average_of_label_sets_on_float32_rows_of_1e18():
    """The accumulator's part of the score overflowed: NaN."""
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(60, 12)) * 1e18).astype(np.float32)
    sets = [tuple(k for k in "abc" if rng.random() < 0.5) for _ in rows]
    model = osvm.MultilabelClassifier("logistic", average=True, random_state=0)
    model.partial_fit(rows, sets)
    with pytest.raises(FloatingPointError, match="the score of row 0 is too large"):
        model.decision_function(rows)
    with pytest.raises(FloatingPointError, match="the score of row"):
        model.predict(rows)
    assert np.isfinite(model.decision_function(rows[:5] / 1e18)).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_that_overflow_are_refused_or_have_finite_scores(kind):
    model = make(kind)
    for dtype, size in LARGE.items():
        rows = DENSE.astype(dtype)
        rows[7:] *= size / np.abs(DENSE).max()
        for form in (rows, type(X)(rows)):
            for name in ("decision_function", "score_samples", "predict", "predict_proba"):
                if not hasattr(model, name):
                    continue
                try:
                    found, refusal = getattr(model, name)(form), ""
                except (FloatingPointError, ValueError) as error:
                    found, refusal = np.zeros(0), str(error)
                assert not refusal or ("row" in refusal and "large" in refusal), refusal
                assert found.dtype.kind != "f" or np.isfinite(found).all(), name


def test_one_row_that_overflows_is_named_too():
    model = learn(osvm.LinearRegressor(schedule="bottou", random_state=0), "number")
    model.partial_fit(DENSE * 1e3, Y["number"] * 1e3)
    assert np.isfinite(model.score_one({0: 1.0}))
    with pytest.raises(FloatingPointError, match="the score of row 0"):
        model.score_one({j: 1e308 * np.sign(model.coef_[j]) for j in range(12)})
    with pytest.raises(FloatingPointError, match="the score of row 0"):
        model.predict_one({j: 1e308 * np.sign(model.coef_[j]) for j in range(12)})
