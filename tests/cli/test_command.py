"""The command: train, predict, evaluate, inspect, convert."""

import gzip
import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest

import osvm
from osvm import cli
from osvm.cli import estimators
from osvm.stream import HashingTokenizer
from tests.run_command import OSVM, command, process

pytest.importorskip("osvm.linear")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of all sorts about the same sort of problem."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    w = rng.normal(size=50)
    for name, n in (("train", 2000), ("test", 500)):
        lines = []
        for _ in range(n):
            j = np.sort(rng.choice(50, 8, replace=False))
            v = rng.normal(size=8)
            y = 1 if v @ w[j] > 0 else -1
            lines.append(f"{y} " + " ".join(f"{a + 1}:{b:.4f}" for a, b in zip(j, v)))
        (folder / f"{name}.svm").write_text("\n".join(lines) + "\n")
    good, bad = ["good", "great", "superb", "lovely"], ["bad", "awful", "boring", "dull"]
    plain = ["the", "film", "was", "a", "story,", "with", "actors", "and", "music"]
    with open(folder / "reviews.csv", "w") as file:
        file.write("id,body,stars\n")
        for k in range(600):
            words = rng.choice(plain, 6).tolist()
            stars = int(rng.integers(1, 6))
            words += rng.choice(good if stars > 3 else bad if stars < 3 else ["so-so"], 2).tolist()
            file.write(f'{k},"{" ".join(words)}",{stars}\n')
    return folder


def train(folder, *arguments, name="m.osvm"):
    path = folder / name
    command("train", folder / "train.svm", "-m", path, "-q", *arguments)
    return path


def test_train_and_predict(folder):
    path = folder / "a.osvm"
    out, err = process(
        "train", folder / "train.svm", "-m", path, "--random-state", 1, "--epochs", 5
    )
    assert out == ""
    lines = err.splitlines()
    assert lines[0].split()[:2] == ["examples", "average"]
    shown = [int(line.split()[0]) for line in lines[2:] if line.split()[0].isdigit()]
    assert shown == [2**k for k in range(11)]  # the first pass only
    assert "LinearClassifier: 10000 examples" in lines[-5]
    assert lines[-4] == "held in memory: 2000 rows, 5 passes in random order"
    assert lines[-3].startswith("progressive, first pass (1024 examples, each predicted before")
    assert lines[-2].startswith("training error ")
    assert lines[-1] == f"saved {path}"
    out, err = process("predict", folder / "test.svm", "-m", path)
    predictions = out.split()
    assert len(predictions) == 500
    assert set(predictions) == {"1", "-1"}
    accuracy = float(err.split()[1])
    assert accuracy > 90
    # the same as in Python
    from osvm.stream import read

    X, y = next(read(folder / "train.svm"))
    Z, t = next(read(folder / "test.svm", n_features=X.shape[1]))
    model = osvm.LinearClassifier(random_state=1, epochs=5).fit(X, y)
    assert [float(p) for p in predictions] == model.predict(Z).tolist()
    assert accuracy == pytest.approx(100 * np.mean(model.predict(Z) == t))
    scores, _ = command("predict", folder / "test.svm", "-m", path, "--scores", "-q")
    np.testing.assert_allclose(
        [float(s) for s in scores.split()], model.decision_function(Z), rtol=1e-6
    )


def test_streaming_table_and_summary(folder):
    _, err = command("train", folder / "train.svm", "-m", folder / "b.osvm", "--stream")
    rows = [line.split() for line in err.splitlines()[2:-4]]
    assert [int(row[0]) for row in rows] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2000]
    assert all(len(row) == 6 for row in rows)
    assert 0 < float(rows[-1][3]) < 20
    summary = err.splitlines()[-4:]
    assert "MB/s" in summary[0]
    assert summary[1].startswith("streamed: 2000 rows, 1 pass in random order (blocks of the file")
    assert summary[2].startswith("progressive, first pass (2000 examples, each predicted before")
    assert summary[2].endswith(f"error {rows[-1][3]} %")


def test_pipe(folder):
    data = (folder / "train.svm").read_bytes()
    for stdin in (data, gzip.compress(data)):
        process("train", "-", "-m", folder / "p.osvm", "-q", stdin=stdin)
        model = osvm.load(folder / "p.osvm")
        assert model.t_ == 2000
        out, err = process("predict", "-", "-m", folder / "p.osvm", stdin=stdin)
        assert len(out.split()) == 2000
        assert float(err.split()[1]) > 90
    same = train(folder, "--stream", "--no-shuffle", "--n-features", 1 << 20, name="q.osvm")
    assert osvm.load(same).coef_.tolist() == model.coef_.tolist()


def test_predictions_stream_while_data_come(folder):
    path = train(folder)
    child = subprocess.Popen(
        [*OSVM, "predict", "-", "-m", str(path), "-q"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    out, _ = child.communicate((folder / "test.svm").read_bytes())
    assert child.returncode == 0
    assert out.count(b"\n") == 500
    # a reader that has seen enough is no error
    pipe = f"{' '.join(OSVM)} predict {folder}/test.svm -m {path} -q | head -3"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {pipe}"], capture_output=True, check=False
    )
    assert done.stdout.count(b"\n") == 3
    assert done.stderr == b""


def test_text_from_a_csv_is_enough(folder):
    path = folder / "reviews.osvm"
    command("train", folder / "reviews.csv", "--text", "body", "--label", "stars", "-m", path)
    _, err = command("predict", folder / "reviews.csv", "-m", path)
    assert float(err.split()[1]) > 50  # five stars of which some share their words
    unlabelled = folder / "new.csv"
    unlabelled.write_text("body\na superb and great film\nan awful and dull film\n")
    out, err = command("predict", unlabelled, "-m", path)
    stars = [int(line) for line in out.split()]
    assert stars[0] > 3 > stars[1]
    assert "accuracy" not in err
    # the words that matter
    out, _ = command("inspect", path, "--top", 5)
    assert "classes     1, 2, 3, 4, 5" in out
    assert any(word in out for word in ("superb", "lovely", "great", "good"))
    found = json.loads(command("inspect", path, "--json")[0])
    names = {w["name"]: w["column"] for o in found["largest"] for w in o["weights"]}
    for name, column in names.items():
        assert any(HashingTokenizer().column(term)[0] == column for term in name.split(" / "))


def test_text_lines_and_tokenizer_options(folder):
    data = folder / "lines.txt"
    data.write_text("pos\tgood film\nneg\tbad film\n" * 50)
    path = folder / "lines.osvm"
    command(
        "train", data, "--format", "text", "--ngrams", "1-2", "--bits", 12, "--tf", "log",
        "--no-signed", "-m", path, "-q",
    )  # fmt: skip
    header = osvm.io.read_header(path)
    expected = {"bits": 12, "ngrams": [1, 2], "signed": False, "tf": "log"}
    assert expected.items() <= header["input"]["tokenizer"].items()
    (folder / "plain.txt").write_text("a good film\n\na bad film\n")
    out, _ = command("predict", folder / "plain.txt", "-m", path, "--unlabelled", "-q")
    assert out.split()[0] == "pos"
    assert out.split()[2] == "neg"
    out, _ = command("predict", data, "-m", path, "--json", "-q")
    assert json.loads(out.splitlines()[1]) == "neg"


def test_vowpal_wabbit_format(folder):
    data = folder / "data.vw"
    data.write_text("1 |w good film\n-1 2.0 |w bad film\n" * 50)
    path = folder / "vw.osvm"
    command("train", data, "-m", path, "-q", "--bits", 16)
    assert osvm.load(path).n_features_in_ == 1 << 16
    out, _ = process("predict", "-", "-m", path, "-q", stdin=b"|w good\n|w bad\n")
    assert out == "1\n-1\n"


def test_evaluate(folder):
    out, err = process("evaluate", folder / "train.svm", "--window", 500, "--reg", "1e-3")
    assert out == ""
    assert [line.split()[0] for line in err.splitlines()[1:-1]] == ["500", "1000", "1500", "2000"]
    out, _ = command(
        "evaluate", folder / "train.svm", "--metrics", "accuracy,loss", "--json", "-q",
        "--delay", 10, "--limit", 1000,
    )  # fmt: skip
    found = json.loads(out)
    assert found["examples"] == 1000
    assert 0.7 < found["metrics"]["accuracy"] < 1
    out, _ = command("evaluate", folder / "test.svm", "-m", train(folder), "--json", "-q")
    assert json.loads(out)["metrics"]["error"] < 0.1


def test_evaluate_with_scikit_learn_and_a_plot(folder):
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    out, _ = command(
        "evaluate", folder / "train.svm", "--metrics", "f1_score", "--json", "-q", "--window", 500,
        "--plot", folder / "curve.png",
    )  # fmt: skip
    assert json.loads(out)["metrics"]["f1_score"] > 0.6
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_estimator_options(folder):
    path = train(
        folder, "--estimator", "linear-classifier", "--loss", "logistic", "--reg", "1e-3",
        "--schedule", "inverse_sqrt:tau=10", "--average", "--no-fit-intercept", "--epochs", 2,
        "--class-weight", "1=2,-1=0.5", "--random-state", 7, "--shuffle", "full",
    )  # fmt: skip
    params = osvm.load(path).get_params()
    assert params["loss"] == "logistic"
    assert params["schedule"].config()["tau"] == 10
    assert params["average"] is True
    assert params["fit_intercept"] is False
    assert params["class_weight"] == {1.0: 2.0, -1.0: 0.5}
    assert (params["epochs"], params["random_state"], params["shuffle"]) == (2, 7, "full")
    out, _ = command("predict", folder / "test.svm", "-m", path, "--proba", "-q")
    np.testing.assert_allclose(np.loadtxt(out.splitlines()).sum(1), 1, atol=1e-6)
    path = train(folder, "--estimator", "LinearRegressor", "--loss", "huber", name="r.osvm")
    _, err = command("predict", folder / "test.svm", "-m", path)
    assert "mean squared error" in err
    path = train(folder, "--estimator", "LinearNovelty", name="n.osvm")
    out, _ = command("predict", folder / "test.svm", "-m", path, "-q")
    assert set(out.split()) <= {"1", "-1"}


def test_every_parameter_has_a_flag():
    out, _ = command("train", "--help")
    for name in osvm.io.CLASSES:
        try:
            cls = estimators.find_class(name)
        except (ImportError, AttributeError):
            continue
        for parameter in cls().get_params():
            flag = "--" + parameter.replace("_", "-")
            assert (flag in out) == (parameter not in estimators.NOT_FLAGS)


def test_initial_model_goes_on(folder):
    first = train(folder, "--stream", name="first.osvm")
    second = folder / "second.osvm"
    command("train", folder / "test.svm", "-m", second, "-i", first, "-q")
    assert osvm.load(second).t_ == 2500
    command("train", folder / "test.svm", "-m", second, "-i", first, "--reg", "1", status=2)


def test_resume_after_kill(folder):
    data = folder / "long.svm"
    data.write_bytes((folder / "train.svm").read_bytes() * 20)
    flags = [data, "--checkpoint-every", "2000", "--average", "--shuffle", "--random-state", "3",
             "--reservoir", "3000", "-q"]  # fmt: skip
    command("train", *flags, "-m", folder / "whole.osvm")
    expected = (folder / "whole.osvm").read_bytes()
    path = folder / "killed.osvm"
    child = subprocess.Popen([*OSVM, "train", *map(str, flags), "-m", str(path)])
    while not path.exists() and child.poll() is None:
        time.sleep(0.002)
    child.send_signal(signal.SIGKILL)
    child.wait()
    killed_at = osvm.io.read_header(path)["stream"]["n_seen"]
    _, err = command("train", *flags[:-1], "-m", path, "--resume")
    if killed_at < 40_000:
        assert f"resuming {path} after {killed_at} examples" in err
    assert path.read_bytes() == expected
    assert os.path.basename(path) in os.listdir(folder)
    assert not [name for name in os.listdir(folder) if name.endswith(".tmp")]


def test_convert_refuses_labels_that_it_would_round(folder):
    """2**53 + 1 was written as 2**53."""
    (folder / "ids.csv").write_text("label,a\n9007199254740993,1\n5,2\n")
    _, err = command("convert", folder / "ids.csv", folder / "ids.svm", "-q", status=1)
    assert "would be rounded" in err
    assert not (folder / "ids.svm").exists()
    command("convert", folder / "ids.csv", folder / "ids.svm", "-q",
            "--labels", folder / "names.json")  # fmt: skip
    assert json.loads((folder / "names.json").read_text()) == ["9007199254740993", "5"]
    command("convert", folder / "ids.csv", folder / "ids.svm", "-q", "--label-type", "float")


def test_convert_there_and_back(folder):
    source = folder / "test.svm"
    command("convert", source, folder / "c.vw", "-q")
    command("convert", folder / "c.vw", folder / "d.svm", "-q")
    command("convert", source, folder / "c.csv", "-q", "--n-features", 50)
    command("convert", folder / "c.csv", folder / "e.svm", "-q")
    from osvm.stream import read

    X, y = next(read(source, n_features=50))
    for name, width in (("d.svm", 1 << 18), ("e.svm", 50)):
        Z, t = next(read(folder / name, n_features=width, zero_based=False))
        assert t.tolist() == y.tolist()
        Z.resize(Z.shape[0], 50)
        np.testing.assert_array_equal(Z.toarray(), X.toarray())
    out, _ = command(
        "convert", folder / "reviews.csv", "-", "--text", "body", "--label", "stars", "-q",
        "--labels", folder / "names.json",
    )  # fmt: skip
    assert out.count("\n") == 600
    assert sorted(json.loads((folder / "names.json").read_text())) == ["1", "2", "3", "4", "5"]


def test_skip_errors(folder):
    data = folder / "broken.svm"
    data.write_bytes(b"1 1:1\n-1 1:x\n-1 2:1\n" * 50)
    err = command("train", data, "-m", folder / "x.osvm", status=1)[1]
    assert err == f"osvm train: {data}:2:6: the value is not a finite decimal number\n"
    assert not (folder / "x.osvm").exists()
    out, err = command("train", data, "-m", folder / "x.osvm", "--skip-errors", "--json")
    assert json.loads(out)["skipped"] == 50
    assert "skipped 50 malformed records; the first:" in err


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["train", "nothing.svm", "-m", "x"], 1, "nothing.svm"),
        (["train", "train.svm"], 2, "--model"),
        (["train", "train.svm", "-m", "x", "--gama", "1"], 2, "unrecognized"),
        (["train", "train.svm", "-m", "x", "--max-iter", "3"], 2, "LinearClassifier; use epochs"),
        (["train", "train.svm", "-m", "x", "--gamma", "1"], 2, "osvm.KernelClassifier"),
        (["train", "train.svm", "-m", "x", "--estimator", "Nope"], 2, "no estimator"),
        (["train", "train.svm", "-m", "x", "--reg", "abc"], 2, "invalid reg value"),
        (["train", "train.svm", "-m", "x", "--loss", "nope"], 1, "unknown loss"),
        (["train", "train.svm", "-m", "x", "--loss", "hinge:a=1"], 2, "no parameter"),
        (["train", "train.svm", "-m", "x", "--stream", "--C", "1"], 2, "needs all data at once"),
        (["train", "train.svm", "-m", "x", "--stream", "--scale", "std"], 2, "--scale running"),
        (["train", "train.svm", "-m", "x", "--scale", "odd"], 1, "scale must be"),
        (["train", "train.svm", "-m", "no/such/folder/x"], 1, "no/such/folder"),
        (["train", "reviews.csv", "--text", "body", "-m", "x"], 1, "no column 'label'"),
        (["train", "empty.svm", "-m", "x"], 1, "no examples"),
        (["train", "empty.svm", "-m", "x", "--stream"], 1, "no examples"),
        (["predict", "test.svm", "-m", "train.svm"], 1, "not an osvm model file"),
        (["predict", "test.svm", "-m", "nothing.osvm"], 1, "nothing.osvm"),
        (["predict", "test.svm", "-m", "hinge.osvm", "--proba"], 1, "has no probabilities"),
        (["inspect", "cut.osvm"], 1, "truncated"),
        (["convert", "test.svm", "x.jsonl"], 2, "cannot write"),
        (["convert", "reviews.csv", "x.svm", "--text", "body", "--label", "body"], 1, "--labels"),
    ],
)
def test_errors_say_what_to_do(folder, arguments, status, message, monkeypatch, capsys):
    (folder / "empty.svm").write_bytes(b"# nothing\n")
    if not (folder / "hinge.osvm").exists():
        osvm.LinearClassifier().fit([[1.0], [0.0]], [0, 1]).save(folder / "hinge.osvm")
        (folder / "cut.osvm").write_bytes((folder / "hinge.osvm").read_bytes()[:-100])
    monkeypatch.chdir(folder)  # in this process, which is quicker
    try:
        assert cli.main(arguments) == status
    except SystemExit as stop:
        code = stop.code
        assert code == status == 2
    err = capsys.readouterr().err
    assert message in err
    if status == 1:
        assert err.count("\n") == 1
        assert "Traceback" not in err


def test_columns_that_the_model_does_not_know_are_left_out(folder):
    path = train(folder)
    plain, _ = process("predict", "-", "-m", path, "--scores", "-q", stdin=b"1 1:1\n")
    more, err = process("predict", "-", "-m", path, "--scores", stdin=b"1 1:1 900:5\n")
    assert plain == more
    assert "1 values in columns that the model does not know were left out" in err
