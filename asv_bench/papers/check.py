"""Are the committed figures those of this tree?

    python -m asv_bench.papers.check              ten minutes at most
    python -m asv_bench.papers.check --small      seconds, generated data only

A results file names the figures that do not depend on the machine, and a spread for each
(`Report.add_figure`).  The commands that wrote them are run again, the quickest first, as many as
took less than `--minutes` in all, and their figures are compared with the committed ones.  Times
are never compared.  ``--small`` computes one pair of C and width of Figures 5-8 of source (5)
again, in this process.  Ends with status 1 where a figure is off by more than its spread.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asv_bench.report import RESULTS

Figures = dict[str, Sequence[float]]  # value and spread by name


def committed(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Results files that name figures, the quickest command first."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return sorted((file for file in found if file.get("figures")), key=lambda f: f["seconds"])


def within(files: list[dict[str, Any]], minutes: float) -> list[dict[str, Any]]:
    """As many of them as took less than so many minutes together."""
    chosen, seconds = [], 0.0
    for file in files:
        seconds += file["seconds"]
        if seconds <= 60 * minutes:
            chosen.append(file)
    return chosen


def differences(old: Figures, new: Figures) -> list[str]:
    """A line for each figure that is missing or off by more than the spread beside it."""
    lines = [f"{name}: not there any more" for name in old if name not in new]
    for name in (name for name in old if name in new):
        value, spread = old[name][:2]
        if not abs(new[name][0] - value) <= spread:  # a NaN is off
            lines.append(f"{name}: {new[name][0]:g}, committed {value:g} ± {spread:g}")
    return lines


def rerun(file: dict[str, Any]) -> Figures:
    """The figures of the same command, run again in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="osvm-check-") as folder:
        words = shlex.split(file["command"])[1:]
        done = subprocess.run(
            [sys.executable, *words, "--out", folder], cwd=RESULTS.parents[2], text=True,
            capture_output=True,
        )  # fmt: skip
        path = Path(folder) / f"{file['name']}.json"
        if done.returncode or not path.exists():
            raise SystemExit(f"{file['command']} failed:\n{done.stderr[-2000:]}")
        return json.loads(path.read_text())["figures"]


def small() -> tuple[Figures, Figures]:
    """Committed and new errors of one pair of C and width of Figures 5-8."""
    from asv_bench.papers import kecman

    old = json.loads((RESULTS / "kecman-figures58.json").read_text())["data"]["rows"]
    row = next(r for r in old if r["C"] == 1.0 and r["sigma"] == 0.5)
    new = kecman.cached_errors("chessboard 4992", row["C"], row["sigma"])
    names = {f"{rule}_cached_error": error for rule, error in new.items()}
    return (
        {name: (row[name], 0.05) for name in names},  # 5 of 10,000 test rows
        {name: (error, 0.05) for name, error in names.items()},
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m asv_bench.papers.check", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--small", action="store_true", help="generated data, seconds")
    parser.add_argument("--only", nargs="*", help="names of results files")
    options = parser.parse_args(arguments)
    wrong: list[str] = []
    if options.small:
        old, new = small()
        wrong = differences(old, new)
        print(f"kecman-figures58: {len(old)} figures, {len(wrong)} off", flush=True)
    else:
        files = committed()
        chosen = within(files, options.minutes)
        if options.only:
            chosen = [file for file in files if file["name"] in options.only]
        for file in chosen:
            lines = differences(file["figures"], rerun(file))
            print(f"{file['name']}: {len(file['figures'])} figures, {len(lines)} off", flush=True)
            wrong += [f"{file['name']}: {line}" for line in lines]
        for file in files:
            if file not in chosen:
                print(f"{file['name']}: not run, it took {file['seconds']:,.0f} s")
    print("\n".join(wrong) if wrong else "every figure is as committed")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
