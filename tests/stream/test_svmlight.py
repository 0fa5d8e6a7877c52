"""The svmlight reader against a slow strict one, whole and damaged files."""

import bz2
import gzip
import io
import lzma

import numpy as np
import pytest
from reference_stream import Malformed, mutate, read_svmlight

from osvm.stream import FormatError, SvmlightReader
from osvm.stream._parsing import read_double
from osvm.stream._svmlight import survey

SAMPLE = b"""# a comment line
1 1:0.5 3:2 7:-1.25e-3 # trailing
-1 2:1

+1 qid:3 1:3.141592653589793238 9:.5 10:5.
0.5\t4:1e5  5:-0 \r
2
-1 1:0.1 2:0.2 3:0.3 4:0.4 5:0.5 6:0.6 7:0.7 8:0.8 9:0.9 10:1
"""


def read_all(reader):
    """Rows as the reference gives them."""
    rows = []
    for X, y, qid in reader:
        for i in range(X.shape[0]):
            a, b = X.indptr[i], X.indptr[i + 1]
            labels = list(y[i]) if isinstance(y, list) else [y[i]]
            pairs = list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist()))
            rows.append((labels, int(qid[i]), pairs))
    return rows


def as_float32(rows):
    return [(a, q, [(j, float(np.float32(v))) for j, v in row]) for a, q, row in rows]


def agree(text, base, n_features, multilabel, batch_size=3):
    """Same rows, or an error on the same line; True when it was read."""
    reader = SvmlightReader(
        io.BytesIO(text),
        n_features=n_features,
        zero_based=base == 0,
        query_id=True,
        multilabel=multilabel,
        batch_size=batch_size,
    )
    try:
        expected = as_float32(
            read_svmlight(text, base=base, n_features=n_features, multilabel=multilabel)
        )
    except Malformed as refusal:
        line = refusal.args[0]
        with pytest.raises(FormatError) as caught:
            read_all(reader)
        assert caught.value.line == line, text
        return False
    assert read_all(reader) == expected, text
    return True


def random_file(rng, multilabel=False):
    lines = []
    for _ in range(rng.integers(1, 8)):
        label = ",".join(str(k) for k in rng.integers(0, 9, rng.integers(1, 4)))
        label = label if multilabel else str(rng.choice(["1", "-1", "+1", "0.5", "3"]))
        columns = np.unique(rng.integers(1, 60, rng.integers(0, 9)))
        style = rng.choice(["%d:%.6f", "%d:%g", "%d:%.17g", "%d:%d", "%d:%.3e"])
        lines.append(" ".join([label, *(style % (j, rng.normal() * 5) for j in columns)]))
    return "\n".join(lines).encode() + b"\n"


def run_mutations(count, seed):
    rng = np.random.default_rng(seed)
    read = 0
    for k in range(count):
        multilabel = bool(k % 3 == 0)
        text = SAMPLE if k % 5 == 0 and not multilabel else random_file(rng, multilabel)
        base = int(rng.integers(2))
        read += agree(mutate(rng, text), base, 64, multilabel)
    assert 0 < read < count


def test_sample_agrees_with_the_reference():
    assert agree(SAMPLE, 1, 10, False)
    assert agree(SAMPLE, 0, 11, False)
    assert not agree(SAMPLE, 1, 9, False)


def test_mutated_files_agree_with_the_reference():
    run_mutations(600, 1)


@pytest.mark.slow
def test_ten_thousand_mutated_files_agree_with_the_reference():
    run_mutations(10_000, 2)


NASTY = [
    b"1 a:b\n", b"abc 1:2\n", b"1 1:2x\n", b"1 1:nan\n", b"1 1:inf\n", b"1 1:1e999\n",
    b"1 1:0x10\n", b"1 99999999999999999999:1\n", b"1 18446744073709551617:1\n", b"1 2:1 1:1\n",
    b"1 1:1 1:1\n", b"1 -1:1\n", b"1 1:1\0 2:1\n", b"1 1:1 # \0\n", b"1 1 :2\n", b"1 1: 2\n",
    b"1 :2\n", b"1:2\n", b"1,2 1:2\n", b"1 1:2:3\n", b"1 1:1_0\n", b"nan 1:1\n", b"1 1:1e\n",
    b"1 1:--1\n", b"1 1:.\n", b"1 qid:x 1:1\n", b"1 1:1 qid:1\n", b"1 qid:1 qid:2 1:1\n",
    b"1 1:1\r2:2\n", b"1 1:1e39\n", b"1 0:1\n", b"1 11:1\n", b"\xff\xfe1 1:1\n", b"1\x0b1:1\n",
    b"1 1:1\xc2\xa02:1\n", b"- 1:1\n", b"1 1.0:1\n", b"1 1e1:1\n", b"1 +1:1\n",
]  # fmt: skip


@pytest.mark.parametrize("text", NASTY)
def test_garbage_is_refused(text):
    assert not agree(b"1 1:1\n" + text, 1, 10, False)
    reader = SvmlightReader(
        io.BytesIO(b"1 1:1\n" + text + b"2 2:1\n"),
        n_features=10,
        zero_based=False,
        on_error="skip",
    )
    _, y = next(reader)
    assert y.tolist() == [1, 2]
    assert reader.n_skipped == 1
    assert reader.errors[0].line == 2


def test_message_names_file_line_and_column(tmp_path):
    path = tmp_path / "train.svm"
    path.write_bytes(b"1 1:1\n-1 1:1 5:2x\n")
    with pytest.raises(FormatError, match=r"train\.svm:2:11: the value is not followed"):
        list(SvmlightReader(path))


def test_columns_are_settled_for_the_whole_file():
    one = b"1 1:1\n" * 5000 + b"1 7:1\n"
    zero = one + b"1 0:1\n"
    reader = SvmlightReader(io.BytesIO(one))
    assert (reader.n_features, reader.zero_based) == (7, False)
    assert all(X.indices[0] == 0 for X, _ in reader if X.shape[0] == 4096)
    reader = SvmlightReader(io.BytesIO(zero))
    assert (reader.n_features, reader.zero_based) == (8, True)
    X, _ = next(reader)
    assert X.indices[0] == 1
    assert X.shape == (4096, 8)


def test_a_skipped_line_does_not_count_for_the_columns():
    reader = SvmlightReader(io.BytesIO(b"1 1:1\n1 0:1 900:x\n"), on_error="skip")
    assert (reader.n_features, reader.zero_based) == (1, False)


def test_labels_and_lines_are_surveyed():
    reader = SvmlightReader(io.BytesIO(SAMPLE))
    assert reader.labels.tolist() == [-1, 0.5, 1, 2]
    assert reader.n_lines == 8


def test_wide_indices():
    text = b"1 5:1 3000000000:2\n-1 1:1\n"
    (X, _), *_ = list(SvmlightReader(io.BytesIO(text)))
    assert X.indices.dtype == np.int64
    assert X.indices.tolist() == [4, 2999999999, 0]
    (X, _), *_ = list(SvmlightReader(io.BytesIO(b"1 2147483648:1\n")))
    assert X.indices.tolist() == [2**31 - 1]
    (X, _), *_ = list(SvmlightReader(io.BytesIO(b"1 5:1\n")))
    assert X.indices.dtype == np.int32


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_compressed_files(pack, tmp_path):
    path = tmp_path / "data"
    path.write_bytes(pack(SAMPLE))
    reader = SvmlightReader(path, query_id=True)
    assert read_all(reader) == as_float32(read_svmlight(SAMPLE, base=1, n_features=10))
    assert len(read_all(reader)) == 6  # a second pass


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_truncated_compressed_files(pack, tmp_path):
    path = tmp_path / "data"
    body = pack(b"".join(b"1 %d:1\n" % k for k in range(1, 50_000)))
    path.write_bytes(body[: len(body) // 2])
    with pytest.raises(FormatError, match="broken or truncated"):
        list(SvmlightReader(path))


def test_zstd_needs_a_package_or_reads(tmp_path):
    path = tmp_path / "data"
    try:
        import zstandard
    except ImportError:
        path.write_bytes(b"\x28\xb5\x2f\xfd1234")
        with pytest.raises(FormatError, match="zstandard"):
            SvmlightReader(path)
        return
    path.write_bytes(zstandard.compress(SAMPLE))
    assert sum(X.shape[0] for X, _ in SvmlightReader(path)) == 6


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_restart_from_every_batch(pack, tmp_path):
    rng = np.random.default_rng(0)
    text = b"".join(random_file(rng) for _ in range(300))
    path = tmp_path / "data"
    path.write_bytes(pack(text))
    reader = SvmlightReader(path, batch_size=100, query_id=True)
    places, batches = [], []
    places.append(reader.tell())
    for X, _, _ in reader:
        batches.append(X)
        places.append(reader.tell())
    again = SvmlightReader(path, batch_size=100, query_id=True)
    for k in (len(batches) - 1, 2, 0):
        again.seek(places[k])
        X, _, _ = next(again)
        assert X.indices.tolist() == batches[k].indices.tolist()
        assert X.data.tolist() == batches[k].data.tolist()
        assert again.tell() == places[k + 1]


def test_a_very_long_line_is_refused_or_skipped_without_being_held():
    long = b"1 " + b" ".join(b"%d:1" % j for j in range(1, 40_000)) + b"\n"
    text = b"1 1:1\n" + long + b"-1 2:1\n"
    with pytest.raises(FormatError, match=":2:1: the line is longer than max_line=10000"):
        list(SvmlightReader(io.BytesIO(text), n_features=50_000, max_line=10_000))
    reader = SvmlightReader(
        io.BytesIO(text), n_features=50_000, zero_based=False, max_line=10_000, on_error="skip"
    )
    assert [y.tolist() for _, y in reader] == [[1, -1]]
    assert len(reader.lines.buffer) < 11_000
    reader = SvmlightReader(io.BytesIO(text))  # fits the default
    assert sum(X.nnz for X, _ in reader) == 40_001
    # it goes on as the last line without a line feed, too
    reader = SvmlightReader(
        io.BytesIO(text[: 6 + 20_000]),
        n_features=50_000,
        zero_based=False,
        max_line=10_000,
        on_error="skip",
    )
    assert [y.tolist() for _, y in reader] == [[1]]


def test_pieces_of_any_size_give_the_same_rows():
    rng = np.random.default_rng(3)
    text = b"".join(random_file(rng) for _ in range(40))
    expected = as_float32(read_svmlight(text, base=1, n_features=64))

    class Dribble(io.BytesIO):
        def readinto(self, view):
            data = self.read(min(len(view), int(rng.integers(1, 40))))
            view[: len(data)] = data
            return len(data)

    reader = SvmlightReader(Dribble(text), n_features=64, query_id=True, zero_based=False)
    assert read_all(reader) == expected


def test_a_pipe_needs_n_features():
    class Pipe(io.BytesIO):
        def seekable(self):
            return False

    with pytest.raises(ValueError, match="pass n_features"):
        SvmlightReader(Pipe(SAMPLE))
    reader = SvmlightReader(Pipe(gzip.compress(SAMPLE)), n_features=10)
    assert sum(X.shape[0] for X, _ in reader) == 6
    with pytest.raises(ValueError, match="cannot be read twice"):
        iter(reader)


def test_numbers_round_as_python_rounds_them():
    rng = np.random.default_rng(0)
    for k in range(20_000):
        value = rng.normal() * 10.0 ** rng.integers(-40, 40)
        text = f"{value:.{k % 25}e}" if k % 2 else f"{rng.normal():.{k % 23}f}"
        assert read_double(text.encode()) == float(text)
    for text in ("9007199254740993", "1e22", "1e23", "8.5e-324", "1.7976931348623157e308", "0e9"):
        assert read_double(text.encode()) == float(text)
    for text in ("", "+", ".", "1e", "1e+", "0x1", "inf", "nan", "1 ", " 1", "1e999", "1_0"):
        assert read_double(text.encode()) is None


def test_agrees_with_scikit_learn(tmp_path):
    datasets = pytest.importorskip("sklearn.datasets")
    rng = np.random.default_rng(0)
    text = b"".join(random_file(rng) for _ in range(50))
    X, y = datasets.load_svmlight_file(io.BytesIO(text), n_features=64)
    (Z, t), *_ = list(SvmlightReader(io.BytesIO(text), n_features=64, dtype=np.float64))
    assert (X != Z).nnz == 0
    assert (y == t).all()


def test_a_byte_order_mark_adds_no_label(tmp_path):
    """The survey once took memory that nobody had written for the label of such a line."""
    path = tmp_path / "a.svm"
    path.write_bytes(b"\xef\xbb\xbf3 9:1\n" + b"1 2:1\n-1 1:2\n" * 50)
    reader = SvmlightReader(path)
    assert reader.labels.tolist() == [-1.0, 1.0, 3.0]
    assert (reader.n_features, reader.zero_based) == (9, False)
    assert sum(len(y) for _, y in reader) == 101


def test_a_survey_counts_no_label_of_malformed_lines():
    text = b"x 0:1\n:\n2 3:1\nqid:1 1:1\n5\n"
    room = np.full(8, 77.0)
    assert survey(text + bytes(32), 0, len(text), room)[2:] == (2, 5)
    assert room.tolist() == [2.0, 5.0, *[77.0] * 6]


def test_a_survey_finds_labels_behind_many_short_rows(tmp_path):
    """It once looked at the first 65,536 rows of every megabyte."""
    path = tmp_path / "a.svm"
    path.write_bytes(b"0 1:1\n1 2:1\n" * 40_000 + b"2\n" * 100_000 + b"3")
    assert SvmlightReader(path).labels.tolist() == [0.0, 1.0, 2.0, 3.0]
