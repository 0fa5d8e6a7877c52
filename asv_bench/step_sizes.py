"""Step sizes of linear models: how much settings, units and changes of the data matter.

    python -m asv_bench.step_sizes            all tables and the plot of regret
    python -m asv_bench.step_sizes --quick    generated sets alone

One pass of `partial_fit` each; accuracy in percent on test rows, test-then-train for streams
that change.  Tables: one pass by family of step sizes; `schedules.Adaptive` for eta0 from .25
to 4; the default with one column in other units; the default beside "smd" on streams that
change; regret, which is the sum of losses on the way minus that of the best fixed weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

import osvm
from asv_bench.defaults_sets import SETS
from asv_bench.report import Report, make_parser, new_figure, scaled
from osvm.schedules import Adaptive, CoinBetting

FAMILIES = {
    "bottou": "bottou",
    "smd": "smd",
    "adaptive .5": Adaptive(eta0=0.5),
    "normalized 2": Adaptive(eta0=2.0, normalized=True),
    "coin betting": CoinBetting(),
    "auto": "auto",
}
ETAS = (0.25, 0.5, 1.0, 2.0, 4.0)
FACTORS = (1e-3, 1e-1, 1e1, 1e3)
QUICK = ("cover-2 raw", "noise 0.2", "digits raw", "d 200,000")
ALL = (
    "news20-2 tf-idf", "news20-2 counts", "news20-20 tf-idf", "news20-20 counts", "sms counts",
    "rcv1-like", "a9a", "cover-2 unit", "cover-2 std", "cover-2 raw", "cover-7 std",
    "compactiv std", "digits raw", "noise 0.2", "d 200,000",
)  # fmt: skip


def one_pass(problem: Any, schedule: Any, average: bool) -> float:
    """Accuracy after one pass; NaN where a step would overflow."""
    X, y, X_test, y_test = problem
    reg = 0.0 if isinstance(schedule, Adaptive | CoinBetting) else None
    model = osvm.LinearClassifier(schedule=schedule, reg=reg, average=average)
    try:
        model.partial_fit(X, y, classes=np.unique(y))
    except FloatingPointError:
        return float("nan")
    return 100.0 * float(model.score(X_test, y_test))


def table_of_families(report: Report, problems: dict[str, Any]) -> None:
    rows = []
    for name, problem in problems.items():
        adaptive = [isinstance(s, Adaptive | CoinBetting) for s in FAMILIES.values()]
        found = [one_pass(problem, s, mean) for s, mean in zip(FAMILIES.values(), adaptive)]
        rows.append([name, *[f"{x:.1f}" for x in found]])
    note = "adaptive, normalized and coin betting with the average of the tail"
    report.add_table("One pass, by family of step sizes", ["set", *FAMILIES], rows, note)


def table_of_etas(report: Report, problems: dict[str, Any]) -> None:
    rows = []
    for name, problem in problems.items():
        found = [one_pass(problem, Adaptive(eta0=eta, normalized=True), True) for eta in ETAS]
        plain = [one_pass(problem, Adaptive(eta0=eta), True) for eta in ETAS]
        for form, scores in (("normalized", found), ("plain", plain)):
            spread = max(scores) - min(scores)
            rows.append([name, form, *[f"{x:.1f}" for x in scores], f"{spread:.2f}"])
    report.add_table("eta0 of Adaptive", ["set", "form", *map(str, ETAS), "spread"], rows)


def table_of_units(report: Report, problems: dict[str, Any]) -> None:
    """One column, the one of largest weight, times a factor."""
    rows = []
    for name, (X, y, X_test, y_test) in problems.items():
        if sp.issparse(X):
            continue
        model = osvm.LinearClassifier().partial_fit(X, y, classes=np.unique(y))
        usual = 100.0 * float(model.score(X_test, y_test))
        column = int(np.argmax(np.abs(model.coef_).max(axis=0) * np.abs(X).mean(axis=0)))
        found = []
        for factor in FACTORS:
            units = np.ones(X.shape[1])
            units[column] = factor
            model = osvm.LinearClassifier().partial_fit(X * units, y, classes=np.unique(y))
            found.append(100.0 * float(model.score(X_test * units, y_test)) - usual)
        rows.append([name, f"{usual:.1f}", *[f"{x:+.2f}" for x in found]])
    report.add_table("One column in other units, default: change of accuracy",
                     ["set", "as given", *[f"× {f:g}" for f in FACTORS]], rows)  # fmt: skip


def streams(n: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Streams that change: abruptly, five times, and little by little."""
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((n, 20)), rng.standard_normal((6, 20))
    y = np.einsum("ij,ij->i", X, np.repeat(W, -(-n // 6), axis=0)[:n]) > 0
    found = {"five changes": (X, y.astype(int))}
    for kind in ("abrupt", "gradual"):
        A, labels, _ = osvm.datasets.make_drift(n, kind=kind, concepts=6, random_state=0)
        found[f"make_drift, {kind}"] = (A, labels)
    return found


def table_of_drift(report: Report, n: int) -> None:
    rows = []
    for name, (X, y) in streams(n).items():
        found = []
        for schedule in ("auto", "smd", "bottou", Adaptive(eta0=0.5), Adaptive(0.5, forget=0.98)):
            reg = 0.0 if isinstance(schedule, Adaptive) else None
            model = osvm.LinearClassifier(schedule=schedule, reg=reg).partial_fit(X, y)
            found.append(100.0 - 100.0 * model._learner.error_sum / n)
        rows.append([name, *[f"{x:.2f}" for x in found], f"{found[0] - found[1]:+.2f}"])
    report.add_table("Streams that change, test-then-train accuracy",
                     ["stream", "auto", "smd", "bottou", "adaptive", "forget .98", "auto - smd"],
                     rows)  # fmt: skip


def table_of_regret(report: Report, n: int) -> None:
    """Hinge losses minus those of the best fixed weights in hindsight."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 20)) / np.sqrt(20)
    y = np.sign(X @ rng.standard_normal(20) + 0.3 * rng.standard_normal(n))
    worst = np.tile(np.eye(20), (-(-n // 20), 1))[:n]
    flips = np.where(rng.random(n) < 0.4, -1.0, 1.0) * np.repeat([1.0, -1.0], -(-n // 2))[:n]
    figure, ax = new_figure()
    rows = []
    sizes = np.unique(np.geomspace(100, n, 12).astype(int))
    for name, (A, t) in {"i.i.d.": (X, y), "adversarial": (worst, flips)}.items():
        record = osvm.LinearClassifier(schedule=Adaptive(eta0=0.5), reg=0.0, record=True)
        losses = record.partial_fit(A, t).history_["loss"]
        regret = []
        for m in sizes:
            best = osvm.LinearSVC(loss="hinge", C=100.0).fit(A[:m], t[:m])
            least = np.maximum(0.0, 1.0 - t[:m] * best.decision_function(A[:m])).sum()
            regret.append(losses[:m].sum() - least)
        ax.loglog(sizes, np.maximum(regret, 0.1), marker="o", label=name)
        rows.append([name, *[f"{r / np.sqrt(m):.2f}" for m, r in zip(sizes[::3], regret[::3])]])
    ax.loglog(sizes, np.sqrt(sizes), "k--", label="√T")
    ax.set_xlabel("examples T")
    ax.set_ylabel("regret")
    ax.legend()
    report.add_plot(figure)
    report.add_table("Regret over √T", ["stream", *[f"T = {m:,}" for m in sizes[::3]]], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    options = make_parser("step_sizes", __doc__ or "").parse_args(arguments)
    title = "Step sizes: settings, units and changes of the data"
    report = Report("step-sizes", title, (__doc__ or "").split("\n\n")[0], options)
    problems = {}
    for name in QUICK if report.quick else ALL:
        try:
            problems[name] = SETS[name].load(0)
        except NotImplementedError:
            continue
    table_of_families(report, problems)
    table_of_etas(report, problems)
    table_of_units(report, problems)
    table_of_drift(report, scaled(20_000, 2000))
    table_of_regret(report, scaled(10_000, 500))
    report.finish()


if __name__ == "__main__":
    main()
