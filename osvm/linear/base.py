"""What the linear estimators share: rows to weights, weights to scores.

The estimators in `osvm.linear` turn labels into targets and scores into answers;
everything between is here.  Follows one order throughout: resolve and check, then
learn, then store.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from osvm._estimator.base import OnlineEstimator
from osvm._estimator.callbacks import EpochWatch
from osvm._estimator.compat import CallbackSupport
from osvm._estimator.progress import make_progress
from osvm._estimator.threads import Team, open_in_shares, resolve_jobs, row_parts
from osvm._input import validate
from osvm._input.parameters import make_generator
from osvm._input.rows import RowSource
from osvm._input.types import Array
from osvm.linear.constant import (
    warn_if_constant,
    warn_if_large,
    warn_if_off_center,
    warn_of_columns,
)
from osvm.linear.few_rows import (
    are_few,
    have_few_rows,
    need_tries,
    solve_few,
    solve_numbers_by_steps,
    take_solution,
    tried_passes,
)
from osvm.linear.first_step import competing, with_first_step
from osvm.linear.learner import SGDLearner
from osvm.linear.one_example import QuickOneExample
from osvm.linear.plan import Plan, is_chosen, resolve_epochs
from osvm.linear.scaling import ScaledRows, Scaling, common_size, decide, scaled
from osvm.linear.scores import Platt, score_csr
from osvm.linear.state import PLAN_PARAMS, LinearState
from osvm.linear.training import (
    NO_WATCH,
    Examples,
    Passes,
    Watch,
    compete_in_block,
    resolve_shuffle,
    run,
    settle,
    train,
    visiting_order,
)
from osvm.losses import Hinge, Squared
from osvm.schedules import OF_RARE, Auto, Schedule

_CSR = (sp.csr_matrix, sp.csr_array)
_ndarray = np.ndarray


class LinearEstimator(LinearState, QuickOneExample, CallbackSupport, OnlineEstimator):
    """Base of the linear estimators; see `osvm.linear`."""

    # Set by each class: the tasks of the losses it accepts and how errors are counted.
    _tasks: tuple[str, ...]
    _error_kind: str

    # Fitted attributes.
    _learner: SGDLearner
    _plan: Plan
    _rng: np.random.Generator | None
    _platt: Platt | None = None
    _scaling: Scaling | None = None
    _visits: np.random.Generator
    _n_siblings = 0  # models of the `MultilabelClassifier` of which this is one
    _sibling_dtype: Any = None  # of their weights, where this one is to have it too
    history_: dict[str, Array]

    def _need_attribute(self, name: str) -> Any:
        """An attribute that exists after fitting, with Python's own error before."""
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet") from None

    # --------------------------------------------------------------------- rows

    def _open(
        self, X: Any, *, reset: bool = False, allow_empty: bool = False
    ) -> tuple[Any, Array]:
        """Validated rows, at unit norm and with scaled columns where it is asked for.

        `reset` is for `fit`, which finds the scale of the columns from its rows.
        """
        source = None
        if reset and self.n_jobs is not None and "tokenizer_" not in self.__dict__:
            source = open_in_shares(X, resolve_jobs(self.n_jobs))
        if source is None:
            source, X = self._check_X(X, reset=reset, allow_empty=allow_empty)
        if self.normalize:
            source.set_row_scale(validate.unit_scale(source), largest=1.0)
        scaling = self._scaling
        fresh = reset and not (self.warm_start and "_learner" in self.__dict__)
        if fresh and self.scale is None:
            return source, X
        if fresh:
            scaling = Scaling.of(self.scale, source, self._may_center())
        return scaled(source, scaling, fresh), X

    def _may_center(self) -> bool:
        """Whether an offset can make up for columns that are centered."""
        return self.fit_intercept is True and not self.normalize and self._error_kind != "novel"

    @staticmethod
    def _weight_dtype(X: Any) -> Any:
        """float32 rows get float32 weights."""
        return np.float32 if X.dtype == np.float32 else np.float64

    # ------------------------------------------------------------------ learning

    def _learnt_besides(self, learner: Any, data: Examples) -> dict[str, Any]:
        """What a fit stores besides the weights, and together with them."""
        return {}

    def _told(self, data: Examples) -> Examples:
        """Those that have weight, in the scale of their columns."""
        told = data.told()
        is_new = not (self.warm_start and "_learner" in self.__dict__)
        if told is not data and isinstance(told.X, ScaledRows) and is_new:
            scaling = Scaling.of(self.scale, told.X.X, self._may_center())
            told.X = scaled(told.X.X, scaling, fresh=True)
        return told

    def _train(
        self,
        given: tuple[Any, Any, Any],
        data: Examples,
        plan: Plan,
        shape: tuple[int, Any],
        attributes: dict[str, Any] | None = None,
    ) -> None:
        """Train on all rows and store the result.

        Parameters
        ----------
        given : X, y and sample_weight as the user gave them
        data : Examples
        plan : Plan
            Its t0 may still be open.
        shape : number of outputs and dtype of the weights
        attributes : dict, optional
            Stored together with the weights.
        """
        data = data if data.weight is None else self._told(data)
        source, attributes = data.X, attributes or {}
        rng = make_generator(self.random_state)
        warm = self._warm_learner(source, shape[0]) if self.warm_start else None
        shuffle = resolve_shuffle(self.shuffle, data.targets)
        order = visiting_order(source.n_rows, shuffle, rng)
        if warm is not None:
            learner, plan = warm
        auto = plan.schedule if isinstance(plan.schedule, Auto) else None
        centers, solution, numbers = False, None, plan.error_kind == "absolute"
        if warm is None:
            centers, data, solution = self._solved(data, plan, shape, rng)
            source = data.X
        alive = None if auto is None else competing(plan, data)
        n_epochs = resolve_epochs(self.epochs, plan, source.n_rows, alive == OF_RARE)
        if solution is not None:
            n_epochs, alive = 1, alive and 1
        elif warm is None and self.epochs is None and numbers and is_chosen(plan):
            n_epochs = self._tried_epochs(data, plan, shape, n_epochs, rng)
        may_stop = auto is not None and self.epochs is None
        if warm is None:
            plan, intercept = with_first_step(plan, data, n_epochs, *shape)
            learner = plan.learner(source.n_features, *shape, alive=alive)
            learner.intercept[:] = intercept
            if numbers:
                _begin_sizes(learner, plan, source)
        if auto is not None:
            learner.decay = 1.0  # all errors of the first epoch count
        platt = self._new_platt(shape[0])
        before, figures = learner.seen, (learner.loss_sum, learner.error_sum)
        epochs = None
        if self.callback is not None or hasattr(self, "_skl_callbacks"):
            epochs = EpochWatch(
                self,
                n_epochs,
                *given,
                lambda: (
                    self._moment(given[0], source, learner, plan, rng, platt, before) | attributes
                ),
            )
        progress = None
        if self.verbose:
            progress = make_progress(self.verbose, start=int(before), absolute=numbers)
        record = self._new_record(n_epochs * source.n_rows) if self.record else None
        watch = Watch(progress, record, platt, epochs)
        jobs = 1 if self.n_jobs is None else resolve_jobs(self.n_jobs)
        passes = Passes(n_epochs, shuffle, rng, self.tol, order, jobs, may_stop)
        objectives: list[float] = []
        interrupt = None
        try:
            objectives = train(learner, plan, data, passes, watch)
            if solution is not None:
                take_solution(learner, solution, data, platt, plan.fit_intercept)
        except KeyboardInterrupt as error:
            interrupt = error  # what has been learnt so far is a usable model
        if auto is not None:
            settle(learner, auto, learner.seen - before > source.n_rows)
        attributes |= self._learnt_besides(learner, data)
        with self._lock.holding():
            self._store(given[0], source, learner, plan, rng)
            self.__dict__.update(attributes, _platt=platt)
            self.n_iter_ = round((learner.seen - before) / source.n_rows)
            self.objective_ = np.array(objectives)
            if record is not None:
                self._store_record(record, int(learner.seen - before), fresh=True)
        if interrupt is not None:
            raise interrupt
        if epochs is not None:
            epochs.close()
        if not self._n_siblings:  # whose owner warns of all
            self._warn(learner, plan, data, before, figures, centers)

    @staticmethod
    def _warn(
        learner: Any, plan: Plan, data: Examples, before: float, figures: Any, centers: bool
    ) -> None:
        """Of columns that steps cannot see, and of a fit that learnt nothing."""
        if not centers:
            warn_of_columns(data.X, plan, stacklevel=4)
        figure = (
            learner.loss_sum - figures[0]
            if plan.error_kind == "absolute"
            else learner.error_sum - figures[1]
        )
        warn_if_constant(
            learner, plan, data, on_the_way=figure / (learner.seen - before), stacklevel=4
        )

    def _solved(
        self, data: Examples, plan: Plan, shape: tuple[int, Any], rng: Any
    ) -> tuple[bool, Examples, Any]:
        """Whether columns may be centered, the rows so, and the solution if they are few."""
        source, numbers = data.X, plan.error_kind == "absolute"
        may_be_few = self._may_be_solved(plan)
        few = may_be_few and are_few(source, numbers)
        centers = self.scale is None and self._may_center() and is_chosen(plan)
        if centers and (moved := Scaling.around_zero(source, few, not numbers)) is not None:
            data = replace(data, X=scaled(source, moved, fresh=True))
            few = may_be_few and are_few(data.X, numbers)
        by_steps = numbers and may_be_few and isinstance(source, RowSource) and need_tries(source)
        if not (few or by_steps):
            return centers, data, None
        seed = int(rng.integers(2**31))
        if by_steps:
            solution = solve_numbers_by_steps(data, shape[1], plan.fit_intercept, seed)
            return centers, data, solution
        return centers, data, solve_few(data, shape, plan.fit_intercept, numbers, seed)

    @staticmethod
    def _tried_epochs(
        data: Examples, plan: Plan, shape: tuple[int, Any], n_epochs: int, rng: Any
    ) -> int:
        """Passes over numbers, found by trial where rows are few beside their columns."""
        few = need_tries(data.X) and have_few_rows(data.X)
        if plan.loss.name != Squared.name or not few:
            return n_epochs
        learner = plan.learner(data.X.n_features, *shape)
        _begin_sizes(learner, plan, data.X)
        return tried_passes(learner, data, int(rng.integers(2**31)))

    def _may_be_solved(self, plan: Plan) -> bool:
        """Whether few rows may be solved: nothing counts, follows or normalizes the passes."""
        followed = self.callback is not None or hasattr(self, "_skl_callbacks")
        if self.epochs is not None or followed or self.normalize:
            return False
        if isinstance(plan.schedule, Auto):
            return plan.loss.name == Hinge.name
        numbers = plan.error_kind == "absolute"
        return numbers and plan.loss.name == Squared.name and is_chosen(plan)

    def _moment(self, X: Any, source: Any, *parts: Any) -> dict[str, Any]:
        """Fitted attributes in the middle of a fit, with copies of what goes on changing."""
        learner, plan, rng, platt, before = parts
        names = validate.feature_names(X)
        return {
            "_learner": learner.copy(),
            "_plan": plan,
            "_plan_values": tuple(map(self.__dict__.get, PLAN_PARAMS)),
            "_rng": copy.deepcopy(rng),
            "_platt": None if platt is None else platt.copy(),
            "_scaling": source.scaling if isinstance(source, ScaledRows) else None,
            "t_": int(learner.seen),
            "n_iter_": round((learner.seen - before) / source.n_rows),
            "n_features_in_": source.n_features,
            **({} if names is None else {"feature_names_in_": names}),
        }

    def _new_platt(self, n_out: int) -> Platt | None:
        """The sigmoids to learn beside the weights, with `probability=True`; else None."""
        return None

    def _warm_learner(self, source: Any, n_out: int) -> tuple[SGDLearner, Plan] | None:
        """Learner and plan to go on from, with `warm_start` and an unchanged problem."""
        if "_learner" not in self.__dict__:
            return None
        old = self._learner
        if old.weights.dim != source.n_features or old.weights.n_out != n_out:
            raise ValueError(
                f"warm_start: the model has {old.weights.dim} features and "
                f"{old.weights.n_out} output(s), the data {source.n_features} and {n_out}; set "
                "warm_start=False to start afresh"
            )
        learner, plan = self._going_on(source.n_rows, source)
        return (learner.copy() if learner is old else learner), plan

    def _learn_block(
        self, learner: SGDLearner, plan: Plan, data: Examples, platt: Platt | None = None
    ) -> None:
        """Learn one block of a stream in the order of its rows; all of it or nothing."""
        n = data.X.n_rows
        if n > 1 and learner.seen == 0 and not self._n_siblings:
            warn_if_off_center(data.X, stacklevel=5)
            warn_if_large(data.X, plan, stacklevel=5)
        if learner.seen == 0 and plan.error_kind == "absolute":
            _begin_sizes(learner, plan, data.X)
        record = self._new_record(n) if self.record else None
        if self.verbose and self.__dict__.get("_progress") is None:
            self._progress = make_progress(
                self.verbose, start=int(learner.seen), absolute=plan.error_kind == "absolute"
            )
        progress = self._progress if self.verbose else None
        roll_back = progress is None
        # one row fails before it changes anything
        before = None if roll_back or n == 1 else learner.get_state()
        watched = progress is not None or record is not None or platt is not None
        watch = Watch(progress, record, platt) if watched else NO_WATCH
        order = None
        if "_visits" in self.__dict__:  # a block of a round: its rows come in random order
            order = visiting_order(n, resolve_shuffle(self.shuffle, data.targets), self._visits)
            if isinstance(plan.schedule, Auto) and learner.seen == 0:
                compete_in_block(learner, competing(plan, data))
        try:
            run(learner, data, order, plan.curvature, watch, roll_back=roll_back)
        except KeyboardInterrupt:
            raise
        except BaseException:
            if before is not None:
                learner.set_state(*before)
            raise
        if record is not None:
            self._store_record(record, n, fresh=False)

    def _store(self, X: Any, source: Any, learner: SGDLearner, plan: Plan, rng: Any) -> None:
        self._learner, self._plan, self._rng = learner, plan, rng
        self._scaling = source.scaling if isinstance(source, ScaledRows) else None
        self._plan_values = tuple(map(self.__dict__.get, PLAN_PARAMS))
        self._changed()
        self._set_features(X, source)

    def _changed(self) -> None:
        """The weights are new: count, and drop what was computed from the old ones."""
        known = self.__dict__
        known["t_"] = int(known["_learner"].seen)
        known.pop("_frozen", None)

    # ------------------------------------------------------------------- history

    def _new_record(self, n: int) -> dict[str, Array]:
        return {name: np.empty(n) for name in ("eta", "loss", "error")}

    def _store_record(self, record: dict[str, Array], n: int, fresh: bool) -> None:
        new = {name: values[:n] for name, values in record.items()}
        if not fresh and "history_" in self.__dict__:
            new = {name: np.concatenate([self.history_[name], new[name]]) for name in new}
        self.history_ = new

    # ---------------------------------------------------------------- predicting

    @property
    def schedule_(self) -> Schedule:
        """The schedule that the model learns with: what "auto" has come to be."""
        return self._need_attribute("_plan").schedule

    @property
    def _averaged(self) -> bool:
        return self._plan.average_from >= 0

    def _scores(self, X: Any, of: Any = np.asarray) -> Array:
        """of(scores of all outputs, rows x outputs), by shares; the caller holds the lock."""
        self._check_fitted()
        if self.n_jobs is None:
            return of(self._score(X))
        parts = row_parts(X, resolve_jobs(self.n_jobs))
        if len(parts) > 1:
            learner = self._frozen_learner() if self._averaged else None
            try:
                with Team(len(parts)) as team:
                    return np.concatenate(team.each(lambda k: of(self._score(parts[k], learner))))
            except (ValueError, FloatingPointError):
                pass  # one thread raises it again, and names the row
        return of(self._score(X))

    def _score(self, X: Any, frozen: SGDLearner | None = None) -> Array:
        """Scores of rows, in one thread; with the average that is written out already."""
        if type(X) is not _ndarray and (quick := self._quick_scores(X, frozen)) is not None:
            return quick
        known = self.__dict__
        learner = known["_learner"] if frozen is None else frozen
        averaged = frozen is None and known["_plan"].average_from >= 0
        if self.normalize or self._scaling is not None:
            source, _ = self._open(X)
            out = np.empty((source.n_rows, learner.weights.n_out))
            decide(learner, source, out, averaged)
        else:
            source, _ = self._check_X(X, summed=False)  # scores are sums over the entries
            out = np.empty((source.n_rows, learner.weights.n_out))
            learner.decide(source, out, averaged)
        return validate.check_scores(out)

    def _quick_scores(self, X: Any, frozen: SGDLearner | None = None) -> Array | None:
        """One output of many CSR rows, checked on the way; None for the general path."""
        learner, n_features = frozen or self._learner, self.n_features_in_
        if (
            not isinstance(X, _CSR)
            or len(X.indices) < 4 * n_features
            or X.shape != (X.shape[0], n_features)
            or self.normalize
            or self._scaling is not None
            or learner.weights.n_out != 1
            or not isinstance(learner, SGDLearner)
            or "feature_names_in_" in self.__dict__
        ):
            return None
        if frozen is None and self._averaged and learner.weights.averaged_count:
            learner = learner.frozen_average()
        weights, b = learner.weights, float(learner.intercept[0])
        out = np.empty((X.shape[0], 1))
        valid = score_csr(
            X.data, X.indices, X.indptr, X.shape[0], weights.v, weights.scale, b, out[:, 0]
        )
        return out if valid else None

    def _frozen_learner(self) -> SGDLearner:
        """The averaged weights written out, made once per change."""
        if "_frozen" not in self.__dict__:
            self._frozen = self._learner.frozen_average()
        return self._frozen

    def _weights_array(self, averaged: bool) -> Array:
        """Weights in the user's units."""
        coef = np.atleast_2d(self._learner.weights.array(averaged=averaged))
        return coef if self._scaling is None else self._scaling.to_user(coef)

    def _offsets_array(self, averaged: bool) -> Array:
        """Intercepts in the user's units."""
        learner = self._learner
        b = learner.average_intercept() if averaged else learner.intercept.copy()
        if self._scaling is None:
            return b
        return self._scaling.intercept_to_user(b, learner.weights.array(averaged=averaged))

    # ------------------------------------------------------------- for the reader

    def to_sklearn(self) -> Any:
        """An equivalent fitted scikit-learn model (SGDClassifier and its kin).

        Returns
        -------
        estimator
            Same weights, same answers.
        """
        from osvm.linear.export import to_sklearn

        with self._lock:
            return to_sklearn(self)

    def sparsify(self) -> Any:
        """Give `coef_` as a CSR matrix from now on; worth it when most weights are zero."""
        self._check_fitted()
        self._sparse_coef = True
        return self

    def densify(self) -> Any:
        """Give `coef_` as a dense array again."""
        self._check_fitted()
        self._sparse_coef = False
        return self

    def _shown_coef(self, coef: Array) -> Any:
        return sp.csr_matrix(coef) if self.__dict__.get("_sparse_coef") else coef


def _begin_sizes(learner: Any, plan: Plan, X: Any) -> None:
    """Before numbers are learnt in units of each feature: sizes that few values do not tell."""
    size = common_size(X) if is_chosen(plan) else 0.0
    if size > 0.0:
        learner.begin_sizes(size)
