"""Label sets through the command: svmlight, text, CSV, JSON lines, Parquet."""

import json

import numpy as np
import pytest

import osvm
from osvm.stream import read
from tests.run_command import command, process


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    rng = np.random.default_rng(0)
    with open(folder / "a.svm", "w") as file:
        for _ in range(400):
            x = rng.normal(size=6)
            labels = [k + 1 for k in range(3) if x[k] > 0.5]
            pairs = " ".join(f"{j + 1}:{v:.4f}" for j, v in enumerate(x))
            file.write(",".join(map(str, labels)) + f" {pairs}\n")
    rows = [
        ("tea;milk", "a cup of tea with milk"),
        ("milk", "a cup of milk"),
        ("tea", "green tea"),
        ("", "nothing at all"),
    ] * 30
    (folder / "t.txt").write_text("".join(f"{y}\t{text}\n" for y, text in rows))
    (folder / "t.csv").write_text("topics,body\n" + "".join(f"{y},{text}\n" for y, text in rows))
    (folder / "t.jsonl").write_text(
        "".join(
            json.dumps({"topics": [w for w in y.split(";") if w], "body": text}) + "\n"
            for y, text in rows
        )
    )
    return folder


@pytest.mark.parametrize("way", [[], ["--stream", "--shuffle", "--checkpoint-every", "100"]])
def test_svmlight(folder, way):
    path = folder / "a.osvm"
    out, err = command(
        "train", folder / "a.svm", "-m", path, "--multilabel", "--random-state", 0, *way
    )
    assert "MultilabelClassifier" in err
    model = osvm.load(path)
    assert model.classes_.tolist() == [1, 2, 3]
    out, err = command("predict", folder / "a.svm", "-m", path)
    X, y = next(read(folder / "a.svm", multilabel=True))
    found = model.predict_labels(X)
    assert out == "".join(",".join(f"{v:.0f}" for v in row) + "\n" for row in found)
    exact = sum(a == b for a, b in zip(found, y))
    assert f"({exact} of 400 label sets), micro F1 0." in err
    out, _ = command("predict", folder / "a.svm", "-m", path, "--json", "-q")
    assert [tuple(json.loads(line)) for line in out.splitlines()] == found
    out, _ = command("predict", folder / "a.svm", "-m", path, "--scores", "-q")
    assert np.loadtxt(out.splitlines()).shape == (400, 3)
    out, _ = command("inspect", path)
    assert "largest weights for 3.0" in out


def test_resumed_shuffled_label_sets_end_with_the_same_bytes(folder, tmp_path):
    """The reservoir holds label sets and is part of the checkpoint."""
    data = tmp_path / "a.svm"
    data.write_bytes((folder / "a.svm").read_bytes() * 5)
    flags = ["train", data, "--multilabel", "--shuffle", "--reservoir", "500", "-q",
             "--checkpoint-every", "300", "--random-state", "1"]  # fmt: skip
    command(*flags, "-m", tmp_path / "whole.osvm")
    blocks = osvm.stream.BlockReader(read(data, multilabel=True), random_state=1)
    reader = osvm.stream.ShuffledReader(blocks, size=500, random_state=1)
    model = osvm.MultilabelClassifier(shuffle=True, random_state=1)
    run = osvm.checkpoint(model, tmp_path / "m.osvm", every=300, input=reader.config())
    for k, (X, y) in enumerate(run.stream(reader)):
        if k == 3:
            break
        model.partial_fit(X, y, classes=blocks.reader.labels)
    command(*flags, "-m", tmp_path / "m.osvm", "--resume")
    first, second = osvm.load(tmp_path / "whole.osvm"), osvm.load(tmp_path / "m.osvm")
    np.testing.assert_array_equal(first.coef_, second.coef_)


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("t.txt", ["--format", "text"]),
        ("t.csv", ["--text", "body", "--label", "topics"]),
        ("t.jsonl", ["--text", "body", "--label", "topics"]),
    ],
)
def test_text(folder, name, flags):
    path = folder / "t.osvm"
    command(
        "train", folder / name, *flags, "-m", path, "--multilabel", "--label-separator", ";",
        "-q", "--epochs", 30, "--random-state", 0,
    )  # fmt: skip
    assert osvm.load(path).classes_.tolist() == ["milk", "tea"]
    out, err = command("predict", folder / name, "-m", path)
    assert out.splitlines()[:4] == ["milk,tea", "milk", "tea", ""]
    assert "accuracy 100.00 %" in err


def test_evaluate_counts_labels(folder):
    out, _ = command("evaluate", folder / "a.svm", "--multilabel", "--json", "-q")
    assert 0 < json.loads(out)["metrics"]["error"] < 0.3
    err = command("evaluate", folder / "a.svm", "--multilabel", "--metrics", "accuracy", status=1)[
        1
    ]
    assert "measured by loss and error" in err


def test_convert(folder):
    flags = ["--multilabel", "-q"]
    command("convert", folder / "a.svm", folder / "b.svm", *flags)
    first, second = (next(read(folder / n, multilabel=True)) for n in ("a.svm", "b.svm"))
    assert first[1] == second[1]
    np.testing.assert_array_equal(first[0].toarray(), second[0].toarray())
    command("convert", folder / "a.svm", folder / "c.csv", *flags)
    _, y = next(read(folder / "c.csv", label_separator=",", label_type="float"))
    assert y == first[1]
    err = command("convert", folder / "a.svm", folder / "c.vw", *flags, status=1)[1]
    assert "one label" in err
    out, _ = process(
        "convert", "-", "-", *flags, "--n-features", 3, stdin=b" 1:1\n 2:0\n2,3 2:1\n"
    )
    assert out == " 1:1\n 2:0\n2,3 2:1\n"


def test_convert_to_parquet(folder):
    pytest.importorskip("pyarrow")
    command("convert", folder / "a.svm", folder / "d.parquet", "--multilabel", "-q")
    _, y = next(read(folder / "d.parquet", multilabel=True))
    assert y == next(read(folder / "a.svm", multilabel=True))[1]
    command("train", folder / "d.parquet", "--multilabel", "-m", folder / "d.osvm", "-q")
    _, err = command("predict", folder / "d.parquet", "-m", folder / "d.osvm")
    assert "label sets" in err
    err = command("train", folder / "d.parquet", "-m", folder / "d.osvm", status=1)[1]
    assert "multilabel" in err
    names = ["--text", "body", "--label", "topics", "--label-separator", ";"]
    command("convert", folder / "t.csv", folder / "e.parquet", "--multilabel", "-q", *names)
    _, y = next(read(folder / "e.parquet", multilabel=True))
    assert y[:4] == [("tea", "milk"), ("milk",), ("tea",), ()]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--multilabel", "--estimator", "KernelClassifier"], "is learnt by MultilabelClassifier"),
        (["--multilabel", "--format", "vw"], "one label"),
        (["--label-separator", ";"], "goes with --multilabel"),
    ],
)
def test_wrong_usage(folder, flags, message):
    assert message in command("train", folder / "a.svm", "-m", folder / "x", *flags, status=2)[1]


def test_label_sets_without_the_flag(folder):
    err = command("train", folder / "a.svm", "-m", folder / "x", status=1)[1]
    assert "--multilabel" in err or "multilabel" in err
