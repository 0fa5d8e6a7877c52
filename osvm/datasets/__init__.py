"""Generated data sets, each the same for the same seed; numpy and scipy only.

Text at any size (`make_rcv1_like`, `iter_rcv1_like`, `make_tree_text`), the
artificial problems of Kecman and Melki (`make_chessboard`, `make_two_normals`),
the counting sequence of Vishwanathan, Schraudolph and Smola, section 6.2
(`make_counting_sequence`, `make_digits`), a drifting stream (`make_drift`), and
small sets for regression and novelty detection.

Binary labels are -1 and +1; other labels count from 0.
"""

from osvm.datasets._digits import make_counting_sequence, make_digits
from osvm.datasets._small import (
    make_chessboard,
    make_drift,
    make_novelty,
    make_sparse_regression,
    make_two_normals,
)
from osvm.datasets._text import iter_rcv1_like, make_rcv1_like, make_tree_text

__all__ = [
    "iter_rcv1_like",
    "make_chessboard",
    "make_counting_sequence",
    "make_digits",
    "make_drift",
    "make_novelty",
    "make_rcv1_like",
    "make_sparse_regression",
    "make_tree_text",
    "make_two_normals",
]
