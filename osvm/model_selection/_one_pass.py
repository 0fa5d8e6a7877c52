"""A whole grid of regularizers and schedules, trained together in one pass.

Sixteen fits read the data sixteen times; here every row is read once and meets
the weights of all candidates, which lie side by side (`osvm/linear/columns.pxd`).  Each
candidate is scored by its progressive error: every example is predicted before
it is learnt, so that one pass both trains and validates.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from osvm._estimator.compat import clone
from osvm._estimator.progress import make_progress
from osvm._input import validate
from osvm._input.labels import LabelIndex, RunningBalance, weigh_rows
from osvm._input.parameters import make_generator
from osvm._input.rows import RowSource
from osvm._input.types import Array
from osvm.linear import options
from osvm.linear.classifier import LinearClassifier, encode_targets
from osvm.linear.columns import SearchLearner
from osvm.linear.first_step import (
    Sample,
    class_weights,
    first_step_trials,
    trial_plan,
    with_intercept_step,
)
from osvm.linear.plan import EPOCHS, Plan, one_setting, resolve_plan
from osvm.linear.training import Examples, n_told, objective, resolve_shuffle, visiting_order

# Parameters that may differ between candidates: those that act on one column.
SEARCHABLE = ("C", "eta0", "project", "reg", "schedule")


class OnePassSearch:
    """Grid search over a `LinearClassifier` in one pass over the data.

    Parameters
    ----------
    estimator : LinearClassifier
        Everything that is not in the grid; `epochs` passes are made.
    grid : dict of lists, or list of dicts
        Values of "reg", "C", "schedule", "eta0" or "project"; a dict of lists means
        all combinations.
    scoring : {"error", "loss"}, default "error"
        The progressive figure by which the best candidate is chosen.

    Attributes
    ----------
    candidates_ : list of dicts
    error_, loss_ : arrays
        Progressive error and loss of each candidate, over all examples seen.
    path_ : dict of arrays
        "examples", and "error" and "loss" (rows: places on the path, columns:
        candidates), at examples 1, 2, 4, 8, ... and at the end.
    best_index_ : int
    best_params_ : dict
    best_estimator_ : LinearClassifier
        Fitted; it goes on learning with `partial_fit`.

    Examples
    --------
    >>> import osvm
    >>> X, y, *_ = osvm.datasets.make_rcv1_like(
    ...     n_train=2000, n_test=10, n_features=1000, nnz=20, random_state=0)
    >>> search = osvm.model_selection.one_pass_search(
    ...     osvm.LinearClassifier(random_state=0, epochs=1), X, y,
    ...     {"reg": [1e-1, 1e-2, 1e-3, 1e-4]})
    >>> search.error_.shape
    (4,)
    >>> search.best_estimator_.predict(X).shape
    (2000,)
    """

    def __init__(self, estimator: LinearClassifier, grid: Any, scoring: str = "error") -> None:
        if not isinstance(estimator, LinearClassifier):
            raise TypeError(
                f"one_pass_search trains a LinearClassifier, got {type(estimator).__name__}"
            )
        if scoring not in ("error", "loss"):
            raise ValueError(f"scoring must be 'error' or 'loss', got {scoring!r}")
        self.estimator = estimator
        self.scoring = scoring
        self.candidates_ = list_candidates(grid)

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> OnePassSearch:
        """Train all candidates on all rows, in the estimator's order.

        Parameters
        ----------
        X : CSR matrix, array or data frame, shape (n, d)
        y : array of n labels
        sample_weight : array of n weights, optional

        Returns
        -------
        self
        """
        base = self.estimator
        source, rows = base._open(X, reset=True)
        labels = validate.check_y_classes(y, source.n_rows, estimator_name="one_pass_search")
        index = LabelIndex.of(labels)
        if len(index) < 2:
            raise ValueError("one_pass_search needs at least two classes")
        codes = index.encode(labels)
        weight = validate.check_sample_weight(sample_weight, source.n_rows, allow_zero=False)
        weight = weigh_rows(base.class_weight, index, codes, weight)
        models = make_models(base, self.candidates_)
        epochs = models[0].epochs
        for model in models:
            options.refuse("search", options.asked(model))
        delta = base._distances(index)
        n = source.n_rows if weight is None else n_told(weight)
        plans = [resolve_plan(model, n, delta) for model in models]
        n_out = base._n_out(len(index), plans[0])
        told = Examples(source, encode_targets(codes, n_out), weight).told()
        source, targets, weight = told.X, told.targets, told.weight
        rng = make_generator(base.random_state)
        dtype = base._weight_dtype(rows)
        shuffle = resolve_shuffle(base.shuffle, targets)
        order = visiting_order(source.n_rows, shuffle, rng)
        plans = try_first_steps(plans, source, targets, n_out, dtype, weight, epochs)
        learner = _search_learner(plans, source.n_features, n_out, dtype)
        progress = make_progress(base.verbose)
        path: list[tuple[float, Array, Array]] = []
        for epoch in range(epochs):
            if epoch:
                order = visiting_order(source.n_rows, shuffle, rng)
            start = 0
            while start < source.n_rows:
                due = 1 << int(learner.seen).bit_length()
                stop = min(source.n_rows, start + due - int(learner.seen))
                learner.run(source, targets, order, start, stop, weight)
                start = stop
                path.append((learner.seen, learner.error_sum.copy(), learner.loss_sum.copy()))
                if progress is not None:
                    best = int(np.argmin(learner.error_sum))
                    progress.update(
                        int(learner.seen),
                        loss=float(learner.loss_sum[best]),
                        errors=float(learner.error_sum[best]),
                    )
        if progress is not None:
            progress.finish()
        self._finish(learner, path)
        best = models[self.best_index_]
        self._hand_over(best, plans[self.best_index_], learner, X, source, index, codes, rng)
        return self

    def _finish(self, learner: SearchLearner, path: list[tuple[float, Array, Array]]) -> None:
        examples = np.array([n for n, _, _ in path])
        self.path_ = {
            "examples": examples.astype(np.int64),
            "error": np.array([e for _, e, _ in path]) / examples[:, None],
            "loss": np.array([v for _, _, v in path]) / examples[:, None],
        }
        self.error_, self.loss_ = self.path_["error"][-1], self.path_["loss"][-1]
        score = self.error_ if self.scoring == "error" else self.loss_
        # Equal errors are told apart by the loss.
        self.best_index_ = int(np.lexsort((self.loss_, score))[0])
        self.best_params_ = dict(self.candidates_[self.best_index_])

    def _hand_over(
        self,
        model: LinearClassifier,
        plan: Plan,
        learner: SearchLearner,
        X: Any,
        source: Any,
        index: LabelIndex,
        codes: Array,
        rng: np.random.Generator,
    ) -> None:
        """Give the winner its weights."""
        own = plan.learner(source.n_features, learner.intercept.shape[1], learner.weights.v.dtype)
        own.set_state(*learner.candidate_state(self.best_index_))
        model._store(X, source, own, plan, rng)
        model.n_iter_, model.objective_ = model.epochs, np.array([])
        model._index = index
        model._balance = RunningBalance(np.bincount(codes, minlength=len(index)))
        self.best_estimator_ = model

    # -------------------------------------------------------------------- looking

    def table(self) -> str:
        """The candidates with their progressive error and loss, best first."""
        self._need_fit()
        score = self.error_ if self.scoring == "error" else self.loss_
        lines = [f"{'error %':>9} {'loss':>10}  candidate"]
        for i in np.lexsort((self.loss_, score)):
            what = ", ".join(f"{name}={value}" for name, value in self.candidates_[i].items())
            lines.append(f"{100 * self.error_[i]:>9.3f} {self.loss_[i]:>10.5f}  {what}")
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Progressive error of every candidate along the pass; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        Axes
        """
        self._need_fit()
        import matplotlib.pyplot as plt

        if ax is None:
            ax = plt.subplots(layout="constrained")[1]
        n = len(self.candidates_)
        colors = plt.get_cmap("viridis")(np.linspace(0.0, 0.9, n))
        for i, params in enumerate(self.candidates_):
            what = ", ".join(f"{name}={_short(value)}" for name, value in params.items())
            ax.plot(
                self.path_["examples"],
                100 * self.path_["error"][:, i],
                color=colors[i],
                linewidth=2.5 if i == self.best_index_ else 1.0,
                label=f"{what}{'  (best)' if i == self.best_index_ else ''}",
            )
        ax.set(xscale="log", xlabel="examples", ylabel="progressive error, %")
        ax.legend(fontsize="small", ncols=1 if n <= 8 else 2)
        return ax

    def _need_fit(self) -> None:
        if not hasattr(self, "path_"):
            raise ValueError("the search has not been run yet: call fit first")


def one_pass_search(
    estimator: LinearClassifier,
    X: Any,
    y: Any,
    grid: Any,
    *,
    scoring: str = "error",
    sample_weight: Any = None,
) -> OnePassSearch:
    """Train a grid of candidates in one pass and return the search with its best model.

    Parameters
    ----------
    estimator : LinearClassifier
    X : CSR matrix, array or data frame, shape (n, d)
    y : array of n labels
    grid : dict of lists, or list of dicts
        See `OnePassSearch`.
    scoring : {"error", "loss"}
    sample_weight : array of n weights, optional

    Returns
    -------
    OnePassSearch
        With `best_estimator_`, `best_params_`, `error_`, `path_`, `table()`, `plot()`.
    """
    return OnePassSearch(estimator, grid, scoring).fit(X, y, sample_weight)


def list_candidates(grid: Any) -> list[dict[str, Any]]:
    """All candidates of a grid, checked."""
    if isinstance(grid, Mapping):
        names = list(grid)
        values = [_as_list(name, grid[name]) for name in names]
        candidates = [dict(zip(names, chosen)) for chosen in itertools.product(*values)]
    elif isinstance(grid, Iterable) and not isinstance(grid, str):
        candidates = [dict(candidate) for candidate in grid]
    else:
        raise TypeError(f"grid must be a dict of lists or a list of dicts, got {grid!r}")
    if not candidates:
        raise ValueError("the grid has no candidates")
    for candidate in candidates:
        for name in candidate:
            if name not in SEARCHABLE:
                raise ValueError(
                    f"{name!r} cannot differ between candidates of one pass; searchable are "
                    f"{list(SEARCHABLE)}"
                )
    return candidates


def _as_list(name: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"grid[{name!r}] must be a list of values, got {values!r}")
    return list(values)


def make_models(base: LinearClassifier, candidates: list[dict[str, Any]]) -> list[Any]:
    """An unfitted copy of `base` for each candidate; one clone, since that is slow."""
    blank = clone(base)
    blank.schedule = one_setting(base.schedule)
    blank.epochs = EPOCHS if base.epochs is None else base.epochs
    models = []
    for params in candidates:
        model = copy.copy(blank)
        for name, value in params.items():
            setattr(model, name, value)
        models.append(model)
    return models


def try_first_steps(
    plans: list[Plan],
    X: RowSource,
    targets: Array,
    n_out: int,
    dtype: Any,
    weight: Array | None,
    epochs: int,
) -> list[Plan]:
    """The first steps that `LinearClassifier` finds for each plan, tried side by side."""
    chosen = list(plans)
    waiting = [i for i, plan in enumerate(plans) if plan.needs_t0]
    if not waiting:
        return chosen
    sample = Sample(X, epochs)
    classes = class_weights(targets, weight)
    chosen = [with_intercept_step(plan, classes) for plan in plans]
    targets = np.ascontiguousarray(targets[sample.rows])
    weight = None if weight is None else np.ascontiguousarray(weight[sample.rows])
    rarer = math.inf
    if n_out == 1:
        rarer = float(class_weights(targets, None).min())
    choices = {i: first_step_trials(chosen[i], sample, rarer=rarer) for i in waiting}
    trials = {i: trial_plan(chosen[i], next(choices[i]), sample) for i in waiting}
    while trials:
        costs = _trial_costs(list(trials.values()), sample, targets, n_out, dtype, weight)
        for i, cost in zip(list(trials), costs):
            try:
                trials[i] = trial_plan(chosen[i], choices[i].send(cost), sample)
            except StopIteration as stop:
                chosen[i] = stop.value
                del trials[i]
    return chosen


def _trial_costs(
    trials: list[Plan],
    sample: Sample,
    targets: Array,
    n_out: int,
    dtype: Any,
    weight: Array | None,
) -> list[float]:
    """`osvm.linear.first_step.trial_cost` of each plan."""
    learner = _search_learner(trials, sample.X.n_features, n_out, dtype)
    try:
        for _ in range(sample.passes):
            learner.run(sample.X, targets, sample_weight=weight)
    except FloatingPointError:
        if len(trials) == 1:
            return [math.inf]
        # One of them overflows and stops the others: find out which.
        half = len(trials) // 2
        return [
            cost
            for part in (trials[:half], trials[half:])
            for cost in _trial_costs(part, sample, targets, n_out, dtype, weight)
        ]
    # One learner takes the weights of each candidate in turn; regularizers differ.
    judge = trials[0].learner(sample.X.n_features, n_out, dtype)
    data = Examples(sample.X, targets, weight)
    weights = learner.weights.array().reshape(len(trials), n_out, -1)
    costs = []
    for g, trial in enumerate(trials):
        judge.weights.set_array(weights[g] if n_out > 1 else weights[g, 0])
        judge.intercept[:] = learner.intercept[g]
        cost = objective(judge, trials[0], data, False)
        cost += 0.5 * (trial.reg - trials[0].reg) * float(np.vdot(weights[g], weights[g]))
        cost += learner.loss_sum[g] / learner.seen
        costs.append(cost if math.isfinite(cost) else math.inf)
    return costs


def _search_learner(plans: list[Plan], n_features: int, n_out: int, dtype: Any) -> SearchLearner:
    loss, _ = plans[0].specs()
    return SearchLearner(
        n_features,
        n_out,
        dtype,
        loss,
        [plan.step_spec() for plan in plans],
        regs=[plan.reg for plan in plans],
        radii=[plan.radius for plan in plans],
        intercept_eta0=[plan.intercept_eta0 for plan in plans],
        average_from=plans[0].average_from,
        fit_intercept=plans[0].fit_intercept,
    )


def _short(value: Any) -> str:
    return f"{value:.2g}" if isinstance(value, float) else str(value)
