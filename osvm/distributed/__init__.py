"""Past one core and past one machine: merging models, and rounds of learning and merging.

The logic is here; engines carry it: this process, `osvm.dask`, `osvm.spark`, `osvm.ray`.
"""

from osvm.distributed.merging import merge
from osvm.distributed.rounds import Options, fit
from osvm.distributed.tree import InProcess, TaskEngine

__all__ = ["InProcess", "Options", "TaskEngine", "fit", "merge"]
