"""What docstrings of all estimators say alike: what X, y and weights are, and what comes back.

`complete` adds it to the methods of a class, so that a docstring has only what is its own: the
entries of "Parameters" that differ, and "Returns" where it is not the usual one.  `_docs` of a
class has what differs in all of its methods, by parameter or method.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from osvm._estimator.compat import OutlierMixin, RegressorMixin

PARAMETERS = {
    "X": "CSR matrix, array or data frame, shape (n, d)",
    "classes": "array, optional",
    "sample_weight": "array of n weights, optional",
}
TARGETS = {
    "classifier": "array of n labels",
    "regressor": "array of n numbers",
    "outlier_detector": "ignored",
}
RETURNS = {
    "fit": "self",
    "partial_fit": "self",
    "sparsify": "self",
    "densify": "self",
    "score_samples": "array of n numbers",
    "decision_function": "array, shape (n,) or (n, K)",
    "predict": "array of n labels",
    "predict_proba": "array, shape (n, K)",
    "predict_log_proba": "array, shape (n, K)",
}
OF_KIND = {
    ("regressor", "predict"): "array of n numbers",
    ("outlier_detector", "predict"): "array of n integers",
    ("outlier_detector", "decision_function"): "array of n numbers",
}


def complete(cls: type) -> None:
    """Add the sections that the docstrings of the class's own methods leave out."""
    kind = "regressor" if issubclass(cls, RegressorMixin) else "classifier"
    kind = "outlier_detector" if issubclass(cls, OutlierMixin) else kind
    own = cls.__dict__.get("_docs", {})
    for name in RETURNS.keys() & cls.__dict__.keys():
        method = getattr(cls, name)
        if inspect.isfunction(method) and method.__doc__:
            method.__doc__ = _completed(method, name, kind, own)


def _completed(method: Any, name: str, kind: str, own: dict[str, str]) -> str:
    code = inspect.unwrap(method).__code__
    text, *rest = re.split(r"\n\n(?=\w+\n---)", inspect.cleandoc(method.__doc__))
    sections = {part.split("\n", 1)[0]: part for part in rest}
    given = sections.pop("Parameters", "").split("\n", 2)[2:]
    entries = re.split(r"\n(?=\S)", given[0]) if given else []
    known = {entry.split(" : ")[0]: entry for entry in entries}
    usual = {**PARAMETERS, "y": TARGETS[kind], **own}
    names = [n for n in code.co_varnames[1 : code.co_argcount] if n in usual or n in known]
    if names:
        entries = [known.get(n, f"{n} : {usual.get(n)}") for n in names]
        text += "\n\nParameters\n----------\n" + "\n".join(entries)
    what = own.get(name) or OF_KIND.get((kind, name), RETURNS[name])
    returns = f"Returns\n-------\n{what}"
    return "\n\n".join([text, sections.pop("Returns", returns), *sections.values()])
