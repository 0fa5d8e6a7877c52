"""Kernel regression: one output.

Source: Vishwanathan, Schraudolph, Smola, "Step Size Adaptation in Reproducing Kernel
Hilbert Space" (JMLR 2006), sections 4 and 5.
"""

from __future__ import annotations

from typing import Any

from osvm._estimator.compat import RegressorMixin
from osvm._input import validate
from osvm._input.types import Array
from osvm.kernel.base import KernelEstimator
from osvm.kernel.batch import Batch


class KernelRegressor(RegressorMixin, KernelEstimator):
    """Kernel regression that learns one example at a time.

    Parameters
    ----------
    loss : str or object, default "epsilon_insensitive"
        "epsilon_insensitive", "huber", "squared", or a loss of your own; their
        parameters go into an object, e.g. ``osvm.losses.Huber(delta=0.5)``.
    gamma : float, "scale", "auto" or None, default None
        None is "scale", but with the kernel "rbf" `fit` of 60 rows or more takes "scale" or 1/4,
        1/16, 1/64 or four times of it, whichever has learnt some rows with the smallest squared
        errors on others, with `reg` 3e-4 and `eta0` 0.3 unless `reg` or `C` is given.  Where the
        plane of :class:`osvm.LinearRegressor` errs less than the best of these, `fit` takes that
        plane, unless `reg`, `C`, `eta0`, `schedule`, `record` or another loss is asked for.
        `kernel_`, `gamma_` and `reg_` tell what was taken.  `partial_fit` goes on
        from it until the Gaussian "scale", which learns beside, errs less.
    reg, C, kernel, degree, coef0, budget, eviction, schedule, eta0, epochs, shuffle, \
random_state, warm_start, verbose, record
        As for :class:`KernelClassifier`.
    fit_intercept : bool, default True

    Notes
    -----
    `fit` starts the offset at the median of the targets, and takes `eta0` and 1/`reg` in units
    of their standard deviation for losses of bounded slope.  A stream starts the offset at its
    first target and takes `eta0` and 1/`reg` in units of the standard deviation of its targets so
    far (without an offset, of their root mean square); only ``schedule="smd"``, which adapts its
    steps, begins with `eta0` as it is.  `epsilon` and `delta` of the losses have the targets'
    unit: a warning names an `epsilon` that is wider than their spread.

    The model is a mean of f over the steps, as that of :class:`KernelClassifier`, of `fit` over
    those of the last two epochs.

    Attributes
    ----------
    support_vectors_, dual_coef_, intercept_, kernel_, gamma_, reg_, n_support_, t_, n_iter_
        As for :class:`KernelClassifier`.
    history_ : dict of arrays
        With `record`; "error" is the running mean absolute error, "prediction" the
        value predicted before the update.

    Examples
    --------
    >>> import numpy as np, osvm
    >>> X = np.linspace(-3, 3, 200)[:, None]
    >>> model = osvm.KernelRegressor(gamma=1.0, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict([[1.0]])[0] - np.sin(1.0)) < 0.2)
    True
    """

    _task = "regress"
    _one_target = "number"
    _loss_tasks = ("regression",)
    nu = None
    _chooses_gamma = True

    def __init__(
        self,
        loss: Any = "epsilon_insensitive",
        *,
        reg: float | None = None,
        C: float | None = None,
        kernel: Any = "rbf",
        gamma: float | str | None = None,
        degree: int = 3,
        coef0: float = 0.0,
        budget: int | None = 512,
        eviction: str = "merge",
        schedule: Any = "bottou",
        eta0: float | None = None,
        fit_intercept: bool = True,
        epochs: int = 5,
        shuffle: bool = True,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: bool | int = False,
        record: bool = False,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelRegressor:
        """Learn from all rows, `epochs` times."""
        with self._lock.writing():
            self._learn(X, self._batch(X, y, sample_weight, reset=True), reset=True)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelRegressor:
        """Learn from these rows once, in their order."""
        with self._lock.changing():
            self._learn(X, self._batch(X, y, sample_weight, reset=False), reset=False)
        return self

    def _batch(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Batch:
        name = type(self).__name__
        source, rows = self._check_X(X, reset=reset)
        targets = validate.check_y_regression(y, source.n_rows, estimator_name=name)
        weight = validate.check_sample_weight(sample_weight, source.n_rows, allow_zero=not reset)
        return Batch(source, rows, "regress", targets=targets, weights=weight)

    def predict(self, X: Any) -> Array:
        """The value of each row."""
        with self._lock:
            return self._scores(X)[:, 0]
