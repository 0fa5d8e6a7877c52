"""Readers for data larger than memory, and test-then-train validation."""

from osvm.stream._base import Reader
from osvm.stream._text import HashingTokenizer
from osvm.stream.open import FormatError
from osvm.stream.svmlight import SvmlightReader
from osvm.stream.vw import VwReader

__all__ = [
    "FormatError",
    "HashingTokenizer",
    "Reader",
    "SvmlightReader",
    "VwReader",
]
