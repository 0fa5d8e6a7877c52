"""What the saved state of a kernel buffer may hold.

The schema of `KernelState` (`osvm/kernel/buffer/state.pyx`), by the words of
`osvm/_input/schema.py`: a state that passes has rows that lie within its arrays.
"""

from __future__ import annotations

import numpy as np

from osvm._input.schema import COUNT, LONGEST, MOST, NUMBER, ArrayField, Field, Rule, Schema
from osvm._input.types import Array

# Numbers that a regression, a novelty stream and two classes follow: {targets,share,cut}.pxd
TARGETS_SIZE, SHARE_SIZE, CUT_SIZE = 3, 9, 17


def buffer_schema(
    d: int,
    n_outputs: int,
    *,
    float64: bool,
    sparse: bool,
    budget: int,
    trace: bool,
    average: bool,
    running: int,
    n: int,
    n_victims: int,
    most_victims: int,
    n_entries: int,
    precomputed: bool,
) -> Schema:
    """State of a `KernelState` with these arguments and `n` rows of `n_entries` values."""
    real = np.float64 if float64 else np.float32
    K, m = n_outputs, n_victims
    exact = Field("int", low=0, high=LONGEST)
    scalars = {
        "t": COUNT,
        "eta": Field("float", 0.0),
        "epsilon": NUMBER,
        "eta_epsilon": Field("float", 0.0),
        "z_epsilon": NUMBER,
        "errors": Field("float", 0.0),
        "loss_sum": NUMBER,
        "a": Field("float", 1e-70, 1e70),
        "p": Field("float", -1e74, 1e74),
        "q": Field("float", 1e-70, 1e70),
        "sq_f": NUMBER,  # negative with a kernel that is not positive semi-definite
        "pi": NUMBER,
        "n": Field("int", 0, budget if budget >= 0 else LONGEST),
        "head": Field("int", 0, max(n - 1, 0)),
        "births": Field("int", n, LONGEST),
        "n_victims": Field("int", 0, min(n, most_victims)),
        "n_outputs": exact,
        "float64": Field("flag"),
        "sparse": Field("flag"),
        "trace": Field("flag"),
    }
    big = 1e150
    arrays = {
        "start": ArrayField((n,), np.intp, 0 if sparse else -LONGEST, LONGEST),
        "length": ArrayField((n,), np.intp, 0 if sparse else -LONGEST, LONGEST),
        "sq": ArrayField((n,), real, 0.0),
        "k_self": ArrayField((n,)),
        "ids": ArrayField(
            (n,), np.intp, 0 if precomputed else -1, d - 1 if precomputed else LONGEST
        ),
        "A": ArrayField((n, K)),
        "B": ArrayField((n, K)),
        "birth": ArrayField((n,), np.intp, 0, LONGEST),
        "size": ArrayField((n,)),
        "row_sq": ArrayField((n,)),
        "intercept": ArrayField((K,), np.float64, -big, big),
        "eta_intercept": ArrayField((K,), low=0.0),
        "z_intercept": ArrayField((K,)),
    }
    rules: list[Rule] = [
        (lambda s, a: not (average and trace), "a machine with a trace does not average"),
        (lambda s, a: not average or s["average_from"] <= s["t"], "an average from the future"),
        (lambda s, a: s.get("since", 0.0) <= s["t"], "a drift from the future"),
        (
            lambda s, a: (
                (s["n_outputs"], s["float64"], s["sparse"], s["trace"])
                == (K, float64, sparse, trace)
            ),
            "the state belongs to another kind of kernel machine",
        ),
        (lambda s, a: s["head"] == 0 or n == budget, "a buffer that is not full has no head"),
        (lambda s, a: _are_births(a["birth"], s["births"]), "births are not distinct numbers"),
    ]
    if average:
        scalars["average_from"] = COUNT
        # later than the first files
        scalars["since"] = Field("count", 0.0, MOST, optional=True)
        scalars["lag"] = Field("float", optional=True)
        scalars["lag_squares"] = Field("float", 0.0, optional=True)
        scalars["mean_scores"] = Field("flag", optional=True)
        arrays["means"] = ArrayField((K + 1,), np.float64, -big, big)
    if running:
        arrays["running"] = ArrayField((running,), np.float64, -1e300, 1e300)
        rules.append((lambda s, a: _are_followed(a["running"]), "no rows have these sums"))
    if sparse:
        arrays["values"] = ArrayField((n_entries,), real)
        arrays["columns"] = ArrayField((n_entries,), np.int32, 0, d - 1)
        rules.append((lambda s, a: _are_apart(a["start"], a["length"], n_entries), "rows overlap"))
    else:
        arrays["X"] = ArrayField((n, d), real)
    if m:
        arrays |= {
            "victim_slot": ArrayField((m,), np.intp, -1, n - 1),
            "victim_kv": ArrayField((n * m,)),
            "victim_fa": ArrayField((K * m,)),
            "victim_fb": ArrayField((K * m,)),
        }
        rules.append((lambda s, a: _are_distinct(a["victim_slot"]), "a slot is known twice"))
    return Schema("kernel machine", scalars, arrays, tuple(rules))


def _are_followed(running: Array) -> bool:
    """Whether rows may have left these numbers: a Targets, a Share or a Cut, see their headers."""
    if len(running) == TARGETS_SIZE:
        return bool((running[[0, 2]] >= 0.0).all())  # weight, squares
    sums, cut = running[2:7], running[9:]  # distances, size, count, weight
    if len(cut) not in (0, CUT_SIZE - SHARE_SIZE) or not (sums >= 0.0).all():
        return False
    if (sums[3] > 0.0) != (sums[4] > 0.0):
        return False
    if not cut.size:
        return True
    side, positives, errors = cut[0], cut[1], np.abs(cut[2:])
    most = 1.0 + 1e-9  # merging rounds
    return (
        side in (-1.0, 0.0, 1.0)
        and bool(0.0 <= positives <= most * sums[4])
        and bool((errors <= most).all())
    )


def _are_births(birth: Array, births: int) -> bool:
    return birth.size == 0 or (bool(birth.max() < births) and _are_distinct(birth))


def _are_distinct(numbers_: Array) -> bool:
    found = numbers_[numbers_ >= 0]
    return len(np.unique(found)) == len(found)


def _are_apart(start: Array, length: Array, n_entries: int) -> bool:
    """Whether rows lie within the entries, none of them over another."""
    if start.size == 0:
        return True
    if start.max() > n_entries or length.max() > n_entries:
        return False  # so that the sums below cannot overflow
    used = length > 0
    order = np.argsort(start[used], kind="stable")
    first, end = start[used][order], (start[used] + length[used])[order]
    return bool((start + length).max() <= n_entries) and bool((first[1:] >= end[:-1]).all())


def row_squares(values: Array, columns: Array, start: Array, length: Array) -> Array:
    """||x||^2 of sparse rows that lie apart; entries of a repeated column add up."""
    row = np.repeat(np.arange(len(start)), length)
    first = np.repeat(np.cumsum(length) - length, length)
    where = np.repeat(start, length) + np.arange(len(row)) - first
    order = np.lexsort((columns[where], row))
    found, column, row = values[where][order], columns[where][order], row[order]
    fresh = np.append(True, (row[1:] != row[:-1]) | (column[1:] != column[:-1]))[: len(row)]
    sums = np.bincount(np.cumsum(fresh) - 1, found) if len(row) else np.zeros(0)
    return np.bincount(row[fresh], sums * sums, minlength=len(start))
