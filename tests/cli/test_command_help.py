"""The help page, guessed formats, machine-readable output."""

import argparse
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import osvm
from osvm import cli
from osvm.cli import OF_ALL, _make_parsers, estimators
from osvm.stream.formats import guess_format
from tests.run_command import command


def test_help_groups_flags_and_tells_every_default(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["train", "--help"])
    out = capsys.readouterr().out
    titles = re.findall(r"^([a-z][^\n:]*):$", out, flags=re.M)
    order = ["positional arguments", "options", "learning", "all learners", "linear learners",
             "kernel learners", "input"]  # fmt: skip
    assert [title for title in titles if title in order] == order
    words = " ".join(out.split())
    for name in estimators.CLASSES:
        cls = estimators.find_class(name)
        for parameter, found in estimators.parameters_of(cls).items():
            flag = "--" + parameter.replace("_", "-")
            assert len(re.findall(rf"^  {flag}[ ,]", out, re.M)) == 1, flag
            text = words[re.search(rf" {flag}(,| VALUE| \[VALUE\])", words).start() :]
            about, _, rest = text.partition("(default:")
            assert len(about.split()) > 3, flag  # it says something
            assert str(found.default) in rest.split(")")[0], (flag, name)
    learning = out[out.index("learning:") : out.index("all learners:")]
    assert all(f"--{name.replace('_', '-')}" in learning for name in estimators.COMMON)


@pytest.mark.parametrize(
    ("line", "format"),
    [
        (b"1 3:0.5 7:1\n", "svmlight"),
        (b"# note\n\n-1.0 qid:3 1:2e-3 # end\n", "svmlight"),
        (b"1,3 5:0.5\n", "svmlight"),
        (b"1 |words a b:2\n", "vw"),
        (b"| a b\n", "vw"),
        (b"good\tWhat a film | really\n", "text"),
        (b"5\tfive stars\n", "text"),
        (b'{"label": 1, "body": "x"}\n', "jsonl"),
    ],
)
def test_txt_is_looked_into(tmp_path, line, format):
    (tmp_path / "a.txt").write_bytes(line)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(line))
    assert guess_format(tmp_path / "a.txt") == guess_format(tmp_path / "b.txt.gz") == format
    (tmp_path / "c.txt").write_bytes(b"just words\n")
    with pytest.raises(ValueError, match=r"c.txt: cannot tell .* first line is 'just words'"):
        guess_format(tmp_path / "c.txt")


def test_a_txt_of_documents_is_trained_on(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("pos\tgood film\nneg\tbad film\n" * 20)
    command("train", path, "-m", tmp_path / "m.osvm", "-q")
    assert osvm.load(tmp_path / "m.osvm").predict(["good"]).tolist() == ["pos"]


def test_json_predictions_and_figures_never_mix(tmp_path, capsys):
    path, model = tmp_path / "a.svm", str(tmp_path / "m.osvm")
    path.write_text("1 1:1\n-1 2:1\n" * 20)
    assert cli.main(["train", str(path), "-m", model, "-q", "--random-state", "0"]) == 0
    assert cli.main(["predict", str(path), "-m", model, "--json"]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line) for line in out.splitlines()] == [1.0, -1.0] * 20
    figures = json.loads(err)
    assert (figures["accuracy"], figures["examples"]) == (1.0, 40)
    found = str(tmp_path / "out")
    assert cli.main(["predict", str(path), "-m", model, "--json", "-o", found, "--scores"]) == 0
    out, err = capsys.readouterr()
    assert (json.loads(out)["examples"], err) == (40, "")
    scores = np.array([json.loads(line) for line in Path(found).read_text().splitlines()])
    assert (np.sign(scores) == [1, -1] * 20).all()


def test_proba_names_the_flag_that_was_missing(tmp_path, capsys):
    path, model = tmp_path / "a.svm", str(tmp_path / "m.osvm")
    path.write_text("1 1:1\n-1 2:1\n" * 20)
    assert cli.main(["train", str(path), "-m", model, "-q"]) == 0
    assert cli.main(["predict", str(path), "-m", model, "--proba"]) == 1
    message = capsys.readouterr().err
    assert "train it with --probability (any loss) or --loss logistic or " in message
    assert "--loss modified_huber" in message
    assert cli.main(["train", str(path), "-m", model, "-q", "--probability"]) == 0
    assert cli.main(["predict", str(path), "-m", model, "--proba", "-q"]) == 0
    assert cli.main(["train", str(path), "-m", model, "-q", "--estimator", "LinearRegressor"]) == 0
    assert cli.main(["predict", str(path), "-m", model, "--proba"]) == 1
    assert "a LinearRegressor never has" in capsys.readouterr().err
    kernel = ["train", str(path), "-m", model, "-q", "--estimator", "KernelClassifier"]
    assert cli.main(kernel) == 0
    assert cli.main(["predict", str(path), "-m", model, "--proba"]) == 1
    assert "this KernelClassifier has no probabilities: train it with --loss logistic or " in (
        capsys.readouterr().err
    )
    assert cli.main([*kernel, "--loss", "logistic"]) == 0
    assert cli.main(["predict", str(path), "-m", model, "--proba", "-q"]) == 0
    assert cli.main(["train", str(path), "-m", model, "-q", "--estimator", "SVC"]) == 0
    assert cli.main(["predict", str(path), "-m", model, "--proba"]) == 1
    assert capsys.readouterr().err.endswith("train it with --probability\n")


TEXTS = ["none", "1", "0.5", "true", "no", "full", "auto", "hinge", "a=1", "text"]


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_options_of_one_estimator_are_those_of_all(command):
    """The command imports the others only where a word names more than the default's options."""

    def read(option, text):
        try:
            return repr(option.type(text)) if callable(option.type) else text
        except (ValueError, argparse.ArgumentTypeError) as error:
            return type(error)

    (_, one), (_, every) = (_make_parsers(command, k) for k in (True, False))
    options, others = one._option_string_actions, every._option_string_actions
    assert options.keys() < others.keys()
    assert "--gamma" in others.keys() - options.keys()
    for word in options.keys() - OF_ALL:
        own, other = options[word], others[word]
        assert (type(own), own.dest, own.nargs, own.const, own.default) == (
            type(other), other.dest, other.nargs, other.const, other.default
        )  # fmt: skip
        if own.dest.startswith("estimator_"):
            assert [read(own, text) for text in TEXTS] == [read(other, text) for text in TEXTS]


def test_other_estimators_are_imported_where_their_options_are_named(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n-1 2:1\n" * 5)
    code = (
        "import sys; from osvm.cli import main; status = main(sys.argv[1:]);"
        "print('osvm.kernel.classifier' in sys.modules); sys.exit(status)"
    )

    def run(*words):
        words = [sys.executable, "-c", code, "train", str(path), "-m", str(tmp_path / "m"), *words]
        return subprocess.run(words, capture_output=True, text=True)

    few, many = run("--quiet", "--reg", "0.1"), run("--estimator", "KernelClassifier")
    assert (few.returncode, few.stdout) == (0, "False\n")
    assert many.returncode == 0
    assert many.stdout.endswith("True\n")
    wrong = run("--gamma", "1")
    assert wrong.returncode == 2
    assert "--gamma is not an option of LinearClassifier" in wrong.stderr
    shortened = run("--random", "3", "--quiet")
    assert shortened.returncode == 0, shortened.stderr
