"""Plots: running error, step size, decision regions, learning curves, margins, top features.

matplotlib is imported by the functions, not by this module.  Every function draws into
the axes given (or the current ones), returns them, and takes either a fitted model with
`history_` or the arrays themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "decision_regions",
    "learning_curve",
    "margins",
    "running_error",
    "step_size",
    "top_features",
]

# Colors that people with any color vision can tell apart (Okabe and Ito).
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES = ("-", "--", "-.", ":")


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.gca()


def _series(models: Any, key: str) -> list[tuple[str | None, Any]]:
    """Pairs of label and array out of a model, an array, or a dict of either."""
    pairs = models.items() if isinstance(models, dict) else [(None, models)]
    out = []
    for label, item in pairs:
        history = getattr(item, "history_", None)
        values = np.asarray(item if history is None else history[key], dtype=float)
        if values.ndim != 1 or len(values) == 0:
            raise ValueError(f"expected a model with record=True or a vector of {key} values")
        out.append((label, values))
    return out


def _draw(models: Any, key: str, ax: Any, options: dict[str, Any]) -> Any:
    ax = _axes(ax)
    for i, (label, values) in enumerate(_series(models, key)):
        style = {
            "color": COLORS[i % len(COLORS)],
            "linestyle": _STYLES[i % len(_STYLES)],
            "linewidth": 1.4,
            **options,
        }
        ax.plot(np.arange(1, len(values) + 1), values, label=label, **style)
    ax.set_xlabel("examples seen")
    ax.grid(True, which="major", linewidth=0.4, alpha=0.5)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if isinstance(models, dict):
        ax.legend(frameon=False)
    return ax


def running_error(models: Any, ax: Any = None, *, log: bool = True, **options: Any) -> Any:
    """Running error of test-then-train against the number of examples.

    Parameters
    ----------
    models : model, array, or dict of label to either
        Models fitted with ``record=True``.
    ax : matplotlib Axes, optional
    log : bool, default True
        Logarithmic number of examples, as the papers plot it.
    **options
        For ``Axes.plot``.

    Returns
    -------
    ax : matplotlib Axes
    """
    ax = _draw(models, "error", ax, options)
    if log:
        ax.set_xscale("log")
    ax.set_ylim(bottom=0.0)
    ax.set_ylabel("running error")
    return ax


def step_size(models: Any, ax: Any = None, *, log: bool = True, **options: Any) -> Any:
    """Step size used at each example.

    Parameters
    ----------
    models : model, array, or dict of label to either
    ax : matplotlib Axes, optional
    log : bool, default True
        Logarithmic step sizes, and examples.
    **options
        For ``Axes.plot``.

    Returns
    -------
    ax : matplotlib Axes
    """
    ax = _draw(models, "eta", ax, options)
    if log:
        ax.set_xscale("log")
        ax.set_yscale("log")
    ax.set_ylabel("step size")
    return ax


def learning_curve(
    losses: Any, ax: Any = None, *, window: int | None = None, **options: Any
) -> Any:
    """Loss before each update, averaged over a sliding window of examples.

    Parameters
    ----------
    losses : model, array, or dict of label to either
    ax : matplotlib Axes, optional
    window : int, optional
        A twentieth of the examples by default.
    **options
        For ``Axes.plot``.

    Returns
    -------
    ax : matplotlib Axes
    """
    smooth: dict[str | None, Any] = {}
    for label, values in _series(losses, "loss"):
        width = window or max(1, len(values) // 20)
        total = np.cumsum(np.concatenate([[0.0], values]))
        first = np.maximum(np.arange(1, len(values) + 1) - width, 0)
        last = np.arange(1, len(values) + 1)
        smooth[label] = (total[last] - total[first]) / (last - first)
    drawn = smooth if isinstance(losses, dict) else next(iter(smooth.values()))
    ax = _draw(drawn, "loss", ax, options)
    ax.set_ylabel("loss")
    return ax


def margins(model: Any, X: Any, y: Any, ax: Any = None, *, bins: int = 60) -> Any:
    """Histogram of the margins: score of the true class minus the best other one.

    Parameters
    ----------
    model : fitted classifier
    X, y : examples
    ax : matplotlib Axes, optional
    bins : int

    Returns
    -------
    ax : matplotlib Axes
    """
    ax = _axes(ax)
    scores = np.asarray(model.decision_function(X))
    codes = np.searchsorted(model.classes_, y, sorter=np.argsort(model.classes_))
    codes = np.argsort(model.classes_)[codes]
    if scores.ndim == 1:
        values = np.where(codes == 1, scores, -scores)
    else:
        rows = np.arange(len(scores))
        true = scores[rows, codes]
        others = scores.copy()
        others[rows, codes] = -np.inf
        values = true - others.max(axis=1)
    edges = np.linspace(values.min(), values.max(), bins + 1)
    ax.hist(values[values > 0], edges, color=COLORS[0], label="right")
    ax.hist(values[values <= 0], edges, color=COLORS[1], label="wrong")
    ax.axvline(0.0, color="0.3", linewidth=0.8)
    ax.set_xlabel("margin")
    ax.set_ylabel("examples")
    ax.legend(frameon=False)
    return ax


def top_features(
    model: Any, ax: Any = None, *, n: int = 10, output: Any = None, tokenizer: Any = None
) -> Any:
    """Bars of the largest weights of a linear model, by the names of their features.

    Parameters
    ----------
    model : fitted linear estimator
    ax : matplotlib Axes, optional
    n : int, default=10
        Weights to show.
    output : label, optional
        The class whose weights are shown, of three or more; the first one by default.
    tokenizer : HashingTokenizer, optional
        With ``keep_terms=True``, names hashed columns; by default that of a model which was
        trained by the command, or on named features.

    Returns
    -------
    ax : matplotlib Axes
    """
    ax = _axes(ax)
    coef = model.coef_
    coef = np.atleast_2d(coef.toarray() if hasattr(coef, "toarray") else coef)
    classes = getattr(model, "classes_", None)
    k = 0
    if classes is not None and len(coef) == len(classes):
        found = np.flatnonzero(np.asarray(classes) == output) if output is not None else [0]
        if not len(found):
            raise ValueError(f"the model has no class {output!r}")
        k = int(found[0])
        output = classes[k]
    elif classes is not None:
        output = classes[1]
    row = coef[k]
    best = np.argsort(-np.abs(row), kind="stable")[:n]
    best = best[row[best] != 0][::-1]
    names, signs = feature_names_of(model, best.tolist(), tokenizer)
    weights = row[best] * signs
    ax.barh(names, weights, color=[COLORS[0] if value > 0 else COLORS[1] for value in weights])
    ax.axvline(0.0, color="0.3", linewidth=0.8)
    ax.set_xlabel("weight" if output is None else f"weight for {output}")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def feature_names_of(
    model: Any, columns: list[int], tokenizer: Any = None
) -> tuple[list[str], list[int]]:
    """Names of columns (those of a data frame, kept terms, else the number), and their signs.

    A term that is hashed with a minus has the opposite of its column's weight.
    """
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return [str(names[j]) for j in columns], [1] * len(columns)
    tokenizer = getattr(model, "tokenizer_", None) if tokenizer is None else tokenizer
    terms = [(None, 1)] * len(columns) if tokenizer is None else tokenizer.signed_terms(columns)
    shown = [f"column {j}" if term is None else term for j, (term, _) in zip(columns, terms)]
    return shown, [sign for _, sign in terms]


def decision_regions(
    model: Any,
    X: Any,
    y: Any = None,
    ax: Any = None,
    *,
    support: bool = True,
    resolution: int = 200,
    pad: float = 0.08,
) -> Any:
    """Regions of a classifier (or novelty detector) over two features.

    Parameters
    ----------
    model : fitted model on two features
    X : array, shape (n, 2)
        Sets the range, and is drawn.
    y : array, optional
        Labels of X.
    ax : matplotlib Axes, optional
    support : bool, default True
        Ring the support vectors of a kernel model.
    resolution : int, default 200
        Points along each side.
    pad : float
        Margin around the data, as a fraction of its range.

    Returns
    -------
    ax : matplotlib Axes
    """
    from matplotlib.colors import ListedColormap

    X = np.asarray(X, dtype=float)
    if X.ndim != 2 or X.shape[1] != 2:
        raise ValueError(f"decision_regions draws two features, got an array of shape {X.shape}")
    ax = _axes(ax)
    low, high = X.min(axis=0), X.max(axis=0)
    room = pad * np.where(high > low, high - low, 1.0)
    xs, ys = (np.linspace(a - r, b + r, resolution) for a, b, r in zip(low, high, room))
    grid = np.column_stack([m.ravel() for m in np.meshgrid(xs, ys)])
    predicted = model.predict(grid)
    classes = getattr(model, "classes_", np.array([-1, 1]))
    order = np.argsort(classes)
    codes = order[np.searchsorted(classes, predicted, sorter=order)].reshape(resolution, -1)
    colors = [COLORS[i % len(COLORS)] for i in range(len(classes))]
    ax.imshow(
        codes,
        origin="lower",
        extent=(xs[0], xs[-1], ys[0], ys[-1]),
        aspect="auto",
        cmap=ListedColormap(colors),
        vmin=-0.5,
        vmax=len(classes) - 0.5,
        alpha=0.22,
        interpolation="nearest",
    )
    scores = np.asarray(model.decision_function(grid))
    if scores.ndim == 1:
        ax.contour(xs, ys, scores.reshape(resolution, -1), [0.0], colors="0.2", linewidths=1.0)
    if y is None:
        ax.scatter(*X.T, s=10, color="0.25", linewidths=0)
    else:
        for code, label in enumerate(classes):
            mine = np.asarray(y) == label
            ax.scatter(*X[mine].T, s=12, color=colors[code], linewidths=0, label=str(label))
        ax.legend(frameon=True, framealpha=0.85, fontsize="small")
    if support and hasattr(model, "support_vectors_"):
        vectors = model.support_vectors_
        vectors = vectors.toarray() if hasattr(vectors, "toarray") else np.asarray(vectors)
        if vectors.ndim == 2 and vectors.shape[1] == 2:
            ax.scatter(*vectors.T, s=32, facecolors="none", edgecolors="0.15", linewidths=0.5)
    ax.set_xlim(xs[0], xs[-1])
    ax.set_ylim(ys[0], ys[-1])
    return ax
