"""What the kernel estimators share: the kernel, learning a stream, fitted attributes, state.

`KernelBase` is what all have; `KernelEstimator` is the base of those that learn streams.  They
check data and labels, hand a `Batch` to `BufferSolver`, which learns, and read scores off
the `BufferMachine`, which is what it has learnt.

Invariants
- a solver raises before it changes anything, or restores what it has changed;
- support vectors come oldest first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from osvm import kernels, losses
from osvm._estimator.base import OnlineEstimator
from osvm._estimator.one_example import OneExample
from osvm._input import validate
from osvm._input.labels import LabelIndex, RunningBalance
from osvm._input.parameters import check_bool
from osvm._input.schema import Field
from osvm._input.types import Array
from osvm.kernel.batch import Batch
from osvm.kernel.buffer.machine import BufferMachine, copy_machine
from osvm.kernel.buffer.measures import step_unit
from osvm.kernel.buffer.solver import BufferSolver


class KernelBase(OnlineEstimator):
    """Base of all estimators with a kernel."""

    _chooses_gamma = False  # whether gamma may be None

    def _kernel_part(self) -> kernels.Kernel:
        """The kernel that the parameters name; parameters of other kernels are checked only."""
        gamma = "scale" if self.gamma is None and self._chooses_gamma else self.gamma
        values = {"gamma": gamma, "coef0": self.coef0, "degree": self.degree}
        kernels.Polynomial(**values)  # has them all, and raises
        if not isinstance(self.kernel, str):
            return kernels.get(self.kernel)
        known = kernels.parameters(self.kernel)
        return kernels.get(self.kernel, **{k: v for k, v in values.items() if k in known})

    def _set_index(self, index: LabelIndex) -> None:
        self._index = index
        self.classes_ = index.classes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


class KernelEstimator(OneExample, KernelBase):
    """Base of KernelClassifier, KernelRegressor and KernelNovelty."""

    _task: str
    _solver = BufferSolver()
    _machine: BufferMachine  # once fitted

    # ---------------------------------------------------------------- learning

    def _learn(self, X: Any, batch: Batch, *, reset: bool) -> None:
        """Fit, or one more batch; stores what came out.

        The caller keeps other writers out, and readers too unless `reset`: `partial_fit`
        changes the machine where it is.
        """
        known = self.__dict__
        if reset:
            warm = check_bool("warm_start", self.warm_start)
            before = known.get("_machine") if warm else None
            if before is not None and before.n_features != batch.source.n_features:
                raise ValueError("warm_start: X has another number of features than the model")
            machine = self._solver.fit(self, batch, before)
        else:
            machine = self._solver.partial_fit(self, batch, known.get("_machine"))
        with self._lock.holding():
            self._machine = machine
            self.n_iter_ = int(self.epochs) if reset else 1
            if reset or "n_features_in_" not in known:
                self._set_features(X, batch.source)
            self.t_ = int(machine.t)
            if batch.index is not None and batch.index is not known.get("_index"):
                self._set_index(batch.index)
            if reset:
                known.pop("_balance", None)

    def _scores(self, X: Any) -> Array:
        """Raw scores, (n, K); the caller holds the lock."""
        self._check_fitted()
        source, _ = self._check_X(X)
        return validate.check_scores(self._machine.decision(source))

    # -------------------------------------------------------------- attributes

    @property
    def support_vectors_(self) -> Any:
        """The rows in the expansion, oldest first; CSR when the model was fitted on CSR."""
        with self._lock:
            self._check_fitted()
            return self._machine.support_vectors()

    @property
    def dual_coef_(self) -> Array:
        """Their coefficients, (K, n_support); one row for two classes."""
        with self._lock:
            self._check_fitted()
            return np.ascontiguousarray(self._machine.alpha().T)

    @property
    def n_support_(self) -> int:
        """The number of rows in the expansion."""
        with self._lock:
            self._check_fitted()
            return int(self._machine.n_support)

    @property
    def intercept_(self) -> Array:
        """The offset, one entry per output."""
        with self._lock:
            self._check_fitted()
            return np.array(self._machine.intercept)

    @property
    def kernel_(self) -> kernels.Kernel:
        """The kernel of the expansion, with numbers for its parameters."""
        with self._lock:
            self._check_fitted()
            return self._machine.kernel

    @property
    def gamma_(self) -> float:
        """The kernel's gamma, as given, read off the data or chosen."""
        with self._lock:
            self._check_fitted()
            return float(self._machine.kernel.gamma)  # type: ignore[attr-defined]

    @property
    def reg_(self) -> float:
        """The regularizer, as given or chosen, for targets of standard deviation 1."""
        with self._lock:
            self._check_fitted()
            part = losses.get(getattr(self, "loss", "novelty"))
            return float(self._machine.reg) * step_unit(part, self._machine.unit)

    @property
    def support_(self) -> Array:
        """Numbers of the support vectors among the training rows, -1 for merged ones.

        Of a stream, rows count from its beginning.
        """
        with self._lock:
            self._check_fitted()
            return np.array(self._machine.support)

    @property
    def history_(self) -> dict[str, Array]:
        """What `record=True` kept, one entry per example."""
        with self._lock:
            self._check_fitted()
            return self._machine.history()

    # ------------------------------------------------------------------- state

    def _get_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        scalars = self._get_base_state()
        machine, arrays = self._machine.get_state()
        scalars["machine"] = machine
        scalars["n_iter"] = self.n_iter_
        index = self.__dict__.get("_index")
        scalars["labels"] = None if index is None else index.get_state()
        balance = self.__dict__.get("_balance")
        scalars["class_counts"] = None if balance is None else balance.counts.tolist()
        return scalars, arrays

    def _set_state(self, scalars: dict[str, Any], arrays: dict[str, Array]) -> None:
        is_classifier = self._task == "classify"
        fields = {
            "machine": Field("dict"),
            "n_iter": Field("int", 1, 2**62),
            "labels": Field("dict" if is_classifier else "nothing", none=not is_classifier),
            "class_counts": Field("list" if is_classifier else "nothing", none=True),
        }
        self._check_scalars(scalars, fields)
        index, balance = None, None
        if scalars["labels"] is not None:
            index = LabelIndex.from_state(scalars["labels"])
        if scalars["class_counts"] is not None:
            assert index is not None
            balance = RunningBalance.from_state(scalars["class_counts"], len(index))
        machine = self._solver.restore(
            self, scalars["n_features_in"], index, scalars["machine"], arrays
        )
        self._set_base_state(scalars)
        self._machine = machine
        self.n_iter_ = int(scalars["n_iter"])
        if index is not None:
            self._set_index(index)
        if balance is not None:
            self._balance = balance

    def __getstate__(self) -> dict[str, Any]:
        # A machine of its own: pickles are written, and copies used, after the lock is free.
        state = super().__getstate__()
        if isinstance(state.get("_machine"), BufferMachine):
            state["_machine"] = copy_machine(state["_machine"])
        return state
