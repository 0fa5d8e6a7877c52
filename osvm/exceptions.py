"""Warnings of the library.

Errors about data are plain `ValueError`; an estimator that was not fitted
raises scikit-learn's `NotFittedError` when scikit-learn is installed.
"""

__all__ = ["ConversionWarning"]


class ConversionWarning(UserWarning):
    """Input was converted to another layout, at the cost of a copy.

    Shown once for each kind of conversion in a process.
    """
