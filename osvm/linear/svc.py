"""`LinearSVC`: the linear SVM of a fixed training set, solved to a proven duality gap.

The problem is LIBLINEAR's, the parameters are those of scikit-learn's class of the same name;
the solver is `osvm.linear.dual`.  What differs: `tol` is a relative duality gap, and the offset
has no penalty unless `intercept_scaling` asks for one.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from osvm._estimator.compat import ClassifierMixin, convergence_warning
from osvm._estimator.threads import resolve_jobs
from osvm._input import validate
from osvm._input.labels import LabelIndex, resolve_class_weight, split_outputs
from osvm._input.parameters import (
    check_bool,
    check_choice,
    check_integer,
    check_number,
    make_generator,
)
from osvm._input.schema import ArrayField, Field, Schema
from osvm._input.types import Array
from osvm.linear.coef_scores import CoefScores
from osvm.linear.dual import LOSSES, NARROW, DualSolver


class LinearSVC(ClassifierMixin, CoefScores):
    """Linear support vector machine, solved to a proven duality gap.

    Minimizes ``1/2 ||w||² + C sum_i c_i loss(y_i (w.x_i + b))``, c_i being the weight of
    example i (`sample_weight` times `class_weight`).  Several classes are one-vs-rest, as in
    LIBLINEAR, where the weight of a class counts in its own problem only.  Coordinate ascent
    on the dual problem solves sparse and wide data; data with few columns that it does not
    solve soon, such as columns in raw units, go to Newton's method (squared hinge) or an
    interior-point method (hinge).

    Parameters
    ----------
    penalty : "l2"
        There is no other.
    loss : {"squared_hinge", "hinge"}, default "squared_hinge"
    dual : {"auto", True, False}, default "auto"
        True keeps to coordinate ascent; False begins with Newton's or the interior-point
        method where there are few columns.  The problem and the proof are the same.
    tol : float, default 1e-4
        Stop when the duality gap is at most this fraction of the objective.
    C : float, default 1.0
    multi_class : "ovr"
        For a joint loss see ``LinearClassifier(loss="multiclass_hinge")``.
    fit_intercept : bool, default True
    intercept_scaling : float, optional
        None leaves the offset b free of any penalty.  A number s makes it the weight of a
        constant feature s, penalized by ``1/2 (b/s)²``: scikit-learn's problem, with its
        default 1.
    class_weight : dict or "balanced", optional
    verbose : bool or int, default 0
        Print the epochs to stderr.
    random_state : int, Generator or RandomState, optional
        Of the order in which rows are visited.
    max_iter : int, default 1000
        Passes over the rows for each class, at most; rows that are set aside do not count,
        and a step of Newton's or the interior-point method counts as a pass.
    n_jobs : int, optional
        Threads that share the classes; -1 for all cores.  The result does not depend on it.
    warm_start : bool, default False
        `fit` starts from the dual variables of the last one, which saw as many rows and
        classes.

    Attributes
    ----------
    classes_ : array of K labels
    coef_ : array, shape (1, d) for two classes, else (K, d)
    intercept_ : array, shape (1,) or (K,)
    n_iter_ : int
        Passes over the rows, of the class that needed most.
    dual_gap_, objective_ : float or array of K
        How far above the minimum the objective can be; the objective.
    dual_coef_ : array, shape (1, n) or (K, n)
        ``coef_ = dual_coef_ @ X``, to rounding.
    n_features_in_ : int
    t_ : int
        Rows of the training set.

    Examples
    --------
    >>> import osvm
    >>> X, y = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.8]], ["a", "a", "b", "b"]
    >>> model = osvm.LinearSVC(random_state=0).fit(X, y)
    >>> model.predict([[0.8, 0.2]]).tolist()
    ['a']
    >>> bool(model.dual_gap_ <= 1e-4 * model.objective_)
    True
    """

    def __init__(
        self,
        penalty: str = "l2",
        loss: str = "squared_hinge",
        *,
        dual: bool | str = "auto",
        tol: float = 1e-4,
        C: float = 1.0,
        multi_class: str = "ovr",
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
        class_weight: Any = None,
        verbose: bool | int = 0,
        random_state: Any = None,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        warm_start: bool = False,
    ) -> None:
        self._keep(locals())

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVC:
        """Solve the problem of these rows.

        Parameters
        ----------
        sample_weight : array of n weights, optional
            They multiply C; a row of weight 0 counts as absent.
        """
        with self._lock.writing():
            self._check_params()
            source, rows = self._check_X(X, reset=True)
            n, name = source.n_rows, type(self).__name__
            labels = validate.check_y_classes(y, n, estimator_name=name)
            index = LabelIndex.of_several(labels)
            codes = index.encode(labels)
            weight = None
            if sample_weight is not None:
                weight = validate.check_sample_weight(sample_weight, n, allow_zero=True)
                if not np.any(weight):
                    raise ValueError("all sample weights are zero: there is nothing to learn from")
            by_class = resolve_class_weight(self.class_weight, index, codes, weight)
            single = len(index) == 2
            if single and by_class is not None:
                weight, by_class = by_class[codes] * (1.0 if weight is None else weight), None
            if not self.C * float(n if weight is None else weight.sum()) < 1e300:
                raise ValueError(
                    "C times the weights of all examples must be less than 1e300: make C or "
                    "sample_weight smaller"
                )
            # float32 weights cannot come closer than a gap of about 1e-5, and are for speed on
            # wide data; few columns may have very unlike units.
            single_precision = (
                rows.dtype == np.float32 and self.tol >= 1e-4 and source.n_features > NARROW
            )
            solver = DualSolver(
                source.n_features,
                1 if single else len(index),
                reg=1.0 / (self.C * n),
                loss=self.loss,
                dtype=np.float32 if single_precision else np.float64,
                fit_intercept=self.fit_intercept,
                intercept_scaling=self.intercept_scaling,
                seed=int(make_generator(self.random_state).integers(2**63)),
                positive=by_class,
            )
            if self.warm_start:
                self._warm(solver, index, codes)
            solver.fit(
                source,
                2.0 * codes - 1.0 if single else codes,
                weight,
                tol=self.tol,
                max_epochs=self.max_iter,
                warm_start=self.warm_start,
                callback=self._report() if self.verbose else None,
                n_jobs=resolve_jobs(self.n_jobs),
                rows=None if self.dual is True else rows,
                narrow_first=self.dual is False,
            )
            with self._lock.holding():
                self._take(solver, codes, len(index))
                self._set_features(X, source)
                self._index, self.classes_ = index, index.classes
                self.t_ = n
            self._warn(solver)
            return self

    def _check_params(self) -> None:
        """Raise ValueError for a parameter that makes no sense."""
        if self.penalty != "l2":
            raise ValueError(f"LinearSVC has penalty='l2' only, got {self.penalty!r}")
        if self.multi_class != "ovr":
            raise ValueError(
                f"multi_class must be 'ovr', got {self.multi_class!r}; for a joint loss use "
                "LinearClassifier(loss='multiclass_hinge')"
            )
        check_choice("loss", self.loss, LOSSES)
        if self.dual != "auto":
            check_bool("dual", self.dual)
        check_number("tol", self.tol, 0.0)
        check_number("C", self.C, 0.0, low_open=True)
        check_integer("max_iter", self.max_iter, 1)
        check_bool("warm_start", self.warm_start)
        if self.intercept_scaling is not None:
            # its square is a number, too
            check_number("intercept_scaling", self.intercept_scaling, 0.0, 1e150, low_open=True)
        if not check_bool("fit_intercept", self.fit_intercept) and self.intercept_scaling:
            raise ValueError("intercept_scaling is for fit_intercept=True")

    def _warm(self, solver: DualSolver, index: LabelIndex, codes: Array) -> None:
        """Hand the dual variables of the last fit to the solver, if there are any."""
        saved = self.__dict__.get("dual_coef_")
        if saved is None:
            return
        if self._index != index or saved.shape[1] != len(codes):
            raise ValueError(
                "warm_start: the last fit saw other classes or another number of rows; set "
                "warm_start=False to start afresh"
            )
        alpha = saved * split_outputs(codes, len(index))
        # A label that has changed its sign cannot keep its dual variable.
        solver.alpha = np.maximum(alpha[0] if len(saved) == 1 else alpha, 0.0)
        solver.intercept = self.intercept_.astype(np.float64)

    def _take(self, solver: DualSolver, codes: Array, n_classes: int) -> None:
        """Store what the solver has found, in scikit-learn's units."""
        scale = 1.0 / solver.reg
        single = solver.n_out == 1
        coef = np.atleast_2d(solver.weights.array())
        gap, objective = solver.dual_gap_ * scale, solver.objective_ * scale
        found = (coef, solver.intercept, gap, objective, solver.alpha)
        if not all(values is None or np.isfinite(values).all() for values in found):
            raise ValueError(
                "the numbers overflow: scale the features, or make C or sample_weight smaller"
            )
        self.coef_: Any = coef
        self.intercept_ = solver.intercept.copy()
        self.dual_gap_ = float(gap[0]) if single else gap
        self.objective_ = float(objective[0]) if single else objective
        self.n_iter_ = int(solver.n_epochs.max())
        self.__dict__.pop("dual_coef_", None)
        if solver.alpha is not None:
            self.dual_coef_ = np.atleast_2d(solver.alpha) * split_outputs(codes, n_classes)

    def _warn(self, solver: DualSolver) -> None:
        if solver.converged.all():
            return
        worst = float(np.max(solver.dual_gap_ / np.maximum(solver.objective_, 1e-300)))
        advice = "raise max_iter"
        if solver.n_epochs[~solver.converged].max() < self.max_iter:
            advice = "rounding allows no smaller one; scale the columns, lower C"
        warnings.warn(
            f"the relative duality gap is {worst:.2g} after {self.n_iter_} passes, above "
            f"tol={self.tol:g}: {advice}, or accept the gap (dual_gap_)",
            convergence_warning(),
            stacklevel=3,
        )

    def _report(self) -> Any:
        """Prints a line an epoch."""
        stream = self.verbose if hasattr(self.verbose, "write") else sys.stderr

        def report(output: int, row: dict[str, float]) -> None:
            if row["epoch"] == 1:
                stream.write(
                    f"{'output':>8} {'epoch':>7} {'active':>10} {'dual':>13} {'gap':>11}\n"
                )
            stream.write(
                f"{output:>8} {int(row['epoch']):>7} {int(row['active']):>10} "
                f"{row['dual']:>13.8f} {row['gap']:>11.3e}\n"
            )

        return report

    def sparsify(self) -> LinearSVC:
        """Make `coef_` a CSR matrix; worth it when most weights are zero."""
        self._check_fitted()
        self.coef_ = sp.csr_matrix(self.coef_)
        return self

    def densify(self) -> LinearSVC:
        """Make `coef_` a dense array again."""
        self._check_fitted()
        self.coef_ = self.coef_.toarray() if sp.issparse(self.coef_) else self.coef_
        return self

    # --------------------------------------------------------------------- state

    def _get_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        scalars = self._get_base_state()
        scalars.update(classes=self._index.get_state(), n_iter=self.n_iter_)
        coef = self.coef_.toarray() if sp.issparse(self.coef_) else self.coef_
        arrays = {
            "coef": np.ascontiguousarray(coef),
            "intercept": self.intercept_,
            "dual_gap": np.atleast_1d(self.dual_gap_),
            "objective": np.atleast_1d(self.objective_),
        }
        if "dual_coef_" in self.__dict__:
            arrays["dual_coef"] = self.dual_coef_
        return scalars, arrays

    def _set_state(self, scalars: dict[str, Any], arrays: dict[str, Array]) -> None:
        fields = {"classes": Field("dict"), "n_iter": Field("int", 0, 2**53)}
        self._check_scalars(scalars, fields)
        index = LabelIndex.from_state(scalars["classes"])
        if len(index) < 2:
            raise ValueError(f"{len(index)} classes, where there must be two at least")
        n_out = 1 if len(index) == 2 else len(index)
        parts = {
            "coef": ArrayField((n_out, scalars["n_features_in"]), np.float64),
            "intercept": ArrayField((n_out,), np.float64),
            "dual_gap": ArrayField((n_out,), np.float64),
            "objective": ArrayField((n_out,), np.float64),
        }
        if "dual_coef" in arrays:
            parts["dual_coef"] = ArrayField((n_out, int(scalars["t"])), np.float64)
        Schema("LinearSVC", {}, parts).check({}, arrays)
        self._set_base_state(scalars)
        self._index, self.classes_, self.n_iter_ = index, index.classes, scalars["n_iter"]
        self.coef_, self.intercept_ = arrays["coef"].copy(), arrays["intercept"].copy()
        gap, objective = arrays["dual_gap"].copy(), arrays["objective"].copy()
        self.dual_gap_ = float(gap[0]) if n_out == 1 else gap
        self.objective_ = float(objective[0]) if n_out == 1 else objective
        self.__dict__.pop("dual_coef_", None)
        if "dual_coef" in arrays:
            self.dual_coef_ = arrays["dual_coef"].copy()
