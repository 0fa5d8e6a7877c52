"""The linear estimators: trajectories, streams, labels, weights, errors."""

import itertools
import pickle

import numpy as np
import pytest
import reference_linear as reference
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import osvm
from osvm import losses, recipes, schedules, taxonomy

N, D = 60, 12


def problem(seed=0, classes=2, whole=False):
    """A small random problem with an empty row, repeated rows and, if `whole`, exact ties."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.5)
    if whole:
        X = np.round(X)
    X[7] = 0.0
    X[11] = X[10]
    codes = rng.integers(classes, size=N)
    codes[:classes] = np.arange(classes)
    return X, codes


def signs(codes):
    return np.where(codes == 1, 1.0, -1.0)


FORMATS = {
    "dense": lambda X: X,
    "fortran": np.asfortranarray,
    "csr": sp.csr_matrix,
    "csr-i64": lambda X: _int64(sp.csr_matrix(X)),
    "csr-array": sp.csr_array,
}


def _int64(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def follow(model, X, y, expected, classes=None, averaged=None, atol=1e-10):
    """Feed one row at a time and compare the weights (and b, if given) after each."""
    for i in range(len(expected)):
        model.partial_fit(X[i : i + 1], y[i : i + 1], **({} if classes is None else classes))
        coef = np.squeeze(model.coef_ if averaged is None else model.last_coef_)
        if expected.shape[-1] == D + 1:
            coef = np.append(coef, model.intercept_)
        assert np.allclose(coef, expected[i], rtol=1e-10, atol=atol), f"step {i + 1}"
        if averaged is not None:
            assert np.allclose(np.squeeze(model.coef_), averaged[i], rtol=1e-10, atol=atol)


BOTH = {"classes": [0, 1]}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("project", [True, False])
def test_pegasos_follows_its_reference(form, whole, project):
    X, y = problem(whole=whole)
    expected = reference.online_svm(X, signs(y), 0.25, project)
    follow(recipes.pegasos(0.25, project), FORMATS[form](X), y, expected, BOTH)


@pytest.mark.parametrize("start", [0, 20])
def test_averages_follow_their_reference(start):
    X, y = problem(1)
    path = reference.online_svm(X, signs(y), 0.25, True)
    average = True if start == 0 else start
    mean = reference.average_of_iterates(path, start)
    follow(recipes.pegasos(0.25, average=average), sp.csr_matrix(X), y, path, BOTH, mean)


def test_online_svm_divides_rows_by_their_norm():
    X, y = problem(2)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    unit = np.divide(X, norms, out=np.zeros_like(X), where=norms > 0)
    expected = reference.online_svm(unit, signs(y), 0.1)
    follow(recipes.online_svm(0.1), sp.csr_matrix(X), y, expected, BOTH)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("size", [2, 7])
def test_mini_batches_follow_their_reference(form, size):
    X, y = problem(3)
    expected = reference.mini_batches(X, signs(y), 0.5, size)
    rows = FORMATS[form](X)
    model = recipes.pegasos(0.5, project=False, batch_size=size)
    for step, w in enumerate(expected):
        for i in range(step * size, (step + 1) * size):
            model.partial_fit(rows[i : i + 1], y[i : i + 1], **BOTH)
        assert np.allclose(model.coef_[0], w, rtol=1e-10, atol=1e-12), f"step {step + 1}"
    assert model.t_ == len(expected) * size


@pytest.mark.parametrize("loss", ["hinge", "multiclass_hinge", "softmax"])
def test_multi_output_mini_batches_match_between_dense_and_sparse_and_splits(loss):
    X, y = problem(4, classes=4)
    options = {
        "reg": 0.5,
        "schedule": "inverse_time",
        "batch_size": 5,
        "average": True,
        "project": True,
    }
    models = []
    for rows, cut in ((X, N), (sp.csr_matrix(X), N), (sp.csr_matrix(X), 3)):
        model = osvm.LinearClassifier(loss, **options)
        for i in range(0, N, cut):
            model.partial_fit(rows[i : i + cut], y[i : i + cut], classes=range(4))
        models.append(model)
    assert np.allclose(models[0].coef_, models[1].coef_, rtol=1e-10)
    assert np.array_equal(models[1].coef_, models[2].coef_)
    assert np.array_equal(models[1].last_coef_, models[2].last_coef_)


def test_sgd_with_intercept_follows_its_reference():
    X, y = problem(5)
    model = recipes.sgd_svm(reg=0.1, schedule=schedules.Bottou(t0=3.0))
    follow(model, sp.csr_matrix(X), y, reference.sgd_with_intercept(X, signs(y), 0.1, 3.0), BOTH)


def test_c_means_one_over_reg_n():
    X, y = problem(5)
    a = recipes.sgd_svm(C=2.0).fit(X, y)
    b = recipes.sgd_svm(reg=1 / (2.0 * N)).fit(X, y)
    assert np.array_equal(a.coef_, b.coef_)
    with pytest.raises(ValueError, match="give reg or C, not both"):
        osvm.LinearClassifier(reg=1.0, C=1.0).fit(X, y)
    with pytest.raises(ValueError, match="C needs the number of examples"):
        osvm.LinearClassifier(C=1.0).partial_fit(X, y)


def test_batch_gradient_descent_follows_its_reference():
    X, y = problem(6)
    for epochs in (1, 2, 10):
        expected = reference.batch_gradient_descent(X, signs(y), 0.1, 0.5, epochs)[-1]
        model = recipes.batch_gd(reg=0.1, eta0=0.5, epochs=epochs).fit(sp.csr_matrix(X), y)
        assert np.allclose(np.append(model.coef_, model.intercept_), expected, rtol=1e-10)


@pytest.mark.parametrize("whole", [False, True])
def test_ogd_softsvm_and_perceptron_follow_their_references(whole):
    X, y = problem(7, whole=whole)
    rows = sp.csr_matrix(X)
    follow(recipes.ogd(0.25), rows, y, reference.online_subgradient(X, signs(y), 0.25), BOTH)
    expected = reference.online_subgradient(X, signs(y), 0.25, radius=0.75)
    follow(recipes.projected_ogd(0.75, 0.25), rows, y, expected, BOTH)
    follow(recipes.soft_svm(0.25), rows, y, reference.soft_svm(X, signs(y), 0.25), BOTH)
    follow(recipes.perceptron(), rows, y, reference.perceptron(X, signs(y)), BOTH)


TREE = taxonomy.from_paths(["a/0", "a/1", "b/2", "b/3"])
MULTI = {
    "hinge": reference.one_vs_rest_hinge,
    "multiclass_hinge": reference.crammer_singer,
    "softmax": reference.softmax,
    "graph_hinge": lambda f, k: reference.crammer_singer(f, k, TREE.distances()),
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("loss", MULTI)
@pytest.mark.parametrize("ties", [False, True])
def test_multi_output_losses_follow_their_references(form, loss, ties):
    """With ties: whole numbers and dyadic steps, so that scores are exact and often equal."""
    X, codes = problem(8, classes=4, whole=ties)
    names = np.array(["a/0", "a/1", "b/2", "b/3"])
    reg, schedule, eta_of = 0.25, "inverse_time", lambda t: 4 / t
    if ties:
        reg, schedule, eta_of = 0.0, "constant", lambda t: 0.25
    model = osvm.LinearClassifier(
        loss,
        reg=reg,
        schedule=schedule,
        eta0=0.25,
        fit_intercept=False,
        taxonomy=TREE if loss == "graph_hinge" else None,
    )
    expected = reference.multi_output(X, codes, 4, reg, MULTI[loss], eta_of)
    follow(model, FORMATS[form](X), names[codes], expected, {"classes": names})


SCALAR = [losses.SquaredHinge(), losses.Logistic(), losses.ModifiedHuber(), losses.Perceptron()]


@pytest.mark.parametrize("loss", SCALAR, ids=lambda part: part.name)
def test_scalar_losses_follow_the_update_rule(loss):
    X, y = problem(9)
    model = osvm.LinearClassifier(loss, reg=0.1, schedule=schedules.InverseSqrt(eta0=0.3, tau=5.0))
    expected = reference.scalar_loss_descent(X, signs(y), 0.1, 0.3, 5.0, loss.dloss)
    follow(model, sp.csr_matrix(X), y, expected, BOTH)


@pytest.mark.parametrize(
    "loss",
    [losses.EpsilonInsensitive(0.1), losses.Huber(0.5), losses.Squared()],
    ids=lambda part: part.name,
)
def test_regression_losses_follow_the_update_rule(loss):
    X, _ = problem(10)
    y = X @ np.arange(D) / D
    model = osvm.LinearRegressor(loss, reg=0.01, schedule=schedules.InverseSqrt(eta0=0.1, tau=5.0))
    expected = reference.scalar_loss_descent(X, y, 0.01, 0.1, 5.0, loss.dloss)
    follow(model, sp.csr_matrix(X), y, expected)


def test_novelty_follows_the_update_rule():
    X, _ = problem(11)
    model = osvm.LinearNovelty(reg=0.1, schedule=schedules.InverseSqrt(eta0=0.1, tau=5.0))
    w = np.zeros(D)
    for t in range(1, N + 1):
        x, eta = X[t - 1], 0.1 * np.sqrt(5 / (5 + t))
        w = (1 - eta * 0.1) * w + (eta * x if w @ x < 1 else 0)
        model.partial_fit(X[t - 1 : t])
        assert np.allclose(model.coef_, w, rtol=1e-10, atol=1e-12)
    assert set(model.predict(X)) <= {-1, 1}
    assert np.array_equal(model.predict(X) == 1, model.score_samples(X) >= 1)


# ------------------------------------------------------------------- streams

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


def clone(model):
    return type(model)(**model.get_params(deep=False))


def test_state_and_pickle_resume_bit_for_bit():
    X, y = problem(13, 3)
    for template in STREAMED:
        whole = clone(template).partial_fit(X, y)
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


# ----------------------------------------------------------- fit and its options


def text(n=2000, classes=2, seed=0):
    X, y, *_ = osvm.datasets.make_rcv1_like(
        n_train=n, n_test=10, n_features=2000, nnz=30, n_classes=classes, random_state=seed
    )
    return X, y


def test_one_seed_gives_one_model_and_another_seed_another():
    X, y = text()
    a, b, c = (osvm.LinearClassifier(random_state=s).fit(X, y) for s in (1, 1, 2))
    assert np.array_equal(a.coef_, b.coef_)
    assert not np.array_equal(a.coef_, c.coef_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_and_dense_give_the_same_model(dtype):
    X, y = text(500)
    X = X.astype(dtype)
    tol = 1e-4 if dtype == np.float32 else 1e-9
    for options in ({}, {"loss": "logistic", "average": True}, {"project": True}):
        models = [
            osvm.LinearClassifier(reg=1e-3, random_state=0, **options).fit(rows, y)
            for rows in (X, X.toarray(), np.asfortranarray(X.toarray()))
        ]
        for model in models[1:]:
            assert np.allclose(model.coef_, models[0].coef_, atol=tol, rtol=tol)


def test_data_sorted_by_class_is_learnt_as_well_as_with_a_full_permutation():
    X, y = text(8000)
    train = np.argsort(y[:6000], kind="stable")
    scores = {}
    for shuffle in (True, "full"):
        model = osvm.LinearClassifier(reg=1e-4, shuffle=shuffle, random_state=0)
        scores[shuffle] = model.fit(X[train], y[train]).score(X[6000:], y[6000:])
    assert scores[True] > scores["full"] - 0.01


def test_x_is_neither_copied_nor_changed():
    X, y = text(300)
    before = X.copy()
    for a in (X.data, X.indices, X.indptr):
        a.setflags(write=False)
    osvm.LinearClassifier(normalize=True).fit(X, y).predict(X)
    assert (before != X).nnz == 0


def test_tol_stops_on_the_true_objective():
    X, y = text()
    model = osvm.LinearClassifier(reg=1e-3, epochs=200, tol=1e-2, random_state=0).fit(X, y)
    assert 2 <= model.n_epochs_ < 200
    assert len(model.objective_) == model.n_epochs_
    t = np.where(y == model.classes_[1], 1.0, -1.0)
    hinge = np.maximum(0, 1 - t * model.decision_function(X)).mean()
    assert model.objective_[-1] == pytest.approx(
        hinge + 1e-3 / 2 * np.sum(model.coef_**2), rel=1e-6
    )


def test_weights_of_examples_and_classes():
    X, y = problem(16)
    twice = np.where(y == 1, 2.0, 1.0)
    a = osvm.LinearClassifier(class_weight={1: 2.0}, random_state=0).fit(X, y)
    b = osvm.LinearClassifier(random_state=0).fit(X, y, sample_weight=twice)
    plain = osvm.LinearClassifier(random_state=0).fit(X, y)
    assert np.array_equal(a.coef_, b.coef_)
    assert not np.array_equal(a.coef_, plain.coef_)
    ones = osvm.LinearClassifier(random_state=0).fit(X, y, sample_weight=np.ones(N))
    assert np.array_equal(ones.coef_, plain.coef_)


def test_balanced_weights_help_a_rare_class():
    X, y = text(4000)
    keep = np.flatnonzero((y == y.max()) | (np.arange(len(y)) % 20 == 0))
    X, y = X[keep], y[keep]
    for call in ("fit", "partial_fit"):
        recall = {}
        for weight in (None, "balanced"):
            model = osvm.LinearClassifier(reg=1e-2, class_weight=weight, random_state=0)
            answers = getattr(model, call)(X, y).predict(X)
            rare = y == y.min()
            recall[weight] = np.mean(answers[rare] == y[rare])
        assert recall["balanced"] > recall[None]


def test_warm_start_goes_on():
    X, y = text()
    model = osvm.LinearClassifier(reg=1e-4, epochs=2, warm_start=True, random_state=0)
    model.fit(X, y)
    first = model.coef_.copy()
    model.fit(X, y)
    assert model.t_ == 4 * X.shape[0]
    assert not np.array_equal(model.coef_, first)
    with pytest.raises(ValueError, match="warm_start"):
        model.fit(X[:, :50], y)


def test_history_has_one_entry_per_example():
    X, y = problem(17)
    model = osvm.LinearClassifier(reg=0.1, epochs=3, record=True, schedule="inverse_time")
    model.fit(X, y)
    assert {key: len(a) for key, a in model.history_.items()} == {
        "eta": 3 * N,
        "loss": 3 * N,
        "error": 3 * N,
    }
    assert np.allclose(model.history_["eta"], 1 / (0.1 * np.arange(1, 3 * N + 1)))
    streamed = osvm.LinearClassifier(reg=0.1, record=True, schedule="inverse_time")
    mistakes = 0
    for i in range(N):
        if i:
            mistakes += streamed.predict(X[i : i + 1])[0] != y[i]
        else:
            mistakes += y[i] == 1
        streamed.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1])
        assert streamed.history_["error"][-1] == pytest.approx(mistakes / (i + 1))


def test_progress_is_printed_at_powers_of_two(capsys):
    X, y = problem(18)
    osvm.LinearClassifier(epochs=2, verbose=True).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    assert [int(line.split()[0]) for line in lines[2:]] == [1, 2, 4, 8, 16, 32, 64, 120]


def test_callback_sees_each_epoch_and_may_stop():
    X, y = problem(19)
    epochs = []

    def callback(model, epoch):
        epochs.append((epoch.number, epoch.average_loss))
        return epoch.number == 3

    model = osvm.LinearClassifier(epochs=10, callback=callback).fit(X, y)
    assert [number for number, _ in epochs] == [1, 2, 3]
    assert model.n_epochs_ == 3


@pytest.mark.parametrize("average", [False, True])
def test_threads_predict_the_same(average):
    X, y = text(4000, classes=3)
    model = osvm.LinearClassifier(random_state=0, average=average).fit(X, y)
    alone = model.decision_function(X)
    assert np.allclose(model.set_params(n_jobs=3).decision_function(X), alone, atol=1e-12)


def test_probabilities():
    X, y = text(1000, classes=3)
    for loss in ("logistic", "softmax"):
        for keep in (slice(None), y != 2):
            model = osvm.LinearClassifier(loss, random_state=0).fit(X[keep], y[keep])
            p = model.predict_proba(X)
            assert np.allclose(p.sum(axis=1), 1)
            assert np.array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    with pytest.raises(AttributeError, match="defines no probability"):
        osvm.LinearClassifier().fit(X, y).predict_proba(X)


def test_sparsify():
    X, y = text(200)
    model = osvm.LinearClassifier(random_state=0).fit(X, y)
    dense = model.coef_
    assert sp.issparse(model.sparsify().coef_)
    assert np.array_equal(model.coef_.toarray(), dense)
    assert np.array_equal(model.densify().coef_, dense)


class Absolute:
    """A margin loss in Python: |1 - yf|."""

    def value(self, y, f):
        return abs(1 - y * f)

    def dloss(self, y, f):
        return -y if y * f < 1 else y


def test_a_python_loss_works():
    X, y = problem(20)
    model = osvm.LinearClassifier(
        Absolute(),
        reg=0.1,
        schedule="constant",
        eta0=0.1,
        fit_intercept=False,
        epochs=1,
        shuffle=False,
    ).fit(X, y)
    w = np.zeros(D)
    for x, t in zip(X, signs(y)):
        xi = -t if t * (w @ x) < 1 else t
        w = (1 - 0.01) * w - 0.1 * xi * x
    assert np.allclose(model.coef_[0], w)


def test_an_error_in_a_python_loss_reaches_the_user():
    class Broken(Absolute):
        def dloss(self, y, f):
            raise ZeroDivisionError("in my loss")

    X, y = problem(20)
    with pytest.raises(ZeroDivisionError, match="in my loss"):
        osvm.LinearClassifier(Broken(), reg=0.1).fit(X, y)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"reg": -1.0}, "reg"),
        ({"loss": "hing"}, "hing"),
        ({"loss": "squared"}, "not for LinearClassifier"),
        ({"schedule": "linear"}, "linear"),
        ({"schedule": "bottou", "reg": 0.0}, "needs reg > 0"),
        ({"schedule": "constant", "eta0": 3.0, "reg": 1.0}, "flip the sign"),
        ({"eta0": 0}, "eta0"),
        ({"epochs": 0}, "epochs"),
        ({"shuffle": "yes"}, "shuffle"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": "all"}, "batch_size"),
        ({"project": -1.0}, "project"),
        ({"project": True, "reg": 0.0, "schedule": "constant"}, "project"),
        ({"average": -3}, "average"),
        ({"class_weight": {5: 1.0}}, "class_weight"),
        ({"loss": "graph_hinge"}, "taxonomy"),
        ({"taxonomy": TREE}, "taxonomy"),
        ({"tol": -1}, "tol"),
        ({"verbose": "loud"}, "verbose"),
    ],
)
def test_a_bad_parameter_is_named_and_changes_nothing(params, message):
    X, y = problem(21)
    model = osvm.LinearClassifier(random_state=0).fit(X, y)
    before = model.coef_
    model.set_params(**params)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, y)
    assert np.array_equal(model.coef_, before)


@pytest.mark.parametrize("call", ["fit", "partial_fit"])
def test_bad_data_leaves_the_model_as_it_was(call):
    X, y = problem(22)
    model = osvm.LinearClassifier(random_state=0).fit(X, y)
    before, t = model.coef_, model.t_
    spoilt = X.copy()
    spoilt[5, 3] = np.nan
    for rows, labels in ((spoilt, y), (X[:, :4], y[:3]), (X, y[:-1]), (X[:0], y[:0])):
        with pytest.raises(ValueError):  # noqa: PT011  (messages are tested with _validate)
            getattr(model, call)(rows, labels)
        assert np.array_equal(model.coef_, before)
        assert model.t_ == t


def test_one_class_only_is_refused_by_fit():
    X, _ = problem(23)
    with pytest.raises(ValueError, match="one class"):
        osvm.LinearClassifier().fit(X, np.zeros(N))


def test_a_step_that_would_overflow_is_not_made():
    X, y = problem(24)
    for dtype in (np.float32, np.float64):
        huge = (X * 1e30).astype(dtype)
        model = osvm.LinearRegressor("squared", schedule="constant", eta0=1.0, reg=0.0)
        with pytest.raises(FloatingPointError, match="row"):
            model.fit(huge, y * 1e30)
        assert not hasattr(model, "coef_")


def test_unfitted_models_say_so():
    model = osvm.LinearClassifier()
    assert not hasattr(model, "coef_")
    with pytest.raises(Exception, match="not fitted"):
        model.predict(np.zeros((1, 2)))


@pytest.mark.skipif(not hasattr(__import__("signal"), "setitimer"), reason="needs POSIX timers")
def test_interrupting_a_fit_leaves_a_usable_model():
    import signal

    X, y = text(2000, classes=3)
    model = osvm.LinearClassifier(epochs=10**6, random_state=0)
    old = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert model.t_ > 0
    assert model.score(X, y) > 0.5
    model.partial_fit(X[:10], y[:10])
