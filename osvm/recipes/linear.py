"""The linear algorithms of the sources, as configured estimators of `osvm.linear`.

(1) Bagnell, notes on efficient online SVM; (2) Leskovec, Rajaraman, Ullman, slides
on computing the margin; (3) Kitani, lecture on online techniques for SVMs.
"""

from __future__ import annotations

from typing import Any

from osvm.linear import LinearClassifier, LinearSVC
from osvm.schedules import SMD, Bottou, Constant

__all__ = [
    "batch_gd",
    "dual_svm",
    "ogd",
    "online_svm",
    "pegasos",
    "perceptron",
    "projected_ogd",
    "sgd_svm",
    "smd",
    "soft_svm",
    "sparse_svmd",
]


def pegasos(
    reg: float = 1e-4,
    project: bool = True,
    average: bool | int = False,
    batch_size: int = 1,
    epochs: int = 1,
    **options: Any,
) -> LinearClassifier:
    """Pegasos: hinge loss, 1/(reg t) steps, projection onto the ball of radius 1/sqrt(reg).

    Source (1), algorithm 1.  Sets loss="hinge", schedule="inverse_time",
    fit_intercept=False, shuffle=False.

    Parameters
    ----------
    reg : float
    project : bool
        Project after each step.
    average : bool or int
        Predict with the average of the iterates.
    batch_size : int
        Examples whose gradients are averaged for one step.
    epochs : int
    **options
        Further parameters of `LinearClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from osvm import recipes
    >>> X, y = np.array([[2.0, 0.0], [0.0, 2.0]]), [1, -1]
    >>> recipes.pegasos(reg=0.5).fit(X, y).coef_.round(2).tolist()
    [[0.47, -1.33]]
    """
    return LinearClassifier(
        "hinge",
        reg=reg,
        schedule="inverse_time",
        project=project,
        average=average,
        batch_size=batch_size,
        epochs=epochs,
        **_defaults(options, fit_intercept=False, shuffle=False),
    )


def online_svm(
    reg: float = 1e-4,
    project: bool = True,
    average: bool | int = False,
    batch_size: int = 1,
    epochs: int = 1,
    **options: Any,
) -> LinearClassifier:
    """The online linear SVM of Bagnell's notes: Pegasos on rows of unit norm.

    Source (1), algorithm 1 and its advice to normalize the inputs.  Sets what
    :func:`pegasos` sets, and normalize=True.

    Parameters
    ----------
    reg, project, average, batch_size, epochs
        As for :func:`pegasos`.
    **options
        Further parameters of `LinearClassifier`.
    """
    return pegasos(reg, project, average, batch_size, epochs, **_defaults(options, normalize=True))


def sgd_svm(
    C: float | None = None, reg: float | None = None, epochs: int = 5, **options: Any
) -> LinearClassifier:
    """Stochastic gradient descent on f(w, b) = ½ w.w + C Σ hinge(y (w.x + b)).

    Source (2); the same as ``reg/2 w.w + mean hinge`` with ``reg = 1/(C n)``.  Sets
    loss="hinge", schedule="bottou", fit_intercept=True, shuffle=False.  The
    intercept is not regularized and has its own step, 1/sqrt(t).

    Parameters
    ----------
    C, reg : float
        One of them.
    epochs : int
    **options
        Further parameters of `LinearClassifier`.
    """
    return LinearClassifier(
        "hinge",
        C=C,
        reg=reg,
        epochs=epochs,
        **_defaults(options, schedule="bottou", fit_intercept=True, shuffle=False),
    )


def batch_gd(
    C: float | None = None,
    reg: float | None = None,
    eta0: float = 0.1,
    epochs: int = 100,
    **options: Any,
) -> LinearClassifier:
    """Batch gradient descent on f(w, b): one full gradient, one step, per epoch.

    Source (2), the baseline that SGD is compared with.  Sets loss="hinge",
    schedule="constant", batch_size="full", fit_intercept=True, shuffle=False.

    Parameters
    ----------
    C, reg : float
        One of them.
    eta0 : float
        The step size, for the mean loss.
    epochs : int
    **options
        Further parameters of `LinearClassifier`.
    """
    return LinearClassifier(
        "hinge",
        C=C,
        reg=reg,
        eta0=eta0,
        epochs=epochs,
        batch_size="full",
        **_defaults(options, schedule="constant", fit_intercept=True, shuffle=False),
    )


def ogd(
    eta0: float = 0.1, reg: float = 0.0, loss: Any = "hinge", epochs: int = 1, **options: Any
) -> LinearClassifier:
    """Online subgradient descent with a constant step.

    Source (3), algorithm 1.  Sets schedule="constant", fit_intercept=False,
    shuffle=False.

    Parameters
    ----------
    eta0 : float
    reg : float
    loss : str or object
    epochs : int
    **options
        Further parameters of `LinearClassifier`.
    """
    return LinearClassifier(
        loss,
        reg=reg,
        eta0=eta0,
        epochs=epochs,
        **_defaults(options, schedule="constant", fit_intercept=False, shuffle=False),
    )


def projected_ogd(
    radius: float,
    eta0: float = 0.1,
    loss: Any = "hinge",
    epochs: int = 1,
    lazy: bool = False,
    **options: Any,
) -> LinearClassifier:
    """Online subgradient descent, projected onto a ball after each step.

    Source (3), algorithm 2.  Sets what :func:`ogd` sets, reg=0, and project=radius.

    Parameters
    ----------
    radius : float
        Of the ball around 0.
    eta0 : float
    loss : str or object
    epochs : int
    lazy : bool, default False
        False is the projected subgradient method: a step starts from the projected weights.
        True is the algorithm as printed: steps add up in θ, which is never projected, and w
        is the projection of θ.  Both make the same predictions until θ first leaves the ball;
        then θ goes on growing, so that each step turns w less than the one before.
    **options
        Further parameters of `LinearClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from osvm import recipes
    >>> X, y = np.array([[4.0, 0.0], [0.0, 1.0]]), [1, -1]
    >>> recipes.projected_ogd(1.0, eta0=1.0).fit(X, y).coef_.round(2).tolist()
    [[0.71, -0.71]]
    >>> recipes.projected_ogd(1.0, eta0=1.0, lazy=True).fit(X, y).coef_.round(2).tolist()
    [[0.97, -0.24]]
    """
    if lazy:
        options = _defaults(options, schedule=Constant(lazy=True))
    return ogd(eta0, loss=loss, epochs=epochs, **_defaults(options, project=float(radius)))


def soft_svm(reg: float = 1e-4, epochs: int = 1, **options: Any) -> LinearClassifier:
    """SoftSVM in mirror-descent form: θ += y x on a violation, w = θ/(reg (t + 1)).

    Source (3), algorithm 3.  As a step on w it is 1/(reg (1 + t)), so it sets
    loss="hinge", schedule=Bottou(t0=1), fit_intercept=False, shuffle=False.

    Parameters
    ----------
    reg : float
    epochs : int
    **options
        Further parameters of `LinearClassifier`.
    """
    return LinearClassifier(
        "hinge",
        reg=reg,
        schedule=Bottou(t0=1.0),
        epochs=epochs,
        **_defaults(options, fit_intercept=False, shuffle=False),
    )


def perceptron(epochs: int = 1, **options: Any) -> LinearClassifier:
    """The perceptron: w += y x on a mistake; a score of 0 is a mistake.

    Source (3), algorithm 4.  Sets loss="perceptron", reg=0, schedule="constant",
    eta0=1, fit_intercept=False, shuffle=False.

    Parameters
    ----------
    epochs : int
    **options
        Further parameters of `LinearClassifier`.
    """
    return LinearClassifier(
        "perceptron",
        epochs=epochs,
        **_defaults(
            options, reg=0.0, schedule="constant", eta0=1.0, fit_intercept=False, shuffle=False
        ),
    )


def dual_svm(C: float = 1.0, loss: str = "hinge", tol: float = 1e-3, **options: Any) -> LinearSVC:
    """Dual coordinate ascent for the linear SVM, with the duality gap as stopping rule.

    Hsieh, Chang, Lin, Keerthi, Sundararajan (ICML 2008); it is the kernel adatron with
    a linear kernel and the exact step, and what LIBLINEAR runs.

    Parameters
    ----------
    C : float
        Of ``1/2 ||w||^2 + C sum loss``; ``1 / (reg n)`` in the words of the others.
    loss : {"hinge", "squared_hinge"}
    tol : float
        Relative duality gap.
    **options
        Further parameters of `LinearSVC`.

    Examples
    --------
    >>> import osvm
    >>> X, y, *_ = osvm.datasets.make_rcv1_like(
    ...     500, 10, n_features=300, nnz=15, random_state=0)
    >>> model = osvm.recipes.dual_svm(C=2.0, random_state=0).fit(X, y)
    >>> bool(model.dual_gap_ <= 1e-3 * model.objective_)
    True
    """
    return LinearSVC(loss=loss, C=C, tol=tol, **options)


def sparse_svmd(
    reg: float = 1e-4,
    eta0: float = 0.1,
    mu: float = 0.1,
    decay: float = 0.95,
    loss: Any = "hinge",
    epochs: int = 1,
    **options: Any,
) -> LinearClassifier:
    """SVMD on a sparse weight vector: one step size, adapted by stochastic meta-descent.

    Vishwanathan, Schraudolph, Smola (JMLR 2006), section 5, with the dot product as
    kernel, in O(non-zeros) per step.  Sets schedule=SMD(...), fit_intercept=False,
    shuffle=False.

    Parameters
    ----------
    reg : float
    eta0 : float
        First step size.
    mu : float
        Step size of the step size.
    decay : float
        The paper's lambda: how long the trace remembers.
    loss : str or object
    epochs : int
    **options
        Further parameters of `LinearClassifier`.
    """
    return LinearClassifier(
        loss,
        reg=reg,
        eta0=eta0,
        schedule=SMD(mu=mu, decay=decay),
        epochs=epochs,
        **_defaults(options, fit_intercept=False, shuffle=False),
    )


def smd(
    reg: float = 1e-4,
    eta0: float = 0.1,
    mu: float = 0.1,
    decay: float = 0.95,
    loss: Any = "hinge",
    epochs: int = 1,
    rest: bool = True,
    **options: Any,
) -> LinearClassifier:
    """Stochastic meta-descent with a step size for every coordinate.

    Vishwanathan, Schraudolph, Smola (JMLR 2006), section 2.  Only the coordinates of a
    row are visited; the regularizer reaches the others when they are met again.  Sets
    schedule=SMD(per_coordinate=True, ...), fit_intercept=False, shuffle=False.

    Parameters
    ----------
    reg, eta0, mu, decay, loss, epochs
        As for :func:`sparse_svmd`.
    rest : bool, default True
        Step sizes rest where a row is zero, which is a variant of the paper's algorithm on
        sparse rows with reg > 0, at O(non-zeros) a step.  False is the algorithm as printed;
        the steps that a coordinate has missed are made one by one when it is met.  On 20,000
        rows with 40 of 50,000 features, as frequent as words are, that took 200 times as
        long, and the weights were .001 apart at reg=1e-4, .03 at reg=.01.
    **options
        Further parameters of `LinearClassifier`.
    """
    return LinearClassifier(
        loss,
        reg=reg,
        eta0=eta0,
        schedule=SMD(mu=mu, decay=decay, per_coordinate=True, rest=rest),
        epochs=epochs,
        **_defaults(options, fit_intercept=False, shuffle=False),
    )


def _defaults(options: dict[str, Any], **defaults: Any) -> dict[str, Any]:
    """The recipe's settings, overruled by what the caller gives."""
    return {**defaults, **options}
