"""Constructor parameters and fitted scalars as JSON, and back.

Plain values stand for themselves.  Everything else is an object with one key
that begins with ``$`` and says what it is: ``$float`` (not finite), ``$tuple``,
``$dict`` (keys of any plain type), ``$array``, ``$part`` (a loss, a schedule, a
kernel, a taxonomy; rebuilt by its module's ``from_config``), ``$generator`` and
``$random_state`` (numpy's).  Nothing here can name a class or call a function
outside these lists.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np

from osvm._input.parameters import generator_state, restore_generator
from osvm._input.schema import fair_dtype

PART_MODULES = ("losses", "schedules", "kernels", "solvers", "taxonomy")
# Parameters that say what to do while learning, not what was learnt: left out.
TRANSIENT = ("callback",)


def encode(value: Any, what: str) -> Any:
    """`value` as something that JSON can hold; ValueError names `what` when it cannot be."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, np.generic):
        return encode(value.item(), what)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, list):
        return [encode(item, what) for item in value]
    if isinstance(value, tuple):
        return {"$tuple": [encode(item, what) for item in value]}
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: encode(item, what) for key, item in value.items()}
        pairs = [[encode(key, what), encode(item, what)] for key, item in value.items()]
        return {"$dict": pairs}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        data = encode(value.ravel().tolist(), what)
        dtype = fair_dtype(value.dtype, data)
        return {"$array": {"dtype": dtype.str, "shape": list(value.shape), "data": data}}
    if isinstance(value, np.random.Generator):
        if type(value.bit_generator).__name__ != "PCG64":
            raise ValueError(f"{what}: only PCG64 generators can be saved")
        return {"$generator": generator_state(value)}
    if isinstance(value, np.random.RandomState):
        state = value.get_state(legacy=False)
        inner = {"key": state["state"]["key"].tolist(), "pos": int(state["state"]["pos"])}
        gauss = [int(state["has_gauss"]), float(state["gauss"])]
        return {"$random_state": {**inner, "gauss": gauss}}
    module = _part_module(value)
    if module is not None:
        try:
            config = value.config()
        except TypeError as error:
            raise ValueError(f"{what} cannot be saved: {error}") from error
        return {"$part": {"module": module, "config": encode(config, what)}}
    if hasattr(value, "write") and what.endswith("verbose"):
        return True
    raise ValueError(
        f"{what} is a {type(value).__name__}, which a model file cannot hold; use one of the "
        "parts of osvm, or pickle"
    )


def _part_module(value: Any) -> str | None:
    """The module of `osvm` that makes this part again; None where none does."""
    for cls in type(value).__mro__:
        name = cls.__module__.removeprefix("osvm.")
        if name in PART_MODULES and cls.__module__ != name and hasattr(value, "config"):
            if cls is type(value):
                return name
            # a class from elsewhere, if it has been registered
            registry = getattr(import_module(cls.__module__), "_REGISTRY", None)
            known = registry is not None and type(value) in registry.classes.values()
            return name if known else None
    return None


def decode(value: Any) -> Any:
    """What `encode` was given."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if not any(key.startswith("$") for key in value):
        return {key: decode(item) for key, item in value.items()}
    if len(value) != 1:
        raise ValueError("a marked value has one key")
    ((mark, inner),) = value.items()
    if mark == "$float":
        if inner not in ("inf", "-inf", "nan"):
            raise ValueError(f"unknown number {inner!r}")
        return float(inner)
    if mark == "$tuple":
        return tuple(decode(inner))
    if mark == "$dict":
        return {decode(key): decode(item) for key, item in inner}
    if mark == "$array":
        dtype, data = np.dtype(str(inner["dtype"])), decode(inner["data"])
        if dtype.kind not in "biufU" or not isinstance(data, list):
            raise ValueError(f"unknown array type {dtype}")
        return np.array(data, dtype=fair_dtype(dtype, data)).reshape(inner["shape"])
    if mark == "$part":
        if inner["module"] not in PART_MODULES:
            raise ValueError(f"unknown part {inner['module']!r}")
        module = import_module(f"osvm.{inner['module']}")
        return module.from_config(decode(inner["config"]))
    if mark == "$generator":
        return restore_generator(inner)
    if mark == "$random_state":
        key = np.array(inner["key"], dtype=np.uint32)
        if key.shape != (624,) or not 0 <= inner["pos"] <= 624:
            raise ValueError("a random state of the wrong size")
        generator = np.random.RandomState()
        has, gauss = inner["gauss"]
        generator.set_state(("MT19937", key, int(inner["pos"]), int(has), float(gauss)))
        return generator
    raise ValueError(f"unknown mark {mark!r}")
