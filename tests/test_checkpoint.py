"""Checkpoints: interrupted anywhere, the run ends with the same bytes."""

import io
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
    dead = tmp_path / ".m.osvm.999999999.0123abcd.tmp"
    alive = tmp_path / f".m.osvm.{os.getppid()}.0123abcd.tmp"
    other = tmp_path / ".other.osvm.999999999.0123abcd.tmp"
    for leftover in (dead, alive, other):
        leftover.write_bytes(b"x")
    osvm.checkpoint(osvm.LinearClassifier(), path)
    assert not dead.exists()
    assert alive.exists()
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


def kill_and_resume(kills, tmp_path, seed):
    """Start, kill at a random moment, start again ...; the final bytes each time it ends."""
    rng = np.random.default_rng(seed)
    source = tmp_path / "data.svm"
    source.write_bytes(lines(6000, 1))
    command = [sys.executable, "-c", CHILD, str(source)]
    environment = {**os.environ, "OSVM_NO_SKLEARN": "1"}
    subprocess.run([*command, str(tmp_path / "whole.osvm")], check=True, env=environment)
    expected = (tmp_path / "whole.osvm").read_bytes()
    path = tmp_path / "killed.osvm"
    done = 0
    while True:
        child = subprocess.Popen([*command, str(path)], stdout=subprocess.PIPE, env=environment)
        child.stdout.readline()
        if done < kills:
            time.sleep(rng.random() * 0.25)
            child.send_signal(signal.SIGKILL)
        code = child.wait()
        child.stdout.close()
        if code == 0:
            assert path.read_bytes() == expected
            path.unlink()
            if done >= kills:
                break
        else:
            assert code == -signal.SIGKILL
            done += 1
            if path.exists():
                osvm.load(path)  # never a broken one
    return done


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_killed_runs_end_with_the_same_bytes(tmp_path):
    assert kill_and_resume(2, tmp_path, 0) == 2


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_fifty_kills(tmp_path):
    """After every single kill the run is taken to its end and compared."""
    for k in range(50):
        folder = tmp_path / str(k)
        folder.mkdir()
        assert kill_and_resume(1, folder, k) == 1
