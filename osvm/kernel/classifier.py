"""The kernel classifier of a stream: labels, weights, scores.

Source: Vishwanathan, Schraudolph, Smola, "Step Size Adaptation in Reproducing Kernel
Hilbert Space" (JMLR 2006).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from osvm import losses
from osvm._estimator.compat import ClassifierMixin, available_if
from osvm._input import validate
from osvm._input.labels import LabelIndex, LabelRuns, RunningBalance, pick_codes, weigh_rows
from osvm._input.types import Array
from osvm.kernel.base import KernelEstimator
from osvm.kernel.batch import Batch
from osvm.kernel.buffer.machine import copy_machine


class KernelClassifier(ClassifierMixin, KernelEstimator):
    """Kernel classifier that learns one example at a time.

    Minimizes ``reg/2 ||f||² + mean loss(y, f(x) + b)`` over functions of a kernel's
    space by stochastic gradient descent, with the last `budget` examples that moved f.
    The step size adapts itself (`schedule="smd"`: SVMD) or follows a schedule (NORMA).

    Parameters
    ----------
    loss : str or object, default "hinge"
        "hinge", "squared_hinge", "perceptron", "logistic", "modified_huber" (one-vs-rest
        for more than two classes), "multiclass_hinge", "graph_hinge" (needs `taxonomy`),
        "softmax", or a loss of your own (see :mod:`osvm.losses`).
    reg : float, optional
        The regularizer; 1e-4 unless `C` is given, or 1e-3 where `fit` chooses (see `gamma`); 1
        with `nu`.
    C : float, optional
        Instead of `reg`: ``reg = 1/(C n)``.
    kernel : str, object or callable, default "rbf"
        "linear", "rbf", "polynomial", "sigmoid", "cosine", "precomputed", or a function
        of two sets of rows.
    gamma : float, "scale", "auto" or None, default None
        "scale" is 1/(d var(X)), read off the data of the first call: give a number when
        streaming.  None is "scale", but with the kernel "rbf" `fit` of 60 rows or more learns
        some rows with "scale", with four times that, and with a quarter of it and `reg` 1e-3,
        and takes what makes the fewest errors on other rows; a `reg` or `C` given stays.
        Where the plane of :class:`osvm.LinearClassifier` makes fewer errors there than the best
        of these, `fit` takes that plane, of all rows, unless `reg`, `C`, `nu`, `eta0`,
        `schedule`, `average`, `record`, `label_kernel` or another loss is asked for.  `kernel_`,
        `gamma_` and `reg_` tell what was taken.  `partial_fit` goes on from it, and a Gaussian,
        "scale", learns beside: it takes over for good once it has made fewer errors, on rows
        that neither had learnt, by more than chance.
    degree : int, default 3
    coef0 : float, default 0.0
    budget : int or None, default 512
        Rows in the expansion at most; None for no bound.
    eviction : {"fifo", "coefficient", "term", "change", "merge", "project"}, default "merge"
        Who leaves a full buffer: the oldest row, the one with the smallest coefficients,
        with the smallest term in the kernel's space, or whose loss changes f least over
        the rows in the buffer.  Or none leaves: "merge" makes the new term and the one with
        which f loses least one (Gaussian kernel), "project" keeps the larger of the two.
    schedule : str or object, default "bottou"
        The step size: "bottou" (from `eta0` to 1/(reg t)), "smd" (stochastic meta-descent),
        "inverse_sqrt", "inverse_time", "kecman", "constant", or an object of
        :mod:`osvm.schedules` with parameters of its own, e.g.
        ``schedules.SMD(mu=0.05, decay=0.9)``.  Every step size is capped at ``1/reg``: beyond
        it, shrinking would flip the sign of f.  With a polynomial kernel no step but SMD's goes
        beyond the example, unless the object says ``capped=False``.
    eta0 : float, optional
        The first step size, of schedules that have one; by default 1 with "bottou", else 0.1.
    nu : float or NuTrick, optional
        The nu-trick: learn the margin, so that about this fraction of the examples
        violates it.  For hinges; `reg` is 1.  :class:`osvm.losses.NuTrick` sets the margin
        and the step size to begin with.
    fit_intercept : bool, optional
        True learns an offset with f, False has none.  By default none is learnt, but `fit` of
        classes sets one at its end: of the offsets that make hardly more errors on the rows
        than the best, the one that finds as many rows of each class as there are.  Up to 2,400
        rows that are not twice as many as `budget`, most are fitted closely: with the kernel
        "rbf" and 60 rows or more, the offset is then read off rows held out from a trial, and
        is 0 unless the classes, counting alike, have fewer errors with it there by more than
        chance.  A stream of two classes follows such an offset from its 60th row on, each row
        being judged before it is learnt.  Not with `nu` nor a loss of probabilities.  After
        `fit`, `partial_fit` goes on with f and leaves the offset as it is, and so does
        `warm_start` with few rows.
    epochs : int, default 5
        Passes over the data in `fit`; a plane (see `gamma`) takes as many as it needs.
    shuffle : bool, default True
        Visit the rows in a new random order in each epoch of `fit`.
    random_state : int, Generator or RandomState, optional
    class_weight : dict or "balanced", optional
        While streaming, "balanced" goes by the counts so far.
    taxonomy : Taxonomy, optional
        From :mod:`osvm.taxonomy`, for "graph_hinge" and `label_kernel="taxonomy"`.
    label_kernel : "delta", "taxonomy" or matrix, optional
        How outputs share what they learn; a matrix is ordered as `classes_`.
    warm_start : bool, default False
        `fit` goes on from the present model.
    verbose : bool, default False
        Print progress at examples 1, 2, 4, 8, ...
    record : bool, default False
        Keep `history_`.
    average : bool, optional
        The model is a mean of f over the steps, about the last quarter of them (step k has
        weight k³); learning goes on with f itself.  By default yes, except with
        schedule="smd", which cannot, and in a stream unless steps go as 1/t ("bottou" or
        "inverse_time"): a step size that stays up is for data that drift.

    Attributes
    ----------
    classes_ : array
        Sorted in `fit`; new labels of a stream come at the end.
    support_vectors_ : array or CSR matrix, oldest first
    dual_coef_ : array, shape (1, m) for two classes, else (K, m), with m support vectors
    intercept_ : array
    kernel_ : Kernel
        Of the expansion.  For a plane :class:`osvm.kernels.Polynomial` of degree 1, with a
        support vector for each output and, but for `fit_intercept` True or False, one for its
        offset; a stream may change it, to :class:`osvm.kernels.RBF`.
    gamma_ : float
        Of the kernel, where it has one; of a plane, 1 over the rows' mean square norm.
    reg_ : float
        After a plane 0.001, for `partial_fit` to go on with.
    n_support_ : int
    t_ : int
        Examples seen.
    n_iter_ : int
        Passes over the rows that `fit` made.
    history_ : dict of arrays
        With `record`: "eta" (step size used), "loss" (before the update), "error"
        (running error of test-then-train), "support" (rows in the buffer), "epsilon"
        (margin) and "prediction" (code of the class predicted before the update).

    Notes
    -----
    `partial_fit` gives the same model however a stream is cut into batches, up to the
    rounding of sums that are taken in blocks.  An error, or an interrupt, leaves the
    model as it was before the call.

    Examples
    --------
    >>> import numpy as np, osvm
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = np.where(np.hypot(*X.T) < 1, "in", "out")
    >>> model = osvm.KernelClassifier(gamma=1.0, random_state=0).fit(X, y)
    >>> model.predict([[0.1, 0.0], [2.0, 1.0]]).tolist()
    ['in', 'out']
    """

    _task = "classify"
    _one_target = "label"
    _loss_tasks = ("binary", "multiclass")
    _chooses_gamma = True

    def __init__(
        self,
        loss: Any = "hinge",
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
        nu: Any = None,
        fit_intercept: bool | None = None,
        epochs: int = 5,
        shuffle: bool = True,
        random_state: Any = None,
        class_weight: Any = None,
        taxonomy: Any = None,
        label_kernel: Any = None,
        warm_start: bool = False,
        verbose: bool | int = False,
        record: bool = False,
        average: bool | None = None,
    ) -> None:
        self._keep(locals())

    # ---------------------------------------------------------------- learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelClassifier:
        """Learn from all rows, `epochs` times.

        Parameters
        ----------
        X : array, CSR matrix or data frame, shape (n, d)
        """
        with self._lock.writing():
            name = type(self).__name__
            source, rows = self._check_X(X, reset=True)
            labels = validate.check_y_classes(y, source.n_rows, estimator_name=name)
            index = LabelIndex.of_several(labels)
            if self.warm_start and "_index" in self.__dict__ and self._index != index:
                raise ValueError("warm_start: y has other classes than the model; use partial_fit")
            codes = index.encode(labels)
            weight = validate.check_sample_weight(sample_weight, source.n_rows, allow_zero=False)
            weight = weigh_rows(self.class_weight, index, codes, weight)
            batch = Batch(source, rows, "classify", labels=codes, weights=weight, index=index)
            self._learn(X, batch, reset=True)
            return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> KernelClassifier:
        """Learn from these rows once, in their order.

        Cutting a stream into other blocks gives the same scores of each label: a label that
        was not seen before makes the model grow at its own row.  `classes_` holds the labels
        of `classes`, or else of the first call, sorted, then others as they came.  A loss
        that compares classes takes the first in that order of two whose scores are equal.
        With a matrix for `label_kernel` the first call must name or hold all labels.

        Parameters
        ----------
        X : array, CSR matrix or data frame, shape (n, d)
        y : array of n labels
            New labels make the model grow.
        classes : array, optional
            Labels to expect; scikit-learn wants them at the first call, here they are
            optional.
        """
        with self._lock.changing():
            known = self.__dict__
            name = type(self).__name__
            source, rows = self._check_X(X)
            labels = validate.check_y_classes(y, source.n_rows, estimator_name=name)
            weight = validate.check_sample_weight(sample_weight, source.n_rows)
            index = known.get("_index")
            if classes is not None:
                expected = LabelIndex.of(validate.check_y_classes(classes, estimator_name=name))
                if index is None:
                    index = expected
                elif set(expected.classes.tolist()) - set(index.classes.tolist()):
                    index, _ = index.grown(expected.classes)
                index.encode(labels)  # labels outside of `classes` are an error
            wide, codes = (LabelIndex.empty() if index is None else index).grown(labels)
            new = [] if wide is index else self._new_label_rows(index, labels)
            if not new:
                self._learn_labels(X, (source, rows), codes, weight, wide)
                return self
            is_first = index is None

            def learn(start: int, stop: int) -> None:
                piece = self._check_X(validate.rows_between(X, rows, start, stop))[0]
                own, some = labels[start:stop], None if weight is None else weight[start:stop]
                now = known.get("_index")
                now, own_codes = (LabelIndex.empty() if now is None else now).grown(own)
                self._learn_labels(X, (piece, rows), own_codes, some, now)

            self._learn_pieces(new, source.n_rows, learn)
            if is_first:
                self._sort_labels()
            return self

    def _learn_labels(
        self, X: Any, given: tuple[Any, Any], codes: Array, weight: Array | None, index: LabelIndex
    ) -> None:
        """Rows whose new labels, if any, begin with the first; `given` as `Batch` has it."""
        balance = self.__dict__.get("_balance") or RunningBalance()
        weight, balance = balance.weigh_rows(self.class_weight, index, codes, weight)
        batch = Batch(*given, "classify", labels=codes, weights=weight, index=index)
        self._learn(X, batch, reset=False)
        if len(balance.counts):
            self._balance = balance
        if "_runs" not in self.__dict__:
            self._runs = LabelRuns()
        self._runs.watch(codes)

    def _new_label_rows(self, index: LabelIndex | None, labels: Array) -> list[int]:
        """Rows after the first at which the model must grow; usually none."""
        if not (self.label_kernel is None or isinstance(self.label_kernel, str)):
            return []  # the matrix tells the number of labels
        if index is not None:
            return [row for row in index.entries(labels) if row]
        # two classes share a score, unless the loss compares the scores of all
        shared = 1 if isinstance(losses.get(self.loss), losses.MultiLoss) else 2
        return LabelIndex.empty().entries(labels)[shared:]

    def _detach(self) -> None:
        if "_machine" in self.__dict__:
            self._machine = copy_machine(self._machine)

    def _sort_labels(self) -> None:
        """Labels in sorted order, and the outputs with them."""
        order = np.argsort(self.classes_, kind="stable")
        if "_runs" in self.__dict__:
            self._runs.reorder(order)
        self._set_index(LabelIndex(self.classes_[order]))
        state, kernel = self._machine.state, self._machine.state.label_kernel
        if kernel is not None:
            kernel = kernel[np.ix_(order, order)]
        state.grow_outputs(np.eye(len(order))[:, order], kernel, 0.0)
        self._machine._plan = None  # it names outputs by their numbers
        if self.record:
            told = self._machine.history()["prediction"]
            told[:] = np.argsort(order)[told.astype(np.intp)]
        balance = self.__dict__.get("_balance")
        if balance is not None:
            self._balance = RunningBalance(balance.counts[order])

    # -------------------------------------------------------------- prediction

    def decision_function(self, X: Any) -> Array:
        """Scores: (n,) for two classes, positive for the second; else (n, K)."""
        with self._lock:
            return self._decide(X)

    def _decide(self, X: Any) -> Array:
        """`decision_function`; the caller holds the lock."""
        scores = self._scores(X)
        if len(self.classes_) > 2:
            return scores
        if scores.shape[1] == 2:
            return scores[:, 1] - scores[:, 0]
        return scores[:, 0]

    def predict(self, X: Any) -> Array:
        """The label with the largest score; the first of equals."""
        with self._lock:
            scores, classes = self._decide(X), self.classes_
        return classes[pick_codes(scores, len(classes))]

    def _has_probability(self) -> bool | str:
        """True when there are probabilities, else what to do."""
        try:
            part = losses.get(self.loss)
        except (TypeError, ValueError) as error:
            return str(error)
        return hasattr(part, "probability") or (
            f"loss {part.name!r} defines no probability; use loss='logistic', 'softmax' or "
            "'modified_huber'"
        )

    @available_if(_has_probability)
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, for losses that define them.

        "logistic", "softmax" and "modified_huber" do; `predict` goes by the scores, and so
        gives the likeliest class, unless "modified_huber" gives several classes the same
        probability, 0 or 1.
        """
        with self._lock:
            scores, n_classes = self._scores(X), len(self.classes_)
        part = losses.get(self.loss)
        if isinstance(part, losses.Softmax):
            return part.probability(scores)
        p = np.asarray(part.probability(scores))
        if scores.shape[1] == 1:
            return np.hstack([1.0 - p, p]) if n_classes > 1 else np.ones((len(p), 1))
        total = p.sum(axis=1, keepdims=True)
        return np.divide(p, total, out=np.full_like(p, 1.0 / n_classes), where=total > 0)

    @available_if(_has_probability)
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithm of `predict_proba`."""
        return np.log(self.predict_proba(X))
