"""Many linear learners into one: the weighted mean of their weights, the sum of their counts.

Parameter mixing (McDonald, Hall, Mann, "Distributed training strategies for the structured
perceptron", 2010): parts go on from one `base`, each learns rows of its own, and

    w = sum_i share_i w_i           t = t_base + sum_i share_i (t_i - t_base), rounded
    n = n_base + sum_i (n_i - n_base)       for examples, losses, errors

The average of the iterates is kept as a sum S over c of them; each part adds S_i - S_base
over c_i - c_base iterates, so that with shares by rows the merged average is the mean of all
iterates that were made anywhere.

Invariants
- everything is added up in float64 in the order given: the same parts in the same order give
  the same bits;
- a field of a learner's state that has no line here is an error, never dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from osvm._input.types import Array, State

# Output `new[k]` of the merged model is `sign[k]` times output `old[k]` of the part.
Outputs = tuple[list[int], list[int], list[float]]

_SUMS = ("seen", "loss_sum", "error_sum")
_KNOWN = {
    "t", "eta", "pending", "touched_all", *_SUMS, "w_scale", "w_sq_v", "w_avg_scale",
    "w_avg_count", "w_low", "w_high", "w_averaging", "w_track_norm",
}  # fmt: skip
_KNOWN_ARRAYS = {
    "w_v", "w_u", "w_scale", "w_sq_v", "w_avg_scale", "intercept", "intercept_sum",
    "grad", "grad_b", "touched",
}  # fmt: skip


class _Part:
    """The numbers of one learner, with the outputs of the merged one."""

    def __init__(self, state: State, n_out: int, outputs: Outputs | None) -> None:
        scalars, arrays = state
        unknown = sorted((set(scalars) - _KNOWN) | (set(arrays) - _KNOWN_ARRAYS))
        if unknown:
            raise ValueError(
                f"the state {unknown[0]!r} of a learner cannot be merged: its step sizes adapt "
                "to what it has seen; use another schedule"
            )
        if scalars["pending"]:
            raise ValueError("a mini-batch is open: flush it before merging")
        self.scalars, self.v = scalars, arrays["w_v"].reshape(len(arrays["w_v"]), -1)
        self.scale = _per_output(scalars, arrays, "w_scale")
        self.avg_scale = _per_output(scalars, arrays, "w_avg_scale")
        u = arrays.get("w_u")
        self.u = None if u is None else u.reshape(self.v.shape)
        self.intercept, self.intercept_sum = arrays["intercept"], arrays["intercept_sum"]
        whole: Any = slice(None)
        self.new: Any
        self.old: Any
        self.new, self.old, sign = outputs or (whole, whole, 1.0)
        self.sign = np.asarray(sign)

    def add_weights(self, out: Array, b: Array, factor: float) -> None:
        """out += factor * w, b += factor * the intercepts."""
        times = factor * self.sign * self.scale[self.old]
        out[:, self.new] += np.multiply(self.v[:, self.old], times, dtype=np.float64)
        b[self.new] += factor * self.sign * self.intercept[self.old]

    def add_sums(self, out: Array, b: Array, factor: float) -> None:
        """out += factor * the sum of the iterates that are averaged."""
        if self.u is None or factor == 0.0:
            return
        total = self.v[:, self.old] * self.avg_scale[self.old]
        total -= self.u[:, self.old]
        out[:, self.new] += factor * self.sign * total
        b[self.new] += factor * self.sign * self.intercept_sum[self.old]


def _per_output(scalars: dict[str, Any], arrays: dict[str, Array], name: str) -> Array:
    return np.atleast_1d(np.asarray(arrays.get(name, scalars.get(name)), np.float64))


def merge_states(
    parts: Iterable[State],
    shares: Array,
    base: State | None = None,
    outputs: list[Outputs] | None = None,
    n_out: int | None = None,
) -> State:
    """The state of the merged learner.

    Parameters
    ----------
    parts : iterable of states (`SGDLearner.get_state`)
        Each is looked at once, so that one at a time need be in memory.
    shares : array
        Of the weights; they add up to 1.
    base : state, optional
        Of the learner that all parts went on from.
    outputs : list, optional
        For each part, and at the end for the base: which outputs are which of the merged one.
    n_out : int, optional
        Outputs of the merged learner; those of the parts by default.
    """
    mean: Array = np.empty(0)
    sums: Array | None = None
    start, dtype, last, averaging, has_batch = None, np.dtype(np.float32), {}, 0, False
    old = dict.fromkeys((*_SUMS, "t", "w_avg_count"), 0.0)
    counted: dict[str, Any] = dict.fromkeys((*_SUMS, "t"), 0.0)
    iterates: list[float] = []
    for k, state in enumerate(parts):
        if k == 0:
            n_out = n_out or len(state[1]["intercept"])
            mean, b_mean = np.zeros((len(state[1]["w_v"]), n_out)), np.zeros(n_out)
            if "w_u" in state[1]:
                sums, b_sums = np.zeros_like(mean), np.zeros(n_out)
            if base is not None:
                start = _Part(base, n_out, outputs[-1] if outputs else None)
                old = {name: start.scalars[name] for name in old}
        part = _Part(state, n_out, outputs[k] if outputs else None)  # type: ignore[arg-type]
        share, last, dtype = float(shares[k]), part.scalars, np.result_type(dtype, part.v.dtype)
        averaging |= int(last["w_averaging"])
        has_batch = "grad" in state[1]
        part.add_weights(mean, b_mean, share)
        for name in _SUMS:
            counted[name] += part.scalars[name] - old[name]
        counted["t"] += share * (part.scalars["t"] - old["t"])
        rows = part.scalars["seen"] - old["seen"]
        iterates.append(part.scalars["w_avg_count"] - old["w_avg_count"])
        if sums is not None and iterates[-1] > 0 and rows > 0:
            # the mean of this part's iterates; what it counts for is known at the end
            factor = share / rows
            part.add_sums(sums, b_sums, factor)
            if start is not None:
                start.add_sums(sums, b_sums, -factor)
            counted["factor"] = counted.get("factor", 0.0) + factor * iterates[-1]
    scalars = {name: old[name] + counted[name] for name in _SUMS}
    scalars |= {"t": old["t"] + float(round(counted["t"])), "eta": last["eta"]}
    scalars |= {"pending": 0.0, "touched_all": 0, "w_avg_count": old["w_avg_count"]}
    v = mean.astype(dtype)
    arrays = {"intercept": b_mean, "intercept_sum": np.zeros_like(b_mean)}
    if sums is not None:
        if counted.get("factor"):
            scalars["w_avg_count"] += sum(iterates)
            sums *= sum(iterates) / counted["factor"]
            b_sums *= sum(iterates) / counted["factor"]
        if start is not None:
            start.add_sums(sums, b_sums, 1.0)
        arrays |= {"w_u": _shaped((-sums).astype(dtype)), "intercept_sum": b_sums}
    scalars |= {"w_averaging": averaging, "w_track_norm": last["w_track_norm"]}
    scalars |= {"w_low": 1e-3, "w_high": 1e3} if averaging else {"w_low": 1e-9, "w_high": 1e9}
    per_output = {
        "w_scale": np.ones(len(b_mean)),
        "w_sq_v": np.zeros(len(b_mean)),
        "w_avg_scale": np.zeros(len(b_mean)),
    }
    if last["w_track_norm"]:
        per_output["w_sq_v"] = np.square(v, dtype=np.float64).sum(axis=0)
    if len(b_mean) == 1:
        scalars |= {name: float(values[0]) for name, values in per_output.items()}
    else:
        arrays |= per_output
    if has_batch:
        arrays |= {"grad": np.zeros_like(v), "grad_b": np.zeros_like(b_mean)}
        arrays["touched"] = np.empty(0, np.int64)
    return scalars, arrays | {"w_v": _shaped(v)}


def _shaped(weights: Array) -> Array:
    """As a learner keeps them: a vector for one output."""
    return weights[:, 0].copy() if weights.shape[1] == 1 else weights


def merge_sigmoids(
    parts: list[Array],
    shares: Array,
    base: Array | None,
    outputs: list[Outputs] | None,
    n_out: int,
) -> Array:
    """The state (a, c, h_aa, h_ac, h_cc, n) of Platt's sigmoids, one row per output.

    Curvatures H are averaged, (a, c) by the weight of their curvatures; examples add up.
    An output that a part does not have is that of a sigmoid which has seen nothing.
    """
    merged = np.zeros((n_out, 6))
    slope = np.zeros((n_out, 2))
    every = list(range(n_out))

    def aligned(state: Array, k: int) -> Array:
        new, old, sign = outputs[k] if outputs else (every, every, [1.0] * n_out)
        out = np.tile([1.0, 0.0, 1.0, 0.0, 1.0, 0.0], (n_out, 1))
        for i, j, s in zip(new, old, sign):
            out[i] = state[j] * [1.0, s, 1.0, s, 1.0, 1.0]  # the score changes its sign
        return out

    first = np.zeros(n_out) if base is None else aligned(base, -1)[:, 5]
    for k, state in enumerate(parts):
        part = aligned(state, k)
        merged[:, 2:5] += shares[k] * part[:, 2:5]
        slope[:, 0] += shares[k] * (part[:, 2] * part[:, 0] + part[:, 3] * part[:, 1])
        slope[:, 1] += shares[k] * (part[:, 3] * part[:, 0] + part[:, 4] * part[:, 1])
        merged[:, 5] += part[:, 5] - first
    merged[:, 5] += first
    h_aa, h_ac, h_cc = merged[:, 2], merged[:, 3], merged[:, 4]
    det = np.maximum(h_aa * h_cc - h_ac * h_ac, 1e-300)  # positive: each part has a ridge
    merged[:, 0] = (h_cc * slope[:, 0] - h_ac * slope[:, 1]) / det
    merged[:, 1] = (h_aa * slope[:, 1] - h_ac * slope[:, 0]) / det
    return merged
