"""Owner of a kernel machine's memory: buffer, coefficients, offset, step sizes.

Everything that learning changes is here: the expansion of `osvm/core/expansion.pxd`, and the
offset and its step sizes in numpy arrays.

Invariants
- `get_state` gives everything: a machine made from it goes on bit for bit the same.  It
  includes the sums known for the next evictions, since a fresh computation of them would
  round differently.
- Slots are not in order of age; whatever leaves this object (support vectors, dual
  coefficients, saved rows) is, oldest first.
"""
import numpy as np

from cpython.buffer cimport PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory

from osvm.kernel.buffer.schema import buffer_schema, row_squares

from osvm._c.engine cimport (
    engine_fold_beta, engine_measure, engine_merge_share, engine_merge_tables, engine_reserve,
    engine_reserve_victims, engine_set_outputs,
)
from osvm._c.merging cimport TABLE_K, TABLE_M
from osvm._c.structs cimport N_VICTIMS, Buffer
from osvm._input.rows cimport RowSource
from osvm._parts.compiled cimport KernelSpec
from osvm.kernel.buffer.cut cimport CUT_SIZE
from osvm.kernel.buffer.share cimport SHARE_SIZE, Share
from osvm.kernel.buffer.targets cimport TARGETS_SIZE
from osvm.core.expansion cimport (
    EXPANSION_CHANGE, EXPANSION_COEFFICIENT, EXPANSION_F64, EXPANSION_MERGE, EXPANSION_OLDEST,
    EXPANSION_PROJECT, EXPANSION_SPARSE, EXPANSION_TERM, EXPANSION_TRACE, STATUS_NO_MEMORY,
    STATUS_OK, Expansion, expansion_free, expansion_new, expansion_scores, expansion_trace_scores,
)
from osvm.core.kernel cimport KERNEL_PRECOMPUTED

EVICTIONS = {
    "fifo": EXPANSION_OLDEST,
    "coefficient": EXPANSION_COEFFICIENT,
    "term": EXPANSION_TERM,
    "change": EXPANSION_CHANGE,
    "merge": EXPANSION_MERGE,
    "project": EXPANSION_PROJECT,
}

_PER_SLOT = ("X", "start", "length", "sq", "k_self", "ids", "A", "B", "birth", "size", "row_sq")
_LEARNER = ("t", "eta", "epsilon", "eta_epsilon", "z_epsilon", "errors", "loss_sum")


cdef class KernelState:
    """A kernel expansion over at most `budget` rows, with its learner's numbers.

    Parameters
    ----------
    kernel : KernelSpec
    n_features, n_outputs : int
    float64, sparse : bool
        How rows are kept.
    budget : int
        -1 for no bound.
    eviction : str
        A key of `EVICTIONS`.
    trace : bool
        Keep beta, ||f||^2 and <f, z> (stochastic meta-descent).
    label_kernel : (K, K) array, optional
    """

    def __cinit__(self, KernelSpec kernel, Py_ssize_t n_features, Py_ssize_t n_outputs, *,
                  bint float64, bint sparse, Py_ssize_t budget=-1, eviction="fifo",
                  bint trace=False, label_kernel=None):
        cdef int flags = ((EXPANSION_F64 if float64 else 0) | (EXPANSION_SPARSE if sparse else 0)
                          | (EXPANSION_TRACE if trace else 0))
        self.kernel = kernel
        self.buf = <Buffer *> expansion_new(&kernel.kernel, n_features, n_outputs, budget,
                                            EVICTIONS[eviction], flags)
        if self.buf == NULL:
            raise MemoryError("no memory for a kernel machine")
        self.intercept = np.zeros(n_outputs)
        self.eta_intercept = np.zeros(n_outputs)
        self.z_intercept = np.zeros(n_outputs)
        self.epsilon = 1.0
        self.set_label_kernel(label_kernel)
        self._point()

    def __dealloc__(self):
        expansion_free(<Expansion *> self.buf)

    cdef void _point(self):
        """Give the loop the addresses of the offset's arrays."""
        cdef Py_ssize_t address = self.intercept.ctypes.data
        self.b = <double *> address
        address = self.eta_intercept.ctypes.data
        self.eta_b = <double *> address
        address = self.z_intercept.ctypes.data
        self.z_b = <double *> address

    # -------------------------------------------------------------- memory

    def _slots(self, name):
        """What the slots in use have of an array: a view of memory that may move later."""
        cdef Py_ssize_t n = self.buf.store.n, K = self.buf.f.n_out, d = self.buf.store.d
        real = np.float64 if self.buf.store.f64 else np.float32
        if name == "X":
            if self.buf.store.sparse:
                return np.empty((n, 0), real)
            return view(self.buf.store.X, n * d, real).reshape(n, d)
        if name in ("A", "B"):
            return view(self.buf.f.coef if name == "A" else self.buf.B, n * K,
                        np.float64).reshape(n, K)
        if name == "sq":
            return view(self.buf.store.sq, n, real)
        if name in ("k_self", "size", "row_sq"):
            return view(self.buf.store.k_self if name == "k_self" else
                        self.buf.size if name == "size" else self.buf.row_sq, n, np.float64)
        return view(<void *> self.buf.store.start if name == "start" else
                    <void *> self.buf.store.length if name == "length" else
                    <void *> self.buf.store.ids if name == "ids" else
                    <void *> self.buf.f.birth, n, np.intp)

    def _entries(self):
        """Values and columns of the sparse rows, as the arena has them."""
        cdef Py_ssize_t count = self.buf.store.end
        return (view(self.buf.store.values, count,
                     np.float64 if self.buf.store.f64 else np.float32),
                view(self.buf.store.columns, count, np.int32))

    def set_label_kernel(self, label_kernel):
        """Another label kernel; `refresh` must follow where there are rows already."""
        cdef double[:, ::1] kappa
        if label_kernel is None:
            self.label_kernel = None
            self.buf.f.kappa = NULL
            return
        self.label_kernel = np.array(label_kernel, dtype=np.float64, order="C")
        if self.label_kernel.shape != (self.buf.f.n_out, self.buf.f.n_out):
            raise ValueError(f"the label kernel must be {self.buf.f.n_out} x {self.buf.f.n_out}, "
                             f"got shape {self.label_kernel.shape}")
        kappa = self.label_kernel
        self.buf.f.kappa = &kappa[0, 0]

    def grow_outputs(self, transfer, label_kernel, double eta_intercept):
        """Go from K to K' outputs: coefficients times the K x K' matrix `transfer`.

        Without label kernels the columns must keep inner products (unit vectors, or the +-1
        of a binary machine that becomes one-vs-rest, where ||f||^2 and <f, z> double); with
        one, inner products are computed anew.
        """
        cdef Py_ssize_t K = transfer.shape[1]
        # labels in another order have the inner products they had
        plain = self.buf.f.n_out == K or (self.label_kernel is None and label_kernel is None)
        fresh = ~np.any(transfer != 0, axis=0)
        grown = {name: self._slots(name) @ transfer for name in ("A", "B")}
        for name in ("intercept", "z_intercept"):
            setattr(self, name, getattr(self, name) @ transfer)
        if self.buf.average:
            self._set_means(np.append(self._means[:-1] @ transfer, self._means[-1]))
        steps = self.eta_intercept @ np.abs(transfer)
        steps[fresh] = eta_intercept
        self.eta_intercept = steps
        if self.buf.f.n_out == 1 and K > 1:  # f becomes (-f, f)
            self.buf.f.sq_norm *= 2.0
            self.buf.f.inner *= 2.0
            if self.buf.eviction != EXPANSION_OLDEST:
                self._slots("size")[:] *= 2.0
        if engine_set_outputs(self.buf, K) != STATUS_OK:
            raise MemoryError("no memory for more outputs")
        for name in grown:
            self._slots(name)[:] = grown[name]
        self.set_label_kernel(label_kernel)
        self._point()
        if not plain:
            self.refresh()

    # -------------------------------------------------------------- a training set

    def begin_fit(self, Py_ssize_t n_rows, bint precomputed):
        """Rows come from a training set of n_rows: each has one slot at most, by its number.

        Rows that are there already belong to it only with a precomputed kernel.
        """
        cdef Py_ssize_t s
        cdef Py_ssize_t[::1] slot_of = np.full(n_rows, -1, np.intp)
        for s in range(self.buf.store.n):
            if not precomputed:
                self.buf.store.ids[s] = -1
            elif 0 <= self.buf.store.ids[s] < n_rows:
                slot_of[self.buf.store.ids[s]] = s
        self._slot_of = slot_of
        self.buf.slot_of = &slot_of[0] if n_rows else NULL

    def end_fit(self):
        """Rows come from a stream again."""
        self._slot_of = None
        self.buf.slot_of = NULL

    @property
    def average(self):
        """Whether readers see running means of f, offset and margin; learning goes on beside."""
        return bool(self.buf.average)

    def begin_average(self, bint anew=True):
        """Average f, offset and margin from here on; without a trace only.

        Else than `anew`, f as it is counts as the mean of the steps made so far.
        """
        if self.buf.trace:
            raise ValueError("a machine with a trace cannot average")
        self._set_means(np.append(self.intercept, self.epsilon))
        self.average_from = self.t if anew else 0.0
        self._slots("B")[:] = 0.0
        self.buf.p, self.buf.q, self.buf.average = self.buf.f.scale, 1.0, True

    cdef int _set_means(self, object means) except -1:
        cdef double[::1] view = means
        self._means = means
        self.b_mean = &view[0]
        return 0

    cdef void set_mean_scores(self, bint wanted):
        """Whether the loop reads scores of the mean too; sums known without them are dropped."""
        if wanted != self.buf.mean_scores:
            self.buf.mean_scores, self.buf.n_victims = wanted, 0

    def set_share(self, share=None):
        """Follow the share of novel rows (`share.pxd`) from these numbers on, or from none."""
        self.follow("share")
        self.running[:len(share or ())] = share or ()
        if share is None:
            self.running[0] = self.epsilon
        (<Share *> self.running_).mass = (<Share *> self.running_).mean_mass = self.alpha().sum()

    def follow(self, what):
        """Follow "targets" (`targets.pxd`), "classes" (`cut.pxd`) or "share", or None."""
        sizes = {"targets": TARGETS_SIZE, "classes": CUT_SIZE, "share": SHARE_SIZE}
        self._set_running(None if what is None else np.zeros(sizes[what]))

    cdef void _set_running(self, object running):
        cdef Py_ssize_t address = 0 if running is None else running.ctypes.data
        self.running, self.running_ = running, <double *> address

    def end_average(self):
        """f, offset and margin become their means."""
        self.buf.average = False
        engine_fold_beta(self.buf)
        self._slots("A")[:] = self._slots("B")
        self.buf.f.scale = 1.0
        self.intercept[:] = self._means[:-1]
        self.epsilon = self._means[-1]
        self.buf.n_victims = 0
        engine_measure(self.buf)
        self._slots("B")[:] = 0.0
        self.buf.p, self.buf.q = 0.0, 1.0
        self.buf.clean_b = True

    def refresh(self):
        """Compute ||f||^2, <f, z> and the sizes of the terms from the rows in the buffer."""
        self.buf.n_victims = 0
        if self.buf.store.n == 0:
            return
        engine_measure(self.buf)
        if not self.buf.trace:
            return
        rows = self.support_vectors()
        source = RowSource.of(rows)
        alpha = self.alpha()
        self.buf.f.sq_norm = max(0.0, np.sum(alpha * (self.decision(source) - self.intercept)))
        self.buf.f.inner = np.sum(alpha * self.decision(source, True))

    # -------------------------------------------------------------- reading

    @property
    def n_support(self):
        return self.buf.store.n

    @property
    def n_outputs(self):
        return self.buf.f.n_out

    @property
    def n_features(self):
        return self.buf.store.d

    @property
    def budget(self):
        return self.buf.f.budget

    @property
    def eviction(self):
        return next(name for name, kind in EVICTIONS.items() if kind == self.buf.eviction)

    @property
    def trace(self):
        return bool(self.buf.trace)

    @property
    def float64(self):
        return bool(self.buf.store.f64)

    @property
    def sparse(self):
        return bool(self.buf.store.sparse)

    @property
    def sq_norm(self):
        """||f||^2, maintained (with the trace only)."""
        return self.buf.f.sq_norm

    @property
    def pi(self):
        """<f, z>, maintained (with the trace only)."""
        return self.buf.f.inner

    def _by_age(self):
        return np.argsort(self._slots("birth"), kind="stable")

    def alpha(self):
        """Coefficients of f, oldest row first: (n, K)."""
        return self.buf.f.scale * self._slots("A")[self._by_age()]

    def beta(self):
        """Coefficients of the trace z, or of the mean of f."""
        order = self._by_age()
        return self.buf.p * self._slots("A")[order] + self.buf.q * self._slots("B")[order]

    def ids(self):
        """Numbers of the rows in the training set or stream; -1 for merged ones."""
        return self._slots("ids")[self._by_age()]

    def support_vectors(self):
        """The rows, oldest first, dense or CSR as they are kept."""
        order = self._by_age()
        if not self.buf.store.sparse:
            return self._slots("X")[order]
        from scipy.sparse import csr_matrix
        values, columns = self._entries()
        length = self._slots("length")[order]
        indptr = np.concatenate([[0], np.cumsum(length)])
        first = indptr[:len(order)]
        where = np.repeat(self._slots("start")[order] - first, length) + np.arange(length.sum())
        return csr_matrix((values[where], columns[where], indptr),
                          shape=(len(order), self.buf.store.d))

    def support_vectors_dense(self):
        """The rows as a dense array."""
        rows = self.support_vectors()
        return rows.toarray() if self.buf.store.sparse else rows

    def decision(self, RowSource X, bint trace=False):
        """f(x) + b of each row, (n, K), of the means while averaging; z(x) with `trace`."""
        cdef Py_ssize_t n = X.n_rows
        cdef int status = STATUS_OK
        cdef bint beta = trace or self.buf.average
        out = np.zeros((n, self.buf.f.n_out))
        cdef double *f = <double *> <size_t> out.ctypes.data
        with nogil:
            if beta:
                status = expansion_trace_scores(&self.buf.f, &X.rows, 0, n, f)
            else:
                status = expansion_scores(&self.buf.f, &X.rows, 0, n, f)
        if status == STATUS_NO_MEMORY:
            raise MemoryError("not enough memory for a block of kernel values")
        if status != STATUS_OK:
            raise ValueError(f"rows of {X.n_features} features, expected {self.buf.store.d}")
        if not trace:
            out += self._means[:-1] if self.buf.average else self.intercept
        self.kernel.raise_error()
        return out

    # -------------------------------------------------------------- state

    def get_state(self):
        """Scalars that JSON can hold, and arrays, of everything."""
        cdef Py_ssize_t n = self.buf.store.n, m = self.buf.n_victims
        scalars = {name: float(getattr(self, name)) for name in _LEARNER}
        scalars.update(
            a=self.buf.f.scale, p=self.buf.p, q=self.buf.q, sq_f=self.buf.f.sq_norm,
            pi=self.buf.f.inner, n=n, head=self.buf.head, births=self.buf.f.births, n_victims=m,
            n_outputs=self.buf.f.n_out, float64=bool(self.buf.store.f64),
            sparse=bool(self.buf.store.sparse), trace=bool(self.buf.trace),
        )
        arrays = {name: self._slots(name).copy() for name in _PER_SLOT
                  if name != "X" or not self.buf.store.sparse}
        if self.buf.store.sparse:
            # the live entries, slot by slot: not what the arena has been through
            length = arrays["length"]
            first = np.cumsum(length) - length
            where = np.repeat(arrays["start"] - first, length) + np.arange(length.sum())
            arrays["start"] = first
            values, columns = self._entries()
            arrays["values"], arrays["columns"] = values[where], columns[where]
        for name in ("intercept", "eta_intercept", "z_intercept"):
            arrays[name] = getattr(self, name).copy()
        if self.buf.average:
            scalars["average_from"] = self.average_from
            scalars.update(since=self.drift.since, lag=self.drift.lag,
                           lag_squares=self.drift.squares,
                           mean_scores=bool(self.buf.mean_scores))
            arrays["means"] = self._means.copy()
        if self.running is not None:
            arrays["running"] = self.running.copy()
        if m:
            arrays |= {name: np.array(a, np.intp if name == "victim_slot" else np.float64)
                       for name, a in self._victims().items()}
        return scalars, arrays

    def _victims(self):
        """The sums known for the next evictions, as views."""
        cdef Py_ssize_t m = self.buf.n_victims, K = self.buf.f.n_out
        real = np.float64 if self.buf.store.f64 else np.float32
        return {"victim_slot": view(self.buf.victim_slot, m, np.intp),
                "victim_kv": view(self.buf.victims.kv, self.buf.store.n * m, real),
                "victim_fa": view(self.buf.victims.fa, K * m, np.float64),
                "victim_fb": view(self.buf.victims.fb, K * m, np.float64)}

    def schema(self, scalars, arrays):
        """What `set_state` takes, for a state with as many rows as this one says."""
        n, m = scalars.get("n"), scalars.get("n_victims")
        values = arrays.get("values")
        for name, size in (("n", n), ("n_victims", m)):
            if type(size) is not int or not 0 <= size < 2**48:
                raise ValueError(f"the saved {name} of the kernel machine is {size!r:.60}")
        return buffer_schema(
            self.buf.store.d, self.buf.f.n_out, float64=self.float64, sparse=self.sparse,
            budget=self.buf.f.budget, trace=self.trace, average="average_from" in scalars,
            running=len(arrays.get("running", ())),
            n=n, n_victims=m, most_victims=N_VICTIMS,
            n_entries=0 if values is None else len(values),
            precomputed=self.kernel.kind == KERNEL_PRECOMPUTED)

    def _check_norms(self, arrays):
        """Raise ValueError unless saved norms and k(x, x) are those of the rows."""
        if not self.kernel.uses_dots or len(arrays["sq"]) == 0:
            return
        with np.errstate(over="ignore"):
            if self.sparse:
                sq = row_squares(arrays["values"], arrays["columns"], arrays["start"],
                                 arrays["length"])
            else:
                sq = np.einsum("ij,ij->i", arrays["X"], arrays["X"], dtype=np.float64)
        # of the norm before, or after, it was rounded to the type of the rows
        own = [np.isclose([self.kernel.self_value(x) for x in squares.tolist()],
                          arrays["k_self"], 1e-3, 1e-30) for squares in (sq, arrays["sq"])]
        if not (np.allclose(sq, arrays["sq"], 1e-3, 1e-30) and (own[0] | own[1]).all()):
            raise ValueError("the saved kernel machine is inconsistent: norms are not the rows'")

    def set_state(self, scalars, arrays):
        """Restore what `get_state` gave; ValueError, and no change, when it does not fit."""
        self.schema(scalars, arrays).check(scalars, arrays)
        self._check_norms(arrays)
        self.roll_back(
            scalars, {name: np.array(array, order="C") for name, array in arrays.items()})

    def roll_back(self, scalars, fresh):
        """Take over what `get_state` of this state gave.

        Nothing is checked, and no memory is needed that the state had when it was taken.
        """
        cdef Py_ssize_t n = scalars["n"], m = scalars["n_victims"], k
        self.buf.store.n = self.buf.store.end = 0
        if engine_reserve(self.buf, n, len(fresh["values"]) if self.buf.store.sparse else 0
                          ) != STATUS_OK:
            raise MemoryError("no memory for a kernel machine")
        for name in _LEARNER:
            setattr(self, name, float(scalars[name]))
        self.buf.f.scale, self.buf.p, self.buf.q = scalars["a"], scalars["p"], scalars["q"]
        self.buf.f.sq_norm, self.buf.f.inner = scalars["sq_f"], scalars["pi"]
        self.buf.store.n, self.buf.head = n, scalars["head"]
        if m and engine_reserve_victims(self.buf) != STATUS_OK:
            raise MemoryError("no memory for a kernel machine")
        self.buf.f.births, self.buf.n_victims = scalars["births"], 0
        self.buf.clean_b = False
        self.buf.average = "average_from" in scalars
        if self.buf.average:
            self.average_from = scalars["average_from"]
            self.drift.since = scalars.get("since", 0.0)
            self.drift.lag = scalars.get("lag", 0.0)
            self.drift.squares = scalars.get("lag_squares", 0.0)
            self._set_means(fresh["means"])
        self._set_running(fresh.get("running"))
        self.buf.mean_scores = self.buf.average and scalars.get(
            "mean_scores", len(fresh.get("running", ())) in (SHARE_SIZE, CUT_SIZE))
        for name in ("intercept", "eta_intercept", "z_intercept"):
            setattr(self, name, fresh[name])
        for name in _PER_SLOT:
            if name in fresh:
                self._slots(name)[...] = fresh[name]
        if self.buf.store.sparse:
            self.buf.store.end = len(fresh["values"])
            values, columns = self._entries()
            values[:], columns[:] = fresh["values"], fresh["columns"]
        for k in range(n):
            self.buf.victim_of[k] = -1
        self._point()
        if m:
            self.buf.victims.n = self.buf.n_victims = m
            for name, array in self._victims().items():
                array[:] = fresh[name].ravel()
            for k in range(m):
                if self.buf.victim_slot[k] >= 0:
                    self.buf.victim_of[self.buf.victim_slot[k]] = <int> k


def merge_tables():
    """The tables of `osvm/_c/merging.pxd`: share, loss and angle over (m, k)."""
    return view(<void *> engine_merge_tables(), 3 * TABLE_M * TABLE_K, np.float64).reshape(
        3, TABLE_M, TABLE_K)


def merge_share(double m, double k):
    """Share of the row with coefficient m <= 1/2 in a merge with one of 1 - m."""
    return engine_merge_share(m, k)


cdef object view(void *memory, Py_ssize_t count, dtype):
    """An array over C's memory."""
    if count == 0:
        return np.empty(0, dtype)
    return np.frombuffer(
        PyMemoryView_FromMemory(<char *> memory, count * np.dtype(dtype).itemsize, PyBUF_WRITE),
        dtype)
