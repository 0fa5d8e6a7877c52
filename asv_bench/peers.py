"""Linear SVM solvers behind one interface: osvm's and those of its peers.

All minimize ``J(w) = reg/2 ||w||² + mean max(0, 1 - y w.x)`` without an intercept (some
peers penalise it, others do not, so with one the problems would differ).  What a solver
needs in its own format (LIBLINEAR's problem, Vowpal Wabbit's cache, river's dicts) is
prepared outside of the clock.  A peer that is not installed is left out.
"""

from __future__ import annotations

import importlib
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp


def safe_import(name: str) -> Any:
    """The module, or None when it is not installed or does not load."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except Exception:  # a broken peer must not stop the others
        return None


def objective(w: np.ndarray, X: sp.csr_matrix, y: np.ndarray, reg: float) -> float:
    """J(w), in double precision."""
    w = np.asarray(w, dtype=np.float64)
    return float(0.5 * reg * w @ w + np.maximum(0.0, 1.0 - y * (X @ w)).mean())


def error_rate(w: np.ndarray, X: sp.csr_matrix, y: np.ndarray) -> float:
    """Share of rows on the wrong side."""
    return float(np.mean(np.where(X @ np.asarray(w, dtype=np.float64) >= 0, 1, -1) != y))


class Solver:
    """A way to minimize J.

    `prepare` is not timed, `run` is; `weights` gives what `run` reached.  `efforts` are
    the values to try, cheapest first: epochs, or tolerances.
    """

    name = ""
    module = "osvm"
    dtype: Any = np.float32
    effort_name = "epochs"
    efforts: tuple[float, ...] = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50)
    ours = False
    note = ""

    @classmethod
    def missing(cls) -> bool:
        return safe_import(cls.module) is None

    def prepare(self, X: sp.csr_matrix, y: np.ndarray, reg: float) -> None:
        self.X = X if X.dtype == self.dtype else X.astype(self.dtype)
        self.y, self.reg, self.n = y, reg, X.shape[0]

    def run(self, effort: float, seed: int = 0) -> None:
        raise NotImplementedError

    def weights(self) -> np.ndarray:
        return np.ravel(self.model.coef_)

    def close(self) -> None:
        """Let go of the data."""
        self.__dict__.clear()


class _Estimator(Solver):
    """A solver that is an estimator with `fit` and `coef_`."""

    def make(self, effort: float, seed: int) -> Any:
        raise NotImplementedError

    def run(self, effort: float, seed: int = 0) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model = self.make(effort, seed).fit(self.X, self.y)


# ---------------------------------------------------------------------- osvm


class OsvmSGD(_Estimator):
    name = "osvm SGD"
    ours = True
    note = "recipes.sgd_svm, float32 rows"
    average: Any = False

    def make(self, effort: float, seed: int) -> Any:
        from osvm import recipes

        return recipes.sgd_svm(
            reg=self.reg, epochs=int(effort), fit_intercept=False, shuffle=True,
            average=self.n if self.average else False, random_state=seed,
        )  # fmt: skip


class OsvmSGD64(OsvmSGD):
    name = "osvm SGD, float64"
    dtype = np.float64
    note = "recipes.sgd_svm, float64 rows"


class OsvmAveraged(OsvmSGD):
    name = "osvm SGD, averaged"
    average = True
    efforts = (2, 3, 5, 7, 10, 15, 20, 30, 50)
    note = "recipes.sgd_svm, average from the second epoch on, float32 rows"


class OsvmDual(_Estimator):
    name = "osvm dual"
    ours = True
    effort_name = "tol"
    efforts = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 1e-4)
    note = "recipes.dual_svm, float32 rows; tol is a proven relative gap"

    @classmethod
    def missing(cls) -> bool:
        recipes = safe_import("osvm.recipes")
        return not hasattr(recipes, "dual_svm")

    def make(self, effort: float, seed: int) -> Any:
        from osvm import recipes

        return recipes.dual_svm(
            C=1.0 / (self.reg * self.n), tol=effort, fit_intercept=False, random_state=seed
        )


class OsvmDual64(OsvmDual):
    name = "osvm dual, float64"
    dtype = np.float64
    note = "recipes.dual_svm, float64 rows"


# ---------------------------------------------------------------------- scikit-learn


class SklearnSGD(_Estimator):
    name = "SGDClassifier"
    module = "sklearn.linear_model"
    average: Any = False

    def make(self, effort: float, seed: int) -> Any:
        from sklearn.linear_model import SGDClassifier

        return SGDClassifier(
            loss="hinge", alpha=self.reg, max_iter=int(effort), tol=None, fit_intercept=False,
            average=self.n if self.average else False, random_state=seed,
        )  # fmt: skip


class SklearnAveraged(SklearnSGD):
    name = "SGDClassifier, averaged"
    average = True
    efforts = (2, 3, 5, 7, 10, 15, 20, 30, 50)


class SklearnLinearSVC(_Estimator):
    name = "LinearSVC"
    module = "sklearn.svm"
    dtype = np.float64
    effort_name = "tol"
    efforts = (1.0, 3e-1, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 1e-4)

    def make(self, effort: float, seed: int) -> Any:
        from sklearn.svm import LinearSVC

        return LinearSVC(
            loss="hinge", C=1.0 / (self.reg * self.n), dual=True, tol=effort, max_iter=100_000,
            fit_intercept=False, random_state=seed,
        )  # fmt: skip


# ---------------------------------------------------------------------- others


class Liblinear(Solver):
    name = "LIBLINEAR"
    module = "liblinear.liblinearutil"
    dtype = np.float64
    effort_name = "tol"
    efforts = (1.0, 3e-1, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 1e-4)
    note = "liblinear-official, -s 3, on its own copy of the data"

    def prepare(self, X: sp.csr_matrix, y: np.ndarray, reg: float) -> None:
        super().prepare(X, y, reg)
        tools = safe_import(self.module)
        self.problem = tools.problem(y.astype(np.float64), sp.csr_matrix(self.X))
        self.X = None

    def run(self, effort: float, seed: int = 0) -> None:
        tools = safe_import(self.module)
        options = f"-q -s 3 -B -1 -c {1.0 / (self.reg * self.n)!r} -e {effort}"
        self.model = tools.train(self.problem, tools.parameter(options))

    def weights(self) -> np.ndarray:
        w = np.ctypeslib.as_array(self.model.w, (self.model.nr_feature,)).copy()
        return w if self.model.get_labels()[0] == 1 else -w


class VowpalWabbit(Solver):
    name = "Vowpal Wabbit"
    module = "vowpalwabbit"
    efforts = (1, 2, 5, 10, 20)
    note = "hinge loss and --l2, its own update rule, from its cache file"

    def prepare(self, X: sp.csr_matrix, y: np.ndarray, reg: float) -> None:
        self.reg, self.n, self.d = reg, X.shape[0], X.shape[1]
        self.folder = tempfile.TemporaryDirectory(prefix="osvm-vw-")
        self.text = Path(self.folder.name, "data.txt")
        indptr, indices, data = X.indptr, X.indices.tolist(), X.data.astype(float).tolist()
        with open(self.text, "w") as file:
            for i, label in enumerate(y.tolist()):
                span = range(indptr[i], indptr[i + 1])
                cells = " ".join(f"{indices[k]}:{data[k]:.7g}" for k in span)
                file.write(f"{label} | {cells}\n")
        self.run(1)  # makes the cache

    def _options(self, effort: float) -> str:
        bits = max(int(np.ceil(np.log2(self.d))), 10)
        return (
            f"--quiet -d {self.text} --cache_file {self.text}.cache --passes {int(effort)} "
            f"--loss_function hinge --l2 {self.reg!r} --noconstant --holdout_off -b {bits}"
        )

    def run(self, effort: float, seed: int = 0) -> None:
        self.effort = effort
        safe_import(self.module).Workspace(self._options(effort)).finish()

    def weights(self) -> np.ndarray:
        # The weights are in the readable model: the same run again, outside of the clock.
        path = Path(self.folder.name, "weights.txt")
        options = f"{self._options(self.effort)} --readable_model {path}"
        safe_import(self.module).Workspace(options).finish()
        w = np.zeros(self.d)
        for line in path.read_text().splitlines():
            index, _, value = line.partition(":")
            if index.isdigit():
                w[int(index)] = float(value.split()[0])
        return w

    def close(self) -> None:
        self.folder.cleanup()
        super().close()


class LightningSDCA(_Estimator):
    name = "lightning SDCA"
    module = "lightning.classification"
    dtype = np.float64
    efforts = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50)

    def make(self, effort: float, seed: int) -> Any:
        return safe_import(self.module).SDCAClassifier(
            alpha=self.reg, loss="hinge", max_iter=int(effort), tol=0.0, random_state=seed
        )


class SnapML(_Estimator):
    name = "snapml"
    module = "snapml"
    efforts = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50)
    note = "SupportVectorMachine, one thread"

    def make(self, effort: float, seed: int) -> Any:
        return safe_import(self.module).SupportVectorMachine(
            loss="hinge", regularizer=self.reg * self.n, max_iter=int(effort), tol=1e-12,
            fit_intercept=False, n_jobs=1, random_state=seed,
        )  # fmt: skip


class River(Solver):
    name = "river"
    module = "river.linear_model"
    efforts = (1,)
    max_rows = 5000
    note = f"hinge loss, 1/(reg (t0 + t)) steps, at most {max_rows} rows, as dicts"

    def prepare(self, X: sp.csr_matrix, y: np.ndarray, reg: float) -> None:
        self.reg, self.d, self.n = reg, X.shape[1], min(X.shape[0], self.max_rows)
        X = X[: self.n]
        self.rows = [
            dict(zip(X.indices[a:b].tolist(), X.data[a:b].tolist()))
            for a, b in zip(X.indptr[:-1], X.indptr[1:])
        ]
        self.y = (y[: self.n] > 0).tolist()

    def run(self, effort: float, seed: int = 0) -> None:
        from river import linear_model, optim

        reg = self.reg

        class InverseTime(optim.base.Scheduler):
            """1/(reg (t0 + t)), the first step being 4."""

            def get(self, t: int) -> float:
                return 1.0 / (reg * (t + 0.25 / reg))

        self.model = linear_model.LogisticRegression(
            optimizer=optim.SGD(InverseTime()), loss=optim.losses.Hinge(), l2=reg,
            intercept_lr=0.0,
        )  # fmt: skip
        for _ in range(int(effort)):
            for row, label in zip(self.rows, self.y):
                self.model.learn_one(row, label)

    def weights(self) -> np.ndarray:
        w = np.zeros(self.d)
        for index, value in dict(self.model.weights).items():
            w[index] = value
        return w


SOLVERS: tuple[type[Solver], ...] = (
    OsvmSGD, OsvmSGD64, OsvmAveraged, OsvmDual, OsvmDual64,
    SklearnSGD, SklearnAveraged, SklearnLinearSVC, Liblinear, VowpalWabbit, LightningSDCA,
    SnapML, River,
)  # fmt: skip


def installed() -> list[type[Solver]]:
    """The solvers that can run here."""
    return [solver for solver in SOLVERS if not solver.missing()]


def find_optimum(X: sp.csr_matrix, y: np.ndarray, reg: float) -> tuple[np.ndarray, float]:
    """Minimizer and minimum of J, by a dual solver run far past the other targets."""
    solver: Solver
    if not OsvmDual64.missing():
        solver, effort = OsvmDual64(), 1e-6
    elif not SklearnLinearSVC.missing():
        solver, effort = SklearnLinearSVC(), 1e-5
    else:
        solver, effort = OsvmAveraged(), 200
    solver.prepare(X, y, reg)
    solver.run(effort)
    w = solver.weights()
    solver.close()
    return w, objective(w, X, y, reg)
