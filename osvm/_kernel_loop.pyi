from typing import Any

from osvm._kernel_state import KernelState
from osvm._parts import LossSpec, StepSpec
from osvm._rows import RowSource

TASKS: dict[str, int]

def learn(
    state: KernelState,
    X: RowSource,
    loss: LossSpec,
    step: StepSpec,
    *,
    task: str = "classify",
    reg: float,
    labels: Any = None,
    targets: Any = None,
    weights: Any = None,
    order: Any = None,
    nu: float | None = None,
    offset: bool = False,
    first_id: int = 0,
    history: Any = None,
    record: int = 0,
    block: int = 0,
    start: int = 0,
    stop: int = -1,
) -> int: ...
