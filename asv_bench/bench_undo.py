"""What it costs that a failed `partial_fit` leaves the model as it was.

    python -m asv_bench.bench_undo [--rows N] [--repeats N]

A stream of blocks through the learner, with the way back kept open and without; one
thread, processor time, taken in turns.  Where the slope of the loss has a bound, or the
step does (squared losses with the default step size), a block that cannot overflow is told
beforehand and nothing is copied; otherwise the weights are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from asv_bench.common import ROWS, interleaved, ratio, rcv1_like
from asv_bench.report import Report, make_parser
from osvm import LinearClassifier
from osvm._input.validate import check_X
from osvm.linear.plan import resolve_plan
from osvm.linear.training import Examples, run

BLOCKS = (100, 1000, 10_000)
LOSSES = ("hinge", "logistic", "squared_hinge")


def stream(n_rows: int, block: int, loss: str, n_out: int) -> dict[str, Callable[[], None]]:
    """The two jobs: all blocks with and without a way back."""
    X, y, _, _ = rcv1_like(n_rows, 2 if n_out == 1 else n_out)
    model = LinearClassifier(loss, reg=1e-4)
    plan = dataclasses.replace(resolve_plan(model, None), t0=1e5)
    targets: Any = np.where(y > 0, 1.0, -1.0) if n_out == 1 else y.astype(np.int32)
    parts = [
        (check_X(X[start : start + block])[0], targets[start : start + block])
        for start in range(0, n_rows, block)
    ]
    learners = {undo: plan.learner(X.shape[1], n_out, np.float32) for undo in (False, True)}

    def work(undo: bool) -> None:
        for rows, codes in parts:
            run(learners[undo], Examples(rows, codes), None, plan.curvature, roll_back=undo)

    return {"plain": lambda: work(False), "undo": lambda: work(True)}


class Undo:
    """Time with a way back over time without."""

    params = (BLOCKS, LOSSES, [1, 20])
    param_names = ("block", "loss", "n_out")

    def setup(self, block: int, loss: str, n_out: int) -> None:
        self.jobs = stream(min(ROWS, 20_000), block, loss, n_out)

    def track_undo(self, block: int, loss: str, n_out: int) -> float:
        return ratio(interleaved(self.jobs, 5), "undo", "plain")

    track_undo.unit = "ratio"  # type: ignore[attr-defined]


def main() -> None:
    parser = make_parser("bench_undo", str(__doc__).splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    options = parser.parse_args()
    report = Report("undo", "The price of a way back", str(__doc__).split("\n\n")[2], options)
    table = []
    for n_out in (1, 20):
        for loss in LOSSES:
            found = []
            for block in BLOCKS:
                times = interleaved(stream(options.rows, block, loss, n_out), options.repeats or 9)
                found.append(f"{100 * (ratio(times, 'undo', 'plain') - 1):+.1f} %")
            table.append([loss, n_out, *found])
    headings = ["loss", "outputs", *(f"blocks of {block:,}" for block in BLOCKS)]
    report.add_table("Processor time with a way back, against none", headings, table)
    report.finish()


if __name__ == "__main__":
    main()
