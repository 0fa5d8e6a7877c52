"""Digits drawn with a soft pen, for sequences that need images of handwriting.

A digit is a list of strokes; each image takes points along them, moves them by
a random linear map, shift and wobble, and inks the pixels near them.
"""

from __future__ import annotations

import numpy as np

# Strokes of the ten digits in the unit square, y downwards.
_STROKES: dict[int, list[list[tuple[float, float]]]] = {
    0: [
        [(0.5, 0.1), (0.75, 0.25), (0.75, 0.75), (0.5, 0.9)],
        [(0.5, 0.9), (0.25, 0.75), (0.25, 0.25), (0.5, 0.1)],
    ],
    1: [[(0.35, 0.25), (0.52, 0.1), (0.52, 0.9)]],
    2: [[(0.25, 0.28), (0.5, 0.1), (0.74, 0.3), (0.25, 0.9), (0.78, 0.9)]],
    3: [[(0.27, 0.15), (0.7, 0.18), (0.48, 0.46), (0.74, 0.68), (0.5, 0.9), (0.25, 0.8)]],
    4: [[(0.62, 0.9), (0.62, 0.1), (0.24, 0.62), (0.8, 0.62)]],
    5: [
        [(0.72, 0.1), (0.32, 0.1), (0.3, 0.45), (0.66, 0.46)],
        [(0.66, 0.46), (0.72, 0.72), (0.5, 0.9), (0.26, 0.82)],
    ],
    6: [
        [(0.66, 0.1), (0.36, 0.4), (0.28, 0.72), (0.5, 0.9), (0.7, 0.7), (0.5, 0.53), (0.3, 0.66)]
    ],
    7: [[(0.24, 0.1), (0.76, 0.1), (0.42, 0.9)]],
    8: [
        [(0.5, 0.1), (0.7, 0.28), (0.5, 0.47), (0.3, 0.28), (0.5, 0.1)],
        [(0.5, 0.47), (0.74, 0.7), (0.5, 0.9), (0.26, 0.7), (0.5, 0.47)],
    ],
    9: [[(0.7, 0.32), (0.5, 0.48), (0.3, 0.3), (0.5, 0.1), (0.7, 0.3), (0.62, 0.65), (0.44, 0.9)]],
}


def _stroke_points(digit: int, n_points: int = 28) -> np.ndarray:
    """Points along a digit's strokes, evenly spaced."""
    starts, ends = [], []
    for stroke in _STROKES[digit]:
        starts += stroke[:-1]
        ends += stroke[1:]
    a, b = np.array(starts), np.array(ends)
    reach = np.concatenate([[0.0], np.cumsum(np.linalg.norm(b - a, axis=1))])
    where = np.linspace(0, reach[-1], n_points)
    k = np.clip(np.searchsorted(reach, where, side="right") - 1, 0, len(a) - 1)
    along = (where - reach[k]) / (reach[k + 1] - reach[k])
    return a[k] + along[:, None] * (b - a)[k]


def draw_digits(
    digits: np.ndarray, side: int, distortion: float, rng: np.random.Generator
) -> np.ndarray:
    """One image per entry of `digits`, flattened, float32 in [-1, 1]."""
    n = digits.size
    points = np.stack([_stroke_points(d) for d in range(10)])[digits] - 0.5
    matrix = np.eye(2) + distortion * 0.12 * rng.normal(size=(n, 2, 2))
    points = points @ matrix + 0.5 + distortion * 0.03 * rng.normal(size=(n, 1, 2))
    points += distortion * 0.015 * rng.normal(size=points.shape)
    width = 0.055 * np.exp(0.2 * distortion * rng.normal(size=(n, 1, 1)))
    pixels = (np.arange(side) + 0.5) / side
    X = np.empty((n, side * side), np.float32)
    for start in range(0, n, 500):
        rows = slice(start, start + 500)
        # exp(-(dx^2 + dy^2)) is a product, so each axis needs its own table only.
        fade_x = np.exp(-(((points[rows, :, :1] - pixels) / width[rows]) ** 2))
        fade_y = np.exp(-(((points[rows, :, 1:] - pixels) / width[rows]) ** 2))
        ink = np.einsum("npi,npj->nij", fade_y, fade_x)
        X[rows] = (2 * np.minimum(1, ink) - 1).reshape(len(ink), -1)
    return X
