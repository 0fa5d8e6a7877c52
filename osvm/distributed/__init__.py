"""Past one core and past one machine: merging models, and rounds of learning and merging."""

from osvm.distributed.merging import merge

__all__ = ["merge"]
