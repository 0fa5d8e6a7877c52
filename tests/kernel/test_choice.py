"""The setting that `fit` chooses for a training set when gamma is not given."""

import io
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm.kernel.batch import Batch
from osvm.kernel.buffer import choice
from osvm.kernel.buffer.measures import find_offsets


def make_plane(n, seed=0, noise=0.25, classes=2):
    """A plane in twenty columns, a quarter of the labels wrong."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 20))
    y = (X @ np.random.default_rng(99).normal(size=(20, classes))).argmax(axis=1)
    wrong = rng.random(n) < noise
    y[wrong] = rng.integers(0, classes, wrong.sum()) if classes > 2 else 1 - y[wrong]
    return X, y


def make_board(n, seed=0):
    return osvm.datasets.make_chessboard(n, random_state=seed)


def make_gaussian(**options):
    """A classifier without a plane among its settings: it is told what only Gaussians read."""
    return osvm.KernelClassifier(average=True, random_state=0, **options)


def scale_of(X):
    return 1.0 / (X.shape[1] * X.var())


def test_noise_takes_a_wide_kernel_and_detail_a_narrow_one():
    for (X, y), (X_test, y_test), width, reg in (
        (make_plane(1200), make_plane(2000, 1, noise=0.0), 0.25, 1e-3),
        (make_plane(1200, classes=4), make_plane(2000, 1, noise=0.0, classes=4), 0.25, 1e-3),
        (make_board(2000), make_board(2000, 1), 4.0, 1e-4),
    ):
        model = make_gaussian().fit(X, y)
        assert model.gamma_ == pytest.approx(width * scale_of(X))
        assert model.reg_ == reg
        plain = osvm.KernelClassifier(gamma="scale", random_state=0).fit(X, y)
        assert plain.gamma_ == pytest.approx(scale_of(X))
        assert model.score(X_test, y_test) > plain.score(X_test, y_test) + 0.04


def test_no_choice_is_made_where_errors_tell_nothing():
    X, y = make_plane(400, noise=0.0)
    for rows, labels in (
        (X[: choice.FEWEST - 1], y[: choice.FEWEST - 1]),
        (X[:, :1], X[:, 0] > 0),
    ):
        model = make_gaussian().fit(rows, labels)
        assert model.gamma_ == pytest.approx(scale_of(rows))
        assert model.reg_ == 1e-4


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_fit_is_that_of_the_setting_given(kind, dtype):
    X, y = make_plane(300)
    X = kind(X.astype(dtype))
    weight = np.random.default_rng(1).uniform(0.5, 1.5, 300)
    for seed in (lambda: 3, lambda: np.random.default_rng(3), lambda: np.random.RandomState(3)):
        options = {"budget": 60, "record": True}
        model = osvm.KernelClassifier(random_state=seed(), **options).fit(X, y, weight)
        again = osvm.KernelClassifier(
            gamma=model.gamma_, reg=model.reg_, random_state=seed(), **options
        ).fit(X, y, weight)
        np.testing.assert_array_equal(model.dual_coef_, again.dual_coef_)
        np.testing.assert_array_equal(model.intercept_, again.intercept_)
        np.testing.assert_array_equal(model.history_["loss"], again.history_["loss"])


def test_what_is_given_stays():
    X, y = make_plane(600)
    assert osvm.KernelClassifier(reg=2e-4).fit(X, y).reg_ == 2e-4
    assert osvm.KernelClassifier(C=3.0).fit(X, y).reg_ == pytest.approx(1 / (3.0 * 600))
    assert osvm.KernelClassifier(nu=0.2).fit(X, y).reg_ == 1.0
    assert osvm.KernelClassifier(gamma="auto").fit(X, y).gamma_ == 1 / 20
    sigmoid = osvm.KernelClassifier(kernel="sigmoid", eta0=0.1).fit(X, y)
    assert sigmoid.gamma_ == pytest.approx(scale_of(X))
    given = osvm.KernelClassifier(kernel=osvm.kernels.RBF(gamma=0.05)).fit(X, y)
    assert given.gamma_ == 0.05
    assert not hasattr(osvm.KernelClassifier(kernel="linear", eta0=0.1).fit(X, y), "gamma_")
    with pytest.raises(TypeError, match="gamma"):
        osvm.KernelNovelty(gamma=None).fit(X)
    target = X[:, 0]
    assert osvm.KernelRegressor(reg=2e-4).fit(X, target).reg_ == pytest.approx(2e-4)
    assert osvm.KernelRegressor(C=3.0).fit(X, target).reg_ == pytest.approx(1 / (3.0 * 600))


def test_learning_goes_on_with_the_setting_chosen(tmp_path):
    X, y = make_plane(1500)
    model = make_gaussian(budget=100).fit(X, y)
    assert model.reg_ == 1e-3
    given = make_gaussian(gamma=model.gamma_, reg=model.reg_, budget=100).fit(X, y)
    osvm.io.save(model, tmp_path / "model.osvm")
    models = [
        model,
        osvm.io.load(tmp_path / "model.osvm"),
        pickle.load(io.BytesIO(pickle.dumps(model))),
    ]
    more = make_plane(200, 5)
    given.partial_fit(*more)
    for one in models:
        one.partial_fit(*more)
        assert (one.gamma_, one.reg_) == (given.gamma_, given.reg_)
        np.testing.assert_array_equal(one.dual_coef_, given.dual_coef_)


def test_a_stream_takes_scale():
    X, y = make_plane(300)
    model = osvm.KernelClassifier().partial_fit(X, y)
    plain = osvm.KernelClassifier(gamma="scale").partial_fit(X, y)
    np.testing.assert_array_equal(model.dual_coef_, plain.dual_coef_)


def test_rows_are_split_whatever_their_order():
    """Labels that come in turns, and a class that is in no part but one."""
    X, _ = make_plane(300)
    turns = np.arange(300) % 3
    X[:, 0] += 5 * turns
    model = osvm.KernelClassifier(random_state=0).fit(X, turns)
    assert model.score(X, turns) > 0.9
    rare = np.where(np.arange(300) < 299, "usual", "once")
    assert osvm.KernelClassifier(random_state=0).fit(X, rare).classes_.tolist() == [
        "once",
        "usual",
    ]
    for n, judged in ((60, 60), (2400, 2400), (2401, 801), (9000, 4800)):
        splits = choice.split_rows(n)
        assert len(np.unique(np.concatenate([rows for _, rows in splits]))) == judged
        for learnt, rows in splits:
            assert not set(learnt.tolist()) & set(rows.tolist())
            assert len(learnt) == min(2 * n // 3, 1600)


def test_every_class_counts_alike():
    labels = np.array([0, 0, 0, 2, 1, 0])
    weights = np.array([1.0, 2.0, 1.0, 0.5, 9.0, 9.0])
    batch = Batch(None, None, "classify", labels=labels, weights=weights)
    judged = np.array([0, 1, 2, 3])
    share = choice.class_shares(batch, judged)
    np.testing.assert_allclose(share, [1 / 4 / 2, 0.0, 1 / 0.5 / 2])
    assert (share[labels[judged]] * weights[judged]).sum() == pytest.approx(1.0)


def test_another_setting_must_be_better_by_more_than_chance():
    first = np.r_[np.ones(10), np.zeros(90)] / 100
    tried = []

    def errors(found):
        def errors_of(setting):
            tried.append(setting[0])
            return found[setting[0]]

        return errors_of

    few, fewer = (np.r_[np.ones(k), np.zeros(100 - k)] / 100 for k in (9, 5))
    other = (
        np.r_[np.zeros(92), np.ones(8)] / 100
    )  # 10 rows mended, 8 others broken: a gain of 2 +- 4.2
    settings = choice.SETTINGS["classify"]
    assert choice.choose(settings, errors({1.0: first, 4.0: other, 0.25: few})) == settings[0]
    assert choice.choose(settings, errors({1.0: first, 4.0: other, 0.25: fewer})) == settings[2]
    assert choice.choose(settings, errors({1.0: first, 4.0: fewer, 0.25: few})) == settings[1]
    tried.clear()
    choice.choose(settings, errors({1.0: np.r_[np.ones(7), np.zeros(93)] / 100}))
    assert tried == [1.0]
    settings = choice.SETTINGS["regress"]
    for wide, wider, widest, narrow, chosen in (
        (few, few, other, other, 0),
        (fewer, few, few, None, 1),
        (few, fewer, few, None, 2),
        (first, first, fewer, None, 3),
        (few, few, few, fewer, 4),
    ):
        found = {1.0: first, 0.25: wide, 0.0625: wider, 0.015625: widest, 4.0: narrow}
        assert choice.choose(settings, errors(found)) == settings[chosen]
    tried.clear()
    worse = np.r_[np.ones(20), np.zeros(80)] / 100
    choice.choose(settings, errors({1.0: first, 0.25: worse, 4.0: worse}))
    assert tried == [1.0, 0.25, 4.0]  # no wider one after one that is worse


def test_settings_are_judged_as_the_fit_will_answer(monkeypatch):
    """With offsets exactly where the fit sets them at its end."""
    from osvm.kernel.buffer import plane, solver

    X, y = make_plane(200)
    shifted = []
    halves = [100, 100]  # rows judged, each with what the other half tells

    def count(scores, codes, weights):
        shifted.append(len(scores))
        return np.zeros(scores.shape[1])

    monkeypatch.setattr(solver, "find_offsets", count)
    monkeypatch.setattr(choice, "find_offsets", count)
    for options, expected in (
        ({"budget": 100}, [*halves * 3, 200, 200]),  # three Gaussians, the plane, the fit
        ({"budget": 100, "average": True}, [*halves * 3, 200]),
        ({"budget": 101}, [200] * 4),
        ({"budget": None}, [200] * 4),
        ({"budget": None, "gamma": "scale"}, [200]),
        ({"budget": None, "gamma": "scale", "kernel": "polynomial"}, []),
        ({"budget": 100, "loss": "logistic"}, []),
        ({"budget": 100, "fit_intercept": True}, []),
        ({"budget": 100, "gamma": "scale"}, [200]),
    ):
        shifted.clear()
        model = osvm.KernelClassifier(random_state=0, **options).fit(X, y)
        if plane.is_plane(model.kernel_) and expected[:2] == halves:
            expected = expected[:-1]  # no offset was better in the trial
        assert shifted == expected, options


def make_rare(n, seed=0, classes=2):
    """A class of 7 % and, of three, another, beside 0."""
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, n, p=[1 - 0.07 * (classes - 1), *[0.07] * (classes - 1)])
    return rng.normal(size=(n, 4)) + 1.2 * np.eye(4)[y], y


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("n", [200, 500])
def test_the_offset_of_rows_fitted_closely_is_read_off_others(kind, classes, n):
    X, y = make_rare(n, classes=classes)
    weight = np.random.default_rng(1).uniform(0.5, 1.5, n)
    model = make_gaussian(budget=None).fit(kind(X), y, weight)
    given = {"gamma": model.gamma_, "reg": model.reg_, "budget": None, "random_state": 0}
    scores, rows = [], []
    for learnt, judged in choice.split_rows(n):
        trial = osvm.KernelClassifier(**given, fit_intercept=False, epochs=choice.EPOCHS)
        trial.fit(kind(X)[learnt], y[learnt], weight[learnt])
        scores.append(trial.decision_function(kind(X)[judged]).reshape(len(judged), -1))
        rows.append(judged)
    joined, rows = np.concatenate(scores), np.concatenate(rows)
    expected = find_offsets(joined, y[rows], weight[rows])
    assert expected.any()
    np.testing.assert_allclose(model.intercept_, expected, rtol=1e-10)
    again = osvm.KernelClassifier(**given).fit(kind(X), y, weight)
    np.testing.assert_array_equal(model.intercept_, again.intercept_)
    plain = osvm.KernelClassifier(**given, fit_intercept=False).fit(kind(X), y, weight)
    np.testing.assert_array_equal(model.dual_coef_, plain.dual_coef_)
    X_test, y_test = make_rare(4000, 1, classes)

    def recall(model):
        answer = model.predict(kind(X_test))
        return np.mean([np.mean(answer[y_test == k] == k) for k in range(classes)])

    assert recall(model) > recall(plain) + 0.02


def test_an_offset_must_be_better_by_more_than_chance():
    """Of five rows of a class, two more found are more than chance, one is not."""
    batch = Batch(None, None, "classify", labels=np.r_[np.zeros(95, int), np.ones(5, int)])
    for found, taken in ((1, False), (2, True)):
        trials = choice.Trials.__new__(choice.Trials)
        trials.labels, trials.weights = batch.labels, None
        trials.share = choice.class_shares(batch, np.arange(100))
        scores = np.r_[np.full(95, -3.0), np.full(found, -1.0), np.full(5 - found, 1.0)][:, None]
        errors, offsets = trials.judge([scores], True, False)
        assert np.any(offsets) == taken
        assert errors.sum() == pytest.approx(0.0 if taken else 0.1)
        assert trials.judge([scores], False, True)[1] == 0.0


def test_an_offset_that_is_set_anyway_is_judged_on_rows_that_did_not_tell_it():
    """Read off a few rare rows, it flattered Gaussians that found no others."""
    rng = np.random.default_rng(0)
    trials = choice.Trials.__new__(choice.Trials)
    trials.labels, trials.weights = (rng.random(1000) < 0.02).astype(int), None
    labels = Batch(None, None, "classify", labels=trials.labels)
    trials.share = choice.class_shares(labels, np.arange(1000))
    nothing = rng.normal(size=(1000, 1))
    rates = [
        trials.judge([nothing[rng.permutation(1000)]], True, True)[0].sum() for _ in range(30)
    ]
    assert np.mean(rates) == pytest.approx(0.5, abs=0.02)
    errors, offsets = trials.judge([nothing + 3.0 * trials.labels[:, None]], True, True)
    assert errors.sum() < 0.25
    assert offsets == 0.0  # the fit reads its own


def test_a_warm_start_with_few_rows_keeps_the_offset():
    X, y = make_rare(500)
    model = make_gaussian(warm_start=True).fit(X, y)
    offset, before = model.intercept_, model.dual_coef_
    assert offset[0] != 0.0
    model.fit(X, y)
    assert not np.array_equal(model.dual_coef_, before)
    np.testing.assert_array_equal(model.intercept_, offset)
