"""Losses of one's own: a Python object, a compiled function."""

import ctypes
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy import LowLevelCallable

from osvm import losses
from osvm._parts.compiled import LossSpec
from tests.compile_client import compile_client
from tests.loss_cases import SCORES, TREE, same_bits

ROOT = Path(__file__).resolve().parents[1]


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
