"""Linear novelty detection: a one-class model."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from osvm._estimator.compat import OutlierMixin, with_callbacks
from osvm._input import validate
from osvm._input.parameters import check_number
from osvm._input.schema import ArrayField, Field, Schema
from osvm._input.types import Array
from osvm.linear.examples import column_moments
from osvm.linear.first_step import some_rows
from osvm.linear.one_score import OneScore
from osvm.linear.plan import resolve_plan
from osvm.linear.scaling import ScaledRows, decide, first_sq_norm, take
from osvm.linear.training import Examples, n_told

RECENT = 1024  # scores of a stream that its offset is taken from
# reg in units of the squared norm of the rows' mean, and of a stream's first row: sparse rows
# have few columns in common, so that their mean is small beside them.
_REG_OF_MEAN, _MEAN_ROWS = 0.2, 4096
_REG_OF_ROW, _REG_OF_SPARSE_ROW, _SPARSE = 0.2, 0.005, 0.02


class LinearNovelty(OutlierMixin, OneScore):
    """One-class linear SVM: learns what is usual, and flags the rest.

    Minimizes ``reg/2 ||w||² + mean max(0, 1 - w.x)``; a row is novel when
    ``w.x < offset_``, which `nu` sets.

    Parameters
    ----------
    loss : str or object, default "novelty"
    nu : float, default 0.1
        Share of the training rows that are flagged, 0 <= nu < 1.  `fit` takes `offset_` from the
        scores of all its rows; a stream from the scores that the last 1,024 rows had when they
        had been learnt.
    reg, C : float, optional
        By default reg is 0.2 times the squared norm of the rows' mean, in a stream 0.2
        times that of its first row (0.005 times, where fewer than 2 % of its values are not
        zero), so that rows may have any unit.  With a schedule other than
        "bottou" and "inverse_time" it is 1e-4.
    schedule, eta0, project, average, batch_size, normalize, scale
        As for :class:`LinearClassifier`; the default schedule is "bottou".
    fit_intercept : bool, default False
    epochs, tol, shuffle, random_state, warm_start, n_jobs, verbose, record, callback
        As for :class:`LinearClassifier`.

    Attributes
    ----------
    coef_ : array, shape (d,)
    intercept_ : array, shape (1,)
    offset_ : float
        ``decision_function = score_samples - offset_``.
    t_, n_iter_, objective_, history_, schedule_
        As for :class:`LinearClassifier`; "error" is the share of rows with a
        score below 1.

    Examples
    --------
    >>> import numpy as np, osvm
    >>> X = np.array([[1.0, 0.1], [0.9, 0.0], [1.1, 0.2], [1.0, 0.0]])
    >>> model = osvm.LinearNovelty(random_state=0).fit(X)
    >>> model.predict([[1.0, 0.1], [-1.0, 0.1]]).tolist()
    [1, -1]
    """

    _tasks = ("novelty",)
    _error_kind = "novel"
    _one_target = "none"
    _has_offset = True
    _state_fields: ClassVar[dict[str, Field]] = {
        "offset": Field("float", -1e300, 1e300, optional=True)  # not in older files, where it is 1
    }
    _recent: Array  # how many, and a ring of the scores of rows that were learnt
    _offset: float

    def __init__(
        self,
        loss: Any = "novelty",
        *,
        nu: float = 0.1,
        reg: float | None = None,
        C: float | None = None,
        schedule: Any = "bottou",
        eta0: float = 0.1,
        project: bool | float = False,
        average: bool | int = False,
        batch_size: int | str = 1,
        normalize: bool = False,
        scale: str | None = None,
        fit_intercept: bool = False,
        epochs: int = 5,
        tol: float | None = None,
        shuffle: bool | str = True,
        random_state: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        record: bool = False,
        callback: Any = None,
    ) -> None:
        self._keep(locals())

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearNovelty:
        """Learn from all rows, `epochs` times."""
        with self._lock.writing():
            source, rows = self._open(X, reset=True)
            weight = validate.check_sample_weight(sample_weight, source.n_rows, allow_zero=False)
            self._check_nu()
            reg = _in_range(_REG_OF_MEAN * _sq_mean(rows, self.normalize, source))
            n = source.n_rows if weight is None else n_told(weight)
            plan = resolve_plan(self, n, usual_reg=reg)
            data = Examples(source, np.ones(source.n_rows), weight)
            self._train((X, None, sample_weight), data, plan, (1, self._weight_dtype(rows)))
            return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearNovelty:
        """Learn from the next rows of a stream, in their order."""
        with self._lock.changing():
            source, rows = self._open(X)
            weight = validate.check_sample_weight(sample_weight, source.n_rows, allow_zero=True)
            self._check_nu()
            self._learn_next(X, source, rows, np.ones(source.n_rows), weight)
            self._keep_scores(source, weight)
            return self

    # --------------------------------------------------------------- the offset

    def _check_nu(self) -> None:
        check_number("nu", self.nu, 0.0, 1.0, high_open=True)

    def _stream_reg(self, source: Any) -> float:
        values, _ = take(source, np.zeros(1, np.int64))
        stored = np.count_nonzero(column_moments(values)[0])
        sparse = stored < _SPARSE * source.n_features
        share = _REG_OF_SPARSE_ROW if sparse else _REG_OF_ROW
        return _in_range(share * first_sq_norm(source))

    def _moment(self, X: Any, source: Any, *parts: Any) -> dict[str, Any]:
        found = super()._moment(X, source, *parts)
        return found | self._offset_for(found["_learner"], source, None)

    def _learnt_besides(self, learner: Any, data: Examples) -> dict[str, Any]:
        return self._offset_for(learner, data.X, data.weight)

    def _offset_for(self, learner: Any, source: Any, weight: Array | None) -> dict[str, Any]:
        """After a fit: the offset that flags a share `nu` of the rows, by weight."""
        scores = _scores(learner, source)
        order = np.argsort(scores, kind="stable")
        total = np.cumsum(np.ones(len(scores)) if weight is None else weight[order])
        flagged = np.searchsorted(total, self.nu * total[-1] * (1 + 1e-12), side="right")
        offset = float(scores[order[min(int(flagged), len(scores) - 1)]])
        some = scores[some_rows(len(scores), RECENT)]
        recent = np.zeros(1 + RECENT)
        recent[0], recent[1 : 1 + len(some)] = len(some), some
        return {"_recent": recent, "_offset": offset}

    def _keep_scores(self, source: Any, weight: Array | None) -> None:
        """After rows of a stream; those of weight 0 do not count."""
        if "_recent" not in self.__dict__:
            self._recent = np.zeros(1 + RECENT)
            self.__dict__.pop("_one", None)
        first = max(0, source.n_rows - RECENT)
        scores = _scores(self._learner, source, first)
        if weight is not None:
            scores = scores[weight[first:] > 0.0]
        at = int(self._recent[0])
        self._recent[1 + (at + np.arange(len(scores))) % RECENT] = scores
        self._recent[0] = at + len(scores)
        self.__dict__.pop("_offset", None)

    @property
    def offset_(self) -> float:
        """What scores of usual rows are not below."""
        with self._lock:
            self._need_attribute("_learner")
            offset = self.__dict__.get("_offset")
            if offset is None:
                n = max(1, min(int(self._recent[0]), RECENT))  # 0 before there is a row
                k = min(int(self.nu * n * (1 + 1e-12)), n - 1)
                offset = self._offset = float(np.partition(self._recent[1 : 1 + n], k)[k])
            return offset

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            state = super().__getstate__()
            if "_recent" in state:  # which learning changes in place
                state["_recent"] = state["_recent"].copy()
            return state

    def _get_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        scalars, arrays = super()._get_state()
        scalars["offset"] = self.offset_
        if "_recent" in self.__dict__:
            arrays["recent"] = self._recent.copy()
        return scalars, arrays

    def _set_state(self, scalars: dict[str, Any], arrays: dict[str, Array]) -> None:
        arrays = dict(arrays)
        recent = arrays.pop("recent", None)
        if recent is not None:
            field = ArrayField((1 + RECENT,), np.float64, -1e300, 1e300)
            Schema("novelty", {}, {"recent": field}).check({}, {"recent": recent})
            if not (1.0 <= recent[0] <= 2.0**53 and recent[0] == int(recent[0])):
                raise ValueError("the number of recent scores is out of range")
        super()._set_state(scalars, arrays)
        self.__dict__.pop("_recent", None)
        if recent is not None:
            self._recent = np.array(recent, np.float64)
        self._offset = float(scalars.get("offset", 1.0))

    # --------------------------------------------------------------- answers

    def score_samples(self, X: Any) -> Array:
        """w.x + b for each row: the larger, the more usual."""
        with self._lock:
            return self._scores(X)[:, 0]

    def decision_function(self, X: Any) -> Array:
        """`score_samples` minus `offset_`: negative for novel rows."""
        with self._lock:
            return self._scores(X)[:, 0] - self.offset_

    def predict(self, X: Any) -> Array:
        """+1 for usual rows, -1 for novel ones."""
        return np.where(self.decision_function(X) >= 0, 1, -1)


def _scores(learner: Any, source: Any, start: int = 0) -> Array:
    """Scores of the rows from `start` on."""
    out = np.empty((source.n_rows, 1))
    averaged = learner.weights.averaged_count > 0
    decide(learner, source, out, averaged, start, source.n_rows)
    return validate.check_scores(out[start:])[:, 0]


def _in_range(reg: float) -> float:
    """For rows of any size, or without a mean."""
    return min(max(reg, 1e-100), 1e100)


def _sq_mean(rows: Any, normalize: bool, source: Any) -> float:
    """Squared norm of the mean of some of the rows, as the learner sees them (`source`)."""
    some = rows[np.sort(some_rows(rows.shape[0], _MEAN_ROWS))]
    if sp.issparse(some):
        values = some.data.astype(np.float64)
        if normalize:
            owner = np.repeat(np.arange(some.shape[0]), np.diff(some.indptr))
            norms = np.sqrt(np.bincount(owner, values**2, some.shape[0]))
            values /= np.where(norms > 0.0, norms, 1.0)[owner]
        columns, at = np.unique(some.indices, return_inverse=True)
        total = np.bincount(at, values) if len(at) else np.zeros(0)
    else:
        values = np.asarray(some, np.float64)
        if normalize:
            norms = np.sqrt((values**2).sum(axis=1, keepdims=True))
            values = values / np.where(norms > 0.0, norms, 1.0)
        columns, total = np.arange(some.shape[1]), values.sum(axis=0)
    if isinstance(source, ScaledRows):
        total = total * source.scaling.factors[columns]
    return float(np.square(total / some.shape[0]).sum())
