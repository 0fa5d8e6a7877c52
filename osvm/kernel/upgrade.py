"""Kernel models of earlier files: what their parameters and state are called today.

The first files of format 1 know the step size's and the margin's parameters as parameters of
the estimator, and `KernelClassifier(solver=...)` where `SVC` is today.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from osvm import losses, schedules
from osvm.kernel.cached import solvers

_RENAMED = {
    "kernel_adatron": "adatron",
    "norma_cached": "norma",
    "kernel_perceptron": "perceptron",
}
_OF_SCHEDULE = ("tau", "mu", "decay", "eta_min", "eta_max")
_OF_SVC = ("kernel", "degree", "gamma", "coef0", "class_weight", "verbose", "random_state")
_CACHED_ONLY = ("average", "cache_mb", "solver", "tol")


def upgrade(
    name: str, params: dict[str, Any], state: dict[str, Any], arrays: dict[str, Any]
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Class, parameters and state of today; those of today's files come back as they are."""
    if "trained_with" not in state:
        if name == "SVC" and "multi_class" not in params:
            params = {**params, "multi_class": "ovr"}
        return name, params, state
    params, state = dict(params), dict(state)
    if state.pop("trained_with") == "buffer":
        for key in _CACHED_ONLY:
            params.pop(key, None)
        return name, _stream_params(params), {**state, "n_iter": params["epochs"]}
    return "SVC", _svc_params(params), _svc_state(state, arrays)


def _stream_params(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a stream learner: what belongs to a part, in the part."""
    given = {key: params.pop(key, None) for key in _OF_SCHEDULE}
    given = {key: value for key, value in given.items() if value is not None}
    first = params.pop("eta0_intercept", None)
    schedule = schedules.get(params["schedule"])
    if schedule.name == "smd" and first is not None and params.get("fit_intercept"):
        given["eta0_intercept"] = first
    if given:
        params["schedule"] = schedules.get(schedule, **given)
    epsilon0, eta0 = params.pop("epsilon0", 1.0), params.pop("eta0_epsilon", 1.0)
    if params.get("nu") is not None and (epsilon0, eta0) != (1.0, 1.0):
        own = eta0 if schedule.name == "smd" else None
        params["nu"] = losses.NuTrick(params["nu"], epsilon0=epsilon0, eta0=own)
    return params


def _svc_params(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters of `SVC`; those of the solver go into the part."""
    given = params["solver"]
    part = solvers.get(_RENAMED.get(given, given) if isinstance(given, str) else given)
    own: dict[str, Any] = {}
    takes = {field for field in part.config() if field != "name"}
    for key in ("shuffle", "average", "record", "fit_intercept"):
        if key in takes and params.get(key) is not None:
            own[key] = params[key]
    if getattr(part, "selection", "order") != "order":
        own.pop("average", None)
        own.pop("record", None)
    made: dict[str, Any] = {"multi_class": "ovr", **{key: params[key] for key in _OF_SVC}}
    made["solver"] = solvers.get(part, **own)
    made["max_iter"] = params["epochs"]
    made["cache_size"] = params["cache_mb"]
    if "C" in part.takes and params["C"] is not None:
        made["C"] = params["C"]
    if "tol" in part.takes and params["tol"] is not None:
        made["tol"] = params["tol"]
    return made


def _svc_state(state: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """The state of `SVC`: support vectors by class, where the signs of coefficients tell."""
    dual = np.asarray(arrays["dual"], dtype=np.float64)
    K = len(state["labels"]["labels"])
    codes = (dual[0] > 0).astype(np.intp) if len(dual) == 1 else dual.argmax(axis=0)
    machine = dict(state["machine"])
    machine["n_iter"] = [machine["n_iter"]] * len(dual)
    machine["converged"] = None
    state.pop("class_counts", None)
    return {
        **state,
        "machine": machine,
        "n_support": np.bincount(codes, minlength=K).tolist(),
        "n_rows": int(np.asarray(arrays["outputs"]).shape[-1]) if "outputs" in arrays else 0,
        "class_weight": [1.0] * K,
        "sigmoids": None,
    }
