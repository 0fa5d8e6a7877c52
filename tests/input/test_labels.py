"""The order in which labels come: a run of equal labels warns once, a mixed stream never."""

import pickle
import warnings

import numpy as np
import pytest

import osvm
from osvm._input.labels import LabelIndex, LabelRuns, check_class_weight

rng = np.random.default_rng(0)
X = rng.normal(size=(6000, 5))
LABELS = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
SORTED = np.argsort(LABELS, kind="stable")
MODELS = {
    "linear": lambda: osvm.LinearClassifier(),
    "balanced": lambda: osvm.LinearClassifier(class_weight="balanced", schedule="bottou"),
    "kernel": lambda: osvm.KernelClassifier(budget=10),
}


def messages(model, order, size, labels=None):
    """What a stream of blocks warns of."""
    labels = LABELS if labels is None else labels
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            model.partial_fit(X[rows], labels[rows])
    return [str(w.message) for w in found if "come in runs" in str(w.message)]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("size", [50, 3000, 6000])
def test_a_sorted_stream_warns_once(name, size):
    if size == 50 or name != "kernel":
        assert len(messages(MODELS[name](), SORTED, size)) == 1
    assert messages(MODELS[name](), np.arange(len(X)), size) == []


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("classes", [None, ["a", "b"]])
def test_a_stream_of_one_label_warns_once(name, classes):
    def warnings_of(labels, blocks=20):
        model = MODELS[name]()
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for rows in np.split(np.arange(2000), blocks):
                model.partial_fit(X[rows], labels[rows], classes=classes)
        return [w for w in found if "have one label" in str(w.message)]

    labels = np.full(2000, "a")
    found = warnings_of(labels)
    assert len(found) == 1
    assert found[0].filename == __file__
    assert "the first 1000 rows" in str(found[0].message)
    labels[999] = "b"
    assert warnings_of(labels) == []
    assert warnings_of(np.tile(["a", "b"], 1000), blocks=2000) == []  # row by row


def test_the_warning_points_at_the_caller_and_is_not_pickled():
    model = osvm.LinearClassifier()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for rows in np.split(SORTED, 300):
            model.partial_fit(X[rows], LABELS[rows])
    assert "learnt last will win" in str(found[0].message)
    assert found[0].filename == __file__
    assert messages(model, SORTED, 20) == []  # told already
    # a pickle is written when the lock is free, while the counts may change
    assert "_runs" in vars(model)
    assert "_runs" not in vars(pickle.loads(pickle.dumps(model)))


def test_a_fit_in_any_order_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        osvm.LinearClassifier(random_state=0).fit(X[SORTED], LABELS[SORTED])


@pytest.mark.parametrize("share", [0.5, 0.05, 0.01])
def test_random_order_never_warns(share):
    for seed in range(40):
        runs = LabelRuns()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for block in np.random.default_rng(seed).random((400, 20)) < share:
                runs.watch(block.astype(np.int32))


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (np.array([2.0**53, 1.0]), np.array([2**53 + 1] * 20)),
        (np.array([0.0, 1.0]), np.array([2**53 + 1] * 20)),
        (np.array([2**53 + 1, 1]), np.array([2.0**53] * 20)),
        (np.array([2**62 + 1, 1]), np.array([2**62] * 20, np.uint64)),
        (np.array([2**62 + 1, 1, 3]), np.array([2**62] * 20, np.uint64)),
    ],
)
def test_long_labels_of_another_type_are_not_taken_for_known_ones(first, then):
    index = LabelIndex.of(first)
    with pytest.raises(ValueError, match="not among the classes"):
        index.encode(then)
    with pytest.raises(ValueError, match="cannot be kept exactly"):
        index.grown(then)


def test_long_labels_of_two_types_that_are_equal():
    index = LabelIndex.of(np.array([2**62, 1]))
    assert index.encode(np.array([2**62, 1] * 9, np.uint64)).tolist() == [1, 0] * 9
    assert index.encode(np.array([2.0**62, 1] * 9)).tolist() == [1, 0] * 9


@pytest.mark.parametrize("labels", [np.array([3, 5]), np.array(["a", "b"]), np.array([1.0, 2.0])])
def test_classes_have_the_byte_order_of_the_machine(labels):
    swapped = np.tile(labels, 9).astype(labels.dtype.newbyteorder())
    model = osvm.KernelClassifier(budget=5).partial_fit(X[:18], swapped)
    assert model.classes_.dtype == labels.dtype
    assert osvm.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
    assert set(model.predict(X).tolist()) <= set(labels.tolist())


@pytest.mark.parametrize("n", [100, 600])
@pytest.mark.parametrize("name", MODELS)
def test_a_short_stream_in_the_order_of_its_labels_warns(name, n):
    """One pair in 128 was looked at: 600 sorted rows were answered by halves, without a word."""
    labels = np.repeat(["a", "b"], n // 2)
    with pytest.warns(UserWarning, match="labels come in runs: of .* 1 have different labels"):
        MODELS[name]().partial_fit(X[:n], labels)
    model = MODELS[name]()
    found = messages(model, np.arange(n), n // 10, labels)
    assert [text[:19] for text in found] == ["labels come in runs"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        MODELS[name]().partial_fit(X[:n], np.random.default_rng(0).permutation(labels))


def learnt_one_by_one(order):
    """The warnings of `learn_one` over LABELS in this order."""
    model = osvm.LinearClassifier(schedule="bottou")
    rows = [({int(j): float(v) for j, v in enumerate(x)}, label) for x, label in zip(X, LABELS)]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for k in order:
            model.learn_one(*rows[k], n_features=X.shape[1])
    return [str(w.message) for w in found], model


def test_single_rows_in_the_order_of_their_labels_warn_once_of_each():
    found, model = learnt_one_by_one(np.repeat(SORTED, 3))
    assert [text[:19] for text in found] == ["the first 1000 rows", "labels come in runs"]
    assert all("learnt last will win" in text for text in found)
    assert "_runs" not in vars(pickle.loads(pickle.dumps(model)))


def test_single_rows_in_another_order_do_not_warn():
    rng = np.random.default_rng(0)
    assert learnt_one_by_one(rng.permutation(SORTED))[0] == []
    # in turn, alone and in pairs
    both = np.array([np.flatnonzero(label == LABELS)[:50] for label in np.unique(LABELS)[:2]])
    assert learnt_one_by_one(np.tile(both.T.ravel(), 60))[0] == []
    pairs = np.repeat(both.T, 2, axis=1).ravel()
    assert learnt_one_by_one(np.tile(pairs, 30))[0] == []


def test_a_class_weight_that_no_float_holds_is_refused():
    for weight in (10**400, 10**5000, -(10**400), float("inf"), float("nan")):
        with pytest.raises(ValueError, match=r"class_weight\[0\] must be a finite number"):
            check_class_weight({0: weight})
