"""What a loss of one score and a loss of K scores share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from osvm._parts.compiled import LossSpec
from osvm._parts.registry import Part


@dataclass(frozen=True)
class ScoredLoss(Part):
    """Base of `osvm.losses.Loss` and `osvm.losses.MultiLoss`."""

    kind: ClassVar[int]
    multi: ClassVar[bool] = False
    #: True when the loss belongs to a probability model, see `probability`.
    probabilistic: ClassVar[bool] = False
    #: True when `spec` takes the distances between the labels.
    needs_distances: ClassVar[bool] = False

    def spec(self) -> LossSpec:
        """The compiled form, for loops that cimport `osvm._parts.compiled`."""
        return LossSpec(self.kind)

    def __call__(self, y: ArrayLike, f: ArrayLike) -> Any:
        return self.value(y, f)  # type: ignore[attr-defined]
