"""Every loss: value, derivative, curvature, kinks; and losses as objects."""

import copy
import json
import math
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from osvm import losses
from tests.loss_cases import ALL, SCORES, WITH_MARGIN, by_name, every_loss, relu, same_bits

ROOT = Path(__file__).resolve().parents[1]

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
        spec = case.loss.spec()
        both = np.transpose([spec.value_dloss(y, one) for one in f])
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
