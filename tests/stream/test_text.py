"""The readers of text and tables that use the hashing tokenizer."""

import gzip
import io
import json

import numpy as np
import pytest
from reference_stream import streamed

from osvm.stream import CsvReader, FormatError, HashingTokenizer, JsonlReader, TextReader, read

# ------------------------------------------------------------------- text lines


def test_text_lines():
    text = b"good\tWhat a film\n\nbad\tWhat\ta bore\r\n"
    reader = TextReader(io.BytesIO(text), tokenizer={"bits": 10})
    (X, y), *_ = list(reader)
    assert y.tolist() == ["good", "bad"]
    expected = streamed(HashingTokenizer(bits=10), ["What a film", "What\ta bore"])
    assert (expected != X).nnz == 0


def test_text_lines_without_labels_keep_blank_lines():
    (X, y), *_ = list(TextReader(io.BytesIO(b"one two\n\nthree\n"), labelled=False))
    assert y is None
    assert X.shape[0] == 3
    assert np.diff(X.indptr).tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"no separator", "no '\\\\t'"),
        (b"\tno label", "label is empty"),
        (b"a\tb\0c", ":2:4: a NUL byte"),
        (b"\xff\tx", "not UTF-8"),
    ],
)
def test_malformed_text_lines(line, message):
    data = b"a\tfirst\n" + line + b"\nb\tlast\n"
    with pytest.raises(FormatError, match=message):
        list(TextReader(io.BytesIO(data)))
    reader = TextReader(io.BytesIO(data), on_error="skip")
    assert [y.tolist() for _, y in reader] == [["a", "b"]]


# ------------------------------------------------------------------ CSV and JSON


def test_csv_agrees_with_the_csv_module(tmp_path):
    import csv

    rng = np.random.default_rng(1)
    pieces = ["word", "two words", 'a "quote"', "comma, here", "line\nend", "", "ünï", "\r\n", "x"]
    rows = [(str(rng.integers(5) + 1), "".join(rng.choice(pieces, 3)), "1.5") for _ in range(500)]
    path = tmp_path / "r.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("stars", "body", "number"), *rows])
    for batch_size in (7, 4096):
        reader = CsvReader(path, label="stars", text="body", batch_size=batch_size)
        batches = list(reader)
        y = np.concatenate([y for _, y in batches])
        assert y.tolist() == [row[0] for row in rows]
        expected = streamed(HashingTokenizer(), [row[1] for row in rows])
        got = np.concatenate([X.data for X, _ in batches])
        assert got.tolist() == expected.data.tolist()
        # again, from places in the middle
        reader.rewind()
        assert next(reader)[1].tolist() == batches[0][1].tolist()
        place = reader.tell()
        third = [b[1].tolist() for b in reader]
        reader.seek(place)
        assert [b[1].tolist() for b in reader] == third
    reader.lines.buffer = bytearray(64)  # records longer than what is read at a time
    reader.lines.stand_at(0)
    reader.rewind()
    assert np.concatenate([y for _, y in reader]).tolist() == y.tolist()


def test_csv_numbers_weights_and_names():
    data = b"a,label,w,b\n1.5,yes,2,0\n0,no,0.5,-3e2\n"
    reader = CsvReader(io.BytesIO(data), weight="w")
    X, y, weight = next(reader)
    assert reader.feature_names == ["a", "b"]
    assert X.toarray().tolist() == [[1.5, 0], [0, -300]]
    assert (y.tolist(), weight.tolist()) == (["yes", "no"], [2, 0.5])
    reader = CsvReader(io.BytesIO(b"1;2;3\n"), label="0", header=False, separator=";")
    X, y = next(reader)
    assert (X.toarray().tolist(), y.tolist()) == ([[2, 3]], ["1"])
    assert len(list(reader)) == 0
    assert len(list(reader)) == 1  # a second pass has the first record too


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (b"1,2,3", "3 fields where the file has 2"),
        (b"1", "1 fields"),
        (b'1,a"b', "a quote inside"),
        (b'1,"a"b', "follows a closing quote"),
        (b"1,a\0b", "NUL"),
        (b"1,a\rb", "carriage return"),
        (b",text", "label is empty"),
        (b"\xff,text", "not UTF-8"),
    ],
)
def test_malformed_csv(record, message):
    data = b"stars,body\n5,one\n" + record + b"\n4,two\n"
    with pytest.raises(FormatError, match=f":3:.*{message}"):
        list(CsvReader(io.BytesIO(data), label="stars", text="body"))
    reader = CsvReader(io.BytesIO(data), label="stars", text="body", on_error="skip")
    assert [y.tolist() for _, y in reader] == [["5", "4"]]
    assert reader.n_skipped == 1


def test_an_open_quote_does_not_swallow_the_file():
    data = b"stars,body\n5,one\n" + b'1,"open\n' + b"4,two\n" * 1000
    with pytest.raises(FormatError, match=":3:1: a quoted field is not closed"):
        list(CsvReader(io.BytesIO(data), label="stars", text="body"))
    reader = CsvReader(io.BytesIO(data), label="stars", text="body", on_error="skip")
    assert sum(len(y) for _, y in reader) == 1001
    reader = CsvReader(
        io.BytesIO(data), label="stars", text="body", on_error="skip", max_line=1000
    )
    assert sum(len(y) for _, y in reader) == 1001
    assert len(reader.lines.buffer) < 1100


def test_csv_says_which_columns_there_are():
    with pytest.raises(FormatError, match="no column 'nope'; the columns are stars, body"):
        CsvReader(io.BytesIO(b"stars,body\n"), label="nope")
    with pytest.raises(FormatError, match="empty"):
        CsvReader(io.BytesIO(b""))
    with pytest.raises(FormatError, match="not a finite number"):
        list(CsvReader(io.BytesIO(b"label,x\n1,nan\n")))


def test_json_lines():
    rows = [{"stars": k % 5, "body": f"text number {k} \u2028 é", "x": k / 3} for k in range(100)]
    data = "\n".join(json.dumps(row) for row in rows).encode()
    packed = io.BytesIO(gzip.compress(data))
    reader = JsonlReader(packed, label="stars", text="body", label_type="int", batch_size=30)
    batches = list(reader)
    assert np.concatenate([y for _, y in batches]).tolist() == [row["stars"] for row in rows]
    expected = streamed(HashingTokenizer(), [row["body"] for row in rows])
    assert np.concatenate([X.data for X, _ in batches]).tolist() == expected.data.tolist()
    reader = JsonlReader(io.BytesIO(data), label=None, features=["x"], dtype=np.float64)
    X, y = next(reader)
    assert y is None
    assert X.toarray()[:, 0].tolist() == [row["x"] for row in rows]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "not JSON"), (b"[1]", "not a JSON object"), (b'{"stars": 1}', "'body' is missing"),
        (b'{"stars": 1, "body": 3}', "not text"), (b'{"stars": NaN, "body": ""}', "NaN"),
        (b'{"stars": [1], "body": ""}', "'stars' is a list"), (b"\xff", "not UTF-8"),
        (b"[" * 100_000, "nested"), (b'{"stars": 1, "body": ""} x', "not JSON"),
        (b'{"stars": 1, "body": "\0"}', "not JSON"),
    ],
)  # fmt: skip
def test_malformed_json(line, message):
    data = b'{"stars": 1, "body": "a"}\n' + line + b'\n{"stars": 2, "body": "b"}\n'
    with pytest.raises(FormatError, match=f":2:.*{message}"):
        list(JsonlReader(io.BytesIO(data), label="stars", text="body"))
    reader = JsonlReader(io.BytesIO(data), label="stars", text="body", on_error="skip")
    assert [y.tolist() for _, y in reader] == [["1", "2"]]


def test_config_makes_the_same_reader():
    data = b"stars;body\n5;Good\n"
    first = CsvReader(
        io.BytesIO(data), label="stars", text="body", separator=";", tokenizer={"ngrams": (1, 2)}
    )
    config = first.config()
    second = read(io.BytesIO(data), **json.loads(json.dumps(config)))
    assert second.config() == config
    assert (next(first)[0] != next(second)[0]).nnz == 0


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "x.parquet"
    rng = np.random.default_rng(0)
    lists = [sorted(rng.choice(50, rng.integers(0, 9), replace=False).tolist()) for _ in range(99)]
    values = [[float(rng.normal()) for _ in row] for row in lists]
    body = [f"text {k} word" for k in range(99)]
    y = [str(k % 3) for k in range(99)]
    weight = rng.random(99)
    table = pa.table({"i": lists, "v": values, "label": y, "body": body, "w": weight})
    pq.write_table(table, path, row_group_size=20)
    options = {"indices": "i", "values": "v", "weight": "w", "batch_size": 16}
    reader = read(path, **options)
    batches = list(reader)
    assert reader.n_features == max(max(row, default=0) for row in lists) + 1
    assert np.concatenate([X.indices for X, _, _ in batches]).tolist() == [
        j for row in lists for j in row
    ]
    assert np.concatenate([b[1] for b in batches]).tolist() == y
    assert np.concatenate([b[2] for b in batches]).tolist() == weight.tolist()
    reader.rewind()
    next(reader)
    place = reader.tell()
    expected = next(reader)[0]
    again = read(path, **options)
    again.seek(place)
    assert (next(again)[0] != expected).nnz == 0
    X, _ = next(read(path, text="body"))
    assert (streamed(HashingTokenizer(), body) != X).nnz == 0
    with pytest.raises(FormatError, match="no column"):
        read(path, text="nope")
    with pytest.raises(FormatError, match="n_features=3"):
        list(read(path, indices="i", n_features=3))


@pytest.mark.parametrize("first", [b"1\n", b"1,2,3,4\n", b"\n1\n"])
def test_a_first_row_of_another_length_is_malformed(first):
    """With names that are given there is no header to compare it with."""
    options = {"header": ["a", "b", "y"], "label": "y"}
    data = first + b"1,2,0\n3,4,1\n"
    with pytest.raises(FormatError, match=r":1:1: \d fields where the file has 3 columns"):
        list(read(io.BytesIO(data), "csv", **options))
    reader = read(io.BytesIO(data), "csv", on_error="skip", **options)
    assert [y.tolist() for _, y in reader] == [["0", "1"]]
    assert reader.n_skipped == 1


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("name", ["svmlight", "vw", "text", "csv", "jsonl"])
@pytest.mark.parametrize("start", [b"\x1f\x8b", b"BZhqid:1 |1e400]", b"\xfd7zXZ\0x"])
def test_broken_compression_ends_the_data(name, on_error, start):
    """It was a TypeError, and an endless loop where malformed records are skipped."""
    options = {"jsonl": {"features": ["b"]}, "svmlight": {"n_features": 3}}.get(name, {})
    with pytest.raises(FormatError, match="broken or truncated"):
        list(read(io.BytesIO(start), name, on_error=on_error, **options))


@pytest.mark.parametrize("label", ["9007199254740993", "-9007199254740993", "1e30"])
def test_labels_that_would_be_rounded_are_refused(label):
    """2**53 + 1 was read as 2**53."""
    with pytest.raises(FormatError, match="is not an integer"):
        next(TextReader(io.BytesIO(f"{label}\ttext\n".encode()), label_type="int"))
    exact = next(TextReader(io.BytesIO(b"9007199254740991\ttext\n"), label_type="int"))
    assert exact[1].tolist() == [2**53 - 1]
