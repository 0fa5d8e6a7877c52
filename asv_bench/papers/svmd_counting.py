"""The USPS counting sequence: nu-SVMD on drifting labels, and novelty step sizes.

Vishwanathan, Schraudolph, Smola (JMLR 2006), section 6.2, Figures 6 and 7 (left).
"""

from __future__ import annotations

import numpy as np

from asv_bench.papers import plain_svmd
from asv_bench.papers.svmd_common import figure, parse, percent, report, save, usps
from osvm import losses, plot, recipes

GAMMA = 1 / (2 * 8.0**2)
EVENTS = (6, 60, 120, 150, 180, 300, 1200, 1500, 3000)  # where the paper sees eta rise


def counting_sequence(X, y, seed, counters):
    """Rows that spell the counters 000 to 999 twice, 600 images of each digit."""
    rng = np.random.default_rng(seed)
    pool = {d: iter(rng.permutation(np.flatnonzero(y == d))) for d in range(10)}
    return np.array([next(pool[int(d)]) for number in counters for d in f"{number:03d}"])


def settings():
    """The learners, in the words of `plain_svmd.running_error`."""
    shared = {"eta0": 1.0, "nu": 0.05}
    return {
        "SVMD 0.95": {**shared, "smd": (1.0, 0.95)},
        "SVMD 0.95, ε₀ = 0.1": {**shared, "smd": (1.0, 0.95), "margin": 0.1},
        "SVMD 0": {**shared, "smd": (1.0, 0.0)},
        "NORMA": {**shared, "tau": 100.0},
    }


def make_model(smd=None, margin=1.0, nu=0.05, **options):
    """The library's learner of these settings."""
    options |= {"loss": "multiclass_hinge", "nu": losses.NuTrick(nu, epsilon0=margin)}
    options |= {"gamma": GAMMA, "budget": 512, "eviction": "fifo", "record": True}
    if smd is None:
        return recipes.norma(**options)
    return recipes.svmd(mu=smd[0], decay=smd[1], **options)


PUBLISHED = {
    "SVMD 0.95": "< 19",
    "SVMD 0.95, ε₀ = 0.1": "no such run",
    "NORMA": "barely above chance",
}
DIFFERS = {
    "SVMD 0.95": "not reproduced; the reference agrees with ours. Tried (3 orders): buffer 256 "
    "21.7, 2048 21.3; ν = .1 20.9; η₀ = .1 21.0; first margin .3 20.2, .1 19.0; first step of the "
    "margin .1 20.2; inputs in [0, 1] 27.0; with an offset 42.7",
    "SVMD 0.95, ε₀ = 0.1": "not in the paper: another first margin, to see what it changes",
    "SVMD 0": "plotted only; nothing known to differ",
    "NORMA": "not reproduced: 90 % is chance; the reference agrees with ours. Tried (3 orders): "
    "with an offset 86.9, inputs in [0, 1] 87.6, which are barely above chance but raise SVMD's "
    "error too; τ = 10 50.9, τ = 1 30.5, η₀ = .1 30.1",
}


def main():
    options = parse(__doc__.splitlines()[0])
    X, y = usps(test=True)  # the training digits alone are fewer than 600 of some
    counters = list(range(200 if options.quick else 1000)) * 2
    errors, drawn, reference = {}, {}, {}
    for seed in range(options.orders):
        rows = counting_sequence(X, y, seed, counters)
        for name, chosen in settings().items():
            model = make_model(**chosen)
            model.partial_fit(X[rows], y[rows], classes=np.arange(10))
            error = model.history_["error"][-1]
            errors.setdefault(name, []).append(error)
            if seed == 0:
                drawn[name] = model
                reference[name] = plain_svmd.on_first_order(
                    error, X[rows], y[rows], plain_svmd.gaussian(GAMMA), 512, **chosen
                )
    table = [
        {
            "experiment": f"counting sequence, {name}",
            "published": PUBLISHED.get(name, "plotted only"),
            "reference": reference[name],
            "ours": percent(values),
            "differs": DIFFERS[name] if not options.quick else "counters to 199",
            "figures": {"running error, %": [100 * value for value in values]},
        }
        for name, values in errors.items()
    ]
    rows = counting_sequence(X, y, 0, counters)
    novelty = recipes.novelty_svmd(
        reg=0.3,
        mu=1.0,
        decay=1.0,
        eta0=0.3,
        gamma=GAMMA,
        budget=512,
        eviction="fifo",
        record=True,
    ).partial_fit(X[rows])
    eta = novelty.history_["eta"]
    rises = []
    for event in EVENTS:
        if event + 100 < len(eta):
            before = eta[max(0, event - 5) : event].mean()
            rises.append((event, float(eta[event : event + 100].max() / before)))
    table.append(
        {
            "experiment": "novelty: rise of eta within 100 examples of the paper's events",
            "published": "major increases (Figure 7)",
            "reference": "–",
            "ours": ", ".join(f"{event}: ×{rise:.2f}" for event, rise in rises),
            "figures": {f"rise at {event}": [rise] for event, rise in rises},
            "differs": "reg = eta0 = 0.3 (the paper names mu = λ = 1 only); not reproduced: "
            "at 60, 150, 180 and 1500 eta hardly rises",
        }
    )
    out = report(
        "svmd_counting", table, options,
        f"Running error in %, mean and standard deviation of {options.orders} orders, in float64.",
        title="The counting sequence",
        about="Source (4), section 6.2, Figures 6 and 7: labels that drift, and "
        "the step size of novelty detection.",
    )  # fmt: skip
    fig, axes = figure(3, width=4.6)
    plot.running_error(drawn, axes[0, 0]).set_title("counting sequence, 10-way")
    plot.step_size(drawn, axes[0, 1])
    ax = plot.step_size(eta, axes[0, 2], linewidth=0.8)
    for event in EVENTS:
        ax.axvline(event, color="0.7", linewidth=0.6, zorder=0)
    ax.set_title("novelty: grey lines, events of the paper")
    save(fig, out)


if __name__ == "__main__":
    main()
