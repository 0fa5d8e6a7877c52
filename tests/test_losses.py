"""Every loss: value, derivative, curvature, kinks, and the ways to make one."""

import copy
import ctypes
import json
import math
import pickle
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import LowLevelCallable

from osvm import losses, taxonomy
from osvm._parts import LossSpec
from tests.compile_client import compile_client

ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Case:
    """A scalar loss beside a plain numpy reading of it.

    `kinks` maps (y, f) to the value, xi and rho that the definition gives there.
    """

    loss: Any
    formula: Any
    kinks: dict

    @property
    def labels(self):
        return [0.3, -1.7] if self.loss.task == "regression" else [-1.0, 1.0]


def relu(x):
    return np.maximum(x, 0.0)


# A new scalar loss needs one entry here.
SCALAR = [
    Case(
        losses.Hinge(), lambda y, f: relu(1 - y * f), {(1, 1.0): (0, 0, 0), (-1, -1.0): (0, 0, 0)}
    ),
    Case(losses.SquaredHinge(), lambda y, f: relu(1 - y * f) ** 2, {(1, 1.0): (0, 0, 0)}),
    Case(
        losses.Perceptron(),
        lambda y, f: relu(-y * f),
        {(1, 0.0): (0, -1, 0), (-1, 0.0): (0, 1, 0)},
    ),
    Case(losses.Logistic(), lambda y, f: np.log1p(np.exp(-y * f)), {}),
    Case(
        losses.ModifiedHuber(),
        lambda y, f: np.where(y * f >= -1, relu(1 - y * f) ** 2, -4 * y * f),
        {(1, 1.0): (0, 0, 0), (1, -1.0): (4, -4, 2), (-1, 1.0): (4, 4, 2)},
    ),
    Case(losses.Novelty(), lambda y, f: relu(1 - f), {(1, 1.0): (0, 0, 0), (-1, 1.0): (0, 0, 0)}),
    Case(
        losses.EpsilonInsensitive(epsilon=0.25),
        lambda y, f: relu(np.abs(f - y) - 0.25),
        {(1, 1.25): (0, 0, 0), (1, 0.75): (0, 0, 0), (1, 1.0): (0, 0, 0)},
    ),
    Case(
        losses.EpsilonInsensitive(epsilon=0.0),
        lambda y, f: np.abs(f - y),
        {(1, 1.0): (0, 0, 0), (0, 0.5): (0.5, 1, 0)},
    ),
    Case(
        losses.Huber(delta=0.5),
        lambda y, f: np.where(np.abs(f - y) <= 0.5, (f - y) ** 2 / 2, 0.5 * np.abs(f - y) - 0.125),
        {(0, 0.5): (0.125, 0.5, 1), (0, -0.5): (0.125, -0.5, 1)},
    ),
    Case(losses.Squared(), lambda y, f: (f - y) ** 2 / 2, {}),
]
TREE = taxonomy.from_paths(["a/x", "a/y", "b/z", "c"])
# A new multi-output loss needs one entry here.
MULTI = [losses.MulticlassHinge(), losses.GraphHinge(taxonomy=TREE), losses.Softmax()]
ALL = [case.loss for case in SCALAR] + MULTI
BINARY = [case.loss for case in SCALAR if case.loss.task == "binary"]
WITH_MARGIN = [losses.Hinge(), losses.SquaredHinge(), losses.Novelty()]

# No kink of any case lies on or next to these scores.
SCORES = np.linspace(-3.07123, 3.09456, 45)

by_name = pytest.mark.parametrize("case", SCALAR, ids=lambda case: repr(case.loss))
every_loss = pytest.mark.parametrize("loss", ALL, ids=repr)


def same_bits(a, b):
    """Equal including the sign of zero, NaN equal to NaN."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    assert a.shape == b.shape
    np.testing.assert_array_equal(a.view(np.int64), b.view(np.int64))


# ------------------------------------------------------------- scalar losses


@by_name
def test_value_is_the_formula(case):
    for y in case.labels:
        np.testing.assert_allclose(
            case.loss.value(y, SCORES), case.formula(y, SCORES), rtol=1e-14, atol=1e-15
        )


@by_name
def test_dloss_is_the_derivative(case):
    h = 1e-6
    for y in case.labels:
        slope = (case.loss.value(y, SCORES + h) - case.loss.value(y, SCORES - h)) / (2 * h)
        xi = case.loss.dloss(y, SCORES)
        np.testing.assert_allclose(xi, slope, rtol=1e-6, atol=1e-8)


@by_name
def test_curvature_is_the_second_derivative(case):
    h = 1e-6
    for y in case.labels:
        slope = (case.loss.dloss(y, SCORES + h) - case.loss.dloss(y, SCORES - h)) / (2 * h)
        np.testing.assert_allclose(case.loss.curvature(y, SCORES), slope, rtol=1e-6, atol=1e-8)


@by_name
def test_kinks_are_exact(case):
    for (y, f), (value, xi, rho) in case.kinks.items():
        at = (case.loss.value(y, f), case.loss.dloss(y, f), case.loss.curvature(y, f))
        assert at == (value, xi, rho), (y, f)


@pytest.mark.parametrize("loss", WITH_MARGIN, ids=repr)
def test_next_float_beside_a_margin_decides(loss):
    below = np.nextafter(1.0, 0.0)
    assert loss.dloss(1, below) < 0
    assert loss.value(1, below) > 0
    assert loss.dloss(1, 1.0) == 0


def test_perceptron_counts_a_negative_zero_as_a_mistake():
    assert losses.Perceptron().dloss(1, -0.0) == -1
    assert losses.Perceptron().dloss(-1, -0.0) == 1
    same_bits(losses.Perceptron().value([1, -1], -0.0), [0.0, 0.0])


@by_name
def test_compiled_loop_and_array_form_agree_bit_for_bit(case, inline_client):
    f = np.concatenate([SCORES, [0.0, 1.0, -1.0, 1e4, -1e4, 1e-300, np.nan]])
    f = np.concatenate([f, [kink for _, kink in case.kinks]])
    for y in case.labels:
        ys = np.full(len(f), y)
        value, xi, rho, value2, xi2 = inline_client.scalar_loss(case.loss.spec(), ys, f)
        same_bits(case.loss.value(ys, f), value)
        same_bits(case.loss.dloss(ys, f), xi)
        same_bits(case.loss.curvature(ys, f), rho)
        same_bits(value2, value)
        same_bits(xi2, xi)
        both = case.loss.spec().value_dloss(ys, f)
        same_bits(both[0], value)
        same_bits(both[1], xi)
        single = [case.loss.value(y, one) for one in f]
        same_bits(single, value)


@by_name
def test_nothing_overflows_and_nan_shows(case):
    far = np.array([-1e4, 1e4, -1e150, 1e150])
    for y in case.labels:
        for form in (case.loss.value, case.loss.dloss, case.loss.curvature):
            assert np.isfinite(form(y, far)).all()
        assert np.isnan(case.loss.value(y, np.nan))


@by_name
def test_input_of_any_sort(case):
    y = np.resize(case.labels, 12).reshape(3, 4)
    f = np.linspace(-2, 2, 12).reshape(3, 4)
    expected = case.loss.value(y, f)
    assert expected.shape == (3, 4)
    assert expected.dtype == np.float64
    locked = f.copy()
    locked.flags.writeable = False
    same_bits(case.loss.value(y, locked), expected)
    same_bits(case.loss.value(y, np.asfortranarray(f)), expected)
    same_bits(case.loss.value(y, f.repeat(2, axis=1)[:, ::2]), expected)
    same_bits(case.loss.value(y, f.tolist()), expected)
    single = f.astype(np.float32)
    same_bits(case.loss.value(y, single), case.loss.value(y, single.astype(np.float64)))
    assert case.loss.value(y[:0], f[:0]).shape == (0, 4)
    assert isinstance(case.loss(case.labels[0], 0.5), float)


@pytest.mark.parametrize("loss", WITH_MARGIN, ids=repr)
def test_margin_replaces_the_one(loss):
    f = np.array([-0.3, 0.1, 0.2, 0.4])
    gap = relu(0.2 - f)
    expected = gap**2 if loss == losses.SquaredHinge() else gap
    np.testing.assert_allclose(loss.value(1, f, 0.2), expected, rtol=1e-14)
    np.testing.assert_array_equal(loss.dloss(1, f, 0.2) != 0, f < 0.2)
    np.testing.assert_array_equal(
        loss.curvature(1, f, 0.2) != 0, (f < 0.2) * (expected is not gap)
    )


def test_logistic_keeps_its_digits_far_out():
    loss = losses.Logistic()
    assert loss.value(1, 40.0) == pytest.approx(math.exp(-40), rel=1e-14)
    assert loss.dloss(1, 700.0) == pytest.approx(-math.exp(-700), rel=1e-12)
    assert loss.value(1, -1e4) == 1e4
    np.testing.assert_allclose(loss.probability([-800.0, 0.0, 800.0]), [0, 0.5, 1], atol=1e-300)


# -------------------------------------------------------- multi-output losses


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


# --------------------------------------------------------------- as objects


@every_loss
def test_equal_hash_repr_pickle_copy(loss):
    twin = pickle.loads(pickle.dumps(loss))
    assert twin == loss
    assert hash(twin) == hash(loss)
    assert copy.deepcopy(loss) == loss
    assert type(loss).__name__ in repr(loss)
    if loss.name != "graph_hinge":
        assert eval(repr(loss), vars(losses)) == loss
    assert [other for other in ALL if other == loss] == [loss]


@every_loss
def test_config_round_trip(loss):
    config = json.loads(json.dumps(loss.config()))
    assert config["name"] == loss.name
    assert losses.from_config(config) == loss


@every_loss
def test_get(loss):
    assert losses.get(loss) is loss
    assert loss.name in losses.names()
    assert type(losses.get(loss.name)) is type(loss)


@every_loss
def test_immutable(loss):
    with pytest.raises(AttributeError):
        loss.name = "other"


def test_every_registered_loss_is_tested():
    assert {loss.name for loss in ALL} == set(losses.names())


def test_kinds_are_those_of_the_header():
    text = (ROOT / "osvm" / "core" / "loss.pxd").read_text()
    enum = text.split("cdef enum LossKind:")[1].split("ctypedef")[0]
    numbers = {name.lower(): int(n) for name, n in re.findall(r"LOSS_(\w+) = (\d+)", enum)}
    assert numbers.pop("custom") == losses.PythonLoss.kind == losses.CompiledLoss.kind
    assert numbers == {loss.name: loss.kind for loss in ALL}


def test_get_sets_parameters():
    assert losses.get("huber", delta=2) == losses.Huber(delta=2)
    assert losses.get(losses.Huber(delta=2), delta=3) == losses.Huber(delta=3)
    assert losses.parameters("huber") == ["delta"]
    assert losses.parameters("hinge") == []
    with pytest.raises(ValueError, match="has no parameter 'delta'"):
        losses.get("hinge", delta=2)
    with pytest.raises(ValueError, match=r"unknown loss 'hing'; choose from \['epsilon"):
        losses.get("hing")
    with pytest.raises(TypeError, match="must be a name"):
        losses.get(3)
    with pytest.raises(ValueError, match="'name'"):
        losses.from_config({})


@pytest.mark.parametrize("delta", [0.0, -1.0, np.nan, np.inf])
def test_huber_refuses_a_bad_delta(delta):
    with pytest.raises(ValueError, match="delta must be"):
        losses.Huber(delta=delta)


def test_epsilon_refuses_a_bad_value():
    with pytest.raises(ValueError, match="at least 0"):
        losses.EpsilonInsensitive(epsilon=-0.1)
    with pytest.raises(TypeError, match="number"):
        losses.EpsilonInsensitive(epsilon="0.1")


# ------------------------------------------------------------ custom losses


class LogCosh:
    """A loss as a user would write it."""

    def __eq__(self, other):
        return type(other) is LogCosh

    __hash__ = object.__hash__

    def value(self, y, f):
        return float(np.logaddexp(f - y, y - f) - np.log(2.0))

    def dloss(self, y, f):
        return math.tanh(f - y)


class WithCurvature(LogCosh):
    def curvature(self, y, f):
        return 1.0 - math.tanh(f - y) ** 2


def test_python_loss():
    loss = losses.get(LogCosh())
    assert isinstance(loss, losses.PythonLoss)
    assert loss == losses.PythonLoss(LogCosh())
    np.testing.assert_allclose(loss.value(0, SCORES), np.log(np.cosh(SCORES)), atol=1e-14)
    same_bits(loss.dloss(0, SCORES), [math.tanh(f) for f in SCORES])
    np.testing.assert_array_equal(loss.curvature(0, SCORES), 0.0)
    curved = losses.PythonLoss(WithCurvature())
    np.testing.assert_allclose(curved.curvature(0, SCORES), np.cosh(SCORES) ** -2, rtol=1e-12)
    assert pickle.loads(pickle.dumps(loss)) == loss
    with pytest.raises(TypeError, match="cannot be saved"):
        loss.config()


def test_python_loss_one_vs_rest(inline_client):
    loss = losses.PythonLoss(LogCosh())
    value, xi, _ = inline_client.multi_loss(loss.spec(), 1, np.array([0.5, 2.0]), np.ones(2), 1.0)
    assert value == LogCosh().value(-1, 0.5) + LogCosh().value(1, 2.0)
    same_bits(xi, [math.tanh(1.5), math.tanh(1.0)])


class Breaks:
    calls = 0

    def value(self, y, f):
        Breaks.calls += 1
        if f > 0.5:
            raise KeyError("score too large")
        return 0.0

    def dloss(self, y, f):
        return "not a number"


def test_exception_in_a_python_loss_comes_out(inline_client):
    loss = losses.PythonLoss(Breaks())
    Breaks.calls = 0
    with pytest.raises(KeyError, match="score too large"):
        loss.value(1, [0.0, 1.0, 0.0, 0.0])
    assert Breaks.calls == 2  # not called again after it raised
    with pytest.raises(TypeError):
        loss.dloss(1, [0.0])
    spec = loss.spec()
    out = inline_client.scalar_loss(
        spec, np.ones(3), np.array([0.0, 1.0, 0.0])
    )  # a loop of its own
    assert np.isnan(out[0, 1:]).all()
    assert isinstance(spec.error, TypeError)
    with pytest.raises(TypeError):
        spec.raise_error()
    assert spec.error is None
    spec.raise_error()  # raised once only


def test_python_loss_without_the_methods_is_refused():
    class Half:
        def value(self, y, f):
            return 0.0

    with pytest.raises(TypeError, match=r"dloss\(y, f\)"):
        losses.PythonLoss(Half())
    with pytest.raises(TypeError, match="must be a name"):
        losses.get(Half())


SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double, ctypes.c_void_p)


def test_compiled_loss_from_ctypes():
    value = SIGNATURE(lambda y, f, user: (f - y) ** 4)
    dloss = SIGNATURE(lambda y, f, user: 4 * (f - y) ** 3)
    loss = losses.CompiledLoss(value=LowLevelCallable(value), dloss=LowLevelCallable(dloss))
    np.testing.assert_array_equal(loss.value(1.0, [0.0, 3.0]), [1, 16])
    np.testing.assert_array_equal(loss.dloss(1.0, [0.0, 3.0]), [-4, 32])
    np.testing.assert_array_equal(loss.curvature(1.0, [0.0, 3.0]), [0, 0])
    assert losses.get(loss) is loss
    with pytest.raises(TypeError, match="cannot be saved"):
        loss.config()


def test_compiled_loss_gets_its_user_data():
    power = ctypes.c_double(3.0)
    address = ctypes.cast(ctypes.pointer(power), ctypes.c_void_p)

    def read(user):
        return ctypes.cast(user, ctypes.POINTER(ctypes.c_double))[0]

    value = SIGNATURE(lambda y, f, user: abs(f - y) ** read(user))
    dloss = SIGNATURE(lambda y, f, user: 0.0)
    loss = losses.CompiledLoss(LowLevelCallable(value, address), LowLevelCallable(dloss, address))
    assert loss.value(0.0, 2.0) == 8.0
    with pytest.raises(ValueError, match="different user data"):
        losses.CompiledLoss(LowLevelCallable(value, address), LowLevelCallable(dloss))


def test_compiled_loss_from_cython(tmp_path):
    module = compile_client(ROOT / "doc" / "extending" / "my_loss.pyx", tmp_path)
    parts = [
        LowLevelCallable.from_cython(module, name) for name in ("value", "dloss", "curvature")
    ]
    loss = losses.CompiledLoss(*parts)
    np.testing.assert_allclose(loss.value(0, SCORES), np.log(np.cosh(SCORES)), atol=1e-14)
    np.testing.assert_allclose(loss.dloss(0, SCORES), np.tanh(SCORES), rtol=1e-14)
    np.testing.assert_allclose(loss.curvature(0, SCORES), np.cosh(SCORES) ** -2, rtol=1e-12)
    assert loss == losses.CompiledLoss(*parts)


def test_wrong_signature_is_refused():
    one = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(abs)
    good = LowLevelCallable(SIGNATURE(lambda y, f, user: 0.0))
    with pytest.raises(ValueError, match=r"value has signature 'double \(double\)'"):
        losses.CompiledLoss(LowLevelCallable(one), good)
    with pytest.raises(TypeError, match="dloss must be a scipy"):
        losses.CompiledLoss(good, abs)


def test_spec_outlives_its_loss():
    spec = losses.PythonLoss(WithCurvature()).spec()
    graph = losses.GraphHinge(taxonomy=TREE).spec()
    del_me = [np.empty(1000) for _ in range(50)]
    del del_me
    assert spec.value(0.0, 0.0) == 0.0
    assert graph.multi_value_dloss([0], np.zeros((1, 4)))[0] == 2.0
    assert isinstance(spec, LossSpec)
