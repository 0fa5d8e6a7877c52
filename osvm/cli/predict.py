"""``osvm predict``: one prediction a line, as the data come."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, TextIO

import numpy as np

from osvm import io, losses
from osvm.cli.estimators import is_classifier, is_novelty
from osvm.cli.inputs import add_input_arguments, known_columns, open_input
from osvm.cli.report import Report, add_report_arguments, say, say_skipped


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(parser=parser)
    parser.usage = "osvm predict DATA -m MODEL [options]"
    parser.add_argument("data", help="file, or - for standard input")
    parser.add_argument("-m", "--model", required=True, metavar="FILE")
    parser.add_argument("-o", "--output", metavar="FILE", help="(default: standard output)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--scores", action="store_true", help="decision values, tab-separated")
    what.add_argument("--proba", action="store_true", help="probabilities, tab-separated")
    add_report_arguments(parser)
    add_input_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    model = io.load(arguments.model)
    answer = _answer(arguments, model)
    with open_input(arguments, arguments.data, model=model) as reader:
        reader.eager = arguments.data == "-"  # answers go out as the data come in
        if arguments.output is None:
            figures = _predict(arguments, model, reader, answer, sys.stdout)
        else:
            with open(arguments.output, "w", encoding="utf-8") as file:
                figures = _predict(arguments, model, reader, answer, file)
        if not arguments.json:  # `figures` tell
            say_skipped(arguments, reader)
    if arguments.json:  # never among the predictions
        if arguments.output is not None:
            print(json.dumps(figures))
        elif not arguments.quiet:
            print(json.dumps(figures), file=sys.stderr)
    return 0


def _answer(arguments: argparse.Namespace, model: Any) -> Any:
    if arguments.proba:
        return lambda X: _probabilities(model, X)
    if arguments.scores:
        return getattr(model, "decision_function", model.predict)
    return model.predict


def _probabilities(model: Any, X: Any) -> np.ndarray:
    try:
        return model.predict_proba(X)
    except AttributeError:
        kind = type(model).__name__
        flags = _flags_of_probabilities(type(model))
        what = f"a {kind} never has; train a LinearClassifier with --probability"
        if flags:
            what = f"train it with {' or '.join(flags)}"
        raise ValueError(f"this {kind} has no probabilities: {what}") from None


def _flags_of_probabilities(cls: Any) -> list[str]:
    """The flags that give a model of this class probabilities."""
    found = []
    if "probability" in cls._get_param_names():
        found.append("--probability (any loss)" if hasattr(cls(), "loss") else "--probability")
    if "loss" in cls._get_param_names():
        names = (name for name in losses.names() if hasattr(losses.get(name), "probability"))
        found += [f"--loss {name}" for name in names if hasattr(cls(loss=name), "predict_proba")]
    return found


def _predict(
    arguments: argparse.Namespace, model: Any, reader: Any, answer: Any, out: TextIO
) -> dict[str, Any]:
    report = Report(arguments, reader, table=False)
    right = labelled = outside = 0
    squares = 0.0
    kind = type(model).__name__
    linear = hasattr(model, "coef_")
    sets = LabelSets() if kind == "MultilabelClassifier" else None
    for X, y, *_ in reader:
        X, left_out = known_columns(X, model.n_features_in_)
        if left_out and not linear:
            raise ValueError(
                f"{reader.name} has columns that the model does not know (it has "
                f"{model.n_features_in_})"
            )
        outside += left_out
        as_json = arguments.json
        found = np.asarray(answer(X))
        plain = not (arguments.scores or arguments.proba)
        if sets is not None and plain:
            labels = sets.of(found, model.classes_)
            out.write("".join(_set_line(row, as_json) for row in labels))
        else:
            out.write(_lines(found, as_json))
        out.flush()
        report.add(X.shape[0], loss=None)
        if sets is not None:
            if isinstance(y, list) and plain:
                sets.count(labels, y)
            continue
        if y is None or is_novelty(type(model)) or arguments.scores or arguments.proba:
            continue
        if is_classifier(type(model)):
            known = np.ones(len(y), bool) if y.dtype.kind in "US" else ~np.isnan(y)
            right += int(np.count_nonzero(found[known] == y[known]))
        else:
            known = ~np.isnan(np.asarray(y, dtype=np.float64))
            squares += float(((found[known] - y[known]) ** 2).sum())
        labelled += int(np.count_nonzero(known))
    figures = report.finish()
    if arguments.json:
        arguments = argparse.Namespace(**{**vars(arguments), "quiet": True})
    if outside:
        figures["left_out_values"] = outside
        say(arguments, f"{outside} values in columns that the model does not know were left out")
    if sets is not None and sets.n:
        figures.update(sets.figures())
        say(arguments, sets.summary())
    if labelled and is_classifier(type(model)):
        figures["accuracy"] = right / labelled
        say(arguments, f"accuracy {100 * right / labelled:.2f} % ({right} of {labelled})")
    elif labelled:
        figures["mean_squared_error"] = squares / labelled
        say(arguments, f"mean squared error {squares / labelled:.6g} ({labelled} examples)")
    for name in ("average_loss", "error"):
        figures.pop(name)
    return figures


class LabelSets:
    """Predicted label sets, and how they agree with those of the data."""

    def __init__(self) -> None:
        self.n = self.exact = self.common = self.predicted = self.wanted = 0

    def of(self, indicator: np.ndarray, classes: np.ndarray) -> list[tuple]:
        """Labels of each row."""
        names = classes.tolist()
        return [tuple(names[k] for k in np.flatnonzero(row)) for row in indicator]

    def count(self, found: list[tuple], wanted: list[tuple]) -> None:
        for a, b in zip(map(set, found), map(set, wanted)):
            self.n += 1
            self.exact += a == b
            self.common += len(a & b)
            self.predicted += len(a)
            self.wanted += len(b)

    def figures(self) -> dict[str, float]:
        total = self.predicted + self.wanted
        return {
            "accuracy": self.exact / self.n,
            "micro_f1": 2 * self.common / total if total else 1.0,
        }

    def summary(self) -> str:
        micro = self.figures()["micro_f1"]
        return (
            f"accuracy {100 * self.exact / self.n:.2f} % ({self.exact} of {self.n} label sets), "
            f"micro F1 {micro:.4f}"
        )


def _set_line(labels: tuple, as_json: bool) -> str:
    """One row's labels: separated by commas, or a JSON list."""
    if as_json:
        return json.dumps(list(labels)) + "\n"
    words = (f"{v:.9g}" if isinstance(v, float) else str(v) for v in labels)
    return ",".join(words) + "\n"


def _lines(found: np.ndarray, as_json: bool) -> str:
    """A batch of answers as text."""
    values = found.tolist()
    if as_json:
        return "".join(json.dumps(value) + "\n" for value in values)
    if found.ndim == 2:
        return "".join("\t".join(f"{v:.9g}" for v in row) + "\n" for row in values)
    if found.dtype.kind == "f":
        return "".join(f"{value:.9g}\n" for value in values)
    return "".join(f"{value}\n" for value in values)
