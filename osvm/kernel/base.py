"""What the kernel estimators share: solvers, machines, fitted attributes, state.

A *solver* learns, a *machine* is what it has learnt.  The estimators check data and labels,
hand a `Batch` to the solver that `solver` names, and read scores off the machine.  There are
two kinds of each, with the same methods: `BufferSolver` and `BufferMachine` for streams,
`CachedLearner` and `CachedMachine` for a fixed training set.

Invariants
- a solver raises before it changes anything, or restores what it has changed;
- support vectors come oldest first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from osvm import kernels
from osvm._estimator.base import LabelIndex, OnlineEstimator, RunningBalance, check_choice
from osvm._input.schema import Field
from osvm.kernel.batch import Batch
from osvm.kernel.buffer.machine import BufferMachine, copy_machine
from osvm.kernel.buffer.solver import BufferSolver
from osvm.kernel.cached.learner import CachedLearner, CachedMachine
from osvm.kernel.cached.solvers import CachedSolver
from osvm.kernel.options import refuse_foreign

__all__ = ["KernelEstimator", "streaming"]

Array = npt.NDArray[Any]


class streaming:
    """A method that exists only while the estimator's solver learns streams."""

    def __init__(self, method: Any) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self.method
        name = getattr(model.solver, "name", model.solver)
        known = isinstance(name, str) and name in model._solvers and name != "buffer"
        if known or isinstance(model.solver, CachedSolver):
            raise AttributeError(
                f"{self.name}: solver {name!r} learns a fixed training set; use fit, or "
                "solver='buffer' for a stream"
            )
        return self.method.__get__(model, owner)


class KernelEstimator(OnlineEstimator):
    """Base of KernelClassifier, KernelRegressor and KernelNovelty."""

    _task: str
    _solvers: dict[str, BufferSolver | CachedLearner]
    _machine: Any  # a BufferMachine or a CachedMachine, once fitted

    # ------------------------------------------------------------------- parts

    def _solver(self) -> BufferSolver | CachedLearner:
        solver = self.__dict__.get("solver", "buffer")
        if isinstance(solver, CachedSolver) and self._task == "classify":
            return CachedLearner(solver)
        if not isinstance(solver, str) or solver not in self._solvers:
            check_choice("solver", solver, self._solvers)  # raises
        return self._solvers[solver]

    def _kernel_part(self) -> kernels.Kernel:
        """The kernel that the parameters name; parameters of other kernels are left out."""
        if not isinstance(self.kernel, str):
            return kernels.get(self.kernel)
        known = kernels.parameters(self.kernel)
        values = {"gamma": self.gamma, "coef0": self.coef0, "degree": self.degree}
        return kernels.get(self.kernel, **{k: v for k, v in values.items() if k in known})

    # ---------------------------------------------------------------- learning

    def _learn(self, X: Any, batch: Batch, *, reset: bool) -> None:
        """Fit, or one more batch; stores what came out.

        The caller keeps other writers out, and readers too unless `reset`: `partial_fit`
        changes the machine where it is.
        """
        solver = self._solver()
        refuse_foreign(self, solver.part if isinstance(solver, CachedLearner) else "buffer")
        known = self.__dict__
        if reset:
            before = known.get("_machine") if self.warm_start else None
            self._check_machine(solver, before)
            if before is not None and before.n_features != batch.source.n_features:
                raise ValueError("warm_start: X has another number of features than the model")
            machine = solver.fit(self, batch, before)
        else:
            assert isinstance(solver, BufferSolver)  # see `streaming`
            self._check_machine(solver, known.get("_machine"))
            machine = solver.partial_fit(self, batch, known.get("_machine"))
        trained_with = getattr(self, "solver", "buffer")
        with self._lock.changing():
            self._machine = machine
            self._trained_with = getattr(trained_with, "name", trained_with)
            if reset or "n_features_in_" not in known:
                self._set_features(X, batch.source)
            self.t_ = int(machine.t)
            if batch.index is not None and batch.index is not known.get("_index"):
                self._set_index(batch.index)
            if reset:
                known.pop("_balance", None)

    def _check_machine(self, solver: BufferSolver | CachedLearner, machine: Any) -> None:
        """Raise where a solver would have to go on from what another kind has learnt."""
        is_cached = isinstance(machine, CachedMachine)
        if machine is not None and is_cached != isinstance(solver, CachedLearner):
            raise ValueError(
                f"the model was trained with solver={self._trained_with!r}, from which "
                "another solver cannot go on: use fit without warm_start"
            )

    def _scores(self, X: Any) -> Array:
        """Raw scores, (n, K); the caller holds the lock."""
        self._check_fitted()
        source, rows = self._check_X(X)
        scores: Array
        if isinstance(self._machine, CachedMachine):
            scores = self._machine.decision_rows(rows)
        else:
            scores = self._machine.decision(source)
        return scores

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
    def support_(self) -> Array:
        """Numbers of the support vectors among the training rows, -1 for merged ones.

        Of a stream, rows count from its beginning.
        """
        with self._lock:
            self._check_fitted()
            return np.array(self._machine.support)

    @property
    def outputs_(self) -> Array:
        """f on the training rows, (K, n), of the last coefficients (cached outputs only)."""
        outputs = self._cached_attribute("outputs")
        if outputs is None:
            raise AttributeError(
                "a single epoch keeps no outputs_: use keep_outputs=True of the solver"
            )
        return np.asarray(outputs)

    @property
    def n_iter_(self) -> int:
        """Epochs made (cached outputs only)."""
        return int(self._cached_attribute("n_iter"))

    @property
    def converged_(self) -> bool:
        """Whether learning ended before the last epoch was over (cached outputs only)."""
        return bool(self._cached_attribute("converged"))

    @property
    def column_stats_(self) -> dict[str, float]:
        """Kernel columns "computed" and found in the cache, "hits" (cached outputs only)."""
        found: dict[str, float] = self._cached_attribute("columns")
        return found

    def _cached_attribute(self, name: str) -> Any:
        with self._lock:
            self._check_fitted()
            if not isinstance(self._machine, CachedMachine):
                raise AttributeError(f"{name} is known to solvers with cached outputs only")
            return getattr(self._machine, name)

    @property
    def history_(self) -> dict[str, Array]:
        """What `record=True` kept, one entry per example."""
        with self._lock:
            self._check_fitted()
            history = getattr(self._machine, "history", None)
            if history is None:
                raise AttributeError("history_ is kept with record=True only")
            out: dict[str, Array] = history()
            return out

    # ------------------------------------------------------------------- state

    def _get_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        scalars = self._get_base_state()
        machine, arrays = self._machine.get_state()
        scalars["machine"] = machine
        scalars["trained_with"] = self._trained_with
        index = self.__dict__.get("_index")
        scalars["labels"] = None if index is None else index.get_state()
        balance = self.__dict__.get("_balance")
        scalars["class_counts"] = None if balance is None else balance.counts.tolist()
        return scalars, arrays

    def _set_state(self, scalars: dict[str, Any], arrays: dict[str, Array]) -> None:
        is_classifier = self._task == "classify"
        fields = {
            "machine": Field("dict"),
            "trained_with": Field("str", choices=tuple(self._solvers)),
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
        name, n_features = scalars["trained_with"], scalars["n_features_in"]
        machine = self._solvers[name].restore(self, n_features, index, scalars["machine"], arrays)
        self._set_base_state(scalars)
        self._machine = machine
        self._trained_with = name
        if index is not None:
            self._set_index(index)
        if balance is not None:
            self._balance = balance

    def __getstate__(self) -> dict[str, Any]:
        # A machine of its own: pickles are written, and copies used, after the lock is free.
        getstate = getattr(super(), "__getstate__", None)
        state = dict(getstate() if getstate is not None else self.__dict__)
        if isinstance(state.get("_machine"), BufferMachine):
            state["_machine"] = copy_machine(state["_machine"])
        return state

    def _set_index(self, index: LabelIndex) -> None:
        self._index = index
        self.classes_ = index.classes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
