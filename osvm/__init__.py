"""osvm: online support vector machines for sparse text, streams and kernels.

Importing the package costs numpy and scipy only: everything below is imported
when it is first used.
"""

from importlib import import_module
from os.path import dirname, join
from typing import Any

from osvm._version import __version__

# Public name -> the module that holds it; a module stands for itself.
_LAZY = {
    "datasets": "osvm.datasets",
}

__all__ = ["__version__", "get_include", *_LAZY]


def get_include() -> str:
    """Folder of the C headers that ``cimport osvm.core...`` needs.

    Put it into ``include_dirs`` of your extension; Cython finds the ``.pxd``
    files by itself.

    Examples
    --------
    >>> import os, osvm
    >>> "row.pxd" in os.listdir(osvm.get_include())
    True
    """
    return join(dirname(__file__), "core")


def __getattr__(name: str) -> Any:
    where = _LAZY.get(name)
    if where is None:
        raise AttributeError(f"module 'osvm' has no attribute {name!r}")
    module = import_module(where)
    value = module if where == f"osvm.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
