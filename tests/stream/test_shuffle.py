"""Shuffled streams and iterables."""

import io
import json
import threading

import numpy as np
import pytest
from scipy.sparse import csr_array

from osvm.stream import IterableReader, ShuffledReader, SvmlightReader, VwReader
from osvm.stream.batches import gather_rows

LINES = b"".join(b"%d 1:%d 2:1\n" % (k, k + 1) for k in range(1000))


def labels(reader):
    return np.concatenate([batch[1] for batch in reader]).tolist()


def shuffled(**options):
    reader = SvmlightReader(io.BytesIO(LINES), batch_size=33)
    return ShuffledReader(reader, **{"size": 200, "random_state": 7, **options})


def test_every_row_once_and_rows_stay_whole():
    batches = list(shuffled())
    y = np.concatenate([y for _, y in batches])
    assert sorted(y.tolist()) == list(range(1000))
    assert y.tolist() != list(range(1000))
    for X, y in batches:
        assert X[:, [0]].toarray().ravel().tolist() == (y + 1).tolist()
        assert X.shape[0] <= 33


def test_order_depends_on_the_seed_only():
    assert labels(shuffled()) == labels(shuffled())
    assert labels(shuffled()) != labels(shuffled(random_state=8))


def test_a_thread_that_copies_rows_changes_nothing():
    one, two = shuffled(), shuffled(threads=2)
    for batches in zip(one, two, strict=True):
        (X, y), (other, labels_) = batches
        assert X.indptr.tolist() == other.indptr.tolist()
        assert X.data.tobytes() == other.data.tobytes()
        assert (y == labels_).all()
    two.rewind()
    one.rewind()
    assert labels(two) == labels(one)
    two.close()
    with pytest.raises(ValueError, match="threads"):
        shuffled(threads=0)


def test_an_error_in_the_thread_that_copies_rows_is_raised(monkeypatch):
    reader = shuffled(threads=2)

    def fails(parts, order):
        if threading.current_thread() is not threading.main_thread():
            raise MemoryError("no room")
        return gather_rows(parts, order)

    monkeypatch.setattr("osvm.stream.shuffle.gather_rows", fails)
    with pytest.raises(MemoryError, match="no room"):
        labels(reader)


def test_a_second_pass_is_in_another_order():
    reader = shuffled()
    first = labels(reader)
    second = labels(reader)
    assert first != second
    assert sorted(first) == sorted(second)


@pytest.mark.parametrize("threads", [1, 2])
def test_state_goes_through_json_and_arrays(threads):
    expected = shuffled()
    reader, plain = shuffled(threads=threads), shuffled()
    for k in range(0, 31, 6):
        fresh = shuffled(random_state=99, threads=threads)
        scalars, arrays = reader.get_state()
        same, own = plain.get_state()
        assert scalars == same
        assert {name: a.tolist() for name, a in arrays.items()} == {
            name: a.tolist() for name, a in own.items()
        }
        fresh.set_state(json.loads(json.dumps(scalars)), arrays)
        assert labels(fresh) == labels(expected)[sum(sizes(k)) :]
        expected = shuffled()
        for _ in range(6):
            next(reader, None)
            next(plain, None)


def sizes(k):
    reader = shuffled()
    return [len(next(reader)[1]) for _ in range(k)]


def test_weights_travel_with_their_rows():
    text = b"".join(b"%d %d |a x:%d\n" % (k, k, k + 1) for k in range(100))
    for X, y, weight in ShuffledReader(VwReader(io.BytesIO(text)), size=30):
        assert y.tolist() == weight.tolist() == (X.data - 1).tolist()


def test_iterables():
    batches = [(csr_array(np.eye(3)), [1, 2, 3]), (csr_array(np.eye(3)), [4, 5, 6])]
    reader = IterableReader(batches)
    assert labels(reader) == [1, 2, 3, 4, 5, 6]
    assert labels(reader) == [1, 2, 3, 4, 5, 6]
    next(iter(reader))
    place = reader.tell()
    assert next(reader)[1] == [4, 5, 6]
    reader.seek(place)
    assert next(reader)[1] == [4, 5, 6]
    assert reader.n_rows == 6
    reader = IterableReader(lambda: (b for b in batches))
    assert labels(reader) == labels(reader)
    reader = IterableReader(b for b in batches)
    assert labels(reader) == [1, 2, 3, 4, 5, 6]
    with pytest.raises(ValueError, match="cannot be read twice"):
        list(reader)
    with pytest.raises(ValueError, match="tuples"):
        next(IterableReader([np.eye(3)]))
