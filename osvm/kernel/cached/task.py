"""What a learner with cached outputs is given, and what it gives back.

`Task` and `Fit` travel between `osvm.kernel.cached.learner` (estimators) and
`osvm.kernel.cached.solvers`; neither knows a label's name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osvm.kernel.cached.columns import Columns, join_columns
from osvm.kernels import Kernel, Linear

Array = NDArray[np.float64]
FEW_ROWS = 2048
LOST = 2.0**-22  # of a squared norm, in float32


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
    C, tol, cache_size : as the estimators have them
    max_iter : int
        Passes over the rows at most; -1 for as many as the solver needs.
    rng : Generator
        For solvers that shuffle.
    weights : (n,) array or None
        Factor of each row's C.
    progress : Progress or None
        Updated after each pass (sequential solvers).
    precise : bool, optional
        Whether kernel values need float64; `needs_float64` of the task unless given.
    halves : pair of Columns, optional
        Of the first rows and of the others, which serve other tasks too; X is None then.
    """

    X: Any
    Y: Array
    kernel: Kernel
    C: float = 1.0
    max_iter: int = -1
    tol: float = 1e-3
    cache_size: float = 200.0
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    weights: Array | None = None
    progress: Any = None
    precise: bool | None = None
    halves: tuple[Columns, Columns] | None = None

    def __post_init__(self) -> None:
        if self.precise is None:
            self.precise = self.tol < 1e-4 or needs_float64(self.kernel, self.X, self.tol)

    @property
    def n(self) -> int:
        return int(self.Y.shape[1])

    def order(self, shuffle: bool) -> NDArray[np.intp]:
        """Rows of the next pass."""
        if not shuffle:
            return np.arange(self.n, dtype=np.intp)
        return self.rng.permutation(self.n).astype(np.intp, copy=False)

    def column_type(self, dtype: str | None, few: int = FEW_ROWS) -> str:
        """The type asked for, or float64 for up to `few` rows and where float32 is not enough.

        Columns of float32 end at violations of about 1e-5.
        """
        if dtype is None:
            dtype = "float64" if self.n <= few or self.precise else "float32"
        return dtype

    def columns(self, dtype: str | None, **options: Any) -> Columns:
        """Columns of the kernel matrix of X, in a cache of `cache_size` MB."""
        if self.halves is not None:
            return join_columns(*self.halves, cache_mb=self.cache_size)
        dtype = self.column_type(dtype)
        return Columns(self.X, self.kernel, dtype=dtype, cache_mb=self.cache_size, **options)

    def part(
        self, rows: NDArray[np.intp], Y: Array, halves: tuple[Columns, Columns] | None = None
    ) -> Task:
        """The same of some rows, with their own outputs; `halves` leave it half of the cache."""
        weights = None if self.weights is None else self.weights[rows]
        same = replace(self, Y=Y, weights=weights, progress=None)
        if halves is not None:
            return replace(same, X=None, halves=halves, cache_size=self.cache_size / 2)
        X = self.X[rows]
        if self.kernel.name == "precomputed":
            X = X[:, rows]
        return replace(same, X=X)

    def upper(self) -> Array:
        """Largest coefficient of each row."""
        if self.weights is None:
            return np.full(self.n, float(self.C))
        return self.C * self.weights

    def result(self, alpha: Array, b: Array, **what: Any) -> Fit:
        """What `solve` returns; further fields of `Fit` as keywords."""
        return Fit(alpha, b, **{"t": self.n, **what})


def needs_float64(kernel: Kernel, X: Any, tol: float) -> bool:
    """Do float32 products of these rows lose more than a tenth of `tol` to cancellation?

    So they do where rows are far from the origin and near each other.
    """
    if kernel.name not in ("linear", "rbf", "poly", "sigmoid") or X.shape[0] == 0:
        return False
    squares = Linear().diagonal(X)
    gamma = getattr(kernel, "gamma", None)
    if gamma is None:
        mean = np.asarray(X.mean(axis=0), np.float64).ravel()
        spread = float(squares.mean() - mean @ mean)
        gamma = 1.0 / spread if spread > 0 else np.inf
    return bool(gamma * squares.max() * LOST > 0.1 * tol)


@dataclass
class Fit:
    """What was learnt: f_q(x) = sum_i alpha[q, i] k(x_i, x) + b[q]."""

    alpha: Array
    b: Array
    t: int  # examples seen
    outputs: Array | None = None  # of the last coefficients on the training rows, where kept
    n_iter: int | Array = 1  # passes made, by all outputs or by each
    converged: bool | None = None  # None for solvers that make passes, to no tolerance
    history: dict[str, Array] | None = None
    votes: list[Array] | None = None  # per output: row, what was added, steps survived
    voted_bias: bool = False  # do votes move the offset too?
    columns: dict[str, float] = field(default_factory=dict)  # of the cache: computed, hits
