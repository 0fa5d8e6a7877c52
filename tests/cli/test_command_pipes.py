"""The command among other commands: live pipes, closed pipes, devices, Ctrl-C."""

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import osvm
from osvm import cli
from osvm.io.archive import replacing
from tests.run_command import OSVM

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a shell and signals")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipes")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    with open(folder / "a.svm", "w") as file:
        for x in X:
            pairs = " ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(x))
            file.write(f"{1 if x.sum() > 0 else -1} {pairs}\n")
    (folder / "a.csv").write_text("label,body\n" + "good,a fine day\nbad,a grim day\n" * 50)
    cli.main(["train", str(folder / "a.svm"), "-m", str(folder / "a.osvm"), "-q"])
    text = [str(folder / "a.csv"), "--text", "body", "--bits", "12", "-m", str(folder / "t.osvm")]
    cli.main(["train", *text, "-q"])
    return folder


def shell(line, folder, **options):
    line = re.sub(r"(^|[ (])osvm ", rf"\1{' '.join(OSVM)} ", line)
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"], cwd=folder, capture_output=True, timeout=120,
        check=False, env={**os.environ, "PYTHONPATH": os.getcwd()}, **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("model", "lines"),
    [
        ("a.osvm", [b"1 1:1\n", b"-1 1:-5 2:-1\n", b"1 3:2\n"]),
        ("t.osvm", [b"label,body\ngood,fine\n", b"bad,grim\n", b'good,"fine\nday"\n']),
    ],
)
def test_each_line_is_answered_before_the_next_one_comes(folder, model, lines):
    child = subprocess.Popen(
        [*OSVM, "predict", "-", "-m", str(folder / model), "-q"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    answers = []
    for line in lines:
        child.stdin.write(line)
        child.stdin.flush()
        answers.append(child.stdout.readline())  # would wait for ever otherwise
    child.stdin.close()
    assert child.stdout.read() == b""
    assert child.wait() == 0
    child.stdout.close()
    assert len(set(answers)) == 2


@pytest.mark.parametrize(
    "line",
    [
        "osvm predict a.svm -m a.osvm -q | head -1",
        "osvm inspect a.osvm | head -1",
        "osvm convert a.svm - -q | head -1",
        "cat a.svm | osvm predict - -m a.osvm -q | tail -1",
    ],
)
def test_pipes_that_are_closed_early(folder, line):
    done = shell(line, folder)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"\n") == 1


def test_training_goes_on_when_nobody_reads_the_table(folder):
    done = shell("osvm train a.svm -m x.osvm --epochs 5 2>&1 | head -1", folder)
    assert done.returncode == 0
    assert osvm.load(folder / "x.osvm").t_ == 15000


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_an_error(folder, unbuffered, monkeypatch):
    """With a buffer, the interpreter tried once more at its end: status 120."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    for line in ("osvm predict a.svm -m a.osvm -q > /dev/full", "osvm version > /dev/full"):
        done = shell(line, folder)
        assert done.returncode == 1
        assert b"No space left on device" in done.stderr
        assert b"Traceback" not in done.stderr
        assert b"ignored" not in done.stderr


def test_devices_and_folders_are_never_replaced(folder, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (pipe, tmp_path):
        with pytest.raises(OSError, match=r"a device or pipe|a folder"), replacing(place):
            pass
        assert cli.main(["train", str(folder / "a.svm"), "-q", "-m", str(place)]) == 1
    assert os.listdir(tmp_path) == ["pipe"]
    done = shell(f"(osvm convert a.svm {pipe} --to vw -q) & head -1 {pipe}", folder)
    assert done.stdout.startswith(b"1 | 0:") or done.stdout.startswith(b"-1 | 0:")


def test_a_link_stays_a_link(folder, tmp_path):
    (tmp_path / "real.osvm").write_bytes(b"old")
    (tmp_path / "link.osvm").symlink_to("real.osvm")
    osvm.load(folder / "a.osvm").save(tmp_path / "link.osvm")
    assert (tmp_path / "link.osvm").is_symlink()
    osvm.load(tmp_path / "real.osvm")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], b"x.osvm holds what was learnt from "),
        (["--checkpoint-every", "1000"], b"x.osvm holds the last checkpoint"),
    ],
)
def test_interrupt(tmp_path, flags, message):
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from osvm.cli import main; sys.exit(main())"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, "train", "-", "-m", tmp_path / "x.osvm", "--n-features", "3",
         *flags],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    child.stdin.write(b"1 1:1\n-1 2:1\n" * 5000)
    child.stdin.flush()
    for line in child.stderr:
        if line.split()[:1] == [b"4096"]:  # it has learnt a batch
            break
    child.stdin.write(b"1 1:1\n-1 2:1\n" * 5000)
    child.stdin.flush()
    child.stderr.readline()
    child.send_signal(signal.SIGINT)
    rest = child.stderr.read()
    child.stdin.close()
    child.stderr.close()
    assert child.wait() == 130
    assert message in rest
    assert b"Traceback" not in rest
    assert osvm.load(tmp_path / "x.osvm").t_ >= 4096


def test_closed_streams(folder):
    done = shell("osvm predict - -m a.osvm <&-", folder)
    assert (done.returncode, done.stderr) == (1, b"osvm predict: standard input is closed\n")
    assert shell("osvm predict a.svm -m a.osvm -q >&-", folder).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["predict", "a.svm", "-m", "no.osvm"], 1, "predict: no.osvm: No such file or dir"),
        (["train", "a.csv", "-m", "x"], 1, "name columns of text with text (--text)"),
        (["train", "c.csv", "-m", "x"], 1, "name the label's with --label, or pass --unlabelled"),
        (["train", "a.svm", "-m", "x", "--checkpoint-every", "0"], 2, "less than 1"),
        (["train", "a.svm", "-m", "x", "--memory-mb", "-1"], 2, "negative"),
        (["train", "a.svm", "-m", "x", "--stream", "--epochs", "0"], 1, "epochs must be"),
        (["evaluate", "a.svm", "--window", "0"], 2, "less than 1"),
        (["train", "a.svm", "-m", "x", "--estimator", "SVC", "--solver", "ol_svm",
          "--stream"], 1, "learns a fixed training set"),
        (["train", "huge.svm", "-m", "x", "--dtype", "float64"], 1, "row"),
        (["train", "sets.svm", "-m", "x"], 1, "(--multilabel)"),
    ],
)  # fmt: skip
def test_what_a_user_stumbles_over(folder, arguments, status, message, monkeypatch, capsys):
    (folder / "c.csv").write_text("a,b\n1,2\n")
    (folder / "huge.svm").write_text("1 1:1e300\n-1 1:-1e307 2:1e308\n" * 5)
    (folder / "sets.svm").write_text("1,2 1:1\n3 2:1\n")
    monkeypatch.chdir(folder)
    if status == 2:
        with pytest.raises(SystemExit, match="2"):
            cli.main([*arguments, "-q"])
    else:
        assert cli.main([*arguments, "-q"]) == status
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) == status  # the usage, and the message


def test_the_words_of_a_pipe_are_known(folder, tmp_path, capsys):
    data = (folder / "a.csv").read_bytes()
    path = tmp_path / "p.osvm"
    done = subprocess.run(
        [*OSVM, "train", "-", "--format", "csv", "--text", "body", "-q", "-m", path],
        input=data, check=True,
    )  # fmt: skip
    assert done.returncode == 0
    assert cli.main(["inspect", str(path)]) == 0
    assert "  fine\n" in capsys.readouterr().out


def test_regression_is_measured_as_such(tmp_path, capsys):
    (tmp_path / "r.csv").write_text("label,x\n" + "1.5,0.5\n3,1\n" * 20)
    data = str(tmp_path / "r.csv")
    assert cli.main(["evaluate", data, "--estimator", "LinearRegressor", "--json", "-q"]) == 0
    assert '"squared_error"' in capsys.readouterr().out
    assert cli.main(["evaluate", data, "--estimator", "LinearNovelty", "--json", "-q"]) == 0


def test_text_labels_in_a_shuffled_checkpoint(folder, tmp_path):
    """The reservoir holds labels of any kind."""
    flags = ["--text", "body", "--bits", "10", "--shuffle", "--reservoir", "30",
             "--random-state", "1", "--checkpoint-every", "20", "-q"]  # fmt: skip
    for name, more in (("a", []), ("b", ["--unlabelled", "--estimator", "LinearNovelty"])):
        model = str(tmp_path / f"{name}.osvm")
        assert cli.main(["train", str(folder / "a.csv"), "-m", model, *flags, *more]) == 0
        assert osvm.load(model).t_ == 100
        assert (
            cli.main(["train", str(folder / "a.csv"), "-m", model, *flags, *more, "--resume"]) == 0
        )
