"""Rounds of learning and merging, on any engine.

Iterative parameter mixing (McDonald, Hall, Mann 2010): in each round the model is sent to the
workers, every block learns one pass from there, and the results are merged, weighted by rows.
A first light pass agrees on labels and columns unless the labels are given.

Invariants
- the model after r rounds depends on blocks, parameters and seed alone, bit for bit: not on
  the engine, the number of workers, the order of arrival, or tasks that were lost;
- the driver holds one model and one message at a time, whatever the number of blocks;
- the user's model changes when all rounds are over, or not at all; what a round has made is in
  the checkpoint before the next one begins.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from osvm._estimator.compat import clone
from osvm._input.labels import LabelIndex
from osvm._input.parameters import check_bool, check_integer, check_number, make_generator
from osvm.distributed.blocks import (
    Census,
    Part,
    Shared,
    count,
    fold_census,
    fold_parts,
    has_sets,
    is_auto,
    is_classifier,
    learn,
)
from osvm.distributed.merging import comparable
from osvm.distributed.optimum import (
    LBFGS,
    Problem,
    Sums,
    check_smooth,
    class_factors,
    diagonal,
    fold_sums,
    gradient,
)
from osvm.distributed.tree import InProcess
from osvm.io.archive import check_folder
from osvm.io.encoding import decode
from osvm.io.models import CLASSES, from_bytes, load_all, save, to_bytes
from osvm.kernel.base import KernelEstimator
from osvm.linear import LinearClassifier, LinearRegressor, MultilabelClassifier, options
from osvm.linear.base import LinearEstimator
from osvm.linear.plan import one_setting, resolve_plan
from osvm.linear.training import begin_round, settle
from osvm.schedules import Bottou
from osvm.stream import read

PURE = 0.5  # of the labels' entropy told by the block: from there on mixing suffers


@dataclass(frozen=True)
class Options:
    """What `fit` may be told.

    Parameters
    ----------
    classes : array, optional
        All labels.  Without them a first pass over the blocks collects them.
    rounds : int, default 5
        Passes over all blocks.  With the default schedule a classifier or regressor answers
        with the average of the last round's iterates.
    tol : float, optional
        After one round go on to the optimum of the objective by L-BFGS, with one gradient a
        round, until two steps in a row lower the objective by less than this fraction, or
        `rounds` are over (100 unless given).  For smooth losses, and the hinge smoothed.
    checkpoint : path, optional
        A model file, written after each round.
    resume : bool, default False
        Go on from `checkpoint`, if it is there, to the bits of a run that was not stopped.
    validation : (X, y), optional
        Held-out rows, scored by the driver after each round; the best round's model is kept,
        and `patience` rounds without a better one stop.
    patience : int, default 2
    read : dict, optional
        Options of `osvm.stream.read` for blocks that are file names.
    verbose : bool, default False
        Print a line per round.
    """

    classes: Any = None
    rounds: int | None = None
    tol: float | None = None
    checkpoint: Any = None
    resume: bool = False
    validation: Any = None
    patience: int = 2
    read: dict[str, Any] | None = None
    verbose: bool = False

    def __post_init__(self) -> None:
        if self.rounds is not None and (
            isinstance(self.rounds, bool)
            or not isinstance(self.rounds, int | np.integer)
            or self.rounds < 1
        ):
            raise ValueError(f"rounds must be at least 1, got {self.rounds!r}")
        if self.tol is not None:
            check_number("tol", self.tol, 0.0, low_open=True)
        check_integer("patience", self.patience, 1)
        check_bool("resume", self.resume)
        if self.resume and self.checkpoint is None:
            raise ValueError("resume=True needs checkpoint=, the file to go on from")
        if self.checkpoint is not None:
            check_folder(self.checkpoint)
        pair = self.validation
        if pair is not None and (not isinstance(pair, tuple | list) or len(pair) != 2):
            raise ValueError("validation must be a pair (X, y) of held-out rows")


def fit(model: Any, blocks: Sequence[Any], *, engine: Any = None, **options: Any) -> Any:
    """Train a model on blocks of rows by rounds of learning and merging.

    Parameters
    ----------
    model : estimator with `partial_fit`
        A linear model, `MultilabelClassifier`, or a kernel model of streams; fitted or not.
        It is changed in place, at the end.
    blocks : sequence
        Each is (X, y), (X, y, sample_weight) or X; or a function without arguments that
        gives one of these, or an iterable of them (such as a reader of `osvm.stream`); or
        the name of a file.
    engine : object, optional
        Where tasks run; this process by default.  See `osvm.dask`, `osvm.spark`, `osvm.ray`.
    **options
        The fields of `Options`: classes, rounds, tol, checkpoint, resume, validation,
        patience, read, verbose.

    Returns
    -------
    model
        With `rounds_`, a list of figures per round.

    Examples
    --------
    >>> import numpy as np, osvm
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> blocks = [(X[k::4], y[k::4]) for k in range(4)]
    >>> model = osvm.distributed.fit(osvm.LinearClassifier(random_state=0), blocks, rounds=3)
    >>> model.t_, len(model.rounds_)
    (1200, 3)
    """
    return fit_on(InProcess() if engine is None else engine, model, blocks, Options(**options))


def fit_on(engine: Any, model: Any, blocks: Sequence[Any], asked: Options) -> Any:
    """`fit` on an engine, with its options collected."""
    _check_model(model)
    blocks = [
        partial(read, block, **(asked.read or {}))
        if isinstance(block, str | os.PathLike)
        else block
        for block in blocks
    ]
    if not blocks:
        raise ValueError("there are no blocks to learn from")
    with model._lock.writing():
        if asked.tol is not None:
            plan = resolve_plan(model, 1) if isinstance(model, LinearEstimator) else None
            check_smooth(model, getattr(plan, "loss", None), getattr(plan, "radius", 0.0))
        run = _Run(engine, model, blocks, asked)
        current = run.all_rounds()
        with model._lock.holding():
            for name, value in current.__dict__.items():
                if name not in current.get_params(deep=False):
                    model.__dict__[name] = value
            run.restore_C(model)
            model.rounds_ = run.figures
    return model


def _check_model(model: Any) -> None:
    """Raise unless rounds can train such a model."""
    if not isinstance(model, LinearEstimator | MultilabelClassifier | KernelEstimator):
        raise TypeError(
            f"rounds train linear and kernel models of streams, not {type(model).__name__}"
        )
    if isinstance(model, KernelEstimator):
        return
    inner = model._new_inner() if isinstance(model, MultilabelClassifier) else model
    options.refuse("rounds", options.asked(inner))
    if inner.batch_size == "full":
        raise ValueError("batch_size='full' needs all rows at once: give a number")
    resolve_plan(inner, 1)


class _Run:
    """The state of one `fit`."""

    def __init__(self, engine: Any, model: Any, blocks: list[Any], asked: Options) -> None:
        self.engine, self.blocks, self.asked = engine, blocks, asked
        self.figures: list[dict[str, Any]] = []
        self.scores: list[float] = []
        self.best: bytes | None = None
        smooth = asked.tol is not None
        self.estimator = plain(model, one=smooth)
        self.averages = asked.tol is None and _answers_averaged(model)
        if self.averages:
            self.estimator.set_params(average=True)
        self.params = comparable(self.estimator)
        self.C: Any = getattr(model, "C", None)
        self.warned = False
        self.seed = int(make_generator(getattr(model, "random_state", None)).integers(2**53))
        self.current: Any = (
            plain(model, fitted=True, one=smooth) if "t_" in model.__dict__ else None
        )
        self.done = 0
        self.labels: dict[Any, int] = {}  # rows of each class
        self.solver: LBFGS | None = None
        if asked.resume and os.path.exists(asked.checkpoint):
            self._resume()

    # -------------------------------------------------------------- all rounds

    def all_rounds(self) -> Any:
        asked = self.asked
        n = asked.rounds or (5 if asked.tol is None else 100)
        if self.done < n and not self._is_over():
            self.classes = self._agree()
        while self.done < n and not self._is_over():
            if asked.tol is None or self.current is None or self.done == 0:
                self._round()
            else:
                self._gradient_round()
        answer = self.current if self.best is None else from_bytes(self.best)
        if self.averages and answer.average:
            _keep_average(answer)
        return answer

    def _round(self) -> None:
        began = time.perf_counter()
        if self.averages and self.current is not None:  # the answer is the mean of one round
            self.current._learner.weights.start_average()
            self.current._learner.intercept_sum[:] = 0.0
        if self.current is not None and is_auto(self.current):
            begin_round(self.current._learner)
        before = None if self.current is None else to_bytes(self.current)
        estimator = self.estimator
        if self.asked.tol is not None and before is None and not estimator.average:
            # the average of the iterates is where L-BFGS starts best
            estimator = clone(estimator).set_params(average=True)
        shared = Shared(estimator, before, self.classes, self.seed, self.done)
        part: Part = self.engine.reduce(
            learn, self.blocks, fold_parts, self.engine.broadcast(shared)
        )
        if part.model is None:
            raise ValueError(f"all {len(self.blocks)} blocks are empty")
        self._warn_if_pure(part.census)
        self.labels = part.census.labels
        old = (0, 0.0) if self.current is None else (int(self.current.t_), _losses(self.current))
        self.current = from_bytes(part.model)
        if is_auto(self.current):  # the settings were judged in all blocks: the best one answers
            settle(self.current._learner, self.current._plan.schedule, averaged=True)
        if estimator is not self.estimator:
            _keep_average(self.current)
        rows = int(self.current.t_) - old[0]
        self.finish_round(
            {
                "rows": rows,
                "empty": part.census.empty,
                "loss": (_losses(self.current) - old[1]) / rows,
                "seconds": time.perf_counter() - began,
            }
        )

    def _gradient_round(self) -> None:
        """The objective and its gradient at one point, and the step that follows from it."""
        began, model, asked = time.perf_counter(), self.current, self.asked
        assert asked.tol is not None
        learner, plan = model._learner, model._plan
        K, d = learner.weights.n_out, learner.weights.dim
        if self.solver is None:
            W = np.atleast_2d(learner.weights.array(averaged=model._averaged))
            b = learner.average_intercept() if model._averaged else learner.intercept
            self.solver = LBFGS(np.append(W.ravel(), b), asked.tol)
        kind = learner.weights.v.dtype
        self.solver.asked[: K * d] = self.solver.asked[: K * d].astype(kind)
        W, b = self.solver.asked[: K * d].reshape(K, d), self.solver.asked[K * d :]
        index = model.__dict__.get("_index")
        factors = None
        if index is not None:
            factors = class_factors(model.class_weight, index, self.labels)
        problem = Problem(
            self.estimator,
            plan.loss,
            None if index is None else index.classes,
            factors,
            W.astype(kind),
            b,
            with_squares=self.solver.slope is None,
        )
        shared = self.engine.broadcast(problem)
        sums: Sums = self.engine.reduce(gradient, self.blocks, fold_sums, shared)
        loss = sums.value / sums.rows
        sums = sums.rounded(np.float64)
        slope = np.append((sums.W / sums.rows + plan.reg * W).ravel(), sums.b / sums.rows)
        if not plan.fit_intercept:
            slope[K * d :] = 0.0
        value = loss + 0.5 * plan.reg * float(np.vdot(W, W))
        if sums.squares is not None:
            self.solver.diagonal = diagonal(sums, plan.loss, plan.reg)
        if self.solver.tell(value, slope):
            self.current = copy.deepcopy(model)
            self.current._learner.weights.set_array(W if K > 1 else W[0])
            self.current._learner.intercept[:] = b
            self.current._changed()
        self.finish_round(
            {
                "rows": sums.rows,
                "empty": 0,
                "loss": loss,
                "objective": value,
                "gradient": float(np.abs(slope).max()),
                "seconds": time.perf_counter() - began,
            }
        )

    def finish_round(self, figures: dict[str, Any]) -> None:
        """Count, score, save and report what a round has made."""
        self.done += 1
        if self.asked.validation is not None:
            figures["score"] = float(self.current.score(*self.asked.validation))
            if figures["score"] > max(self.scores, default=-np.inf):
                self.best = to_bytes(self.current)
            self.scores.append(figures["score"])
        self.figures.append(figures)
        if self.asked.checkpoint is not None:
            self._save()
        if self.asked.verbose:
            print(_line(self.done, figures), file=sys.stderr, flush=True)

    def _is_over(self) -> bool:
        """Whether L-BFGS is through, or the score has not risen for `patience` rounds."""
        if self.solver is not None and self.solver.done:
            return True
        if not self.scores:
            return False
        return len(self.scores) - 1 - int(np.argmax(self.scores)) >= self.asked.patience

    # ---------------------------------------------------------------- agreement

    def _agree(self) -> list[Any] | None:
        """All labels, given or counted; a first pass where they, or rows for `C`, are needed."""
        classifies = is_classifier(self.estimator)
        given = self.asked.classes
        if not classifies and given is not None:
            raise ValueError(f"{type(self.estimator).__name__} has no classes")
        if given is not None:
            given = np.asarray(given).tolist()
        if (given is not None or not classifies) and self.C is None:
            return given
        shared = self.engine.broadcast(Shared(self.estimator))
        census: Census = self.engine.reduce(count, self.blocks, fold_census, shared)
        if census.rows == 0:
            raise ValueError(f"all {len(self.blocks)} blocks are empty")
        known = None if self.current is None else int(self.current.n_features_in_)
        if known is not None and known != census.columns:
            raise ValueError(f"the blocks have {census.columns} columns, the model {known}")
        self._warn_if_pure(census)
        if self.C is not None:
            self._resolve_C(census.rows)
        if given is not None or not classifies:
            return given
        # sorted as `fit` sorts them; labels of several types are an error here
        labels = LabelIndex.of(_label_array(census.labels)).classes.tolist()
        if len(labels) < 2 and self.current is None and not has_sets(self.estimator):
            raise ValueError(f"the blocks hold one class only ({labels[0]!r})")
        return labels

    def _warn_if_pure(self, census: Census) -> None:
        if self.warned or has_sets(self.estimator) or census.blocks - census.empty < 2:
            return
        if census.purity() > PURE:
            self.warned = True
            warnings.warn(
                f"the blocks are nearly pure: they tell {census.purity():.0%} of what the labels "
                "hold, so that merged models have hardly seen the same classes. Spread the "
                "rows over the blocks (osvm convert --shuffle, or rechunk after a shuffle)",
                stacklevel=6,
            )

    def _resolve_C(self, rows: int) -> None:
        """`C` stands for reg = 1/(C n), which a stream of unknown length does not know."""
        self.estimator = clone(self.estimator).set_params(C=None, reg=1.0 / (self.C * rows))

    def restore_C(self, model: Any) -> None:
        """The model says C, as its maker did, and has learnt with the reg that it stands for."""
        if self.C is not None and isinstance(model, LinearEstimator):
            model._plan = dataclasses.replace(model._plan, C=self.C)
            model._keep_plan_values()

    # --------------------------------------------------------------- checkpoints

    def _save(self) -> None:
        state = {
            "rounds": self.done,
            "blocks": len(self.blocks),
            "seed": self.seed,
            "scores": self.scores,
            "figures": self.figures,
            "warned": self.warned,
            "averages": self.averages,
            "labels": self.labels,
            "solver": None,
        }
        arrays = {"best": np.frombuffer(self.best or b"", np.uint8)}
        if self.solver is not None:
            if self.solver.is_searching:  # the checkpoint before has the last accepted point
                return
            state["solver"], found = self.solver.get_state()
            arrays |= {f"solver_{name}": array for name, array in found.items()}
        save(self.current, self.asked.checkpoint, stream=(state, arrays))

    def _resume(self) -> None:
        path = self.asked.checkpoint
        model, header, arrays = load_all(path)
        state = decode(header["stream"]) if header["stream"] else {}
        if "rounds" not in state or type(model) is not type(self.estimator):
            raise ValueError(f"{path} is not a checkpoint of such a run")
        found = comparable(model)
        for name, value in self.params.items():
            if name not in ("C", "reg") and found[name] != value:
                raise ValueError(f"{path} was made with {name}={found[name]!r}, not {value!r}")
        averages = state.get("averages", False)
        if averages != self.averages:
            raise ValueError(f"{path} was made with average={not averages}, not {averages}")
        if state["blocks"] != len(self.blocks):
            raise ValueError(
                f"{path} was made with {state['blocks']} blocks, not {len(self.blocks)}"
            )
        self.current, self.done, self.seed = model, state["rounds"], state["seed"]
        self.scores, self.figures = state["scores"], state["figures"]
        self.warned = state["warned"]
        self.best = arrays["best"].tobytes() or None
        self.labels = state["labels"]
        if state["solver"] is not None:
            vectors = {k[7:]: array for k, array in arrays.items() if k.startswith("solver_")}
            self.solver = LBFGS.from_state(state["solver"], vectors, self.asked.tol or 0.0)


def plain(model: Any, fitted: bool = False, one: bool = False) -> Any:
    """A copy, of the class that model files know, without what is only for this process.

    `one` stands for one setting, with a regularizer, where `Auto` would choose.
    """
    cls = next(c for c in type(model).__mro__ if CLASSES.get(c.__name__) == c.__module__)
    params = model.get_params(deep=False)
    silent = {"callback": None, "verbose": False}
    params |= {name: value for name, value in silent.items() if name in params}
    if one and isinstance(model, LinearEstimator | MultilabelClassifier):
        params["schedule"] = one_setting(params["schedule"])
    out = cls(**{name: copy.copy(value) for name, value in params.items()})
    if fitted and one and isinstance(model, LinearEstimator):
        out._set_state(*model._get_plain_state())
    elif fitted:
        out._set_state(*model._get_state())
    return out


def _answers_averaged(model: Any) -> bool:
    """Whether rounds average their iterates unasked, where "auto" comes to be "bottou"."""
    return (
        isinstance(model, LinearClassifier | LinearRegressor)
        and "t_" not in model.__dict__
        and model.average is False
        and one_setting(model.schedule) != model.schedule
        and isinstance(resolve_plan(model, 1).schedule, Bottou)
    )


def _keep_average(model: Any) -> None:
    """The averaged weights as those of a model without averaging."""
    W, b = model._learner.weights.array(averaged=True), model._learner.average_intercept()
    model.set_params(average=False)
    model._learner, model._plan = model._going_on(None, None)
    model._learner.weights.set_array(W)
    model._learner.intercept[:] = b
    model._keep_plan_values()
    model._changed()


def _losses(model: Any) -> float:
    """The sum of the losses that examples had before their steps."""
    if isinstance(model, MultilabelClassifier):
        return model._totals()[0]
    if isinstance(model, KernelEstimator):
        return float(model._machine.state.loss_sum)
    return float(model._learner.loss_sum)


def _label_array(labels: dict[Any, int]) -> Any:
    kinds = {"number" if isinstance(k, int | float) else type(k).__name__ for k in labels}
    if len(kinds) > 1:
        raise ValueError(f"the blocks have labels of several types: {sorted(kinds)}")
    return np.array(list(labels))


def _line(number: int, figures: dict[str, Any]) -> str:
    parts = [f"round {number}: {figures['rows']} rows, average loss {figures['loss']:.6f}"]
    if "score" in figures:
        parts.append(f"held-out score {figures['score']:.4f}")
    if "gradient" in figures:
        parts.append(f"gradient {figures['gradient']:.2e}")
    if figures["empty"]:
        parts.append(f"{figures['empty']} empty blocks")
    return ", ".join([*parts, f"{figures['seconds']:.1f} s"])
