"""Readers for data larger than memory, and test-then-train validation."""

from osvm.stream.base import Reader
from osvm.stream.blocks import BlockReader
from osvm.stream.csv import CsvReader
from osvm.stream.formats import read
from osvm.stream.iterables import IterableReader
from osvm.stream.jsonl import JsonlReader
from osvm.stream.open import FormatError
from osvm.stream.parquet import ParquetReader
from osvm.stream.progressive import ProgressiveResult, progressive_validate
from osvm.stream.shuffle import ShuffledReader
from osvm.stream.svmlight import SvmlightReader
from osvm.stream.text import TextReader
from osvm.stream.tokenizer import HashingTokenizer
from osvm.stream.vw import VwReader

__all__ = [
    "BlockReader",
    "CsvReader",
    "FormatError",
    "HashingTokenizer",
    "IterableReader",
    "JsonlReader",
    "ParquetReader",
    "ProgressiveResult",
    "Reader",
    "ShuffledReader",
    "SvmlightReader",
    "TextReader",
    "VwReader",
    "progressive_validate",
    "read",
]
