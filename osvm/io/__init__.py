"""Model files and checkpoints: saving, loading, going on after a break."""

from osvm.io.archive import ModelFileError
from osvm.io.checkpoints import Checkpoint, checkpoint
from osvm.io.models import CLASSES as CLASSES
from osvm.io.models import FORMAT_VERSION as FORMAT_VERSION
from osvm.io.models import from_bytes, load, read_header, save, to_bytes
from osvm.io.models import load_all as load_all
from osvm.io.models import load_input as load_input

__all__ = [
    "Checkpoint",
    "ModelFileError",
    "checkpoint",
    "from_bytes",
    "load",
    "read_header",
    "save",
    "to_bytes",
]
