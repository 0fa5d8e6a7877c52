"""Flags that say what the data are, and the reader that they make."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from osvm.stream import read
from osvm.stream.base import Reader
from osvm.stream.formats import FORMATS, guess_format
from osvm.stream.open import FormatError

# Columns for svmlight data that come through a pipe, where they cannot be counted first.
PIPE_COLUMNS = 1 << 20
NO_LIMIT = 2**31 - 1


def add_input_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of all formats."""
    group = parser.add_argument_group("input")
    add = group.add_argument
    yes_no: Any = argparse.BooleanOptionalAction
    add("--format", choices=list(FORMATS), help="told by the file's name by default")
    add("--skip-errors", action="store_true", help="count malformed records and go on")
    add("--max-line", type=int, metavar="BYTES", help="longest line (default: 32 MiB)")
    add(
        "--multilabel",
        action="store_true",
        help="rows carry any number of labels, one linear model is learnt for each "
        "(svmlight: 1,3 5:0.5; Parquet: a list column)",
    )
    add(
        "--label-separator",
        metavar="TEXT",
        help="between the labels of a line of text or a table, with --multilabel (default: ,)",
    )
    add("--dtype", choices=["float32", "float64"], default="float32", help="of the values")
    group = parser.add_argument_group("svmlight and libsvm files")
    add = group.add_argument
    add(
        "--n-features",
        type=int,
        metavar="N",
        help=f"columns (default: counted in a first pass; {PIPE_COLUMNS} from a pipe)",
    )
    base = group.add_mutually_exclusive_group()
    base.add_argument("--zero-based", action="store_true", help="columns count from 0")
    base.add_argument(
        "--one-based",
        action="store_true",
        help="columns count from 1 (default: from 0 if a 0 occurs in the file, else from 1)",
    )
    group = parser.add_argument_group("tables (CSV, TSV, JSON lines, Parquet)")
    add = group.add_argument
    add("--label", metavar="COLUMN", help="column of the label (default: label)")
    add(
        "--text",
        metavar="COLUMN[,COLUMN]",
        help="columns of text, to be hashed, in place of numbers",
    )
    add("--features", metavar="COLUMN,...", help="columns of numbers (default: all others)")
    add("--weight", metavar="COLUMN", help="column of weights")
    add("--separator", metavar="CHAR", help="of CSV fields, or of label and text (default: tab)")
    add("--no-header", action="store_true", help="columns are named 0, 1, ...")
    add("--no-quotes", action="store_true", help="quotes mean nothing in the CSV file")
    add("--label-type", choices=["str", "int", "float"], help="(default: as the task wants)")
    add("--indices", metavar="COLUMN", help="Parquet list column of column numbers")
    add("--values", metavar="COLUMN", help="Parquet list column of values")
    group = parser.add_argument_group("text and hashing")
    add = group.add_argument
    add("--bits", type=int, help="columns are 2**BITS (default: 18 for vw, 20 for text)")
    add("--ngrams", metavar="N[-M]", help="n-grams of words or characters (default: 1)")
    add("--analyzer", choices=["word", "char"], help="what n-grams are made of (default: word)")
    add("--stop-words", metavar="WORD,...", help="to leave out, or 'english' (default: none)")
    add("--tf", choices=["log", "count", "binary"], help="term frequency (default: log)")
    add(
        "--idf",
        action=yes_no,
        default=None,
        help="weigh terms by how few documents hold them, counted as they come (default: yes)",
    )
    add("--signed", action=yes_no, default=None, help="signed hash (default: yes)")
    add("--norm", action=yes_no, default=None, help="rows of unit length (default: yes)")
    add("--lowercase", action=yes_no, default=None, help="(default: yes)")
    add("--min-length", type=int, help="characters of the shortest token (default: 2)")
    add("--unlabelled", action="store_true", help="the text, table or vw lines have no labels")


def tokenizer_options(arguments: argparse.Namespace) -> dict[str, Any]:
    names = ("bits", "tf", "idf", "signed", "norm", "lowercase", "min_length", "analyzer")
    options = {name: getattr(arguments, name) for name in names}
    if arguments.stop_words is not None:
        words = arguments.stop_words
        options["stop_words"] = words if words == "english" else words.split(",")
    if arguments.ngrams is not None:
        low, _, high = arguments.ngrams.partition("-")
        try:
            options["ngrams"] = (int(low), int(high or low))
        except ValueError:
            arguments.parser.error(f"--ngrams {arguments.ngrams}: give N or N-M")
    return {name: value for name, value in options.items() if value is not None}


def _split(names: str | None) -> list[str] | None:
    return None if names is None else names.split(",")


def open_input(
    arguments: argparse.Namespace,
    source: Any,
    *,
    label_type: str = "str",
    model: Any = None,
) -> Reader:
    """The reader of a file.

    `model` brings the configuration of the reader that it was trained with, which stands in
    for the flags that make columns.
    """
    if model is not None and "_input" in model.__dict__:
        return _open_like(arguments, source, model)
    format = arguments.format
    if format is None:
        format = guess_format(source)
        if format == "svmlight" and arguments.text is not None:
            format = "csv"
    options: dict[str, Any] = _common(arguments, format)
    options.update(_label_sets(arguments, format))
    if format == "svmlight":
        options["n_features"] = arguments.n_features
        if arguments.zero_based or arguments.one_based:
            options["zero_based"] = arguments.zero_based
        if arguments.n_features is None and not _seekable(source):
            options["n_features"] = PIPE_COLUMNS
    elif format == "vw":
        options["unlabelled"] = arguments.unlabelled
        if arguments.bits is not None:
            options["bits"] = arguments.bits
    else:
        options.update(_table_options(arguments, format, label_type))
    try:
        return read(source, format, **options)
    except FormatError as error:
        if arguments.label is None and error.reason.startswith("no column 'label';"):
            hint = "name the label's with --label, or pass --unlabelled"
            raise ValueError(f"{error}; {hint}") from None
        raise


def _label_sets(arguments: argparse.Namespace, format: str) -> dict[str, Any]:
    """What a reader of several labels per row is told."""
    if not arguments.multilabel:
        if arguments.label_separator is not None:
            arguments.parser.error("--label-separator goes with --multilabel")
        return {}
    if format == "vw":
        arguments.parser.error("--multilabel: Vowpal Wabbit's format has one label; use svmlight")
    if format in ("svmlight", "parquet"):
        return {"multilabel": True}
    separator = "," if arguments.label_separator is None else arguments.label_separator
    return {"label_separator": _character(separator)}


def _common(arguments: argparse.Namespace, format: str) -> dict[str, Any]:
    options: dict[str, Any] = {"dtype": arguments.dtype}
    if format == "parquet":
        for flag in ("skip_errors", "max_line"):
            if getattr(arguments, flag):
                arguments.parser.error(
                    f"--{flag.replace('_', '-')} is for lines, which Parquet does not have"
                )
    else:
        options["on_error"] = "skip" if arguments.skip_errors else "raise"
        if arguments.max_line is not None:
            options["max_line"] = arguments.max_line
    return options


def _table_options(arguments: argparse.Namespace, format: str, label_type: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    tokenizer = tokenizer_options(arguments)
    if format == "text":
        if arguments.separator is not None:
            options["separator"] = _character(arguments.separator)
        options["labelled"] = not arguments.unlabelled
        options["label_type"] = arguments.label_type or label_type
        options["tokenizer"] = tokenizer
        return options
    options["label"] = None if arguments.unlabelled else arguments.label or "label"
    options["text"] = _split(arguments.text)
    options["features"] = _split(arguments.features)
    options["weight"] = arguments.weight
    if arguments.text is not None:
        options["tokenizer"] = tokenizer
    if format == "parquet":
        options.update(
            indices=arguments.indices, values=arguments.values, n_features=arguments.n_features
        )
        options["label_type"] = arguments.label_type or (
            label_type if label_type != "str" else None
        )
        return options
    options["label_type"] = arguments.label_type or label_type
    if format in ("csv", "tsv"):
        if arguments.separator is not None:
            options["separator"] = _character(arguments.separator)
        if arguments.no_header:
            options["header"] = False
        if arguments.no_quotes:
            options["quote"] = None
    return options


def _character(text: str) -> str:
    return {"\\t": "\t", "tab": "\t", "space": " "}.get(text, text)


def _seekable(source: Any) -> bool:
    if source != "-":
        return True
    import sys

    try:
        sys.stdin.buffer.tell()
        return bool(sys.stdin.buffer.seekable())
    except (OSError, ValueError):
        return False


def _open_like(arguments: argparse.Namespace, source: Any, model: Any) -> Reader:
    """A reader that makes the columns that a model knows; labels are taken where there are any."""
    saved = dict(model.__dict__["_input"])
    format = saved.pop("format")
    if saved.get("tokenizer"):
        saved["tokenizer"] = model.tokenizer_
    other = arguments.format
    if other is None and not str(source).endswith(".txt"):  # which holds any of them
        named = guess_format(source)
        other = named if named in ("jsonl", "parquet") else format
    if other not in (None, format):
        arguments.parser.error(
            f"the model was trained on {format} data; its columns cannot come from {other}"
        )
    options = {**_common(arguments, format), **saved}
    if format == "svmlight":
        options["n_features"] = NO_LIMIT  # what the model does not know is left out later
    elif format == "vw":
        options["unlabelled"] = True
    elif format == "text":
        options["labelled"] = not arguments.unlabelled
    elif arguments.unlabelled:
        options["label"] = options["weight"] = None
    elif format in ("csv", "parquet"):
        options = _without_missing_columns(source, format, options)
    return read(source, format, **options)


def _without_missing_columns(source: Any, format: str, options: dict[str, Any]) -> dict[str, Any]:
    """Data to be predicted need neither labels nor weights."""
    if options.get("header", True) is not True or source == "-":
        return options
    for name in ("label", "weight"):
        if options.get(name) is None:
            continue
        try:
            read(source, format, **options).close()
            break
        except ValueError as error:
            if f"no column {options[name]!r}" in str(error):
                options = {**options, name: None}
    return options


def known_columns(X: Any, n_features: int) -> tuple[csr_array, int]:
    """X with the columns of the model, and how many values lay outside of them."""
    if X.shape[1] == n_features:
        return X, 0
    outside = X.indices >= n_features
    count = int(np.count_nonzero(outside))
    if count:
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[~outside]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=X.shape[0]))])
        indices, data = X.indices[~outside], X.data[~outside]
    else:
        indices, indptr, data = X.indices, X.indptr, X.data
    kind = np.int32 if n_features < 2**31 else np.int64
    parts = (data, indices.astype(kind, copy=False), indptr.astype(kind, copy=False))
    return csr_array(parts, shape=(X.shape[0], n_features)), count
