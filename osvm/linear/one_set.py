"""One example at a time with a set of labels: `learn_one` and `predict_one` of label sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osvm._estimator.one_example import OneExample, has_names


class OneSet(OneExample):
    """Mixin of `MultilabelClassifier`."""

    _one_target = "set"

    def _one_y(self, y: Any) -> Any:
        """Sets for a matrix of one row; a dict says of each label whether the example has it."""
        if isinstance(y, str | bytes) or not hasattr(y, "__iter__"):
            raise ValueError(
                f"y must be a collection of labels, as ['tea', 'milk'] or {{'tea': True}}, got "
                f"{y!r:.60}"
            )
        if isinstance(y, Mapping):
            return [tuple(label for label, is_there in y.items() if is_there)]
        return [tuple(y)]

    def predict_one(self, x: Any, values: Any = None) -> tuple:
        """The labels of one example, as `predict_labels` gives them.

        Parameters
        ----------
        x : array of column numbers, dict of column number or name to value, or dense row
        values : array of as many values; left out with a dict and with a dense row

        Returns
        -------
        tuple
            Empty for names when the model has learnt nothing.

        Examples
        --------
        >>> import osvm
        >>> model = osvm.MultilabelClassifier()
        >>> model.learn_one({"green": 1.0, "hot": 1.0}, ["tea", "drink"]).predict_one({"hot": 1.0})
        ('drink', 'tea')
        """
        if values is None and isinstance(x, dict) and has_names(x):
            x, values = self._columns_of(x)
            if x is None:
                return ()
        row = self._row_to_predict(x, values)
        return self.predict_labels(row)[0]  # type: ignore[attr-defined]
