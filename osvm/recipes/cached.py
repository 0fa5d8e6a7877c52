"""Kernel learners over a fixed training set with cached outputs, as configured `SVC`s.

(4) Vishwanathan, Schraudolph, Smola, "Step Size Adaptation in RKHS" (JMLR 2006), section 3,
which surveys the perceptron family; (5) Kecman and Melki, "Fast online algorithms for support
vector machines".  Every recipe returns an `osvm.SVC` and takes further parameters of it, and
of its solver (`dtype`, `shuffle`, `average`, `record`, `keep_outputs`), as keywords.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from osvm import solvers
from osvm.kernel import SVC
from osvm.linear.alma import AlmaClassifier

__all__ = [
    "alma",
    "ballseptron",
    "kernel_adatron",
    "kernel_perceptron",
    "lasvm",
    "norma_cached",
    "ol_svm",
    "pegaz",
    "voted_perceptron",
]


def ol_svm(
    C: float = 1.0,
    kernel: Any = "rbf",
    gamma: float | str = "scale",
    max_iter: int = 1,
    regularized: bool = False,
    fit_intercept: bool = False,
    **options: Any,
) -> SVC:
    """OL SVM of Kecman and Melki: a kernel column is touched only when its row violates.

    Source (5), list 3b, or 3a with ``regularized=True`` (with the branch of the
    non-violators that the list misprints).  Sets solver="ol_svm", shuffle=False; steps are
    C sqrt(2/t).

    Parameters
    ----------
    C : float
    kernel, gamma : as for SVC
    max_iter : int
        Passes over the rows; learning ends after one that changes nothing.
    regularized : bool
        Shrink the coefficient of the visited row.
    fit_intercept : bool
        Learn an offset by the same steps, (6) and (7).
    **options
        Further parameters of `SVC` and of :class:`osvm.solvers.OlSvm`.

    Examples
    --------
    >>> from osvm import recipes
    >>> from osvm.datasets import make_two_normals
    >>> X, y = make_two_normals(400, random_state=0)
    >>> recipes.ol_svm(C=1.0, gamma=0.5).fit(X, y).score(X, y) > 0.85
    True
    """
    return _svc(
        solvers.OlSvm,
        options,
        {"regularized": regularized, "fit_intercept": fit_intercept},
        C=C,
        kernel=kernel,
        gamma=gamma,
        max_iter=max_iter,
    )


def norma_cached(
    C: float = 1.0,
    kernel: Any = "rbf",
    gamma: float | str = "scale",
    max_iter: int = 1,
    printed: bool = False,
    fit_intercept: bool = False,
    **options: Any,
) -> SVC:
    """NORMA as list 1 of source (5), with cached outputs and the shrink as a scalar.

    The subgradient step (all coefficients shrink, eta y is added to the visited one); with
    ``printed=True`` the list as printed, which overwrites the visited coefficient and does
    not shrink it.  Sets solver="norma", shuffle=False.

    Parameters
    ----------
    C, kernel, gamma, max_iter, fit_intercept : as for `ol_svm`
    printed : bool
    **options
        Further parameters of `SVC` and its solver.

    Examples
    --------
    >>> from osvm import recipes
    >>> from osvm.datasets import make_two_normals
    >>> X, y = make_two_normals(400, random_state=0)
    >>> recipes.norma_cached(gamma=0.5).fit(X, y).score(X, y) > 0.85
    True
    """
    return _svc(
        solvers.Norma,
        options,
        {"printed": printed, "fit_intercept": fit_intercept},
        C=C,
        kernel=kernel,
        gamma=gamma,
        max_iter=max_iter,
    )


def pegaz(
    C: float = 1.0,
    kernel: Any = "rbf",
    gamma: float | str = "scale",
    max_iter: int = 1,
    fit_intercept: bool = False,
    **options: Any,
) -> SVC:
    """Pegaz, list 2 of source (5): alpha = eta beta, where beta counts violations.

    Sets solver="pegaz", shuffle=False.

    Parameters
    ----------
    C, kernel, gamma, max_iter, fit_intercept : as for `ol_svm`
    **options
        Further parameters of `SVC` and its solver.

    Examples
    --------
    >>> from osvm import recipes
    >>> from osvm.datasets import make_two_normals
    >>> X, y = make_two_normals(400, random_state=0)
    >>> recipes.pegaz(gamma=0.5).fit(X, y).score(X, y) > 0.85
    True
    """
    return _svc(
        solvers.Pegaz,
        options,
        {"fit_intercept": fit_intercept},
        C=C,
        kernel=kernel,
        gamma=gamma,
        max_iter=max_iter,
    )


def kernel_perceptron(
    kernel: Any = "rbf",
    gamma: float | str = "scale",
    max_iter: int = 1,
    fit_intercept: bool = False,
    **options: Any,
) -> SVC:
    """Kernel perceptron: a mistake (a score of 0 is one) adds y to the row's coefficient.

    Source (4), section 3.  Sets solver="perceptron", shuffle=False.

    Parameters
    ----------
    kernel, gamma, max_iter, fit_intercept : as for `ol_svm`
    **options
        Further parameters of `SVC` and its solver.

    Examples
    --------
    >>> from osvm import recipes
    >>> model = recipes.kernel_perceptron(gamma=1.0).fit([[0.0], [1.0], [5.0]], [0, 0, 1])
    >>> model.n_support_.tolist()
    [1, 1]
    """
    return _svc(
        solvers.Perceptron,
        options,
        {"fit_intercept": fit_intercept},
        kernel=kernel,
        gamma=gamma,
        max_iter=max_iter,
    )


def voted_perceptron(
    kernel: Any = "rbf",
    gamma: float | str = "scale",
    max_iter: int = 1,
    average: bool = False,
    fit_intercept: bool = False,
    **options: Any,
) -> SVC:
    """Voted perceptron: all iterates vote, each weighted by the steps it survived.

    Freund and Schapire (1999), in source (4), section 3; ``average=True`` adds the iterates'
    scores instead of their signs.  Sets solver="voted_perceptron", or
    ``solvers.Perceptron(average=True)``, and shuffle=False.

    Parameters
    ----------
    kernel, gamma, max_iter, fit_intercept : as for `ol_svm`
    average : bool
        The averaged perceptron.
    **options
        Further parameters of `SVC` and its solver.

    Examples
    --------
    >>> from osvm import recipes
    >>> from osvm.datasets import make_two_normals
    >>> X, y = make_two_normals(400, random_state=0)
    >>> recipes.voted_perceptron(gamma=0.5).fit(X, y).score(X, y) > 0.85
    True
    """
    return _svc(
        solvers.Perceptron if average else solvers.VotedPerceptron,
        options,
        {"average": average, "fit_intercept": fit_intercept},
        kernel=kernel,
        gamma=gamma,
        max_iter=max_iter,
    )


def kernel_adatron(
    C: float = 1.0,
    kernel: Any = "rbf",
    gamma: float | str = "scale",
    max_iter: int = -1,
    tol: float = 1e-3,
    selection: str = "blocks",
    eta: float | None = None,
    working_set: int | None = None,
    fit_intercept: bool = True,
    **options: Any,
) -> SVC:
    """Kernel adatron: alpha_i <- clip(alpha_i + eta (1 - y_i o_i), 0, C).

    Friess, Cristianini and Campbell (1998), in source (4), section 3; all coefficients start
    at 0.  It solves the support vector machine's own problem.  Sets solver="adatron";
    only ``selection="blocks"`` shuffles the rows.

    Parameters
    ----------
    C, kernel, gamma : as for `ol_svm`
    max_iter : int
        Passes over the rows at most, -1 for no limit; with working sets, rows in sets over rows.
    tol : float
        Learning ends when no violation, abs(1 - y f), of a row that may move exceeds it.
    selection : {"blocks", "largest", "order"}
        The next example: sets of large violators solved together (by far the fastest), the
        largest violation, or the rows in turn.
    eta : float, optional
        Step size with ``selection="order"``; the exact step 1/k(x, x) by default.
    working_set : int, optional
        Rows in a set, at most 256.
    fit_intercept : bool
        With "blocks" the support vector machine's offset, and steps move weight between
        pairs of rows; otherwise that of a constant feature.
    **options
        Further parameters of `SVC` and its solver.

    Examples
    --------
    >>> from osvm import recipes
    >>> from osvm.datasets import make_chessboard
    >>> X, y = make_chessboard(800, random_state=0)
    >>> recipes.kernel_adatron(C=1000, gamma=2.0).fit(X, y).score(X, y) > 0.98
    True
    """
    return _svc(
        solvers.Adatron,
        options,
        {
            "selection": selection,
            "eta": eta,
            "working_set": working_set,
            "fit_intercept": fit_intercept,
            "shuffle": selection == "blocks",
        },
        C=C,
        kernel=kernel,
        gamma=gamma,
        max_iter=max_iter,
        tol=tol,
    )


def lasvm(
    C: float = 1.0,
    kernel: Any = "rbf",
    gamma: float | str = "scale",
    max_iter: int = 1,
    tol: float = 1e-3,
    finish: bool | str = "all",
    **options: Any,
) -> SVC:
    """LASVM: PROCESS each example, REPROCESS the active set, finish at the end.

    Bordes, Ertekin, Weston and Bottou (2005), in source (4), section 3.  Sets
    solver="lasvm", shuffle=False.

    Parameters
    ----------
    C, kernel, gamma, max_iter : as for `ol_svm`
    tol : float
        A pair of rows violates when their gradients differ by more.
    finish : "all", "active" or False
        After each epoch, REPROCESS until no pair violates: of all rows, whose outputs are
        known, or of the active set only, as published.
    **options
        Further parameters of `SVC` and its solver.

    Examples
    --------
    >>> from osvm import recipes
    >>> from osvm.datasets import make_two_normals
    >>> X, y = make_two_normals(400, random_state=0)
    >>> recipes.lasvm(gamma=0.5).fit(X, y).score(X, y) > 0.85
    True
    """
    return _svc(
        solvers.LaSvm,
        options,
        {"finish": finish},
        C=C,
        kernel=kernel,
        gamma=gamma,
        max_iter=max_iter,
        tol=tol,
    )


def ballseptron(
    radius: float = 0.1,
    kernel: Any = "rbf",
    gamma: float | str = "scale",
    max_iter: int = 1,
    **options: Any,
) -> SVC:
    """Ballseptron: if the ball around a row meets the boundary, learn its worst point.

    Shalev-Shwartz and Singer (2005), in source (4), section 3: when y w.x < r ||w||, the
    perceptron step is made with x - r y w/||w||.  Sets solver="ballseptron", shuffle=False.

    Parameters
    ----------
    radius : float
        r, in the kernel's space.
    kernel, gamma, max_iter : as for `ol_svm`
    **options
        Further parameters of `SVC` and its solver.

    Examples
    --------
    >>> from osvm import recipes
    >>> from osvm.datasets import make_two_normals
    >>> X, y = make_two_normals(400, random_state=0)
    >>> recipes.ballseptron(0.05, gamma=0.5, max_iter=2).fit(X, y).score(X, y) > 0.8
    True
    """
    return _svc(
        solvers.Ballseptron,
        options,
        {"radius": radius},
        kernel=kernel,
        gamma=gamma,
        max_iter=max_iter,
    )


def alma(
    p: float = 2.0,
    slack: float = 0.9,
    kernel: Any = None,
    gamma: float | str = "scale",
    epochs: int = 1,
    margin: float | None = None,
    step: float | None = None,
    **options: Any,
) -> SVC | AlmaClassifier:
    """ALMA_p: perceptron steps towards (1 - slack) of the largest p-norm margin.

    Gentile (2001), in source (4), section 3.  Linear on sparse or dense rows for any p of at
    least 2; with a kernel for p = 2.  Sets shuffle=False.

    Parameters
    ----------
    p : float
        Norm of the rows.
    slack : float
        Gentile's alpha, in (0, 1].
    kernel : str, object or callable, optional
        None is linear, with weights.
    gamma : as for `ol_svm`
    epochs : int
        Passes over the rows; `max_iter` of `SVC` with a kernel.
    margin, step : float, optional
        Gentile's B and C; sqrt(8)/slack and sqrt(2) by default.
    **options
        Further parameters of `AlmaClassifier` or, with a kernel, of `SVC`.

    Examples
    --------
    >>> from osvm import recipes
    >>> recipes.alma(p=6)
    AlmaClassifier(p=6)
    >>> recipes.alma(kernel="rbf", gamma=1.0).fit([[0.0], [5.0]], [0, 1]).predict([[0.2]])
    array([0])
    """
    if kernel is None:
        return AlmaClassifier(p=p, slack=slack, margin=margin, step=step, epochs=epochs, **options)
    if p != 2.0:
        raise ValueError("ALMA has a kernel form for p = 2 only")
    return _svc(
        solvers.Alma,
        options,
        {"slack": slack, "margin": margin, "step": step},
        kernel=kernel,
        gamma=gamma,
        max_iter=epochs,
    )


def _svc(
    solver: type[solvers.CachedSolver], options: dict[str, Any], own: dict[str, Any], **svc: Any
) -> SVC:
    """An `SVC` whose solver has `own` parameters; options go to the one that knows them.

    Several classes are learnt one against the rest, as the papers do.
    """
    svc.setdefault("multi_class", options.pop("multi_class", "ovr"))
    known = {field.name for field in dataclasses.fields(solver)}
    own = {"shuffle": False, **own, **{k: v for k, v in options.items() if k in known}}
    return SVC(solver=solver(**own), **svc, **{k: v for k, v in options.items() if k not in known})
