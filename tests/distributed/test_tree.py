"""The fold has the shape of its tree, whatever becomes of the tasks."""

import pytest
from fake_engine import Unreliable

from osvm.distributed.tree import FAN_IN, InProcess, children, levels


def leaf(number, block, shared):
    return f"{shared}{block}"


def fold(parts, shared):
    return f"({' '.join(parts)})"


def nested(parts):
    """The tree written out."""
    while len(parts) > 1:
        parts = [f"({' '.join(parts[k : k + FAN_IN])})" for k in range(0, len(parts), FAN_IN)]
    return parts[0]


@pytest.mark.parametrize("n", [1, 2, 4, 5, 16, 17, 33])
def test_every_engine_folds_the_same_tree(n):
    blocks = list(range(n))
    expected = nested([f"b{k}" for k in blocks])
    assert InProcess().reduce(leaf, blocks, fold, "b") == expected
    lost = 0
    for seed in range(20):
        engine = Unreliable(seed)
        assert engine.reduce(leaf, blocks, fold, "b") == expected
        lost += engine.losses
    assert lost > 0


@pytest.mark.parametrize("n", [1, 7, 64, 1000])
def test_children_are_those_below(n):
    widths = levels(n)
    assert widths[0] == n
    assert widths[-1] == 1
    for level in range(1, len(widths)):
        below = [c for k in range(widths[level]) for c in children((level, k), widths)]
        assert below == [(level - 1, k) for k in range(widths[level - 1])]


def test_few_results_wait_in_one_process():
    alive, most = set(), []

    class Kept:
        def __init__(self, size):
            self.size = size
            alive.add(id(self))
            most.append(len(alive))

        def __del__(self):
            alive.discard(id(self))

    engine = InProcess()
    total = engine.reduce(
        lambda k, b, s: Kept(1), range(256), lambda parts, s: Kept(sum(p.size for p in parts)), 0
    )
    assert total.size == 256
    assert max(most) <= 4 * FAN_IN


def test_a_result_that_is_always_lost_is_given_up():
    with pytest.raises(RuntimeError, match="lost 101 times"):
        Unreliable(0, lose=1.0).reduce(leaf, [1, 2], fold, "b")
