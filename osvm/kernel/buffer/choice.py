"""The width of the kernel, the regularizer and the offset that suit a training set.

`fit` learns some rows with each of a few settings and counts errors on others.  Of classes: a
narrow kernel for boundaries with detail, a wide one with more regularization for labels that are
mostly noise; errors are relative to the size of the class, so that rare classes count as much as
others.  Of numbers, which are judged by squares: wider and wider kernels for planes, of which the
widest leave little else, and a narrow one.  Last comes a plane as the linear family learns it.

Invariants
- the usual setting is tried first; no wider kernel is after one that errs more than the one
  before by more than chance, and no narrow one after a wide one was taken;
- no other setting is tried where the first is good enough: large images would take as long
  again as the fit;
- the split has a seed of its own, so that the fit with the chosen setting is the same fit as
  with that setting given;
- another setting than the first is chosen only if its errors are fewer by more than the
  standard deviation of that difference were neither better;
- settings are judged with the offsets with which the fit would answer, and offsets that it will
  set anyway on rows that did not tell them;
- the plane is tried whatever the others err, as it costs little, and chosen if it errs less than
  the best of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from osvm._input.types import Array
from osvm.kernel.batch import Batch
from osvm.kernel.buffer.measures import find_offsets, predict_codes

Setting = tuple[float, float | None]
# gamma in units of "scale", and reg (None: its default)
USUAL: Setting = (1.0, None)
PLANE: Setting = (0.0, 1e-3)  # what a Gaussian becomes with gamma 0; reg is for a stream after it
SETTINGS: dict[str, tuple[Setting, ...]] = {
    "classify": (USUAL, (4.0, None), (0.25, 1e-3)),
    "regress": ((1.0, 3e-4), (0.25, 3e-4), (0.0625, 3e-4), (0.015625, 3e-4), (4.0, 3e-4)),
}
FEWEST = 60  # rows: below, errors tell nothing
FEW = 2400  # rows: up to here each is judged once, by what two thirds have taught
FEW_NUMBERS = 600  # the same for targets, of which each tells more than a label
LEARNT, JUDGED = 1600, 4800  # of more rows, at most
EPOCHS = 3
ENOUGH = 0.08  # errors with which no other setting is tried


def split_rows(n: int, few: int = FEW) -> list[tuple[Array, Array]]:
    """Numbers of rows to learn, and of others to be judged by; three times for few rows."""
    order = np.random.default_rng(0).permutation(n)
    if n > few:
        learnt = min(LEARNT, 2 * n // 3)
        return [(order[:learnt], order[learnt : learnt + JUDGED])]
    parts = np.array_split(order, 3)
    return [(np.concatenate(parts[:k] + parts[k + 1 :]), parts[k]) for k in range(3)]


def class_shares(batch: Batch, judged: Array) -> Array:
    """What an error on a row of each class adds to the mean over the classes judged."""
    assert batch.labels is not None
    weights = None if batch.weights is None else batch.weights[judged]
    size = np.bincount(batch.labels[judged], weights)
    return 1.0 / np.where(size > 0.0, size, np.inf) / np.count_nonzero(size)


class Trials:
    """Rows to learn and others to be judged by, and what the scores of these tell."""

    def __init__(self, batch: Batch) -> None:
        few = FEW_NUMBERS if batch.task == "regress" else FEW
        parts = split_rows(batch.source.n_rows, few)
        self.splits = [(batch.take(learnt), batch.take(judged)) for learnt, judged in parts]
        rows = np.concatenate([judged for _, judged in parts])
        self.n_judged = len(rows)
        self.weights = None if batch.weights is None else batch.weights[rows]
        if batch.targets is not None:
            self.targets = batch.targets[rows]
            return
        assert batch.labels is not None
        self.labels = batch.labels[rows]
        self.share = class_shares(batch, rows)

    def judge_numbers(self, scores: Sequence[Array]) -> Array:
        """The square of each error, in shares of those of the best constant answer."""
        weights = np.ones(len(self.targets)) if self.weights is None else self.weights
        apart = self.targets - np.average(self.targets, weights=weights)
        unit = float(np.abs(apart).max()) or 1.0  # squares of the ratios are finite
        missed = np.square((np.concatenate(scores)[:, 0] - self.targets) / unit)
        return weights * missed / (float(weights @ np.square(apart / unit)) or 1.0)

    def judge(
        self, scores: Sequence[Array], shift: bool, always: bool
    ) -> tuple[Array, Array | float]:
        """What each row judged adds to the rate of errors, and the offsets that this is with.

        Unless the fit will set offsets `always`, they must be better than none by more than
        chance, as settings must.
        """
        joined = np.concatenate(scores)
        errors = self._errors(joined)
        if not shift:
            return errors, 0.0
        if always:  # and from the rows of the fit
            return self._errors(joined + self._found_apart(joined)), 0.0
        offsets = find_offsets(joined, self.labels, self.weights)
        shifted = self._errors(joined + offsets)
        if is_better(errors - shifted):
            return shifted, offsets
        return errors, 0.0

    def _found_apart(self, scores: Array) -> Array:
        """The offset of each row, told by the other half of them: its own would flatter it."""
        offsets, half = np.zeros_like(scores), np.arange(len(scores)) % 2 == 0
        for told in (half, ~half):
            weights = None if self.weights is None else self.weights[told]
            offsets[~told] = find_offsets(scores[told], self.labels[told], weights)
        return offsets

    def _errors(self, scores: Array) -> Array:
        """The classes count alike."""
        weights = 1.0 if self.weights is None else self.weights
        return (predict_codes(scores) != self.labels) * weights * self.share[self.labels]


def is_better(gain: Array) -> bool:
    """Whether errors that each row lost are more than chance would tell."""
    return bool(gain.sum() > np.sqrt(np.square(gain).sum()))


def choose(
    settings: Sequence[Setting],
    errors_of: Callable[[Setting], Array],
    rival: Setting | None = None,
) -> Setting:
    """The setting with the fewest errors.

    `errors_of` gives what each row judged adds to the rate of errors.  A `rival` needs no more
    than fewer errors than the best of the others.
    """
    best, too_wide = settings[0], False
    first = before = errors_of(best)
    fewest = float(first.sum())
    for setting in settings[1:]:
        if fewest < ENOUGH:
            break
        wide = setting[0] < 1.0
        if too_wide if wide else best != settings[0]:
            continue
        errors = errors_of(setting)
        if errors.sum() < fewest and is_better(first - errors):
            best, fewest = setting, float(errors.sum())
        elif wide:
            too_wide = is_better(errors - before)
        before = errors if wide else before
    if rival is not None and errors_of(rival).sum() < fewest:
        return rival
    return best
