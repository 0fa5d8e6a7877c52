"""Every loss, for the tests that walk them: plain formulas, kinks, scores to try."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from osvm import losses, taxonomy


@dataclass
class Case:
    """A scalar loss beside a plain numpy reading of it.

    `kinks` maps (y, f) to the value, xi and rho that the definition gives there.
    """

    loss: Any
    formula: Any
    kinks: dict

    @property
    def labels(self):
        return [0.3, -1.7] if self.loss.task == "regression" else [-1.0, 1.0]


def relu(x):
    return np.maximum(x, 0.0)


# A new scalar loss needs one entry here.
SCALAR = [
    Case(
        losses.Hinge(), lambda y, f: relu(1 - y * f), {(1, 1.0): (0, 0, 0), (-1, -1.0): (0, 0, 0)}
    ),
    Case(losses.SquaredHinge(), lambda y, f: relu(1 - y * f) ** 2, {(1, 1.0): (0, 0, 0)}),
    Case(
        losses.Perceptron(),
        lambda y, f: relu(-y * f),
        {(1, 0.0): (0, -1, 0), (-1, 0.0): (0, 1, 0)},
    ),
    Case(losses.Logistic(), lambda y, f: np.log1p(np.exp(-y * f)), {}),
    Case(
        losses.ModifiedHuber(),
        lambda y, f: np.where(y * f >= -1, relu(1 - y * f) ** 2, -4 * y * f),
        {(1, 1.0): (0, 0, 0), (1, -1.0): (4, -4, 2), (-1, 1.0): (4, 4, 2)},
    ),
    Case(losses.Novelty(), lambda y, f: relu(1 - f), {(1, 1.0): (0, 0, 0), (-1, 1.0): (0, 0, 0)}),
    Case(
        losses.EpsilonInsensitive(epsilon=0.25),
        lambda y, f: relu(np.abs(f - y) - 0.25),
        {(1, 1.25): (0, 0, 0), (1, 0.75): (0, 0, 0), (1, 1.0): (0, 0, 0)},
    ),
    Case(
        losses.EpsilonInsensitive(epsilon=0.0),
        lambda y, f: np.abs(f - y),
        {(1, 1.0): (0, 0, 0), (0, 0.5): (0.5, 1, 0)},
    ),
    Case(
        losses.Huber(delta=0.5),
        lambda y, f: np.where(np.abs(f - y) <= 0.5, (f - y) ** 2 / 2, 0.5 * np.abs(f - y) - 0.125),
        {(0, 0.5): (0.125, 0.5, 1), (0, -0.5): (0.125, -0.5, 1)},
    ),
    Case(losses.Squared(), lambda y, f: (f - y) ** 2 / 2, {}),
]
TREE = taxonomy.from_paths(["a/x", "a/y", "b/z", "c"])
# A new multi-output loss needs one entry here.
MULTI = [losses.MulticlassHinge(), losses.GraphHinge(taxonomy=TREE), losses.Softmax()]
ALL = [case.loss for case in SCALAR] + MULTI
BINARY = [case.loss for case in SCALAR if case.loss.task == "binary"]
WITH_MARGIN = [losses.Hinge(), losses.SquaredHinge(), losses.Novelty()]

# No kink of any case lies on or next to these scores.
SCORES = np.linspace(-3.07123, 3.09456, 45)

by_name = pytest.mark.parametrize("case", SCALAR, ids=lambda case: repr(case.loss))
every_loss = pytest.mark.parametrize("loss", ALL, ids=repr)


def same_bits(a, b):
    """Equal including the sign of zero, NaN equal to NaN."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    assert a.shape == b.shape
    np.testing.assert_array_equal(a.view(np.int64), b.view(np.int64))
