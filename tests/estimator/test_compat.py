"""The scikit-learn layer: real base classes when they are there, stand-ins when not."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from osvm._estimator import compat
from osvm._estimator.base import OnlineEstimator
from osvm._estimator.compat import (
    _BaseEstimator,
    _ClassifierMixin,
    _clone,
    _OutlierMixin,
    _RegressorMixin,
    check_is_fitted,
    not_fitted_error,
)
from osvm._input import stand_in
from osvm._input.stand_in import _NotFittedError


class Part(_BaseEstimator):
    def __init__(self, width=1):
        self.width = width


class Model(_ClassifierMixin, _BaseEstimator):
    def __init__(self, reg=1e-4, loss="hinge", part=None, *, average=False):
        self.reg = reg
        self.loss = loss
        self.part = part
        self.average = average

    def predict(self, X):
        return np.asarray(X)[:, 0]


def test_get_params():
    model = Model(part=Part(3))
    assert model.get_params(deep=False) == {
        "reg": 1e-4,
        "loss": "hinge",
        "part": model.part,
        "average": False,
    }
    assert model.get_params()["part__width"] == 3


def test_set_params():
    model = Model(part=Part(3))
    assert model.set_params(reg=1, part__width=5) is model
    assert (model.reg, model.part.width) == (1, 5)
    assert model.set_params() is model
    model.set_params(part=Part(7), part__width=8)
    assert model.part.width == 8
    with pytest.raises(ValueError, match=r"Invalid parameter 'rge' .* Valid parameters are: \["):
        model.set_params(rge=1)


def test_repr_shows_what_was_changed():
    assert repr(Model()) == "Model()"
    assert repr(Model(reg=0.5, average=True)) == "Model(average=True, reg=0.5)"
    assert repr(Model(reg=np.nan)) == "Model(reg=nan)"


def test_starred_constructors_are_refused():
    class Starred(_BaseEstimator):
        def __init__(self, *args):
            pass

    class Bare(_BaseEstimator):
        pass

    with pytest.raises(RuntimeError, match="must name its parameters"):
        Starred().get_params()
    assert Bare().get_params() == {}


def test_clone():
    model = Model(reg=0.5, part=Part(3))
    model.fitted_ = True
    copy = _clone(model)
    assert copy is not model
    assert copy.reg == 0.5
    assert copy.part is not model.part
    assert copy.part.width == 3
    assert not hasattr(copy, "fitted_")
    assert [m.reg for m in _clone([model, Model()])] == [0.5, 1e-4]
    with pytest.raises(TypeError, match="get_params"):
        _clone(3)


def test_scores():
    X = np.array([[1.0], [2.0], [3.0], [4.0]])
    y = np.array([1.0, 2.0, 3.0, 5.0])
    assert Model().score(X, y) == 0.75
    assert Model().score(X, y, sample_weight=[1, 1, 1, 0]) == 1.0

    class Regressor(_RegressorMixin, Model):
        pass

    def r2(y, f, w):
        return 1 - np.sum(w * (y - f) ** 2) / np.sum(w * (y - np.average(y, weights=w)) ** 2)

    w = np.array([1.0, 2, 3, 4])
    regressor = Regressor()
    assert _RegressorMixin.score(regressor, X, y) == pytest.approx(r2(y, X[:, 0], np.ones(4)))
    assert _RegressorMixin.score(regressor, X, y, w) == pytest.approx(r2(y, X[:, 0], w))
    assert _RegressorMixin.score(regressor, X[:1], X[:1, 0]) == 1.0
    assert _RegressorMixin.score(regressor, X[:1], [7.0]) == 0.0


def test_scores_agree_with_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(20, 1)), rng.normal(size=20), rng.random(20)
    mine = _RegressorMixin.score(Model(), X, y, w)
    assert mine == pytest.approx(metrics.r2_score(y, X[:, 0], sample_weight=w))
    X, y = rng.integers(0, 2, (20, 1)), rng.integers(0, 2, 20)
    mine = Model().score(X, y, w)
    assert mine == pytest.approx(metrics.accuracy_score(y, X[:, 0], sample_weight=w))


def test_fit_predict():
    class Novelty(_OutlierMixin, Model):
        def fit(self, X, y=None):
            return self

    assert Novelty().fit_predict(np.ones((2, 1))).tolist() == [1, 1]


def test_params_agree_with_scikit_learn():
    base = pytest.importorskip("sklearn.base")

    class Real(base.BaseEstimator):
        __init__ = Model.__init__

    a, b = Real(reg=3, part=Part(2)), Model(reg=3, part=Part(2))
    assert set(a.get_params()) == set(b.get_params())
    assert a._get_param_names() == b._get_param_names()
    assert base.clone(b).part.width == 2  # a stand-in can be cloned by the real clone


def test_not_fitted():
    model = OnlineEstimator()
    with pytest.raises(
        not_fitted_error(), match="This OnlineEstimator instance is not fitted yet"
    ):
        check_is_fitted(model)
    with pytest.raises(ValueError, match="not fitted"):
        model._check_fitted()
    with pytest.raises(AttributeError):
        model._check_fitted()
    model.t_ = 1
    check_is_fitted(model)
    model._check_fitted()
    assert model.__sklearn_is_fitted__()


def test_not_fitted_is_scikit_learns_own():
    exceptions = pytest.importorskip("sklearn.exceptions")
    if not stand_in.want_sklearn():
        pytest.skip("stand-ins are forced")
    assert not_fitted_error() is exceptions.NotFittedError
    assert compat.HAS_SKLEARN


def test_stand_ins_can_be_forced(monkeypatch):
    """Unless scikit-learn is loaded already: then its own error is what callers catch."""
    monkeypatch.setenv("OSVM_NO_SKLEARN", "1")
    monkeypatch.delitem(sys.modules, "sklearn", raising=False)
    assert not_fitted_error() is _NotFittedError
    code = """
        import sys
        from osvm._estimator import base
        from osvm._estimator import compat
        from osvm._input import stand_in
        assert not compat.HAS_SKLEARN
        assert compat.BaseEstimator is compat._BaseEstimator
        assert "sklearn" not in sys.modules
        assert hasattr(base.OnlineEstimator(), "__sklearn_tags__")  # called by scikit-learn only
        try:
            base.OnlineEstimator()._check_fitted()
        except stand_in._NotFittedError:
            print("fine")
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, "OSVM_NO_SKLEARN": "1"},
        check=True,
    )
    assert run.stdout.strip() == "fine"
