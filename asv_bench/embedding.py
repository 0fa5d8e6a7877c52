"""Speed of the documentation's clients over that of the library's own models.

    cd doc/embedding && python setup.py build_ext --inplace
    PYTHONPATH=doc/embedding python -m asv_bench.embedding

Client and library take turns; each figure is a ratio of smallest processor times.
"""

import importlib
import time

import numpy as np
import scipy.sparse as sp

import osvm


def ratio(client, library, rounds=7):
    """Smallest processor time of the one over that of the other."""
    best = [np.inf, np.inf]
    for _ in range(rounds):
        for which, call in enumerate((client, library)):
            start = time.process_time()
            call()
            best[which] = min(best[which], time.process_time() - start)
    return best[0] / best[1]


def cases():
    """Name, client and library of each comparison."""
    linear, perceptron, ol_svm, scores = map(
        importlib.import_module,
        ("linear_svm", "kernel_perceptron", "ol_svm", "parallel_scores"),
    )
    rng = np.random.default_rng(0)
    X = sp.random(40_000, 20_000, density=0.004, format="csr", rng=rng)
    y = np.where(X @ rng.normal(size=20_000) > 0, 1.0, -1.0)
    model = osvm.LinearClassifier(
        reg=1e-4, schedule="inverse_time", fit_intercept=False, epochs=1, shuffle=False
    )
    yield "linear SVM", lambda: linear.fit(X, y, 1e-4), lambda: model.fit(X, y)

    Z = rng.normal(size=(6_000, 20))
    z = np.where(np.sin(Z[:, 0] * 2) + Z[:, 1] > 0, 1.0, -1.0)
    kernel = osvm.KernelClassifier(
        "perceptron",
        reg=0.0,
        gamma=0.1,
        budget=500,
        eviction="coefficient",
        schedule="constant",
        eta0=1.0,
        epochs=1,
        shuffle=False,
        average=False,
    )
    yield (
        "kernel perceptron",
        lambda: perceptron.learn_and_score(Z, z, Z, 0.1, 500),
        lambda: kernel.fit(Z, z).decision_function(Z),
    )

    A, a = X[:3_000], y[:3_000]
    svc = osvm.SVC(
        gamma=1.0, max_iter=2, solver=osvm.solvers.OlSvm(shuffle=False, dtype="float64")
    )
    yield "OL SVM", lambda: ol_svm.fit(A, a, 1.0, 1.0, 2), lambda: svc.fit(A, a)

    fitted = osvm.KernelClassifier(gamma=0.1, random_state=0).fit(Z, z)
    scorer = scores.Scorer(fitted.support_vectors_, fitted.dual_coef_[0].copy(), 0.1)
    yield (
        "scores, one thread",
        lambda: scorer.decision_function(Z, 1),
        lambda: fitted.decision_function(Z),
    )


if __name__ == "__main__":
    for name, client, library in cases():
        print(f"{name:20} {ratio(client, library):.2f}")
