"""Choosing parameters while learning."""

from osvm.model_selection._one_pass import OnePassSearch, one_pass_search

__all__ = ["OnePassSearch", "one_pass_search"]
