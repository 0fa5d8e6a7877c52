"""What progressive validation can measure.

A metric is a name, or a function ``metric(y_true, y_pred)``, or a pair
``(name, function)``.  The names here are averages over examples, so that they
can be kept running for ever; any other name is a function of
`sklearn.metrics`, which is computed for each window and averaged over windows,
weighted by their size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# Functions of sklearn.metrics that want scores in place of predictions.
WANT_SCORES = frozenset(
    {"roc_auc_score", "average_precision_score", "hinge_loss", "dcg_score", "ndcg_score"}
)


class Metric:
    """A named figure; `mean` metrics average `of` over examples, others see a whole window."""

    def __init__(
        self, name: str, of: Callable[..., Any], *, mean: bool = False, scores: bool = False
    ) -> None:
        self.name, self.of, self.mean, self.scores = name, of, mean, scores

    def __repr__(self) -> str:
        return f"Metric({self.name!r})"


# Of labels, predictions and the model's own losses: a figure for each example.
MEANS: dict[str, Callable[[Any, Any, Any], np.ndarray]] = {
    "error": lambda y, prediction, loss: np.asarray(y != prediction, dtype=np.float64),
    "accuracy": lambda y, prediction, loss: np.asarray(y == prediction, dtype=np.float64),
    "squared_error": lambda y, prediction, loss: (np.asarray(y, np.float64) - prediction) ** 2,
    "absolute_error": lambda y, prediction, loss: np.abs(np.asarray(y, np.float64) - prediction),
    "loss": lambda y, prediction, loss: loss,
}


def get_metric(metric: Any) -> Metric:
    """A metric from its name, a function, or a pair of both.

    Examples
    --------
    >>> get_metric("error")
    Metric('error')
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, tuple) and len(metric) == 2 and callable(metric[1]):
        return Metric(str(metric[0]), metric[1])
    if callable(metric):
        name = getattr(metric, "__name__", "metric")
        return Metric(name, metric, scores=name in WANT_SCORES)
    if metric in MEANS:
        return Metric(metric, MEANS[metric], mean=True)
    if isinstance(metric, str):
        try:
            import sklearn.metrics
        except ImportError:
            raise ValueError(
                f"unknown metric {metric!r}; without scikit-learn there are {', '.join(MEANS)}"
            ) from None
        function = getattr(sklearn.metrics, metric, None)
        if callable(function):
            return Metric(metric, function, scores=metric in WANT_SCORES)
    raise ValueError(
        f"unknown metric {metric!r}: give one of {', '.join(MEANS)}, the name of a function of "
        "sklearn.metrics, or a function of (y_true, y_pred)"
    )


def losses_of(model: Any, y: Any, scores: np.ndarray | None) -> np.ndarray:
    """The model's own loss of each example, at scores before it is learnt.

    Without scores (nothing has been learnt) every score counts as 0.  A class that the model
    has not met counts as one whose score is 0, against the scores of the others.
    """
    from osvm import losses

    loss = getattr(model, "loss_", None)  # what "auto" has come to be
    if loss is None:
        loss = losses.get("hinge" if model.loss == "auto" else model.loss)
    n = len(scores) if scores is not None else len(y)
    if loss.task in ("regression", "novelty") or not hasattr(model, "classes_"):
        if scores is None:
            scores = np.zeros(n)
        if loss.task == "regression":
            return np.asarray(loss.value(np.asarray(y, dtype=np.float64), scores))
        return np.asarray(loss.value(np.ones(n), scores)) if not loss.multi else np.ones(n)
    place = {label: code for code, label in enumerate(model.classes_.tolist())}
    codes = np.fromiter((place.get(label, -1) for label in np.asarray(y).tolist()), np.int64, n)
    assert scores is not None
    if scores.ndim == 1:
        signs = np.where(codes == 1, 1.0, -1.0)
        return np.asarray(loss.value(signs, np.where(codes < 0, 0.0, scores)))
    if (codes < 0).any():
        scores = np.column_stack([scores, np.zeros(n)])
        codes = np.where(codes < 0, scores.shape[1] - 1, codes)
    if loss.multi:
        if loss.name == "graph_hinge":
            raise ValueError("the loss of graph_hinge cannot be measured here; leave 'loss' out")
        return np.asarray(loss.value(codes, scores))
    signs = np.full(scores.shape, -1.0)
    signs[np.arange(n), codes] = 1.0
    return np.asarray(loss.value(signs, scores)).sum(axis=1)
