"""One function per published algorithm, returning a configured estimator.

Each docstring cites its source and lists the parts that the recipe sets.  A
recipe keeps the order of the rows unless ``shuffle=True`` is given, so that a
stream means what it says; any further keyword goes to the estimator.
"""

from osvm.recipes import cached, kernel, linear
from osvm.recipes.cached import *  # noqa: F403
from osvm.recipes.kernel import *  # noqa: F403
from osvm.recipes.linear import *  # noqa: F403

__all__ = sorted([*cached.__all__, *kernel.__all__, *linear.__all__])
