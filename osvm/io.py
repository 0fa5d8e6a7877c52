"""Model files and checkpoints: the public address of `osvm.files`."""

from osvm.files.archive import ModelFileError
from osvm.files.checkpoint import Checkpoint, checkpoint
from osvm.files.models import (
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
