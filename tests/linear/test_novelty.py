"""`LinearNovelty`: nu is the share of rows flagged, by fits, streams, files and merges."""

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm.linear.novelty import RECENT

N, D = 700, 6
X = np.abs(np.random.default_rng(3).normal(size=(N, D))) + 0.2


def flagged(model, rows=X):
    return int((model.predict(rows) == -1).sum())


def dicts(rows):
    return [dict(enumerate(row.tolist())) for row in rows]


@pytest.mark.parametrize("nu", [0.0, 0.01, 0.1, 0.29, 0.5, 0.9])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, np.float32])
@pytest.mark.parametrize(
    "params", [{}, {"average": True}, {"normalize": True}, {"schedule": "adaptive"},
               {"schedule": "smd"}], ids=str,
)  # fmt: skip
def test_fit_flags_the_share(nu, form, params):
    rows = form(X)
    model = osvm.LinearNovelty(nu=nu, random_state=0, **params).fit(rows)
    assert abs(flagged(model, rows) - nu * N) <= 1
    assert np.array_equal(model.predict(rows) == 1, model.decision_function(rows) >= 0)
    want = model.score_samples(rows) - model.offset_
    assert np.array_equal(model.decision_function(rows), want)


def test_weights_count_as_copies():
    weight = np.random.default_rng(0).integers(1, 5, N).astype(float)
    model = osvm.LinearNovelty(nu=0.2, random_state=0).fit(X, sample_weight=weight)
    share = weight[model.predict(X) == -1].sum() / weight.sum()
    assert 0.2 - 4 / weight.sum() <= share <= 0.2 + 1e-9


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e5])
def test_any_unit(unit):
    one = osvm.LinearNovelty(random_state=0).fit(X)
    other = osvm.LinearNovelty(random_state=0).fit(unit * X)
    np.testing.assert_allclose(other.coef_ * unit, one.coef_, rtol=1e-6)
    assert flagged(other, unit * X) == flagged(one)


def test_a_stream_takes_the_last_scores():
    model, kept = osvm.LinearNovelty(nu=0.2), []
    for start in range(0, N, 70):
        rows = X[start : start + 70]
        kept += model.partial_fit(rows).score_samples(rows).tolist()
        last = np.sort(kept[-RECENT:])
        assert model.offset_ == last[int(0.2 * len(last))]
    assert abs(flagged(model) / N - 0.2) < 0.05


def test_a_ring_forgets():
    model = osvm.LinearNovelty(nu=0.1).partial_fit(np.tile(X, (3, 1)))
    scores = model.score_samples(np.tile(X, (3, 1)))[-RECENT:]
    assert model.offset_ == np.sort(scores)[int(0.1 * RECENT)]


def test_one_by_one_is_partial_fit_row_by_row():
    one, rows = osvm.LinearNovelty(), osvm.LinearNovelty()
    for x, example in zip(X[:200], dicts(X)):
        one.learn_one(example, n_features=D)
        rows.partial_fit(sp.csr_matrix(x[None, :]))
        assert one.offset_ == pytest.approx(rows.offset_, rel=1e-12)
    example = dicts(X)[7]
    assert one.score_one(example) == pytest.approx(one.decision_function(X[7:8])[0], rel=1e-12)
    assert one.predict_one(example) == one.predict(X[7:8])[0]


def test_files_keep_the_offset_and_go_on(tmp_path):
    model = osvm.LinearNovelty(nu=0.3).partial_fit(X)
    model.save(tmp_path / "m.osvm")
    loaded = osvm.load(tmp_path / "m.osvm")
    assert loaded.offset_ == model.offset_
    for one in (model, loaded):
        one.partial_fit(X[:50]).learn_one(dicts(X)[0])
    assert loaded.offset_ == model.offset_
    assert np.array_equal(loaded.coef_, model.coef_)


def test_a_saved_ring_is_checked():
    model = osvm.LinearNovelty().partial_fit(X)
    scalars, arrays = model._get_state()
    for recent in (np.zeros(3), np.full(1 + RECENT, np.nan), np.zeros(1 + RECENT)):
        with pytest.raises(ValueError, match="recent"):
            osvm.LinearNovelty()._set_state(scalars, arrays | {"recent": recent})
    del scalars["offset"], arrays["recent"]
    old = osvm.LinearNovelty()
    old._set_state(scalars, arrays)
    assert old.offset_ == 1.0
    assert old.partial_fit(X).offset_ != 1.0


def test_merged_offset_is_the_mean():
    parts = [osvm.LinearNovelty().partial_fit(X[k::2]) for k in range(2)]
    merged = osvm.merge(parts)
    assert merged.offset_ == pytest.approx(np.mean([part.offset_ for part in parts]))
    assert merged.partial_fit(X).t_ == 2 * N


def test_callbacks_see_an_offset_of_their_epoch():
    seen = []
    model = osvm.LinearNovelty(
        random_state=0, epochs=3, callback=lambda m, epoch: seen.append(flagged(m))
    )
    model.fit(X)
    assert seen == [70, 70, 70]


@pytest.mark.parametrize("nu", [-0.1, 1.0, 2, "many", None])
def test_nu_is_checked(nu):
    for way in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match="nu must be"):
            getattr(osvm.LinearNovelty(nu=nu), way)(X)


def test_rows_of_weight_0_do_not_move_the_margin_of_a_stream():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4)) + 3
    X[1::2] *= -50
    weight = np.ones(400)
    weight[1::2] = 0
    options = {"schedule": "constant", "reg": 0.01}
    model = osvm.LinearNovelty(**options).partial_fit(X, sample_weight=weight)
    alone = osvm.LinearNovelty(**options).partial_fit(X[::2])
    assert model.offset_ == pytest.approx(alone.offset_, rel=0.3)
    assert np.mean(model.predict(X[::2]) < 0) == pytest.approx(0.1, abs=0.01)
    nothing = osvm.LinearNovelty().partial_fit(X, sample_weight=0 * weight)
    assert np.isfinite(nothing.offset_)
