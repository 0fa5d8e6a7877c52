"""Training in threads: outputs in blocks, and lock-free updates of shared weights."""

import os
import pickle
import signal
import threading

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm import losses, schedules
from osvm._estimator import threads
from osvm.linear.training import Plan
from osvm.linear.lock_free import LockFree
from osvm.linear.output_blocks import OutputBlock
from osvm._input.rows import RowSource
from osvm._estimator.threads import Team, Threads, resolve_jobs
from osvm.datasets import make_rcv1_like


def text(n=1500, classes=21, seed=0, dtype=np.float32):
    X, y, _, _ = make_rcv1_like(n, 10, n_classes=classes, random_state=seed, dtype=dtype)
    common = np.argsort(-np.bincount(X.indices, minlength=X.shape[1]))[:3000]
    return X[:, np.sort(common)].tocsr(), y


@pytest.fixture
def eager(monkeypatch):
    """Threads for any amount of work, in short turns; the number of blocks made."""
    made = []

    class Counted(OutputBlock):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(_threads, "_WORTH", 0)
    monkeypatch.setattr(_threads, "_COPY", 0)
    monkeypatch.setattr(_threads, "_TURN", 200_000)
    monkeypatch.setattr(_threads, "OutputBlock", Counted)
    return made


def assert_same_model(a, b):
    (scalars_a, arrays_a), (scalars_b, arrays_b) = a._get_state(), b._get_state()
    for name in arrays_a:
        assert np.array_equal(arrays_a[name], arrays_b[name]), name
    # The values of the losses are summed in another order.
    sums = [state["learner"].pop("loss_sum") for state in (scalars_a, scalars_b)]
    assert np.isclose(*sums, rtol=1e-9)
    assert scalars_a == scalars_b


# ------------------------------------------------------------------ outputs in blocks

OPTIONS = [
    {},
    {"average": True},
    {"average": 700},
    {"project": True, "reg": 1e-3},
    {"normalize": True},
    {"normalize": True, "average": True},
    {"schedule": "inverse_time", "fit_intercept": False},
    {"loss": "logistic", "shuffle": "full"},
    {"loss": "squared_hinge", "shuffle": False},
    {"loss": "perceptron", "reg": 0.0, "schedule": "constant"},
    {"class_weight": "balanced"},
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_blocks_of_outputs_give_the_model_of_one_thread(options, dtype, eager):
    X, y = text(dtype=dtype)
    if options.get("normalize"):
        X = X.multiply(np.linspace(0.3, 3, len(y))[:, None]).tocsr().astype(dtype)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    make = lambda **more: osvm.LinearClassifier(epochs=2, random_state=3, **options, **more)  # noqa: E731
    one = make().fit(X, y, sample_weight=weight)
    assert not eager
    two = make(n_jobs=2).fit(X, y, sample_weight=weight)
    assert [block.count for block in eager[:2]] == [12, 9]
    assert_same_model(one, two)
    for model in (one, two):
        for part in (slice(0, 700), slice(700, None)):
            model.partial_fit(X[part], y[part])
    assert_same_model(one, two)
    assert np.array_equal(one.predict(X), two.predict(X))


def test_a_dense_array_and_many_threads(eager):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 30))
    y = rng.integers(0, 33, 400)
    models = [osvm.LinearClassifier(random_state=0, n_jobs=n).fit(X, y) for n in (1, 3, 8)]
    assert [block.count for block in eager[:3]] == [12, 12, 9]
    assert_same_model(models[0], models[1])
    assert_same_model(models[0], models[2])


def test_progress_counts_the_errors_of_all_blocks(eager, capsys):
    X, y = text(3000)
    tables = []
    for n_jobs in (1, 2):
        osvm.LinearClassifier(epochs=1, random_state=0, n_jobs=n_jobs, verbose=True).fit(X, y)
        lines = capsys.readouterr().err.splitlines()
        tables.append([line.split()[:3] for line in lines])
    assert eager
    assert tables[0] == tables[1]


def test_small_work_stays_in_one_thread(monkeypatch):
    def refuse(*args):
        raise AssertionError("a block was made")

    monkeypatch.setattr(_threads, "OutputBlock", refuse)
    X, y = text(300)
    osvm.LinearClassifier(epochs=1, n_jobs=2).fit(X, y)


@pytest.mark.parametrize("options", [{"record": True}, {"probability": True}, {"batch_size": 3}])
def test_what_needs_all_outputs_at_once_stays_in_one_thread(options, eager):
    X, y = text(400)
    models = [
        osvm.LinearClassifier(epochs=1, random_state=0, n_jobs=n, **options).fit(X, y)
        for n in (1, 2)
    ]
    assert not eager
    assert_same_model(*models)


def test_a_failing_block_names_the_row_and_leaves_the_model_as_it_was(eager):
    X, y = text(800)
    X = X.astype(np.float64)
    models = [osvm.LinearClassifier("squared_hinge", n_jobs=n).partial_fit(X, y) for n in (1, 2)]
    bad = X.copy()
    bad.data[bad.indptr[500] : bad.indptr[501]] = 1e160
    errors = []
    for model in models:
        before = pickle.dumps(model)
        with pytest.raises(FloatingPointError) as error:
            model.partial_fit(bad, y)
        errors.append(str(error.value))
        assert_same_model(model, pickle.loads(before))
    assert errors[0] == errors[1]
    assert_same_model(*models)


def interrupt_after(seconds):
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
@pytest.mark.parametrize("options", [{}, {"lock_free": True}], ids=["blocks", "lock_free"])
def test_ctrl_c_leaves_a_consistent_model(options, eager):
    X, y = text(1000)
    model = osvm.LinearClassifier(epochs=10**6, random_state=0, n_jobs=2, **options)
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = interrupt_after(0.4)
    try:
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        timer.join()
        signal.signal(signal.SIGINT, old)
    assert model.t_ == model._learner.t > 0
    assert model.score(X, y) > 0.5
    model.partial_fit(X[:10], y[:10])
    assert bool(eager) is (not options)


def test_an_error_in_a_thread_is_raised():
    def work(k):
        if k == 1:
            raise RuntimeError("thread 1")
        return k

    with Team(3) as team, pytest.raises(RuntimeError, match="thread 1"):
        team.each(work)
    with Team(3) as team:
        assert team.each(lambda k: k) == [0, 1, 2]


def test_number_of_threads():
    assert resolve_jobs(None) == 1
    assert resolve_jobs(3) == 3
    assert resolve_jobs(-1) == os.cpu_count()
    with pytest.raises(ValueError, match="n_jobs must not be 0"):
        resolve_jobs(0)


# ------------------------------------------------------------------------ lock-free

SCHEDULES = [
    schedules.Bottou(t0=50.0),
    schedules.Bottou(t0=50.0, reg=0.2),
    schedules.InverseTime(),
    schedules.InverseSqrt(eta0=0.5, tau=10.0),
    schedules.Kecman(C=0.1),
    schedules.Constant(eta0=0.3),
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize("loss", ["hinge", "logistic", "ovr", "softmax", "multiclass_hinge"])
def test_without_company_a_lock_free_thread_is_the_plain_loop(schedule, loss):
    """Thread by thread, one after the other, on stretches that interleave."""
    X, y = text(1500, classes=5, dtype=np.float64)
    rows = RowSource.csr(X.data, X.indices, X.indptr, X.shape[1])
    n_out = 5 if loss in ("ovr", "softmax", "multiclass_hinge") else 1
    targets = np.where(y == 1, 1.0, -1.0) if n_out == 1 else y.astype(np.int32)
    plan = Plan(losses.get("hinge" if loss == "ovr" else loss), schedule, 0.01)
    order = np.random.default_rng(0).permutation(len(y))
    plain, shared = (plan.learner(X.shape[1], n_out, np.float64) for _ in range(2))
    plain.run(rows, targets, order)
    # the first example of 1/(reg t) empties the weights, which prepare() leaves to one thread
    shared.run(rows, targets, order, 0, 10)
    team = LockFree(shared, 1)
    for start, stop in ((10, 700), (700, 1500)):
        assert team.prepare(stop - start)
        team.learn(0, rows, targets, order, start, stop, None, 1.0)
        assert team.join(stop - start) == 0
    assert np.allclose(shared.weights.array(), plain.weights.array(), rtol=1e-10, atol=1e-12)
    assert np.allclose(shared.intercept, plain.intercept, rtol=1e-10, atol=1e-12)
    for name in ("t", "seen", "error_sum"):
        assert getattr(shared, name) == getattr(plain, name)
    assert np.isclose(shared.loss_sum, plain.loss_sum)


@pytest.mark.parametrize("n_threads", [2, 3])
def test_the_stretches_of_all_threads_make_one_pass(n_threads):
    X, y = text(2000, classes=2, dtype=np.float64)
    rows = RowSource.csr(X.data, X.indices, X.indptr, X.shape[1])
    # A constant slope makes the steps commute, so that turn-taking does not matter.
    plan = Plan(losses.get("epsilon_insensitive", epsilon=0.0), schedules.Bottou(t0=9.0), 0.1)
    targets = np.full(len(y), 1e6)
    plain, shared = (plan.learner(X.shape[1], 1, np.float64) for _ in range(2))
    plain.run(rows, targets)
    team = LockFree(shared, n_threads)
    assert team.prepare(len(y))
    for k in range(n_threads):
        team.learn(k, rows, targets, None, 0, len(y), None, 1.0)
    assert team.join(len(y)) == 0
    assert np.allclose(shared.weights.array(), plain.weights.array(), rtol=1e-10)
    assert np.allclose(shared.intercept, plain.intercept, rtol=1e-10)


def test_lock_free_learns_as_well(eager):
    X, y = text(4000, classes=2)
    target = np.where(y == 1, 1.0, -1.0)
    values = []
    for options in ({}, {"n_jobs": 2, "lock_free": True}):
        model = osvm.LinearClassifier(epochs=5, random_state=0, **options).fit(X, y)
        f = model.decision_function(X)
        w = model.coef_[0]
        values.append(0.5e-4 * w @ w + np.maximum(0, 1 - target * f).mean())
        assert model.t_ == 5 * len(y)
        assert model.score(X, y) > 0.9
    assert values[1] == pytest.approx(values[0], rel=0.02)


@pytest.mark.parametrize(
    "model",
    [
        osvm.LinearClassifier("softmax"),
        osvm.LinearClassifier(),
        osvm.LinearRegressor(),
        osvm.LinearNovelty(),
    ],
    ids=repr,
)
def test_every_linear_model_can_be_lock_free(model, eager):
    X, y = text(2000, classes=6)
    scores = []
    for options in ({}, {"n_jobs": 3, "lock_free": True}):
        model.set_params(random_state=0, epochs=3, tol=0.0, **options).fit(X, y)
        scores.append(model.objective_[-1])
        model.partial_fit(X, y)
        assert model.t_ == (model.n_epochs_ + 1) * len(y)
    assert scores[1] == pytest.approx(scores[0], rel=0.1)
    assert not eager


def test_a_failure_of_lock_free_threads_leaves_the_model_as_it_was(eager):
    X, y = text(2000, classes=2, dtype=np.float64)
    model = osvm.LinearClassifier("squared_hinge", n_jobs=2, lock_free=True).partial_fit(X, y)
    before = pickle.dumps(model)
    bad = sp.vstack([X[:1500], X[1500] * 1e160, X[1500] * -1e160, X[1502:]], format="csr")
    with pytest.raises(FloatingPointError, match=r"row 150[01]"):
        model.partial_fit(bad, np.r_[y[:1501], y[1500], y[1502:]])
    assert_same_model(model, pickle.loads(before))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"average": True}, "average"),
        ({"project": True}, "project"),
        ({"batch_size": 5}, "batch_size"),
        ({"probability": True}, "probability"),
        ({"record": True}, "record"),
        ({"schedule": "smd"}, "schedule"),
        ({"solver": "dual"}, "solver"),
        ({"lock_free": "yes"}, "lock_free must be True or False"),
    ],
)
def test_what_lock_free_cannot_do_is_refused(params, message):
    X, y = text(50, classes=2)
    model = osvm.LinearClassifier(**{"n_jobs": 2, "lock_free": True, **params})
    for call in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=message):
            call(X, y)
        assert "_learner" not in model.__dict__


def test_lock_free_is_saved_and_copied(tmp_path):
    X, y = text(100, classes=2)
    model = osvm.LinearClassifier(n_jobs=2, lock_free=True).fit(X, y)
    model.save(tmp_path / "model.osvm")
    loaded = osvm.load(tmp_path / "model.osvm")
    assert loaded.get_params()["lock_free"] is True
    assert np.array_equal(loaded.coef_, model.coef_)
    assert Threads(2, True) == loaded._threads()
