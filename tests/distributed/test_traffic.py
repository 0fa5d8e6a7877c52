"""Bytes that rounds move, and what the driver holds: counted on an engine of this process."""

import pytest

rounds = pytest.importorskip("asv_bench.rounds")


@pytest.mark.parametrize("workers", [4, 16])
def test_bytes_moved_per_round(workers):
    """At most two models a worker: one goes out, one comes back."""
    moved = rounds.moved_per_round(workers, columns=5000, rounds=3)
    assert len(moved) == 3
    assert max(moved) < 2.2
    assert moved[1] > 1.9  # both directions are counted


def test_bytes_moved_by_a_gradient_round():
    """The same; the first brings the squares of the columns besides."""
    moved = rounds.moved_per_round(4, columns=5000, rounds=5, tol=1e-12)
    assert max(moved[2:]) < 2.2
    assert min(moved[1:]) > 1.7
    assert moved[1] < 3.2


def test_driver_memory_is_flat_in_the_blocks():
    (size, few), (_, many) = (rounds.driver_memory(n, 300_000) for n in (4, 64))
    assert few > size > 1_000_000
    assert 0.8 * few < many < 1.2 * few


def test_a_simulated_round_grows_with_its_rows_and_its_model():
    constants = {"learn": 1e-7, "parse": 1e-6, "merge": 1e-8, "pack": 1e-8}
    small = rounds.simulate(1e8, 100, 10_000, constants)
    assert 1.1 < small["round"] < 1.6
    assert rounds.simulate(2e8, 100, 10_000, constants)["round"] > 1.9 * small["learn"]
    assert rounds.simulate(1e8, 100, 10**8, constants)["fold"] > 100 * small["fold"]
