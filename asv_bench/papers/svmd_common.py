"""What the experiments of Vishwanathan, Schraudolph, Smola (JMLR 2006) share."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from asv_bench.report import Report, bench_scale, make_parser

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("OSVM_DATA", HERE.parents[2] / "shared" / "data"))


def parse(description, default_orders=10):
    """The command line of an experiment."""
    parser = make_parser("papers", description)
    parser.add_argument("--full", action="store_true", help="as published (the default)")
    parser.add_argument("--orders", type=int, help=f"orders of the data ({default_orders})")
    options = parser.parse_args()
    options.quick = options.quick or bench_scale() < 1
    if options.orders is None:
        options.orders = 1 if bench_scale() < 1 else 2 if options.quick else default_orders
    return options


def load(name):
    """An .npz of the data folder."""
    path = DATA / name
    if not path.exists():
        raise SystemExit(f"{path} is not there: point OSVM_DATA at the folder with the data")
    return np.load(path)


def usps(test=False):
    """Training digits (and test digits after them) in [-1, 1], and their labels."""
    data = load("usps.npz")
    parts = ["train", "test"] if test else ["train"]
    X = np.concatenate([data[f"X_{part}"] for part in parts])
    y = np.concatenate([data[f"y_{part}"] for part in parts])
    return 2 * X.astype(np.float64) - 1, y.astype(np.int64)


def spread_of(values):
    """Standard deviation over the orders; 0 of one."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def mean_spread(values, digits=1):
    """'18.2 ± 0.3' of figures from several orders."""
    spread = f" ± {spread_of(values):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


def percent(values):
    """The same of error rates, in percent."""
    return mean_spread(100 * np.asarray(values))


def report(name, rows, options, remarks="", title="", about=""):
    """Print the table and keep it; `save` adds the plot and writes the file.

    `rows` are dictionaries with the keys experiment, published, reference, ours, differs, and
    figures: lists of a figure's values in all orders, by name.
    """
    keys = ("experiment", "published", "reference", "ours", "differs")
    out = Report(name, title or name, about, options)
    out.add_table(
        "Published, by a plain reference of the same equations, and ours",
        ["experiment", "published", "plain reference, first order", "ours", "how it differs"],
        [[row[key] for key in keys] for row in rows],
        f"{remarks} The plain reference (asv_bench/papers/plain_svmd.py) is numpy of the same "
        "equations, run on the first order; “–” where it was not run.",
    )
    for row in rows:
        for what, values in row["figures"].items():
            least = 0.02 * abs(np.mean(values))  # of orders that happen to agree
            out.add_figure(
                f"{row['experiment']}: {what}", np.mean(values), max(spread_of(values), least)
            )
    out.data["rows"] = rows
    return out


def figure(n=2, width=5.0, height=3.6):
    """A figure with n axes side by side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(1, n, figsize=(width * n, height), squeeze=False)


def save(fig, out):
    """Add the figure to the report and write the files."""
    fig.tight_layout()
    out.add_plot(fig)
    out.finish()
