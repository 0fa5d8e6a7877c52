from collections.abc import Iterable, Sequence
from typing import Any

from scipy.sparse import csr_array

from osvm.stream._builder import CsrBuilder

class HashingTokenizer:
    bits: int
    shortest: int
    longest: int
    signed: bool
    tf: str
    norm: bool
    lowercase: bool
    min_length: int
    def __init__(
        self,
        bits: int = ...,
        ngrams: Sequence[int] = ...,
        signed: bool = ...,
        tf: str = ...,
        norm: bool = ...,
        lowercase: bool = ...,
        min_length: int = ...,
    ) -> None: ...
    def config(self) -> dict[str, Any]: ...
    @property
    def n_features(self) -> int: ...
    def add_line(self, builder: CsrBuilder, buffer: Any, start: int, stop: int) -> None: ...
    def add(self, builder: CsrBuilder, document: str | bytes) -> None: ...
    def transform(self, documents: Iterable[str | bytes], dtype: Any = ...) -> csr_array: ...
    def tokens(self, document: str | bytes) -> list[str]: ...
    def find(self, document: str | bytes, wanted: Any) -> list[tuple[int, bytes]]: ...
    def column(self, term: str | bytes) -> tuple[int, int]: ...
