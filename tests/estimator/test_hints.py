"""Unknown constructor arguments: what to use instead."""

import inspect
import pickle

import pytest

import osvm
from osvm._estimator.compat import clone

LINEAR = [
    osvm.LinearClassifier,
    osvm.LinearRegressor,
    osvm.LinearNovelty,
    osvm.MultilabelClassifier,
    osvm.LinearSVC,
    osvm.AlmaClassifier,
]


@pytest.mark.parametrize(
    ("cls", "word", "hint"),
    [
        (osvm.LinearClassifier, "alpha", "use reg or C"),
        (osvm.OneClassSVM, "C", "use nu"),
        (osvm.SVC, "shrinking", "no such choice"),
        (osvm.LinearClassifier, "max_iter", "use epochs"),
        (osvm.LinearClassifier, "solver", "osvm.LinearSVC"),
        (osvm.LinearClassifier, "dual", "osvm.LinearSVC"),
        (osvm.LinearClassifier, "penalty", "see reg"),
        (osvm.LinearClassifier, "learning_rate", "use schedule"),
        (osvm.LinearClassifier, "mu", r"schedules.SMD\(mu=...\), or schedule__mu"),
        (osvm.LinearClassifier, "kernel", "KernelClassifier"),
        (osvm.LinearRegressor, "epsilon", "loss__epsilon"),
        (osvm.LinearRegressor, "epoch", "did you mean 'epochs'"),
        (osvm.LinearSVC, "epochs", "use max_iter"),
        (osvm.LinearSVC, "reg", r"use C \(C = 1 / \(reg n\)\)"),
        (osvm.LinearSVC, "nonsense", "it takes C"),
        (osvm.AlmaClassifier, "max_iter", "use epochs"),
        (osvm.KernelRegressor, "max_iter", "use epochs"),
    ],
)
def test_the_error_names_the_right_parameter(cls, word, hint):
    with pytest.raises(TypeError, match=f"{cls.__name__} has no parameter '{word}'.*{hint}"):
        cls(**{word: 1.0})
    model = cls()
    with pytest.raises(ValueError, match=rf"Invalid parameter '{word}' for .*{hint}"):
        model.set_params(**{word: 1.0})
    assert model.get_params() == cls().get_params()


@pytest.mark.parametrize("cls", LINEAR)
def test_signatures_are_those_of_the_constructors(cls):
    names = list(inspect.signature(cls).parameters)
    assert sorted(names) == cls._get_param_names()
    assert len(names) <= 24
    assert {"alpha", "solver", "cache_mb"}.isdisjoint(names)
    model = cls()
    assert clone(model).get_params() == model.get_params()
    assert pickle.loads(pickle.dumps(model)).get_params() == model.get_params()


def test_other_errors_of_a_constructor_pass_through():
    with pytest.raises(TypeError, match="positional"):
        osvm.LinearClassifier("hinge", 3)

    class Broken(osvm.LinearClassifier):
        def __init__(self, depth=1):
            raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        Broken(depth=2)
