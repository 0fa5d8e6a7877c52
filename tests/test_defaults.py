"""The defaults beside scikit-learn's, on a few small sets: a short `asv_bench.defaults`."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
defaults = pytest.importorskip("asv_bench.defaults")

from asv_bench.defaults_sets import SETS  # noqa: E402

CLASS = ["6 sentences", "tiny 20", "breast_cancer std", "digits raw", "d 200,000"]
LARGE = ["digits raw", "d 200,000"]
REGRESSION = ["offset 10"]
SEEDS = range(3)


@pytest.fixture(scope="module")
def lines():
    records = []
    for name in CLASS + REGRESSION:
        records += defaults.run_set(SETS[name], ["fit"], SEEDS, ("vowpalwabbit", "river"))
    return {x["set"]: x for x in defaults.summarize(records)}


@pytest.mark.parametrize("name", CLASS + REGRESSION)
def test_no_seed_ends_with_a_constant_model(lines, name):
    assert lines[name]["constant_seeds"] == 0


def test_accuracy_is_that_of_the_best_peer(lines):
    found = [lines[name]["difference_sklearn"] for name in CLASS]
    assert np.mean(found) >= 0.0
    assert min(found) >= -0.5


@pytest.mark.parametrize("name", LARGE)
def test_the_worst_seed_is_near_the_mean(lines, name):
    assert lines[name]["worst"] - lines[name]["mean"] >= -1.0


@pytest.mark.parametrize("name", REGRESSION)
def test_regression_is_near_ridge(lines, name):
    assert lines[name]["peer"] == "Ridge"
    assert lines[name]["difference"] >= -2.0


def record(score, ours, seed=0, learner="a", constant=50.0):
    return {
        "set": "s", "task": "class", "kind": "text", "mode": "fit", "metric": "accuracy",
        "learner": learner, "ours": ours, "seed": seed, "rows": 2000, "constant": constant,
        "score": score, "seconds": 1.0,
    }  # fmt: skip


def test_summary_counts_constant_models_only_where_a_peer_learns():
    runs = [record(50.0, True, 0), record(50.0, True, 1), record(90.0, False, 0, "SGD"),
            record(50.0, False, 1, "SGD")]  # fmt: skip
    (line,) = defaults.summarize(runs)
    assert line["constant_seeds"] == 1
    assert line["difference"] == line["difference_sklearn"] == -20.0


def test_a_file_has_the_same_records():
    runs = [record(50.12345, True, seed) | {"same_data": 49.0 + seed} for seed in (0, 2)]
    runs += [record(90.0, False, seed, "SGD") for seed in (0, 2)]
    groups = defaults.packed(runs)
    assert [g["learner"] for g in groups] == ["a", "SGD"]
    again = defaults.unpacked(groups)
    assert [r["seed"] for r in again] == [0, 2, 0, 2]
    assert again[1]["score"] == pytest.approx(50.12345, abs=1e-4)
    assert again[1]["same_data"] == 51.0
    lines = defaults.summarize(defaults.with_peers(runs[:2], again))
    assert [line["peer_mean"] for line in lines] == [90.0]


def test_scores():
    answer, truth = np.array([1, 0, 1, 1]), np.array([1, 0, 0, 1])
    assert defaults.score("accuracy", answer, truth) == 75.0
    assert defaults.score("F1", answer, truth) == pytest.approx(80.0)
    assert defaults.score("R2", np.array([np.inf, 1.0]), np.array([0.0, 1.0])) == defaults.FAILED
    assert defaults.constant_score("accuracy", answer, np.array([1, 1, 0, 2])) == 50.0
