"""Solvers over a fixed set: the public address of `osvm.kernel.cached.solvers`."""

from osvm.kernel.cached.solvers import (
    Adatron,
    Alma,
    Ballseptron,
    CachedSolver,
    LaSvm,
    Norma,
    OlSvm,
    Pegaz,
    Perceptron,
    VotedPerceptron,
    from_config,
    get,
    names,
)

__all__ = [
    "Adatron",
    "Alma",
    "Ballseptron",
    "CachedSolver",
    "LaSvm",
    "Norma",
    "OlSvm",
    "Pegaz",
    "Perceptron",
    "VotedPerceptron",
    "from_config",
    "get",
    "names",
]
