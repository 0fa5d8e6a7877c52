"""What is kept of a linear model: for model files, checkpoints and pickles.

The learner is compiled; its state, and what the data decided about the plan (the
regulariser, t0), are enough to make it again.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from osvm._base import (
    OnlineEstimator,
    check_choice,
    check_integer,
    check_number,
    generator_state,
    restore_generator,
)
from osvm._linear_fit import Plan
from osvm._platt import Platt
from osvm._sgd import SGDLearner

Array = npt.NDArray[Any]


class LinearState(OnlineEstimator):
    """State of the linear estimators, in and out."""

    C: float | None
    _learner: SGDLearner
    _plan: Plan
    _rng: np.random.Generator | None
    _platt: Platt | None

    def _resolve_plan(self, n_rows: int | None, delta: Array | None = None) -> Plan:
        raise NotImplementedError

    def _changed(self) -> None:
        raise NotImplementedError

    def _get_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        scalars = self._get_base_state()
        learner_scalars, arrays = self._learner.get_state()
        scalars |= {
            "learner": learner_scalars,
            "dtype": str(self._learner.weights.v.dtype),
            "n_out": int(self._learner.weights.n_out),
            "reg": self._plan.reg,
            "t0": self._plan.t0,
            "intercept_step": self._plan.intercept_step,
            "rng": None if self._rng is None else generator_state(self._rng),
        }
        if self._platt is not None:
            arrays["platt"] = self._platt.state.copy()
        return scalars, arrays

    def _set_state(self, scalars: dict[str, Any], arrays: dict[str, Array]) -> None:
        plan = self._restored_plan(scalars)
        n_features = check_integer("n_features_in", scalars["n_features_in"], 1)
        n_out = check_integer("n_out", scalars["n_out"], 1)
        check_choice("dtype", scalars["dtype"], ["float32", "float64"])
        if "w_v" in arrays and arrays["w_v"].size != n_features * n_out:
            raise ValueError(f"{arrays['w_v'].size} weights for {n_features} features")
        learner = plan.learner(n_features, n_out, scalars["dtype"])
        learner.set_state(scalars["learner"], arrays)
        rng = None if scalars["rng"] is None else restore_generator(scalars["rng"])
        platt = None if "platt" not in arrays else Platt.from_state(arrays["platt"], n_out)
        self._set_base_state(scalars)
        self._platt = platt
        self._learner, self._plan, self._rng = learner, plan, rng
        self._changed()

    def _restored_plan(self, scalars: dict[str, Any]) -> Plan:
        """The plan of a saved model: its parameters, with what the data decided."""
        reg = check_number("reg", scalars["reg"], 0.0)
        t0 = check_number("t0", scalars["t0"], none=True)
        n_rows = None if self.C is None else max(1, round(1 / (self.C * reg)))
        plan = self._resolve_plan(n_rows, self._restored_delta(scalars))
        step = check_number(
            "intercept_step", scalars.get("intercept_step", 1.0), 0.0, low_open=True
        )
        return dataclasses.replace(plan, reg=reg, t0=t0, intercept_step=step)

    def _restored_delta(self, scalars: dict[str, Any]) -> Array | None:
        return None

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
