"""Parquet and Arrow: list columns, number columns, text, and everything that is refused."""

import json

import numpy as np
import pytest
from reference_stream import streamed

from osvm.stream import FormatError, HashingTokenizer, ParquetReader, read
from tests.run_command import command

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

INDICES = [[0, 3], [], [2], [1, 4, 5], [3]]
VALUES = [[1.0, -2.5], [], [0.5], [1.0, 2.0, 3.0], [4.0]]
LABELS = [1.0, -1.0, 1.0, -1.0, 1.0]
ROWS = np.array(
    [
        [1, 0, 0, -2.5, 0, 0],
        [0, 0, 0, 0, 0, 0],
        [0, 0, 0.5, 0, 0, 0],
        [0, 1, 0, 0, 2, 3],
        [0, 0, 0, 4, 0, 0],
    ]
)


def lists(kind):
    """The same rows in list columns of another type."""
    index_type, value_type = kind
    return pa.table(
        {
            "label": LABELS,
            "indices": pa.array(INDICES, index_type),
            "values": pa.array(VALUES, value_type),
        }
    )


def whole(reader):
    batches = list(reader)
    X = np.vstack([batch[0].toarray() for batch in batches])
    return X, np.concatenate([batch[1] for batch in batches])


@pytest.mark.parametrize("where", ["parquet", "arrow", "memory"])
@pytest.mark.parametrize("batch_size", [1, 2, 100])
@pytest.mark.parametrize(
    "kind",
    [
        (pa.list_(pa.int32()), pa.list_(pa.float32())),
        (pa.list_(pa.int64()), pa.list_(pa.float64())),
        (pa.large_list(pa.uint16()), pa.large_list(pa.float32())),
    ],
)
def test_list_columns(tmp_path, where, batch_size, kind):
    table = lists(kind)
    source = table.slice(0)
    if where == "parquet":
        source = tmp_path / "t.parquet"
        pq.write_table(table, source, row_group_size=2)
    elif where == "arrow":
        source = tmp_path / "t.arrow"
        with pa.ipc.new_file(source, table.schema) as writer:
            writer.write_table(table, max_chunksize=3)
    with read(source, "parquet", batch_size=batch_size) as reader:
        assert (reader.indices, reader.values, reader.n_features) == ("indices", "values", 6)
        for _ in range(2):  # a second pass starts anew
            X, y = whole(reader)
            np.testing.assert_array_equal(X, ROWS.astype(np.float32))
            assert y.tolist() == LABELS


def test_parts_of_tables_are_read_from_where_they_begin():
    table = lists((pa.list_(pa.int32()), pa.list_(pa.float32()))).slice(2)
    X, y = whole(ParquetReader(table, n_features=6))
    np.testing.assert_array_equal(X, ROWS[2:].astype(np.float32))
    assert y.tolist() == LABELS[2:]


def test_names_and_widths():
    table = pa.table({"target": [1, 0], "i": [[0, 3], [1]], "w": [0.5, 2.0]})
    X, y, weight = next(ParquetReader(table, label="target", indices="i", weight="w"))
    np.testing.assert_array_equal(X.toarray(), [[1, 0, 0, 1], [0, 1, 0, 0]])
    assert (y.tolist(), weight.tolist()) == ([1, 0], [0.5, 2.0])
    X, _ = next(ParquetReader(table, label=None, indices="i", n_features=10))
    assert X.shape == (2, 10)
    wide = pa.table({"indices": [[3_000_000_000]]})
    X, _ = next(ParquetReader(wide, label=None))
    assert X.shape == (1, 3_000_000_001)
    assert X.indices.dtype == np.int64


def test_dense_lists():
    for kind in (pa.list_(pa.float32()), pa.list_(pa.float64(), 3)):
        vectors = pa.array([[1.0, 2.0, 0.0], [3.0, 4.0, 5.0], [0.0, 0.0, 1.0]], kind)
        reader = ParquetReader(pa.table({"label": [1, 0, 1], "v": vectors}), values="v")
        assert reader.n_features == 3
        X, _ = next(reader)
        np.testing.assert_array_equal(X.toarray(), [[1, 2, 0], [3, 4, 5], [0, 0, 1]])
    with pytest.raises(FormatError, match="2 values in row 1 and 1 before"):
        list(ParquetReader(pa.table({"v": [[1.0], [1.0, 2.0]]}), label=None, values="v"))


def test_number_columns_and_labels_of_any_type():
    table = pa.table({"a": [1, 2], "b": [0.5, 1.5], "c": [True, False], "label": ["x", "y"]})
    reader = ParquetReader(table)
    assert reader.feature_names == ["a", "b", "c"]
    assert not reader.numeric_labels
    X, y = next(reader)
    np.testing.assert_array_equal(X.toarray(), [[1, 0.5, 1], [2, 1.5, 0]])
    assert y.tolist() == ["x", "y"]
    X, y = next(ParquetReader(table, features=["b"], label="a", label_type="str"))
    assert X.shape == (2, 1)
    assert y.tolist() == ["1", "2"]
    coded = table.set_column(3, "label", table["label"].dictionary_encode())
    assert next(ParquetReader(coded))[1].tolist() == ["x", "y"]
    assert next(ParquetReader(table, label="a", features="b"))[1].dtype == np.int64
    assert next(ParquetReader(table, label="b", features="a", label_type="float"))[1][0] == 0.5


def test_text_columns():
    table = pa.table({"title": ["A film", "Bad"], "body": ["good", "awful"], "label": [1, 0]})
    X, _ = next(ParquetReader(table, text=["title", "body"], tokenizer={"bits": 10}))
    expected = streamed(HashingTokenizer(bits=10), ["A film good", "Bad awful"])
    np.testing.assert_array_equal(X.toarray(), expected.toarray())


@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_restart_at_any_batch(tmp_path, batch_size):
    path = tmp_path / "t.parquet"
    table = lists((pa.list_(pa.int32()), pa.list_(pa.float32())))
    pq.write_table(table, path, row_group_size=2)
    rest = list(read(path, batch_size=batch_size))
    reader = read(path, batch_size=batch_size)
    while True:
        place = json.loads(json.dumps(reader.tell()))
        other = read(path, batch_size=batch_size)
        other.seek(place)
        for (X, y), (Z, t) in zip(rest, other, strict=True):
            np.testing.assert_array_equal(X.toarray(), Z.toarray())
            assert y.tolist() == t.tolist()
        if not rest:
            break
        next(reader)
        rest = rest[1:]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"label": [1, None], "a": [1.0, 2.0]}, {}, "'label' has no value in row 1"),
        ({"label": [1, 2], "a": [None, 2.0]}, {}, "'a' has no value in row 0"),
        ({"label": [1, 2], "a": [1.0, np.nan]}, {}, "row 1 is not finite"),
        ({"label": [1, 2], "a": [1e300, 1.0]}, {}, "row 0 is not finite"),
        ({"label": [1.0, np.inf], "a": [1.0, 1.0]}, {}, "label after row 0 is not finite"),
        ({"label": [1, 2], "a": ["x", "y"]}, {}, "'a' holds string, not numbers"),
        ({"a": [1.0]}, {}, "no column 'label'; the columns are a"),
        ({"label": [1]}, {}, "no column left"),
        ({"label": [1], "indices": [[1, None]]}, {}, "missing values"),
        ({"label": [1], "indices": [[-1]]}, {}, "negative index"),
        ({"label": [1], "indices": [[0.5]]}, {}, "not whole numbers"),
        ({"label": [1], "indices": [["a"]]}, {}, "not numbers"),
        ({"label": [1, 1], "indices": [[0], [7]]}, {"n_features": 7}, "row 1 is 7, .* below"),
        ({"label": [1], "indices": [[0, 1]], "values": [[1.0]]}, {}, "differ in length in row 0"),
        ({"label": [1], "indices": [[0]], "values": [[np.nan]]}, {}, "row 0 is not finite"),
        ({"label": [1], "a": [3]}, {"indices": "a"}, "is int64, not a list"),
        ({"label": [[1]], "a": [3]}, {}, "holds lists"),
        ({"label": ["a"], "a": [3]}, {"label_type": "int"}, "not numbers"),
        ({"label": [0.5], "a": [3]}, {"label_type": "int"}, "not integers"),
        ({"label": [2.0**60], "a": [3]}, {"label_type": "int"}, "not integers"),
        ({"label": ["9007199254740993"], "a": [3]}, {"label_type": "int"}, "not integers"),
        ({"label": [1], "a": [3]}, {"text": "a"}, "not text"),
        ({"label": [1], "a": [3], "w": [-1.0]}, {"features": "a", "weight": "w"}, "negative"),
        ({"label": [1], "a": [3]}, {"text": "a", "features": "a"}, "give one of"),
        ({"label": [1], "indices": [[1]]}, {"indices": "indices", "n_features": 0}, "at least 1"),
    ],
)
def test_what_is_refused(columns, options, message):
    with pytest.raises(ValueError, match=message):
        list(ParquetReader(pa.table(columns), **options))


def test_broken_files(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(lists((pa.list_(pa.int32()), pa.list_(pa.float32()))), path)
    data = path.read_bytes()
    for broken in (b"", b"hello", b"ARROW1 is not all", data[:-20], data[: len(data) // 2]):
        path.write_bytes(broken)
        with pytest.raises(FormatError, match="not a sound Parquet or Arrow file") as caught:
            list(read(path))
        assert "\n" not in str(caught.value)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nothing.parquet")
    with pytest.raises(ValueError, match="cannot come through a pipe"):
        read("-", "parquet")
    with pytest.raises(TypeError, match=r"pyarrow\.Table"):
        read(3, "parquet")


# ------------------------------------------------------------------ the command


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parquet")
    rng = np.random.default_rng(0)
    w = rng.normal(size=30)
    with open(folder / "a.svm", "w") as file:
        for _ in range(500):
            j = np.sort(rng.choice(29, 5, replace=False))  # the last column stays empty
            v = rng.normal(size=5)
            label = 1 if v @ w[j] > 0 else -1
            file.write(f"{label} " + " ".join(f"{a + 1}:{b:.4f}" for a, b in zip(j, v)) + "\n")
    with open(folder / "r.csv", "w") as file:
        file.write("label,body\n" + "pos,a good film\nneg,a bad film\n" * 50)
    return folder


def test_convert_train_predict(folder):
    source, table = folder / "a.svm", folder / "a.parquet"
    command("convert", source, table, "-q", "--n-features", 30)
    found = pq.read_table(table)
    assert found.schema.names == ["indices", "values", "label"]
    assert found.num_rows == 500
    command("convert", table, folder / "b.svm", "-q")
    first, second = next(read(source, n_features=30)), next(read(folder / "b.svm", n_features=30))
    np.testing.assert_array_equal(first[0].toarray(), second[0].toarray())
    assert first[1].tolist() == second[1].tolist()
    assert read(table).n_features == 30  # the empty column is not forgotten
    models = []
    for name, data in (("a", source), ("b", table)):
        model = folder / f"{name}.osvm"
        # a line format is visited in blocks at random, a table from its beginning
        command("train", data, "--random-state", 1, "--stream", "--no-shuffle", "-q", "-m", model)
        out, err = command("predict", data, "-m", model)
        assert out.count("\n") == 500
        assert "accuracy" in err
        models.append(out)
    assert models[0] == models[1]
    # data to be predicted need no labels
    pq.write_table(found.drop_columns(["label"]), folder / "plain.parquet")
    out, err = command("predict", folder / "plain.parquet", "-m", folder / "b.osvm")
    assert out == models[1]
    assert "accuracy" not in err


def test_convert_text_and_labels(folder):
    table = folder / "r.parquet"
    command("convert", folder / "r.csv", table, "--text", "body", "--bits", 12, "-q")
    assert pq.read_table(table)["label"].to_pylist()[:2] == ["pos", "neg"]
    command("train", table, "-m", folder / "r.osvm", "-q", "--class-weight", "pos=2,neg=1")
    assert command("predict", table, "-m", folder / "r.osvm")[0].split()[:2] == ["pos", "neg"]
    command(
        "convert", folder / "r.csv", table, "--text", "body", "-q",
        "--labels", folder / "names.json",
    )  # fmt: skip
    assert json.loads((folder / "names.json").read_text()) == ["pos", "neg"]
    assert pq.read_table(table)["label"].to_pylist()[:2] == [0, 1]


def test_text_straight_from_parquet(folder):
    table = pa.table({"body": ["a good film", "a bad film"] * 50, "stars": [5, 1] * 50})
    pq.write_table(table, folder / "text.parquet")
    model = folder / "t.osvm"
    command(
        "train", folder / "text.parquet", "--text", "body", "--label", "stars", "-q", "-m", model
    )
    out, _ = command("predict", folder / "text.parquet", "-m", model, "-q")
    assert out.split()[:2] == ["5", "1"]
    assert "good" in command("inspect", model)[0]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["convert", "a.svm", "-", "--to", "parquet"], 1, "standard output"),
        (["train", "a.parquet", "-m", "x", "--skip-errors"], 2, "which Parquet does not have"),
        (["train", "r.csv", "-m", "x", "--format", "parquet"], 1, "not a sound Parquet"),
    ],
)
def test_what_the_command_refuses(folder, arguments, status, message):
    command("convert", folder / "a.svm", folder / "a.parquet", "-q")
    places = [folder / word if "." in word else word for word in arguments]
    assert message in command(*places, status=status)[1]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_flipped_bits_are_refused_or_read(kind, tmp_path):
    """Text that is no longer UTF-8, names and lists out of range: an error about the file."""
    rng = np.random.default_rng(0)
    words = [f"words and m\u00f6re words {i}" for i in range(60)]
    table = pa.table({"label": ["spam", "ham", "eggs"] * 20, "text": words})
    path = tmp_path / "data"
    if kind == "parquet":
        pq.write_table(table, path, compression="none", use_dictionary=False)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    data, refused = path.read_bytes(), 0
    for _ in range(400):
        changed = bytearray(data)
        changed[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        try:
            for _ in read(str(path), "parquet", label="label", text="text"):
                pass
        except FormatError:
            refused += 1
    assert 20 < refused < 400


def test_large_labels_are_not_rounded():
    """2**53 and the number after it were one label, through float64."""
    numbers = [2**53, 2**53 + 1, -(2**63), 2**63 - 1]
    table = pa.table({"label": numbers, "a": [1.0, 2.0, 3.0, 4.0]})
    assert next(ParquetReader(table, label_type="int"))[1].tolist() == numbers
    assert next(ParquetReader(table, label_type="str"))[1].tolist() == [str(n) for n in numbers]
    table = pa.table({"label": [1e300, 2e300], "a": [1.0, 2.0]})
    assert len(set(next(ParquetReader(table, label_type="str"))[1].tolist())) == 2
