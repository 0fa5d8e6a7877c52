"""Documents to rows of weighted, hashed terms: a scikit-learn transformer for streams.

Weights follow scikit-learn's smooth tf-idf, ``(1 + ln tf) (ln((1 + N)/(1 + df)) + 1)`` at unit
norm.  N and df are counted as documents come: `fit` and `partial_fit` count, `transform` does
not, and a reader of a training file counts each document before it is weighed.  Memory is
bounded by the number of columns, never by that of documents or words.

The parameters are checked here and handed to the compiled `TermHasher`, which holds the counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from osvm._input.schema import ArrayField, Field, Schema
from osvm._input.stand_in import BaseEstimator, not_fitted_error
from osvm.stream._parsing import CsrBuilder
from osvm.stream._text import TF, TermHasher, check_document

ANALYZERS = ("word", "char")
_WORDS = """
a about above after again against all am an and any are as at be because been before being below
between both but by can cannot could did do does doing down during each few for from further had
has have having he her here hers herself him himself his how if in into is it its itself just me
more most my myself no nor not now of off on once only or other our ours ourselves out over own
same she should so some such than that the their theirs them themselves then there these they this
those through to too under until up very was we were what when where which while who whom why will
with would you your yours yourself yourselves
"""
ENGLISH = frozenset(_WORDS.split())
MOST_DOCUMENTS = 2**53


class HashingTokenizer(BaseEstimator):
    """Rows of weighted, hashed terms from documents.

    Parameters
    ----------
    bits : int, default=20
        There are ``2**bits`` columns, 1 to 30.
    ngrams : (int, int), default=(1, 1)
        Shortest and longest n-gram of words, or of characters.
    signed : bool, default=True
        Give each column a sign by its hash, so that collisions cancel on average.
    tf : {"log", "count", "binary"}, default="log"
        What a term counts for: 1 + log(count), its count, or 1.
    idf : bool, default=True
        Multiply by ``ln((1 + N)/(1 + df)) + 1``, where df of the N documents counted so far
        hold the column.
    norm : bool, default=True
        Scale each row to unit Euclidean length.
    lowercase : bool, default=True
        Fold case first.
    min_length : int, default=2
        Characters in the shortest word.
    analyzer : {"word", "char"}, default="word"
        Whether terms are n-grams of words or of characters.
    stop_words : "english" or list of str, optional
        Words to leave out.
    keep_terms : bool, default=False
        Remember the first term of each column while counting, for `terms`.

    Attributes
    ----------
    n_documents_ : int
        Documents counted so far.
    n_features : int
        ``2**bits``.

    Examples
    --------
    >>> from osvm.stream import HashingTokenizer
    >>> tokenizer = HashingTokenizer(bits=10, keep_terms=True)
    >>> X = tokenizer.fit_transform(["the film", "the play"])
    >>> X.shape
    (2, 1024)
    >>> column, sign = tokenizer.column("film")
    >>> float(abs(X[0, column])) > float(abs(X[0, tokenizer.column("the")[0]]))
    True
    >>> tokenizer.terms([column])
    ['film']
    """

    def __init__(
        self,
        bits: int = 20,
        ngrams: tuple[int, int] = (1, 1),
        signed: bool = True,
        tf: str = "log",
        idf: bool = True,
        norm: bool = True,
        lowercase: bool = True,
        min_length: int = 2,
        *,
        analyzer: str = "word",
        stop_words: Any = None,
        keep_terms: bool = False,
    ) -> None:
        self.bits = bits
        self.ngrams = ngrams
        self.signed = signed
        self.tf = tf
        self.idf = idf
        self.norm = norm
        self.lowercase = lowercase
        self.min_length = min_length
        self.analyzer = analyzer
        self.stop_words = stop_words
        self.keep_terms = keep_terms
        self.hasher = self._make_hasher()

    def _make_hasher(self) -> TermHasher:
        """The compiled part of the parameters as they are, nothing counted."""
        _check_count("bits", self.bits, 1, 30)
        _check_count("min_length", self.min_length, 1, 1 << 20)
        for name in ("signed", "idf", "norm", "lowercase", "keep_terms"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if self.tf not in TF:
            raise ValueError(f"tf must be one of {sorted(TF)}, got {self.tf!r}")
        if self.analyzer not in ANALYZERS:
            raise ValueError(f"analyzer must be one of {ANALYZERS}, got {self.analyzer!r}")
        low, high = _pair(self.ngrams)
        if not 1 <= low <= high <= 100:
            raise ValueError(f"ngrams must be (shortest, longest), got {self.ngrams!r}")
        stop_words = self._stop_list()
        if stop_words and self.analyzer == "char":
            raise ValueError("stop_words must be None with analyzer='char', which has no words")
        return TermHasher(
            bits=self.bits,
            ngrams=(low, high),
            signed=self.signed,
            tf=self.tf,
            idf=self.idf,
            norm=self.norm,
            lowercase=self.lowercase,
            min_length=self.min_length,
            characters=self.analyzer == "char",
            stop_words=stop_words,
            keep_terms=self.keep_terms,
        )

    def _stop_list(self) -> list[str]:
        given = self.stop_words
        if given is None:
            return []
        if isinstance(given, str):
            if given != "english":
                raise ValueError(f"stop_words must be 'english' or a list, got {given!r}")
            return sorted(ENGLISH)
        words = list(given)
        if not all(isinstance(word, str) for word in words):
            raise ValueError("stop_words must be a list of str")
        # what the tokenizer itself makes of them
        return sorted({word.lower() if self.lowercase else word for word in words} - {""})

    def set_params(self, **params: Any) -> HashingTokenizer:
        """Set parameters; what was counted is forgotten unless they stay the same."""
        before = self.config()
        super().set_params(**params)
        try:
            if self.config() != before:
                self.hasher = self._make_hasher()
        except (TypeError, ValueError):
            super().set_params(**before)
            raise
        return self

    def config(self) -> dict[str, Any]:
        """The parameters as something JSON can hold, for `HashingTokenizer(**config)`."""
        config = self.get_params(deep=False)
        config["ngrams"] = list(_pair(self.ngrams))
        if not isinstance(self.stop_words, str | None):
            config["stop_words"] = sorted(self.stop_words)
        return {name: _plain(value) for name, value in config.items()}

    # ---------------------------------------------------------------- counting

    @property
    def n_features(self) -> int:
        return 1 << self.bits

    @property
    def n_documents_(self) -> int:
        return self.hasher.n_documents

    def fit(self, X: Iterable[Any], y: Any = None) -> HashingTokenizer:
        """Count the documents of X, and no others.

        Parameters
        ----------
        X : iterable of str or bytes
        y : ignored

        Returns
        -------
        self
        """
        fresh = self._make_hasher()
        _add_all(fresh, X, counting=True)
        self.hasher = fresh
        return self

    def partial_fit(self, X: Iterable[Any], y: Any = None) -> HashingTokenizer:
        """Count the documents of X beside those counted before.

        Parameters
        ----------
        X : iterable of str or bytes
        y : ignored

        Returns
        -------
        self
        """
        documents = list(_check_documents(X))
        for document in documents:  # before anything is counted
            check_document(document)
        _add_all(self.hasher, documents, counting=True)
        return self

    def transform(self, X: Iterable[Any], dtype: Any = "float32") -> csr_array:
        """A CSR matrix with one row per document, weighed by what has been counted.

        Parameters
        ----------
        X : iterable of str or bytes
        dtype : float32 or float64

        Returns
        -------
        csr_array, shape (documents, 2**bits)
        """
        self._check_counted()
        return self._matrix(_add_all(self.hasher, X), dtype)

    def fit_transform(self, X: Iterable[Any], y: Any = None, dtype: Any = "float32") -> csr_array:
        """`fit`, then `transform`, tokenizing once.

        Parameters
        ----------
        X : iterable of str or bytes
        y : ignored
        dtype : float32 or float64

        Returns
        -------
        csr_array, shape (documents, 2**bits)
        """
        fresh = self._make_hasher()
        builder = _add_all(fresh, X, counting=True, raw=True)
        self.hasher = fresh
        return self.weigh(self._matrix(builder, dtype))

    def weigh(self, X: csr_array) -> csr_array:
        """Turn rows of signed counts into weights by the documents counted so far, in place."""
        indices = np.ascontiguousarray(X.indices, dtype=np.int32)
        self.hasher.weigh(indices, X.indptr.astype(np.int64, copy=False), X.data)
        return X

    def read_rows(self, documents: Iterable[Any], dtype: Any) -> csr_array:
        """For readers: rows that are counted and weighed as `hasher` is set."""
        builder = CsrBuilder()
        for document in documents:
            self.hasher.add(builder, document)
        return self._matrix(builder, dtype)

    def transform_named(self, examples: Iterable[Mapping[str, Any]]) -> csr_array:
        """Rows from dictionaries of names to numbers (or text: ``name=text`` counts 1).

        A name is a term as it stands; its number takes the place of the term's count.
        """
        self._check_counted()
        rows = [self.columns_of(features) for features in examples]
        ends = np.cumsum([0, *(len(columns) for columns, _ in rows)])
        columns = np.concatenate([np.empty(0, np.int32), *(row[0] for row in rows)])
        values = np.concatenate([np.empty(0), *(row[1] for row in rows)])
        return csr_array((values, columns, ends), shape=(len(rows), self.n_features))

    def columns_of(self, features: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Column numbers and values of one example of named features."""
        self._check_counted()
        for name in () if set(map(type, features)) <= {str} else features:
            if not isinstance(name, str):
                raise TypeError(
                    f"a feature is named {name!r}: features of one example are column numbers, "
                    "or names (str)"
                )
        builder = CsrBuilder()
        self.hasher.add_named(builder, features)
        values, columns, _ = builder.take("float64")
        return columns, values

    def _check_counted(self) -> None:
        if self.idf and not self.hasher.n_documents:
            raise not_fitted_error()(
                "This HashingTokenizer has counted no documents, which idf=True needs: call fit "
                "or partial_fit first, or use HashingTokenizer(idf=False)."
            )

    def _matrix(self, builder: CsrBuilder, dtype: Any) -> csr_array:
        values, indices, indptr = builder.take(dtype)
        return csr_array((values, indices, indptr), shape=(len(indptr) - 1, self.n_features))

    # ------------------------------------------------------------------- terms

    def tokens(self, document: Any) -> list[str]:
        """The terms of one document, n-grams too, in the order in which they are counted."""
        return self.hasher.tokens(document)

    def column(self, term: Any) -> tuple[int, int]:
        """(column, sign) of one term as it is after tokenizing."""
        return self.hasher.column(term)

    def terms(self, columns: Iterable[int]) -> list[str | None]:
        """The first term that each column was counted for; None where none was kept."""
        return [self.hasher.term(column) for column in columns]

    def signed_terms(self, columns: Iterable[int]) -> list[tuple[str | None, int]]:
        """The term of each column as `terms` gives it, and its sign in the column.

        The weight of a term is its sign times that of the column.  The sign of a term that was
        cut is not known: it counts as one that was not kept.
        """
        found: list[tuple[str | None, int]] = []
        for column, term in [(int(j), self.hasher.term(j)) for j in columns]:
            at, sign = (None, 1) if term is None else self.hasher.column(term)
            found.append((term, sign) if at == column else (None, 1))
        return found

    # ------------------------------------------------------------------- state

    def merge(
        self, *others: HashingTokenizer, base: HashingTokenizer | None = None
    ) -> HashingTokenizer:
        """Count what other tokenizers with the same parameters have counted.

        Parameters
        ----------
        *others : HashingTokenizer
        base : HashingTokenizer, optional
            That all of them went on from: its documents count once.

        Returns
        -------
        self
        """
        mine = self.config()
        start = [] if base is None else [base]
        for other in [*others, *start]:
            if other.config() != mine:
                raise ValueError("only tokenizers with the same parameters can be merged")
        if any(other.n_documents_ < one.n_documents_ for other in others for one in start):
            raise ValueError("a tokenizer has counted fewer documents than the base")
        for other in others:
            self.hasher.set_counts(other.n_documents_, *other.hasher.get_counts(), add=True)
            for one in start:
                columns, counts = one.hasher.get_counts()
                self.hasher.set_counts(
                    -one.n_documents_, columns, -counts.astype(np.int64), add=True
                )
            self.hasher.set_terms(*other.hasher.get_terms())
        return self

    def keep_terms_from_now_on(self) -> None:
        """Set `keep_terms` without forgetting what was counted."""
        if not self.keep_terms:
            scalars, arrays = self.get_state()
            self.keep_terms = True
            arrays["term_columns"] = np.empty(0, np.int32)
            arrays["terms"] = np.empty(0, np.uint8)
            self.set_state(scalars, arrays)

    def set_term(self, column: int, term: str) -> None:
        """Keep this term for a column that has none."""
        text = term.encode()[:255]
        self.hasher.set_terms([column], bytes([len(text)]) + text)

    def keep_only(self, columns: Iterable[int]) -> None:
        """Forget the terms of all columns but these."""
        kept = sorted(columns)
        terms = self.terms(kept)
        self.hasher.forget_terms()
        for column, term in zip(kept, terms):
            if term is not None:
                self.set_term(column, term)

    def get_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What was counted: numbers that JSON can hold, and arrays by name."""
        columns, frequencies = self.hasher.get_counts()
        arrays = {"columns": columns, "documents": frequencies}
        if self.keep_terms:
            term_columns, terms = self.hasher.get_terms()
            arrays |= {"term_columns": term_columns, "terms": np.frombuffer(terms, np.uint8)}
        return {"n_documents": self.n_documents_}, arrays

    def set_state(self, scalars: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Put back what `get_state` gave, checked."""
        size = {name: len(array) for name, array in arrays.items()}
        last = self.n_features - 1
        fields = {
            "columns": ArrayField((size.get("columns", 0),), np.int32, 0, last),
            "documents": ArrayField((size.get("columns", 0),), np.uint32, 0, 2**32 - 1),
        }
        if self.keep_terms:
            fields["term_columns"] = ArrayField((size.get("term_columns", 0),), np.int32, 0, last)
            fields["terms"] = ArrayField((size.get("terms", 0),), np.uint8, 0, 255)
        rules: Any = (
            (lambda s, a: _rises(a["columns"]), "columns are not in order"),
            (lambda s, a: _rises(a.get("term_columns")), "columns are not in order"),
            (lambda s, a: self.idf or not len(a["columns"]), "document frequencies without idf"),
            (
                lambda s, a: int(a["documents"].max(initial=0)) <= s["n_documents"],
                "a column is in more documents than there are",
            ),
        )
        schema = Schema(
            "tokenizer", {"n_documents": Field("int", 0, MOST_DOCUMENTS)}, fields, rules
        )
        schema.check(scalars, arrays)
        fresh = self._make_hasher()
        fresh.set_counts(scalars["n_documents"], arrays["columns"], arrays["documents"])
        if self.keep_terms:
            fresh.set_terms(arrays["term_columns"].tolist(), arrays["terms"].tobytes())
        self.hasher = fresh

    def __getstate__(self) -> dict[str, Any]:
        return {"params": self.get_params(deep=False), "state": self.get_state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["params"])  # type: ignore[misc]
        self.set_state(*state["state"])

    def __sklearn_is_fitted__(self) -> bool:
        return not self.idf or self.n_documents_ > 0

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        tags.requires_fit = self.idf
        return tags


def make_tokenizer(tokenizer: HashingTokenizer | dict | None) -> HashingTokenizer:
    """A tokenizer from its parameters, or the one that is given."""
    if tokenizer is None:
        return HashingTokenizer()
    if isinstance(tokenizer, dict):
        return HashingTokenizer(**tokenizer)
    return tokenizer


def _check_documents(documents: Any) -> Any:
    if isinstance(documents, str | bytes):
        raise TypeError("an iterable of documents is expected, not one string: write [document]")
    if isinstance(documents, Mapping):
        raise TypeError("an iterable of documents is expected, not a dict: see transform_named")
    return documents


def _add_all(
    hasher: TermHasher, documents: Any, *, counting: bool = False, raw: bool = False
) -> CsrBuilder:
    """The rows of all documents."""
    builder = CsrBuilder()
    for document in _check_documents(documents):
        hasher.add_as(builder, document, counting, raw)
    return builder


def _check_count(name: str, value: Any, low: int, high: int | None = None) -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        limits = f"at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"{name} must be a whole number, {limits}; got {value!r}")


def _pair(ngrams: Any) -> tuple[int, int]:
    try:
        low, high = ngrams
        return int(low), int(high)
    except (TypeError, ValueError):
        raise ValueError(f"ngrams must be (shortest, longest), got {ngrams!r}") from None


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _rises(columns: np.ndarray | None) -> bool:
    return columns is None or bool((np.diff(columns.astype(np.int64)) > 0).all())
