"""osvm: online support vector machines for sparse text, streams and kernels."""

from osvm._version import __version__

__all__ = ["__version__"]
