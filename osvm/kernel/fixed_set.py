"""What the estimators over a fixed training set share: `SVC`, `SVR` and `OneClassSVM`.

They are named, and behave, as those of scikit-learn; the problem is LIBSVM's, and the solver
keeps the outputs of all training rows (`osvm.solvers`).

Invariants
- an estimator stores what it has learnt after everything has succeeded;
- support vectors come class by class, in the order of the training rows within a class.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from osvm import kernels
from osvm._estimator.compat import convergence_warning
from osvm._estimator.progress import make_progress
from osvm._input import validate
from osvm._input.parameters import check_integer, check_number, make_generator
from osvm._input.schema import Field, check_list
from osvm._input.types import Array
from osvm.kernel.base import KernelBase
from osvm.kernel.cached.machine import LARGEST, CachedMachine, check_sizes, restore_machine
from osvm.kernel.cached.pairs import pair_sums
from osvm.kernel.cached.task import Fit, Task

LARGEST_C = 1e30  # stands for infinity


class FixedSetEstimator(KernelBase):
    """Base of SVC, SVR and OneClassSVM."""

    _machine: CachedMachine

    # ---------------------------------------------------------------- learning

    def _make_task(self, rows: Any, Y: Array, weights: Array | None, C: float) -> Task:
        """The parameters, checked, with the rows."""
        kernel = self._kernel_part()
        if kernel.name not in ("precomputed", "python"):
            check_sizes(kernels.Linear(), rows, np.float32)  # before gamma="scale"
        kernel = kernel.resolve(rows)
        check_sizes(kernel, rows, np.float32, seen=True)  # columns may be kept in float32
        if kernel.name == "precomputed":
            if rows.shape[0] != rows.shape[1]:
                raise ValueError(
                    "Precomputed metric requires shape (n_queries, n_indexed). Got "
                    f"{rows.shape}: fit needs a square matrix."
                )
            rows = kernel(rows)
        return Task(
            rows,
            Y,
            kernel,
            C=C,
            max_iter=check_max_iter(self.max_iter),
            tol=check_number("tol", self.tol, 0, low_open=True),
            cache_size=check_number("cache_size", self.cache_size, 0, low_open=True),
            rng=self._make_rng(),
            weights=weights,
            progress=make_progress(self.verbose),
        )

    def _make_rng(self) -> np.random.Generator:
        """The generator; without a seed always the same, so that a fit can be repeated."""
        seed = getattr(self, "random_state", None)
        return make_generator(0 if seed is None else seed)

    def _check_fit(self, fit: Fit, task: Task) -> None:
        """Raise for coefficients that overflowed; warn short of the tolerance."""
        if task.progress is not None:
            task.progress.finish()
        # NaN propagates through numpy's maxima and is no smaller than anything
        largest = np.maximum(np.abs(fit.alpha).max(initial=0.0), np.abs(fit.b).max())
        if not largest < LARGEST:
            raise ValueError("the coefficients overflowed; use a smaller C, or scale the data")
        if fit.converged is False:
            warnings.warn(
                f"Solver terminated early (max_iter={self.max_iter}).  Consider pre-processing "
                "your data with StandardScaler or MinMaxScaler.  It stopped short of "
                f"tol={task.tol:g}, after {int(np.max(fit.n_iter))} passes over the rows: raise "
                "max_iter or tol, or lower C.",
                convergence_warning(),
                stacklevel=4,
            )

    @staticmethod
    def _check_weights(weights: Array | None, codes: Array | None = None) -> None:
        """Raise unless some rows weigh something, and those of two classes (`codes`)."""
        if weights is None:
            return
        if not weights.any():
            raise ValueError("Invalid input - all samples have zero or negative weights.")
        if codes is not None and len(np.unique(codes[weights > 0])) < 2:
            raise ValueError(
                "Invalid input - all samples with positive weights belong to the same class."
            )

    def _penalty(self) -> float:
        """C, where infinity is a large number."""
        if isinstance(self.C, float) and np.inf == self.C:
            return LARGEST_C
        return min(LARGEST_C, float(check_number("C", self.C, 0, low_open=True)))

    def _store(self, X: Any, source: Any, machine: CachedMachine, n_support: Array) -> None:
        """Keep what was learnt; the caller holds the lock for changing."""
        self._machine = machine
        self._n_support = np.asarray(n_support, np.int32)
        self._set_features(X, source)
        self.t_ = int(machine.t)
        self.shape_fit_ = (source.n_rows, source.n_features)
        self.fit_status_ = int(machine.converged is False)

    def _scores(self, X: Any) -> Array:
        """Raw scores, (n, K); the caller holds the lock."""
        self._check_fitted()
        _, rows = self._check_X(X)
        return validate.check_scores(self._machine.decision_rows(rows))

    # -------------------------------------------------------------- attributes

    def _fitted(self) -> CachedMachine:
        with self._lock:
            self._check_fitted()
            return self._machine

    @property
    def support_(self) -> Array:
        """Numbers of the support vectors among the training rows."""
        return self._fitted().support.astype(np.int32)

    @property
    def support_vectors_(self) -> Any:
        """Those rows; empty with a precomputed kernel, CSR when fitted on CSR."""
        return self._fitted().vectors

    @property
    def n_support_(self) -> Array:
        """Support vectors of each class, or in all."""
        self._fitted()
        return self._n_support.copy()

    @property
    def dual_coef_(self) -> Array:
        """Their signed coefficients, (n_outputs, n_SV): one output for two classes."""
        return self._fitted().dual.copy()

    @property
    def intercept_(self) -> Array:
        """The offset of each output."""
        return self._fitted().intercept.copy()

    @property
    def coef_(self) -> Any:
        """Weights of the features, (n_outputs, n_features); `kernel="linear"` only."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        machine = self._fitted()
        dual = machine.dual
        if machine.groups is not None:
            dual = pair_sums(np.eye(machine.n_support), dual, machine.groups).T
        if hasattr(machine.vectors, "indptr"):
            coef = type(machine.vectors)(dual) @ machine.vectors
            coef.data.flags.writeable = False
        else:
            coef = dual @ machine.vectors
            coef.flags.writeable = False  # what is set here would be lost
        return coef

    @property
    def n_iter_(self) -> Any:
        """Passes over the rows that each output took."""
        return self._fitted().n_iter.copy()

    @property
    def outputs_(self) -> Array:
        """f on the training rows, (n_outputs, n), of the last coefficients."""
        outputs = self._fitted().outputs
        if outputs is None:
            raise AttributeError(
                "outputs_ are not kept for pairs of classes, for a set much larger than the "
                "cache, nor by a single pass (keep_outputs=True of the solver keeps them)"
            )
        return np.asarray(outputs)

    @property
    def column_stats_(self) -> dict[str, float]:
        """Kernel columns "computed" and found in the cache, "hits"."""
        return self._fitted().columns

    # ------------------------------------------------------------------- state

    def _get_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        scalars = self._get_base_state()
        scalars["machine"], arrays = self._machine.get_state()
        scalars["n_support"] = self._n_support.tolist()
        scalars["n_rows"] = self.shape_fit_[0]
        return scalars, arrays

    def _restore_machine(
        self, scalars: dict[str, Any], arrays: dict[str, Array], n_outputs: int, n_groups: int
    ) -> CachedMachine:
        """Check and make the machine of a saved state."""
        machine = restore_machine(scalars["n_features_in"], scalars["machine"], arrays)
        if machine.n_outputs != n_outputs:
            raise ValueError(f"{machine.n_outputs} outputs, where there should be {n_outputs}")
        check_list("n_support", scalars["n_support"], Field("int", 0, 2**31 - 1),
                   most=n_groups, least=n_groups)  # fmt: skip
        if sum(scalars["n_support"]) != machine.n_support:
            raise ValueError("the saved n_support does not sum to the number of vectors")
        return machine

    def _set_restored(self, scalars: dict[str, Any], machine: CachedMachine) -> None:
        self._set_base_state(scalars)
        self._machine = machine
        self._n_support = np.array(scalars["n_support"], np.int32)
        self.shape_fit_ = (int(scalars["n_rows"]), int(scalars["n_features_in"]))
        self.fit_status_ = int(machine.converged is False)


STATE = {
    "machine": Field("dict"),
    "n_support": Field("list"),
    "n_rows": Field("int", 0, 2**48),
}


def check_max_iter(value: Any) -> int:
    """Passes at most; -1 is no limit."""
    if check_integer("max_iter", value, -1) == 0:
        raise ValueError("max_iter must be -1 (no limit) or at least 1, got 0")
    return int(value)
