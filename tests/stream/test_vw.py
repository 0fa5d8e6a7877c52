"""The Vowpal Wabbit reader against a slow strict one, whole and damaged files."""

import io

import numpy as np
import pytest
from reference_stream import Malformed, mutate, read_vw

from osvm.stream import FormatError, VwReader
from osvm.stream._vw import hash_feature

SAMPLE = b"""1 2.0 'tag |a x:2 y |b:3 z 12 |  w q:0 :5 :7
-1 |words the cat sat
0.5 1 0 third|n x:.5
1 |a\r

2 'q |1 2 3:4\t5|c
"""


def agree(text, bits, unlabelled):
    reader = VwReader(io.BytesIO(text), bits=bits, unlabelled=unlabelled, batch_size=3)
    rows = []
    try:
        expected = read_vw(text, bits=bits, unlabelled=unlabelled)
    except Malformed as refusal:
        line = refusal.args[0]
        with pytest.raises(FormatError) as caught:
            list(reader)
        assert caught.value.line == line, text
        return False
    for X, y, weight in reader:
        for i in range(X.shape[0]):
            a, b = X.indptr[i], X.indptr[i + 1]
            rows.append((y[i], weight[i], list(zip(X.indices[a:b], X.data[a:b]))))
    assert len(rows) == len(expected), text
    for (y, weight, row), (label, importance, pairs) in zip(rows, expected):
        assert y == label or (np.isnan(y) and np.isnan(label)), text
        assert weight == importance, text
        assert row == [(j, np.float32(v)) for j, v in pairs], text
    return True


def run_mutations(count, seed):
    rng = np.random.default_rng(seed)
    read = 0
    for k in range(count):
        read += agree(mutate(rng, SAMPLE), (18, 10, 31)[k % 3], bool(k % 2))
    assert 0 < read < count


def test_sample_agrees_with_the_reference():
    assert agree(SAMPLE, 18, False)


def test_mutated_files_agree_with_the_reference():
    run_mutations(600, 1)


@pytest.mark.slow
def test_ten_thousand_mutated_files_agree_with_the_reference():
    run_mutations(10_000, 2)


def test_columns_are_those_of_vowpal_wabbit():
    # printed by Vowpal Wabbit 9.11 with -b 18
    for space, name, column in [
        ("a", "x", 55432), ("user", "id=1", 196888), ("a", "123", 92717), ("12", "7", 19),
        ("b", "abc:", 199470), ("nm", "é", 168890), ("a", "99999999999", 20913),
        ("", "w", 236831),
    ]:  # fmt: skip
        assert hash_feature(space, name, 18) == column


@pytest.mark.parametrize(
    "text",
    [b"1|a x\n", b"a |b c\n", b"1 -1 |a x\n", b"1 1 3 |a x\n", b"1 |a x:nan\n", b"1 |a x:1:2\n",
     b"1 |a x:y\n", b"1 |a:b x\n", b"1 a x\n", b"|a x\n", b"1 |a x\0\n", b"1e999 |a\n",
     b"1 |a x:1e39\n", b"1 |a x:1e200 |b:1e200 y:1e200\n", b"1 |a x\ry\n"],
)  # fmt: skip
def test_garbage_is_refused(text):
    assert not agree(b"1 |a x\n" + text, 18, False)
    reader = VwReader(io.BytesIO(b"1 |a x\n" + text + b"2 |a y\n"), on_error="skip")
    X, y, _ = next(reader)
    assert y.tolist() == [1, 2]
    assert X.nnz == 2
    assert reader.n_skipped == 1


def test_unlabelled_lines():
    X, y, _ = next(VwReader(io.BytesIO(b"|a x\n'tag |a x y\n"), unlabelled=True))
    assert np.isnan(y).all()
    assert X.nnz == 3


def test_restart_from_every_batch():
    text = b"".join(b"%d %d |a f%d:%d g%d\n" % (k % 2, k, k, k, k) for k in range(50))
    reader = VwReader(io.BytesIO(text), batch_size=7)
    places, batches = [reader.tell()], []
    for _, _, weight in reader:
        batches.append(weight.tolist())
        places.append(reader.tell())
    for k in range(len(batches)):
        reader.seek(places[k])
        assert next(reader)[2].tolist() == batches[k]
