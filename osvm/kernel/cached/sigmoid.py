"""Probabilities from scores: p = 1 / (1 + exp(a f + b)), fitted by Newton's method.

Source: Platt, "Probabilistic outputs for support vector machines" (1999), with the targets,
the damped Newton steps and the stopping rule of Lin, Lin and Weng, "A note on Platt's
probabilistic outputs" (2007), as in LIBSVM.
"""

from __future__ import annotations

import numpy as np

from osvm._input.types import Array


def fit_sigmoid(scores: Array, positive: Array, weights: Array | None = None) -> Array:
    """(a, b) that make the labels likeliest, with targets drawn in from 0 and 1."""
    weights = np.ones(len(scores)) if weights is None else weights
    n_positive = float(weights[positive].sum())
    n_negative = float(weights.sum()) - n_positive
    high, low = (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2)
    target = np.where(positive, high, low)
    point = np.array([0.0, np.log((n_negative + 1) / (n_positive + 1))])

    def loss(point: Array) -> float:
        z = point[0] * scores + point[1]
        return float(weights @ (np.logaddexp(0.0, z) - (1.0 - target) * z))

    value = loss(point)
    for _ in range(100):
        p = apply_sigmoid(scores, point)
        first = weights * (target - p)
        curve = weights * p * (1.0 - p)
        gradient = np.array([first @ scores, first.sum()])
        if np.abs(gradient).max() < 1e-5:
            break
        mixed = curve @ scores
        hessian = np.array([[curve @ scores**2, mixed], [mixed, curve.sum()]])
        direction = -np.linalg.solve(hessian + 1e-12 * np.eye(2), gradient)
        step = 1.0
        while step >= 1e-10:
            trial = point + step * direction
            below = loss(trial)
            if below < value + 1e-4 * step * (gradient @ direction):
                point, value = trial, below
                break
            step /= 2.0
        else:
            break
    return point


def apply_sigmoid(scores: Array, point: Array) -> Array:
    """1 / (1 + exp(a f + b)), without overflow."""
    z = point[0] * scores + point[1]
    small = np.exp(-np.abs(z))
    out: Array = np.where(z >= 0, small, 1.0) / (1.0 + small)
    return out
