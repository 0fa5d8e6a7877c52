"""A grid over C, kernel width and folds in which one kernel column serves all models.

For one kernel, every value of C, every fold and every class is one more output of the same
learner (`osvm.kernel.cached.sequential`): a row's kernel column is computed once and all
outputs that it corrects are updated by one matrix product.  Rows that a fold holds out are
masked, but their outputs are kept up to date like all others, so validation costs nothing.
The adatron on working sets shares columns through the cache instead, and goes on from each C
to the next.

Invariants
- an output learns from its fold's training rows only;
- the same order of rows serves all models of one search.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from osvm import kernels
from osvm._input import validate
from osvm._input.labels import LabelIndex, split_outputs
from osvm._input.parameters import check_integer, check_number
from osvm._input.types import Array
from osvm.kernel import SVC
from osvm.kernel.cached import solvers
from osvm.kernel.cached.sequential import OnlineLoop
from osvm.kernel.cached.task import Task
from osvm.kernel.fixed_set import check_max_iter
from osvm.kernel.options import refuse_foreign


@dataclass
class CachedGridSearch:
    """What `cached_grid_search` found.

    Attributes
    ----------
    C, gamma : arrays
        The grid.
    scores : array, shape (n_gamma, n_C, n_folds)
        Share of held-out rows that were classified correctly.
    best_params_ : dict
        With the largest mean score; the smallest C, then the first gamma, among equals.
    best_score_ : float
    best_estimator_ : SVC or None
        Fitted on all rows with `refit`.
    seconds : array, shape (n_gamma,)
        Wall time of each kernel.
    cv_results_ : dict of arrays
        One entry per pair of parameters, named as scikit-learn names them.
    """

    C: Array
    gamma: Array
    scores: Array
    seconds: Array
    best_params_: dict[str, Any] = field(default_factory=dict)
    best_score_: float = float("nan")
    best_estimator_: Any = None

    def __post_init__(self) -> None:
        mean = self.scores.mean(axis=2)
        flat = int(np.argmax(mean.T))  # C-major: the smallest C among equals
        i_C, i_gamma = divmod(flat, len(self.gamma))
        self.best_params_ = {"C": self.C[i_C].item(), "gamma": self.gamma[i_gamma].item()}
        self.best_score_ = float(mean[i_gamma, i_C])

    @property
    def cv_results_(self) -> dict[str, Array]:
        n_gamma, n_C, n_folds = self.scores.shape
        flat = self.scores.reshape(n_gamma * n_C, n_folds)
        results: dict[str, Array] = {
            "param_gamma": np.repeat(self.gamma, n_C),
            "param_C": np.tile(self.C, n_gamma),
            "mean_test_score": flat.mean(axis=1),
            "std_test_score": flat.std(axis=1),
        }
        for fold in range(n_folds):
            results[f"split{fold}_test_score"] = flat[:, fold]
        order = np.argsort(-results["mean_test_score"], kind="stable")
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(1, len(order) + 1)
        results["rank_test_score"] = rank
        return results

    def predict(self, X: Any) -> Array:
        """Labels by `best_estimator_`."""
        if self.best_estimator_ is None:
            raise AttributeError("no estimator was fitted: use refit=True")
        labels: Array = self.best_estimator_.predict(X)
        return labels


def cached_grid_search(
    X: Any,
    y: Any,
    *,
    C: Sequence[float] | Array = (0.01, 0.1, 1.0, 10.0, 100.0),
    gamma: Sequence[float] | Array = (0.01, 0.1, 1.0, 10.0),
    cv: Any = 5,
    solver: Any = "ol_svm",
    kernel: str = "rbf",
    degree: int = 3,
    coef0: float = 0.0,
    max_iter: int = -1,
    tol: float = 1e-3,
    random_state: Any = None,
    cache_size: float = 200,
    refit: bool = True,
    verbose: bool = False,
) -> CachedGridSearch:
    """Cross-validate a kernel learner with cached outputs over C and gamma.

    Parameters
    ----------
    X : array or CSR matrix, shape (n, d)
    y : array of n labels
    C, gamma : sequences of numbers
        The grid.
    cv : int, splitter or iterable, default=5
        Number of stratified folds, an object with ``split(X, y)``, or pairs of index arrays
        (train, test).
    solver : str or object, default="ol_svm"
        "ol_svm", "norma", "pegaz" or "adatron", or an object of :mod:`osvm.solvers`.
    kernel, degree, coef0, max_iter, tol, random_state, cache_size
        As for :class:`osvm.SVC`.
    refit : bool, default=True
        Fit a classifier with the best parameters on all rows.
    verbose : bool, default=False
        Print a line per kernel.

    Returns
    -------
    CachedGridSearch

    Examples
    --------
    >>> from osvm.datasets import make_chessboard
    >>> from osvm.model_selection import cached_grid_search
    >>> X, y = make_chessboard(600, random_state=0)
    >>> found = cached_grid_search(X, y, C=[1, 10], gamma=[0.01, 3.0], cv=3, max_iter=3,
    ...                            random_state=0, refit=False)
    >>> found.best_params_["gamma"], found.scores.shape
    (3.0, (2, 2, 3))
    """
    part = solvers.get(solver)
    if part.name not in ("ol_svm", "norma", "pegaz", "adatron"):
        raise ValueError(f"solver {part.name!r} has no C to search over, or cannot share columns")
    assert isinstance(part, solvers.Sequential)
    if part.average and part.name == "adatron":
        raise ValueError("solver 'adatron' is searched without average")
    model = SVC(kernel=kernel, degree=degree, coef0=coef0, max_iter=max_iter, tol=tol,
                random_state=random_state, cache_size=cache_size, solver=part,
                multi_class="ovr")  # fmt: skip
    refuse_foreign(model, part)
    _, rows, labels = validate.check_X_y(X, y, estimator_name="cached_grid_search")
    index = LabelIndex.of(labels)
    if len(index) < 2:
        raise ValueError("y holds one class only")
    codes = index.encode(labels)
    penalties = _numbers("C", C)
    gammas = _numbers("gamma", gamma)
    task = Task(rows, split_outputs(codes, len(index)), kernels.Linear(), rng=model._make_rng(),
                max_iter=check_max_iter(max_iter), tol=check_number("tol", tol, 0, low_open=True),
                cache_size=check_number("cache_size", cache_size, 0, low_open=True))  # fmt: skip
    masks = _fold_masks(cv, rows, codes, task.rng)
    orders = [
        task.order(part.shuffle) for _ in range(1 if part._in_sets() else part._passes(task))
    ]
    plan = _Plan(task, codes, masks, penalties, orders, part)
    known = kernels.parameters(kernel)
    if "gamma" not in known:
        raise ValueError(f"kernel {kernel!r} has no gamma to search over")
    extra = {k: v for k, v in {"degree": degree, "coef0": coef0}.items() if k in known}
    scores = np.empty((len(gammas), len(penalties), len(masks)))
    seconds = np.empty(len(gammas))
    for g, width in enumerate(gammas):
        begin = time.perf_counter()
        scores[g] = plan.score(kernels.get(kernel, gamma=float(width), **extra))
        seconds[g] = time.perf_counter() - begin
        if verbose:
            _report(g, gammas, penalties, scores, seconds)
    found = CachedGridSearch(penalties, gammas, scores, seconds)
    if refit:
        found.best_estimator_ = model.set_params(**found.best_params_).fit(X, y)
    return found


@dataclass
class _Plan:
    """Everything but the kernel."""

    task: Task
    codes: Array
    masks: Array  # (n_folds, n): the training rows
    penalties: Array
    orders: list[Array]  # one for each pass; the first alone for working sets
    part: solvers.Sequential

    @property
    def Y(self) -> Array:
        """(n_classes or 1, n)"""
        return self.task.Y

    def score(self, kernel: kernels.Kernel) -> Array:
        """(n_C, n_folds) accuracies on held-out rows."""
        if self.part._in_sets():
            return self._score_sets(kernel)
        outputs = self._online_outputs(kernel)
        scores = np.empty((len(self.penalties), len(self.masks)))
        for c in range(len(self.penalties)):
            for fold, mask in enumerate(self.masks):
                scores[c, fold] = self._accuracy(outputs[c, fold], mask)
        return scores

    def _accuracy(self, outputs: Array, mask: Array) -> float:
        held = ~mask
        if len(outputs) == 1:
            guess = (outputs[0, held] > 0).astype(np.int64)
        else:
            guess = outputs[:, held].argmax(axis=0)
        return float(np.mean(guess == self.codes[held]))

    def _online_outputs(self, kernel: kernels.Kernel) -> Array:
        """(n_C, n_folds, n_classes, n) outputs; all learnt in the same passes."""
        n_C, n_folds, n_out = len(self.penalties), len(self.masks), len(self.Y)
        n = self.Y.shape[1]
        Y = np.tile(self.Y, (n_C * n_folds, 1))
        mask = np.repeat(np.tile(self.masks, (n_C, 1)), n_out, axis=0)
        C = np.repeat(self.penalties, n_folds * n_out)
        rule, numbers = self.part._rule()
        options: dict[str, Any] = dict(numbers)
        columns = dataclasses.replace(self.task, kernel=kernel).columns(
            self.part.dtype,
            offset=self.part._offset(),
            max_columns=1 if len(self.orders) == 1 else None,
        )
        loop = OnlineLoop(
            columns,
            Y,
            rule,
            C,
            mask=mask,
            bias=self.part._bias(),
            average=self.part.average,
            **options,
        )
        for order in self.orders:
            changes, _ = loop.run(order)
            if changes == 0 and self.part.stops_early:
                break  # no later epoch would change any model
        outputs = loop.outputs_
        if self.part.average:  # the outputs kept are those of the last coefficients
            outputs = np.zeros_like(outputs)
            alpha = loop.alpha_
            used = np.flatnonzero(alpha.any(axis=0))
            for part in np.array_split(used, max(1, len(used) // 256)):
                outputs += alpha[:, part] @ columns.take(part)
            outputs += loop.bias_[:, None]
        return outputs.reshape(n_C, n_folds, n_out, n)

    def _score_sets(self, kernel: kernels.Kernel) -> Array:
        """The adatron on working sets: columns shared by the cache, C by C from the last."""
        assert isinstance(self.part, solvers.Adatron)
        order = self.orders[0]
        columns = dataclasses.replace(self.task, kernel=kernel).columns(
            self.part.dtype, offset=self.part._offset(), order=order
        )
        scores = np.empty((len(self.penalties), len(self.masks)))
        rising = np.argsort(self.penalties, kind="stable")
        for fold, mask in enumerate(self.masks):
            before = None
            for c in rising:
                outputs = np.empty(self.Y.shape)
                machines, _ = self.part.solve_all(
                    columns,
                    self.Y[:, order],
                    self.penalties[c] * mask[order],
                    tol=self.task.tol,
                    passes=self.part._passes(self.task),
                    start=before,
                )
                before = np.array([machine.alpha_ for machine in machines])
                for q, machine in enumerate(machines):
                    outputs[q, order] = machine.outputs + (machine.b if machine.bias else 0.0)
                scores[c, fold] = self._accuracy(outputs, mask)
        return scores


# ----------------------------------------------------------------------- helpers


def _numbers(name: str, values: Any) -> Array:
    values = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"{name} must be a list of numbers")
    for value in values:
        check_number(name, float(value), 0, low_open=True)
    return values


def _fold_masks(cv: Any, rows: Any, codes: Array, rng: np.random.Generator) -> Array:
    """(n_folds, n) masks of training rows."""
    n = len(codes)
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        k = check_integer("cv", cv, 2)
        if n < k:
            raise ValueError(f"{k} folds need at least as many rows, got {n}")
        order = rng.permutation(n)
        order = order[np.argsort(codes[order], kind="stable")]  # classes spread over the folds
        fold = np.empty(n, dtype=np.intp)
        fold[order] = np.arange(n) % k
        return np.array([fold != i for i in range(k)])
    pairs: Iterable[Any] = cv.split(rows, codes) if hasattr(cv, "split") else cv
    masks = []
    for train, test in pairs:
        mask = np.zeros(n, dtype=bool)
        mask[train] = True
        if mask[test].any():
            raise ValueError("cv: a fold's test rows are among its training rows")
        if mask.sum() + len(np.unique(test)) != n:
            raise ValueError("cv: training and test rows of a fold must make up all rows")
        masks.append(mask)
    if not masks:
        raise ValueError("cv has no folds")
    return np.array(masks)


def _report(g: int, gammas: Array, penalties: Array, scores: Array, seconds: Array) -> None:
    mean = scores[g].mean(axis=1)
    best = int(np.argmax(mean))
    sys.stderr.write(
        f"kernel {g + 1}/{len(gammas)}: gamma={gammas[g]:g} best {100 * mean[best]:.2f}% "
        f"at C={penalties[best]:g}, {seconds[g]:.2f} s\n"
    )
    sys.stderr.flush()
