"""osvm: online support vector machines for sparse text, streams and kernels.

Everything is imported on first use, so that ``import osvm`` costs next to
nothing; the table below says where each public name lives.
"""
# ruff: noqa: F401  (imports under TYPE_CHECKING are for editors)

from __future__ import annotations

import importlib
import os

TYPE_CHECKING = False  # type checkers know the name; `typing` takes longer than all else here

__version__ = "0.1.0"

# Public objects: name -> the module that defines it.
_OBJECTS = {
    "AlmaClassifier": "osvm.linear",
    "ConvergenceWarning": "osvm.exceptions",
    "ConversionWarning": "osvm.exceptions",
    "KernelClassifier": "osvm.kernel",
    "KernelNovelty": "osvm.kernel",
    "KernelRegressor": "osvm.kernel",
    "LinearClassifier": "osvm.linear",
    "LinearNovelty": "osvm.linear",
    "LinearRegressor": "osvm.linear",
    "LinearSVC": "osvm.linear",
    "MultilabelClassifier": "osvm.linear",
    "OneClassSVM": "osvm.kernel",
    "SVC": "osvm.kernel",
    "SVR": "osvm.kernel",
    "checkpoint": "osvm.io.checkpoints",
    "from_bytes": "osvm.io.models",
    "load": "osvm.io.models",
    "merge": "osvm.distributed",
    "save": "osvm.io.models",
}

# Public modules, reachable as attributes.
_MODULES = (
    "dask",
    "datasets",
    "distributed",
    "exceptions",
    "io",
    "kernel",
    "kernels",
    "linear",
    "losses",
    "model_selection",
    "plot",
    "recipes",
    "schedules",
    "solvers",
    "stream",
    "taxonomy",
)

# Engines of osvm.distributed, reachable as attributes: `osvm.spark.fit`.
_ENGINES = ("ray", "spark")

__all__ = ["__version__", "get_include", *_OBJECTS, *_MODULES, *_ENGINES]

if TYPE_CHECKING:  # for editors and type checkers; nothing here runs
    from typing import Any

    import osvm.dask as dask
    import osvm.datasets as datasets
    import osvm.distributed as distributed
    import osvm.distributed.ray as ray
    import osvm.distributed.spark as spark
    import osvm.exceptions as exceptions
    import osvm.io as io
    import osvm.kernel as kernel
    import osvm.kernels as kernels
    import osvm.linear as linear
    import osvm.losses as losses
    import osvm.model_selection as model_selection
    import osvm.plot as plot
    import osvm.recipes as recipes
    import osvm.schedules as schedules
    import osvm.solvers as solvers
    import osvm.stream as stream
    import osvm.taxonomy as taxonomy
    from osvm.distributed import merge as merge
    from osvm.exceptions import ConvergenceWarning as ConvergenceWarning
    from osvm.exceptions import ConversionWarning as ConversionWarning
    from osvm.io import checkpoint as checkpoint
    from osvm.io import from_bytes as from_bytes
    from osvm.io import load as load
    from osvm.io import save as save
    from osvm.kernel import SVC as SVC
    from osvm.kernel import SVR as SVR
    from osvm.kernel import KernelClassifier as KernelClassifier
    from osvm.kernel import KernelNovelty as KernelNovelty
    from osvm.kernel import KernelRegressor as KernelRegressor
    from osvm.kernel import OneClassSVM as OneClassSVM
    from osvm.linear import AlmaClassifier as AlmaClassifier
    from osvm.linear import LinearClassifier as LinearClassifier
    from osvm.linear import LinearNovelty as LinearNovelty
    from osvm.linear import LinearRegressor as LinearRegressor
    from osvm.linear import LinearSVC as LinearSVC
    from osvm.linear import MultilabelClassifier as MultilabelClassifier


def get_include() -> str:
    """Folder of the C header that goes with ``cimport osvm.core...``.

    Pass it to the compiler (``include_dirs=[osvm.get_include()]``); Cython finds
    the ``.pxd`` files by itself.

    Examples
    --------
    >>> import os, osvm
    >>> os.path.basename(osvm.get_include())
    'core'
    """
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "core")


def __getattr__(name: str) -> Any:
    if name in _OBJECTS:
        value = getattr(importlib.import_module(_OBJECTS[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"osvm.{name}")
    elif name in _ENGINES:
        value = importlib.import_module(f"osvm.distributed.{name}")
    else:
        raise AttributeError(f"module 'osvm' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    private = (name for name in globals() if name.startswith("_"))  # of modules: __name__, ...
    return sorted({*__all__, *private})
