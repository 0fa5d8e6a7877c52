"""scikit-learn's base classes when it is installed, stand-ins when it is not.

Only estimator modules import this file, because importing scikit-learn costs
about a second.  The stand-ins behave the same for what osvm's users meet:
`get_params`, `set_params`, `clone`, `repr`, `score`, `fit_predict`.  Setting
``OSVM_NO_SKLEARN=1`` forces them, for tests and for quick scripts.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from osvm._input.stand_in import BaseEstimator as _BaseEstimator
from osvm._input.stand_in import not_fitted_error, want_sklearn
from osvm._input.targets import check_sample_weight, check_y_classes, check_y_regression
from osvm.exceptions import ConvergenceWarning


class _Mixin:
    _estimator_type: str

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        kind = tags.estimator_type = self._estimator_type
        if kind != "outlier_detector":
            made = getattr(import_module("sklearn.utils"), f"{kind.capitalize()}Tags")()
            setattr(tags, f"{kind}_tags", made)
            tags.target_tags.required = True
        return tags


class _ClassifierMixin(_Mixin):
    _estimator_type = "classifier"

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean accuracy of ``predict(X)`` against y."""
        found = self.predict(X)  # type: ignore[attr-defined]
        y = check_y_classes(y, len(found))
        return float(np.average(y == found, weights=check_sample_weight(sample_weight, len(y))))


class _RegressorMixin(_Mixin):
    _estimator_type = "regressor"

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination R^2 of ``predict(X)`` against y."""
        found = self.predict(X)  # type: ignore[attr-defined]
        y = check_y_regression(y, len(found))
        given = check_sample_weight(sample_weight, len(y))
        weight = np.ones_like(y) if given is None else given
        residual = float(np.sum(weight * (y - found) ** 2))
        spread = float(np.sum(weight * (y - np.average(y, weights=weight)) ** 2))
        if spread == 0.0:
            return 1.0 if residual == 0.0 else 0.0
        return 1.0 - residual / spread


class _OutlierMixin(_Mixin):
    _estimator_type = "outlier_detector"

    def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> Any:
        """``fit(X)``, then ``predict(X)``: +1 for inliers, -1 for outliers."""
        return self.fit(X, **kwargs).predict(X)  # type: ignore[attr-defined]


def _clone(estimator: Any, *, safe: bool = True) -> Any:
    """A new, unfitted estimator with the same parameters."""
    if isinstance(estimator, list | tuple | set | frozenset):
        return type(estimator)([_clone(item, safe=safe) for item in estimator])
    if hasattr(estimator, "__sklearn_clone__") and not isinstance(estimator, type):
        return estimator.__sklearn_clone__()
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        if safe:
            raise TypeError(f"Cannot clone {estimator!r}: it has no get_params method.")
        return copy.deepcopy(estimator)
    params = {
        name: _clone(value, safe=False) for name, value in estimator.get_params(deep=False).items()
    }
    return type(estimator)(**params)


def _import_sklearn() -> Any:
    """The module `sklearn.base`, or None."""
    if not want_sklearn():
        return None
    try:
        import sklearn.base
    except ImportError:
        return None
    return sklearn.base


_sklearn_base = _import_sklearn()
HAS_SKLEARN = _sklearn_base is not None

BaseEstimator: Any = _sklearn_base.BaseEstimator if HAS_SKLEARN else _BaseEstimator


def _mixin(ours: Any) -> Any:
    """Our mixin before scikit-learn's: the same score, with checked weights."""
    if not HAS_SKLEARN:
        return ours
    name = ours.__name__[1:]
    return type(name, (ours, getattr(_sklearn_base, name)), {"__module__": __name__})


ClassifierMixin: Any = _mixin(_ClassifierMixin)
RegressorMixin: Any = _mixin(_RegressorMixin)
OutlierMixin: Any = _sklearn_base.OutlierMixin if HAS_SKLEARN else _OutlierMixin
clone: Any = _sklearn_base.clone if HAS_SKLEARN else _clone


class _NoCallbacks:
    """Stands where scikit-learn 1.9 and later put `set_callbacks`."""


def _import_callbacks() -> tuple[Any, Any]:
    """scikit-learn's mixin and decorator for callbacks, or stand-ins that do nothing."""
    if HAS_SKLEARN:
        try:
            from sklearn.callback import CallbackSupportMixin, with_callbacks

            return CallbackSupportMixin, with_callbacks
        except ImportError:  # before 1.9
            pass
    return _NoCallbacks, lambda method: method


CallbackSupport, with_callbacks = _import_callbacks()
HAS_CALLBACKS = CallbackSupport is not _NoCallbacks


class available_if:
    """A method that exists only while `condition(estimator)` holds.

    The condition returns True, or the text that `AttributeError` gives.
    """

    def __init__(self, condition: Callable[[Any], bool | str]) -> None:
        self.condition = condition

    def __call__(self, method: Any) -> Any:
        self.method = method
        functools.update_wrapper(self, method)
        return self

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self.method
        answer = self.condition(instance)
        if answer is not True:
            raise AttributeError(
                f"This {type(instance).__name__!r} has no attribute {self.method.__name__!r}: "
                f"{answer}"
            )
        return self.method.__get__(instance, owner)


@functools.cache
def convergence_warning() -> type[ConvergenceWarning]:
    """osvm's class, also scikit-learn's where that is in use: either can be filtered."""
    if not HAS_SKLEARN:
        return ConvergenceWarning
    from sklearn.exceptions import ConvergenceWarning as Theirs

    return type("ConvergenceWarning", (ConvergenceWarning, Theirs), {})


def check_is_fitted(estimator: Any, attribute: str = "t_") -> None:
    """Raise `NotFittedError` unless the estimator has `attribute`."""
    if attribute not in estimator.__dict__ and not hasattr(estimator, attribute):
        calls = "'fit' or 'partial_fit'" if hasattr(type(estimator), "partial_fit") else "'fit'"
        raise not_fitted_error()(
            f"This {type(estimator).__name__} instance is not fitted yet. Call {calls} with "
            "appropriate arguments before using this estimator."
        )
