"""Label sets: one binary model for each label, and nothing else."""

import copy
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, load_npz

import osvm

DATA = Path(os.environ.get("OSVM_DATA", Path(__file__).parents[2] / "shared" / "data"))

rng = np.random.default_rng(0)
X = csr_array(rng.normal(size=(300, 15)) * (rng.random((300, 15)) < 0.5))
TRUE = rng.normal(size=(15, 4))
MEMBER = ((X @ TRUE) > 0.7).astype(int)
LABELS = np.array(["art", "law", "sea", "war"])
SETS = [set(LABELS[row.astype(bool)].tolist()) for row in MEMBER]


def test_every_label_has_the_model_of_its_own_rows():
    model = osvm.MultilabelClassifier(random_state=3, average=True).fit(X, SETS)
    assert model.classes_.tolist() == LABELS.tolist()
    assert model.t_ == 1500
    scores = model.decision_function(X)
    for k in range(4):
        one = osvm.LinearClassifier(random_state=3, average=True).fit(X, MEMBER[:, k])
        np.testing.assert_array_equal(scores[:, k], one.decision_function(X))
        np.testing.assert_array_equal(model.coef_[k], one.coef_[0])
        assert model.intercept_[k] == one.intercept_[0]
    np.testing.assert_array_equal(model.predict(X), scores > 0)
    found = model.predict_labels(X)
    assert [set(labels) for labels in found] == [set(LABELS[row > 0].tolist()) for row in scores]
    exact = np.mean((model.predict(X) == MEMBER).all(axis=1))
    assert model.score(X, SETS) == exact > 0.7


def test_forms_of_Y_agree():
    expected = osvm.MultilabelClassifier(random_state=0).fit(X, MEMBER).coef_
    for Y in (csr_array(MEMBER), MEMBER.astype(float), MEMBER.astype(bool)):
        model = osvm.MultilabelClassifier(random_state=0).fit(X, Y)
        assert model.classes_.tolist() == [0, 1, 2, 3]
        np.testing.assert_array_equal(model.coef_, expected)
    numbers = [tuple(np.flatnonzero(row).tolist()) for row in MEMBER]
    np.testing.assert_array_equal(
        osvm.MultilabelClassifier(random_state=0).fit(X, numbers).coef_, expected
    )
    doubled = [labels + labels for labels in numbers]  # a set holds a label once
    np.testing.assert_array_equal(
        osvm.MultilabelClassifier(random_state=0).fit(X, doubled).coef_, expected
    )


def test_a_stream_cut_anywhere_gives_the_same_model():
    first = osvm.MultilabelClassifier().partial_fit(X, SETS, classes=LABELS)
    second = osvm.MultilabelClassifier()
    for start in range(0, 300, 70):
        stop = min(300, start + 70)
        second.partial_fit(X[start:stop], SETS[start:stop], classes=LABELS)
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert first.t_ == second.t_ == 300


def test_labels_that_come_late():
    model = osvm.MultilabelClassifier().partial_fit(X[:100], [s - {"sea"} for s in SETS[:100]])
    assert "sea" not in model.classes_
    model.partial_fit(X[100:], SETS[100:])
    assert model.classes_.tolist() == ["art", "law", "war", "sea"]
    alone = osvm.LinearClassifier().partial_fit(X[100:], MEMBER[100:, 2], classes=[0, 1])
    np.testing.assert_array_equal(model.coef_[3], alone.coef_[0])


@pytest.mark.parametrize("solver", ["sgd", "dual"])
def test_labels_of_no_row_and_of_every_row(solver):
    Y = np.column_stack([MEMBER[:, 0], np.zeros(300, int), np.ones(300, int)])
    model = osvm.MultilabelClassifier(solver=solver, reg=0.01, epochs=100, random_state=0)
    found = model.fit(X, Y).predict(X)
    assert found[:, 1].mean() < 0.1
    assert found[:, 2].mean() > 0.9
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.coef_, model.coef_)


def test_probabilities():
    model = osvm.MultilabelClassifier("logistic", random_state=0).fit(X, SETS)
    found = model.predict_proba(X)
    assert found.shape == (300, 4)
    np.testing.assert_array_equal(found > 0.5, model.decision_function(X) > 0)
    assert not hasattr(osvm.MultilabelClassifier().fit(X, SETS), "predict_proba")


def test_an_error_leaves_the_model_as_it_was():
    model = osvm.MultilabelClassifier(random_state=0).partial_fit(X, SETS)
    before = copy.deepcopy(model._get_state())
    huge = X.toarray()
    huge[50, 3] = 1e308
    for rows, sets in ((X, SETS[:-1]), (X[:, :5], SETS), (csr_array(huge), SETS)):
        with pytest.raises((ValueError, FloatingPointError)):
            model.partial_fit(rows, sets)
        after = model._get_state()
        assert str(after[0]) == str(before[0])
        for name, array in after[1].items():
            np.testing.assert_array_equal(array, before[1][name])


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (["art"] * 300, "row 0 of Y is 'art'"),
        ([1] * 300, "row 0 of Y is 1"),
        ([()] * 300, "0 labels"),
        (None, "collection of labels"),
        ("text", "collection of labels"),
        (SETS[:5], "300 rows and Y has 5"),
        (MEMBER[:5], "300 rows and Y has 5"),
        (MEMBER * 2, "0 and 1 only"),
    ],
)
def test_what_is_refused(Y, message):
    with pytest.raises(ValueError, match=message):
        osvm.MultilabelClassifier().fit(X, Y)


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="class_weight"):
        osvm.MultilabelClassifier(class_weight={1: 2.0}).fit(X, SETS)
    with pytest.raises(ValueError, match="columns"):
        osvm.MultilabelClassifier().fit(X, MEMBER[:, :2]).partial_fit(X, MEMBER)
    with pytest.raises(AttributeError, match="before it is fitted"):
        _ = osvm.MultilabelClassifier().coef_
    weighted = osvm.MultilabelClassifier(class_weight="balanced", random_state=0).fit(X, SETS)
    one = osvm.LinearClassifier(class_weight="balanced", random_state=0).fit(X, MEMBER[:, 1])
    np.testing.assert_array_equal(weighted.coef_[1], one.coef_[0])


@pytest.mark.data
def test_reuters():
    """118 topics of Reuters-21578 (ModApte), micro-averaged F1 of a linear SVM."""
    if not (DATA / "reuters21578_counts.npz").exists():
        pytest.skip("set OSVM_DATA to the folder with reuters21578_counts.npz")
    counts = csr_array(load_npz(DATA / "reuters21578_counts.npz"), dtype=np.float64)
    topics = csr_array(load_npz(DATA / "reuters21578_topics.npz"))
    n = int(np.load(DATA / "reuters21578_meta.npz", allow_pickle=True)["n_train"])
    counts.data = 1 + np.log(counts.data)
    seen = np.bincount(counts[:n].indices, minlength=counts.shape[1])
    counts = csr_array(counts.multiply(np.log(n / np.maximum(seen, 1)))).astype(np.float32)
    model = osvm.MultilabelClassifier(normalize=True, random_state=0, epochs=10)
    model.fit(counts[:n], (topics[:n] > 0).astype(int))
    found = model.predict(counts[n:]).astype(bool)
    wanted = topics[n:].toarray() > 0
    f1 = 2 * (found & wanted).sum() / (found.sum() + wanted.sum())
    print(f"micro F1 {f1:.4f}")
    assert f1 > 0.84  # LinearSVC: 0.846
