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

import osvm
from osvm.stream import HashingTokenizer

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


def _tokenizer(**params):
    return HashingTokenizer(5, **params).fit(["good film", "bad film"])


# ------------------------------------------------- functions, and objects that are no estimators

NO_DOCUMENTS = {
    "None": None, "number": 3, "text": "good", "bytes": b"good", "numbers": [3], "dict": {"a": 1},
    "nested": [["good"]], "None inside": ["good", None], "array": np.zeros(3),
}  # fmt: skip
NO_TOKENIZER = [
    {"bits": 0}, {"bits": 31}, {"bits": 1.5}, {"bits": "4"}, {"bits": True}, {"ngrams": 3},
    {"ngrams": (0, 1)}, {"ngrams": (2, 1)}, {"ngrams": (1, 10**9)}, {"tf": "nonsense"},
    {"tf": None}, {"analyzer": "line"}, {"stop_words": 3}, {"stop_words": "klingon"},
    {"stop_words": [3]}, {"min_length": 0}, {"min_length": 10**20}, {"min_length": "2"},
]  # fmt: skip
NO_WEIGHTS = {
    "one": [1.0], "nan": [1.0, np.nan], "inf": [1.0, np.inf], "negative": [-1.0, 2.0],
    "zeros": [0.0, 0.0], "name": "nonsense", "None": None, "deep": [[1.0, 2.0]],
    "texts": ["a", "b"], "object": object(), "complex": [1j, 1],
}  # fmt: skip
NO_OPTIONS = [
    {"rounds": 0}, {"rounds": -1}, {"rounds": "x"}, {"rounds": 1.5}, {"rounds": True},
    {"nonsense": 1}, {"tol": -1.0}, {"tol": np.nan}, {"engine": 3}, {"patience": 0},
    {"resume": True}, {"resume": "x"}, {"checkpoint": "/no/such/folder/m.osvm"},
    {"validation": 3}, {"validation": (DENSE,)}, {"classes": [[1, 2], [3, 4]]},
]  # fmt: skip


def function_calls(model, other, tokenizer):
    """(name, call) of functions with arguments that none may accept; two fitted models."""
    data = model.to_bytes()
    y = Y["binary"]
    new = lambda: osvm.LinearClassifier(random_state=0)  # noqa: E731
    for name, bad in {
        "None": None, "number": 3, "text": "x", "empty": [], "None inside": [model, None],
        "a class": [osvm.LinearClassifier], "unfitted": [model, new()], "a model": model,
        "others": [model, other], "bytes": [data, data],
        "a fixed set": [osvm.LinearSVC().fit(DENSE, y)] * 2,
    }.items():  # fmt: skip
        yield f"merge of {name}", lambda bad=bad: osvm.merge(bad)
    for name, bad in NO_WEIGHTS.items():
        yield f"merge, weights {name}", lambda bad=bad: osvm.merge([model, model], weights=bad)
    for name, bad in {"number": 3, "unfitted": new(), "another": other, "bytes": data}.items():
        yield f"merge, base {name}", lambda bad=bad: osvm.merge([model, model], base=bad)
    for name, bad in {
        "None": None, "number": 3, "text": "x", "nothing": b"", "some": data[:-1], "zip": data[:4],
        "more": data + b"0", "changed": data[:50] + b"!" + data[51:], "array": np.zeros(30),
        "list": [1, 2],
    }.items():  # fmt: skip
        yield f"from_bytes of {name}", lambda bad=bad: osvm.from_bytes(bad)
    for name, bad in {
        "None": None, "number": 3, "none": [], "numbers": [3], "None inside": [None],
        "no file": ["/no/such/file.svm"], "X alone": [(DENSE,)], "short y": [(DENSE, y[:3])],
        "short weight": [(DENSE, y, np.ones(3))], "nan": [(DENSE * np.nan, y)], "empty": [()],
        "X is None": [(None, y)], "gives None": [lambda: None], "gives a number": [lambda: 3],
        "five parts": [(DENSE, y, None, None, None)], "no rows": [(DENSE[:0], y[:0])],
        "other columns": [(DENSE, y), (DENSE[:, :3], y)], "text": "abc",
    }.items():  # fmt: skip
        yield f"fit, blocks {name}", lambda bad=bad: osvm.distributed.fit(model, bad)
    for bad in NO_OPTIONS:
        yield f"fit, {bad}", lambda bad=bad: osvm.distributed.fit(model, [(DENSE, y)], **bad)
    for bad in (None, 3, "x", osvm.SVC(), osvm.LinearSVC(), object(), osvm.LinearClassifier):
        yield f"fit of {bad!r:.40}", lambda bad=bad: osvm.distributed.fit(bad, [(DENSE, y)])
    for bad in NO_TOKENIZER:
        yield f"HashingTokenizer {bad}", lambda bad=bad: HashingTokenizer(**bad)
    for method in ("fit", "partial_fit", "transform", "fit_transform"):
        for name, bad in NO_DOCUMENTS.items():
            call = getattr(tokenizer, method)
            yield f"tokenizer.{method} of {name}", lambda call=call, bad=bad: call(bad)
    for bad in (None, 3, "x", model, HashingTokenizer(6).fit(["a"]), _tokenizer(idf=False)):
        yield f"tokenizer.merge {bad!r:.40}", lambda bad=bad: tokenizer.merge(bad)
    for bad in (None, 3, {3: 1.0}, {"a": None}, {"a": [1]}, {"a": 10**400}):
        yield f"tokenizer.columns_of {bad!r:.40}", lambda bad=bad: tokenizer.columns_of(bad)
    for bad in ({"a": np.nan}, {"a": None}, {"a": 10**400}, {"a": 1j}, {"a": 1.0, 3: 1.0}):
        yield f"learn_one of {bad!r:.40}", lambda bad=bad: new().learn_one(bad, "yes")
    for bad in (0, -1, 3, "x", 2.0, True, 2**40):
        name = f"learn_one, n_features {bad!r}"
        yield name, lambda bad=bad: new().learn_one({"a": 1.0}, "yes", n_features=bad)
    for bad in (0, -1, "x", 2.0, True):
        name = f"learn_one of numbers, n_features {bad!r}"
        yield name, lambda bad=bad: new().learn_one({0: 1.0}, "yes", n_features=bad)
    for bad in (0, 1.5, "x", True, [1]):
        fresh = osvm.LinearClassifier(n_jobs=bad, schedule="bottou")
        yield f"fit, n_jobs {bad!r}", lambda fresh=fresh: fresh.fit(DENSE, y)
    for bad in (3, "x", [], lambda: None, lambda model, epoch, more: None):
        fresh = osvm.LinearClassifier(callback=bad)
        yield f"fit, callback {bad!r:.20}", lambda fresh=fresh: fresh.fit(DENSE, y)
    for name, bad in BAD_PATH.items():
        yield f"load of {name}", lambda bad=bad: osvm.load(bad)
        yield f"save to {name}", lambda bad=bad: osvm.save(model, bad)


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
