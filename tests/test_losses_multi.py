"""Losses of several scores: multiclass hinge, graph hinge, softmax, one-vs-rest."""

import math

import numpy as np
import pytest

from osvm import losses
from tests.loss_cases import BINARY, MULTI, TREE, same_bits


def naive(loss, label, f, margin=1.0):
    """The equations, in plain Python."""
    if loss.name == "softmax":
        return math.log(sum(math.exp(v - f[label]) for v in f))
    distance = TREE.distances() if loss.name == "graph_hinge" else np.ones((4, 4))
    rivals = [margin * distance[label, k] + f[k] for k in range(len(f)) if k != label]
    return max(0.0, max(rivals) - f[label])


@pytest.mark.parametrize("loss", MULTI, ids=repr)
def test_multi_value_and_derivatives(loss, inline_client):
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(60, 4)).round(2) + rng.uniform(-1e-3, 1e-3, size=(60, 4))
    labels = rng.integers(4, size=60)
    z = rng.normal(size=(60, 4))
    h = 1e-6
    value, xi = loss.value(labels, scores), loss.dloss(labels, scores)
    rho_z = loss.curvature_times(labels, scores, z)
    np.testing.assert_allclose(
        value, [naive(loss, k, f) for k, f in zip(labels, scores)], rtol=1e-12, atol=1e-14
    )
    for k in range(4):
        up, down = scores.copy(), scores.copy()
        up[:, k] += h
        down[:, k] -= h
        slope = (loss.value(labels, up) - loss.value(labels, down)) / (2 * h)
        np.testing.assert_allclose(xi[:, k], slope, rtol=1e-6, atol=1e-8)
    along = (loss.dloss(labels, scores + h * z) - loss.dloss(labels, scores - h * z)) / (2 * h)
    np.testing.assert_allclose(rho_z, along, rtol=1e-6, atol=1e-8)
    for i in range(60):
        got = inline_client.multi_loss(loss.spec(), labels[i], scores[i], z[i], 1.0)
        same_bits(got[0], value[i])
        same_bits(got[1], xi[i])
        same_bits(got[2], rho_z[i])


def test_multiclass_hinge_at_its_kinks():
    loss = losses.MulticlassHinge()
    np.testing.assert_array_equal(loss.dloss([0], [[1.0, 0.0, -1.0]]), [[0, 0, 0]])
    np.testing.assert_array_equal(loss.dloss([2], [[0.5, 0.5, 0.0]]), [[1, 0, -1]])
    np.testing.assert_array_equal(loss.dloss([0], [[0.0, 0.0, 0.0]]), [[-1, 1, 0]])
    assert loss.value([0], [[1.0, 0.0, -1.0]]) == 0.0
    below = [[np.nextafter(1.0, 0.0), 0.0]]
    assert loss.value([0], below) > 0
    np.testing.assert_array_equal(loss.dloss([0], below), [[-1, 1]])
    np.testing.assert_array_equal(loss.dloss([0], [[0.0]]), [[0]])  # no rival, no loss


def test_graph_hinge_weighs_rivals_by_distance():
    loss = losses.GraphHinge(taxonomy=TREE)  # a/x, a/y, b/z, c
    distance = TREE.distances()
    flat = np.zeros((1, 4))
    assert loss.value([0], flat) == distance[0].max()
    np.testing.assert_array_equal(loss.dloss([0], flat), [[-1, 0, 1, 0]])
    satisfied = [[2.0, 1.0, 0.0, 0.5]]  # every rival exactly at its distance
    np.testing.assert_array_equal(distance[0], [0, 1, 2, 1.5])
    assert loss.value([0], satisfied) == 0.0
    np.testing.assert_array_equal(loss.dloss([0], satisfied), np.zeros((1, 4)))
    assert loss.value([0], flat, 0.5) == 0.5 * distance[0].max()


def test_graph_hinge_with_unit_distances_is_multiclass_hinge():
    rng = np.random.default_rng(0)
    scores, labels = rng.integers(-3, 4, size=(50, 3)) / 2, rng.integers(3, size=50)
    spec = losses.GraphHinge().spec(delta=1.0 - np.eye(3))
    value, xi = spec.multi_value_dloss(labels, scores)
    same_bits(value, losses.MulticlassHinge().value(labels, scores))
    same_bits(xi, losses.MulticlassHinge().dloss(labels, scores))


def test_multiclass_hinge_margin():
    loss = losses.MulticlassHinge()
    assert loss.value([1], [[0.0, 0.1]], 0.25) == pytest.approx(0.15)
    np.testing.assert_array_equal(loss.dloss([1], [[0.0, 0.25]], 0.25), [[0, 0]])


def test_softmax_survives_large_scores():
    loss = losses.Softmax()
    scores = [[1e4, -1e4, 0.0]]
    assert loss.value([1], scores) == 2e4
    np.testing.assert_array_equal(loss.dloss([1], scores), [[1, -1, 0]])
    assert loss.value([0], scores) == 0.0
    assert loss.value([0], [[40.0, 0.0]]) == pytest.approx(math.exp(-40), rel=1e-12)
    assert loss.dloss([0], [[40.0, 0.0]])[0, 0] == pytest.approx(-math.exp(-40), rel=1e-12)
    assert np.isfinite(loss.curvature_times([1], scores, [[1.0, 2.0, 3.0]])).all()
    assert np.isnan(loss.value([0], [[np.nan, 0.0]]))
    np.testing.assert_allclose(loss.probability(scores).sum(axis=1), 1.0)


@pytest.mark.parametrize("loss", BINARY, ids=repr)
def test_one_vs_rest_is_the_scalar_loss_of_each_score(loss):
    rng = np.random.default_rng(1)
    scores, labels = rng.normal(size=(20, 3)), rng.integers(3, size=20)
    y = np.where(labels[:, None] == np.arange(3), 1.0, -1.0)
    z = rng.normal(size=(20, 3))
    value, xi = loss.spec().multi_value_dloss(labels, scores)
    same_bits(xi, loss.dloss(y, scores))
    parts = loss.value(y, scores)
    same_bits(value, parts[:, 0] + parts[:, 1] + parts[:, 2])
    rho_z = loss.spec().multi_curvature_times(labels, scores, z)
    np.testing.assert_array_equal(rho_z, z * loss.curvature(y, scores))


@pytest.mark.parametrize(
    ("labels", "scores", "message"),
    [
        ([0], [1.0, 2.0], "two-dimensional"),
        ([0, 1], [[1.0, 2.0]], "1 rows of scores"),
        ([2], [[1.0, 2.0]], "between 0 and 1"),
        ([-1], [[1.0, 2.0]], "between 0 and 1"),
        ([0.5], [[1.0, 2.0]], "whole numbers"),
    ],
)
def test_wrong_labels_are_refused(labels, scores, message):
    with pytest.raises(ValueError, match=message):
        losses.Softmax().value(labels, scores)


def test_graph_hinge_needs_matching_distances():
    with pytest.raises(ValueError, match="needs a taxonomy"):
        losses.GraphHinge().value([0], [[1.0, 2.0]])
    with pytest.raises(ValueError, match="distances between 4 labels"):
        losses.GraphHinge(taxonomy=TREE).value([0], [[1.0, 2.0]])
    with pytest.raises(ValueError, match="square"):
        losses.GraphHinge().spec(delta=[[0.0, 1.0]])
    with pytest.raises(TypeError, match="Taxonomy"):
        losses.GraphHinge(taxonomy="tree")


def test_scalar_form_of_a_multi_output_loss_is_refused():
    with pytest.raises(ValueError, match="all scores"):
        losses.Softmax().spec().value(1, 2.0)
