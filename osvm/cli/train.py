"""``osvm train``: learn a model from a file or a pipe.

Data that fit in `--memory-mb` are read once and given to `fit`; larger ones,
pipes and checkpointed runs are streamed through `partial_fit`, so that memory
does not depend on the size of the data.
"""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

import numpy as np
from scipy.sparse import vstack

from osvm import io
from osvm._input.parameters import check_integer
from osvm.cli.estimators import (
    FIT_ONLY,
    add_estimator_arguments,
    given_parameters,
    is_classifier,
    is_regressor,
    make_estimator,
    settle_estimator,
)
from osvm.cli.inputs import add_input_arguments, open_input
from osvm.cli.report import (
    FirstPassTable,
    Report,
    add_report_arguments,
    positive,
    say,
    say_skipped,
)
from osvm.cli.streamed import StreamedRun, check_labels, count_errors
from osvm.cli.terms import keep_largest_terms
from osvm.io.archive import check_folder
from osvm.io.encoding import decode
from osvm.stream.base import ParsedReader
from osvm.stream.blocks import BlockReader, can_visit_blocks

COLUMN_BYTES = 16  # of a weight, its average and its step
MAX_CLASSES = 10_000  # labels of a survey that are taken for classes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(parser=parser)
    parser.usage = "osvm train DATA -m MODEL [options]"
    parser.add_argument("data", help="file, or - for standard input")
    parser.add_argument("-m", "--model", required=True, metavar="FILE", help="where to save")
    parser.add_argument("-i", "--initial", metavar="FILE", help="go on learning from this model")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on from the checkpoint in --model, with the same data and flags, if it exists",
    )
    parser.add_argument(
        "--checkpoint-every", type=positive, metavar="N", help="save after every N examples"
    )
    parser.add_argument("--stream", action="store_true", help="stream, whatever the size")
    parser.add_argument(
        "--memory-mb",
        type=float,
        default=32.0,
        metavar="MB",
        help="data up to this size are held in memory (default: 32)",
    )
    parser.add_argument(
        "--reservoir",
        type=positive,
        default=65536,
        metavar="ROWS",
        help="rows through which a stream is mixed (default: 65536)",
    )
    parser.add_argument(
        "--holdout",
        type=int,
        default=10,
        metavar="N",
        help="with several streamed passes, never learn one row in N and report the error on "
        "them (default: 10; 0 learns all)",
    )
    parser.add_argument("--classes", metavar="LABEL,...", help="all labels, when they are known")
    parser.add_argument(
        "--threads",
        type=positive,
        default=1,
        metavar="N",
        help="parse a plain svmlight or vw file in N threads, to the same model (default: 1)",
    )
    add_estimator_arguments(parser)
    add_input_arguments(parser)
    add_report_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.memory_mb < 0:
        arguments.parser.error("--memory-mb must not be negative")
    try:
        return _run(arguments)
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(*(interrupt.args or [_what_is_left(arguments)])) from None


def _what_is_left(arguments: argparse.Namespace) -> str:
    """What an interrupted user has, and can do."""
    if not (arguments.checkpoint_every or arguments.resume):
        return "nothing was learnt yet; nothing was saved"
    if not os.path.exists(arguments.model):
        return "before the first checkpoint; nothing was saved"
    return f"{arguments.model} holds the last checkpoint; the same command with --resume goes on"


def _run(arguments: argparse.Namespace) -> int:
    if arguments.initial is None:
        settle_estimator(arguments)
    check_folder(arguments.model)  # rather than after hours of learning
    model = _starting_model(arguments)
    reader = open_input(arguments, arguments.data, label_type=_label_type(arguments), model=model)
    if arguments.threads > 1 and not (
        isinstance(reader, ParsedReader) and can_visit_blocks(reader)
    ):
        reader.close()
        arguments.parser.error(
            f"--threads parses plain svmlight and vw files, not {reader.name}: leave it out"
        )
    with reader:
        if reader.tokenizer is not None:
            reader.tokenizer.keep_terms_from_now_on()
            reader.counting = True
        if reader.left_out and model is None:
            say(arguments, f"left out, beside the text: columns {', '.join(reader.left_out)}")
        fresh = model is None
        if model is None:
            model = make_estimator(arguments, numeric_labels=_numeric(reader))
            _check_columns(model, reader)
        try:
            figures = _learn(arguments, model, reader, fresh)
        except KeyboardInterrupt:
            if arguments.checkpoint_every or arguments.resume or not hasattr(model, "t_"):
                raise
            _save(arguments, model, reader)
            raise KeyboardInterrupt(
                f"{arguments.model} holds what was learnt from {model.t_} examples; "
                "--checkpoint-every N makes runs that can be resumed"
            ) from None
        _save(arguments, model, reader)
        say_skipped(arguments, reader)
    figures.update(model=os.fspath(arguments.model), **{"class": type(model).__name__})
    say(arguments, _summary(figures))
    if arguments.json:
        print(json.dumps(figures))
    return 0


def _learn(arguments: argparse.Namespace, model: Any, reader: Any, fresh: bool) -> dict[str, Any]:
    """Learn the data in memory if they fit, else as a stream; the figures."""
    if fresh and not _must_stream(arguments):
        report = Report(arguments, reader, absolute=is_regressor(type(model)))
        whole = _hold(reader, arguments.memory_mb, arguments.threads)
        if whole is not None:
            return _fit(arguments, model, reader, whole, report)
    return _stream(arguments, model, reader)


def _check_columns(model: Any, reader: Any) -> None:
    """Refuse weights beyond this machine's memory: a mistaken index, in place of a killed run."""
    if "linear" not in type(model).__module__.split(".") or not reader.n_features:
        return
    need, memory = COLUMN_BYTES * reader.n_features, _memory()
    if memory is not None and need > memory:
        raise ValueError(
            f"{reader.name}: {reader.n_features} columns take {need / 1e9:.0f} GB of weights, and "
            f"this machine has {memory / 1e9:.0f}; if an index is mistaken, --n-features N with "
            "--skip-errors leaves its line out"
        )


def _memory() -> int | None:
    """Bytes of this machine, where the system tells them."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", ()):
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _starting_model(arguments: argparse.Namespace) -> Any:
    """The model to go on from, with --initial."""
    if arguments.initial is None:
        return None
    given = given_parameters(arguments)
    if given or arguments.estimator:
        arguments.parser.error("--initial brings its own parameters; leave the estimator's out")
    return io.load(arguments.initial)


def _label_type(arguments: argparse.Namespace) -> str:
    return "float" if arguments.estimator and is_regressor(arguments.estimator) else "str"


def _numeric(reader: Any) -> bool:
    numeric = getattr(reader, "numeric_labels", None)
    return reader.config().get("label_type") != "str" if numeric is None else numeric


def _must_stream(arguments: argparse.Namespace) -> bool:
    return bool(
        arguments.stream or arguments.data == "-" or arguments.checkpoint_every or arguments.resume
    )


def _hold(reader: Any, megabytes: float, threads: int) -> list[tuple] | None:
    """All batches, if they fit; otherwise the reader is taken back to the start."""
    place = reader.progress
    if place is not None and place[1] > 8e6 * megabytes:
        return None
    if threads > 1:
        reader = BlockReader(reader, shuffle=False, threads=threads)
    batches, size = [], 0
    reader.raw = True  # documents are weighed when all have been counted
    for batch in reader:
        X = batch[0]
        batches.append(batch)
        size += X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
        if size > 1e6 * megabytes:
            reader.raw = False
            reader.rewind()
            return None
    if not batches:
        raise ValueError(f"{reader.name}: no examples")
    return batches


# ------------------------------------------------------------------- in memory


def _fit(
    arguments: argparse.Namespace, model: Any, reader: Any, batches: list, report: Report
) -> dict[str, Any]:
    X = batches[0][0] if len(batches) == 1 else vstack([b[0] for b in batches], format="csr")
    y: Any = None
    if isinstance(batches[0][1], list):
        y = [labels for b in batches for labels in b[1]]
    elif batches[0][1] is not None:
        y = np.concatenate([b[1] for b in batches])
    weight = np.concatenate([b[2] for b in batches]) if len(batches[0]) == 3 else None
    check_labels(arguments, model, y, reader)
    batches.clear()
    if reader.tokenizer is not None:
        reader.tokenizer.weigh(X)
        model.tokenizer_ = reader.tokenizer
    table = FirstPassTable(X.shape[0], report.absolute)
    if hasattr(model, "verbose") and not arguments.quiet:
        model.verbose = table
    options = {} if weight is None else {"sample_weight": weight}
    try:
        if y is None:
            model.fit(X, **options)
        else:
            model.fit(X, y, **options)
    finally:
        if hasattr(model, "verbose"):
            model.verbose = False
    report.examples = int(model.t_)
    report.table = False  # the model has printed its own
    figures = report.finish()
    passes = getattr(model, "n_epochs_", getattr(model, "n_iter_", None))
    order = "random order" if getattr(model, "shuffle", False) else "the order of the data"
    figures["mode"] = {"data": "held in memory", "passes": _whole(passes), "order": order}
    figures["rows"] = X.shape[0]
    figures.update(table.figures())
    if y is not None:
        errors, n = count_errors(model, (X, y))
        name = "training_squared_error" if report.absolute else "training_error"
        figures[name] = errors / n if n else None
    return figures


def _whole(number: Any) -> int | None:
    return None if number is None else int(np.max(number))


# ------------------------------------------------------------------- streaming


def _stream(arguments: argparse.Namespace, model: Any, reader: Any) -> dict[str, Any]:
    given = given_parameters(arguments)
    if given.get("scale") in ("std", "maxabs"):
        arguments.parser.error(
            f"--scale {given['scale']} needs all data at once: raise --memory-mb, or choose "
            "--scale running"
        )
    for name in FIT_ONLY:
        if given.get(name):
            arguments.parser.error(
                f"--{name.replace('_', '-')} needs all data at once: raise --memory-mb, "
                "or leave it out (give --reg in place of --C)"
            )
    if not hasattr(model, "partial_fit"):
        raise ValueError(
            f"--solver {getattr(model, 'solver', '')} of {type(model).__name__} learns a fixed "
            "training set: give a file, raise --memory-mb, and leave out --stream, --resume and "
            "--checkpoint-every"
        )
    if reader.tokenizer is not None:
        model.tokenizer_ = reader.tokenizer
    run = StreamedRun(arguments, model, reader, check_integer("epochs", given.get("epochs", 1), 1))
    return run.learn(_known_classes(arguments, model, reader), arguments.resume)


def _known_classes(arguments: argparse.Namespace, model: Any, reader: Any) -> Any:
    """Labels to name at the first `partial_fit`."""
    if not is_classifier(type(model)) or hasattr(model, "classes_"):
        return None
    if arguments.classes is not None:
        labels = arguments.classes.split(",")
        if _numeric(reader):
            return np.array([float(label) for label in labels])
        return np.array(labels)
    labels = getattr(reader, "labels", None)
    if labels is not None and 2 <= len(labels) <= MAX_CLASSES:
        return labels
    return None


def _save(arguments: argparse.Namespace, model: Any, reader: Any) -> None:
    """The final file: the model, its input, and the place if it was checkpointed."""
    if reader.tokenizer is not None:
        keep_largest_terms(model, reader.tokenizer)
    stream = None
    if arguments.checkpoint_every or arguments.resume:
        _, header, arrays = io.load_all(arguments.model)
        stream = (decode(header["stream"]), arrays)
    io.save(model, arguments.model, input=reader.config(), stream=stream)


def _summary(figures: dict[str, Any]) -> str:
    text = (
        f"{figures['class']}: {figures['examples']} examples in {figures['seconds']:.2f} s "
        f"({figures['examples_per_second']:,.0f} per s, "
        f"{figures['megabytes_per_second']:.1f} MB/s)"
    )
    mode = figures["mode"]
    passes = "" if mode["passes"] is None else f"{mode['passes']} passes in "
    text += f"\n{mode['data']}: {figures['rows']} rows, {passes}{mode['order']}"
    text = text.replace(" 1 passes", " 1 pass")
    if figures.get("average_loss") is not None:
        n = figures.get("progressive_examples")
        text += f"\nprogressive, first pass ({n} examples, each predicted before it was learnt): "
        text += f"loss {figures['average_loss']:.6f}, "
        if "error" in figures:
            text += f"error {100 * figures['error']:.2f} %"
        else:
            text += f"absolute error {figures['absolute_error']:.6g}"
    for name, what in (
        ("held_out_error", "error {:.2f} %"),
        ("held_out_squared_error", "mean squared error {:.6g}"),
    ):
        if figures.get(name) is not None:
            n, unit = figures["held_out_rows"], 1 if "squared" in name else 100
            text += f"\nheld out, last pass ({n} rows that were never learnt): "
            text += what.format(unit * figures[name])
    if figures.get("training_squared_error") is not None:
        text += f"\ntraining: mean squared error {figures['training_squared_error']:.6g}"
        text += " (rows that were learnt)"
    if figures.get("training_error") is not None:
        text += f"\ntraining error {100 * figures['training_error']:.2f} % (rows that were learnt)"
    return f"{text}\nsaved {figures['model']}"
