"""Flags of the estimators, made from their constructors.

Every constructor parameter becomes a flag, except those in `NOT_FLAGS`, which
mean nothing outside Python.  A value is read by the annotation and the default
of its parameter; ``loss``, ``schedule``, ``kernel`` and the like also take
parameters of their own, as in ``--loss huber:delta=0.5``.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import json
import os
import re
from importlib import import_module
from typing import Any

from osvm._estimator.compat import OutlierMixin, RegressorMixin
from osvm._estimator.hints import hint
from osvm.io.models import CLASSES

DEFAULT = "LinearClassifier"
# callback and record serve Python programs; the command has its own progress table.
NOT_FLAGS = ("callback", "record", "verbose")
# What `fit` does with all data at hand and a stream cannot do.
FIT_ONLY = ("C", "tol", "warm_start")
# What most users set, in the first group of the help page.
COMMON = ("loss", "reg", "C", "epochs", "shuffle", "random_state")
LONGEST = 220  # characters of a help text
PLAIN_HELP = {
    "random_state": "seed of the random order and choices",
    "fit_intercept": "learn an offset b beside the weights",
    "n_jobs": "threads; -1 for all cores",
    "C": "in place of reg: reg = 1/(C n)",
    "epochs": "passes over data in memory at most; a stream is passed over once, or so often",
    "shuffle": "visit rows in random order; 'full' is a uniform permutation of data in memory",
    "class_weight": "'balanced', or label=weight,label=weight",
    "taxonomy": "JSON file with a tree or distances of labels, for --loss graph_hinge",
    "degree": "of the polynomial kernel",
    "coef0": "constant of the polynomial and sigmoid kernels",
}
PARTS = {"loss": "losses", "schedule": "schedules", "kernel": "kernels"}
WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def find_class(name: str) -> type:
    """An estimator class by its name, in any spelling: linear-classifier, LinearClassifier."""
    plain = name.replace("-", "").replace("_", "").lower()
    for known, module in CLASSES.items():
        if known.lower() == plain:
            return getattr(import_module(module), known)
    raise argparse.ArgumentTypeError(f"no estimator {name!r}; there are {', '.join(CLASSES)}")


def is_regressor(cls: type) -> bool:
    """Whether its targets are numbers."""
    return issubclass(cls, RegressorMixin)


def is_novelty(cls: type) -> bool:
    """Whether it learns without labels."""
    return issubclass(cls, OutlierMixin)


def is_classifier(cls: type) -> bool:
    return not (is_regressor(cls) or is_novelty(cls))


@functools.cache
def parameters_of(cls: type) -> dict[str, inspect.Parameter]:
    """The constructor parameters that have flags."""
    found = inspect.signature(cls).parameters
    return {name: p for name, p in found.items() if name not in NOT_FLAGS}


def add_estimator_arguments(parser: argparse.ArgumentParser) -> None:
    """``--estimator`` and one flag for every parameter of any estimator, by family."""
    classes = {}
    for name in [DEFAULT] if parser.get_default("one_estimator") else CLASSES:
        try:
            classes[name] = find_class(name)
        except (ImportError, AttributeError):
            continue
    owners: dict[str, list[type]] = {}
    for cls in classes.values():
        for name in parameters_of(cls):
            owners.setdefault(name, []).append(cls)
    # the default estimator's order first, then what others have besides
    names = dict.fromkeys([*parameters_of(classes[DEFAULT]), *owners])
    for title, wanted in (
        ("learning", lambda name: name in COMMON),
        ("all learners", lambda name: name not in COMMON and len(_families(owners[name])) > 1),
        ("linear learners", lambda name: _families(owners[name]) == {"linear"}),
        ("kernel learners", lambda name: _families(owners[name]) == {"kernel"}),
    ):
        about = None
        if title == "learning":
            about = "parts take parameters after a colon: --schedule smd:mu=0.1"
        group = parser.add_argument_group(title, about)
        if title == "learning":
            group.add_argument(
                "--estimator",
                type=find_class,
                metavar="NAME",
                help=f"what learns: {', '.join(CLASSES)} (default: {DEFAULT})",
            )
        for name in names:
            if wanted(name) and (title in ("learning", "all learners") or name not in COMMON):
                _add_flag(group, name, owners[name])


def _rank(cls: type) -> int:
    return 0 if cls.__name__ == DEFAULT else 1


def _families(classes: list[type]) -> set[str]:
    return {cls.__module__.split(".")[1] for cls in classes}


@functools.cache
def describe_parameters(cls: type) -> dict[str, str]:
    """What the class's docstring says about each of its parameters, as plain text."""
    text = inspect.getdoc(cls) or ""
    _, _, rest = text.partition("Parameters\n----------\n")
    section = re.split(r"\n\n[A-Z][^\n]*\n-+\n", rest)[0]
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", section):
        head, _, body = entry.partition("\n")
        names, _, kind = head.partition(" : ")
        choices = re.search(r"\{.*\}", kind)
        words = " ".join(body.split())
        words = re.sub(r":\w+:`~?([^`]*)`|``?([^`]*)``?", r"\1\2", words)
        if len(words) > LONGEST:  # whole sentences, as many as fit
            words = words[: LONGEST + 1]
            words = words[: max(words.rfind(". "), words.rfind("; "), words.rfind(", "))]
        if choices and choices.group() not in words:
            words = f"{choices.group()} {words}".strip()
        for name in names.split(","):
            found[name.strip()] = words.rstrip(".")
    return found


def _add_flag(group: Any, name: str, classes: list[type]) -> None:
    """One flag, which takes whatever one of its classes takes."""
    flag = "--" + name.replace("_", "-")
    found = {cls.__name__: parameters_of(cls)[name] for cls in classes}
    annotation = " | ".join(sorted({str(p.annotation) for p in found.values()}))
    texts = [describe_parameters(cls).get(name, "") for cls in sorted(classes, key=_rank)]
    told = [text for text in texts if text and not text.startswith("As for")]
    text = PLAIN_HELP.get(name) or next(iter(told), name.replace("_", " "))
    text = text[:1].lower() + text[1:] if text[1:2].islower() else text
    defaults: dict[str, list[str]] = {}
    for owner, parameter in found.items():
        defaults.setdefault(str(parameter.default), []).append(owner)
    (usual, _), *others = sorted(defaults.items(), key=lambda pair: -len(pair[1]))
    ends = [f"default: {usual}", *(f"{value} of {', '.join(who)}" for value, who in others)]
    if len(classes) < 3 and not others:
        ends.append(f"of {', '.join(found)}")
    options: dict[str, Any] = {
        "dest": f"estimator_{name}",
        "default": argparse.SUPPRESS,
        "help": f"{text} ({'; '.join(ends)})".replace("%", "%%"),
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
    if arguments.estimator is None and not arguments.multilabel:
        return
    multilabel = find_class("MultilabelClassifier")
    if arguments.estimator is None:
        arguments.estimator = multilabel
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
                f"{hint(name, list(known))}"
            )
    weights = given.get("class_weight")
    if isinstance(weights, dict) and numeric_labels:
        try:
            given["class_weight"] = {float(label): w for label, w in weights.items()}
        except ValueError:
            arguments.parser.error("--class-weight names a label that is not a number")
    return cls(**given)
