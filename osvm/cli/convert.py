"""``osvm convert``: from any format that osvm reads to one that keeps rows of numbers.

Raw text becomes hashed columns; it cannot come back.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from osvm.cli.inputs import add_input_arguments, open_input
from osvm.cli.report import Report, add_report_arguments, positive, say, say_skipped
from osvm.io.archive import replacing
from osvm.stream.external import ExternalShuffle
from osvm.stream.formats import guess_format
from osvm.stream.parquet import N_FEATURES

TARGETS = ("svmlight", "vw", "csv", "parquet")
MAX_CSV_COLUMNS = 10_000
BUCKETS = 64  # of --shuffle into one file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(parser=parser)
    parser.usage = "osvm convert DATA OUTPUT [options]"
    parser.add_argument("data", help="file, or - for standard input")
    parser.add_argument("output", help="file, or - for standard output")
    parser.add_argument("--to", choices=TARGETS, help="(default: told by the output's name)")
    parser.add_argument(
        "--labels",
        metavar="FILE",
        help="number the labels 0, 1, ... as they appear and write their names here (JSON)",
    )
    parser.add_argument(
        "--shuffle",
        action="store_true",
        help="write the rows in random order, through files beside OUTPUT that take about as "
        "much room as the data",
    )
    parser.add_argument(
        "--split",
        type=positive,
        metavar="N",
        help="with --shuffle, N files of rows drawn at random: out.svm becomes out-0.svm, ...",
    )
    parser.add_argument("--random-state", type=int, metavar="SEED", help="of --shuffle")
    parser.add_argument(
        "--memory-mb",
        type=positive,
        default=256,
        metavar="MB",
        help="that --shuffle holds at a time (default: 256)",
    )
    add_report_arguments(parser)
    add_input_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    target = arguments.to or guess_format(arguments.output)
    if target == "tsv":
        target = "csv"
    if target not in TARGETS:
        arguments.parser.error(f"cannot write {target}; --to {', '.join(TARGETS)}")
    if arguments.split and not arguments.shuffle:
        arguments.parser.error("--split needs --shuffle")
    if arguments.output == "-" and (target == "parquet" or arguments.shuffle):
        what = "Parquet" if target == "parquet" else "what --shuffle writes"
        raise ValueError(f"{what} cannot go to standard output")
    with open_input(arguments, arguments.data) as reader:
        figures = _convert(arguments, reader, target)
        say_skipped(arguments, reader)
    say(arguments, f"{figures['rows']} rows, {figures['values']} values")
    if arguments.json and arguments.output != "-":
        print(json.dumps(figures))
    return 0


def _convert(arguments: argparse.Namespace, reader: Any, target: str) -> dict[str, Any]:
    labels, report = Labels(arguments), Report(arguments, reader, table=False)
    writer = _to_parquet if target == "parquet" else _to_lines
    rows = values = 0
    outputs = [arguments.output]
    if arguments.split:
        stem, suffix = os.path.splitext(arguments.output)
        width = len(str(arguments.split - 1))
        outputs = [f"{stem}-{k:0{width}}{suffix}" for k in range(arguments.split)]
    with contextlib.ExitStack() as stack:
        if arguments.shuffle:
            reader = stack.enter_context(
                ExternalShuffle(
                    reader,
                    arguments.split or BUCKETS,
                    arguments.memory_mb << 20,
                    os.path.dirname(os.path.abspath(arguments.output)),
                    arguments.random_state,
                )
            )
        for k, output in enumerate(outputs):
            if arguments.split:
                reader.go_to(k)
            with _opened(output) as file:
                for n, m in writer(arguments, reader, target, file, labels):
                    rows, values = rows + n, values + m
                    report.add(n, loss=None)
    labels.save()
    return {**report.finish(), "rows": rows, "values": values}


def _opened(output: str) -> Any:
    if output == "-":
        return contextlib.nullcontext(sys.stdout.buffer)
    if os.path.exists(output) and not os.path.isfile(output):
        return open(output, "wb")  # a pipe or a device
    return replacing(output)


class Labels:
    """Labels as numbers; strings only where they may be numbered."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.path = arguments.labels
        self.codes: dict[Any, int] = {}

    def numbers(self, y: Any, n: int) -> list[Any]:
        """One number for each row, or a tuple of them."""
        if y is None:
            return [0.0] * n
        if isinstance(y, list):
            return [tuple(self.numbers(np.array(row), len(row))) for row in y]
        y = np.asarray(y)
        if self.path is not None:
            return [self.codes.setdefault(v, len(self.codes)) for v in y.tolist()]
        try:
            numbers = y.astype(np.float64)
        except ValueError:
            raise ValueError(
                "the labels are not numbers; pass --labels FILE to number them"
            ) from None
        if y.dtype.kind != "f" and (np.abs(numbers) >= 2**53).any():
            raise ValueError(
                "labels beyond 2**53 would be rounded; pass --labels FILE to number them, or "
                "--label-type float"
            )
        return numbers.tolist()

    def save(self) -> None:
        if self.path is not None:
            with replacing(self.path) as file:
                file.write(json.dumps(list(self.codes)).encode())


def _to_lines(
    arguments: argparse.Namespace, reader: Any, target: str, out: IO[bytes], labels: Labels
) -> Iterator[tuple[int, int]]:
    """Write all batches; rows and values of each."""
    if target == "csv":
        if reader.n_features > MAX_CSV_COLUMNS:
            raise ValueError(
                f"{reader.n_features} columns are too many for CSV (at most {MAX_CSV_COLUMNS})"
            )
        names = getattr(reader, "feature_names", None) or [
            f"x{k}" for k in range(reader.n_features)
        ]
        out.write((",".join(["label", *names]) + "\n").encode())
    for X, y, *weight in reader:
        numbers = [_label(label, target) for label in labels.numbers(y, X.shape[0])]
        if target == "csv":
            text = _csv_lines(X, numbers)
        elif target == "vw":
            text = _vw_lines(X, numbers, weight[0] if weight else None)
        else:
            text = _svmlight_lines(X, numbers)
        out.write(text.encode())
        yield X.shape[0], X.nnz


def _label(label: Any, target: str) -> str:
    """A label, or several with commas between them."""
    if not isinstance(label, tuple):
        return f"{label:.17g}"
    if target == "vw":
        raise ValueError("Vowpal Wabbit's format has one label for each row; write svmlight")
    text = ",".join(f"{one:.17g}" for one in label)
    return f'"{text}"' if target == "csv" else text


def _digits(X: Any) -> str:
    """A format that gives every value back exactly."""
    return "%.9g" if X.dtype == np.float32 else "%.17g"


def _pairs(X: Any, template: str, first: int) -> list[str]:
    """The features of each row as text."""
    X.sum_duplicates()
    X.sort_indices()
    indices, data, ends = (X.indices + first).tolist(), X.data.tolist(), X.indptr.tolist()
    words = [template % pair for pair in zip(indices, data)]
    return [" ".join(words[a:b]) for a, b in zip(ends, ends[1:])]  # noqa: RUF007


def _svmlight_lines(X: Any, labels: list[str]) -> str:
    rows = _pairs(X, "%d:" + _digits(X), 1)
    # a row without labels and values would be a blank line, which means nothing
    filled = (row if row or y else "1:0" for y, row in zip(labels, rows))
    return "".join(f"{y} {row}\n" if row else f"{y}\n" for y, row in zip(labels, filled))


def _vw_lines(X: Any, labels: list[str], weight: Any) -> str:
    rows = _pairs(X, "%d:" + _digits(X), 0)
    if weight is None:
        return "".join(f"{y} | {row}\n" for y, row in zip(labels, rows))
    return "".join(f"{y} {w:.17g} | {row}\n" for y, w, row in zip(labels, weight.tolist(), rows))


def _csv_lines(X: Any, labels: list[str]) -> str:
    digits = _digits(X)
    return "".join(
        ",".join([y, *(digits % v for v in row)]) + "\n"
        for y, row in zip(labels, X.toarray().tolist())
    )


def _to_parquet(
    arguments: argparse.Namespace, reader: Any, target: str, out: IO[bytes], labels: Labels
) -> Iterator[tuple[int, int]]:
    """List columns ``indices`` and ``values``, and ``label``; rows and values of each batch."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ValueError("writing Parquet needs the package 'pyarrow'") from None
    writer: Any = None
    for X, y, *weight in reader:
        ends = pa.array(X.indptr.astype(np.int32))
        kind = np.int64 if X.shape[1] > 2**31 - 1 else np.int32
        columns = {
            "indices": pa.ListArray.from_arrays(ends, pa.array(X.indices.astype(kind))),
            "values": pa.ListArray.from_arrays(ends, pa.array(X.data)),
        }
        if y is not None:
            columns["label"] = _label_column(arguments, reader, labels, y)
        if weight:
            columns["weight"] = pa.array(weight[0])
        table = pa.table(columns).replace_schema_metadata({N_FEATURES: str(X.shape[1])})
        if writer is None:
            writer = pq.ParquetWriter(out, table.schema)
        writer.write_table(table)
        yield X.shape[0], X.nnz
    if writer is None:
        raise ValueError(f"{reader.name}: no rows")
    writer.close()


def _label_column(arguments: argparse.Namespace, reader: Any, labels: Labels, y: Any) -> Any:
    """Labels, or lists of labels, as an Arrow array whose type does not depend on the batch."""
    import pyarrow as pa

    values = y if arguments.labels is None else labels.numbers(y, len(y))
    if not isinstance(y, list):
        return pa.array(np.asarray(values).tolist())
    text = arguments.labels is None and reader.config().get("label_type") == "str"
    return pa.array([list(row) for row in values], pa.list_(pa.string() if text else pa.float64()))
