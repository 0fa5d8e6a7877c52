"""Flags of the estimators, made from their constructors.

Every constructor parameter becomes a flag, except those in `NOT_FLAGS`, which
mean nothing outside Python.  A value is read by the annotation and the default
of its parameter; ``loss``, ``schedule``, ``kernel`` and the like also take
parameters of their own, as in ``--loss huber:delta=0.5``.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
from importlib import import_module
from typing import Any

from osvm.files.models import CLASSES

DEFAULT = "LinearClassifier"
# callback and record serve Python programs; the command has its own progress table.
NOT_FLAGS = ("callback", "record", "verbose")
# What `fit` does with all data at hand and a stream cannot do.
FIT_ONLY = ("C", "tol", "warm_start")
PARTS = {"loss": "losses", "schedule": "schedules", "kernel": "kernels"}
WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def find_class(name: str) -> type:
    """An estimator class by its name, in any spelling: linear-classifier, LinearClassifier."""
    plain = name.replace("-", "").replace("_", "").lower()
    for known, module in CLASSES.items():
        if known.lower() == plain:
            return getattr(import_module(module), known)
    raise argparse.ArgumentTypeError(f"no estimator {name!r}; there are {', '.join(CLASSES)}")


def parameters_of(cls: type) -> dict[str, inspect.Parameter]:
    """The constructor parameters that have flags."""
    found = inspect.signature(cls).parameters
    return {name: p for name, p in found.items() if name not in NOT_FLAGS}


def add_estimator_arguments(parser: argparse.ArgumentParser) -> None:
    """``--estimator`` and one flag for every parameter of any estimator."""
    group = parser.add_argument_group(
        "estimator",
        "parts take parameters after a colon: --schedule inverse_sqrt:tau=10; callback and record "
        "exist in Python only",
    )
    group.add_argument(
        "--estimator",
        type=find_class,
        metavar="NAME",
        help=f"{', '.join(CLASSES)} (default: {DEFAULT})",
    )
    owners: dict[str, list[type]] = {}
    for name in CLASSES:
        try:
            cls = find_class(name)
        except (ImportError, AttributeError):
            continue
        for parameter_name in parameters_of(cls):
            owners.setdefault(parameter_name, []).append(cls)
    for name, classes in owners.items():
        _add_flag(group, name, classes, len(classes) == len(CLASSES))


def _add_flag(group: Any, name: str, classes: list[type], common: bool) -> None:
    """One flag, which takes whatever one of its classes takes."""
    flag = "--" + name.replace("_", "-")
    found = {cls.__name__: parameters_of(cls)[name] for cls in classes}
    annotation = " | ".join(sorted({str(p.annotation) for p in found.values()}))
    words = [] if common else [", ".join(found)]
    default = found.get(DEFAULT, found[next(iter(found))]).default
    words.append(f"default: {default}")
    options: dict[str, Any] = {
        "dest": f"estimator_{name}",
        "default": argparse.SUPPRESS,
        "help": "; ".join(words).replace("%", "%%"),
    }
    if "bool" in annotation:
        if annotation == "bool":
            group.add_argument(flag, action=argparse.BooleanOptionalAction, **options)
            return
        options.update(nargs="?", const=True, metavar="VALUE", type=_reader(name, annotation))
        group.add_argument(flag, **options)
        group.add_argument(
            "--no-" + flag[2:],
            dest=options["dest"],
            action="store_const",
            const=False,
            default=argparse.SUPPRESS,
            help=argparse.SUPPRESS,
        )
        return
    group.add_argument(flag, metavar="VALUE", type=_reader(name, annotation), **options)


def _reader(name: str, annotation: str) -> Any:
    """A function from the text of a flag to the value of the parameter."""

    def read(text: str) -> Any:
        if name in PARTS:
            return read_part(PARTS[name], text)
        if name == "taxonomy":
            return read_taxonomy(text)
        if name == "class_weight":
            return read_weights(text)
        return read_plain(text, annotation)

    read.__name__ = name  # argparse says "invalid <name> value"
    return read


def read_plain(text: str, annotation: str) -> Any:
    """A number, a truth value, none, or the text itself, as the annotation allows."""
    if "None" in annotation and text.lower() == "none":
        return None
    if "bool" in annotation and text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind, convert in (("int", int), ("float", float)):
        if kind in annotation or "Any" in annotation:
            try:
                return convert(text)
            except ValueError:
                continue
    if "str" in annotation or "Any" in annotation:
        return text
    raise ValueError(text)


def read_part(module: str, text: str) -> Any:
    """``name`` or ``name:key=value,key=value``."""
    name, colon, rest = text.partition(":")
    if not colon:
        return name
    parts = import_module(f"osvm.{module}")
    try:
        params = dict(pair.split("=", 1) for pair in rest.split(","))
        return parts.get(name, **{k.strip(): read_plain(v, "Any") for k, v in params.items()})
    except (ValueError, TypeError) as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


def read_weights(text: str) -> Any:
    """``balanced``, or ``label=weight,label=weight``."""
    if text in ("balanced", "none"):
        return None if text == "none" else text
    try:
        pairs = (pair.rsplit("=", 1) for pair in text.split(","))
        return {label: float(weight) for label, weight in pairs}
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not 'balanced' or label=weight,label=weight"
        ) from None


def read_taxonomy(path: str) -> Any:
    """A JSON file with what `Taxonomy.config` gives."""
    from osvm import taxonomy

    if not os.path.exists(path):
        raise argparse.ArgumentTypeError(f"no file {path!r} with a taxonomy")
    try:
        with open(path, encoding="utf-8") as file:
            return taxonomy.from_config(json.load(file))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from None


def settle_estimator(arguments: argparse.Namespace) -> None:
    """--multilabel and its estimator bring each other along."""
    multilabel = find_class("MultilabelClassifier")
    if arguments.estimator is None:
        arguments.estimator = multilabel if arguments.multilabel else None
    elif arguments.estimator is multilabel:
        arguments.multilabel = True
    elif arguments.multilabel:
        arguments.parser.error(
            f"--multilabel is learnt by {multilabel.__name__}, not by "
            f"{arguments.estimator.__name__}; leave --estimator out"
        )


def given_parameters(arguments: argparse.Namespace) -> dict[str, Any]:
    """The estimator's parameters that stand on the command line."""
    prefix = "estimator_"
    return {k[len(prefix) :]: v for k, v in vars(arguments).items() if k.startswith(prefix)}


def make_estimator(arguments: argparse.Namespace, *, numeric_labels: bool) -> Any:
    """The estimator that the flags describe; wrong usage ends the program."""
    cls = arguments.estimator or find_class(DEFAULT)
    given = given_parameters(arguments)
    known = parameters_of(cls)
    for name in given:
        if name not in known:
            arguments.parser.error(
                f"--{name.replace('_', '-')} is not an option of {cls.__name__}"
            )
    weights = given.get("class_weight")
    if isinstance(weights, dict) and numeric_labels:
        try:
            given["class_weight"] = {float(label): w for label, w in weights.items()}
        except ValueError:
            arguments.parser.error("--class-weight names a label that is not a number")
    return cls(**given)
