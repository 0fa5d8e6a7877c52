"""Warnings of the library.

Errors about data are plain `ValueError`; an estimator that was not fitted
raises scikit-learn's `NotFittedError` when scikit-learn is installed.
"""

__all__ = ["ConvergenceWarning", "ConversionWarning"]


class ConversionWarning(UserWarning):
    """Input was converted to another layout, at the cost of a copy.

    Shown once for each kind of conversion in a process.
    """


class ConvergenceWarning(UserWarning):
    """A fit stopped short of what was asked for, or has learnt nothing.

    A solver that stops at its limit of epochs, short of its tolerance; a linear model that
    is no better on its training rows than a constant answer; columns or targets of very
    different size, which its steps do not suit.
    """
