"""`SVR` and `OneClassSVM`: the other problems of the working-set solver.

Both are LIBSVM's, ``1/2 a' K a - t' a`` in a box with a fixed sum of the signed coefficients, and
differ from `SVC` in their targets t, boxes and sums alone (Chang and Lin, "LIBSVM", 2011,
sections 2.3 and 2.4).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from osvm._estimator.compat import OutlierMixin, RegressorMixin
from osvm._input import validate
from osvm._input.parameters import check_number
from osvm._input.types import Array
from osvm.kernel.cached.block_problems import most_passes, solve_sets
from osvm.kernel.cached.machine import CachedMachine, make_machine
from osvm.kernel.cached.task import Fit, Task
from osvm.kernel.fixed_set import STATE, FixedSetEstimator


class _OneOutput(FixedSetEstimator):
    """What the two share: one output, learnt by working sets."""

    def _solve(
        self, task: Task, sign: Array, target: Array, upper: Array, start: Array | None = None
    ) -> Fit:
        """Coefficients of all rows; each row stands for ``len(sign) // n`` neighbors of them."""
        copies = len(sign) // task.n
        order = task.order(True)
        places = (order[:, None] * copies + np.arange(copies)).ravel()
        columns = task.columns(None, order=np.repeat(order, copies))
        (machine,), (good,) = solve_sets(
            columns,
            sign[places][None, :],
            upper[places],
            target=target[places],
            bias=True,
            size=None,
            tol=task.tol,
            passes=most_passes(columns.n) if task.max_iter == -1 else task.max_iter,
            start=None if start is None else start[places][None, :],
        )
        alpha, outputs = np.zeros(len(sign)), np.empty(len(sign))
        alpha[places], outputs[places] = machine.alpha_, machine.outputs + machine.b
        if task.progress is not None:
            task.progress.update(machine.n_sets * machine.size, loss=None)
        return task.result(
            alpha.reshape(-1, copies).sum(axis=1)[None, :],
            np.array([machine.b]),
            outputs=outputs[None, ::copies],
            t=machine.n_sets * machine.size,
            n_iter=-(-machine.n_sets * machine.size // columns.n),
            converged=good,
            columns={"computed": columns.computed, "hits": columns.hits},
        )

    def _learn(self, X: Any, source: Any, fit: Fit, task: Task) -> None:
        """Store what was learnt, after all checks."""
        self._check_fit(fit, task)
        machine = make_machine(fit, task, source.n_features)
        with self._lock.holding():
            self._store(X, source, machine, np.array([machine.n_support]))

    @property
    def n_iter_(self) -> int:
        """Passes over the rows that were made."""
        return int(self._fitted().n_iter[0])

    def _set_state(self, scalars: dict[str, Any], arrays: dict[str, Array]) -> None:
        self._check_scalars(scalars, STATE)
        machine: CachedMachine = self._restore_machine(scalars, arrays, 1, 1)
        self._set_restored(scalars, machine)


class SVR(RegressorMixin, _OneOutput):
    """Support vector regression of a fixed training set.

    Minimizes ``1/2 ||f||² + C sum_i max(0, |y_i - f(x_i) - b| - epsilon)`` over functions of a
    kernel's space, as `sklearn.svm.SVR` does, and takes its parameters.

    Parameters
    ----------
    kernel, degree, gamma, coef0, tol, cache_size, verbose, max_iter
        As for :class:`SVC`.
    C : float, default 1.0
        Weight of the losses.
    epsilon : float, default 0.1
        Errors up to it cost nothing.

    Attributes
    ----------
    support_, support_vectors_, dual_coef_, intercept_, coef_, fit_status_, shape_fit_
        As for :class:`SVC`, of one output.
    n_support_ : int array, shape (1,)
    n_iter_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from osvm import SVR
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> model = SVR(C=10.0, epsilon=0.05).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict([[1.5]])[0] - np.sin(1.5)) < 0.06)
    True
    """

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        epsilon: float = 0.1,
        cache_size: float = 200,
        verbose: bool | int = False,
        max_iter: int = -1,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SVR:
        """Learn from these rows; weights are factors of `C` by row."""
        with self._lock.writing():
            name = type(self).__name__
            epsilon = check_number("epsilon", self.epsilon, 0)
            source, rows = self._check_X(X, reset=True)
            targets = validate.check_y_regression(y, source.n_rows, estimator_name=name)
            weights = validate.check_sample_weight(sample_weight, source.n_rows)
            self._check_weights(weights)
            task = self._make_task(rows, targets[None, :], weights, self._penalty())
            # a row's coefficient is the difference of two, of which one is 0
            sign = np.tile([1.0, -1.0], task.n)
            target = (targets[:, None] + [-epsilon, epsilon]).ravel()
            self._learn(
                X, source, self._solve(task, sign, target, np.repeat(task.upper(), 2)), task
            )
            return self

    def predict(self, X: Any) -> Array:
        """The value of each row."""
        with self._lock:
            return self._scores(X)[:, 0]


class OneClassSVM(OutlierMixin, _OneOutput):
    """The region of a fixed training set: novelty detection.

    Minimizes ``1/2 ||f||² + sum_i max(0, rho - f(x_i)) - nu n rho``, as
    `sklearn.svm.OneClassSVM` does, and takes its parameters.

    Parameters
    ----------
    kernel, degree, gamma, coef0, tol, cache_size, verbose, max_iter
        As for :class:`SVC`.
    nu : float, default 0.5
        In (0, 1]: at most this share of the training rows is left out, and at least this
        share are support vectors.

    Attributes
    ----------
    offset_ : float
        `decision_function` is `score_samples` minus it.
    support_, support_vectors_, dual_coef_, intercept_, coef_, n_support_, n_iter_, fit_status_, \
shape_fit_
        As for :class:`SVR`.

    Examples
    --------
    >>> import numpy as np
    >>> from osvm import OneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> OneClassSVM(nu=0.1).fit(X).predict([[0.0, 0.0], [5.0, 5.0]]).tolist()
    [1, -1]
    """

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        nu: float = 0.5,
        cache_size: float = 200,
        verbose: bool | int = False,
        max_iter: int = -1,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OneClassSVM:
        """Learn from these rows; y is not used."""
        with self._lock.writing():
            nu = check_number("nu", self.nu, 0, 1, low_open=True)
            source, rows = self._check_X(X, reset=True)
            weights = validate.check_sample_weight(sample_weight, source.n_rows)
            self._check_weights(weights)
            task = self._make_task(rows, np.zeros((1, source.n_rows)), weights, 1.0)
            upper = task.upper()
            # the first rows have all the weight to begin with, as in LIBSVM
            before = np.concatenate([[0.0], np.cumsum(upper)[:-1]])
            start = np.clip(nu * upper.sum() - before, 0.0, upper)
            ones, zeros = np.ones(task.n), np.zeros(task.n)
            self._learn(X, source, self._solve(task, ones, zeros, upper, start), task)
            return self

    @property
    def offset_(self) -> float:
        """The level at which a row is novel."""
        return float(-self._fitted().intercept[0])

    def score_samples(self, X: Any) -> Array:
        """f(x): the larger, the more usual."""
        with self._lock:
            return self._scores(X)[:, 0] + self.offset_

    def decision_function(self, X: Any) -> Array:
        """f(x) minus the offset; negative for novel rows."""
        with self._lock:
            return self._scores(X)[:, 0]

    def predict(self, X: Any) -> Array:
        """+1 for usual rows, -1 for novel ones."""
        return np.where(self.decision_function(X) < 0, -1, 1)
