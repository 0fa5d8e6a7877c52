"""`SVC`: the kernel machine over a fixed training set, as scikit-learn's users know it.

Sources: Friess, Cristianini and Campbell (1998), Kecman, Vogt and Huang (2003) for the
adatron; `osvm.solvers` names those of the others; Platt (1999) for probabilities.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from osvm._estimator.compat import ClassifierMixin, available_if, not_fitted_error
from osvm._input import validate
from osvm._input.labels import LabelIndex, pick_codes, resolve_class_weight, split_outputs
from osvm._input.parameters import check_bool, check_choice
from osvm._input.schema import Field, check_list
from osvm._input.types import Array
from osvm.kernel.cached import solvers
from osvm.kernel.cached.machine import CachedMachine, make_machine
from osvm.kernel.cached.pairs import (
    class_members,
    couple,
    pair_votes,
    solve_pairs,
    split_pairs,
)
from osvm.kernel.cached.sigmoid import apply_sigmoid, fit_sigmoid
from osvm.kernel.cached.task import Task
from osvm.kernel.fixed_set import STATE, FixedSetEstimator
from osvm.kernel.options import refuse_foreign

FOLDS = 5  # of the scores that probabilities are fitted to


class SVC(ClassifierMixin, FixedSetEstimator):
    """Support vector classification of a fixed training set.

    Minimizes ``1/2 ||f||² + C sum_i max(0, 1 - y_i (f(x_i) + b))`` over functions of a
    kernel's space, as `sklearn.svm.SVC` does, and takes its parameters.  More than two
    classes are learnt one against one, as there, or one against the rest (`multi_class`).  A
    large set costs between n² and n³: for a stream, or beyond a hundred thousand rows, see
    :class:`osvm.KernelClassifier`.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the losses.
    kernel : str, object or callable, default "rbf"
        "linear", "poly", "rbf", "sigmoid", "cosine", "precomputed", a kernel of
        :mod:`osvm.kernels`, or a function of two sets of rows.
    degree : int, default 3
        Of "poly".
    gamma : float, "scale" or "auto", default "scale"
        Of "rbf", "poly" and "sigmoid": "scale" is ``1/(n_features X.var())``, "auto"
        ``1/n_features``.
    coef0 : float, default 0.0
        Of "poly" and "sigmoid".
    probability : bool, default False
        Fit `predict_proba`: Platt's sigmoid of the scores of a 5-fold cross-validation,
        which takes about five times as long.
    tol : float, default 1e-3
        The largest violation of the optimality conditions that is left.
    cache_size : float, default 200
        Memory for kernel values, in MB.
    class_weight : dict or "balanced", optional
        Factors of `C` by class; "balanced" goes by the numbers of rows, whatever
        `sample_weight` says.
    verbose : bool, default False
    max_iter : int, default -1
        Passes over the rows at most.  -1 is no limit for solvers with a tolerance, and one
        pass for the others.
    decision_function_shape : "ovr" or "ovo", default "ovr"
        What `decision_function` gives for more than two classes: a score for each class, its
        votes and the sum of its scores drawn into (-1/3, 1/3), or the scores of the pairs.
    break_ties : bool, default False
        Among classes with as many votes `predict` takes the one with the largest sum of
        scores, not the first.
    multi_class : "ovo" or "ovr", default "ovo"
        One machine for each pair of classes, or for each class against the rest, which share
        the kernel values and give a score of their own for each class.
    random_state : int, Generator or RandomState, optional
        Of the order of rows and the folds; None is 0, so that a repeated fit is the same.
    solver : str or object, default "adatron"
        "adatron" and "lasvm" solve the problem to `tol`.  "ol_svm", "norma", "pegaz",
        "perceptron", "voted_perceptron", "ballseptron" and "alma" make passes over the rows.
        An object of :mod:`osvm.solvers` sets the solver's own parameters, e.g.
        ``solvers.OlSvm(average=True)``.

    Attributes
    ----------
    classes_ : array, shape (K,)
    support_ : int array, shape (n_SV,)
        Row numbers of the support vectors, class by class.
    support_vectors_ : array or CSR matrix, shape (n_SV, n_features)
    n_support_ : int array, shape (K,)
    dual_coef_ : array, shape (1, n_SV) for two classes, else (K - 1, n_SV)
        ``y_i alpha_i``; for several classes against each of the others in turn, positive
        against a later one.  With ``multi_class="ovr"`` (K, n_SV), positive for rows of the
        output's class.
    intercept_ : array, shape (1,) or (K (K - 1) / 2,); (K,) with "ovr"
    coef_ : array, shape (outputs, n_features)
        With ``kernel="linear"``.
    n_iter_ : int array, shape (outputs,)
        Passes over the rows that were made.
    fit_status_ : int
        1 where `tol` was not reached (a `ConvergenceWarning` says so), else 0.
    class_weight_, shape_fit_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Rows of weight 0 are not learnt from.  With `probability`, `predict` may differ from the
    likeliest class, as in scikit-learn.

    Examples
    --------
    >>> from osvm import SVC
    >>> X, y = [[0, 0], [1, 1], [1, 0], [0, 1]], ["even", "even", "odd", "odd"]
    >>> model = SVC(gamma=2.0, C=10.0).fit(X, y)
    >>> model.predict([[0.9, 0.1]]).tolist()
    ['odd']
    >>> model.n_support_.tolist()
    [2, 2]
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        probability: bool = False,
        tol: float = 1e-3,
        cache_size: float = 200,
        class_weight: Any = None,
        verbose: bool | int = False,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        multi_class: str = "ovo",
        random_state: Any = None,
        solver: Any = "adatron",
    ) -> None:
        self._keep(locals())

    # ---------------------------------------------------------------- learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SVC:
        """Learn from these rows.

        Parameters
        ----------
        X : array, CSR matrix or data frame, shape (n, d)
            With ``kernel="precomputed"`` the (n, n) matrix of kernel values.
        sample_weight : array of n weights, optional
            Factors of `C` by row.
        """
        with self._lock.writing():
            name = type(self).__name__
            solver = solvers.get(self.solver)
            refuse_foreign(self, solver)
            self._check_shape()
            calibrate = check_bool("probability", self.probability)
            source, rows = self._check_X(X, reset=True)
            labels = validate.check_y_classes(y, source.n_rows, estimator_name=name)
            index = LabelIndex.of(labels)
            if len(index) < 2:
                raise ValueError(
                    "The number of classes has to be greater than one; got 1 class "
                    f"({index.classes.tolist()[0]!r})"
                )
            codes = index.encode(labels)
            given = validate.check_sample_weight(sample_weight, source.n_rows)
            # LIBSVM's wrapper balances the numbers of rows, not their weights.
            by_class = resolve_class_weight(self.class_weight, index, codes)
            weights = given
            if by_class is not None:
                weights = by_class[codes] * (1.0 if given is None else given)
            self._check_weights(weights, codes)
            K = len(index)
            pairs = K > 2 and self.multi_class == "ovo"
            Y = codes[None, :] if pairs else split_outputs(codes, K)
            task = self._make_task(rows, Y, weights, self._penalty())
            fit = solve_pairs(solver, task, codes, K) if pairs else solver.solve(task)
            self._check_fit(fit, task)
            machine = make_machine(fit, task, source.n_features, codes)
            sigmoids = None
            if calibrate and pairs:
                parts = split_pairs(task, class_members(codes, K))  # one at a time
                sigmoids = np.concatenate(
                    [_calibrate(solver, one, one.Y[0], given, own) for own, one in parts]
                )
            elif calibrate:
                sigmoids = _calibrate(solver, task, codes, given)
            counts = np.bincount(codes[machine.support], minlength=len(index))
            with self._lock.holding():
                self._store(X, source, machine, counts)
                self._set_index(index)
                self.class_weight_ = np.ones(len(index)) if by_class is None else by_class
                self._sigmoids = sigmoids
            return self

    # -------------------------------------------------------------- prediction

    def _check_shape(self) -> None:
        """Raise for a shape of scores that there is not."""
        check_choice("multi_class", self.multi_class, ["ovo", "ovr"])
        check_choice("decision_function_shape", self.decision_function_shape, ["ovr", "ovo"])
        ties = check_bool("break_ties", self.break_ties)
        if self.multi_class == "ovr" and (ties or self.decision_function_shape == "ovo"):
            raise ValueError("decision_function_shape='ovo' and break_ties need multi_class='ovo'")

    def decision_function(self, X: Any) -> Array:
        """Scores: (n,) for two classes, positive for the second; else (n, K), or the pairs'."""
        with self._lock:
            scores, pairs, K = self._scores(X), self._machine.groups, len(self.classes_)
            self._check_shape()
        if scores.shape[1] == 1:
            return scores[:, 0]
        if pairs is None or self.decision_function_shape == "ovo":
            return scores
        votes, sums = pair_votes(scores, K)
        return votes + sums / (3 * (np.abs(sums) + 1))

    def predict(self, X: Any) -> Array:
        """The label with most votes, or with the largest score; the first of equals."""
        with self._lock:
            self._check_shape()
            if self.break_ties and self.decision_function_shape == "ovo":
                raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
            scores, pairs, classes = self._scores(X), self._machine.groups, self.classes_
        if scores.shape[1] == 1:
            return classes[pick_codes(scores[:, 0], 2)]
        if pairs is not None:
            scores, sums = pair_votes(scores, len(classes))
            if self.break_ties:
                scores += sums / (3 * (np.abs(sums) + 1))
        return classes[scores.argmax(axis=1)]

    def _has_probability(self) -> bool | str:
        """True when there are probabilities, else what to do."""
        return bool(self.probability) or (
            "predict_proba is not available when probability=False; use SVC(probability=True), "
            "or sklearn.calibration.CalibratedClassifierCV"
        )

    @available_if(_has_probability)
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes: `probability=True` only.

        `predict` goes by the scores, as scikit-learn's does: the sigmoids have offsets of their
        own, so that a row near the boundary may get a label of less than the largest
        probability.
        """
        with self._lock:
            scores, sigmoids, K = self._scores(X), self._sigmoids, len(self.classes_)
            pairs = self._machine.groups is not None
        if sigmoids is None:
            raise not_fitted_error()(
                "predict_proba is not available when fitted with probability=False: fit it again"
            )
        p = np.stack([apply_sigmoid(f, ab) for f, ab in zip(scores.T, sigmoids)], axis=1)
        if p.shape[1] == 1:
            return np.hstack([1.0 - p, p])
        if pairs:
            return couple(p, K)
        p = np.maximum(p, 1e-7)
        return p / p.sum(axis=1, keepdims=True)

    @available_if(_has_probability)
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithm of `predict_proba`."""
        return np.log(self.predict_proba(X))

    # -------------------------------------------------------------- attributes

    @property
    def history_(self) -> dict[str, Array]:
        """What a solver with ``record=True`` kept, one entry per example."""
        return self._fitted().history()

    # ------------------------------------------------------------------- state

    def _get_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        scalars, arrays = super()._get_state()
        scalars["labels"] = self._index.get_state()
        scalars["class_weight"] = self.class_weight_.tolist()
        scalars["sigmoids"] = None if self._sigmoids is None else self._sigmoids.ravel().tolist()
        return scalars, arrays

    def _set_state(self, scalars: dict[str, Any], arrays: dict[str, Array]) -> None:
        fields = {
            "labels": Field("dict"),
            "class_weight": Field("list"),
            "sigmoids": Field("list", none=True),
        }
        self._check_scalars(scalars, {**STATE, **fields})
        index = LabelIndex.from_state(scalars["labels"])
        K = len(index)
        pairs = K > 2 and scalars["machine"].get("groups") is not None
        outputs = K * (K - 1) // 2 if pairs or K == 2 else K
        machine: CachedMachine = self._restore_machine(scalars, arrays, outputs, K)
        if machine.groups is not None and machine.groups.tolist() != scalars["n_support"]:
            raise ValueError("the saved n_support is not that of the pairs of classes")
        check_list("class_weight", scalars["class_weight"], Field("float", 0), most=K, least=K)
        sigmoids = scalars["sigmoids"]
        if sigmoids is not None:
            m = 2 * machine.n_outputs
            check_list("sigmoids", sigmoids, Field("float"), most=m, least=m)
            sigmoids = np.array(sigmoids).reshape(-1, 2)
        self._set_restored(scalars, machine)
        self._set_index(index)
        self.class_weight_ = np.array(scalars["class_weight"], np.float64)
        self._sigmoids = sigmoids


def _calibrate(
    solver: solvers.CachedSolver,
    task: Task,
    codes: Array,
    given: Array | None,
    own: Any = slice(None),
) -> Array:
    """(a, b) of each output, from scores of rows that were left out of the learning.

    A row counts by its weight in `given`, which has the task's rows at `own`.  Weights of classes
    say what errors cost, not how often a class comes.
    """
    n, scores = task.n, np.zeros(task.Y.shape)
    order = task.rng.permutation(n)
    order = order[np.argsort(codes[order], kind="stable")]  # classes spread over the folds
    folds = np.empty(n, np.intp)
    folds[order] = np.arange(n) % FOLDS
    for fold in range(FOLDS):
        held, kept = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        if len(held) == 0:
            continue
        part = task.part(kept, task.Y[:, kept])
        machine = make_machine(solver.solve(part), part, part.X.shape[1])
        test = task.X[held]
        if task.kernel.name == "precomputed":
            test = test[:, kept]
        scores[:, held] = machine.decision_rows(test).T
    weights = None if given is None else given[own]
    return np.array([fit_sigmoid(f, y > 0, weights) for f, y in zip(scores, task.Y)])
