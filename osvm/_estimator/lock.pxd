# One writer, or many readers, of one model.  See lock.pyx.
cimport cython


@cython.final
cdef class ModelLock:
    cdef unsigned long owner        # thread of the writer; 0 for none
    cdef Py_ssize_t depth           # writers' calls within each other, all of the owner
    cdef Py_ssize_t exclusive       # those of them that keep readers out
    cdef unsigned long *readers     # threads that read, once for each call
    cdef Py_ssize_t n_readers, room
    cdef list waiting_readers       # of Waiter
    cdef list waiting_writers
    cdef object draining            # the owner's Waiter, while it waits for readers to leave
    cdef long generation            # of the process, see _after_fork
    cdef bint training              # the owner's calls are within a training
    cdef bint torn
    cdef int read(self) except -1
    cdef void end_read(self) noexcept
    cdef int write(self, bint exclusive, bint trains=*) except -1
    cdef void end_write(self, bint exclusive, bint trains=*) noexcept
    cdef bint _reads(self, unsigned long thread) noexcept
    cdef bint _note_reader(self, unsigned long thread) noexcept
    cdef int _wait_to_read(self, unsigned long me) except -1
    cdef int _wait_to_write(self, unsigned long me) except -1
    cdef int _wait_for_readers(self, unsigned long me) except -1
    cdef void _let_readers_in(self) noexcept
    cdef int _check_process(self) except -1

cdef class Locked:
    cdef readonly ModelLock _lock
    cdef frozenset _names           # `_watched` of its class
