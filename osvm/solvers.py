"""Solvers over a fixed set: the public address of `osvm.kernel.cached.solvers`."""

from osvm.kernel.cached.solvers import (
    Adatron,
    Alma,
    Ballseptron,
    CachedNorma,
    CachedSolver,
    Fit,
    LaSvm,
    OlSvm,
    Pegaz,
    Perceptron,
    Task,
    from_config,
    get,
    names,
)

__all__ = [
    "Adatron",
    "Alma",
    "Ballseptron",
    "CachedNorma",
    "CachedSolver",
    "Fit",
    "LaSvm",
    "OlSvm",
    "Pegaz",
    "Perceptron",
    "Task",
    "from_config",
    "get",
    "names",
]
