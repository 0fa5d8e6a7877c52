"""MNIST in one pass with a polynomial kernel: the effect of the buffer's size.

Vishwanathan, Schraudolph, Smola (JMLR 2006), section 6.3, Figure 7 (right).
"""

from __future__ import annotations

import time

import numpy as np

from asv_bench.papers.svmd_common import figure, load, parse, report, save
from osvm import plot, recipes

PUBLISHED = {256: "about 20", 1024: "plotted only", 4096: "3.9 (2.9)"}
REFERENCE = {256: "12.7", 1024: "–", 4096: "4.08 (2.78)"}


def main():
    options = parse(__doc__.splitlines()[0], default_orders=1)
    data = load("mnist.npz")
    X, y = data["X_train"].astype(np.float32), data["y_train"].astype(np.int64)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    n = 6000 if options.quick else len(X)
    rows, drawn = [], {}
    for budget in (256, 1024, 4096):
        errors, last = [], []
        for seed in range(1 if options.quick else options.orders):
            order = np.arange(len(X))  # the file's order first: its last digits are easy
            if seed > 0:
                order = np.random.default_rng(seed).permutation(order)
            order = order[:n]
            model = recipes.svmd(
                reg=1 / (500 * n), eta0=0.1, mu=0.01, decay=1.0, kernel="polynomial", gamma=1.0,
                coef0=0.0, degree=9, budget=budget, loss="multiclass_hinge", record=True,
            )  # fmt: skip
            start = time.process_time()
            model.partial_fit(X[order], y[order])
            seconds = time.process_time() - start
            history = model.history_
            errors.append(100 * history["error"][-1])
            last.append(100 * np.mean(history["prediction"][-4500:] != y[order][-4500:]))
            drawn.setdefault(f"buffer {budget}", model)
        rows.append(
            {
                "experiment": f"MNIST, degree 9, buffer {budget}",
                "published": PUBLISHED[budget],
                "reference": REFERENCE[budget],
                "ours": f"{np.mean(errors):.2f} ({np.mean(last):.2f})",
                "differs": f"{n:,} rows in file order, {seconds:.1f} s of processor time",
            }
        )
    out = report(
        "svmd_mnist", rows, options, "running error in % (over the last 4,500)",
        title="MNIST and the size of the buffer",
        about="Source (4), section 6.3, Figure 7: one pass with a polynomial kernel of degree 9.",
    )  # fmt: skip
    fig, axes = figure(2)
    plot.running_error(drawn, axes[0, 0]).set_title("MNIST")
    plot.step_size(drawn, axes[0, 1])
    save(fig, out)


if __name__ == "__main__":
    main()
