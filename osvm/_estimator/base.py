"""What linear and kernel estimators share.

An estimator derives from `OnlineEstimator` and a mixin of `osvm._estimator.compat`.  It
keeps to two orders:

1. check everything (`_check_X`, `osvm._input.validate`, `osvm._input.parameters`,
   `osvm._input.labels`), then compute, then store: an error leaves the model exactly
   as it was;
2. what was fitted can be taken out and put back: `_get_state` and `_set_state`
   are what model files and checkpoints are made of;
3. who reads holds the model's lock (``with self._lock``), who changes it too
   (``with self._lock.changing()``), see `osvm._estimator.lock`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from osvm._estimator.compat import BaseEstimator, check_is_fitted
from osvm._estimator.docs import complete
from osvm._estimator.hints import PARTS, hint, with_hints
from osvm._estimator.lock import Locked
from osvm._input import validate
from osvm._input.rows import RowSource
from osvm._input.schema import Field, Schema, check_list
from osvm._input.types import State

_BASE_FIELDS = {
    "t": Field("float", 0, 2.0**53),
    "n_features_in": Field("int", 1, 2**48),
    "feature_names_in": Field("list", none=True),
}


class OnlineEstimator(Locked, BaseEstimator):
    """Base of all estimators.

    A fitted estimator has `t_` (examples seen), `n_features_in_`, and
    `feature_names_in_` when it was fitted on a frame with string column names.
    """

    def __init__(self) -> None:
        """An estimator without parameters, whose signature can be inspected."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Whole docstrings; and unknown arguments get an error that names the right one."""
        super().__init_subclass__(**options)
        if cls.__module__.startswith("osvm."):
            complete(cls)
        if "__init__" in cls.__dict__:
            cls.__init__ = with_hints(cls.__init__)  # type: ignore[method-assign]

    # ------------------------------------------------------------- parameters

    def _keep(self, params: dict[str, Any]) -> None:
        """Store the constructor's arguments (`locals()` there) untouched, under their names."""
        del params["self"]
        self.__dict__.update(params)
        self._join_river()

    def _join_river(self) -> None:
        """Nothing: `OneExample` has what river knows."""

    def set_params(self, **params: Any) -> Any:
        """Set parameters by name; ``schedule__mu`` sets that of a part.

        Parts are frozen and may be shared, so that the estimator gets a new one.  A part
        that was given by its name becomes an object: after ``schedule="smd"``,
        ``set_params(schedule__mu=0.1)`` makes it ``SMD(mu=0.1)``.  An error leaves the
        parameters as they were.

        Parameters
        ----------
        **params

        Returns
        -------
        self
        """
        inner: dict[str, dict[str, Any]] = {}
        known = self._get_param_names()
        for key in list(params):
            name, nested, own = key.partition("__")
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}{hint(name, known)}"
                )
            if nested and name in PARTS:
                inner.setdefault(name, {})[own] = params.pop(key)
        if inner:
            params |= {
                name: self._changed_part(name, params.get(name, getattr(self, name)), values)
                for name, values in inner.items()
            }
        return super().set_params(**params)

    def _changed_part(self, name: str, part: Any, values: dict[str, Any]) -> Any:
        """The part with these parameters; a kernel's name takes the rest from the estimator."""
        module = import_module(PARTS[name])
        if name == "kernel" and isinstance(part, str):
            own = {key: getattr(self, key, None) for key in module.parameters(part)}
            values = {**{key: v for key, v in own.items() if v is not None}, **values}
        return module.get(part, **values)

    # ------------------------------------------------------------------- data

    def _check_X(
        self,
        X: Any,
        *,
        reset: bool = False,
        allow_empty: bool = False,
        summed: bool = True,
    ) -> tuple[RowSource, Any]:
        """Open X; unless `reset`, it must have the columns that the model knows.

        A model that knows no columns yet (before its first `partial_fit`) takes
        any.  Nothing is stored: see `_set_features`.
        """
        known = self.__dict__
        name = type(self).__name__
        if "tokenizer_" in known and not reset and validate.are_documents(X):
            X = known["tokenizer_"].transform(X)
        if reset or "n_features_in_" not in known:
            source, X = validate.check_X(
                X, estimator_name=name, allow_empty=allow_empty, summed=summed
            )
            # a tokenizer that came before the first fit is of this X
            source.replaces_text = reset and "tokenizer_" in known and "t_" in known
            return source, X
        names = validate.feature_names(X)
        expected = known.get("feature_names_in_")
        if names is not None or expected is not None:
            validate.check_feature_names(names, expected, name)
        return validate.check_X(
            X,
            n_features=known["n_features_in_"],
            estimator_name=name,
            allow_empty=allow_empty,
            summed=summed,
        )

    def _set_features(self, X: Any, source: RowSource) -> None:
        """Remember the columns of X (as the user gave it); call after all checks."""
        names = validate.feature_names(X)
        self.n_features_in_ = source.n_features
        tokenizer = self.__dict__.get("tokenizer_")
        if tokenizer is not None and (
            source.replaces_text or tokenizer.n_features != source.n_features
        ):
            del self.tokenizer_  # these columns are not the ones it makes
            self.__dict__.pop("_input", None)
        if names is not None:
            self.feature_names_in_ = names
        elif "feature_names_in_" in self.__dict__:
            del self.feature_names_in_

    def _learn_pieces(self, rows: list[int], n: int, learn: Callable[[int, int], Any]) -> None:
        """Learn rows 0 .. n-1 in pieces that begin at 0 and at `rows`; all of them or none.

        A label starts at the row that brings it, wherever the stream is cut, so a call that
        brings labels learns the rows before them first.  `_detach` is told to give the model
        parts of its own, which an error throws away; its message counts the rows of a piece.
        """
        before, start = dict(self.__dict__), 0
        try:
            self._detach()
            for start, stop in zip([0, *rows], [*rows, n]):
                learn(start, stop)
        except BaseException as error:
            self.__dict__.clear()
            self.__dict__.update(before)
            if len(error.args) == 1 and isinstance(error.args[0], str):
                offset = start
                error.args = (
                    re.sub(r"\brow (\d+)", lambda m: f"row {int(m[1]) + offset}", error.args[0]),
                )
            raise

    def _detach(self) -> None:
        """Replace what learning changes in place by a copy."""
        raise NotImplementedError

    def _check_fitted(self) -> None:
        """Raise scikit-learn's `NotFittedError` (or its stand-in) before the first fit."""
        if "t_" not in self.__dict__:
            check_is_fitted(self)

    def __sklearn_is_fitted__(self) -> bool:
        return "t_" in self.__dict__

    # ------------------------------------------------------------------ state

    def _get_state(self) -> State:
        """Everything fitted: scalars that JSON can hold, and arrays by name.

        Together with `get_params(deep=False)` it makes the model: `_set_state` on
        a new estimator with the same parameters must give one that predicts the
        same and goes on learning bit for bit the same, so the scalars include the
        state of the random generator (`generator_state`) and of every schedule.
        Start from `_get_base_state`.
        """
        raise NotImplementedError

    def _set_state(self, scalars: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Restore what `_get_state` gave; check sizes before storing anything."""
        raise NotImplementedError

    def _get_base_state(self) -> dict[str, Any]:
        """The scalars that every estimator has."""
        self._check_fitted()
        names = self.__dict__.get("feature_names_in_")
        return {
            "t": self.t_,
            "n_features_in": int(self.n_features_in_),
            "feature_names_in": None if names is None else names.tolist(),
        }

    @staticmethod
    def _check_scalars(scalars: Any, fields: dict[str, Field]) -> None:
        """Raise ValueError unless the scalars are those of every estimator and `fields`."""
        Schema("model", {**_BASE_FIELDS, **fields}, {}).check_layout(scalars, {})
        names = scalars["feature_names_in"]
        if names is not None:
            n = scalars["n_features_in"]
            check_list("feature names", names, Field("str"), most=n, least=n)

    def _set_base_state(self, scalars: dict[str, Any]) -> None:
        """Restore what `_get_base_state` gave."""
        self._check_scalars({name: scalars[name] for name in _BASE_FIELDS if name in scalars}, {})
        names = scalars["feature_names_in"]
        t = scalars["t"]
        self.t_ = int(t) if t == int(t) else t
        self.n_features_in_ = int(scalars["n_features_in"])
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif "feature_names_in_" in self.__dict__:
            del self.feature_names_in_

    def __getstate__(self) -> dict[str, Any]:
        # A class with a compiled base has to name it, or its objects count as no pickles.
        state = dict(super().__getstate__() or {})
        state.pop("_runs", None)  # which learning changes in place; a copy begins anew
        return state

    def __reduce_ex__(self, protocol: Any) -> Any:
        # For pickles and copies: `__getstate__` reads the model.  Protocols 0 and 1 would
        # want to pickle the compiled base class.
        with self._lock:
            return super().__reduce_ex__(max(int(protocol), 2))

    def save(self, path: Any) -> None:
        """Write the fitted model to one file that `osvm.load` reads.

        Parameters
        ----------
        path : str or path-like
        """
        from osvm.io.models import save

        save(self, path)

    def to_bytes(self) -> bytes:
        """The fitted model as the bytes of a model file, for `osvm.from_bytes`.

        Returns
        -------
        bytes
            Equal for equal models.
        """
        from osvm.io.models import to_bytes

        return to_bytes(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
