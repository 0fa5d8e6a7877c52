"""Classifiers over a fixed training set with cached outputs: solver and machine.

`CachedLearner` is what `KernelClassifier` calls: it turns the estimator's parameters into a
`Task`, lets one of `osvm.solvers` solve it, and returns a `CachedMachine`, the support vectors
with their coefficients.

Invariants
- nothing is stored on the estimator: it stores the machine after everything has succeeded;
- two classes have one output (the second class is +1), more have one each, and all outputs
  share kernel columns;
- `osvm.kernel.options` has refused options that the solver does not read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from osvm import kernels
from osvm._estimator.progress import make_progress
from osvm._input.labels import split_outputs
from osvm._input.parameters import check_bool, check_integer, check_number, make_generator
from osvm.kernel.cached import solvers

__all__ = ["CachedLearner", "CachedMachine"]

Array = NDArray[Any]
CHUNK = 1 << 22  # kernel values computed at once in predictions


class CachedMachine:
    """f_q(x) = sum_i alpha[q, i] k(x_i, x) + b[q] over support vectors x_i.

    A voted perceptron keeps its corrections instead of one set of coefficients: `votes[q]`
    holds, for every correction in turn, the support vector's place, what was added to its
    coefficient, and how many steps the iterate survived.
    """

    def __init__(
        self,
        kernel: kernels.Kernel,
        n_features: int,
        support: Array,
        vectors: Any,
        dual: Array,
        intercept: Array,
        t: float,
        *,
        n_iter: int,
        converged: bool,
        votes: list[Array] | None = None,
        voted_bias: bool = False,
        history: dict[str, Array] | None = None,
        outputs: Array | None = None,
        columns: dict[str, float] | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_features = n_features
        self.support = support
        self.vectors = vectors
        self.dual = dual
        self.intercept = intercept
        self.t = t
        self.n_iter = n_iter
        self.converged = converged
        self.votes = votes
        self.voted_bias = voted_bias
        self._history = history
        self.outputs = outputs
        self.columns = columns or {}

    @property
    def n_support(self) -> int:
        return len(self.support)

    @property
    def n_outputs(self) -> int:
        return len(self.dual)

    def support_vectors(self) -> Any:
        return self.support if self.kernel.name == "precomputed" else self.vectors

    def alpha(self) -> Array:
        """Coefficients, (n_support, n_outputs)."""
        return self.dual.T

    def history(self) -> dict[str, Array]:
        if self._history is None:
            raise AttributeError("history_ is kept with record=True only")
        return self._history

    # -------------------------------------------------------------- predicting

    def decision_rows(self, rows: Any) -> Array:
        """Scores with the offset, (n, n_outputs)."""
        out = np.empty((rows.shape[0], self.n_outputs))
        for part, values in self._kernel_chunks(rows):
            if self.votes is None:
                out[part] = values @ self.dual.T + self.intercept
                continue
            for q, changes in enumerate(self.votes):
                out[part, q] = self._vote(values, changes)
        return out

    def _vote(self, values: Array, changes: Array) -> Array:
        """Votes for the class minus votes against it, as a share of all."""
        places, added, survived = changes[:, 0].astype(np.intp), changes[:, 1], changes[:, 2]
        if len(places) == 0:
            return np.zeros(len(values))
        scores = np.cumsum(values[:, places] * added, axis=1)
        if self.voted_bias:
            scores += np.cumsum(added)
        return np.where(scores >= 0, 1.0, -1.0) @ survived / survived.sum()

    def _kernel_chunks(self, rows: Any) -> Any:
        """(slice, kernel values against all support vectors), a few rows at a time."""
        n = rows.shape[0]
        width = max([self.n_support, 1] + [len(v) for v in self.votes or []])
        step = max(1, CHUNK // width)
        for start in range(0, n, step):
            part = slice(start, min(n, start + step))
            if self.kernel.name == "precomputed":
                yield part, np.asarray(self.kernel(rows[part])[:, self.support], np.float64)
            else:
                yield part, np.asarray(self.kernel(rows[part], self.vectors), np.float64)

    # ------------------------------------------------------------------- state

    def get_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        scalars: dict[str, Any] = {
            "kernel": self.kernel.config(),
            "t": self.t,
            "n_iter": self.n_iter,
            "converged": bool(self.converged),
            "voted_bias": bool(self.voted_bias),
            "n_votes": None if self.votes is None else len(self.votes),
            "history": None if self._history is None else sorted(self._history),
            "columns": {k: float(v) for k, v in self.columns.items()},
            "sparse": hasattr(self.vectors, "indptr"),
        }
        arrays: dict[str, Array] = {
            "support": self.support,
            "dual": self.dual,
            "intercept": self.intercept,
        }
        if self.outputs is not None:
            arrays["outputs"] = self.outputs
        if scalars["sparse"]:
            arrays["vectors_data"] = self.vectors.data
            arrays["vectors_indices"] = self.vectors.indices
            arrays["vectors_indptr"] = self.vectors.indptr
        else:
            arrays["vectors"] = np.ascontiguousarray(self.vectors)
        for q, changes in enumerate(self.votes or []):
            arrays[f"votes_{q}"] = changes
        for name, array in (self._history or {}).items():
            arrays[f"history_{name}"] = array
        return scalars, arrays

    @classmethod
    def from_state(cls, n_features: int, scalars: Any, arrays: Any) -> CachedMachine:
        kernel = kernels.from_config(scalars["kernel"])
        support, dual = arrays["support"], arrays["dual"]
        n = len(support)
        if dual.ndim != 2 or dual.shape[1] != n or len(arrays["intercept"]) != len(dual):
            raise ValueError("the model file's coefficients do not fit its support vectors")
        if scalars["sparse"]:
            from scipy.sparse import csr_matrix

            vectors: Any = csr_matrix(
                (arrays["vectors_data"], arrays["vectors_indices"], arrays["vectors_indptr"]),
                shape=(n, n_features),
            )
            vectors.check_format(full_check=True)
        else:
            vectors = arrays["vectors"]
            if kernel.name != "precomputed" and vectors.shape != (n, n_features):
                raise ValueError("the model file's support vectors have another shape")
        votes = None
        if scalars["n_votes"] is not None:
            votes = [arrays[f"votes_{q}"] for q in range(int(scalars["n_votes"]))]
            for changes in votes:
                if changes.ndim != 2 or changes.shape[1] != 3:
                    raise ValueError("the model file's votes have another shape")
                if len(changes) and not 0 <= changes[:, 0].min() <= changes[:, 0].max() < n:
                    raise ValueError("the model file's votes name a vector that is not there")
        history = None
        if scalars["history"] is not None:
            history = {name: arrays[f"history_{name}"] for name in scalars["history"]}
        return cls(
            kernel,
            n_features,
            support,
            vectors,
            dual,
            arrays["intercept"],
            float(scalars["t"]),
            n_iter=int(scalars["n_iter"]),
            converged=bool(scalars["converged"]),
            votes=votes,
            voted_bias=bool(scalars["voted_bias"]),
            history=history,
            outputs=arrays.get("outputs"),
            columns=scalars["columns"],
        )


class CachedLearner:
    """A solver with cached outputs in the shape that `KernelClassifier` calls."""

    def __init__(self, part: solvers.CachedSolver) -> None:
        self.part = part

    def fit(self, model: Any, batch: Any, machine: Any) -> CachedMachine:
        task = self._make_task(model, batch)
        fit = self.part.solve(task)
        if not (np.isfinite(fit.alpha).all() and np.isfinite(fit.b).all()):
            raise ValueError("the coefficients overflowed; use a smaller C, or scale the data")
        if task.progress is not None:
            task.progress.finish()
        return _make_machine(fit, task, batch)

    def restore(
        self, model: Any, n_features: int, index: Any, scalars: Any, arrays: Any
    ) -> CachedMachine:
        return CachedMachine.from_state(n_features, scalars, arrays)

    def _make_task(self, model: Any, batch: Any) -> solvers.Task:
        """The estimator's parameters, checked."""
        kernel = model._kernel_part().resolve(batch.X)
        rows = batch.X
        if kernel.name == "precomputed":
            if rows.shape[0] != rows.shape[1]:
                raise ValueError(
                    "Precomputed metric requires shape (n_queries, n_indexed). Got "
                    f"{rows.shape}: fit needs a square matrix."
                )
            rows = kernel(rows)
        weights = batch.weights
        if weights is not None and not weights.any():
            raise ValueError("all sample weights are 0: there is nothing to learn from")
        generator = make_generator(model.random_state)
        return solvers.Task(
            rows,
            split_outputs(batch.labels, len(batch.index)),
            kernel,
            C=_penalty(model, batch.source.n_rows),
            bias=check_bool("fit_intercept", model.fit_intercept),
            epochs=check_integer("epochs", model.epochs, 1),
            tol=check_number("tol", model.tol, 0, none=True),
            average=check_bool("average", model.average),
            cache_mb=check_number("cache_mb", model.cache_mb, 0),
            rng=generator if check_bool("shuffle", model.shuffle) else None,
            weights=weights,
            record=check_bool("record", model.record),
            progress=make_progress(model.verbose),
        )


def _penalty(model: Any, n: int) -> float:
    """C as given, or 1/(reg n), or 1."""
    if model.C is not None:
        if model.reg is not None:
            raise ValueError("give C or reg, not both: C = 1/(reg n)")
        return float(check_number("C", model.C, 0, low_open=True))
    if model.reg is None:
        return 1.0
    return 1.0 / (float(check_number("reg", model.reg, 0, low_open=True)) * n)


def _make_machine(fit: solvers.Fit, task: solvers.Task, batch: Any) -> CachedMachine:
    """Keep what has a coefficient."""
    used = (fit.alpha != 0).any(axis=0)
    for changes in fit.corrections or []:
        used[changes[:, 0]] = True
    support = np.flatnonzero(used)
    vectors = np.empty((0, 0)) if task.kernel.name == "precomputed" else task.X[support]
    votes = None
    if fit.corrections is not None:
        votes = []
        for y, changes in zip(task.Y, fit.corrections):
            rows = changes[:, 0]
            added = y[rows] * (1.0 if task.weights is None else task.weights[rows])
            survived = np.diff(np.append(changes[:, 1], fit.t + 1))
            votes.append(np.stack([np.searchsorted(support, rows), added, survived], axis=1))
    return CachedMachine(
        task.kernel,
        batch.source.n_features,
        support,
        vectors,
        np.ascontiguousarray(fit.alpha[:, support]),
        fit.b,
        float(fit.t),
        n_iter=fit.n_iter,
        converged=fit.converged,
        votes=votes,
        voted_bias=task.bias,
        history=fit.history,
        outputs=fit.outputs,
        columns=fit.columns,
    )
