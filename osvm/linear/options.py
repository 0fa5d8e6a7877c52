"""Which options go with which way of learning: the one table of the linear estimators.

`refuse` raises where an option is asked for that a way of learning does not have; the
documentation's table (doc/guide/linear.rst) is `table()`.  An option is added by a line in
`OPTIONS`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# How messages and the documentation call each way of learning.
WAYS = {
    "steps": "another schedule",
    "smd": "schedule='smd'",
    "adaptive": "schedule='adaptive'",
    "search": "one_pass_search",
    "labels": "label sets in one pass",
    "rounds": "osvm.distributed",
}


@dataclass(frozen=True)
class Option:
    """A parameter, its value that asks for nothing, and the ways that do not have it."""

    name: str
    plain: Any
    without: dict[str, str]  # way of learning: what to do instead


_RATES = "each example makes its own step, which its rates bound"
_TRACE = "its trace follows the plain steps; leave it alone or choose another schedule"
_OWN = "the labels learn one after the other"
_FIGURES = "progressive figures judge the candidates; set it in a fit of the best one"
_ROUNDS = "it makes `rounds` passes of SGD; the options of its `fit` say when to stop"
_MIXED = "models of many blocks are merged"
_LAZY = "choose a schedule without it"
_RUNNING = "choose schedule='adaptive', whose rates follow the size of each column"
_ALL_ROWS = "it is found from all rows of a fit; scale the rows first"

OPTIONS = (
    Option("average", False, {"smd": _TRACE}),
    Option("project", False, {"smd": _TRACE, "adaptive": _RATES}),
    Option(
        "lazy",
        False,
        {"smd": _TRACE, "adaptive": _RATES, "search": _LAZY, "labels": _OWN, "rounds": _LAZY},
    ),
    Option(
        "batch_size",
        1,
        {
            "smd": _TRACE,
            "adaptive": _RATES,
            "search": "it makes a step per example, set batch_size=1",
            "labels": _OWN,
        },
    ),
    Option(
        "smd",
        False,
        {
            "search": "its step sizes adapt by themselves",
            "labels": _OWN,
            "rounds": _MIXED,
        },
    ),
    Option(
        "adaptive",
        False,
        {
            "search": "its rates adapt by themselves",
            "labels": _OWN,
        },
    ),
    Option(
        "probability",
        False,
        {
            "smd": "it keeps no scores from before the steps",
            "search": _FIGURES,
            "labels": _OWN,
        },
    ),
    Option(
        "record",
        False,
        {
            "search": _FIGURES,
            "rounds": _MIXED,
        },
    ),
    Option("scale", None, {"search": _ALL_ROWS, "rounds": _ALL_ROWS}),
    Option(
        "scale='running'",
        False,
        {"steps": _RUNNING, "smd": _RUNNING, "search": _RUNNING, "labels": _OWN, "rounds": _MIXED},
    ),
    Option("tol", None, {"search": _FIGURES, "labels": _OWN, "rounds": _ROUNDS}),
)


def asked(model: Any) -> list[str]:
    """The options that the model's parameters ask for."""
    schedule = getattr(model.schedule, "name", model.schedule)
    known = {
        "smd": schedule == "smd",
        "adaptive": schedule in ("adaptive", "coin_betting"),
        "scale='running'": isinstance(model.scale, str) and model.scale == "running",
        "lazy": getattr(model.schedule, "lazy", False),
    }
    names = []
    for option in OPTIONS:
        value = known.get(option.name, getattr(model, option.name, option.plain))
        if isinstance(value, str) or isinstance(option.plain, str):
            plain = value is option.plain or (isinstance(value, str) and value == option.plain)
        else:
            plain = value is option.plain or value == option.plain
        if not plain:
            names.append(option.name)
    return names


def asked_by_plan(plan: Any) -> list[str]:
    """The options that a plan holds."""
    held = {
        "project": plan.radius > 0.0,
        "average": plan.average_from >= 0.0,
        "batch_size": plan.batch_size != 1,
    }
    return [name for name, is_held in held.items() if is_held]


def refused(way: str) -> dict[str, str]:
    """The options that this way of learning does not have, and why."""
    return {option.name: option.without[way] for option in OPTIONS if way in option.without}


def refuse(way: str, names: Iterable[str]) -> None:
    """Raise ValueError if one of the options does not go with this way of learning."""
    missing = refused(way)
    for name in names:
        if name in missing:
            others = ", ".join(f"no {other}" for other in missing)
            raise ValueError(f"{WAYS[way]} has no {name}: {missing[name]} ({WAYS[way]}: {others})")


def table() -> str:
    """The options and ways of learning as a table in reStructuredText."""
    rows = [["", *(f"``{words}``" if "=" in words else words for words in WAYS.values())]]
    for option in OPTIONS:
        cells = ["no" if way in option.without else "yes" for way in WAYS]
        rows.append([f"``{option.name}``", *cells])
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in rows:
        lines += [f"   {'*' if k == 0 else ' '} - {cell}".rstrip() for k, cell in enumerate(row)]
    return "\n".join(lines) + "\n"
