"""Parameters that change after training take effect at the next call that learns, or raise."""

import sys

import numpy as np
import pytest
from saved_models import DENSE, KINDS, X, Y, learn, make, scores

import osvm

WALKED = {}
for _kind in KINDS:  # one of each class, and what has a state of its own
    if _kind.startswith("recipes."):
        continue
    _state = ("average", "batch_size", "smd", "project", "budget=10", "graph", "solver=", "C=")
    _key = (_kind.split("(")[0], *(word in _kind for word in _state))
    WALKED.setdefault(_key, _kind)


linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")


@linux
@pytest.mark.parametrize("kind", WALKED.values())
def test_some_parameters_may_change(kind, tmp_path):
    from walk_params import run_apart

    assert run_apart(kind, tmp_path / "model.osvm", share=61) is None


@linux
@pytest.mark.slow
@pytest.mark.parametrize("kind", WALKED.values())
def test_every_parameter_may_change(kind, tmp_path):
    from walk_params import run_apart

    assert run_apart(kind, tmp_path / "model.osvm") is None


def test_averaging_that_is_switched_on_after_fit(tmp_path):
    """It crashed: the accumulator was not there."""
    model = osvm.LinearClassifier(random_state=0).fit(X, Y["binary"])
    before = scores(model).tobytes()
    model.set_params(average=True).save(tmp_path / "m.osvm")
    again = osvm.load(tmp_path / "m.osvm")
    assert scores(again).tobytes() == before == scores(model).tobytes()
    for one in (model, again):
        one.partial_fit(X, Y["binary"])
    assert again._learner.weights.averaged_count == 60
    assert scores(again).tobytes() == scores(model).tobytes() != before


@pytest.mark.parametrize("target", ["binary", "multi"])
@pytest.mark.parametrize(
    "change",
    [
        {"reg": 0.5},
        {"average": True},
        {"project": 0.1},
        {"batch_size": 5},
        {"loss": "squared_hinge"},
        {"fit_intercept": False},
        {"schedule": "constant", "eta0": 0.01},
    ],
)
@pytest.mark.parametrize("schedule", ["auto", "bottou"])
def test_changes_take_effect(change, target, schedule, tmp_path):
    def go_on(model):
        return scores(learn(model, target, "partial_fit"))

    params = {"random_state": 0, "average": False, "schedule": schedule}
    plain = go_on(learn(osvm.LinearClassifier(**params), target))
    model = learn(osvm.LinearClassifier(**params), target).set_params(**change)
    changed = go_on(model)
    assert not np.array_equal(changed, plain)
    if "project" in change:
        assert np.linalg.norm(model.coef_, axis=1).max() <= 0.1 + 1e-9
    if "fit_intercept" in change:
        fixed = learn(osvm.LinearClassifier(**params), target)
        if schedule == "auto":  # whose answer is an average that goes on
            assert np.array_equal(model._learner.intercept, fixed._learner.intercept)
        else:
            assert np.array_equal(model.intercept_, fixed.intercept_)
    # one example at a time follows as well
    one = learn(osvm.LinearClassifier(**params), target)
    one.learn_one(np.arange(16), DENSE[0], Y[target][0])
    one.set_params(**change)
    other = learn(osvm.LinearClassifier(**params), target)
    other.partial_fit(DENSE[:1], Y[target][:1])
    other.set_params(**change)
    for i in range(1, 20):
        one.learn_one(np.arange(16), DENSE[i], Y[target][i])
        other.partial_fit(DENSE[i : i + 1], Y[target][i : i + 1])
    assert np.allclose(scores(one), scores(other))


@pytest.mark.parametrize("way", ["joined", "apart"])
def test_label_sets_follow_their_parameters(way):
    options = {"probability": True} if way == "apart" else {}
    one = osvm.MultilabelClassifier(random_state=0, **options).fit(X, Y["sets"])
    other = osvm.MultilabelClassifier(random_state=0, **options).fit(X, Y["sets"])
    one.set_params(reg=0.5).partial_fit(X, Y["sets"])
    other.partial_fit(X, Y["sets"])
    assert np.linalg.norm(one.coef_) < 0.9 * np.linalg.norm(other.coef_)


def test_what_cannot_change_says_so():
    model = make("LinearClassifier() binary")
    before = scores(model).tobytes()
    for change, word in (
        ({"schedule": "smd"}, "mid-stream"),
        ({"loss": "softmax"}, "mid-stream"),
        ({"C": 2.0}, "number of examples"),
    ):
        with pytest.raises(ValueError, match=word):
            learn(make("LinearClassifier() binary").set_params(**change), "binary", "partial_fit")
    assert scores(model).tobytes() == before


def test_warm_start_follows_its_parameters():
    model = osvm.LinearClassifier(random_state=0, warm_start=True).fit(X, Y["binary"])
    model.set_params(average=True).fit(X, Y["binary"])
    assert model._learner.weights.averaged_count == 300


def test_another_taxonomy_takes_effect():
    model = make(next(kind for kind in KINDS if kind.startswith("LinearClassifier(loss='graph")))
    other = osvm.taxonomy.from_paths(["x/a", "y/b", "y/c"])
    before = model._plan.delta
    labels = model.classes_.tolist()
    flat = osvm.taxonomy.from_matrix(7.0 * (1.0 - np.eye(3)), labels)
    learn(model.set_params(taxonomy=flat), "paths", "partial_fit")
    assert np.array_equal(model._plan.delta, flat.distances(labels))
    assert not np.array_equal(model._plan.delta, before)
    with pytest.raises(ValueError, match="x/b"):
        learn(model.set_params(taxonomy=other), "paths", "partial_fit")


@pytest.mark.parametrize("change", [{"reg": 0.5}, {"average": True}, {"schedule": "constant"}])
@pytest.mark.parametrize("by", ["set_params", "assignment"])
def test_learn_one_sees_a_parameter_that_was_assigned(change, by):
    """`model.reg = ...` was not seen by the fast path of `learn_one`."""
    y = Y["binary"].tolist()
    fast, slow = (osvm.LinearClassifier(random_state=0).partial_fit(X[:9], y[:9]) for _ in "ab")
    for i in (9, 10):
        row = X[[i]]
        fast.learn_one(row.indices, row.data, y[i])
        slow.partial_fit(row, y[i : i + 1])
    assert "_one" in fast.__dict__
    for model in (fast, slow):
        if by == "assignment":
            for name, value in change.items():
                setattr(model, name, value)
        else:
            model.set_params(**change)
    for i in range(11, 30):
        row = X[[i]]
        fast.learn_one(row.indices, row.data, y[i])
        slow.partial_fit(X[i : i + 1].toarray(), y[i : i + 1])
    assert np.allclose(fast.coef_, slow.coef_, rtol=1e-12, atol=0)
    unchanged = osvm.LinearClassifier(random_state=0).partial_fit(X[:9], y[:9])
    unchanged.partial_fit(X[9:30], y[9:30])
    assert not np.allclose(fast.coef_, unchanged.coef_, rtol=1e-6)


@pytest.mark.parametrize("bad", [{"tol": -1.0}, {"tol": "x"}, {"shuffle": "x"}, {"shuffle": 2}])
@pytest.mark.parametrize("name", ["LinearClassifier", "LinearRegressor", "LinearNovelty"])
def test_an_option_that_streams_do_not_use_is_checked_as_in_a_loaded_model(name, bad):
    model = getattr(osvm, name)(random_state=0)
    target = [] if name == "LinearNovelty" else [np.arange(X.shape[0]) % 2]
    model.fit(X, *target).partial_fit(X[:1], *(y[:1] for y in target))
    model.set_params(**bad)
    before = model.to_bytes()
    word = next(iter(bad))
    for learner in (model, osvm.from_bytes(before)):
        with pytest.raises(ValueError, match=word):
            learner.partial_fit(X[:1], *(y[:1] for y in target))
        with pytest.raises(ValueError, match=word):
            learner.partial_fit(X, *target)
        assert learner.to_bytes() == before
