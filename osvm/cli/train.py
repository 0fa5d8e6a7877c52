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
    make_estimator,
    settle_estimator,
)
from osvm.cli.inputs import add_input_arguments, known_columns, open_input
from osvm.cli.report import Report, add_report_arguments, positive, say, say_skipped
from osvm.cli.terms import keep_largest_terms
from osvm.files.archive import check_folder
from osvm.files.encoding import decode
from osvm.stream import ShuffledReader
from osvm.stream.progressive import _cut, running_totals

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
        help="rows through which --shuffle mixes a stream (default: 65536)",
    )
    parser.add_argument("--classes", metavar="LABEL,...", help="all labels, when they are known")
    add_report_arguments(parser)
    add_estimator_arguments(parser)
    add_input_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.memory_mb < 0:
        arguments.parser.error("--memory-mb must not be negative")
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_what_is_left(arguments)) from None


def _what_is_left(arguments: argparse.Namespace) -> str:
    """What an interrupted user has, and can do."""
    if not (arguments.checkpoint_every or arguments.resume):
        return "nothing was saved; --checkpoint-every N keeps what was learnt"
    if not os.path.exists(arguments.model):
        return "before the first checkpoint; nothing was saved"
    return f"{arguments.model} holds the last checkpoint; the same command with --resume goes on"


def _run(arguments: argparse.Namespace) -> int:
    if arguments.initial is None:
        settle_estimator(arguments)
    check_folder(arguments.model)  # rather than after hours of learning
    model = _starting_model(arguments)
    reader = open_input(arguments, arguments.data, label_type=_label_type(arguments), model=model)
    with reader:
        if reader.tokenizer is not None:
            reader.tokenizer.keep_terms_from_now_on()
            reader.counting = True
        if model is None:
            model = make_estimator(arguments, numeric_labels=_numeric(reader))
            report = Report(arguments, reader)
            whole = None if _must_stream(arguments) else _hold(reader, arguments.memory_mb)
        else:
            whole = None
        if whole is not None:
            figures = _fit(arguments, model, reader, whole, report)
            if reader.tokenizer is not None:
                model.tokenizer_ = reader.tokenizer
        else:
            figures = _stream(arguments, model, reader)
        if reader.tokenizer is not None:
            keep_largest_terms(model, reader.tokenizer)
        _save(arguments, model, reader.config())
        say_skipped(arguments, reader)
    figures.update(model=os.fspath(arguments.model), **{"class": type(model).__name__})
    say(arguments, _summary(figures))
    if arguments.json:
        print(json.dumps(figures))
    return 0


def _starting_model(arguments: argparse.Namespace) -> Any:
    """The model to go on from, with --initial."""
    if arguments.initial is None:
        return None
    given = given_parameters(arguments)
    if given or arguments.estimator:
        arguments.parser.error("--initial brings its own parameters; leave the estimator's out")
    return io.load(arguments.initial)


def _label_type(arguments: argparse.Namespace) -> str:
    name = arguments.estimator.__name__ if arguments.estimator else ""
    return "float" if name.endswith("Regressor") else "str"


def _numeric(reader: Any) -> bool:
    numeric = getattr(reader, "numeric_labels", None)
    return reader.config().get("label_type") != "str" if numeric is None else numeric


def _must_stream(arguments: argparse.Namespace) -> bool:
    return bool(
        arguments.stream or arguments.data == "-" or arguments.checkpoint_every or arguments.resume
    )


def _hold(reader: Any, megabytes: float) -> list[tuple] | None:
    """All batches, if they fit; otherwise the reader is taken back to the start."""
    place = reader.progress
    if place is not None and place[1] > 8e6 * megabytes:
        return None
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
    _need_labels(model, y, reader)
    batches.clear()
    if reader.tokenizer is not None:
        reader.tokenizer.weigh(X)
    if hasattr(model, "verbose") and not arguments.quiet:
        model.verbose = True
    options = {} if weight is None else {"sample_weight": weight}
    if y is None:
        model.fit(X, **options)
    else:
        model.fit(X, y, **options)
    if hasattr(model, "verbose"):
        model.verbose = False
    totals = running_totals(model)
    report.examples = int(model.t_)
    if totals is not None:
        report.loss, report.errors = totals
    report.table = False  # the model has printed its own
    figures = report.finish()
    figures["rows"] = X.shape[0]
    return figures


def _need_labels(model: Any, y: Any, reader: Any) -> None:
    if y is None and not type(model).__name__.endswith("Novelty"):
        raise ValueError(
            f"{reader.name}: {type(model).__name__} needs labels; name their column with --label"
        )


# ------------------------------------------------------------------- streaming


def _stream(arguments: argparse.Namespace, model: Any, reader: Any) -> dict[str, Any]:
    given = given_parameters(arguments)
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
    epochs = check_integer("epochs", given.get("epochs", 1), 1)
    inner = reader
    if reader.tokenizer is not None:
        model.tokenizer_ = reader.tokenizer
    if given.get("shuffle"):
        reader = ShuffledReader(
            reader, size=arguments.reservoir, random_state=getattr(model, "random_state", None)
        )
    classes = _known_classes(arguments, model, inner)
    checkpoint = io.checkpoint(
        model,
        arguments.model,
        every=arguments.checkpoint_every or (100_000 if arguments.resume else None),
        resume=arguments.resume,
        input=inner.config(),
    )
    model = checkpoint.model
    extra = checkpoint.extra
    report = Report(arguments, inner, start=checkpoint.n_seen)
    epoch = checkpoint.epoch
    if checkpoint.resumed:
        say(arguments, f"resuming {arguments.model} after {checkpoint.n_seen} examples")
    seen = 0
    for batch in checkpoint.stream(reader, epochs=epochs):
        if checkpoint.epoch != epoch:
            epoch = checkpoint.epoch
            report.new_pass(extra.get("bytes", 0))
        classes = _learn(model, inner, batch, classes, report)
        seen += batch[0].shape[0]
        extra["bytes"] = inner.bytes_read
    if not checkpoint.n_seen:
        raise ValueError(f"{inner.name}: no examples")
    figures = report.finish()
    figures["rows"] = checkpoint.n_seen // max(1, epochs)
    return figures


def _known_classes(arguments: argparse.Namespace, model: Any, reader: Any) -> Any:
    """Labels to name at the first `partial_fit`."""
    if not type(model).__name__.endswith("Classifier") or hasattr(model, "classes_"):
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


def _learn(model: Any, reader: Any, batch: tuple, classes: Any, report: Report) -> Any:
    """Learn a batch, cut where the table has a line."""
    rows = batch[0].shape[0]
    n_features = getattr(model, "n_features_in_", None)
    if n_features is not None and batch[0].shape[1] != n_features:
        batch = (known_columns(batch[0], n_features)[0], *batch[1:])
    _need_labels(model, batch[1], reader)
    start = 0
    while start < rows:
        stop = (
            rows
            if not report.table
            else min(rows, start + max(1, report.next_at - report.examples))
        )
        X, y, *weight = _cut(batch, start, stop)
        options: dict[str, Any] = {}
        if weight:
            options["sample_weight"] = weight[0]
        if classes is not None:
            options["classes"] = classes
            classes = None
        before = running_totals(model) or (0.0, 0.0)
        if y is None:
            model.partial_fit(X, **options)
        else:
            model.partial_fit(X, y, **options)
        after = running_totals(model)
        if after is None:
            report.add(stop - start, loss=None)
        else:
            report.add(stop - start, loss=after[0] - before[0], errors=after[1] - before[1])
        start = stop
    return classes


def _save(arguments: argparse.Namespace, model: Any, config: dict[str, Any]) -> None:
    """The final file: the model, its input, and the place if it was checkpointed."""
    if arguments.checkpoint_every or arguments.resume:
        _, header, arrays = io.load_all(arguments.model)
        stream = (decode(header["stream"]), arrays)
        io.save(model, arguments.model, input=config, stream=stream)
    else:
        io.save(model, arguments.model, input=config)


def _summary(figures: dict[str, Any]) -> str:
    text = (
        f"{figures['class']}: {figures['examples']} examples in {figures['seconds']:.2f} s "
        f"({figures['examples_per_second']:,.0f} per s, "
        f"{figures['megabytes_per_second']:.1f} MB/s)"
    )
    if figures["average_loss"] is not None:
        text += f", average loss {figures['average_loss']:.6f}"
        text += f", running error {100 * figures['error']:.2f} %"
    return f"{text}\nsaved {figures['model']}"


__all__ = ["add_arguments", "run"]
