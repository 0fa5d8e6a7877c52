"""Class labels as codes 0, 1, ..., the weights of classes, and the order in which they come.

`LabelIndex` and `RunningBalance` are immutable: growing gives a new one, so an estimator can
check everything first and store the result last.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from osvm._input.convert import brief, warn
from osvm._input.scan import copy_codes
from osvm._input.schema import Field, Schema, check_list, fair_dtype
from osvm._input.targets import MOST_WEIGHT

_NUMERIC = "biuf"
ALIKE = 1000  # rows of one label, at the beginning of a stream, that are worth a warning
CLOSELY = 4096  # rows whose neighbors are all compared
SMALL = 8  # labels up to which a dictionary is quicker than numpy
Codes = npt.NDArray[np.int32]


class LabelIndex:
    """Labels in the order of their codes.

    `LabelIndex.of(y)` sorts them, as `fit` wants; `grown(y)` appends what is new
    and keeps the codes that exist, as a stream wants.  Labels are numbers, bools
    or strings, as `osvm._input.validate.check_y_classes` returns them.

    Examples
    --------
    >>> import numpy as np
    >>> index = LabelIndex.of(np.array(["pear", "apple", "pear"]))
    >>> index.classes.tolist()
    ['apple', 'pear']
    >>> index.encode(np.array(["pear", "apple"])).tolist()
    [1, 0]
    >>> index, codes = index.grown(np.array(["fig", "pear"]))
    >>> index.classes.tolist(), codes.tolist()
    (['apple', 'pear', 'fig'], [2, 1])
    """

    __slots__ = ("_long", "_lookup", "_numeric", "_plain", "_sorted", "_sorter", "classes")

    def __init__(self, classes: npt.NDArray[Any]) -> None:
        classes = np.asarray(classes)
        classes = classes.astype(classes.dtype.newbyteorder("="), copy=False)  # as files have it
        self.classes = classes
        self._lookup = {label: code for code, label in enumerate(classes.tolist())}
        if len(self._lookup) != len(classes):
            raise ValueError(f"classes must be distinct, got {classes.tolist()!r}")
        self._numeric = classes.dtype.kind in _NUMERIC
        # labels that are their own codes
        self._plain = classes.dtype.kind in "iu" and bool(
            np.array_equal(classes, np.arange(len(classes)))
        )
        # labels that numpy takes for others when it compares them as float64
        self._long = self._numeric and max(map(abs, self._lookup), default=0) >= 2**53
        self._sorter: Any = None
        self._sorted: Any = None

    @classmethod
    def empty(cls) -> LabelIndex:
        """Index of no label."""
        return cls(np.empty(0))

    @classmethod
    def of(cls, y: npt.NDArray[Any]) -> LabelIndex:
        """Index of the distinct labels of y, sorted."""
        return cls(_unique(y))

    @classmethod
    def of_several(cls, y: npt.NDArray[Any]) -> LabelIndex:
        """The same for `fit`, which needs two classes at least."""
        index = cls.of(y)
        if len(index) < 2:
            raise ValueError(
                "fit needs at least two classes, but y holds one class only "
                f"({index.classes.tolist()[0]!r})"
            )
        return index

    def __len__(self) -> int:
        return len(self.classes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelIndex) and (
            self.classes.tolist() == other.classes.tolist()
            and self.classes.dtype == other.classes.dtype
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"LabelIndex({self.classes.tolist()!r})"

    # ------------------------------------------------------- labels to codes

    def encode(self, y: npt.NDArray[Any]) -> Codes:
        """Codes of y as int32; a label that is not among the classes is an error."""
        codes, row = self._find(y)
        if row >= 0:
            raise ValueError(
                f"y contains the label {y[row : row + 1].tolist()[0]!r} at row {row}, which is "
                f"not among the classes {_shown(self.classes)}. Name all labels with classes=..., "
                "or leave that row out."
            )
        return codes

    def grown(self, y: npt.NDArray[Any]) -> tuple[LabelIndex, Codes]:
        """This index (or one with the new labels of y, sorted, at its end) and the codes of y."""
        codes, row = self._find(y)
        if row < 0:
            return self, codes
        fresh = _unique(np.asarray(y)[codes < 0])
        index = LabelIndex(_joined(self.classes, fresh))
        return index, index.encode(y)

    def entries(self, y: npt.NDArray[Any], row_of: npt.NDArray[Any] | None = None) -> list[int]:
        """The rows, in order, in which a label that is not here appears for the first time.

        `row_of` gives the row of each entry of y; without it they are rows themselves.
        """
        codes, _ = self._find(y)
        new = np.flatnonzero(codes < 0)
        fresh = y[new]
        if fresh.dtype.kind == "O":
            first: dict[Any, int] = {}
            for place, label in zip(new.tolist(), fresh.tolist()):
                first.setdefault(label, place)
            places = np.array(list(first.values()), dtype=np.intp)
        else:
            places = new[np.unique(fresh, return_index=True)[1]]
        return sorted(set((places if row_of is None else row_of[places]).tolist()))

    def decode(self, codes: Any) -> npt.NDArray[Any]:
        """Labels of codes."""
        return self.classes[codes]

    def _find(self, y: npt.NDArray[Any]) -> tuple[Codes, int]:
        """Codes, with -1 for unknown labels, and the first row that has one (-1: none)."""
        n = len(y)
        is_long = self._long and y.dtype != self.classes.dtype
        if n <= SMALL or not self._numeric or y.dtype.kind not in _NUMERIC or is_long:
            get = self._lookup.get
            found = [get(label, -1) for label in y.tolist()]
            return np.array(found, np.int32), found.index(-1) if -1 in found else -1
        if self._plain and y.dtype == np.int64 and y.flags.c_contiguous:
            codes = np.empty(n, np.int32)
            if copy_codes(y, codes, len(self.classes)):
                return codes, -1
        elif self._plain and y.dtype.kind in "iu" and 0 <= y.min() <= y.max() < len(self.classes):
            return y.astype(np.int32), -1
        codes = self._find_numbers(y)
        row = int(codes.argmin())
        return codes, row if codes[row] < 0 else -1

    def _find_numbers(self, y: npt.NDArray[Any]) -> Codes:
        """The same for numbers among numbers, without a Python loop."""
        if len(self.classes) == 2:
            second = y == self.classes[1]
            codes = second.astype(np.int32)
            codes[~second & (y != self.classes[0])] = -1
            return codes
        if len(self.classes) == 0:
            return np.full(len(y), -1, np.int32)
        if self._sorter is None:
            self._sorter = np.argsort(self.classes, kind="stable").astype(np.int32)
            self._sorted = self.classes[self._sorter]
        place = np.searchsorted(self._sorted, y)
        np.minimum(place, len(self.classes) - 1, out=place)
        found: Codes = self._sorter[place]
        found[self._sorted[place] != y] = -1
        return found

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        labels = self.classes.tolist()
        dtype = fair_dtype(self.classes.dtype, labels)
        if dtype.kind == "S":
            labels = [label.decode("latin-1") for label in labels]
        return {"dtype": dtype.str, "labels": labels}

    @classmethod
    def from_state(cls, state: Any) -> LabelIndex:
        """The index that gave `state`; ValueError when there is none."""
        Schema("labels", {"dtype": Field("str"), "labels": Field("list")}, {}).check(state, {})
        dtype, labels = np.dtype(state["dtype"]), state["labels"]
        if dtype.kind not in "biufUSO":
            raise ValueError(f"labels of dtype {dtype} are not supported")
        words = dtype.kind in "USO"
        valid = str if words else (int, float)
        if not labels or not all(isinstance(label, valid) for label in labels):
            raise ValueError(
                f"labels of dtype {dtype} must be {'strings' if words else 'numbers'}"
            )
        if dtype.kind == "S":
            labels = [label.encode("latin-1") for label in labels]
        classes = np.array(labels, dtype=fair_dtype(dtype, labels))
        if classes.tolist() != labels:  # a dtype that is too narrow, or NaN
            raise ValueError(f"the labels are not values of dtype {dtype}")
        return cls(classes)


def _unique(y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Distinct labels, sorted."""
    if y.dtype.kind == "O":  # strings: a set is quicker than sorting all of them
        out = np.empty(len(labels := sorted(set(y.tolist()))), dtype=object)
        out[:] = labels
        return out
    if y.dtype.kind in "iu" and len(y) > 64:  # counting is quicker than sorting
        low, high = y.min(), y.max()
        if int(high) - int(low) < 4:  # such as -1 and 1: comparing is quicker still
            between = [k for k in range(int(low) + 1, int(high)) if (y == k).any()]
            return np.array(sorted({int(low), *between, int(high)}), dtype=y.dtype)
        if int(high) - int(low) < len(y):
            met = np.zeros(int(high) - int(low) + 1, dtype=bool)
            met[y.astype(np.intp) - int(low)] = True
            return (np.flatnonzero(met) + int(low)).astype(y.dtype)
    return np.unique(y)


def count_codes(codes: Codes, n_classes: int) -> npt.NDArray[np.int64]:
    """How often each class occurs."""
    if n_classes == 2:  # ten times quicker than counting in general
        ones = np.count_nonzero(codes)
        return np.array([len(codes) - ones, ones], dtype=np.int64)
    return np.bincount(codes, minlength=n_classes)


def _joined(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if len(old) == 0:
        return new
    if (old.dtype.kind in _NUMERIC) != (new.dtype.kind in _NUMERIC) or (
        (old.dtype.kind == "S") != (new.dtype.kind == "S")
    ):
        raise ValueError(
            f"new labels {_shown(new)} are of another type than the classes {_shown(old)}: give "
            "labels of one type"
        )
    joined = np.concatenate([old, new])
    if joined.tolist() != old.tolist() + new.tolist():
        raise ValueError(
            f"the labels {_shown(new)} and the classes {_shown(old)} cannot be kept exactly in "
            f"one array of {joined.dtype}: give labels of one 64-bit integer type, or strings"
        )
    return joined


def _shown(classes: npt.NDArray[Any]) -> str:
    labels = classes.tolist()
    if len(labels) <= 8:
        return repr(labels)
    return f"[{', '.join(repr(label) for label in labels[:6])}, ... ({len(labels)})]"


# ---------------------------------------------------------------- class weights


def check_class_weight(class_weight: Any) -> None:
    """Refuse anything but None, "balanced" and a dict of label to weight."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, dict):
        raise ValueError(
            f"class_weight must be None, 'balanced' or a dict of label: weight, got "
            f"{class_weight!r}"
        )
    for label, weight in class_weight.items():
        if (
            not isinstance(weight, numbers.Real)
            or isinstance(weight, bool)
            or not 0
            <= cast(Any, weight)
            <= MOST_WEIGHT  # as it is: an int may be too large for a float
        ):
            raise ValueError(
                f"class_weight[{label!r}] must be a finite number >= 0 and <= {MOST_WEIGHT:g}, "
                f"got {brief(weight)}"
            )


def resolve_class_weight(
    class_weight: Any,
    index: LabelIndex,
    codes: Codes | None = None,
    sample_weight: npt.NDArray[np.float64] | None = None,
    *,
    strict: bool = True,
) -> npt.NDArray[np.float64] | None:
    """One weight per class, or None when all are 1.

    Parameters
    ----------
    class_weight : None, dict or "balanced"
        ``"balanced"`` gives n / (K * count of the class), sums of sample weights
        in place of counts where they are given.  A dict gives its values, and 1
        for labels that it leaves out.
    index : LabelIndex
    codes : int32 array
        The whole training set's labels, for ``"balanced"``.
    sample_weight : array, optional
    strict : bool
        Refuse a dict that names a label which is not there; in a stream it may
        still come.
    """
    check_class_weight(class_weight)
    if class_weight is None:
        return None
    n_classes = len(index)
    if isinstance(class_weight, dict):
        weights = np.ones(n_classes)
        for label, weight in class_weight.items():
            code = index._lookup.get(label)
            if code is not None:
                weights[code] = weight
            elif strict:
                raise ValueError(
                    f"class_weight names the label {label!r}, which is not among the classes "
                    f"{_shown(index.classes)}"
                )
        return weights
    if codes is None:
        raise ValueError(
            "class_weight='balanced' needs all labels at once; in a stream use RunningBalance"
        )
    counts = np.bincount(codes, sample_weight, minlength=n_classes).astype(np.float64)
    present = counts > 0
    weights = np.ones(n_classes)
    weights[present] = counts.sum() / (np.count_nonzero(present) * counts[present])
    return weights


def weigh_rows(
    class_weight: Any,
    index: LabelIndex,
    codes: Codes,
    weight: npt.NDArray[np.float64] | None,
) -> npt.NDArray[np.float64] | None:
    """The weights of the rows of a training set, times those of their classes."""
    by_class = resolve_class_weight(class_weight, index, codes, weight)
    if by_class is None:
        return weight
    return by_class[codes] if weight is None else weight * by_class[codes]


def pick_codes(scores: npt.NDArray[Any], n_classes: int) -> npt.NDArray[np.intp]:
    """Codes of the classes with the largest scores; one score of two classes is the second's."""
    if scores.ndim == 2:
        return scores.argmax(axis=1)
    # of a stream that has shown one label so far, all rows have that label
    return (scores > 0 if n_classes > 1 else np.zeros(len(scores))).astype(np.intp)


class RunningBalance:
    """``class_weight="balanced"`` for a stream: counts so far in place of all counts.

    The example that is number t, of a class met c times by then (itself
    included) among K classes met, weighs t / (K * c).  It depends on the past
    only, so the weights are the same however the stream is cut into blocks.

    Examples
    --------
    >>> import numpy as np
    >>> balance = RunningBalance()
    >>> weights, balance = balance.weigh(np.array([0, 0, 1], dtype=np.int32), 2)
    >>> weights.tolist()
    [1.0, 1.0, 1.5]
    """

    __slots__ = ("counts",)

    def __init__(self, counts: Any = ()) -> None:
        self.counts = np.array(counts, dtype=np.int64)

    @classmethod
    def from_state(cls, counts: Any, n_classes: int) -> RunningBalance:
        """The balance whose counts these are; ValueError when there is none."""
        check_list("class_counts", counts, Field("int", 0, 2**53), most=n_classes)
        return cls(counts)

    def weigh_rows(
        self,
        class_weight: Any,
        index: LabelIndex,
        codes: Codes,
        weight: npt.NDArray[np.float64] | None,
    ) -> tuple[npt.NDArray[np.float64] | None, RunningBalance]:
        """The weights of a stream's rows times those of their classes; the balance after them."""
        check_class_weight(class_weight)
        if class_weight is None:
            return weight, self
        balance = self
        if isinstance(class_weight, str):
            by_row, balance = self.weigh(codes, len(index))
        else:
            by_class = resolve_class_weight(class_weight, index, strict=False)
            assert by_class is not None  # it is None for class_weight=None only
            by_row = by_class[codes]
        return by_row if weight is None else weight * by_row, balance

    def weigh(
        self, codes: Codes, n_classes: int
    ) -> tuple[npt.NDArray[np.float64], RunningBalance]:
        """Weights of the next examples, and the balance after them."""
        n = len(codes)
        if n == 1:
            tallies = self.counts.tolist() + [0] * (n_classes - len(self.counts))
            tallies[codes[0]] += 1
            weight = sum(tallies) / ((len(tallies) - tallies.count(0)) * tallies[codes[0]])
            return np.array([weight]), RunningBalance(tallies)
        counts = np.zeros(n_classes, dtype=np.int64)
        counts[: len(self.counts)] = self.counts
        total = int(counts.sum())
        met = counts > 0
        # how often the class was met, by each example
        order = np.argsort(codes, kind="stable")
        by_class = count_codes(codes, n_classes)
        starts = np.cumsum(by_class) - by_class
        rank = np.empty(n, dtype=np.int64)
        rank[order] = np.arange(n) - np.repeat(starts, by_class)
        seen = counts[codes] + rank + 1
        first = (rank == 0) & ~met[codes]
        n_met = np.count_nonzero(met) + np.cumsum(first)
        weights = (total + 1 + np.arange(n)) / (n_met * seen)
        return weights, RunningBalance(counts + by_class)


def split_outputs(codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Labels as -1 and +1: one row for two classes, else one row per class."""
    if n_classes == 2:
        return np.where(codes == 1, 1.0, -1.0)[None, :]
    return np.where(codes[None, :] == np.arange(n_classes)[:, None], 1.0, -1.0)


class LabelRuns:
    """Warns, once, of a stream whose labels come in runs, where what is learnt last wins.

    A stream that begins with a thousand rows of one label, from which nothing can be learnt, is
    warned of too, once; every row is looked at until another label comes.
    Pairs of neighbors are counted: all of the first 4,096 rows, which may be all there are, or of
    every fourth block if blocks are small; then one in 128 rows and at least one a block, after
    16 blocks in every eighth, so that it costs next to nothing.  Who learns single rows counts
    pairs now and then (`osvm.linear.one_row`).

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> runs = LabelRuns()
    >>> with warnings.catch_warnings(record=True) as found:
    ...     for block in np.repeat([0, 1], 5000).reshape(-1, 20):
    ...         runs.watch(block)
    >>> [str(w.message)[:19] for w in found]
    ['the first 1000 rows', 'labels come in runs']
    """

    __slots__ = ("alike", "blocks", "changes", "counts", "first", "n", "next_look", "rows")

    def __init__(self, silent: bool = False) -> None:
        # rows of the `first` label before any other; -1: enough, or another came
        self.alike = -1 if silent else 0
        self.first: Any = None
        self.counts: dict[int, float] = {}
        self.changes = self.n = 0.0
        self.blocks = self.rows = 0
        self.next_look: float = math.inf if silent else 16.0

    def reorder(self, order: npt.NDArray[Any]) -> None:
        """Code `order[k]` is k from now on."""
        self.counts = {k: self.counts.get(code, 0) for k, code in enumerate(order.tolist())}

    def watch(self, codes: Codes) -> None:
        """The codes of the next rows."""
        if self.alike >= 0:
            self._watch_first(codes)
        if len(codes) == 1:
            return
        self.blocks += 1
        is_early = self.rows < CLOSELY
        every = 8 if not is_early else 4 if len(codes) < 64 else 1
        if self.blocks > 16 and self.blocks % every:
            return
        self.rows += len(codes)
        if not is_early or len(codes) < 8:
            step = 1 if is_early else 128
            self.count(zip(codes[:-1:step].tolist(), codes[1::step].tolist()))
        else:
            before, after = codes[: CLOSELY - 1][:-1], codes[1 : CLOSELY - 1]
            for code, times in enumerate(np.bincount(before).tolist()):
                self.counts[code] = self.counts.get(code, 0) + times
            self.changes += int(np.count_nonzero(before != after))
            self.n += len(after)
            self._judge()
        if is_early and self.rows >= CLOSELY and self.next_look < math.inf:
            # they go on as so many as one pair in 128 would have been
            self.counts = {code: times / 128 for code, times in self.counts.items()}
            self.changes, self.n, self.next_look = self.changes / 128, self.n / 128, 16.0

    def watch_one(self, code: int) -> bool:
        """The code of the next row; whether it is worth telling that of the one after."""
        if self.alike >= 0:
            self._watch_first(np.array([code]))
        return self.alike >= 0

    def _watch_first(self, codes: npt.NDArray[Any]) -> None:
        if self.alike == 0:
            self.first = codes[0]
        if (codes != self.first).any():
            self.alike = -1
            return
        self.alike += len(codes)
        if self.alike >= ALIKE:
            n, self.alike = self.alike, -1
            warn(
                f"the first {n} rows of the stream have one label: nothing can be learnt before "
                "another comes, and what is learnt last will win: shuffle the rows if they are "
                "sorted",
                UserWarning,
            )

    def count(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Codes of rows and of those that follow them."""
        for code, following in pairs:
            self.counts[code] = self.counts.get(code, 0) + 1
            self.changes += code != following
            self.n += 1
        self._judge()

    def _judge(self) -> None:
        if self.n < self.next_look:
            return
        expected = self.n - sum(count**2 for count in self.counts.values()) / self.n
        self.next_look = 1.2 * self.n
        if expected >= 12.0 and self.changes < 0.1 * expected - 0.2:
            self.next_look = math.inf
            warn(
                f"labels come in runs: of {self.n:.0f} pairs of neighboring rows "
                f"{self.changes:.0f} have different labels, where rows in random order "
                f"have about {expected:.0f}. What is learnt last will win: shuffle the rows (the "
                "command visits a plain file in random order, and so does "
                "osvm.stream.BlockReader in Python)",
                UserWarning,
            )
