"""Linear models from a stream: any cut gives the same model, labels may be new."""

import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_problems import D, N, problem

import osvm

STREAMED = [
    osvm.LinearClassifier(reg=0.01),
    osvm.LinearClassifier("logistic", reg=0.01, average=10, schedule="inverse_sqrt"),
    osvm.LinearClassifier(reg=0.01, batch_size=4, project=True, schedule="inverse_time"),
    osvm.LinearClassifier("softmax", reg=0.01, average=True, class_weight="balanced"),
    osvm.LinearClassifier("hinge", reg=0.01, project=True, normalize=True),
]


@settings(max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(1, N - 1), max_size=6, unique=True),
    which=st.integers(0, 4),
    classes=st.sampled_from([2, 3]),
)
def test_any_cut_of_a_stream_gives_the_same_model(cuts, which, classes):
    X, y = problem(12, classes)
    X = sp.csr_matrix(X)
    whole = clone(STREAMED[which]).partial_fit(X, y, classes=range(classes))
    parts = clone(STREAMED[which])
    edges = [0, *sorted(cuts), N]
    for start, stop in itertools.pairwise(edges):
        parts.partial_fit(X[start:stop], y[start:stop], classes=range(classes))
    assert np.array_equal(whole.coef_, parts.coef_)
    assert np.array_equal(whole.intercept_, parts.intercept_)
    assert whole.t_ == parts.t_ == N


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("average", [True, 37])
@pytest.mark.parametrize("reg", [0.01, 1.0])  # 1.0: the scale is folded into v on the way
def test_long_and_short_stretches_average_alike(dtype, average, reg):
    # A long stretch keeps weights and their average's accumulator side by side.
    X = sp.random(600, 12, 0.5, "csr", dtype, np.random.default_rng(3))
    y = np.where(X.toarray() @ np.arange(-5.0, 7.0) > 0, 1, -1)
    options = {"reg": reg, "average": average, "schedule": "constant", "eta0": 0.1}
    whole = osvm.LinearClassifier(**options).partial_fit(X, y)
    rows = osvm.LinearClassifier(**options)
    for i in range(X.shape[0]):
        rows.partial_fit(X[i], y[i : i + 1], classes=[-1, 1])
    for averaged in (False, True):
        assert np.array_equal(
            whole._learner.weights.array(averaged=averaged),
            rows._learner.weights.array(averaged=averaged),
        )
    assert np.array_equal(whole.intercept_, rows.intercept_)
    assert not np.array_equal(whole.coef_, whole._learner.weights.array(averaged=False))


def clone(model):
    return type(model)(**model.get_params(deep=False))


def test_state_and_pickle_resume_bit_for_bit():
    X, y = problem(13, 3)
    for template in STREAMED:
        whole = clone(template).partial_fit(X, y, classes=range(3))
        first = clone(template).partial_fit(X[:23], y[:23], classes=range(3))
        twin = clone(template)
        twin._set_state(*first._get_state())
        for model in (first, twin, pickle.loads(pickle.dumps(first))):
            model.partial_fit(X[23:], y[23:])
            assert np.array_equal(model.coef_, whole.coef_)
            assert np.array_equal(model.intercept_, whole.intercept_)
            assert np.array_equal(model.predict(X), whole.predict(X))


def test_new_labels_in_mid_stream_grow_the_model():
    X, y = problem(14, classes=5)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    model = osvm.LinearClassifier(reg=0.01, average=True)
    seen = 0
    for i in range(N):
        before = None
        if i and y[i] > 1 and y[i] not in model.classes_ and len(model.classes_) > 2:
            before = model.coef_.copy()
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        assert y[i] in model.classes_
        seen = max(seen, len(model.classes_))
        if before is not None:
            assert model.coef_.shape == (len(before) + 1, D)
    assert seen == 5
    assert model.decision_function(X).shape == (N, 5)
    assert model.score(X, y) > 0.3


def test_growing_from_two_classes_keeps_the_binary_scores():
    X, y = problem(15)
    X = X[X.any(axis=1)]
    model = osvm.LinearClassifier(reg=0.01).partial_fit(X, y[: len(X)])
    scores = model.decision_function(X)
    empty = np.zeros((1, D))
    model.partial_fit(empty, [2], sample_weight=[0.0])
    shrink = (model.decision_function(X)[:, 1] - model.intercept_[1]) / (
        scores - model._learner.intercept[1]
    )
    assert np.allclose(shrink, shrink[0])
    assert model.predict(X).tolist() == np.where(scores > 0, 1, 0).tolist()


@pytest.mark.parametrize("old", [2, 3])
def test_new_labels_with_an_open_mini_batch(old):
    """The sums of the open batch stay with their outputs; the new one has none."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), np.arange(30) % old
    model = osvm.LinearClassifier(batch_size=7, reg=0.1)
    model.partial_fit(X, y, classes=np.arange(old))
    assert model._learner.pending_examples == 2
    known = osvm.LinearClassifier(batch_size=7, reg=0.1)
    known.partial_fit(X, y, classes=np.arange(old + 1))
    for one in (model, known):
        one.partial_fit(X[:12], np.full(12, old))
        assert one._learner.pending_examples == 0
    assert model.coef_.shape == known.coef_.shape
    # the labels that were known from the start have learnt the same
    assert np.allclose(model.coef_[1:old], known.coef_[1:old])
    assert np.isfinite(model.coef_).all()
