"""Calls that no estimator may accept, over every public method.

`attack` makes each of them on a fitted model of one kind and on an unfitted one: the call must
raise, say why, and leave the model as it was.  `run_apart` does it in a process of its own, so
that a crash is found and named.
"""

import os
import warnings

import numpy as np
import scipy.sparse as sp
from saved_models import DENSE, KINDS, Y, make

N, D = DENSE.shape
REFUSALS = (ValueError, TypeError, AttributeError, FloatingPointError, OverflowError, OSError)


def _csr(change, dtype=np.float64, index=np.int32):
    X = sp.csr_matrix(DENSE.astype(dtype))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    change(X)
    return X


def _set(name, place, value):
    return lambda X: getattr(X, name).__setitem__(place, value)


def _put(name, make_array):
    return lambda X: setattr(X, name, make_array(getattr(X, name)))


def _dense(place, value, dtype=np.float64):
    X = DENSE.astype(dtype)
    X[place] = value
    return X


BAD_X = {
    "None": None, "number": 3.0, "text": "abc", "bytes": b"abc", "dict": {0: 1.0}, "set": {1.0},
    "object": object(), "generator": (row for row in DENSE), "flat": np.zeros(D),
    "deep": np.zeros((2, 3, D)), "scalar array": np.array(1.0), "ragged": [[1.0, 2.0], [3.0]],
    "no rows": DENSE[:0], "no columns": DENSE[:, :0], "texts": [["a"] * D] * N,
    "objects": np.full((N, D), None), "complex": DENSE * 1j, "dates": np.zeros((N, D), "M8[s]"),
    "records": np.zeros((N, D), [("a", float)]), "huge integers": [[10**400] * D] * N,
    "nan": _dense((3, 2), np.nan), "inf": _dense((-1, -1), np.inf),
    "nan float32": _dense((0, 0), np.nan, np.float32),
    "-inf float32": _dense((5, 5), -np.inf, np.float32),
    "nan sparse": _csr(_set("data", 7, np.nan)),
    "inf sparse": _csr(_set("data", -1, np.inf), np.float32),
    "column D": _csr(_set("indices", 5, D)), "column -1": _csr(_set("indices", 0, -1)),
    "column 2**31-1": _csr(_set("indices", -1, 2**31 - 1), np.float32),
    "column 2**62": _csr(_set("indices", 5, 2**62), index=np.int64),
    "column -2**63": _csr(_set("indices", 5, -(2**63)), index=np.int64),
    "indptr falls": _csr(_set("indptr", 5, 1)), "indptr late": _csr(_set("indptr", 0, 1)),
    "indptr past the end": _csr(_set("indptr", -1, 10**6)),
    "indptr 2**62": _csr(_set("indptr", 30, 2**62), index=np.int64),
    "indptr negative": _csr(_set("indptr", 30, -(2**62)), index=np.int64),
    "short data": _csr(_put("data", lambda a: a[:-1])),
    "short indices": _csr(_put("indices", lambda a: a[:-1])),
    "short indptr": _csr(_put("indptr", lambda a: a[:-1])),
    "float indices": _csr(_put("indices", lambda a: a + 0.5)),
    "complex sparse": _csr(_put("data", lambda a: a * 1j)),
    "flat data": _csr(_put("data", lambda a: a[:, None])),
}  # fmt: skip
NARROW = {
    "narrow": DENSE[:, :-1],
    "wide": np.hstack([DENSE, DENSE]),
    "narrow sparse": sp.csr_matrix(DENSE[:, 1:]),
}
BAD_WEIGHT = {
    "negative": np.full(N, -1.0), "nan": np.full(N, np.nan), "inf": np.full(N, np.inf),
    "short": np.ones(N - 1), "long": np.ones(N + 1), "two columns": np.ones((N, 2)),
    "texts": ["a"] * N, "text": "balanced", "object": object(), "complex": np.ones(N) * 1j,
}  # fmt: skip
BAD_Y = {
    "None": None, "number": 1.0, "short": lambda y: y[:-1], "long": lambda y: [*y, y[0]],
    "empty": [], "object": object(), "cube": np.zeros((N, 2, 2)),
}  # fmt: skip
BAD_NUMBERS = {
    "nan": np.full(N, np.nan), "inf": np.full(N, np.inf), "texts": ["a"] * N,
    "complex": np.ones(N) * 1j, "two columns": np.zeros((N, 2)), "huge": [10**400] * N,
}  # fmt: skip
BAD_LABELS = {
    "nan": np.full(N, np.nan), "inf": np.full(N, np.inf), "halves": np.arange(N) + 0.5,
    "two columns": np.zeros((N, 2)), "None inside": [None, *range(N - 1)],
}  # fmt: skip
BAD_SETS = {
    "nan": np.full((N, 3), np.nan), "twos": np.full((N, 3), 2), "a column": np.arange(N),
    "texts": ["ab"] * N, "numbers": [1] * N, "nested": [[["a"]]] * N,
}  # fmt: skip
BAD_ONE = {
    "text": ("a", [1.0]), "column D": ([D], [1.0]), "column -1": ([-1], [1.0]),
    "nan": ([0], [np.nan]), "inf": ([0], [np.inf]), "lengths": ([0, 1], [1.0]),
    "halves": ([0.5], [1.0]),
    "no values": ([0], None), "deep": ([[0]], [[1.0]]), "dict of None": ({"a": None},),
    "names and numbers": ({"a": 1.0, 3: 1.0},),
    "dict nan": ({0: np.nan},), "dict column D": ({D: 1.0},), "dict huge": ({10**30: 1.0},),
    "dict text value": ({0: "a"},), "None": (None,), "number": (3.0,), "objects": ([None], [1.0]),
}  # fmt: skip
BAD_PATH = {"None": None, "number": 3.5, "a folder": "/", "nowhere": "/no/such/folder/model.osvm",
            "empty": "", "object": object(), "nul": "a\0b"}  # fmt: skip

# Methods that take nothing, or what scikit-learn checks itself.
WITHOUT = {
    "get_params", "get_metadata_routing", "to_bytes", "set_callbacks", "densify", "sparsify",
    "to_sklearn",
    "set_fit_request", "set_partial_fit_request", "set_score_request",
}  # fmt: skip


def _given(y, how):
    return how(y) if callable(how) else how


def _targets(target):
    """Malformed targets: name -> y; nothing where there is no target."""
    good = Y[target]
    if good is None:
        return {}
    more = {"number": BAD_NUMBERS, "sets": BAD_SETS, "one set": BAD_SETS}.get(target, BAD_LABELS)
    return {name: _given(good, how) for name, how in {**BAD_Y, **more}.items()}


def calls(model, target):
    """(method, name, arguments, keywords) of every malformed call."""
    good = Y[target]
    y = () if good is None else (good,)
    rows = dict(BAD_X)
    rows["generator"] = (row for row in DENSE)
    for method in ("fit", "partial_fit", "fit_predict", "score"):
        if not hasattr(model, method):
            continue
        for name, bad in rows.items():
            yield method, f"X {name}", (bad, *y), {}
        for name, bad in _targets(target).items():
            yield method, f"y {name}", (DENSE, bad), {}
        for name, bad in BAD_WEIGHT.items():
            yield method, f"sample_weight {name}", (DENSE, *y), {"sample_weight": bad}
    for method in ("predict", "decision_function", "predict_proba", "predict_log_proba",
                   "score_samples", "predict_labels"):  # fmt: skip
        if hasattr(model, method):
            for name, bad in {**rows, **NARROW}.items():
                yield method, f"X {name}", (bad,), {}
    if "t_" in model.__dict__ and hasattr(model, "partial_fit"):
        for name, bad in NARROW.items():
            yield "partial_fit", f"X {name}", (bad, *y), {}
    for method in ("learn_one", "score_one", "predict_one", "predict_proba_one"):
        if hasattr(model, method):
            label = () if method != "learn_one" or good is None else (good[0],)
            for name, bad in BAD_ONE.items():
                yield method, name, (*bad, *label), {}
    for name, bad in BAD_PATH.items():
        yield "save", name, (bad,), {}
    yield "set_params", "unknown", (), {"nonsense": 1}
    yield "set_params", "nested", (), {"a__b": 1}


COVERED = WITHOUT | {
    "fit", "partial_fit", "fit_predict", "score", "predict", "decision_function", "predict_proba",
    "predict_log_proba", "score_samples", "predict_labels", "learn_one", "score_one",
    "predict_one", "predict_proba_one", "save", "set_params",
}  # fmt: skip


def public_methods(model):
    cls = type(model)
    return {name for name in dir(cls) if name[0] != "_" and callable(getattr(cls, name, None))}


def attack(kind, state_of, report=lambda text: None):
    """Make all calls; AssertionError lists those that were accepted or changed the model."""
    maker, target = KINDS[kind]
    wrong = []
    for model in (make(kind), maker()):
        fitted = "t_" in model.__dict__
        before = state_of(model)
        for method, name, given, keywords in calls(model, target):
            case = f"{kind}{'' if fitted else ' (unfitted)'}: {method} of {name}"
            report(case)
            try:
                getattr(model, method)(*given, **keywords)
            except REFUSALS as error:
                if not str(error):
                    wrong.append(f"{case} does not say why")
            except BaseException as error:
                wrong.append(f"{case}: {type(error).__name__}: {error}")
            else:
                wrong.append(f"{case} was accepted")
            if state_of(model) != before:
                wrong.append(f"{case} changed the model")
                model = make(kind) if fitted else maker()
    assert not wrong, "\n".join(wrong)


def run_apart(kind, state_of):
    """`attack` in a process of its own; the text of what was found, or None."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        text = "error in the harness"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                attack(kind, state_of, lambda case: os.write(write, case.encode() + b"\0"))
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
