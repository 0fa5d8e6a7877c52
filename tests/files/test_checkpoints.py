"""Checkpoints: interrupted anywhere, the run ends with the same bytes."""

import io
import itertools
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import osvm
from osvm.io import ModelFileError
from osvm.stream import ShuffledReader, SvmlightReader

pytest.importorskip("osvm.linear")


def lines(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=40)
    out = []
    for _ in range(n):
        columns = np.sort(rng.choice(40, 6, replace=False))
        values = rng.normal(size=6)
        label = 1 if values @ w[columns] > 0 else -1
        out.append(f"{label} " + " ".join(f"{j + 1}:{v:.4f}" for j, v in zip(columns, values)))
    return "\n".join(out).encode() + b"\n"


DATA = lines()


def open_reader(data=DATA):
    inner = SvmlightReader(io.BytesIO(data), batch_size=64)
    return ShuffledReader(inner, size=500, random_state=5)


def run(path, stop_after=None, every=200, epochs=2):
    model = osvm.LinearClassifier(average=True, random_state=1)
    saved = osvm.checkpoint(model, path, every=every)
    for k, (X, y) in enumerate(saved.stream(open_reader(), epochs=epochs)):
        if k == stop_after:
            return saved
        model.partial_fit(X, y, classes=[-1.0, 1.0])
    return saved


def test_interrupted_runs_end_with_the_same_bytes(tmp_path):
    run(tmp_path / "whole.osvm")
    expected = (tmp_path / "whole.osvm").read_bytes()
    for stop_after in (0, 1, 7, 30, 60, 93):
        path = tmp_path / f"{stop_after}.osvm"
        run(path, stop_after)
        resumed = run(path)
        assert resumed.n_seen == 6000
        assert path.read_bytes() == expected
        assert resumed.resumed == (stop_after > 1)
    # a finished run has nothing left to do
    again = run(path)
    assert again.finished
    assert path.read_bytes() == expected


def test_resume_needs_the_same_parameters(tmp_path):
    path = tmp_path / "m.osvm"
    run(path, 30)
    with pytest.raises(ModelFileError, match="trained with average=True, not False"):
        osvm.checkpoint(osvm.LinearClassifier(random_state=1), path)
    with pytest.raises(ModelFileError, match="not a LinearRegressor"):
        osvm.checkpoint(osvm.LinearRegressor(), path)
    model = osvm.LinearClassifier(random_state=1).fit([[1.0], [0.0]], [0, 1])
    model.save(path)
    with pytest.raises(ModelFileError, match="without the place of a stream"):
        osvm.checkpoint(model, path)
    assert not osvm.checkpoint(model, path, resume=False).resumed


def test_leftovers_of_killed_writers_are_removed(tmp_path):
    path = tmp_path / "m.osvm"
    dead = tmp_path / ".m.osvm.0123456789abcdef.tmp"
    other = tmp_path / ".other.osvm.0123456789abcdef.tmp"
    for leftover in (dead, other):
        leftover.write_bytes(b"x")
    osvm.checkpoint(osvm.LinearClassifier(), path)
    assert not dead.exists()
    assert other.exists()


CHILD = """
import sys, time
import osvm, osvm.stream
source, path = sys.argv[1:]
reader = osvm.stream.ShuffledReader(
    osvm.stream.read(source, "svmlight", batch_size=64), size=500, random_state=5)
model = osvm.LinearClassifier(average=True, random_state=1)
run = osvm.checkpoint(model, path, every=64)
print("go", flush=True)
for X, y in run.stream(reader, epochs=2):
    model.partial_fit(X, y, classes=[-1.0, 1.0])
"""


def start(path, source):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(source), str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "OSVM_NO_SKLEARN": "1"},
    )


def finish(child):
    """Wait for its end; its exit status."""
    child.stdout.read()
    child.stdout.close()
    return child.wait()


def kill_and_resume(kills, tmp_path):
    """Kill a run at a random moment, take it to its end, compare; `kills` times.

    Returns the examples that each run had saved when it was killed.
    """
    rng = np.random.default_rng(0)
    source = tmp_path / "data.svm"
    source.write_bytes(lines(3000, 1))
    child = start(tmp_path / "whole.osvm", source)
    child.stdout.readline()
    began = time.perf_counter()
    assert finish(child) == 0
    duration = time.perf_counter() - began
    expected = (tmp_path / "whole.osvm").read_bytes()
    path = tmp_path / "killed.osvm"
    done, held = 0, []
    while done < kills:
        child = start(path, source)
        child.stdout.readline()
        time.sleep(rng.random() * duration)
        child.send_signal(signal.SIGKILL)
        code = finish(child)
        if code == 0:  # it was quicker than the signal: not a kill
            assert path.read_bytes() == expected
            path.unlink()
            continue
        assert code == -signal.SIGKILL
        done += 1
        held.append(0)
        if path.exists():
            osvm.load(path)  # never a broken one
            held[-1] = osvm.io.read_header(path)["stream"]["n_seen"]
        assert finish(start(path, source)) == 0
        assert path.read_bytes() == expected
        assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]
        path.unlink()
    return held


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_killed_runs_end_with_the_same_bytes(tmp_path):
    assert len(kill_and_resume(2, tmp_path)) == 2


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_fifty_kills(tmp_path):
    """After every single kill the run is taken to its end and compared."""
    held = kill_and_resume(50, tmp_path)
    assert len(held) == 50
    assert len(set(held)) > 10  # the moments were spread over the run


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
def test_killed_within_a_save(tmp_path, call):
    """Killed right before or right after one system call of a save, not at a lucky moment."""
    run(tmp_path / "whole.osvm")
    expected = (tmp_path / "whole.osvm").read_bytes()
    for at, before in ((1, True), (2, False), (3, True), (7, False)):
        path = tmp_path / f"{at}.osvm"
        child = os.fork()
        if child == 0:
            try:
                _kill_at(call, at, before)
                run(path)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        if path.exists():
            osvm.load(path)
        run(path)
        assert path.read_bytes() == expected
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def _kill_at(name, at, before):
    """Let this process die at call number `at` of a function of `os`."""
    real, count = getattr(os, name), itertools.count(1)

    def call(*args, **kwargs):
        mine = next(count) == at
        if mine and before:
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*args, **kwargs)
        if mine:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(os, name, call)


@pytest.mark.parametrize("every", [100, 300])
def test_a_checkpoint_is_written_as_soon_as_enough_was_learnt(every, tmp_path):
    """With `every` a multiple of the batch it was due one batch late, if > stood for >=."""
    lines = b"1 1:1\n-1 2:1\n" * 500
    reader = osvm.stream.read(io.BytesIO(lines), "svmlight", batch_size=100)
    model = osvm.LinearClassifier(random_state=0)
    run = osvm.checkpoint(model, tmp_path / "m.osvm", every=every)
    saved = []
    for X, y in run.stream(reader):
        saved.append(run._saved_at)
        model.partial_fit(X, y)
    learnt = range(0, 1000, 100)
    assert saved == [n // every * every for n in learnt]
    again = osvm.checkpoint(osvm.LinearClassifier(random_state=0), tmp_path / "m.osvm")
    assert (again.n_seen, again.finished) == (1000, True)
