"""Choosing parameters: searches that share work between the models that they compare."""

from osvm.model_selection._cached_grid import CachedGridSearch, cached_grid_search

__all__ = ["CachedGridSearch", "cached_grid_search"]
