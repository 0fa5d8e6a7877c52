"""Reading the arguments that all generators share."""

from __future__ import annotations

from typing import Any

import numpy as np


def seed(random_state: int | np.random.Generator | None) -> int:
    """An integer that names the whole data set."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    seed = int(random_state)
    if seed < 0:
        raise ValueError(f"random_state must not be negative, got {random_state}")
    return seed


def generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(random_state)


def positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")


def float_type(dtype: Any) -> Any:
    kind = np.dtype(dtype)
    if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype must be float32 or float64, got {kind}")
    return kind.type
