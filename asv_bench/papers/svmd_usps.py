"""USPS in one pass, 0-4 against 5-9 and 10-way: SVMD, SVMD without memory, NORMA.

Vishwanathan, Schraudolph, Smola (JMLR 2006), section 6.1, Figures 3 and 4.
"""

from __future__ import annotations

import numpy as np

from asv_bench.papers import plain_svmd
from asv_bench.papers.svmd_common import figure, parse, percent, report, save, usps
from osvm import plot, recipes

GAMMA = 1 / (2 * 8.0**2)  # sigma = 8
PUBLISHED = "about half of NORMA's error"


def settings(task, n):
    """The learners of a figure, in the words of `plain_svmd.running_error`."""
    if task == "binary":
        shared = {"eta0": 1.0, "nu": 0.05}
        return {
            "SVMD 0.95": {**shared, "smd": (1.0, 0.95)},
            "SVMD 0": {**shared, "smd": (1.0, 0.0)},
            "NORMA": {**shared, "tau": 10.0},
        }
    shared = {"eta0": 0.1, "reg": 1 / (500 * n)}
    return {
        "SVMD 0.99": {**shared, "smd": (0.1, 0.99)},
        "SVMD 0": {**shared, "smd": (0.1, 0.0)},
        "NORMA": {**shared, "tau": 100.0},
    }


def make_model(task, smd=None, **options):
    """The library's learner of these settings."""
    loss = "hinge" if task == "binary" else "multiclass_hinge"
    options |= {"gamma": GAMMA, "budget": 512, "eviction": "fifo", "loss": loss, "record": True}
    if smd is None:
        return recipes.norma(**options)
    return recipes.svmd(mu=smd[0], decay=smd[1], **options)


def differs(name, is_published, errors):
    """What stands beside a row."""
    if not is_published:
        return "plotted only; nothing known to differ"
    ratio = np.mean(errors[name]) / np.mean(errors["NORMA"])
    return f"reproduced: {ratio:.2f} of NORMA's"


def main():
    options = parse(__doc__.splitlines()[0])
    X, y = usps()
    if options.quick:
        X, y = X[:2000], y[:2000]
    fig, axes = figure(4, width=4.2)
    rows = []
    for place, task in enumerate(("binary", "10-way")):
        target = (y >= 5).astype(int) if task == "binary" else y
        errors, drawn, reference = {}, {}, {}
        for seed in range(options.orders):
            order = np.random.default_rng(seed).permutation(len(X))
            for name, chosen in settings(task, len(X)).items():
                model = make_model(task, **chosen)
                model.partial_fit(X[order], target[order], classes=np.unique(target))
                error = model.history_["error"][-1]
                errors.setdefault(name, []).append(error)
                if seed == 0:
                    drawn[name] = model
                    reference[name] = plain_svmd.on_first_order(
                        error, X[order], target[order], plain_svmd.gaussian(GAMMA), 512, **chosen
                    )
        for name, values in errors.items():
            rows.append(
                {
                    "experiment": f"USPS {task}, {name}",
                    "published": PUBLISHED if "0.9" in name else "plotted only",
                    "reference": reference[name],
                    "ours": percent(values),
                    "differs": "2,000 rows" if options.quick else
                    differs(name, "0.9" in name, errors),
                    "figures": {"running error, %": [100 * value for value in values]},
                }
            )  # fmt: skip
        left, right = axes[0, 2 * place : 2 * place + 2]
        plot.running_error(drawn, left).set_title(f"USPS {task}")
        plot.step_size(drawn, right)
    out = report(
        "svmd_usps", rows, options,
        f"Running error in %, mean and standard deviation of {options.orders} orders, in float64.",
        title="USPS in one pass: SVMD and NORMA",
        about="Source (4), section 6.1, Figures 3 and 4: running error of SVMD, "
        "SVMD without memory and NORMA.",
    )  # fmt: skip
    save(fig, out)


if __name__ == "__main__":
    main()
