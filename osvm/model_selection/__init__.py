"""Choosing parameters: searches that share work between the models that they compare."""

from osvm.model_selection._cached_grid import CachedGridSearch, cached_grid_search
from osvm.model_selection._one_pass import OnePassSearch, one_pass_search

__all__ = ["CachedGridSearch", "OnePassSearch", "cached_grid_search", "one_pass_search"]
