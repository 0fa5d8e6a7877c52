"""What was learnt over a fixed training set: support vectors with their coefficients.

Invariants
- support vectors come class by class, in the order of the training rows within a class;
- two classes have one output (the second class is +1); more have one for each pair of classes
  (`osvm.kernel.cached.pairs`) or for each class.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from osvm import kernels
from osvm._input.convert import check_csr
from osvm._input.schema import ArrayField, AtMost, Field, Schema, check_list
from osvm._input.types import Array
from osvm.kernel.cached.pairs import pair_sums
from osvm.kernel.cached.task import Fit, Task

LARGEST = 1e150  # what no coefficient of a machine exceeds, fitted or loaded
CHUNK = 1 << 22  # kernel values computed at once in predictions


@dataclass(eq=False)
class CachedMachine:
    """f_q(x) = sum_i alpha[q, i] k(x_i, x) + b[q] over support vectors x_i.

    With `groups`, the number of support vectors of each class, the outputs are the pairs of
    classes, and `dual` has one coefficient against each other class for every vector.

    A voted perceptron keeps its corrections instead of one set of coefficients: `votes[q]`
    holds, for every correction in turn, the support vector's place, what was added to its
    coefficient, and how many steps the iterate survived.
    """

    kernel: kernels.Kernel
    n_features: int
    support: Array
    vectors: Any
    dual: Array
    intercept: Array
    t: float
    n_iter: Array
    converged: bool | None
    votes: list[Array] | None = None
    voted_bias: bool = False
    kept: dict[str, Array] | None = None  # the history
    outputs: Array | None = None
    columns: dict[str, float] = field(default_factory=dict)
    groups: Array | None = None

    @property
    def n_support(self) -> int:
        return len(self.support)

    @property
    def n_outputs(self) -> int:
        return len(self.intercept)

    def support_vectors(self) -> Any:
        return self.support if self.kernel.name == "precomputed" else self.vectors

    def alpha(self) -> Array:
        """Coefficients, (n_support, n_outputs)."""
        return self.dual.T

    def history(self) -> dict[str, Array]:
        if self.kept is None:
            raise AttributeError("history_ is kept by solvers with record=True only")
        return self.kept

    # -------------------------------------------------------------- predicting

    def decision_rows(self, rows: Any) -> Array:
        """Scores with the offset, (n, n_outputs)."""
        out = np.empty((rows.shape[0], self.n_outputs))
        for part, values in self._kernel_chunks(rows):
            if self.votes is None:
                if self.groups is None:
                    out[part] = values @ self.dual.T
                else:
                    out[part] = pair_sums(values, self.dual, self.groups)
                out[part] += self.intercept
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
        """For model files: refuses a kernel that no file can hold."""
        kernel = self.kernel.config()
        scalars, arrays = self._state()
        return {"kernel": kernel, **scalars}, arrays

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        scalars: dict[str, Any] = {
            "t": self.t,
            "n_iter": self.n_iter.tolist(),
            "converged": None if self.converged is None else bool(self.converged),
            "voted_bias": bool(self.voted_bias),
            "n_votes": None if self.votes is None else len(self.votes),
            "history": None if self.kept is None else sorted(self.kept),
            "columns": {k: float(v) for k, v in self.columns.items()},
            "sparse": hasattr(self.vectors, "indptr"),
            "groups": None if self.groups is None else self.groups.tolist(),
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
        for name in scalars["history"] or []:
            arrays[f"history_{name}"] = (self.kept or {})[name]
        return scalars, arrays

    def __getstate__(self) -> dict[str, Any]:
        scalars, arrays = self._state()
        return {
            "kernel": self.kernel,
            "n_features": self.n_features,
            "scalars": scalars,
            "arrays": arrays,
        }

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__dict__.update(self.from_state(**saved).__dict__)

    @classmethod
    def from_state(
        cls, kernel: kernels.Kernel, n_features: int, scalars: Any, arrays: Any
    ) -> CachedMachine:
        """The machine that gave these scalars and arrays; ValueError when there is none."""
        Schema("cached machine", _STATE, {}).check_layout(scalars, {})
        cls._check_arrays(kernel, n_features, scalars, arrays)
        support, vectors = arrays["support"], arrays.get("vectors")
        if scalars["sparse"]:
            from scipy.sparse import csr_matrix

            vectors = csr_matrix(
                (arrays["vectors_data"], arrays["vectors_indices"], arrays["vectors_indptr"]),
                shape=(len(support), n_features),
            )
            check_csr(vectors)
        check_sizes(kernel, vectors, vectors.dtype)
        votes, history = None, None
        if scalars["n_votes"] is not None:
            votes = [arrays[f"votes_{q}"] for q in range(scalars["n_votes"])]
        if scalars["history"] is not None:
            history = {name: arrays[f"history_{name}"] for name in scalars["history"]}
        return cls(
            kernel,
            n_features,
            support,
            vectors,
            arrays["dual"],
            arrays["intercept"],
            float(scalars["t"]),
            n_iter=np.array(scalars["n_iter"], np.int32),
            converged=scalars["converged"],
            votes=votes,
            voted_bias=bool(scalars["voted_bias"]),
            kept=history,
            outputs=arrays.get("outputs"),
            columns=scalars["columns"],
            groups=np.array(scalars["groups"], np.intp) if scalars.get("groups") else None,
        )

    @staticmethod
    def _check_arrays(
        kernel: kernels.Kernel, n_features: int, scalars: dict[str, Any], arrays: dict[str, Array]
    ) -> None:
        """Raise ValueError unless the arrays are those of such a machine."""
        n, K = (len(arrays[name]) if name in arrays else 0 for name in ("support", "intercept"))
        lines, groups = K, scalars.get("groups")
        if groups is not None:
            check_list("groups", groups, Field("int", 0, n), most=2**31, least=3)
            lines = len(groups) - 1
            if sum(groups) != n or len(groups) * lines // 2 != K:
                raise ValueError(f"{K} pairs and {n} vectors do not fit classes of {groups}")
        is_precomputed = kernel.name == "precomputed"
        most = AtMost(2**48)
        real, big = (np.float64, np.float32), LARGEST
        fields: dict[str, ArrayField] = {
            "support": ArrayField((n,), np.intp, 0, n_features - 1 if is_precomputed else 2**48),
            "dual": ArrayField((lines, n), np.float64, -big, big),
            "intercept": ArrayField((K,), np.float64, -big, big),
            "outputs": ArrayField((K, most), optional=True),
        }
        if scalars["sparse"]:
            index = (np.int32, np.int64)
            fields |= {
                "vectors_data": ArrayField((most,), real),
                "vectors_indices": ArrayField((most,), index, 0, n_features - 1),
                "vectors_indptr": ArrayField((n + 1,), index, 0),
            }
        else:
            shape = (0, 0) if is_precomputed else (n, n_features)
            fields["vectors"] = ArrayField(shape, real)
        check_list("history", scalars["history"] or [], Field("str"), most=100)
        check_list("n_iter", scalars["n_iter"], Field("int", 0, 2**31 - 1), most=K, least=K)
        for name in scalars["history"] or []:
            array = arrays.get(f"history_{name}")
            dtypes = (np.float64, np.int64, np.int32, np.bool_)
            lengths = (most,) * getattr(array, "ndim", 1)
            fields[f"history_{name}"] = ArrayField(lengths, dtypes)
        if scalars["n_votes"] not in (None, K):
            raise ValueError(f"votes of {scalars['n_votes']} outputs, where there are {K}")
        for q in range(scalars["n_votes"] or 0):
            fields[f"votes_{q}"] = ArrayField((most, 3), np.float64, -big, big)
        for value in scalars["columns"].values():
            if problem := Field("float").problem(value):
                raise ValueError(f"a number in the saved columns {problem}")
        Schema("cached machine", {}, fields).check({}, arrays)
        for q in range(scalars["n_votes"] or 0):
            places, survived = arrays[f"votes_{q}"][:, 0], arrays[f"votes_{q}"][:, 2]
            if len(places) and not (
                0 <= places.min() <= places.max() < n
                and (places == np.floor(places)).all()
                and survived.min() >= 0
                and survived.sum() > 0
            ):
                raise ValueError("the saved votes name a vector that is not there")


_STATE = {
    "t": Field("float", 0, 2.0**53),
    "n_iter": Field("list"),
    "converged": Field("flag", none=True),
    "voted_bias": Field("flag"),
    "n_votes": Field("int", 1, 2**31, none=True),
    "history": Field("list", none=True),
    "columns": Field("dict"),
    "sparse": Field("flag"),
    "groups": Field("list", none=True, optional=True),
}


def restore_machine(n_features: int, scalars: Any, arrays: dict[str, Array]) -> CachedMachine:
    """A machine from what a model file holds."""
    Schema("cached machine", {"kernel": Field("dict"), **_STATE}, {}).check_layout(scalars, {})
    scalars = dict(scalars)
    kernel = kernels.from_config(scalars.pop("kernel"))
    return CachedMachine.from_state(kernel, n_features, scalars, arrays)


def check_sizes(kernel: kernels.Kernel, rows: Any, dtype: Any, seen: bool = False) -> None:
    """Raise ValueError where norms of the rows, unless they were `seen`, or k(x, x), overflow."""
    if kernel.name in ("precomputed", "python"):
        return
    gamma = getattr(kernel, "gamma", 1.0)
    if gamma > np.finfo(dtype).max:
        raise ValueError(f"gamma={gamma:g} overflows {np.dtype(dtype)}; scale the rows")
    with np.errstate(over="ignore"):
        fits = np.ones(rows.shape[0], bool)
        if not seen:
            fits &= np.isfinite(kernels.Linear().diagonal(rows).astype(dtype))
        if kernel.name not in ("rbf", "linear"):  # of a row with itself 1, or its norm
            fits &= np.isfinite(kernel.diagonal(rows).astype(dtype))
    if not fits.all():
        raise ValueError(
            f"row {int(np.argmin(fits))} is too large: its norm, or its kernel with itself, "
            f"overflows {np.dtype(dtype)}; scale the rows"
        )


def make_machine(
    fit: Fit, task: Task, n_features: int, codes: Array | None = None
) -> CachedMachine:
    """Keep what has a coefficient, class by class (`codes`)."""
    used = (fit.alpha != 0).any(axis=0)
    for changes in fit.votes or []:
        used[changes[:, 0].astype(np.intp)] = True
    support = np.flatnonzero(used)
    if codes is not None:
        support = support[np.argsort(codes[support], kind="stable")]
    votes = None
    if fit.votes is not None:
        place = np.empty(task.n, np.float64)
        place[support] = np.arange(len(support))
        votes = [
            np.column_stack([place[changes[:, 0].astype(np.intp)], changes[:, 1:]])
            for changes in fit.votes
        ]
    groups = None
    if codes is not None and len(fit.alpha) != len(fit.b):
        groups = np.bincount(codes[support], minlength=len(fit.alpha) + 1)
    return CachedMachine(
        task.kernel,
        n_features,
        support,
        np.empty((0, 0)) if task.kernel.name == "precomputed" else task.X[support],
        np.ascontiguousarray(fit.alpha[:, support]),
        fit.b,
        float(fit.t),
        n_iter=np.broadcast_to(fit.n_iter, len(fit.b)).astype(np.int32),
        converged=fit.converged,
        votes=votes,
        voted_bias=fit.voted_bias,
        kept=fit.history,
        outputs=fit.outputs,
        columns=fit.columns,
        groups=groups,
    )
