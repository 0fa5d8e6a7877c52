"""The lock of a model: who waits for whom, who may come in again, what a fork leaves."""

import copy
import os
import pickle
import signal
import sys
import threading
import time

import numpy as np
import pytest

import osvm
from osvm._estimator.lock import ModelLock

WAIT = 20.0  # seconds after which a thread is taken for stuck


class Worker(threading.Thread):
    """A thread whose exception, if any, comes out of `join`."""

    def __init__(self, work):
        super().__init__(daemon=True)
        self.work, self.error = work, None
        self.start()

    def run(self):
        try:
            self.work()
        except BaseException as error:  # raised again by join
            self.error = error

    def join(self, timeout=WAIT):
        super().join(timeout)
        assert not self.is_alive(), "a thread is stuck"
        if self.error is not None:
            raise self.error


def soon(condition):
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def hold(context):
    """A thread inside the context; call the result to let it go."""
    inside, leave = threading.Event(), threading.Event()

    def work():
        with context:
            inside.set()
            assert leave.wait(WAIT)

    worker = Worker(work)
    assert inside.wait(WAIT)

    def release():
        leave.set()
        worker.join()

    return release


def blocked(context):
    """A thread that waits for the context: its `done` event, and the thread."""
    done = threading.Event()

    def work():
        with context:
            done.set()

    worker = Worker(work)
    time.sleep(0.02)
    return done, worker


def test_readers_share():
    lock = ModelLock()
    release = hold(lock)
    with lock:
        assert not lock.is_free
    release()
    assert lock.is_free


def test_writing_lets_readers_in_and_writers_not():
    lock = ModelLock()
    release = hold(lock.writing())
    with lock:
        pass
    done, worker = blocked(lock.writing())
    assert not done.is_set()
    release()
    worker.join()
    assert lock.is_free


@pytest.mark.parametrize("kind", ["read", "writing", "changing"])
def test_changing_keeps_everybody_out(kind):
    lock = ModelLock()
    release = hold(lock.changing())
    done, worker = blocked(lock if kind == "read" else getattr(lock, kind)())
    assert not done.is_set()
    release()
    worker.join()
    assert lock.is_free


def test_changing_waits_for_readers_and_later_readers_wait_for_it():
    lock = ModelLock()
    release = hold(lock)
    changed, writer = blocked(lock.changing())
    read, reader = blocked(lock)
    assert not changed.is_set()
    assert not read.is_set()
    release()
    writer.join()
    reader.join()
    assert lock.is_free


def test_a_thread_may_come_in_again():
    lock = ModelLock()
    with lock.changing(), lock, lock.holding(), lock.holding(), lock, lock:
        pass
    with lock.writing(), lock, lock:
        pass
    with lock.holding(), lock.changing(), lock.holding():
        pass
    assert lock.is_free


@pytest.mark.parametrize("outer", ["writing", "changing"])
@pytest.mark.parametrize("inner", ["writing", "changing"])
def test_training_within_a_training_is_an_error(outer, inner):
    lock = ModelLock()
    for _ in range(2):
        with getattr(lock, outer)(), lock.holding():
            again = getattr(lock, inner)()
            with pytest.raises(RuntimeError, match="within its own training"), again:
                pass
            with lock.holding(), lock:
                pass
        assert lock.is_free
    with lock.holding(), getattr(lock, inner)():  # not a training yet
        pass
    assert lock.is_free


def test_a_reader_may_read_again_while_a_writer_waits():
    lock = ModelLock()
    with lock:
        changed, writer = blocked(lock.changing())
        with lock:
            assert not changed.is_set()
    writer.join()
    assert lock.is_free


@pytest.mark.parametrize("stage", ["alone", "writer"])
def test_training_within_a_prediction_is_an_error_not_a_deadlock(stage):
    lock = ModelLock()
    release = hold(lock.writing()) if stage == "writer" else lambda: None
    with lock, pytest.raises(RuntimeError, match="within its own prediction"), lock.changing():
        pass
    release()
    assert lock.is_free


def test_an_error_inside_releases():
    lock = ModelLock()
    for context in (lock, lock.writing(), lock.changing()):
        with pytest.raises(KeyError), context:
            raise KeyError
    assert lock.is_free


@pytest.mark.parametrize("kind", ["read", "writing", "changing"])
def test_control_c_while_waiting(kind):
    lock = ModelLock()
    release = hold(lock if kind == "changing" else lock.changing())
    context = lock if kind == "read" else getattr(lock, kind)()
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt), context:
        pass
    release()
    assert lock.is_free
    with lock.changing():
        pass


def test_neither_side_starves():
    lock = ModelLock()
    counts = {"read": 0, "write": 0}
    stop = threading.Event()

    def turn(name, context):
        while not stop.is_set():
            with context():
                counts[name] += 1

    workers = [Worker(lambda: turn("read", lambda: lock)) for _ in range(3)]
    workers += [Worker(lambda: turn("write", lock.changing)) for _ in range(2)]
    soon(lambda: min(counts.values()) > 200)
    stop.set()
    for worker in workers:
        worker.join()
    assert lock.is_free


def test_counts_under_contention():
    lock, total, seen = ModelLock(), [0, 0], []
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def write():
        for _ in range(300):
            with lock.writing():
                a = total[0]
                with lock.holding():
                    total[0] = a + 1
                    total[1] += 1

    def read():
        for _ in range(300):
            with lock:
                seen.append(total[0] == total[1])

    try:
        workers = [Worker(write) for _ in range(4)] + [Worker(read) for _ in range(4)]
        for worker in workers:
            worker.join(60.0)
    finally:
        sys.setswitchinterval(before)
    assert total == [1200, 1200]
    assert all(seen)
    assert lock.is_free


# --------------------------------------------------------------------- models


def test_no_copy_takes_the_lock_along():
    model = osvm.LinearClassifier().partial_fit([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    with model._lock:
        twins = [copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for twin in twins:
        assert twin._lock is not model._lock
        assert twin._lock.is_free
        twin.partial_fit([[1.0, 0.0]], [0])
    assert not [name for name in vars(model) if "lock" in name]


def test_a_callback_may_use_the_model(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 3))
    y = np.arange(50) % 2
    seen = []

    def look(model, epoch):
        if hasattr(model, "t_"):
            seen.append(model.predict(X).shape)
            model.save(tmp_path / "model.osvm")
            copy.deepcopy(model)

    model = osvm.LinearClassifier(callback=look, random_state=0, epochs=3)
    model.fit(X, y).fit(X, y)
    assert len(seen) == 6
    assert model._lock.is_free


def test_a_loss_in_python_may_use_the_model_that_learns():
    class Loss:
        def value(self, y, f):
            if hasattr(model, "t_"):
                model.predict(np.eye(2))
            return max(0.0, 1.0 - y * f)

        def dloss(self, y, f):
            return -y if y * f < 1.0 else 0.0

    model = osvm.LinearClassifier(Loss())
    for _ in range(3):
        model.partial_fit(np.eye(2), [0, 1])
        model.learn_one({0: 1.0}, 0)
    assert model.t_ == 9
    assert model._lock.is_free


class Trains:
    """Of a loss or a kernel in Python: what it does when training asks it something."""

    def __init__(self):
        self.work, self.refusals = None, []

    def __call__(self):
        work, self.work = self.work, None  # once
        if work is not None:
            try:
                work()
            except RuntimeError as error:
                self.refusals.append(str(error))


def _with_loss(cls, act, **params):
    class Loss:
        def value(self, y, f):
            act()
            return 0.5 * (y - f) ** 2

        def dloss(self, y, f):
            return f - y

    return cls(loss=Loss(), **params)


def _with_kernel(cls, act, **params):
    def kernel(A, B):
        act()
        return np.asarray(A @ B.T)

    return cls(kernel=kernel, **params)


TRAINERS = {
    "LinearClassifier": lambda act: _with_loss(osvm.LinearClassifier, act),
    "LinearRegressor": lambda act: _with_loss(osvm.LinearRegressor, act, schedule="bottou"),
    "MultilabelClassifier": lambda act: _with_loss(osvm.MultilabelClassifier, act),
    "KernelClassifier": lambda act: _with_kernel(osvm.KernelClassifier, act),
    "KernelRegressor": lambda act: _with_kernel(osvm.KernelRegressor, act),
    "KernelNovelty": lambda act: _with_kernel(osvm.KernelNovelty, act),
    "SVC": lambda act: _with_kernel(osvm.SVC, act),
    "SVR": lambda act: _with_kernel(osvm.SVR, act),
    "OneClassSVM": lambda act: _with_kernel(osvm.OneClassSVM, act),
    "LinearNovelty": lambda act: osvm.LinearNovelty(callback=lambda model, epoch: act()),
}


@pytest.mark.parametrize("outer", ["fit", "partial_fit"])
@pytest.mark.parametrize("name", TRAINERS)
def test_training_within_training_is_refused_and_the_outer_one_holds(name, outer):
    """The inner result was lost without a word."""
    rng, act = np.random.default_rng(0), Trains()
    X = rng.normal(size=(40, 3))
    y = {"number": X[:, 0], "sets": [("a",) if x > 0 else ("b",) for x in X[:, 0]]}
    kind = "sets" if name.startswith("Multi") else "number"
    y = (X[:, 0] > 0).astype(int) if name.endswith(("Classifier", "SVC")) and kind != "sets" else (
        y[kind])  # fmt: skip
    given = (X,) if name.endswith(("Novelty", "OneClassSVM")) else (X, y)
    want, model = TRAINERS[name](Trains()), TRAINERS[name](act)
    if not hasattr(model, outer) or (name == "LinearNovelty" and outer == "partial_fit"):
        pytest.skip("no part of it is written by the user")
    for one in (want, model):
        if "random_state" in one.get_params():
            one.set_params(random_state=0)
    inner = ["fit", *(["partial_fit", "learn_one"] if hasattr(model, "partial_fit") else [])]
    for call in inner:
        one = ({0: 1.0},) if len(given) == 1 else ({0: 1.0}, given[1][0])

        def train(call=call, one=one):
            getattr(model, call)(*(one if call == "learn_one" else given))

        act.work = train
        getattr(model, outer)(*given)
        getattr(want, outer)(*given)
        assert act.work is None
        assert len(act.refusals) == 1, call
        assert "within its own training" in act.refusals.pop()
        assert np.array_equal(model.predict(X), want.predict(X))
        assert model._lock.is_free


def test_an_interrupted_fit_releases():
    def stop(model, epoch):
        raise KeyboardInterrupt

    model = osvm.LinearClassifier(callback=stop)
    with pytest.raises(KeyboardInterrupt):
        model.fit(np.eye(2), [0, 1])
    assert model._lock.is_free


# ---------------------------------------------------------------------- forks


def in_child(work):
    """Exit code of a child that does the work: 0, or 1 for an exception."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(int(WAIT))  # a deadlock kills it
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
quiet = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@needs_fork
@quiet
@pytest.mark.parametrize("kind", ["read", "writing"])
def test_a_child_does_not_wait_for_threads_of_its_parent(kind):
    lock = ModelLock()
    release = hold(lock if kind == "read" else lock.writing())

    def work():
        with lock.changing(), lock:
            pass
        assert lock.is_free

    assert in_child(work) == 0
    assert not lock.is_free
    release()


@needs_fork
@quiet
def test_a_child_refuses_a_model_that_was_being_changed():
    model = osvm.LinearClassifier().partial_fit(np.eye(2), [0, 1])
    release = hold(model._lock.changing())

    def work():
        for _ in range(2):
            with pytest.raises(RuntimeError, match="forked while another thread"):
                model.predict(np.eye(2))
            with pytest.raises(RuntimeError, match="forked while another thread"):
                model.learn_one({0: 1.0}, 0)

    assert in_child(work) == 0
    release()
    model.predict(np.eye(2))


@needs_fork
@quiet
def test_a_thread_that_forks_keeps_what_it_holds():
    lock = ModelLock()
    release = hold(lock)
    with lock.writing(), lock:

        def work():
            with lock:
                pass
            done, _ = blocked(lock.writing())
            assert not done.is_set()

        assert in_child(work) == 0
    release()
    assert lock.is_free
