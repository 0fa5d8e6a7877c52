"""Rows in random order through files: `osvm convert --shuffle`."""

import json
import os
import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array

import osvm
from osvm.stream import IterableReader, read
from osvm.stream.external import ExternalShuffle
from tests.run_command import command


def batches(n, size=1000, sets=False):
    """Row k has the value k + 1 in column k % 13, label k // 100 (sorted), weight k."""
    for start in range(0, n, size):
        k = np.arange(start, min(n, start + size))
        X = csr_array((k + 1.0, k % 13, np.arange(len(k) + 1)), shape=(len(k), 13))
        y = [(j % 3, j % 5)[: j % 3] for j in k.tolist()] if sets else k // 100
        yield X, y, k.astype(float)


def shuffled(folder, n, buckets=4, memory=4 * 6000, seed=0, sets=False):
    reader = IterableReader(batches(n, sets=sets))
    return ExternalShuffle(reader, buckets, memory, folder, random_state=seed)


@pytest.mark.parametrize("sets", [False, True])
@pytest.mark.parametrize("memory", [4 * 6000, 4 * 50_000, 10**7])  # scattered again, once, in one
def test_every_row_once_with_its_label_and_weight(tmp_path, memory, sets):
    rows = []
    with shuffled(tmp_path, 3000, memory=memory, sets=sets) as reader:
        for X, y, weight in reader:
            for j, (label, w) in enumerate(zip(y, weight)):
                assert X[[j]].toarray().sum() == w + 1
                assert X.indices[X.indptr[j]] == w % 13
                k = int(w)
                assert label == ((k % 3, k % 5)[: k % 3] if sets else k // 100)
                rows.append(k)
        assert reader.n_rows == 3000
    assert sorted(rows) == list(range(3000))
    assert rows != sorted(rows)
    assert os.listdir(tmp_path) == []


def test_the_seed_decides(tmp_path):
    def order(seed):
        with shuffled(tmp_path, 1000, seed=seed) as reader:
            return [k for *_, weight in reader for k in weight]

    assert order(1) == order(1) != order(2)


def test_the_order_is_uniform(tmp_path):
    """Where row 0 and row 49 of 50 go, over many seeds: everywhere, and mutually free."""
    places = np.zeros((2, 5))
    for seed in range(100):
        with shuffled(tmp_path, 50, buckets=3, memory=4 * 1000, seed=seed) as reader:
            rows = [k for *_, weight in reader for k in weight]
        places[0, rows.index(0) // 10] += 1
        places[1, rows.index(49) // 10] += 1
    assert np.all(np.abs(places - 20) < 4 * np.sqrt(100 * 0.2 * 0.8))


def test_sorted_rows_become_mixed(tmp_path):
    with shuffled(tmp_path, 20_000, memory=10**6) as reader:
        labels = np.concatenate([y for _, y, _ in reader])
    blocks = labels[: 20 * 1000].reshape(20, 1000)
    assert np.all(np.abs(blocks.mean(axis=1) - labels.mean()) < 5 * labels.std() / np.sqrt(1000))


def test_memory_does_not_grow_with_the_rows(tmp_path):
    def peak(n):
        tracemalloc.start()
        with shuffled(tmp_path, n, memory=10**6) as reader:
            for _ in reader:
                pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak(1000)  # imports
    small, large = peak(40_000), peak(160_000)
    assert large < 2 * small  # of four times the rows; the sizes of the pieces are random
    assert large < 2e6


# --------------------------------------------------------------------- the command


@pytest.fixture
def sorted_file(tmp_path):
    path = tmp_path / "sorted.svm"
    path.write_text("".join(f"{k // 500} {k % 7 + 1}:{k + 1}\n" for k in range(1000)))
    return path


def rows_of(*paths):
    return [(float(label), float(x.sum())) for p in paths for X, y in read(p)
            for label, x in zip(y, X.toarray())]  # fmt: skip


@pytest.mark.parametrize("suffix", ["svm", "parquet"])
def test_convert_shuffle(sorted_file, tmp_path, suffix):
    out = [tmp_path / f"{k}.{suffix}" for k in range(3)]
    for path, seed in zip(out, (0, 0, 1)):
        command("convert", sorted_file, path, "--shuffle", "--random-state", seed, "-q")
    first, again, other = map(rows_of, out)
    assert first == again != other
    assert sorted(first) == rows_of(sorted_file) != first
    assert 150 < sum(label for label, _ in first[:500]) < 350
    assert set(os.listdir(tmp_path)) == {"sorted.svm", *(path.name for path in out)}


def test_convert_splits_into_mixed_blocks(sorted_file, tmp_path):
    out = command("convert", sorted_file, tmp_path / "b.svm", "--shuffle", "--split", 10,
                  "--random-state", 0, "-q", "--json")[0]  # fmt: skip
    assert json.loads(out)["rows"] == 1000
    paths = [tmp_path / f"b-{k}.svm" for k in range(10)]
    assert sorted(rows_of(*paths)) == rows_of(sorted_file)
    for path in paths:
        labels = [label for label, _ in rows_of(path)]
        assert 60 < len(labels) < 140
        assert 0.3 < np.mean(labels) < 0.7
    # which is what blocks of rounds are to be
    model = osvm.distributed.fit(
        osvm.LinearClassifier(random_state=0, normalize=True), paths, rounds=1,
        read={"n_features": 7},
    )  # fmt: skip
    assert model.rounds_[0]["rows"] == 1000


def test_convert_shuffle_refuses(sorted_file, tmp_path):
    assert "--split needs --shuffle" in command(
        "convert", sorted_file, tmp_path / "x.svm", "--split", 2, status=2
    )[1]  # fmt: skip
    assert "standard output" in command("convert", sorted_file, "-", "--shuffle", status=1)[1]
