"""scikit-learn's contract for parameters, without scikit-learn.

For what stands below the estimators, and for all of osvm where scikit-learn is not installed
(see `osvm._estimator.compat`).  Importing scikit-learn costs about a second, so it is imported
only where it is called for.
"""

from __future__ import annotations

import inspect
import os
import sys
from typing import Any


class BaseEstimator:
    """Parameters by introspection of the constructor, as in scikit-learn."""

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Names of the constructor's arguments, sorted."""
        if cls.__init__ is object.__init__:
            return []
        parameters = inspect.signature(cls.__init__).parameters.values()
        for parameter in parameters:
            if parameter.kind == parameter.VAR_POSITIONAL:
                raise RuntimeError(f"{cls.__name__} must name its parameters, without *args")
        return sorted(p.name for p in parameters if p.name != "self" and p.kind != p.VAR_KEYWORD)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor parameters by name; with ``deep``, those of nested objects too."""
        out: dict[str, Any] = {}
        for name in self._get_param_names():
            value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                out.update((f"{name}__{k}", v) for k, v in value.get_params().items())
            out[name] = value
        return out

    def set_params(self, **params: Any) -> Any:
        """Set constructor parameters; ``part__name`` reaches into a nested object."""
        if not params:
            return self
        valid = self.get_params(deep=True)
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, delimiter, sub_key = key.partition("__")
            if name not in valid:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: "
                    f"{self._get_param_names()!r}."
                )
            if delimiter:
                nested.setdefault(name, {})[sub_key] = value
            else:
                setattr(self, name, value)
                valid[name] = value
        for name, sub_params in nested.items():
            valid[name].set_params(**sub_params)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        shown = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if repr(value) != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of any estimator; only it calls this."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))


class _NotFittedError(ValueError, AttributeError):
    """The estimator was used before `fit` or `partial_fit`."""


def not_fitted_error() -> type[Exception]:
    """The class to raise: scikit-learn's own wherever it can be imported."""
    if want_sklearn() or "sklearn" in sys.modules:
        try:
            from sklearn.exceptions import NotFittedError

            return NotFittedError
        except ImportError:
            pass
    return _NotFittedError


def want_sklearn() -> bool:
    return os.environ.get("OSVM_NO_SKLEARN", "") in ("", "0")
