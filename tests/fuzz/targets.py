"""One function of bytes for every way in: `TARGETS` maps a name to it.

The first byte chooses options, the rest is a file (or the arrays of a matrix).  A function
returns whether the bytes were read, and raises AssertionError, or whatever else was not
expected, when a promise is broken:

- malformed data raise `FormatError` (a matrix: `ValueError`), nothing else;
- what is read is a valid matrix of finite numbers, with a target for each row;
- the rows do not depend on how they are cut into batches;
- with ``on_error="skip"`` rows are left out, never changed, and all of the rows before the
  first malformed one are there.
"""

import io
import itertools
import os
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import osvm
from osvm._input.validate import check_X
from osvm.stream import FormatError, read

CORPUS = Path(__file__).resolve().parent / "corpus"
MOST = 1 << 16  # bytes of a file; longer ones say nothing new


def _options(name, byte):
    small = {"bits": 8}
    table = {
        "svmlight": [
            {"n_features": 64}, {"n_features": 64, "zero_based": True}, {"n_features": 9},
            {"n_features": 64, "multilabel": True}, {"n_features": 64, "dtype": np.float64},
            {"n_features": 64, "query_id": True},
        ],
        "vw": [{"bits": 6}, {"bits": 18}, {"bits": 8, "unlabelled": True}, {"bits": 31}],
        "csv": [
            {}, {"text": "b", "tokenizer": small}, {"label": None}, {"label_type": "int"},
            {"weight": "c"}, {"quote": None, "separator": "\t"}, {"label_separator": "|"},
            {"header": ["label", "b", "c"], "label_type": "float"},
        ],
        "jsonl": [
            {"features": ["b", "c"]}, {"text": "b", "tokenizer": small},
            {"features": ["b"], "label_type": "float"}, {"features": ["b"], "weight": "c"},
            {"features": ["c"], "label_separator": "|"},
        ],
        "text": [
            {"tokenizer": small}, {"labelled": False, "tokenizer": small},
            {"label_type": "int", "tokenizer": small},
            {"label_separator": ",", "tokenizer": {"bits": 6, "ngrams": (1, 2)}},
        ],
        "parquet": [
            {"features": ["b"]}, {"text": "b", "tokenizer": small},
            {"indices": "i", "values": "v", "n_features": 9},
            {"features": ["b"], "label_type": "float"},
        ],
    }[name]  # fmt: skip
    return table[byte % len(table)]


def _rows(reader, unlabelled):
    """(rows as comparable tuples, the error that ended them or None)."""
    out = []
    try:
        for batch in reader:
            X, y = batch[0], batch[1]
            check_X(X)  # a valid matrix of finite numbers
            assert X.shape[1] == reader.n_features
            assert X.shape[0] >= 1
            for part in batch[1:]:
                assert part is None or len(part) == X.shape[0]
            for i in range(X.shape[0]):
                a, b = X.indptr[i], X.indptr[i + 1]
                label = None if y is None else y[i]
                if isinstance(label, (float, np.floating)) and not unlabelled:
                    assert np.isfinite(label)
                row = (tuple(X.indices[a:b].tolist()), X.data[a:b].tobytes())
                out.append((repr(label), row, *(repr(extra[i]) for extra in batch[2:])))
    except FormatError as error:
        return out, (error.line, error.column, error.reason)
    return out, None


def _read(name, source, options, batch_size, on_error="raise"):
    """All rows, or as far as it goes; a header that is wrong ends it before the first."""
    if name != "parquet":  # its rows are read or not as a whole
        options = {**options, "on_error": on_error}
    try:
        reader = read(source(), name, batch_size=batch_size, **options)
    except FormatError as error:
        return None, (error.line, error.column, error.reason)
    return _rows(reader, options.get("unlabelled"))  # their labels are NaN


def _judge(name, source, options):
    whole, error = _read(name, source, options, 4096)
    cut, cut_error = _read(name, source, options, 2)
    assert (error is None) == (cut_error is None), (error, cut_error)
    if whole is None or cut is None:
        return False
    if error is None:
        assert cut == whole
    else:
        assert error == cut_error
    kept, at = _read(name, source, options, 3, "skip")
    if kept is not None and at is None:
        before = cut if error is not None else whole
        if name == "svmlight" and error is not None and "zero_based" not in options:
            # the quick survey of on_error="raise" counts the line that will stop it, too
            assert [row[0] for row in kept[: len(before)]] == [row[0] for row in before]
        else:
            assert kept[: len(before)] == before
        assert error is not None or kept == whole
    return error is None


def _text_target(name):
    def target(data):
        if not 1 <= len(data) <= MOST:
            return False
        return _judge(name, lambda: io.BytesIO(data[1:]), _options(name, data[0]))

    return target


def _parquet(data):
    if not 1 <= len(data) <= MOST:
        return False
    handle, path = tempfile.mkstemp(suffix=".parquet")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data[1:])
        return _judge("parquet", lambda: path, _options("parquet", data[0]))
    finally:
        os.unlink(path)


# ------------------------------------------------------------------------ CSR


def _is_valid(values, indices, indptr, shape):
    """The definition of a CSR matrix of finite numbers, entry by entry."""
    n, d = shape
    if n < 1 or d < 1 or len(indptr) != n + 1 or indptr[0] != 0:
        return False
    if any(a > b for a, b in itertools.pairwise(indptr.tolist())):
        return False
    end = int(indptr[-1])
    if end > min(len(values), len(indices)) or len(values) != len(indices):
        return False
    return all(0 <= j < d for j in indices[:end].tolist()) and all(
        np.isfinite(v) for v in values[:end].tolist()
    )


def _csr(data):
    """Bytes as the arrays of a matrix: sizes and types first, then what the arrays hold."""
    if len(data) < 8 or len(data) > MOST:
        return False
    head, body = data[:8], data[8:]
    value = (np.float32, np.float64)[head[0] & 1]
    index = (np.int32, np.int64)[head[0] >> 1 & 1]
    n, d = head[1] % 9, head[2] % 12
    n_index, n_value = head[3] % 40, head[4] % 40
    pool = np.frombuffer(body.ljust(8 * (n_index + n_value + n + 1), b"\0"), np.uint8)
    small = head[5] & 1  # numbers that make a valid matrix now and then
    step = np.dtype(index).itemsize
    if small:
        indices = (pool[:n_index] % max(d, 1)).astype(index)
        indptr = np.sort(pool[n_index : n_index + n + 1] % 40).astype(index)
        indptr[0] = head[6] % 2
    else:
        indices = np.frombuffer(pool[: n_index * step].tobytes(), index).copy()
        at = n_index * step
        indptr = np.frombuffer(pool[at : at + (n + 1) * step].tobytes(), index).copy()
    width = np.dtype(value).itemsize
    values = np.frombuffer(pool[-n_value * width :].tobytes() if n_value else b"", value).copy()
    X = sp.csr_matrix((max(n, 1), max(d, 1)), dtype=value)
    X.data, X.indices, X.indptr = values, indices, indptr
    X._shape = (n, d)
    valid = _is_valid(values, indices, indptr, (n, d))
    y = np.arange(n) % 2
    model = osvm.LinearClassifier(random_state=0)
    calls = [lambda: check_X(X)]
    if n >= 2 and d >= 1:
        calls += [lambda: model.partial_fit(X, y), lambda: model.predict(X)]
        kernel = osvm.KernelClassifier(gamma=0.1, budget=4, random_state=0)
        calls += [lambda: kernel.partial_fit(X, y), lambda: kernel.predict(X)]
    for number, call in enumerate(calls):
        refusal = None
        try:
            call()
        except (ValueError, FloatingPointError) as error:
            refusal = str(error)
        if refusal is None:
            assert valid, f"call {number} accepted {values} {indices} {indptr} {(n, d)}"
        elif number == 0:
            assert not valid, f"refused {values} {indices} {indptr} {(n, d)}: {refusal}"
        # later calls may find that finite values are too large to learn, or nothing learnt
    return valid


TARGETS = {name: _text_target(name) for name in ("svmlight", "vw", "csv", "jsonl", "text")}
TARGETS |= {"parquet": _parquet, "csr": _csr}


def seeds(name):
    """The corpus of a target: bytes, option byte included."""
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
