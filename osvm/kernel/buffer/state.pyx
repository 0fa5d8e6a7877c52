"""Owner of a kernel machine's memory: buffer, coefficients, offset, step sizes.

Everything that learning changes is here, in numpy arrays that the compiled loop reads
through pointers; memory grows between blocks only, with the GIL.

Invariants
- `get_state` gives everything: a machine made from it goes on bit for bit the same.  It
  includes the sums known for the next evictions, since a fresh computation of them would
  round differently.
- Slots are not in order of age; whatever leaves this object (support vectors, dual
  coefficients, saved rows) is, oldest first.
"""
import numpy as np

from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memset

from osvm._input.schema import buffer_schema, row_squares

from osvm.kernel.buffer.buffer cimport N_VICTIMS, Buffer, Sums, kappa_times
from osvm.kernel.buffer.eviction cimport (
    EVICT_CHANGE, EVICT_COEFFICIENT, EVICT_MERGE, EVICT_OLDEST, EVICT_PROJECT, EVICT_TERM,
    slot_size,
)
from osvm.kernel.buffer.expansion cimport fold_beta, sums_fill, sums_free, sums_reserve
from osvm.kernel.buffer.merging cimport TABLE_K, TABLE_M, look_up
from osvm._parts.kernel_blocks cimport tile_load_rows
from osvm._parts.kernel_store cimport Tile, tile_free, tile_release
from osvm._parts.compiled cimport KernelSpec
from osvm._input.rows cimport RowSource
from osvm.core.kernel cimport KERNEL_PRECOMPUTED

cdef enum:
    SCRATCH = 64        # outputs whose scores lie on the stack of one that reads

EVICTIONS = {
    "fifo": EVICT_OLDEST,
    "coefficient": EVICT_COEFFICIENT,
    "term": EVICT_TERM,
    "change": EVICT_CHANGE,
    "merge": EVICT_MERGE,
    "project": EVICT_PROJECT,
}

cdef enum:
    PREDICT_BLOCK = 128

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
        cdef double[:, :, ::1] tables
        memset(&self.buf, 0, sizeof(self.buf))
        self.kernel = kernel
        self.buf.store.kernel = &kernel.kernel
        self.buf.store.f64 = float64
        self.buf.store.sparse = sparse
        self.buf.store.d = n_features
        self.buf.K = n_outputs
        self.buf.budget = budget
        self.buf.eviction = EVICTIONS[eviction]
        self.buf.trace = trace
        if self.buf.eviction == EVICT_MERGE:
            tables = merge_tables()
            self.buf.tables = &tables[0, 0, 0]
        self.buf.a = self.buf.q = 1.0
        self.buf.clean_b = True
        self.intercept = np.zeros(n_outputs)
        self.eta_intercept = np.zeros(n_outputs)
        self.z_intercept = np.zeros(n_outputs)
        self.epsilon = 1.0
        real = np.float64 if float64 else np.float32
        d = 0 if sparse else n_features
        self._arrays = {
            "X": np.empty((0, d), real), "values": np.empty(0, real),
            "columns": np.empty(0, np.int32), "start": np.empty(0, np.intp),
            "length": np.empty(0, np.intp), "sq": np.empty(0, real), "k_self": np.empty(0),
            "ids": np.empty(0, np.intp), "A": np.empty((0, n_outputs)),
            "B": np.empty((0, n_outputs)), "birth": np.empty(0, np.intp), "size": np.empty(0),
            "row_sq": np.empty(0), "victim_of": np.empty(0, np.int32),
            "victim_slot": np.full(N_VICTIMS, -1, np.intp), "work": np.empty(16 * n_outputs),
        }
        self.set_label_kernel(label_kernel)
        self._point()

    def __dealloc__(self):
        tile_free(&self.buf.tile)
        tile_free(&self.buf.victim_tile)
        sums_free(&self.buf.block)
        sums_free(&self.buf.victims)
        free(self.buf.column)

    cdef void _point(self):
        """Give the struct the addresses of the arrays."""
        cdef dict a = self._arrays
        cdef Py_ssize_t address

        def where(name):
            return a[name].ctypes.data

        address = where("X")
        self.buf.store.X = <void *> address
        address = where("values")
        self.buf.store.values = <void *> address
        address = where("columns")
        self.buf.store.columns = <int32_t *> address
        address = where("start")
        self.buf.store.start = <Py_ssize_t *> address
        address = where("length")
        self.buf.store.length = <Py_ssize_t *> address
        address = where("sq")
        self.buf.store.sq = <void *> address
        address = where("k_self")
        self.buf.store.k_self = <double *> address
        address = where("ids")
        self.buf.store.ids = <Py_ssize_t *> address
        address = where("A")
        self.buf.A = <double *> address
        address = where("B")
        self.buf.B = <double *> address
        address = where("birth")
        self.buf.birth = <Py_ssize_t *> address
        address = where("size")
        self.buf.size = <double *> address
        address = where("row_sq")
        self.buf.row_sq = <double *> address
        address = where("victim_of")
        self.buf.victim_of = <int32_t *> address
        address = where("victim_slot")
        self.buf.victim_slot = <Py_ssize_t *> address
        address = where("work")
        self.buf.work = <double *> address
        self.buf.capacity = len(a["k_self"])
        address = self.intercept.ctypes.data
        self.b = <double *> address
        address = self.eta_intercept.ctypes.data
        self.eta_b = <double *> address
        address = self.z_intercept.ctypes.data
        self.z_b = <double *> address

    # -------------------------------------------------------------- memory

    cdef int reserve(self, Py_ssize_t slots, Py_ssize_t entries) except -1:
        """Room for `slots` slots in all (the budget at most) and `entries` more entries."""
        cdef dict a = self._arrays
        cdef Py_ssize_t n = self.buf.store.n
        cdef bint moved = False
        if self.buf.budget >= 0 and slots > self.buf.budget:
            slots = self.buf.budget
        if slots > self.buf.capacity:
            slots = max(slots, min(2 * self.buf.capacity,
                                   self.buf.budget if self.buf.budget >= 0 else 1 << 62))
            for name in (*_PER_SLOT, "victim_of"):
                old = a[name]
                new = np.zeros((slots, *old.shape[1:]), old.dtype)
                new[:n] = old[:n]
                a[name] = new
            moved = True
        if self.buf.store.sparse and self.buf.store.end + entries > len(a["values"]):
            self._pack(entries)
            moved = True
        if moved:
            self._point()
        return 0

    def _pack(self, entries):
        """Copy the live entries to the front of an arena with room for `entries` more."""
        cdef Py_ssize_t n = self.buf.store.n
        a = self._arrays
        start, length = a["start"][:n], a["length"][:n]
        live = int(length.sum())
        values = np.empty(live + max(live, entries), a["values"].dtype)
        columns = np.empty(len(values), np.int32)
        order = np.argsort(start, kind="stable")
        ends = np.cumsum(length[order])
        where = np.repeat(start[order] - (ends - length[order]), length[order]) + np.arange(live)
        values[:live] = a["values"][where]
        columns[:live] = a["columns"][where]
        start[order] = ends - length[order]
        a["values"], a["columns"] = values, columns
        self.buf.store.end = live

    def set_label_kernel(self, label_kernel):
        """Another label kernel; `refresh` must follow where there are rows already."""
        cdef double[:, ::1] kappa
        if label_kernel is None:
            self.label_kernel = None
            self.buf.kappa = NULL
            return
        self.label_kernel = np.array(label_kernel, dtype=np.float64, order="C")
        if self.label_kernel.shape != (self.buf.K, self.buf.K):
            raise ValueError(f"the label kernel must be {self.buf.K} x {self.buf.K}, got shape "
                             f"{self.label_kernel.shape}")
        kappa = self.label_kernel
        self.buf.kappa = &kappa[0, 0]

    def grow_outputs(self, transfer, label_kernel, double eta_intercept):
        """Go from K to K' outputs: coefficients times the K x K' matrix `transfer`.

        Without label kernels the columns must keep inner products (unit vectors, or the +-1
        of a binary machine that becomes one-vs-rest, where ||f||^2 and <f, z> double); with
        one, inner products are computed anew.
        """
        cdef Py_ssize_t K = transfer.shape[1]
        # labels in another order have the inner products they had
        plain = self.buf.K == K or (self.label_kernel is None and label_kernel is None)
        fresh = ~np.any(transfer != 0, axis=0)
        for name in ("A", "B"):
            self._arrays[name] = np.ascontiguousarray(self._arrays[name] @ transfer)
        for name in ("intercept", "z_intercept"):
            setattr_(self, name, getattr(self, name) @ transfer)
        if self.buf.average:
            self._set_means(np.append(self._means[:-1] @ transfer, self._means[-1]))
        steps = self.eta_intercept @ np.abs(transfer)
        steps[fresh] = eta_intercept
        self.eta_intercept = steps
        self._arrays["work"] = np.empty(16 * K)
        if self.buf.K == 1 and K > 1:  # f becomes (-f, f)
            self.buf.sq_f *= 2.0
            self.buf.pi *= 2.0
            if self.buf.eviction != EVICT_OLDEST:
                self._arrays["size"] *= 2.0
        self.buf.K = K
        self.buf.n_victims = 0
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

    def begin_average(self):
        """Average f, offset and margin over the steps from here on.  Without a trace only."""
        if self.buf.trace:
            raise ValueError("a machine with a trace cannot average")
        self._set_means(np.append(self.intercept, self.epsilon))
        self.average_from = self.t
        self._arrays["B"][:] = 0.0
        self.buf.p, self.buf.q, self.buf.average = self.buf.a, 1.0, True

    cdef int _set_means(self, object means) except -1:
        cdef double[::1] view = means
        self._means = means
        self.b_mean = &view[0]
        return 0

    def end_average(self):
        """f, offset and margin become their means."""
        self.buf.average = False
        n = self.buf.store.n
        fold_beta(&self.buf, False)
        self._arrays["A"][:n] = self._arrays["B"][:n]
        self.buf.a = 1.0
        self.intercept[:] = self._means[:-1]
        self.epsilon = self._means[-1]
        self.buf.n_victims = 0
        for s in range(n):
            self.buf.size[s] = slot_size(&self.buf, s)
        self._arrays["B"][:] = 0.0
        self.buf.p, self.buf.q = 0.0, 1.0
        self.buf.clean_b = True

    def refresh(self):
        """Compute ||f||^2, <f, z> and the sizes of the terms from the rows in the buffer."""
        cdef Py_ssize_t s, n = self.buf.store.n
        self.buf.n_victims = 0
        if n == 0:
            return
        for s in range(n):
            self.buf.size[s] = slot_size(&self.buf, s)
        if not self.buf.trace:
            return
        rows = self.support_vectors()
        source = (RowSource.csr(rows.data, rows.indices, rows.indptr, rows.shape[1])
                  if self.buf.store.sparse else RowSource.dense(rows))
        alpha = self.alpha()
        self.buf.sq_f = max(0.0, np.sum(alpha * (self.decision(source) - self.intercept)))
        self.buf.pi = np.sum(alpha * self.decision(source, True))

    # -------------------------------------------------------------- reading

    @property
    def n_support(self):
        return self.buf.store.n

    @property
    def n_outputs(self):
        return self.buf.K

    @property
    def n_features(self):
        return self.buf.store.d

    @property
    def budget(self):
        return self.buf.budget

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
        return self.buf.sq_f

    @property
    def pi(self):
        """<f, z>, maintained (with the trace only)."""
        return self.buf.pi

    def _by_age(self):
        return np.argsort(self._arrays["birth"][:self.buf.store.n], kind="stable")

    def alpha(self):
        """Coefficients of f, oldest row first: (n, K)."""
        return self.buf.a * self._arrays["A"][self._by_age()]

    def beta(self):
        """Coefficients of the trace z, or of the mean of f."""
        order = self._by_age()
        return self.buf.p * self._arrays["A"][order] + self.buf.q * self._arrays["B"][order]

    def ids(self):
        """Numbers of the rows in the training set or stream; -1 for merged ones."""
        return self._arrays["ids"][self._by_age()]

    def support_vectors(self):
        """The rows, oldest first, dense or CSR as they are kept."""
        order = self._by_age()
        a = self._arrays
        if not self.buf.store.sparse:
            return a["X"][order]
        from scipy.sparse import csr_matrix
        length = a["length"][order]
        indptr = np.concatenate([[0], np.cumsum(length)])
        first = indptr[:len(order)]
        where = np.repeat(a["start"][order] - first, length) + np.arange(length.sum())
        return csr_matrix((a["values"][where], a["columns"][where], indptr),
                          shape=(len(order), self.buf.store.d))

    def support_vectors_dense(self):
        """The rows as a dense array."""
        rows = self.support_vectors()
        return rows.toarray() if self.buf.store.sparse else rows

    def decision(self, RowSource X, bint trace=False):
        """f(x) + b of each row, (n, K), of the means while averaging; z(x) with `trace`."""
        cdef Py_ssize_t i = 0, b, k, m, n = X.n_rows, K = self.buf.K
        cdef Tile tile
        cdef Sums sums
        cdef int status = 0
        cdef bint beta = trace or self.buf.average
        cdef Buffer view = self.buf
        out = np.zeros((n, K))
        cdef double[:, ::1] f = out
        cdef const double[::1] offset = self._means if self.buf.average else self.intercept
        cdef double few[SCRATCH]
        cdef double[::1] many
        cdef double *raw = few
        if K > SCRATCH:
            many = np.empty(K)
            raw = &many[0]
        if n == 0:
            return out
        view.trace = beta
        memset(&tile, 0, sizeof(tile))
        memset(&sums, 0, sizeof(sums))
        try:
            with nogil:
                while i < n and status == 0:
                    m = n - i if n - i < PREDICT_BLOCK else PREDICT_BLOCK
                    status = tile_load_rows(&self.buf.store, &tile, &X.rows, NULL, i, m, 0)
                    if status == 0:
                        status = sums_fill(&view, &tile, &sums)
                    tile_release(&self.buf.store, &tile)
                    if status < 0:
                        break
                    for b in range(m):
                        for k in range(K):
                            if beta:
                                raw[k] = (self.buf.p * sums.fa[k * m + b]
                                          + self.buf.q * sums.fb[k * m + b])
                            else:
                                raw[k] = self.buf.a * sums.fa[k * m + b]
                        kappa_times(self.buf.kappa, K, raw, &f[i + b, 0])
                        if not trace:
                            for k in range(K):
                                f[i + b, k] += offset[k]
                    i += m
        finally:
            tile_free(&tile)
            sums_free(&sums)
        if status < 0:
            raise MemoryError("not enough memory for a block of kernel values")
        self.kernel.raise_error()
        return out

    # -------------------------------------------------------------- state

    def get_state(self):
        """Scalars that JSON can hold, and arrays, of everything."""
        cdef Py_ssize_t n = self.buf.store.n, m = self.buf.n_victims
        a = self._arrays
        scalars = {name: float(getattr(self, name)) for name in _LEARNER}
        scalars.update(
            a=self.buf.a, p=self.buf.p, q=self.buf.q, sq_f=self.buf.sq_f, pi=self.buf.pi,
            n=n, head=self.buf.head, births=self.buf.births, n_victims=m,
            n_outputs=self.buf.K, float64=bool(self.buf.store.f64),
            sparse=bool(self.buf.store.sparse), trace=bool(self.buf.trace),
        )
        arrays = {name: a[name][:n].copy() for name in _PER_SLOT
                  if name != "X" or not self.buf.store.sparse}
        if self.buf.store.sparse:
            # the live entries, slot by slot: not what the arena has been through
            length = arrays["length"]
            first = np.cumsum(length) - length
            where = np.repeat(arrays["start"] - first, length) + np.arange(length.sum())
            arrays["start"] = first
            arrays["values"], arrays["columns"] = a["values"][where], a["columns"][where]
        for name in ("intercept", "eta_intercept", "z_intercept"):
            arrays[name] = getattr(self, name).copy()
        if self.buf.average:
            scalars["average_from"] = self.average_from
            arrays["means"] = self._means.copy()
        if m:
            arrays["victim_slot"] = a["victim_slot"][:m].copy()
            arrays["victim_kv"] = self._copy_victims(0, n * m, None)
            arrays["victim_fa"] = self._copy_victims(1, self.buf.K * m, None)
            arrays["victim_fb"] = self._copy_victims(2, self.buf.K * m, None)
        return scalars, arrays

    def _copy_victims(self, int which, Py_ssize_t count, source):
        """Read (source None) or write one of the three arrays of the victims' sums."""
        cdef void *memory = (self.buf.victims.kv if which == 0 else
                             <void *> self.buf.victims.fa if which == 1 else
                             <void *> self.buf.victims.fb)
        cdef Py_ssize_t k
        cdef bint f64 = self.buf.store.f64 or which > 0
        cdef double[::1] out
        if source is None:
            result = np.empty(count)
            out = result
            for k in range(count):
                out[k] = (<double *> memory)[k] if f64 else (<float *> memory)[k]
            return result
        out = np.array(source, dtype=np.float64).reshape(-1)
        for k in range(count):
            if f64:
                (<double *> memory)[k] = out[k]
            else:
                (<float *> memory)[k] = <float> out[k]

    def schema(self, scalars, arrays):
        """What `set_state` takes, for a state with as many rows as this one says."""
        n, m = scalars.get("n"), scalars.get("n_victims")
        values = arrays.get("values")
        for name, size in (("n", n), ("n_victims", m)):
            if type(size) is not int or not 0 <= size < 2**48:
                raise ValueError(f"the saved {name} of the kernel machine is {size!r:.60}")
        return buffer_schema(
            self.buf.store.d, self.buf.K, float64=self.float64, sparse=self.sparse,
            budget=self.buf.budget, trace=self.trace, average="average_from" in scalars,
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
        """Take over what `get_state` of this state gave, arrays and all.

        Nothing is copied or checked, so that it works where memory has run out.
        """
        cdef Py_ssize_t n = scalars["n"], m = scalars["n_victims"], K = self.buf.K
        cdef Py_ssize_t k
        a = self._arrays
        if self.buf.store.sparse:
            fresh["X"] = np.empty((n, 0), a["X"].dtype)
        for name in _LEARNER:
            setattr_(self, name, float(scalars[name]))
        self.buf.a, self.buf.p, self.buf.q = scalars["a"], scalars["p"], scalars["q"]
        self.buf.sq_f, self.buf.pi = scalars["sq_f"], scalars["pi"]
        self.buf.store.n, self.buf.head = n, scalars["head"]
        self.buf.births, self.buf.n_victims = scalars["births"], 0
        self.buf.clean_b = False
        self.buf.average = "average_from" in scalars
        if self.buf.average:
            self.average_from = scalars["average_from"]
            self._set_means(fresh["means"])
        for name in ("intercept", "eta_intercept", "z_intercept"):
            setattr_(self, name, fresh[name])
        for name in _PER_SLOT:
            a[name] = fresh[name]
        a["victim_of"] = np.full(n, -1, np.int32)
        if self.buf.store.sparse:
            a["values"], a["columns"] = fresh["values"], fresh["columns"]
            self.buf.store.end = len(fresh["values"])
        self._point()
        if m:
            a["victim_slot"][:m] = fresh["victim_slot"]
            for k in range(m):
                if fresh["victim_slot"][k] >= 0:
                    a["victim_of"][fresh["victim_slot"][k]] = k
            if not sums_reserve(&self.buf, &self.buf.victims, N_VICTIMS):
                raise MemoryError
            self.buf.victims.n = self.buf.n_victims = m
            self._copy_victims(0, n * m, fresh["victim_kv"])
            self._copy_victims(1, K * m, fresh["victim_fa"])
            self._copy_victims(2, K * m, fresh["victim_fb"])


_tables = None


def merge_tables():
    """Tables over (m, k) of the best merge of a term a phi(x) with a larger b phi(x').

    With a = m, b = 1 - m, m <= 1/2: the share h of x that maximizes
    c = m k^((1 - h)^2) + (1 - m) k^(h^2); the loss m^2 + (1 - m)^2 + 2 m (1 - m) k - c^2 over
    m^2 (1 - k)^2; and k^((1 - h)^2 + h^2) - k over 1 - k.  See merging.pxd.
    """
    global _tables
    if _tables is not None:
        return _tables
    m = np.clip(np.linspace(0.0, 0.5, TABLE_M), 1e-3, None)[:, None]
    k = np.linspace(0.0, 1.0, TABLE_K)[None]
    # at m = 0 and k = 1 the quotients have limits
    log_k = np.log(np.clip(k, 1e-300, 1.0 - 1e-3))
    k = np.exp(log_k)

    def kept(h):
        return m * np.exp(log_k * (1.0 - h) ** 2) + (1.0 - m) * np.exp(log_k * h * h)

    grid = np.linspace(0.0, 0.5, 51)
    best = grid[np.argmax([kept(h) for h in grid], axis=0)]
    low, high = np.maximum(best - 0.01, 0.0), np.minimum(best + 0.01, 0.5)
    for _ in range(60):
        third = (high - low) / 3.0
        left = kept(low + third) > kept(high - third)
        high = np.where(left, high - third, high)
        low = np.where(left, low, low + third)
    h = 0.5 * (low + high)
    c_1, c_2 = np.expm1(log_k * (1.0 - h) ** 2), np.expm1(log_k * h * h)
    # with c = 1 + e: 1 - (1 + m e_1 + (1 - m) e_2)^2 - 2 m (1 - m) (1 - k)
    e = m * c_1 + (1.0 - m) * c_2
    gap = -np.expm1(log_k)
    loss = -e * (2.0 + e) - 2.0 * m * (1.0 - m) * gap
    angle = c_1 + c_2 + c_1 * c_2 + gap
    _tables = np.ascontiguousarray([h, np.maximum(loss, 0.0) / (m * gap) ** 2, angle / gap])
    return _tables


def merge_share(double m, double k):
    """Share of the row with coefficient m <= 1/2 in a merge with one of 1 - m."""
    cdef double[:, :, ::1] tables = merge_tables()
    return look_up(&tables[0, 0, 0], m, k)


def setattr_(KernelState state, name, value):
    """Set one of the read-only attributes."""
    if name == "intercept":
        state.intercept = value
    elif name == "eta_intercept":
        state.eta_intercept = value
    elif name == "z_intercept":
        state.z_intercept = value
    else:
        setattr(state, name, value)
