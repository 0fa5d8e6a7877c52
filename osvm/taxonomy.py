"""Label graphs: how far apart two labels are, and how alike.

Follows Vishwanathan, Schraudolph, Smola (JMLR 2006), sections 3.3 and 6.3.  Of a tree,

- the distance D(y, y') is half the number of ancestors that only one of them has (65);
- the similarity kappa(y, y') is the number of ancestors that they share (68);

where every node is its own ancestor. D is the length of the path between the two nodes
with edges of 1/2, so that sisters are 1 apart.  A general graph gives D as the weighted
shortest path.  Either can be replaced by a matrix of one's own.

Invariants

- A taxonomy is immutable, compares equal by its contents, and `config()` is plain JSON.
- `labels` are the nodes that serve as classes, in the order of the matrices' rows; any
  other choice can be asked for.
- D has a zero diagonal and is symmetric; kappa is symmetric and positive semi-definite.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Taxonomy", "from_config", "from_edges", "from_matrix", "from_parents", "from_paths"]


@dataclass(frozen=True, repr=False)
class Taxonomy:
    """A graph over labels; make one with `from_parents`, `from_paths`, `from_edges` or
    `from_matrix`.

    Attributes
    ----------
    nodes : tuple
        Names of all nodes.
    labels : tuple
        Names of the nodes that are classes.
    parents : tuple of int or None
        Of a tree: number of each node's parent, -1 for a root.
    edges : tuple of (int, int, float) or None
        Of a graph: the two nodes' numbers and the length.
    delta, kappa : tuple of tuples or None
        Distances and similarities given as matrices over `labels`.
    """

    nodes: tuple[Hashable, ...]
    labels: tuple[Hashable, ...]
    parents: tuple[int, ...] | None = None
    edges: tuple[tuple[int, int, float], ...] | None = None
    delta: tuple[tuple[float, ...], ...] | None = None
    kappa: tuple[tuple[float, ...], ...] | None = None

    def __repr__(self) -> str:
        sort = "tree" if self.parents else "graph" if self.edges else "matrix"
        return f"Taxonomy({sort}, {len(self.nodes)} nodes, {len(self.labels)} labels)"

    # ---------------------------------------------------------------- queries

    @property
    def leaves(self) -> tuple[Hashable, ...]:
        """The nodes of a tree that are nobody's parent."""
        if self.parents is None:
            raise ValueError("only a tree has leaves")
        inner = set(self.parents)
        return tuple(node for i, node in enumerate(self.nodes) if i not in inner)

    def distances(self, labels: Iterable[Any] | None = None) -> NDArray[np.float64]:
        """D between the labels (by default `self.labels`), shape (K, K)."""
        if self.delta is not None:
            return self._pick(self.delta, labels)
        numbers = self._numbers(labels)
        if self.parents is not None:
            common = self._common_ancestors(numbers)
            depth = np.diagonal(common)
            return 0.5 * (depth[:, None] + depth[None, :] - 2.0 * common)
        return self._shortest_paths(numbers)

    def kernel(self, labels: Iterable[Any] | None = None) -> NDArray[np.float64]:
        """kappa between the labels (by default `self.labels`), shape (K, K)."""
        if self.kappa is not None:
            return self._pick(self.kappa, labels)
        if self.parents is None:
            raise ValueError(
                "a label kernel counts common ancestors, which only a tree has; "
                "give one with with_kernel(matrix)"
            )
        return self._common_ancestors(self._numbers(labels))

    def select(self, labels: Iterable[Any]) -> Taxonomy:
        """The same graph with other labels, in this order."""
        chosen = tuple(_plain(label) for label in labels)
        _check_unique(chosen, "label")
        self._numbers(chosen)
        nodes, delta, kappa = self.nodes, self.delta, self.kappa
        if delta is not None:
            nodes, delta = chosen, _as_tuples(self._pick(delta, chosen))
        if kappa is not None:
            kappa = _as_tuples(self._pick(kappa, chosen))
        return dataclasses.replace(self, nodes=nodes, labels=chosen, delta=delta, kappa=kappa)

    def with_kernel(self, matrix: ArrayLike) -> Taxonomy:
        """The same graph with a label kernel of one's own, over `self.labels`."""
        return dataclasses.replace(self, kappa=_check_kernel(matrix, len(self.labels)))

    def config(self) -> dict[str, Any]:
        """The taxonomy as a dictionary that JSON can hold."""
        return {
            "nodes": list(self.nodes),
            "labels": list(self.labels),
            "parents": None if self.parents is None else list(self.parents),
            "edges": None if self.edges is None else [list(edge) for edge in self.edges],
            "delta": None if self.delta is None else [list(row) for row in self.delta],
            "kappa": None if self.kappa is None else [list(row) for row in self.kappa],
        }

    @staticmethod
    def from_config(config: dict[str, Any]) -> Taxonomy:
        """The taxonomy that `config()` described, checked again."""
        keys = {"nodes", "labels", "parents", "edges", "delta", "kappa"}
        if not isinstance(config, dict) or set(config) != keys:
            raise ValueError(f"a taxonomy's config is a dictionary with the keys {sorted(keys)}")
        try:
            return _read_config(**config)
        except (TypeError, IndexError, OverflowError) as error:
            raise ValueError(f"a taxonomy's config is malformed: {error}") from error

    # ---------------------------------------------------------------- details

    def _numbers(self, labels: Iterable[Any] | None) -> NDArray[np.intp]:
        """Node numbers of the labels."""
        place = {node: i for i, node in enumerate(self.nodes)}
        chosen = self.labels if labels is None else [_plain(label) for label in labels]
        for label in chosen:
            if label not in place:
                raise ValueError(
                    f"label {label!r} is not in the taxonomy; it has {len(place)} nodes: "
                    f"{list(self.nodes[:5])!r}{' ...' if len(place) > 5 else ''}"
                )
        return np.array([place[label] for label in chosen], dtype=np.intp)

    def _pick(self, matrix: Sequence[Sequence[float]], labels: Any) -> NDArray[np.float64]:
        """Rows and columns of a matrix over `self.labels`."""
        full = np.array(matrix, dtype=np.float64)
        if labels is None:
            return full
        place = {label: i for i, label in enumerate(self.labels)}
        chosen = [_plain(label) for label in labels]
        for label in chosen:
            if label not in place:
                raise ValueError(f"label {label!r} is not among the matrix's labels")
        order = [place[label] for label in chosen]
        return full[np.ix_(order, order)]

    def _common_ancestors(self, numbers: NDArray[np.intp]) -> NDArray[np.float64]:
        """How many ancestors each pair shares, itself included."""
        from scipy.sparse import csr_array

        assert self.parents is not None
        columns: list[int] = []
        starts = [0]
        for number in numbers:
            node = int(number)
            while node >= 0:
                columns.append(node)
                node = self.parents[node]
            starts.append(len(columns))
        shape = (len(numbers), len(self.nodes))
        ancestors = csr_array((np.ones(len(columns)), columns, starts), shape=shape)
        return (ancestors @ ancestors.T).toarray()

    def _shortest_paths(self, numbers: NDArray[np.intp]) -> NDArray[np.float64]:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import dijkstra

        assert self.edges is not None
        n = len(self.nodes)
        first = [a for a, _, _ in self.edges]
        second = [b for _, b, _ in self.edges]
        length = [w for _, _, w in self.edges]
        graph = coo_array((length, (first, second)), shape=(n, n)).tocsr()
        paths = dijkstra(graph, directed=False, indices=numbers)[:, numbers]
        if not np.isfinite(paths).all():
            i, j = np.argwhere(~np.isfinite(paths))[0]
            raise ValueError(
                f"no path joins {self.nodes[numbers[i]]!r} and {self.nodes[numbers[j]]!r}; "
                "add an edge or leave one of the labels out"
            )
        return np.minimum(paths, paths.T)  # the two directions may round differently


# ---------------------------------------------------------------- constructors


def from_parents(
    parents: Sequence[Any] | NDArray[Any],
    names: Iterable[Any] | None = None,
    labels: Iterable[Any] | None = None,
) -> Taxonomy:
    """A tree, or several, from the number of each node's parent.

    Parameters
    ----------
    parents : sequence of int
        -1 marks a root.
    names : sequence, optional
        Name of each node; by default its number.
    labels : sequence, optional
        Names of the nodes that are classes; by default all nodes.

    Examples
    --------
    >>> from osvm.taxonomy import from_parents
    >>> tree = from_parents([-1, 0, 0, 1], ["root", "a", "b", "a.x"])
    >>> tree.distances(["a", "b", "a.x"])
    array([[0. , 1. , 0.5],
           [1. , 0. , 1.5],
           [0.5, 1.5, 0. ]])
    >>> tree.kernel(["a", "b", "a.x"])
    array([[2., 1., 2.],
           [1., 2., 1.],
           [2., 1., 3.]])
    """
    numbers = [_plain(parent) for parent in parents]
    n = len(numbers)
    if n == 0:
        raise ValueError("a taxonomy needs at least one node")
    for node, parent in enumerate(numbers):
        if not isinstance(parent, int) or isinstance(parent, bool) or not -1 <= parent < n:
            raise ValueError(
                f"node {node} has parent {parent!r}; expected -1 or a number below {n}"
            )
    state = [0] * n  # 0 not seen, 1 on the way up, 2 known to reach a root
    for start in range(n):
        way = []
        node = start
        while node >= 0 and state[node] == 0:
            state[node] = 1
            way.append(node)
            node = numbers[node]
        if node >= 0 and state[node] == 1:
            raise ValueError(f"node {node} is its own ancestor: the parents form a cycle")
        for passed in way:
            state[passed] = 2
    nodes = _check_names(range(n) if names is None else names, n)
    tree = Taxonomy(nodes=nodes, labels=nodes, parents=tuple(numbers))
    return tree if labels is None else tree.select(labels)


def from_paths(paths: Iterable[str], sep: str = "/", *, root: bool = True) -> Taxonomy:
    """A tree from paths such as ``"D/05/C"``; the paths are the labels.

    Parameters
    ----------
    paths : iterable of str
        Each prefix of a path is a node of the tree, under the same name.
    sep : str, default "/"
        Parts the steps of a path; ``"."`` for newsgroup names.
    root : bool, default True
        Put everything under one root, named ``""``, which all labels then share as an
        ancestor.

    Examples
    --------
    >>> from osvm.taxonomy import from_paths
    >>> tree = from_paths(["D/05/C", "D/05/B", "D/21/F"])
    >>> tree.distances()
    array([[0., 1., 2.],
           [1., 0., 2.],
           [2., 2., 0.]])
    >>> tree.kernel()
    array([[4., 3., 2.],
           [3., 4., 2.],
           [2., 2., 4.]])
    """
    if isinstance(paths, str):
        raise TypeError("paths must be several strings, not one")
    if not isinstance(sep, str) or not sep:
        raise ValueError("sep must be a non-empty string")
    labels = tuple(_plain(path) for path in paths)
    _check_unique(labels, "path")
    place: dict[str, int] = {}
    parents: list[int] = []
    if root:
        place[""] = 0
        parents.append(-1)
    for path in labels:
        if not isinstance(path, str) or not all(path.split(sep)):
            raise ValueError(f"path {path!r} has an empty step; write it like 'a{sep}b{sep}c'")
        steps = path.split(sep)
        above = 0 if root else -1
        for length in range(1, len(steps) + 1):
            node = sep.join(steps[:length])
            if node not in place:
                place[node] = len(parents)
                parents.append(above)
            above = place[node]
    return from_parents(parents, list(place), labels)


def from_edges(
    edges: Iterable[tuple[Any, Any]],
    lengths: ArrayLike | None = None,
    labels: Iterable[Any] | None = None,
    *,
    nodes: Iterable[Any] | None = None,
) -> Taxonomy:
    """An undirected graph from pairs of names; D is the shortest path.

    Parameters
    ----------
    edges : iterable of pairs
        Names of the two ends.  Of edges given twice the shorter one counts.
    lengths : sequence of float, optional
        Positive length of each edge, by default 1.
    labels : sequence, optional
        Names of the nodes that are classes; by default all nodes.
    nodes : sequence, optional
        Names of the nodes in order; by default as the edges name them first.

    Examples
    --------
    >>> from osvm.taxonomy import from_edges
    >>> ring = from_edges([("n", "e"), ("e", "s"), ("s", "w"), ("w", "n")], [1, 1, 1, 0.5])
    >>> ring.distances(["n", "w", "s"])
    array([[0. , 0.5, 1.5],
           [0.5, 0. , 1. ],
           [1.5, 1. , 0. ]])
    """
    pairs = []
    for number, edge in enumerate(edges):
        ends = tuple(edge)
        if len(ends) != 2:
            raise ValueError(f"edge {number} is {edge!r}; expected a pair of names")
        pairs.append((_plain(ends[0]), _plain(ends[1])))
    weights = np.ones(len(pairs)) if lengths is None else np.asarray(lengths, dtype=np.float64)
    if weights.shape != (len(pairs),):
        raise ValueError(f"{len(pairs)} edges but lengths of shape {weights.shape}")
    wrong = np.flatnonzero(~((weights > 0) & np.isfinite(weights)))
    if len(wrong):
        first_wrong = int(wrong[0])
        raise ValueError(
            f"edge {first_wrong} {pairs[first_wrong]!r} has length {weights[first_wrong]}; "
            "lengths must be positive"
        )
    if nodes is None:
        nodes = list(dict.fromkeys(name for pair in pairs for name in pair))
    names = _check_names(nodes, None)
    place = {name: i for i, name in enumerate(names)}
    shortest: dict[tuple[int, int], float] = {}
    for (first, second), weight in zip(pairs, weights):
        for name in (first, second):
            if name not in place:
                raise ValueError(f"edge ({first!r}, {second!r}) names an unknown node {name!r}")
        a, b = sorted((place[first], place[second]))
        if a != b:
            shortest[a, b] = min(float(weight), shortest.get((a, b), np.inf))
    if not shortest:
        raise ValueError("a label graph needs at least one edge between two nodes")
    graph = Taxonomy(
        nodes=names, labels=names, edges=tuple((a, b, w) for (a, b), w in shortest.items())
    )
    graph = graph if labels is None else graph.select(labels)
    graph.distances()  # refuses labels that no path joins
    return graph


def from_matrix(
    delta: ArrayLike, labels: Iterable[Any] | None = None, *, kernel: ArrayLike | None = None
) -> Taxonomy:
    """Any symmetric distances between labels, and any label kernel.

    Examples
    --------
    >>> from osvm.taxonomy import from_matrix
    >>> from_matrix([[0, 2], [2, 0]], ["no", "yes"], kernel=[[1, 0], [0, 1]])
    Taxonomy(matrix, 2 nodes, 2 labels)
    """
    matrix = np.array(delta, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ValueError(f"distances must form a square matrix, not shape {matrix.shape}")
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise ValueError("distances must be finite and not negative")
    if np.diagonal(matrix).any() or not (matrix == matrix.T).all():
        raise ValueError("distances must be symmetric with a zero diagonal")
    n = len(matrix)
    names = _check_names(range(n) if labels is None else labels, n)
    made = Taxonomy(nodes=names, labels=names, delta=_as_tuples(matrix))
    return made if kernel is None else made.with_kernel(kernel)


def from_config(config: dict[str, Any]) -> Taxonomy:
    """The taxonomy that `config()` described."""
    return Taxonomy.from_config(config)


# --------------------------------------------------------------------- helpers


def _read_config(
    nodes: Any, labels: Any, parents: Any, edges: Any, delta: Any, kappa: Any
) -> Taxonomy:
    if parents is not None:
        made = from_parents(parents, nodes, labels)
    elif edges is not None:
        pairs = [(nodes[int(a)], nodes[int(b)]) for a, b, _ in edges]
        made = from_edges(pairs, [length for _, _, length in edges], labels, nodes=nodes)
    else:
        made = from_matrix(delta, labels)
    return made if kappa is None else made.with_kernel(kappa)


def _plain(value: Any) -> Any:
    """numpy scalars as Python's own, so that names compare and JSON can hold them."""
    return value.item() if isinstance(value, np.generic) else value


def _check_unique(names: Sequence[Any], sort: str) -> None:
    if len(names) == 0:
        raise ValueError(f"a taxonomy needs at least one {sort}")
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{sort} {name!r} is given twice")
        seen.add(name)


def _check_names(names: Iterable[Any], n: int | None) -> tuple[Hashable, ...]:
    """Distinct names, each a string or a number."""
    found = tuple(_plain(name) for name in names)
    for name in found:
        if not isinstance(name, (str, int, float)):
            raise TypeError(f"a node's name must be a string or a number, not {name!r}")
    _check_unique(found, "node")
    if n is not None and len(found) != n:
        raise ValueError(f"{n} nodes but {len(found)} names")
    return found


def _check_kernel(matrix: ArrayLike, n: int) -> tuple[tuple[float, ...], ...]:
    kappa = np.array(matrix, dtype=np.float64)
    if kappa.shape != (n, n):
        raise ValueError(f"the label kernel must have shape {(n, n)}, not {kappa.shape}")
    if not np.isfinite(kappa).all() or not np.allclose(kappa, kappa.T, rtol=1e-10, atol=0):
        raise ValueError("the label kernel must be finite and symmetric")
    values = np.linalg.eigvalsh(kappa)
    if values[0] < -1e-9 * max(abs(values[-1]), 1e-300):
        raise ValueError(
            f"the label kernel has a negative eigenvalue ({values[0]:.3g}); "
            "it must be positive semi-definite"
        )
    return _as_tuples(kappa)


def _as_tuples(matrix: NDArray[np.float64]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in matrix.tolist())
