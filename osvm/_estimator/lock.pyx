"""The lock of a model: any number of readers, or one writer.

A writer has two stages.  `writing` keeps other writers out, for a `fit` that builds a new
model beside the present one; `changing` keeps readers out too, for the moment in which
the model itself changes.  So readers see a model before or after a block of examples, and
no two writers lose each other's examples.

Everything here happens under the GIL, in C code that runs no Python between the check of
the state and its change; an uncontended lock costs a few nanoseconds.  Only a thread that
must wait makes a Python lock to sleep on, which lets Ctrl-C through.

Invariants
- the lock is handed over: whoever leaves gives it to those who wait.  A writer that leaves
  lets all waiting readers in, and readers that come while a writer waits come after it, so
  that neither side starves the other;
- a thread that reads may read again and a thread that writes may read, whoever waits; a thread
  that reads and wants to write would wait for itself, and gets an error;
- so does a thread that trains and wants to train within (in a callback, a loss in Python, a
  signal handler): one of the two results would be lost.  `holding` is for parts of a training;
- after a fork only the forking thread lives on: what other threads held is released, and a
  model that one of them was changing is refused from then on.
"""
import os
from _thread import allocate_lock

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Realloc

cdef extern from "Python.h":
    int PyObject_GenericSetAttr(object model, object name, object value) except -1

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident()

cdef long generation = 0            # forks between the first process and this one
cdef unsigned long survivor = 0     # the thread that forked


def _after_fork():
    """In the child: the other threads that locks know of are gone."""
    global generation, survivor
    generation += 1
    survivor = PyThread_get_thread_ident()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@cython.final
cdef class Waiter:
    """A thread that sleeps until the lock is handed to it."""
    cdef unsigned long thread
    cdef bint granted
    cdef object gate

    def __cinit__(self):
        self.thread = PyThread_get_thread_ident()
        self.gate = allocate_lock()
        self.gate.acquire()

    cdef void grant(self) noexcept:
        self.granted = True
        self.gate.release()


cdef class ModelLock:
    """Used as ``with lock:`` to read, ``with lock.writing():``, ``with lock.changing():``.

    A part of a training takes ``lock.holding()``.

    Examples
    --------
    >>> from osvm._estimator.lock import ModelLock
    >>> lock = ModelLock()
    >>> with lock.writing():
    ...     with lock:
    ...         pass            # others may read meanwhile
    ...     with lock.holding():
    ...         lock.is_free
    False
    >>> lock.is_free
    True
    """

    def __cinit__(self):
        self.generation = generation
        self.waiting_readers = []
        self.waiting_writers = []

    def __dealloc__(self):
        PyMem_Free(self.readers)

    @property
    def is_free(self):
        """Nobody reads, writes or waits.  For tests."""
        return (self.owner == 0 and self.n_readers == 0 and not self.waiting_readers
                and not self.waiting_writers and self.draining is None)

    # ---------------------------------------------------------------- reading

    cdef int read(self) except -1:
        cdef unsigned long me = PyThread_get_thread_ident()
        if self.generation != generation or self.torn:
            self._check_process()
        if (self.exclusive > 0 or self.draining is not None) and self.owner != me \
                and not self._reads(me):
            return self._wait_to_read(me)
        if not self._note_reader(me):
            raise MemoryError
        return 0

    cdef void end_read(self) noexcept:
        cdef unsigned long me
        cdef Py_ssize_t i = self.n_readers - 1
        if i > 0:
            me = PyThread_get_thread_ident()
            while i > 0 and self.readers[i] != me:
                i -= 1
        self.n_readers -= 1
        self.readers[i] = self.readers[self.n_readers]
        if self.draining is not None:
            if self.n_readers == 0:
                waiter, self.draining = self.draining, None
                self.exclusive = 1
                (<Waiter> waiter).grant()
        elif len(self.waiting_readers) > 0 and self.exclusive == 0:
            self._let_readers_in()      # those for whom there was no memory before

    cdef bint _reads(self, unsigned long thread) noexcept:
        cdef Py_ssize_t i
        for i in range(self.n_readers):
            if self.readers[i] == thread:
                return True
        return False

    cdef bint _note_reader(self, unsigned long thread) noexcept:
        """False when memory is short."""
        cdef void *larger
        if self.n_readers == self.room:
            larger = PyMem_Realloc(self.readers, 2 * (self.room + 4) * sizeof(unsigned long))
            if larger == NULL:
                return False
            self.readers = <unsigned long *> larger
            self.room = 2 * (self.room + 4)
        self.readers[self.n_readers] = thread
        self.n_readers += 1
        return True

    cdef int _wait_to_read(self, unsigned long me) except -1:
        cdef Waiter waiter = Waiter()
        # making it may have let other threads run: check again
        if self.exclusive == 0 and self.draining is None:
            return self.read()
        self.waiting_readers.append(waiter)
        try:
            waiter.gate.acquire()
        except BaseException:           # Ctrl-C
            if waiter.granted:
                self.end_read()
            else:
                self.waiting_readers.remove(waiter)
            raise
        return 0

    cdef void _let_readers_in(self) noexcept:
        cdef Waiter waiter
        while len(self.waiting_readers) > 0:
            waiter = self.waiting_readers[0]
            if not self._note_reader(waiter.thread):
                return                  # there are others, who try again when they leave
            del self.waiting_readers[0]
            waiter.grant()

    def __enter__(self):
        self.read()

    def __exit__(self, kind, value, trace):
        self.end_read()

    # ---------------------------------------------------------------- writing

    cdef int write(self, bint exclusive, bint trains=True) except -1:
        cdef unsigned long me = PyThread_get_thread_ident()
        if self.generation != generation or self.torn:
            self._check_process()
        if self.owner == 0:
            self.owner = me
            self.depth = 1
        elif self.owner == me:
            if trains and self.training:
                raise RuntimeError(
                    "a model cannot be trained from within its own training: train it afterwards")
            self.depth += 1
        else:
            self._wait_to_write(me)
        if exclusive:
            if self.exclusive > 0 or self.n_readers == 0:
                self.exclusive += 1
            else:
                try:
                    self._wait_for_readers(me)
                except BaseException:
                    self.end_write(False, False)
                    raise
        self.training = self.training or trains
        return 0

    cdef void end_write(self, bint exclusive, bint trains=True) noexcept:
        cdef Waiter waiter
        if trains:
            self.training = False
        if exclusive:
            self.exclusive -= 1
            if self.exclusive == 0:
                self._let_readers_in()
        self.depth -= 1
        if self.depth > 0:
            return
        self.owner = 0
        if len(self.waiting_writers) > 0:
            waiter = self.waiting_writers[0]
            del self.waiting_writers[0]
            self.owner = waiter.thread
            self.depth = 1
            waiter.grant()

    cdef int _wait_to_write(self, unsigned long me) except -1:
        cdef Waiter waiter
        if self._reads(me):
            raise RuntimeError("a model cannot be trained from within its own prediction")
        waiter = Waiter()
        if self.owner == 0:             # as in _wait_to_read
            self.owner = me
            self.depth = 1
            return 0
        self.waiting_writers.append(waiter)
        try:
            waiter.gate.acquire()
        except BaseException:           # Ctrl-C
            if waiter.granted:
                self.end_write(False, False)
            else:
                self.waiting_writers.remove(waiter)
            raise
        return 0

    cdef int _wait_for_readers(self, unsigned long me) except -1:
        """The owner becomes exclusive once all readers have left."""
        cdef Waiter waiter
        if self._reads(me):
            raise RuntimeError("a model cannot be trained from within its own prediction")
        waiter = Waiter()
        if self.n_readers == 0:
            self.exclusive = 1
            return 0
        self.draining = waiter
        try:
            waiter.gate.acquire()
        except BaseException:           # Ctrl-C
            self.draining = None
            self.exclusive = 0
            self._let_readers_in()
            raise
        return 0

    def writing(self):
        """A context that keeps other writers out, not readers."""
        return Writing.__new__(Writing, self, False, True)

    def changing(self):
        """A context that keeps everybody else out."""
        return Writing.__new__(Writing, self, True, True)

    def holding(self):
        """The same for a part of a training, or around one: it may be inside of the others."""
        return Writing.__new__(Writing, self, True, False)

    # ----------------------------------------------------------------- forks

    cdef int _check_process(self) except -1:
        """Release what threads of the parent process held."""
        cdef Py_ssize_t i, n = 0
        if self.generation != generation:
            self.generation = generation
            for i in range(self.n_readers):
                if self.readers[i] == survivor:
                    self.readers[n] = survivor
                    n += 1
            self.n_readers = n
            self.waiting_readers.clear()
            self.waiting_writers.clear()
            self.draining = None
            if self.owner != survivor:
                self.torn = self.torn or self.exclusive > 0
                self.owner = 0
                self.depth = self.exclusive = 0
                self.training = False
        if self.torn:
            raise RuntimeError(
                "this process was forked while another thread was training this model, so that "
                "its copy here is incomplete: load the model from a file, or train a new one")
        return 0


@cython.final
cdef class Writing:
    """What `ModelLock.writing`, `changing` and `holding` give."""
    cdef ModelLock lock
    cdef bint exclusive, trains

    def __cinit__(self, ModelLock lock, bint exclusive, bint trains):
        self.lock = lock
        self.exclusive = exclusive
        self.trains = trains

    def __enter__(self):
        self.lock.write(self.exclusive, self.trains)

    def __exit__(self, kind, value, trace):
        self.lock.end_write(self.exclusive, self.trains)


@cython.auto_pickle(False)
cdef class Locked:
    """Base of all estimators: gives each its lock, which no copy or pickle takes along."""

    _watched = frozenset()      # attributes whose change calls `_watched_changed`

    def __cinit__(self):
        self._lock = ModelLock()
        self._names = type(self)._watched

    def __setattr__(self, name, value):
        PyObject_GenericSetAttr(self, name, value)
        if name in self._names:
            self._watched_changed()
