"""How the outputs of a kernel machine share what they learn: the matrix between its labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from osvm import losses
from osvm._input.labels import LabelIndex
from osvm._input.parameters import check_choice
from osvm._input.types import Array
from osvm.taxonomy import Taxonomy


def find_taxonomy(model: Any, part: Any) -> Taxonomy:
    taxonomy = getattr(part, "taxonomy", None) or getattr(model, "taxonomy", None)
    if not isinstance(taxonomy, Taxonomy):
        raise ValueError(
            "this needs taxonomy=..., an object from osvm.taxonomy, e.g. "
            f"osvm.taxonomy.from_paths(labels); got {taxonomy!r}"
        )
    return taxonomy


def label_kernel_of(model: Any, index: LabelIndex, outputs: int) -> Array | None:
    """The matrix between the outputs, or None for delta."""
    given = getattr(model, "label_kernel", None)
    if given is None or (isinstance(given, str) and given == "delta"):
        return None
    if outputs != len(index):
        raise ValueError(
            "label_kernel needs an output for each class: use a multi-output loss, e.g. "
            "loss='multiclass_hinge'"
        )
    if isinstance(given, str):
        check_choice("label_kernel", given, ["delta", "taxonomy"])
        part = losses.get(model.loss)
        return find_taxonomy(model, part).kernel(index.classes.tolist())
    try:
        matrix = np.array(given, dtype=np.float64, ndmin=2)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"label_kernel must be a matrix of numbers, got {given!r:.60}") from None
    if matrix.shape != (outputs, outputs):
        raise ValueError(f"label_kernel has shape {matrix.shape}, but there are {outputs} classes")
    if not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T):
        raise ValueError("label_kernel must be finite and symmetric")
    if np.linalg.eigvalsh(matrix)[0] < -1e-8 * max(1.0, np.abs(matrix).max()):
        raise ValueError("label_kernel must be positive semi-definite")
    return matrix
