"""Serialization of a linear model: for model files, checkpoints and pickles.

The learner is compiled; its state and the plan that it was trained with are enough to make
it again.  Parameters may change after training (`set_params`): the plan stays until the
next call that learns, which follows the parameters or raises (`_going_on`).
"""

from __future__ import annotations

import dataclasses
import operator
from typing import Any, ClassVar

import numpy as np

import osvm.linear.one_row as one_row
from osvm import losses, schedules
from osvm._estimator.base import OnlineEstimator
from osvm._input.parameters import generator_state, resolve_reg, restore_generator
from osvm._input.schema import ArrayField, Field, Schema
from osvm._input.types import Array
from osvm.linear.learner import SGDLearner
from osvm.linear.plan import Plan, check_loss, is_chosen, resolve_plan
from osvm.linear.scaling import CENTER, FIXED, Scaling
from osvm.linear.scores import Platt

_NUMBER = Field("float", 0.0)
_STATE = {
    "learner": Field("dict"),
    "dtype": Field("str", choices=("float32", "float64")),
    "n_out": Field("int", 1, 2**31),
    "reg": _NUMBER,
    "t0": Field("float", none=True),
    "rng": Field("dict", none=True),
    "plan": Field("dict", optional=True),  # not in the first files of format 1
    "scale": Field("str", choices=(*FIXED, CENTER), optional=True),
}
_PLAN = {
    "C": Field("float", 0.0, none=True),
    "eta0": Field("float", 0.0, none=True),
    "radius": _NUMBER,
    "average_from": Field("float", -1.0, 2.0**53),
    "batch_size": Field("int", 1, 2**53),
    "fit_intercept": Field("flag"),
    "intercept_step": Field("float", 1e-300, 1e300),
    "open_loss": Field("flag"),
}
# Parameters that the plan of a model is made from.
PLAN_PARAMS = (
    "loss", "reg", "C", "schedule", "eta0", "project", "average", "batch_size", "fit_intercept",
    "scale",
)  # fmt: skip
_is, _plan_values = operator.is_, operator.itemgetter(*PLAN_PARAMS)


class PlanParams:
    """Mixin that knows whether parameters have changed since the plan was made."""

    def _plan_is_current(self) -> bool:
        """Whether the plan is that of the parameters as they are now."""
        known = self.__dict__
        values = known.get("_plan_values")
        return values is not None and all(map(_is, values, _plan_values(known)))

    def _keep_plan_values(self) -> None:
        self._plan_values = _plan_values(self.__dict__)


class LinearState(PlanParams, OnlineEstimator):
    """State of the linear estimators, in and out."""

    C: float | None
    scale: str | None
    _error_kind: str
    _learner: SGDLearner
    _plan: Plan
    _rng: np.random.Generator | None
    _platt: Platt | None
    _scaling: Scaling | None

    def _changed(self) -> None:
        raise NotImplementedError

    def _get_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        scalars = self._get_base_state()
        learner_scalars, arrays = self._learner.get_state()
        plan = self._plan
        scalars |= {
            "learner": learner_scalars,
            "dtype": str(self._learner.weights.v.dtype),
            "n_out": int(self._learner.weights.n_out),
            "reg": plan.reg,
            "t0": plan.t0,
            "rng": None if self._rng is None else generator_state(self._rng),
            "plan": _saved(plan),
        }
        if self._platt is not None:
            arrays["platt"] = self._platt.state.copy()
        if plan.delta is not None:
            arrays["delta"] = plan.delta.copy()
        if self._scaling is not None:
            scalars["scale"] = self._scaling.kind
            arrays |= self._scaling.arrays()
        return scalars, arrays

    def _get_plain_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """`_get_state`; of what `Auto` chose, with the weights that answer as `Bottou`'s."""
        scalars, arrays = self._get_state()
        if is_chosen(self._plan):
            plan, (learner, weights) = _plain(self._plan, self._learner)
            kept = ("platt", "delta", "column_factors", "column_center")
            arrays = {k: arrays[k] for k in kept if k in arrays} | weights
            scalars |= {"learner": learner, "t0": plan.t0, "reg": plan.reg}
            scalars["plan"] = _saved(plan)
        return scalars, arrays

    def _set_state(self, scalars: dict[str, Any], arrays: dict[str, Array]) -> None:
        self._check_scalars(scalars, {**_STATE, **self._state_fields})
        arrays = dict(arrays)
        sigmoids = arrays.pop("platt", None)
        plan = self._restored_plan(scalars, arrays, arrays.pop("delta", None))
        n_features, n_out = scalars["n_features_in"], scalars["n_out"]
        scaling = Scaling.from_state(scalars.get("scale"), arrays, n_features)
        self._check_outputs(scalars, plan)
        platt = None if sigmoids is None else Platt.from_state(sigmoids, n_out)
        # before memory is allocated for what the header says
        plan.schema(n_features, n_out, scalars["dtype"]).check_layout(scalars["learner"], arrays)
        learner = plan.learner(n_features, n_out, scalars["dtype"])
        learner.set_state(scalars["learner"], arrays)
        rng = None if scalars["rng"] is None else restore_generator(scalars["rng"])
        self._set_base_state(scalars)
        self._platt, self._scaling = platt, scaling
        self._learner, self._plan, self._rng = learner, plan, rng
        self.__dict__.pop("_plan_values", None)
        self.__dict__.pop("_one", None)
        self._changed()

    _state_fields: ClassVar[dict[str, Field]] = {}  # of the estimator, beside those of all

    def _check_outputs(self, scalars: dict[str, Any], plan: Plan) -> None:
        """Raise ValueError unless a model of this plan has as many outputs."""
        if scalars["n_out"] != 1:
            raise ValueError(f"{scalars['n_out']} outputs, where the model has one")

    def _restored_plan(
        self, scalars: dict[str, Any], arrays: dict[str, Array], delta: Array | None
    ) -> Plan:
        """The plan of a saved model."""
        saved, reg, t0 = scalars.get("plan"), scalars["reg"], scalars["t0"]
        if saved is None:
            # The first files of format 1 do not tell: what the parameters say, as far as
            # the arrays agree.
            counts = [scalars["learner"].get(name, 1) for name in ("seen", "t")]
            n_rows = max(1, round(counts[0] / max(counts[1], 1)))
            if self.C is not None:
                n_rows = max(1, round(1 / (self.C * reg)))
            plan = resolve_plan(self, n_rows, self._present_delta(scalars.get("classes")))
            average_from = max(plan.average_from, 0.0) if "w_u" in arrays else -1.0
            return dataclasses.replace(plan, reg=reg, t0=t0, average_from=average_from)
        saved = {"open_loss": False, **saved}  # which the first files do not have
        if set(saved) != {"loss", "schedule", *_PLAN}:
            raise ValueError("the saved plan has other fields than it should")
        numbers = {name: saved[name] for name in _PLAN}
        Schema("plan", _PLAN, {}).check(numbers, {})
        loss, schedule = losses.get(saved["loss"]), schedules.get(saved["schedule"])
        check_loss(self, loss)
        if loss.needs_distances:
            shape = (scalars["n_out"], scalars["n_out"])
            schema = Schema("plan", {}, {"delta": ArrayField(shape, low=0.0, high=1e100)})
            schema.check({}, {} if delta is None else {"delta": delta})
        elif delta is not None:
            raise ValueError(f"label distances do not go with loss {loss.name!r}")
        plan = Plan(
            loss, schedule, reg, t0=t0, error_kind=self._error_kind, delta=delta, **numbers
        )
        plan.specs()  # refuses numbers that the parts cannot have
        return plan

    def _present_delta(self, labels: Any = None) -> Array | None:
        """Label distances by the parameters as they are now, for saved labels or the model's."""
        return None

    # ------------------------------------------------ parameters that have changed

    # What a plan is made from or is checked with, and what the fast path of one example needs;
    # not every estimator has all of them.
    _watched = frozenset((*PLAN_PARAMS, "taxonomy", "tol", "shuffle", *one_row.UNUSUAL))

    def _watched_changed(self) -> None:
        """A parameter was set, by `set_params` or by assignment."""
        for name in ("_one", "_plan_values"):  # they were made for the parameters of before
            self.__dict__.pop(name, None)

    def _going_on(self, n_rows: int | None, source: Any) -> tuple[SGDLearner, Plan]:
        """Learner and plan to learn on with.

        They are the present ones, or where parameters have changed since, a plan of the
        parameters as they are now and a copy of the learner that follows it.
        """
        old, learner = self._plan, self._learner
        if self._plan_is_current():
            return learner, old
        plan = resolve_plan(self, n_rows, self._present_delta(), old)
        present = None if self._scaling is None else self._scaling.asked
        if present != (self.scale if self.scale in FIXED else None):
            raise ValueError(
                f"scale cannot change from {present!r} to {self.scale!r} in mid-stream: use fit"
            )
        if plan.multi_loss != old.multi_loss or (plan.delta is None) != (old.delta is None):
            raise ValueError(
                f"the loss cannot change from {old.loss.name!r} to {plan.loss.name!r} in "
                "mid-stream: use fit"
            )
        left = is_chosen(old) and not _kind(plan)
        if not left and _kind(plan) != _kind(old):
            raise ValueError(
                f"schedule {old.schedule!r} cannot be swapped with {plan.schedule!r} in "
                "mid-stream: use fit"
            )
        same = all(
            getattr(plan, f.name) == getattr(old, f.name)
            for f in dataclasses.fields(Plan)
            if f.init and f.name not in ("t0", "intercept_step", "delta")
        )
        deltas: Any = plan.delta, old.delta
        if same and (plan.delta is old.delta or np.array_equal(*deltas)):
            self._keep_plan_values()
            return learner, old
        if (plan.schedule, plan.reg) == (old.schedule, old.reg):
            plan = dataclasses.replace(plan, t0=old.t0, intercept_step=old.intercept_step)
        plan = plan.for_stream(source)
        weights = learner.weights
        if plan.batch_size != old.batch_size and learner.pending_examples:
            learner = learner.copy()
            learner.flush()
        if left:  # what is asked for now does not go with it
            old, (scalars, arrays) = _plain(old, learner)
        else:
            scalars, arrays = learner.get_state()
        state = _followed(scalars, arrays, old, plan)
        adapted = plan.learner(weights.dim, weights.n_out, weights.v.dtype)
        adapted.set_state(*state)
        return adapted, plan

    # The learner is compiled; pickles carry its state instead.
    def __getstate__(self) -> dict[str, Any]:
        getstate = getattr(super(), "__getstate__", None)
        state = dict(getstate() if getstate is not None else self.__dict__)
        for name in ("_frozen", "_progress", "_one"):
            state.pop(name, None)
        if "_learner" in state:
            learner = state.pop("_learner")
            weights = learner.weights
            state["_learner_state"] = (
                weights.dim,
                weights.n_out,
                weights.v.dtype.str,
                learner.get_state(),
            )
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        saved = state.pop("_learner_state", None)
        setstate = getattr(super(), "__setstate__", None)
        if setstate is not None:
            setstate(state)
        else:
            self.__dict__.update(state)
        if saved is not None:
            dim, n_out, dtype, parts = saved
            learner = self._plan.learner(dim, n_out, np.dtype(dtype))
            learner.set_state(*parts)
            self._learner = learner


def _saved(plan: Plan) -> dict[str, Any]:
    """What a state holds of a plan, beside reg, t0 and delta."""
    return {name: getattr(plan, name) for name in ("loss", "schedule", *_PLAN)}


def _kind(plan: Plan) -> tuple[Any, ...]:
    """What a learner's state depends on: empty for plain steps."""
    schedule = plan.schedule
    if isinstance(schedule, schedules.SMD):
        return ("smd", schedule.per_coordinate, schedule.rest)
    if isinstance(schedule, schedules.Auto):
        return ("auto",)
    if isinstance(schedule, schedules.Adaptive):
        average = (plan.average_from, schedule.tail)
        return ("adaptive", schedule.normalized, schedule.mirror, *average)
    if isinstance(schedule, schedules.CoinBetting):
        return ("coin betting", plan.average_from, schedule.tail)
    return ()


def _plain(plan: Plan, learner: Any) -> tuple[Plan, tuple[dict[str, Any], dict[str, Array]]]:
    """A plan with `Bottou` for `Auto`, and the state of a learner with the weights that answer."""
    reg = resolve_reg(None, None, None)
    plan = dataclasses.replace(plan, schedule=schedules.Bottou(), reg=reg, average_from=-1.0)
    plan = plan.with_usual_t0()
    plain = plan.learner(learner.n_features, learner.n_out, learner.dtype)
    plain.weights.set_array(learner.weight_array(True))
    plain.intercept[:] = learner.average_intercept()
    scalars, arrays = plain.get_state()
    figures = {name: getattr(learner, name) for name in ("seen", "loss_sum", "error_sum")}
    return plan, (scalars | figures | {"t": learner.seen}, arrays)


def _followed(
    scalars: dict[str, Any], arrays: dict[str, Array], old: Plan, plan: Plan
) -> tuple[dict[str, Any], dict[str, Array]]:
    """The state of a learner with plan `old`, made to fit a learner with `plan`."""
    if _kind(plan):
        return scalars, arrays  # their options leave the state as it is
    scalars = {**scalars, "eta": plan.step_spec().eta}
    if plan.average_from != old.average_from:  # an average begins anew, or ends
        arrays.pop("w_u", None)
        zero = np.zeros_like(arrays["intercept"])
        if "w_avg_scale" in scalars:
            scalars["w_avg_scale"] = 0.0
        else:
            arrays["w_avg_scale"] = zero.copy()
        scalars |= {"w_averaging": 0, "w_avg_count": 0.0, "w_low": 1e-9, "w_high": 1e9}
        arrays["intercept_sum"] = zero
        if plan.average_from >= 0:
            arrays["w_u"] = np.zeros_like(arrays["w_v"])
    if plan.lazy:
        arrays.setdefault("lift", np.ones_like(arrays["intercept"]))
    else:
        arrays.pop("lift", None)
    if plan.radius > 0 and not scalars["w_track_norm"]:
        sq = np.square(arrays["w_v"], dtype=np.float64).sum(axis=0)
        if "w_sq_v" in scalars:
            scalars["w_sq_v"] = float(sq)
        else:
            arrays["w_sq_v"] = sq
    scalars["w_track_norm"] = int(plan.radius > 0)
    if plan.batch_size != old.batch_size:
        for name in ("grad", "grad_b", "touched"):
            arrays.pop(name, None)
        scalars |= {"pending": 0.0, "touched_all": 0}
        if plan.batch_size > 1:
            v = arrays["w_v"]
            arrays |= {
                "grad": np.zeros((len(v), v.size // len(v)), v.dtype),
                "grad_b": np.zeros_like(arrays["intercept"]),
                "touched": np.empty(0, np.int64),
            }
    return scalars, arrays
