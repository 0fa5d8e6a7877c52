"""Model files: what goes in comes out, and anything else is refused."""

import contextlib
import hashlib
import importlib
import io as bytes_io
import json
import os
import pkgutil
import stat
import zipfile

import numpy as np
import pytest
from scipy.sparse import csr_array

import osvm
from osvm import io, solvers
from osvm._estimator.base import OnlineEstimator
from osvm.io.archive import DIGEST, npy_prefix
from osvm.io.encoding import decode, encode

rng = np.random.default_rng(0)
X = csr_array(rng.normal(size=(60, 12)) * (rng.random((60, 12)) < 0.4))
W = rng.normal(size=12)
V = {label: rng.normal(size=12) for label in "abc"}
Y = {
    "binary": np.where(X @ W > 0, "yes", "no"),
    "multi": np.array(["a", "b", "c"])[np.digitize(X @ W, [-0.5, 0.5])],
    "number": X @ W,
    "sets": [tuple(k for k in "abc" if x @ V[k] > 0.3) for x in X.toarray()],
    None: None,
}

# Every estimator, in the variants whose state differs.
VARIANTS = [
    ("LinearClassifier", "binary", {}),
    ("LinearClassifier", "binary", {"average": True, "class_weight": "balanced"}),
    ("LinearClassifier", "binary", {"loss": "logistic"}),
    ("LinearClassifier", "binary", {"probability": True}),
    ("LinearSVC", "binary", {}),
    ("LinearClassifier", "binary", {"schedule": "smd"}),
    ("LinearSVC", "multi", {"warm_start": True}),
    ("LinearClassifier", "multi", {"loss": "softmax"}),
    ("LinearClassifier", "multi", {"average": 10, "batch_size": 7, "class_weight": {"a": 2.0}}),
    ("LinearRegressor", "number", {"loss": "huber"}),
    ("LinearRegressor", "number", {"average": True, "schedule": "inverse_sqrt"}),
    ("LinearNovelty", None, {}),
    ("MultilabelClassifier", "sets", {}),
    ("MultilabelClassifier", "sets", {"loss": "logistic", "average": True}),
    ("AlmaClassifier", "binary", {}),
    ("AlmaClassifier", "binary", {"p": 4.0, "epochs": 2, "shuffle": True}),
    ("KernelClassifier", "binary", {}),
    ("KernelClassifier", "binary", {"nu": 0.2, "schedule": "inverse_sqrt"}),
    ("KernelClassifier", "multi", {"budget": 10}),
    *(("SVC", "binary", {"solver": name}) for name in solvers.names()),
    ("SVC", "multi", {"solver": "ol_svm"}),
    ("SVR", "number", {}),
    ("OneClassSVM", None, {"nu": 0.2}),
    ("KernelRegressor", "number", {}),
    ("KernelRegressor", "number", {"schedule": "constant", "budget": 10}),
    ("KernelNovelty", None, {}),
]  # fmt: skip


def test_every_estimator_is_in_the_list():
    """A new estimator must be known to model files and pass the tests below."""
    for found in pkgutil.walk_packages(osvm.__path__, "osvm."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    waiting, classes = [OnlineEstimator], set()
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        public = cls.__module__.count(".") == 1  # a room is the address of its public classes
        if public and not cls.__name__.startswith("_") and cls.__module__.startswith("osvm."):
            classes.add((cls.__name__, cls.__module__))
    assert classes == set(io.CLASSES.items())
    assert {name for name, _ in classes} == {name for name, _, _ in VARIANTS}


def make(name, target, params):
    cls = getattr(importlib.import_module(io.CLASSES[name]), name)
    model = cls(**params)
    if "random_state" in model.get_params():
        model.set_params(random_state=3)
    y = Y[target]
    return model.fit(X) if y is None else model.fit(X, y)


def scores(model):
    answer = getattr(model, "decision_function", model.predict)
    return np.asarray(answer(X))


def saved_bytes(model, tmp_path):
    path = tmp_path / "model.osvm"
    model.save(path)
    return path.read_bytes()


each = pytest.mark.parametrize(("name", "target", "params"), VARIANTS)


@each
def test_load_gives_the_same_model(name, target, params, tmp_path):
    model = make(name, target, params)
    path = tmp_path / "model.osvm"
    model.save(path)
    again = osvm.load(path)
    assert type(again) is type(model)
    assert scores(again).tobytes() == scores(model).tobytes()
    assert again.predict(X).tolist() == model.predict(X).tolist()
    a, b = model.get_params(), again.get_params()
    assert {k: repr(v) for k, v in a.items()} == {k: repr(v) for k, v in b.items()}
    # and it goes on learning as if nothing had happened
    if hasattr(model, "partial_fit"):
        y = Y[target]
        for one in (model, again):
            _ = one.partial_fit(X) if y is None else one.partial_fit(X, y)
        assert scores(again).tobytes() == scores(model).tobytes()
    again.save(tmp_path / "b.osvm")
    model.save(tmp_path / "a.osvm")
    assert (tmp_path / "a.osvm").read_bytes() == (tmp_path / "b.osvm").read_bytes()


def damage(rng, data):
    """A changed copy of a file's bytes."""
    data = bytearray(data)
    kind = rng.integers(7)
    at = int(rng.integers(len(data)))
    if kind <= 1:
        data[at] ^= 1 << int(rng.integers(8))
    elif kind == 2:
        data = data[:at]
    elif kind == 3:
        data[at : at + 4] = bytes(rng.integers(0, 256, 4).tolist())
    elif kind == 4:
        del data[at : at + int(rng.integers(1, 50))]
    elif kind == 5:
        data[at:at] = bytes(rng.integers(0, 256, int(rng.integers(1, 50))).tolist())
    else:  # a digit of the header
        digits = [k for k in range(30, min(len(data), 6000)) if 48 <= data[k] <= 57]
        data[digits[rng.integers(len(digits))]] = int(rng.integers(48, 58))
    return bytes(data)


def seal(data):
    """The same bytes with a right checksum, as someone hostile would write them."""
    body = data[:-DIGEST]
    return body + hashlib.sha256(body).hexdigest().encode()


def check_damaged_files(count, name, target, params, tmp_path):
    model = make(name, target, params)
    data = saved_bytes(model, tmp_path)
    expected = scores(model).tobytes()
    rng = np.random.default_rng(1)
    path = tmp_path / "damaged.osvm"
    refused = 0
    for _ in range(count):
        changed = damage(rng, data)
        path.write_bytes(changed)
        try:
            loaded = osvm.load(path)
        except io.ModelFileError as refusal:
            refused += 1
            message = str(refusal)
            assert "\n" not in message
            assert str(path) in message
        else:
            assert scores(loaded).tobytes() == expected
            assert changed == data
    assert refused > 0.9 * count  # now and then the damage leaves every byte as it was


@each
def test_damaged_files_are_refused(name, target, params, tmp_path):
    check_damaged_files(60, name, target, params, tmp_path)


@pytest.mark.slow
@each
def test_a_thousand_damaged_files_are_refused(name, target, params, tmp_path):
    check_damaged_files(1000, name, target, params, tmp_path)


@each
def test_damaged_and_sealed_files_do_no_harm(name, target, params, tmp_path):
    """With a right checksum the rest of the checks stand alone: an error, or a model."""
    data = saved_bytes(make(name, target, params), tmp_path)
    rng = np.random.default_rng(2)
    path = tmp_path / "damaged.osvm"
    for _ in range(60):
        path.write_bytes(seal(damage(rng, data)))
        with contextlib.suppress(ValueError, AttributeError):  # it may be unfit for X
            scores(osvm.load(path))


# ------------------------------------------------------- one model, many edits


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("osvm.linear")
    return make("LinearClassifier", "binary", {})


def rebuild(data, edit, extra=()):
    """The file with its header edited (a function on the parsed header) and sealed."""
    source = zipfile.ZipFile(bytes_io.BytesIO(data))
    out = bytes_io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        target.comment = b"0" * DIGEST
        for info in source.infolist():
            body = source.read(info)
            if info.filename == "header.json":
                header = json.loads(body)
                edited = edit(header)
                body = edited if isinstance(edited, bytes) else json.dumps(header).encode()
            target.writestr(info.filename, body)
        for name, body in extra:
            target.writestr(name, body)
    return seal(out.getvalue())


def refusal(data, tmp_path):
    path = tmp_path / "edited.osvm"
    path.write_bytes(data)
    with pytest.raises(io.ModelFileError) as caught:
        osvm.load(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda h: h.update(version=2), "upgrade osvm"),
        (lambda h: h.update(version="1"), "not a number"),
        (lambda h: h.update(format="other"), "not an osvm model file"),
        (lambda h: h.update({"class": "os.system"}), "unknown class"),
        (lambda h: h.update({"class": ["LinearClassifier"]}), "unknown class"),
        (lambda h: h.pop("params"), "no params"),
        (lambda h: h["params"].update(nonsense=1), "no parameter 'nonsense'"),
        (lambda h: h["params"].update(loss={"$part": {"module": "os", "config": {}}}), "part"),
        (lambda h: h["params"].update(loss={"$part": {"module": "losses", "config": {"name": 3}}}),
         "a loss's config"),
        (lambda h: h["params"].update(loss={"$call": "x"}), "unknown mark"),
        (lambda h: h["state"].pop("t"), "lacks 't'"),
        (lambda h: h["state"].update(n_features_in=10**12), "malformed"),
        (lambda h: h["state"].update(n_features_in=-1), "n_features_in"),
        (lambda h: h.pop("arrays"), "does not list"),
        (lambda h: h["arrays"].popitem(), "not those that the header lists"),
        (lambda h: next(iter(h["arrays"].values())).update(shape=[2**60]), "bytes"),
        (lambda h: next(iter(h["arrays"].values())).update(shape=[-1]), "shape"),
        (lambda h: next(iter(h["arrays"].values())).update(dtype="|O8"), "dtype"),
        (lambda h: b"[1]", "not a JSON object"),
        (lambda h: b"{", "malformed"),
        (lambda h: b'{"a": NaN}', "NaN"),
        (lambda h: b'{"a": 1, "a": 2}', "repeats a key"),
        (lambda h: b"[" * 200_000, "nested too deeply"),
        (lambda h: b'{"a":' * 200_000, "nested too deeply"),
        (lambda h: b"\xff", "malformed"),
        (lambda h: b" " * (1 << 26) + b" {}", "header is too large"),
    ],
)  # fmt: skip
def test_edited_headers(model, edit, message, tmp_path):
    assert message in refusal(rebuild(saved_bytes(model, tmp_path), edit), tmp_path)


def test_extra_and_compressed_members(model, tmp_path):
    data = saved_bytes(model, tmp_path)
    edited = rebuild(data, lambda h: None, [("evil.py", b"x")])
    assert "not those" in refusal(edited, tmp_path)
    out = bytes_io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.comment = b"0" * DIGEST
        bomb.writestr("header.json", b" " * 50_000_000)
    assert "compressed" in refusal(seal(out.getvalue()), tmp_path)


def test_not_finite_weights_are_refused(model, tmp_path):
    data = saved_bytes(model, tmp_path)
    source = zipfile.ZipFile(bytes_io.BytesIO(data))
    out = bytes_io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        target.comment = b"0" * DIGEST
        for info in source.infolist():
            body = source.read(info)
            if info.filename.endswith(("w_v.npy", "cells.npy")):
                body = body[:-8] + np.array([np.nan]).tobytes()
            target.writestr(info.filename, body)
    assert "not finite" in refusal(seal(out.getvalue()), tmp_path)


def test_other_files_are_refused(tmp_path):
    for data in (b"", b"PK", b"hello" * 100, b"PK\x03\x04" + bytes(200)):
        assert refusal(data, tmp_path)
    with pytest.raises(FileNotFoundError):
        osvm.load(tmp_path / "nothing")


def test_arrays_are_plain_npy_files(model, tmp_path):
    path = tmp_path / "m.osvm"
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        for name in archive.namelist()[1:]:
            array = np.load(bytes_io.BytesIO(archive.read(name)), allow_pickle=False)
            assert archive.read(name).startswith(npy_prefix(array.dtype.str, array.shape))
    header = io.read_header(path)
    assert header["class"] == "LinearClassifier"
    assert header["params"]["random_state"] == 3


def test_saving_replaces_whole_files_only(model, tmp_path, monkeypatch):
    path = tmp_path / "m.osvm"
    model.save(path)
    before = path.read_bytes()

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        model.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.osvm"]
    if os.name == "posix":
        mask = os.umask(0)
        os.umask(mask)
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_saving_keeps_the_mode_and_leaves_no_litter(model, tmp_path):
    path = tmp_path / "m.osvm"
    model.save(path)
    path.chmod(0o600)
    litter = [tmp_path / f".m.osvm.{k}123456789abcdef.tmp" for k in (0, 1)]
    for leftover in litter:  # of killed writers, one of which had written nothing yet
        leftover.write_bytes(b"x" if leftover is litter[0] else b"")
    model.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["m.osvm"]


def test_what_cannot_be_saved_says_so(model, tmp_path):
    with pytest.raises(ValueError, match="not a class that model files know"):
        io.save(object(), tmp_path / "x")

    class Loss:
        def value(self, y, f):
            return np.maximum(0, 1 - y * f)

        def dloss(self, y, f):
            return -y * (y * f < 1)

    custom = osvm.LinearClassifier(loss=Loss()).fit(X, Y["binary"])
    with pytest.raises(ValueError, match="parameter loss"):
        custom.save(tmp_path / "x")
    with pytest.raises(ValueError, match="not fitted"):
        osvm.LinearClassifier().save(tmp_path / "x")
    assert os.listdir(tmp_path) == []


def test_values_survive_encoding():
    values = [
        None, True, 3, 2.5, float("inf"), float("-inf"), "text", "$text", [1, [2]], (1, (2, "x")),
        {"a": 1}, {1: 2.0, "b": None}, {"$x": 1}, np.float32(0.5), 2**80,
    ]  # fmt: skip
    for value in values:
        assert decode(json.loads(json.dumps(encode(value, "x")))) == value
    array = np.arange(6.0).reshape(2, 3)
    assert (decode(json.loads(json.dumps(encode(array, "x")))) == array).all()
    for source in (np.random.default_rng(3), np.random.RandomState(3)):
        copy = decode(json.loads(json.dumps(encode(source, "x"))))
        assert copy.random(5).tolist() == source.random(5).tolist()
    part = osvm.losses.get("huber", delta=0.3) if "delta" in dir(osvm.losses.Huber) else None
    if part is not None:
        assert decode(json.loads(json.dumps(encode(part, "x")))) == part


def test_bytes_are_refused_as_files_are():
    whole = osvm.LinearClassifier(random_state=0).fit(X, Y["binary"]).to_bytes()
    assert osvm.from_bytes(bytearray(whole)).to_bytes() == whole
    for data, named in [
        (whole[:-1], "checksum"),
        (whole[:50], "truncated"),
        (whole[:300] + bytes([whole[300] ^ 1]) + whole[301:], "checksum"),
        (b"", "not an osvm model"),
        (b"\x80\x04K\x01.", "not an osvm model"),
    ]:
        with pytest.raises(io.ModelFileError, match=named):
            osvm.from_bytes(data)
    with pytest.raises(TypeError, match="reads a file"):
        osvm.from_bytes("model.osvm")
    with pytest.raises(ValueError, match="not fitted"):
        osvm.LinearClassifier().to_bytes()
