"""The same numbers in other memory give the same model: read-only, strided, byte order."""

import numpy as np
import pytest
import scipy.sparse as sp

import osvm

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 5)).round(2)
SCORE = X @ np.arange(5.0)
WEIGHT = rng.random(60) + 0.1
SOLVERS = ("adatron", "lasvm", "ol_svm", "norma", "pegaz", "perceptron", "voted_perceptron")
MODELS = {
    "linear": lambda: osvm.LinearClassifier(random_state=0),
    "bottou": lambda: osvm.LinearClassifier(schedule="bottou", random_state=0),
    "smd": lambda: osvm.LinearClassifier(schedule="smd", random_state=0),
    "numbers": lambda: osvm.LinearRegressor(random_state=0),
    "novelty": lambda: osvm.LinearNovelty(random_state=0),
    "svc": lambda: osvm.LinearSVC(random_state=0),
    "hinge svc": lambda: osvm.LinearSVC(loss="hinge", random_state=0),
    "kernel": lambda: osvm.KernelClassifier(budget=10, random_state=0),
    "kernel numbers": lambda: osvm.KernelRegressor(budget=10, random_state=0),
    "kernel novelty": lambda: osvm.KernelNovelty(budget=10, random_state=0),
    "kernel svr": lambda: osvm.SVR(),
    "one class": lambda: osvm.OneClassSVM(),
    **{f"kernel {name}": lambda name=name: osvm.SVC(solver=name) for name in SOLVERS},
}


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


MEMORY = {
    "read-only": read_only,
    "strided": lambda a: np.repeat(a, 2, axis=0)[::2],
    "backward": lambda a: a[::-1].copy()[::-1],
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("name", MODELS)
def test_memory_does_not_matter(name, memory, sparse):
    def fit(change):
        model = MODELS[name]()
        rows = change(X)
        if sparse:
            rows = sp.csr_matrix(X)
            rows.data, rows.indices = change(rows.data), change(rows.indices)
            rows.indptr = change(rows.indptr)
        numbers = "numbers" in name or "svr" in name
        y = None if "novelty" in name or "one class" in name else SCORE if numbers else SCORE > 0
        given = (rows,) if y is None else (rows, change(np.asarray(y)))
        weight = {"sample_weight": change(WEIGHT)} if "perceptron" not in name else {}
        model.fit(*given, **weight)
        if hasattr(model, "partial_fit"):
            model.partial_fit(*given, **weight)
        answer = model.predict if numbers else model.decision_function
        return model.to_bytes(), answer(rows)

    (found, answers), (plain, expected) = fit(MEMORY[memory]), fit(np.array)
    assert found == plain
    np.testing.assert_allclose(answers, expected, rtol=1e-12, atol=1e-12)
