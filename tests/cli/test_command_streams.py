"""`osvm train` on streams: order, honest figures, resumed totals."""

import gzip
import json
import subprocess

import numpy as np
import pytest

import osvm
from tests.run_command import OSVM, command


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two classes, sorted; a test set; the same rows mixed."""
    folder = tmp_path_factory.mktemp("streams")
    rng = np.random.default_rng(0)
    w = rng.normal(size=20)

    def lines(n):
        X = rng.normal(size=(n, 20))
        y = np.where(X @ w + 0.5 * rng.normal(size=n) > 0, 1, -1)
        return [
            (label, f"{label} " + " ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(x)) + "\n")
            for label, x in zip(y, X)
        ]

    train = lines(20000)
    (folder / "mixed.svm").write_text("".join(line for _, line in train))
    (folder / "sorted.svm").write_text(
        "".join(line for _, line in sorted(train, key=lambda p: p[0]))
    )
    (folder / "test.svm").write_text("".join(line for _, line in lines(2000)))
    return folder


def accuracy(folder, model):
    _, err = command("predict", folder / "test.svm", "-m", model)
    return float(err.split()[1])


def test_a_sorted_file_is_learnt(folder):
    path = folder / "m.osvm"
    flags = ("--stream", "--random-state", "0", "--reservoir", "4000", "--json")
    out, err = command("train", folder / "sorted.svm", "-m", path, *flags)
    figures = json.loads(out)
    assert figures["mode"]["order"].startswith("random order")
    found = accuracy(folder, path)
    assert found > 88
    assert abs(100 * (1 - figures["error"]) - found) < 4  # an honest figure
    assert "runs" not in err


def test_a_sorted_pipe_warns(folder):
    def train(name, *flags):
        with open(folder / name, "rb") as data:
            return subprocess.run(
                [*OSVM, "train", "-", "-m", folder / "p.osvm", "--n-features", "20", *flags],
                stdin=data, capture_output=True, check=True,
            ).stderr.decode()  # fmt: skip

    assert "labels come in runs" in train("sorted.svm")
    assert "labels come in runs" not in train("mixed.svm")
    with pytest.warns(UserWarning, match="labels come in runs"):
        command("train", folder / "sorted.svm", "-m", folder / "p.osvm", "--stream",
                "--no-shuffle", "-q")  # fmt: skip


def test_a_stream_of_one_label_warns(tmp_path):
    (tmp_path / "one.svm").write_text("".join(f"3 {k % 7 + 1}:1\n" for k in range(40)))
    for flags in (), ("--estimator", "KernelClassifier", "--gamma", "1"):
        with pytest.warns(UserWarning, match=r"one.svm: all examples have the label 3.0"):
            command("train", tmp_path / "one.svm", "-m", tmp_path / "m.osvm", "--stream", "-q",
                    *flags)  # fmt: skip


def test_later_passes_report_rows_that_were_held_out(folder):
    path = folder / "h.osvm"
    flags = ("--stream", "--epochs", "3", "--random-state", "0", "--json")
    out, err = command("train", folder / "mixed.svm", "-m", path, *flags)
    figures = json.loads(out)
    assert figures["mode"]["passes"] == 3
    assert 1500 < figures["held_out_rows"] < 2500
    assert figures["rows"] + figures["held_out_rows"] == 20000
    assert osvm.load(path).t_ == 3 * figures["rows"] == figures["examples"]
    assert abs(100 * (1 - figures["held_out_error"]) - accuracy(folder, path)) < 4
    assert err.count("pass 2: held-out error") == err.count("pass 3: held-out error") == 1
    shown = [int(line.split()[0]) for line in err.splitlines() if line.split()[0].isdigit()]
    assert max(shown) == figures["rows"]  # the table ends with the first pass
    out, _ = command("train", folder / "mixed.svm", "-m", path, *flags, "--holdout", "0", "-q")
    assert "held_out_error" not in json.loads(out)
    assert osvm.load(path).t_ == 60000


def test_a_resumed_run_reports_the_whole_of_it(folder):
    flags = [folder / "mixed.svm", "--checkpoint-every", "3000", "--random-state", "0",
             "--epochs", "2", "--reservoir", "2000", "--json", "-q"]  # fmt: skip
    whole = json.loads(command("train", *flags, "-m", folder / "w.osvm")[0])
    expected = (folder / "w.osvm").read_bytes()
    path = folder / "r.osvm"
    for stop_at in (5000, 25000):
        child = subprocess.Popen(
            [
                *OSVM,
                "train",
                *map(str, flags),
                "-m",
                path,
                *(["--resume"] if path.exists() else []),
            ],
            stdout=subprocess.DEVNULL,
        )
        while child.poll() is None:
            if path.exists() and osvm.io.read_header(path)["stream"]["n_seen"] >= stop_at:
                child.kill()
                break
        child.wait()
    out, _ = command("train", *flags, "-m", path, "--resume")
    resumed = json.loads(out)
    changing = {"seconds", "examples_per_second", "megabytes_per_second", "model"}
    for name in set(whole) - changing:
        assert resumed[name] == whole[name], name
    assert path.read_bytes() == expected
    again = json.loads(command("train", *flags, "-m", path, "--resume")[0])
    assert again["held_out_rows"] == whole["held_out_rows"]  # there was nothing left to learn


def test_threads_give_the_same_file(folder):
    """Plain, with checkpoints, in several passes, and held in memory."""
    for flags in (["--stream"], ["--checkpoint-every", "3000"], ["--epochs", "2", "--stream"], []):
        made = []
        for threads in (1, 3):
            path = folder / f"t{threads}.osvm"
            command("train", folder / "mixed.svm", "-m", path, "--random-state", "0", "-q",
                    "--threads", threads, *flags)  # fmt: skip
            made.append(path.read_bytes())
        assert made[0] == made[1], flags


def test_threads_are_refused_where_they_cannot_parse(folder, tmp_path):
    packed = tmp_path / "a.svm.gz"
    packed.write_bytes(gzip.compress((folder / "test.svm").read_bytes()))
    table = tmp_path / "a.csv"
    table.write_text("label,x\n1,2\n0,1\n")
    for path in (packed, table):
        err = command("train", path, "-m", tmp_path / "m", "--threads", "2", status=2)[1]
        assert "--threads parses plain svmlight and vw files" in err
    err = command("train", folder / "test.svm", "-m", tmp_path / "m", "--threads", "2",
                  "--stream", "--no-shuffle", status=2)[1]  # fmt: skip
    assert "--threads needs the random order" in err


def test_weights_beyond_the_memory_are_refused(tmp_path):
    """A mistaken index once ended in a run that the system killed."""
    path = tmp_path / "a.svm"
    path.write_text("1 1:1\n-1 2:1\n" * 20 + "1 999999999999:1\n")
    _, err = command("train", path, "-m", tmp_path / "m", "--stream", status=1)
    assert "999999999999 columns take 16000 GB of weights" in err
    assert "--n-features" in err
    options = "--n-features", "5", "--skip-errors"
    _, err = command("train", path, "-m", tmp_path / "m", "--stream", *options)
    assert "40 rows" in err


@pytest.mark.parametrize("order", [[], ["--no-shuffle"]])
@pytest.mark.parametrize("changed", ["shorter", "longer", "relabelled", "same"])
def test_other_data_are_not_resumed(tmp_path, changed, order):
    """A run went on with whatever the file then held, and reported it as one run."""
    path, model = tmp_path / "a.svm", tmp_path / "m.osvm"
    lines = [f"{k % 2} {1 + k % 3}:{k}\n" for k in range(4000)]
    path.write_text("".join(lines))
    flags = path, "-m", model, "--random-state", "0", "-q", *order
    command("train", *flags, "--checkpoint-every", "1000")
    if changed == "relabelled":
        lines = ["1" + line[1:] for line in lines]
    path.write_text("".join({"shorter": lines[:-1], "longer": lines * 2}.get(changed, lines)))
    err = command("train", *flags, "--resume", status=int(changed != "same"))[1]
    assert changed == "same" or "the data are not those of the checkpoint" in err
