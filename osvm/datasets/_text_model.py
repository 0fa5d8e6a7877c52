"""Generated text: sparse rows that behave like RCV1, at any size, from a seed.

A document is a bag of tokens from a topic model that needs no tables, so that
memory does not grow with the number of features:

- ranks follow a Zipf-Mandelbrot law p(r) ~ 1/(r + Q), drawn by inverting its
  distribution function; the columns of a rank are scattered over the matrix,
  because a real vocabulary is not sorted by frequency;
- a share of a document's tokens is topical: the rank is moved, inside a block
  of ranks of about the same frequency, to the member that the topic prefers.
  The law of the ranks is hardly changed by that, so the inverse document
  frequency of a rank is known in closed form;
- every document has a main topic, which belongs to its class, and a second one
  of any class; how topical it is, and how much of that is its main topic,
  varies from document to document.  That, and a few wrong labels, make the
  error of the best linear rule.

Values are (1 + log count) * idf, rows have unit norm, columns are sorted.

Invariants: rows are made in blocks of BLOCK, each with its own generator
seeded by (seed, part, block).  Row i therefore depends on the seed alone, not on
how many rows are asked for or in which chunks, as long as classes are mixed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

BLOCK = 2048  # rows made at once; one block's tokens about fill a core's cache
Q = 20.0  # offset of the Zipf-Mandelbrot law of all tokens
Q_TOPIC = 60.0  # the same for topical tokens: topics rarely speak through the commonest words
GROUP = 64  # ranks among which a topic has its favorite
LENGTH_SPREAD = 0.55  # standard deviation of log(document length)
TRAIN, TEST, PILOT = 0, 1, 2  # parts of a problem: independent rows of the same model


@dataclass(frozen=True)
class TextModel:
    """What the documents of one problem have in common."""

    n_features: int
    nnz: int
    n_classes: int
    topics_per_class: int
    seed: int
    label_noise: float
    topical: tuple[float, float]  # Beta parameters of the topical share of the tokens
    purity: float  # least share of the main topic among the topical tokens
    stride: int  # column = (rank * stride) mod n_features
    inverse: int  # rank = (column * inverse) mod n_features
    tokens: float  # mean number of tokens drawn to get `nnz` distinct ones
    parents: tuple[int, ...] | None = None  # a label tree: parent of each node, -1 at the root

    @property
    def n_topics(self) -> int:
        return self.n_classes * self.topics_per_class


def coprime_stride(n: int) -> int:
    """A multiplier prime to n near n / golden ratio: scatters ranks over columns."""
    stride = max(1, round(n * 0.6180339887498949))
    while math.gcd(stride, n) != 1:
        stride += 1
    return stride % n if n > 1 else 1


def make_model(
    n_features: int,
    nnz: int,
    n_classes: int,
    seed: int,
    *,
    topics_per_class: int | None = None,
    label_noise: float = 0.025,
    topical: tuple[float, float] = (3.0, 4.0),
    purity: float = 0.6,
    parents: tuple[int, ...] | None = None,
) -> TextModel:
    """Check the sizes and find how many tokens give `nnz` non-zeros a row."""
    if n_features < 2:
        raise ValueError(f"n_features must be at least 2, got {n_features}")
    if n_features > 2**40:
        raise ValueError(f"n_features must be at most 2**40, got {n_features}")
    if n_classes < 2:
        raise ValueError(f"n_classes must be at least 2, got {n_classes}")
    if nnz < 1 or nnz > 0.6 * n_features:
        raise ValueError(
            f"nnz={nnz} non-zeros a row do not fit {n_features} features: "
            "ask for at most 0.6 * n_features"
        )
    if not 0 <= label_noise < 0.5:
        raise ValueError(f"label_noise must be in [0, 0.5), got {label_noise}")
    if topics_per_class is None:
        topics_per_class = max(2, 16 // n_classes)
    stride = coprime_stride(n_features)
    inverse = pow(stride, -1, n_features) if n_features > 1 else 0

    def model(tokens: float) -> TextModel:
        return TextModel(
            n_features,
            nnz,
            n_classes,
            topics_per_class,
            seed,
            label_noise,
            topical,
            purity,
            stride,
            inverse,
            tokens,
            parents,
        )

    # Repeated tokens fall together, so more than nnz are needed.  Pilot rows
    # (a part of their own) tell how many.
    tokens = 1.3 * nnz
    for _ in range(20):
        indptr = make_block(model(tokens), part=PILOT, block=0, n_rows=BLOCK)[0]
        got = indptr[-1] / BLOCK
        if abs(got / nnz - 1) < 0.005:
            break
        tokens *= (nnz / got) ** 1.2
    return model(tokens)


def draw_ranks(rng: np.random.Generator, n: int, n_features: int, q: float) -> np.ndarray:
    """n ranks with p(r) ~ 1/(r + q), by inversion: r = q ((D + q)/q)^u - q."""
    u = rng.random(n)
    u *= math.log1p(n_features / q)
    np.expm1(u, out=u)
    u *= q
    ranks = u.astype(np.int64)
    return np.minimum(ranks, n_features - 1, out=ranks)


def prefer(ranks: np.ndarray, topics: np.ndarray, n_features: int) -> np.ndarray:
    """Move each rank to its topic's favorite in the same block of ranks."""
    group = min(GROUP, max(2, n_features // 4))
    blocks = ranks // group
    mixed = blocks.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed += (topics.astype(np.uint64) + np.uint64(1)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed >>= np.uint64(33)
    mixed %= np.uint64(group)
    blocks *= group
    blocks += mixed.astype(np.int64)
    return np.minimum(blocks, n_features - 1, out=blocks)


def inverse_document_frequency(ranks: np.ndarray, model: TextModel) -> np.ndarray:
    """log(1 / P(a document has the word)), at least 0.1, from the law of the ranks."""
    r = ranks.astype(np.float64)
    r += Q
    expected = model.tokens / math.log1p(model.n_features / Q)  # tokens of rank r: expected/(r+Q)
    np.divide(expected, r, out=r)
    np.negative(r, out=r)
    np.expm1(r, out=r)  # -P(at least one)
    np.negative(r, out=r)
    np.log(r, out=r)
    np.negative(r, out=r)
    r += 0.1
    return r


def make_block(
    model: TextModel,
    part: int,
    block: int,
    n_rows: int,
    classes: np.ndarray | None = None,
    dtype: type = np.float32,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One block of documents: (indptr, columns, values, class of each row)."""
    seeds = np.random.SeedSequence(model.seed, spawn_key=(part, block))
    # One generator per quantity: a short block then starts like a full one.
    rng, rng_kind, rng_rank, rng_topical, rng_up = map(np.random.default_rng, seeds.spawn(5))
    drawn = rng.integers(model.n_classes, size=BLOCK)
    if classes is not None:
        drawn[:n_rows] = classes
    # The class whose words the document uses is another one for wrong labels.
    speaks = drawn.copy()
    wrong = rng.random(BLOCK) < model.label_noise
    speaks[wrong] += rng.integers(1, model.n_classes, size=BLOCK)[wrong]
    speaks %= model.n_classes
    main = speaks + model.n_classes * rng.integers(model.topics_per_class, size=BLOCK)
    second = rng.integers(model.n_topics, size=BLOCK)
    topical = rng.beta(*model.topical, size=BLOCK)
    purity = model.purity + (1 - model.purity) * rng.random(BLOCK)
    lengths = rng.lognormal(-0.5 * LENGTH_SPREAD**2, LENGTH_SPREAD, size=BLOCK)[:n_rows]
    n_tokens = np.maximum(1, np.rint(lengths * model.tokens)).astype(np.int64)
    rows = np.repeat(np.arange(n_rows), n_tokens)
    n = rows.size
    # A token's kind: background below 1 - topical, then the main topic, then the second.
    u = rng_kind.random(n)
    special = np.flatnonzero(u >= (1 - topical)[rows])
    owner = rows[special]
    of_main = u[special] < (1 - topical * (1 - purity))[owner]
    topics = np.where(of_main, main[owner], second[owner])
    if model.parents is not None:
        topics = climb(topics, rng_up.geometric(0.4, size=topics.size) - 1, model)
    ranks = draw_ranks(rng_rank, n, model.n_features, Q)
    ranks[special] = prefer(
        draw_ranks(rng_topical, special.size, model.n_features, Q_TOPIC), topics, model.n_features
    )
    columns = ranks
    columns *= model.stride
    columns %= model.n_features
    columns += rows * model.n_features
    if n_rows * model.n_features < 2**32:
        columns = columns.astype(np.uint32)  # sorts twice as fast
    columns.sort()
    first = np.empty(n, bool)
    first[0] = True
    np.not_equal(columns[1:], columns[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    counts = np.diff(starts, append=n)
    keys = columns[starts].astype(np.int64)
    owner = keys // model.n_features
    keys -= owner * model.n_features
    indptr = np.zeros(n_rows + 1, np.int64)
    np.cumsum(np.bincount(owner, minlength=n_rows), out=indptr[1:])
    values = inverse_document_frequency((keys * model.inverse) % model.n_features, model)
    values *= 1 + np.log(counts)
    norms = np.sqrt(np.add.reduceat(values * values, indptr[:-1]))
    values /= norms[owner]
    return indptr, keys, values.astype(dtype), drawn[:n_rows]


def climb(topics: np.ndarray, levels: np.ndarray, model: TextModel) -> np.ndarray:
    """The node that speaks: `levels` steps above the topic's leaf, below the root."""
    parents = np.asarray(model.parents)
    leaves = np.setdiff1d(np.arange(parents.size), parents)
    nodes = leaves[topics % model.n_classes]
    for level in range(1, int(levels.max(initial=0)) + 1):
        above = parents[nodes]
        up = (levels >= level) & (parents[above] >= 0)
        if not up.any():
            break
        nodes[up] = above[up]
    return nodes


def sorted_classes(model: TextModel, start: int, stop: int, n_rows: int) -> np.ndarray:
    """Class of rows start..stop when n_rows rows are sorted by class, in equal parts."""
    return np.arange(start, stop) * model.n_classes // n_rows


def iterate_blocks(
    model: TextModel, part: int, n_rows: int, dtype: type, by_class: bool
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """All blocks of a part, the last one short."""
    for block, start in enumerate(range(0, n_rows, BLOCK)):
        stop = min(start + BLOCK, n_rows)
        classes = sorted_classes(model, start, stop, n_rows) if by_class else None
        yield make_block(model, part, block, stop - start, classes, dtype)


def iterate_chunks(
    model: TextModel,
    blocks: Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]],
    n_rows: int,
    chunk_rows: int,
) -> Iterator[tuple[sparse.csr_array, np.ndarray]]:
    """Gather blocks, or parts of them, into matrices of `chunk_rows` rows.

    Memory is one chunk and one block.
    """
    index_type = index_dtype(model, min(n_rows, chunk_rows))
    indptr = columns = values = classes = np.empty(0, np.int64)  # the block in hand
    taken = 0  # rows of it that were used
    for first in range(0, n_rows, chunk_rows):
        rows = min(chunk_rows, n_rows - first)
        capacity = int(rows * model.nnz * 1.03) + 4096
        chunk_values = None
        chunk_columns: np.ndarray = np.empty(capacity, index_type)
        chunk_indptr: np.ndarray = np.zeros(rows + 1, index_type)
        chunk_classes = np.empty(rows, np.int64)
        row = end = 0
        while row < rows:
            if taken == classes.size:
                indptr, columns, values, classes = next(blocks)
                taken = 0
            if chunk_values is None:
                chunk_values = np.empty(capacity, values.dtype)
            n = min(rows - row, classes.size - taken)
            low, high = indptr[taken], indptr[taken + n]
            size = high - low
            if end + size > chunk_values.size:
                chunk_values.resize(int(1.1 * (end + size)), refcheck=False)
                chunk_columns.resize(chunk_values.size, refcheck=False)
            chunk_values[end : end + size] = values[low:high]
            chunk_columns[end : end + size] = columns[low:high]
            chunk_indptr[row + 1 : row + n + 1] = indptr[taken + 1 : taken + n + 1] - low + end
            chunk_classes[row : row + n] = classes[taken : taken + n]
            row += n
            end += size
            taken += n
        assert chunk_values is not None
        chunk_values.resize(end, refcheck=False)
        chunk_columns.resize(end, refcheck=False)
        yield as_csr(chunk_values, chunk_columns, chunk_indptr, model.n_features), chunk_classes


def make_part(
    model: TextModel, part: int, n_rows: int, dtype: type, by_class: bool = False
) -> tuple[sparse.csr_array, np.ndarray]:
    """A whole part as one matrix; memory is the matrix and one block."""
    if n_rows == 0:
        nothing = np.zeros(1, np.int32)
        return as_csr(np.empty(0, dtype), nothing[:0], nothing, model.n_features), nothing[:0]
    blocks = iterate_blocks(model, part, n_rows, dtype, by_class)
    return next(iterate_chunks(model, blocks, n_rows, n_rows))


def as_csr(
    values: np.ndarray, columns: np.ndarray, indptr: np.ndarray, n_features: int
) -> sparse.csr_array:
    """The arrays as a matrix, without a copy; columns are sorted and distinct."""
    X = sparse.csr_array((indptr.size - 1, n_features), dtype=values.dtype)
    X.data, X.indices, X.indptr = values, columns, indptr
    X.has_sorted_indices = True
    X.has_canonical_format = True
    return X


def index_dtype(model: TextModel, n_rows: int) -> type:
    """int32 where columns and non-zeros fit, with room for longer rows than expected."""
    return np.int32 if max(1.2 * n_rows * model.nnz, model.n_features) < 2**31 else np.int64
