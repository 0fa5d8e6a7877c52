"""A streamed training run: order of the data, figures, checkpoints.

Errors are progressive in the first pass: each example is predicted before it is learnt.  With
more passes, one row in ten is never learnt, and what is reported is the error on those rows
during the last pass, as Vowpal Wabbit does.  Totals are those of the whole run, also when it was
resumed: the model and the checkpoint's `extra` carry them.
"""

from __future__ import annotations

import argparse
import os
from typing import Any
from zlib import crc32

import numpy as np

from osvm import io
from osvm._input.convert import warn
from osvm.cli.estimators import given_parameters, is_classifier, is_novelty, is_regressor
from osvm.cli.inputs import known_columns
from osvm.cli.report import Report, error_name, say
from osvm.stream import BlockReader, ShuffledReader
from osvm.stream.batches import cut_rows
from osvm.stream.blocks import can_visit_blocks
from osvm.stream.hold_out import HoldOutReader
from osvm.stream.progressive import running_totals

PIECES, PIECE = 64, 4096  # of a file, by which it is known again
CHECKPOINT = 100_000  # examples between two checkpoints of a resumed run


class StreamedRun:
    """One run over a stream."""

    def __init__(
        self, arguments: argparse.Namespace, model: Any, reader: Any, epochs: int
    ) -> None:
        self.arguments, self.model, self.inner, self.epochs = arguments, model, reader, epochs
        self.kind = type(model).__name__
        self.period = arguments.holdout if epochs > 1 else 0
        self.order = "the order of the data"
        self.reader = self._ordered(reader)
        self.extra: dict[str, Any] = {}
        self.epoch = 0

    def _ordered(self, reader: Any) -> Any:
        """The reader in the order that the flags and the source make."""
        shuffle = given_parameters(self.arguments).get("shuffle")
        seed = getattr(self.model, "random_state", None)
        by_blocks = shuffle is not False and can_visit_blocks(reader)
        if by_blocks:
            reader = BlockReader(reader, random_state=seed, threads=self.arguments.threads)
            self.order = "random order (blocks of the file, rows through a reservoir)"
        elif self.arguments.threads > 1:
            self.arguments.parser.error("--threads needs the random order: leave out --no-shuffle")
        self.counted = reader  # knows bytes and progress
        if self.period:
            reader = HoldOutReader(reader, self.period, self._test)
        if by_blocks or shuffle:
            if not by_blocks:
                self.order = "the order of the data, mixed through a reservoir"
            reader = ShuffledReader(
                reader,
                size=self.arguments.reservoir,
                random_state=seed,
                threads=self.arguments.threads,
            )
        return reader

    def learn(self, classes: Any, resume: bool) -> dict[str, Any]:
        """All passes; the figures."""
        arguments = self.arguments
        checkpoint = io.checkpoint(
            self.model,
            arguments.model,
            every=arguments.checkpoint_every or (CHECKPOINT if resume else None),
            resume=resume,
            input=self.inner.config(),
        )
        self.model, self.extra = checkpoint.model, checkpoint.extra
        self._check_data()
        if checkpoint.resumed:
            say(arguments, f"resuming {arguments.model} after {checkpoint.n_seen} examples")
        if "start" not in self.extra:
            self.extra["start"] = list(running_totals(self.model) or (0.0, 0.0))
        loss = (self._totals() or (0.0, 0.0))[0]
        numbers = is_regressor(type(self.model))
        report = Report(
            arguments, self.counted, start=checkpoint.n_seen, loss=loss, absolute=numbers
        )
        report.table = report.table and "first_pass" not in self.extra
        self.epoch = min(checkpoint.epoch, self.epochs - 1)  # a run that has ended says it again
        for batch in checkpoint.stream(self.reader, epochs=self.epochs):
            if checkpoint.epoch != self.epoch:
                self._end_pass(report, checkpoint.n_seen)
                self.epoch = checkpoint.epoch
                report.new_pass(self.extra.get("bytes", 0))
            classes = self._learn(batch, classes, report)
            self.extra["bytes"] = self.counted.bytes_read
        if not checkpoint.n_seen:
            raise ValueError(f"{self.inner.name}: no examples")
        self._end_pass(report, checkpoint.n_seen)
        labels = getattr(self.model, "classes_", None)
        if labels is not None and len(labels) == 1 and self.kind != "MultilabelClassifier":
            warn(
                f"{self.inner.name}: all examples have the label {labels.tolist()[0]!r}, which is "
                "the model's answer to everything",
                UserWarning,
            )
        return self._figures(report, checkpoint.n_seen)

    def _check_data(self) -> None:
        """Refuse to go on with other data than those of the checkpoint."""
        if not os.path.isfile(self.arguments.data):
            return
        found = fingerprint(self.arguments.data)
        if self.extra.setdefault("data", found) != found:
            raise ValueError(
                f"{self.inner.name}: the data are not those of the checkpoint; --initial goes on "
                "from a model with other data"
            )

    # ------------------------------------------------------------------ figures

    def _totals(self) -> tuple[float, float] | None:
        """Loss and errors of this run so far, those before an interruption included."""
        totals = running_totals(self.model)
        if totals is None:
            return None
        loss, errors = self.extra["start"]
        return totals[0] - loss, totals[1] - errors

    def _end_pass(self, report: Report, n_seen: int) -> None:
        """Close the progressive figures after the first pass; say those of a later one."""
        if "first_pass" not in self.extra:
            totals = self._totals()
            self.extra["first_pass"] = [n_seen, *(totals or (None, None))]
            report.close_table()
        elif self._held_out()[1]:
            errors, n = self._held_out()
            what = f"error {100 * errors / n:.2f} %"
            if is_regressor(type(self.model)):
                what = f"mean squared error {errors / n:.6g}"
            say(self.arguments, f"pass {self.epoch + 1}: held-out {what}")

    def _held_out(self) -> list:
        """Errors on rows that are held out in the present pass, and their number."""
        return self.extra.get("held_out", {}).get(str(self.epoch), [0.0, 0])

    def _test(self, batch: tuple, number: int) -> None:
        """Rows that are held out; the first pass has figures of its own."""
        if number and batch[1] is not None:
            errors, n = count_errors(self.model, self._known(batch))
            counts = self.extra.setdefault("held_out", {}).setdefault(str(number), [0.0, 0])
            counts[0] += errors
            counts[1] += n

    def _figures(self, report: Report, n_seen: int) -> dict[str, Any]:
        figures = report.finish()
        n, loss, errors = self.extra["first_pass"]
        known = loss is not None and n > 0
        figures.update(
            mode={"data": "streamed", "passes": self.epochs, "order": self.order},
            rows=n,
            examples=n_seen,
            progressive_examples=n,
            average_loss=loss / n if known else None,
        )
        figures[error_name(report.absolute)] = errors / n if known else None
        errors, held = self._held_out()
        if held:
            name = "held_out_squared_error" if is_regressor(type(self.model)) else "held_out_error"
            figures.update({name: errors / held, "held_out_rows": held})
        return figures

    # ----------------------------------------------------------------- learning

    def _known(self, batch: tuple) -> tuple:
        """The batch without columns that the model does not know."""
        n_features = getattr(self.model, "n_features_in_", None)
        if n_features is None or batch[0].shape[1] == n_features:
            return batch
        return (known_columns(batch[0], n_features)[0], *batch[1:])

    def _learn(self, batch: tuple, classes: Any, report: Report) -> Any:
        """One batch, cut where a line of the table is due."""
        model, batch = self.model, self._known(batch)
        check_labels(self.arguments, model, batch[1], self.inner)
        rows, start = batch[0].shape[0], 0
        before = report.examples
        while start < rows:
            stop = rows
            if report.table:
                stop = min(rows, start + max(1, report.next_at - report.examples))
            X, y, *weight = cut_rows(batch, start, stop)
            options: dict[str, Any] = {}
            if weight:
                options["sample_weight"] = weight[0]
            if classes is not None:
                options["classes"] = classes
                classes = None
            if y is None:
                model.partial_fit(X, **options)
            else:
                model.partial_fit(X, y, **options)
            totals = self._totals() if self.epoch == 0 else None
            loss, errors = totals or (None, None)
            report.update(before + stop, loss=loss, errors=errors)
            start = stop
        return classes


def fingerprint(path: Any) -> list[int]:
    """The size of a file, and a checksum of pieces that are spread over it."""
    size, crc = os.path.getsize(path), 0
    with open(path, "rb") as file:
        for k in range(PIECES):
            file.seek(max(0, size - PIECE) * k // (PIECES - 1))
            crc = crc32(file.read(PIECE), crc)
    return [size, crc]


def check_labels(arguments: argparse.Namespace, model: Any, y: Any, reader: Any) -> None:
    """Refuse a first batch without labels, or with numbers to predict where classes are learnt."""
    if y is None and not is_novelty(type(model)):
        raise ValueError(
            f"{reader.name}: {type(model).__name__} needs labels; name their column with --label"
        )
    if getattr(y, "dtype", None) is None or y.dtype.kind != "U" or not is_classifier(type(model)):
        return
    if arguments.classes is None and not hasattr(model, "classes_"):
        number = find_number(y)
        if number is not None:
            raise ValueError(
                f"{reader.name}: the labels are numbers such as {number}; --estimator "
                "LinearRegressor predicts numbers, and --classes LABEL,... says that they are "
                "classes"
            )


def find_number(labels: np.ndarray) -> str | None:
    """The first label that is not a whole number, where all are numbers; else None."""
    try:
        numbers = labels.astype(np.float64)
    except ValueError:
        return None
    parts = np.flatnonzero(numbers % 1 != 0)
    return str(labels[parts[0]]) if len(parts) and np.isfinite(numbers).all() else None


def count_errors(model: Any, batch: tuple) -> tuple[float, int]:
    """Wrong answers (squared errors of a regressor) and how many answers there were."""
    X, y = batch[0], batch[1]
    if is_novelty(type(model)):
        return 0.0, 0
    found = model.predict(X)
    if is_regressor(type(model)):
        return float(((found - np.asarray(y)) ** 2).sum()), len(y)
    if isinstance(y, list):  # label sets
        names = model.classes_.tolist()
        sets = ({names[k] for k in np.flatnonzero(row)} for row in np.asarray(found))
        return float(sum(a != set(b) for a, b in zip(sets, y))), len(y)
    return float(np.count_nonzero(found != y)), len(y)
