"""The command on text: tf-idf, the tokenizer in the model file, words of columns."""

import json

import numpy as np
import pytest

import osvm
from osvm import cli
from osvm.io.archive import read_archive, write_archive
from osvm.stream import HashingTokenizer, read
from tests.run_command import command

GOOD, BAD = ["good", "great", "superb", "lovely"], ["bad", "awful", "boring", "dull"]
PLAIN = ["the", "film", "was", "a", "story,", "with", "actors", "and", "music"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    rng = np.random.default_rng(0)
    with open(folder / "reviews.csv", "w") as file:
        file.write("label,body\n")
        for _ in range(600):
            label = rng.choice(["pos", "neg"])
            words = [*rng.choice(PLAIN, 6), *rng.choice(GOOD if label == "pos" else BAD, 2)]
            file.write(f'{label},"{" ".join(words)}"\n')
    flags = ("--text", "body", "--bits", "14", "--random-state", "0", "-q")
    command("train", folder / "reviews.csv", "-m", folder / "m.osvm", *flags)
    return folder


def texts_of(folder):
    lines = (folder / "reviews.csv").read_text().splitlines()[1:]
    labels, bodies = zip(*(line.split(",", 1) for line in lines))
    return list(labels), [body.strip('"') for body in bodies]


def test_the_command_and_the_class_give_the_same_model(folder):
    labels, texts = texts_of(folder)
    tokenizer = HashingTokenizer(bits=14)
    X = tokenizer.fit_transform(texts)
    model = osvm.LinearClassifier(random_state=0).fit(X, labels)
    loaded = osvm.load(folder / "m.osvm")
    assert loaded.coef_.tobytes() == model.coef_.tobytes()
    assert (loaded.tokenizer_.transform(texts) != X).nnz == 0
    out, _ = command("predict", folder / "reviews.csv", "-m", folder / "m.osvm", "-q")
    assert out.split() == model.predict(X).tolist()


def test_streamed_weights_are_those_of_the_documents_so_far(folder):
    flags = ("--text", "body", "--bits", "14", "--stream", "--epochs", "2", "--no-shuffle", "-q",
             "--holdout", "0")  # fmt: skip
    command("train", folder / "reviews.csv", "-m", folder / "s.osvm", *flags)
    model = osvm.LinearClassifier()
    reader = read(folder / "reviews.csv", text="body", tokenizer={"bits": 14})
    for _ in range(2):
        for X, y in reader:
            model.partial_fit(X, y)
    assert reader.tokenizer.n_documents_ == 600
    loaded = osvm.load(folder / "s.osvm")
    assert loaded.coef_.tobytes() == model.coef_.tobytes()
    assert loaded.tokenizer_.n_documents_ == 600


def test_a_loaded_model_predicts_text(folder, tmp_path):
    model = osvm.load(folder / "m.osvm")
    texts = ["a lovely film", "an awful bore, so dull"]
    assert model.predict(texts).tolist() == ["pos", "neg"]
    X = model.tokenizer_.transform(texts)
    for given in (texts, tuple(texts), np.array(texts), np.array(texts, dtype=object)):
        assert model.decision_function(given).tolist() == model.decision_function(X).tolist()
    with pytest.raises(ValueError, match=r"got the text 'good'"):
        model.predict("good")
    before = model.t_
    model.partial_fit(texts, ["pos", "neg"])
    assert model.t_ == before + 2
    # and keeps what it needs for that
    osvm.save(model, tmp_path / "again.osvm")
    again = osvm.load(tmp_path / "again.osvm")
    assert again.decision_function(texts).tolist() == model.decision_function(texts).tolist()
    assert again._input == model._input
    out, _ = command("predict", folder / "reviews.csv", "-m", tmp_path / "again.osvm", "-q")
    assert len(out.split()) == 600
    # another matrix is another model
    model.fit(np.eye(3), ["a", "b", "c"])
    with pytest.raises(ValueError, match=r"2D array|not numeric|convert"):
        model.predict(texts)


def test_going_on_counts_on(folder):
    arguments = ["-i", folder / "m.osvm", "-m", folder / "more.osvm", "-q"]
    command("train", folder / "reviews.csv", *arguments)
    more = osvm.load(folder / "more.osvm")
    assert more.tokenizer_.n_documents_ == 1200
    assert more.tokenizer_.terms([more.tokenizer_.column("superb")[0]]) == ["superb"]
    command("predict", folder / "reviews.csv", "-m", folder / "more.osvm", "-q")
    assert osvm.load(folder / "more.osvm").tokenizer_.n_documents_ == 1200


def test_files_of_before_idf_still_predict(folder):
    """They name the tokenizer's parameters without idf, and terms by column."""
    labels, texts = texts_of(folder)
    tokenizer = HashingTokenizer(bits=14, tf="count", idf=False)
    model = osvm.LinearClassifier(random_state=0).fit(tokenizer.transform(texts), labels)
    column = tokenizer.column("superb")[0]
    config = {"bits": 14, "ngrams": [1, 1], "signed": True, "tf": "count", "norm": True,
              "lowercase": True, "min_length": 2}  # fmt: skip
    input = {"format": "csv", "label": "label", "text": ["body"], "tokenizer": config,
             "terms": {str(column): ["superb", "other"]}}  # fmt: skip
    osvm.save(model, folder / "old.osvm", input=input)
    header, arrays = read_archive(folder / "old.osvm")
    del header["tokenizer"]
    write_archive(folder / "old.osvm", header, arrays)
    old = osvm.load(folder / "old.osvm")
    expected = model.decision_function(tokenizer.transform(texts))
    assert old.decision_function(texts).tolist() == expected.tolist()
    assert old.tokenizer_.terms([column]) == ["superb"]
    out, _ = command("predict", folder / "reviews.csv", "-m", folder / "old.osvm", "-q")
    assert out.split() == model.predict(tokenizer.transform(texts)).tolist()


def test_a_tokenizer_that_does_not_fit_is_refused(folder, tmp_path):
    header, arrays = read_archive(folder / "m.osvm")
    for change in (
        lambda h, a: h["tokenizer"]["config"].update(bits=15),
        lambda h, a: h["tokenizer"]["config"].update(nonsense=1),
        lambda h, a: h["tokenizer"]["state"].update(n_documents=3),
        lambda h, a: a.pop("tokenizer/columns"),
        lambda h, a: h.update(tokenizer=7),
    ):
        copy, changed = json.loads(json.dumps(header)), dict(arrays)
        change(copy, changed)
        write_archive(tmp_path / "x.osvm", copy, changed)
        with pytest.raises(osvm.io.ModelFileError, match="malformed"):
            osvm.load(tmp_path / "x.osvm")


def test_inspect_shows_words(folder, capsys):
    assert cli.main(["inspect", str(folder / "m.osvm"), "--json", "--top", "8"]) == 0
    found = json.loads(capsys.readouterr().out)
    weights = {weight["name"]: weight["weight"] for weight in found["largest"][0]["weights"]}
    # of the word, not of its column: half of the words are hashed with a minus
    assert {word for word, weight in weights.items() if weight > 0} == set(GOOD)
    assert {word for word, weight in weights.items() if weight < 0} == set(BAD)


def test_options_of_the_tokenizer(folder):
    flags = ["--text", "body", "--analyzer", "char", "--ngrams", "2-3", "--no-idf", "-q"]
    command("train", folder / "reviews.csv", "-m", folder / "o.osvm", *flags)
    config = osvm.load(folder / "o.osvm").tokenizer_.config()
    assert (config["analyzer"], config["ngrams"], config["idf"]) == ("char", [2, 3], False)
    flags = ["--text", "body", "--stop-words", "film,story", "--bits", "10", "-q"]
    command("train", folder / "reviews.csv", "-m", folder / "o.osvm", *flags)
    tokenizer = osvm.load(folder / "o.osvm").tokenizer_
    assert tokenizer.tokens("the film and a story") == ["the", "and"]


def test_columns_of_numbers_beside_text_are_named(capsys, tmp_path, monkeypatch):
    """They were left out without a word, where a refusal had advised --text."""
    monkeypatch.chdir(tmp_path)
    with open("a.csv", "w") as file:
        file.write("color,size,label\n" + "red,1.5,yes\nblue,2.5,no\n" * 20)
    assert cli.main(["train", "a.csv", "-m", "m", "--text", "color"]) == 0
    assert "left out, beside the text: columns size" in capsys.readouterr().err
    assert cli.main(["train", "a.csv", "-m", "m", "--features", "size"]) == 0
    assert "left out" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["b.parquet", "b.jsonl"])
def test_a_file_of_another_format_is_not_read_as_the_models(name, capsys, tmp_path, monkeypatch):
    """Its bytes were parsed as CSV: "a NUL byte"."""
    monkeypatch.chdir(tmp_path)
    with open("a.csv", "w") as file:
        file.write("size,label\n" + "1.5,yes\n-2.5,no\n" * 20)
    assert cli.main(["train", "a.csv", "-m", "m"]) == 0
    open(name, "w").close()
    with pytest.raises(SystemExit):
        cli.main(["predict", name, "-m", "m"])
    assert "trained on csv data; its columns cannot come from" in capsys.readouterr().err
