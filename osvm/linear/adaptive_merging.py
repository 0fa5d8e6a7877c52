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
from dataclasses import dataclass
from typing import Any

import numpy as np

from osvm._input.types import Array, State
from osvm.linear.adaptive_state import ROOT, WINDOWS
from osvm.schedules import CANDIDATES, PREDICTORS, Auto, CoinBetting

Outputs = tuple[list[int], list[int], list[float]]
Numbers = dict[str, Array]  # of some features or of the offset, by name: (n, columns) each

_FIRST_RESTART = 6  # 2**this examples: FIRST_WINDOW of adaptive_learn.pxd
_NOTHING = 1e-100  # learnt, which counts for nothing beside any gradient
_FIRST_LOOK = 9  # 2**this examples: where outcomes are forgotten first, adaptive_judge.pxd
_SUMS = ("losses", "errors")
_WINDOWED = ("S0", "S1")
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


@dataclass(frozen=True)
class _Columns:
    """Which columns of a state are which of the merged learner; `sign` of the scores."""

    old: Any
    new: Any
    sign: Any
    n: int  # of the merged learner


def _columns(state: State, places: list[int], n_out: int, outputs: Outputs | None) -> _Columns:
    n_groups = len(state[1]["groups"])
    old_out = state[1]["offsets"].shape[1] // n_groups
    n = len(places) * n_out
    if outputs is None and places == list(range(n_groups)):
        return _Columns(slice(None), slice(None), 1.0, n)
    new, old, sign = outputs or (list(range(n_out)), list(range(n_out)), [1.0] * n_out)
    return _Columns(
        [place * old_out + k for place in places for k in old],
        [g * n_out + k for g in range(len(places)) for k in new],
        np.tile(sign, len(places)),
        n,
    )


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


def _numbers(planes: Array, of: _Columns, groups: Array, layout: Layout, offset: bool) -> Numbers:
    """Weights w, gradients G and sums of windows, S0 and S1, in float64; L, R, theta of bets."""
    scale, inflation, sums = groups[:, 0], groups[:, 1], groups[:, 2:]
    v = planes[:, 0, of.old] * np.float64(of.sign)
    root = planes[:, ROOT, of.old].astype(np.float64)
    out = {"w": v if offset else scale * v}
    if layout.alpha is None:
        out["G"] = root * root / inflation
    else:
        bets = ("L", "G", "R")
        out |= {name: planes[:, k, of.old].astype(float) for name, k in zip(bets, (-3, -2, -1))}
        out["theta"] = root * of.sign
    for k in (0, 1) if layout.averages else ():
        u = planes[:, WINDOWS.start + k, of.old] * np.float64(of.sign)
        out[f"S{k}"] = u if offset else sums[:, k] * v - u
    if isinstance(of.new, slice):
        return out
    whole = {name: np.zeros((len(planes), of.n)) for name in out}
    for name, numbers in out.items():
        whole[name][:, of.new] = numbers
    return whole


def _read(state: State, of: _Columns, places: list[int], layout: Layout) -> list[Numbers]:
    """The numbers of the features and those of the offset."""
    arrays = state[1]
    offsets = arrays["offsets"]
    width = offsets.shape[1] // len(arrays["groups"])
    per_column = np.repeat(arrays["groups"], width, axis=0)[of.old]
    planes = arrays["cells"][:, -offsets.size :].reshape(-1, *offsets.shape)
    return [
        _numbers(planes, of, per_column, layout, offset=False),
        _numbers(offsets[None], of, per_column, layout, offset=True),
    ]


class _Mean:
    """The merged numbers of features, or of the offset, part after part."""

    def __init__(self, like: Numbers, base: Numbers | None, by_share: Array) -> None:
        self.base = base or {name: np.zeros_like(numbers) for name, numbers in like.items()}
        self.moved = {name: np.zeros_like(numbers) for name, numbers in like.items()}
        self.weight = np.zeros_like(like["w"])
        self.by_share = by_share  # columns
        self.largest = self.base.get("L")

    def add(
        self, part: Numbers, share: float, rows: float, windows: list[tuple[int, float, bool]]
    ) -> None:
        """Each coordinate by what the part has learnt of it in these rows.

        `windows` tells for both roles which window it is, its new iterates, and whether the
        base's are among them.
        """
        learnt = part["G"] - self.base["G"]
        weight = np.maximum(learnt, 0.0)
        weight *= share / max(rows, 1.0)
        weight += share * _NOTHING
        weight[:, self.by_share] = share
        self.weight += weight
        for name in self.moved.keys() - {*_WINDOWED, "L"}:
            moved = learnt if name == "G" else part[name] - self.base[name]
            if name in ("G", "theta"):
                moved[:, self.by_share] *= share
            else:
                moved = weight * moved
            self.moved[name] += moved
        for role, (at, count, goes_on) in enumerate(windows):
            mean = part[f"S{at}"] - self.base[f"S{at}"] if goes_on else part[f"S{at}"]
            self.moved[f"S{role}"] += weight * (mean / count if count > 0.0 else part["w"])
        if self.largest is not None:
            self.largest = np.maximum(self.largest, part["L"])

    def planes(self, windows: list[tuple[int | None, float]], alpha: float | None) -> Array:
        """Weights, roots, the sums of both roles and bets, (n, planes, columns).

        `windows` tells for both roles which window of the base stays in it, and new iterates.
        """
        out = {}
        for name, moved in self.moved.items():
            if name not in ("G", "theta"):
                moved /= self.weight
            out[name] = moved if name in _WINDOWED else self.base[name] + moved
        G = np.maximum(out["G"], 0.0)
        planes = [out["w"], np.sqrt(G)]
        for role, (stays, count) in enumerate(windows):
            total = count * out[f"S{role}"]
            planes.append(total if stays is None else self.base[f"S{stays}"] + total)
        if alpha is not None and self.largest is not None:
            L, R, theta = self.largest, np.maximum(out["R"], 0.0), out["theta"]
            most = L * np.maximum(G + L, alpha * L)
            bets = theta * (L + R) / np.where(L > 0.0, most, 1.0)
            planes[:2] = [bets, theta]
            planes += [L, G, R]
        return np.stack(planes, axis=1)


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
    counts = _Counts(layout, base)
    before_by_class: Any = 0.0  # sums of the weights of each class: in the base, in all
    totals_by_class: Any = 0.0
    means: list[_Mean] = []
    sizes: Array | None = None
    dtype = np.dtype(np.float32)
    for k, state in enumerate(parts):
        scalars, arrays = state
        n_out = n_out or arrays["offsets"].shape[1] // len(arrays["groups"])
        places = layout.places(scalars, settings)
        of = _columns(state, places, n_out, outputs[k] if outputs else None)
        numbers = _read(state, of, places, layout)
        if not means:
            if layout.judged and base is not None:
                before_by_class = _class_weights(base, n_out, outputs[-1] if outputs else None)
                totals_by_class = before_by_class
            by_share = [layout.goes_by_share(g) for g in settings]
            start: list[Any] = [None, None]
            if base is not None:
                places = layout.places(base[0], settings)
                of = _columns(base, places, n_out, outputs[-1] if outputs else None)
                start = _read(base, of, places, layout)
            means = [_Mean(n, s, np.repeat(by_share, n_out)) for n, s in zip(numbers, start)]
        rows, windows = counts.add(state, float(shares[k]))
        if layout.judged:
            came = _class_weights(state, n_out, outputs[k] if outputs else None)
            totals_by_class = totals_by_class + came - before_by_class
        for mean, own in zip(means, numbers):
            mean.add(own, float(shares[k]), rows, windows)
        sizes = _smaller(sizes, arrays["cells"][:, : -arrays["offsets"].size])
        dtype = np.result_type(dtype, arrays["cells"].dtype)
    merged, totals, kept = counts.merged()
    planes, offset = (mean.planes(kept, layout.alpha) for mean in means)
    if kept:  # a window holds u, where the sum of the weights is sums v - u; here sums are 0
        order = [WINDOWS.start + (merged["older"] ^ role) for role in (0, 1)]
        planes[:, order], offset[:, order] = -planes[:, WINDOWS], offset[:, WINDOWS].copy()
    cells = planes.reshape(len(planes), -1)
    if any(getattr(layout.settings[g], "normalized", False) for g in settings):
        cells = np.concatenate([sizes, cells], axis=1)
    totals |= {"cells": cells.astype(dtype), "offsets": offset[0]}
    totals["groups"] = np.tile([1.0, 1.0, 0.0, 0.0], (len(settings), 1))
    if layout.judged:
        merged["alive"] = sum(1 << g for g in settings)
        totals["class_weights"] = totals_by_class
        judged = [p for p, g in enumerate(layout.group_of) if g in settings]
        # what the parts answer with: a rare class may have set others back
        judged = [p for p in judged if p in counts.votes] or judged
        merged["chosen"] = min(
            judged, key=lambda p: (totals["figures"][p], -counts.votes.get(p, 0.0), p)
        )
    return merged, totals


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


def _smaller(sizes: Array | None, others: Array) -> Array:
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
        """Count a part; its rows, and both of its windows as `_Mean.add` takes them."""
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
        """Scalars, arrays, and both windows as `_Mean.planes` takes them."""
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
