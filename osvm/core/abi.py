"""The number of the binary interface that this library was compiled with."""

from osvm._c.engine import abi_version

__all__ = ["abi_version"]
