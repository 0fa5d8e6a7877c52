"""Every kind of model that can be saved: recipes, and estimators over a grid of options.

`KINDS` maps a name to (maker, target); the target is a key of `Y`.  Used by the tests of
saving and loading, and by the mutated files of `fuzz_models.py`.
"""

import functools
import hashlib
import importlib
import inspect
import warnings

import numpy as np
from scipy.sparse import csr_array

import osvm
from osvm import io, losses, recipes, solvers, taxonomy
from osvm.stream import HashingTokenizer

rng = np.random.default_rng(0)
DENSE = rng.normal(size=(60, 16)) * (rng.random((60, 16)) < 0.3)
X = csr_array(DENSE)
W = rng.normal(size=16)
V = {label: rng.normal(size=16) for label in "abc"}
PATHS = np.array(["x/a", "x/b", "y/c"])
CODE = np.digitize(X @ W, [-0.5, 0.5])
Y = {
    "binary": np.where(X @ W > 0, "yes", "no"),
    "multi": np.array(["a", "b", "c"])[CODE],
    "paths": PATHS[CODE],
    "number": X @ W,
    "sets": [tuple(k for k in "abc" if x @ V[k] > 0.3) for x in DENSE],
    "one set": [("a",) if x @ V["a"] > 0 else ("a", "b") for x in DENSE],  # all have "a"
    "novel": None,
}
TREE = taxonomy.from_paths(PATHS.tolist())
SPARSE_SMD = osvm.schedules.SMD(per_coordinate=True)
NORMALIZED = osvm.schedules.Adaptive(normalized=True, forget=0.99)
MIRROR = osvm.schedules.Adaptive(mirror=True, tail=False)


TEXTS = [" ".join(f"word{k}" for k in np.flatnonzero(x)) for x in DENSE]
TOKENIZERS = {
    "tf-idf": {},
    "terms": {"keep_terms": True, "ngrams": (1, 2), "tf": "count", "stop_words": ["word1"]},
    "chars": {"analyzer": "char", "ngrams": (2, 2), "idf": False, "signed": False},
}


def _text_model(cls, params, tokenizer):
    """A model of documents: its 16 columns are those of the tokenizer."""
    model = _estimator(cls, params)
    model.tokenizer_ = HashingTokenizer(4, **TOKENIZERS[tokenizer]).fit(TEXTS)
    model._input = {"format": "text", "tokenizer": model.tokenizer_.config()}
    return model


def _estimator(name, params):
    cls = getattr(importlib.import_module(io.CLASSES[name]), name)
    seeded = "random_state" in inspect.signature(cls).parameters
    return cls(**({"random_state": 3} if seeded else {}), **params)


LINEAR = [
    ("binary", {}),
    ("multi", {}),
    ("multi", {"schedule": osvm.schedules.Auto(half_life=20.0), "epochs": 1}),
    ("binary", {"n_jobs": 2, "schedule": "bottou"}),
    ("multi", {"n_jobs": 2, "schedule": "adaptive", "average": True}),
    ("binary", {"C": 2.0}),
    ("binary", {"reg": 0.01, "schedule": "inverse_time", "project": True}),
    ("binary", {"project": 2.0, "average": True}),
    ("binary", {"average": True, "class_weight": "balanced"}),
    ("binary", {"average": 1000}),
    ("binary", {"loss": "logistic", "schedule": "constant"}),
    ("binary", {"loss": "squared_hinge", "C": 0.5}),
    ("binary", {"loss": "perceptron", "reg": 0.0, "schedule": "constant"}),
    ("binary", {"loss": "modified_huber", "schedule": "kecman", "C": 1.0}),
    ("binary", {"probability": True}),
    ("binary", {"batch_size": 7}),
    ("binary", {"batch_size": 7, "average": True, "project": True}),
    ("binary", {"batch_size": "full"}),
    ("binary", {"batch_size": "full", "C": 1.0}),
    ("binary", {"schedule": "smd"}),
    ("binary", {"schedule": SPARSE_SMD}),
    ("binary", {"schedule": "adaptive"}),
    ("binary", {"schedule": NORMALIZED, "average": True, "probability": True}),
    ("binary", {"schedule": "coin_betting", "average": True}),
    ("multi", {"schedule": "coin_betting", "probability": True}),
    ("binary", {"warm_start": True, "normalize": True}),
    ("binary", {"scale": "std"}),
    ("binary", {"scale": "std", "reg": 0.01, "average": True, "project": True}),
    ("binary", {"scale": "running"}),
    ("multi", {"scale": "maxabs", "batch_size": 7, "probability": True, "normalize": True}),
    ("multi", {"scale": "maxabs", "schedule": "smd", "loss": "softmax"}),
    ("multi", {"loss": "softmax", "batch_size": "full"}),
    ("multi", {"loss": "multiclass_hinge", "probability": True, "average": True}),
    ("multi", {"average": 10, "batch_size": 7, "class_weight": {"a": 2.0}}),
    ("multi", {"schedule": "smd", "loss": "softmax"}),
    ("multi", {"schedule": SPARSE_SMD, "loss": "softmax"}),
    ("multi", {"schedule": MIRROR, "loss": "softmax", "average": 10}),
    ("multi", {"schedule": NORMALIZED}),
    ("multi", {"project": True}),
    ("multi", {"project": 0.1, "reg": 0.0, "schedule": osvm.schedules.Constant(0.1, lazy=True)}),
    ("paths", {"loss": "graph_hinge", "taxonomy": TREE}),
]  # fmt: skip
LINEAR_SVC = [
    ("binary", {}),
    ("binary", {"loss": "hinge", "C": 10.0, "warm_start": True, "intercept_scaling": 1.0}),
    ("multi", {"class_weight": "balanced", "dual": False}),
    ("multi", {"warm_start": True, "fit_intercept": False, "dual": True}),
]
REGRESSOR = [
    {},
    {"loss": "epsilon_insensitive", "schedule": "bottou"},
    {"loss": "huber", "average": True, "schedule": "inverse_sqrt"},
    {"loss": "squared", "batch_size": "full"},
    {"loss": osvm.losses.get("huber", delta=0.3), "schedule": "smd"},
    {"loss": "squared", "schedule": NORMALIZED, "average": True},
    {"scale": "std", "schedule": "bottou"},
    {"loss": "huber", "schedule": "coin_betting"},
    {"loss": "squared", "schedule": "auto", "batch_size": 1, "epochs": 2},
]
NOVELTY = [
    {}, {"average": True, "batch_size": 5}, {"batch_size": "full"}, {"schedule": "adaptive"},
    {"nu": 0.3, "reg": 0.01}, {"scale": "maxabs"},
]  # fmt: skip
MULTILABEL = [
    ("sets", {}),
    ("sets", {"loss": "logistic", "average": True}),
    ("sets", {"batch_size": 7}),
    ("sets", {"batch_size": "full"}),
    ("sets", {"probability": True, "C": 1.0}),
    ("sets", {"class_weight": "balanced", "project": True}),
    ("sets", {"schedule": "adaptive", "average": True}),
    ("sets", {"schedule": "coin_betting"}),
    ("one set", {"C": 1.0}),
    ("one set", {"C": 1.0, "batch_size": "full"}),
    ("sets", {"scale": "std", "average": True}),
    ("one set", {"scale": "maxabs", "batch_size": 7}),
]
KERNEL = [
    ("binary", {}),
    ("binary", {"nu": 0.2, "schedule": "inverse_sqrt"}),
    ("binary", {"nu": 0.2, "budget": 10}),
    ("binary", {"nu": losses.NuTrick(0.3, epsilon0=0.5, eta0=0.2), "schedule": "smd"}),
    ("binary", {"schedule": osvm.schedules.SMD(mu=0.2, eta_max=0.5)}),
    ("binary", {"kernel": "polynomial", "gamma": 0.5, "budget": None}),
    ("binary", {"kernel": "sigmoid", "fit_intercept": True, "record": True}),
    ("binary", {"kernel": "cosine", "schedule": "constant", "C": 1.0}),
    ("multi", {"budget": 10, "eviction": "fifo"}),
    ("multi", {"budget": 10, "eviction": "coefficient"}),
    ("multi", {"budget": 10, "eviction": "term", "loss": "softmax"}),
    ("multi", {"budget": 10, "eviction": "change", "class_weight": "balanced"}),
    ("multi", {"budget": 10, "eviction": "merge"}),
    ("binary", {"budget": 10, "eviction": "merge", "schedule": "bottou"}),
    ("multi", {"budget": 10, "eviction": "project", "kernel": "polynomial", "gamma": 0.5}),
    ("paths", {"loss": "graph_hinge", "taxonomy": TREE, "label_kernel": "taxonomy"}),
]
KERNEL_REGRESSOR = [
    {}, {"schedule": "constant", "budget": 10}, {"eviction": "term", "budget": 9},
    {"eviction": "merge", "budget": 9}, {"eviction": "project", "budget": 9, "kernel": "linear"},
]  # fmt: skip
KERNEL_NOVELTY = [
    {}, {"nu": None, "reg": 0.1, "budget": 12}, {"eviction": "merge", "budget": 9},
    {"eviction": "project", "budget": 9},
]  # fmt: skip
TEXT = [
    ("LinearClassifier", "binary", {}, "tf-idf"),
    ("LinearClassifier", "multi", {"loss": "logistic"}, "terms"),
    ("MultilabelClassifier", "sets", {}, "terms"),
    ("KernelClassifier", "binary", {"budget": 10}, "chars"),
    ("LinearRegressor", "number", {}, "tf-idf"),
]
SVC = [
    *(("binary", {"solver": name}) for name in solvers.names()),
    ("binary", {"solver": solvers.Adatron(selection="order", record=True), "C": 2.0}),
    ("binary", {"kernel": "linear", "class_weight": {"yes": 3.0}, "probability": True}),
    ("multi", {"solver": solvers.OlSvm(record=True)}),
    ("multi", {"kernel": "poly", "probability": True, "tol": 1e-2, "max_iter": 3}),
    ("multi", {"solver": "voted_perceptron", "max_iter": 2}),
]


def _recipe(name):
    """A recipe with its defaults; it needs nothing but a seed where it takes one."""
    made = getattr(recipes, name)(**({"radius": 3.0} if name == "projected_ogd" else {}))
    return made.set_params(random_state=3) if "random_state" in made.get_params() else made


TARGETS = {
    "LinearRegressor": "number",
    "KernelRegressor": "number",
    "SVR": "number",
    "OneClassSVM": "novel",
    "LinearNovelty": "novel",
    "KernelNovelty": "novel",
    "MultilabelClassifier": "sets",
}


def _kinds():
    kinds = {}

    def add(cls, target, params):
        text = ", ".join(f"{key}={value!r:.30}" for key, value in params.items())
        kinds[f"{cls}({text}) {target}"] = (functools.partial(_estimator, cls, params), target)

    for target, params in LINEAR:
        add("LinearClassifier", target, params)
    for target, params in LINEAR_SVC:
        add("LinearSVC", target, params)
    for params in REGRESSOR:
        add("LinearRegressor", "number", params)
    for params in NOVELTY:
        add("LinearNovelty", "novel", params)
    for target, params in MULTILABEL:
        add("MultilabelClassifier", target, params)
    for target, params in KERNEL:
        add("KernelClassifier", target, params)
    for target, params in SVC:
        add("SVC", target, params)
    for params in ({}, {"C": 3.0, "epsilon": 0.01, "max_iter": 2}, {"kernel": "linear"}):
        add("SVR", "number", params)
    for params in ({}, {"nu": 0.1, "kernel": "linear"}):
        add("OneClassSVM", "novel", params)
    for params in KERNEL_REGRESSOR:
        add("KernelRegressor", "number", params)
    for params in KERNEL_NOVELTY:
        add("KernelNovelty", "novel", params)
    for params in ({}, {"p": 4.0, "epochs": 2, "shuffle": True}):
        add("AlmaClassifier", "binary", params)
    add("AlmaClassifier", "multi", {"p": 3.0})
    for cls, target, params, name in TEXT:
        make_text = functools.partial(_text_model, cls, params, name)
        kinds[f"{cls} of text({name}) {target}"] = (make_text, target)
    for name in recipes.__all__:
        if inspect.isfunction(getattr(recipes, name)):
            kinds[f"recipes.{name}"] = (
                functools.partial(_recipe, name),
                TARGETS.get(type(_recipe(name)).__name__, "binary"),
            )
    return kinds


KINDS = _kinds()


def learn(model, target, method="fit", rows=slice(None), data=X):
    """`fit` or `partial_fit` on some of the rows."""
    y = Y[target]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if y is None:
            return getattr(model, method)(data[rows])
        return getattr(model, method)(data[rows], y[rows])


def make(kind):
    """A fitted model of this kind, dense or sparse by turns."""
    maker, target = KINDS[kind]
    return learn(maker(), target, data=rows_of(kind))


def rows_of(kind):
    """The rows that a kind learns from: some sparse, some dense, some float32."""
    which = sum(kind.encode()) % 3
    return (X, DENSE, X.astype(np.float32))[which]


def scores(model, data=X):
    answer = getattr(model, "decision_function", model.predict)
    return np.asarray(answer(data))


def fingerprint(model):
    """Parameters and the whole fitted state, as bits."""
    seen = hashlib.sha256(repr(model.get_params()).encode())
    if "t_" in model.__dict__:
        scalars, arrays = model._get_state()
        seen.update(repr(scalars).encode())
        if "start" in arrays:  # where rows lie in their memory says nothing
            arrays = {k: a for k, a in arrays.items() if k not in ("start", "values", "columns")}
            rows = model.support_vectors_
            if hasattr(rows, "indptr"):
                arrays |= {"rows": rows.data, "where": rows.indices, "ends": rows.indptr}
        for name in sorted(arrays):
            seen.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
            seen.update(np.ascontiguousarray(arrays[name]).tobytes())
    if "tokenizer_" in model.__dict__:
        counts, columns = model.tokenizer_.get_state()
        seen.update(repr((model.tokenizer_.config(), counts)).encode())
        for name in sorted(columns):
            seen.update(name.encode() + columns[name].tobytes())
    return seen.digest()
