"""Every parameter changed after training, and every call after that.

`walk` takes one kind of model and, for every parameter and several other values, trains a
model, sets the parameter, and goes through the calls.  A call may refuse the value with a
clear error; the model must then be as it was.  `run_apart` does it in a process of its own.
"""

import os
import pickle
import warnings

import numpy as np
from saved_models import KINDS, learn, make, rows_of, scores

import osvm

VALUES = [
    None, True, False, 0, 1, 5, -1, 0.5, 1e-3, "full", "balanced", "hinge", "softmax", "logistic",
    "squared", "multiclass_hinge", "graph_hinge", "smd", "constant", "inverse_time", "bottou",
    "dual", "sgd", "buffer", "ol_svm", "linear", "rbf", "term", "fifo", "merge", "nonsense",
    object(), osvm.schedules.SMD(per_coordinate=True), "adaptive", "coin_betting", "auto",
    osvm.schedules.Adaptive(normalized=True), "std", "running",
]  # fmt: skip
REFUSED = (ValueError, TypeError, AttributeError, FloatingPointError)


def _through_file(model, path):
    model.save(path)
    return osvm.load(path)


def _calls(target, data, path):
    """Name of a call: (function, whether it learns)."""
    return {
        "predict": lambda model: model.predict(data),
        "file": lambda model: _through_file(model, path),
        "pickle": lambda model: pickle.loads(pickle.dumps(model)),
        "partial_fit": lambda model: learn(model, target, "partial_fit", slice(0, 25), data),
        "fit": lambda model: learn(model, target, "fit", slice(None), data),
    }


# Sequences that follow a change; each starts from the trained model.
WALKS = [
    ("predict", "partial_fit", "predict"),
    ("file", "predict", "partial_fit", "file", "partial_fit", "predict"),
    ("pickle", "partial_fit", "pickle", "partial_fit", "predict"),
    ("fit", "partial_fit", "file", "predict"),
]


def _can(model, steps):
    """Whether the model has all of these calls; some learn fixed sets only."""
    return hasattr(model, "partial_fit") or "partial_fit" not in steps


def walk(kind, path, share, report=lambda text: None):
    """Go through all changes, or one of `share`; AssertionError names one that does harm."""
    data, target = rows_of(kind), KINDS[kind][1]
    trained = pickle.dumps(make(kind))
    calls = _calls(target, data, path)
    expected = scores(pickle.loads(trained), data).tobytes()
    number = sum(kind.encode())
    for name in pickle.loads(trained).get_params(deep=False):
        if name in ("callback", "verbose", "n_jobs"):
            continue
        for value in VALUES:
            for steps in WALKS:
                number += 1
                if number % share:
                    continue
                case = f"{kind}: {name}={value!r:.40}, {' -> '.join(steps)}"
                report(case)
                model = pickle.loads(trained).set_params(**{name: value})
                if not _can(model, steps):
                    steps = tuple(step for step in steps if step != "partial_fit")
                for step in steps:
                    before = _scores(model, data)
                    try:
                        out = calls[step](model)
                    except REFUSED as error:
                        refusal = str(error)
                    else:
                        refusal = None
                    if refusal is not None:
                        assert refusal, f"{case}: {step} does not say why"
                        assert _scores(model, data) == before, f"{case}: {step} changed the model"
                        break
                    if step in ("file", "pickle"):
                        assert _scores(out, data) == before, f"{case}: {step} gave another model"
                        model = out
    assert scores(pickle.loads(trained), data).tobytes() == expected


def _scores(model, data):
    try:
        found = scores(model, data)
    except REFUSED as error:
        return str(error)[:40]
    assert np.isfinite(found).all()
    return found.tobytes()


def run_apart(kind, path, share=1):
    """`walk` in a process of its own; the text of what was found, or None."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        text = "error in the harness"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                walk(kind, path, share, lambda case: os.write(write, case.encode() + b"\0"))
            text = ""
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        finally:
            os.write(write, b"\1" + text.encode())
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        told = file.read().decode()
    _, status = os.waitpid(child, 0)
    cases, _, text = told.partition("\1")
    if os.WIFSIGNALED(status):
        return f"killed by signal {os.WTERMSIG(status)} at {cases.split(chr(0))[-2:][0]}"
    return text or None
