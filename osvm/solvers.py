"""Solvers over a fixed set: the public address of `osvm.kernel.cached.solvers`."""

from osvm.kernel.cached.solvers import *  # noqa: F403
from osvm.kernel.cached.solvers import __all__  # noqa: F401
