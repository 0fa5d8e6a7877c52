"""Model files of every released format load for ever, with the predictions that they had.

The files in ``tests/data`` are never written again once a release has them: a failure
here means that a change broke the files of users.  When the format gets a new number,
raise `io.FORMAT_VERSION` and add the new files beside the old ones with

    python tests/test_model_files.py

which writes ``format<N>-<name>.osvm`` for each entry of `MODELS` and the scores that
they must give, ``format<N>.json``, for the current format N, and leaves files that exist
alone.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import osvm
from osvm import io
from osvm.linear.alma import AlmaClassifier

FOLDER = Path(__file__).parents[1] / "data"
MAX_BYTES = 12_000  # a buffer has twenty members, whatever is in it

# Twelve rows of a formula, so that nothing depends on random numbers or other files.
DENSE = np.array([[((3 * i + 5 * j) % 7 - 3) / 4 for j in range(4)] for i in range(12)])
X = csr_array(DENSE)
SIGN = np.where(DENSE @ [1.0, -2.0, 0.5, 1.0] > 0, "yes", "no")
THREE = np.arange(12) % 3
NUMBER = DENSE @ [1.0, -2.0, 0.5, 1.0]
HUBER = osvm.losses.get("huber", delta=0.5)
SETS = {"random_state": 3, "epochs": 2}
# Files of models that can no longer be made: LinearClassifier(solver="dual", reg=1.0).
OLD = {"linear-dual": SIGN}

# name of the file: (a model that is not fitted, its target)
MODELS = {
    "linear-binary": (osvm.LinearClassifier(**SETS), SIGN),
    "linear-multi": (osvm.LinearClassifier("softmax", average=True, **SETS), THREE),
    "linear-svc": (osvm.LinearSVC(random_state=3), SIGN),
    "linear-smd": (osvm.LinearClassifier(schedule="smd", **SETS), SIGN),
    "linear-platt": (osvm.LinearClassifier(probability=True, **SETS), SIGN),
    "linear-regressor": (osvm.LinearRegressor(HUBER, **SETS), NUMBER),
    "linear-novelty": (osvm.LinearNovelty(**SETS), None),
    "multilabel": (osvm.MultilabelClassifier(**SETS), [("a",), ("a", "b"), ()] * 4),
    "alma": (AlmaClassifier(p=3.0, **SETS), SIGN),
    "kernel-binary": (osvm.KernelClassifier(budget=5, gamma=1.0, **SETS), SIGN),
    "kernel-multi": (osvm.KernelClassifier("softmax", budget=5, kernel="linear", **SETS), THREE),
    "kernel-cached": (osvm.SVC(solver="ol_svm", gamma=1.0, max_iter=2, random_state=3), SIGN),
    "svc": (osvm.SVC(gamma=1.0, probability=True), THREE),
    "svr": (osvm.SVR(gamma=1.0), NUMBER),
    "one-class": (osvm.OneClassSVM(gamma=1.0), None),
    "kernel-regressor": (osvm.KernelRegressor(budget=5, gamma=1.0, **SETS), NUMBER),
    "kernel-novelty": (osvm.KernelNovelty(budget=5, gamma=1.0, **SETS), None),
}  # fmt: skip


def scores(model):
    answer = getattr(model, "decision_function", model.predict)
    return np.asarray(answer(X), dtype=np.float64)


def recorded():
    """Every file of every format with its record."""
    found = []
    for path in sorted(FOLDER.glob("format*.json")):
        for name, record in json.loads(path.read_text()).items():
            file = FOLDER / f"{path.stem}-{name}.osvm"
            found.append(pytest.param(file, record, id=file.stem))
    return found


@pytest.mark.parametrize(("path", "record"), recorded())
def test_old_files_load_and_predict(path, record):
    model = osvm.load(path)
    # `SVC` was KernelClassifier(solver=...) once
    renamed = {"format1-kernel-cached": "SVC"}
    assert type(model).__name__ == renamed.get(path.stem, record["class"])
    assert model.t_ == record["t"]
    np.testing.assert_allclose(scores(model), record["scores"], rtol=1e-6, atol=1e-9)
    found, expected = model.predict(X).tolist(), record["predictions"]
    assert found == (pytest.approx(expected) if isinstance(expected[0], float) else expected)
    assert path.stat().st_size < MAX_BYTES


@pytest.mark.parametrize(("path", "record"), recorded())
def test_old_files_go_on(path, record, tmp_path):
    """They can be saved again, in the format of today, and learn on where they could."""
    model = osvm.load(path)
    model.save(tmp_path / "new.osvm")
    assert scores(osvm.load(tmp_path / "new.osvm")).tobytes() == scores(model).tobytes()
    name = path.stem.split("-", 1)[1]
    target = OLD[name] if name in OLD else MODELS[name][1]
    if hasattr(model, "partial_fit"):
        _ = model.partial_fit(X) if target is None else model.partial_fit(X, target)
        assert model.t_ == record["t"] + len(DENSE)


def test_every_class_has_a_file_of_this_format():
    record = json.loads((FOLDER / f"format{io.FORMAT_VERSION}.json").read_text())
    assert {entry["class"] for entry in record.values()} == set(io.CLASSES)
    assert set(record) == set(MODELS) | set(OLD)
    for name in record:
        header = io.read_header(FOLDER / f"format{io.FORMAT_VERSION}-{name}.osvm")
        assert header["version"] == io.FORMAT_VERSION


def write_files():
    """Files of the current format that are not there yet."""
    FOLDER.mkdir(exist_ok=True)
    stem = f"format{io.FORMAT_VERSION}"
    index = FOLDER / f"{stem}.json"
    record = json.loads(index.read_text()) if index.exists() else {}
    for name, (model, target) in MODELS.items():
        path = FOLDER / f"{stem}-{name}.osvm"
        if path.exists():
            continue
        _ = model.fit(X) if target is None else model.fit(X, target)
        model.save(path)
        record[name] = {
            "class": type(model).__name__,
            "t": int(model.t_),
            "scores": scores(model).tolist(),
            "predictions": model.predict(X).tolist(),
        }
        print(f"{path.name}: {os.path.getsize(path)} bytes")
    index.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(write_files())
