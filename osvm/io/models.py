"""Model files: `save`, `load` and `read_header`; the same in memory: `to_bytes`, `from_bytes`.

A model file holds a class out of `CLASSES`, its constructor parameters and its
fitted state (`_get_state` / `_set_state` of `osvm._estimator.base`), never code: see
``osvm/io/archive.py`` for the container and ``doc/guide/model_format.rst`` for the page
that describes every byte.
"""

from __future__ import annotations

import io
import os
from importlib import import_module
from typing import Any

import numpy as np

from osvm import _OBJECTS, __version__
from osvm.io.archive import ModelFileError, read_archive, write_archive
from osvm.io.encoding import TRANSIENT, decode, encode
from osvm.stream.tokenizer import HashingTokenizer

FORMAT = "osvm"
FORMAT_VERSION = 1

# Classes that files may name, and where they live.
CLASSES = {
    name: module for name, module in _OBJECTS.items() if module in ("osvm.kernel", "osvm.linear")
}

# Parameters of earlier files that are gone and changed nothing about a trained model: how it
# was trained (`LinearSVC` solves what solver="dual" did).
RETIRED = {
    "LinearClassifier": {"lock_free", "solver"},
    "LinearNovelty": {"lock_free"},
    "LinearRegressor": {"lock_free"},
    "MultilabelClassifier": {"lock_free", "solver"},
}


def save(
    model: Any,
    path: Any,
    *,
    input: dict[str, Any] | None = None,
    stream: tuple[dict[str, Any], dict[str, np.ndarray]] | None = None,
) -> None:
    """Write a fitted model to one file.

    The file appears whole or not at all: it is written under another name, synced, and
    renamed.

    Parameters
    ----------
    model : estimator
    path : str or path-like
    input : dict, optional
        How the columns of X came about (`Reader.config`), for `load_input` and the command; by
        default, what the file said that the model was loaded from.
    stream : (dict, dict of arrays), optional
        Where a stream stands; see `checkpoint`.

    Examples
    --------
    >>> import os, tempfile
    >>> import osvm
    >>> model = osvm.LinearClassifier(random_state=0).fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    >>> path = os.path.join(tempfile.mkdtemp(), "model.osvm")
    >>> osvm.save(model, path)
    >>> osvm.load(path).predict([[1.0, 0.0]])
    array([1])
    """
    _write(path, model, input, stream)


def _write(path: Any, model: Any, input: Any = None, stream: Any = None) -> None:
    """`save` to a path, or to an open binary file."""
    header, arrays = _describe_model(model)
    if input is None:
        input = model.__dict__.get("_input")  # of the file that the model came from
    header["input"] = None if input is None else encode(input, "input")
    tokenizer = model.__dict__.get("tokenizer_")
    header["tokenizer"] = None
    if tokenizer is not None:
        counts, columns = tokenizer.get_state()
        header["tokenizer"] = {"config": encode(tokenizer.config(), "tokenizer"), "state": counts}
        arrays.update({f"tokenizer/{name}": array for name, array in columns.items()})
    header["stream"] = None
    if stream is not None:
        header["stream"] = encode(stream[0], "the stream's state")
        arrays.update({f"stream/{name}": array for name, array in stream[1].items()})
    write_archive(path, header, arrays)


def to_bytes(model: Any) -> bytes:
    """The bytes of the file that `save` writes; `model.to_bytes()` calls this."""
    file = io.BytesIO()
    _write(file, model)
    return file.getvalue()


def from_bytes(data: Any) -> Any:
    """The model that `model.to_bytes()` wrote; nothing in the bytes is ever executed.

    Parameters
    ----------
    data : bytes-like

    Returns
    -------
    estimator

    Raises
    ------
    ModelFileError
        When the bytes are not a whole, unchanged model of a version that this osvm knows.

    Examples
    --------
    >>> import osvm
    >>> model = osvm.LinearClassifier(random_state=0).fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    >>> osvm.from_bytes(model.to_bytes()).predict([[1.0, 0.0]])
    array([1])
    """
    try:
        file = io.BytesIO(data)
    except TypeError:
        raise TypeError(
            f"from_bytes takes what model.to_bytes() gave, not {type(data).__name__}; osvm.load "
            "reads a file"
        ) from None
    return _load(file)[0]


def _describe_model(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    name = type(model).__name__
    if CLASSES.get(name) != type(model).__module__:
        raise ValueError(
            f"{type(model).__module__}.{name} is not a class that model files know; "
            f"they hold {', '.join(sorted(CLASSES))}"
        )
    with model._lock:
        scalars, arrays = model._get_state()
    header = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "osvm": __version__,
        "class": name,
        "params": encode_params(model),
        "state": encode(scalars, "the state"),
    }
    return header, {f"model/{key}": array for key, array in arrays.items()}


def encode_params(model: Any) -> dict[str, Any]:
    return {
        key: encode(value, f"parameter {key}")
        for key, value in sorted(model.get_params(deep=False).items())
        if key not in TRANSIENT
    }


def load(path: Any) -> Any:
    """The model that `save` wrote.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    estimator

    Raises
    ------
    ModelFileError
        When the file is not a whole, unchanged model file of a version that this osvm knows.
    """
    return load_all(path)[0]


def load_all(path: Any) -> tuple[Any, dict[str, Any], dict[str, np.ndarray]]:
    """The model, the file's header, and the arrays of the stream's state."""
    try:
        return _load(path)
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from None


def _load(path: Any) -> tuple[Any, dict[str, Any], dict[str, np.ndarray]]:
    """`load_all` of a path, or of an open binary file."""
    header, arrays = read_archive(path)
    _check_header(header)
    return _rebuild(header, arrays), header, _part(arrays, "stream/")


def _part(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {key[len(prefix) :]: value for key, value in arrays.items() if key.startswith(prefix)}


def _check_header(header: dict[str, Any]) -> None:
    if header.get("format") != FORMAT:
        raise ModelFileError("not an osvm model file")
    version = header.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ModelFileError(f"the format version {version!r} is not a number")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"written by osvm {header.get('osvm')} in format {version}; this osvm reads up to "
            f"format {FORMAT_VERSION}: upgrade osvm"
        )
    if not isinstance(header.get("class"), str) or header["class"] not in CLASSES:
        raise ModelFileError(f"unknown class {header.get('class')!r}")
    for key in ("params", "state"):
        if not isinstance(header.get(key), dict):
            raise ModelFileError(f"the header has no {key}")


def _rebuild(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The model of a checked header; its room knows the names of earlier files."""
    name = header["class"]
    room = import_module(CLASSES[name])
    try:
        params, state = decode(header["params"]), decode(header["state"])
        own = _part(arrays, "model/")
        if hasattr(room, "upgrade"):
            name, params, state = room.upgrade(name, params, state, own)
        cls = getattr(room, name)
        known = set(cls._get_param_names())
        unknown = sorted(set(params) - known - RETIRED.get(name, set()))
        if unknown:
            raise ValueError(f"{name} has no parameter {unknown[0]!r}")
        model = cls(**{key: value for key, value in params.items() if key in known})
        model._set_state(state, own)
        _set_input(model, header, _part(arrays, "tokenizer/"))
    except RecursionError:
        raise ModelFileError("the header is nested too deeply") from None
    except (
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        OverflowError,
        ArithmeticError,
        MemoryError,
    ) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ModelFileError(f"the model in the file is malformed: {reason}") from error
    return model


def _set_input(model: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Give the model what its file says about the input: the reader's settings, the tokenizer."""
    input, saved = decode(header.get("input")), header.get("tokenizer")
    tokenizer = None
    if saved is not None:
        tokenizer = HashingTokenizer(**decode(saved["config"]))
        tokenizer.set_state(saved["state"], arrays)
    elif input and input.get("tokenizer"):  # the first files of format 1: no idf, a few terms
        terms = input.pop("terms", {})
        config = {"idf": False, "keep_terms": bool(terms), **input["tokenizer"]}
        tokenizer = HashingTokenizer(**config)
        for column, names in sorted((int(key), names) for key, names in terms.items()):
            tokenizer.set_term(column, names[0])
    if tokenizer is not None:
        if tokenizer.n_features != model.n_features_in_:
            raise ValueError(
                f"the tokenizer makes {tokenizer.n_features} columns, the model has "
                f"{model.n_features_in_}"
            )
        model.tokenizer_ = tokenizer
    if input is not None:
        if tokenizer is not None:
            input["tokenizer"] = tokenizer.config()
        model._input = input


def read_header(path: Any) -> dict[str, Any]:
    """What a model file says about itself, its checksum verified.

    Returns
    -------
    dict
        "format", "version", "osvm", "class", "params", "state", "input", "stream" and
        "arrays" (dtype and shape of each).
    """
    try:
        header, _ = read_archive(path, arrays=False)
        _check_header(header)
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from None
    return {key: value if key == "arrays" else decode(value) for key, value in header.items()}


def load_input(path: Any) -> dict[str, Any] | None:
    """How the columns that a model was trained on came about; None when it is not known."""
    return read_header(path)["input"]
