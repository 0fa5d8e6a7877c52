"""Checkpoints of a stream: lose at most `every` examples, and nothing else.

A checkpoint is a model file with the place of the stream in it (the reader's
state: offset, reservoir, random numbers) and a dictionary of the caller's own.
It is written between two batches, when model and stream agree, and atomically,
so that kill -9 at any moment leaves the last one or the one before it.  Going
on from it gives bit for bit the model of an undisturbed run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from osvm._input.parameters import check_integer
from osvm.io.archive import ModelFileError, remove_leftovers
from osvm.io.encoding import decode
from osvm.io.models import encode_params, load_all, save


class Checkpoint:
    """A model, the file it is kept in, and the stream that it learns from.

    Made by `checkpoint`.

    Attributes
    ----------
    model : estimator
    path : str
    resumed : bool
        Whether the file was there and the run goes on from it.
    n_seen : int
        Examples that the run has learnt, those before an interruption included.
    epoch : int
        Passes completed.
    extra : dict
        JSON-able; saved with each checkpoint and restored with it.
    """

    def __init__(
        self,
        model: Any,
        path: Any,
        *,
        every: int | None = 100_000,
        resume: bool = True,
        input: dict[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.path = os.fspath(path)
        self.every = check_integer("every", every, 1, none=True)
        self.input = input
        self.n_seen = 0
        self.epoch = 0
        self.extra: dict[str, Any] = {}
        self.finished = False
        self._saved_at = 0
        self._place: Any = None
        remove_leftovers(self.path)
        self.resumed = resume and os.path.exists(self.path)
        if self.resumed:
            self._restore()

    def _restore(self) -> None:
        saved, header, arrays = load_all(self.path)
        if type(saved) is not type(self.model):
            raise ModelFileError(
                f"{self.path} holds a {type(saved).__name__}, not a {type(self.model).__name__}"
            )
        mine, other = encode_params(self.model), encode_params(saved)
        for key in mine:
            if mine[key] != other.get(key) and key not in ("random_state", "verbose", "n_jobs"):
                raise ModelFileError(
                    f"{self.path} was trained with {key}={other.get(key)!r}, not {mine[key]!r}; "
                    "use the same parameters, or another file"
                )
        if header["stream"] is None:
            raise ModelFileError(f"{self.path} is a model without the place of a stream in it")
        scalars = decode(header["stream"])
        with self.model._lock.changing():
            self.model._set_state(*saved._get_state())
        self.n_seen = self._saved_at = int(scalars["n_seen"])
        self.epoch = int(scalars["epoch"])
        self.finished = bool(scalars["finished"])
        self.extra = dict(scalars["extra"])
        if self.input is None:
            self.input = decode(header["input"])
        self._place = (scalars["reader"], arrays)

    def stream(self, reader: Any, *, epochs: int = 1) -> Iterator[tuple]:
        """The batches still to be learnt, saving after every `every` examples and at the end.

        Each batch must have been learnt when the next one is asked for.

        Parameters
        ----------
        reader : Reader
            The same data and settings as in the run that is resumed.
        epochs : int, default=1
            Passes over the data.
        """
        from osvm.stream.iterables import as_reader

        reader = as_reader(reader)
        if self.finished and self.epoch >= epochs:
            return
        if self._place is not None:
            reader.set_state(*self._place)
            self._place = None
        while self.epoch < epochs:
            for batch in reader:
                yield batch
                self.n_seen += batch[0].shape[0]
                if self.every and self.n_seen - self._saved_at >= self.every:
                    self.save(reader)
            self.epoch += 1
        self.finished = True
        if self.every:
            self.save(reader)

    def save(self, reader: Any) -> None:
        """Write the checkpoint now; model and reader must stand at the same place."""
        scalars, arrays = reader.get_state()
        place = {
            "n_seen": self.n_seen,
            "epoch": self.epoch,
            "finished": self.finished,
            "extra": self.extra,
            "reader": scalars,
        }
        save(self.model, self.path, input=self.input, stream=(place, arrays))
        self._saved_at = self.n_seen


def checkpoint(
    model: Any,
    path: Any,
    *,
    every: int | None = 100_000,
    resume: bool = True,
    input: dict[str, Any] | None = None,
) -> Checkpoint:
    """Keep a model that learns from a stream in a file, and go on from it.

    Parameters
    ----------
    model : estimator
        Its parameters must be those of the run that is resumed.
    path : str or path-like
        If the file exists, the model is set to its state and the stream goes on from its
        place.
    every : int or None, default=100_000
        Examples between two saves; None never saves.
    resume : bool, default=True
        False starts anew and overwrites the file.
    input : dict, optional
        Saved with the model; see `save`.

    Returns
    -------
    Checkpoint
        Whose `stream(reader)` gives the batches.

    Examples
    --------
    >>> import io, os, tempfile
    >>> import osvm, osvm.stream
    >>> lines = b"1 1:1\\n-1 2:1\\n" * 500
    >>> reader = osvm.stream.read(io.BytesIO(lines), "svmlight", batch_size=100)
    >>> model = osvm.LinearClassifier()
    >>> run = osvm.checkpoint(model, os.path.join(tempfile.mkdtemp(), "m.osvm"), every=300)
    >>> for X, y in run.stream(reader):
    ...     model = model.partial_fit(X, y)
    >>> run.n_seen, os.path.exists(run.path)
    (1000, True)
    """
    return Checkpoint(model, path, every=every, resume=resume, input=input)
