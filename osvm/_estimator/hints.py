"""Errors for parameters that belong to another class, a part, or another library.

``LinearClassifier(alpha=1e-4)`` tells that the parameter is `reg` here.  A word is looked up
among the parameters of the class, of its parts (`schedule`, `loss`, `kernel`), in the table
below, and among similar names, in this order.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

# Parameters that hold a part, and the modules whose `get` resolves it.
PARTS = {"schedule": "osvm.schedules", "loss": "osvm.losses", "kernel": "osvm.kernels"}
# Words of others: the parameters that may stand for them, and what there is elsewhere.
_FIXED_SET = "osvm.LinearSVC and osvm.SVC solve a fixed set"
_WORDS: dict[str, tuple[tuple[str, ...], str]] = {
    "alpha": (("reg", "C", "nu"), ""),
    "lambda_": (("reg", "C", "nu"), ""),
    "reg": (("C",), "C = 1 / (reg n)"),
    "C": (("reg", "nu"), ""),
    "shrinking": ((), "the solver works on small sets of rows and has no such choice"),
    "max_iter": (("epochs",), ""),
    "n_iter": (("epochs", "max_iter"), ""),
    "epochs": (("max_iter",), ""),
    "solver": ((), f"stream learners have none; {_FIXED_SET}"),
    "dual": ((), _FIXED_SET),
    "penalty": ((), "the penalty is reg/2 ||w||^2, see reg"),
    "l1_ratio": ((), "the penalty is reg/2 ||w||^2, see reg"),
    "learning_rate": (("schedule",), ""),
    "power_t": (("schedule",), ""),
    "early_stopping": (("callback", "tol"), ""),
    "n_iter_no_change": (("tol",), ""),
    "validation_fraction": (("callback",), ""),
    "kernel": ((), "osvm.KernelClassifier and its kin have kernels"),
    "gamma": ((), "osvm.KernelClassifier and its kin have kernels"),
    "budget": ((), "osvm.KernelClassifier and its kin have a budget"),
    "cache_mb": (("cache_size",), ""),
    "cache_size": (("cache_mb",), ""),
    "multi_class": (("loss",), "several classes are one-vs-rest unless the loss is joint"),
}


def with_hints(init: Callable[..., None]) -> Any:
    """The constructor, whose TypeError for an unknown argument says what to use instead."""

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **params: Any) -> None:
        try:
            init(self, *args, **params)
        except TypeError as error:
            known = inspect.signature(init).parameters
            unknown = [name for name in params if name not in known]
            if not unknown:
                raise
            text = hint(unknown[0], list(known)[1:])
            message = f"{type(self).__name__} has no parameter {unknown[0]!r}{text}"
            raise TypeError(message) from error

    return __init__


def hint(word: str, known: list[str]) -> str:
    """What to use instead of a word that is no parameter; `known` are the parameters."""
    instead, elsewhere = _WORDS.get(word, ((), ""))
    found = [name for name in instead if name in known]
    if found:
        text = f"; use {' or '.join(found)}"
        return f"{text} ({elsewhere})" if elsewhere else text
    for name, module in PARTS.items():
        if name not in known:
            continue
        parts = import_module(module)
        for part in parts.names():
            if word in parts.parameters(part):
                call = f"{type(parts.get(part)).__name__}({word}=...)" if part != "python" else ""
                where = module.removeprefix("osvm.")
                return f"; it belongs to a part: {name}={where}.{call}, or {name}__{word}"
    if elsewhere:
        return f": {elsewhere}"
    close = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {close[0]!r}?" if close else f"; it takes {', '.join(sorted(known))}"
