"""Label sets as users give them: what is refused, and that theirs stay as they are."""

import numpy as np
import pytest
from scipy import sparse as sp

from osvm._input.label_sets import LabelSets

MEMBER = np.array([[0, 1, 1], [1, 0, 0]])


def not_canonical():
    """MEMBER with unsorted columns, a stored zero and an entry that comes twice."""
    data, columns, ends = (
        np.array([1, 0, 1, 2, -1]),
        np.array([2, 0, 1, 0, 0]),
        np.array([0, 3, 5]),
    )
    return sp.csr_matrix((data, columns, ends), shape=(2, 3))


def test_a_sparse_matrix_of_the_user_is_not_changed():
    Y = not_canonical()
    before = Y.data.copy(), Y.indices.copy(), Y.indptr.copy()
    sets = LabelSets.of(Y, 2)
    assert sets.flat.tolist() == [1, 2, 0]
    assert sets.ends.tolist() == [0, 2, 3]
    for mine, then in zip((Y.data, Y.indices, Y.indptr), before, strict=True):
        assert np.array_equal(mine, then)
        mine.setflags(write=False)
    assert LabelSets.of(Y, 2).flat.tolist() == [1, 2, 0]


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil"])
def test_formats_of_a_matrix(kind):
    sets = LabelSets.of(sp.csr_array(MEMBER).asformat(kind), 2)
    assert (sets.flat.tolist(), sets.ends.tolist(), sets.width) == ([1, 2, 0], [0, 2, 3], 3)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("indices", 0, 7),
        ("indices", 0, -1),
        ("indptr", 1, 9),
        ("indptr", 0, 1),
        ("indptr", 2, 10**6),
    ],
)
@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_a_malformed_matrix(kind, name, place, value):
    Y = sp.csr_matrix(MEMBER).asformat(kind)
    getattr(Y, name)[place] = value
    with pytest.raises(ValueError, match=f"Y is not a valid {kind.upper()} matrix"):
        LabelSets.of(Y, 2)


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (np.ma.array(MEMBER, mask=MEMBER), "Y is masked at row 1"),
        (MEMBER.astype(str), "needs numbers"),
        (MEMBER * 2, "0 and 1 only"),
        ([iter("ab"), iter("a")], "give a collection"),
        ([("a", 1), ("b",)], "mixes strings"),
        ([("a",), (float("nan"),)], "missing value"),
    ],
)
def test_what_is_no_set_of_labels(Y, message):
    with pytest.raises(ValueError, match=message):
        LabelSets.of(Y, 2)


def test_objects_that_are_zero_or_one():
    assert LabelSets.of(MEMBER.astype(object), 2).flat.tolist() == [1, 2, 0]
