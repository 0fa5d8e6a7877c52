"""Every linear estimator's defaults beside its peers' defaults.

    python -m asv_bench.defaults                    all sets, five seeds
    python -m asv_bench.defaults --quick            a dozen sets, two seeds
    python -m asv_bench.defaults --only cover sms   sets whose names contain a word
    python -m asv_bench.defaults --mode "one pass"  `partial_fit` alone
    python -m asv_bench.defaults --peers FILE       peers' scores of an earlier run's file
    python -m asv_bench.defaults kernel             the kernel estimators (`defaults_kernel`)

Two modes: `fit`, and one pass of `partial_fit` over rows in random order.  Scores are
accuracy in percent, F1 (rare classes), R2 (regression) or AUC (novelty), times 100, on test
rows; the mean over seeds, the worst seed, and CPU seconds of training.  The best peer is the
one with the highest mean.  A model is called constant when it is no better on a seed than
the best constant answer while a peer's is.  A seed draws the data, where they are drawn, and
the learner's numbers; "worst seed minus mean" is of the learner's numbers alone, on the data of
the first seed.  Real sets are read from OSVM_DATA and left out where they are not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from asv_bench import defaults_kernel
from asv_bench.defaults_peers import LEARNERS, Learner
from asv_bench.defaults_sets import SETS, Dataset
from asv_bench.report import Report, bench_scale, make_parser

FAILED = -1e6  # the score of an answer that is not finite
BY_SEED = {"seed": 0, "score": 4, "same_data": 4, "seconds": 6}  # of records, and their digits


def score(metric: str, answer: np.ndarray, truth: np.ndarray) -> float:
    """100 times the metric; FAILED for answers that are not finite."""
    from sklearn import metrics

    if answer.dtype.kind == "f" and not np.isfinite(answer).all():
        return FAILED
    if metric == "accuracy":
        return 100.0 * float(np.mean(answer == truth))
    if metric == "F1":
        return 100.0 * float(metrics.f1_score(truth, answer, zero_division=0))
    if metric == "R2":
        return max(100.0 * float(metrics.r2_score(truth, answer)), FAILED)
    return 100.0 * float(metrics.roc_auc_score(truth, answer))


def constant_score(metric: str, y: np.ndarray, truth: np.ndarray) -> float:
    """What a model without weights reaches."""
    if metric == "accuracy":
        values, counts = np.unique(y, return_counts=True)
        return 100.0 * float(np.mean(truth == values[counts.argmax()]))
    return 50.0 if metric == "AUC" else 0.0


def chosen(mode: str, data: Dataset, without: Sequence[str] = ()) -> list[Learner]:
    """The learners for a set in a mode, without those of some modules."""
    if mode == "one pass" and not data.one_pass:
        return []
    fitting = [x for x in LEARNERS if x.task == data.task and x.mode == mode]
    return [x for x in fitting if x.module not in without and not x.missing()]


def run_set(
    data: Dataset, modes: Sequence[str], seeds: Iterable[int], without: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """One record for each learner, mode and seed; a learner that cannot is left out."""
    found: list[dict[str, Any]] = []
    first = None
    for seed in seeds:
        problem = data.load(seed)
        first = first or problem
        floor = constant_score(data.metric, problem[1], problem[3])
        for mode in modes:
            for learner in chosen(mode, data, without):
                try:
                    answer, seconds = learner.run(problem, seed)
                except NotImplementedError:
                    continue
                again = answer if first is problem or not learner.ours else (
                    learner.run(first, seed)[0])  # fmt: skip
                found.append({
                    "set": data.name, "task": data.task, "kind": data.kind, "mode": mode,
                    "metric": data.metric, "learner": learner.name, "ours": learner.ours,
                    "seed": seed, "rows": problem[0].shape[0], "constant": floor,
                    "score": score(data.metric, answer, problem[3]), "seconds": seconds,
                    "same_data": score(data.metric, again, first[3]) if learner.ours else None,
                })  # fmt: skip
    return found


def with_peers(ours: list[dict[str, Any]], known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records of osvm beside those that an earlier run has of its peers on the same seeds."""
    place = {(r["set"], r["mode"], r["seed"]): r for r in ours}
    peers = [
        {**place[at], **r, "ours": False}
        for r in known
        if (at := (r["set"], r["mode"], r["seed"])) in place
        and not r["learner"].startswith("osvm")
    ]
    met = {(r["set"], r["mode"], r["seed"]) for r in peers}
    return [r for at, r in place.items() if at in met] + peers


def packed(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records for a file: one for each set, mode and learner, with lists by seed."""
    groups: dict[tuple[str, ...], dict[str, Any]] = {}
    for r in records:
        key = {name: r[name] for name in ("set", "mode", "learner")}
        group = groups.setdefault(tuple(key.values()), {**key, **{name: [] for name in BY_SEED}})
        for name, digits in BY_SEED.items():
            value = r.get(name)
            group[name].append(value if value is None else round(value, digits))
    for group in groups.values():
        if not any(x is not None for x in group["same_data"]):
            del group["same_data"]
    return list(groups.values())


def unpacked(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records of `packed`."""
    return [
        {**g, **{name: g[name][i] for name in BY_SEED if name in g}}
        for g in groups
        for i in range(len(g["seed"]))
    ]


def summarize(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line for each set and mode: ours, the best peer, SGD's time, constant seeds."""
    lines = []
    for name, mode in dict.fromkeys((r["set"], r["mode"]) for r in records):
        runs = [r for r in records if (r["set"], r["mode"]) == (name, mode)]
        ours = [r for r in runs if r["ours"]]
        peers = {r["learner"]: [q for q in runs if q["learner"] == r["learner"]] for r in runs
                 if not r["ours"]}  # fmt: skip
        if not ours or not peers:
            continue
        means = {peer: float(np.mean([q["score"] for q in rows])) for peer, rows in peers.items()}
        best = max(means, key=lambda peer: means[peer])
        # against scikit-learn's alone, the bar of `fit`, and against all
        sk = [means[peer] for peer in means if not peer.startswith(("VW", "river"))]
        top = {s: max(q["score"] for rows in peers.values() for q in rows if q["seed"] == s)
               for s in {r["seed"] for r in ours}}  # fmt: skip
        scores = [r["score"] for r in ours]
        same = [r.get("same_data", r["score"]) for r in ours]
        sgd = [q["seconds"] for peer, rows in peers.items() for q in rows if "SGD" in peer]
        lines.append({
            "set": name, "mode": mode, "task": ours[0]["task"], "metric": ours[0]["metric"],
            "kind": ours[0]["kind"], "rows": ours[0]["rows"], "mean": float(np.mean(scores)),
            "worst": min(scores), "seeds": min(same) - float(np.mean(same)),
            "peer": best, "peer_mean": means[best],
            "difference": float(np.mean(scores)) - means[best],
            "difference_sklearn": float(np.mean(scores)) - max(sk) if sk else None,
            "seconds": min(r["seconds"] for r in ours), "sgd_seconds": min(sgd, default=None),
            "constant_seeds": sum(r["score"] <= r["constant"] < top[r["seed"]] for r in ours),
        })  # fmt: skip
    return lines


def bars(lines: list[dict[str, Any]]) -> list[list[Any]]:
    """The measures that the defaults are held to: name, what was found."""
    rows: list[list[Any]] = [
        ["seeds no better than the constant model where a peer is",
         sum(x["constant_seeds"] for x in lines)],
    ]  # fmt: skip

    def add(title: str, picked: list[dict[str, Any]], key: str = "difference") -> None:
        values = [x[key] for x in picked if x[key] is not None]
        if values:
            worst = min(picked, key=lambda x: np.inf if x[key] is None else x[key])
            rows.append([title, f"{np.mean(np.clip(values, -100, None)):+.2f} / "
                                f"{min(values):+.2f} ({worst['set']})"])  # fmt: skip

    for mode in ("fit", "one pass"):
        accuracy = [x for x in lines if x["mode"] == mode and x["metric"] == "accuracy"]
        if mode == "fit":
            add("fit, accuracy minus the best of SGDClassifier and LinearSVC, mean / worst",
                accuracy, "difference_sklearn")  # fmt: skip
        add(f"{mode}, accuracy minus the best of all peers, mean / worst", accuracy)
        for metric in ("F1", "R2", "AUC"):
            add(f"{mode}, {metric} minus the best peer's, mean / worst",
                [x for x in lines if x["mode"] == mode and x["metric"] == metric])  # fmt: skip
    large = [
        x for x in lines
        if x["rows"] >= 1000 and x["metric"] == "accuracy" and x["mode"] == "fit"
    ]  # fmt: skip
    if large:
        worst = min(large, key=lambda x: x["seeds"])
        rows.append(["fit, worst seed minus mean on the same data, 1,000 rows and more",
                     f"{worst['seeds']:+.2f} ({worst['set']})"])  # fmt: skip
    for kind in ("text", "dense"):
        ratios = [
            x["seconds"] / x["sgd_seconds"]
            for x in lines
            if x["kind"] == kind
            and x["mode"] == "fit"
            and x["sgd_seconds"]
            and x["task"] == "class"
        ]
        if ratios:
            rows.append([f"fit, time over SGDClassifier's, {kind}, median / largest",
                         f"{np.median(ratios):.2f} / {max(ratios):.2f}"])  # fmt: skip
    return rows


def add_tables(report: Report, lines: list[dict[str, Any]]) -> None:
    """A table for each task and mode, and the measures."""
    columns = ["set", "metric", "osvm", "worst seed", "best peer", "", "difference", "s",
               "SGD s", "constant"]  # fmt: skip
    for task in ("class", "regression", "novelty"):
        for mode in ("fit", "one pass"):
            rows = [
                [x["set"], x["metric"], f"{x['mean']:.2f}", f"{x['worst']:.2f}",
                 f"{x['peer_mean']:.2f}", x["peer"], f"{x['difference']:+.2f}",
                 f"{x['seconds']:.4f}",
                 "" if x["sgd_seconds"] is None else f"{x['sgd_seconds']:.4f}",
                 x["constant_seeds"] or ""]
                for x in lines if x["task"] == task and x["mode"] == mode
            ]  # fmt: skip
            if rows:
                report.add_table(f"{task}, {mode}", columns, rows)
    report.add_table("Measures", ["measure", "found"], bars(lines))


def main(arguments: Sequence[str] | None = None) -> None:
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments[:1] == ["kernel"]:
        defaults_kernel.main(arguments[1:])
        return
    parser = make_parser("defaults", __doc__ or "")
    parser.add_argument("--only", nargs="*", default=[], help="words that a set's name contains")
    parser.add_argument("--seeds", type=int, help="number of seeds (5; 2 with --quick)")
    parser.add_argument("--mode", choices=("fit", "one pass"), help="one of the two modes")
    parser.add_argument("--peers", help="JSON file of an earlier run: only osvm is run")
    options = parser.parse_args(arguments)
    smoke = bench_scale() < 1
    quick = options.quick or smoke
    seeds = options.seeds or (1 if smoke else 2 if quick else 5)
    modes = [options.mode] if options.mode else ["fit", "one pass"]
    title = "Defaults beside the defaults of others"
    report = Report("defaults", title, (__doc__ or "").split("\n\n")[0], options)
    picked = [x for x in SETS.values() if x.quick >= quick
              and (not options.only or any(word in x.name for word in options.only))]  # fmt: skip
    records: list[dict[str, Any]] = []
    missing = []
    without = () if options.peers is None else ("sklearn", "vowpalwabbit", "river")
    for i, data in enumerate(picked):
        print(f"\r{i + 1}/{len(picked)} {data.name:28s}", end="", file=sys.stderr, flush=True)
        try:
            records += run_set(data, modes, range(seeds), without)
        except NotImplementedError as error:
            missing.append(f"{data.name} ({error})")
    print(file=sys.stderr)
    if options.peers is not None:
        known = json.loads(Path(options.peers).read_text())["data"]["records"]
        records = with_peers(records, unpacked(known))
    lines = summarize(records)
    add_tables(report, lines)
    if missing:
        print("left out:", "; ".join(missing))
    report.data = {"seeds": seeds, "left_out": missing, "records": packed(records)}
    report.finish()


if __name__ == "__main__":
    main()
