"""Model files whose checksum is right and whose contents are not.

`mutate` changes the meaning of a valid file: header fields and arrays are dropped, added,
renamed, swapped, and set to values that no model has.  `attack` loads such files and uses
what loads.  `run_apart` does it in a process of its own with a limit of memory and time, so
that a crash is found and named.  From the command line:

    python tests/fuzz_models.py KIND SEED COUNT
"""

import contextlib
import hashlib
import io as bytes_io
import json
import os
import resource
import signal
import sys
import tempfile
import traceback
import warnings
import zipfile

import numpy as np
from saved_models import KINDS, learn, make, rows_of, scores

import osvm
from osvm.io.archive import DIGEST, ModelFileError, npy_prefix

SCALARS = [
    None, True, False, 0, 1, -1, 2, 3, 7, 60, 255, 2**31, 2**31 - 1, 2**32, 2**53, 2**62, 2**63,
    2**63 - 1, 2**64, -(2**63), 10**30, 10**400, 0.0, -0.0, 0.5, 1.5, 1e-320, 1e-9, 1e9, 1e38,
    1e145, 1e300, -1e300, {"$float": "nan"}, {"$float": "inf"}, {"$float": "-inf"}, "", "x",
    "0", "hinge", "float32", "float64", [], [0], {}, {"$tuple": []}, {"$dict": []},
    {"$array": {"dtype": "<U500000000", "shape": [1], "data": ["a"]}},
    {"$array": {"dtype": "<f8", "shape": [2**40], "data": []}},
]  # fmt: skip
NUMBERS = [
    0.0, 1.0, -1.0, 0.5, 2.0, 60.0, 1e-300, 1e9, 2.0**31, 2.0**53, 2.0**62, -(2.0**62), 1e38,
    1e150, 1e300, -1e300, np.nan, np.inf, -np.inf, float(np.iinfo(np.int64).max),
]  # fmt: skip
DTYPES = ["|b1", "|i1", "|u1", "<i2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8"]


# ------------------------------------------------------------------ reading, writing


def read_members(data):
    """Header and arrays of a file's bytes."""
    with zipfile.ZipFile(bytes_io.BytesIO(data)) as archive:
        header = json.loads(archive.read("header.json"))
        arrays = {
            name: np.load(bytes_io.BytesIO(archive.read(f"{name}.npy")))
            for name in header["arrays"]
        }
    return header, arrays


def write_members(header, arrays):
    """The bytes of a file with these members and a right checksum."""
    entries = {}
    out = bytes_io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.comment = b"0" * DIGEST
        bodies = {}
        for name, array in arrays.items():
            array = np.ascontiguousarray(array).reshape(array.shape)
            dtype = np.lib.format.dtype_to_descr(array.dtype)
            entries[name] = {"dtype": dtype, "shape": list(array.shape)}
            if array.dtype.kind == "f":
                entries[name]["finite"] = bool(np.isfinite(array).all())
            bodies[name] = npy_prefix(dtype, array.shape) + array.tobytes()
        archive.writestr("header.json", json.dumps({**header, "arrays": entries}))
        for name, body in bodies.items():
            archive.writestr(f"{name}.npy", body)
    body = out.getvalue()[:-DIGEST]
    return body + hashlib.sha256(body).hexdigest().encode()


# ------------------------------------------------------------------ changing


def _places(value, path=()):
    """Every container in the header with its keys: (container, key)."""
    if isinstance(value, dict):
        for key in list(value):
            yield value, key
            yield from _places(value[key], (*path, key))
    elif isinstance(value, list):
        for key in range(len(value)):
            yield value, key
            if not isinstance(value[key], str) and key < 4:
                yield from _places(value[key], (*path, key))


def _pick(rng, items):
    return items[int(rng.integers(len(items)))]


def _change_header(rng, header):
    parts = ["state", "state", "state", "params"]
    if header.get("tokenizer"):
        parts += ["tokenizer", "tokenizer", "input"]
    places = list(_places(header[_pick(rng, parts)]))
    container, key = _pick(rng, places)
    way = int(rng.integers(10))
    if way == 0:
        del container[key]
    elif way == 1 and isinstance(container, dict):
        container[_pick(rng, ["extra", str(key) + "x", "w_u", "$float"])] = container.pop(key)
    elif way == 2:
        other, other_key = _pick(rng, places)
        with contextlib.suppress(KeyError, IndexError):
            container[key], other[other_key] = other[other_key], container[key]
    elif way == 3 and isinstance(container[key], list):
        container[key] = container[key][: len(container[key]) // 2]
    elif way <= 5 and isinstance(container[key], (int, float)):
        container[key] = container[key] + _pick(rng, [1, -1, 0.5, 1e6])
    else:
        container[key] = json.loads(json.dumps(_pick(rng, SCALARS)))


def _change_array(rng, arrays):
    name = _pick(rng, list(arrays))
    array = arrays[name]
    way = int(rng.integers(14))
    flat = array.reshape(-1).copy()
    if way == 0:
        del arrays[name]
    elif way == 1:
        arrays[_pick(rng, ["model/extra", "model/w_u", "model/u", name + "x"])] = flat
    elif way == 2:
        arrays[_pick(rng, [name + "x", "model/u", "model/platt"])] = arrays.pop(name)
    elif way == 3:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arrays[name] = array.astype(_pick(rng, DTYPES))
    elif way == 4:
        other = _pick(rng, list(arrays))
        arrays[name], arrays[other] = arrays[other], arrays[name]
    elif way == 5:
        shapes = [(-1,), (1, -1), (-1, 1), (1, 1, -1), array.shape[::-1]]
        arrays[name] = array.reshape(_pick(rng, shapes)) if array.size else np.zeros((2, 0))
    elif way == 6:
        arrays[name] = array[: len(array) // 2] if array.ndim else np.zeros(3)
    elif way == 7:
        arrays[name] = np.concatenate([array, array]) if array.ndim else np.zeros(3)
    elif way == 8:
        arrays[name] = np.zeros(_pick(rng, [(), (0,), (0, 0), (1,), (5, 5)]), array.dtype)
    elif flat.size:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            number = np.array(_pick(rng, NUMBERS))
            if flat.dtype.kind in "iu" and not np.isfinite(number):
                number = np.array(np.iinfo(flat.dtype).max)
            number = number.astype(flat.dtype)
            if way == 9:
                flat[:] = number
            elif way == 10:
                flat[int(rng.integers(flat.size))] += 1
            elif way == 11:
                flat = rng.permutation(flat)
            else:
                flat[int(rng.integers(flat.size))] = number
        arrays[name] = flat.reshape(array.shape)


def mutate(rng, header, arrays):
    """A changed copy: one to three changes of meaning."""
    header, arrays = json.loads(json.dumps(header)), dict(arrays)
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        if rng.random() < 0.5 or not arrays:
            _change_header(rng, header)
        else:
            _change_array(rng, arrays)
    return header, arrays


# ------------------------------------------------------------------ attacking


class Found(Exception):
    """A file that does harm."""


@contextlib.contextmanager
def _seconds(limit):
    def stop(*_):
        raise Found(f"takes more than {limit} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(limit)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def use(model, kind):
    """Predict and learn on; a parameter that cannot be is refused there."""
    data, target = rows_of(kind), KINDS[kind][1]
    with contextlib.suppress(ValueError, TypeError, AttributeError):
        found = scores(model, data)
        if not np.isfinite(found).all():
            raise Found("gives scores that are not finite")
        model.predict(data)
    if "tokenizer_" in model.__dict__:
        with contextlib.suppress(ValueError, TypeError):
            model.predict(["word1 word2", "", "word3 " * 50])
            model.tokenizer_.terms(range(model.n_features_in_))
            if hasattr(model, "learn_one"):
                model.predict_one({"word1": 1.0})
    if hasattr(model, "predict_proba"):
        with contextlib.suppress(ValueError, TypeError, AttributeError):
            model.predict_proba(data)
    if hasattr(model, "partial_fit"):
        with contextlib.suppress(ValueError, TypeError, FloatingPointError):
            for rows in (slice(0, 1), slice(1, 40), slice(40, 60)):
                learn(model, target, "partial_fit", rows, data)
            if not np.isfinite(scores(model, data)).all():
                raise Found("learns scores that are not finite")


def attack(kind, seed, count, report=lambda case: None):
    """Load `count` changed files; how many were loaded.  Found names the case."""
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "model.osvm")
    try:
        make(kind).save(path)
        with open(path, "rb") as file:
            header, arrays = read_members(file.read())
        loaded = 0
        for case in range(count):
            report(case)
            rng = np.random.default_rng([seed, case])
            with open(path, "wb") as file:
                file.write(write_members(*mutate(rng, header, arrays)))
            try:
                with _seconds(20), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        model = osvm.load(path)
                    except ModelFileError:
                        continue
                    loaded += 1
                    use(model, kind)
            except Exception as error:
                text = "".join(traceback.format_exception(error)[-3:])
                raise Found(f"{kind}, seed {seed}, case {case}: {text}") from None
        return loaded
    finally:
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)


def run_apart(kind, seed, count, memory=1 << 30):
    """`attack` in a process of its own; the text of what was found, or None."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        text = "error in the harness"
        try:
            with open("/proc/self/statm") as file:
                used = int(file.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            attack(kind, seed, count, lambda case: os.write(write, b"%d\n" % case))
            text = ""
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        finally:
            os.write(write, b"end\n" + text.encode())
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        told = file.read().decode()
    _, status = os.waitpid(child, 0)
    cases, _, text = told.partition("end\n")
    if os.WIFSIGNALED(status):
        case = cases.split()[-1] if cases.split() else "before the first"
        return f"{kind}, seed {seed}, case {case}: killed by signal {os.WTERMSIG(status)}"
    return text or None


if __name__ == "__main__":
    sys.exit(run_apart(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
