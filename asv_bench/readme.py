"""The README's table of speed, written from the files of the comparison.

python -m asv_bench.readme          rewrite the part of README.md between its marks
python -m asv_bench.readme --check  only say whether it is up to date
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from asv_bench.report import RESULTS

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- benchmarks: python -m asv_bench.readme -->", "<!-- /benchmarks -->"


def read(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def seconds_to(run: dict[str, Any], key: str, target: float) -> float | None:
    """Median time of the cheapest effort that met the target."""
    met = [
        float(np.median(effort["seconds"]))
        for effort in run["efforts"]
        if np.median([scores[key] for scores in effort["scores"]]) <= target
    ]
    return min(met) if met else None


def show(seconds: float | None, best: float | None) -> str:
    if seconds is None:
        return "not met"
    text = f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.0f} ms"
    if best is None:
        return text
    ratio = seconds / best
    return f"{text} ({ratio:.1f} ×)" if ratio >= 1 else f"{text} (**{ratio:.2f} ×**, ahead)"


def linear_table(found: dict[str, Any], key: str, gap: float) -> dict[str, tuple[Any, Any]]:
    """Solver -> time to the gap, and the best time of osvm (None for osvm's own)."""
    data = found["data"].get(key)
    if data is None:
        return {}
    times = {run["name"]: seconds_to(run, "gap", gap) for run in data["runs"]}
    mine = [t for name, t in times.items() if name.startswith("osvm") and t is not None]
    best = min(mine, default=None)
    return {n: (t, None if n.startswith("osvm") else best) for n, t in times.items()}


def make_block() -> str:
    """The text between the marks."""
    found = read("compare-linear")
    if found is None:
        return "Not measured yet: `python -m asv_bench.compare`."
    names = [key for key in found["data"] if key.startswith("linear generated")]
    columns = [(key, gap) for key in names for gap in (1e-2, 1e-3)]
    tables = [linear_table(found, key, gap) for key, gap in columns]
    head = [f"reg {key.split()[-1]}, to {100 * gap:g} % of the optimum" for key, gap in columns]
    rows = found["data"][names[0]]["rows"]
    lines = [
        f"A linear SVM on generated text of RCV1's shape, {rows:,} rows, CPU time of one thread "
        "(in brackets: how many times as long as osvm's quickest):",
        "",
        "| | " + " | ".join(head) + " |",
        "|---" * (len(head) + 1) + "|",
    ]
    for name in tables[0]:
        cells = [show(*table.get(name, (None, None))) for table in tables]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    machine = found["machine"]
    versions = ", ".join(
        f"{k} {v}" for k, v in machine["versions"].items() if v != "not installed"
    )
    lines += [
        "",
        f"`{found['command']}`, {machine['date']}, {machine['processor']}, load "
        f"{machine['load'][0]}; Python {machine['python']}, {versions}. "
        "More, with the kernel learners and where osvm is behind: `doc/benchmarks.rst`.",
    ]
    return "\n".join(lines)


def main() -> None:
    text = README.read_text()
    if BEGIN not in text:
        sys.exit(f"README.md has no line {BEGIN}")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    new = f"{before}{BEGIN}\n{make_block()}\n{END}{after}"
    if "--check" in sys.argv:
        sys.exit(0 if new == text else "README.md is older than the results: run this command")
    README.write_text(new)


if __name__ == "__main__":
    main()
