"""Which option goes with which solver of a kernel estimator: the one table.

Errors and the table in the guide (`format_table`) are made from it.  An option that a solver
does not read must keep its default: no parameter is accepted and ignored.

To add an option, add a line to `OPTIONS`; a cached solver that reads one of those marked
`LISTED` names it in `CachedSolver.takes`.
"""

from __future__ import annotations

import functools
import inspect
from numbers import Number
from typing import Any

__all__ = ["OPTIONS", "format_table", "goes_with", "refuse_foreign"]

LISTED = "listed"  # a cached solver names the option in `takes`

# option: (does the buffer read it?, do solvers with cached outputs?)
OPTIONS: dict[str, tuple[bool, bool | str]] = {
    "loss": (True, False),
    "reg": (True, LISTED),
    "C": (True, LISTED),
    "kernel": (True, True),
    "gamma": (True, True),
    "degree": (True, True),
    "coef0": (True, True),
    "budget": (True, False),
    "eviction": (True, False),
    "schedule": (True, False),
    "eta0": (True, False),
    "tau": (True, False),
    "mu": (True, False),
    "decay": (True, False),
    "eta_min": (True, False),
    "eta_max": (True, False),
    "nu": (True, False),
    "epsilon0": (True, False),
    "eta0_epsilon": (True, False),
    "eta0_intercept": (True, False),
    "fit_intercept": (True, LISTED),
    "epochs": (True, True),
    "shuffle": (True, True),
    "random_state": (True, True),
    "class_weight": (True, True),
    "taxonomy": (True, False),
    "label_kernel": (True, False),
    "solver": (True, True),
    "warm_start": (True, False),
    "verbose": (True, True),
    "record": (True, LISTED),
    "average": (True, LISTED),
    "tol": (False, LISTED),
    "cache_mb": (False, True),
}

_NO_MEANING = "{option} has no meaning for solver {solver!r}; leave it at {default!r}"

# Why a cached solver refuses an option that others of them take.
_REASONS = {
    "reg": "solver {solver!r} has neither C nor reg",
    "C": "solver {solver!r} has neither C nor reg",
    "fit_intercept": "solver {solver!r} has no offset; use fit_intercept=False",
    "average": "solver {solver!r} does not average; use average=False",
    "tol": "solver {solver!r} stops after an epoch without changes, or after the last; "
    "use tol=None",
    "record": "solver {solver!r} keeps no record; use record=False",
}


def goes_with(option: str, solver: Any) -> bool:
    """Does the solver (a cached one, or "buffer") read this option?"""
    return _reads(option, None if solver == "buffer" else solver.takes)


def _reads(option: str, takes: frozenset[str] | None) -> bool:
    buffer, cached = OPTIONS[option]
    if takes is None:
        return buffer
    return option in takes if cached == LISTED else bool(cached)


@functools.cache
def _foreign(estimator: type, takes: frozenset[str] | None) -> tuple[tuple[str, Any], ...]:
    """Options of the estimator that the solver does not read, with their defaults."""
    parameters = inspect.signature(estimator.__init__).parameters  # type: ignore[misc]
    return tuple(
        (name, parameter.default)
        for name, parameter in parameters.items()
        if name in OPTIONS and not _reads(name, takes)
    )


def refuse_foreign(model: Any, solver: Any) -> None:
    """Raise for an option that the solver does not read and that is not at its default."""
    estimator: Any = type(model)
    if solver == "buffer":
        for option, default in _foreign(estimator, None):
            if not _is_default(getattr(model, option), default):
                raise ValueError(
                    f"{option} is for solvers with cached outputs; solver='buffer' takes "
                    f"{default!r}"
                )
        return
    for option, default in _foreign(estimator, frozenset(solver.takes)):
        if not _is_default(getattr(model, option), default):
            why = _REASONS.get(option, _NO_MEANING)
            raise ValueError(why.format(option=option, solver=solver.name, default=default))
    if solver.needs_bias and not model.fit_intercept:
        raise ValueError(
            f"{solver.name} always has an offset; fit_intercept=False is not possible"
        )


def _is_default(value: Any, default: Any) -> bool:
    if value is default:
        return True
    # arrays and objects have no single answer to ==
    return isinstance(value, (Number, str)) and bool(value == default)


def format_table(solvers: list[Any]) -> str:
    """The table in the guide: a line for each set of options, a column for each solver."""
    groups: dict[tuple[bool, ...], list[str]] = {}
    for option in OPTIONS:
        marks = tuple(goes_with(option, solver) for solver in solvers)
        groups.setdefault(marks, []).append(option)
    lines = [".. list-table::", "   :header-rows: 1", "", "   * - options"]
    lines += [f"     - ``{getattr(solver, 'name', solver)}``" for solver in solvers]
    for marks, options in groups.items():
        lines.append("   * - " + ", ".join(f"``{option}``" for option in options))
        lines += ["     - yes" if mark else "     -" for mark in marks]
    return "\n".join(lines) + "\n"
