"""Scores that are equal are equal however a stream is cut into blocks."""

import numpy as np
import pytest

import osvm
from osvm import taxonomy


def make_rows(seed, n=80):
    """Few values, so that rows repeat and scores are often exactly equal."""
    rng = np.random.default_rng(seed)
    return rng.integers(-1, 2, (n, 3)).astype(float), rng.integers(0, 4, n)


def run(options, X, y, size):
    model = osvm.KernelClassifier(record=True, **options)
    for i in range(0, len(X), size):
        model.partial_fit(X[i : i + size], y[i : i + size], classes=range(4))
    return model.history_


@pytest.mark.parametrize("eviction", ["fifo", "coefficient"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("loss", ["multiclass_hinge", "graph_hinge", "hinge", "perceptron"])
def test_ties_were_decided_by_the_rounding_of_block_sums(loss, kernel, eviction):
    options = {
        "loss": loss, "kernel": kernel, "budget": 2, "eviction": eviction,
        "gamma": 0.5, "schedule": "constant", "eta0": 0.1,
    }  # fmt: skip
    if kernel == "linear":
        del options["gamma"]
    if loss == "graph_hinge":
        options["taxonomy"] = taxonomy.from_matrix(
            [[0, 1, 2, 2], [1, 0, 2, 2], [2, 2, 0, 1], [2, 2, 1, 0]]
        )
    for seed in range(30):
        X, y = make_rows(seed)
        rows = run(options, X, y, 1)
        for size in (7, len(X)):
            blocks = run(options, X, y, size)
            np.testing.assert_allclose(blocks["loss"], rows["loss"], rtol=0, atol=1e-12)
            np.testing.assert_array_equal(blocks["error"], rows["error"])
