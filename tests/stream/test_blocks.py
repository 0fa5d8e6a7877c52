"""Files in random order of their blocks, and rows that are held out."""

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osvm.stream import BlockReader, CsvReader, FormatError, ShuffledReader, TextReader, read
from osvm.stream.blocks import can_visit_blocks
from osvm.stream.hold_out import HoldOutReader


def svm_file(path, n=500):
    path.write_text("".join(f"{k} 1:{k % 7} {k % 50 + 2}:1\n" for k in range(n)))
    return path


def labels(reader):
    return [label for batch in reader for label in batch[1].tolist()]


@pytest.mark.parametrize("block_bytes", [1, 10, 100, 1000, 10**6])
def test_every_record_once_in_another_order_each_pass(tmp_path, block_bytes):
    reader = BlockReader(
        read(svm_file(tmp_path / "a.svm"), batch_size=7), block_bytes=block_bytes, random_state=0
    )
    passes = [labels(reader) for _ in range(3)]
    assert all(sorted(found) == list(range(500)) for found in passes)
    if block_bytes < 10**6:
        assert passes[0] != passes[1] != passes[2]
        assert passes[0] != sorted(passes[0])
    assert reader.n_rows == 500


fields = st.text(st.sampled_from(["a", '"', ",", "\n", "é", " "]), max_size=6)


@given(st.lists(fields, min_size=1, max_size=30), st.integers(1, 40), st.booleans())
@settings(max_examples=150, deadline=None)
def test_line_feeds_within_quotes_end_no_record(tmp_path_factory, bodies, block_bytes, header):
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    rows = ['{},"{}"'.format(k, body.replace('"', '""')) for k, body in enumerate(bodies)]
    path.write_bytes(("label,body\n" * header + "\n".join(rows) + "\n").encode())
    options = {"label": "label", "text": "body"} if header else {"label": "0", "text": "1"}
    options |= {"header": header, "label_type": "int", "tokenizer": {"bits": 8, "idf": False}}
    options["tokenizer"]["analyzer"] = "char"
    expected = {}
    for X, y in CsvReader(path, **options):
        expected |= {int(label): X[[k]].toarray().tolist() for k, label in enumerate(y)}
    reader = BlockReader(CsvReader(path, **options), block_bytes=block_bytes, random_state=1)
    for _ in range(2):
        found = {}
        for X, y in reader:
            found |= {int(label): X[[k]].toarray().tolist() for k, label in enumerate(y)}
        assert found == expected
        assert reader.n_rows == len(bodies)


def test_going_on_from_any_place(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{k}\tword{k % 30} other{k % 7}\n" for k in range(300)))

    def make():
        inner = TextReader(path, batch_size=8, tokenizer={"bits": 8})
        blocks = BlockReader(inner, block_bytes=150, random_state=3)
        held = HoldOutReader(blocks, 10, lambda batch, number: None)
        return ShuffledReader(held, size=40, batch_size=16, random_state=3)

    reader = make()
    batches = [*reader, *reader]
    again, places = make(), []
    for _ in range(2):
        for _ in again:
            places.append(again.get_state())
    for k in range(0, len(places) - 1, 3):
        third = make()
        third.set_state(*places[k])
        X, y = next(third, None) or next(iter(third))
        assert y.tolist() == batches[k + 1][1].tolist()
        assert (batches[k + 1][0] != X).nnz == 0


def test_the_same_rows_are_held_out_in_every_pass(tmp_path):
    held = []
    blocks = BlockReader(read(svm_file(tmp_path / "a.svm")), block_bytes=200, random_state=0)
    reader = HoldOutReader(blocks, 10, lambda batch, _: held.extend(batch[1].tolist()))
    first = set(labels(reader))
    left_out = set(held)
    held.clear()
    assert set(labels(reader)) == first
    assert set(held) == left_out
    assert first | left_out == set(range(500))
    assert not first & left_out
    assert 30 < len(left_out) < 70
    plain = HoldOutReader(read(tmp_path / "a.svm"), 10, lambda batch, number: None)
    assert [k for k in range(500) if k not in set(labels(plain))] == list(range(9, 500, 10))


def test_documents_are_counted_once(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{k}\tword{k}\n" for k in range(300)))
    reader = BlockReader(TextReader(path, batch_size=8), block_bytes=150, random_state=3)
    for _ in range(3):
        assert sum(len(y) for _, y in reader) == 300
        assert reader.reader.tokenizer.n_documents_ == 300


def test_errors_name_the_line_of_the_file(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("1 1:1\n" * 77 + "1 1:x\n" + "1 1:1\n" * 100)
    with pytest.raises(FormatError, match=r"a.svm:78:5"):
        list(BlockReader(read(path, n_features=3), block_bytes=60, random_state=0))
    reader = BlockReader(read(path, n_features=3, on_error="skip"), block_bytes=60, random_state=0)
    assert sum(len(y) for _, y in reader) == 177
    assert (reader.n_skipped, reader.reader.errors[0].line) == (1, 78)


def test_what_cannot_be_visited_in_blocks(tmp_path):
    path = tmp_path / "a.svm.gz"
    path.write_bytes(gzip.compress(b"1 1:1\n"))
    assert not can_visit_blocks(read(path))
    with pytest.raises(ValueError, match="only plain files"):
        BlockReader(read(path))
    (tmp_path / "a.csv").write_text("label,x\n1,2\n")
    assert can_visit_blocks(read(tmp_path / "a.csv"))
    assert not can_visit_blocks(read(tmp_path / "a.csv", on_error="skip"))
    assert can_visit_blocks(read(tmp_path / "a.csv", on_error="skip", quote=None))
    with pytest.raises(ValueError, match="another order"):
        BlockReader(read(tmp_path / "a.csv")).set_state({"rows": 1}, {})


def test_a_sorted_file_comes_mixed(tmp_path):
    path = tmp_path / "sorted.svm"
    path.write_text("".join(f"{k // 5000} 1:1 2:{k % 9}\n" for k in range(10000)))
    reader = ShuffledReader(BlockReader(read(path), random_state=0), size=4000, random_state=0)
    y = np.array(labels(reader))
    assert all(0.2 < y[start : start + 1000].mean() < 0.8 for start in range(0, 10000, 1000))
