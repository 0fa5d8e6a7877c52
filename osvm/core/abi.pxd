# The number of the binary interface, and the check that a client makes.
#
# A client compiles the inline functions and the structs of osvm.core into its
# own module, so it must be compiled again when one of them changes its meaning.
# OSVM_ABI counts such changes.  Structs only ever grow at their end and begin
# with their own size; a struct that merely grew does not raise the number, a
# field or an argument that changed its meaning does.
#
#     from osvm.core.abi cimport osvm_check_abi
#     osvm_check_abi()
#
# at the top of a client's module makes its import fail, with a message that
# says what to do, where it would otherwise read structs wrongly.

cdef enum:
    OSVM_ABI = 1

# The number that the installed library was compiled with.
cdef int osvm_abi_version() noexcept nogil


cdef inline int osvm_check_abi() except -1:
    """Raise ImportError unless the client was compiled against this library's ABI."""
    if osvm_abi_version() != OSVM_ABI:
        raise ImportError(
            f"this module was compiled against osvm ABI {<int> OSVM_ABI}, but the installed osvm "
            f"has ABI {osvm_abi_version()}: compile the module again with the installed osvm, or "
            f"install an osvm that has ABI {<int> OSVM_ABI}"
        )
    return 0
