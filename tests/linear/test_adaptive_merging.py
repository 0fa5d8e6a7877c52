"""Merging of adaptive learners against its equations, number by number."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import osvm
from osvm.schedules import Adaptive, CoinBetting

rng = np.random.default_rng(3)
N, D = 900, 12
X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.3) * np.logspace(-2, 2, D)
X[:, -1] *= np.arange(N) < 250  # a column that some parts never see
SCORE = X @ (rng.normal(size=D) / np.logspace(-2, 2, D)) + 0.3 * rng.normal(size=N)
TWO, THREE = (SCORE > 0).astype(int), np.digitize(SCORE, [-0.5, 0.5])
CUTS = [0, 100, 300, 420, 900]

SETTINGS = {
    "plain": {"schedule": Adaptive(eta0=0.5, tail=False)},
    "normalized": {"schedule": Adaptive(eta0=2.0, normalized=True, tail=False)},
    "shrunk": {"schedule": Adaptive(eta0=0.5, tail=False), "reg": 1e-2},
    "forgets": {"schedule": Adaptive(eta0=0.5, forget=0.99, tail=False)},
    "mirror": {"schedule": Adaptive(eta0=0.5, mirror=True, tail=False), "reg": 1e-3},
}
EVERY = {
    **SETTINGS,
    "tail": {"schedule": Adaptive(eta0=0.5), "average": True},
    "bets": {"schedule": CoinBetting(), "average": True},
    "auto": {},
}


def learnt(model, y, a, b):
    return model.partial_fit(X[a:b], y[a:b], classes=np.unique(y))


def parts_of(params, y, with_base, cls=osvm.LinearClassifier):
    start = learnt(cls(**params), y, 0, CUTS[1])
    parts = []
    for a, b in itertools.pairwise(CUTS[1:]):
        part = osvm.from_bytes(start.to_bytes()) if with_base else cls(**params)
        parts.append(learnt(part, y, a, b))
    return (start if with_base else None), parts


class Naive:
    """Numbers of a model's learner, (columns, features + offset)."""

    def __init__(self, model, like=None):
        if model is None:
            self.__dict__ = {k: 0.0 * v for k, v in like.__dict__.items()}
            return
        learner = model._learner
        scalars, arrays = learner.get_state()

        def joined(w, b):
            return np.column_stack([np.atleast_2d(w), b])

        offsets = arrays["offsets"]
        inflation = np.repeat(arrays["groups"][:, 1], learner.n_out)
        mirror = getattr(model._plan.schedule, "mirror", False)
        v = learner._planes()[:, 0].T if mirror else learner.weight_array(False)
        self.w = joined(v, offsets[0])
        self.G = joined(learner.root_array(), offsets[1] / np.sqrt(inflation)) ** 2
        self.t, self.seen, self.N = (scalars[k] for k in ("t", "seen", "sum_x"))
        self.count = scalars["count_0"]
        self.S = 0.0 * self.w
        if self.count:
            self.S = self.count * joined(learner.weight_array(True), learner.offset_array(True))


def merged_by_hand(base, parts, by_share):
    """(w, G, S) entry by entry."""
    parts = [Naive(part) for part in parts]
    base = Naive(base, parts[0])
    rows = np.array([part.seen - base.seen for part in parts])
    w, G, S = (np.zeros_like(parts[0].w) for _ in range(3))
    for k, j in np.ndindex(*w.shape):
        learnt = np.array([part.G[k, j] - base.G[k, j] for part in parts])
        c = rows / rows.sum()
        if not by_share and learnt.max() > 0:
            c = learnt / learnt.sum()
        w0 = base.w[k, j]
        w[k, j] = w0 + sum(c[i] * (part.w[k, j] - w0) for i, part in enumerate(parts))
        share = rows / rows.sum() if by_share else np.ones(len(parts))
        G[k, j] = base.G[k, j] + share @ learnt
        S0, n0 = base.S[k, j], base.count
        new = sum(part.count - n0 for part in parts)
        if new:
            means = [(part.S[k, j] - S0) / (part.count - n0) for part in parts]
            S[k, j] = S0 + new * (c @ means)
    return base, parts, w, G, S


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("with_base", [False, True])
@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("name", SETTINGS)
def test_numbers_follow_the_equations(name, y, with_base, average):
    base, parts = parts_of({**SETTINGS[name], "average": average}, y, with_base)
    if name == "mirror" and average:
        pytest.skip("an average of theta is read through the merged rates")
    by_share = name in ("forgets", "mirror")
    merged = osvm.merge(parts, base)
    first, all_parts, w, G, S = merged_by_hand(base, parts, by_share)
    made = Naive(merged)
    np.testing.assert_allclose(made.w, w, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(made.G, G, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(made.S, S, rtol=1e-9, atol=1e-10)
    assert made.seen == first.seen + sum(part.seen - first.seen for part in all_parts)
    if name != "mirror":
        assert made.t == made.seen
        total = first.N + sum(part.N - first.N for part in all_parts)
        assert np.isclose(made.N, total, rtol=1e-12)
    if name == "normalized":
        n = [
            1 / np.where(p._learner.cells[:, 0] > 0, p._learner.cells[:, 0], np.inf) for p in parts
        ]
        inverse = merged._learner.cells[:, 0]
        np.testing.assert_allclose(
            np.where(inverse > 0, 1 / np.maximum(inverse, 1e-300), 0.0),
            np.max(n, axis=0),
            rtol=1e-12,
        )


@pytest.mark.parametrize("cls", [osvm.LinearClassifier, osvm.LinearRegressor])
@pytest.mark.parametrize("with_base", [False, True])
@pytest.mark.parametrize("name", EVERY)
def test_the_same_bits_every_time_and_a_tree_is_the_same_to_rounding(name, with_base, cls):
    y = THREE if cls is osvm.LinearClassifier else SCORE
    if cls is osvm.LinearRegressor:
        parts_of_it = {"with_base": with_base, "cls": cls}
        base, parts = regressors(EVERY[name], **parts_of_it)
    else:
        base, parts = parts_of(EVERY[name], y, with_base)
    flat = osvm.merge(parts, base)
    assert flat.to_bytes() == osvm.merge(parts, base).to_bytes()
    pair = osvm.merge(parts[:2], base)
    tree = osvm.merge([pair, parts[2]], base)
    assert tree.to_bytes() == osvm.merge([pair, parts[2]], base).to_bytes()
    (scalars, arrays), (others, other_arrays) = (m._learner.get_state() for m in (flat, tree))
    assert scalars.keys() == others.keys()
    for key, value in scalars.items():
        assert np.isclose(value, others[key], rtol=1e-9), key
    for key, value in arrays.items():
        if key != "figures" or not with_base:  # the base's fade by the parts' mean rows
            np.testing.assert_allclose(value, other_arrays[key], rtol=1e-7, atol=1e-9)
    learnt_on = osvm.from_bytes(flat.to_bytes()).partial_fit(X[:50], y[:50])
    assert learnt_on.to_bytes() == flat.partial_fit(X[:50], y[:50]).to_bytes()


def regressors(params, with_base, cls):
    start = cls(**params).partial_fit(X[:100], SCORE[:100])
    parts = []
    for a, b in itertools.pairwise(CUTS[1:]):
        part = osvm.from_bytes(start.to_bytes()) if with_base else cls(**params)
        parts.append(part.partial_fit(X[a:b], SCORE[a:b]))
    return (start if with_base else None), parts


def test_targets_are_those_of_all_rows():
    base, parts = regressors({}, True, osvm.LinearRegressor)
    scalars = osvm.merge(parts, base)._learner.get_state()[0]
    assert np.isclose(scalars["target_mean"], SCORE.mean(), rtol=1e-10)
    assert np.isclose(scalars["target_sq"], ((SCORE - SCORE.mean()) ** 2).sum(), rtol=1e-10)
    assert scalars["target_weight"] == N


def test_a_weight_that_one_part_alone_has_moved_stays():
    """Parameter mixing by rows would make a third of it."""
    rows = sp.csr_matrix(np.eye(4))
    y = np.array([1, 0, 1, 0])
    params = {"schedule": Adaptive(eta0=0.5), "fit_intercept": False}
    parts = [
        osvm.LinearClassifier(**params).partial_fit(rows[[k]], y[[k]], classes=[0, 1])
        for k in range(3)
    ]
    merged = osvm.merge(parts)
    for k, part in enumerate(parts):
        assert merged.coef_[0, k] == part.coef_[0, k] != 0.0
    assert merged.coef_[0, 3] == 0.0


@pytest.mark.parametrize("seen", [40, 64, 100, 700])
def test_windows_are_left_where_one_learner_leaves_them(seen):
    params = {"schedule": Adaptive(eta0=0.5), "average": True}
    base = learnt(osvm.LinearClassifier(**params), TWO, 0, seen)
    one = osvm.from_bytes(base.to_bytes())
    copies = [osvm.from_bytes(base.to_bytes()) for _ in range(2)]
    for k in range(10):  # short parts that restart nothing by themselves
        rows = [(20 * k) % 100, (20 * k) % 100 + 10, (20 * k) % 100 + 20]
        learnt(one, TWO, rows[0], rows[2])
        before = osvm.from_bytes(copies[0].to_bytes())
        for part, (a, b) in zip(copies, itertools.pairwise(rows)):
            learnt(part, TWO, a, b)
        merged = osvm.merge(copies, before)
        copies = [osvm.from_bytes(merged.to_bytes()) for _ in range(2)]
        found, expected = (m._learner.get_state()[0] for m in (merged, one))
        assert found["seen"] == expected["seen"]
        counts = [s[f"count_{s['older']}"] for s in (found, expected)]
        # a merge restarts a window with its first example, or with those since the base
        assert abs(counts[0] - counts[1]) <= 20


def test_settings_that_all_parts_have_stay():
    parts = [learnt(osvm.LinearClassifier(), TWO, 0, 200) for _ in range(3)]
    parts[0]._learner.keep(0b00011)
    parts[1]._learner.keep(0b01001)
    merged = osvm.merge(parts)
    assert merged._learner.alive == 0b00001
    parts[1]._learner.keep(0b01000)
    parts[2]._learner.keep(0b01010)
    merged = osvm.merge(parts)  # none is left in all of them
    assert merged._learner.alive in (0b00010, 0b01000)
    assert merged.score(X, TWO) > 0.8 > np.mean(TWO == 0)
    merged.partial_fit(X, TWO)


def test_labels_that_only_some_parts_know():
    a = osvm.LinearClassifier().partial_fit(X[:300], TWO[:300])
    b = osvm.LinearClassifier().partial_fit(X[300:], THREE[300:])
    merged = osvm.merge([a, b])
    assert merged.classes_.tolist() == [0, 1, 2]
    assert merged.t_ == N
    merged.partial_fit(X, THREE)


def test_models_of_one_kind_that_chose_otherwise():
    """Many columns to a row take "bottou": all parts are merged as plain weights then."""
    wide = sp.random(1500, 30_000, 0.002, format="csr", random_state=0)
    y = (np.asarray(wide.sum(axis=1)).ravel() > 30).astype(int)
    few = osvm.LinearClassifier(epochs=2, random_state=0).fit(wide[:550], y[:550])
    many = osvm.LinearClassifier(epochs=2, random_state=0).fit(wide, y)
    assert {few._plan.schedule.name, many._plan.schedule.name} == {"auto", "bottou"}
    assert osvm.merge([few, many])._plan.schedule.name == "bottou"


@pytest.mark.parametrize("kind", ["std", "maxabs"])
@pytest.mark.parametrize("name", ["plain", "bets", "auto"])
def test_columns_in_other_units(name, kind):
    """Parts that scale their columns otherwise are brought into the units of the first."""
    params = {**EVERY[name], "scale": kind, "random_state": 0, "epochs": 1}
    parts = [
        osvm.LinearClassifier(**params).fit(X[a:b], TWO[a:b]) for a, b in [(0, 450), (450, 900)]
    ]
    merged = osvm.merge(parts)
    assert merged.score(X, TWO) >= min(part.score(X, TWO) for part in parts) - 0.02
    alone = osvm.merge([parts[0], parts[0]])
    np.testing.assert_allclose(alone.coef_, parts[0].coef_, rtol=1e-9, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(EVERY)), st.integers(1, 3), st.integers(2, 4))
def test_merging_copies_changes_no_weight(name, n_calls, n_copies):
    model = osvm.LinearClassifier(**EVERY[name])
    for _ in range(n_calls):
        learnt(model, TWO, 0, 150)
    copies = [osvm.from_bytes(model.to_bytes()) for _ in range(n_copies)]
    for base in (None, model):
        merged = osvm.merge(copies, base)
        if name == "bets" and base is None:
            continue  # twice the gradients make other bets
        np.testing.assert_allclose(merged.last_coef_, model.last_coef_, rtol=1e-9, atol=1e-12)
