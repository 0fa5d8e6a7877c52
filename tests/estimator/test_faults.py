"""Faults of the system: full disks, denied writes, interrupts, no memory.

Each runs in a process of its own, which is limited or interrupted; a process that does not end
is killed and fails the test.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from saved_models import DENSE, Y, fingerprint, learn

import osvm
from osvm import recipes, stream
from osvm.io.archive import ModelFileError, remove_leftovers

if sys.platform != "linux":
    pytest.skip("processes are forked and limited", allow_module_level=True)

import resource


def apart(function, seconds=120):
    """What `function` returns as text, in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        told = "error in the harness"
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(seconds)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                told = function()
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        finally:
            os.write(write, told.encode()[:60000])
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        told = file.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"killed by signal {os.WTERMSIG(status)}"
    return told


# ------------------------------------------------------------------ Ctrl-C

N = 5000
BIG = np.random.default_rng(0).normal(size=(N, 30))
LABELS = (BIG[:, 0] > 0).astype(int)
SETS = np.stack([LABELS, BIG[:, 1] > 0], axis=1).astype(int)
FOREVER = 10**7


def _search():
    model = osvm.LinearClassifier(schedule="inverse_time", shuffle=False)
    while True:
        osvm.model_selection.one_pass_search(model, BIG, LABELS, {"reg": [0.1, 0.2, 0.3]})


def _stream():
    model = osvm.LinearClassifier()
    while True:
        model.partial_fit(BIG, LABELS)


def _scores():
    model = osvm.KernelClassifier(budget=500, gamma=0.1).fit(BIG[:600], LABELS[:600])
    while True:
        model.decision_function(BIG)


# Calls that take hours: an estimator and its targets, or a function.
LONG = {
    "linear": (lambda: osvm.LinearClassifier(epochs=FOREVER), LABELS),
    "linear classes": (lambda: osvm.LinearClassifier(epochs=FOREVER), np.arange(N) % 7),
    "linear batches": (lambda: osvm.LinearClassifier(epochs=FOREVER, batch_size=100), LABELS),
    "linear smd": (lambda: osvm.LinearClassifier(epochs=FOREVER, schedule="smd"), LABELS),
    "linear average": (lambda: osvm.LinearClassifier(epochs=FOREVER, average=True), LABELS),
    "regressor": (lambda: osvm.LinearRegressor(epochs=FOREVER), BIG[:, 0]),
    "novelty": (lambda: osvm.LinearNovelty(epochs=FOREVER), None),
    "label sets": (lambda: osvm.MultilabelClassifier(epochs=FOREVER), SETS),
    "kernel": (lambda: osvm.KernelClassifier(epochs=FOREVER, budget=99, gamma=0.1), LABELS),
    "recipe ol_svm": (lambda: recipes.ol_svm(max_iter=FOREVER, gamma=0.1), LABELS),
    "one_pass_search": (None, _search),
    "partial_fit": (None, _stream),
    "kernel scores": (None, _scores),
}


@pytest.mark.parametrize("name", LONG)
def test_control_c_ends_a_long_call(name):
    def run():
        make, y = LONG[name]
        model = None if make is None else make()
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            if model is None:
                y()
            elif y is None:
                model.fit(BIG)
            else:
                model.fit(BIG, y)
        except KeyboardInterrupt:
            # what was learnt by then, or what was there before: a usable model
            if model is None or "t_" not in model.__dict__:
                return "stopped"
            found = getattr(model, "decision_function", model.predict)(BIG)
            return "stopped" if np.isfinite(found).all() else "the scores are not finite"
        return "it ended by itself"

    assert apart(run) == "stopped"


# ------------------------------------------------------------------ files


def _wide_model(d=100_000):
    rows = np.random.default_rng(1).normal(size=(6, d))
    return osvm.LinearClassifier(random_state=0).fit(rows, [0, 1] * 3)


def _limit_files(size):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_full_disk_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "model.osvm"
    old = learn(osvm.LinearClassifier(random_state=0), "binary")
    old.save(path)

    def run():
        model = _wide_model()
        _limit_files(100_000)
        model.save(path)
        return "no error"

    told = apart(run)
    assert told.startswith("OSError")
    assert "File too large" in told
    assert fingerprint(osvm.load(path)) == fingerprint(old)
    assert os.listdir(tmp_path) == ["model.osvm"]


def test_a_full_disk_ends_a_checkpointed_stream_and_it_can_be_resumed(tmp_path):
    path = tmp_path / "model.osvm"

    def run():
        model = osvm.LinearClassifier(random_state=0)
        steps = osvm.checkpoint(model, path, every=10)
        rows = np.random.default_rng(0).normal(size=(60, 20_000))
        y = np.arange(60) % 2
        for k, (X, t) in enumerate(steps.stream([(rows[i : i + 10], y[i : i + 10])
                                                 for i in range(0, 60, 10)])):  # fmt: skip
            if k == 3:
                _limit_files(50_000)
            model.partial_fit(X, t)
        return "no error"

    assert apart(run).startswith("OSError")
    again = osvm.checkpoint(osvm.LinearClassifier(random_state=0), path, every=10)
    assert again.resumed
    assert again.n_seen == again.model.t_ == 30
    assert os.listdir(tmp_path) == ["model.osvm"]


def test_a_folder_that_denies_writing():
    folder = Path(tempfile.mkdtemp())  # another user comes as far as here
    path = folder / "model.osvm"
    try:
        model = learn(osvm.LinearClassifier(random_state=0), "binary")
        model.save(path)
        before = path.read_bytes()
        folder.chmod(0o555)

        def run():
            if os.geteuid() == 0:
                os.setuid(65534)
            model.save(path)
            return "no error"

        assert apart(run).startswith("PermissionError")
        assert path.read_bytes() == before
        assert os.listdir(folder) == ["model.osvm"]
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_two_writers_of_one_file_leave_a_whole_one(tmp_path):
    path = tmp_path / "model.osvm"
    models = [_wide_model(20_000), learn(osvm.LinearClassifier(random_state=0), "binary")]
    states = {fingerprint(model) for model in models}
    children = []
    for model in models * 2:
        child = os.fork()
        if child == 0:
            for _ in range(30):
                model.save(path)
            os._exit(0)
        children.append(child)
    for _ in range(40):
        if path.exists():
            assert fingerprint(osvm.load(path)) in states
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    assert fingerprint(osvm.load(path)) in states
    assert os.listdir(tmp_path) == ["model.osvm"]


def test_a_thread_that_saves_leaves_the_new_file_of_another(tmp_path, monkeypatch):
    """It was taken for what a killed writer had left, for a moment after it was made."""
    path, opened = tmp_path / "model.osvm", os.open

    def open_while_another_saves(name, flags, *args, **kwargs):
        handle = opened(name, flags, *args, **kwargs)
        if flags & os.O_CREAT:
            remove_leftovers(path)
        return handle

    monkeypatch.setattr(os, "open", open_while_another_saves)
    model = learn(osvm.LinearClassifier(random_state=0), "binary")
    model.save(path)
    assert fingerprint(osvm.load(path)) == fingerprint(model)


@pytest.mark.skipif(os.name != "posix", reason="locks of files")
def test_a_writer_in_another_container_keeps_its_new_file(tmp_path, monkeypatch):
    """Its process has a number that means nothing here: it was taken for a killed one."""
    path = tmp_path / "model.osvm"
    script = "import sys\nfrom osvm.io.archive import replacing\n"
    script += "with replacing(sys.argv[1]) as file:\n    file.write(b'mine'); file.flush()\n"
    script += "    print('open', flush=True); sys.stdin.readline()\n"
    child = subprocess.Popen(
        [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout.readline() == b"open\n"

    def no_such_process(pid, signal):
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", no_such_process)
    learn(osvm.LinearClassifier(random_state=0), "binary").save(path)
    assert len(os.listdir(tmp_path)) == 2
    child.communicate(b"\n")
    assert child.returncode == 0
    assert path.read_bytes() == b"mine"
    assert os.listdir(tmp_path) == ["model.osvm"]


def test_a_folder_in_the_place_of_a_model_is_refused(tmp_path):
    model = learn(osvm.LinearClassifier(random_state=0), "binary")
    with pytest.raises(OSError, match="folder"):
        model.save(tmp_path)
    with pytest.raises((OSError, ModelFileError)):
        osvm.load(tmp_path)


# ------------------------------------------------------------------ memory


def _limit_memory(extra):
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + extra, used + extra))


def _grow(model, blocks):
    """Learn until memory ends; "as before" when the block that failed changed nothing."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (150 << 20), hard))
    for n, block in enumerate(blocks):
        before = model.__dict__.get("t_", 0)
        try:
            model.partial_fit(*block)
        except MemoryError:
            after = model.__dict__.get("t_", 0)
        else:
            continue
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        answers = model.decision_function(block[0][:2])
        model.partial_fit(block[0][:2], block[1][:2])  # it goes on
        good = n > 0 and after == before and model.t_ == before + 2
        if good and np.isfinite(answers).all():
            return "as before"
        return f"block {n}: t_ {before} -> {after}, then {model.t_}; {answers}"
    return "memory was enough"


def test_no_memory_for_more_support_vectors():
    def run():
        rng = np.random.default_rng(0)
        blocks = ((rng.normal(size=(500, 2000)), np.arange(500) % 2) for _ in range(200))
        return _grow(osvm.KernelClassifier(budget=None, gamma=1.0), blocks)

    assert apart(run) == "as before"


def test_no_memory_for_more_labels():
    def run():
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(4, 400_000))
        blocks = ((rows, np.arange(4) + 4 * k) for k in range(200))
        return _grow(osvm.LinearClassifier(schedule="bottou"), blocks)

    assert apart(run) == "as before"


def test_no_memory_for_more_label_sets():
    def run():
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(4, 400_000))
        blocks = ((rows, [(4 * k + j,) for j in range(4)]) for k in range(200))
        return _grow(osvm.MultilabelClassifier(schedule="bottou"), blocks)

    assert apart(run) == "as before"


def test_a_long_line_ends_at_its_limit_not_at_that_of_memory(tmp_path):
    path = tmp_path / "long.svm"
    with open(path, "wb") as file:
        file.seek(1 << 30)  # a gibibyte of NUL bytes, without a line's end
        file.write(b"\n")

    def run():
        _limit_memory(400 << 20)
        for _ in stream.read(path, "svmlight", n_features=3):
            pass
        return "no error"

    assert "longer than max_line" in apart(run)


def test_predictions_after_threads_and_a_fork():
    """A forked child uses a model that threads of its parent were reading."""
    model = learn(osvm.LinearClassifier(random_state=0), "multi")
    want = model.predict(DENSE)
    stop = threading.Event()

    def read():
        while not stop.is_set():
            model.predict(DENSE)

    def use():
        right = np.array_equal(model.predict(DENSE), want)
        return str(right and model.partial_fit(DENSE, Y["multi"]) is model)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            told = apart(use)
            assert told == "True"
    finally:
        stop.set()
        for thread in threads:
            thread.join()
