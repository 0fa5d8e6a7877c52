"""What the commands print, and the files that the documentation is built from.

A `Report` holds tables and plots.  `finish` prints the tables and writes
``<name>.json`` (tables, raw figures, command, date, processor, load and versions) and
``<name>.png`` into `RESULTS`.  Figures that another machine must give too are named by
`add_figure`; ``python -m asv_bench.papers.check`` compares them.  ``doc/benchmarks.rst`` shows
those files and nothing else, so a number there was written by the command that stands beside
it.  With ``--quick`` the files are called ``<name>-quick``: they are not kept in git.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "papers" / "results"
PACKAGES = (
    "numpy", "scipy", "scikit-learn", "liblinear-official", "vowpalwabbit",
    "sklearn-contrib-lightning", "river", "snapml", "scikit-learn-intelex",
)  # fmt: skip
MAX_PLOT_BYTES = 100_000


def make_parser(module: str, about: str) -> argparse.ArgumentParser:
    """Command line options that every command has."""
    parser = argparse.ArgumentParser(prog=f"python -m asv_bench.{module}", description=about)
    parser.add_argument("--quick", action="store_true", help="small sizes, a few minutes at most")
    parser.add_argument("--repeats", type=int, help="runs of each job, taken in turns")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for JSON and PNG")
    return parser


def bench_scale() -> float:
    """Factor on the sizes of all benchmarks, from OSVM_BENCH_SCALE; the smoke run sets 0.01."""
    return float(os.environ.get("OSVM_BENCH_SCALE", "1"))


def scaled(size: int, least: int = 100) -> int:
    """A size after OSVM_BENCH_SCALE, and at least `least`."""
    return size if bench_scale() >= 1 else max(min(least, size), int(size * bench_scale()))


def default_repeats(quick: bool) -> int:
    """Runs of each job: one in a smoke run."""
    return 1 if bench_scale() < 1 else 3 if quick else 5


# ---------------------------------------------------------------------- machine


def machine() -> dict[str, Any]:
    """Date, processor, load and versions, to stand beside every figure."""
    import osvm

    versions = {"osvm": osvm.__version__}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": [round(x, 1) for x in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "versions": versions,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    model = next((x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")), "?")
    flags = next((x for x in lines if x.startswith("flags")), "")
    wide = [name for name in ("avx2", "avx512f") if f" {name} " in f"{flags} "]
    return f"{model} ({', '.join(wide) or 'no AVX2'})"


# ---------------------------------------------------------------------- figures


def median_spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Median and the two quartiles."""
    low, middle, high = np.percentile(values, [25, 50, 75])
    return float(middle), float(low), float(high)


def show_seconds(values: Sequence[float]) -> str:
    """Median with the quartiles, in seconds or milliseconds."""
    middle, low, high = median_spread(values)
    factor, unit = (1.0, "s") if middle >= 1 else (1e3, "ms")
    digits = max(0, 2 - int(np.floor(np.log10(max(middle * factor, 1e-9)))))
    text = f"{middle * factor:.{digits}f} {unit}"
    if len(values) > 1:
        text += f" [{low * factor:.{digits}f}–{high * factor:.{digits}f}]"
    return text


def fit_exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The exponent p of cost ~ size**p, by least squares on the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


# ---------------------------------------------------------------------- report


class Report:
    """Tables, plots and raw figures of one command.

    Parameters
    ----------
    name : str
        Of the files.
    title, about : str
        For the reader of the documentation.
    options : Namespace, optional
        From `make_parser`: `quick` and `out`.
    """

    def __init__(self, name: str, title: str, about: str, options: Any = None) -> None:
        self.quick = bool(getattr(options, "quick", False)) or bench_scale() < 1
        self.name = f"{name}-quick" if self.quick else name
        self.folder = Path(getattr(options, "out", None) or RESULTS)
        self.title, self.about = title, about
        self.began, self.cpu_began = time.perf_counter(), time.process_time()
        self.machine = machine()
        self.tables: list[dict[str, Any]] = []
        self.plots: list[str] = []
        self.data: dict[str, Any] = {}
        self.figures: dict[str, tuple[float, float]] = {}

    def add_figure(self, name: str, value: float, spread: float) -> None:
        """A figure that does not depend on the machine, and how far a rerun may be from it."""
        self.figures[name] = (round(float(value), 6), round(float(spread), 6))

    def add_table(
        self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], note: str = ""
    ) -> None:
        """A table; cells are strings or numbers."""
        cells = [[_cell(x) for x in row] for row in rows]
        self.tables.append({"title": title, "columns": list(columns), "rows": cells, "note": note})
        print(f"\n{title}\n{format_table(columns, cells)}")
        if note:
            print(note)

    def add_plot(self, figure: Any, suffix: str = "") -> None:
        """A matplotlib figure, saved as PNG of less than 100 kB."""
        self.folder.mkdir(parents=True, exist_ok=True)
        suffix = re.sub(r"[^A-Za-z0-9.-]+", "-", suffix)  # a name that every system takes
        name = f"{self.name}{'-' + suffix if suffix else ''}.png"
        for dpi in (110, 90, 70, 50):
            figure.savefig(self.folder / name, dpi=dpi, bbox_inches="tight")
            if (self.folder / name).stat().st_size < MAX_PLOT_BYTES:
                break
        self.plots.append(name)

    def finish(self) -> dict[str, Any]:
        """Write the JSON file and say where things are."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.machine["load_at_end"] = machine()["load"]
        out = {
            "name": self.name,
            "title": self.title,
            "about": self.about,
            "command": _command(),
            "seconds": round(time.perf_counter() - self.began, 1),
            "cpu_seconds": round(time.process_time() - self.cpu_began, 1),
            "machine": self.machine,
            "tables": self.tables,
            "plots": self.plots,
            "figures": self.figures,
            "data": self.data,
        }
        path = self.folder / f"{self.name}.json"
        path.write_text(json.dumps(out, indent=1, default=_plain, ensure_ascii=False) + "\n")
        versions = ", ".join(f"{k} {v}" for k, v in self.machine["versions"].items())
        print(
            f"\n{self.machine['date']}, {self.machine['processor']}, "
            f"{self.machine['cores']} cores, load {self.machine['load']}, "
            f"Python {self.machine['python']}\n{versions}"
        )
        print(f"{out['seconds']} s; wrote {path}" + "".join(f" {x}" for x in self.plots))
        return out


def _command() -> str:
    """The command line as a user would type it."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    name = module.name if module is not None else Path(sys.argv[0]).stem
    words = [word for word in sys.argv[1:] if not os.path.isabs(word) and word != "--out"]
    return " ".join(["python -m", name.removesuffix(".__main__"), *words])


def format_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Aligned text."""
    lines = [[str(x) for x in columns], *[[_cell(x) for x in row] for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    texts = ["  ".join(x.ljust(w) for x, w in zip(line, widths)).rstrip() for line in lines]
    texts.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(texts)


def _cell(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}"
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def _plain(value: Any) -> Any:
    """numpy values for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value)


def new_figure(n_axes: int = 1, **options: Any) -> tuple[Any, Any]:
    """A figure and its axes, in a row; no display is needed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, n_axes, figsize=(5.2 * n_axes, 3.9), constrained_layout=True, **options
    )
    for ax in np.atleast_1d(axes):
        ax.grid(alpha=0.3)
    return figure, axes
