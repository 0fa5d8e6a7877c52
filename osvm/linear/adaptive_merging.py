"""Merging learners of adaptive steps: weights, rates, averages, judged settings.

Parts go on from one `base`, each learns rows of its own.  A coordinate's weight is the mean of
the parts' weights by what each part has learnt of it, the squared gradients D that it has added
to G, so that a weight which only one part has moved is not halved by the others:

    c_i = D_i / sum_k D_k               (by rows where no part has moved it)
    w = w_base + sum_i c_i (w_i - w_base)       G = G_base + sum_i D_i
    n = max_i n_i                       of the normalization
    t, N, examples, losses, errors: base + the sum of the differences

Where the shares of the parts are not those of their rows, D_i counts by share / rows.  Bets have
theta and the sum of absolute gradients for G.  Squared gradients that fade, and the mirror form,
whose weights follow from theta, G and t, have means by shares in all of them.

The two windows of averages hold sums of iterates.  What a part has added to one of them is
averaged like the weights, and counts for all iterates that were made anywhere; the older window
is left where as many examples in one learner would have left it (adaptive_learn.pxd).
Settings that are judged stay if all parts have them.  Where no setting is left in all of them,
the one stays that most rows have, and a part without it answers for it by its best one.

Invariants
- everything is added up in float64 in the order given: the same parts in the same order give
  the same bits, and a feature's numbers do not depend on those of others;
- merging by pairs equals merging at once, to rounding.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from osvm._input.types import Array, State
from osvm.linear.adaptive import SUMS, add_part, finish_parts
from osvm.linear.adaptive_state import ROOT
from osvm.schedules import CANDIDATES, PREDICTORS, Auto, CoinBetting

Outputs = tuple[list[int], list[int], list[float]]

_FIRST_RESTART = 6  # 2**this examples: FIRST_WINDOW of adaptive_learn.pxd
_NOTHING = 1e-100  # learnt, which counts for nothing beside any gradient
_FIRST_LOOK = 9  # 2**this examples: where outcomes are forgotten first, adaptive_judge.pxd
_SUMS = ("losses", "errors")
_COUNTS = ("seen", "t", "sum_x", "count_0", "count_1", "older")
_TARGETS = ("target_weight", "target_mean", "target_sq")


class Layout:
    """What a state does not tell of its learner.

    Parameters
    ----------
    schedule : Adaptive, CoinBetting or Auto
    average_from : float
        Of the plan.
    tail : bool
        Whether windows restart, where the schedule has a tail average.
    decay : float
        Of the errors of judged settings.
    """

    def __init__(
        self, schedule: Any, average_from: float, tail: bool = True, decay: float = 1.0
    ) -> None:
        self.judged = isinstance(schedule, Auto)
        self.settings: tuple[Any, ...] = CANDIDATES if self.judged else (schedule,)
        self.group_of = [g for g, bits in enumerate(PREDICTORS) for _ in range(bits.bit_count())]
        self.alpha = schedule.alpha if isinstance(schedule, CoinBetting) else None
        self.mirror = getattr(schedule, "mirror", False)
        self.average_from, self.decay = average_from, decay
        self.tail = tail and getattr(schedule, "tail", True)

    @property
    def averages(self) -> bool:
        return self.average_from >= 0.0

    def common(self, parts: list[dict[str, Any]], shares: Array) -> list[int]:
        """The settings that the merged learner of parts with these scalars has."""
        if not self.judged:
            return [0]
        every = range(len(self.settings))
        common = [g for g in every if all(part["alive"] >> g & 1 for part in parts)]
        if common:
            return common
        rows = [sum(s for s, part in zip(shares, parts) if part["alive"] >> g & 1) for g in every]
        return [int(np.argmax(rows))]

    def places(self, scalars: dict[str, Any], settings: list[int]) -> list[int]:
        """The groups of a state that have these settings, or answer for them."""
        if not self.judged:
            return settings
        alive, best = scalars["alive"], self.group_of[scalars["chosen"]]
        found = [g if alive >> g & 1 else best for g in settings]
        return [(alive & ((1 << g) - 1)).bit_count() for g in found]

    def goes_by_share(self, setting: int) -> bool:
        """Whether squared gradients do not add up."""
        return self.mirror or getattr(self.settings[setting], "forget", 1.0) < 1.0

    def restarts(self, before: float, after: float) -> int:
        """How often one learner leaves its older window between so many examples."""
        if not self.tail:
            return 0
        first, last = before - self.average_from, after - self.average_from
        return sum(first <= 2**k < last for k in range(_FIRST_RESTART, 64))

    def added(self, part: dict[str, Any], base: dict[str, Any], role: int) -> tuple[int, float]:
        """The window of that role (0 is the older one), and the iterates it has beside the base's.

        A window that goes on from the base's has all new examples in it; one that was begun
        anew has less.
        """
        at = int(part["older"]) ^ role
        count, before = part[f"count_{at}"], base[f"count_{at}"]
        new = part["seen"] - max(base["seen"], self.average_from)
        goes_on = before > 0.0 and count >= before + new
        return at, count - before if goes_on else count


def _class_weights(state: State, n_out: int, outputs: Outputs | None) -> Array:
    """What a part has seen and found of each class of the merged learner."""
    arrays = state[1]
    own = arrays["class_weights"]
    if outputs is None:
        return own
    new, old, sign = outputs
    if n_out == 1:
        return own if sign[0] > 0 else own[:, ::-1]
    binary = arrays["offsets"].shape[1] == len(arrays["groups"])  # one score for two classes
    whole = np.zeros((2, n_out))
    whole[:, new] = own[:, [int(one > 0) for one in sign] if binary else old]
    return whole


class Merger:
    """Merges learners: the counters and offsets of each part as it comes, and its features.

    Parameters
    ----------
    layout : Layout
        Of all the learners.
    settings : list of int
        Those of the merged learner, `Layout.common` of the parts.
    n_out : int
        Outputs of the merged learner.
    base : state, optional
        Of the learner that all parts went on from.
    outputs : optional
        Which outputs of the base are which of the merged learner.
    windows : int
        Of the averages whose numbers are merged; the others stay as they are.
    planes : int, optional
        Of the features; those of the offsets by default.
    """

    def __init__(
        self,
        layout: Layout,
        settings: list[int],
        n_out: int,
        base: State | None = None,
        outputs: Outputs | None = None,
        windows: int = 2,
        planes: int | None = None,
    ) -> None:
        self.layout, self.settings, self.n_out, self.base = layout, settings, n_out, base
        self.n_windows = windows * layout.averages
        self.planes = planes or self._n_planes
        self.n_columns = len(settings) * n_out
        by_share = [layout.goes_by_share(g) for g in settings]
        self.by_share = np.repeat(np.array(by_share, np.uint8), n_out)
        self.counts = _Counts(layout, base)
        self.of_base: Any = None
        self.classes_before: Any = 0.0  # sums of the weights of each class: in the base, in all
        if base is not None:
            self.of_base = self._columns(base, outputs)
            if layout.judged:
                self.classes_before = _class_weights(base, n_out, outputs)
        self.classes = self.classes_before
        self.offsets = self.sums(1)
        self.parts: list[tuple[Any, Any]] = []  # how the features of each part are read and added

    def sums(self, n_features: int) -> Array:
        """Room for what `add_features` sums up."""
        return np.zeros((n_features * self.n_columns, SUMS))

    def add(self, state: State, share: float, outputs: Outputs | None = None) -> None:
        """Count the next part, with its offsets; `outputs` as those of the base."""
        rows, windows = self.counts.add(state, share)
        if self.layout.judged:
            came = _class_weights(state, self.n_out, outputs)
            self.classes = self.classes + came - self.classes_before
        how = share, share / max(rows, 1.0), share * _NOTHING
        columns = self._columns(state, outputs)
        part = (*how, windows[: self.n_windows])
        self.parts.append((columns, part))
        before = None if self.base is None else _row(self.base[1]["offsets"])
        offsets = _row(state[1]["offsets"])
        of, of_base = self._of_offset(columns), self._of_offset(self.of_base)
        add_part(self.offsets, offsets, of, before, of_base, (*how, windows), self.by_share)

    def add_features(self, sums: Array, k: int, cells: Array, base: Array | None) -> None:
        """Add the numbers of part k, for some features, whose cells in the base are these."""
        if base is not None and base.dtype != cells.dtype:
            cells, base = cells.astype(np.float64), base.astype(np.float64)
        columns, part = self.parts[k]
        add_part(sums, cells, columns, base, self.of_base, part, self.by_share)

    def finish(self) -> State:
        """Scalars and arrays of the merged learner, without those of the features."""
        scalars, arrays, kept = self.counts.merged()
        windows = [
            (-1 if stays is None else stays, count, scalars["older"] ^ role)
            for role, (stays, count) in enumerate(kept)
        ]
        self.windows = windows[: self.n_windows]
        of = self._of_offset(self._merged_columns())
        arrays["offsets"] = np.zeros((self._n_planes, self.n_columns))
        before = None if self.base is None else _row(self.base[1]["offsets"])
        out, of_base = _row(arrays["offsets"]), self._of_offset(self.of_base)
        finish_parts(self.offsets, before, of_base, out, of, windows, self._alpha)
        arrays["groups"] = np.tile([1.0, 1.0, 0.0, 0.0], (len(self.settings), 1))
        if self.layout.judged:
            scalars["alive"] = sum(1 << g for g in self.settings)
            arrays["class_weights"] = self.classes
            judged = [p for p, g in enumerate(self.layout.group_of) if g in self.settings]
            # what the parts answer with: a rare class may have set others back
            votes = self.counts.votes
            judged = [p for p in judged if p in votes] or judged
            scalars["chosen"] = min(
                judged, key=lambda p: (arrays["figures"][p], -votes.get(p, 0.0), p)
            )
        return scalars, arrays

    def finish_features(self, sums: Array, base: Array | None, out: Array) -> None:
        """Write the merged numbers of some features, after `finish`."""
        if base is not None and base.dtype != out.dtype:
            wide = out.astype(np.float64)
            self.finish_features(sums, base.astype(np.float64), wide)
            out[:] = wide
            return
        columns = self._merged_columns(out.shape[1])
        finish_parts(sums, base, self.of_base, out, columns, self.windows, self._alpha)

    @property
    def header(self) -> int:
        """Numbers of a feature before those of its columns."""
        normalized = (getattr(self.layout.settings[g], "normalized", False) for g in self.settings)
        return int(any(normalized))

    @property
    def _n_planes(self) -> int:
        return 2 + 2 * self.layout.averages + 3 * (self.layout.alpha is not None)

    @property
    def _alpha(self) -> float:
        return self.layout.alpha or 0.0

    def _columns(self, state: State, outputs: Outputs | None) -> tuple[Any, ...]:
        """How the columns of a state are read: `Columns` of adaptive_mean.pxd."""
        arrays = state[1]
        groups, K = arrays["groups"], arrays["offsets"].shape[1]
        old_out, n_out = K // len(groups), self.n_out
        new, old, sign = outputs or (list(range(n_out)), list(range(n_out)), [1.0] * n_out)
        of = np.zeros((6, self.n_columns))
        of[0] = -1.0
        places = self.layout.places(state[0], self.settings)
        for g, place in enumerate(places):
            at = [g * n_out + k for k in new]
            of[0, at] = [place * old_out + k for k in old]
            of[1, at] = sign
            of[2:, at] = groups[place][:, None]
        return self._columns_tuple(of, K, arrays["cells"].shape[1])

    def _merged_columns(self, width: int | None = None) -> tuple[Any, ...]:
        """The same of the merged learner, with cells of this width."""
        n = self.n_columns
        width = n * self.planes if width is None else width
        return self._columns_tuple(np.zeros((6, n)), n, width)

    def _columns_tuple(self, of: Array, K: int, width: int) -> tuple[Any, ...]:
        bets = 0 if self.layout.alpha is None else self._n_planes - 3
        return of, K, width - self.planes * K, self.n_windows, bets, -1.0

    def _of_offset(self, columns: Any) -> Any:
        """The same of the offsets, which have no scale, and sums in their windows."""
        if columns is None:
            return None
        of, K, _, _, bets, _ = columns
        of = of.copy()
        of[2], of[4:] = 1.0, 0.0
        return of, K, 0, 2 * self.layout.averages, bets, 1.0


def _row(offsets: Array) -> Array:
    """Offsets as the cell of one feature."""
    return offsets.reshape(1, -1)


def merge_adaptive(
    parts: Iterable[State],
    shares: Array,
    layout: Layout,
    settings: list[int],
    base: State | None = None,
    outputs: list[Outputs] | None = None,
    n_out: int | None = None,
) -> State:
    """The state of the merged learner.

    Parameters
    ----------
    parts : iterable of states (`AdaptiveLearner.get_state`)
        Each is looked at once, so that one at a time need be in memory.
    shares : array
        They add up to 1.
    layout : Layout
        Of all the learners.
    settings : list of int
        Those of the merged learner, `Layout.common` of the parts.
    base : state, optional
        Of the learner that all parts went on from.
    outputs : list, optional
        For each part, and at the end for the base: which outputs are which of the merged one.
    n_out : int, optional
        Outputs of the merged learner; those of the parts by default.
    """
    merger: Merger | None = None
    sizes: Array | None = None
    dtype = np.dtype(np.float32)
    before = None if base is None else base[1]["cells"]
    for k, state in enumerate(parts):
        cells, offsets = state[1]["cells"], state[1]["offsets"]
        if merger is None:
            n_out = n_out or offsets.shape[1] // len(state[1]["groups"])
            merger = Merger(layout, settings, n_out, base, outputs[-1] if outputs else None)
            sums = merger.sums(len(cells))
        merger.add(state, float(shares[k]), outputs[k] if outputs else None)
        merger.add_features(sums, k, cells, before)
        sizes = smaller(sizes, cells[:, : -offsets.size])
        dtype = np.result_type(dtype, cells.dtype)
    assert merger is not None
    assert sizes is not None
    scalars, arrays = merger.finish()
    sizes = sizes[:, : merger.header]
    cells = np.zeros((len(sizes), sizes.shape[1] + arrays["offsets"].size), dtype)
    cells[:, : sizes.shape[1]] = sizes
    merger.finish_features(sums, before, cells)
    return scalars, arrays | {"cells": cells}


def in_units(cells: Array, offsets: Array, factors: Array) -> Array:
    """The numbers of features whose weights are to be multiplied by `factors`."""
    out = cells * factors[:, None]  # weights, their sums, 1/n
    planes = out[:, -offsets.size :].reshape(-1, *offsets.shape)
    coin = len(offsets) in (5, 7)
    gradients = [ROOT, *([-3, -2] if coin else [])]
    planes[:, gradients] /= np.square(factors)[:, None, None]
    if coin:
        planes[:, -1] /= factors[:, None]  # a reward is gradient times weight
    return out.astype(cells.dtype)


def smaller(sizes: Array | None, others: Array) -> Array:
    """1/n of the larger n, where 0 is that of a feature without values."""
    if sizes is None or not others.shape[1]:
        return others
    if not sizes.shape[1]:
        return sizes
    return np.where((sizes > 0) & (others > 0), np.minimum(sizes, others), sizes + others)


class _Counts:
    """Counters of the merged learner, and what becomes of its windows."""

    def __init__(self, layout: Layout, base: State | None) -> None:
        self.layout = layout
        zero = dict.fromkeys((*_COUNTS, *_TARGETS), 0.0)
        self.old: dict[str, Any] = zero if base is None else base[0]
        self.old_arrays: dict[str, Array] = {} if base is None else base[1]
        self.added = {"seen": 0.0, "t": 0.0, "sum_x": 0.0, "rows": 0.0}
        self.targets = [self.old[name] for name in _TARGETS]
        self.iterates = [0.0, 0.0]
        self.totals = {k: v.copy() for k, v in self.old_arrays.items() if k in _SUMS}
        self.figures: Any = 0.0
        self.outcomes: Any = 0.0
        self.votes: dict[int, float] = {}  # shares of the parts where a predictor answers

    def add(self, state: State, share: float) -> tuple[float, list[tuple[int, float, bool]]]:
        """Count a part; its rows, and both of its windows as `Merger.add` takes them."""
        (scalars, arrays), old = state, self.old
        rows = scalars["seen"] - old["seen"]
        self.added["seen"] += rows
        self.added["rows"] += share * rows
        for name in ("t", "sum_x"):
            new = scalars[name] - old[name]
            self.added[name] += share * new if self.layout.mirror else new
        self.targets = _joined(self.targets, scalars, old)
        for name in _SUMS:
            if name in arrays:
                new = arrays[name] - self.old_arrays.get(name, 0.0)
                self.totals[name] = self.totals.get(name, 0.0) + new
        if self.layout.judged:  # what the base has counted fades as the part goes on
            before = self.old_arrays.get("figures", 0.0) * self.layout.decay**rows
            self.figures = self.figures + (arrays["figures"] - before)
            chosen = scalars["chosen"]
            self.votes[chosen] = self.votes.get(chosen, 0.0) + share
            gone = _looks(old["seen"], scalars["seen"])
            before = 0.0 if gone else self.old_arrays.get("outcomes", 0.0)
            self.outcomes = self.outcomes + (arrays["outcomes"] - before)
        windows = []
        for role in (0, 1) if self.layout.averages else ():
            at, count = self.layout.added(scalars, old, role)
            self.iterates[role] += count
            windows.append((at, count, count < scalars[f"count_{at}"]))
        return rows, windows

    def merged(self) -> tuple[dict[str, Any], dict[str, Array], list[tuple[int | None, float]]]:
        """Scalars, arrays, and both windows as `Merger.finish` takes them."""
        old, added = self.old, self.added
        scalars = {name: old[name] + added[name] for name in ("seen", "sum_x")}
        scalars |= {"t": old["t"] + float(round(added["t"])), "count_0": 0.0, "count_1": 0.0}
        scalars |= dict(zip(_TARGETS, self.targets))
        older = int(old["older"])
        windows: list[tuple[int | None, float]] = []
        if self.layout.averages:
            left = self.layout.restarts(old["seen"], scalars["seen"])
            stays: list[int | None] = [older, 1 - older]
            if left:
                stays = [1 - older if left == 1 else None, None]
            older ^= left & 1
            for role, window in enumerate(stays):
                before = 0.0 if window is None else old[f"count_{window}"]
                scalars[f"count_{older ^ role}"] = before + self.iterates[role]
                windows.append((window, self.iterates[role]))
        totals = self.totals
        if self.layout.judged:
            before = self.old_arrays.get("figures", 0.0) * self.layout.decay ** added["rows"]
            totals["figures"] = np.maximum(before + self.figures, 0.0)
            before = self.old_arrays.get("outcomes", 0.0)
            before = 0.0 if _looks(old["seen"], scalars["seen"]) else before
            totals["outcomes"] = np.maximum(before + self.outcomes, 0.0)
        return scalars | {"older": older}, totals, windows


def _looks(before: float, after: float) -> bool:
    """Whether a learner has looked at outcomes between so many examples, and forgotten them."""
    return any(before < 2**k <= after for k in range(_FIRST_LOOK, 64))


def _joined(known: list[float], part: dict[str, Any], base: dict[str, Any]) -> list[float]:
    """Weight, mean and squared deviations of targets, with what a part has seen of its own."""
    weight, mean, sq = (part[name] for name in _TARGETS)
    old_weight, old_mean, old_sq = (base[name] for name in _TARGETS)
    new = weight - old_weight
    if not new > 0.0:
        return known
    if old_weight > 0.0:
        own_mean = old_mean + (mean - old_mean) * (weight / new)
        own_sq = sq - old_sq - (old_weight * new / weight) * (own_mean - old_mean) ** 2
    else:
        own_mean, own_sq = mean, sq
    total, distance = known[0] + new, own_mean - known[1]
    spread = known[2] + max(own_sq, 0.0) + distance * distance * (known[0] * new / total)
    return [total, known[1] + distance * (new / total), spread]
