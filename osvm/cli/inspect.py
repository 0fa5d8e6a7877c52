"""``osvm inspect``: what is in a model file."""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from osvm import io


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(parser=parser)
    parser.usage = "osvm inspect MODEL [options]"
    parser.add_argument("model", metavar="FILE")
    parser.add_argument("--top", type=int, default=10, metavar="N", help="largest weights to show")
    parser.add_argument("--json", action="store_true", help="for machines")


def run(arguments: argparse.Namespace) -> int:
    if arguments.top < 0:
        arguments.parser.error("--top must not be negative")
    model, header, _ = io.load_all(arguments.model)
    found = describe(model, header, arguments.top)
    if arguments.json:
        print(json.dumps(found))
    else:
        print("\n".join(_lines(found)))
    return 0


def describe(model: Any, header: dict[str, Any], top: int) -> dict[str, Any]:
    """Everything that is shown, JSON-able."""
    settings = dict(model.__dict__.get("_input", {}))
    defaults = type(model)().get_params(deep=False)
    found: dict[str, Any] = {
        "class": header["class"],
        "format": header["version"],
        "osvm": header["osvm"],
        "params": dict(header["params"]),
        "changed": sorted(
            k for k, v in model.get_params(deep=False).items() if repr(v) != repr(defaults[k])
        ),
        "examples": model.t_,
        "features": int(model.n_features_in_),
        "arrays": {
            k: {"dtype": v["dtype"], "shape": v["shape"]} for k, v in header["arrays"].items()
        },
        "input": settings or None,
        "stream": None
        if header["stream"] is None
        else {k: header["stream"][k] for k in ("n_seen", "epoch", "finished")},
    }
    if hasattr(model, "classes_"):
        found["classes"] = np.asarray(model.classes_).tolist()
    if hasattr(model, "n_support_"):
        found["support_vectors"] = int(np.sum(model.n_support_))
    coef = getattr(model, "coef_", None)
    if coef is not None and top:
        coef = np.atleast_2d(coef.toarray() if hasattr(coef, "toarray") else coef)
        found["nonzero_weights"] = int(np.count_nonzero(coef))
        names = getattr(model, "feature_names_in_", None)
        if names is None:
            names = settings.get("features")
        first = 0 if settings.get("zero_based", True) else 1
        hashed = settings.get("format") == "vw" or bool(settings.get("tokenizer"))
        found["largest"] = _largest(model, coef, names, first, top, hashed)
    return found


def _largest(
    model: Any,
    coef: np.ndarray,
    names: Any,
    first: int,
    top: int,
    hashed: bool,
) -> list[dict[str, Any]]:
    """The largest weights of each output."""
    classes = getattr(model, "classes_", None)
    tokenizer = getattr(model, "tokenizer_", None)
    out = []
    for k, row in enumerate(coef):
        best = np.argsort(-np.abs(row), kind="stable")[:top]
        if classes is None:
            output = None
        else:
            output = np.asarray(classes)[1 if len(coef) < len(classes) else k].item()
        weights = []
        for j in best[row[best] != 0].tolist():
            # a word that is hashed with a minus has the opposite of its column's weight
            term, sign = (None, 1) if tokenizer is None else tokenizer.signed_terms([j])[0]
            if names is not None:
                name, sign = str(names[j]), 1
            elif term is not None:
                name = term
            elif hashed:
                name = f"(column {j})"  # its terms were not kept, or there is no text
            else:
                name = str(j + first)
            weights.append({"name": name, "column": j, "weight": sign * float(row[j])})
        out.append({"output": output, "weights": weights})
    return out


def _lines(found: dict[str, Any]) -> list[str]:
    changed = found["changed"]
    lines = [
        f"{found['class']} (format {found['format']}, written by osvm {found['osvm']})",
        "parameters  "
        + (", ".join(f"{k}={_short(found['params'].get(k))}" for k in changed) or "defaults"),
        f"examples    {found['examples']}",
        f"features    {found['features']}",
    ]
    if "classes" in found:
        shown = [str(c) for c in found["classes"][:20]]
        more = f", ... ({len(found['classes'])})" if len(found["classes"]) > 20 else ""
        lines.append(f"classes     {', '.join(shown)}{more}")
    if "support_vectors" in found:
        lines.append(f"support     {found['support_vectors']} vectors")
    if found["input"]:
        pairs = (f"{k}={_short(v)}" for k, v in found["input"].items() if v is not None)
        lines.append("input       " + ", ".join(pairs))
    if found["stream"]:
        state = "finished" if found["stream"]["finished"] else "can be resumed"
        lines.append(f"checkpoint  after {found['stream']['n_seen']} examples, {state}")
    for name, entry in found["arrays"].items():
        lines.append(f"array       {name} {entry['dtype']} {tuple(entry['shape'])}")
    if "nonzero_weights" in found:
        lines.append(f"weights     {found['nonzero_weights']} not zero")
    for output in found.get("largest", ()):
        title = "" if output["output"] is None else f" for {output['output']}"
        lines.append(f"largest weights{title}")
        lines += [f"  {w['weight']:>12.6g}  {w['name']}" for w in output["weights"]]
    return lines


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
