# The number of the binary interface, and the check that a client makes.
#
# A client compiles structs and inline functions of osvm.core into its own module, so it must
# be compiled again when one of them changes its meaning.  ABI_NUMBER counts such changes.
# Structs begin with their own size and grow at their end only: one that merely grew does not
# raise the number, and a client that knows a larger struct than the library is refused.
#
#     from osvm.core.abi cimport abi_check
#     abi_check()
#
# at the top of a client's module makes its import fail, with a message that says what to do,
# where it would otherwise read structs wrongly.
from libc.stddef cimport size_t

from osvm._c.engine cimport abi_compare  # no-cython-lint: a client's module imports it
from osvm.core.typedefs cimport Expansion, Fixed, Kernel, Loss, Row, Rows, SMat, Step, SVec

cdef enum:
    ABI_NUMBER = 2          # NUMBER in osvm/_c/engine.pyx


cdef inline int abi_check() except -1:
    """Raise ImportError unless the client was compiled for this library's number and structs."""
    cdef size_t sizes[9]
    sizes[0], sizes[1], sizes[2] = sizeof(Row), sizeof(Rows), sizeof(SVec)
    sizes[3], sizes[4], sizes[5] = sizeof(SMat), sizeof(Loss), sizeof(Step)
    sizes[6], sizes[7], sizes[8] = sizeof(Kernel), sizeof(Expansion), sizeof(Fixed)
    return abi_compare(ABI_NUMBER, sizes, 9)
