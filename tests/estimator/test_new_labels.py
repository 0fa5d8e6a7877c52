"""A label that first appears inside a call starts at its own row, however the stream is cut."""

import numpy as np
import pytest
import scipy.sparse as sp

import osvm

N = 60
CUTS = {"rows": list(range(1, N)), "blocks": [10, 20], "uneven": [1, 2, 30]}


def make_stream(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 7))
    X[np.abs(X) < 0.7] = 0.0
    y = rng.integers(0, 5, N)
    y[:3] = [3, 3, 1]
    return X, y


def learn(model, X, y, cuts=()):
    for start, stop in zip([0, *cuts], [*cuts, N]):
        model.partial_fit(X[start:stop], y[start:stop])
    return model


def scores_by_label(model, X):
    scores = model.decision_function(X)
    if scores.ndim == 1:
        scores = np.column_stack([-scores, scores])
    return {label: scores[:, k] for k, label in enumerate(model.classes_.tolist())}


def largest_difference(one, other, X):
    ours, theirs = scores_by_label(one, X), scores_by_label(other, X)
    assert ours.keys() == theirs.keys()
    return max(np.abs(ours[label] - theirs[label]).max() for label in ours)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "multiclass_hinge", "softmax"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"average": True},
        {"schedule": "adaptive"},
        {"schedule": "coin_betting", "average": True},
        {"class_weight": "balanced", "batch_size": 4},
    ],
)
def test_new_labels_counted_from_the_first_row_of_their_call(cut, layout, loss, options):
    X, y = make_stream()
    X = layout(X)
    one = learn(osvm.LinearClassifier(loss=loss, **options), X, y)
    other = learn(osvm.LinearClassifier(loss=loss, **options), X, y, CUTS[cut])
    assert one.classes_.tolist() == [0, 1, 2, 3, 4]
    assert one.t_ == other.t_ == N
    # softmax adds up in the order of the classes
    assert largest_difference(one, other, X) <= (1e-12 if loss == "softmax" else 0.0)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("loss", ["hinge", "logistic", "multiclass_hinge", "softmax"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"budget": 9},
        {"budget": 6, "eviction": "merge"},
        {"schedule": "smd"},
        {"class_weight": "balanced", "fit_intercept": True},
        {"gamma": "scale"},
    ],
)
def test_new_labels_of_kernel_machines_counted_from_the_first_row(cut, loss, options):
    X, y = make_stream()
    options = {"gamma": 0.3} | options
    cuts = CUTS[cut]
    if options["gamma"] == "scale":  # taken from the rows of the first call
        cuts = [40]
        y[:5] = range(5)
        y[45] = 7
    one = learn(osvm.KernelClassifier(loss=loss, **options), X, y)
    other = learn(osvm.KernelClassifier(loss=loss, **options), X, y, cuts)
    if options["gamma"] == "scale":
        assert other.classes_.tolist() == [0, 1, 2, 3, 4, 7]
        return
    assert one.classes_.tolist() == [0, 1, 2, 3, 4]
    assert largest_difference(one, other, X) <= 1e-13


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(
    "options",
    [{}, {"average": True}, {"class_weight": "balanced"}, {"schedule": "adaptive"}],
)
def test_new_labels_of_label_sets_counted_from_the_first_row(cut, options):
    X, _ = make_stream()
    rng = np.random.default_rng(3)
    Y = [rng.choice(6, rng.integers(0, 3), replace=False).tolist() for _ in range(N)]
    Y[0] = [4, 2]
    one = learn(osvm.MultilabelClassifier(**options), X, Y)
    other = learn(osvm.MultilabelClassifier(**options), X, Y, CUTS[cut])
    assert one.classes_.tolist() == [0, 1, 2, 3, 4, 5]
    assert one.t_ == other.t_ == N
    assert largest_difference(one, other, X) == 0.0


def test_a_label_set_model_skips_rows_before_the_first_label():
    X, _ = make_stream()
    Y = [[] for _ in range(N)]
    Y[5] = ["tea"]
    late = osvm.MultilabelClassifier().partial_fit(X, Y)
    known = osvm.MultilabelClassifier().partial_fit(X[5:], Y[5:])
    assert np.array_equal(late.decision_function(X), known.decision_function(X))
    assert late.t_ == N


@pytest.mark.parametrize("kind", ["linear", "adaptive", "kernel", "sets", "sets apart"])
@pytest.mark.parametrize("is_new", [False, True])
def test_an_error_after_a_new_label_left_half_of_the_call(kind, is_new):
    X, y = make_stream()
    y = y.tolist()
    model = {
        "linear": osvm.LinearClassifier(),
        "adaptive": osvm.LinearClassifier(schedule="adaptive"),
        "kernel": osvm.KernelClassifier(gamma=0.3),
        "sets": osvm.MultilabelClassifier(),
        "sets apart": osvm.MultilabelClassifier(class_weight="balanced"),
    }[kind]
    if kind.startswith("sets"):
        y = [[label] for label in y]
    if not is_new:
        model.partial_fit(X[:2] * 1e-3, y[:2])
        before, seen = model.decision_function(X).copy(), model.t_

    # the learner fails in its second piece
    calls, honest = [], type(model)._check_X

    def fail(self, X, **options):
        calls.append(1)
        if len(calls) == 4:
            raise MemoryError("no room")
        return honest(self, X, **options)

    type(model)._check_X = fail
    try:
        with pytest.raises(MemoryError):
            model.partial_fit(X[2:], y[2:])
    finally:
        del type(model)._check_X
    if is_new:
        assert not {"t_", "_index", "_learner", "_machine", "_joined"} & model.__dict__.keys()
    else:
        assert model.t_ == seen
        assert np.array_equal(model.decision_function(X), before)
        assert len(model.classes_) == 1
    model.partial_fit(X[2:] * 1e-3, y[2:])


def test_new_labels_of_frames_keep_their_names():
    pandas = pytest.importorskip("pandas")
    X, y = make_stream()
    frame = pandas.DataFrame(X, columns=[f"c{k}" for k in range(X.shape[1])])
    words = np.array(["e", "d", "c", "b", "a"])[y]
    for model in (osvm.LinearClassifier(), osvm.KernelClassifier(gamma=0.3)):
        model.partial_fit(frame, words)
        assert model.classes_.tolist() == ["a", "b", "c", "d", "e"]
        assert model.feature_names_in_.tolist() == list(frame.columns)
        plain = type(model)(**model.get_params()).partial_fit(X, words)
        assert np.array_equal(plain.decision_function(X), model.decision_function(frame))


def test_labels_of_a_later_call_come_in_the_order_of_their_rows():
    X, _ = make_stream()
    y = np.array([0, 1] * 15 + [9, 4, 7] * 10)
    for model in (osvm.LinearClassifier(), osvm.KernelClassifier(gamma=0.3)):
        assert learn(model, X, y, [30]).classes_.tolist() == [0, 1, 9, 4, 7]


def test_recorded_predictions_kept_the_codes_of_before_the_labels_were_sorted():
    X, y = make_stream()
    model = osvm.KernelClassifier("multiclass_hinge", gamma=0.1, record=True).partial_fit(X, y)
    wrong = model.classes_[model.history_["prediction"].astype(int)] != y
    assert np.allclose(np.cumsum(wrong) / np.arange(1, N + 1), model.history_["error"])
