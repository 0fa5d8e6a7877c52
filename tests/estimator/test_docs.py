"""Docstrings of methods: what all estimators share is added, what is a method's own stays."""

import inspect

import pytest

import osvm
from osvm._estimator.base import OnlineEstimator
from osvm._estimator.docs import RETURNS
from osvm.io.models import CLASSES


@pytest.mark.parametrize("name", CLASSES)
def test_every_method_says_what_goes_in_and_comes_out(name):
    cls = getattr(osvm, name)
    for method in RETURNS.keys() & set(dir(cls)):
        text = inspect.getdoc(getattr(cls, method))
        assert text.count("Returns\n-------\n") == 1
        for parameter in list(inspect.signature(getattr(cls, method)).parameters)[1:]:
            assert text.count(f"\n{parameter} : ") == 1, (method, parameter)


def test_what_a_docstring_says_itself_stays_in_the_order_of_the_arguments():
    text = inspect.getdoc(osvm.LinearClassifier.partial_fit)
    assert text.endswith(
        """
Parameters
----------
X : CSR matrix, array or data frame, shape (n, d)
y : array of n labels
classes : array, optional
    All labels, if they are known at the first call.
sample_weight : array of n weights, optional

Returns
-------
self"""
    )
    assert "array, shape (n, K)" in inspect.getdoc(osvm.MultilabelClassifier.predict)
    assert "y : ignored" in inspect.getdoc(osvm.OneClassSVM.fit)


def test_classes_of_others_keep_their_docstrings():
    class Own(OnlineEstimator):
        def fit(self, X, y):
            """Of its own."""

    assert Own.fit.__doc__ == "Of its own."
