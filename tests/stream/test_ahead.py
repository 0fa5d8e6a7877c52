"""Blocks that threads parse ahead: the batches, places and errors of one thread."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osvm.stream import BlockReader, FormatError, read
from osvm.stream.ahead import Ahead

LINES = [
    b"1 1:0.5 7:2", b"-1 3:1e-3", b"1", b"", b"# only a comment", b"2 qid:3 1:1 # end",
    b"1 1:0.5\r", b"  ", b"3 " + b" ".join(b"%d:1" % k for k in range(1, 60)), b"1 1:" + b"1" * 40,
]  # fmt: skip
BAD = [b"1 2:x", b"1 5:1 4:1", b"word", b"1 1:\x00"]


def everything(reader):
    """Batches with the state after each, then the errors."""
    out = []
    for X, *rest in reader:
        scalars, _ = reader.get_state()
        found = [X.toarray().tolist(), *(np.asarray(part).tolist() for part in rest)]
        out.append((found, reader.first_row, reader.bytes_read, scalars))
    return out, reader.n_rows, reader.n_skipped, [str(e) for e in reader.errors]


def opened(path, threads, block_bytes=64, **options):
    options = {"n_features": 60, "zero_based": False, **options}
    if path.suffix == ".vw":
        options = {"bits": 6}
    return BlockReader(
        read(path, **options), block_bytes=block_bytes, random_state=0, threads=threads
    )


@given(
    st.lists(st.sampled_from(LINES + BAD), max_size=60), st.integers(1, 200),
    st.sampled_from([3, 4096]), st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_the_same_batches_states_and_errors(
    tmp_path_factory, lines, block_bytes, batch_size, ended, marked, shuffle
):
    path = tmp_path_factory.mktemp("ahead") / "a.svm"
    text = b"\n".join([*lines, b"1 2:3"]) + b"\n" * ended
    path.write_bytes(b"\xef\xbb\xbf" * marked + text)
    made = []
    for threads in (1, 3):
        inner = read(path, n_features=60, zero_based=False, batch_size=batch_size, on_error="skip")
        with BlockReader(
            inner, block_bytes=block_bytes, random_state=0, threads=threads, shuffle=shuffle
        ) as reader:
            made.append([everything(reader) for _ in range(2)])
    assert made[0] == made[1]


@pytest.mark.parametrize("suffix", ["svm", "vw"])
def test_most_blocks_are_parsed_by_threads(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"a.{suffix}"
    bar = "| " if suffix == "vw" else ""
    path.write_text("".join(f"{k % 2} {bar}1:{k}\n" for k in range(3000)))
    parse, answers = Ahead._parse, []

    def counted(self, own, block):
        answers.append(parse(self, own, block))
        return answers[-1]

    monkeypatch.setattr(Ahead, "_parse", counted)
    one, two = (everything(opened(path, threads, 1000)) for threads in (1, 2))
    assert one == two
    assert len(answers) == -(-path.stat().st_size // 1000)
    assert None not in answers


@pytest.mark.parametrize("waiting", [1, 3000])
def test_few_blocks_wait(tmp_path, monkeypatch, waiting):
    path = tmp_path / "a.svm"
    path.write_text("1 1:1\n" * 20_000)
    parse, done = Ahead._parse, []
    monkeypatch.setattr(
        Ahead, "_parse", lambda self, own, k: (done.append(k), parse(self, own, k))[1]
    )
    monkeypatch.setattr("osvm.stream.ahead.WAITING", waiting)
    reader = opened(path, 2, 100)
    for _ in range(20):
        next(reader)
    reader.close()  # cancels what nobody will take
    per_task = 8 * 16 * 2  # blocks of 16 rows and as many values
    assert len(done) <= 20 + 8 * (1 + max(4, waiting // per_task))


def test_a_malformed_line_stops_where_one_thread_does(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("1 1:1\n" * 500 + "1 2:x\n" + "1 1:1\n" * 500)
    found = []
    for threads in (1, 2):
        reader = opened(path, threads)
        with pytest.raises(FormatError, match=":501:5:") as caught:
            everything(reader)
        found.append((reader.n_rows, str(caught.value)))
    assert found[0] == found[1]


@pytest.mark.parametrize("threads", [(1, 2), (2, 1)])
def test_a_pass_goes_on_with_another_number_of_threads(tmp_path, threads):
    path = tmp_path / "a.svm"
    path.write_text("".join(f"{k} 1:{k}\n" for k in range(2000)))
    whole = [y.tolist() for _, y in opened(path, 1)]
    first = opened(path, threads[0])
    head = [next(first)[1].tolist() for _ in range(9)]
    rest = opened(path, threads[1])
    rest.set_state(*first.get_state())
    assert head + [y.tolist() for _, y in rest] == whole
    first.close()


def test_other_formats_are_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("label,x\n1,2\n")
    with pytest.raises(ValueError, match="only svmlight and vw files are parsed by several"):
        BlockReader(read(path), threads=2)
    with pytest.raises(ValueError, match="threads must be an integer >= 1"):
        BlockReader(read(path), threads=0)
