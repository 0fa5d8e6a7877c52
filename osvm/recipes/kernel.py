"""The kernel algorithms with a bounded buffer, as configured estimators.

Source (4): Vishwanathan, Schraudolph, Smola, "Step Size Adaptation in Reproducing Kernel
Hilbert Space", JMLR 7, 2006.
"""

from __future__ import annotations

from typing import Any

from osvm import losses, schedules
from osvm.kernel import KernelClassifier, KernelNovelty

__all__ = ["norma", "novelty_svmd", "nu_svmd", "svmd"]


def norma(
    reg: float | None = None,
    eta0: float = 1.0,
    tau: float = 10.0,
    kernel: Any = "rbf",
    gamma: float | str = "scale",
    budget: int | None = 512,
    loss: Any = "hinge",
    nu: Any = None,
    fit_intercept: bool = False,
    epochs: int = 1,
    shuffle: bool = False,
    capped: bool = False,
    **options: Any,
) -> KernelClassifier:
    """NORMA, the online SVM with a step size that decays.

    Source (4), section 4 and (62) with the eta0 that its print omits.  Sets
    ``schedule=InverseSqrt(tau)``: ``eta = eta0 sqrt(tau/(tau + t))``.  The margin of the
    nu-trick and the intercept take the same step size.

    Parameters
    ----------
    reg : float, optional
        1e-4 by default, 1 with `nu`.
    eta0, tau : float
    kernel, gamma, budget, loss, nu, fit_intercept, epochs, shuffle
        As for `KernelClassifier`.
    capped : bool, default False
        Steps of ``min(eta, (1 - y f(x)) / k(x, x))``, not in the source: rows with a large
        k(x, x), as polynomial kernels have them, do not throw f about.
    **options
        Further parameters of `KernelClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from osvm import recipes
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    >>> model = recipes.norma(gamma=2.0, epochs=10).fit(X, [0, 0, 1, 1])
    >>> model.predict(X).tolist()
    [0, 0, 1, 1]
    """
    return KernelClassifier(
        loss=loss,
        reg=reg,
        schedule=schedules.InverseSqrt(tau=tau, capped=capped),
        eta0=eta0,
        kernel=kernel,
        gamma=gamma,
        budget=budget,
        nu=nu,
        fit_intercept=fit_intercept,
        epochs=epochs,
        shuffle=shuffle,
        **{"eviction": "fifo", "average": False, **options},
    )


def svmd(
    reg: float | None = None,
    eta0: float = 0.1,
    mu: float = 0.1,
    decay: float = 0.95,
    kernel: Any = "rbf",
    gamma: float | str = "scale",
    budget: int | None = 512,
    loss: Any = "multiclass_hinge",
    nu: Any = None,
    fit_intercept: bool = False,
    taxonomy: Any = None,
    epochs: int = 1,
    shuffle: bool = False,
    **options: Any,
) -> KernelClassifier:
    """SVMD, the online SVM whose step size adapts itself.

    Source (4), Algorithm 2.  Sets ``schedule=SMD(mu, decay)``.  `decay` is the paper's
    lambda, `reg` its c.  ``loss="graph_hinge", label_kernel="taxonomy"`` with a `taxonomy` is the
    paper's section 6.4.

    Parameters
    ----------
    reg : float, optional
        1e-4 by default, 1 with `nu`.
    eta0, mu, decay : float
        First step size, meta step size, memory of the trace.
    kernel, gamma, budget, loss, nu, fit_intercept, taxonomy, epochs, shuffle
        As for `KernelClassifier`.
    **options
        Further parameters of `KernelClassifier` and of :class:`osvm.schedules.SMD`.

    Examples
    --------
    >>> import numpy as np
    >>> from osvm import recipes
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    >>> model = recipes.svmd(gamma=2.0, epochs=10).fit(X, [0, 0, 1, 1])
    >>> model.predict(X).tolist()
    [0, 0, 1, 1]
    """
    return KernelClassifier(
        loss=loss,
        reg=reg,
        schedule=_smd(options, mu=mu, decay=decay),
        eta0=eta0,
        kernel=kernel,
        gamma=gamma,
        budget=budget,
        nu=nu,
        fit_intercept=fit_intercept,
        taxonomy=taxonomy,
        epochs=epochs,
        shuffle=shuffle,
        **{"eviction": "fifo", **options},
    )


def nu_svmd(
    nu: float = 0.05,
    eta0: float = 1.0,
    mu: float = 1.0,
    decay: float = 0.95,
    kernel: Any = "rbf",
    gamma: float | str = "scale",
    budget: int | None = 512,
    loss: Any = "hinge",
    epsilon0: float = 1.0,
    **options: Any,
) -> KernelClassifier:
    """nu-SVMD: SVMD that learns its margin, so that a fraction nu violates it.

    Source (4), section 5.4.2 with the settings of 6.1.1.  Sets ``schedule=SMD(mu,
    decay)``, reg=1 and the margin's step size to begin at 1.

    Parameters
    ----------
    nu : float
    eta0, mu, decay : float
    kernel, gamma, budget, loss
        As for `KernelClassifier`.
    epsilon0 : float
        The margin to begin with.
    **options
        Further arguments of `svmd`.

    Examples
    --------
    >>> from osvm import recipes
    >>> recipes.nu_svmd(nu=0.1).nu
    NuTrick(nu=0.1, epsilon0=1.0, eta0=None)
    """
    return svmd(
        eta0=eta0,
        mu=mu,
        decay=decay,
        kernel=kernel,
        gamma=gamma,
        budget=budget,
        loss=loss,
        nu=losses.NuTrick(nu, epsilon0=epsilon0),
        **options,
    )


def novelty_svmd(
    nu: Any = None,
    reg: float | None = None,
    eta0: float = 1.0,
    mu: float = 1.0,
    decay: float = 1.0,
    kernel: Any = "rbf",
    gamma: float | str = "scale",
    budget: int | None = 512,
    epochs: int = 1,
    shuffle: bool = False,
    **options: Any,
) -> KernelNovelty:
    """SVMD for novelty detection, whose step size rises when the data change.

    Source (4), section 6.2.2 (mu = decay = 1).  Sets ``schedule=SMD(mu, decay)``.

    Parameters
    ----------
    nu : float, optional
        Learn the margin (then `reg` is 1); it stays at 1 by default.
    reg : float, optional
    eta0, mu, decay : float
    kernel, gamma, budget, epochs, shuffle
        As for `KernelNovelty`.
    **options
        Further parameters of `KernelNovelty` and of :class:`osvm.schedules.SMD`.

    Examples
    --------
    >>> import numpy as np
    >>> from osvm import recipes
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = recipes.novelty_svmd(reg=0.01, gamma=0.5, eta0=0.1, mu=0.1).fit(X)
    >>> model.predict([[0.0, 0.0], [9.0, 9.0]]).tolist()
    [1, -1]
    """
    return KernelNovelty(
        nu=nu,
        reg=reg,
        schedule=_smd(options, mu=mu, decay=decay),
        eta0=eta0,
        kernel=kernel,
        gamma=gamma,
        budget=budget,
        epochs=epochs,
        shuffle=shuffle,
        **{"eviction": "fifo", **options},
    )


def _smd(options: dict[str, Any], **own: Any) -> schedules.SMD:
    """The schedule; takes its parameters out of the options."""
    for name in ("eta_min", "eta_max", "eta0_intercept"):
        if name in options:
            own[name] = options.pop(name)
    return schedules.SMD(**own)
