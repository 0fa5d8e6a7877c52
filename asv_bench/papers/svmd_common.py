"""What the experiments of Vishwanathan, Schraudolph, Smola (JMLR 2006) share."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("OSVM_DATA", HERE.parents[2] / "shared" / "data"))


def parse(description, default_orders=10):
    """The command line of an experiment."""
    parser = argparse.ArgumentParser(description=description)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a small part, for a look")
    size.add_argument("--full", action="store_true", help="as published (the default)")
    parser.add_argument("--orders", type=int, help=f"orders of the data ({default_orders})")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for results")
    options = parser.parse_args()
    if options.orders is None:
        options.orders = 2 if options.quick else default_orders
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
    return (2 * X - 1).astype(np.float32), y.astype(np.int64)


def percent(values):
    """'18.2 ± 0.3' of error rates."""
    values = 100 * np.asarray(values)
    spread = f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else ""
    return f"{values.mean():.1f}{spread}"


def report(name, rows, out, remarks=""):
    """Print the table and keep it as JSON.

    `rows` are dictionaries with the keys experiment, published, reference, ours, differs.
    """
    keys = ("experiment", "published", "reference", "ours", "differs")
    widths = [max(len(key), *(len(str(row[key])) for row in rows)) for key in keys]
    print("  ".join(key.ljust(width) for key, width in zip(keys, widths)))
    for row in rows:
        print("  ".join(str(row[key]).ljust(width) for key, width in zip(keys, widths)))
    if remarks:
        print(remarks)
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"experiment": name, "rows": rows, "remarks": remarks}, indent=1,
                      ensure_ascii=False)  # fmt: skip
    (out / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def figure(n=2, width=5.0, height=3.6):
    """A figure with n axes side by side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(1, n, figsize=(width * n, height), squeeze=False)


def save(fig, name, out):
    """Write the figure as a small PNG."""
    out.mkdir(parents=True, exist_ok=True)
    fig.tight_layout()
    fig.savefig(out / f"{name}.png", dpi=80)
