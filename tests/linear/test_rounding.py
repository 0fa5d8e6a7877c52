"""Steep one-vs-rest losses with large steps: what leaves 1e-10 is rounding that the steps amplify.

A step of a quadratic loss multiplies an error along its row by 1 - 2 eta ||x||^2.  Where that is
beyond -1, rounding of 1e-16 grows from example to example in every float64 program.  The
trajectory in 50 digits shows it: the learner is as near to it as the plain float64 loop is, and
rows that differ in the 16th digit move the 50-digit trajectory as far.
"""

from decimal import Decimal, getcontext

import numpy as np
import pytest

import osvm

REG, K, N, D = 0.01, 4, 200, 6


def modified_huber(y, f):
    z = y * f
    if z >= 1:
        return 0 * y
    return -2 * y * (1 - z) if z >= -1 else -4 * y


def squared_hinge(y, f):
    return 0 * y if y * f >= 1 else -2 * y * (1 - y * f)


LOSSES = {"modified_huber": modified_huber, "squared_hinge": squared_hinge}


def descend(X, codes, eta, dloss, number):
    """One-vs-rest, one step an example, in numbers of this type."""
    rows = [[number(float(v)) for v in row] for row in X]
    eta, reg, one = number(eta), number(REG), number(1)
    W = [[0 * one] * D for _ in range(K)]
    for x, code in zip(rows, codes):
        for k in range(K):
            f = sum((w * v for w, v in zip(W[k], x)), 0 * one)
            xi = dloss(one if k == code else -one, f)
            W[k] = [(one - eta * reg) * w - eta * xi * v for w, v in zip(W[k], x)]
    return np.array(W, dtype=object)


def distance(W, V):
    return float(max(abs(Decimal(w) - Decimal(v)) for w, v in zip(W.ravel(), V.ravel())))


@pytest.mark.parametrize(
    ("loss", "eta", "size", "amplified"),
    [
        ("modified_huber", 1.6, 0.3, False),
        ("modified_huber", 1.6, 0.6, True),
        ("modified_huber", 1.6, 1.0, True),
        ("squared_hinge", 1.6, 0.3, False),
        ("squared_hinge", 0.8, 0.6, True),
    ],
)
def test_one_vs_rest_left_its_reference_by_amplified_rounding(loss, eta, size, amplified):
    getcontext().prec = 50
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((N, D)) * size, rng.integers(0, K, N)
    model = osvm.LinearClassifier(
        loss, reg=REG, schedule="constant", eta0=eta, fit_intercept=False
    ).partial_fit(X, y, classes=range(K))
    exact = descend(X, y, eta, LOSSES[loss], Decimal)
    plain = distance(descend(X, y, eta, LOSSES[loss], float), exact)
    ours = distance(np.array(model.coef_.tolist(), dtype=object), exact)
    assert ours < 10 * plain
    nudged = X * (1 + rng.choice([-1, 0, 1], X.shape) * 2.0**-52)
    moved = distance(descend(nudged, y, eta, LOSSES[loss], Decimal), exact)
    if amplified:
        assert plain > 1e-10  # the reference leaves it too
        assert moved > 0.01 * ours
    else:
        assert ours < 1e-13
