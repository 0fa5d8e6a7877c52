"""What a kernel stream learner reads off the rows it is given, before and after learning.

Invariants
- nothing here draws random numbers: samples are rows at even distances;
- `find_offset` is 0 where no other offset is better, and so are all of `find_offsets`.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from osvm._input.labels import pick_codes
from osvm._input.rows import RowSource
from osvm._input.types import Array
from osvm.exceptions import ConvergenceWarning
from osvm.kernel.batch import Batch
from osvm.kernels import Kernel

ALIKE, APART = 0.9999, 1e-3  # kernel values of rows that look the same, and unrelated
UNEQUAL = 1000.0  # ratio of standard deviations of columns
TOLD = 20  # targets that tell their spread
SLOW = 50.0  # first steps to the standard deviation of the targets
LARGEST = 1e150  # of scores and offsets, as in loop.pyx
OUT_OF_RANGE = (
    "a score, a coefficient or a norm is beyond 1e150 or not finite. Lower eta0 or mu, raise reg, "
    "or scale X (e.g. to unit norm) and the targets"
)
LOST = 0.1  # rounding of gamma times a squared distance
RARE = 0.2  # share of the other classes below which one class is a fair answer to all rows
SCORED = 256  # rows that tell whether a fit has learnt anything,
FEW = 64  # whose errors on the way tell nothing
CLEARLY, AT_ALL = 0.95, 0.999  # where errors on the way are not below so many times the constant's


def measure_targets(batch: Batch, n_rows: int | None) -> tuple[float, float]:
    """Median and spread of a training set's targets.

    Of a stream they are not known: its first target, however it is cut, and 1.
    """
    if batch.targets is None:
        return 0.0, 1.0
    if n_rows is None:
        return float(batch.targets[0]) if len(batch.targets) else 0.0, 1.0
    middle = float(np.median(batch.targets))
    spread = float(np.std(batch.targets))
    return middle, spread if 1e-100 < spread < 1e100 else 1.0


def loss_slope(part: Any) -> float:
    """The largest slope of a loss of targets; 0 if its slope has the targets' unit."""
    is_bounded = part.task == "regression" and np.isfinite(part.slope_bound)
    return float(part.slope_bound) if is_bounded else 0.0


def step_unit(part: Any, unit: float) -> float:
    """What the gradient of a loss lacks of the targets' unit."""
    slope = loss_slope(part)
    if not slope:
        return 1.0
    # where the loss is curved, the gradient of a small error has the unit
    return max(1.0, unit / slope) if np.isfinite(part.curvature_bound) else unit / slope


def warn_targets(targets: Array | None, step: float) -> None:
    """Warn where the first steps of a stream are nothing beside the spread of its targets."""
    if targets is None:
        return
    spread = float(np.std(targets))
    if len(targets) >= TOLD and spread > SLOW * step:
        warnings.warn(
            f"targets have a standard deviation of {spread:.3g}, but the steps of this stream "
            f"begin at {step:.3g}: f would need more than {SLOW:g} examples near each place; "
            f"divide the targets by {spread:.2g}, or raise eta0",
            ConvergenceWarning,
            stacklevel=2,
        )


def finite_scores(state: Any, source: RowSource) -> Array:
    """The scores of rows, (n, K), that offset or margin are read off."""
    scores: Array = state.decision(source)
    if not (np.abs(scores) < LARGEST).all():
        raise ValueError(f"learning diverged: {OUT_OF_RANGE}")
    return scores


def find_margin(scores: Array, weights: Array | None, nu: float) -> float:
    """The score below which a share `nu` of the rows lies."""
    order = np.argsort(scores, kind="stable")
    share = np.ones(len(scores)) if weights is None else weights[order]
    below = np.cumsum(share) - share
    return float(scores[order[np.searchsorted(below, nu * share.sum(), "right") - 1]])


def measure_share(scores: Array, weights: Array | None, margin: float) -> list[float]:
    """What a stream that goes on from a margin knows of the scores (`share.pxd`)."""
    share = np.ones(len(scores)) if weights is None else weights
    below, gaps = scores < margin, np.abs(scores - margin)
    shortfall = float(np.average(gaps[below], weights=share[below])) if below.any() else 0.0
    spread = float(np.average(np.where(below, 0.0, gaps), weights=share))
    size = float(np.average(np.abs(scores), weights=share))
    return [margin, margin, shortfall, spread, size, float(len(scores)), float(share.sum())]


def find_offset(scores: Array, positive: Array, weights: Array | None) -> float:
    """The offset that makes as many rows positive as are, if that costs no more errors.

    Of all offsets whose errors exceed the fewest by half their standard deviation at most, the
    one whose share of positives is nearest to the true one; 0 if it is as near.
    """
    order = np.argsort(scores, kind="stable")
    s, is_positive = scores[order], positive[order]
    w = np.ones(len(s)) if weights is None else weights[order]
    up = np.concatenate([[0.0], np.cumsum(w * is_positive)])  # positives below cut i
    down = np.concatenate([[0.0], np.cumsum(w * ~is_positive)])
    total = up[-1] + down[-1]
    above = total - up - down
    possible = np.concatenate([[True], s[1:] > s[:-1], [True]])  # between two scores
    errors = np.where(possible, up + down[-1] - down, np.inf)
    rate = errors.min() / total
    cuts = np.flatnonzero(
        errors <= errors.min() + 0.5 * np.sqrt(np.square(w).sum() * rate * (1.0 - rate))
    )
    distance = np.abs(above[cuts] - up[-1])
    now = int(np.searchsorted(s, 0.0, "right"))  # scores above 0 are positive
    best = int(cuts[np.argmin(distance)])
    if now in cuts and distance[cuts == now][0] <= distance.min():
        return 0.0
    if best in (0, len(s)):
        return 0.0  # an answer for all rows, which needs no offset of ours
    return -0.5 * float(s[best - 1] + s[best])


def find_offsets(scores: Array, codes: Array, weights: Array | None) -> Array:
    """An offset for each output, (K,), of scores (n, K) of rows whose classes are `codes`.

    The outputs take their turns, the rarest class first: each gets the offset with which it is
    the largest on as many rows as belong to its class, the others being as they are.
    """
    n_outputs = scores.shape[1]
    if n_outputs == 1:
        return np.array([find_offset(scores[:, 0], codes == 1, weights)])
    offsets, shifted = np.zeros(n_outputs), scores.astype(np.float64)
    for k in np.argsort(np.bincount(codes, weights, n_outputs), kind="stable"):
        rivals = np.delete(shifted, k, axis=1).max(axis=1)
        offsets[k] = find_offset(shifted[:, k] - rivals, codes == k, weights)
        shifted[:, k] += offsets[k]
    return offsets


def predict_codes(scores: Array) -> Array:
    """The class of each row: the largest of several scores, the sign of one."""
    return pick_codes(scores[:, 0] if scores.shape[1] == 1 else scores, 2)


def sample_rows(n: int, most: int) -> Array:
    """Numbers of at most `most` of n rows, at even distances."""
    return np.linspace(0, n - 1, min(n, most)).astype(np.intp)


def warn_rows(kernel: Kernel, X: Any) -> None:
    """Warn where a kernel cannot see what tells the rows of a sample apart."""
    if kernel.name not in ("rbf", "linear", "polynomial", "sigmoid") or X.shape[0] < 20:
        return
    rows = X[sample_rows(X.shape[0], 128)]
    problem = _unequal_columns(rows)
    if kernel.name == "rbf":
        gamma = float(kernel.gamma)  # type: ignore[attr-defined]
        problem = problem or _lost_distances(gamma, rows) or _width(kernel, gamma, rows)
    if problem:
        warnings.warn(problem, ConvergenceWarning, stacklevel=2)


def warn_if_constant(state: Any, batch: Batch, on_the_way: float) -> None:
    """Warn of a fit that answers no better than a constant, on some of its own rows.

    Classes: neither in all nor in the mean over the classes, unless all but one are rare.
    `on_the_way` are the errors of its last epoch, for each example; nothing is scored where
    they settle it.
    """
    n = batch.source.n_rows
    if batch.task == "novelty":
        return
    if n > FEW and on_the_way < CLEARLY * _constant_error(batch):
        return
    some = batch.take(sample_rows(n, SCORED))
    weights = np.ones(some.source.n_rows) if some.weights is None else some.weights
    if not weights.any():
        return
    constant, scores = _constant_error(some), state.decision(some.source)
    if some.labels is None:
        found = float(np.average(np.abs(scores[:, 0] - some.targets), weights=weights))
    else:
        wrong = predict_codes(scores) != some.labels
        mass = np.bincount(some.labels, weights)
        missed = np.bincount(some.labels, weights * wrong)[mass > 0.0] / mass[mass > 0.0]
        if missed.mean() < AT_ALL * (1.0 - 1.0 / len(missed)):
            return
        found = float(np.average(wrong, weights=weights))
    is_fair = some.labels is not None and found == constant < RARE
    if found < AT_ALL * constant or constant == 0.0 or is_fair:
        return
    warnings.warn(
        f"the model is no better on its training rows than a constant answer (error {found:.3g}, "
        f"of the constant {constant:.3g}): if the features say anything about the targets, scale "
        "them, choose another kernel (the Gaussian suits most rows), or raise epochs",
        ConvergenceWarning,
        stacklevel=2,
    )


def _constant_error(batch: Batch) -> float:
    """The mean error of the best constant answer; weighted rows count by their weight."""
    if batch.labels is None:
        assert batch.targets is not None
        off = np.abs(batch.targets - np.median(batch.targets))
        return float(np.average(off, weights=batch.weights))
    mass = np.bincount(batch.labels, batch.weights)
    return 1.0 - float(mass.max() / mass.sum())


def _unequal_columns(rows: Any) -> str:
    """A dense column that is nothing beside another."""
    if hasattr(rows, "indptr"):
        return ""
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.std(rows, axis=0, dtype=np.float64)
    small, large = np.where(spread > 0.0, spread, np.inf).argmin(), spread.argmax()
    if not spread[large] > UNEQUAL * spread[small] > 0.0:
        return ""
    return (
        f"columns of X differ in size by more than {UNEQUAL:g}: the standard deviation of column "
        f"{large} is {spread[large]:.3g}, that of column {small} {spread[small]:.3g}, which the "
        "kernel does not see; scale the columns, e.g. to unit variance"
    )


def _lost_distances(gamma: float, rows: Any) -> str:
    """Rows so far from the origin that rounding is larger than their distances."""
    wide = rows.astype(np.float64)
    with np.errstate(over="ignore"):
        squares = wide.multiply(wide) if hasattr(wide, "indptr") else np.square(wide)
        norm = float(np.median(np.asarray(squares.sum(axis=1))))
    if not gamma * norm * float(np.finfo(rows.dtype).eps) > LOST:
        return ""
    return (
        f"rows of X are so far from the origin (a norm of {math.sqrt(norm):.3g}) that their "
        f"distances are lost to the rounding of {rows.dtype}: center the columns"
        + (", or give float64" if rows.dtype == np.float32 else "")
    )


def _width(kernel: Kernel, gamma: float, rows: Any) -> str:
    """A kernel that sees all rows as equal, or as unrelated.

    The gamma suggested gives the median pair of rows a kernel value of 1/e.
    """
    values = np.array(kernel(rows, rows), np.float64)
    n, is_other = len(values), ~np.eye(len(values), dtype=bool)
    np.fill_diagonal(values, 0.0)
    if 2 * np.count_nonzero(values > ALIKE) > n * (n - 1) and values[is_other].min() < 1.0:
        what, how = f"the kernel of most pairs of rows is above {ALIKE}", "raise"
    elif 2 * np.count_nonzero(values.max(axis=1) < APART) > n:
        what, how = f"the kernel of a row with its nearest is below {APART} for most", "lower"
    else:
        return ""
    rows = rows.astype(np.float64)
    products = np.asarray((rows @ rows.T).todense() if hasattr(rows, "indptr") else rows @ rows.T)
    norms = products.diagonal()
    distance = float(np.median((norms[:, None] + norms - 2.0 * products)[is_other]))
    better = 1.0 / distance if distance > 0.0 else math.inf
    to = f" to about {better:.2g}" if 0.0 < better < math.inf else ""
    return (
        f"gamma={gamma:.3g} is far off: in a sample {what}; {how} gamma{to}, or scale the columns "
        "of X (gamma='scale' fits columns of equal variance)"
    )
