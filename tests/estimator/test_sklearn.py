"""scikit-learn's own checks, and the tools that its users combine with ours.

The checks run twice: on scikit-learn's base classes and, in a fresh process, on
osvm's stand-ins (``OSVM_NO_SKLEARN=1``).
"""

import os
import subprocess
import sys

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")

from sklearn.base import clone  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

import osvm  # noqa: E402

ESTIMATORS = [
    osvm.LinearClassifier(random_state=0),
    osvm.LinearRegressor(random_state=0),
    osvm.LinearNovelty(random_state=0),
    osvm.LinearSVC(random_state=0),
    osvm.AlmaClassifier(),
]

# Weighted and repeated examples are visited in other orders: scikit-learn waives
# these two for its own SGD and its LinearSVC as well.
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "SGD visits repeated rows one by one",
    "check_sample_weight_equivalence_on_sparse_data": "SGD visits repeated rows one by one",
}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: EXPECTED)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# scikit-learn skips every check of its own multi-output classifiers (`tags._skip_test`).
ONE_LABEL = "the check gives a label, not a set of labels, for each row, which is refused"
ONE_COLUMN = "predict gives a column for each label"
EXPECTED_OF_SETS = {
    **EXPECTED,
    "check_classifiers_one_label": ONE_LABEL,
    "check_classifiers_one_label_sample_weights": ONE_LABEL,
    "check_classifiers_classes": ONE_LABEL,
    "check_classifiers_regression_target": ONE_LABEL,
    "check_class_weight_classifiers": ONE_LABEL,
    "check_classifier_not_supporting_multiclass": ONE_LABEL,
    "check_classifiers_train": ONE_COLUMN,
}


def test_checks_of_label_sets():
    from sklearn.utils.estimator_checks import check_estimator

    model = osvm.MultilabelClassifier(random_state=0)
    if os.environ.get("OSVM_NO_SKLEARN"):
        pytest.skip("the tags are scikit-learn's")
    done = check_estimator(model, on_skip=None, on_fail=None,
                           expected_failed_checks=EXPECTED_OF_SETS)  # fmt: skip
    assert len(done) > 50
    assert [one["check_name"] for one in done if one["status"] == "failed"] == []
    waived = {one["check_name"] for one in done if one["status"] == "xfail"}
    assert waived == set(EXPECTED_OF_SETS)


def test_a_column_of_labels_is_one_label_a_row():
    X = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 2.0]])
    one = osvm.MultilabelClassifier(random_state=0).fit(X, np.array([["a"], ["b"], ["a"]]))
    other = osvm.MultilabelClassifier(random_state=0).fit(X, [["a"], ["b"], ["a"]])
    assert one.classes_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(one.coef_, other.coef_)
    with pytest.raises(ValueError, match=r"reshape\(-1, 1\)"):
        one.fit(X, np.array([1, 2, 1]))


MULTILABEL_CHECKS = [
    "check_classifiers_multilabel_output_format_predict",
    "check_classifiers_multilabel_output_format_predict_proba",
    "check_classifiers_multilabel_output_format_decision_function",
    "check_classifiers_multilabel_representation_invariance",
]


@pytest.mark.parametrize("name", MULTILABEL_CHECKS)
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_checks_of_multi_output_classifiers(name, loss):
    from sklearn.utils import estimator_checks

    model = osvm.MultilabelClassifier(loss, random_state=0)
    if name.endswith("proba") and loss == "hinge":
        assert not hasattr(model, "predict_proba")
        return
    getattr(estimator_checks, name)("MultilabelClassifier", model)


@pytest.mark.slow
def test_the_stand_ins_pass_the_same_checks():
    if os.environ.get("OSVM_NO_SKLEARN"):
        return
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", __file__, "-k", "test_scikit_learn_checks"],
        env={**os.environ, "OSVM_NO_SKLEARN": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]


# ----------------------------------------------- what users put us together with


def text(n=600, classes=3):
    X, y, *_ = osvm.datasets.make_rcv1_like(
        n_train=n, n_test=10, n_features=500, nnz=20, n_classes=classes, random_state=0
    )
    return X, y


def test_pipeline_and_grid_search():
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    X, y = text()
    pipeline = make_pipeline(TfidfTransformer(), osvm.LinearClassifier(random_state=0))
    search = GridSearchCV(pipeline, {"linearclassifier__reg": [1e-2, 1e-4]}, cv=2)
    assert search.fit(X, y).best_score_ > 0.4


def test_clone_keeps_parts():
    schedule = osvm.schedules.Bottou(t0=5.0)
    model = clone(osvm.LinearClassifier(osvm.losses.Hinge(), schedule=schedule))
    assert model.schedule == schedule
    assert not hasattr(model, "coef_")


def test_calibrated_classifier():
    from sklearn.calibration import CalibratedClassifierCV

    X, y = text()
    model = CalibratedClassifierCV(osvm.LinearClassifier(random_state=0), cv=2).fit(X, y)
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1)


@pytest.mark.skipif(bool(os.environ.get("OSVM_NO_SKLEARN")), reason="needs scikit-learn's base")
def test_sample_weight_is_routed():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    X, y = text()
    weight = np.random.default_rng(0).random(len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        model = osvm.LinearClassifier(random_state=0).set_fit_request(sample_weight=True)
        routed = make_pipeline(MaxAbsScaler(), model).fit(X, y, sample_weight=weight)
        plain = make_pipeline(
            MaxAbsScaler(),
            osvm.LinearClassifier(random_state=0).set_fit_request(sample_weight=False),
        ).fit(X, y)
    assert not np.array_equal(routed[-1].coef_, plain[-1].coef_)


def test_feature_names_of_a_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [1.0, 0.0, 1.0, 0.0]})
    model = osvm.LinearClassifier(random_state=0).fit(frame, [0, 0, 1, 1])
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a"]])


def test_callbacks_of_scikit_learn():
    callback = pytest.importorskip("sklearn.callback")
    from osvm._estimator import compat

    if not compat.HAS_CALLBACKS:
        pytest.skip("needs scikit-learn's base classes")
    X, y = text(classes=2)
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = osvm.LinearClassifier(epochs=3, random_state=0).set_callbacks(monitor)
    model.fit(X, y)
    log = monitor.get_logs(select="most_recent")
    scores = [row["accuracy"] for row in log.data if row["task_name"] == "epoch"]
    assert len(scores) == 3
    assert scores[-1] == pytest.approx(model.score(X, y))
    # The weights are those of a fit that nobody watches.
    alone = osvm.LinearClassifier(epochs=3, random_state=0).fit(X, y)
    assert np.array_equal(model.coef_, alone.coef_)
