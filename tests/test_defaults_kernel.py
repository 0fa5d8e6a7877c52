"""The kernel defaults beside their peers', on a few small sets: a short `defaults kernel`."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
kernel = pytest.importorskip("asv_bench.defaults_kernel")

SETS = {data.name: data for data in kernel._make_sets()}


@pytest.fixture(scope="module")
def records():
    names = ("digits", "breast_cancer", "5 % positives", "diabetes std", "shifted")
    return [r for name in names for r in kernel.run_set(SETS[name], "fit", 2)]


def test_defaults_are_as_good_as_the_peers(records):
    for name, peer, least in (
        ("digits", "SVC", -1.0), ("breast_cancer", "SVC", -1.5), ("5 % positives", "SVC", 0.0),
        ("digits", "RBFSampler 512", 0.0), ("5 % positives", "LinearClassifier", -1.0),
        ("diabetes std", "SVR", 0.0), ("shifted", "OneClassSVM", -1.0),
    ):  # fmt: skip
        scores = kernel.by_learner([r for r in records if r["set"] == name])
        ours = scores[kernel.OURS[SETS[name].task]]
        assert ours.mean() - scores[peer].mean() >= least, (name, peer)


def test_differences_are_summarized():
    rows = [
        {"set": name, "learner": learner, "seed": seed, "score": score, "seconds": s, "rows": n}
        for name, n, scores in (("a", 6000, ((5.0, 7.0), (4.0, 4.0))),
                                ("b", 100, ((1.0, 1.0), (2.0, 0.0))))
        for learner, own, s in (("x", scores[0], 2.0), ("y", scores[1], 4.0))
        for seed, score in enumerate(own)
    ]  # fmt: skip
    line = kernel.compare(rows, "x", "y")
    assert line == ["x − y", 2, "+1.00", "+0.00 (b)", "-1.00 (b)", "0.50 (a)"]
    assert kernel.compare(rows, "x", "z") is None


def test_a_stream_is_tested_before_it_is_learnt():
    class Recorder:
        def __init__(self):
            self.seen = []

        def partial_fit(self, X, y, classes=None):
            self.seen += X[:, 0].tolist()

        def predict(self, X):
            assert not set(X[:, 0].tolist()) & set(self.seen)
            return np.ones(len(X))

    X, y = np.arange(500.0)[:, None], np.where(np.arange(500) < 300, 1, -1)
    assert kernel.stream_accuracy(Recorder(), X, y) == 50.0
