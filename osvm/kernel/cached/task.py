"""What a learner with cached outputs is given, and what it gives back.

`Task` and `Fit` travel between `osvm.kernel.cached.learner` (estimators) and
`osvm.kernel.cached.solvers`; neither knows a label's name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osvm.kernel.cached.columns import Columns
from osvm.kernels import Kernel

__all__ = ["Fit", "Task"]

Array = NDArray[np.float64]


@dataclass
class Task:
    """What to learn.

    Parameters
    ----------
    X : ndarray or CSR matrix
        Checked rows.
    Y : (n_outputs, n) array of -1 and +1
    kernel : Kernel
        With a numeric gamma.
    C, bias, epochs, tol, average, cache_mb : as the estimators have them
    rng : Generator or None
        Shuffles the rows afresh each epoch; None keeps their order.
    weights : (n,) array or None
        Factor of each row's loss.
    record : bool
        Keep one entry per example (first output).
    progress : Progress or None
        Told of each epoch (sequential solvers).
    """

    X: Any
    Y: Array
    kernel: Kernel
    C: float = 1.0
    bias: bool = False
    epochs: int = 1
    tol: float | None = None
    average: bool = False
    cache_mb: float = 200.0
    rng: np.random.Generator | None = None
    weights: Array | None = None
    record: bool = False
    progress: Any = None

    @property
    def n(self) -> int:
        return int(self.Y.shape[1])

    def order(self) -> NDArray[np.intp]:
        """Rows of the next epoch."""
        if self.rng is None:
            return np.arange(self.n, dtype=np.intp)
        return self.rng.permutation(self.n).astype(np.intp, copy=False)

    def columns(self, dtype: str, **options: Any) -> Columns:
        """Columns of the kernel matrix of X, in a cache of `cache_mb`."""
        return Columns(self.X, self.kernel, dtype=dtype, cache_mb=self.cache_mb, **options)

    def upper(self) -> Array:
        """Largest coefficient of each row."""
        if self.weights is None:
            return np.full(self.n, float(self.C))
        return self.C * self.weights


@dataclass
class Fit:
    """What was learnt: f_q(x) = sum_i alpha[q, i] k(x_i, x) + b[q]."""

    alpha: Array
    b: Array
    outputs: Array | None  # of the last coefficients on the training rows, where kept
    t: int  # examples seen
    n_iter: int  # epochs made
    converged: bool
    history: dict[str, Array] | None = None
    corrections: list[NDArray[np.intp]] | None = None  # per output: (row, t) of every change
    columns: dict[str, float] = field(default_factory=dict)  # of the cache: computed, hits
