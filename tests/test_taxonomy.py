"""Label graphs: distances and kernels against sets of ancestors, errors, configs."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osvm import taxonomy
from osvm.taxonomy import Taxonomy

#      root
#     /    \
#    a      b
#   / \      \
#  x   y      z
PARENTS = [-1, 0, 0, 1, 1, 2]
NAMES = ["root", "a", "b", "x", "y", "z"]

MADE = [
    taxonomy.from_parents(PARENTS),
    taxonomy.from_parents(PARENTS, NAMES, ["z", "x"]),
    taxonomy.from_parents([-1, -1, 0]),
    taxonomy.from_paths(["D/05/C", "D/05/B", "D/21"]),
    taxonomy.from_paths(["a.b", "c"], ".", root=False),
    taxonomy.from_edges([("p", "q"), ("q", "r")], [1.0, 2.5]),
    taxonomy.from_edges([(1, 2), (2, 3)], labels=[3, 1]).with_kernel(np.eye(2)),
    taxonomy.from_matrix([[0, 2, 1], [2, 0, 1], [1, 1, 0]], ["i", "j", "k"]),
    taxonomy.from_matrix([[0, 2], [2, 0]], kernel=[[1, 0.5], [0.5, 1]]),
    taxonomy.from_matrix([[0, 2, 1], [2, 0, 1], [1, 1, 0]], ["i", "j", "k"]).select(["k", "i"]),
]


def ancestors(node, parents):
    """Every node is its own ancestor."""
    found = set()
    while node >= 0:
        found.add(node)
        node = parents[node]
    return found


@given(st.integers(1, 25), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_tree_matches_sets_of_ancestors_and_paths(n, random):
    parents = [-1] + [random.randrange(k) for k in range(1, n)]
    tree = taxonomy.from_parents(parents)
    sets = [ancestors(k, parents) for k in range(n)]
    distance = [[len(a ^ b) / 2 for b in sets] for a in sets]
    np.testing.assert_array_equal(tree.distances(), distance)
    np.testing.assert_array_equal(tree.kernel(), [[len(a & b) for b in sets] for a in sets])
    assert np.linalg.eigvalsh(tree.kernel())[0] > -1e-9 * n
    if n > 1:  # the same distances as shortest paths with edges of 1/2
        edges = [(child, parent) for child, parent in enumerate(parents) if parent >= 0]
        graph = taxonomy.from_edges(edges, [0.5] * len(edges), range(n), nodes=range(n))
        np.testing.assert_allclose(graph.distances(), distance)


def test_small_tree():
    tree = taxonomy.from_parents(PARENTS, NAMES)
    assert tree.leaves == ("x", "y", "z")
    leaves = tree.select(tree.leaves)
    np.testing.assert_array_equal(leaves.distances(), [[0, 1, 2], [1, 0, 2], [2, 2, 0]])
    np.testing.assert_array_equal(leaves.kernel(), [[3, 2, 1], [2, 3, 1], [1, 1, 3]])
    np.testing.assert_array_equal(tree.distances(["x", "a", "root"])[0], [0, 0.5, 1])
    np.testing.assert_array_equal(tree.distances(np.array(["z", "x"])), [[0, 2], [2, 0]])
    assert repr(leaves) == "Taxonomy(tree, 6 nodes, 3 labels)"


def test_forest():
    forest = taxonomy.from_parents([-1, -1, 0])
    np.testing.assert_array_equal(forest.distances([2, 1]), [[0, 1.5], [1.5, 0]])
    np.testing.assert_array_equal(forest.kernel([2, 1]), [[2, 0], [0, 1]])


def test_paths_with_and_without_a_root():
    names = ["comp.graphics", "comp.sys.mac", "alt"]
    tree = taxonomy.from_paths(names, ".")
    assert tree.labels == tuple(names)
    assert tree.nodes[0] == ""
    assert set(tree.nodes) == {"", "comp", "comp.graphics", "comp.sys", "comp.sys.mac", "alt"}
    bare = taxonomy.from_paths(names, ".", root=False)
    np.testing.assert_array_equal(tree.kernel() - 1, bare.kernel())
    np.testing.assert_array_equal(tree.distances(), bare.distances())
    nested = taxonomy.from_paths(["a/b", "a"])  # a label may lie above another
    np.testing.assert_array_equal(nested.distances(), [[0, 0.5], [0.5, 0]])


def test_graph_takes_the_shortest_way():
    graph = taxonomy.from_edges(
        [("a", "b"), ("b", "c"), ("a", "c"), ("a", "b"), ("c", "c")], [1.0, 1.0, 5.0, 0.5, 1.0]
    )
    np.testing.assert_array_equal(graph.distances(), [[0, 0.5, 1.5], [0.5, 0, 1], [1.5, 1, 0]])
    assert repr(graph) == "Taxonomy(graph, 3 nodes, 3 labels)"
    with pytest.raises(ValueError, match="with_kernel"):
        graph.kernel()
    with pytest.raises(ValueError, match="leaves"):
        _ = graph.leaves
    kappa = np.array([[2, 1, 0], [1, 2, 1], [0, 1, 2]])
    np.testing.assert_array_equal(graph.with_kernel(kappa).kernel(), kappa)
    picked = graph.with_kernel(kappa).select(["c", "b"])
    np.testing.assert_array_equal(picked.kernel(), [[2, 1], [1, 2]])
    np.testing.assert_array_equal(picked.distances(), [[0, 1], [1, 0]])


@pytest.mark.parametrize("made", MADE, ids=repr)
def test_distances_are_distances(made):
    D = made.distances()
    assert D.dtype == np.float64
    np.testing.assert_array_equal(D, D.T)
    np.testing.assert_array_equal(np.diagonal(D), 0)
    assert D.flags.c_contiguous
    reverse = made.labels[::-1]
    np.testing.assert_array_equal(made.distances(reverse), D[::-1, ::-1])


@pytest.mark.parametrize("made", MADE, ids=repr)
def test_equal_hash_pickle_config(made):
    for twin in (
        pickle.loads(pickle.dumps(made)),
        taxonomy.from_config(json.loads(json.dumps(made.config()))),
        Taxonomy.from_config(made.config()),
    ):
        assert twin == made
        assert hash(twin) == hash(made)
        np.testing.assert_array_equal(twin.distances(), made.distances())
    assert [other for other in MADE if other == made] == [made]
    with pytest.raises(AttributeError):
        made.labels = ()


def test_numpy_names_are_plain_inside():
    tree = taxonomy.from_parents(np.array([-1, 0], np.int16), np.array(["r", "s"]))
    assert [type(node) for node in tree.nodes] == [str, str]
    json.dumps(tree.config())
    numbers = taxonomy.from_parents([-1, 0], np.array([10, 20]))
    np.testing.assert_array_equal(numbers.distances(np.array([20, 10])), [[0, 0.5], [0.5, 0]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: taxonomy.from_parents([]), "at least one node"),
        (lambda: taxonomy.from_parents([-1, 5]), "node 1 has parent 5"),
        (lambda: taxonomy.from_parents([-1, -2]), "node 1 has parent -2"),
        (lambda: taxonomy.from_parents([-1, 0.5]), "node 1 has parent 0.5"),
        (lambda: taxonomy.from_parents([1, 2, 0]), "cycle"),
        (lambda: taxonomy.from_parents([-1, 1]), "cycle"),
        (lambda: taxonomy.from_parents([-1, 0], ["a"]), "2 nodes but 1 names"),
        (lambda: taxonomy.from_parents([-1, 0], ["a", "a"]), "'a' is given twice"),
        (lambda: taxonomy.from_parents([-1, 0]).distances([7]), "label 7 is not in the taxonomy"),
        (lambda: taxonomy.from_parents([-1, 0], labels=[]), "at least one label"),
        (lambda: taxonomy.from_parents([-1, 0], labels=[1, 1]), "given twice"),
        (lambda: taxonomy.from_paths(["a//b"]), "empty step"),
        (lambda: taxonomy.from_paths([""]), "empty step"),
        (lambda: taxonomy.from_paths(["a", "a"]), "given twice"),
        (lambda: taxonomy.from_paths(["a"], ""), "sep"),
        (lambda: taxonomy.from_edges([]), "at least one"),
        (lambda: taxonomy.from_edges([(1, 1)]), "at least one edge"),
        (lambda: taxonomy.from_edges([(1, 2, 3)]), "pair"),
        (lambda: taxonomy.from_edges([(1, 2)], [0.0]), "lengths must be positive"),
        (lambda: taxonomy.from_edges([(1, 2)], [np.nan]), "lengths must be positive"),
        (lambda: taxonomy.from_edges([(1, 2)], [1.0, 2.0]), "1 edges but lengths"),
        (lambda: taxonomy.from_edges([(1, 2), (3, 4)]), "no path joins 1 and 3"),
        (lambda: taxonomy.from_edges([(1, 2)], nodes=[1]), "unknown node 2"),
        (lambda: taxonomy.from_matrix([[0, 1]]), "square"),
        (lambda: taxonomy.from_matrix([[0, 1], [2, 0]]), "symmetric"),
        (lambda: taxonomy.from_matrix([[1, 1], [1, 0]]), "zero diagonal"),
        (lambda: taxonomy.from_matrix([[0, -1], [-1, 0]]), "not negative"),
        (lambda: taxonomy.from_matrix([[0, 1], [1, 0]]).distances(["q"]), "'q' is not among"),
        (lambda: taxonomy.from_matrix([[0, 1], [1, 0]]).kernel(), "with_kernel"),
        (lambda: MADE[0].with_kernel(np.eye(2)), r"shape \(6, 6\)"),
        (lambda: MADE[3].with_kernel([[1, 2, 0], [0, 1, 0], [0, 0, 1]]), "symmetric"),
        (lambda: MADE[3].with_kernel(np.ones((3, 3)) - np.eye(3)), "negative eigenvalue"),
        (lambda: taxonomy.from_config({"nodes": []}), "keys"),
        (lambda: taxonomy.from_config({**MADE[0].config(), "nodes": 3}), "malformed"),
        (lambda: taxonomy.from_config({**MADE[5].config(), "edges": [[0, 9, 1.0]]}), "malformed"),
    ],
)
def test_errors_say_what_is_wrong(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_wrong_types_are_refused():
    with pytest.raises(TypeError, match="several strings"):
        taxonomy.from_paths("a/b")
    with pytest.raises(TypeError, match="string or a number"):
        taxonomy.from_parents([-1], [("a", "b")])


@pytest.mark.data
@pytest.mark.parametrize("name", ["news20_tree", "rcv1_tree2316_tree"])
def test_real_trees(name):
    folder = Path(os.environ.get("OSVM_DATA", Path(__file__).parents[2] / "shared" / "data"))
    file = np.load(folder / f"{name}.npz", allow_pickle=False)
    tree = taxonomy.from_parents(file["parent"], file["node"])
    D = tree.distances()
    sets = [ancestors(k, file["parent"].tolist()) for k in range(len(D))]
    np.testing.assert_array_equal(D, [[len(a ^ b) / 2 for b in sets] for a in sets])
    assert np.linalg.eigvalsh(tree.kernel())[0] > -1e-9
