"""What a kernel learner reads off its rows: offset, margin, and whether gamma suits them."""

import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import osvm
from osvm.exceptions import ConvergenceWarning
from osvm.kernel.buffer.measures import find_offset, find_offsets, predict_codes


def reference_offset(scores, positive, weights):
    """Every cut between two scores, one after the other."""
    values = np.unique(scores)
    cuts = [0.0, *(-0.5 * (values[1:] + values[:-1])), -values[0] + 1.0, -values[-1] - 1.0]
    total = weights.sum()
    found = []
    for offset in cuts:
        answer = scores + offset > 0
        wrong = weights[answer != positive].sum()
        found.append((wrong, abs(weights[answer].sum() - weights[positive].sum()) / total))
    least = min(wrong for wrong, _ in found)
    rate = least / total
    most = least + 0.5 * np.sqrt(np.square(weights).sum() * rate * (1 - rate))
    return min(far for wrong, far in found if wrong <= most), most, found[0]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 40), st.booleans(), st.booleans())
def test_the_offset_is_the_best_of_all_cuts(seed, n, ties, weighted):
    rng = np.random.default_rng(seed)
    scores = rng.normal(rng.normal(), 1.0, n)
    scores = np.round(scores) + 0.25 if ties else scores
    positive = rng.random(n) < 1 / (1 + np.exp(-2 * scores - rng.normal()))
    weights = rng.integers(1, 4, n).astype(float) if weighted else np.ones(n)
    offset = find_offset(scores, positive, weights if weighted else None)
    nearest, most, now = reference_offset(scores, positive, weights)
    answer = scores + offset > 0
    wrong = weights[answer != positive].sum()
    far = abs(weights[answer].sum() - weights[positive].sum()) / weights.sum()
    if offset != 0.0:
        assert wrong <= most + 1e-9
        assert far == pytest.approx(nearest, abs=1e-12)
        assert now[0] > most or now[1] > far  # 0 was not as good
    elif 0 < answer.sum() < n and now[0] <= most - 1e-9:
        # 0 stays where it is as near as any, or where the best answer is one for all rows
        one_for_all = min(weights[positive].sum(), weights[~positive].sum()) <= most + 1e-9
        assert far == pytest.approx(nearest, abs=1e-12) or one_for_all


def make_rare(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    y = rng.random(n) < 0.08
    X[y, :2] += 1.2
    return X, np.where(y, "rare", "usual")


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_fit_finds_as_many_of_a_rare_class_as_there_are(kind):
    X, y = make_rare(1500)
    X_test, y_test = make_rare(3000, 1)
    options = {"budget": 60, "gamma": "scale", "random_state": 0}
    model = osvm.KernelClassifier(**options).fit(kind(X), y)
    plain = osvm.KernelClassifier(**options, fit_intercept=False).fit(kind(X), y)
    assert plain.intercept_[0] == 0.0
    assert model.intercept_[0] != 0.0
    np.testing.assert_allclose(model.dual_coef_, plain.dual_coef_)

    def share(model):
        return np.mean(model.predict(kind(X_test)) == "rare")

    assert abs(share(model) - 0.08) < abs(share(plain) - 0.08)
    assert model.score(kind(X_test), y_test) > plain.score(kind(X_test), y_test) - 0.02


def test_who_gets_an_offset():
    X, y = make_rare(400, seed=2)
    for options in (
        {"kernel": "polynomial", "eta0": 0.01, "budget": 201},
        {"loss": "logistic", "budget": 60},
        {"loss": "logistic", "budget": None},
        {"nu": 0.2, "budget": 60},
        {"fit_intercept": False, "budget": 60},
    ):
        model = osvm.KernelClassifier(random_state=0, **options).fit(X, y)
        assert model.intercept_[0] == 0.0, options
    few = osvm.KernelClassifier(random_state=0).fit(X[:59], y[:59])
    assert few.intercept_[0] == 0.0
    for budget in (201, None):  # with average=True, a plane is not tried
        model = osvm.KernelClassifier(budget=budget, average=True, random_state=0).fit(X, y)
        assert model.intercept_.any()
    three = np.where(X[:, 4] > 1, "other", y)
    model = osvm.KernelClassifier(budget=60, average=True, random_state=0).fit(X, three)
    assert model.intercept_.any()
    for options in ({"loss": "softmax"}, {"fit_intercept": False}):
        model = osvm.KernelClassifier(budget=60, random_state=0, **options).fit(X, three)
        assert not model.intercept_.any(), options
    assert osvm.KernelClassifier(budget=60).partial_fit(X, y).intercept_.any()
    model = osvm.KernelClassifier(budget=60, fit_intercept=False).partial_fit(X, y)
    assert not model.intercept_.any()


def test_weights_count_in_the_offset():
    """A row of weight three is three rows, to the cuts that their scores allow."""
    scores = np.array([-2.0, -1.0, -0.5, -0.25, 0.5])
    positive = np.array([False, False, True, False, True])
    weights = np.array([1.0, 1.0, 3.0, 1.0, 1.0])
    many = np.repeat(np.arange(5), weights.astype(int))
    offset = find_offset(scores, positive, weights)
    assert offset == find_offset(scores[many], positive[many], None) == 0.75


def test_offsets_of_several_classes_are_found_one_after_the_other():
    """The rarest class first, each as if it alone were to be told from the rest."""
    rng = np.random.default_rng(0)
    codes = rng.choice(3, 400, p=[0.2, 0.7, 0.1])
    scores = rng.normal(size=(400, 3)) + np.eye(3)[codes] - [1.0, 0.0, 2.0]
    given = scores.copy()
    offsets = find_offsets(scores, codes, None)
    np.testing.assert_array_equal(scores, given)
    for k in (2, 0, 1):
        margin = given[:, k] - np.max(np.delete(given, k, axis=1), axis=1)
        assert offsets[k] == find_offset(margin, codes == k, None)
        given[:, k] += offsets[k]
    counts = np.bincount(codes)
    before, after = (np.bincount(predict_codes(s), minlength=3) for s in (scores, given))
    assert np.abs(after - counts).sum() < 0.5 * np.abs(before - counts).sum()
    assert find_offsets(scores[:, :1], codes == 1, None).shape == (1,)


def test_several_classes_find_their_rare_ones():
    rng = np.random.default_rng(0)
    y = rng.choice(3, 3000, p=[0.85, 0.1, 0.05])
    X = rng.normal(size=(3000, 4)) + 1.3 * np.eye(4)[y]
    options = {"budget": 60, "gamma": "scale", "random_state": 0}

    def recall(**more):
        model = osvm.KernelClassifier(**options, **more).fit(X[:1500], y[:1500])
        answer = model.predict(X[1500:])
        return np.mean([np.mean(answer[y[1500:] == k] == k) for k in range(3)])

    assert recall() > recall(fit_intercept=False) + 0.05


@pytest.mark.parametrize("gamma", [1e-7, 1e4])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_a_gamma_far_off_is_named(gamma, kind):
    X, y = make_rare(300)
    for learn in (osvm.KernelClassifier(gamma=gamma).fit, osvm.KernelClassifier(gamma=gamma)
                  .partial_fit):  # fmt: skip
        with pytest.warns(ConvergenceWarning, match=f"{'raise' if gamma < 1 else 'lower'} gamma") \
                as told:  # fmt: skip
            learn(kind(X), y)
    better = float(re.search("to about ([0-9.e+-]+)", str(told[0].message))[1])
    values = osvm.kernels.RBF(gamma=better)(X[:100], X[:100])
    assert 0.25 < np.median(values) < 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        osvm.KernelClassifier(gamma=better).fit(kind(X), y)


def test_columns_of_other_units_are_named():
    X, y = make_rare(300)
    for column, ratio in ((2, 1e4), (0, 1e-4)):
        far = X.copy()
        far[:, column] *= ratio
        names = (2, "[0134]") if ratio > 1 else ("[1234]", 0)
        message = "deviation of column {} .* that of column {} ".format(*names)
        with pytest.warns(ConvergenceWarning, match=message):
            osvm.KernelClassifier(gamma="scale").fit(far, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        osvm.KernelClassifier().fit(np.hstack([X, np.full((300, 2), 3.0)]), y)  # constant ones
        osvm.KernelClassifier().fit(sp.csr_matrix(X * [1, 1, 1, 1, 1e4]), y)  # text has such


@pytest.mark.parametrize("kernel", ["linear", "polynomial", "sigmoid"])
def test_columns_of_other_units_are_named_for_every_kernel_of_products(kernel):
    X, y = make_rare(300)
    X[:, 2] *= 1e4
    with pytest.warns(ConvergenceWarning, match="deviation of column 2 "):
        osvm.KernelClassifier(kernel=kernel, eta0=1e-3).fit(X, y)


def test_a_fit_no_better_than_a_constant_is_named():
    """The sigmoid kernel saturates far from the origin; 4 % of three classes, without a word."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 10)) + 30.0
    y = (X[:, 0] > 30.0).astype(int) + (X[:, 1] > 31.0)
    message = "no better on its training rows than a constant"
    with pytest.warns(ConvergenceWarning, match=message):
        model = osvm.KernelClassifier(kernel="sigmoid", gamma=1.0, random_state=0).fit(X, y)
    assert model.score(X, y) <= np.bincount(y).max() / len(y)
    with pytest.warns(ConvergenceWarning, match=message):
        osvm.KernelRegressor(kernel="sigmoid", gamma=1.0, random_state=0).fit(X, X[:, 0])


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_a_fit_that_finds_a_class_is_not_named(share):
    """Nor one that errs more often than a constant, because it looks for a rare class."""
    rng = np.random.default_rng(1)
    y = rng.random(1500) < share
    X = rng.normal(size=(1500, 5)) + 1.2 * y[:, None]
    weights = np.where(np.arange(1500) % 3, 0.0, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        osvm.KernelClassifier(random_state=0).fit(X, y)
        osvm.KernelClassifier(random_state=0).fit(X, y, weights)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_distances_lost_to_rounding_are_named(kind):
    X, y = make_rare(300)
    far = kind((X + 1e5).astype(np.float32))
    with pytest.warns(ConvergenceWarning, match=r"rounding of float32: center .* float64"):
        osvm.KernelClassifier(gamma=0.2).fit(far, y)
    with pytest.warns(ConvergenceWarning, match="rounding of float64: center"):
        osvm.KernelClassifier(gamma=0.2).fit(kind(X + 1e9), y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        osvm.KernelClassifier(gamma=0.2).fit(kind(X + 1e5), y)
        osvm.KernelClassifier(gamma=0.2).fit(kind((X + 10).astype(np.float32)), y)


def test_a_gamma_that_suits_is_not_named():
    X, y = make_rare(300)
    board, color = osvm.datasets.make_chessboard(2000, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        osvm.KernelClassifier().fit(X, y)
        osvm.KernelClassifier(gamma=10.0).fit(
            board, color
        )  # far rows are unrelated, near ones not
        osvm.KernelClassifier(gamma=1e-7).partial_fit(X[:5], y[:5])  # too few to tell
        osvm.KernelClassifier(kernel="linear").fit(X, y)
    with pytest.warns(ConvergenceWarning) as told:  # no gamma would help
        osvm.KernelClassifier(random_state=0).fit(np.ones((40, 3)), np.arange(40) % 2)
    assert ["no better" in str(warning.message) for warning in told] == [True]


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sp.csr_matrix])
def test_the_offset_of_many_rows_is_read_off_a_sample(kind, monkeypatch):
    from osvm.kernel.buffer import solver

    X, y = make_rare(900)
    options = {"budget": 60, "gamma": "scale", "random_state": 0}
    model = osvm.KernelClassifier(**options).fit(kind(X), y)
    monkeypatch.setattr(solver, "OFFSET_ROWS", 450)
    sampled = osvm.KernelClassifier(**options).fit(kind(X), y)
    assert sampled.intercept_[0] == pytest.approx(model.intercept_[0], abs=0.3)
    scores = sampled.decision_function(kind(X))[solver.sample_rows(900, 450)]
    expected = find_offset(
        scores - sampled.intercept_[0], y[solver.sample_rows(900, 450)] == "usual", None
    )
    assert sampled.intercept_[0] == pytest.approx(expected, abs=1e-12)
