"""The learner of adaptive, implicit steps as a whole: its weights, copies and states.

`AdaptiveLearner` learns one or more settings side by side: a group of columns each, `n_out`
of them, over one pass through the row's entries.  An estimator uses one group, or several that
are judged as they learn, of which the best answers; others are candidates, of which
`candidate_state` hands out one.

Invariants
- what `get_state` gives, `set_state` of an equal learner takes, and both go on bit-equally;
- outputs that are added start at 0 and change no other output.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from osvm._input.schema import Schema, adaptive_schema, judged_schema
from osvm._input.types import Array, State
from osvm.linear.adaptive import AdaptiveLoop
from osvm.linear.learner import SGDLearner
from osvm.schedules import CoinBetting, Constant

ROOT, WINDOWS = 1, slice(2, 4)  # planes of the numbers: v, root, two windows, those of bets


class Weights:
    """The weights of a learner, for reading."""

    def __init__(self, learner: AdaptiveLearner) -> None:
        self._learner = learner
        self.dim, self.n_out = learner.n_features, learner.n_out

    @property
    def v(self) -> Array:
        """The array that holds the weights, among other numbers."""
        return self._learner.own_cells

    @property
    def averaged_count(self) -> float:
        """Iterates in the average."""
        return self._learner.averaged_count

    def array(self, averaged: bool = False) -> Array:
        """w as (n_features,), or (n_out, n_features) for several outputs."""
        return self._learner.weight_array(averaged)


class AdaptiveLearner(AdaptiveLoop):
    """Weights, rates, offsets and counters of one linear model, or of several candidates.

    Parameters
    ----------
    n_features, n_out : int
        One output for binary, regression and novelty losses.
    dtype : float32 or float64
        Of the weights.
    loss : LossSpec
    steps : StepSpec, or a sequence of them
        Of `osvm.schedules.Adaptive` and `CoinBetting`; several make candidates.
    average_from : float
        Number of examples before averaging starts; negative for never.
    fit_intercept : bool
    error_kind : {"class", "absolute", "novel"}
    predictors : sequence of int, optional
        Judges the candidates: for each, 1 if its last iterate may answer, 2 if its tail
        average may, 3 if both.  Only of `Adaptive` without `mirror`, with an average.
    decay : float
        Of the counts of errors, per example.
    alive : int, optional
        Bits of the candidates that compete; all by default.
    joint : int
        Bits of the judged candidates that learn several classes with "multiclass_hinge",
        whatever `loss` is.

    Examples
    --------
    >>> import numpy as np
    >>> from osvm import losses, schedules
    >>> from osvm._input.rows import RowSource
    >>> from osvm.linear.adaptive_state import AdaptiveLearner
    >>> X = RowSource.dense(np.array([[1.0, 0.0], [0.0, 8.0]]))
    >>> step = schedules.Adaptive(eta0=0.5).spec()
    >>> learner = AdaptiveLearner(2, 1, np.float64, losses.get("hinge").spec(), step)
    >>> learner.run(X, np.array([1.0, -1.0]))
    >>> learner.weights.array()
    array([ 0.5  , -0.125])
    """

    def __init__(
        self, n_features: int, n_out: int, dtype: Any, loss: Any, steps: Any, **options: Any
    ) -> None:
        super().__init__(n_features, n_out, dtype, loss, steps, **options)
        self._options = options

    @property
    def weights(self) -> Weights:
        """Made anew: a learner that held them would wait for the garbage collector."""
        return Weights(self)

    @property
    def _judged(self) -> bool:
        return self.predictors is not None

    @property
    def _n_groups(self) -> int:
        return self.offsets.shape[1] // self.n_out

    @property
    def _averages(self) -> bool:
        return self._options.get("average_from", -1.0) >= 0.0

    @property
    def _coin(self) -> bool:
        return len(self.offsets) > 2 + 2 * self._averages

    def _planes(self) -> Array:
        """The numbers of all features as (n_features, planes, columns), without 1/n."""
        return self.cells[:, -self.offsets.size :].reshape(self.n_features, *self.offsets.shape)

    # ------------------------------------------------------------------ reading

    def root_array(self) -> Array:
        """sqrt(G) of all weights, (n_features,) or (columns, n_features), in float64."""
        inflation = self.get_state()[1]["groups"][:, 1]
        roots = np.repeat(np.sqrt(inflation), self.n_out)[:, None]
        out = self._planes()[:, ROOT].astype(np.float64).T / roots
        return out[0] if len(out) == 1 else out

    def frozen_average(self, averaged: bool = True) -> SGDLearner:
        """A plain learner with these weights (by default their average), for prediction."""
        if self._n_groups != 1 and not self._judged:
            raise ValueError("candidates have no common weights")
        frozen = SGDLearner(
            self.n_features,
            self.n_out,
            self.dtype,
            self.parts[0],
            Constant().spec(eta0=1.0),
            reg=0.0,
            fit_intercept=self.fits_intercept,
            error_kind=self._options.get("error_kind", "class"),
        )
        frozen.weights.set_array(self.weight_array(averaged))
        frozen.intercept[:] = self.offset_array(averaged)
        return frozen

    def average_intercept(self) -> Array:
        """The offsets that answer: the averaged ones, or the last ones."""
        return self.offset_array(True)

    @property
    def fits_intercept(self) -> bool:
        return self._options.get("fit_intercept", False)

    def begin_sizes(self, size: float) -> None:
        """Let no feature be smaller than this, before the first example."""
        least = 1e-15 if self.dtype == np.float32 else 1e-100  # most_inverse, adaptive_learn.pxd
        self.cells[:, : -self.offsets.size] = 1.0 / max(size, least)

    def set_weights(self, weights: Array, offsets: Array) -> None:
        """Put these in the place of the only setting's, (n_out, n_features) and n_out.

        Rates stay as they are; averages begin anew.
        """
        if self._n_groups != 1 or self.get_state(copy=False)[1]["groups"][0, 0] != 1.0:
            raise ValueError("only weights of one setting without a regularizer can be set")
        self.unpair()
        self._planes()[:, 0] = weights.T
        self.offsets[0] = offsets
        self.restart_average()

    # ------------------------------------------------------------------ states and copies

    def schema(self, alive: Any = None) -> Schema:
        """What `set_state` takes; of judged candidates, for those in `alive`."""
        if not self._judged:
            return adaptive_schema(
                self.n_features,
                self.offsets.shape[1],
                self.dtype,
                averaged=self._averages,
                normalized=self.cells.shape[1] > self.offsets.size,
                coin=self._coin,
                n_groups=self._n_groups,
            )
        if not isinstance(alive, int) or not 0 < alive < 1 << len(self.steps):
            raise ValueError(f"the saved alive of the linear learner is {alive!r:.60}")
        return judged_schema(
            self.n_features,
            self.n_out,
            self.dtype,
            normalized=self.any_normalized(alive),
            n_groups=alive.bit_count(),
            n_candidates=len(self.steps),
            n_predictors=len(self.figures),
        )

    def like(self, n_out: int) -> AdaptiveLearner:
        """A fresh learner with the same parts."""
        options = self._options
        if self._judged:
            options = {**options, "alive": self.alive, "decay": self.decay}
        return AdaptiveLearner(self.n_features, n_out, self.dtype, *self.parts, **options)

    def copy(self) -> AdaptiveLearner:
        """An independent copy, bit for bit."""
        copied = self.like(self.n_out)
        copied.set_state(*self.get_state(copy=False))
        return copied

    def with_outputs(self, n_out: int) -> AdaptiveLearner:
        """A learner with more outputs: the old ones as they are, the new ones fresh.

        An average begins anew, so that it does not hold new outputs back at 0.
        """
        old, G = self.n_out, self._n_groups
        if n_out <= max(old, 2) or (G != 1 and not self._judged):
            raise ValueError(f"cannot go from {old} to {n_out} outputs")
        scalars, arrays = self.get_state()
        cells = np.zeros((self.n_features, len(self.offsets) * G * n_out), self.dtype)
        sizes = self.cells[:, : -self.offsets.size]
        if sizes.shape[1]:
            cells = np.concatenate([sizes, cells], axis=1)
        offsets = np.zeros((len(self.offsets), G * n_out))
        shape = (len(offsets), G)
        first = 1 if old == 1 else 0
        for wide, numbers in (
            (cells[:, sizes.shape[1] :].reshape(-1, *shape, n_out), self._planes()),  # views
            (offsets.reshape(1, *shape, n_out), self.offsets),
        ):
            wide[..., first : first + old] = numbers.reshape(-1, *shape, old)
            if old == 1:
                # The one score of a binary model is the second label's, and minus the first's.
                wide[..., 0] = wide[..., 1]
                wide[:, [0, ROOT] if self._coin else [0], :, 0] *= -1.0
            if self._averages:
                wide[:, WINDOWS] = 0.0
        if self._averages:
            scalars["count_0"] = scalars["count_1"] = 0.0
            arrays["groups"][:, 2:] = 0.0
        if self._judged:
            grown = np.zeros((2, n_out - self.class_weights.shape[1]))
            arrays["class_weights"] = np.concatenate([self.class_weights, grown], axis=1)
        wider = self.like(n_out)
        wider.set_state(scalars, arrays | {"cells": cells, "offsets": offsets})
        return wider

    def reordered(self, order: Any) -> AdaptiveLearner:
        """A copy whose output k is output order[k] of this one."""
        scalars, arrays = self.get_state()
        columns = np.add.outer(np.arange(self._n_groups) * self.n_out, order).ravel()
        cells = arrays["cells"]
        cells[:, -self.offsets.size :] = self._planes()[:, :, columns].reshape(len(cells), -1)
        arrays["offsets"] = np.ascontiguousarray(self.offsets[:, columns])
        if self._judged:
            arrays["class_weights"] = self.class_weights[:, order]
        copied = self.like(self.n_out)
        copied.set_state(scalars, arrays)
        return copied

    def candidate_state(self, g: int) -> State:
        """(scalars, arrays) of one group, for `set_state` of a learner with its setting alone."""
        scalars, arrays = self.get_state()
        columns = slice(g * self.n_out, (g + 1) * self.n_out)
        planes = list(range(2 + 2 * self._averages))
        if self.steps[g].kind == CoinBetting.kind:
            planes += range(len(self.offsets) - 3, len(self.offsets))
        cells = self._planes()[:, planes, columns].reshape(self.n_features, -1)
        if self.any_normalized(1 << g):
            cells = np.concatenate([self.cells[:, :1], cells], axis=1)
        return scalars, {
            "cells": np.ascontiguousarray(cells),
            "offsets": np.ascontiguousarray(self.offsets[planes, columns]),
            **{name: arrays[name][g : g + 1] for name in ("losses", "errors", "groups")},
        }
