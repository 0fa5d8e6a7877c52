# Owner of a kernel machine's memory.  See state.pyx.
from osvm._c.structs cimport Buffer
from osvm._parts.compiled cimport KernelSpec
from osvm.kernel.buffer.drift cimport Drift

cdef class KernelState:
    cdef Buffer *buf
    cdef readonly KernelSpec kernel
    cdef readonly object label_kernel
    cdef public object intercept, eta_intercept, z_intercept  # b, its step sizes and trace
    cdef double *b                  # the same arrays
    cdef double *eta_b
    cdef double *z_b
    cdef double *b_mean             # their running means and, last, the margin's
    cdef readonly object _means
    cdef object _slot_of
    cdef readonly object running    # of a stream: a Share or Targets, or None
    cdef double *running_           # the same
    cdef double average_from        # t at `begin_average`
    cdef Drift drift                # of a stream that is averaged
    cdef public double t            # examples seen
    cdef public double eta          # step size
    cdef public double epsilon, eta_epsilon, z_epsilon
    cdef public double errors       # of test-then-train
    cdef public double loss_sum
    cdef int _set_means(self, object means) except -1
    cdef void set_mean_scores(self, bint wanted)
    cdef void _set_running(self, object running)
    cdef void _point(self)
