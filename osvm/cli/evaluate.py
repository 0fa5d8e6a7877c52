"""``osvm evaluate``: progressive validation, each example predicted before it is learnt."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from osvm import io
from osvm.cli.estimators import (
    add_estimator_arguments,
    given_parameters,
    is_regressor,
    make_estimator,
    settle_estimator,
)
from osvm.cli.inputs import add_input_arguments, known_columns, open_input
from osvm.cli.report import add_report_arguments, positive, say, say_skipped
from osvm.cli.train import _known_classes, _label_type, _numeric
from osvm.stream.progressive import ProgressiveResult, progressive_validate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(parser=parser)
    parser.usage = "osvm evaluate DATA [-m MODEL] [options]"
    parser.add_argument("data", help="file, or - for standard input")
    parser.add_argument("-m", "--model", metavar="FILE", help="start from this model")
    parser.add_argument(
        "--metrics",
        metavar="NAME,...",
        help="loss, error, accuracy, squared_error, absolute_error, or names of functions of "
        "sklearn.metrics (default: loss,error; loss,squared_error for regressors)",
    )
    parser.add_argument(
        "--window", type=positive, help="examples per line (default: 1, 2, 4, 8, ...)"
    )
    parser.add_argument("--delay", type=int, default=0, help="examples by which labels are late")
    parser.add_argument("--block", type=positive, help="rows predicted at a time; 1 is exact")
    parser.add_argument("--limit", type=positive, help="stop after so many examples")
    parser.add_argument("--plot", metavar="FILE", help="save a plot; needs matplotlib")
    parser.add_argument("--classes", metavar="LABEL,...", help="all labels, when they are known")
    add_report_arguments(parser)
    add_estimator_arguments(parser)
    add_input_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    model: Any = None
    if arguments.model is not None:
        if given_parameters(arguments) or arguments.estimator:
            arguments.parser.error("--model brings its own parameters; leave the estimator's out")
        model = io.load(arguments.model)
    else:
        settle_estimator(arguments)
    label_type = _label_type(arguments)
    with open_input(arguments, arguments.data, label_type=label_type, model=model) as reader:
        reader.counting = True
        stream: Any = reader
        if model is None:
            model = make_estimator(arguments, numeric_labels=_numeric(reader))
        else:
            stream = ((known_columns(b[0], model.n_features_in_)[0], *b[1:]) for b in reader)
        result = progressive_validate(
            model,
            stream,
            metrics=_metrics(arguments, model),
            window=arguments.window,
            delay=arguments.delay,
            block=arguments.block,
            limit=arguments.limit,
            classes=_known_classes(arguments, model, reader),
            on_window=None if arguments.quiet or arguments.json else _print_window,
        )
        if not result.n_examples:
            raise ValueError(f"{reader.name}: no examples")
        say_skipped(arguments, reader)
    if arguments.plot is not None:
        _plot(result, arguments.plot)
    speed = result.n_examples / max(result.seconds, 1e-9)
    if arguments.json:
        print(
            json.dumps(
                {
                    "examples": result.n_examples,
                    "seconds": result.seconds,
                    "examples_per_second": speed,
                    "metrics": result.final,
                    "windows": result.table(),
                    "skipped": reader.n_skipped,
                }
            )
        )
    final = ", ".join(f"{name} {value:.6f}" for name, value in result.final.items())
    text = f"{result.n_examples} examples in {result.seconds:.2f} s ({speed:,.0f} per s): {final}"
    say(arguments, text)
    return 0


def _metrics(arguments: argparse.Namespace, model: Any) -> list[str]:
    if arguments.metrics is not None:
        return arguments.metrics.split(",")
    regression = is_regressor(type(model))
    return ["loss", "squared_error" if regression else "error"]


def _print_window(result: ProgressiveResult) -> None:
    """The last line of the table, after its head the first time."""
    lines = str(
        ProgressiveResult(
            result.metrics,
            result.examples[-1:],
            {name: values[-1:] for name, values in result.running.items()},
            {name: values[-1:] for name, values in result.window.items()},
        )
    ).splitlines()
    if len(result.examples) == 1:
        print(lines[0], file=sys.stderr)
    print(lines[1], file=sys.stderr, flush=True)


def _plot(result: ProgressiveResult, path: str) -> None:
    try:
        import matplotlib
    except ImportError:
        raise ValueError("--plot needs the package 'matplotlib'") from None
    matplotlib.use("agg")
    result.plot().figure.savefig(path)
