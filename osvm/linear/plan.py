"""From constructor parameters to numbers: `resolve_plan` makes the `Plan` of a linear model.

A plan is frozen and complete: nothing below it reads a constructor parameter.  Where t0 is
still open, the first rows give it (`for_stream`), or trials do (`osvm.linear.first_step`).
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from osvm import losses, schedules
from osvm._estimator.threads import resolve_jobs
from osvm._input.parameters import (
    check_bool,
    check_choice,
    check_integer,
    check_number,
    resolve_reg,
)
from osvm._input.schema import (
    Schema,
    adaptive_schema,
    judged_schema,
    meta_schema,
    sgd_schema,
)
from osvm._input.types import Array
from osvm.linear import options
from osvm.linear.adaptive_merging import Layout
from osvm.linear.adaptive_state import AdaptiveLearner
from osvm.linear.learner import SGDLearner
from osvm.linear.scaling import FIXED, first_sq_norm
from osvm.linear.smd import SMDLearner
from osvm.linear.svmd import SVMDLearner
from osvm.schedules import (
    CANDIDATES,
    JOINT,
    NUMBERS,
    PREDICTORS,
    SMD,
    Adaptive,
    Auto,
    Bottou,
    CoinBetting,
    InverseTime,
    Schedule,
)

EPOCHS = 5  # of a fit that does not say
# Numbers that the settings of `Auto` may take together, all of them, the two that are best
# in pairs, or one.
MOST_NUMBERS = ((0b11111, 2**25), (0b01001, 2**25), (0b00001, 2**26))
# What "auto" is with scale="running", for classes; with the average of the tail.
RUNNING = Adaptive(eta0=10.0, normalized=True)
# For a rare class of sparse rows with more columns than rows; with the average of the tail.
BETS = CoinBetting()
# From how many classes on, with at most so many columns to each, they are learnt jointly; and
# with how many columns at most and rows to each at least, whatever the number of classes.
MANY_CLASSES, COLUMNS_PER_CLASS = 10, 5
FEW_COLUMNS, ROWS_TO_EACH = 256, 10
_FLAGS = ("fit_intercept", "normalize", "warm_start", "record")


@dataclass(frozen=True)
class Plan:
    """The parts and numbers that one model is trained with.

    Parameters
    ----------
    loss, schedule : parts of `osvm.losses` and `osvm.schedules`
    reg : float
    C, eta0, t0 : float or None
        For the schedules that ask for them.
    intercept_step : float
        Where b has a step of its own, this / sqrt(t).
    radius : float
        Of the ball for projection; 0 for none.
    average_from : float
        Examples before averaging starts; -1 for no average.
    batch_size : int
    fit_intercept : bool
    error_kind : {"class", "absolute", "novel"}
    delta : array or None
        Label distances of the graph loss.
    open_loss : bool
        Whether the loss was left open: of several classes, some settings of `Auto` learn with
        "multiclass_hinge", the others with `loss`.
    """

    loss: Any
    schedule: Schedule
    reg: float
    C: float | None = None
    eta0: float | None = None
    t0: float | None = None
    intercept_step: float = 1.0
    radius: float = 0.0
    average_from: float = -1.0
    batch_size: int = 1
    fit_intercept: bool = True
    error_kind: str = "class"
    delta: Array | None = None
    open_loss: bool = False

    # What follows from the fields.
    multi_loss: bool = dataclasses.field(init=False, compare=False, repr=False)
    intercept_eta0: float = dataclasses.field(init=False, compare=False, repr=False)
    curvature: float = dataclasses.field(init=False, compare=False, repr=False)
    schedule_reg: float = dataclasses.field(init=False, compare=False, repr=False)
    needs_t0: bool = dataclasses.field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.schedule, Auto) and self.error_kind != "class":
            raise ValueError("schedule 'auto' stands for another one, but for classes")
        if self.lazy and (self.radius == 0.0 or self.reg > 0.0):
            raise ValueError("constant: lazy=True needs a radius, as project=10.0, and reg=0")
        bottou = isinstance(self.schedule, Bottou)
        free = isinstance(self.schedule, Bottou) and self.schedule.t0 is None
        # b has no regularizer, which these schedules rely on: it gets a step of its own
        own_step = bottou or isinstance(self.schedule, InverseTime)
        # a loss whose slope has no bound must not step beyond its example; an explicit t0,
        # or another schedule, is followed as given
        steep = free and not self.loss.multi and self.loss.slope_bound == math.inf
        bound = self.loss.curvature_bound if steep else 0.0
        reg = getattr(self.schedule, "reg", None)
        if reg is None:
            reg = self.reg
        if bottou and reg <= 0:
            raise ValueError(
                f"schedule {self.schedule.name!r} needs reg > 0; without a regularizer choose "
                "'constant' or 'inverse_sqrt'"
            )
        self.__dict__.update(
            schedule_reg=float(reg),
            multi_loss=self.loss.multi,
            intercept_eta0=self.intercept_step if own_step else 0.0,
            curvature=bound if bound < math.inf else 0.0,
            needs_t0=free and self.t0 is None,
        )

    def specs(self) -> tuple[Any, Any]:
        """The compiled loss and step."""
        return self.loss_spec(), self.step_spec()

    def loss_spec(self) -> Any:
        """The compiled loss."""
        return self.loss.spec() if self.delta is None else self.loss.spec(self.delta)

    def step_spec(self) -> Any:
        """The compiled step; a list of them for `Auto`."""
        if isinstance(self.schedule, Auto):
            return self.schedule.specs()
        return self.schedule.spec(reg=self.reg, C=self.C, eta0=self.eta0, t0=self.t0)

    def learner(
        self, n_features: int, n_out: int, dtype: Any, weights: Any = None, *, alive: Any = None
    ) -> SGDLearner:
        """A learner with zero (or the given) weights; of `Auto`, with the settings in `alive`."""
        loss, step = self.specs()
        shared = {
            "reg": self.reg,
            "fit_intercept": self.fit_intercept,
            "error_kind": self.error_kind,
        }
        if isinstance(self.schedule, SMD):
            options.refuse("smd", options.asked_by_plan(self))
            kind = SVMDLearner
            if self.schedule.per_coordinate:
                kind, shared["rest"] = SMDLearner, self.schedule.rest
            return kind(n_features, n_out, dtype, loss, step, **shared)
        if isinstance(self.schedule, Auto):
            everyone = affordable(n_features, n_out) or 1
            return AdaptiveLearner(
                n_features,
                n_out,
                dtype,
                loss,
                step,
                average_from=0.0,
                fit_intercept=self.fit_intercept,
                predictors=PREDICTORS,
                decay=self.schedule.decay,
                alive=everyone if alive is None else everyone & alive or everyone,
                joint=JOINT if self.open_loss else 0,
            )
        if isinstance(self.schedule, Adaptive | CoinBetting):
            options.refuse("adaptive", options.asked_by_plan(self))
            del shared["reg"]  # the step holds it
            shared["average_from"] = self.average_from
            return AdaptiveLearner(n_features, n_out, dtype, loss, step, **shared)
        return SGDLearner(
            n_features,
            n_out,
            dtype,
            loss,
            step,
            radius=self.radius,
            average_from=self.average_from,
            intercept_eta0=self.intercept_eta0,
            batch_size=self.batch_size,
            lazy=self.lazy,
            weights=weights,
            **shared,
        )

    def schema(self, n_features: int, n_out: int, dtype: Any) -> Schema:
        """What the state of such a learner holds."""
        if isinstance(self.schedule, SMD):
            per_coordinate = self.schedule.per_coordinate
            return meta_schema(
                n_features, n_out, dtype, per_coordinate=per_coordinate, reg=self.reg
            )
        if isinstance(self.schedule, Auto):
            return judged_schema(
                n_features,
                n_out,
                dtype,
                normalized=True,
                n_groups=len(CANDIDATES),
                n_candidates=len(CANDIDATES),
                n_predictors=sum(map(int.bit_count, PREDICTORS)),
                open_ended=True,
            )
        if isinstance(self.schedule, Adaptive | CoinBetting):
            return adaptive_schema(
                n_features,
                n_out,
                dtype,
                averaged=self.average_from >= 0,
                normalized=getattr(self.schedule, "normalized", False),
                coin=isinstance(self.schedule, CoinBetting),
            )
        return sgd_schema(
            n_features,
            n_out,
            dtype,
            average_from=self.average_from,
            radius=self.radius,
            batch_size=self.batch_size,
            lazy=self.lazy,
        )

    def layout(self, tail: bool = True, decay: float | None = None) -> Layout:
        """How states of adaptive learners are merged; by default of those of a stream."""
        if decay is None:
            decay = getattr(self.schedule, "decay", 1.0)
        return Layout(self.schedule, self.average_from, tail, decay)

    @property
    def lazy(self) -> bool:
        """Whether steps go on from the weights before their projection."""
        return getattr(self.schedule, "lazy", False)

    def of_size(self, n_features: int, n_out: int, one_size: bool = False) -> Plan:
        """The plan, with `Bottou` for `Auto` where one setting would take too much memory, or
        where steps of one size suit the rows.
        """
        if isinstance(self.schedule, Auto) and (one_size or not affordable(n_features, n_out)):
            return dataclasses.replace(self, schedule=Bottou(), average_from=-1.0)
        return self

    def of_classes(self, n_classes: int, n_features: int, n_rows: int) -> Plan:
        """The plan, with classes learnt jointly if columns are few beside them or the rows.

        Then hardly a class is on one side of a plane, such as the middle one of three that
        are in order, and the errors of the first rows do not show it in time.
        """
        many = n_classes >= MANY_CLASSES and n_classes * COLUMNS_PER_CLASS >= n_features
        few = n_features <= FEW_COLUMNS and n_features * ROWS_TO_EACH <= n_rows
        if not (self.open_loss and n_classes > 2 and (many or few)):
            return self
        return dataclasses.replace(self, loss=losses.MulticlassHinge(), open_loss=False)

    def with_usual_t0(self) -> Plan:
        """t0 from reg and the loss alone, for a stream whose data are not there yet.

        Bottou's rule: the first step moves w about as far as its usual size,
        ``reg**-0.25``.
        """
        return self.with_first_step(self.usual_first_step()) if self.needs_t0 else self

    def for_stream(self, X: Any) -> Plan:
        """t0 for a stream that begins with these rows: the usual one, or a larger one.

        Where the loss has a curvature, the first step corrects at most half of the
        first row's error.  Only that row is looked at, so that the model does not
        depend on how the stream is cut.
        """
        if not self.needs_t0 or self.curvature == 0.0:
            return self.with_usual_t0()
        full_step = 2.0 * self.curvature * first_sq_norm(X)
        return self.with_first_step(min(self.usual_first_step(), 1.0 / max(full_step, 1e-300)))

    def usual_first_step(self) -> float:
        """As far as w usually gets, and no further for a steep loss."""
        size = math.sqrt(1.0 / math.sqrt(self.schedule_reg))
        slope = 1.0 if self.multi_loss else abs(float(self.loss.dloss(1.0, -size)))
        return size / max(1.0, slope)

    def with_first_step(self, eta: float) -> Plan:
        """t0 for a first step of this size."""
        return self._changed(t0=1.0 / max(eta * self.schedule_reg, 1e-300), needs_t0=False)

    def with_intercept_step(self, step: float) -> Plan:
        """The plan of which t0 is open, with this step of b."""
        return self._changed(intercept_step=step, intercept_eta0=step)

    def _changed(self, **numbers: Any) -> Plan:
        """`replace`, without checking again, for each of many labels, what does not change."""
        plan = object.__new__(Plan)
        plan.__dict__.update(self.__dict__, **numbers)
        return plan


def affordable(n_features: int, n_out: int) -> int:
    """The settings of `Auto` (bits) that a model of this size competes with; 0 for none."""
    for alive, most in MOST_NUMBERS:
        if n_features * (1 + 4 * alive.bit_count() * n_out) <= most:
            return alive
    return 0


def one_setting(schedule: Any) -> Any:
    """The schedule where models are mixed or searched: that of `Auto` is then "bottou".

    One that does not exist stays, and is refused by what learns with it.
    """
    is_auto = isinstance(schedule, Auto) or (isinstance(schedule, str) and schedule == Auto.name)
    return Bottou.name if is_auto else schedule


def is_chosen(plan: Plan) -> bool:
    """Whether it is a plan as `Auto` makes them, which may be left for `Bottou`."""
    one = plan.schedule == (BETS if plan.error_kind == "class" else NUMBERS)
    alone = one and plan.average_from == 0.0 and plan.reg == 0.0
    return alone or isinstance(plan.schedule, Auto)


def _resolve_schedule(model: Any, loss: Any, n_rows: int | None, trained: Plan | None) -> Schedule:
    """The schedule of the model; `Bottou` where `Auto` does not go with what is asked for."""
    schedule = schedules.get(model.schedule)
    if getattr(schedule, "capped", None):
        raise ValueError(
            f"{schedule.name}: capped is for kernel estimators; linear ones have "
            "schedule='adaptive', whose steps do not go beyond the example either"
        )
    if isinstance(model.scale, str) and model.scale == "running":
        if isinstance(schedule, Auto):
            return NUMBERS if model._error_kind == "absolute" else RUNNING
        if isinstance(schedule, Adaptive):
            return dataclasses.replace(schedule, normalized=True)
    if not isinstance(schedule, Auto):
        return schedule
    if trained is not None and not is_chosen(trained):
        return trained.schedule if isinstance(trained.schedule, Bottou) else Bottou()
    plain = (
        model.reg is None
        and model.C is None
        and model.project is False
        and model.average is False
        and isinstance(model.batch_size, int)
        and model.batch_size == 1
    )
    if not plain:
        return Bottou()
    if trained is not None and trained.schedule == BETS:
        return BETS
    if model._error_kind == "absolute":
        return NUMBERS
    capped = loss.name != losses.Perceptron.name  # whose steps end with the mistake anyway
    compete = capped and model._error_kind == "class" and model.tol is None
    return schedule if compete else Bottou()


def resolve_epochs(epochs: int | None, plan: Plan, n_rows: int, rare: bool) -> int:
    """Passes of a fit at most: more over few rows, and for `Auto` to find a rare class."""
    if epochs is not None:
        return epochs
    if not is_chosen(plan) and plan.schedule is not RUNNING:
        return EPOCHS
    if isinstance(plan.schedule, Auto):
        visits = math.ceil(20_000 / n_rows)
        if rare:
            return max(10, min(50, visits))
        return max(2, min(visits, max(16, min(50, math.ceil(5_000 / n_rows)))))
    if plan.schedule == BETS:
        return max(3, min(10, math.ceil(5_000 / n_rows)))
    return max(EPOCHS, min(100, math.ceil(4_000 / n_rows)))


def is_open(model: Any) -> bool:
    """Whether the model leaves its loss to the data."""
    return isinstance(model.loss, str) and model.loss == "auto" and model._error_kind == "class"


def find_loss(model: Any) -> Any:
    """The loss of the model's parameters: the hinge where it is left open."""
    return losses.Hinge() if is_open(model) else losses.get(model.loss)


def check_loss(model: Any, loss: Any) -> None:
    """Raise ValueError unless the loss is one of the model's tasks (`Loss.task`)."""
    if loss.task not in model._tasks and loss.task != "any":
        raise ValueError(
            f"loss {loss.name!r} is not for {type(model).__name__}; choose from "
            f"{losses.for_tasks(model._tasks)}"
        )


def resolve_plan(
    model: Any,
    n_rows: int | None,
    delta: Array | None = None,
    trained: Plan | None = None,
    *,
    usual_reg: float | None = None,
) -> Plan:
    """Check every parameter of the model and turn them into parts and numbers.

    Parameters
    ----------
    model : linear estimator
    n_rows : int or None
        Rows of the training set; None in a stream.
    delta : array, optional
        Label distances, for the graph loss.
    trained : Plan, optional
        Of the model that learns on: it knows what an unchanged `C` or "full" was.
    usual_reg : float, optional
        Where neither `reg` nor `C` is given and steps depend on reg.
    """
    loss = find_loss(model)
    if trained is not None and is_open(model) and trained.multi_loss:
        loss = trained.loss  # `Plan.of_classes`
    if loss.task not in model._tasks:
        check_loss(model, loss)
    _check_scale(model, n_rows, trained)
    schedule = _resolve_schedule(model, loss, n_rows, trained)
    auto = any(schedule is chosen for chosen in (NUMBERS, RUNNING, BETS))
    C = model.C
    if trained is not None and C is not None and C == trained.C:
        reg = resolve_reg(model.reg, None, None) if model.reg is not None else trained.reg
    else:
        if usual_reg is None and model._error_kind == "novel" and trained is not None:
            usual_reg = trained.reg
        elif usual_reg is None or not isinstance(schedule, Bottou | InverseTime):
            usual_reg = 0.0 if auto else 1e-4
        reg = resolve_reg(model.reg, C, n_rows, default=usual_reg)
    eta0 = check_number("eta0", model.eta0, 0.0, low_open=True)
    if model.epochs is not None:
        check_integer("epochs", model.epochs, 1)
    if model.tol is not None:
        check_number("tol", model.tol, 0.0)
    if model.shuffle != "full":
        check_bool("shuffle", model.shuffle)
    for name in _FLAGS:
        if not isinstance(getattr(model, name), bool):
            check_bool(name, getattr(model, name))
    if model.n_jobs is not None:
        resolve_jobs(model.n_jobs)
    if model.callback is not None and not callable(model.callback):
        raise ValueError(f"callback must be callable or None, got {model.callback!r}")
    if isinstance(schedule, SMD):
        options.refuse("smd", options.asked(model))
        if schedule.eta0_intercept is not None:
            raise ValueError("smd: eta0_intercept is for kernel machines; leave it at None")
    elif isinstance(schedule, Adaptive | CoinBetting):
        options.refuse("adaptive", options.asked(model))
    if model.scale is not None and not isinstance(schedule, Adaptive):
        options.refuse("steps", options.asked(model))
    if isinstance(schedule, CoinBetting):
        if model.C is not None or model.reg not in (None, 0):
            raise ValueError("schedule 'coin_betting' has no regularizer: leave reg and C alone")
        reg = 0.0
    if eta0 * reg > 1.0 and schedule.keeps_eta0:
        raise ValueError(
            f"eta0 * reg = {eta0 * reg:g} is more than 1, so that each step would flip the "
            f"sign of the weights: lower eta0 to at most 1/reg = {1 / reg:g}"
        )
    average_from = -1.0 if model.average is False else _average_from(model.average)
    return Plan(
        loss=loss,
        schedule=schedule,
        reg=reg,
        C=C,
        eta0=eta0,
        radius=0.0 if model.project is False else _radius(model.project, reg),
        average_from=0.0 if auto or isinstance(schedule, Auto) else average_from,
        batch_size=1 if model.batch_size == 1 else _batch(model.batch_size, n_rows, trained),
        fit_intercept=model.fit_intercept,
        error_kind=model._error_kind,
        delta=delta,
        open_loss=is_open(model) and isinstance(schedule, Auto) and not loss.multi,
    )


def _check_scale(model: Any, n_rows: int | None, trained: Plan | None) -> None:
    """Raise ValueError unless `scale` is known, and can be found."""
    if model.scale is None:
        return
    check_choice("scale", model.scale, [*FIXED, "running"])
    if model.scale in FIXED and n_rows is None and trained is None and model._scaling is None:
        raise ValueError(
            f"scale={model.scale!r} looks at all rows before it learns: call fit first, or choose "
            "scale='running'"
        )


def _radius(project: Any, reg: float) -> float:
    """0 for no projection, 1/sqrt(reg) for True, or the radius that was given."""
    if isinstance(project, bool | np.bool_):
        if not project:
            return 0.0
        if reg <= 0:
            raise ValueError(
                "project=True projects onto the ball of radius 1/sqrt(reg) and "
                "needs reg > 0; without it give the radius: project=10.0"
            )
        return float(reg**-0.5)
    return float(check_number("project", project, 0.0, low_open=True))


def _batch(batch_size: Any, n_rows: int | None, trained: Plan | None) -> int:
    """Examples per step; "full" is all rows of `fit`."""
    if isinstance(batch_size, str):
        check_choice("batch_size", batch_size, ["full"])
        if n_rows is None and trained is not None:
            return trained.batch_size
        if n_rows is None:
            raise ValueError("batch_size='full' needs all rows at once: use fit, or a number")
        return n_rows
    return int(check_integer("batch_size", batch_size, 1))


def _average_from(average: Any) -> float:
    """-1 for no average, else the number of examples before it starts."""
    if isinstance(average, bool | np.bool_):
        return 0.0 if average else -1.0
    return float(check_integer("average", average, 0))
