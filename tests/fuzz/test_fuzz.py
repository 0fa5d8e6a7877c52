"""Every reader and CSR input under bytes that nobody would write."""

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_stream import mutate

from tests.fuzz.targets import TARGETS, seeds

PIECES = [
    b"\n", b"\r\n", b",", b"\t", b'"', b'""', b"|", b":", b" ", b"{", b"}", b"[", b"]", b"null",
    b"label", b"b", b"c", b"1", b"-1", b"0.5", b"nan", b"inf", b"1e400", b"1e-400", b"\\u0000",
    b"\xff", b"\xef\xbb\xbf", b"\0", b"\xc3", b"{\"label\": 1, \"b\": 2}\n", b"1:2 ",
    b"a |n x:2\n", b"99999999999999999999", b"true", b"qid:1 ", b"'tag", b"#", b"\xe2\x80\xa8",
    b"\x1f\x8b",
    b"BZh",
]  # fmt: skip
pieces = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=4)), max_size=40)
TEXT = [name for name in TARGETS if name not in ("parquet", "csr")]


def _skip_without(name):
    if name == "parquet":
        pytest.importorskip("pyarrow")


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus(name):
    """Files that were read wrongly once, and one of each kind; some of them must be read."""
    _skip_without(name)
    read = [TARGETS[name](data) for data in seeds(name)]
    assert any(read)


@pytest.mark.parametrize("name", TEXT)
@settings(max_examples=150, deadline=None, derandomize=True)
@given(option=st.integers(0, 7), parts=pieces)
def test_any_text(name, option, parts):
    TARGETS[name](bytes([option]) + b"".join(parts))


@settings(max_examples=400, deadline=None, derandomize=True)
@given(head=st.binary(min_size=8, max_size=8), body=st.binary(max_size=200))
def test_any_matrix(head, body):
    TARGETS["csr"](head + body)


def run_mutations(name, count, seed):
    _skip_without(name)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    files, read = seeds(name), 0
    for k in range(count):
        data = mutate(rng, files[k % len(files)])
        read += bool(data) and TARGETS[name](data)
    # some are valid still, some are not; nearly any byte of a Parquet file matters
    assert read < count
    assert read > 0 or name == "parquet"


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_files(name):
    run_mutations(name, 60 if name == "parquet" else 150, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_many_mutated_files(name):
    run_mutations(name, 1000 if name == "parquet" else 10_000, 2)
