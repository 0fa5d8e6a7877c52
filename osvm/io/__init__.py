"""Model files and checkpoints: saving, loading, going on after a break."""

from osvm.io.archive import ModelFileError
from osvm.io.checkpoints import Checkpoint, checkpoint
from osvm.io.models import (
    CLASSES,
    FORMAT_VERSION,
    from_bytes,
    load,
    load_all,
    load_input,
    read_header,
    save,
    to_bytes,
)

__all__ = [
    "CLASSES",
    "Checkpoint",
    "FORMAT_VERSION",
    "ModelFileError",
    "checkpoint",
    "from_bytes",
    "load",
    "load_all",
    "load_input",
    "read_header",
    "save",
    "to_bytes",
]
