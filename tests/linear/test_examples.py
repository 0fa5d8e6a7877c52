"""Visiting orders."""

import numpy as np
import pytest

from osvm.linear.examples import full, windowed


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
    """The places of a block are spread over its window: no run of neighbours."""
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
