"""Model files and checkpoints: the public address of `osvm.files`."""

from osvm.files.archive import ModelFileError
from osvm.files.checkpoint import Checkpoint, checkpoint
from osvm.files.models import (
    CLASSES,
    FORMAT_VERSION,
    load,
    load_all,
    load_input,
    read_header,
    save,
)

__all__ = [
    "CLASSES",
    "Checkpoint",
    "FORMAT_VERSION",
    "ModelFileError",
    "checkpoint",
    "load",
    "load_all",
    "load_input",
    "read_header",
    "save",
]
