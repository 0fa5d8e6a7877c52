"""Kernels k(x, z) on dense and sparse rows.

Values come from `osvm._parts.compiled`, as in every kernel machine, with the
arithmetic of `osvm/core/kernel.pxd`.

Invariants

- A kernel is a frozen dataclass; `gamma` may be "scale" or "auto" until `resolve(X)` has
  made it a number, as in scikit-learn.
- Calling a kernel returns the (n, m) matrix of its values, float32 when both arguments
  are, else float64.

To add a kernel, see the documentation's page on extending.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from osvm._input.convert import check_csr, to_csr
from osvm._parts.compiled import FixedRows, KernelSpec
from osvm._parts.registry import Part, Registry, check_number

__all__ = [
    "RBF",
    "Cosine",
    "Kernel",
    "Linear",
    "Polynomial",
    "Precomputed",
    "PythonKernel",
    "Sigmoid",
    "from_config",
    "get",
    "names",
    "parameters",
]


@dataclass(frozen=True)
class Kernel(Part):
    """A similarity of two rows."""

    kind: ClassVar[int]

    def resolve(self, X: Any) -> Kernel:
        """The kernel with `gamma` as a number: "scale" and "auto" are read off X."""
        gamma = getattr(self, "gamma", 1.0)
        if not isinstance(gamma, str):
            return self
        return dataclasses.replace(self, gamma=_find_gamma(gamma, X))  # type: ignore[call-arg]

    def spec(self, n_features: int = 0) -> KernelSpec:
        """The compiled form; needs a numeric gamma."""
        params = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        if isinstance(params.get("gamma"), str):
            raise ValueError(
                f"{self.name}: gamma is still {params['gamma']!r}; call resolve(X) first"
            )
        return KernelSpec(self.kind, n_features=n_features, **params)

    def __call__(self, X: Any, Z: Any = None) -> NDArray[Any]:
        """The matrix of k(x, z) over the rows of X and of Z (of X twice without Z)."""
        X = _rows(X)
        alone, Z = Z is None, X if Z is None else _rows(Z)
        if X.shape[1] != Z.shape[1]:
            raise ValueError(f"X has {X.shape[1]} features but Z has {Z.shape[1]}")
        narrow = X.dtype == np.float32 and Z.dtype == np.float32
        rows = FixedRows(
            self.resolve(X).spec(),
            Z,
            np.float32 if narrow else np.float64,
            sparse=hasattr(X, "indptr") or hasattr(Z, "indptr"),
            near=not narrow,  # in float32 it would cut values below 1e-29
        )
        return rows.against(None if alone else X)

    value = __call__

    def diagonal(self, X: Any) -> NDArray[np.float64]:
        """k(x, x) of each row, in float64."""
        X = _rows(X)
        return FixedRows(self.resolve(X).spec(), X, X.dtype).diagonal


@dataclass(frozen=True)
class Linear(Kernel):
    """x.z"""

    name: ClassVar[str] = "linear"
    kind: ClassVar[int] = 0


@dataclass(frozen=True)
class RBF(Kernel):
    """exp(-gamma ||x - z||^2); gamma = 1/(2 sigma^2).

    Parameters
    ----------
    gamma : float, "scale" or "auto", default "scale"
        "scale" is 1 / (n_features var(X)), "auto" 1 / n_features.

    Examples
    --------
    >>> from osvm.kernels import RBF
    >>> RBF(gamma=0.5)([[0.0], [1.0]]).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    name: ClassVar[str] = "rbf"
    kind: ClassVar[int] = 1
    gamma: float | str = "scale"

    def __post_init__(self) -> None:
        _check_gamma(self.name, self.gamma)


@dataclass(frozen=True)
class Polynomial(Kernel):
    """(gamma x.z + coef0)^degree, with a whole degree of at least 1."""

    name: ClassVar[str] = "polynomial"
    kind: ClassVar[int] = 2
    gamma: float | str = "scale"
    coef0: float = 0.0
    degree: int = 3

    def __post_init__(self) -> None:
        _check_gamma(self.name, self.gamma)
        check_number(self.name, "coef0", self.coef0)
        check_number(self.name, "degree", self.degree, least=1, most=1000)
        if self.degree != int(self.degree):
            raise ValueError(f"polynomial: degree must be a whole number, not {self.degree!r}")


@dataclass(frozen=True)
class Sigmoid(Kernel):
    """tanh(gamma x.z + coef0); not positive semi-definite in general."""

    name: ClassVar[str] = "sigmoid"
    kind: ClassVar[int] = 3
    gamma: float | str = "scale"
    coef0: float = 0.0

    def __post_init__(self) -> None:
        _check_gamma(self.name, self.gamma)
        check_number(self.name, "coef0", self.coef0)


@dataclass(frozen=True)
class Cosine(Kernel):
    """x.z / (||x|| ||z||), 0 where a row is empty."""

    name: ClassVar[str] = "cosine"
    kind: ClassVar[int] = 4


@dataclass(frozen=True)
class Precomputed(Kernel):
    """The rows given are kernel values already: row i holds k(x_i, every training row)."""

    name: ClassVar[str] = "precomputed"
    kind: ClassVar[int] = 6

    def __call__(self, X: Any, Z: Any = None) -> NDArray[Any]:
        if Z is not None:
            raise ValueError("a precomputed kernel takes the matrix alone, without Z")
        X = _rows(X)
        return X.toarray() if hasattr(X, "toarray") else X

    value = __call__

    def diagonal(self, X: Any) -> NDArray[np.float64]:
        return np.diagonal(self(X)).astype(np.float64)


@dataclass(frozen=True)
class PythonKernel(Kernel):
    """Any function of two sets of rows, as scikit-learn takes it.

    Parameters
    ----------
    function : callable
        `function(X, Z)` returns the (n, m) matrix of values.  Inside a compiled loop it
        is called with one row on each side, slowly and under the GIL; sparse rows come
        as CSR arrays.

    Notes
    -----
    It cannot be written to a model file.
    """

    name: ClassVar[str] = "python"
    kind: ClassVar[int] = 5
    function: Callable[[Any, Any], Any]

    def __call__(self, X: Any, Z: Any = None) -> NDArray[Any]:
        X = _rows(X)
        Z = X if Z is None else _rows(Z)
        values = np.asarray(self.function(X, Z))
        if values.shape != (X.shape[0], Z.shape[0]):
            raise ValueError(
                f"the kernel function returned shape {values.shape}, "
                f"expected {(X.shape[0], Z.shape[0])}"
            )
        return values

    value = __call__

    def diagonal(self, X: Any) -> NDArray[np.float64]:
        X = _rows(X)
        rows = (X[i : i + 1] for i in range(X.shape[0]))
        return np.array([np.asarray(self.function(x, x)).item() for x in rows], dtype=float)

    def config(self) -> dict[str, Any]:
        raise TypeError("a kernel written in Python cannot be saved in a model file")


# ------------------------------------------------------------------ helpers


def _rows(X: Any) -> Any:
    """X as a two-dimensional float array, or as checked CSR; float32 stays."""
    if hasattr(X, "tocsr"):
        X = copy(X) if X.format == "csr" else to_csr(X)  # the check may put other arrays into it
        check_csr(X)
        return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    X = np.asarray(X)
    if X.dtype != np.float32:
        X = X.astype(np.float64, copy=False)
    if X.ndim != 2:
        raise ValueError(f"expected a two-dimensional array, got {X.ndim} dimension(s)")
    return np.require(X, requirements="A")


def _canonical(X: Any) -> Any:
    """X without repeated columns; X itself is never changed."""
    from scipy.sparse import csr_array

    view = csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    if not view.has_canonical_format:
        view = view.copy()
        view.sum_duplicates()
    return view


def _check_gamma(owner: str, gamma: Any) -> None:
    if isinstance(gamma, str):
        if gamma not in ("scale", "auto"):
            raise ValueError(f"{owner}: gamma must be a number, 'scale' or 'auto', not {gamma!r}")
    else:
        check_number(owner, "gamma", gamma, above=0.0)


def _find_gamma(rule: str, X: Any) -> float:
    """scikit-learn's rules: "scale" 1/(d var(X)), "auto" 1/d."""
    X = _rows(X)
    n, d = X.shape
    if n == 0 or d == 0:
        raise ValueError("gamma cannot be found from an array without rows or features")
    if rule == "auto":
        return 1.0 / d
    if hasattr(X, "tocsr"):
        data = _canonical(X).data.astype(np.float64, copy=False)
        mean = data.sum() / (n * d)
        with np.errstate(over="ignore", invalid="ignore"):
            variance = data @ data / (n * d) - mean * mean
            if variance < 1e-6 * mean * mean:  # far from the origin: most digits have canceled
                away = data - mean
                variance = (away @ away + (n * d - len(data)) * mean * mean) / (n * d)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            variance = X.var(dtype=np.float64)
    if variance <= 0.0:  # by rounding, too
        return 1.0
    with np.errstate(over="ignore"):
        gamma = float(1.0 / (d * variance))
    if not 0.0 < gamma < np.inf:
        raise ValueError(
            f"gamma='scale' is 1 / (n_features var(X)), and the variance is {variance:g}: scale "
            "the rows, or give gamma as a number"
        )
    return gamma


_REGISTRY: Registry[Kernel] = Registry(
    "kernel", [Linear, RBF, Polynomial, Sigmoid, Cosine, Precomputed]
)
_ALIASES = {"poly": "polynomial"}


def _adopt(kernel: Any) -> Kernel | None:
    return PythonKernel(kernel) if callable(kernel) else None


def get(kernel: Any, **params: Any) -> Kernel:
    """The kernel of that name, the kernel given, or a function as a kernel.

    Examples
    --------
    >>> import osvm.kernels
    >>> osvm.kernels.get("rbf", gamma=0.1)
    RBF(gamma=0.1)
    """
    if isinstance(kernel, str):
        kernel = _ALIASES.get(kernel, kernel)
    return _REGISTRY.get(kernel, params, Kernel, _adopt)


def names() -> list[str]:
    """The names that `get` knows."""
    return _REGISTRY.names()


def parameters(name: str) -> list[str]:
    """The parameters that the kernel of that name takes."""
    return _REGISTRY.parameters(_ALIASES.get(name, name))


def from_config(config: dict[str, Any]) -> Kernel:
    """The kernel that `config()` described."""
    return _REGISTRY.from_config(config)
