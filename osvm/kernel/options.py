"""Which option of a kernel estimator goes with what: the one table.

Errors and the table in the guide (`format_table`) are made from it.  An option that a
configuration does not read must keep its default: no parameter is accepted and ignored.

To add an option that only some solvers of `SVC` read, add a line to `LISTED` and name the
option in `CachedSolver.takes`; what only one part reads belongs to the part.
"""

from __future__ import annotations

import inspect
from functools import cache
from numbers import Number
from typing import Any

# Options of `SVC` that some solvers read, and why the others refuse them.
LISTED = {
    "C": "solver {solver!r} has no C; leave it at {default!r}",
    "tol": "solver {solver!r} makes a number of passes (max_iter), to no tolerance; leave tol "
    "at {default!r}",
}

# Options of the stream learners that not every configuration reads: who does, for the error.
READERS = {
    "eta0": "a schedule with eta0 ('bottou', 'smd', 'inverse_sqrt' or 'constant')",
    "taxonomy": "loss='graph_hinge' or label_kernel='taxonomy'",
}


def refuse_unread(model: Any, loss: Any, schedule: Any) -> None:
    """Raise for an option of a stream learner that is not read, nor at its default."""
    label_kernel = getattr(model, "label_kernel", None)
    reads = {
        "eta0": hasattr(schedule, "eta0") or schedule.name == "bottou",
        "taxonomy": loss.needs_distances
        or (isinstance(label_kernel, str) and label_kernel == "taxonomy"),
    }
    parameters = _parameters(type(model).__init__)
    for option, readers in READERS.items():
        if reads[option] or option not in parameters:
            continue
        default = parameters[option].default
        if not _is_default(getattr(model, option), default):
            raise ValueError(f"{option} is read with {readers} only; leave it at {default!r}")


def refuse_foreign(model: Any, solver: Any) -> None:
    """Raise for an option that the solver does not read and that is not at its default."""
    parameters = _parameters(type(model).__init__)
    for option, why in LISTED.items():
        default = parameters[option].default
        if option not in solver.takes and not _is_default(getattr(model, option), default):
            raise ValueError(why.format(solver=solver.name, default=default))


@cache
def _parameters(init: Any) -> Any:
    """The parameters of a constructor; to find them takes as long as to learn some rows."""
    return inspect.signature(init).parameters


def _is_default(value: Any, default: Any) -> bool:
    if value is default:
        return True
    # arrays and objects have no single answer to ==
    return isinstance(value, (Number, str)) and bool(value == default)


def format_table(estimator: type, solvers: list[Any]) -> str:
    """The table in the guide: a line for each set of options, a column for each solver."""
    groups: dict[tuple[bool, ...], list[str]] = {}
    for option in inspect.signature(estimator).parameters:
        marks = tuple(option not in LISTED or option in solver.takes for solver in solvers)
        groups.setdefault(marks, []).append(option)
    lines = [".. list-table::", "   :header-rows: 1", "", "   * - options"]
    lines += [f"     - ``{solver.name}``" for solver in solvers]
    for marks, options in groups.items():
        lines.append("   * - " + ", ".join(f"``{option}``" for option in options))
        lines += ["     - yes" if mark else "     -" for mark in marks]
    return "\n".join(lines) + "\n"
