"""Bagnell's notes and Kitani's lecture: projection, averages, batches, streams and regret.

    python -m asv_bench.papers.online_svm --quick
    python -m asv_bench.papers.online_svm

Neither source prints figures, so "published" is what they claim: projection is optional,
returning the average is optional, batches of about 100 help, data should be in random
order; SoftSVM and the perceptron differ in the margin and in the factor on w; steps of
1/(reg t) on a strongly convex objective have logarithmic regret.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from asv_bench import peers, problems
from asv_bench.common import cpu_seconds, pinned
from asv_bench.report import Report, default_repeats, make_parser, new_figure, scaled, show_seconds

REG = 1e-4


def score(model: Any, data: problems.Problem, optimum: float) -> tuple[float, float]:
    """Relative gap of the objective, and test error in percent."""
    X, y, X_test, y_test = data
    w = np.ravel(model.coef_)
    gap = peers.objective(w, X, y, REG) / optimum - 1
    return gap, 100 * peers.error_rate(w, X_test, y_test)


def variants(report: Report, options: Any, data: problems.Problem) -> None:
    """Projection × averaging × batch size, after one epoch and after five."""
    from osvm import recipes

    X, y, _, _ = data
    _, optimum = peers.find_optimum(X, y, REG)
    cells: dict[tuple[bool, bool, int, int], dict[str, list[float]]] = {}
    with pinned():
        for seed in range(options.repeats):
            for epochs in (1, 5):
                for batch in (1, 10, 100, 1000):
                    for project in (True, False):
                        for average in (False, True):
                            model = recipes.online_svm(
                                reg=REG, project=project, average=average, batch_size=batch,
                                epochs=epochs, shuffle=True, random_state=seed,
                            )  # fmt: skip
                            seconds = cpu_seconds(lambda m=model: m.fit(X, y))
                            gap, error = score(model, data, optimum)
                            cell = cells.setdefault(
                                (project, average, batch, epochs),
                                {"seconds": [], "gap": [], "error": []},
                            )
                            for key, value in zip(cell, (seconds, gap, error)):
                                cell[key].append(value)
    rows = []
    for (project, average, batch, epochs), cell in sorted(
        cells.items(), key=lambda item: (item[0][3], item[0][2], not item[0][0], item[0][1])
    ):
        rows.append(
            [
                epochs, batch, "yes" if project else "no", "yes" if average else "no",
                show_seconds(cell["seconds"]), f"{100 * np.median(cell['gap']):.2f} %",
                f"{np.median(cell['error']):.2f} %",
            ]
        )  # fmt: skip
    report.add_table(
        f"Algorithm 1 of the notes, {X.shape[0]:,} rows of generated text, reg {REG:g}",
        ["epochs", "batch", "projection", "average", "CPU time", "objective gap", "test error"],
        rows,
        "Published: projection and averaging are optional, batches of say 100 help. Ours: read "
        "off the rows; a batch is one step, so that after one epoch a batch of 1000 has made a "
        f"thousandth of the steps. Medians of {options.repeats} orders. Optimum {optimum:.5f}.",
    )
    for (project, average, batch, epochs), cell in cells.items():
        what = f"{epochs} epochs, batch {batch}, projection {project}, average {average}"
        for name, values, least in (("gap", cell["gap"], 1e-3), ("error", cell["error"], 0.05)):
            report.add_figure(f"{what}: {name}", np.median(values), max(np.ptp(values), least))
    report.data["variants"] = [
        {"project": k[0], "average": k[1], "batch": k[2], "epochs": k[3], **v}
        for k, v in cells.items()
    ]


def randomised(report: Report, options: Any, data: problems.Problem) -> None:
    """The advice to put the data in random order."""
    from osvm import recipes

    X, y, _, _ = data
    order = np.argsort(y, kind="stable")
    X_sorted, y_sorted = X[order], y[order]
    _, optimum = peers.find_optimum(X, y, REG)
    rows = []
    for label, shuffle in (("in the order of the classes", False), ("shuffle=True", True),
                           ('shuffle="full"', "full")):  # fmt: skip
        found = [
            score(
                recipes.online_svm(
                    reg=REG, shuffle=shuffle, random_state=seed, epochs=1
                ).fit(X_sorted, y_sorted), data, optimum,
            )
            for seed in range(options.repeats)
        ]  # fmt: skip
        gap, error = np.median(found, axis=0)
        report.add_figure(f"sorted rows, {label}: test error, %", error, 0.2)
        rows.append([label, f"{100 * gap:.1f} %", f"{error:.2f} %"])
    report.add_table(
        "Rows sorted by class, one epoch",
        ["order of the visits", "objective gap", "test error"],
        rows,
        "Published: be sure that the data are randomised. Ours: the order of the classes ruins "
        "one pass; windows of random blocks mend it as well as a full permutation.",
    )


def stream_and_regret(report: Report, data: problems.Problem, reg: float) -> None:
    """SoftSVM, Pegasos and the perceptron on a stream: progressive error and regret."""
    from osvm import recipes

    X, y, X_test, y_test = data
    n = X.shape[0]
    best_w, _ = peers.find_optimum(X, y, reg)
    models = {
        "soft_svm": recipes.soft_svm(reg=reg, record=True),
        "pegasos, projected": recipes.pegasos(reg=reg, project=True, record=True),
        "pegasos": recipes.pegasos(reg=reg, project=False, record=True),
        "sgd_svm (Bottou's t0)": recipes.sgd_svm(reg=reg, fit_intercept=False, record=True),
        "perceptron": recipes.perceptron(record=True),
        "projected_ogd, step 1": recipes.projected_ogd(reg**-0.5, eta0=1.0, record=True),
        "projected_ogd, lazy": recipes.projected_ogd(reg**-0.5, eta0=1.0, lazy=True, record=True),
    }
    # f_t(w) = reg/2 ||w||² + hinge: ||w_t|| is read at the ends of short blocks.
    ends = np.unique(np.concatenate([np.geomspace(1, n, 200), np.arange(0, n + 1, 200)[1:], [n]]))
    ends = np.unique(ends.astype(int))
    margins = y * (X @ best_w)
    best_cost = np.cumsum(0.5 * reg * best_w @ best_w + np.maximum(0, 1 - margins))
    t = np.arange(1, n + 1)
    found: dict[str, dict[str, Any]] = {}
    for name, model in models.items():
        hinge, errors, norms = np.empty(n), np.empty(n), np.empty(n)
        start, before = 0, 0.0
        for end in ends:
            part = slice(start, end)
            model.partial_fit(X[part], y[part], classes=[-1, 1])
            after = float(np.sum(np.square(model.coef_)))
            norms[part] = np.linspace(before, after, end - start + 1)[:-1]
            start, before = end, after
        history = model.history_
        hinge[:] = history["loss"][:n]
        errors[:] = history["error"][:n]
        if model.loss == "perceptron":
            hinge[:] = np.nan  # another loss: no regret against the hinge
        regret = np.cumsum(0.5 * reg * norms + hinge) - best_cost
        found[name] = {
            "error": errors,
            "regret": regret,
            "test": 100 * peers.error_rate(np.ravel(model.coef_), X_test, y_test),
        }
    figure, axes = new_figure(2)
    for name, out in found.items():
        axes[0].plot(t, 100 * out["error"], lw=1.3, label=name)
        if np.isfinite(out["regret"][-1]):
            axes[1].plot(t, np.maximum(out["regret"], 1e-2), lw=1.3, label=name)
    axes[1].plot(t, (1 + np.log(t)) / (2 * reg), "k:", lw=1, label="(1 + ln t) / (2 reg)")
    axes[0].set(xscale="log", xlabel="examples", ylabel="progressive error, %", ylim=(0, 50))
    axes[1].set(
        xscale="log", yscale="log", xlabel="examples", ylabel="regret on reg/2‖w‖² + hinge"
    )
    for ax in axes:
        ax.legend(fontsize=7)
    report.add_plot(figure, f"{reg:g}")
    rows, marks = [], sorted({k for k in (100, 1000, 10_000, 100_000, n) if k <= n})
    for name, out in found.items():
        regret = out["regret"]
        power = (
            f"{np.log(regret[-1] / regret[n // 10 - 1]) / np.log(10):.2f}"
            if np.isfinite(regret[-1]) and min(regret[-1], regret[n // 10 - 1]) > 0
            else "–"
        )
        rows.append(
            [
                name, f"{100 * out['error'][-1]:.2f} %", f"{out['test']:.2f} %",
                *(f"{regret[k - 1]:.1f}" if np.isfinite(regret[k - 1]) else "–" for k in marks),
                power,
            ]
        )  # fmt: skip
    report.add_table(
        f"One pass over a stream of {n:,} rows, reg {reg:g}",
        ["recipe", "progressive error", "test error", *(f"regret at {k:,}" for k in marks),
         "power of t over the last decade"],
        rows,
        "Published: 1/(reg t) steps have logarithmic regret, at most (1 + ln t)/(2 reg) or so "
        "with projection; the perceptron has no margin and no factor on w. Ours: the bound "
        "holds, and the power of t falls towards 0 once t is well above 1/reg; before that every "
        "method is "
        "far below the bound. Without projection the first steps of size 1/(reg t) cost most of "
        "the regret. Regret is taken against the minimiser over all rows; the perceptron's loss "
        "is another one.",
    )  # fmt: skip
    for name, out in found.items():
        error = 100 * float(out["error"][-1])
        report.add_figure(f"stream, reg {reg:g}, {name}: progressive error, %", error, 0.05)
        report.add_figure(f"stream, reg {reg:g}, {name}: test error, %", out["test"], 0.1)
        last = float(out["regret"][-1])
        if np.isfinite(last):
            report.add_figure(f"stream, reg {reg:g}, {name}: regret", last, 0.02 * abs(last))
    report.data[f"stream {reg:g}"] = {
        name: {
            "progressive_error": float(out["error"][-1]),
            "test_error": out["test"],
            "regret": {int(k): float(out["regret"][k - 1]) for k in marks},
        }
        for name, out in found.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser("papers.online_svm", str(__doc__).splitlines()[0])
    parser.add_argument("--rows", type=int)
    options = parser.parse_args(arguments)
    options.repeats = options.repeats or default_repeats(options.quick)
    rows = options.rows or scaled(10_000 if options.quick else 200_000, 1000)
    report = Report(
        "online-svm",
        "Online SVM: projection, averages, batches, regret",
        "Sources (1) and (3): what each optional part of the algorithm does on text, and SoftSVM "
        "beside the perceptron on a stream.",
        options,
    )
    data = problems.generated(rows)
    variants(report, options, data)
    randomised(report, options, data)
    for reg in (REG, 1e-2):
        stream_and_regret(report, data, reg)
    report.finish()


if __name__ == "__main__":
    main()
