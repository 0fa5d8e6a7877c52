"""Names for hashed columns: which terms carry the largest weights.

Hashing cannot be undone, so the tokenizer of a training run keeps the first term of each
column; of these, the terms of the largest weights are saved with the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

TOP = 400  # columns per output


def largest_columns(model: Any, columns: np.ndarray, top: int = TOP) -> list[int]:
    """Those of the columns that have the largest weights of an output, of either sign.

    The weights are taken from the scores of rows with a single one in them, which is quicker
    than a copy of all weights.
    """
    n = len(columns)
    if not n or not hasattr(model, "coef_"):
        return []
    score = getattr(model, "decision_function", model.predict)
    parts = (np.ones(n, np.float32), columns, np.arange(n + 1, dtype=np.int32))
    weights = score(csr_array(parts, shape=(n, model.n_features_in_))).reshape(n, -1)
    weights -= score(csr_array((1, model.n_features_in_), dtype=np.float32)).reshape(1, -1)
    chosen: set[int] = set()
    k = min(top, n)
    for column in np.abs(weights).T:
        best = np.argpartition(-column, k - 1)[:k]
        chosen.update(columns[best[column[best] > 0]].tolist())
    return sorted(chosen)


def keep_largest_terms(model: Any, tokenizer: Any) -> None:
    """Forget the terms of all columns but those with the largest weights."""
    tokenizer.keep_only(largest_columns(model, tokenizer.hasher.get_terms()[0]))
