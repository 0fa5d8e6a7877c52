"""ALMA_p: a linear classifier that approaches the largest margin in any p-norm.

Source: Gentile, "A new approximate maximal margin classification algorithm" (JMLR 2001), as
surveyed by Vishwanathan, Schraudolph and Smola (JMLR 2006), section 3.  Large p suits targets
that need few of many features.  The kernel form (p = 2 only) is solver "alma" of
:class:`osvm.SVC`; `osvm.recipes.alma` gives either.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from osvm._estimator.compat import ClassifierMixin
from osvm._input import validate
from osvm._input.labels import LabelIndex, split_outputs
from osvm._input.parameters import check_bool, check_integer, check_number, make_generator
from osvm._input.schema import ArrayField, Field, Schema
from osvm._input.types import Array
from osvm.linear.coef_scores import CoefScores
from osvm.linear.dual_loop import AlmaState, restore_alma


class AlmaClassifier(ClassifierMixin, CoefScores):
    """Approximate large margin algorithm for the p-norm, on dense or sparse rows.

    Every row counts with p-norm 1 and the weights stay within the ball of q-norm 1
    (1/p + 1/q = 1); there is no offset.

    Parameters
    ----------
    p : float, default=2.0
        Norm of the rows, at least 2.
    slack : float, default=0.9
        Aim at (1 - slack) of the largest margin; 1 is the p-norm perceptron.
    margin, step : float, optional
        Gentile's B and C; sqrt(8)/slack and sqrt(2) by default.
    epochs : int, default=1
        Passes over the rows in `fit`; it ends after one without a correction.
    shuffle : bool, default=False
        Take the rows in a new random order in each epoch.
    random_state : int or Generator, optional

    Attributes
    ----------
    classes_ : array
    coef_ : array, (1, d) for two classes, else (K, d)
    intercept_ : array of zeros
    t_ : int
        Examples seen.
    n_iter_ : int
        Passes that the last `fit` made; 1 in a stream.
    n_corrections_ : int

    Examples
    --------
    >>> from osvm import AlmaClassifier
    >>> X, y = [[2.0, 0.0, 1.0], [0.0, 2.0, 1.0]], ["left", "right"]
    >>> AlmaClassifier(p=4).fit(X, y).predict([[1.0, 0.0, 0.0]]).tolist()
    ['left']
    """

    def __init__(
        self,
        p: float = 2.0,
        *,
        slack: float = 0.9,
        margin: float | None = None,
        step: float | None = None,
        epochs: int = 1,
        shuffle: bool = False,
        random_state: Any = None,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any) -> AlmaClassifier:
        """Learn from all rows, `epochs` times at most."""
        with self._lock.writing():
            source, labels = self._check(X, y, reset=True)
            index = LabelIndex.of_several(labels)
            Y = split_outputs(index.encode(labels), len(index))
            state = self._new_state(len(Y), source.n_features)
            epochs = check_integer("epochs", self.epochs, 1)
            generator = make_generator(self.random_state)
            shuffle = check_bool("shuffle", self.shuffle)
            seen = 0
            n_iter = 0
            for _ in range(epochs):
                order = (
                    generator.permutation(source.n_rows) if shuffle else np.arange(source.n_rows)
                )
                made = state.learn(source, Y, order.astype(np.intp, copy=False))
                seen += source.n_rows
                n_iter += 1
                if made == 0:
                    break
            self._store(X, source, state, index, seen, n_iter)
            return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> AlmaClassifier:
        """Learn from these rows once, in their order; the first call names all `classes`."""
        with self._lock.writing():
            known = self.__dict__
            source, labels = self._check(X, y, reset=False)
            index = known.get("_index")
            if index is None:
                if classes is None:
                    raise ValueError("the first call of partial_fit needs classes")
                index = LabelIndex.of(validate.check_y_classes(classes))
                if len(index) < 2:
                    raise ValueError("classes must name at least two labels")
                state = self._new_state(len(index) if len(index) > 2 else 1, source.n_features)
            else:
                state = copy.deepcopy(known["_state"])
            Y = split_outputs(index.encode(labels), len(index))
            state.learn(source, Y, np.arange(source.n_rows, dtype=np.intp))
            self._store(X, source, state, index, known.get("t_", 0) + source.n_rows)
            return self

    # ------------------------------------------------------------------ helpers

    def _check(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Array]:
        name = type(self).__name__
        source, _ = self._check_X(X, reset=reset)
        return source, validate.check_y_classes(y, source.n_rows, estimator_name=name)

    def _new_state(self, n_outputs: int, d: int) -> AlmaState:
        p = check_number("p", self.p, 2)
        slack = check_number("slack", self.slack, 0, 1, low_open=True)
        margin = check_number("margin", self.margin, 0, low_open=True, none=True)
        step = check_number("step", self.step, 0, low_open=True, none=True)
        return AlmaState(
            n_outputs,
            d,
            p,
            slack,
            np.sqrt(8.0) / slack if margin is None else margin,
            np.sqrt(2.0) if step is None else step,
        )

    def _store(
        self,
        X: Any,
        source: Any,
        state: AlmaState,
        index: LabelIndex,
        seen: int,
        n_iter: int = 1,
    ) -> None:
        if not (np.abs(state.raw).max() < _LARGEST and np.isfinite(state.weights()).all()):
            raise ValueError(
                "the weights overflowed: norms of rows are too small or too large; "
                "scale the rows (e.g. to unit norm)"
            )
        with self._lock.holding():
            self._set_features(X, source)
            self._index = index
            self.classes_ = index.classes
            self._state = state
            self.coef_ = state.weights()
            self.intercept_ = np.zeros(len(self.coef_))
            self.n_corrections_ = int((state.count - 1).sum())
            self.t_, self.n_iter_ = seen, n_iter

    # -------------------------------------------------------------------- state

    def _get_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        scalars = self._get_base_state()
        state = self._state
        scalars["labels"] = self._index.get_state()
        scalars |= {name: getattr(state, name) for name in _FIELDS}
        return scalars, {name: getattr(state, name) for name in _ARRAYS}

    def _set_state(self, scalars: dict[str, Any], arrays: dict[str, Array]) -> None:
        self._check_scalars(scalars, {"labels": Field("dict"), **_FIELDS})
        index = LabelIndex.from_state(scalars["labels"])
        outputs = len(index) if len(index) > 2 else 1
        numbers = {name: scalars[name] for name in _FIELDS}
        state = _restored((outputs, scalars["n_features_in"]), numbers, arrays)
        self._set_base_state(scalars)
        self._index, self._state = index, state
        self.classes_ = index.classes
        self.coef_ = state.weights()
        self.intercept_ = np.zeros(outputs)
        self.n_corrections_ = int((state.count - 1).sum())


_LARGEST = 1e150  # of theta
_FIELDS = {
    "p": Field("float", 2.0, 1e6),
    "slack": Field("float", 1e-300, 1.0),
    "margin": Field("float", 1e-300, 1e300),
    "step": Field("float", 1e-300, 1e300),
}
_ARRAYS = ("raw", "scale", "power", "count")


def _restored(
    shape: tuple[int, int], numbers: dict[str, float], arrays: dict[str, Array]
) -> AlmaState:
    """The state with these numbers and arrays; ValueError when there is none."""
    outputs = shape[:1]
    fields = {
        "raw": ArrayField(shape, np.float64, -_LARGEST, _LARGEST),
        "scale": ArrayField(outputs, np.float64, 1e-12, 1e12),
        "power": ArrayField(outputs, np.float64, 0.0),
        "count": ArrayField(outputs, np.float64, 1.0, 2.0**53),
    }
    Schema("ALMA classifier", _FIELDS, fields).check(numbers, arrays)
    state = restore_alma([numbers[name] for name in _FIELDS], [arrays[name] for name in _ARRAYS])
    with np.errstate(all="ignore"):
        if not np.isfinite(state.weights()).all():
            raise ValueError("the saved weights of the ALMA classifier overflow")
    return state
