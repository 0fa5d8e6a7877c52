"""What the three linear estimators share: parameters to a plan, rows to weights.

The estimators in `osvm.linear` turn labels into targets and scores into answers;
everything between is here.  Follows one order throughout: resolve and check, then
learn, then store.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from osvm import losses, schedules
from osvm._estimator.base import (
    OnlineEstimator,
    check_bool,
    check_choice,
    check_integer,
    check_number,
    make_generator,
    resolve_reg,
)
from osvm._estimator.callbacks import EpochWatch
from osvm._estimator.compat import CallbackSupport
from osvm._estimator.progress import make_progress
from osvm._estimator.threads import Team, resolve_jobs
from osvm._input import validate
from osvm._input.rows import RowSource
from osvm.linear.constant import warn_if_constant
from osvm.linear.first_step import (
    Sample,
    class_weights,
    starting_intercept,
    tried_plan,
    with_intercept_step,
)
from osvm.linear.learner import SGDLearner
from osvm.linear.one_example import OneExample
from osvm.linear.scores import Platt, score_csr
from osvm.linear.state import LinearState
from osvm.linear.training import Plan, learn, objective, run, train, visiting_order

Array = npt.NDArray[Any]
_CSR = (sp.csr_matrix, sp.csr_array)


class LinearEstimator(LinearState, OneExample, CallbackSupport, OnlineEstimator):
    """Base of the linear estimators; see `osvm.linear`."""

    # Set by each class: the losses it accepts and how errors are counted.
    _losses: tuple[str, ...]
    _error_kind: str

    # Fitted attributes.
    _learner: SGDLearner
    _plan: Plan
    _rng: np.random.Generator | None
    _platt: Platt | None = None
    history_: dict[str, Array]

    def _keep(self, params: dict[str, Any]) -> None:
        """Store the constructor's arguments untouched, under their names."""
        for name in self._get_param_names():
            setattr(self, name, params[name])

    def _need_attribute(self, name: str) -> Any:
        """An attribute that exists after fitting, with Python's own error before."""
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet") from None

    # ------------------------------------------------------- parameters to parts

    def _check_loss(self, loss: Any) -> None:
        if loss.name not in self._losses and loss.name in losses.names():
            raise ValueError(
                f"loss {loss.name!r} is not for {type(self).__name__}; choose from "
                f"{list(self._losses)}"
            )

    def _resolve_plan(
        self, n_rows: int | None, delta: Array | None = None, trained: Plan | None = None
    ) -> Plan:
        """Check every parameter and turn them into parts and numbers.

        Parameters
        ----------
        n_rows : int or None
            Rows of the training set; None in a stream.
        delta : array, optional
            Label distances, for the graph loss.
        trained : Plan, optional
            Of the model that learns on: it knows what an unchanged `C` or "full" was.
        """
        loss = losses.get(self.loss)
        self._check_loss(loss)
        schedule = schedules.get(self.schedule)
        if trained is not None and self.C is not None and self.C == trained.C:
            reg = resolve_reg(self.reg, None, None) if self.reg is not None else trained.reg
        else:
            reg = resolve_reg(self.reg, self.C, n_rows)
        eta0 = check_number("eta0", self.eta0, 0.0, low_open=True)
        check_integer("epochs", self.epochs, 1)
        check_number("tol", self.tol, 0.0, none=True)
        if self.shuffle != "full":
            check_bool("shuffle", self.shuffle)
        for name in ("fit_intercept", "normalize", "warm_start", "record"):
            check_bool(name, getattr(self, name))
        resolve_jobs(self.n_jobs)
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be callable or None, got {self.callback!r}")
        if schedule.name in ("constant", "smd") and eta0 * reg > 1.0:
            raise ValueError(
                f"eta0 * reg = {eta0 * reg:g} is more than 1, so that each step would flip the "
                f"sign of the weights: lower eta0 to at most 1/reg = {1 / reg:g}"
            )
        return Plan(
            loss=loss,
            schedule=schedule,
            reg=reg,
            C=self.C,
            eta0=eta0,
            radius=self._resolve_radius(reg),
            average_from=self._resolve_average(),
            batch_size=self._resolve_batch(n_rows, trained),
            fit_intercept=self.fit_intercept,
            error_kind=self._error_kind,
            delta=delta,
        )

    def _resolve_radius(self, reg: float) -> float:
        """0 for no projection, 1/sqrt(reg) for True, or the radius that was given."""
        if isinstance(self.project, bool | np.bool_):
            if not self.project:
                return 0.0
            if reg <= 0:
                raise ValueError(
                    "project=True projects onto the ball of radius 1/sqrt(reg) and "
                    "needs reg > 0; without it give the radius: project=10.0"
                )
            return float(reg**-0.5)
        return float(check_number("project", self.project, 0.0, low_open=True))

    def _resolve_batch(self, n_rows: int | None, trained: Plan | None = None) -> int:
        """Examples per step; "full" is all rows of `fit`."""
        if isinstance(self.batch_size, str):
            check_choice("batch_size", self.batch_size, ["full"])
            if n_rows is None and trained is not None:
                return trained.batch_size
            if n_rows is None:
                raise ValueError("batch_size='full' needs all rows at once: use fit, or a number")
            return n_rows
        return int(check_integer("batch_size", self.batch_size, 1))

    def _resolve_average(self) -> float:
        """-1 for no average, else the number of examples before it starts."""
        if isinstance(self.average, bool | np.bool_):
            return 0.0 if self.average else -1.0
        return float(check_integer("average", self.average, 0))

    # --------------------------------------------------------------------- rows

    def _open(
        self, X: Any, *, reset: bool = False, allow_empty: bool = False
    ) -> tuple[RowSource, Array]:
        """Validated rows, at unit norm where `normalize` asks for it."""
        source, X = self._check_X(X, reset=reset, allow_empty=allow_empty)
        if self.normalize:
            source.set_row_scale(validate.unit_scale(source), largest=1.0)
        return source, X

    @staticmethod
    def _weight_dtype(X: Any) -> Any:
        """float32 rows get float32 weights."""
        return np.float32 if X.dtype == np.float32 else np.float64

    # ------------------------------------------------------------------ learning

    def _fit_targets(
        self,
        data: tuple[Any, Any, Any],
        source: RowSource,
        rows: Any,
        targets: Array,
        n_out: int,
        plan: Plan,
        weight: Array | None,
        **attributes: Any,
    ) -> None:
        """Train on all rows and store the result.

        `data` are X, y and sample_weight as the user gave them; `attributes` are
        stored together with the weights.
        """
        rng = make_generator(self.random_state)
        dtype = self._weight_dtype(rows)
        warm = self._warm_learner(source, n_out)
        order = visiting_order(source.n_rows, self.shuffle, rng)
        if warm is None:
            intercept = starting_intercept(plan, targets, weight)
            plan = self._with_first_step(plan, source, targets, n_out, dtype, weight, intercept)
            learner = plan.learner(source.n_features, n_out, dtype)
            learner.intercept[:] = intercept
        else:
            learner, plan = warm
        platt = self._new_platt(n_out)
        record = self._new_record(self.epochs * source.n_rows)
        progress = make_progress(self.verbose, start=int(learner.seen))
        watch = EpochWatch(
            self,
            self.epochs,
            *data,
            lambda: {
                "_learner": learner.copy(),
                "_plan": plan,
                "_rng": rng,
                "_platt": platt,
                "t_": int(learner.seen),
                "n_features_in_": source.n_features,
                **attributes,
            },
        )

        def store(objectives: list[float]) -> None:
            with self._lock.changing():
                self._store(data[0], source, learner, plan, rng)
                self._platt = platt
                for name, value in attributes.items():
                    setattr(self, name, value)
                self.n_epochs_ = round((learner.seen - before) / source.n_rows)
                self.objective_ = np.array(objectives)
                self._store_record(record, int(learner.seen - before), fresh=True)

        before = learner.seen
        figures = learner.loss_sum, learner.error_sum
        objectives: list[float] = []
        try:
            objectives = train(
                learner,
                plan,
                source,
                targets,
                weight=weight,
                epochs=self.epochs,
                shuffle=self.shuffle,
                rng=rng,
                tol=self.tol,
                progress=progress,
                record=record,
                watch=watch if watch.wanted else None,
                platt=platt,
                first_order=order,
            )
        except KeyboardInterrupt:
            store(objectives)  # what has been learnt so far is a usable model
            raise
        store(objectives)
        watch.close()
        is_number = plan.error_kind == "absolute"
        figure = learner.loss_sum - figures[0] if is_number else learner.error_sum - figures[1]
        warn_if_constant(
            learner,
            plan,
            source,
            targets,
            weight,
            on_the_way=figure / (learner.seen - before),
            stacklevel=3,
        )

    def _with_first_step(
        self,
        plan: Plan,
        source: RowSource,
        targets: Array,
        n_out: int,
        dtype: Any,
        weight: Array | None,
        intercept: float,
    ) -> Plan:
        """The plan with the t0 and the intercept's step that the data ask for."""
        if not plan.needs_t0():
            return plan
        if plan.error_kind == "class":
            plan = with_intercept_step(plan, class_weights(targets, weight))
        sample = Sample(source, self.epochs)
        return tried_plan(plan, sample, targets, n_out, dtype, weight, intercept)

    def _new_platt(self, n_out: int) -> Platt | None:
        """The sigmoids to learn beside the weights; none but for `probability=True`."""
        return None

    def _warm_learner(self, source: RowSource, n_out: int) -> tuple[SGDLearner, Plan] | None:
        """Learner and plan to go on from, with `warm_start` and an unchanged problem."""
        if not self.warm_start or "_learner" not in self.__dict__:
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
        self,
        source: RowSource,
        learner: SGDLearner,
        targets: Array,
        weight: Array | None,
        platt: Platt | None = None,
        curvature: float = 0.0,
    ) -> None:
        """Learn one block of a stream in the order of its rows; all of it or nothing."""
        record = self._new_record(source.n_rows)
        if self.verbose or not isinstance(learner, SGDLearner):
            if self.verbose and self.__dict__.get("_progress") is None:
                self._progress = make_progress(self.verbose, start=int(learner.seen))
            progress = self._progress if self.verbose else None
            before = learner.get_state() if source.n_rows > 1 else None
            try:
                run(
                    learner,
                    source,
                    targets,
                    None,
                    weight,
                    progress,
                    record,
                    platt=platt,
                    curvature=curvature,
                )
            except KeyboardInterrupt:
                raise
            except BaseException:
                if before is not None:  # one row fails before it changes anything
                    learner.set_state(*before)
                raise
        else:
            kept = record
            if platt is not None:
                scores = np.empty((source.n_rows, learner.weights.n_out))
                kept = {**(record or {}), "score": scores}
            learn(
                learner,
                source,
                targets,
                None,
                0,
                source.n_rows,
                weight,
                kept,
                curvature,
                undo=True,
            )
            if platt is not None:
                platt.learn(scores, targets)
        self._store_record(record, source.n_rows, fresh=False)

    def _store(self, X: Any, source: RowSource, learner: SGDLearner, plan: Plan, rng: Any) -> None:
        self._set_features(X, source)
        self._learner, self._plan, self._rng = learner, plan, rng
        self._keep_plan_values()
        self._changed()

    def _changed(self) -> None:
        """The weights are new: count, and drop what was computed from the old ones."""
        self.t_ = int(self._learner.seen)
        self.__dict__.pop("_frozen", None)

    # ------------------------------------------------------------------- history

    def _new_record(self, n: int) -> dict[str, Array] | None:
        if not self.record:
            return None
        return {name: np.empty(n) for name in ("eta", "loss", "error")}

    def _store_record(self, record: dict[str, Array] | None, n: int, fresh: bool) -> None:
        if record is None:
            return
        new = {name: values[:n] for name, values in record.items()}
        if not fresh and "history_" in self.__dict__:
            new = {name: np.concatenate([self.history_[name], new[name]]) for name in new}
        self.history_ = new

    # ---------------------------------------------------------------- predicting

    @property
    def _averaged(self) -> bool:
        return self._plan.average_from >= 0

    def _scores(self, X: Any) -> Array:
        """Scores of all outputs, rows x outputs; the caller holds the lock."""
        self._check_fitted()
        n_jobs = resolve_jobs(self.n_jobs)
        if n_jobs == 1:
            quick = self._quick_scores(X)
            if quick is not None:
                return quick
        source, _ = self._open(X)
        learner = self._learner
        out = np.empty((source.n_rows, learner.weights.n_out))
        if n_jobs == 1 or source.n_rows < 1000:
            learner.decide(source, out, self._averaged)
            return out
        if self._averaged:
            learner = self._frozen_learner()
        edges = np.linspace(0, source.n_rows, n_jobs + 1).astype(int).tolist()
        with Team(n_jobs) as team:
            team.each(lambda k: learner.decide(source, out, False, edges[k], edges[k + 1]))
        return out

    def _quick_scores(self, X: Any) -> Array | None:
        """One output of many CSR rows, checked on the way; None to take the usual way."""
        learner = self._learner
        if (
            not isinstance(X, _CSR)
            or X.shape != (X.shape[0], self.n_features_in_)
            or len(X.indices) < 4 * self.n_features_in_
            or self.normalize
            or learner.weights.n_out != 1
            or not isinstance(learner, SGDLearner)
            or "feature_names_in_" in self.__dict__
        ):
            return None
        if self._averaged and learner.weights.averaged_count:
            learner = learner.frozen_average()
        weights, b = learner.weights, float(learner.intercept[0])
        out = np.empty((X.shape[0], 1))
        sound = score_csr(
            X.data, X.indices, X.indptr, X.shape[0], weights.v, weights.scale, b, out[:, 0]
        )
        return out if sound else None

    def _frozen_learner(self) -> SGDLearner:
        """The averaged weights written out, made once per change."""
        if "_frozen" not in self.__dict__:
            self._frozen = self._learner.frozen_average()
        return self._frozen

    def _weights_array(self, averaged: bool) -> Array:
        return np.atleast_2d(self._learner.weights.array(averaged=averaged))

    # ------------------------------------------------------------- for the reader

    def _true_objective(self, source: RowSource, targets: Array, weight: Array | None) -> float:
        return objective(self._learner, self._plan, source, targets, weight, self._averaged)

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
        """Give `coef_` as a CSR matrix from now on; worth it when most weights are zero.

        Returns
        -------
        self
        """
        self._check_fitted()
        self._sparse_coef = True
        return self

    def densify(self) -> Any:
        """Give `coef_` as a dense array again.

        Returns
        -------
        self
        """
        self._check_fitted()
        self._sparse_coef = False
        return self

    def _shown_coef(self, coef: Array) -> Any:
        return sp.csr_matrix(coef) if self.__dict__.get("_sparse_coef") else coef
