"""The linear estimators: fit and its options, weights, probabilities, errors."""

import numpy as np
import pytest
import scipy.sparse as sp
from linear_problems import TREE, D, N, problem, signs

import osvm
from osvm._input.validate import check_X
from osvm.linear.plan import resolve_plan


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
    assert 2 <= model.n_iter_ < 200
    assert len(model.objective_) == model.n_iter_
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
    assert model.n_iter_ == 3


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_outside_the_ball_are_projected_even_without_a_step(dtype):
    # the loop of sparse rows looks at the norm after steps only, unless it begins outside
    X = np.array([[3.0, 4.0], [1.0, 0.0]], dtype)
    for rows in (X, sp.csr_matrix(X)):
        model = osvm.LinearClassifier(reg=1e-3, project=2.0, fit_intercept=False)
        plan = resolve_plan(model, 2)
        learner = plan.with_usual_t0().learner(2, 1, dtype)
        learner.weights.set_array([30.0, 40.0])  # right by far on both rows
        learner.run(check_X(rows)[0], np.array([1.0, 1.0]))
        assert learner.loss_sum == 0.0
        assert learner.weights.norm <= 2.0 * (1 + 1e-6)
        assert learner.weights.array() == pytest.approx([1.2, 1.6], rel=1e-2)


def test_callback_gets_the_model_of_the_moment(tmp_path):
    X, y = text()
    path, seen = tmp_path / "epoch.osvm", []

    def callback(model, epoch):
        model.save(path)
        assert np.array_equal(osvm.load(path).coef_, model.coef_)
        assert model.n_iter_ == epoch.number
        assert model.t_ == epoch.number * X.shape[0]
        seen.append((model, model.score(X, y)))

    model = osvm.LinearClassifier(
        schedule="bottou", epochs=3, callback=callback, random_state=0, probability=True
    )
    model.fit(X, y)
    assert np.array_equal(seen[-1][0].coef_, model.coef_)
    assert not np.array_equal(seen[0][0].coef_, model.coef_)
    assert np.array_equal(seen[-1][0].predict_proba(X), model.predict_proba(X))
    for epochs in (1, 2):  # as if the fit had ended there
        short = osvm.LinearClassifier(
            schedule=osvm.schedules.Bottou(t0=model._plan.t0), epochs=epochs, random_state=0
        )
        got = osvm.LinearClassifier(
            schedule=osvm.schedules.Bottou(t0=model._plan.t0), epochs=3, random_state=0
        )
        models = []
        got.set_params(callback=lambda m, e, models=models: models.append(m)).fit(X, y)
        assert np.array_equal(models[epochs - 1].coef_, short.fit(X, y).coef_)
    before = model.coef_
    with pytest.raises(RuntimeError, match="mine"):
        model.set_params(callback=_raise).fit(X[:50], y[:50])
    assert np.array_equal(model.coef_, before)


def _raise(model, epoch):
    raise RuntimeError("mine")


def test_early_stopping_on_a_validation_set_is_one_line():
    X, y = text()
    scores = []
    stop = lambda m, e: scores.append(m.score(X[400:], y[400:])) or scores[-1] < max(scores)  # noqa: E731
    model = osvm.LinearClassifier(reg=1e-6, epochs=200, callback=stop, random_state=0)
    model.fit(X[:400], y[:400])
    assert model.n_iter_ == len(scores) < 200
    assert scores[-1] < max(scores)
    answers = osvm.LinearClassifier(epochs=3, callback=lambda m, e: 0.9, random_state=0)
    assert answers.fit(X, y).n_iter_ == 3  # a number is not True


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("loss", ["logistic", "modified_huber", "softmax"])
def test_probabilities_and_their_logarithms(loss, classes):
    X, y = text(classes=classes)
    model = osvm.LinearClassifier(loss, random_state=0).fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(model.predict_log_proba(X), np.log(p))
    single = (p == p.max(axis=1, keepdims=True)).sum(axis=1) == 1
    assert single.mean() > 0.2
    assert np.array_equal(model.classes_[p.argmax(axis=1)][single], model.predict(X)[single])
    with pytest.raises(AttributeError, match="probability=True"):
        osvm.LinearClassifier().predict_log_proba  # noqa: B018


@pytest.mark.parametrize("classes", [2, 4])
def test_modified_huber_has_scikit_learns_probabilities(classes):
    pytest.importorskip("sklearn")
    X, y = text(classes=classes)
    model = osvm.LinearClassifier("modified_huber", random_state=0).fit(X, y)
    np.testing.assert_allclose(
        model.to_sklearn().predict_proba(X), model.predict_proba(X), atol=1e-6
    )


@pytest.mark.parametrize(
    "y",
    [
        [["a"], ["a", "b"], [], ["b"]],
        [("a",), ("a", "b"), (), ("b",)],
        [{"a"}, {"b"}, {"a", "b"}, set()],
        np.array([[0, 1], [1, 0], [1, 1], [0, 0]]),
    ],
    ids=["lists", "tuples", "sets", "matrix"],
)
@pytest.mark.parametrize("cls", [osvm.LinearClassifier, osvm.LinearSVC, osvm.AlmaClassifier])
def test_label_sets_name_the_class_that_learns_them(cls, y):
    with pytest.raises(ValueError, match=r"osvm\.MultilabelClassifier"):
        cls().fit(np.eye(4), y)
    osvm.MultilabelClassifier().fit(np.eye(4), y)
