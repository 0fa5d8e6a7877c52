"""The number of the binary interface that this library was compiled with."""


cdef int osvm_abi_version() noexcept nogil:
    return OSVM_ABI


def abi_version():
    """Number of the interface that ``cimport osvm`` gives; clients of another number are refused.

    Examples
    --------
    >>> from osvm.core.abi import abi_version
    >>> abi_version()
    1
    """
    return OSVM_ABI
