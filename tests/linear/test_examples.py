"""Visiting orders."""

import numpy as np
import pytest

from osvm import LinearClassifier, MultilabelClassifier
from osvm.linear.examples import full, windowed
from osvm.linear.training import resolve_shuffle, visiting_order


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 1024, 5000])
@pytest.mark.parametrize("make", [full, windowed])
def test_every_row_is_visited_once(make, n):
    assert np.array_equal(np.sort(make(n, 3)), np.arange(n))


@pytest.mark.parametrize("make", [full, windowed])
def test_a_seed_gives_one_order(make):
    assert np.array_equal(make(500, 7), make(500, 7))
    assert not np.array_equal(make(500, 7), make(500, 8))


def test_windows_hold_sixty_four_blocks():
    order = windowed(64 * 64, 1)
    for start in range(0, 64 * 64, 1024):
        assert len(set(order[start : start + 1024] // 16)) == 64


def test_rows_of_a_block_stay_in_their_order():
    order = windowed(1000, 2)
    place = np.argsort(order)
    inner = np.arange(999)[np.arange(1, 1000) % 16 != 0]
    assert np.all(place[inner + 1] > place[inner])


def test_windows_are_mixed():
    """The places of a block are spread over its window: no run of neighbors."""
    order = windowed(1024, 3)
    assert np.mean(np.diff(order) == 1) < 0.05


def test_full_permutations_are_uniform():
    """Each row at each place equally often: a chi-square test with a loose limit."""
    n, rounds = 8, 4000
    counts = np.zeros((n, n))
    for seed in range(rounds):
        counts[np.arange(n), full(n, seed)] += 1
    chi2 = ((counts - rounds / n) ** 2 / (rounds / n)).sum()
    assert chi2 < 49 + 6 * np.sqrt(2 * 49)


def _with_runs(y, length):
    """An order of the rows in which labels come in runs of about this length."""
    width = length * len(np.unique(y))
    parts = [start + np.argsort(y[start : start + width]) for start in range(0, len(y), width)]
    return np.concatenate(parts)


def _targets(kind, rng):
    if kind == "numbers":
        return rng.normal(size=40_000)
    if kind == "rare":
        return np.where(rng.random(40_000) < 0.02, 1.0, -1.0)
    return rng.integers(0, int(kind), 40_000).astype(np.int32)


@pytest.mark.parametrize("kind", ["2", "20", "rare", "numbers"])
def test_sorted_targets_are_visited_in_a_full_order(kind):
    targets = _targets(kind, np.random.default_rng(0))
    assert resolve_shuffle(True, targets) is True
    assert resolve_shuffle("full", targets) == "full"
    assert resolve_shuffle(False, np.sort(targets)) is False
    assert resolve_shuffle(True, np.sort(targets)) == "full"
    by_date = targets.reshape(-1, 4000)  # each date has its own runs
    assert resolve_shuffle(True, np.sort(by_date, axis=1).ravel()) == "full"
    assert resolve_shuffle(True, np.sort(targets)[:1024]) is True  # one window
    assert resolve_shuffle(True, np.ones(5000)) is True


@pytest.mark.parametrize("run", [16, 64, 1000, 3000, 40_000])
@pytest.mark.parametrize("positives", [0.5, 0.03])
def test_sorted_rows_are_learnt_as_in_a_full_order(run, positives):
    """The excess objective is that of the full order, at most one and a half times."""
    rng = np.random.default_rng(run)
    X = rng.normal(size=(12_000, 20))
    score = X @ rng.normal(size=20) + 0.5 * rng.normal(size=len(X))
    y = (score > np.quantile(score, 1 - positives)).astype(int)
    best = LinearClassifier(reg=1e-3, epochs=60, average=360_000, random_state=0).fit(X, y)
    rows = _with_runs(y, run)
    X, y = X[rows], y[rows]

    def excess(shuffle):
        values = []
        for seed in range(3):
            model = LinearClassifier(reg=1e-3, epochs=3, shuffle=shuffle, random_state=seed)
            values.append(_objective(model.fit(X, y), X, y))
        return np.mean(values) - _objective(best, X, y)

    assert excess(True) <= 1.5 * excess("full")


def _objective(model, X, y):
    margins = np.where(y == 1, 1.0, -1.0) * model.decision_function(X)
    return np.maximum(0.0, 1.0 - margins).mean() + 0.5e-3 * np.square(model.coef_).sum()


def test_sorted_label_sets_are_visited_in_a_full_order(monkeypatch):
    asked = []

    def spy(n_rows, shuffle, rng):
        asked.append(shuffle)
        return visiting_order(n_rows, shuffle, rng)

    monkeypatch.setattr("osvm.linear.label_models.visiting_order", spy)
    rng = np.random.default_rng(0)
    X, label = rng.normal(size=(4000, 3)), rng.integers(0, 4, 4000)
    for y in (label, np.sort(label)):
        sets = [[] if k == 3 else [k, 7] for k in y.tolist()]
        MultilabelClassifier(schedule="bottou", epochs=1, random_state=0).fit(X, sets)
    assert asked == [True, "full"]
